"""No step of our actions and examples prints a command to the runner that we did not mean."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import PROJECT
from tests.builders.composite import SHELLS, obeyed

# What a stranger may have written where a variable, a folder's name or a log has it.
HOSTILE = (
    r"C:\n::error file=a::x\n::stop-commands::x\0012::error::x %s%d ##[error]x%0A::error::x\c",
    "-n -e $(touch made)`touch made`\n::error::x\r::add-mask::x\r\n\t ::notice::x\nname=x",
)
PLAIN = "1"
# What our steps say themselves.
OURS = re.compile(r"::error title=(ci-score \w+|Nothing was measured)::")
# They do nothing, say nothing and fail.
PYTHONS = ("python", "python3", *(f"python3.{minor}" for minor in range(11, 15)))
PROGRAMS = (*PYTHONS, "ci-score", "uv", "gh", "git", "sudo", "rm")


@dataclass(frozen=True)
class Step:
    """A script in an action or a workflow, with its variables as they are written."""

    file: Path
    name: str
    script: str
    variables: dict[str, str]

    def __str__(self) -> str:
        return f"{self.file.parent.name}/{self.file.stem}: {self.name}"


def steps() -> Iterator[Step]:
    """All that have a script of their own."""
    for place in ("*/action.yml", "examples/*.yml", ".github/workflows/*.yml"):
        for file in sorted(PROJECT.glob(place)):
            read: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
            jobs = [read["runs"]] if "runs" in read else read["jobs"].values()
            for step in (one for job in jobs for one in job.get("steps", ()) if "run" in one):
                given = {key: str(text) for key, text in step.get("env", {}).items()}
                yield Step(file, step.get("name", step["run"][:40]), step["run"], given)


STEPS = list(steps())
# Those that others run, each once.
OF_USERS = {step.script: step for step in STEPS if ".github" not in step.file.parts}.values()


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runner's folder for what a job installs."""
    folder = tmp_path_factory.mktemp("temporary")
    programs = folder / "ci-score" / "bin"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    return folder


def run(step: Step, shell: str, given: str, work: Path, temporary: Path) -> tuple[str, set[str]]:
    """What the step prints, and the names of its outputs.

    What another step of ours has left is ours; any other variable is what is given.
    """
    programs, outputs = temporary / "ci-score" / "bin", temporary / "outputs"
    outputs.write_text("", encoding="utf-8")
    own = {"PYTHON": str(programs / "python"), "KEPT": str(work), "CODE": "1", "OUT": "nowhere"}
    variables = {
        name: own.get(name, PLAIN) if text.startswith("${{ steps.") else given
        for name, text in step.variables.items()
    }
    done = subprocess.run(
        [shell, "-e", "-c", step.script],
        cwd=work,
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(temporary),
            "RUNNER_TEMP": str(temporary),
            "GITHUB_ACTION_PATH": str(PROJECT / "linux"),
            "GITHUB_OUTPUT": str(outputs),
            **variables,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    names = {line.partition("=")[0] for line in outputs.read_text("utf-8").splitlines()}
    return (done.stdout + done.stderr).decode(errors="replace"), names


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("step", OF_USERS, ids=str)
def test_step__prints_no_command_but_its_own(
    step: Step, shell: str, tmp_path: Path, temporary: Path
) -> None:
    """Whatever its variables, its folder and the files in that are called or hold."""
    for place, text in enumerate(HOSTILE):
        work = tmp_path / str(place) / text.replace("/", "")
        work.mkdir(parents=True)
        (work / "said").write_text(text, encoding="utf-8")
        for given in (PLAIN, text):
            printed, names = run(step, shell, given, work, temporary)
            found = obeyed(printed)
            assert [line for line in found if not OURS.match(line)] == [], printed
            assert len(found) <= 1
            assert names <= set(re.findall(r"([a-z-]+)=", step.script))
    assert not list(tmp_path.rglob("made"))


def scripts() -> Iterator[tuple[str, str]]:
    """All shell of ours, by its place."""
    for step in STEPS:
        yield str(step), step.script
    for file in (*PROJECT.glob("linux/*"), *PROJECT.glob(".ci/*")):
        text = file.read_text(encoding="utf-8")
        if re.match(r"#!.*sh\n", text):
            yield file.name, text


@pytest.mark.parametrize("script", dict(scripts()).values(), ids=dict(scripts()))
def test_script__prints_by_printf_alone(script: str) -> None:
    r"""What `echo` makes of a variable with `\n`, `\c` or `-n` depends on the shell."""
    code = re.sub(r"(?m)(^|\s)#.*", "", script)
    assert re.findall(r".*\becho\b.*", code) == []


@pytest.mark.parametrize("step", OF_USERS, ids=str)
def test_step__has_no_expression_in_its_script(step: Step) -> None:
    """A stranger's text in a script would be executed; it comes as a variable."""
    assert "${{" not in step.script
