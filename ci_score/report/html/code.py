"""Where in the code a step changed → the blocks of the page, with their bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ci_score.model.record import Judged, Record
from ci_score.report import code_rows
from ci_score.report.code_rows import CodeRow
from ci_score.report.html.scale import percent
from ci_score.report.memory_words import (
    MemoryRow,
    is_memory_alone,
    memory_rows,
    memory_title,
    needs_memory,
)
from ci_score.report.numbers import common_places


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A function with the widths of its two bars."""

    row: CodeRow
    base_width: str
    head_width: str


@dataclass(frozen=True, slots=True)
class CodeView:
    """The functions whose time changed; `places` are the decimals of their changes."""

    blocks: Sequence[CodeBlock]
    places: int | None
    more: str
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """What had part of the peak, with the widths of its two bars; a sum has none."""

    row: MemoryRow
    base_width: str
    head_width: str


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Where the change of the peak of memory went."""

    title: str
    blocks: Sequence[MemoryBlock]


def code_view(case: Judged, record: Record, *, is_whole: bool = True) -> CodeView | None:
    """The functions of a case; None where none changed, or only its memory is in question.

    Where there is little room they are a few, and only what explains most has its lines.
    """
    most = code_rows.MOST if is_whole else code_rows.FEW
    rows = [] if is_memory_alone(case) else code_rows.code_rows(case, record, most)
    if not rows:
        return None
    if not is_whole:
        rows = [row if row.is_blamed else replace(row, lines=(), callers=()) for row in rows]
    largest = _largest((row.base_ms, row.head_ms) for row in rows)
    blocks = [
        CodeBlock(row, percent(row.base_ms / largest), percent(row.head_ms / largest))
        for row in rows
    ]
    more = code_rows.more_code(case, len(rows))
    return CodeView(blocks, common_places(rows), more, code_rows.code_notes(case))


def memory_view(case: Judged, record: Record) -> MemoryView | None:
    """What had the memory, where its peak grew beyond a limit."""
    rows = memory_rows(case, record) if needs_memory(case) else []
    if not rows:
        return None
    largest = _largest((row.base_bytes, row.head_bytes) for row in rows if not row.is_sum)
    blocks = [
        MemoryBlock(row, percent(row.base_bytes / largest), percent(row.head_bytes / largest))
        for row in rows
    ]
    return MemoryView(memory_title(rows), blocks)


def _largest(sides: Iterable[tuple[float, float]]) -> float:
    return max((side for pair in sides for side in pair), default=0.0) or 1.0
