"""Progress: a line on a terminal after a second, and one a minute anywhere else."""

from __future__ import annotations

import io
import os
import pty
import re
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

    def __init__(self, seconds_a_file: float, *, quiet_for: float = console.QUIET_FOR) -> None:
        self.seconds, self.seconds_a_file = 0.0, seconds_a_file
        self.line = LiveLine("reading 0 of 2", after=quiet_for, now=lambda: self.seconds)

    def stopped_within(self, pause: float) -> bool:
        """Whether both are read before that time is over."""
        self.seconds += pause
        done = int(self.seconds / self.seconds_a_file)
        self.line.change(f"reading {done} of 2")
        return done >= 2

    def seen(self, capsys: pytest.CaptureFixture[str]) -> list[str]:
        """What was printed meanwhile."""
        self.line._tick(self.stopped_within)
        return [row.strip() for row in re.split("[\r\n]", capsys.readouterr().err) if row.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody looks."""
    monkeypatch.setattr(console, "is_watched", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_line__is_what_is_done_and_for_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in the first second, then four times a second; and nothing of what is quick."""
    lines = Reading(seconds_a_file=1.3).seen(capsys)
    assert (lines[0], lines[-1]) == ("reading 0 of 2, 1 s", "reading 1 of 2, 2 s")
    assert len(lines) == (2.5 - console.QUIET_FOR) / console.EVERY + 1
    assert Reading(seconds_a_file=0.4).seen(capsys) == []


def test_line__where_nobody_looks_is_one_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    """Unless something else was printed."""
    reading = Reading(seconds_a_file=100.0)
    assert [row[-5:] for row in reading.seen(capsys)] == [" 60 s", "120 s", "180 s"]
    reading = Reading(seconds_a_file=100.0)
    reading.seconds = 45.0
    reading.line.clear()
    assert reading.seen(capsys) == ["reading 1 of 2, 105 s", "reading 1 of 2, 165 s"]


def test_line__says_how_far_it_is_and_how_long_it_takes_yet() -> None:
    """By what was done since it began; of something else nobody knows."""
    seconds = 10.0
    line = LiveLine(now=lambda: seconds)
    line.begin("pair 3", 2, 12)
    line.reaches("4 of 23 steps")
    assert line._words() == "pair 3: 4 of 23 steps, 0 s"
    seconds = 70.0
    line.begin("pair 5", 4, 12)
    assert line._words() == "pair 5, 0 s, about 4 minutes left"
    seconds = 250.0
    assert line._words() == "pair 5, 180 s, about 60 s left"
    seconds = 400.0
    assert line._words() == "pair 5, 330 s"
    line.begin("a profile")
    assert line._words() == "a profile, 0 s"
    line.begin("pair 1", 0, 2)
    assert line._words() == "pair 1, 0 s"


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
    """For a program nothing; into a file, in a job, on no real terminal a line a minute."""
    monkeypatch.setenv("TERM", "dumb" if case == "dumb" else "xterm")
    monkeypatch.setenv("CI", "true" if case == "CI" else "")
    monkeypatch.setattr(sys, "stderr", io.StringIO() if case == "no terminal" else Terminal())
    pauses: list[float] = []
    monkeypatch.setattr(LiveLine, "_tick", lambda line, _: pauses.append(line._pause))
    assert execute(["convert", files[0], *(["--json"] if case == "json" else [])]) == 0
    expected = {"a person looks": [console.QUIET_FOR], "json": []}
    assert pauses == expected.get(case, [console.LINE_EVERY])
