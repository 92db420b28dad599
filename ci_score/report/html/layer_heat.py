"""A case → the map of its change by layer and phase, with what is outside of all layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ci_score.model.explanation import OUTSIDE_PHASES
from ci_score.model.record import Judged
from ci_score.report.html.heat import (
    MOST_WITH_NUMBERS,
    Cell,
    Columns,
    Hover,
    Lane,
    Map,
    Row,
    Table,
    Tick,
    mark_of,
    ranges,
    strip,
)
from ci_score.report.html.scale import percent
from ci_score.report.html.shades import shade
from ci_score.report.joined_ops import JoinedOp, JoinedOps, Sides, joined_ops
from ci_score.report.numbers import common_places, delta_at, milliseconds
from ci_score.report.rows import layer_word

# Of more layers several share a column; of more phases the small ones share a lane.
MOST_COLUMNS, MOST_PHASES = 256, 8
OUTSIDE_LAYERS = "outside all layers"
WHOLE_STEP = "the whole step"
USUAL_PHASES = ("forward", "backward", "optimizer")
# How wide the place outside of all layers is, and where the layers end beside it.
_OUTSIDE_FROM, _LAYERS_TO = 0.915, 0.895
# A cell that changed by a smaller share of its own time is never a dark one.
_DARK_FROM = 0.05
# Nor does one stand out that changed by less than two runs of the same program differ.
_NOISE = 0.01
# Layers that changed by so much of what the one did that changed most are named with it.
_NAMED_FROM = 0.3
# Nothing is named as grown where no cell changed by more than this share of the largest one.
_CHANGED_FROM = 0.02
_MOST_RANGES = 4
_NOTHING_MS = 0.001
_LEFT_OUT_FROM = 0.01
_HEIGHT = 26

Grid = dict[str, dict[int | None, Sides]]


def layer_map(
    case: Judged, joined: JoinedOps | None = None, head_word: str = "This run"
) -> Map | None:
    """The map of both sides; None if either does not tell its layers."""
    if case.base is None:
        return None
    known = joined or joined_ops(case)
    grid = of_ops = _of_ops(known.ops) if known.has_base else {}
    # Forward and backward tell more than the sum of both.
    if not any(_layers({row: cells}) for row, cells in grid.items() if row != WHOLE_STEP):
        grid = _of_sums(case) or grid
    layers = _layers(grid)
    if not layers:
        return None
    few = _few_phases(_in_order(grid, tuple(case.phases)))
    drawing = _drawing(few, layers, layer_word(case.layers_are), has_ops=grid is of_ops)
    left_out = _left_out(known.ops) if grid is of_ops else ()
    return _drawn(drawing, few, left_out, head_word)


# --- what each layer takes in each phase ----------------------------------------------------------


def _of_ops(ops: Sequence[JoinedOp]) -> Grid:
    """The sums over all ops whose times both sides tell."""
    known = [op for op in ops if op.sides.delta_ms is not None]
    has_phases = any(place.phase for op in known for place in op.places)
    outside = OUTSIDE_PHASES if has_phases else OUTSIDE_LAYERS
    # There may be tens of thousands of places of ops, and few hundred of layers.
    sums: dict[tuple[str, int | None], list[float]] = {}
    for op in known:
        for place, sides in op.places.items():
            row = place.phase or place.direction or WHOLE_STEP
            both = sums.setdefault((row, place.layer), [0.0, 0.0])
            both[0] += sides.base_ms or 0.0
            both[1] += sides.head_ms or 0.0
    grid: Grid = {}
    for (row, layer), (base_ms, head_ms) in sums.items():
        grid.setdefault(row, {})[layer] = Sides(base_ms, head_ms)
    for op in known:
        rest = _without(op.sides, op.places.values())
        if max(_both(rest)) > 0:
            _add(grid, outside, None, rest)
    return grid


def _left_out(ops: Sequence[JoinedOp]) -> Sequence[str]:
    """A note where ops that one side alone has kept hold some of the time."""
    alone = [max(_both(op.sides)) for op in ops if op.sides.delta_ms is None]
    if sum(alone) < _LEFT_OUT_FROM * sum(max(_both(op.sides)) for op in ops):
        return ()
    return (f"Without {milliseconds(sum(alone))} of ops that only one side has kept.",)


def _without(whole: Sides, parts: Iterable[Sides]) -> Sides:
    """What an op takes outside of all places; four digits leave an error of rounding."""
    known = list(parts)
    base = (whole.base_ms or 0.0) - sum(part.base_ms or 0.0 for part in known)
    head = (whole.head_ms or 0.0) - sum(part.head_ms or 0.0 for part in known)
    least = 0.01 * max(whole.base_ms or 0.0, whole.head_ms or 0.0)
    return Sides(base if base > least else 0.0, head if head > least else 0.0)


def _add(grid: Grid, row: str, layer: int | None, more: Sides) -> None:
    cells = grid.setdefault(row, {})
    known = cells.get(layer, Sides(0.0, 0.0))
    cells[layer] = Sides(
        (known.base_ms or 0.0) + (more.base_ms or 0.0),
        (known.head_ms or 0.0) + (more.head_ms or 0.0),
    )


def _of_sums(case: Judged) -> Grid:
    """Forward and backward of each layer that both sides have, where ops are not told by layer."""
    base = case.base
    if base is None:
        return {}
    times = zip(base.forward_ms, base.backward_ms, strict=True)
    before = dict(zip(base.layers, times, strict=True))
    grid: Grid = {}
    for layer in case.scorecard.per_layer_summary:
        if layer.layer in before:
            forward, backward = before[layer.layer]
            _add(grid, "forward", layer.layer, Sides(forward, layer.fwd_ms))
            _add(grid, "backward", layer.layer, Sides(backward, layer.bwd_ms))
    known = {row: cells for row, cells in grid.items() if _largest_time(cells.values()) > 0}
    if known and case.step_ops.names and base.step_ops.names:
        whole = Sides(base.step_ops.in_all_ms, case.step_ops.in_all_ms)
        rest = _without(whole, [sides for cells in known.values() for sides in cells.values()])
        if max(_both(rest)) > 0:
            known[OUTSIDE_LAYERS] = {None: rest}
    return known


def _layers(grid: Grid) -> list[int]:
    return sorted({layer for cells in grid.values() for layer in cells if layer is not None})


def _in_order(grid: Grid, phases: Sequence[str]) -> Grid:
    """Those that every step has as it runs through them, then the others, the largest first."""
    known = dict.fromkeys((*USUAL_PHASES, *phases, *grid))
    outside = [row for row in (OUTSIDE_PHASES, OUTSIDE_LAYERS) if row in grid]
    rows = [row for row in known if row in grid and row not in outside]
    return {row: grid[row] for row in (*rows, *outside)}


def _few_phases(grid: Grid) -> Grid:
    """The large phases as they are, and the others as one."""
    if len(grid) <= MOST_PHASES:
        return grid
    size = {row: sum(max(_both(sides)) for sides in cells.values()) for row, cells in grid.items()}
    kept = set(sorted(size, key=lambda row: (-size[row], row))[: MOST_PHASES - 1])
    few = {row: cells for row, cells in grid.items() if row in kept}
    others = f"{len(grid) - len(few)} other phases"
    for row, cells in grid.items():
        for layer, sides in cells.items() if row not in kept else ():
            _add(few, others, layer, sides)
    return few


def _both(sides: Sides) -> tuple[float, float]:
    return sides.base_ms or 0.0, sides.head_ms or 0.0


def _delta(sides: Sides | None) -> float:
    return (sides.delta_ms or 0.0) if sides else 0.0


def _largest_time(cells: Iterable[Sides]) -> float:
    return max((max(_both(sides)) for sides in cells), default=0.0)


# --- drawn ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """A cell with what it is called, and the layer alone that it stands for: "" is outside."""

    cell: Cell
    name: str
    sides: Sides
    layer: str | None


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What every lane of a map has in common."""

    word: str
    # Whether the ops of a layer are known, so that they can be drawn alone.
    has_ops: bool
    layers: Sequence[int]
    columns: Columns
    # The layers of each column, and its label.
    groups: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]
    largest: float
    # Decimals of the changes of cells, and of their sums.
    places: int | None
    sum_places: int | None

    def shade(self, sides: Sides) -> str:
        own = max(_both(sides))
        return shade(_delta(sides), max(self.largest, _DARK_FROM * own), _NOISE * own)

    def cell(self, start: float, end: float, sides: Sides) -> Cell:
        sign = mark_of(Cell(start, end, self.shade(sides)))
        number = self.numbers(sides)[2].removesuffix(" ms")
        has_room = len(self.groups) <= MOST_WITH_NUMBERS and start < _OUTSIDE_FROM
        text = f"{sign} {number}" if has_room and sign else sign
        return Cell(start, end, self.shade(sides), text)

    def sum(self, cells: Iterable[Sides]) -> str:
        """By how much several cells changed together."""
        return _change_words(_delta(_sum(cells)), self.sum_places)

    def numbers(self, sides: Sides) -> tuple[str, str, str]:
        base, head = _both(sides)
        return milliseconds(base), milliseconds(head), _change_words(_delta(sides), self.places)

    def hover(self, place: _Place) -> Hover:
        base, head, change = self.numbers(place.sides)
        cell, title = place.cell, f"{place.name}: {base} → {head} ({change})"
        chosen = place.layer if self.has_ops else None
        return Hover(percent(cell.start), percent(cell.end - cell.start), title, chosen)


def _change_words(delta: float, places: int | None) -> str:
    """A change with as many decimals as the others; nothing is a plain 0."""
    return "0 ms" if places is None and abs(delta) < _NOTHING_MS else delta_at(delta, places)


def _drawing(grid: Grid, layers: Sequence[int], word: str, *, has_ops: bool) -> _Drawing:
    inner = [sides for row in grid.values() for layer, sides in row.items() if layer is not None]
    largest = max(
        *(abs(_delta(sides)) for sides in inner), _DARK_FROM * _largest_time(inner), 1e-12
    )
    size = -(-len(layers) // MOST_COLUMNS)
    groups = [tuple(layers[start : start + size]) for start in range(0, len(layers), size)]
    labels = [str(group[0]) if size == 1 else f"{group[0]}–{group[-1]}" for group in groups]
    is_beside = any(None in cells and len(cells) > 1 for cells in grid.values())
    every = [sides for row in grid.values() for sides in row.values()]
    return _Drawing(
        word,
        has_ops,
        layers,
        Columns(len(groups), _LAYERS_TO if is_beside else 1.0),
        tuple(groups),
        tuple(labels),
        largest,
        common_places(_Change(_delta(sides)) for sides in every),
        common_places(_Change(_delta(_sum(cells.values()))) for cells in grid.values()),
    )


def _drawn(drawing: _Drawing, grid: Grid, notes: Sequence[str], head_word: str) -> Map:
    is_beside = drawing.columns.share < 1.0
    outside = (Tick("100%", "outside", "end"),) if is_beside else ()
    return Map(
        sentence=_sentence(drawing, grid, drawing.layers),
        key=f"Each column is a {drawing.word}, and colour its change in ms: ▲ or hatched \\ takes"
        " longer, ▼ or hatched / less, grey hardly changed.",
        notes=tuple(notes),
        lanes=tuple(_lane(drawing, row, cells) for row, cells in grid.items()),
        ticks=(*drawing.columns.ticks(drawing.labels), *outside),
        marked=None,
        has_sides=False,
        table=_table(drawing, grid, head_word),
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """What decides about the decimals."""

    delta_ms: float


def _lane(drawing: _Drawing, row: str, cells: Mapping[int | None, Sides]) -> Lane:
    note = drawing.sum(cells.values())
    if not any(layer is not None for layer in cells):
        cell = drawing.cell(0.0, 1.0, cells[None])
        name = row if row.startswith("outside") else f"{row}, outside the {drawing.word}s"
        hover = drawing.hover(_Place(cell, name, cells[None], ""))
        return Lane(name, note, _HEIGHT, (strip([cell], "", 0, _HEIGHT),), (hover,))
    places = list(_places(drawing, row, cells))
    drawn = strip([place.cell for place in places], "", 0, _HEIGHT)
    return Lane(row, note, _HEIGHT, (drawn,), tuple(map(drawing.hover, places)))


def _places(drawing: _Drawing, row: str, cells: Mapping[int | None, Sides]) -> Iterator[_Place]:
    """Each column of a lane with what it is called; and what is outside of the layers."""
    for place, (group, label) in enumerate(zip(drawing.groups, drawing.labels, strict=True)):
        sides = _sum(cells[layer] for layer in group if layer in cells)
        cell = drawing.cell(*drawing.columns.edges(place), sides)
        alone = label if len(group) == 1 else None
        yield _Place(cell, _called(drawing, label, row), sides, alone)
    if None in cells:
        where = f"outside the {drawing.word}s, {row}"
        cell = drawing.cell(_OUTSIDE_FROM, 1.0, cells[None])
        yield _Place(cell, where, cells[None], "")


def _called(drawing: _Drawing, label: str, row: str) -> str:
    return f"{drawing.word}{'s' if '–' in label else ''} {label}, {row}"


def _sum(cells: Iterable[Sides]) -> Sides:
    known = list(cells)
    return Sides(sum(_both(each)[0] for each in known), sum(_both(each)[1] for each in known))


def _table(drawing: _Drawing, grid: Grid, head_word: str) -> Table:
    rows = [
        Row((label, row, *drawing.numbers(_sum(cells[layer] for layer in group if layer in cells))))
        for row, cells in grid.items()
        for group, label in zip(drawing.groups, drawing.labels, strict=True)
        if any(layer in cells for layer in group)
    ]
    rows += [
        Row(("outside", row, *drawing.numbers(cells[None])))
        for row, cells in grid.items()
        if None in cells
    ]
    return Table(
        f"Kernel time of each {drawing.word} in each phase of a step",
        (drawing.word.capitalize(), "Phase", "Base", head_word, "Δ"),
        2,
        tuple(rows),
    )


# --- said -----------------------------------------------------------------------------------------


def _sentence(drawing: _Drawing, grid: Grid, layers: Sequence[int]) -> str:
    """Which layers changed most, in which phase; and what is outside of them, if that did more."""
    of_layer = {
        layer: _sum(row[layer] for row in grid.values() if layer in row) for layer in layers
    }
    outside = {row: cells[None] for row, cells in grid.items() if None in cells}
    said = []
    most = max(of_layer.values(), key=lambda sides: abs(_delta(sides)))
    named: list[int] = []
    if abs(_delta(most)) > _CHANGED_FROM * _largest_time(of_layer.values()):
        sign = 1 if _delta(most) > 0 else -1
        least = _NAMED_FROM * abs(_delta(most))
        named = [layer for layer in layers if sign * _delta(of_layer[layer]) >= least]
        said.append(_of_layers(drawing, grid, named, layers, sign))
    beside = max(outside, key=lambda row: abs(_delta(outside[row])), default=None)
    of_named = _delta(_sum(of_layer[layer] for layer in named))
    if beside is not None and abs(_delta(outside[beside])) > max(
        abs(of_named), _CHANGED_FROM * max(_both(outside[beside]))
    ):
        said.insert(0, _of_outside(drawing, beside, outside[beside]))
    if not said:
        return f"No {drawing.word} changed by more than 2 %."
    return ". ".join(said) + "."


def _of_layers(
    drawing: _Drawing, grid: Grid, named: Sequence[int], layers: Sequence[int], sign: int
) -> str:
    """`Layers 12–15 grew most: +3.1 ms in the backward`."""
    by_row = {
        row: _sum(cells[layer] for layer in named if layer in cells) for row, cells in grid.items()
    }
    order = sorted(by_row, key=lambda row: -sign * _delta(by_row[row]))
    told = [
        f"{drawing.sum([by_row[row]])} {_in(row)}"
        for row in order[:2]
        if sign * _delta(by_row[row]) > _NAMED_FROM * sign * _delta(by_row[order[0]])
    ]
    return f"{_who(drawing.word, named, layers)} {_how(sign, len(named), layers)}: " + " and ".join(
        told
    )


def _who(word: str, named: Sequence[int], layers: Sequence[int]) -> str:
    found = ranges(named, layers)
    if len(layers) > 1 and len(named) == len(layers):
        return f"All {len(layers)} {word}s"
    if len(found) > _MOST_RANGES:
        return f"{len(named)} of {len(layers)} {word}s"
    many = "s" if len(named) > 1 else ""
    listed = found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
    return f"{word.capitalize()}{many} {listed}"


def _how(sign: int, named: int, layers: Sequence[int]) -> str:
    if named == len(layers):
        return "take longer" if sign > 0 else "take less time"
    return "grew most" if sign > 0 else "shrank most"


def _in(row: str) -> str:
    if row.startswith("outside"):
        return row
    return f"in {row}" if " " in row else f"in the {row}"


def _of_outside(drawing: _Drawing, row: str, sides: Sides) -> str:
    how = "grew" if _delta(sides) > 0 else "shrank"
    where = "" if row in (OUTSIDE_PHASES, OUTSIDE_LAYERS) else f" {_in(row)}"
    change = drawing.sum([sides])
    return f"What is outside the {drawing.word}s {how} most: {change}{where}"
