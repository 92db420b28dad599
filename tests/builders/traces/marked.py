"""Traces with marks of scripts in which each line has operators of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_score.traces.engine.autograd import ENGINE
from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.marks import lines_of
from ci_score.traces.formats.kineto import capture_of
from ci_score.traces.source import ProfileSource

SCRIPT = Path(__file__).parents[2] / "real" / "planted" / "operators.py"
# One step of it, with the lines of its marks: torch 2.13 on a CPU, without what nobody reads.
FIXTURE = Path(__file__).parents[2] / "fixtures" / "marked_step.json.gz"


def wanted_of(script: Path) -> dict[str, int]:
    """The line of each operator that stands behind one."""
    rows = enumerate(script.read_text(encoding="utf-8").splitlines(), 1)
    return {
        name: number
        for number, text in rows
        if "  # " in text
        for name in text.split("  # ")[1].split()
    }


def lines_of_table(table: Path) -> dict[int, int]:
    """The line of each mark, as the hook wrote them."""
    rows = json.loads(table.read_text(encoding="utf-8"))["rows"]
    return {row["id"]: row["line"] for row in rows if row["file"]}


def judged(
    source: ProfileSource, lines: Mapping[int, int], wanted: Mapping[str, int]
) -> tuple[Counter[str], Counter[tuple[str, int]]]:
    """The wanted operators whose line is right, and those whose line is another one."""
    right: Counter[str] = Counter()
    wrong: Counter[tuple[str, int]] = Counter()
    for name, number in operators_with_marks(capture_of(source)):
        line = lines.get(number, 0)
        if name in wanted and line == wanted[name]:
            right[name] += 1
        elif name in wanted:
            wrong[name, line] += 1
    return right, wrong


def operators_with_marks(capture: Capture) -> Iterator[tuple[str, int]]:
    """Every operator and node by its name, with the number of its mark; 0 without one."""
    host, steps = capture.hosts[0], capture.first_marked(0)
    assert steps is not None
    found, lines = lines_of(host, steps)
    for name, holder in zip(host.operators.names, found.of_operators, strict=True):
        yield host.names[name].removeprefix(f"{ENGINE}: "), lines.of(holder).number
