"""Where in a range the slowdown may lie, and how probable each place is. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

# Two commits, the earlier one first.
Both = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Places:
    """The commits of a range that run, and how probably the slowdown lies behind each of them.

    `chances[i]` is that of the commits after `commits[i]`, up to `commits[i + 1]`.
    """

    commits: Sequence[int]
    chances: Sequence[float]

    @classmethod
    def of(cls, commits: Sequence[int], logs: Mapping[Both, float]) -> Places:
        """What pairs say, if one commit has it all and each is as likely as another.

        `logs` has for two commits how much more probable their pairs are if it lies between them.
        """
        found = [math.log(after - before) for before, after in pairwise(commits)]
        for (low, high), log in logs.items():
            for place, (before, after) in enumerate(pairwise(commits)):
                if low <= before and after <= high:
                    found[place] += log
        most = max(found)
        weights = [math.exp(log - most) for log in found]
        total = math.fsum(weights)
        return cls(commits, [weight / total for weight in weights])

    def slow_at(self, commit: int) -> float:
        """How probably a commit has the slowdown already."""
        return math.fsum(self.chances[: self.commits.index(commit)])

    def most_open(self) -> int:
        """The commit inside of which it is least known whether it is slow."""
        slow = list(accumulate(self.chances[:-1]))
        openness = [min(chance, 1.0 - chance) for chance in slow]
        return self.commits[1 + max(range(len(openness)), key=openness.__getitem__)]

    def best(self) -> tuple[Both, float]:
        """The most probable place, as the commit before it and its last one, and its chance."""
        place = max(range(len(self.chances)), key=self.chances.__getitem__)
        return (self.commits[place], self.commits[place + 1]), self.chances[place]

    def likely(self, share: float) -> Both:
        """The commits between which it lies with that chance at least."""
        first, last = 0, len(self.chances) - 1
        left = 1.0 - share
        while first < last and min(self.chances[first], self.chances[last]) <= left:
            is_first = self.chances[first] <= self.chances[last]
            left -= self.chances[first if is_first else last]
            first, last = first + is_first, last - (not is_first)
        return self.commits[first], self.commits[last + 1]
