"""A run against the branch's earlier runs: suspicion, and proof only after many of them. Pure.

A branch's runs are not exchangeable: machines drift and have moods. So no spread is estimated. A
run is measured against how far earlier runs lay from the nine before them. Everything is on the
scale of a metric's score, where more is worse.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ci_score.judge.judgement import Doubt, Judgement, below, beyond, is_a_time
from ci_score.model.verdict import Outcome

# The level of the branch is the median of so many runs.
OF_A_LEVEL = 9
# From so many distances between runs and their level on there is an interval (90 %).
LEAST_EXCURSIONS = 19
# One number a side: what is slower than this is no luck that one should wave through.
ONE_NUMBER_UP_TO = math.log1p(0.20)
# A single run must stand out by so many times the furthest that any earlier run stood out.
STANDS_OUT = 2.0
LEAST_LAUNCHES_TO_PROVE = 2


def runs_to_prove(false_fail: float) -> int:
    """How many excursions it takes before a run that exceeds them all is a proof."""
    return max(LEAST_EXCURSIONS, math.ceil(1.0 / (math.e * false_fail)))


@dataclass(frozen=True, slots=True)
class HeadLaunches:
    """The launches of head: scores, None for a void one, and what a timer's tick adds or takes."""

    scores: tuple[float | None, ...]
    tick_down: float = 0.0
    tick_up: float = 0.0

    @classmethod
    def of_times(cls, times: Sequence[float], resolution: float = 0.0) -> HeadLaunches:
        """Launches of anything whose ratio counts; NaN is a void launch."""
        scores = tuple(math.log(time) if is_a_time(time) else None for time in times)
        sound = [time for time in times if is_a_time(time)]
        if not sound or not resolution:
            return cls(scores)
        tick = resolution / min(sound)
        return cls(scores, math.log1p(-tick) if tick < 1 else -math.inf, math.log1p(tick))

    @property
    def sound(self) -> list[float]:
        """The launches that can be used."""
        return [score for score in self.scores if score is not None]

    @property
    def void(self) -> int:
        """How many cannot."""
        return len(self.scores) - len(self.sound)


@dataclass(frozen=True)
class History:
    """The branch's runs, oldest first; the last is the tested base's own, and None is a void run.

    `false_fail` says how many of them count, and how many it takes to prove anything.
    """

    runs: tuple[float | None, ...]
    false_fail: float = 0.005

    @classmethod
    def of_times(cls, times: Sequence[float], false_fail: float = 0.005) -> History:
        """Runs of anything whose ratio counts; NaN is a void run."""
        return cls(tuple(math.log(time) if is_a_time(time) else None for time in times), false_fail)

    @cached_property
    def counted(self) -> tuple[float, ...]:
        """The newest sound runs: all that a proof needs."""
        sound = [run for run in self.runs if run is not None]
        return tuple(sound[-(runs_to_prove(self.false_fail) + OF_A_LEVEL) :])

    @cached_property
    def level(self) -> float:
        """The median of the last nine runs, or of those there are."""
        return statistics.median(self.counted[-OF_A_LEVEL:])

    @cached_property
    def excursions(self) -> tuple[float, ...]:
        """How far each run lay from the level of the nine before it."""
        runs = self.counted
        return tuple(
            runs[place] - sorted(runs[place - OF_A_LEVEL : place])[OF_A_LEVEL // 2]
            for place in range(OF_A_LEVEL, len(runs))
        )

    @property
    def has_interval(self) -> bool:
        """Whether there are runs enough for more than one number a side."""
        return len(self.excursions) >= LEAST_EXCURSIONS

    def judged(self, head: HeadLaunches, limit: float, warn: float) -> Judgement:
        """Red, green or undecided."""
        if not self.has_interval or not head.sound:
            return self.as_one_number(head, limit, warn)
        return _AgainstRuns(self, head, limit, warn).judgement()

    def as_one_number(
        self, head: HeadLaunches, limit: float, warn: float, most: float = ONE_NUMBER_UP_TO
    ) -> Judgement:
        """One number a side: it proves nothing, and is green only where little is at stake.

        Up to `most`, or the limit if that is wider, it passes or warns.
        """
        if not self.counted or not head.sound:
            return Judgement(Outcome.INCONCLUSIVE, math.nan, -math.inf, math.inf, reason=Doubt.VOID)
        distance = _typical(head.sound) - self.level
        most = max(most, limit)
        doubt = None
        if head.void:
            doubt = Doubt.VOID
        elif self.contradicts(min(head.sound), most):
            doubt = Doubt.CONTRADICTS
        elif beyond(distance, most):
            doubt = Doubt.UNCLEAR
        if doubt is not None:
            return Judgement(Outcome.INCONCLUSIVE, distance, -math.inf, math.inf, reason=doubt)
        outcome = Outcome.WARN if beyond(distance, min(warn, limit)) else Outcome.PASS
        return Judgement(outcome, distance, -math.inf, math.inf)

    def contradicts(self, fastest: float, most: float) -> bool:
        """Whether the tested base's own run says something else; a void run cannot agree."""
        own = self.runs[-1]
        return own is None or beyond(fastest - own, most)


@dataclass(frozen=True)
class _AgainstRuns:
    """Head's launches against a history that has an interval."""

    history: History
    head: HeadLaunches
    limit: float
    warn: float

    @cached_property
    def _sorted(self) -> list[float]:
        return sorted(self.history.excursions)

    @property
    def _place(self) -> int:
        """Which excursion from each end bounds nine runs of ten."""
        return (len(self._sorted) + 1) // 20

    @cached_property
    def _with_void(self) -> list[float]:
        """The launches as they count towards red: a void one as if nothing had changed."""
        return [*self.head.sound, *[self.history.level] * self.head.void]

    @cached_property
    def distance(self) -> float:
        """How far the launches lie above the branch's level."""
        return _typical(self.head.sound) - self.history.level

    @property
    def low(self) -> float:
        """The lower end of the 90 % interval."""
        distance = _typical(self._with_void) - self.history.level
        return min(distance - self._sorted[-self._place] + self.head.tick_down, self.distance)

    @property
    def high(self) -> float:
        """The upper end; a void launch may have been endlessly slow."""
        if self.head.void:
            return math.inf
        return max(self.distance - self._sorted[self._place - 1] + self.head.tick_up, self.distance)

    @property
    def _surely(self) -> float:
        """How far even the fastest launch lies above the level."""
        return min(self._with_void) - self.history.level + self.head.tick_down

    @property
    def _stands_out(self) -> bool:
        """Whether even the fastest launch is far beyond all that earlier runs have shown."""
        enough = len(self._sorted) >= runs_to_prove(self.history.false_fail)
        return enough and beyond(self._surely, STANDS_OUT * max(0.0, self._sorted[-1]))

    @cached_property
    def is_proven(self) -> bool:
        """Whether head is slower at all; one launch alone proves nothing."""
        return len(self.head.scores) >= LEAST_LAUNCHES_TO_PROVE and self._stands_out

    @cached_property
    def base_contradicts(self) -> bool:
        """Whether the tested base's own run was so fast that head is beyond the limit beside it.

        It may itself have been a fast run, by as much as runs before it were.
        """
        before = sorted(self.history.excursions[:-1])
        deep = before[max(1, (len(before) + 1) // 20) - 1]
        return self.history.contradicts(min(self.head.sound), self.limit + max(0.0, -deep))

    def judgement(self) -> Judgement:
        slower = self.is_proven and beyond(self._surely, self.warn)
        outcome, doubt = self._outcome(slower)
        return Judgement(
            outcome, self.distance, self.low, self.high, slower, doubt, settled_by=self._settled_by
        )

    def _outcome(self, slower: bool) -> tuple[Outcome, Doubt | None]:
        if self.is_proven and beyond(self._surely, self.limit):
            return Outcome.FAIL, None
        if below(self.high, self.limit) and not self.base_contradicts:
            return Outcome.WARN if slower else Outcome.PASS, None
        if self.head.void:
            return Outcome.INCONCLUSIVE, Doubt.VOID
        if self.base_contradicts:
            return Outcome.INCONCLUSIVE, Doubt.CONTRADICTS
        is_below = below(self.distance, self.limit)
        return Outcome.INCONCLUSIVE, Doubt.TOO_NOISY if is_below else Doubt.UNCLEAR

    def _settled_by(self) -> int | None:
        """How many launches of head would do: more than one only proves what stands out."""
        would_fail = self._stands_out and beyond(self._surely, self.limit)
        return LEAST_LAUNCHES_TO_PROVE if would_fail else None


def judge_history(
    runs: Sequence[float],
    head: float | Sequence[float],
    *,
    limit: float,
    warn: float | None = None,
    false_fail: float = 0.005,
    resolution: float = 0.0,
) -> Judgement:
    """Whether head is slower than the branch's runs, of which the last is the tested base's own.

    Times in any unit; NaN is a void run or launch. `head` is one launch or several. The limits are
    shares of time, and `resolution` is a tick of the timer.
    """
    times = [head] if isinstance(head, int | float) else list(head)
    fail_score = math.log1p(limit)
    warn_score = fail_score if warn is None else math.log1p(warn)
    judged = History.of_times(runs, false_fail).judged(
        HeadLaunches.of_times(times, resolution), fail_score, warn_score
    )
    return judged.in_shares()


def _typical(scores: Sequence[float]) -> float:
    """The larger of mean and median: neither one slow launch nor one fast one hides the others."""
    return max(math.fsum(scores) / len(scores), statistics.median(scores))
