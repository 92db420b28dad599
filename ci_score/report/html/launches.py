"""A case → its launches on one axis with the interval and the limits of the change.

The axis is the change against the base's middle launch, and right is worse. Of a run that is judged
by the branch's history, the branch's last runs stand in the place of the base's launches.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Metric, metric_of
from ci_score.model.record import HistoryPoint, Judged, LaunchNumbers
from ci_score.model.verdict import Change, JudgedBy, Outcome
from ci_score.report.html.course import is_alike
from ci_score.report.html.scale import Scale, dots, percent
from ci_score.report.rows import decision_in_time
from ci_score.report.words import delta_interval

MOST_DRAWN = 400
MOST_OF_BRANCH = 60
# More pairs than these would join into a blot.
MOST_JOINED = 60
_BASE_LANE, _HEAD_LANE = (95, 350), (480, 735)


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the policy: where it stands, and its words."""

    at: str
    kind: str
    words: str
    anchor: str


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A place of the axis as a change, and as the number itself."""

    at: str
    change: str
    value: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of each side that belong together, or one alone; a void one has no number."""

    number: int
    base: str
    head: str
    difference: str


@dataclass(frozen=True, slots=True)
class Launches:
    """A dot for each launch, the change with its interval, and the limits behind them."""

    metric: Metric
    sentence: str
    stems: str
    bases: str
    heads: str
    base_words: str
    head_words: str
    base_void: str
    head_void: str
    zero: str
    at: str | None
    low: str | None
    width: str | None
    zones: tuple[tuple[str, str, str], ...]
    limits: tuple[Limit, ...]
    ticks: tuple[AxisTick, ...]
    rows: tuple[Launch, ...]
    left_out: int

    @property
    def are_many(self) -> bool:
        """Whether the dots must be small."""
        return len(self.rows) > MOST_JOINED


@dataclass(frozen=True, slots=True)
class _Sides:
    """The numbers that are drawn: the base's launches, or runs of the branch, and the head's."""

    metric: Metric
    change: Change
    base: tuple[float, ...]
    head: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    is_history: bool

    @property
    def middle(self) -> float:
        """The number that stands for no change."""
        if self.is_history and self.change.base > 0:
            return self.change.base
        return statistics.median(self.base)

    def worsening(self, value: float) -> float:
        return self.metric.worsening(value / self.middle - 1.0)


def launches_plot(
    case: Judged, history: Sequence[HistoryPoint], head_word: str = "This run"
) -> Launches | None:
    """The launches of a change that has at least two numbers of its base."""
    change = _shown(case)
    if change is None:
        return None
    sides = _sides(case, change, history)
    if len(sides.base) < 2 or not sides.head or sides.middle <= 0:
        return None
    return _drawn(case, sides, head_word)


def _shown(case: Judged) -> Change | None:
    """The time that decides, else the step's; its launches are drawn.

    A throughput's decision is drawn as that of the step, where both are one fact.
    """
    one_fact = decision_in_time(case.changes)
    if one_fact is not None and _head(case, STEP_TIME):
        return one_fact
    times = {change.metric: change for change in case.changes}
    known = [times[name] for name in (STEP_TIME, THROUGHPUT) if name in times]
    measured = [one for one in known if one.delta is not None and _head(case, one.metric)]
    order = list(Outcome)
    return max(
        measured,
        key=lambda one: (
            one.gated,
            order.index(one.outcome) if one.outcome else -1,
            one.low is not None or one.high is not None,
        ),
        default=None,
    )


def _head(case: Judged, metric: str) -> list[float]:
    return [value for value in case.numbers_of("head", metric) if value > 0]


def _sides(case: Judged, change: Change, history: Sequence[HistoryPoint]) -> _Sides:
    name = change.metric
    head, base = _head(case, name), [v for v in case.numbers_of("base", name) if v > 0]
    is_history = change.judged_by is JudgedBy.HISTORY or not base
    if is_history:
        base = _of_branch(case, name, history)
    pairs = [] if is_history else list(_paired(case, name))
    return _Sides(
        metric_of(change),
        change,
        tuple(base[-MOST_OF_BRANCH:] if is_history else base),
        tuple(head),
        tuple(pairs),
        is_history,
    )


def _of_branch(case: Judged, name: str, history: Sequence[HistoryPoint]) -> list[float]:
    """The branch's runs on such a machine with steps of this size."""
    return [
        value
        for point in history
        if (value := point.number(name)) is not None and value > 0 and is_alike(case, point)
    ]


def _paired(case: Judged, name: str) -> Iterator[tuple[int, int]]:
    """The places of both launches of a pair among those of their side that have a number."""
    known = [launch for launch in case.launches if launch.values.get(name, 0.0) > 0]
    places = {
        id(launch): place
        for side in ("base", "head")
        for place, launch in enumerate(one for one in known if one.side == side)
    }
    for head, base in case.pairs():
        if id(base) in places and id(head) in places:
            yield places[id(base)], places[id(head)]


# --- drawn ----------------------------------------------------------------------------------------


def _drawn(case: Judged, sides: _Sides, head_word: str) -> Launches:
    metric, change = sides.metric, sides.change
    scale = _scale(sides)
    bases, heads = (_placed(sides, scale, side) for side in ("base", "head"))
    ends = _ends(change, metric)
    low, width = scale.span(*ends) if len(ends) == 2 else (None, None)
    count = _void(case)
    return Launches(
        metric=metric,
        sentence=_sentence(sides),
        stems="".join(_stems(sides, scale)),
        bases=dots(bases),
        heads=dots(heads),
        base_words=_base_words(sides),
        head_words=_head_words(sides, head_word),
        base_void=_void_words(count["base"]),
        head_void=_void_words(count["head"]),
        zero=scale.percent(0.0),
        at=scale.percent(metric.worsening(change.delta)) if change.delta is not None else None,
        low=low,
        width=width,
        zones=tuple(_zones(change, scale)),
        limits=tuple(_limits(change, metric, scale)),
        ticks=tuple(_ticks(sides, scale)),
        rows=tuple(_rows(case, sides)),
        left_out=max(len(sides.base) - MOST_DRAWN, 0) + max(len(sides.head) - MOST_DRAWN, 0),
    )


def _scale(sides: _Sides) -> Scale:
    """Everything that is drawn, with room at both ends."""
    change, metric = sides.change, sides.metric
    shown = [sides.worsening(value) for value in (*sides.base, *sides.head)]
    shown += [0.0, *_ends(change, metric), *(limit for _, limit in _known_limits(change))]
    if change.delta is not None:
        shown.append(metric.worsening(change.delta))
    room = max(max(shown) - min(shown), 1e-4) * 0.07
    return Scale(min(shown) - room, max(shown) + room)


def _ends(change: Change, metric: Metric) -> list[float]:
    return sorted(metric.worsening(end) for end in (change.low, change.high) if end is not None)


def _known_limits(change: Change) -> list[tuple[str, float]]:
    known = (("warn", change.warn_limit), ("fail", change.fail_limit))
    return [(kind, limit) for kind, limit in known if limit is not None and change.gated]


def _placed(sides: _Sides, scale: Scale, side: str) -> list[tuple[int, int]]:
    """The first launch stands highest, so that a drift within the session shows."""
    values = (sides.base if side == "base" else sides.head)[:MOST_DRAWN]
    lane = _BASE_LANE if side == "base" else _HEAD_LANE
    return [
        (scale.units(sides.worsening(value)), _down(lane, place, len(values)))
        for place, value in enumerate(values)
    ]


def _down(lane: tuple[int, int], place: int, count: int) -> int:
    top, bottom = lane
    return round(top + (bottom - top) * ((place + 0.5) / count))


def _stems(sides: _Sides, scale: Scale) -> Iterator[str]:
    """A faint line from each launch of the base to its partner."""
    if not sides.pairs or len(sides.pairs) > MOST_JOINED:
        return
    bases, heads = (_placed(sides, scale, side) for side in ("base", "head"))
    for base, head in sides.pairs:
        if base < len(bases) and head < len(heads):
            (x, y), (to_x, to_y) = bases[base], heads[head]
            yield f"M{x} {y}L{to_x} {to_y}"


def _zones(change: Change, scale: Scale) -> Iterator[tuple[str, str, str]]:
    limits = _known_limits(change)
    for place, (kind, limit) in enumerate(limits):
        end = limits[place + 1][1] if place + 1 < len(limits) else scale.high
        start, width = scale.span(limit, max(end, limit))
        yield kind, start, width


def _limits(change: Change, metric: Metric, scale: Scale) -> Iterator[Limit]:
    """Two limits so near to each other that their words would touch are named in two lines."""
    for kind, limit in _known_limits(change):
        share = scale.share(limit)
        words = f"{kind}s from {metric.show_limit(limit)}"
        yield Limit(percent(share), kind, words, "end" if share > 0.6 else "start")


def _ticks(sides: _Sides, scale: Scale) -> Iterator[AxisTick]:
    """At round changes, with the number that each stands for."""
    for tick in scale.ticks(5):
        delta = sides.metric.worsening(tick)
        words = "0" if abs(tick) < 1e-12 else sides.metric.show_delta(delta).replace(".0 ", " ")
        yield AxisTick(
            scale.percent(tick), words, sides.metric.show(max(sides.middle * (1 + delta), 0.0))
        )


# --- said -----------------------------------------------------------------------------------------


def _sentence(sides: _Sides) -> str:
    """`12 pairs: +9.0 % (+7.2 to +10.8 %), limit +10 %.`"""
    change, metric = sides.change, sides.metric
    if sides.is_history:
        who = f"{_counted(len(sides.head), 'launch', 'launches')} against"
        who += f" {_counted(len(sides.base), 'run', 'runs')} of the branch"
    elif sides.pairs:
        who = _counted(len(sides.pairs), "pair", "pairs")
    else:
        who = f"{_counted(len(sides.head), 'launch', 'launches')} against {len(sides.base)}"
    words = f"{metric.label}, {who}: {delta_interval(change)}"
    limits = _known_limits(change)
    return f"{words}, limit {metric.show_limit(limits[-1][1])}." if limits else f"{words}."


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _base_words(sides: _Sides) -> str:
    if sides.is_history:
        return f"the branch: its last {_counted(len(sides.base), 'run', 'runs')}"
    return f"base: {_counted(len(sides.base), 'launch', 'launches')}"


def _head_words(sides: _Sides, head_word: str) -> str:
    who = head_word[0].lower() + head_word[1:]
    return f"{who}: {_counted(len(sides.head), 'launch', 'launches')}"


def _void(case: Judged) -> dict[str, int]:
    void = [launch.side for launch in case.launches if launch.void]
    return {"base": void.count("base"), "head": void.count("head")}


def _void_words(count: int) -> str:
    return f"{'×' * min(count, 5)} {count} void" if count else ""


def _rows(case: Judged, sides: _Sides) -> Iterator[Launch]:
    """Every launch by its number, the void ones too."""
    name = sides.metric.name
    paired = {id(one) for pair in case.pairs() for one in pair}
    for head, base in case.pairs():
        yield _row(sides, head.launch, base, head)
    for launch in case.launches:
        if id(launch) not in paired and (launch.void or name in launch.values):
            is_base = launch.side == "base"
            alone = (launch, None) if is_base else (None, launch)
            yield _row(sides, launch.launch, *alone)


def _row(
    sides: _Sides, number: int, base: LaunchNumbers | None, head: LaunchNumbers | None
) -> Launch:
    name = sides.metric.name
    before, now = (one.values.get(name, 0.0) if one else 0.0 for one in (base, head))
    known = before > 0 and now > 0
    return Launch(
        number + 1,
        _number(sides, base),
        _number(sides, head),
        sides.metric.show_delta(now / before - 1.0) if known else "",
    )


def _number(sides: _Sides, launch: LaunchNumbers | None) -> str:
    if launch is None:
        return ""
    value = launch.values.get(sides.metric.name, 0.0)
    return sides.metric.show(value) if value > 0 else "void" if launch.void else "not measured"
