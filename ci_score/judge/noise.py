"""Paired launches, or a history → how much worse, and how sure that is. Pure statistics.

The unit of evidence is a process launch: the steps of one launch share its luck. Everything is on
the scale of a metric's `score`, where more is worse: log ratios for relative metrics.

- *Pairs* of head and base that ran side by side share the machine's mood: their differences are
  judged by Student's t.
- *One launch against a history* is judged by how well earlier runs were predicted: the level is the
  line through the last runs, so that drift is followed; the spread is the larger one of what
  successive differences and the distances from that line say, so that neither two modes nor slow
  wandering pass for precision. A level shift in the past starts the line anew; one that is too new
  to be told from luck is known by the nearest baseline alone, which has to bear the history out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ci_score.judge import student

LEAST_PAIRS = 4
# Fewer runs have hardly met the slow mode of their machine.
LEAST_HISTORY = 12
LEAST_STRETCH = 5
# Two runs in a row may have met the same neighbour; three are a new level.
LEAST_NEW = 3
LEAST_FREEDOM = 4
# Up to this many limits wide, a spread's tails are believed to be those of Student's t.
TRUSTED_REACH = 1.2
# Times the number of runs: how often a mode that should have come in three of them came in none,
# and comes in the next one.
UNSEEN_MODE = 3.0 * math.exp(-3.0)
# No mode of a machine takes twice as long.
SLOWEST_MODE = math.log(2.0)
# A single number confirms another one with this chance of error.
AGREEMENT = 0.16
# Older runs say less about today's level than they cost in drift.
LEVEL_FROM = 30
LEAST_FOR_SLOPE = 10
# In standard errors: by luck, one history in many thousands has a place like that.
SHIFT_FROM = 5.5
# Where all numbers agree by chance, or were rounded, they are still no surer than this.
LEAST_SPREAD = 1e-4
SURE = 0.05
MOST_PAIRS = 64


@dataclass(frozen=True, slots=True)
class Evidence:
    """How much worse head is, as a difference of scores, and how uncertain that is."""

    worsening: float
    error: float
    freedom: float
    samples: int

    def proves(self, limit: float, chance: float) -> bool:
        """Whether it is worse by more than the limit, wrongly said with no more than that chance.

        `chance` is that of an unchanged program.
        """
        return self.at_least(chance) > limit

    def suggests(self, limit: float) -> bool:
        """Whether it looks worse by more than the limit, and is probably worse at all."""
        return self.worsening > limit and self.at_least(SURE) > 0.0

    def at_least(self, chance: float) -> float:
        """It is worse by at least this, wrong with that chance."""
        return self.worsening - self.reach(chance)

    def at_most(self, chance: float) -> float:
        """It is worse by at most this, wrong with that chance."""
        return self.worsening + student.quantile_above(chance, self.freedom) * self.error

    def reach(self, chance: float) -> float:
        """How far above the truth luck can lie, with that chance."""
        return student.quantile_above(chance, self.freedom) * self.error

    def smallest_visible(self, *, of_a_pass: bool) -> float:
        """The least worsening that would have been noticed.

        Of a pass none above it could hide; of others it is how far luck reaches.
        """
        reach = self.reach(SURE)
        return max(reach, self.at_most(SURE)) if of_a_pass else reach


@dataclass(frozen=True, slots=True)
class PairedEvidence(Evidence):
    """The pairs' mean difference; `least` is the smallest one, `base` the mean of the base."""

    least: float
    base: float = 0.0

    def proves(self, limit: float, chance: float) -> bool:
        """By their mean and spread, or because each single pair is beyond the limit.

        The second holds whatever the luck is like, and one launch that ran away, which makes any
        mean uncertain, cannot hide the others.
        """
        if _chance_of_unlike_modes(self.samples) > chance:
            return False
        return self.at_least(chance) > limit or (
            self.least > limit and _chance_of_same_signs(self.samples) <= chance
        )

    def suggests(self, limit: float) -> bool:
        """Whether it looks worse by more than the limit, and probably is, or every pair says so."""
        return self.worsening > limit and (self.at_least(SURE) > 0.0 or self.least > limit)

    def pairs_to_prove(self, limit: float, chance: float) -> int | None:
        """How many pairs would prove what these suggest, if it is true; None for no such number."""
        if self.worsening <= limit:
            return None
        spread = self.error * math.sqrt(self.samples)
        for pairs in range(self.samples + 1, MOST_PAIRS + 1):
            reach = student.quantile_above(chance, pairs - 1) * spread / math.sqrt(pairs)
            if self.worsening - reach > limit and _chance_of_unlike_modes(pairs) <= chance:
                return pairs
        return None


@dataclass(frozen=True, slots=True)
class HistoryEvidence(Evidence):
    """A run's distance from what earlier runs predict.

    `skew` is how much more often than symmetric luck a run of this history is far slower.
    """

    skew: float

    def proves(self, limit: float, chance: float) -> bool:
        """A machine whose luck dwarfs the limit has to show more than its luck.

        The further out, the less is known of how often luck gets there; and what no earlier run has
        shown may be a mode that they were too few to meet.
        """
        if self.samples < runs_to_prove(chance) and self.worsening < SLOWEST_MODE:
            return False
        reach = self.reach(chance)
        return self.worsening - reach * max(1.0, reach / (TRUSTED_REACH * limit)) > limit

    def is_borne_out_by(self, difference: float, limit: float) -> bool:
        """Whether a single earlier run, too, finds it beyond the limit, in spite of its own luck.

        Where the level has just moved, the history does not know that yet, and its last run does.
        """
        luck = student.quantile_above(AGREEMENT, self.freedom) * self.error * math.sqrt(2.0)
        return difference - luck > limit

    def reach(self, chance: float) -> float:
        """How far above the truth luck can lie, with that chance; lopsided luck lies further."""
        quantile = student.quantile_above(chance, self.freedom)
        return (quantile + (quantile**2 - 1.0) * self.skew / 6.0) * self.error


def runs_to_prove(chance: float) -> int:
    """How many earlier runs it takes to be that sure of a single one."""
    return math.ceil(UNSEEN_MODE / chance)


def _chance_of_unlike_modes(pairs: int) -> float:
    """How often a machine of two modes gives head the slow and base the fast one in every pair.

    No spread of so few pairs can tell that from a slowdown, so they are never surer than this.
    """
    return 0.25**pairs


def _chance_of_same_signs(pairs: int) -> float:
    """How often the differences of an unchanged program all lie on the worse side."""
    return 0.5**pairs


def paired(head: Sequence[float], base: Sequence[float]) -> PairedEvidence | None:
    """Scores of head and base of the same pairs; None where they are too few to say anything."""
    differences = [here - there for here, there in zip(head, base, strict=True)]
    count = len(differences)
    if count < LEAST_PAIRS or not all(map(math.isfinite, differences)):
        return None
    spread = max(statistics.stdev(differences), LEAST_SPREAD)
    return PairedEvidence(
        worsening=statistics.fmean(differences),
        error=spread / math.sqrt(count),
        freedom=count - 1,
        samples=count,
        least=min(differences),
        base=statistics.fmean(base),
    )


def against_history(now: float, history: Sequence[float]) -> HistoryEvidence | None:
    """The score of a run against those of earlier ones, the oldest first."""
    if len(history) < LEAST_HISTORY or not all(map(math.isfinite, (now, *history))):
        return None
    stretches = _split_at_shifts(history)
    lines = [_line_through(stretch) for stretch in stretches]
    freedom = sum(line.freedom for line in lines)
    if freedom < LEAST_FREEDOM:
        return None
    around = math.sqrt(sum(line.scatter for line in lines) / freedom)
    spread = max(around, _successive_spread(stretches), LEAST_SPREAD)
    level = lines[-1]
    return HistoryEvidence(
        worsening=now - level.next,
        error=spread * math.sqrt(1.0 + level.leverage),
        freedom=freedom,
        samples=len(history),
        skew=_skew(stretches),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """What a stretch of runs predicts for the next one, and how far the runs lie from it."""

    next: float
    leverage: float
    scatter: float
    freedom: int


def _line_through(stretch: Sequence[float]) -> _Line:
    """The straight line through the last of many runs; of few the mean, a slope would be luck."""
    runs = stretch[-LEVEL_FROM:]
    count = len(runs)
    mean = statistics.fmean(runs)
    if count < LEAST_FOR_SLOPE:
        scatter = sum((run - mean) ** 2 for run in runs)
        return _Line(mean, 1.0 / count, scatter, count - 1)
    fit = _slope_through(runs)
    # A slope that luck explains as well is believed by half: following it would cost more.
    luck = max(fit.scatter / (count - 2), LEAST_SPREAD**2) / fit.width
    believed = max(0.0, 1.0 - luck / max(fit.slope**2, luck))
    ahead = believed * (count - (count - 1) / 2.0)
    leverage = 1.0 / count + ahead**2 / fit.width
    return _Line(mean + fit.slope * ahead, leverage, fit.scatter, count - 2)


@dataclass(frozen=True, slots=True)
class _Slope:
    """The straight line through runs: its slope, how far it is held, and their distances."""

    slope: float
    width: float
    scatter: float


def _slope_through(runs: Sequence[float]) -> _Slope:
    mean, middle = statistics.fmean(runs), (len(runs) - 1) / 2.0
    width = sum((place - middle) ** 2 for place in range(len(runs)))
    slope = sum((place - middle) * run for place, run in enumerate(runs)) / width
    scatter = sum((run - mean - slope * (place - middle)) ** 2 for place, run in enumerate(runs))
    return _Slope(slope, width, scatter)


def _skew(stretches: Sequence[Sequence[float]]) -> float:
    """How lopsided the runs lie around their levels, beyond what luck makes of even ones."""
    distances = []
    for stretch in stretches:
        level = statistics.fmean(stretch)
        distances += [run - level for run in stretch]
    variance = statistics.fmean(distance**2 for distance in distances)
    if variance < LEAST_SPREAD**2:
        return 0.0
    skew: float = statistics.fmean(distance**3 for distance in distances) / variance**1.5
    return max(0.0, skew - 1.5 * math.sqrt(6.0 / len(distances)))


def _successive_spread(stretches: Sequence[Sequence[float]]) -> float:
    """The spread that the steps from run to run show; a jump between stretches is none of them."""
    steps = [(b - a) ** 2 for stretch in stretches for a, b in pairwise(stretch)]
    return math.sqrt(statistics.fmean(steps) / 2) if steps else 0.0


def _split_at_shifts(history: Sequence[float]) -> list[Sequence[float]]:
    """The stretches between lasting changes of level: a merged regression is the new level."""
    place = shift_in(history)
    if place is None:
        return [history]
    return [*_split_at_shifts(history[:place]), *_split_at_shifts(history[place:])]


def shift_in(history: Sequence[float]) -> int | None:
    """Where the level changes most, if that is beyond what the spread on both sides explains."""
    if len(history) < LEAST_STRETCH + LEAST_NEW:
        return None
    place, size, scatter = _largest_step(history)
    # Any two parts of a slope differ as well; a slope is not two levels.
    return place if size > SHIFT_FROM and scatter < _slope_through(history).scatter else None


def _largest_step(history: Sequence[float]) -> tuple[int, float, float]:
    """Where two levels fit best, their distance in standard errors, and the scatter around them."""
    count = len(history)
    centre = statistics.median(history)
    distances = [run - centre for run in history]
    total, squares = math.fsum(distances), math.fsum(distance**2 for distance in distances)
    best = (0, 0.0, squares)
    so_far = math.fsum(distances[: LEAST_STRETCH - 1])
    for before in range(LEAST_STRETCH, count - LEAST_NEW + 1):
        so_far += distances[before - 1]
        after, left = count - before, total - so_far
        scatter = max(squares - so_far**2 / before - left**2 / after, 0.0)
        spread = max(math.sqrt(scatter / (count - 2)), LEAST_SPREAD)
        gap = abs(so_far / before - left / after)
        size = gap / (spread * math.sqrt(1.0 / before + 1.0 / after))
        if size > best[1]:
            best = (before, size, scatter)
    return best
