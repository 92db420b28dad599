"""The table that the runtime's step profiler prints for people, amid the lines of a log.

    ┌─ Step Profiler (100 steps, avg 312.4 ms/step) ─┐
    │      phase │ total_ms │    pct │   avg_ms │
    │    forward │  12847.1 │ 41.1%  │   128.47 │
    │      other │     32.1 │  0.1%  │     0.32 │
    │      TOTAL │  31243.6 │  100%  │   312.44 │
    └────────────┴──────────┴────────┴──────────┘

`other` is time that no phase accounts for, so it is no phase. A second table has the layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Layer, Profile
from ci_score.model.sums import plain_sum
from ci_score.traces.formats.log_text import line_of, text_of
from ci_score.traces.formats.step_profiler import (
    RunPhase,
    no_steps,
    phases_per_step,
    without_tokens,
)
from ci_score.traces.source import ProfileSource

TOOL = "step_profiler (text table)"
# The end of its line belongs to it: inside a string of JSON there is none.
START = re.compile(
    rb"Step Profiler \((\d{1,18}) steps, avg (\d{1,18}(?:\.\d{1,9})?) ms/step\)[^\n\"\\]{0,40}\n"
)
MOST_ROWS = 1000
LARGEST_TABLE = 256 * 1024

_LAYER_HEADING = "Per-Layer Profile ("
_LATENCY = re.compile(
    r"Step latency: p50=([0-9.]{1,20})ms p95=([0-9.]{1,20})ms p99=([0-9.]{1,20})ms"
)
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?%?")
# The TOTAL of layers has four numbers, that of phases three.
_WHOLE_LAYERS = re.compile(r"\s*│\s*TOTAL\s*│(?:[^│]*+│){4}\s*$")
_TABLE_END = "└"
_HEADINGS = frozenset({"phase", "layer"})


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of a table: its first cell, the numbers after it, and where it stands."""

    label: str
    numbers: tuple[float, ...]
    place: str


def recognises(head: bytes) -> bool:
    """The title of the table, on a line of its own."""
    return START.search(head) is not None


def read(source: ProfileSource) -> Profile:
    """The last table of the text, per step."""
    text, notes = text_of(source)
    profile = find_table(text, source.name)
    if profile is None:
        raise BadInputError(
            source.name, found="text without its table", expected="a table of the Step Profiler"
        )
    return without_tokens(profile, notes)


def find_table(data: bytes, name: str) -> Profile | None:
    """The last table of a log as a profile, or None where there is none."""
    last, total = None, 0
    for match in START.finditer(data):
        last = match
        total += 1
    if last is None:
        return None
    text = data[last.start() : last.start() + LARGEST_TABLE].decode(errors="replace")
    place = line_of(data, last.start(), name)
    notes = (f"The log holds {total} tables: this is the last, from {place}.",) if total > 1 else ()
    steps = int(last[1])
    if steps == 0:
        return Profile(tool=TOOL, notes=notes, **no_steps("the number of steps"))
    with overflow_is_bad_input(place):
        return _profile(text.splitlines(), steps, float(last[2]), place, notes)


def _profile(
    lines: list[str], steps: int, rounded_step_ms: float, place: str, notes: tuple[str, ...]
) -> Profile:
    rows = _unique(_rows(lines, place, numbers=3))
    total, other = rows.pop("TOTAL", None), rows.pop("other", None)
    if not rows:
        raise BadInputError(place, found="a table without phases", expected="a row for each phase")
    wall_ms = total.numbers[0] if total else rounded_step_ms * steps
    phases = {name: _run_phase(row) for name, row in rows.items()}
    named_ms = plain_sum(phase.total_ms for phase in phases.values())
    layers = tuple(_layers(lines, steps, place))
    all_layers = not layers or any(_WHOLE_LAYERS.match(line) for line in lines)
    return Profile(
        steps=steps,
        avg_step_ms=wall_ms / steps,
        wall_coverage=named_ms / wall_ms if wall_ms > 0 else 0.0,
        phases=phases_per_step(phases, steps, wall_ms / steps),
        per_layer=layers,
        tool=TOOL,
        sources=_sources(steps, whole=total is not None, layers=bool(layers)),
        notes=(
            *notes,
            *_notes(whole=total is not None, layers=bool(layers), all_layers=all_layers),
        ),
        capture=_capture(lines, other, place),
    )


def _rows(lines: Iterable[str], place: str, numbers: int) -> Iterator[_Row]:
    """The rows of the first table; lines of other programs between them do not matter."""
    found = 0
    for offset, line in enumerate(lines):
        if _TABLE_END in line or found == MOST_ROWS:
            return
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) != numbers + 1 or cells[0] in _HEADINGS or set(cells[0]) <= {"-", "─"}:
            continue
        found += 1
        where = _line_after(place, offset)
        yield _Row(cells[0], tuple(_number(cell, where) for cell in cells[1:]), where)


def _unique(rows: Iterable[_Row]) -> dict[str, _Row]:
    by_label: dict[str, _Row] = {}
    for row in rows:
        if row.label in by_label:
            raise BadInputError(
                row.place, found=f"a second row {row.label[:40]!a}", expected="each row once"
            )
        by_label[row.label] = row
    return by_label


def _number(cell: str, place: str) -> float:
    if not _NUMBER.fullmatch(cell):
        raise BadInputError(place, found=ascii(cell[:40]), expected="a number of 0 or more")
    return float(cell.removesuffix("%"))


def _run_phase(row: _Row) -> RunPhase:
    total_ms, pct, avg_ms = row.numbers
    return RunPhase(total_ms=total_ms, pct=pct, avg_ms=avg_ms)


def _layers(lines: list[str], steps: int, place: str) -> Iterator[Layer]:
    """The layers of the table below, where it was printed: sums over the run, too."""
    heading = next((at for at, line in enumerate(lines) if _LAYER_HEADING in line), None)
    if heading is None:
        return
    for row in _rows(lines[heading + 1 :], _line_after(place, heading + 1), numbers=4):
        if row.label != "TOTAL":
            yield Layer(
                layer=_layer_number(row),
                fwd_ms=row.numbers[0] / steps,
                bwd_ms=row.numbers[1] / steps,
            )


def _layer_number(row: _Row) -> int:
    if re.fullmatch(r"[0-9]{1,6}", row.label):
        return int(row.label)
    raise BadInputError(row.place, found=ascii(row.label[:40]), expected="the number of a layer")


def _line_after(place: str, lines: int) -> str:
    name, _, number = place.rpartition(":")
    return f"{name}:{int(number) + lines}"


def _capture(lines: list[str], other: _Row | None, place: str) -> dict[str, float]:
    """What the run printed beside the phases; nothing here is per step."""
    capture = {} if other is None else {"unaccounted_ms": other.numbers[0]}
    for line in lines:
        if latency := _LATENCY.search(line):
            names = ("step_p50_ms", "step_p95_ms", "step_p99_ms")
            capture |= {name: _number(latency[i], place) for i, name in enumerate(names, start=1)}
            break
    return capture


def _sources(steps: int, *, whole: bool, layers: bool) -> dict[str, str]:
    sources = {
        "avg_step_ms": f"total_ms of TOTAL ÷ {steps} steps" if whole else "the table's title",
        "wall_coverage": "Σ total_ms of the phases ÷ total_ms of all steps",
        "phases": f"total_ms, a sum over {steps} steps, ÷ steps",
    }
    if layers:
        sources["per_layer"] = f"fwd_ms and bwd_ms, sums over {steps} steps, ÷ steps"
    return sources


def _notes(*, whole: bool, layers: bool, all_layers: bool) -> Iterator[str]:
    if not whole:
        yield "The table ends before its TOTAL, so phases may be missing."
    if not all_layers:
        yield "The table of layers ends before its TOTAL, so layers may be missing."
    if not layers:
        yield "The table has neither layers nor ops."
