"""How often the trend of a history is wrong, and what it finds: worlds of noise, simulated.

Each history has 200 runs, or 60, whose noise of 1 % is of one kind. Without a change every trend is
a false one; with one, ten runs before the end, it is found where the place is off by three at most.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from ci_score.judge.trend import trends_of
from ci_score.model.metrics import STEP_TIME, metric_named
from ci_score.model.record import HistoryPoint, RunIdentity, Trend

World = Callable[[random.Random, int], list[float]]
SPREAD = 0.01


def normal(luck: random.Random, runs: int) -> list[float]:
    """What most people have in mind."""
    return [luck.gauss(0.0, 1.0) for _ in range(runs)]


def log_normal(luck: random.Random, runs: int) -> list[float]:
    """Mostly fast, and sometimes far slower."""
    return [1.25 * (math.exp(luck.gauss(0.0, 0.6)) - 1.2) for _ in range(runs)]


def two_modes(luck: random.Random, runs: int) -> list[float]:
    """One run in five is on a slow machine."""
    return [luck.gauss(0.0, 0.33) + 2.5 * (luck.random() < 0.2) for _ in range(runs)]


def spikes(luck: random.Random, runs: int) -> list[float]:
    """One run in 33 met a noisy neighbour."""
    return [
        luck.gauss(0.0, 1.0) + (luck.random() < 0.03) * abs(luck.gauss(0.0, 20.0))
        for _ in range(runs)
    ]


def correlated(luck: random.Random, runs: int, *, share: float) -> list[float]:
    """A machine whose mood lasts."""
    mood, moods = 0.0, []
    for _ in range(runs + 50):
        mood = share * mood + luck.gauss(0.0, math.sqrt(1.0 - share * share))
        moods.append(mood)
    return moods[50:]


def wandering(luck: random.Random, runs: int) -> list[float]:
    """A level that swings to and fro by two spreads in a hundred runs."""
    start = luck.random() * math.tau
    return [
        luck.gauss(0.0, 1.0) + 2.0 * math.sin(start + math.tau * run / 100.0) for run in range(runs)
    ]


def drifting(luck: random.Random, runs: int) -> list[float]:
    """Ten spreads slower over 200 runs: a drift, and no shift."""
    return [luck.gauss(0.0, 1.0) + run / 20.0 for run in range(runs)]


def sticky_modes(luck: random.Random, runs: int) -> list[float]:
    """Two modes that last for some twenty runs: they are shifts, but for their cause."""
    slow, levels = False, []
    for _ in range(runs):
        slow ^= luck.random() < 0.05
        levels.append(luck.gauss(0.0, 0.33) + 2.5 * slow)
    return levels


WORLDS: dict[str, World] = {
    "normal": normal,
    "log-normal": log_normal,
    "two modes": two_modes,
    "spikes": spikes,
    "correlated 0.5": partial(correlated, share=0.5),
    "correlated 0.8": partial(correlated, share=0.8),
    "correlated 0.9": partial(correlated, share=0.9),
    "wandering": wandering,
    "drifting": drifting,
    "sticky modes": sticky_modes,
}


def history(noise: list[float], changes: dict[int, float] | None = None) -> list[HistoryPoint]:
    """The noise as runs of a step of 100 ms, which becomes slower by a share at each place."""
    level, points = 0.0, []
    for run, luck in enumerate(noise):
        level += math.log1p((changes or {}).get(run, 0.0))
        points.append(
            HistoryPoint(
                case="training",
                commit=f"{run:040x}",
                run=RunIdentity(number=run + 1),
                created_at=f"2026-{1 + run // 28:02}-{1 + run % 28:02}T00:00:00Z",
                step_time_ms=100.0 * math.exp(level + SPREAD * luck),
                throughput_tok_s=0.0,
            )
        )
    return points


def trends(noise: list[float], changes: dict[int, float] | None = None) -> list[Trend]:
    """What is reported of such a history."""
    return trends_of(metric_named(STEP_TIME), history(noise, changes))


def trial(name: str, runs: int, seed: int) -> tuple[bool, bool, bool, bool]:
    """Whether a shift and a drift are reported without a change; +5 % and +10 % found with one."""
    noise = WORLDS[name](random.Random(f"{name} {runs} {seed}"), runs)  # noqa: S311 - no secret
    kinds = {trend.kind for trend in trends(noise)}
    place = runs - 10
    found = [
        any(trend.kind == "shift" and abs(_place(trend) - place) <= 3 for trend in reported)
        for reported in (trends(noise, {place: change}) for change in (0.05, 0.10))
    ]
    return "shift" in kinds, "drift" in kinds, found[0], found[1]


def _place(trend: Trend) -> float:
    """The middle of the range that is told."""
    return (int(trend.last_before or "0", 16) + int(trend.first_after or "0", 16) + 1) / 2.0


def main(trials: int) -> None:
    """A row a world: rates with the half width of their 95 % interval."""
    print(f"{'':>16}  {'runs':>4}  {'false shift':>15}  {'drift':>15}  +5 % found  +10 % found")
    with ProcessPoolExecutor() as pool:
        for runs in (200, 60):
            for name in WORLDS:
                work = partial(trial, name, runs)
                rows = list(pool.map(work, range(trials), chunksize=32))
                shift, drift, five, ten = (
                    sum(column) / trials for column in zip(*rows, strict=True)
                )
                print(
                    f"{name:>16}  {runs:>4}  {_rate(shift, trials):>15}  {_rate(drift, trials):>15}"
                    f"  {five:>10.1%}  {ten:>11.1%}",
                    flush=True,
                )


def _rate(rate: float, trials: int) -> str:
    # With none seen, three in as many trials is the most that is likely.
    half = 1.96 * math.sqrt(rate * (1.0 - rate) / trials) if 0.0 < rate < 1.0 else 3.0 / trials
    return f"{rate:.2%} ± {half:.2%}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
