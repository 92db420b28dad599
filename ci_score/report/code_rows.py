"""Where in the code a step changed: which functions and lines are shown, in which words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ci_score.model.code_changes import CallerChange, CodeChanges, DefinitionChange, LineChange
from ci_score.model.lists import plural
from ci_score.model.metrics import counts_agree
from ci_score.model.record import Judged, Record
from ci_score.model.step_code import CodeWork
from ci_score.report.cause_words import Name, Place, Sentence, count_words, ms_words, times_words
from ci_score.report.code_words import (
    CHANGED,
    NAMELESS,
    calls_words,
    library_words,
    place,
    row_words,
    short_path,
    tag_of,
)
from ci_score.report.links import linked, linked_place
from ci_score.report.numbers import from_to, milliseconds

# What changed by a smaller share of the largest change has no row.
LEAST_SHARE = 0.01
# In the open part of a comment, and in a terminal.
FEW, MOST = 3, 12
# Less work without a line is not worth a word.
LEAST_WITHOUT = 0.01
# A definition with its place among those of the comparison.
_Numbered = tuple[int, DefinitionChange]


@dataclass(frozen=True, slots=True)
class LineRow:
    """A line of a function, or one that calls it, with its times on both sides."""

    name: Sentence
    tags: tuple[str, ...]
    base: CodeWork
    head: CodeWork

    @property
    def base_ms(self) -> float:
        """The work that it launches, and Python before it."""
        return _ms(self.base)

    @property
    def head_ms(self) -> float:
        """The same of the head."""
        return _ms(self.head)

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms

    @property
    def times(self) -> str:
        """`60.2 → 137 ms`; a side that does not have it is a dash."""
        if not self.base_ms or not self.head_ms:
            return from_to(
                *(milliseconds(ms) if ms else "–" for ms in (self.base_ms, self.head_ms))
            )
        return times_words(self.base_ms, self.head_ms)

    @property
    def launches(self) -> str:
        """`24 → 48`"""
        return counts_words(self.base.launches, self.head.launches)


@dataclass(frozen=True, slots=True)
class CodeRow(LineRow):
    """A function whose time changed, with the lines in it and who calls it.

    `status` is `changed`, `new` or `gone`; `is_blamed` says that it explains most of the change.
    """

    status: str
    is_blamed: bool
    lines: tuple[LineRow, ...] = ()
    callers: tuple[LineRow, ...] = ()

    @property
    def inside(self) -> str:
        """`3 lines, 2 callers`"""
        counted = ((self.lines, "line"), (self.callers, "caller"))
        return ", ".join(plural(len(listed), word) for listed, word in counted if listed)

    @property
    def work(self) -> list[tuple[str, str]]:
        """What its time is made of: `forward`, `5.10 → 9.40 ms`."""
        kinds = (
            ("forward", self.base.forward_ms, self.head.forward_ms),
            ("backward", self.base.backward_ms, self.head.backward_ms),
            ("Python between", self.base.python_ms, self.head.python_ms),
        )
        told = [(name, times_words(base, head)) for name, base, head in kinds if base or head]
        calls = counts_words(self.base.calls, self.head.calls)
        return told + [row for row in (("launches", self.launches), ("calls", calls)) if row[1]]


def _ms(work: CodeWork) -> float:
    return work.ms + work.python_ms


def counts_words(before: float, now: float) -> str:
    """`24 → 48`, `24` where both are the same; empty without any."""
    if not before and not now:
        return ""
    if before and now and counts_agree(before, now):
        return count_words(now)
    return f"{count_words(before)} → {count_words(now)}"


# --- rows -----------------------------------------------------------------------------------------


def code_of(case: Judged) -> CodeChanges | None:
    """What is known of the code, if anything is."""
    return case.explanation.code if case.explanation else None


def code_rows(case: Judged, record: Record, most: int = MOST) -> list[CodeRow]:
    """The functions whose time changed, in the order of the comparison: touched ones first."""
    change = code_of(case)
    if change is None:
        return []
    blamed = change.time.definition if change.time else None
    return [
        _code_row(change, row, case, record, is_blamed=number == blamed)
        for number, row in _first(_worth_a_row(change), most, blamed)
    ]


def _first(rows: list[_Numbered], most: int, blamed: int | None) -> list[_Numbered]:
    """The first ones, among them what explains most, and the largest change."""
    largest = max(rows, key=lambda one: abs(one[1].delta_ms), default=(None, None))[0]
    order = sorted(rows, key=lambda one: one[0] not in (blamed, largest))
    kept = {number for number, _ in order[:most]}
    return [one for one in rows if one[0] in kept]


def _worth_a_row(change: CodeChanges) -> list[_Numbered]:
    """What changed enough, and what is blamed for it: that may be what it calls."""
    changed = [one for one in enumerate(change.definitions) if not one[1].is_noise]
    largest = max((abs(row.delta_ms) for _, row in changed), default=0.0)
    blamed = change.time.definition if change.time else None
    return [
        (number, row)
        for number, row in changed
        if number == blamed or (row.delta_ms and abs(row.delta_ms) >= LEAST_SHARE * largest)
    ]


def more_code(case: Judged, shown: int) -> str:
    """`The time of 4 more functions changed.`, beyond those that are shown."""
    change = code_of(case)
    more = len(_worth_a_row(change)) + change.left_out - shown if change else 0
    return f"The time of {plural(more, 'more function')} changed." if more > 0 else ""


def _code_row(
    change: CodeChanges, row: DefinitionChange, case: Judged, record: Record, *, is_blamed: bool
) -> CodeRow:
    return CodeRow(
        name=linked(row_words(change, row, (" ", "")), record, case),
        tags=tuple(_tags(row)),
        base=row.base,
        head=row.head,
        status=row.status,
        is_blamed=is_blamed,
        lines=tuple(_line_row(row, line, case, record) for line in row.lines),
        callers=tuple(_caller_row(caller, case, record) for caller in row.callers),
    )


def _tags(row: DefinitionChange) -> Iterator[str]:
    if row.status != "changed":
        yield tag_of(row).removeprefix("which is ")
    elif row.touched:
        yield CHANGED
    if calls := calls_words(row):
        yield calls
    if row.status == "gone":
        return
    if row.was_file is not None and row.was_file != row.file:
        yield f"moved from {short_path(row.was_file)}"
    if row.was_name is not None and row.was_name != row.name:
        yield f"was {row.was_name}"


def _line_row(row: DefinitionChange, line: LineChange, case: Judged, record: Record) -> LineRow:
    at = _place_of(row, line)
    pieces = [linked_place(at, record, case)] if at else ["a line that is not known"]
    if line.through:
        pieces += [" through ", *library_words(line.through).pieces]
    tags = [] if line.line else ["gone"] if line.base_line else []
    if line.changed_line is not None:
        tags.append(CHANGED)
    if line.is_compiled:
        tags.append("compiled")
    return LineRow(Sentence.of(*pieces), tuple(tags), line.base, line.head)


def _place_of(row: DefinitionChange, line: LineChange) -> Place | None:
    """`line 88`, of the base where the head lacks it."""
    if line.line is not None:
        at = place(row.file or "", line.line)
    elif line.base_line is not None:
        at = place(row.was_file or row.file or "", line.base_line, side="base")
    else:
        return None
    return Place(f"line {at.line}", at.path, at.line, at.side)


def _caller_row(caller: CallerChange, case: Judged, record: Record) -> LineRow:
    name = [] if caller.name in NAMELESS else [Name(caller.name)]
    at = [linked_place(place(caller.file, caller.line), record, case)] if caller.file else []
    between = [" "] if name and at else []
    tags = (CHANGED,) if caller.touched else ()
    pieces = (*name, *between, *at) or ("the script",)
    return LineRow(Sentence.of(*pieces), tags, caller.base, caller.head)


# --- what is said beside them ---------------------------------------------------------------------

_NOTHING_MARKED = "so nothing is marked as changed here"
_DIFFS = {
    "known": "",
    "not asked": f"No diff was asked for, {_NOTHING_MARKED}.",
    "too large": f"The diff is too large, {_NOTHING_MARKED}.",
    "not found": f"The diff was not found, {_NOTHING_MARKED}.",
    "other commit": f"The diff is of another commit than the measured one, {_NOTHING_MARKED}.",
}
_FOUND_BY = {
    "marks": "",
    "stacks": "The functions are those of the stacks in the traces, which tell no lines.",
    "source fields": "The lines are those that the compiler noted, without their functions.",
}


def code_notes(case: Judged) -> list[str]:
    """How far these rows can be trusted, in a sentence each."""
    change = code_of(case)
    if change is None:
        return []
    told = (
        _FOUND_BY[change.found_by],
        _untouched(change),
        _DIFFS[change.diff],
        _without_line(change),
        _marked(change),
    )
    return [one for one in told if one]


def _untouched(change: CodeChanges) -> str:
    if change.diff != "known" or not change.definitions:
        return ""
    if any(row.touched or row.status != "changed" for row in change.definitions):
        return ""
    calls = any(caller.touched for row in change.definitions for caller in row.callers)
    return f"The diff touches none of these functions{', but some that call them' * calls}."


def _without_line(change: CodeChanges) -> str:
    """How much work has no line of the program."""
    sides = ((change.base_without_line_ms, change.base_ms),
             (change.head_without_line_ms, change.head_ms))  # fmt: skip
    shares = [without / whole if whole else 0.0 for without, whole in sides]
    if max(shares) < LEAST_WITHOUT:
        return ""
    times = times_words(change.base_without_line_ms, change.head_without_line_ms)
    of_whole = times_words(change.base_ms, change.head_ms)
    return f"No line is known of {times} of a step's work ({of_whole})."


def _marked(change: CodeChanges) -> str:
    """What the marks cost, because these times are of the launch that had them."""
    marked, unmarked = change.marked_ms, change.unmarked_ms
    if not marked or not unmarked:
        return ""
    if marked <= unmarked:
        # Marks never save time: something else took it from the launch without them.
        return (
            f"The launch that finds the lines took {ms_words(marked)} a step, the one without marks"
            f" {ms_words(unmarked)}: they did not run equally undisturbed."
        )
    return (
        f"With the marks that find the lines a step took {ms_words(marked)}, without them"
        f" {ms_words(unmarked)}; no other number of this report is of that launch."
    )
