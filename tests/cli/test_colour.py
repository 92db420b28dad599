"""Colour is for a person at a terminal, and repeats what the words say."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ci_score.model.metrics import STEP_TIME
from ci_score.model.reasons import Why
from ci_score.model.record import Record
from ci_score.model.verdict import Change, Outcome
from ci_score.report.cells import cells
from ci_score.report.profile import profile_text
from ci_score.report.screen import Screen
from ci_score.report.terminal import report_text
from ci_score.report.words import outcome_words
from tests.builders import case, profile, record
from tests.builders.reports import demo, hostile, matrix

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def printed_on_a_terminal(
    folder: Path, *arguments: str, errors: bool = False, **environment: str
) -> str:
    """What the demo or another command prints on a terminal, or what it says of an error."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    command = arguments or ("demo", "--output-dir", str(folder / "demo"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ci_score", *command],
        stdout=subprocess.DEVNULL if errors else theirs,
        stderr=theirs if errors else subprocess.DEVNULL,
        env={**kept, "TERM": "xterm", **environment},
        cwd=Path(__file__).parents[2],
    )
    os.close(theirs)
    read = bytearray()
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        read += piece
    os.close(ours)
    assert process.wait(60) == (2 if errors else 0)
    return read.decode().replace("\r", "")


@pytest.mark.parametrize("columns", [60, 132])
def test_terminal__is_asked_how_wide_it_is(tmp_path: Path, columns: int) -> None:
    """The report is laid out for it; COLUMNS says it where the terminal does not."""
    printed = printed_on_a_terminal(tmp_path, COLUMNS=str(columns), NO_COLOR="1")
    widths = [cells(line) for line in printed.split("The check of")[0].splitlines()]
    assert columns - 15 < max(widths) <= columns


def test_terminal__a_wrong_use_breaks_no_word(tmp_path: Path) -> None:
    """What click says of it wraps as well."""
    printed = printed_on_a_terminal(
        tmp_path, "run", "--tokens-per-stop", "1", COLUMNS="50", errors=True
    )
    assert all(cells(line) <= 50 for line in printed.splitlines())
    assert "--tokens-per-step" in printed


def test_pipe__gets_whole_lines() -> None:
    """However narrow the terminal is, so that a log can be searched."""
    command = [sys.executable, "-m", "ci_score", "hardware", "h100 sxm"]
    narrow = {**os.environ, "COLUMNS": "40", "PYTHONIOENCODING": "utf-8"}
    printed = subprocess.run(command, env=narrow, capture_output=True, text=True, check=True)
    assert max(map(cells, printed.stdout.splitlines())) > 60


def test_colour__is_there_on_a_terminal(tmp_path: Path) -> None:
    """The verdict of a failure is red."""
    assert "\x1b[1;31mFail:" in printed_on_a_terminal(tmp_path)


@pytest.mark.parametrize("said", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_colour__is_left_out_where_it_is_not_wanted(tmp_path: Path, said: dict[str, str]) -> None:
    """NO_COLOR is honoured, and so is a terminal that cannot."""
    assert "\x1b" not in printed_on_a_terminal(tmp_path, errors=False, **said)


CHANGED = [
    Change(metric=STEP_TIME, base=1.0, head=1.2, delta=0.2, gated=True, outcome=outcome)
    for outcome in Outcome
]
LOST = [
    CHANGED[0].but(outcome=Outcome.INCONCLUSIVE, reasons=(why(),))
    for why in (Why.GATE_NOT_MEASURED, Why.GATE_WITHOUT_RATIO)
]
COLOURED = Screen(80, has_colour=True)


@pytest.mark.parametrize("change", [*CHANGED, *LOST], ids=outcome_words)
def test_colour__is_on_each_outcome(change: Change) -> None:
    """Whatever a metric's outcome is called, its sign and its words have a colour."""
    text = report_text(record(case(changes=(change,))), COLOURED)
    words = outcome_words(change).replace("\ufe0f", "")
    assert re.search(rf"\x1b\[[\d;]+m\+20(\.0)? % {words}\x1b\[0m", text)


@pytest.mark.parametrize("told", [demo(), matrix(), hostile()], ids=["demo", "matrix", "hostile"])
@pytest.mark.parametrize("whole", [False, True])
def test_colour__changes_no_word(told: Record, whole: bool) -> None:
    """Without the colours the text is what it was."""
    coloured = report_text(told, COLOURED, whole=whole)
    plain = report_text(told, Screen(80), whole=whole)
    assert coloured != plain
    assert ESCAPES.sub("", coloured) == plain


def test_colour__a_delta_has_its_direction_s() -> None:
    """What takes longer is red and what is faster green; a change of nothing has no colour."""
    text = report_text(demo(), COLOURED)
    assert "\x1b[31m+77.6 ms\x1b[0m" in text
    assert "m0.0 ms" not in text


def test_colour__no_stranger_paints() -> None:
    """The escapes of a name are shown, so that every colour is ours."""
    text = profile_text(profile(ops={"\x1b[31mred": 1.0}, notes=("\x1b[1mbold",)), Screen(80))
    assert "red" in text
    assert "\x1b" not in text
