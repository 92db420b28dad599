"""The gate as a composite, with Docker and without, and what both promise."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ci_score.cli import cli
from ci_score.run.inputs import INPUTS, OUTPUTS
from tests.builders import PROJECT

IMAGE = "docker://ghcr.io/ci-score/ci-score:v0"
# The composite downloads, and has a folder of its own: it says itself what these are.
FIXED = {
    "profiles": ".ci-score-gate/profiles",
    "measurements": (
        "${{ (inputs.measurements || !inputs.profiles) && '.ci-score-gate/perf' || '' }}"
    ),
    "profile-artifact": "",
    "output-dir": ".ci-score-gate/ci-score",
    "comment": "never",  # `post` writes it, when the page has an address
    "producer": "${{ inputs.producer || '=' }}",
}
NOT_OFFERED = {"profile-artifact", "output-dir"}
OTHER_WORDS = {"profiles", "measurements"}

Step = dict[str, Any]


def read(name: str) -> Any:
    return yaml.safe_load((PROJECT / name / "action.yml").read_text(encoding="utf-8"))


GATE, LINUX = read("gate"), read("linux")
each_composite = pytest.mark.parametrize("action", [GATE, LINUX], ids=["gate", "linux"])


def step_called(action: Any, name: str) -> Step:
    (found,) = [step for step in action["runs"]["steps"] if step.get("id") == name]
    return dict(found)


def in_container(step: Step) -> Step:
    """What a step with our Python would be as one in a container."""
    command = re.fullmatch(r'exec "\$PYTHON" -I -m ci_score (\w+)', step.get("run", ""))
    if command is None:
        return step
    variables = dict(step["env"])
    assert variables.pop("PYTHON") == "${{ steps.install.outputs.python }}"
    names = {name.replace("-", "_").upper(): name for name in (*INPUTS, "page")}
    given = {names[key.removeprefix("INPUT_")]: text for key, text in variables.items()}
    same = {key: value for key, value in step.items() if key not in ("run", "env", "shell")}
    return {**same, "uses": IMAGE, "with": {"args": command[1], **given}}


@each_composite
def test_composite__has_the_inputs_of_the_code(action: Any) -> None:
    """Each input but those for files and folders, in the same words and with the same default."""
    offered = {name: row for name, row in INPUTS.items() if name not in NOT_OFFERED}
    assert action["inputs"].keys() == offered.keys()
    for name, row in offered.items():
        written = action["inputs"][name]
        assert written["required"] is False
        if name not in OTHER_WORDS:
            assert (written["description"], written["default"]) == (row.help, row.default)


@each_composite
def test_composite__has_the_outputs_of_the_code(action: Any) -> None:
    """Each output, from the step that knows it, and the address of the page."""
    written = {name: (row["description"], row["value"]) for name, row in action["outputs"].items()}
    assert written.pop("page-url")[1] == "${{ steps.page.outputs.artifact-url }}"
    steps = {row.name: "post" if row.name == "comment-url" else "judge" for row in OUTPUTS}
    assert written == {
        row.name: (row.help, f"${{{{ steps.{steps[row.name]}.outputs.{row.name} }}}}")
        for row in OUTPUTS
    }


def test_gate__passes_every_input_on() -> None:
    """Act and Gitea hand a composite's inputs down, so that one not passed would leak through."""
    given = dict(step_called(GATE, "judge")["with"])
    assert given.pop("args") == "run"
    assert given == {name: FIXED.get(name, f"${{{{ inputs.{name} }}}}") for name in INPUTS}


def test_gate__comments_by_the_options_of_post() -> None:
    """The step that comments gives each option of `ci-score post` that is for a comment."""
    given = dict(step_called(GATE, "post")["with"])
    command = cli.get_command(click.Context(cli), "post")
    assert command is not None
    options = {parameter.opts[0].removeprefix("--") for parameter in command.params}
    assert given.pop("args") == "post"
    assert given.keys() == options - {"answer"}
    assert given["output-dir"] == FIXED["output-dir"]
    assert given["page"] == "${{ steps.page.outputs.artifact-url }}"


def test_linux__is_the_gate_without_containers() -> None:
    """The steps, inputs and outputs are the same, but for the installation."""
    steps = [step for step in LINUX["runs"]["steps"] if step.get("id") != "install"]
    assert [in_container(step) for step in steps] == GATE["runs"]["steps"]
    assert (LINUX["inputs"], LINUX["outputs"]) == (GATE["inputs"], GATE["outputs"])


@each_composite
def test_composite__ends_as_judged_whatever_happened(action: Any) -> None:
    """Two steps run always, the record's upload and the last; none before them may end the job."""
    room, *others, record, last = action["runs"]["steps"]
    assert record["if"].startswith("${{ always() &&")
    assert last["if"] == "always()"
    assert "if" not in room
    for step in others:
        assert step["continue-on-error"] is True, step["name"]
        assert "always()" not in step.get("if", "")


@pytest.mark.parametrize(
    ("code", "ends"), [("0", 0), ("1", 1), ("2", 2), ("3", 3), ("", 3), ("no number", 2)]
)
def test_composite__last_step_exits_with_the_decision(code: str, ends: int, tmp_path: Path) -> None:
    """Without a decision it exits with 3, so that nothing is green by accident."""
    script = GATE["runs"]["steps"][-1]["run"]
    done = subprocess.run(
        ["sh", "-ec", script],
        env={"PATH": os.environ["PATH"], "CODE": code},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == ends


@each_composite
def test_composite__empties_its_folder(action: Any, tmp_path: Path) -> None:
    """What an earlier run has left there is gone, also where it is a link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / ".ci-score-gate").symlink_to("elsewhere")
    for _ in range(2):
        subprocess.run(["sh", "-ec", action["runs"]["steps"][0]["run"]], cwd=tmp_path, check=True)
        assert list((tmp_path / ".ci-score-gate").iterdir()) == []
        (tmp_path / ".ci-score-gate" / "perf").mkdir()
    assert (tmp_path / "elsewhere" / "kept").exists()


@pytest.mark.parametrize("name", ["gate", "linux"])
def test_composite__pins_foreign_actions_as_the_examples_do(name: str) -> None:
    """By commit, with the release beside it, and the same commit everywhere."""
    text = (PROJECT / name / "action.yml").read_text(encoding="utf-8")
    used = set(re.findall(r"uses: (.*)$", text, re.MULTILINE)) - {IMAGE}
    examples = "".join(path.read_text("utf-8") for path in (PROJECT / "examples").glob("*.yml"))
    assert len(used) == 2
    for pin in used:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", pin)
        assert f"uses: {pin}\n" in examples


def test_action__starts_as_its_image_does() -> None:
    """The entry that Kubernetes mode wants to be told is the one of the Dockerfile."""
    runs = yaml.safe_load((PROJECT / "action.yml").read_text(encoding="utf-8"))["runs"]
    dockerfile = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    parts = re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", dockerfile, re.MULTILINE)
    own = [word for part in parts for word in json.loads(part)]
    assert [runs["entrypoint"], *runs["args"]] == own


# --- the installation without Docker --------------------------------------------------------------


def install(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`linux/install` in that environment alone."""
    script = PROJECT / "linux" / "install"
    return subprocess.run(
        ["/bin/sh", script, *words], env=environment, capture_output=True, text=True, check=False
    )


def test_install__says_what_a_machine_lacks(tmp_path: Path) -> None:
    """Without a new Python and without uv it names both, and prints no interpreter."""
    for name in ("dirname", "mktemp"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    done = install(PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "neither Python 3.11 or newer" in done.stderr


def test_install__refuses_an_interpreter_that_is_too_old(tmp_path: Path) -> None:
    """An interpreter that somebody names is used or refused, and never replaced by another."""
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    done = install(str(old), PATH=os.environ["PATH"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "the Python that was named is older than 3.11" in done.stderr


# It makes an environment of copies of itself, and says where modules go.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    *"-m venv "*) mkdir -p "$4/bin" "$4/site" && cp "$0" "$4/bin/python" ;;
    *sysconfig*) echo "${0%/bin/python}/site" ;;
esac
"""


def test_install__copies_what_runs(tmp_path: Path) -> None:
    """Python writes bytecode beside it, and must not do so in the folder of the action."""
    python, temp = tmp_path / "python", tmp_path / "temp"
    python.write_text(FAKE_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    temp.mkdir()
    same = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(temp)}
    made = [Path(install(str(python), **same).stdout.strip()) for _ in range(2)]
    venv = made[0].parents[1]
    assert venv.is_relative_to(temp)
    assert (venv / "site" / "ci_score" / "measure" / "hook" / "sitecustomize.py").is_file()
    # The job before may have measured the same run's change, whose code can write there, too.
    assert made[1] != made[0]
