"""Pairs of launches that ran one after the other → whether head is slower, and by how much. Pure.

Everything is on the scale of a metric's score, where more is worse: log ratios of times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ci_score.judge.judgement import Doubt, Judgement, below, beyond, is_a_time
from ci_score.judge.looks import ADDED_AT_ONCE, MOST_PAIRS, share_of_look
from ci_score.judge.signed_ranks import averages, chance, places_from_the_end
from ci_score.model.verdict import Outcome

# Fewer pairs have no interval, so nothing is green with them.
LEAST_PAIRS = 6


@dataclass(frozen=True, slots=True)
class Difference:
    """Head less base of one pair, and the least and the most that a timer's tick makes of it."""

    least: float
    seen: float
    most: float


@dataclass(frozen=True)
class Pairs:
    """The differences of all pairs; None is a pair with a void launch.

    `whole` is the difference of the sums of all steps of both sides.
    """

    differences: tuple[Difference | None, ...]
    whole: float

    @classmethod
    def of_times(
        cls, head: Sequence[float], base: Sequence[float], resolution: float = 0.0
    ) -> Pairs:
        """Pairs of anything whose ratio counts and of which more is worse; NaN is a void launch."""
        both = [
            (here, there) if is_a_time(here) and is_a_time(there) else None
            for here, there in zip(head, base, strict=True)
        ]
        sound = [pair for pair in both if pair is not None]
        return cls(
            tuple(pair and _of_ratio(*pair, resolution) for pair in both),
            _log_of_sums(sound),
        )

    @classmethod
    def of_amounts(cls, head: Sequence[float], base: Sequence[float]) -> Pairs:
        """Pairs of anything whose plain difference counts and of which more is worse."""
        gaps = [here - there for here, there in zip(head, base, strict=True)]
        sound = [gap for gap in gaps if math.isfinite(gap)]
        return cls(
            tuple(Difference(gap, gap, gap) if math.isfinite(gap) else None for gap in gaps),
            statistics.fmean(sound) if sound else math.nan,
        )

    @cached_property
    def sound(self) -> tuple[Difference, ...]:
        """The pairs whose both launches can be used."""
        return tuple(one for one in self.differences if one is not None)

    @property
    def has_void(self) -> bool:
        """Whether a launch of a pair is void."""
        return len(self.sound) < len(self.differences)

    @cached_property
    def estimate(self) -> float:
        """The middle of the averages of every two pairs; a few odd launches do not move it."""
        return statistics.median(self._seen) if self._seen else math.nan

    @cached_property
    def _seen(self) -> list[float]:
        return averages([one.seen for one in self.sound])

    @cached_property
    def _least(self) -> list[float]:
        if not self._has_ticks:
            return self._seen
        return averages([one.least for one in self.sound])

    @cached_property
    def _most(self) -> list[float]:
        void = len(self.differences) - len(self.sound)
        if not self._has_ticks and not void:
            return self._seen
        return averages([*(one.most for one in self.sound), *[math.inf] * void])

    @property
    def _has_ticks(self) -> bool:
        """Without a tick the averages are the same three times; sorting them takes the time."""
        return any(one.least != one.most for one in self.sound)

    @cached_property
    def chance(self) -> float:
        """How often an unchanged program looks so much slower."""
        return chance(self._least, len(self.sound))

    @cached_property
    def low(self) -> float:
        """The lower end of the 95 % interval; minus infinity if there is none."""
        place = places_from_the_end(len(self.sound))
        return self._least[place - 1] if place else -math.inf

    @cached_property
    def high(self) -> float:
        """The upper end; a void launch may have been endlessly slow."""
        place = places_from_the_end(len(self.differences))
        return self._most[-place] if place else math.inf

    def judged(self, limit: float, warn: float, share: float) -> Judgement:
        """Red, green or undecided, at that share of the chance of a false failure."""
        is_proven = self.is_proven(share)
        slower = is_proven and beyond(self.estimate, warn)
        outcome, doubt = self._outcome(limit, is_proven, slower)
        settled = doubt is None and (slower or below(self.high, warn))
        return Judgement(outcome, self.estimate, self.low, self.high, slower, doubt, settled)

    def is_proven(self, share: float) -> bool:
        """Whether head is slower at all, wrongly said with no more than that chance."""
        return bool(self.sound) and self.chance <= share

    def _outcome(self, limit: float, is_proven: bool, slower: bool) -> tuple[Outcome, Doubt | None]:
        if is_proven and beyond(self.estimate, limit):
            return Outcome.FAIL, None
        # The estimate forgives a few launches that stand still; the sum of all steps does not.
        is_within = below(self.high, limit) and below(self.whole, limit)
        if is_within and not self.has_void:
            return Outcome.WARN if slower else Outcome.PASS, None
        return Outcome.INCONCLUSIVE, Doubt.VOID if self.has_void else Doubt.UNCLEAR

    def settled_by(
        self,
        limit: float,
        warn: float,
        looks: Sequence[int] | None,
        false_fail: float = 0.005,
        tests: int = 1,
    ) -> int | None:
        """How many pairs like these would decide it; None if no number up to the most would."""
        for pairs in _numbers_to_try(len(self.differences), looks) if self.sound else ():
            again = tuple(self.sound[place % len(self.sound)] for place in range(pairs))
            share = share_of_look(pairs, looks, false_fail, tests)
            if Pairs(again, self.whole).judged(limit, warn, share).reason is None:
                return pairs
        return None


def judge_pairs(
    head: Sequence[float],
    base: Sequence[float],
    *,
    limit: float,
    warn: float | None = None,
    false_fail: float = 0.005,
    looks: Sequence[int] | None = None,
    tests: int = 1,
    resolution: float = 0.0,
) -> Judgement:
    """Whether the launches of head are slower than those of base, each beside its own.

    `head[i]` and `base[i]` are a pair: times in any unit, NaN for a void launch. The limits are
    shares of time. `looks` are the planned numbers of pairs (None: one look at all of them),
    `tests` how many tests share `false_fail`, and `resolution` is a tick of the timer.
    """
    pairs = Pairs.of_times(head, base, resolution)
    fail_score = math.log1p(limit)
    warn_score = fail_score if warn is None else math.log1p(warn)
    share = share_of_look(len(head), looks, false_fail, tests)
    judged = pairs.judged(fail_score, warn_score, share)
    return replace(
        judged.in_shares(),
        settled_by=lambda: pairs.settled_by(fail_score, warn_score, looks, false_fail, tests),
    )


def _of_ratio(head: float, base: float, tick: float) -> Difference:
    # No ratio: of numbers very far apart it is 0 or infinite, and its logarithm is not.
    there = math.log(base)
    return Difference(
        math.log(head - tick) - there if head > tick else -math.inf,
        math.log(head) - there,
        math.log(head + tick) - there,
    )


def _log_of_sums(sound: Sequence[tuple[float, float]]) -> float:
    if not sound:
        return math.nan
    head, base = (math.fsum(side) for side in zip(*sound, strict=True))
    return math.log(head) - math.log(base)


def _numbers_to_try(measured: int, looks: Sequence[int] | None) -> list[int]:
    """The numbers of pairs at which a session would look next."""
    last = looks[-1] if looks else LEAST_PAIRS
    tried = {*(looks or ()), *range(last, MOST_PAIRS + 1, ADDED_AT_ONCE)}
    return sorted(number for number in tried if measured < number <= MOST_PAIRS)
