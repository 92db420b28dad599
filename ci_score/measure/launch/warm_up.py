"""Reads the step times of an untimed launch: how long the warm-up is, and which steps are slow."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

GROUP = 5
SETTLED = 0.05
# Two medians agree within this many standard errors of the series' own noise.
ERRORS = 2.0
# Standard error of the median of one step, in units of the median difference between neighbours.
OF_A_MEDIAN = 1.3
# In every other launch the second step waits for data-loader workers that start, so one launch
# cannot tell whether the next one's will.
LEAST = 2
# A slow step takes at least this many times the median.
SLOW = 2.0
# Recurring slow steps are alike: the longest excess is at most this many times the shortest.
ALIKE = 1.5
# Periods are sought among this many slow steps; a very noisy series has thousands.
MOST_SLOW = 64


@dataclass(frozen=True, slots=True)
class Slow:
    """Steps far slower than usual that are part of the work, such as evaluations.

    They recur `every` this many steps (0: none was seen twice). A window shorter than `least` steps
    may miss them. On average they add `ms` to each step.
    """

    every: int = 0
    least: int = 0
    ms: float = 0.0

    def is_held_by(self, steps: int) -> bool:
        """Whether a window of this length holds the slow steps in proportion."""
        return steps >= self.least and steps % (self.every or 1) == 0

    @property
    def needed(self) -> int:
        """The shortest window that does."""
        every = self.every or 1
        return -(-self.least // every) * every


def warm_up_of(step_ms: Sequence[float]) -> tuple[int, bool]:
    """After how many steps the times settle, and whether they do.

    They have settled where the next five steps and both halves of the rest have the same median. A
    single burst changes no median. Slow steps that only the start has belong to the warm-up.
    `step_ms` begins with the second step: nobody can tell when the first one began.
    """
    for begin in range(len(step_ms) - 2 * GROUP + 1):
        rest, half = step_ms[begin:], (begin + len(step_ms)) // 2
        groups = rest[:GROUP], step_ms[begin:half], step_ms[half:]
        # The first steps of a group of five may still be of another level.
        lead = next((at for at in range(GROUP) if _agree(rest, rest[at : at + 1])), GROUP)
        if all(_agree(rest, group) for group in groups) and _agree(groups[1], groups[2]):
            return max(LEAST, begin + 1 + max(lead, _still_starting(rest, begin))), True
    return len(step_ms) + 1, False


def _agree(some: Sequence[float], others: Sequence[float]) -> bool:
    """Whether two parts of a series have the same level, within its noise.

    Differences between neighbours measure the noise: a level that moves once, or slowly, changes
    few of them.
    """
    one, other = statistics.median(some), statistics.median(others)
    noise = statistics.median(abs(later - earlier) for earlier, later in pairwise(some))
    error = OF_A_MEDIAN * noise * sqrt(1 / len(some) + 1 / len(others))
    return abs(one - other) <= max(SETTLED * min(one, other), ERRORS * error)


def _still_starting(steps: Sequence[float], begin: int) -> int:
    """How many more steps belong to the start, though no median shows them.

    Workers start, something compiles again, a cache fills: it happens once a launch, sooner or
    later, and a short window would hold it in one launch and miss it in the next.
    """
    excess = _slow_steps(steps)
    recurring = {place for comb in _combs(excess, len(steps)) for place in comb}
    count = 0
    for place in excess.keys() - recurring:
        # This is step number `begin + place + 2`, so a period is at most that long.
        would_recur = len(steps) - 2 * GROUP >= begin + place + 2
        if place < 2 * GROUP and would_recur:
            count = max(count, place + 1)
    return count


def slow_steps_in(step_ms: Sequence[float], begin: int = 0) -> Slow:
    """The slow steps from `begin` on; earlier ones may help to find their period."""
    excess = _slow_steps(step_ms[begin:])
    if not excess:
        return Slow()
    usual = statistics.median(step_ms[begin:])
    combs = _combs(_slow_steps(step_ms, usual), len(step_ms))
    places = {place - begin for comb in combs[:1] for place in comb}
    every = combs[0][1] - combs[0][0] if combs else 0
    count = len(step_ms) - begin
    least = every if places >= excess.keys() else count
    return Slow(every, least, sum(excess.values()) / count)


def _slow_steps(steps: Sequence[float], usual: float | None = None) -> dict[int, float]:
    """The excess of each slow step over the usual time, by its place."""
    usual = usual or (statistics.median(steps) if steps else 0.0)
    return {place: ms - usual for place, ms in enumerate(steps) if ms >= SLOW * usual > 0}


def _combs(excess: Mapping[int, float], count: int) -> list[Sequence[int]]:
    """The places of recurring slow steps, one range a period, the most expensive first."""
    left = dict(excess)
    found: list[Sequence[int]] = []
    while combs := list(_combs_in(left, count)):
        found.append(max(combs, key=lambda comb: sum(left[place] for place in comb)))
        for place in found[-1]:
            del left[place]
    return found


def _combs_in(excess: Mapping[int, float], count: int) -> Iterator[Sequence[int]]:
    """Evenly spaced places that all hold a slow step of about the same length."""
    places = list(excess)[:MOST_SLOW]
    for number, first in enumerate(places):
        for second in places[number + 1 :]:
            every = second - first
            comb = range(first, count, every)
            # Otherwise there would be one before the first, too.
            if first < every and all(place in excess for place in comb):
                longest, shortest = (pick(excess[place] for place in comb) for pick in (max, min))
                if longest <= ALIKE * shortest:
                    yield comb
