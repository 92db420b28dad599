"""`.ci/run` and the CI of this repository run the same steps."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import yaml

from tests.builders import PROJECT

CI = yaml.safe_load((PROJECT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
RUN = ".ci/run"
# Steps that ci.yml does not call: another forge comes with CI_SCORE_SHARED alone.
ELSEWHERE = {"forge"}


def steps() -> list[str]:
    """The names that `.ci/run` knows."""
    done = subprocess.run([PROJECT / RUN, "--list"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def called_by(job: dict[str, Any]) -> Iterator[str]:
    """The steps of `.ci/run` that a job calls, in each row of its matrix."""
    versions = job.get("strategy", {}).get("matrix", {}).get("python", [""])
    for command in (step.get("run", "") for step in job["steps"]):
        program, *names = command.split(" ", 1)
        if program == RUN:
            for version in versions:
                yield from names[0].replace("${{ matrix.python }}", version).split()


def test_ci__calls_every_step_of_the_run_once() -> None:
    """ci.yml runs every step of `.ci/run` that can run there, each once."""
    called = [name for job in CI["jobs"].values() for name in called_by(job)]
    assert sorted(called) == sorted(set(steps()) - ELSEWHERE)


def test_ci_run__a_step_that_is_not_there_is_named() -> None:
    """A mistyped step is an error before any other step runs."""
    done = subprocess.run(
        [PROJECT / RUN, "lint", "tset"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no step is called tset" in done.stderr
    assert not done.stdout
