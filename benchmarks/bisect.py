"""How often the search finds the commit of a range, and with how many launches: simulated.

Each range has 64 commits, and the shipped search asks for launches until it ends. The slow commit
stands anywhere. Noise is that of a launch, and the search knows none of it before. *found* is the
right commit, or with commits that do not run a set that holds it; of two changes one that makes it
slower. *wrong* is any other one. *nothing* is every end without a commit.

Beside it stand two ways to measure all commits: each is held against the limit by itself, and one
change point is fitted over all of them. Both know half of the slowdown as their limit, or that
there is one.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, count

from ci_score.measure.bisect.search import Search
from ci_score.model.bisection import Ask, Finding

COMMITS = 64
SCANNED, FITTED = 20, 7
DRIFTS_IN = 60.0
SHORT, LONG = 20, 1_000
Luck = random.Random


def _normal(luck: Luck, spread: float) -> float:
    return luck.gauss(0.0, spread)


def _heavy(luck: Luck, spread: float) -> float:
    """Student's distribution of three degrees, with the same middle part."""
    return spread * luck.gauss(0.0, 1.0) / math.sqrt(luck.gammavariate(1.5, 2.0) / 3.0)


def _rarely_slow(luck: Luck, spread: float) -> float:
    """One launch in 30 is 8 to 60 % slower."""
    late = math.log1p(luck.uniform(0.08, 0.6)) if luck.random() < 1 / 30 else 0.0
    return luck.gauss(0.0, spread) + late


@dataclass(frozen=True, slots=True)
class World:
    """The changes of a range in their order, and what disturbs its launches.

    `drift` is a share of time in 60 launches, up or down; `gaps` is the share of commits that do
    not run.
    """

    changes: tuple[float, ...] = (0.05,)
    noise: float = 0.03
    drift: float = 0.0
    gaps: float = 0.0
    own: Callable[[Luck, float], float] = _normal


WORLDS = {
    "+5 %": World(),
    "+5 %, drift of 5 %": World(drift=0.05),
    "+5 %, heavy tails": World(own=_heavy),
    "+5 %, rarely slow": World(own=_rarely_slow),
    "+5 %, 1 in 5 does not run": World(gaps=0.2),
    "+10 %": World((0.10,)),
    "+2 %": World((0.02,)),
    "+5 %, then −3 %": World((0.05, -0.03)),
    "−3 %, then +5 %": World((-0.03, 0.05)),
    "+5 %, then +5 %": World((0.05, 0.05)),
    "no difference": World(()),
    "no difference, drift": World((), drift=0.05),
    "no difference, heavy tails": World((), own=_heavy),
    "+5 %, noise of 20 %": World(noise=0.20),
}


class Range:
    """One range with its luck: which commits are slow, and how long a launch takes."""

    def __init__(self, world: World, seed: int) -> None:
        self._luck = Luck(f"range {seed}")
        self._world = world
        places = sorted(self._luck.sample(range(1, COMMITS), len(world.changes)))
        by = dict(zip(places, map(math.log1p, world.changes), strict=True))
        self._levels = list(accumulate(by.get(commit, 0.0) for commit in range(COMMITS)))
        self.slower_at = {place for place, change in by.items() if change > 0}
        inner = range(1, COMMITS - 1)
        self.broken = {commit for commit in inner if self._luck.random() < world.gaps}
        slope = self._luck.choice((-1.0, 1.0)) * math.log1p(world.drift) / DRIFTS_IN
        self._drift: Iterator[float] = (slope * moment for moment in count())

    def launch(self, commit: int) -> float:
        """The time of one launch."""
        own = self._world.own(self._luck, self._world.noise)
        return 100.0 * math.exp(self._levels[commit] + next(self._drift) + own)

    def launches(self, times: int) -> list[list[float]]:
        """So many launches of each commit, in the order of the commits, as logarithms."""
        return [[math.log(self.launch(commit)) for _ in range(times)] for commit in range(COMMITS)]


# --- three ways to find it ------------------------------------------------------------------------


def searched(world: World, seed: int) -> tuple[str, int]:
    """How the search ends, and how many launches it took."""
    at_hand, search = Range(world, seed), Search(COMMITS, seed)
    while isinstance(asked := search.next(), Ask):
        broken = {asked.first, asked.second} & at_hand.broken
        if broken:
            search.skips(min(broken))
        else:
            search.told(asked, *map(at_hand.launch, (asked.first, asked.second)))
    return _outcome(asked, at_hand.slower_at), asked.launches


def _outcome(finding: Finding, slower_at: set[int]) -> str:
    if not finding.own:
        return finding.ended.value
    return "found" if slower_at & set(finding.commits) else "wrong"


def scanned(world: World, seed: int) -> tuple[str, int]:
    """Each commit by itself: the first whose mean is beyond the middle of GOOD and BAD."""
    at_hand = Range(world, seed)
    means = [statistics.fmean(times) for times in at_hand.launches(SCANNED)]
    limit = (means[0] + means[-1]) / 2.0
    named = next((commit for commit, mean in enumerate(means) if mean > limit), COMMITS)
    return "found" if named in at_hand.slower_at else "wrong", SCANNED * COMMITS


def fitted(world: World, seed: int) -> tuple[str, int]:
    """One change point over all: the place where two means leave the least unexplained."""
    at_hand = Range(world, seed)
    sums = list(accumulate(math.fsum(times) for times in at_hand.launches(FITTED)))

    def explained(place: int) -> float:
        after = sums[-1] - sums[place - 1]
        return sums[place - 1] ** 2 / place + after**2 / (COMMITS - place)

    named = max(range(1, COMMITS), key=explained)
    return "found" if named in at_hand.slower_at else "wrong", FITTED * COMMITS


# --- the table ------------------------------------------------------------------------------------


def row(name: str, rows: Sequence[tuple[str, int]]) -> str:
    """How often each end came, and the launches: their mean, and what nine of ten stay below."""
    ends = Counter(end for end, _ in rows)
    launches = sorted(spent for _, spent in rows)
    others = ", ".join(
        f"{end.replace('_', ' ')} {times / len(rows):.1%}"
        for end, times in ends.most_common()
        if end not in ("found", "wrong")
    )
    return (
        f"{name:<38} {ends['found'] / len(rows):>7.1%} {ends['wrong'] / len(rows):>6.1%}"
        f" {statistics.fmean(launches):>8.0f} {launches[len(launches) * 9 // 10]:>6}  {others}"
    )


def main() -> None:
    """A row a world, and the two other ways beside the plain one and the drift."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=LONG, help="ranges of a row")
    parser.add_argument("--short", action="store_true", help="a few ranges, for CI")
    given = parser.parse_args()
    trials = SHORT if given.short else given.trials
    print(
        f"{trials} ranges of {COMMITS} commits a row; 3 % noise a launch, if nothing else is said"
    )
    print(f"{'':<38} {'found':>7} {'wrong':>6} {'launches':>8} {'9 in 10':>7}  nothing")
    with ProcessPoolExecutor() as pool:

        def show(name: str, way: Callable[[World, int], tuple[str, int]], world: World) -> None:
            rows = list(pool.map(partial(way, world), range(trials), chunksize=5))
            print(row(name, rows), flush=True)

        for name, world in WORLDS.items():
            show(name, searched, world)
            if name in ("+5 %", "+5 %, drift of 5 %"):
                show(f"  each by itself, {SCANNED} launches", scanned, world)
                show(f"  one change point, {FITTED} launches", fitted, world)


if __name__ == "__main__":
    main()
