"""How often a trend is told where nothing changed, and how soon where something did: simulated.

Histories grow to 200 runs; each run sees the last 140 of them, as records keep them. A false alarm
is anything that is told at any of those runs. Beside it stands Apache Otava with its own settings,
which sees all runs, if a Python with it is named: `--otava PYTHON`.

With 200 histories false alarms were 1 % in normal noise, 7 % in log-normal noise and with two
modes, 9 % under drift, 11 % where runs are correlated, 27 % with bursts; of Otava 26 to 100 %. At a
noise of 1 % a slowdown of 3 % was told after 5 runs (Otava 2), and of 0.3 % a run after 11 (7).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from ci_score.judge.levels import LEAST_RUNS
from ci_score.judge.trend import trends_of
from ci_score.model.metrics import STEP_TIME, metric_named
from ci_score.model.record import HistoryPoint, RunIdentity, Trend

World = Callable[[random.Random, int], list[float]]
# What was told at a run: the places where the level changed, and by which share.
Told = list[tuple[int, float]]
RUNS, KEPT, CHANGED_AT, WATCHED = 200, 140, 140, 40
CLOSE = 5
STEP, SLOPE = math.log1p(0.03), 0.003
FEW = 4
OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    start, times = json.loads(line)
    told = (compute_change_points(times[:end])[0] for end in range(start, len(times) + 1))
    rows = [[(int(c.index), float(c.stats.forward_rel_change())) for c in row] for row in told]
    print(json.dumps(rows))
"""


# --- worlds: logarithms of step times -----------------------------------------------------------


def normal(luck: random.Random, runs: int, *, spread: float = 0.01) -> list[float]:
    """What most people have in mind."""
    return [luck.gauss(0.0, spread) for _ in range(runs)]


def log_normal(luck: random.Random, runs: int) -> list[float]:
    """Mostly fast, and sometimes far slower."""
    return [0.0125 * (math.exp(luck.gauss(0.0, 0.6)) - 1.2) for _ in range(runs)]


def two_modes(luck: random.Random, runs: int) -> list[float]:
    """One run in five is on a slow machine."""
    return [luck.gauss(0.0, 0.0033) + 0.025 * (luck.random() < 0.2) for _ in range(runs)]


def sticky_modes(luck: random.Random, runs: int) -> list[float]:
    """Two modes that last for some twenty runs: they are changes, but for their cause."""
    slow, levels = False, []
    for _ in range(runs):
        slow ^= luck.random() < 0.05
        levels.append(luck.gauss(0.0, 0.0033) + 0.025 * slow)
    return levels


def bursts(luck: random.Random, runs: int) -> list[float]:
    """A noisy neighbour that comes for some three runs."""
    busy, levels = False, []
    for _ in range(runs):
        busy = luck.random() < (0.67 if busy else 0.03)
        levels.append(luck.gauss(0.0, 0.005) + busy * luck.expovariate(1.0 / 0.02))
    return levels


def rare_mode(luck: random.Random, runs: int) -> list[float]:
    """One run in thirty is slow by far."""
    return [
        luck.gauss(0.0, 0.01) + (luck.random() < 1.0 / 30.0) * luck.uniform(0.08, 0.6)
        for _ in range(runs)
    ]


def creeping(luck: random.Random, runs: int) -> list[float]:
    """0.05 % slower with every run, from the beginning."""
    return [luck.gauss(0.0, 0.01) + 0.0005 * run for run in range(runs)]


def correlated(luck: random.Random, runs: int, *, share: float = 0.8) -> list[float]:
    """A machine whose mood lasts."""
    mood, moods = luck.gauss(0.0, 1.0), []
    for _ in range(runs):
        mood = share * mood + luck.gauss(0.0, math.sqrt(1.0 - share * share))
        moods.append(0.01 * mood)
    return moods


WORLDS: dict[str, World] = {
    "normal 1 %": normal,
    "normal 3 %": partial(normal, spread=0.03),
    "log-normal": log_normal,
    "two modes": two_modes,
    "sticky modes": sticky_modes,
    "bursts": bursts,
    "rare slow mode": rare_mode,
    "drift": creeping,
    "correlated 0.8": correlated,
}


def noise(world: str, runs: int, seed: object) -> list[float]:
    """The luck of a world, the same for the same seed."""
    return WORLDS[world](random.Random(f"{world} {seed}"), runs)  # noqa: S311 - no secret


# --- ours and Otava -----------------------------------------------------------------------------


def history(levels: Iterable[float], changes: dict[int, float] | None = None) -> list[HistoryPoint]:
    """The levels as runs of a step of 100 ms, which becomes slower by a share at each place."""
    slower, points = 0.0, []
    for run, level in enumerate(levels):
        slower += math.log1p((changes or {}).get(run, 0.0))
        points.append(
            HistoryPoint(
                case="training",
                commit=f"{run:040x}",
                run=RunIdentity(number=run + 1),
                created_at=f"2026-{1 + run // 28:02}-{1 + run % 28:02}T00:00:00Z",
                step_time_ms=100.0 * math.exp(level + slower),
                throughput_tok_s=0.0,
            )
        )
    return points


def trends(levels: Iterable[float], changes: dict[int, float] | None = None) -> list[Trend]:
    """What is reported of such a history."""
    return trends_of(metric_named(STEP_TIME), history(levels, changes))


def ours(start: int, levels: Sequence[float]) -> list[Told]:
    """What the record of each run tells, from the `start`th on."""
    points, metric = history(levels), metric_named(STEP_TIME)
    return [
        [
            (int(trend.first_after or "0", 16), trend.delta)
            for trend in trends_of(metric, points[max(0, end - KEPT) : end])
        ]
        for end in range(start, len(points) + 1)
    ]


def otava(python: str, start: int, levels: Sequence[float]) -> list[Told]:
    """The same of Otava, in a process of its own."""
    asked = json.dumps([start, [100.0 * math.exp(level) for level in levels]])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-c", OTAVA],
        input=asked,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    rows: list[Told] = json.loads(done.stdout)
    return rows


# --- trials -------------------------------------------------------------------------------------


def is_false(judge: Callable[[int, Sequence[float]], list[Told]], world: str, seed: int) -> bool:
    """Whether anything is told of a history without a change."""
    return any(judge(LEAST_RUNS, noise(world, RUNS, seed)))


def delay(
    judge: Callable[[int, Sequence[float]], list[Told]], world: str, slope: float, seed: int
) -> float:
    """How many runs a slowdown lasts until it is told; endless where it is not."""
    levels = noise(world, CHANGED_AT + WATCHED, seed)
    for run in range(WATCHED):
        levels[CHANGED_AT + run] += slope * (run + 1) if slope else STEP
    told = judge(CHANGED_AT + 1, levels)
    return next(
        (
            run
            for run, rows in enumerate(told, start=1)
            if any(by > 0 and place > CHANGED_AT - CLOSE for place, by in rows)
        ),
        math.inf,
    )


def row(
    pool: ProcessPoolExecutor, judge: Callable[..., list[Told]], world: str, trials: int, few: int
) -> str:
    """The rate of false alarms, and of a few histories the delays as `median (share told)`."""
    false = statistics.fmean(pool.map(partial(is_false, judge, world), range(trials), chunksize=2))
    texts = [f"{false:.1%}"]
    for slope in (0.0, SLOPE):
        delays = list(pool.map(partial(delay, judge, world, slope), range(few), chunksize=2))
        share = statistics.fmean(math.isfinite(one) for one in delays)
        texts.append(f"{statistics.median(delays):g} ({share:.0%})".replace("inf", "–"))
    return f"{texts[0]:>8} {texts[1]:>12} {texts[2]:>14}"


def has_otava(python: str) -> bool:
    """Whether that Python can import it."""
    asked = [python, "-c", "import otava.analysis"]
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


def main() -> None:
    """A row a world: ours, and Otava."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200, help="for each row")
    parser.add_argument("--short", action="store_true", help="a few trials, for CI")
    parser.add_argument("--otava", default=sys.executable, help="a Python that has apache-otava")
    given = parser.parse_args()
    trials = 8 if given.short else given.trials
    judges: dict[str, Callable[..., list[Told]]] = {"ci-score": ours}
    if has_otava(given.otava):
        judges["Otava"] = partial(otava, given.otava)
    else:
        print("Apache Otava: not installed (see --otava)")
    few = max(trials // FEW, 1)
    print(f"{trials} histories a row without a change (Otava {few}), {few} with one: runs until it")
    print(f"is told, median (share within {WATCHED})")
    print(f"{'':>23} {'false':>8} {'+3 %':>12} {'+0.3 % a run':>14}")
    with ProcessPoolExecutor() as pool:
        for world in WORLDS:
            for name, judge in judges.items():
                told = row(pool, judge, world, trials if judge is ours else few, few)
                print(f"{world:>14} {name:>8} {told}", flush=True)


if __name__ == "__main__":
    main()
