"""Launches of two commits beside each other → how much slower the later one is. Pure.

Everything is a log ratio of two launches that ran one after the other. Noise has heavy tails, so
each pair is weighed by Student's distribution: one launch that stands still says next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci_score.model.bisection import Effect

# Of Student's distribution. Fewer would forgive more, and waste more of usual noise.
DEGREES = 5.0
# The standard error of its estimate, in units of its scale and for one pair.
ERROR = math.sqrt((DEGREES + 3.0) / (DEGREES + 1.0))
ROUNDS_OF_SCALE, ROUNDS_OF_LEVEL = 4, 2
# No timer is this exact; without noise at all there would be nothing to divide by.
LEAST_SCALE = 1e-6
# Of fewer pairs nobody can say which one stood still.
LEAST_OF_A_GROUP = 5
# About how many times the middle distance the scale is.
MIDDLE_TO_SCALE = 1.3
# Of the normal distribution: both ends of a 95 % interval.
OF_95_PERCENT = 1.96

Ratios = Sequence[float]


@dataclass(frozen=True, slots=True)
class Level:
    """How much slower, as a log ratio, and its standard error."""

    log: float
    error: float

    @property
    def sigmas(self) -> float:
        """How many errors it is from no difference."""
        return self.log / self.error

    def effect(self) -> Effect:
        """As a share of time, with its 95 % interval."""
        room = OF_95_PERCENT * self.error
        share, low, high = (math.expm1(self.log + by) for by in (0.0, -room, room))
        return Effect(share=share, low=low, high=high)


def level_of(ratios: Ratios, scale: float) -> Level:
    """The level of pairs of the same two commits."""
    return Level(_centre(ratios, scale), scale * ERROR / math.sqrt(len(ratios)))


def scale_of(groups: Iterable[Ratios]) -> float:
    """The scale of the noise of a pair, each held against the level of its own two commits."""
    several = [ratios for ratios in groups if len(ratios) >= LEAST_OF_A_GROUP]
    free = sum(len(ratios) - 1 for ratios in several)
    scale = _middle_size(several, free)
    for _ in range(ROUNDS_OF_SCALE if free else 0):
        within = DEGREES * scale * scale
        total = 0.0
        for ratios in several:
            centre = _centre(ratios, scale)
            for one in ratios:
                square = (one - centre) ** 2
                total += square / (within + square)
        scale *= math.sqrt((DEGREES + 1.0) * total / free)
        scale = max(scale, LEAST_SCALE)
    return scale


def evidence(ratios: Ratios, slower: float, scale: float) -> float:
    """How much more probable such pairs are of commits that differ by that much, as a logarithm."""
    within = DEGREES * scale * scale
    logs = [math.log((within + one * one) / (within + (one - slower) ** 2)) for one in ratios]
    return (DEGREES + 1.0) / 2.0 * math.fsum(logs)


def _centre(ratios: Ratios, scale: float) -> float:
    """Their level; what lies far from the others counts for little."""
    centre = _middle(ratios)
    within = DEGREES * scale * scale
    for _ in range(ROUNDS_OF_LEVEL):
        total, weight = 0.0, 0.0
        for one in ratios:
            share = 1.0 / (within + (one - centre) ** 2)
            total, weight = total + share * one, weight + share
        centre = total / weight
    return centre


def _middle_size(groups: Sequence[Ratios], free: int) -> float:
    """About the scale, from the middle one of all distances to their group's centre."""
    sizes = sorted(abs(one - _middle(ratios)) for ratios in groups for one in ratios)
    if not free:
        return LEAST_SCALE
    return max(sizes[len(sizes) // 2] * MIDDLE_TO_SCALE * len(sizes) / free, LEAST_SCALE)


def _middle(ratios: Ratios) -> float:
    ordered = sorted(ratios)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0
