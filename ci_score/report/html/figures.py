"""A case's numbers → the geometry of its figures; templates draw it.

Bars stand in per cent of the width, so that text beside them is never stretched; long courses are
paths in a stretched square of UNITS. Every figure brings the sentence that says the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ci_score.model.explanation import OUTSIDE_PHASES, Explanation
from ci_score.model.metrics import metric_of
from ci_score.model.record import Judged
from ci_score.model.scorecard import Scorecard
from ci_score.model.sums import plain_sum
from ci_score.model.verdict import Change
from ci_score.report.badges import main_number
from ci_score.report.html.scale import UNITS, Scale, percent
from ci_score.report.numbers import common_places, delta_at, milliseconds
from ci_score.report.rows import LEAST_SHARE_OF_CHANGE, ROUNDING, PartRow, part_rows

# More segments could not be distinguished.
MOST_SEGMENTS = 8
# A number inside needs this share of a narrow screen.
LEAST_SHARE_WITH_NUMBER = 0.035
_HEAD = "this change"


# --- a change, its interval and its limits -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interval:
    """A change where right is worse: zones of the limits, the interval, the change itself."""

    zero: str
    at: str
    low: str | None
    width: str | None
    warn: str | None
    warn_width: str | None
    fail: str | None
    fail_width: str | None


def interval(change: Change) -> Interval | None:
    """The figure of a change; None if the change is not known."""
    if change.delta is None:
        return None
    metric = metric_of(change)
    at = metric.worsening(change.delta)
    ends = sorted(map(metric.worsening, _ends(change)))
    warn, fail = (change.warn_limit, change.fail_limit) if change.gated else (None, None)
    shown = [at, *ends, *(limit for limit in (warn, fail) if limit is not None)]
    largest = max(1e-9, *map(abs, shown))
    scale = Scale(min(at, *ends, -0.35 * largest) * 1.1, max(*shown, 0.35 * largest) * 1.1)
    end = scale.high
    low, width = scale.span(*ends) if ends else (None, None)
    warn_at, warn_width = _zone(scale, warn, end if fail is None else fail)
    fail_at, fail_width = _zone(scale, fail, end)
    return Interval(
        zero=scale.percent(0.0),
        at=scale.percent(at),
        low=low,
        width=width,
        warn=warn_at,
        warn_width=warn_width,
        fail=fail_at,
        fail_width=fail_width,
    )


def _ends(change: Change | None) -> tuple[float, ...]:
    """The ends of the change's interval; empty if they are not known."""
    if change is None or change.low is None or change.high is None:
        return ()
    return change.low, change.high


def _zone(scale: Scale, limit: float | None, end: float) -> tuple[str | None, str | None]:
    return (None, None) if limit is None else scale.span(limit, end)


# --- from base to head ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """A row of a waterfall; `kind` is `total`, `more` or `less`."""

    name: str
    base_ms: float | None
    head_ms: float | None
    change: str
    kind: str
    start: str
    width: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Bars that lead from the base's time to the head's; `starts_at` where the axis is cut."""

    steps: tuple[Step, ...]
    starts_at: str | None


def step_waterfall(explanation: Explanation) -> Waterfall:
    """The whole step; the changes of its parts sum to its change."""
    parts = [row for row in part_rows(explanation) if not row.is_sum]
    return _waterfall(parts, explanation.base_step_ms, explanation.head_step_ms)


def compute_waterfall(explanation: Explanation) -> Waterfall | None:
    """The waterfall inside compute, by kind of op; None if not known, or if no kind matters."""
    kinds = explanation.categories
    worth_a_row = LEAST_SHARE_OF_CHANGE * abs(explanation.delta_ms)
    if max((abs(part.delta_ms) for part in kinds), default=0.0) <= worth_a_row:
        return None
    parts = [
        PartRow(part.name or "other", part.base_ms, part.head_ms)
        for part in kinds
        if abs(part.delta_ms) > worth_a_row
    ]
    small = [part for part in kinds if abs(part.delta_ms) <= worth_a_row]
    # Less is an error of rounding.
    if plain_sum(abs(part.delta_ms) for part in small) > ROUNDING * explanation.head_step_ms:
        sides = (
            plain_sum(part.base_ms for part in small),
            plain_sum(part.head_ms for part in small),
        )
        parts.append(PartRow("all other kinds", *sides))
    base_ms = sum(part.base_ms for part in kinds)
    return _waterfall(parts, base_ms, sum(part.head_ms for part in kinds))


def _waterfall(parts: Sequence[PartRow], base_ms: float, head_ms: float) -> Waterfall:
    total = PartRow(_HEAD, base_ms, head_ms)
    places = common_places([*parts, total])
    levels = [base_ms]
    for part in parts:
        levels.append(levels[-1] + part.delta_ms)
    low, high = min(*levels, head_ms), max(*levels, head_ms)
    # Changes are small beside the step, so the axis begins where they become visible.
    cut = max(low - 1.2 * (high - low), 0.0) if high > low else low * 0.5
    scale = Scale(cut if cut > 0.15 * low else 0.0, high * 1.0 + (high - low) * 0.02)
    rows = [Step("base", base_ms, None, "", "total", "0%", scale.percent(base_ms))]
    for part, *ends in zip(parts, levels, levels[1:], strict=False):
        change = delta_at(part.delta_ms, places)
        kind = "more" if part.delta_ms > 0 else "less"
        start, width = scale.span(min(ends), max(ends))
        rows.append(Step(part.name, part.base_ms, part.head_ms, change, kind, start, width))
    change = delta_at(total.delta_ms, places)
    rows.append(Step(total.name, None, head_ms, change, "total", "0%", scale.percent(head_ms)))
    return Waterfall(tuple(rows), milliseconds(scale.low) if scale.low > 0 else None)


# --- what a step is made of ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar; the legend has its number, because not everybody can tell colours apart."""

    number: int
    start: str
    width: str
    middle: str
    numbered: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A side's bar."""

    side: str
    total: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Legend:
    """A legend line: what the number means, and the time on each side, in the order of the bars."""

    number: int
    name: str
    times: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Stack:
    """Bars of the same parts, one a side."""

    bars: tuple[Bar, ...]
    legend: tuple[Legend, ...]


def phase_stack(case: Judged) -> Stack | None:
    """The phases of the step, on both sides where both were taken apart by phases.

    On a CPU with the time between operators, so that they sum to the step.
    """
    if of_host := _sides(case, "host"):
        return _stack(of_host)
    sides = _sides(case, "phases")
    if not sides:
        return _stack([(_HEAD, case.phases)])
    name, phases = sides[-1]
    # The step of the profile: one that was measured without a profiler is another.
    rest_ms = case.timeline.rest_ms if case.timeline is not None else 0.0
    if len(sides) == 1 and phases and rest_ms > 0:
        sides = [(name, {**phases, OUTSIDE_PHASES: rest_ms})]
    return _stack(sides)


def device_stack(case: Judged) -> Stack | None:
    """What the device did, and why it was idle; None if no profile has that."""
    sides = _sides(case, "device")
    return _stack(sides) if sides else None


def _sides(case: Judged, basis: str) -> list[tuple[str, Mapping[str, float]]]:
    """The step in parts of one kind: of both sides, of the head alone, or an empty list."""
    explanation, timeline = case.explanation, case.timeline
    if explanation is not None and explanation.basis == basis:
        return [
            ("base", {part.name: part.base_ms for part in explanation.parts}),
            (_HEAD, {part.name: part.head_ms for part in explanation.parts}),
        ]
    if timeline is not None and timeline.basis == basis:
        return [(_HEAD, dict(timeline.parts))]
    return []


def _stack(sides: Sequence[tuple[str, Mapping[str, float]]]) -> Stack | None:
    largest = {name: max(parts.get(name, 0.0) for _, parts in sides) for name in sides[-1][1]}
    names = [name for name, ms in largest.items() if ms > 0]
    if not names:
        return None
    by_size = sorted(names, key=lambda name: -largest[name])
    kept = by_size[: MOST_SEGMENTS - 1]
    groups = [[name] for name in names if name in kept]
    if small := [name for name in names if name not in kept]:
        groups.append(small)
    times = [
        [sum(max(parts.get(name, 0.0), 0.0) for name in group) for group in groups]
        for _, parts in sides
    ]
    scale = Scale(0.0, max(map(sum, times)))
    labels = [group[0] if len(group) == 1 else f"{len(group)} others" for group in groups]
    legend = zip(range(1, len(groups) + 1), labels, zip(*times, strict=True), strict=True)
    bars = (_bar(side, ms, scale) for (side, _), ms in zip(sides, times, strict=True))
    return Stack(tuple(bars), tuple(Legend(*row) for row in legend))


def _bar(side: str, times: Sequence[float], scale: Scale) -> Bar:
    segments, start = [], 0.0
    for number, time in enumerate(times, start=1):
        share = scale.share(start + time) - scale.share(start)
        if time > 0:
            segments.append(
                Segment(
                    number,
                    scale.percent(start),
                    percent(share),
                    percent(scale.share(start) + share / 2),
                    share >= LEAST_SHARE_WITH_NUMBER,
                )
            )
        start += time
    return Bar(side, milliseconds(sum(times)), tuple(segments))


# --- layers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """A label and its place."""

    at: str
    label: str


@dataclass(frozen=True, slots=True)
class Layers:
    """Forward above the axis, backward below it: two paths, because models have many layers."""

    forward: str
    backward: str
    axis: int
    ticks: tuple[Tick, ...]
    summary: str


def layer_bars(card: Scorecard, word: str = "layer") -> Layers | None:
    """The figure of the layers, each called by this word; None if no layer was measured."""
    layers = card.per_layer_summary
    most_forward = max((layer.fwd_ms for layer in layers), default=0.0)
    most_backward = max((layer.bwd_ms for layer in layers), default=0.0)
    if most_forward + most_backward <= 0:
        return None
    axis = round(UNITS * most_forward / (most_forward + most_backward))
    height = Scale(0.0, most_forward + most_backward)
    edges = [round(place * UNITS / len(layers)) for place in range(len(layers) + 1)]
    gap = min(max(round(UNITS / len(layers) * 0.2), 1), 12)
    forward, backward = [], []
    for place, layer in enumerate(layers):
        start, width = edges[place], edges[place + 1] - edges[place] - gap
        up, down = height.units(layer.fwd_ms), height.units(layer.bwd_ms)
        forward.append(f"M{start} {axis}v-{up}h{width}v{up}z")
        backward.append(f"M{start} {axis}v{down}h{width}v-{down}z")
    slowest = max(layers, key=lambda layer: layer.fwd_ms + layer.bwd_ms)
    between = max(len(layers) // 8, 1)
    counted = f"{len(layers)} {word}s" if len(layers) > 1 else f"One {word}"
    return Layers(
        "".join(forward),
        "".join(backward),
        axis,
        tuple(
            Tick(percent((place + 0.5) / len(layers)), str(layers[place].layer))
            for place in range(0, len(layers), between)
        ),
        f"{counted}. Forward takes up to {milliseconds(most_forward)}, backward up"
        f" to {milliseconds(most_backward)}; the slowest is {word} {slowest.layer} with"
        f" {milliseconds(slowest.fwd_ms + slowest.bwd_ms)}.",
    )


# --- times in tables -----------------------------------------------------------------------------


def throughput_or_time(card: Scorecard) -> str:
    """The main number of a case, for a line."""
    return main_number(card) or "–"
