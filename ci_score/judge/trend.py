"""The history of a metric → the lasting changes of its level: shifts, and slow drift. Pure.

A trend is told, it is never a verdict. Everything is on the scale of a metric's `score`, where more
is worse: log ratios for relative metrics.

- A *shift* is where the runs before and after a place differ by far more than neighbouring blocks
  of runs differ elsewhere in the same history. The machine's moods, its two modes and its slow
  wandering are in those blocks, so none of them passes for precision. It must be a jump at that
  place, because a slope is none, and in the medians, too, because a few odd runs are none.
- A *drift* is what lies between the median of the oldest runs and that of the newest ones when all
  shifts are taken out. The anchor is a window's median and never the best run: the best of many is
  luck, and whatever follows it looks like a drift.

`benchmarks/trend.py` simulates how often that is wrong. Of histories of 200 runs without a change
fewer than 1 in 100 report one where the runs are normal, log-normal, of two modes, drift steadily
or are correlated at 0.8 from run to run; 1 in 50 where at 0.9, or where one run in 33 is slow by
far. Where a machine stays in each of its two modes for some twenty runs, 1 in 13 reports the modes,
and of histories of 60 runs nearly every second one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ci_score.judge import student
from ci_score.judge.evidence import comparable_points
from ci_score.judge.policy import CaseRules, Policy, rules_of
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Metric, metric_named
from ci_score.model.record import MOST_BETWEEN, MOST_TRENDS, HistoryPoint, Measured, Trend

# Fewer runs do not say how much their machine's moods differ.
LEAST_RUNS = 24
# Fewer runs on a side may be one mood of the machine.
LEAST_SIDE = 5
WINDOWS = (5, 8, 12, 20, 40, 100)
BLOCKS = (4, 8, 16)
# A history holds so many blocks of a size, or does not say how they differ.
LEAST_BLOCKS = 6
# How seldom luck makes such a difference at one place: a history has hundreds of them.
BY_LUCK = 1e-7
SHIFT_FROM = 5.5
RUNS_A_FREEDOM = 3
# A step that is smaller in standard errors hides no other one.
WORTH_A_LOOK = 3.5
JUMP_FROM = 3.5
JUMP_SHARE = 0.5
MEDIAN_SHARE = 0.7
# Smaller changes are not worth anybody's time.
LEAST_CHANGE = 0.01
# Where all runs agree by chance, or were rounded, they are still no surer than this.
LEAST_SPREAD = 1e-4
# A place that fits worse than the best one by less than this may be the true one.
AS_LIKELY = 6.0
LOOKED_AROUND = 10
# What a level was is told by so many runs: more of them would hold more of a drift.
NEARBY = 20
LEAST_FOR_DRIFT = 60
ANCHOR_RUNS = 20
DRIFT_FROM = 5.0
LEAST_DRIFT = 0.02
# The median of normal numbers varies more than their mean, by this factor of variance.
MEDIAN_COST = math.pi / 2


def trends(
    cases: Sequence[Measured], policy: Policy, history: Sequence[HistoryPoint]
) -> tuple[Trend, ...]:
    """The lasting changes of what is gated, over the runs that were measured as these were."""
    found = (
        trend
        for case in cases
        if case.has_a_time
        for trend in _of_case(case, rules_of(policy, case.name), history)
    )
    return tuple(islice(found, MOST_TRENDS))


def _of_case(case: Measured, rules: CaseRules, history: Sequence[HistoryPoint]) -> Iterator[Trend]:
    """Throughput and step time are one fact: of the two, the one that is known tells it."""
    points = comparable_points(case, rules, history)
    gated = {gate.metric.name: gate.metric for gate in rules.gates if gate.gate}
    told = THROUGHPUT if any(point.throughput_tok_s for point in points) else STEP_TIME
    times = {told: gated.get(told) or metric_named(told)}
    rest = {name: row for name, row in gated.items() if name not in (THROUGHPUT, STEP_TIME)}
    for metric in (times | rest).values():
        yield from trends_of(metric, points)


def trends_of(metric: Metric, points: Sequence[HistoryPoint]) -> list[Trend]:
    """The trends of one series: points of one case, measured alike, the oldest first."""
    measured = [
        (point, value)
        for point in points
        if (value := point.number(metric.name)) is not None and (value > 0 or not metric.relative)
    ]
    if len(measured) < LEAST_RUNS:
        return []
    values = [value for _, value in measured]
    runs = _Runs([metric.score(value) for value in values])
    shifts = _shifts(runs)
    tell = _Teller(metric, points, [point for point, _ in measured], values)
    drift = _drift(runs, shifts)
    return [
        *(tell.shift(shift, runs) for shift in shifts),
        *([tell.drift(drift)] if drift is not None else []),
    ]


@dataclass(frozen=True, slots=True)
class _Teller:
    """Places and scores, told as commits and values."""

    metric: Metric
    history: Sequence[HistoryPoint]
    points: Sequence[HistoryPoint]
    values: Sequence[float]

    def shift(self, shift: _Shift, runs: _Runs) -> Trend:
        place, last, first = shift.place, *runs.likely_places(shift)
        before = statistics.median(self.values[place - shift.before : place])
        after = statistics.median(self.values[place : place + shift.after])
        return self._trend("shift", before, after, last - 1, first, (shift.before, shift.after))

    def drift(self, worsening: float) -> Trend:
        """Without the shifts, so `after` is where the drift alone would have led."""
        before = statistics.median(self.values[:ANCHOR_RUNS])
        delta = self.metric.delta_of_score(worsening)
        after = before * (1.0 + delta) if self.metric.relative else before + delta
        newest = len(self.points) - 1
        return self._trend(
            "drift", before, after, ANCHOR_RUNS - 1, newest, (ANCHOR_RUNS, ANCHOR_RUNS)
        )

    def _trend(
        self,
        kind: Literal["shift", "drift"],
        before: float,
        after: float,
        last: int,
        first: int,
        runs: tuple[int, int],
    ) -> Trend:
        old, new = self.points[last], self.points[first]
        delta = (after - before) / before if self.metric.relative else after - before
        return Trend(
            case=new.case,
            metric=self.metric.name,
            kind=kind,
            before=before,
            after=after,
            delta=delta,
            worse=self.metric.worsening(delta) > 0,
            last_before=old.commit,
            first_after=new.commit,
            between=self._between(old, new) if kind == "shift" else (),
            created_at=new.created_at,
            run=new.run,
            runs_before=runs[0],
            runs_after=runs[1],
        )

    def _between(self, old: HistoryPoint, new: HistoryPoint) -> tuple[str, ...]:
        """The commits of the history between two of its points, each once, oldest first."""
        places = self.history.index(old), self.history.index(new)
        commits = (point.commit for point in self.history[places[0] + 1 : places[1]])
        known = dict.fromkeys(commit for commit in commits if commit)
        return tuple(known)[:MOST_BETWEEN]


# --- shifts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shift:
    """A change of level at `place`, as seen in so many runs before and after it."""

    place: int
    before: int
    after: int
    certainty: float


class _Runs:
    """The scores of a history, with the sums that make every window cheap."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = scores
        self.smooth = _without_spikes(scores)
        self.count = len(scores)
        self._sums, self._moments = [0.0], [0.0]
        for place, score in enumerate(self.smooth):
            self._sums.append(self._sums[-1] + score)
            self._moments.append(self._moments[-1] + score * place)
        self._blocks = {
            size: self._squares_of_neighbours(size)
            for size in BLOCKS
            if LEAST_BLOCKS * size <= self.count
        }
        luck = student.quantile_above(BY_LUCK, self.count / RUNS_A_FREEDOM)
        self.threshold = max(SHIFT_FROM, luck)

    def _squares_of_neighbours(self, size: int) -> list[float]:
        """Running sums of the squared differences of neighbouring blocks."""
        sums, squares = self._sums, [0.0]
        for place in range(size, self.count - size + 1):
            gap = (sums[place + size] - 2.0 * sums[place] + sums[place - size]) / size
            squares.append(squares[-1] + gap * gap)
        return squares

    def variance(self, shifts: Sequence[int]) -> float:
        """What one independent run would vary by; blocks across a shift do not speak of it."""
        largest = LEAST_SPREAD**2
        for size, squares in self._blocks.items():
            total, count, done = squares[-1], len(squares) - 1, size
            for place in sorted(shifts):
                low = max(place - size + 1, done)
                high = done = max(min(place + size, self.count - size + 1), low)
                total -= squares[high - size] - squares[low - size]
                count -= high - low
            if count >= 2 * size:
                largest = max(largest, size * total / count / 2.0)
        return largest

    def seen_at(self, place: int, before: int, after: int, variance: float) -> _Shift | None:
        """The shift at a place as two windows show it, or None where they show none."""
        middle = self._sums[place]
        size = (self._sums[place + after] - middle) / after
        size -= (middle - self._sums[place - before]) / before
        if abs(size) < LEAST_CHANGE:
            return None
        error = math.sqrt(variance * (1.0 / before + 1.0 / after))
        if abs(size) < self.threshold * error:
            return None
        if not self._jumps(place, before, after, size, variance):
            return None
        medians = statistics.median(self.scores[place : place + after])
        medians -= statistics.median(self.scores[place - before : place])
        if medians * size < MEDIAN_SHARE * size * size:
            return None
        return _Shift(place, before, after, abs(size) / error)

    def _jumps(self, place: int, before: int, after: int, size: float, variance: float) -> bool:
        """Whether it happened at the place itself, beside a slope that both windows share."""
        left, left_width = self._slope(place - before, place)
        right, right_width = self._slope(place, place + after)
        width, apart = left_width + right_width, (before + after) / 2.0
        jump = size - apart * (left + right) / width
        error = math.sqrt(variance * (1.0 / before + 1.0 / after + apart * apart / width))
        return jump * size > 0 and abs(jump) >= max(JUMP_SHARE * abs(size), JUMP_FROM * error)

    def largest_step(self, start: int, end: int) -> tuple[int, float]:
        """Where a stretch changes most, be it noise, and by how many errors of a spread of 1."""
        sizes = (
            (
                abs(self._mean(place, place + after) - self._mean(place - before, place))
                / math.sqrt(1.0 / before + 1.0 / after),
                place,
            )
            for place in range(start + LEAST_SIDE, end - LEAST_SIDE + 1)
            for before, after in _windows(place, start, end)
        )
        size, place = max(sizes)
        return place, size

    def _mean(self, start: int, end: int) -> float:
        return (self._sums[end] - self._sums[start]) / (end - start)

    def _slope(self, start: int, end: int) -> tuple[float, float]:
        """The covariance of score and place within a window, and the variance of the place."""
        count, middle = end - start, (start + end - 1) / 2.0
        total = self._sums[end] - self._sums[start]
        moment = self._moments[end] - self._moments[start]
        return moment - middle * total, count * (count * count - 1) / 12.0

    def likely_places(self, shift: _Shift) -> tuple[int, int]:
        """The first and the last place where the shift may have happened."""
        start, end = shift.place - shift.before, shift.place + shift.after
        low, high = (
            max(start + 2, shift.place - LOOKED_AROUND),
            min(end - 2, shift.place + LOOKED_AROUND),
        )
        misfits = {
            place: _scatter(self.scores[start:place]) + _scatter(self.scores[place:end])
            for place in range(low, high + 1)
        }
        least = min(misfits.values())
        variance = max(least / (end - start - 2), LEAST_SPREAD**2)
        likely = [
            place for place, misfit in misfits.items() if misfit - least < AS_LIKELY * variance
        ]
        return min(*likely, shift.place), max(*likely, shift.place)


def _without_spikes(scores: Sequence[float]) -> list[float]:
    """Each run as the middle one of itself and its neighbours: one odd run is no level."""
    inner = [
        statistics.median(scores[place - 1 : place + 2]) for place in range(1, len(scores) - 1)
    ]
    return [scores[0], *inner, scores[-1]]


def _scatter(scores: Sequence[float]) -> float:
    mean = statistics.fmean(scores)
    return sum((score - mean) ** 2 for score in scores)


def _shifts(runs: _Runs) -> list[_Shift]:
    """All shifts, the clearest first taken: each tells what the others are to be measured by."""
    found: list[_Shift] = []
    stretches = [(0, runs.count)]
    while stretches:
        start, end = stretches.pop()
        clearest = _clearest(runs, start, end, [shift.place for shift in found])
        if clearest is not None:
            found.append(clearest)
            stretches += [(start, clearest.place), (clearest.place, end)]
    found.sort(key=lambda shift: shift.place)
    ends = [0, *(shift.place for shift in found), runs.count]
    return [
        replace(
            shift,
            before=min(NEARBY, shift.place - ends[number]),
            after=min(NEARBY, ends[number + 2] - shift.place),
        )
        for number, shift in enumerate(found)
    ]


def _clearest(runs: _Runs, start: int, end: int, known: list[int]) -> _Shift | None:
    """The clearest shift of a stretch, or the clearer one of two that hide each other.

    A slowdown and its repair each count as the other's noise, so each is also measured without it.
    """
    alone = _best(runs, start, end, known)
    if alone is not None or end - start < 3 * LEAST_SIDE:
        return alone
    guess, size = runs.largest_step(start, end)
    if size < WORTH_A_LOOK * math.sqrt(runs.variance([*known, guess])):
        return None
    other = _best(runs, start, end, [*known, guess])
    if other is None or abs(other.place - guess) < LEAST_SIDE:
        return None
    halves = (start, other.place) if guess < other.place else (other.place, end)
    return other if _best(runs, *halves, [*known, other.place]) is not None else None


def _best(runs: _Runs, start: int, end: int, known: list[int]) -> _Shift | None:
    candidates = _candidates(runs, start, end, known)
    return max(candidates, key=lambda shift: shift.certainty, default=None)


def _candidates(runs: _Runs, start: int, end: int, known: list[int]) -> Iterator[_Shift]:
    for place in range(start + LEAST_SIDE, end - LEAST_SIDE + 1):
        variance = runs.variance([*known, place])
        for before, after in _windows(place, start, end):
            seen = runs.seen_at(place, before, after, variance)
            if seen is not None:
                yield seen


def _windows(place: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """So many runs before a place and after it, within a stretch."""
    most_before, most_after = place - start, end - place
    for width in WINDOWS:
        yield min(width, most_before), min(width, most_after)
        if width >= most_before and width >= most_after:
            return


# --- drift --------------------------------------------------------------------------------------


def _drift(runs: _Runs, shifts: Sequence[_Shift]) -> float | None:
    """How much worse the newest runs are than the anchor, beside the shifts; None for no drift."""
    if runs.count < LEAST_FOR_DRIFT:
        return None
    scores, beside = runs.scores, list(runs.scores)
    variance = 2.0 / ANCHOR_RUNS
    for shift in shifts:
        place, before, after = shift.place, shift.before, shift.after
        size = statistics.median(scores[place : place + after])
        size -= statistics.median(scores[place - before : place])
        beside[place:] = [score - size for score in beside[place:]]
        variance += 1.0 / before + 1.0 / after
    variance *= MEDIAN_COST * runs.variance([shift.place for shift in shifts])
    worsening = statistics.median(beside[-ANCHOR_RUNS:]) - statistics.median(beside[:ANCHOR_RUNS])
    enough = max(LEAST_DRIFT, DRIFT_FROM * math.sqrt(variance))
    return worsening if abs(worsening) > enough else None
