"""What pairs in turns are worth: whole A/B sessions of real processes, beside two other ways.

A small training loop in plain Python is measured against itself and against planted slowdowns, in
launches of a tenth of a second, while a noisy neighbour comes and goes. What the judge makes of
simulated pairs stands in `benchmarks.gate`.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

from benchmarks.measure import note, show
from ci_score import judge_pairs
from ci_score.judge import planned_looks
from ci_score.measure import Recorder, Session
from ci_score.measure.launch.launching import Done, launch
from ci_score.measure.launch.orders import Order, Orders
from ci_score.measure.recorder import PLANTED_VARIABLE
from ci_score.measure.session.kept import opened
from ci_score.measure.session.runner import Runner
from ci_score.measure.session.schedule import Answer
from ci_score.measure.session.session import Plan
from ci_score.measure.sides.command import Command
from ci_score.measure.sides.spec import SideSpec
from ci_score.model.values import Side

FALSE_FAIL = 0.005
# What the real sessions ask: is it slower by more than this?
LIMIT = 0.05
LOOKS = planned_looks(LIMIT)
STEP_MS = 5.0
MOST_OVERHEAD = 0.01

SCRIPT = """
from ci_score.measure import Recorder
import work
with Recorder(warmup_steps=5) as recorder:
    for _ in range(35):
        with recorder.step():
            work.step()
"""
# A table that is made once, a buffer that is used again, and some arithmetic.
WORK = """
from math import sin
from operator import mul

def made(count):
    return [sin(place) for place in range(count)]

SIZE = 200_000
TABLE, SOURCE, BUFFER = made(4000), bytes(SIZE), bytearray(SIZE)

def step():
    {buffer}
    table = {table}
    for _ in range(6):
        sum(map(mul, TABLE, TABLE))
"""
UNCHANGED = {"buffer": "BUFFER[:] = SOURCE", "table": "TABLE"}


@dataclass(frozen=True, slots=True)
class Change:
    """What head does otherwise: steps made longer by a share, or other code."""

    name: str
    share: float = 0.0
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What head's launches are told."""
        return {PLANTED_VARIABLE: str(self.share)} if self.share else {}


CHANGES = (
    Change("nothing"),
    Change("+5 %", 0.05),
    Change("+10 %", 0.10),
    Change("+20 %", 0.20),
    Change("a fresh buffer each step", code={"buffer": "bytearray(SIZE)[:] = SOURCE"}),
    Change("a lost cache", code={"table": "made(400)"}),
)


COLUMNS = (
    "head does otherwise",
    "slower",
    "fine",
    "unclear",
    "pairs",
    "seen",
    "in blocks: slower",
    "seen",
    "single runs: slower",
    "seen",
)


# --- real sessions ------------------------------------------------------------------------------


def undisturbed(_order: Order, run: Callable[[], Done]) -> tuple[Done, dict[str, str]]:
    """A launch on a machine without accelerators."""
    return run(), {}


class Silence:
    """Nobody listens."""

    def does(self, _words: str, _done: int = 0, _total: int = 0) -> None:
        """Of no interest."""

    def reaches(self, _words: str) -> None:
        """Of no interest."""

    def says(self, _words: str) -> None:
        """Of no interest."""

    def begins(self, _session: Session, _side: Side, _pair: int) -> None:
        """Of no interest."""

    def ends(self, _session: Session, _result: str) -> None:
        """Of no interest."""


@contextmanager
def noisy_neighbour() -> Iterator[None]:
    """A process that wants a core for a while, then none, then one again."""
    code = (
        "import random, time\n"
        "while True:\n"
        "    end = time.monotonic() + random.uniform(0.3, 5)\n"
        "    while time.monotonic() < end:\n"
        "        sum(range(5000))\n"
        "    time.sleep(random.uniform(0.3, 5))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder with both sides and the script."""

    folder: Path

    def write(self, change: Change) -> None:
        """Head with its change."""
        for side, code in (("base", UNCHANGED), ("head", {**UNCHANGED, **change.code})):
            (self.folder / side).mkdir(exist_ok=True)
            (self.folder / side / "work.py").write_text(WORK.format(**code), encoding="utf-8")
        (self.folder / "bench.py").write_text(SCRIPT, encoding="utf-8")

    @property
    def _words(self) -> tuple[str, ...]:
        return (sys.executable, str(self.folder / "bench.py"))

    def _orders(self, out: Path, change: Change) -> Orders:
        return Orders(
            out,
            Command(self._words),
            {"base": SideSpec(self.folder / "base"), "head": SideSpec(self.folder / "head")},
            os.environ,
            {"head": change.environment},
        )

    def plan(self, seed: int) -> Plan:
        """As the command would make it."""
        return Plan(
            command=self._words,
            case="bench",
            looks=LOOKS,
            false_fail=FALSE_FAIL,
            limit=LIMIT,
            seed=seed,
            timeout=60.0,
        )

    def interleaved(self, change: Change, seed: int) -> Session:
        """A whole session, which stops when it is clear."""
        out = self.folder / f"session-{seed}"
        return Runner(
            opened(out, self.plan(seed), fresh=True),
            out,
            self._orders(out, change),
            partial(launch, stopped=lambda: False, listener=Silence()),
            undisturbed,
            lambda: math.inf,
            lambda: False,
            Silence(),
        ).run()

    def one_side(self, change: Change, side: Side, seed: int) -> list[float]:
        """All launches of a side, one after the other."""
        return [self._ms(change, side, 1000 * seed + number) for number in range(LOOKS[-1])]

    def _ms(self, change: Change, side: Side, number: int) -> float:
        order = self._orders(self.folder, change).timed(side, number, 0)
        done = launch(order, 60.0, lambda: False, Silence())
        if done.launch.failed:
            _give_up(done.words)
        return done.launch.mean_ms


def _give_up(words: str) -> NoReturn:
    raise SystemExit(f"the script failed: {words}")


@dataclass(slots=True)
class Row:
    """What the ways to measure said of a change."""

    change: Change
    sessions: int = 0
    answers: Counter[Answer] = field(default_factory=Counter)
    in_blocks: int = 0
    by_single_runs: int = 0
    pairs: list[int] = field(default_factory=list)
    interleaved: list[float] = field(default_factory=list)
    blocks: list[float] = field(default_factory=list)
    singles: list[float] = field(default_factory=list)

    def add(self, bench: Bench, seed: int) -> None:
        """One more session, and as many launches as one of it may have in two blocks."""
        session = bench.interleaved(self.change, seed)
        if session.void or not session.pairs:
            _give_up(session.stopped)
        self.sessions += 1
        self.answers[session.answer] += 1
        self.pairs.append(len(session.pairs))
        self.interleaved.append(session.seen().slower)
        head, base = session.pairs[0]
        self.singles.append(head.mean_ms / base.mean_ms - 1.0)
        self.by_single_runs += self.singles[-1] > LIMIT
        before, after = (bench.one_side(self.change, side, seed) for side in ("base", "head"))
        blocks = judge_pairs(after, before, limit=LIMIT, false_fail=FALSE_FAIL)
        self.blocks.append(blocks.estimate)
        self.in_blocks += blocks.outcome == "fail"

    def __str__(self) -> str:
        """A row of the table."""
        cells = (
            self.change.name,
            f"{self.answers[Answer.SLOWER]}",
            f"{self.answers[Answer.FINE] + self.answers[Answer.WITHIN]}",
            f"{self.answers[Answer.UNCLEAR]}",
            f"{statistics.fmean(self.pairs):.1f}",
            _spread(self.interleaved),
            f"{self.in_blocks}",
            _spread(self.blocks),
            f"{self.by_single_runs}",
            _spread(self.singles),
        )
        return "| " + " | ".join(cells) + " |"


def _spread(changes: list[float]) -> str:
    """The middle of what was seen, and the half of it that lies around it."""
    if len(changes) < 2:
        return "–"
    low, middle, high = statistics.quantiles([100 * one for one in changes], n=4)
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def real(sessions: int, changes: tuple[Change, ...]) -> None:
    """The table of real sessions, a row as soon as it is whole."""
    load = os.getloadavg()[0]
    note(
        [
            "",
            f"{sessions} sessions a row, a limit of {LIMIT:.0%}; {os.cpu_count()} cores, load",
            f"{load:.1f}, and a neighbour that comes and goes.",
            f"| {' | '.join(COLUMNS)} |",
            f"|---{'|--:' * 4}|---|--:|---|--:|---|",
        ]
    )
    with tempfile.TemporaryDirectory() as folder, noisy_neighbour():
        for change in changes:
            bench = Bench(Path(folder))
            bench.write(change)
            row = Row(change)
            for seed in range(sessions):
                row.add(bench, seed)
            print(row, flush=True)


# --- the recorder -------------------------------------------------------------------------------


def overhead() -> float:
    """What a step costs that does nothing but being recorded, as a share of a short one."""
    recorder = Recorder(os.devnull)
    best = math.inf
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(1000):
            with recorder.step():
                pass
        best = min(best, time.perf_counter() - begin)
    return best / STEP_MS


def main() -> None:
    """Everything, or as much of it as CI has time for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="some seconds")
    parser.add_argument("--sessions", type=int, default=30, help="real sessions of each change")
    asked = parser.parse_args()
    show(
        "a recorded step's overhead, of a step of 5 ms", 100 * overhead(), 100 * MOST_OVERHEAD, "%"
    )
    if asked.short:
        real(1, CHANGES[:4:3])
        return
    real(asked.sessions, CHANGES)


if __name__ == "__main__":
    main()
