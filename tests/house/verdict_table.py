"""Every rule × evidence × change, with the verdict and the exit codes that the judge gives it.

docs/judging.md shows this table; `make table` writes it anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ci_score.compare import compared
from ci_score.judge import decide, exit_code
from ci_score.model.gate import FailOn, Gate
from ci_score.model.metrics import LAUNCHES, STEP_TIME, THROUGHPUT
from ci_score.model.record import BaselineUsed, HistoryPoint, Judged, LaunchNumbers
from ci_score.model.stages import BaselineFound
from tests.builders import case, record, scorecard
from tests.builders.verdicts import policy

HEADER = (
    "| rules | evidence | change | verdict | exit | `fail-on: warning` | on the branch |",
    "|---|---|---|---|--:|--:|--:|",
)
TOKENS = 100_000.0
BASE = (100.0,) * 12
# Of a quiet machine, and of one whose noise reaches far beyond a limit.
QUIET, NOISY = 0.002, 0.15
VERY_NOISY = 0.7
NONE = "no policy"
WORK, OTHER_WORK = {"final_loss": 2.0}, {"final_loss": 4.0}
GATES = (Gate(), Gate(FailOn.WARNING), Gate(reports_only=True))


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, in words and as numbers."""

    rules: str
    evidence: str
    change: str
    head: tuple[float, ...]
    base: tuple[float, ...] = ()
    runs: tuple[float, ...] = ()
    counts: tuple[float, float] | None = None
    # What head tells of its work, where both sides tell theirs.
    work: dict[str, float] = field(default_factory=dict)

    def judged(self) -> Judged:
        """The case as the judge of reports sees it."""
        sound = [ms for ms in self.head if not math.isnan(ms)]
        head, base = fmean(sound), fmean(self.base) if self.base else self.runs[-1]
        here, there = ({LAUNCHES: count} for count in self.counts) if self.counts else ({}, {})
        launches = (*_launches("head", self.head), *_launches("base", self.base))
        used = BaselineUsed(source="the branch", of_session=bool(self.base))
        table = {} if self.rules == NONE else {"rules": self.rules}
        here, there = here | self.work, there | WORK if self.work else there
        both = compared(
            _timed(head, metrics=here, launches=launches),
            BaselineFound(_timed(base, metrics=there), used),
        )
        points = tuple(map(_point, self.runs))
        (done,) = decide([both], points, policy(table))
        return done

    def line(self) -> str:
        """The row in markdown."""
        done = self.judged()
        assert done.verdict is not None
        left = record(done)
        codes = [str(exit_code(left, gate)) for gate in GATES]
        kind = f": {done.verdict.unjudged.value}" if done.verdict.unjudged else ""
        word = "not judged" if kind else done.verdict.outcome.value
        verdict = f"{word}{kind}"
        return f"| {self.rules} | {self.evidence} | {self.change} | {verdict} | " + (
            " | ".join(codes) + " |"
        )


def table() -> list[str]:
    """The table, line by line."""
    return [*HEADER, *(row.line() for row in rows())]


def rows() -> Iterator[Row]:
    """Each kind of evidence under both sets of rules, from no change to a large one."""
    yield from _in_pairs("training", 0.04, 0.08, NOISY)
    yield from _of_other_work()
    yield from _in_pairs("reference", 0.15, 0.30, VERY_NOISY)
    yield Row(NONE, "12 pairs", "as by `training`: +14 %", _around(0.14, QUIET, 12), BASE)
    yield Row(NONE, "one run per side", "as by `reference`: +14 %", (114.0,), runs=(100.0,))
    yield from _beside_runs("training")
    yield from _one_number()
    for change, count in (("none", 500.0), ("+5 %", 525.0), ("+20 %", 600.0)):
        yield Row("training", "a count", change, (100.0,), runs=(100.0,), counts=(count, 500.0))


def _in_pairs(rules: str, warn: float, fail: float, noise: float) -> Iterator[Row]:
    few, plan = "pairs, 5 or fewer", "12 pairs"
    base = BASE
    yield Row(rules, few, "any", (100.0,) * 5, base[:5])
    if rules == "training":
        within = "within, beyond the limit that warns, not proven"
        yield Row(rules, "6 pairs", within, _around(0.035, QUIET, 6), base[:6])
    for words, change in (
        ("none", 0.0),
        ("proven, beyond the limit that warns", warn),
        ("proven, beyond the limit that fails", fail),
    ):
        yield Row(rules, plan, words, _around(change, QUIET, 12), base)
    for words, change in (
        ("within, and the noise reaches beyond the limit", 0.0),
        ("beyond the limit, not proven", fail),
    ):
        yield Row(rules, plan, words, _around(change, noise, 12), base)
    yield Row(rules, plan, "none, one launch without a time", (*base[:11], math.nan), base)


def _of_other_work() -> Iterator[Row]:
    """Another loss stands for all that forbids green: a longer warm-up, a disturbed session …"""
    for words, change in (("not slower", 0.0), ("proven, beyond the limit that fails", 0.08)):
        told = f"{words}, and another loss"
        head = _around(change, QUIET, 12)
        yield Row("training", "12 pairs", told, head, BASE, work=OTHER_WORK)


def _beside_runs(rules: str) -> Iterator[Row]:
    for count, evidence in ((40, "history, 28 runs or more"), (90, "history, 83 runs or more")):
        quiet, noisy = _around(0.0, QUIET, count), _around(0.0, NOISY, count)
        two = (evidence, "2 launches")
        words = ", ".join(two)
        yield Row(rules, words, "none", (100.0, 100.0), runs=(*quiet, 100.0))
        if count == 90:
            proven = "proven, beyond the limit that warns"
            yield Row(rules, words, proven, (104.0, 104.0), runs=(*quiet, 100.0))
            proven = "proven, beyond the limit that fails"
            yield Row(rules, words, proven, (120.0, 121.0), runs=(*quiet, 100.0))
            continue
        change = "within, and the noise reaches beyond the limit"
        yield Row(rules, words, change, (100.0, 100.0), runs=(*noisy, 100.0))
        yield Row(rules, words, "beyond the limit", (120.0, 121.0), runs=(*quiet, 100.0))
        change = "within, and the base's own run was far faster"
        yield Row(rules, words, change, (100.0, 100.0), runs=(*quiet, 85.0))


def _one_number() -> Iterator[Row]:
    one = "one run per side"
    for change, ms in (("none", 100.0), ("+4 %", 104.0), ("+15 %", 115.0), ("+30 %", 130.0)):
        yield Row("training", one, change, (ms,), runs=(100.0,))
    for change, ms in (("none", 100.0), ("+15 %", 115.0), ("+30 %", 130.0)):
        yield Row("reference", one, change, (ms,), runs=(100.0,))
    level = (130.0,) * 9
    disagrees = "+30 %, and the level of 9 runs or more says otherwise"
    yield Row("reference", one, disagrees, (130.0,), runs=(*level, 100.0))


def _around(change: float, spread: float, count: int) -> tuple[float, ...]:
    """Times around a slowdown, as far apart as a machine's noise."""
    middle = (count - 1) / 2.0
    places = (place * 7 % count - middle for place in range(count))
    return tuple(100.0 * (1.0 + change + spread * place / max(middle, 0.5)) for place in places)


def _timed(ms: float, **fields: Any) -> Judged:
    return case(card=scorecard(ms, TOKENS / ms * 1000.0), **fields)


def _point(ms: float) -> HistoryPoint:
    return HistoryPoint(
        case="training", created_at="", step_time_ms=ms, throughput_tok_s=TOKENS / ms * 1000.0
    )


def _launches(side: str, times: Sequence[float]) -> Iterator[LaunchNumbers]:
    for place, ms in enumerate(times):
        void = math.isnan(ms)
        values = {} if void else {STEP_TIME: ms, THROUGHPUT: TOKENS / ms * 1000.0}
        yield LaunchNumbers.model_validate(
            {"side": side, "launch": place, "void": void, "values": values}
        )
