"""A case → the table of its layers by phase, with what is outside of all layers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from ci_score.model.explanation import OUTSIDE_PHASES
from ci_score.model.lists import listed, plural
from ci_score.model.record import Judged
from ci_score.report.html.shades import ShadedTable, shaded_rows, sums_of
from ci_score.report.joined_ops import JoinedOp, JoinedOps, Sides, joined_ops
from ci_score.report.numbers import delta_milliseconds, milliseconds
from ci_score.report.rows import layer_word

# Smaller phases and layers that changed less are left out, and counted.
MOST_PHASES, MOST_LAYERS = 8, 500
OUTSIDE = "outside"
OUTSIDE_LAYERS = "outside all layers"
WHOLE_STEP = "the whole step"
USUAL_PHASES = ("forward", "backward", "optimizer")
# Layers that changed by so much of what the one did that changed most are named with it.
NAMED_FROM = 0.3
# Nothing is named as grown where no layer changed by more than this share of the largest one.
CHANGED_FROM = 0.02
MOST_RANGES = 4
# Less of an op outside of all places is an error of rounding.
ROUNDING = 0.01
LEFT_OUT_FROM = 0.01

Key = TypeVar("Key", bound=Hashable)
# What a layer takes in a phase; None is what no layer holds.
Grid = dict[tuple[str, int | None], Sides]


def layer_table(
    case: Judged, joined: JoinedOps | None = None, most: int = MOST_LAYERS
) -> ShadedTable | None:
    """The table of both sides; None if either does not tell its layers."""
    known = joined or joined_ops(case)
    grid = of_ops = _grouped(_works(known.ops)) if known.has_base else {}
    # Forward and backward tell more than the sum of both.
    if not any(layer is not None and phase != WHOLE_STEP for phase, layer in of_ops):
        grid = dict(_works_of_sums(case)) or of_ops
    layers = sorted({layer for _, layer in grid if layer is not None})
    if not layers:
        return None
    word = layer_word(case.layers_are)
    of_phases = _grouped((phase, sides) for (phase, _), sides in grid.items())
    phases = _in_order(of_phases, case.phases)
    lines = [None, *layers] if any(layer is None for _, layer in grid) else layers
    rows = shaded_rows(
        {
            OUTSIDE if layer is None else str(layer): [
                grid.get((phase, layer), Sides(None, None)) for phase in phases
            ]
            for layer in lines
        },
        most,
    )
    notes = [
        _left_out(known.ops) if grid is of_ops else "",
        _fewer(len(lines) - len(rows), f"more {word}", "changed less"),
        _fewer(len(of_phases) - len(phases), "more phase", "took less"),
    ]
    return ShadedTable(
        sentence=_sentence(word, grid, layers),
        caption=f"Each cell: by how many ms a {word} changed in a phase, and below that its time in"
        " the base and now. Without a colour, it hardly changed.",
        notes=[note for note in notes if note],
        heads=(word.capitalize(), *phases),
        rows=rows,
        sums=sums_of([of_phases[phase] for phase in phases]),
    )


# --- what each layer takes in each phase ----------------------------------------------------------


def _works(ops: Sequence[JoinedOp]) -> Iterator[tuple[tuple[str, int | None], Sides]]:
    """The places of all ops whose times both sides tell, and what is outside of them."""
    known = [op for op in ops if op.sides.delta_ms is not None]
    has_phases = any(place.phase for op in known for place in op.places)
    for op in known:
        for place, sides in op.places.items():
            yield (place.phase or place.direction or WHOLE_STEP, place.layer), sides
        rest = _without(op.sides, op.places.values())
        if _size(rest):
            yield (OUTSIDE_PHASES if has_phases else OUTSIDE_LAYERS, None), rest


def _works_of_sums(case: Judged) -> Iterator[tuple[tuple[str, int | None], Sides]]:
    """Forward and backward of each layer that both sides have, where ops are not told by layer."""
    base = case.base
    if base is None:
        return
    times = zip(base.forward_ms, base.backward_ms, strict=True)
    before = dict(zip(base.layers, times, strict=True))
    inside = []
    for layer in case.scorecard.per_layer_summary:
        if layer.layer in before:
            now = ("forward", layer.fwd_ms), ("backward", layer.bwd_ms)
            for base_ms, (phase, head_ms) in zip(before[layer.layer], now, strict=True):
                if base_ms or head_ms:
                    inside.append(Sides(base_ms, head_ms))
                    yield (phase, layer.layer), inside[-1]
    if inside and case.step_ops.names and base.step_ops.names:
        whole = Sides(base.step_ops.in_all_ms, case.step_ops.in_all_ms)
        rest = _without(whole, inside)
        if _size(rest):
            yield (OUTSIDE_LAYERS, None), rest


def _without(whole: Sides, parts: Iterable[Sides]) -> Sides:
    """What is outside of all parts; four digits leave an error of rounding."""
    inside, least = _sum(parts), ROUNDING * _size(whole)
    base = (whole.base_ms or 0.0) - (inside.base_ms or 0.0)
    head = (whole.head_ms or 0.0) - (inside.head_ms or 0.0)
    return Sides(base if base > least else 0.0, head if head > least else 0.0)


def _left_out(ops: Sequence[JoinedOp]) -> str:
    """A note where ops that one side alone has kept hold some of the time."""
    alone = sum(_size(op.sides) for op in ops if op.sides.delta_ms is None)
    if alone < LEFT_OUT_FROM * sum(_size(op.sides) for op in ops):
        return ""
    return f"Without {milliseconds(alone)} of ops that only one side has kept."


def _fewer(count: int, word: str, why: str) -> str:
    return f"{plural(count, word)} {why}." if count > 0 else ""


def _in_order(of_phases: dict[str, Sides], told: Iterable[str]) -> list[str]:
    """The largest phases, as every step runs through them; what is outside of all comes last."""
    kept = sorted(of_phases, key=lambda phase: -_size(of_phases[phase]))[:MOST_PHASES]
    order = dict.fromkeys((*USUAL_PHASES, *told, *kept))
    return sorted((phase for phase in order if phase in kept), key=_is_outside)


def _is_outside(phase: str) -> bool:
    return phase in (OUTSIDE_PHASES, OUTSIDE_LAYERS)


def _grouped(parts: Iterable[tuple[Key, Sides]]) -> dict[Key, Sides]:
    """The sum of each key's times. There may be tens of thousands of parts."""
    sums: dict[Key, list[float]] = {}
    for key, sides in parts:
        both = sums.setdefault(key, [0.0, 0.0])
        both[0] += sides.base_ms or 0.0
        both[1] += sides.head_ms or 0.0
    return {key: Sides(*both) for key, both in sums.items()}


def _sum(parts: Iterable[Sides]) -> Sides:
    return _grouped((None, sides) for sides in parts).get(None, Sides(0.0, 0.0))


def _size(sides: Sides) -> float:
    return max(sides.base_ms or 0.0, sides.head_ms or 0.0)


def _delta(sides: Sides) -> float:
    return sides.delta_ms or 0.0


# --- said -----------------------------------------------------------------------------------------


def _sentence(word: str, grid: Grid, layers: Sequence[int]) -> str:
    """Which layers changed most, in which phase; and what is outside of them, if that did more."""
    of_layers = _grouped((layer, sides) for (_, layer), sides in grid.items() if layer is not None)
    outside = {phase: sides for (phase, layer), sides in grid.items() if layer is None}
    most = max(map(_delta, of_layers.values()), key=abs)
    said, told = [], 0.0
    if abs(most) > CHANGED_FROM * max(map(_size, of_layers.values())):
        sign = 1 if most > 0 else -1
        named = {
            n for n, sides in of_layers.items() if sign * _delta(sides) >= NAMED_FROM * abs(most)
        }
        of_named = _grouped((at, sides) for (at, n), sides in grid.items() if n in named)
        phase = max(of_named, key=lambda phase: sign * _delta(of_named[phase]))
        told = _delta(of_named[phase])
        said.append(
            _changed(_who(word, named, layers), told, phase, is_all=len(named) == len(layers))
        )
    beside = max(outside, key=lambda phase: abs(_delta(outside[phase])), default="")
    of_beside = outside.get(beside, Sides(0.0, 0.0))
    if abs(_delta(of_beside)) > max(abs(told), CHANGED_FROM * _size(of_beside)):
        said.insert(0, _changed(f"What is outside the {word}s", _delta(of_beside), beside))
    return " ".join(said) or f"No {word} changed by more than 2 %."


def _changed(who: str, delta: float, phase: str, *, is_all: bool = False) -> str:
    """`Layers 12–15 grew most: +3.12 ms in the backward.`"""
    how = "grew most", "shrank most", "take longer", "take less time"
    where = "" if _is_outside(phase) else f" in {phase}" if " " in phase else f" in the {phase}"
    return f"{who} {how[2 * is_all + (delta < 0)]}: {delta_milliseconds(delta)}{where}."


def _who(word: str, named: set[int], layers: Sequence[int]) -> str:
    """`Layers 12–15 and 20`"""
    found = ranges(named, layers)
    if len(layers) > 1 and len(named) == len(layers):
        return f"All {len(layers)} {word}s"
    if len(found) > MOST_RANGES:
        return f"{len(named)} of {len(layers)} {word}s"
    return f"{word.capitalize()}{'s' if len(named) > 1 else ''} {listed(found)}"


def ranges(numbers: set[int], known: Sequence[int]) -> list[str]:
    """`12–15`: numbers that follow each other in all that are known are one range."""
    places = [place for place, number in enumerate(known) if number in numbers]
    runs = groupby(enumerate(places), key=lambda each: each[1] - each[0])
    found = [[known[place] for _, place in run] for _, run in runs]
    return [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in found]
