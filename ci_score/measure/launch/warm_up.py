"""What the steps of an untimed launch say: from which one on they count, and which are slow."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

GROUP = 5
SETTLED = 0.05
# Medians of a series differ by its own noise, too: within so many standard errors they agree.
ERRORS = 2.0
# The standard error of a median of n steps, in medians of the differences between neighbours.
OF_A_MEDIAN = 1.3
# In every other launch the second step waits for data-loader workers that start, so one launch
# cannot tell whether the next one's will.
LEAST = 2
# A step is slow from so many times the median on.
SLOW = 2.0
# Of the slow steps that recur each takes at most so many times as much longer as any other.
ALIKE = 1.5
# Candidates for a period come from so many slow steps; a series of noise alone has thousands.
MOST_SLOW = 64


@dataclass(frozen=True, slots=True)
class Slow:
    """Steps far slower than usual that belong to the work, such as evaluations.

    Two or more of them come `every` so many steps (0: none was seen to recur). A window of fewer
    than `least` steps may lack them. On average they make each step `ms` longer.
    """

    every: int = 0
    least: int = 0
    ms: float = 0.0

    def is_held_by(self, steps: int) -> bool:
        """Whether so many steps have as many slow ones among them as come on average."""
        return steps >= self.least and steps % (self.every or 1) == 0

    @property
    def needed(self) -> int:
        """The fewest steps that hold them."""
        every = self.every or 1
        return -(-self.least // every) * every


def warm_up_of(step_ms: Sequence[float]) -> tuple[int, bool]:
    """After how many steps the times have settled, and whether they have.

    They have where the next five steps and both halves of all that follow agree on their median.
    Single bursts change no median. Slow steps that only the start has come before it.
    `step_ms` begins with the second step: nobody knows when the first one began.
    """
    for begin in range(len(step_ms) - 2 * GROUP + 1):
        rest, half = step_ms[begin:], (begin + len(step_ms)) // 2
        groups = rest[:GROUP], step_ms[begin:half], step_ms[half:]
        # A group of five has a median of its own, and its first steps may be of another level.
        lead = next((at for at in range(GROUP) if _agree(rest, rest[at : at + 1])), GROUP)
        if all(_agree(rest, group) for group in groups) and _agree(groups[1], groups[2]):
            return max(LEAST, begin + 1 + max(lead, _still_starting(rest, begin))), True
    return len(step_ms) + 1, False


def _agree(some: Sequence[float], others: Sequence[float]) -> bool:
    """Whether two parts of a series have one level, as far as its noise lets anybody see.

    Neighbours tell the noise: a level that moves once, or slowly, moves few of their differences.
    """
    one, other = statistics.median(some), statistics.median(others)
    noise = statistics.median(abs(later - earlier) for earlier, later in pairwise(some))
    error = OF_A_MEDIAN * noise * sqrt(1 / len(some) + 1 / len(others))
    return abs(one - other) <= max(SETTLED * min(one, other), ERRORS * error)


def _still_starting(steps: Sequence[float], begin: int) -> int:
    """How many more steps belong to the start, of those that medians hide.

    Workers that start, a second compilation, a cache that fills: a launch has it once, here or
    there, and a short window would carry it or not.
    """
    excess = _slow_steps(steps)
    recurring = {place for comb in _combs(excess, len(steps)) for place in comb}
    count = 0
    for place in excess.keys() - recurring:
        # The step that ends here has the number `begin + place + 2`: no period is longer.
        would_recur = len(steps) - 2 * GROUP >= begin + place + 2
        if place < 2 * GROUP and would_recur:
            count = max(count, place + 1)
    return count


def slow_steps_in(step_ms: Sequence[float], begin: int = 0) -> Slow:
    """The slow steps from the place `begin` on; those before it may show how often one comes."""
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
    """How much longer than usual the slow steps take, by their places."""
    usual = usual or (statistics.median(steps) if steps else 0.0)
    return {place: ms - usual for place, ms in enumerate(steps) if ms >= SLOW * usual > 0}


def _combs(excess: Mapping[int, float], count: int) -> list[Sequence[int]]:
    """The slow steps that recur, by period: the places of each, those with most excess first."""
    left = dict(excess)
    found: list[Sequence[int]] = []
    while combs := list(_combs_in(left, count)):
        found.append(max(combs, key=lambda comb: sum(left[place] for place in comb)))
        for place in found[-1]:
            del left[place]
    return found


def _combs_in(excess: Mapping[int, float], count: int) -> Iterator[Sequence[int]]:
    """Places at one distance that all hold a slow step, each about as long as the others."""
    places = list(excess)[:MOST_SLOW]
    for number, first in enumerate(places):
        for second in places[number + 1 :]:
            every = second - first
            comb = range(first, count, every)
            # With a shorter period there would have been one before the first, too.
            if first < every and all(place in excess for place in comb):
                longest, shortest = (pick(excess[place] for place in comb) for pick in (max, min))
                if longest <= ALIKE * shortest:
                    yield comb
