"""The lines of a step: what a trace says of marks, what the marks stand for, and the side's files.

All three may be a stranger's. What cannot be resolved counts as work without a line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ci_score.files.visible import plain
from ci_score.measure.launch.line_table import LineTable, MarkedLine
from ci_score.measure.sides.definitions import SideFiles, Statement, named
from ci_score.model.step_code import (
    MOST_DEFINITIONS,
    MOST_LINES,
    CodeLine,
    CodeWork,
    Definition,
    MarkedStep,
    StepCode,
)
from ci_score.model.values import four_digits

LONGEST_NAME = 200
# Rows with the same line may be joined, so more of them are looked at than are kept.
MOST_RESOLVED = 8 * MOST_LINES


@dataclass(frozen=True, slots=True)
class _Key:
    """What makes a row of its own: the definition and a line of it, as one caller reaches it."""

    definition: Definition
    line: int | None
    statement: Statement | None
    caller: Definition | None
    through: str | None
    is_compiled: bool


@dataclass(slots=True)
class _Rows:
    """The definitions that have a row."""

    known: dict[Definition, int] = field(default_factory=dict)

    def of(self, one: Definition) -> int | None:
        """The row of a definition; None where no more rows may be."""
        if one not in self.known and len(self.known) >= MOST_DEFINITIONS:
            return None
        return self.known.setdefault(one, len(self.known))


def step_code(
    step: MarkedStep, table: LineTable, files: SideFiles, unmarked_ms: float | None = None
) -> StepCode:
    """What the side's code takes of a step, the largest lines first."""
    marks = table.by_mark
    resolver = _Resolver(files, table.notebooks)
    largest = _largest(step.work, step)
    work: dict[_Key, CodeWork] = {}
    for mark in largest[:MOST_RESOLVED]:
        if row := marks.get(mark):
            key = resolver.key_of(row)
            work[key] = work.get(key, CodeWork()).plus(step.work[mark])
    # So many that they are not even looked at, or without a row in the table.
    lost = [step.work[mark] for mark in largest[:MOST_RESOLVED] if mark not in marks]
    small = [step.work[mark] for mark in largest[MOST_RESOLVED:]]
    lines, definitions, left = _lines_of(work, step)
    unknown = [*lost, *(one for key, one in work.items() if key.line is None)]
    out = [*small, *left]
    return StepCode(
        definitions=definitions,
        lines=lines,
        total_ms=four_digits(step.total_ms),
        without_line_ms=four_digits(_sum_ms([*unknown, *small]) + step.without_line_ms),
        peak_bytes=step.peak_bytes,
        peak_without_line=step.peak_without_line
        + sum(one.peak_bytes for one in [*unknown, *small]),
        marked_ms=four_digits(step.step_ms),
        unmarked_ms=None if unmarked_ms is None else four_digits(unmarked_ms),
        left_out=len(out),
        left_out_ms=four_digits(_sum_ms(out)),
    )


def _largest(work: Mapping[int, CodeWork], step: MarkedStep) -> list[int]:
    return sorted(work, key=lambda mark: (-_size(work[mark], step), mark))


def _size(work: CodeWork, step: MarkedStep) -> float:
    """How much of the step it is: of its time or, where that is more, of its peak memory."""
    time = (work.ms + work.python_ms) / step.step_ms if step.step_ms else 0.0
    memory = work.peak_bytes / step.peak_bytes if step.peak_bytes else 0.0
    return max(time, memory)


def _sum_ms(work: Iterable[CodeWork]) -> float:
    return sum(one.ms for one in work)


def _lines_of(
    work: Mapping[_Key, CodeWork], step: MarkedStep
) -> tuple[tuple[CodeLine, ...], tuple[Definition, ...], Sequence[CodeWork]]:
    """The lines that are kept, their definitions, and the work of those that are not."""
    rows = _Rows()
    lines: list[CodeLine] = []
    left: list[CodeWork] = []
    for key, one in sorted(work.items(), key=lambda row: -_size(row[1], step)):
        row = rows.of(key.definition) if len(lines) < MOST_LINES else None
        if row is None:
            left.append(one)
        else:
            caller = None if key.caller is None else rows.of(key.caller)
            lines.append(_line(key, row, caller, one))
    lines.sort(key=lambda line: -(line.work.ms + line.work.python_ms))
    return tuple(_with_calls(lines, work, rows)), tuple(rows.known), left


def _with_calls(
    lines: Iterable[CodeLine], work: Mapping[_Key, CodeWork], rows: _Rows
) -> Iterator[CodeLine]:
    """The calls that a caller makes are in the largest line, so that none is left out."""
    calls: dict[tuple[int | None, int | None], float] = defaultdict(float)
    for key, one in work.items():
        caller = None if key.caller is None else rows.known.get(key.caller)
        calls[rows.known.get(key.definition), caller] += one.calls
    for line in lines:
        made = calls.pop((line.definition, line.caller), 0.0)
        yield line.but(work=line.work.but(calls=four_digits(made)))


def _line(key: _Key, row: int, caller: int | None, work: CodeWork) -> CodeLine:
    span = key.statement.span if key.statement else None
    return CodeLine(
        definition=row,
        line=key.line,
        first=span.first if span else None,
        last=span.last if span else None,
        text=key.statement.text if key.statement else None,
        caller=caller,
        through=key.through,
        is_compiled=key.is_compiled,
        work=work.rounded(),
    )


@dataclass(slots=True)
class _Resolver:
    """Finds what a mark stands for in the files of the side."""

    files: SideFiles
    notebooks: Mapping[str, str]

    def key_of(self, row: MarkedLine) -> _Key:
        """The row's definition, and its line where that is sure."""
        through = plain(row.through, LONGEST_NAME) if row.through else None
        if row.file is None or row.line is None:
            # Code of a library that none of the side's functions has called.
            return _Key(Definition(name=through or ""), None, None, None, None, row.compiled)
        own, line, statement = self._at(row.file, row.line, row.function, row.first)
        caller = None
        if (above := row.caller) is not None:
            found, _, _ = self._at(above.file, above.line, above.function, above.first)
            # A lambda's caller may be the function that it stands in.
            caller = found if found.file is not None and found != own else None
        return _Key(own, line, statement, caller, through, row.compiled)

    def _at(
        self, file: str, line: int, function: str, first: int | None
    ) -> tuple[Definition, int | None, Statement | None]:
        """The definition, and the line and its statement where the file is as it was imported."""
        notebook = self.notebooks.get(file)
        path = self.files.known(notebook or file)
        if path is None:
            # Nobody may think that it is a library's.
            return Definition(name=""), None, None
        name, called = self.files.name_of(path), plain(named(function), LONGEST_NAME)
        text = self.files.text(path) if notebook is None and path.suffix != ".ipynb" else None
        own = text.function_at(line, function, first) if text else None
        if text is None or own is None:
            return Definition(name=called, file=name), None, None
        outer = own.outermost
        definition = Definition(
            name=plain(own.name, LONGEST_NAME),
            file=name,
            first=own.span.first,
            last=own.span.last,
            outer_first=outer.span.first if outer else None,
            outer_last=outer.span.last if outer else None,
        )
        return definition, line, text.statement_at(line)
