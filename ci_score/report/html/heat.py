"""Who is different: a case → maps of its layers by phase, and of its ranks by part of the step.

A map is a few lanes, each a row of cells from left to right. Cells of one shade are one path in a
stretched drawing, because there may be hundreds; a transparent cell above them has the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci_score.report.html.scale import UNITS, percent
from ci_score.report.html.shades import mark

# With more cells there is no room for gaps between them, for signs, or for numbers.
MOST_WITH_GAPS, MOST_WITH_SIGNS, MOST_WITH_NUMBERS = 65, 22, 5
UNKNOWN = "unknown"
_ABOUT_TICKS = 8
# The share of a narrow screen that the marked label takes on each side.
_ROOM_OF_MARKED = 0.14


@dataclass(frozen=True, slots=True)
class Cell:
    """A place of a lane: its shade, and a text for which it may be wide enough."""

    start: float
    end: float
    shade: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fill:
    """All cells of a lane that look alike."""

    shade: str
    path: str


@dataclass(frozen=True, slots=True)
class Hatch:
    """Narrow cells that changed alike, each from its start with its width."""

    shade: str
    spans: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sign:
    """A text in a cell."""

    at: str
    text: str
    shade: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of cells, with what it is of where a lane has several."""

    side: str
    top: int
    height: int
    fills: tuple[Fill, ...]
    hatches: tuple[Hatch, ...]
    signs: tuple[Sign, ...]


@dataclass(frozen=True, slots=True)
class Hover:
    """A place of a lane that tells its numbers, and which layer a click on it chooses."""

    x: str
    width: str
    title: str
    layer: str | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A heading with a number on its right, and its strips."""

    name: str
    note: str
    height: int
    strips: tuple[Strip, ...]
    hovers: tuple[Hover, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A label below a column; the marked one is what the sentence names."""

    at: str
    label: str
    anchor: str = "middle"
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Marked:
    """A column between two lines through all lanes."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table that says the same as the map."""

    cells: tuple[str, ...]
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a map; the first columns are names."""

    caption: str
    heads: tuple[str, ...]
    names: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """A drawing with the sentence that says the same, how to read it, and its numbers."""

    sentence: str
    key: str
    notes: tuple[str, ...]
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    marked: Marked | None
    has_sides: bool
    table: Table


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of one width, from `0` up to `share` of the drawing."""

    count: int
    share: float = 1.0

    def edges(self, place: int) -> tuple[float, float]:
        """Where a column begins and ends."""
        return self.share * place / self.count, self.share * (place + 1) / self.count

    def middle(self, place: int) -> str:
        """Where its label stands."""
        return percent(sum(self.edges(place)) / 2)

    def ticks(self, labels: Sequence[str], marked: int | None = None) -> Iterator[Tick]:
        """A label below every so many columns; the neighbours of the marked one have none."""
        between = max(-(-self.count // _ABOUT_TICKS), 1)
        for place, label in enumerate(labels):
            if place == marked:
                yield Tick(self.middle(place), label, _anchor(place, self.count), is_marked=True)
            elif place % between == 0 and not _is_near(place, marked, self.count):
                yield Tick(self.middle(place), label)


def _is_near(place: int, marked: int | None, count: int) -> bool:
    if marked is None:
        return False
    room = _ROOM_OF_MARKED if _anchor(marked, count) == "middle" else 2 * _ROOM_OF_MARKED
    return abs(place - marked) < count * room


def _anchor(place: int, count: int) -> str:
    """A label near an edge does not stick out."""
    if count <= _ABOUT_TICKS:
        return "middle"
    return "start" if place < count * 0.1 else "end" if place > count * 0.9 else "middle"


def strip(cells: Sequence[Cell], side: str, top: int, height: int) -> Strip:
    """The cells as paths; narrow ones that changed are hatched, because they have no room."""
    is_narrow = len(cells) > MOST_WITH_SIGNS + 1
    signs = (
        Sign(percent((cell.start + cell.end) / 2), cell.text, cell.shade)
        for cell in cells
        if cell.text and not is_narrow
    )
    hatches = tuple(_hatches(cells)) if is_narrow else ()
    return Strip(side, top, height, tuple(_fills(cells)), hatches, tuple(signs))


def mark_of(cell: Cell) -> str:
    """▲ or ▼ of a cell that is shaded by its change."""
    return mark(cell.shade) if cell.shade.startswith(("up", "down")) else ""


def _fills(cells: Sequence[Cell]) -> Iterator[Fill]:
    has_gaps = len(cells) <= MOST_WITH_GAPS
    gap = min(max(round(UNITS / len(cells) * 0.08), 1), 6) if has_gaps else 0
    paths: dict[str, list[str]] = {}
    for start, end, shade in _runs(cells, lambda cell: cell.shade, joins=not has_gaps):
        left = round(start * UNITS)
        width = max(round(end * UNITS) - left - gap, 1)
        paths.setdefault(shade, []).append(f"M{left} 0h{width}v1h-{width}z")
    for shade, parts in paths.items():
        yield Fill(shade, "".join(parts))


def _hatches(cells: Sequence[Cell]) -> Iterator[Hatch]:
    spans: dict[str, list[tuple[str, str]]] = {}
    for start, end, shade in _runs(cells, _changed_shade, joins=True):
        spans.setdefault(shade, []).append((percent(start), percent(end - start)))
    for shade, places in spans.items():
        yield Hatch(shade, tuple(places))


def _changed_shade(cell: Cell) -> str:
    return cell.shade if mark_of(cell) else ""


def _runs(
    cells: Sequence[Cell], look: Callable[[Cell], str], *, joins: bool
) -> Iterator[tuple[float, float, str]]:
    """Cells that look like something; neighbours that look alike may join into one."""
    start, end, before = 0.0, 0.0, ""
    for cell in cells:
        looks = look(cell)
        if looks and looks == before and joins and abs(cell.start - end) < 1e-9:
            end = cell.end
            continue
        if before:
            yield start, end, before
        start, end, before = cell.start, cell.end, looks
    if before:
        yield start, end, before


def ranges(numbers: Iterable[int], known: Sequence[int]) -> list[str]:
    """`12–15`: numbers that follow each other in all that are known are one range."""
    wanted, found = set(numbers), list[list[int]]()
    is_open = False
    for number in known:
        if number in wanted and is_open:
            found[-1].append(number)
        elif number in wanted:
            found.append([number])
        is_open = number in wanted
    return [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in found]
