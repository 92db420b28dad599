"""The documents agree with the code: commands, formats, dependencies, words of a report."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from ci_score.cli import COMMANDS, cli, execute
from ci_score.model.metrics import METRICS
from ci_score.report.words import FOOTNOTES
from ci_score.traces.formats import FORMATS, Format
from tests.builders import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
FORMAT_PAGE = (PROJECT / "docs" / "formats.md").read_text(encoding="utf-8")
CONTRIBUTING = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WORKFLOW = (PROJECT / "examples" / "performance.yml").read_text(encoding="utf-8")
LOCKS = sorted(PROJECT.glob("requirements*.lock"))


def test_readme__is_short_and_begins_with_what_to_type() -> None:
    """Before its first heading are the picture, a command on the user's own script, a workflow."""
    assert len(README.splitlines()) <= 220
    first = README.split("\n## ")[0]
    assert first.count("<picture>") == 1
    assert "ci-score ab --base origin/main --head . -- python train.py" in first
    assert f"```yaml\n{WORKFLOW}```\n" in first


def test_readme__its_workflow_has_less_than_25_lines() -> None:
    """One file of that size is all that a team on github.com has to copy."""
    assert len(WORKFLOW.splitlines()) < 25


def test_readme__leads_to_every_page() -> None:
    """Each page in docs is linked from the README."""
    for page in (PROJECT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in README, page.name


def test_readme__keeps_its_two_commands() -> None:
    """Whoever clones the project types `make demo` and `make test`."""
    assert "\nmake demo    # " in README
    assert "\nmake test    # " in README


@pytest.mark.parametrize("name", COMMANDS)
def test_commands__has_every_command(name: str) -> None:
    """The page of commands has every command."""
    page = (PROJECT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert f"| `ci-score {name}" in page


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: row.name)
def test_formats__has_every_format(row: Format) -> None:
    """The page of formats has each format, in the words of the table of readers."""
    assert f"| `{row.name}` | {row.description} | {row.tested_on} |" in FORMAT_PAGE


def test_readme__shows_what_the_demo_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output in the README is what the demo prints today."""
    assert execute(["demo", "--output-dir", str(tmp_path / "demo")]) == 0
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert capsys.readouterr().out.startswith(shown[1])


def test_formats__its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python example runs with the example profile."""
    monkeypatch.chdir(tmp_path)
    profile = re.search(r"```json\n(.*?)```", FORMAT_PAGE, re.DOTALL)
    code = re.search(r"```python\n(.*?)```", FORMAT_PAGE, re.DOTALL)
    assert profile is not None
    assert code is not None
    (tmp_path / "profile.json").write_text(profile[1], encoding="utf-8")
    exec(code[1], {})  # noqa: S102 - it is ours


def test_contributing__every_dependency_earns_its_place() -> None:
    """CONTRIBUTING has a line for each package that has to be installed."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"].values()
    wanted = [*project["project"]["dependencies"], *(name for group in groups for name in group)]
    table = CONTRIBUTING.split("## Dependencies")[1].lower()
    for requirement in wanted:
        name = re.split(r"[<>=~!\[ ]", requirement)[0].replace("_", "-").lower()
        assert re.search(rf"\b{name}\b", table), name


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_locks__are_hashed_and_name_no_index(lock: Path) -> None:
    """Every package is pinned by its hash, and the lock names no package index."""
    text = lock.read_text(encoding="utf-8")
    pins = re.findall(r"^[a-z0-9][^=\n]*==", text, re.MULTILINE)
    blocks = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(pins) == len(blocks)
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"https?:|index-url|find-links|/(?:root|home|tmp)/", text)


def test_locks__agree_on_every_version() -> None:
    """All locks pin the same version of a package."""
    versions: dict[str, str] = {}
    for lock in LOCKS:
        for name, version in re.findall(r"^(\S+)==(\S+)", lock.read_text("utf-8"), re.MULTILINE):
            assert versions.setdefault(name, version) == version, name


def test_tree__names_no_machine() -> None:
    """No tracked file has a path of a machine or a package index in it."""
    if not (PROJECT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of tracked files")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    traces = re.compile(r"(?<![a-z])/(?:root|work)/|pypi\.org|pythonhosted|registry\.npmjs")
    for name in filter(None, listed.split("\0")):
        if name != "tests/house/test_docs.py" and (PROJECT / name).is_file():
            text = (PROJECT / name).read_text(encoding="utf-8", errors="replace")
            assert not traces.search(text), name


PAGES = sorted([PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *PROJECT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages__their_links_lead_somewhere(page: Path) -> None:
    """A link to another file of the project leads to an existing file."""
    for link in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def calls(page: Path) -> list[list[str]]:
    """The words of each call of ours that a page shows in a block of commands, up to `--`."""
    blocks = re.findall(r"```(?:sh|yaml)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = []
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        typed = re.sub(r"(?:^|\s)#.*", "", line)
        if called := re.search(r"(?:^|[\s/])ci-score\"? ([a-z]+(?: .*)?)$", typed):
            words = re.sub(r'"[^"]*"', "TEXT", called[1].partition(" -- ")[0])
            found.append(words.split())
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages__their_calls_parse(page: Path) -> None:
    """A command that a page shows exists, and so does each of its options."""
    context = click.Context(cli)
    for name, *words in calls(page):
        command = cli.get_command(context, name)
        assert command is not None, name
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages__their_python_is_python(page: Path) -> None:
    """Each block of Python can be compiled."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        compile(block, page.name, "exec")


RUNNERS = (PROJECT / "docs" / "runners.md").read_text(encoding="utf-8")
JOBS = re.findall(r"```yaml\n(.*?)```", RUNNERS, re.DOTALL)


@pytest.mark.parametrize("block", JOBS)
def test_runners__its_jobs_fit_into_the_workflow(block: str) -> None:
    """Each block is whole jobs, with actions and inputs that exist."""
    jobs = yaml.safe_load(block)
    for job in jobs.values():
        assert {"runs-on", "timeout-minutes", "permissions", "steps"} <= set(job)
        for step in job["steps"]:
            if "uses" not in step:
                continue
            folder = step["uses"].removeprefix("ci-score/ci-score").removesuffix("@v0").strip("/")
            action = yaml.safe_load((PROJECT / folder / "action.yml").read_text(encoding="utf-8"))
            assert set(step.get("with", {})) <= set(action["inputs"])


def test_runners__every_kind_of_the_table_has_its_section() -> None:
    """The first table leads to a section for each kind of runner."""
    anchors = re.findall(r"^\| \[[^\]]+\]\(#([\w-]+)\) \|", RUNNERS, re.MULTILINE)
    titles = re.findall(r"^## (.*)$", RUNNERS, re.MULTILINE)
    made = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    assert anchors == made


def test_runners__its_copies_of_actions_reach_the_server(tmp_path: Path) -> None:
    """The commands for a Gitea, with folders as both servers: branch and tag have the change."""
    (script,) = re.findall(r"```sh\n(.*?)```", RUNNERS, re.DOTALL)
    theirs, ours, here = (tmp_path / name for name in ("theirs", "ours", "here"))
    here.mkdir()
    (tmp_path / "gitconfig").write_text(
        "[user]\n\tname = x\n\temail = x\n"
        f'[url "file://{theirs}/"]\n\tinsteadOf = https://github.com/actions/\n'
        f'[url "file://{ours}/"]\n\tinsteadOf = https://gitea.example.org/gitea/\n'
    )
    variables = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        # The folder can lie in this repository, which no command may find.
        "GIT_CEILING_DIRECTORIES": str(tmp_path),
    }

    def git(folder: Path, *words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        return subprocess.run(
            command, env=variables, capture_output=True, text=True, check=True
        ).stdout

    for name, tag in (("upload-artifact", "v7"), ("download-artifact", "v8")):
        place = theirs / name
        (place / "dist").mkdir(parents=True)
        git(place, "init", "--quiet")
        for text in ("before", "function isGhes() {\n}"):
            (place / "dist" / "index.js").write_text(text)
            git(place, "add", ".")
            git(place, "commit", "--quiet", "--message", text)
        git(place, "tag", tag)
        git(tmp_path, "init", "--quiet", "--bare", str(ours / name))
    subprocess.run(["bash", "-c", script], cwd=here, env=variables, check=True, capture_output=True)
    for name, tag in (("upload-artifact", "v7"), ("download-artifact", "v8")):
        for reference in ("main", tag):
            text = git(ours / name, "show", f"{reference}:dist/index.js")
            assert text == "function isGhes() { return false;\n}"


GLOSSARY = (PROJECT / "docs" / "glossary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("word", [*(row.label for row in METRICS), *FOOTNOTES])
def test_glossary__has_every_word_of_a_table(word: str) -> None:
    """The glossary explains every metric and footnote of a report."""
    assert re.search(
        rf"^\| \*\*{re.escape(word)}\*\* \| \S", GLOSSARY, re.MULTILINE | re.IGNORECASE
    )


@pytest.mark.parametrize(
    "word",
    ["case", "launch", "pair", "record", "baseline", "noise", "proven", "not proven",
     "not clear", "void", "one run", "not judged", "attempt", "composite"],
)  # fmt: skip
def test_glossary__has_every_word_of_a_verdict(word: str) -> None:
    """The glossary explains the words of a verdict, such as proven and not clear."""
    assert re.search(
        rf"^\| \*\*[^*|]*{word}[^*|]*\*\* \| \S", GLOSSARY, re.MULTILINE | re.IGNORECASE
    )
