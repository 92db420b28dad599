"""Launches of two commits beside each other → how much slower the later one is. Pure.

Everything is a log ratio of two launches that ran one after the other. Noise has heavy tails, so
each pair is weighed by Student's distribution: one launch that stands still says next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ci_score.model.bisection import Effect

# Of Student's distribution. Fewer would forgive more, and waste more of usual noise.
DEGREES = 5.0
# The standard error of its estimate, in units of its scale and for one pair.
ERROR = math.sqrt((DEGREES + 3.0) / (DEGREES + 1.0))
ROUNDS = 8
# No timer is this exact; without noise at all there would be nothing to divide by.
LEAST_SCALE = 1e-6

# Two commits, the earlier one first.
Both = tuple[int, int]


@dataclass(slots=True)
class Pairs:
    """The log ratios of commits that ran beside each other: of two, the later less the earlier."""

    ratios: dict[Both, list[float]] = field(default_factory=dict)

    def add(self, commit: int, beside: int, log_ratio: float) -> None:
        """A pair: the log time of a commit less that of the one beside it."""
        later = commit > beside
        both = (beside, commit) if later else (commit, beside)
        self.ratios.setdefault(both, []).append(log_ratio if later else -log_ratio)

    def of(self, first: int, second: int) -> Sequence[float]:
        """The log ratios of two commits, the later less the earlier."""
        return self.ratios.get((min(first, second), max(first, second)), ())

    def within(self, low: int, high: int) -> dict[Both, list[float]]:
        """The pairs of commits between these two, and of them."""
        return {
            both: ratios
            for both, ratios in self.ratios.items()
            if low <= both[0] and both[1] <= high
        }


@dataclass(frozen=True, slots=True)
class Level:
    """How much slower, as a log ratio, and its standard error."""

    log: float
    error: float

    @property
    def sigmas(self) -> float:
        """How far from no difference."""
        return self.log / self.error

    def effect(self) -> Effect:
        """As a share of time, with its 95 % interval."""
        least, most = (self.log + side * 1.96 * self.error for side in (-1.0, 1.0))
        return Effect(share=math.expm1(self.log), low=math.expm1(least), high=math.expm1(most))


def scale_of(pairs: Mapping[Both, Sequence[float]]) -> float:
    """The scale of the noise of a pair, each held against the level of its own two commits."""
    groups = [ratios for ratios in pairs.values() if len(ratios) > 1]
    free = sum(len(ratios) - 1 for ratios in groups)
    if not free:
        return LEAST_SCALE
    middles = [math.fsum(ratios) / len(ratios) for ratios in groups]
    squares = math.fsum(
        (one - middle) ** 2
        for ratios, middle in zip(groups, middles, strict=True)
        for one in ratios
    )
    scale = max(math.sqrt(squares / free), LEAST_SCALE)
    for _ in range(ROUNDS):
        total = 0.0
        for ratios in groups:
            middle = centre(ratios, scale)
            for one in ratios:
                square = (one - middle) ** 2
                total += square / (DEGREES + square / scale**2)
        scale = max(math.sqrt((DEGREES + 1.0) * total / free), LEAST_SCALE)
    return scale


def centre(ratios: Sequence[float], scale: float) -> float:
    """Their level; what lies far from the others counts for little."""
    middle = sorted(ratios)[len(ratios) // 2]
    for _ in range(3):
        weights = [1.0 / (DEGREES + ((one - middle) / scale) ** 2) for one in ratios]
        total = math.fsum(weights)
        middle = math.fsum(map(float.__mul__, weights, ratios)) / total
    return middle


def level_of(ratios: Sequence[float], scale: float) -> Level:
    """The level of pairs of the same two commits."""
    return Level(centre(ratios, scale), scale * ERROR / math.sqrt(len(ratios)))


def evidence(ratios: Sequence[float], slower: float, scale: float) -> float:
    """How much more probable such pairs are of commits that differ by that much, as a logarithm."""
    within = DEGREES * scale**2
    return (
        (DEGREES + 1.0)
        / 2.0
        * math.fsum(
            math.log((within + one * one) / (within + (one - slower) ** 2)) for one in ratios
        )
    )
