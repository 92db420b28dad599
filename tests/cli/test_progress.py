"""Progress: a line on a terminal after a second, and nothing anywhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_score.cli import console, execute
from ci_score.cli.console import LiveLine
from tests.builders import PROJECT

PROFILE = '{"steps": 2, "avg_step_ms": 10.0, "wall_coverage": 0.9}'
# The command as it is, with readers that need longer than it keeps quiet.
SLOW = """
import time
from ci_score.cli import console
from ci_score.traces import formats
console.QUIET_FOR = 0.02
read = formats.Format.read.fget
formats.Format.read = property(lambda row: lambda file: (time.sleep(0.3), read(row)(file))[1])
from ci_score.__main__ import main
main()
"""


@dataclass
class Started:
    """A command that runs, and the terminal that its standard error is."""

    process: subprocess.Popen[bytes]
    terminal: int

    def told(self) -> tuple[str, str]:
        """What it printed, and what a person saw meanwhile."""
        out, _ = self.process.communicate(timeout=60)
        seen = b""
        try:
            while part := os.read(self.terminal, 4096):
                seen += part
        except OSError:
            pass  # Linux says so where nobody has the other end open any more.
        finally:
            os.close(self.terminal)
        assert self.process.returncode == 0, seen
        return out.decode(), seen.decode()


def start(*arguments: str) -> Started:
    own = {name: value for name, value in os.environ.items() if name not in {"CI", "TERM"}}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments],
        env={**own, "PYTHONPATH": str(PROJECT), "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    return Started(process, ours)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two profiles."""
    paths = [tmp_path / f"{number}.json" for number in range(2)]
    for path in paths:
        path.write_text(PROFILE, encoding="utf-8")
    return list(map(str, paths))


class Reading:
    """Two files that take as long each, by a clock that only moves when somebody waits."""

    def __init__(self, seconds_a_file: float) -> None:
        self.seconds, self.seconds_a_file = 0.0, seconds_a_file
        self.line = LiveLine("reading 0 of 2", after=console.QUIET_FOR, now=lambda: self.seconds)

    def stopped_within(self, pause: float) -> bool:
        """Whether both are read before that time is over."""
        self.seconds += pause
        done = int(self.seconds / self.seconds_a_file)
        self.line.change(f"reading {done} of 2")
        return done >= 2


def test_line__is_what_is_done_and_for_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in the first second, then four times a second."""
    reading = Reading(seconds_a_file=1.3)
    reading.line._tick(reading.stopped_within)
    lines = capsys.readouterr().err.replace("\r", "\n").split()
    assert " ".join(lines[:6]) == "reading 0 of 2, 1 s"
    assert " ".join(lines[-6:]) == "reading 1 of 2, 2 s"
    assert lines.count("s") == (2.5 - console.QUIET_FOR) / console.EVERY + 1


def test_line__is_quiet_about_what_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    """What is done within a second."""
    reading = Reading(seconds_a_file=0.4)
    reading.line._tick(reading.stopped_within)
    assert capsys.readouterr().err == ""


def test_progress__counts_on_a_terminal(files: list[str]) -> None:
    """On one line, which is gone before the result."""
    out, seen = start("convert", *files).told()
    assert "\rreading 0 of 2, 0 s" in seen
    assert "\rreading 1 of 2, " in seen
    assert seen.endswith("\r" + " " * 78 + "\r")
    assert "\n" not in seen
    assert "reading" not in out
    assert "Step time" in out


def test_progress__of_one_file_is_its_time(files: list[str]) -> None:
    """There is nothing to count."""
    assert "\rreading, 0 s" in start("score", files[0]).told()[1]


class Terminal(io.StringIO):
    """What a person sees."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.mark.parametrize("case", ["a person looks", "json", "no terminal", "CI", "dumb"])
def test_progress__is_quiet_where_nobody_looks(
    files: list[str], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """For a program, into a file, in a job, on no real terminal."""
    monkeypatch.setenv("TERM", "dumb" if case == "dumb" else "xterm")
    monkeypatch.setenv("CI", "true" if case == "CI" else "")
    monkeypatch.setattr(sys, "stderr", io.StringIO() if case == "no terminal" else Terminal())
    ticked: list[object] = []
    monkeypatch.setattr(LiveLine, "_tick", lambda *about: ticked.append(about))
    assert execute(["convert", files[0], *(["--json"] if case == "json" else [])]) == 0
    assert bool(ticked) is (case == "a person looks")
