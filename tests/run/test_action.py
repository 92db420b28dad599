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
ON_DEMAND = PROJECT / "examples" / "ab-on-demand.yml"
GATES = [path for path in EXAMPLES if "fork" not in path.name and path != ON_DEMAND]
MEASURED_AS_PAIRS = [path for path in EXAMPLES if path.name.startswith(("ab", "matrix"))]
OURS = "ci-score/ci-score@"

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
each_gate = pytest.mark.parametrize("path", GATES, ids=lambda path: path.name)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def triggers(path: Path) -> Any:
    return read(path)[True]  # YAML 1.1 takes the key `on` for a truth value


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job.get("steps", ())


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


@pytest.mark.parametrize("row", OUTPUTS, ids=lambda row: row.name)
def test_page__has_every_output(row: Any) -> None:
    """An output's row tells the text of the code."""
    assert cells("Outputs", row.name) == [row.help]


@pytest.mark.parametrize("name", ["ab.yml", "ci-score-fork-comment.yml"])
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
    for used in re.findall(r"uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        ours = used.startswith(("./", "$/")) or (path in EXAMPLES and used.startswith(f"{OURS}v"))
        assert ours or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


def test_workflows__use_one_version_of_an_action() -> None:
    """An action is the same commit wherever it is used."""
    versions: dict[str, str] = {}
    for path in WORKFLOWS:
        for step in steps(path):
            name, _, version = step.get("uses", "").partition("@")
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
    gate = read(path)["jobs"]["gate"]
    assert gate["if"] == "always()"
    assert gate["needs"] == "measure"
    assert set(gate["permissions"]) == {"contents", "actions", "pull-requests"}
    (ours,) = [step for step in gate["steps"] if step["uses"].startswith(OURS)]
    assert ours["with"]["producer"] == "measure=${{ needs.measure.result }}"
    assert set(ours["with"]) <= {row.name for row in INPUTS.values()}


@each_gate
def test_example__leaves_its_record(path: Path) -> None:
    """Also of a failed run, and a pull request's apart from the branch's."""
    upload = read(path)["jobs"]["gate"]["steps"][-1]
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert upload["if"] == "always()"
    assert "refs/heads/main' && 'ci-score' || 'ci-score-pr'" in upload["with"]["name"]
    assert upload["with"]["path"] == "ci-score/"


@each_gate
def test_example__is_never_skipped_by_a_filter(path: Path) -> None:
    """A required check that a path filter skips stays pending, in a pull request and the queue."""
    assert set(triggers(path)) == {"push", "pull_request", "merge_group", "schedule"}
    assert "paths" not in path.read_text(encoding="utf-8").replace("`paths:`", "")


def test_example__on_demand_is_no_gate() -> None:
    """It runs by a label or by hand, and neither its record nor its comment is the gate's."""
    assert set(triggers(ON_DEMAND)) == {"pull_request", "workflow_dispatch"}
    assert triggers(ON_DEMAND)["pull_request"] == {"types": ["labeled"]}
    *_, ours, upload = read(ON_DEMAND)["jobs"]["gate"]["steps"]
    assert ours["with"]["title"]
    assert upload["with"]["name"] not in ("ci-score", "ci-score-pr")


@pytest.mark.parametrize("path", MEASURED_AS_PAIRS, ids=lambda path: path.name)
def test_example__measures_the_base_that_is_really_tested(path: Path) -> None:
    """The checkout has the commit that --base names, and attempts do not share a name."""
    checkout, *others, upload = read(path)["jobs"]["measure"]["steps"]
    assert checkout["with"]["fetch-depth"] in (0, 2)
    (timed,) = [step["run"] for step in others if '/ci-score" ab ' in step.get("run", "")]
    assert "HEAD^1" in timed
    assert " --head . " in timed
    assert " --setup " in timed
    assert re.search(r" -- python train\.py", timed)
    assert upload["with"]["name"].endswith("-${{ github.run_attempt }}")
    assert upload["with"]["name"].startswith("perf-")


@each_gate
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
