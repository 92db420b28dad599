"""Worlds of noise for `benchmarks.gate`: what luck does to one launch after the other.

A launch's time is 1 times e to the power of a mood, which its moment has, and of luck of its own.
In pairs each launch has a moment. Of a branch each run has one, and its launches share it, unless
the mood is one of launches.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, repeat

Luck = random.Random
Own = Callable[[Luck], float]
Moods = Callable[[Luck], Iterator[float]]
Times = list[float]

# --- luck of a launch's own ---------------------------------------------------------------------


def _normal(luck: Luck, spread: float = 0.01) -> float:
    return luck.gauss(0.0, spread)


def _log_normal(luck: Luck) -> float:
    return 0.024 * math.exp(luck.gauss(0.0, 0.8))


def _student(luck: Luck) -> float:
    squares = sum(luck.gauss(0.0, 1.0) ** 2 for _ in range(3))
    return 0.03 * luck.gauss(0.0, 1.0) / math.sqrt(squares)


def _slow_once(luck: Luck) -> float:
    return math.log1p(luck.uniform(0.08, 0.60))


def _rarely_slow(luck: Luck) -> float:
    return _normal(luck) + (_slow_once(luck) if luck.random() < 1 / 30 else 0.0)


def _either_mode(luck: Luck) -> float:
    return _normal(luck) + 0.08 * (luck.random() < 0.5)


def _three_steps(luck: Luck) -> float:
    # One step in 50 stands still for as long again.
    return math.log(
        statistics.fmean(math.exp(_normal(luck, 0.03)) + (luck.random() < 0.02) for _ in range(3))
    )


# --- moods of moments ---------------------------------------------------------------------------


def _calm(_: Luck) -> Iterator[float]:
    return repeat(0.0)


def _slow_runs(luck: Luck, begins: float = 1 / 30, ends: float = 1.0) -> Iterator[float]:
    slow = 0.0
    while True:
        if not slow or luck.random() < ends:
            slow = _slow_once(luck) if luck.random() < begins else 0.0
        yield slow


def _sticky(luck: Luck) -> Iterator[float]:
    is_slow = luck.random() < 0.5
    while True:
        is_slow ^= luck.random() < 0.05
        yield 0.06 * is_slow


def _bursts(luck: Luck) -> Iterator[float]:
    busy = False
    while True:
        busy = luck.random() < (0.67 if busy else 0.03)
        yield busy * luck.expovariate(1.0 / 0.10)


def _drift(luck: Luck) -> Iterator[float]:
    slope = luck.choice((-0.003, 0.003))
    return (slope * moment for moment in count())


def _warm_up(_: Luck) -> Iterator[float]:
    return (0.15 * math.exp(-moment / 6.0) for moment in count())


def _autocorrelated(luck: Luck, share: float = 0.9, step: float = 0.013) -> Iterator[float]:
    mood = 0.0 if share == 1.0 else luck.gauss(0.0, step / math.sqrt(1.0 - share**2))
    while True:
        yield mood
        mood = share * mood + luck.gauss(0.0, step)


def _periodic(luck: Luck) -> Iterator[float]:
    start, period = luck.random() * math.tau, luck.uniform(3.8, 4.2)
    return (0.08 * math.sin(start + math.tau * moment / period) for moment in count())


def _two_by_two(luck: Luck) -> Iterator[float]:
    while True:
        yield from repeat(luck.gauss(0.0, 0.04), 2)


# --- worlds -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class World:
    """Luck of launches and moods of moments; head may have luck, or a step, that no run had.

    `unknowable` says that no history can tell: what is new about head is not its code.
    """

    own: Own = _normal
    moods: Moods = _calm
    of_head: Own | None = None
    step: float = 0.0
    unknowable: bool = False
    of_launches: bool = False
    in_pairs: bool = True
    in_history: bool = True

    def launch(self, mood: float, luck: Luck, *, is_head: bool = False) -> float:
        """The time of one."""
        own = self.of_head if is_head and self.of_head else self.own
        return math.exp(mood + own(luck))


_of_history = partial(World, in_pairs=False)
WORLDS = {
    "normal, 1 %": World(),
    "normal, 3 %": World(partial(_normal, spread=0.03)),
    "log-normal": World(_log_normal),
    "heavy tails": World(_student),
    # One launch, or run, in 30 is 8 to 60 % slower.
    "rare mode of launches": World(_rarely_slow),
    "rare mode of runs": _of_history(moods=_slow_runs),
    # Each lasts for some twenty moments.
    "sticky modes, 6 %": World(moods=_sticky),
    # A noisy neighbour that comes for some three launches; or for some three runs.
    "bursts, 10 %": World(moods=_bursts, of_launches=True),
    "bursts of whole runs": _of_history(moods=_bursts, unknowable=True),
    # The same way all the time, up or down.
    "drift of 0.3 %": World(moods=_drift),
    "warm-up, 15 %": World(moods=_warm_up, in_history=False),
    "random walk, 1 %": World(moods=partial(_autocorrelated, share=1.0, step=0.01)),
    # A mood that lasts for some ten moments.
    "AR(1), 3 %": World(moods=_autocorrelated),
    # Other work that comes back every four launches or so: 8 % up and down.
    "period of about 4": World(moods=_periodic),
    # Every launch is in one of them, by chance, and always was.
    "two old modes, 8 %": World(_either_mode),
    # Two launches, or runs, in a row share it.
    "mood of a pair, 4 %": World(moods=_two_by_two),
    "launches of 3 steps": World(_three_steps),
    "head 6 %, branch 1 %": World(of_head=partial(_normal, spread=0.06), unknowable=True),
    "level moved by 8 %": _of_history(step=math.log1p(0.08), unknowable=True),
    "level moved by 15 %": _of_history(step=math.log1p(0.15), unknowable=True),
    # It begins in one run of 100, with 8 to 60 %, and lasts for some five.
    "mood outlasts the job": _of_history(
        moods=partial(_slow_runs, begins=1 / 100, ends=0.2), unknowable=True
    ),
}


# --- sessions and branches ----------------------------------------------------------------------


def coin(pairs: int, luck: Luck) -> list[bool]:
    """As `ci-score ab` does: for each pair a fair coin says whether head goes first."""
    return [head for _ in range(pairs) for head in luck.choice(((True, False), (False, True)))]


def in_turns(pairs: int, luck: Luck) -> list[bool]:
    """ABBA: whichever went first goes second in the next pair."""
    first = luck.random() < 0.5
    return [first == (launch % 4 in (0, 3)) for launch in range(2 * pairs)]


def shuffled(pairs: int, luck: Luck) -> list[bool]:
    """All launches in any order; the first of head is then paired with the first of base."""
    return luck.sample([True, False] * pairs, 2 * pairs)


def blocks(pairs: int, _: Luck) -> list[bool]:
    """All of base, then all of head."""
    return [False] * pairs + [True] * pairs


ORDERS = {"coin": coin, "ABBA": in_turns, "shuffled": shuffled, "blocks": blocks}


def session(world: World, pairs: int, luck: Luck, order: str = "coin") -> tuple[Times, Times]:
    """The launches of head and of base; nothing but luck differs."""
    sides: tuple[Times, Times] = ([], [])
    for is_head, mood in zip(ORDERS[order](pairs, luck), world.moods(luck), strict=False):
        sides[not is_head].append(world.launch(mood, luck, is_head=is_head))
    return sides


def branch(world: World, runs: int, launches: int, luck: Luck) -> tuple[Times, Times]:
    """The branch's runs, each a mean of its launches, and then the launches of head."""
    moods = world.moods(luck)

    def of_a_run() -> list[float]:
        return list(islice(moods, launches)) if world.of_launches else [next(moods)] * launches

    earlier = [
        statistics.fmean(world.launch(mood, luck) for mood in of_a_run()) for _ in range(runs)
    ]
    return earlier, [world.launch(mood + world.step, luck, is_head=True) for mood in of_a_run()]


def slower(times: Sequence[float], by: float) -> Times:
    """The same luck, and every launch takes longer by that share."""
    return [time * (1.0 + by) for time in times]


def noise(world: World) -> float:
    """Two of three runs lie as near to the level of the nine before them, or nearer."""
    luck = Luck("noise")
    branches = (branch(world, 10, 1, luck)[0] for _ in range(2_000))
    apart = [abs(math.log(runs[-1] / statistics.median(runs[:-1]))) for runs in branches]
    return sorted(apart)[len(apart) * 2 // 3]
