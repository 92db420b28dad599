"""How often the gate is wrong and what it finds: worlds of noise, judged by the shipped judge.

An unchanged program that fails is a false failure. The planted slowdown is 5 % beyond the limit
that fails. Beside it stand three gates that people use: the reference's fixed rule (+20 % of one
number a side), a t-test at the same chance, and a floor of 2 %.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from itertools import islice
from typing import Literal

from benchmarks.measure import note, ratio, show
from ci_score.baselines import read_record
from ci_score.compare.changes import differences
from ci_score.files.strict_json import dump
from ci_score.judge import decide, student
from ci_score.judge.noise import LEAST_HISTORY
from ci_score.judge.policy import Policy, read_policy, rules_of
from ci_score.model.environment import Environment
from ci_score.model.record import (
    BaselineUsed,
    HistoryPoint,
    LaunchNumbers,
    Measured,
    Record,
    RunIdentity,
)
from ci_score.model.scorecard import Scorecard
from ci_score.model.stages import BaselineFound, Compared
from ci_score.model.verdict import Outcome

FALSE_FAIL = 0.005
LIMIT = 0.05
PLANTED = 1.05 / (1.0 - LIMIT)
SPREADS = (0.01, 0.03, 0.05, 0.13)
HISTORIES = (0, 5, 30)
PAIRS = (4, 8, 12)
CASES_OF_A_REPORT = 8
# What CI lets pass, where other work runs beside it.
MOST_COSTS = 2.0
TOKENS = 100_000.0

# --- worlds: what luck does to one launch after the other, with a spread of about 1 ---------------

Luck = Iterator[float]
World = Callable[[random.Random], Luck]


def normal(luck: random.Random) -> Luck:
    """What most people have in mind."""
    while True:
        yield luck.gauss(0.0, 1.0)


def log_normal(luck: random.Random) -> Luck:
    """Mostly fast, and sometimes far slower."""
    mean, spread = math.exp(0.18), math.exp(0.18) * math.sqrt(math.expm1(0.36))
    while True:
        yield (math.exp(luck.gauss(0.0, 0.6)) - mean) / spread


def modes(luck: random.Random, *, slow: float, stays: float = 0.0) -> Luck:
    """A fast and a slow mode; a launch keeps that of the one before with a chance of `stays`."""
    gap = 0.98 / math.sqrt(slow * (1.0 - slow))
    is_slow = luck.random() < slow
    while True:
        if luck.random() >= stays:
            is_slow = luck.random() < slow
        yield gap * (is_slow - slow) + luck.gauss(0.0, 0.2)


def drift(luck: random.Random) -> Luck:
    """Mostly a level that swings slowly, to and fro in some hundred launches."""
    start, period = luck.random() * math.tau, luck.uniform(100.0, 400.0)
    launch = 0
    while True:
        swing = math.sqrt(2.0) * 0.95 * math.sin(start + math.tau * launch / period)
        yield swing + luck.gauss(0.0, 0.31)
        launch += 1


def autocorrelated(luck: random.Random) -> Luck:
    """A machine whose mood lasts for some launches."""
    mood = luck.gauss(0.0, 1.0)
    while True:
        yield mood
        mood = 0.7 * mood + luck.gauss(0.0, math.sqrt(1.0 - 0.49))


def bursts(luck: random.Random) -> Luck:
    """A noisy neighbour that comes for some three launches."""
    busy = False
    while True:
        busy = luck.random() < (0.67 if busy else 0.03)
        yield luck.gauss(0.0, 0.5) + busy * luck.expovariate(1.0 / 2.0)


def heavy_tail(luck: random.Random) -> Luck:
    """Student's t with three degrees of freedom: any launch may be far off, to either side."""
    while True:
        squares = sum(luck.gauss(0.0, 1.0) ** 2 for _ in range(3))
        yield luck.gauss(0.0, 1.0) / math.sqrt(squares / 3.0) / math.sqrt(3.0)


STICKY = "sticky modes"
WORLDS: dict[str, World] = {
    "normal": normal,
    "log-normal": log_normal,
    "two modes": partial(modes, slow=0.5),
    "rare slow mode": partial(modes, slow=0.1),
    "drift": drift,
    "autocorrelated": autocorrelated,
    "bursts": bursts,
    "heavy tail": heavy_tail,
    STICKY: partial(modes, slow=0.5, stays=0.95),
}


# --- a trial ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Design:
    """What was measured: a number of runs of the branch and one of head, or pairs.

    `moved` runs ago a slowdown of `by` was merged, which is no fault of an unchanged head.
    """

    runs: int = 0
    pairs: int = 0
    moved: int = 0
    by: float = 0.10

    def __str__(self) -> str:
        """As a row's head."""
        if self.pairs:
            return f"{self.pairs} pairs"
        moved = f", level {self.by:+.0%} {self.moved} ago" if self.moved else ""
        return f"{self.runs} runs{moved}"


@dataclass(frozen=True, slots=True)
class Session:
    """Milliseconds a step of each launch: of head, and of the branch or of the pairs' bases."""

    design: Design
    head: tuple[float, ...]
    base: tuple[float, ...]

    @property
    def now(self) -> float:
        """Head's one number."""
        return statistics.median(self.head)

    @property
    def before(self) -> float:
        """The baseline's one number: the median of the pairs' bases, or the branch's last run."""
        return statistics.median(self.base) if self.design.pairs else self.base[-1]

    def slowed(self, factor: float) -> Session:
        """The same luck, and a head that takes longer."""
        return Session(self.design, tuple(ms * factor for ms in self.head), self.base)

    def compared(self, case: str = "training") -> Compared:
        """What the pipeline would hand to the judge."""
        head, base = _case(case, self.now), _case(case, self.before)
        if self.design.pairs:
            launches = _launches("head", self.head) + _launches("base", self.base)
            head = head.but(launches=launches)
        found = BaselineFound(base, BaselineUsed(source="the branch"))
        return Compared(head, found, differences(head, base, gated()))

    def branch(self, case: str = "training") -> tuple[HistoryPoint, ...]:
        """What the branch remembers of it."""
        if self.design.pairs or not self.design.runs:
            return ()
        return tuple(_point(case, ms) for ms in self.base)


@cache
def shipped_policy() -> Policy:
    """What `ci-score policy init` writes."""
    starter = files("ci_score.judge.policy") / "starter.toml"
    return read_policy(starter.read_bytes(), "starter.toml").policy


@cache
def gated() -> tuple[str, ...]:
    """The metrics that it names."""
    return tuple(gate.metric.name for gate in rules_of(shipped_policy(), "training").gates)


def session(world: World, spread: float, design: Design, luck: random.Random) -> Session:
    """One measurement of an unchanged program."""
    times = (100.0 * math.exp(spread * deviation) for deviation in world(luck))
    if not design.pairs:
        runs = list(islice(times, max(design.runs, 1)))
        head = next(times)
        if design.moved:
            runs[-design.moved :] = [ms * (1.0 + design.by) for ms in runs[-design.moved :]]
            head *= 1.0 + design.by
        return Session(design, (head,), tuple(runs))
    sides: tuple[list[float], list[float]] = ([], [])
    first = luck.random() < 0.5
    for pair in range(design.pairs):
        head_first = first == (pair % 2 == 0)
        for side in (0, 1) if head_first else (1, 0):
            sides[side].append(next(times))
    return Session(design, tuple(sides[0]), tuple(sides[1]))


def _case(name: str, ms: float) -> Measured:
    # Unchecked, because thousands of thousands are built.
    card = Scorecard.model_construct(
        grade="B",
        efficiency=0.45,
        bottleneck="memory_bw",
        throughput_tok_s=TOKENS / ms * 1000.0,
        step_time_ms=ms,
        forward_backward_ratio=0.0,
        wall_coverage=0.0,
    )
    return Measured(name=name, scorecard=card)


def _launches(side: Literal["head", "base"], times: Sequence[float]) -> tuple[LaunchNumbers, ...]:
    return tuple(
        LaunchNumbers.model_construct(
            side=side,
            launch=number,
            values={"step_time_ms": ms, "throughput_tok_s": TOKENS / ms * 1000.0},
        )
        for number, ms in enumerate(times)
    )


_ANYWHERE = Environment()


def _point(case: str, ms: float) -> HistoryPoint:
    return HistoryPoint.model_construct(
        case=case,
        created_at="",
        step_time_ms=ms,
        throughput_tok_s=TOKENS / ms * 1000.0,
        metrics={},
        environment=_ANYWHERE,
    )


# --- the gates ----------------------------------------------------------------------------------


def ours(found: Session) -> Outcome:
    """The shipped judge's."""
    verdict = decide([found.compared()], found.branch(), shipped_policy())[0].verdict
    return verdict.outcome if verdict else Outcome.INCONCLUSIVE


def by_reference(found: Session) -> bool:
    """The reference's critical regression."""
    return found.now > 1.2 * found.before


def by_floor(found: Session) -> bool:
    """More than 2 % slower."""
    return found.now > 1.02 * found.before


def by_t_test(found: Session) -> bool:
    """Slower at all by Student's t at the same chance, of pairs or of one run against all."""
    head, base = map(_logs, (found.head, found.base))
    if found.design.pairs:
        differences = [mine - theirs for mine, theirs in zip(head, base, strict=True)]
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        return statistics.fmean(differences) > error * _quantile(len(differences))
    if len(base) < 2:
        return False
    error = statistics.stdev(base) * math.sqrt(1.0 + 1.0 / len(base))
    return head[0] - statistics.fmean(base) > error * _quantile(len(base))


def _logs(times: Iterable[float]) -> list[float]:
    return [math.log(ms) for ms in times]


def _quantile(numbers: int) -> float:
    return student.quantile_above(FALSE_FAIL, numbers - 1)


RIVALS = {"reference": by_reference, "t-test": by_t_test, "2 % floor": by_floor}


# --- many of them -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """One row: a world, how much launches differ in it, and what is measured."""

    world: str
    spread: float
    design: Design

    def sessions(self, seeds: Iterable[int]) -> Iterator[Session]:
        """Repeatable ones."""
        for seed in seeds:
            luck = random.Random(f"{self} {seed}")  # noqa: S311 - no secret
            yield session(WORLDS[self.world], self.spread, self.design, luck)

    @property
    def counts(self) -> bool:
        """Whether the promise holds here: launches that share a mode for hours are beyond it."""
        return self.world != STICKY

    @property
    def promises_to_catch(self) -> bool:
        """Whether the planted slowdown has to be found nearly always."""
        if self.design.pairs:
            return self.world == "drift" and self.spread == 0.03
        return self.world == "normal" and self.spread == 0.01 and self.design == Design(runs=30)

    def trials(self, trials: int) -> int:
        """A fifth will do where there is no evidence: one number a side never fails."""
        is_evidence = self.design.pairs or self.design.runs >= LEAST_HISTORY
        return trials if is_evidence else trials // 5


@dataclass(slots=True)
class Tally:
    """What the gates said of an unchanged head, and of a slowed one."""

    unchanged: Counter[str] = field(default_factory=Counter)
    slowed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Of more trials."""
        self.unchanged += other.unchanged
        self.slowed += other.slowed


def tally(cell: Cell, seeds: range, slowed_every: int) -> Tally:
    """The gates' words on that many sessions; every so many of them are judged slowed as well."""
    found = Tally()
    for number, unchanged in enumerate(cell.sessions(seeds)):
        found.unchanged.update(_words(unchanged))
        if number % slowed_every == 0:
            found.slowed.update(_words(unchanged.slowed(PLANTED)))
    return found


def _words(found: Session) -> Iterator[str]:
    yield "trials"
    yield ours(found).value
    yield from (name for name, fails in RIVALS.items() if fails(found))


def failing_reports(cell: Cell, seeds: range) -> int:
    """How many reports of several unchanged cases fail."""
    failed = 0
    for seed in seeds:
        first = seed * CASES_OF_A_REPORT
        sessions = cell.sessions(range(first, first + CASES_OF_A_REPORT))
        named = [(f"case-{number}", found) for number, found in enumerate(sessions)]
        cases = [found.compared(name) for name, found in named]
        branch = tuple(point for name, found in named for point in found.branch(name))
        verdicts = [case.verdict for case in decide(cases, branch, shipped_policy())]
        failed += any(verdict and verdict.outcome is Outcome.FAIL for verdict in verdicts)
    return failed


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate."""
    z = 1.96
    rate, spread = hits / trials, z * z / trials
    middle = (rate + spread / 2.0) / (1.0 + spread)
    half = z / (1.0 + spread) * math.sqrt(rate * (1.0 - rate) / trials + spread / trials / 4.0)
    return max(0.0, middle - half), min(1.0, middle + half)


def _in_parts(trials: int, size: int = 500) -> list[range]:
    return [range(first, min(first + size, trials)) for first in range(0, trials, size)]


# --- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """What the gate promises of a row: at most, or at least, that rate."""

    cell: Cell
    what: str
    hits: int
    trials: int
    at_most: float = 1.0
    at_least: float = 0.0
    is_held: bool = True

    @property
    def is_met(self) -> bool:
        """By the rate itself."""
        return self.at_least <= self.hits / self.trials <= self.at_most

    @property
    def is_surely_missed(self) -> bool:
        """By its whole interval."""
        low, high = wilson(self.hits, self.trials)
        return self.is_held and (low > self.at_most or high < self.at_least)

    def __str__(self) -> str:
        """A line about it."""
        wanted = f"at least {self.at_least:.0%}"
        if self.at_most < 1.0:
            wanted = f"at most {self.at_most:.1%}"
        state = "ok" if self.is_met else "NOT MET"
        rate = _rate(self.hits, self.trials)
        return f"{_head(self.cell)} {self.what:<16} {rate:>20} (wanted: {wanted}) {state}"


def targets_of(cell: Cell, found: Tally) -> Iterator[Target]:
    """What is promised of a row."""
    trials, slowed = found.unchanged["trials"], found.slowed["trials"]
    if cell.counts:
        yield Target(cell, "false failures", found.unchanged["fail"], trials, FALSE_FAIL)
    if cell.promises_to_catch:
        # Four pairs are too few for it, which is told and not held.
        is_held = cell.design.pairs != min(PAIRS)
        caught = found.slowed["fail"]
        yield Target(cell, "caught", caught, slowed, at_least=0.95, is_held=is_held)
    if cell.world == "normal" and cell.spread == 0.13 and cell.design == Design(runs=30):
        yield Target(cell, "inconclusive", found.unchanged["inconclusive"], trials, at_least=0.8)


def _rate(hits: int, trials: int) -> str:
    low, high = wilson(hits, trials)
    return f"{100 * hits / trials:.2f} ({100 * low:.2f}–{100 * high:.2f})"


def _head(cell: Cell) -> str:
    return f"{cell.world:<15} {cell.spread:>4.0%}  {cell.design!s:<25}"


def _titles() -> list[str]:
    narrow, wide = "{:>8}".format, "{:>23}".format
    ours_ = [wide("unchanged: fail"), narrow("warn"), narrow("unclear")]
    ours_ += [wide("slowed: fail"), narrow("warn"), narrow("unclear"), narrow("pass")]
    rivals = [wide(f"{name}: {word}") for name in RIVALS for word in ("false", "found")]
    return [" " * len(_head(Cell("", 0.0, Design()))) + "".join([*ours_, *rivals])]


def _row(cell: Cell, found: Tally) -> str:
    said = []
    for counts, others in (
        (found.unchanged, ("warn", "inconclusive")),
        (found.slowed, ("warn", "inconclusive", "pass")),
    ):
        trials = counts["trials"]
        said.append(f"{_rate(counts['fail'], trials):>23}")
        said += [f"{100 * counts[word] / trials:>8.2f}" for word in others]
    for name in RIVALS:
        for counts in (found.unchanged, found.slowed):
            said.append(f"{_rate(counts[name], counts['trials']):>23}")
    return _head(cell) + "".join(said)


def cells(spreads: Sequence[float], designs: Sequence[Design]) -> list[Cell]:
    """Every world with each spread and design, and the levels that have just moved."""
    usual = [
        Cell(name, spread, design) for name in WORLDS for spread in spreads for design in designs
    ]
    moved = [
        Cell("normal", spread, Design(runs=30, moved=runs, by=by))
        for spread in spreads
        for by in (0.10, -0.10)
        for runs in (1, 2, 3)
    ]
    return usual + moved


def run(cells: Sequence[Cell], trials: int, slowed_every: int) -> list[Target]:
    """Prints a row a cell; what is promised of them."""
    print("\n".join(_titles()))
    targets: list[Target] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        waiting = [
            (
                cell,
                [
                    pool.submit(tally, cell, part, 1 if cell.promises_to_catch else slowed_every)
                    for part in _in_parts(cell.trials(trials))
                ],
            )
            for cell in cells
        ]
        for cell, results in waiting:
            found = Tally()
            for result in results:
                found.add(result.result())
            print(_row(cell, found), flush=True)
            targets += targets_of(cell, found)
    return targets


def run_reports(cells: Sequence[Cell], trials: int) -> list[Target]:
    """The false failures of whole reports."""
    parts = _in_parts(trials, 100)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        waiting = [
            (cell, [pool.submit(failing_reports, cell, part) for part in parts]) for cell in cells
        ]
        return [
            Target(
                cell,
                f"fails of {CASES_OF_A_REPORT}",
                sum(result.result() for result in results),
                trials,
                FALSE_FAIL if cell.counts else 1.0,
            )
            for cell, results in waiting
        ]


# --- what it costs ------------------------------------------------------------------------------


def cost() -> float:
    """Judging a case of 1,000 launches and 200 runs of the branch, in readings of its record."""
    luck = random.Random("cost")  # noqa: S311 - no secret
    pairs = session(normal, 0.01, Design(pairs=500), luck).compared()
    runs = session(normal, 0.01, Design(runs=200), luck)
    history = tuple(
        HistoryPoint(
            case="training",
            commit=f"{number:040x}",
            run=RunIdentity(number=number),
            created_at=f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z",
            step_time_ms=ms,
            throughput_tok_s=TOKENS / ms * 1000.0,
        )
        for number, ms in enumerate(runs.base)
    )
    alone = replace(pairs, measured=_case("training", runs.now))
    judged = decide([pairs], (), shipped_policy())
    record = Record(ci_score_version="", created_at="", cases=tuple(judged), history=history)
    data = dump(record).encode()

    def judging() -> None:
        decide([pairs], history, shipped_policy())
        decide([alone], history, shipped_policy())

    return ratio(judging, lambda: read_record(data, "the record"))


def main() -> int:
    """Prints the table and what it says of each promise; a short run also holds them, loosely."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="for each row")
    parser.add_argument("--short", action="store_true", help="half a minute, for CI")
    given = parser.parse_args()
    designs = [*(Design(runs=runs) for runs in HISTORIES), *(Design(pairs=n) for n in PAIRS)]
    trials, slowed_every = given.trials, 10
    spreads: tuple[float, ...] = SPREADS
    if given.short:
        designs = [Design(runs=30), Design(pairs=4), Design(pairs=8)]
        trials, spreads, slowed_every = 500, (0.01, 0.03, 0.13), 2
    head = f"{trials} unchanged sessions a row, and every {slowed_every}. of them slowed to"
    note([f"{head} {PLANTED - 1.0:+.1%} as well; rates in % with their 95 % interval."])
    targets = run(cells(spreads, designs), trials, slowed_every)
    reports = [
        Cell(name, spread, design)
        for name in WORLDS
        for spread in (0.03, 0.13)
        for design in (Design(pairs=4), Design(pairs=8), Design(runs=30))
        if not given.short or spread == 0.13
    ]
    targets += run_reports(reports, trials // 10)
    return _summary(targets, given.short)


def _summary(targets: Sequence[Target], holds_them: bool) -> int:
    many = Counter(target.what for target in targets)
    told = [target for target in targets if not target.is_met or many[target.what] < 10]
    note(["", *(str(target) for target in told)])
    for what, rows in many.items():
        met = sum(target.is_met for target in targets if target.what == what)
        note([f"{what}: as wanted in {met} of {rows} rows"])
    costs = cost()
    show("judging 1,000 launches and 200 runs / reading their record", costs, 1)
    missed = [target for target in targets if target.is_surely_missed]
    if holds_them and (missed or costs > MOST_COSTS):
        note(["", "Surely missed:", *(str(target) for target in missed)])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
