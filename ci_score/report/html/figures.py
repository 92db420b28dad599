"""A case's numbers → the geometry of its figures; templates draw it.

Bars stand in per cent of the width, so that text beside them is never stretched; long courses are
paths in a stretched square of UNITS. Every figure brings the sentence that says the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci_score.model.explanation import Explanation, Part
from ci_score.model.metrics import Metric, metric_named, metric_of, significant
from ci_score.model.record import CaseRecord
from ci_score.model.scorecard import Parity, Scorecard
from ci_score.model.verdict import Change
from ci_score.report.html.scale import UNITS, Scale, around, percent
from ci_score.report.rows import PartRow, part_rows
from ci_score.report.words import common_places, delta_at, milliseconds

# More segments cannot be told apart.
MOST_SEGMENTS = 8
# A number inside needs this share of a narrow screen.
LEAST_SHARE_WITH_NUMBER = 0.035
MOST_PAIRS = 400


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
    """None where the change is not known."""
    if change.delta is None:
        return None
    metric = metric_of(change)
    at = metric.worsening(change.delta)
    ends: list[float] = []
    if change.low is not None and change.high is not None:
        ends = sorted(metric.worsening(end) for end in (change.low, change.high))
    warn = change.warn_limit if change.gated else None
    fail = change.fail_limit if change.gated else None
    limits = [limit for limit in (warn, fail) if limit is not None]
    largest = max(abs(value) for value in (at, *ends, *limits, 1e-9))
    low = min(at, *ends, -0.35 * largest)
    scale = Scale(low * 1.1, max(at, *ends, *limits, 0.35 * largest) * 1.1)
    end = scale.high
    return Interval(
        zero=scale.percent(0.0),
        at=scale.percent(at),
        low=scale.percent(ends[0]) if ends else None,
        width=_width(scale, ends[0], ends[1]) if ends else None,
        warn=None if warn is None else scale.percent(warn),
        warn_width=None if warn is None else _width(scale, warn, end if fail is None else fail),
        fail=None if fail is None else scale.percent(fail),
        fail_width=None if fail is None else _width(scale, fail, end),
    )


def _width(scale: Scale, start: float, end: float) -> str:
    return percent(max(scale.share(end) - scale.share(start), 0.0))


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


def step_waterfall(found: Explanation) -> Waterfall:
    """The whole step; the changes of its parts sum to its change."""
    parts = [row for row in part_rows(found) if not row.is_sum]
    return _waterfall(parts, found.base_step_ms, found.head_step_ms)


def compute_waterfall(found: Explanation) -> Waterfall | None:
    """Inside compute, by kind of op; None where that is not known."""
    if not found.categories:
        return None
    parts = [_row(part) for part in found.categories if part.delta_ms]
    totals = [sum(getattr(part, side) for part in found.categories) for side in _SIDES]
    return _waterfall(parts, totals[0], totals[1])


_SIDES = ("base_ms", "head_ms")


def _row(part: Part) -> PartRow:
    return PartRow(part.name or "other", part.base_ms, part.head_ms)


def _waterfall(parts: Sequence[PartRow], base_ms: float, head_ms: float) -> Waterfall:
    total = PartRow("this change", base_ms, head_ms)
    places = common_places([*parts, total])
    levels = [base_ms]
    for part in parts:
        levels.append(levels[-1] + part.delta_ms)
    low, high = min(*levels, head_ms), max(*levels, head_ms)
    # Changes are small beside the step: the axis begins where they can be seen.
    cut = max(low - 1.2 * (high - low), 0.0) if high > low else low * 0.5
    scale = Scale(cut if cut > 0.15 * low else 0.0, high * 1.0 + (high - low) * 0.02)
    rows = [_total("base", base_ms, scale)]
    for part, before, after in zip(parts, levels, levels[1:], strict=False):
        first, last = min(before, after), max(before, after)
        rows.append(
            Step(
                part.name,
                part.base_ms,
                part.head_ms,
                delta_at(part.delta_ms, places),
                "more" if part.delta_ms > 0 else "less",
                scale.percent(first),
                _width(scale, first, last),
            )
        )
    rows.append(_total(total.name, head_ms, scale, delta_at(total.delta_ms, places)))
    return Waterfall(tuple(rows), milliseconds(scale.low) if scale.low > 0 else None)


def _total(name: str, value: float, scale: Scale, change: str = "") -> Step:
    is_base = not change
    return Step(
        name,
        value if is_base else None,
        None if is_base else value,
        change,
        "total",
        "0%",
        scale.percent(value),
    )


# --- what a step is made of ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar; its number stands in the legend, because colours are not for everybody."""

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
    """What a number means, with the time on each side, as the bars stand."""

    number: int
    name: str
    times: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Stack:
    """Bars of the same parts, one a side."""

    bars: tuple[Bar, ...]
    legend: tuple[Legend, ...]


def phase_stack(case: CaseRecord) -> Stack | None:
    """The phases of the step, on both sides where both were taken apart by phases."""
    found = case.explanation
    if found is not None and found.basis == "phases":
        return _both_sides(found)
    phases = {name: ms for name, ms in case.phases.items() if ms > 0}
    if case.timeline is not None and case.timeline.basis == "phases":
        phases = dict(case.timeline.parts)
    rest_ms = case.scorecard.step_time_ms - sum(phases.values())
    if phases and rest_ms > 0 and case.timeline is not None and case.timeline.basis == "phases":
        phases["outside all phases"] = rest_ms
    return _stack([("this change", phases)]) if phases else None


def device_stack(case: CaseRecord) -> Stack | None:
    """What the device did, and why it did nothing; None where no profile tells."""
    found = case.explanation
    if found is not None and found.basis == "device":
        return _both_sides(found)
    if case.timeline is None or case.timeline.basis != "device":
        return None
    return _stack([("this change", dict(case.timeline.parts))])


def _both_sides(found: Explanation) -> Stack | None:
    sides = [
        ("base", {part.name: part.base_ms for part in found.parts}),
        ("this change", {part.name: part.head_ms for part in found.parts}),
    ]
    return _stack(sides)


def _stack(sides: Sequence[tuple[str, Mapping[str, float]]]) -> Stack | None:
    names = [name for name in sides[-1][1] if any(parts.get(name, 0.0) > 0 for _, parts in sides)]
    if not names:
        return None
    by_size = sorted(names, key=lambda name: -max(parts.get(name, 0.0) for _, parts in sides))
    kept = [name for name in names if name in by_size[: MOST_SEGMENTS - 1]]
    small = [name for name in names if name not in kept]
    rows = [(name, tuple(max(parts.get(name, 0.0), 0.0) for _, parts in sides)) for name in kept]
    if small:
        others = tuple(sum(max(parts.get(name, 0.0), 0.0) for name in small) for _, parts in sides)
        rows.append((small[0] if len(small) == 1 else f"{len(small)} others", others))
    widest = max(sum(times[place] for _, times in rows) for place in range(len(sides)))
    scale = Scale(0.0, widest)
    bars = [
        _bar(side, [times[place] for _, times in rows], scale)
        for place, (side, _) in enumerate(sides)
    ]
    legend = [Legend(number, name, times) for number, (name, times) in enumerate(rows, start=1)]
    return Stack(tuple(bars), tuple(legend))


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


def layer_bars(card: Scorecard) -> Layers | None:
    """None where no layer was measured."""
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
    return Layers(
        "".join(forward),
        "".join(backward),
        axis,
        tuple(
            Tick(percent((place + 0.5) / len(layers)), str(layers[place].layer))
            for place in range(0, len(layers), between)
        ),
        f"{_counted(len(layers))}. Forward takes up to {milliseconds(most_forward)}, backward up"
        f" to {milliseconds(most_backward)}; the slowest is layer {slowest.layer} with"
        f" {milliseconds(slowest.fwd_ms + slowest.bwd_ms)}.",
    )


def _counted(layers: int) -> str:
    return f"{layers} layers" if layers > 1 else "One layer"


# --- pairs of launches ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """A launch of each side that belong together."""

    number: int
    base: float
    head: float
    difference: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """Dumbbells, and below them the difference of each pair with the interval of all."""

    metric: Metric
    pairs: tuple[Pair, ...]
    left_out: int
    stems: str
    bases: str
    heads: str
    ticks: tuple[Tick, ...]
    differences: str
    zero: str
    middle: str
    low: str | None
    height: str | None
    difference_ticks: tuple[Tick, ...]
    summary: str


def launch_pairs(case: CaseRecord) -> Pairs | None:
    """The launches of both sides by their number; None where there are no two pairs."""
    name = next(
        (
            change.metric
            for change in case.changes
            if change.metric in ("step_time_ms", "throughput_tok_s")
            and any(change.metric in launch.values for launch in case.launches)
        ),
        "step_time_ms",
    )
    sides: dict[str, dict[int, float]] = {"base": {}, "head": {}}
    for launch in case.launches:
        if launch.values.get(name, 0.0) > 0:
            sides[launch.side][launch.launch] = launch.values[name]
    numbers = sorted(sides["base"].keys() & sides["head"].keys())
    if len(numbers) < 2:
        return None
    pairs = [
        Pair(number, base, head, head / base - 1.0)
        for number in numbers[:MOST_PAIRS]
        for base, head in ((sides["base"][number], sides["head"][number]),)
    ]
    change = next((change for change in case.changes if change.metric == name), None)
    return _drawn(metric_named(name), pairs, len(numbers) - len(pairs), change)


def _drawn(metric: Metric, pairs: Sequence[Pair], left_out: int, change: Change | None) -> Pairs:
    across = [round((place + 0.5) * UNITS / len(pairs)) for place in range(len(pairs))]
    values = around([value for pair in pairs for value in (pair.base, pair.head)])
    known = change is not None and change.low is not None and change.high is not None
    low, high = (change.low, change.high) if change is not None and known else (None, None)
    ends = [end for end in (low, high) if end is not None]
    spread = [pair.difference for pair in pairs] + ends + [0.0]
    room = max(max(spread) - min(spread), 1e-6) * 0.15
    differences = Scale(min(spread) - room, max(spread) + room)
    middle = statistics.median(pair.difference for pair in pairs)
    slower = sum(metric.worsening(pair.difference) > 0 for pair in pairs)
    interval_words = (
        f" The change is {metric.show_delta(low)} to {metric.show_delta(high)}, at 95 %."
        if low is not None and high is not None
        else ""
    )
    return Pairs(
        metric,
        tuple(pairs),
        left_out,
        "".join(
            f"M{x} {_down(values, pair.base)}V{_down(values, pair.head)}"
            for x, pair in zip(across, pairs, strict=True)
        ),
        _dots((x, _down(values, pair.base)) for x, pair in zip(across, pairs, strict=True)),
        _dots((x, _down(values, pair.head)) for x, pair in zip(across, pairs, strict=True)),
        tuple(Tick(_top(values, tick), metric.show(tick)) for tick in values.ticks(3)),
        _dots(
            (x, _down(differences, pair.difference)) for x, pair in zip(across, pairs, strict=True)
        ),
        _top(differences, 0.0),
        _top(differences, middle),
        None if high is None else _top(differences, high),
        None if low is None or high is None else _width(differences, low, high),
        tuple(
            Tick(_top(differences, tick), _signed_percent(tick)) for tick in differences.ticks(3)
        ),
        f"{len(pairs)} pairs of launches; this change was worse in {slower} of them, and the middle"
        f" difference is {_signed_percent(middle)}.{interval_words}",
    )


def _signed_percent(share: float) -> str:
    return f"{share * 100:+.1f} %".replace("-", "\u2212").replace("+0.0", "0")


def _down(scale: Scale, value: float) -> int:
    return UNITS - scale.units(value)


def _top(scale: Scale, value: float) -> str:
    return percent(1.0 - scale.share(value))


def _dots(points: Iterable[tuple[int, int]]) -> str:
    """A round cap on a line without length is a dot, however the drawing is stretched."""
    return "".join(f"M{x} {y}h0" for x, y in points)


# --- times in tables -----------------------------------------------------------------------------


def share_bars(times: Iterable[float]) -> list[str]:
    """Each time's width beside the largest."""
    known = list(times)
    scale = Scale(0.0, max(known, default=0.0))
    return [percent(scale.share(time)) if scale.high > 0 else "0%" for time in known]


def throughput_or_time(card: Scorecard) -> str:
    """The number that stands for a case in a line."""
    if card.throughput_tok_s > 0:
        return significant(card.throughput_tok_s, "tok/s")
    return milliseconds(card.step_time_ms) if card.step_time_ms > 0 else "–"


def parity_bars(parity: Parity) -> list[tuple[str, str]]:
    """Ours and theirs of each gap, beside the largest of all."""
    sides = [(gap.apr_ms, gap.baseline_ms) for gap in parity.top_gaps]
    widths = share_bars(time for pair in sides for time in pair)
    return list(zip(widths[::2], widths[1::2], strict=True))
