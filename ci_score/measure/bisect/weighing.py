"""What all pairs of a search say together: the noise, the range's slowdown and its place. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from ci_score.measure.bisect.beside import (
    LEAST_SCALE,
    Level,
    Ratios,
    evidence,
    level_of,
    scale_of,
)
from ci_score.measure.bisect.places import Both, Places

# Noise and slowdown are estimated anew after so many pairs, or that share of all pairs more.
WEIGHED_AGAIN, SHARE_MORE = 1, 1 / 25
# A probe with fewer pairs at an end says nothing of how far the ends lie apart.
LEAST_OF_A_PROBE = 3
UNKNOWN = Level(0.0, math.inf)


@dataclass(slots=True)
class Weighing:
    """The pairs between two ends, and what follows from them.

    A log ratio is always that of the later commit less the earlier one. `slower` is how much slower
    the range's last commit is than its first.
    """

    low: int
    high: int
    scale: float = LEAST_SCALE
    slower: Level = UNKNOWN
    _ratios: dict[Both, list[float]] = field(default_factory=dict)
    _logs: dict[Both, float] = field(default_factory=dict)
    _pairs: int = 0
    _weighed_at: float = 0.0

    def between(self, low: int, high: int) -> Weighing:
        """The same pairs, of a part of the range alone."""
        part = Weighing(low, high)
        for both, ratios in self._ratios.items():
            part.add(both, ratios)
        part._weigh()
        return part

    def add(self, both: Both, ratios: Ratios) -> None:
        """More pairs of two commits; those outside of the ends count when the ends are wider."""
        self._ratios.setdefault(both, []).extend(ratios)
        if not self._is_inside(both):
            return
        self._pairs += len(ratios)
        self._logs[both] = self._logs.get(both, 0.0) + evidence(ratios, self.slower.log, self.scale)
        if self._pairs >= self._weighed_at:
            self._weigh()

    def of(self, first: int, second: int) -> Ratios:
        """The pairs of two commits."""
        return self._ratios.get((min(first, second), max(first, second)), ())

    def beside_ends(self, commit: int) -> tuple[Ratios, Ratios]:
        """A commit's pairs with the first end, and with the last."""
        return self.of(self.low, commit), self.of(commit, self.high)

    def parts(self, *commits: int) -> tuple[Level, Level]:
        """How much slower commits are than the first end, and the last end than they are."""
        below, above = zip(*map(self.beside_ends, commits), strict=True)
        return (
            level_of([*chain.from_iterable(below)], self.scale),
            level_of([*chain.from_iterable(above)], self.scale),
        )

    def places(self, commits: Sequence[int]) -> Places:
        """Where the slowdown may lie among these commits, which run."""
        inside = [commit for commit in commits if self.low <= commit <= self.high]
        return Places.of(inside, self._logs)

    def _is_inside(self, both: Both) -> bool:
        return self.low <= both[0] and both[1] <= self.high

    def _weigh(self) -> None:
        inside = {both: ratios for both, ratios in self._ratios.items() if self._is_inside(both)}
        self.scale = scale_of(inside.values())
        self.slower = self._slowdown(inside)
        self._logs = {
            both: evidence(ratios, self.slower.log, self.scale) for both, ratios in inside.items()
        }
        self._weighed_at = self._pairs + max(WEIGHED_AGAIN, SHARE_MORE * self._pairs)

    def _slowdown(self, inside: dict[Both, list[float]]) -> Level:
        """From the ends beside each other, and from commits that ran beside both of them."""
        ends = inside.get((self.low, self.high))
        if not ends:
            return UNKNOWN
        total, weight = level_of(ends, self.scale).log * len(ends), float(len(ends))
        for commit in sorted(later for earlier, later in inside if earlier == self.low):
            below, above = self.beside_ends(commit)
            if min(len(below), len(above)) >= LEAST_OF_A_PROBE:
                more = len(below) * len(above) / (len(below) + len(above))
                total += more * sum(part.log for part in self.parts(commit))
                weight += more
        return Level(
            total / weight, level_of(ends, self.scale).error * math.sqrt(len(ends) / weight)
        )
