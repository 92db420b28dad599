"""Progress: a line on a terminal after a second, and nothing anywhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import PROJECT

PROFILE = '{"steps": 2, "avg_step_ms": 10.0, "wall_coverage": 0.9}'
# The command as it is, with readers that need as long as a trace of some hundred megabytes.
SLOW = """
import sys, time
from ci_score.traces import formats
seconds = float(sys.argv.pop(1))
read = formats.Format.read.fget
formats.Format.read = property(lambda row: lambda file: (time.sleep(seconds), read(row)(file))[1])
from ci_score.__main__ import main
main()
"""


@dataclass
class Started:
    """A command that runs, and the terminal that its standard error is."""

    process: subprocess.Popen[bytes]
    terminal: int | None

    def told(self) -> tuple[str, str]:
        """What it printed, and what a person saw meanwhile."""
        out, error = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, error
        if self.terminal is None:
            return out.decode(), error.decode()
        seen = b""
        try:
            while part := os.read(self.terminal, 4096):
                seen += part
        except OSError:
            pass  # Linux says so where nobody has the other end open any more.
        finally:
            os.close(self.terminal)
        return out.decode(), seen.decode()


def start(
    *arguments: str, seconds: float = 1.3, on_terminal: bool = True, **environment: str
) -> Started:
    own = {name: value for name, value in os.environ.items() if name not in {"CI", "TERM"}}
    ours, theirs = pty.openpty() if on_terminal else (None, subprocess.PIPE)
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(seconds), *arguments],
        env={**own, "PYTHONPATH": str(PROJECT), "TERM": "xterm", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    if on_terminal:
        os.close(theirs)
    return Started(process, ours)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """The commands run side by side, because each has to take more than a second."""
    folder = tmp_path_factory.mktemp("slow")
    files = [str(folder / f"{number}.json") for number in range(2)]
    for file in files:
        Path(file).write_text(PROFILE, encoding="utf-8")
    started = {
        "convert": start("convert", *files),
        "score": start("score", files[0], seconds=1.6),
        "quick": start("convert", *files, seconds=0),
        "json": start("convert", files[0], "--json"),
        "no terminal": start("convert", files[0], on_terminal=False),
        "CI": start("convert", files[0], CI="true"),
        "dumb": start("convert", files[0], TERM="dumb"),
    }
    return {name: each.told() for name, each in started.items()}


def test_progress__counts_on_a_terminal(told: dict[str, tuple[str, str]]) -> None:
    """What is done and for how long, on one line, which is gone before the result."""
    out, seen = told["convert"]
    assert "\rreading 0 of 2, 1 s" in seen
    assert "\rreading 1 of 2, 2 s" in seen
    assert seen.endswith("\r" + " " * 78 + "\r")
    assert "\n" not in seen
    assert "reading" not in out
    assert "Step time" in out


def test_progress__of_one_file_is_its_time(told: dict[str, tuple[str, str]]) -> None:
    """There is nothing to count."""
    assert "\rreading, 1 s" in told["score"][1]


@pytest.mark.parametrize("case", ["quick", "json", "no terminal", "CI", "dumb"])
def test_progress__is_quiet_where_nobody_looks(told: dict[str, tuple[str, str]], case: str) -> None:
    """What is done within a second, for a program, into a file, in a job, on no real terminal."""
    out, seen = told[case]
    assert seen == ""
    assert out
