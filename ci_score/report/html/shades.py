"""A change in milliseconds → the class of its colour, and tables whose cells have that colour."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ci_score.report.joined_ops import Sides
from ci_score.report.numbers import common_places, delta_at, from_to, milliseconds

# Shares of the largest change. A case has few large changes, so the steps are no quarters.
STEPS = (0.02, 0.10, 0.30, 0.60)
SAME = "same"
MORE, LESS = "▲", "▼"
# Of what a cell changed: two runs of one program differ by the first share of its time, and below
# the second no cell is a dark one.
NOISE, DARK_FROM = 0.01, 0.05
NOT_TOLD = "–"


def shade(delta: float, largest: float, noise: float = 0.0) -> str:
    """`up1` to `up4` where it takes longer, `down1` to `down4` where less, else `same`."""
    step = bisect_right(STEPS, abs(delta) / largest) if largest > 0 else 0
    if not step or abs(delta) < noise:
        return SAME
    return f"{'up' if delta > 0 else 'down'}{step}"


def mark(shaded: str) -> str:
    """The sign of a shade, because not everybody can tell colours apart; none for `same`."""
    return "" if shaded == SAME else MORE if shaded.startswith("up") else LESS


@dataclass(frozen=True, slots=True)
class Cell:
    """`▲ +16.0` above `59.0 → 75.0`, in milliseconds."""

    change: str
    times: str
    shade: str = SAME


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table; the marked one is what the sentence names."""

    name: str
    cells: Sequence[Cell]
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class ShadedTable:
    """Who is different, with the sentence that says the same."""

    sentence: str
    caption: str
    notes: Sequence[str]
    heads: Sequence[str]
    rows: Sequence[Row]
    # Of the whole column.
    sums: Sequence[Cell] = ()


def shaded_rows(
    table: Mapping[str, Sequence[Sides]],
    most: int,
    *,
    whole_ms: float = 0.0,
    shows_base: bool = True,
    marked: str | None = None,
) -> list[Row]:
    """The rows that changed most, in their order. A change is small beside its cell, or the whole.

    Where the base is not shown, it is only what each time is compared with.
    """
    every = [sides for row in table.values() for sides in row]
    largest = max((abs(sides.delta_ms or 0.0) for sides in every), default=0.0)
    places = common_places(every)

    def cell(sides: Sides) -> Cell:
        own = max(sides.base_ms or 0.0, sides.head_ms or 0.0, whole_ms)
        delta = sides.delta_ms
        shaded = shade(delta or 0.0, max(largest, DARK_FROM * own), NOISE * own)
        return _cell(sides, places, shaded, shows_base=shows_base)

    def size(name: str) -> tuple[bool, float]:
        return name != marked, -max(abs(sides.delta_ms or 0.0) for sides in table[name])

    kept = set(sorted(table, key=size)[:most])
    return [
        Row(name, tuple(map(cell, row)), name == marked)
        for name, row in table.items()
        if name in kept
    ]


def sums_of(columns: Sequence[Sides]) -> list[Cell]:
    """A row without colours."""
    places = common_places(columns)
    return [_cell(sides, places, SAME) for sides in columns]


def _cell(sides: Sides, places: int | None, shaded: str, *, shows_base: bool = True) -> Cell:
    times = head = _number(sides.head_ms)
    if shows_base and (sides.base_ms, sides.head_ms) != (None, None):
        times = from_to(_number(sides.base_ms), head)
    change = delta_at(sides.delta_ms, places) if sides.delta_ms is not None else ""
    return Cell(f"{mark(shaded)} {change.removesuffix(' ms')}".strip(), times, shaded)


def _number(ms: float | None) -> str:
    return NOT_TOLD if ms is None else milliseconds(ms).removesuffix(" ms")
