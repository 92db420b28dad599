"""What GitHub reads: action.yml, the Dockerfile, our workflows and the examples."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ci_score.cli import cli
from ci_score.run.inputs import INPUTS, OUTPUTS
from tests.builders import PROJECT

ACTION = PROJECT / "action.yml"
DOCKERFILE = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
PAGE = (PROJECT / "docs" / "action.md").read_text(encoding="utf-8")
FIXTURES = PROJECT / "tests" / "fixtures" / "action"
EXAMPLES = sorted((PROJECT / "examples").glob("*.yml"))
WORKFLOWS = [*EXAMPLES, *sorted((PROJECT / ".github" / "workflows").glob("*.yml"))]
LONG, SHORT, ON_DEMAND, SERVER = (
    PROJECT / "examples" / name
    for name in ("ab.yml", "performance.yml", "ab-on-demand.yml", "ghes.yml")
)
# They stand beside the workflow with the gate.
BESIDE = {"ci-score-fork-comment.yml", "branch-page.yml", "bisect.yml", ON_DEMAND.name}
GATES = [path for path in EXAMPLES if path.name not in BESIDE]
GITEA = PROJECT / "examples" / "gitea.yml"
IMAGE = "docker://ghcr.io/ci-score/ci-score:v0"
ROOT, MEASURE, GATE = (f"ci-score/ci-score{folder}@v0" for folder in ("", "/measure", "/gate"))

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
each_gate = pytest.mark.parametrize("path", GATES, ids=lambda path: path.name)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


MEASURES_WITH = read(PROJECT / "measure" / "action.yml")["inputs"]


def triggers(path: Path) -> Any:
    return read(path)[True]  # YAML 1.1 takes the key `on` for a truth value


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job.get("steps", ())


def check_of(path: Path) -> Any:
    """The job whose check is the required one."""
    (found,) = [
        job for key, job in read(path)["jobs"].items() if job.get("name", key) == "performance"
    ]
    return found


def used(steps: list[dict[str, Any]], action: str) -> list[dict[str, Any]]:
    return [step for step in steps if step.get("uses", "").startswith(action)]


def cells(section: str, name: str) -> list[str]:
    """The rest of the row of that name in the table of a section of docs/action.md."""
    found = re.search(rf"^#+ {section}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    row = found and re.search(rf"^\| `{name}` \|(.*)\|$", found[1], re.MULTILINE)
    assert row, f"docs/action.md has no row for {name} in {section}"
    return [cell.strip() for cell in row[1].split("|")]


def test_action__has_the_inputs_of_the_code() -> None:
    """Names, order, texts and defaults are those of the one definition."""
    written = [
        (name, row["description"], row["default"], row["required"])
        for name, row in read(ACTION)["inputs"].items()
    ]
    assert written == [(row.name, row.help, row.default, False) for row in INPUTS.values()]


def test_action__has_the_outputs_of_the_code() -> None:
    """Names, order and texts are those of the one definition."""
    written = [(name, row["description"]) for name, row in read(ACTION)["outputs"].items()]
    assert written == [(row.name, row.help) for row in OUTPUTS]


def test_action__describes_without_expressions() -> None:
    """The runner evaluates `${{ }}` in a description too, and then refuses the whole action."""
    rows = [*read(ACTION)["inputs"].values(), *read(ACTION)["outputs"].values()]
    assert not [row["description"] for row in rows if "${{" in row["description"]]


@pytest.mark.parametrize("row", INPUTS.values(), ids=lambda row: row.name)
def test_page__has_every_input(row: Any) -> None:
    """An input's row tells the default and the text of the code."""
    default, text = cells("Inputs", row.name)
    assert default.strip("`") == row.default
    assert text == row.help


@pytest.mark.parametrize("name", MEASURES_WITH)
def test_page__has_every_input_of_measure(name: str) -> None:
    """The defaults and texts of the Action beside the accelerator, which no option repeats."""
    row = MEASURES_WITH[name]
    assert cells("Inputs of measure", name) == [
        f"`{default}`" if (default := row.get("default")) else "",
        row["description"],
    ]


@pytest.mark.parametrize("row", OUTPUTS, ids=lambda row: row.name)
def test_page__has_every_output(row: Any) -> None:
    """An output's row tells the text of the code."""
    assert cells("Outputs", row.name) == [row.help]


@pytest.mark.parametrize("name", ["ci-score-fork-comment.yml"])
def test_page__shows_the_example_as_it_is(name: str) -> None:
    """What people paste from the page is what is audited, validated and run."""
    assert f"```yaml\n{(PROJECT / 'examples' / name).read_text(encoding='utf-8')}```" in PAGE


def test_dockerfile__runs_as_docker_actions_must() -> None:
    """Root in the runner's workspace, an entry that no shell and no workspace can change."""
    assert not re.search(r"^(USER|WORKDIR)\b", DOCKERFILE, re.MULTILINE)
    entries = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)
    assert [json.loads(entry) for entry in entries] == [["python3", "-I", "-m", "ci_score"]]
    assert re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE) == ['["run"]']


def test_dockerfile__installs_what_is_locked_on_the_base_it_is_given() -> None:
    """Every stage starts from BASE, and pip installs by hash, or the project without anything."""
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}
    installs = re.findall(r"pip \S+ \S+ install (.*)$", DOCKERFILE, re.MULTILINE)
    assert len(installs) == 2
    assert "--require-hashes --requirement /src/requirements.lock" in installs[0]
    assert "--no-build-isolation --no-deps" in installs[1]


@each_workflow
def test_workflow__pins_foreign_actions(path: Path) -> None:
    """By commit, with the release beside it; only the examples name ours by its tag."""
    for named in re.findall(r"uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        by_tag = path in EXAMPLES and named.split(" ")[0] in (ROOT, MEASURE, GATE, IMAGE)
        by_tag |= path == GITEA and named.startswith("gitea/")  # a copy of one's own
        ours = named.startswith(("./", "$/")) or by_tag
        assert ours or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", named), named


def test_workflows__use_one_version_of_an_action() -> None:
    """An action is the same commit wherever it is used, but on a server that refuses it."""
    versions: dict[str, str] = {}
    for path in WORKFLOWS:
        for step in steps(path):
            name, _, version = step.get("uses", "").partition("@")
            if path != SERVER or "artifact" not in name:
                assert versions.setdefault(name, version) == version, name


@each_workflow
def test_workflow__gives_each_job_only_what_it_needs(path: Path) -> None:
    """Nothing by default, a block of its own for each job, a bound on its time."""
    assert read(path)["permissions"] == {}
    for name, job in read(path)["jobs"].items():
        assert "permissions" in job, name
        assert "uses" in job or "timeout-minutes" in job, name


@each_workflow
def test_workflow__gives_no_stranger_our_token(path: Path) -> None:
    """pull_request_target would run with it, and a kept credential would be found."""
    assert "pull_request_target" not in triggers(path)
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@each_gate
def test_example__gate_runs_whatever_the_measurement_did(path: Path) -> None:
    """A skipped check counts as passed: the gate runs always, and knows how its producer ended."""
    gate = check_of(path)
    assert gate["if"] == "always()"
    assert "measure" in gate["needs"]
    assert set(gate["permissions"]) == {"contents", "actions", "pull-requests"}
    (ours,) = used(gate["steps"], "ci-score/")
    assert ours["with"]["producer"] == "measure=${{ needs.measure.result }}"
    assert set(ours["with"]) <= {row.name for row in INPUTS.values()}


def test_example__only_a_gate_is_called_like_the_required_check() -> None:
    """A second check of that name could stand in for it."""
    for path in set(EXAMPLES) - set(GATES):
        names = [job.get("name", key) for key, job in read(path)["jobs"].items()]
        assert "performance" not in names, path


def test_example__a_search_begins_with_a_run_of_the_branch_or_not_at_all() -> None:
    """Without a number gh downloads an artifact of that name from any run, a fork's among them."""
    (script,) = [
        step["run"]
        for step in steps(PROJECT / "examples" / "bisect.yml")
        if "gh run download" in step.get("run", "")
    ]
    assert re.search(r"\.id\]\[0\] // error\(", script)


@pytest.mark.parametrize("path", [LONG, SERVER, GITEA], ids=lambda path: path.name)
def test_example__leaves_its_record_and_then_decides(path: Path) -> None:
    """The record is kept whatever happened, and a container's lost exit code is no pass."""
    steps = check_of(path)["steps"]
    (judge,) = [step for step in steps if step.get("uses") == ROOT]
    upload, decide = steps[-2:]
    assert judge["continue-on-error"] is True
    assert "/upload-artifact@" in upload["uses"]
    assert decide["if"] == "always()"
    assert upload["if"] == f"always() && steps.{judge['id']}.outputs.record"
    assert upload["with"]["name"] == f"${{{{ steps.{judge['id']}.outputs.record-artifact }}}}"
    assert upload["with"]["path"] == "ci-score/"
    assert decide["run"] == 'exit "${CODE:-3}"'
    assert decide["env"] == {"CODE": f"${{{{ steps.{judge['id']}.outputs.exit-code }}}}"}


def test_example__for_a_server_has_other_artifact_actions_and_another_runner() -> None:
    """What is said and tested of the one long form holds for the other; a server has no runners."""
    assert "self-hosted" in check_of(SERVER)["runs-on"]

    def without_artifacts(path: Path) -> Any:
        rest = read(path)
        del rest["jobs"]["gate"]["runs-on"]
        for job in rest["jobs"].values():
            job["steps"] = [
                step["with"].get("name") if "artifact@" in step.get("uses", "") else step
                for step in job["steps"]
            ]
        return rest

    assert without_artifacts(SERVER) == without_artifacts(LONG)


@each_gate
def test_example__is_never_skipped_by_a_filter(path: Path) -> None:
    """A required check that a path filter skips stays pending, in a pull request and the queue."""
    queue = set() if path == GITEA else {"merge_group"}  # a Gitea has none
    assert set(triggers(path)) == {"push", "pull_request", "schedule"} | queue
    assert triggers(path)["push"] == {"branches": ["main", "master"]}
    assert "paths" not in path.read_text(encoding="utf-8").replace("`paths:`", "")


@pytest.mark.parametrize("path", [*GATES, ON_DEMAND], ids=lambda path: path.name)
def test_example__only_a_newer_push_to_a_pull_request_cancels(path: Path) -> None:
    """Not another workflow of the repository, and no run of the branch: it leaves a record."""
    concurrency = read(path)["concurrency"]
    run = "${{ github.workflow }}-${{ github.event.number || github.run_id }}"
    assert concurrency["group"].startswith(run)
    assert concurrency["cancel-in-progress"] is True


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example__promises_no_guard_that_a_fork_can_remove(path: Path) -> None:
    """A fork's pull request brings its own copy of the workflow, perhaps without `environment:`."""
    guarded = [name for name, job in read(path)["jobs"].items() if "environment" in job]
    assert not guarded or "pull_request" not in triggers(path)


def test_example__on_demand_is_no_gate() -> None:
    """It runs by a label or by hand, and its comment is not the gate's."""
    assert set(triggers(ON_DEMAND)) == {"pull_request", "workflow_dispatch"}
    assert triggers(ON_DEMAND)["pull_request"] == {"types": ["labeled"]}
    (ours,) = read(ON_DEMAND)["jobs"]["gate"]["steps"]
    assert ours["with"]["title"]


def test_example__on_demand_finds_the_records_of_the_gate() -> None:
    """Its title is no part of their name, and it measures the cases that they have."""
    given = read(ON_DEMAND)["jobs"]["gate"]["steps"][0]["with"]
    assert given["baseline-workflow"] == SHORT.name
    assert given["baseline-artifact"] == "ci-score"
    measured = [read(path)["jobs"]["measure"]["steps"][-1]["with"] for path in (ON_DEMAND, SHORT)]
    assert [each.get("case") for each in measured] == [None, None]


def test_example__documentation_is_said_by_a_job_that_succeeded() -> None:
    """Only the output of the job before the measurement excuses a measurement that was skipped."""
    jobs = read(PROJECT / "examples" / "docs-only.yml")["jobs"]
    said = "needs.changes.outputs.not-needed"
    assert jobs["measure"]["if"] == f"{said} == ''"
    (ours,) = jobs["gate"]["steps"]
    assert ours["with"]["not-needed"] == f"${{{{ {said} }}}}"


ONLY_DOCS = "not-needed=only documentation changed\n"
HIDDEN = '[submodule "kernels"]\npath = kernels\nurl = ./kernels\nignore = all\n'
SETTINGS = {
    "diff.ignoreSubmodules": "all",
    "core.quotePath": "false",
    "core.fileMode": "false",
    "diff.external": "true",
    "diff.relative": "true",
    "diff.renames": "copies",
}
# A text is a file, None is none, a path is a link's and a number a submodule's commit.
Tree = dict[str, str | Path | int | None]
CHANGED: dict[str, tuple[Tree, str]] = {
    "documentation": ({"docs/a.txt": "b", "README.md": "b"}, ONLY_DOCS),
    "a link in it": ({"docs/a.txt": Path("b.txt")}, ONLY_DOCS),
    "code": ({"docs/a.txt": "b", "train.py": "b"}, ""),
    "moved": ({"train.py": None, "docs/train.md": "a"}, ""),
    "odd name": ({"docs\n/x.md\nd": "b"}, ""),
    "the end of an odd name": ({"docs/a.txt": "b", "train.py\n.md\n": "b"}, ""),
    "a submodule that says to ignore it": ({"docs/a.txt": "b", "kernels": 2}, ""),
    "and alone": ({"kernels": 2}, ""),
    "a submodule that is a folder now": (
        {"docs/a.txt": "b", "kernels": None, "kernels/a": "b"},
        "",
    ),
    "a file that is a link now": ({"docs/a.txt": "b", "train.py": Path("docs/a.txt")}, ""),
    "attributes": ({"docs/a.txt": "b", ".gitattributes": "* -diff binary", "train.py": "b"}, ""),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["git", "git with settings"])
@pytest.mark.parametrize(("changed", "said"), CHANGED.values(), ids=CHANGED)
def test_example__documentation_is_told_from_code(
    changed: Tree, said: str, settings: dict[str, str], tmp_path: Path
) -> None:
    """The step of the example, in a repository whose last commit changed these files."""
    keys = {f"GIT_CONFIG_KEY_{place}": key for place, key in enumerate(settings)}
    values = {f"GIT_CONFIG_VALUE_{place}": key for place, key in enumerate(settings.values())}
    given = {"GIT_CONFIG_COUNT": str(len(settings)), **keys, **values}
    assert looked_at(changed, tmp_path, **given) == (0, said)


def test_example__a_wrong_pattern_excuses_nothing(tmp_path: Path) -> None:
    """The step fails, and so the check does: a pattern with a mistake must not find everything."""
    code, said = looked_at({"train.py": "b"}, tmp_path, DOCUMENTATION="^(docs/")
    assert code != 0
    assert said == ""


def looked_at(changed: Tree, tmp_path: Path, **variables: str) -> tuple[int, str]:
    """How the step ends that looks for documentation, and what it leaves as output."""
    (step,) = [
        step
        for step in read(PROJECT / "examples" / "docs-only.yml")["jobs"]["changes"]["steps"]
        if "run" in step
    ]
    repository, output = tmp_path / "repository", tmp_path / "output"
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    before: Tree = {"train.py": "a", "docs/a.txt": "a", ".gitmodules": HIDDEN, "kernels": 1}
    for files in (before, changed):
        for name, what in files.items():
            place = repository / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if what is None:  # git would keep a submodule that is to be ignored
                subprocess.run([*git, "rm", "--quiet", "--cached", name], check=True)
            if place.is_dir() and not isinstance(what, int):
                place.rmdir()
            elif not isinstance(what, int):
                place.unlink(missing_ok=True)
            if isinstance(what, str):
                place.write_text(what, encoding="utf-8")
            elif isinstance(what, Path):
                place.symlink_to(what)
        subprocess.run([*git, "add", "--all"], check=True)
        for name, what in files.items():
            if isinstance(what, int):  # as in a clone whose submodules are not checked out
                (repository / name).mkdir(exist_ok=True)
                link = f"160000,{what:040x},{name}"
                subprocess.run([*git, "update-index", "--add", "--cacheinfo", link], check=True)
        words = ["commit", "--quiet", "--allow-empty", "--message", "x"]
        subprocess.run([*git, *words], check=True)
    output.touch()
    ours = {"PATH": "/usr/bin:/bin", "GITHUB_OUTPUT": str(output), **step["env"], **variables}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=repository, env=ours, check=False)
    return done.returncode, output.read_text(encoding="utf-8")


BY_HAND = [path for path in EXAMPLES if not used(list(steps(path)), MEASURE) and path in GATES]


@pytest.mark.parametrize("path", BY_HAND, ids=lambda path: path.name)
def test_example__carries_the_attempt_in_names(path: Path) -> None:
    """Folder and artifact end in ~ATTEMPT, so that attempts of a run are one case."""
    *others, upload = read(path)["jobs"]["measure"]["steps"]
    measured = [step["run"] for step in others if "--setup" in step.get("run", "")]
    assert measured
    for script in measured:
        assert '--out "perf/training~$GITHUB_RUN_ATTEMPT"' in script
        assert re.search(r" -- python train\.py", script)
    assert upload["with"]["name"] == "perf-training~${{ github.run_attempt }}"
    assert upload["with"]["path"] == "perf/"
    assert upload["with"]["retention-days"] == 30


@pytest.mark.parametrize("path", [LONG, SERVER], ids=lambda path: path.name)
def test_example__measures_the_base_that_ci_score_names(path: Path) -> None:
    """The base is the commit of `ci-score base`, and where there is none, head is no base."""
    job = read(path)["jobs"]["measure"]
    _head, base = used(job["steps"], "actions/checkout@")
    assert base["with"]["ref"] == "${{ steps.base.outputs.base }}"
    assert base["if"] == "steps.base.outputs.base != ''"
    (timed,) = [step["run"] for step in job["steps"] if " ab " in step.get("run", "")]
    assert ' ab --base "${BASE:+base}" --head head --or-alone ' in timed


@pytest.mark.parametrize("path", BY_HAND, ids=lambda path: path.name)
def test_example__calls_commands_as_they_are(path: Path) -> None:
    """Every option of ours that a script names exists."""
    context = click.Context(cli)
    called = 0
    for step in read(path)["jobs"]["measure"]["steps"]:
        script = step.get("run", "").replace("\\\n", " ")
        for name, words in re.findall(r"bin/ci-score\" (\w+)([^\n|]*)", script):
            command = cli.get_command(context, name)
            assert command is not None, name
            known = {option for parameter in command.params for option in parameter.opts}
            plain = re.sub(r'"[^"]*"', "TEXT", words).partition(" -- ")[0]
            assert set(re.findall(r"--[\w-]+", plain)) <= known
            called += 1
    assert called


def test_example__fork_comment_follows_the_gate_by_its_name() -> None:
    """The workflow that posts listens to the one that measures."""
    listened = triggers(PROJECT / "examples" / "ci-score-fork-comment.yml")["workflow_run"]
    assert {read(path)["name"] for path in GATES} == set(listened["workflows"])


@pytest.mark.parametrize(("fixture", "code"), [("passes", 0), ("fails", 1)])
def test_fixtures__are_judged_as_ci_expects(fixture: str, code: int, tmp_path: Path) -> None:
    """The action on itself passes the one and fails the other."""
    shutil.copytree(FIXTURES, tmp_path / "fixtures")
    command = [sys.executable, "-m", "ci_score", "run", "--profiles", f"fixtures/{fixture}"]
    command += ["--baseline", "fixtures/baseline.json"]
    ours = {"GITHUB_WORKSPACE": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, cwd=tmp_path, env=ours, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
