"""Why the peak of memory grew: the functions, or the operators, that hold more of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ci_score.files.visible import log_line
from ci_score.model.code_changes import CodeChanges, DefinitionChange
from ci_score.model.explanation import LEAST_EXPLAINED
from ci_score.model.metrics import MEMORY
from ci_score.model.record import Judged, Record
from ci_score.model.verdict import Outcome
from ci_score.report.cause_words import Name, Sentence
from ci_score.report.code_words import (
    mostly_memory,
    row_words,
)
from ci_score.report.links import linked
from ci_score.report.numbers import bytes_words, delta_bytes_words, from_to

MOST_ROWS = 8
LEAST_SHARE = 0.03
WIDEST_BAR, WIDEST_NAME = 12, 40
_WORSE = (Outcome.FAIL, Outcome.WARN, Outcome.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """What had part of the memory that was in use at the peak, on both sides."""

    name: Sentence
    base_bytes: int
    head_bytes: int
    is_sum: bool = False

    @property
    def delta_bytes(self) -> int:
        """How much more it has now."""
        return self.head_bytes - self.base_bytes

    @property
    def base(self) -> str:
        """`10.4 GB`; a dash for nothing."""
        return bytes_words(self.base_bytes) if self.base_bytes else "–"

    @property
    def head(self) -> str:
        """The same of the head."""
        return bytes_words(self.head_bytes) if self.head_bytes else "–"

    @property
    def sides(self) -> str:
        """`2.10 → 4.60 GB`"""
        return from_to(self.base, self.head)

    @property
    def delta(self) -> str:
        """`+2.90 GB`"""
        return delta_bytes_words(self.delta_bytes)


def needs_memory(case: Judged) -> bool:
    """Whether the peak of memory grew beyond a limit."""
    return any(one.metric == MEMORY and _is_found(one.outcome) for one in case.changes)


def is_memory_alone(case: Judged) -> bool:
    """Whether nothing but the peak of memory needs an explanation."""
    others = (one for one in case.changes if one.metric != MEMORY)
    is_else = any(_is_found(one.outcome) or one.accepted for one in others)
    return needs_memory(case) and not is_else


def _is_found(outcome: Outcome | None) -> bool:
    return outcome in _WORSE


def memory_cause(case: Judged) -> Sentence:
    """`mostly 'Attention.forward' (model.py:88, changed here): +2.90 GB`, or an operator."""
    code = case.explanation.code if case.explanation else None
    return mostly_memory(code) or _mostly_of_an_operator(case)


def _mostly_of_an_operator(case: Judged) -> Sentence:
    rows = _of_operators(case)
    more = sum(row.delta_bytes for row in rows)
    largest = max(rows, key=lambda row: row.delta_bytes, default=None)
    if largest is None or more <= 0 or largest.delta_bytes < LEAST_EXPLAINED * more:
        return Sentence.of("")
    return Sentence.of(
        "mostly what ", largest.name, f" allocates: {largest.delta} ({largest.sides})"
    )


def _of_operators(case: Judged) -> list[MemoryRow]:
    """The operators that allocated what was in use at the peak, where both sides know them."""
    head, base = case.peak_ops, case.base.peak_ops if case.base else {}
    return list(_beside(base, head)) if base and head else []


def _beside(base: Mapping[str, int], head: Mapping[str, int]) -> Iterator[MemoryRow]:
    for name in dict.fromkeys((*head, *base)):
        yield MemoryRow(Sentence.of(Name(name)), base.get(name, 0), head.get(name, 0))


def memory_rows(case: Judged, record: Record | None = None) -> list[MemoryRow]:
    """Where the peak's change went, the largest first, then all else and the sum.

    With the record their places are linked.
    """
    code = case.explanation.code if case.explanation else None
    if code is not None and any(row.delta_bytes for row in code.definitions):
        known = [
            MemoryRow(_called(code, row, case, record), row.base.peak_bytes, row.head.peak_bytes)
            for row in code.definitions
        ]
        return _summed(known, code.base_peak_bytes, code.head_peak_bytes)
    known = _of_operators(case)
    return _summed(known, *(sum(side) for side in _sides(known))) if known else []


def _called(
    code: CodeChanges, row: DefinitionChange, case: Judged, record: Record | None
) -> Sentence:
    words = row_words(code, row)
    return linked(words, record, case) if record else words


def _sides(rows: Iterable[MemoryRow]) -> tuple[list[int], list[int]]:
    listed = list(rows)
    return [row.base_bytes for row in listed], [row.head_bytes for row in listed]


def _summed(known: list[MemoryRow], base: int, head: int) -> list[MemoryRow]:
    """The rows that explain a share of the change, and what is left to the sum."""
    least = LEAST_SHARE * abs(head - base)
    shown = [row for row in known if row.delta_bytes and abs(row.delta_bytes) >= least]
    shown = sorted(shown, key=lambda row: -abs(row.delta_bytes))[:MOST_ROWS]
    left = [whole - sum(side) for whole, side in zip((base, head), _sides(shown), strict=True)]
    if not shown:
        return []
    if min(left) >= 0 and any(left):
        # Weights and the state of an optimizer among them, which no line of a step allocates.
        shown.append(MemoryRow(Sentence.of("all else"), left[0], left[1]))
    return [*shown, MemoryRow(Sentence.of("peak"), base, head, is_sum=True)]


def memory_title(rows: Iterable[MemoryRow]) -> str:
    """`Where the +2.90 GB at the peak went`"""
    more = next((row.delta for row in rows if row.is_sum), "memory")
    return f"Where the {more} at the peak went"


def memory_bars(case: Judged) -> list[str]:
    """The rows as lines of text, each with its change and a bar at the end."""
    known = [row for row in memory_rows(case) if not row.is_sum]
    largest = max((abs(row.delta_bytes) for row in known), default=0)
    rows = [row for row in known if largest and _bar(row.delta_bytes / largest)]
    if not rows:
        return []
    names = [log_line("".join(row.name.pieces), WIDEST_NAME) for row in rows]
    widest, deltas = max(map(len, names)), max(len(row.delta) for row in rows)
    return [
        f"{name:<{widest}}  {row.delta:>{deltas}}  {_bar(row.delta_bytes / largest)}"
        for name, row in zip(names, rows, strict=True)
    ]


def _bar(share: float) -> str:
    return ("█" if share > 0 else "░") * round(WIDEST_BAR * abs(share))
