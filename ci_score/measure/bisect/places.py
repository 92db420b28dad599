"""Where in a range the slowdown may lie, and how probable each place is. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ci_score.measure.bisect.beside import Both, evidence


@dataclass(frozen=True, slots=True)
class Places:
    """The commits of a range that run, and how probably the slowdown lies behind each of them.

    `chances[i]` is that of the commits after `commits[i]` up to `commits[i + 1]`.
    """

    commits: Sequence[int]
    chances: Sequence[float]

    def slow_at(self, commit: int) -> float:
        """How probably a commit has the slowdown already."""
        return math.fsum(self.chances[: self.commits.index(commit)])

    def most_open(self) -> int | None:
        """The commit of which it is least known whether it is slow; None if none is inside."""
        best, most, below = None, 0.0, 0.0
        for commit, chance in zip(self.commits[1:-1], self.chances[:-1], strict=True):
            below += chance
            if min(below, 1.0 - below) > most:
                best, most = commit, min(below, 1.0 - below)
        return best

    def best(self) -> tuple[int, int, float]:
        """The most probable place: the commit before it, its last commit, and its chance."""
        place = max(range(len(self.chances)), key=self.chances.__getitem__)
        return self.commits[place], self.commits[place + 1], self.chances[place]

    def likely(self, share: float) -> tuple[int, int]:
        """The commits between which it lies with that chance."""
        rest = (1.0 - share) / 2.0
        first, last = 0, len(self.chances) - 1
        while first < last and math.fsum(self.chances[: first + 1]) < rest:
            first += 1
        while last > first and math.fsum(self.chances[last:]) < rest:
            last -= 1
        return self.commits[first], self.commits[last + 1]


def places_of(
    commits: Sequence[int], pairs: Mapping[Both, Sequence[float]], slower: float, scale: float
) -> Places:
    """What the pairs say, if one commit made it slower by that much, and each may have done it."""
    logs = [math.log(after - before) for before, after in pairwise(commits)]
    for (low, high), ratios in pairs.items():
        more = evidence(ratios, slower, scale)
        for place in range(len(logs)):
            if low <= commits[place] and commits[place + 1] <= high:
                logs[place] += more
    most = max(logs)
    weights = [math.exp(one - most) for one in logs]
    total = math.fsum(weights)
    return Places(commits, [weight / total for weight in weights])
