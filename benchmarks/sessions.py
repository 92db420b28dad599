"""What a session makes of its time: minutes to a verdict, and what is found, before and after.

Whole sessions of `ab` with real processes: an unmodified script with seconds of start-up, whose
steps the start-up hook counts, against itself and with 10 % longer steps, on the machine as it is
and beside bursts of others that want every CPU. *Before* is a window of twenty steps and a session
that ends with its second disturbed pair. All times are scaled, so that it ends within hours.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import inf
from pathlib import Path

from benchmarks.ab import FALSE_FAIL, LIMIT, LOOKS, Silence
from benchmarks.measure import note
from ci_score.measure.launch.launching import launch
from ci_score.measure.launch.orders import Orders
from ci_score.measure.machine import load
from ci_score.measure.machine.accelerators import Probe
from ci_score.measure.machine.environment import MachineWatch
from ci_score.measure.recorder import PLANTED_VARIABLE
from ci_score.measure.session import quiet
from ci_score.measure.session.kept import opened
from ci_score.measure.session.quiet import Quiet
from ci_score.measure.session.runner import Runner
from ci_score.measure.session.schedule import Answer
from ci_score.measure.session.session import Ending, Plan, Session
from ci_score.measure.session.settling import Settler
from ci_score.measure.sides.command import Command
from ci_score.measure.sides.spec import SideSpec
from tests.builders.standin_torch import FOLDER as STANDIN

START_SECONDS, STEPS_MS = 4.0, (3.0, 30.0, 300.0)
PLANTED = 0.10
# A tenth of the time, on all CPUs at once: beside half of it no session of either kind is judged.
BURST_SECONDS, REST = (2.0, 20.0), 9
OLD_STEPS, OLD_DISTURBED, OLD_LEAST_SECONDS = 20, 1, 5.0
# A CPU that is shared takes longer for it, as for real work.
SCRIPT = """
import sys
def work(ms):
    for _ in range(int(ms * {loops})):
        pass
work({start_ms})
import torch
from torch.optim import AdamW
weight = torch.tensor(1.0, requires_grad=True)
optimizer = AdamW([weight])
while True:
    work({step_ms})
    (weight * 2.0).backward()
    optimizer.step()
"""
BURSTS = """
import os, random, time
random.seed(1)
parent = os.getppid()
while os.getppid() == parent:
    end = time.monotonic() + random.uniform({least}, {most})
    while time.monotonic() < end:
        pass
    time.sleep({rest} * random.uniform({least}, {most}))
"""


def loops_a_ms() -> int:
    """How often an empty loop runs in a millisecond, at best."""
    best = inf
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(100_000):
            pass
        best = min(best, time.perf_counter() - begin)
    return round(100 / best)


@contextmanager
def bursts(scale: float) -> Iterator[None]:
    """As many processes as CPUs, which work and sleep at the same times."""
    least, most = (scale * seconds for seconds in BURST_SECONDS)
    code = BURSTS.format(least=least, most=most, rest=REST)
    count = len(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


@dataclass(slots=True)
class OldSession(Session):
    """One that ended with its second disturbed pair, and was not judged then."""

    @property
    def too_disturbed(self) -> str:
        """Whether it ends."""
        return "others disturbed it" if len(self.disturbed) > OLD_DISTURBED else ""


@dataclass(slots=True)
class Row:
    """What sessions of one kind took and found."""

    minutes: list[float] = field(default_factory=list)
    found: int = 0
    false: int = 0
    ended: int = 0
    width: list[float] = field(default_factory=list)

    def add(self, session: Session, minutes: float, *, is_changed: bool) -> None:
        """One more."""
        self.minutes.append(minutes)
        is_slower = session.can_be_judged and session.answer is Answer.SLOWER
        self.found += is_changed and is_slower
        self.false += is_slower and not is_changed
        self.ended += not session.can_be_judged
        seen = session.seen()
        if len(session.pairs) and seen.high < inf and seen.low > -1:
            self.width.append(seen.high - seen.low)


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder with the script."""

    folder: Path
    scale: float
    loops: int
    step_ms: float
    is_old: bool

    def session(self, number: int, planted: float) -> tuple[Session, float]:
        """A whole one, and its minutes on a machine without a scale."""
        for side in ("base", "head"):
            (self.folder / side).mkdir(exist_ok=True)
            script = SCRIPT.format(loops=self.loops, start_ms=1000 * START_SECONDS * self.scale,
                                   step_ms=self.step_ms * self.scale)  # fmt: skip
            (self.folder / side / "train.py").write_text(script, encoding="utf-8")
        out = self.folder / f"session-{number}"
        begin = time.monotonic()
        session = self._run(out, number, planted)
        return session, (time.monotonic() - begin) / self.scale / 60.0

    def _run(self, out: Path, number: int, planted: float) -> Session:
        environment = {**os.environ, "PYTHONPATH": str(STANDIN), "OMP_NUM_THREADS": "1"}
        words = (sys.executable, "train.py")
        orders = Orders(
            out,
            Command(words),
            {"base": SideSpec(self.folder / "base"), "head": SideSpec(self.folder / "head")},
            environment,
            {"head": {PLANTED_VARIABLE: str(planted)}} if planted else {},
        )
        plan = Plan(
            command=words,
            case="bench",
            looks=LOOKS,
            false_fail=FALSE_FAIL,
            limit=LIMIT,
            seed=number,
            timeout=600.0,
            steps=OLD_STEPS if self.is_old else None,
        )
        session = OldSession(plan) if self.is_old else opened(out, plan, fresh=True)
        out.mkdir(exist_ok=True)
        watch = MachineWatch(Probe("none", 3600.0, list))
        stopped = lambda: False  # noqa: E731
        start = partial(launch, stopped=stopped, listener=Silence())
        waits = Quiet(watch.others, 0.0 if self.is_old else 600.0 * self.scale, stopped, Silence())
        waits.comes()
        Settler(session, out, orders, start, lambda: inf, stopped, Silence()).run()
        runner = Runner(session, out, orders, start, watch.disturbances, waits, lambda: inf,
                        stopped, Silence())  # fmt: skip
        return runner.run() if session.ending is None else session


def measured(bench: Bench, sessions: int, *, beside_bursts: bool) -> Row:
    """As many sessions of an unchanged program as of one with slower steps."""
    row = Row()
    load.LEAST_SECONDS = (OLD_LEAST_SECONDS if bench.is_old else 1.0) * bench.scale
    quiet.EVERY_SECONDS = bench.scale
    with bursts(bench.scale) if beside_bursts else nullcontext():
        for number, planted in product(range(sessions), (0.0, PLANTED)):
            session, minutes = bench.session(number, planted)
            if session.ending is Ending.UNSETTLED:
                raise SystemExit(session.stopped)
            row.add(session, minutes, is_changed=bool(planted))
    return row


def main() -> None:
    """A row for each length of a step, quiet and beside bursts; before, after, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one session of a kind: some minutes")
    parser.add_argument("--sessions", type=int, default=10, help="of each kind")
    parser.add_argument("--scale", type=float, default=0.25, help="of all times")
    asked = parser.parse_args()
    sessions, scale = (1, 0.1) if asked.short else (asked.sessions, asked.scale)
    loops = loops_a_ms()
    cpus, busy = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    note(
        f"""
{sessions} sessions of an unchanged program and {sessions} of one that is {PLANTED:.0%} slower;
a limit of {LIMIT:.0%}; {START_SECONDS:g} s of start-up, all times scaled by {scale:g};
{cpus} CPUs, load {busy:.1f}.
Minutes to the end, slower ones found, unchanged ones called slower, sessions that cannot be judged,
and half of the interval's width: before → after.

| step, machine | minutes | ratio | found | false | not judged | ± |
|---|--:|--:|--:|--:|--:|--:|""".splitlines()
    )
    for step_ms, beside_bursts in product(STEPS_MS, (False, True)):
        with tempfile.TemporaryDirectory() as folder:
            before, after = (
                measured(Bench(Path(folder), scale, loops, step_ms, is_old), sessions,
                         beside_bursts=beside_bursts)
                for is_old in (True, False)
            )  # fmt: skip
        print(_line(step_ms, before, after, beside_bursts=beside_bursts), flush=True)


def _line(step_ms: float, before: Row, after: Row, *, beside_bursts: bool) -> str:
    minutes = [statistics.fmean(row.minutes) for row in (before, after)]
    half = [f"{50 * statistics.median(row.width):.1f} %" if row.width else "–"
            for row in (before, after)]  # fmt: skip
    cells = (
        f"{step_ms:g} ms, {'bursts' if beside_bursts else 'as it is'}",
        f"{minutes[0]:.1f} → {minutes[1]:.1f}",
        f"{minutes[1] / minutes[0]:.2f}",
        f"{before.found} → {after.found}",
        f"{before.false} → {after.false}",
        f"{before.ended} → {after.ended}",
        f"{half[0]} → {half[1]}",
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
