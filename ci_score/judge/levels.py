"""A series of scores → the lasting changes of its level. Pure.

The median of the newest five or ten runs is held against a *reference*: the 60 to 120 runs that are
older than the ten before them. The level has moved where that median is further from theirs than
twice any block of so many of them, and than any three of them in a row; and as far beyond the line
through them, because a slope that goes on is no news. Most of twenty runs have to stay there.

A change is taken out of the series before later runs are looked at: so its repair is seen, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

BLOCKS = (5, 10)
GAP = 10
LEAST_REFERENCE, MOST_REFERENCE = 60, 120
LEAST_RUNS = min(BLOCKS) + GAP + LEAST_REFERENCE
LASTS = 20
# Records forget old runs: further back, the reference would be shorter than when the run was new.
LOOKS_BACK = 45
# A change is looked for so many runs before it was seen.
LOOKED_THROUGH = 40
# A change that took longer is a slow one; its ends are known to some five runs.
LONGEST_STEP = 10
SLOW_GRID = 5
# In variances of a run: what describes the runs worse by less than this may be the truth.
AS_LIKELY = 12.0
# Where all runs agree by chance, or were rounded, they are still no surer than this.
LEAST_SPREAD = 1e-4


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of level: the runs before `old` are on the old level, those from `new` on the new.

    A step has one place for both, and may have happened anywhere after `last` and up to `first`.
    `misfit` is the sum of the squares that it leaves of the runs around it.
    """

    old: int
    new: int
    last: int
    first: int
    size: float = 0.0
    misfit: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether it took more than ten runs."""
        return self.new - self.old >= LONGEST_STEP

    def done_at(self, run: int) -> float:
        """How much of it has happened at a run."""
        return min(max((run - self.old + 1) / (self.new - self.old + 1), 0.0), 1.0)


def level_changes(
    scores: Sequence[float], least: float, looks_back: int = LOOKS_BACK
) -> list[LevelChange]:
    """The changes of level by more than `least` in the newest runs, the oldest first."""
    found: list[LevelChange] = []
    levels = _Levels(scores, least)
    run = max(0, len(scores) - looks_back)
    while run < len(scores):
        seen, sign = run, levels.moved_at(run)
        while run < min(len(scores), seen + GAP) and levels.moved_at(run) == sign:
            run += 1
        if sign and (change := _placed(levels.scores, seen, sign, found)):
            rest = [
                score - change.size * change.done_at(at) for at, score in enumerate(levels.scores)
            ]
            levels = _Levels(rest, least)
            if found and found[-1].size * sign > 0 and change.last - found[-1].first <= GAP:
                begun = found.pop()
                size = begun.size + change.size
                change = replace(change, old=begun.old, last=begun.last, size=size)
            found.append(change)
    return found


class _Levels:
    """The scores of a history, and the median of each block of them."""

    def __init__(self, scores: Sequence[float], least: float) -> None:
        self.scores, self._least = scores, least
        self._medians = {size: _medians(scores, size) for size in (3, *BLOCKS)}

    def moved_at(self, newest: int) -> int:
        """1 where the block up to a run is on a higher level, -1 where on a lower one, else 0."""
        return next((sign for size in BLOCKS if (sign := self._moved(newest + 1 - size, size))), 0)

    def _moved(self, place: int, size: int) -> int:
        end = place - GAP
        start = max(0, end - MOST_REFERENCE)
        if end - start < LEAST_REFERENCE:
            return 0
        level = statistics.median(self.scores[start:end])
        blocks = self._medians[size][start : end - size + 1]
        threes = self._medians[3][start : end - 2]
        bound = max(self._least, 2.0 * _furthest(blocks, level), _furthest(threes, level))
        newest = self._medians[size][place]
        sign = 1 if newest > level else -1
        lasting = statistics.median(self.scores[place : place + LASTS])
        if sign * (newest - level) <= bound or sign * (lasting - level) <= bound:
            return 0
        slope, offset = statistics.linear_regression(range(len(blocks)), blocks)
        beside = [block - slope * number for number, block in enumerate(blocks)]
        beyond = sign * (newest - slope * (place - start) - offset)
        return sign if beyond > max(self._least, 2.0 * _furthest(beside, offset)) else 0


def _medians(scores: Sequence[float], size: int) -> list[float]:
    places = range(len(scores) - size + 1)
    return [statistics.median(scores[place : place + size]) for place in places]


def _furthest(blocks: Sequence[float], level: float) -> float:
    return max(max(blocks) - level, level - min(blocks))


def _placed(
    scores: Sequence[float], seen: int, sign: int, earlier: Sequence[LevelChange]
) -> LevelChange | None:
    """Where it happened: at one place, unless a slow change describes the runs far better."""
    around = range(max(0, seen - LOOKED_THROUGH), min(len(scores), seen + GAP))
    first = max(around.start + 2, earlier[-1].new + 1 if earlier else 0)
    places = range(first, around.stop - 1)
    # One odd run is no level: each counts as the middle one of itself and its neighbours.
    runs = [scores[0], *_medians(scores, 3), scores[-1]]
    steps = [step for place in places if (step := _fit(runs, around, place, place)).size * sign > 0]
    if not steps:
        return None
    step = slow = min(steps, key=lambda one: one.misfit)
    for old in places[::SLOW_GRID]:
        for new in range(old + LONGEST_STEP, places.stop, SLOW_GRID):
            slow = min(slow, _fit(runs, around, old, new), key=lambda one: one.misfit)
    enough = AS_LIKELY * max(slow.misfit / (len(around) - 2), LEAST_SPREAD**2)
    if step.misfit - slow.misfit > enough and slow.size * sign > 0:
        return slow
    likely = [one.new for one in steps if one.misfit - step.misfit < enough]
    return replace(step, last=min(likely) - 1, first=max(likely))


def _fit(scores: Sequence[float], around: range, old: int, new: int) -> LevelChange:
    """The change between two places as it describes the runs around it best."""
    change = LevelChange(old, new, last=old - 1, first=new)
    runs = scores[around.start : around.stop]
    done = [change.done_at(run) for run in around]
    size, level = statistics.linear_regression(done, runs)
    left = (run - level - size * share for run, share in zip(runs, done, strict=True))
    return replace(change, size=size, misfit=sum(one * one for one in left))
