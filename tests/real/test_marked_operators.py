"""A launch with marks of the real torch: each operator of a script is of the line that wrote it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_score.traces import ProfileSource, read_marked, read_profile
from tests.builders.hooked import Asked, Hooked, launch
from tests.builders.traces.marked import SCRIPT, judged, lines_of_table, wanted_of

PYTHON = os.environ.get("CI_SCORE_FRAMEWORKS", "")
pytestmark = pytest.mark.skipif(
    not Path(PYTHON).is_file(), reason="CI_SCORE_FRAMEWORKS names no Python with torch"
)


def launched(folder: Path, mode: str) -> tuple[Hooked, ProfileSource]:
    """A launch of the script, and its trace."""
    asked = Asked(mode=mode, steps=4, warmup=4, tree=SCRIPT.parent)
    done = launch([PYTHON, SCRIPT], folder, asked)
    return done, ProfileSource("trace.json", path=done.folder / "trace.json")


def test_marked__operators_are_of_their_lines_and_as_many_as_without_marks(tmp_path: Path) -> None:
    """Forward, computed again, backward and optimizer; marks change nothing but time and names."""
    done, trace = launched(tmp_path / "marked", "marked")
    (table,) = done.folder.glob("lines-0-*.json")
    wanted = wanted_of(SCRIPT)
    right, wrong = judged(trace, lines_of_table(table), wanted)
    assert not wrong
    assert set(right) == set(wanted)
    found, usual = read_marked(trace), read_profile(trace)
    assert found.without_line_ms == 0
    assert found.steps == 3
    _, plain = launched(tmp_path / "profiled", "profiled")
    unmarked = read_profile(plain)
    assert found.operators == usual.host_ops_per_step == unmarked.host_ops_per_step
    assert usual.op_counts == unmarked.op_counts
    assert set(usual.phases) == set(unmarked.phases)
    assert usual.peak_ops == unmarked.peak_ops
    assert found.peak_bytes >= sum(unmarked.peak_ops.values())
