"""What each definition takes on both sides, with its lines and callers: all of them, unordered."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci_score.compare.code_lines import DiffView, FileLines, Span
from ci_score.compare.code_matching import CodeSide, Matches, Statement, bare_text
from ci_score.model.code_changes import CallerChange, DefinitionChange, LineChange
from ci_score.model.step_code import CodeWork, Definition

NO_WORK = CodeWork()
MODULE, NOTEBOOK = "<module>", ".ipynb"
# A statement that only moved, or is only indented anew, is the change if it runs more often.
MORE_OFTEN = 1.05


@dataclass(frozen=True, slots=True)
class LineRow:
    """A statement; `is_same` says that both sides have it with one text."""

    change: LineChange
    in_head: bool
    in_base: bool
    is_same: bool


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A definition on both sides; `change` has neither its lines nor its callers yet.

    `outer` is the class of head, or the function, that it is in.
    """

    change: DefinitionChange
    lines: Sequence[LineRow]
    callers: Sequence[CallerChange]
    outer: Span | None = None


def definition_rows(
    head: CodeSide, base: CodeSide, matches: Matches, view: DiffView
) -> list[DefinitionRow]:
    """A row for every definition of either side."""
    return _Rows(head, base, matches, view).all()


class _Rows:
    def __init__(self, head: CodeSide, base: CodeSide, matches: Matches, view: DiffView) -> None:
        self._head, self._base, self._view = head, base, view
        self._pairs: list[tuple[int | None, int | None]] = [
            *matches.definitions.items(),
            *((place, None) for place in _used(head) if place not in matches.definitions),
        ]
        known = set(matches.definitions.values())
        self._pairs += [(None, was) for was in _used(base) if was not in known]
        self._row_of = {
            (side, place): row
            for row, pair in enumerate(self._pairs)
            for side, place in zip(("head", "base"), pair, strict=True)
            if place is not None
        }
        self._touched = [self._is_touched(*pair) for pair in self._pairs]
        self._lines: dict[int, list[LineRow]] = defaultdict(list)
        for one, other in matches.statements:
            self._add_line(one, other)

    def all(self) -> list[DefinitionRow]:
        callers = self._callers()
        return [
            DefinitionRow(
                self._change(row, *pair), self._lines[row], callers[row], self._outer(pair[0])
            )
            for row, pair in enumerate(self._pairs)
        ]

    # --- definitions ------------------------------------------------------------------------------

    def _outer(self, place: int | None) -> Span | None:
        one = self._head.definitions[place] if place is not None else None
        first, last = (one.outer_first, one.outer_last) if one else (None, None)
        return Span(first, last) if first and last else None

    def _change(self, row: int, place: int | None, was: int | None) -> DefinitionChange:
        now = self._head.definitions[place] if place is not None else None
        before = self._base.definitions[was] if was is not None else None
        one = self._shown(place, was)
        changes = [line.change for line in self._lines[row]]
        return DefinitionChange(
            name=one.name,
            file=one.file,
            first=one.first,
            last=one.last,
            was_name=before.name if now and before and before.name != now.name else None,
            was_file=before.file if now and before and before.file != now.file else None,
            status="changed" if now and before else "new" if now else "gone",
            touched=self._touched[row],
            base=total((change.base for change in changes), self._base.calls.get(was)),
            head=total((change.head for change in changes), self._head.calls.get(place)),
        )

    def _shown(self, place: int | None, was: int | None) -> Definition:
        """The head's, or the base's of one that is gone."""
        return self._base.definitions[was or 0] if place is None else self._head.definitions[place]

    def _is_touched(self, place: int | None, was: int | None) -> bool | None:
        if not self._view.is_known:
            return None
        answers = []
        if place is not None:
            answers.append(self._is_touched_in(self._head, place, self._view.by_head))
        if was is not None:
            answers.append(self._is_touched_in(self._base, was, self._view.by_base))
        return True if True in answers else None if None in answers else False

    def _is_touched_in(
        self, side: CodeSide, place: int, files: Mapping[str, FileLines]
    ) -> bool | None:
        """Whether the diff touches a definition of one side; None where that is not sure."""
        one = side.definitions[place]
        if one.file is None:
            # A library's has a name. What has none may stand anywhere.
            return False if one.name else None
        lines = files.get(one.file)
        if lines is None:
            return None if one.file in self._view.contradicted else False
        if lines.head in self._view.contradicted or one.file.endswith(NOTEBOOK):
            return None
        if lines.base is None or lines.head is None:
            return True
        changed = lines.added if side is self._head else lines.removed
        return _touches(changed, place, side) if changed else False

    # --- lines ------------------------------------------------------------------------------------

    def _add_line(self, one: Statement | None, other: Statement | None) -> None:
        row = self._row_of["head", one.definition] if one else None
        if row is None and other:
            row = self._row_of["base", other.definition]
        if row is None:
            return
        is_same = bool(one and other and self._is_same(one, other))
        shown = one or other
        self._lines[row].append(
            LineRow(
                LineChange(
                    line=one.line if one else None,
                    base_line=other.line if other else None,
                    through=shown.through if shown else None,
                    is_compiled=bool(shown and shown.is_compiled),
                    changed_line=self._changed_line(one, other, is_same=is_same) if one else None,
                    base=other.work.rounded() if other else NO_WORK,
                    head=one.work.rounded() if one else NO_WORK,
                ),
                in_head=one is not None,
                in_base=other is not None,
                is_same=is_same,
            )
        )

    def _is_same(self, one: Statement, other: Statement) -> bool:
        if one.span and other.span and one.span.text and one.span.text == other.span.text:
            return True
        texts = (
            bare_text(self._view, self._head.definitions[one.definition].file, one, is_head=True),
            bare_text(
                self._view, self._base.definitions[other.definition].file, other, is_head=False
            ),
        )
        return texts[0] is not None and texts[0] == texts[1]

    def _changed_line(
        self, one: Statement, other: Statement | None, *, is_same: bool
    ) -> int | None:
        """The first line of the statement that the diff adds, if it is surely this statement's."""
        file = self._head.definitions[one.definition].file
        lines = self._view.by_head.get(file or "")
        if lines is None or one.span is None or not self._view.bears_out(file or "", one.span):
            return None
        added = lines.first_added(one.span)
        if one.is_compiled and added != one.line:
            return None
        if is_same and other and one.work.launches <= MORE_OFTEN * other.work.launches:
            return None
        return added

    # --- callers ----------------------------------------------------------------------------------

    def _callers(self) -> dict[int, list[CallerChange]]:
        work: dict[tuple[int, int], list[CodeWork]] = defaultdict(lambda: [NO_WORK, NO_WORK])
        for place, side in enumerate((self._base, self._head)):
            name = ("base", "head")[place]
            for (own, caller), one in side.callers.items():
                both = work[self._row_of[name, own], self._row_of[name, caller]]
                both[place] = both[place].plus(one)
        rows: dict[int, list[CallerChange]] = defaultdict(list)
        for (own_row, row), (before, now) in work.items():
            named = self._shown(*self._pairs[row])
            rows[own_row].append(
                CallerChange(
                    name=named.name,
                    file=named.file,
                    line=named.first,
                    touched=self._touched[row],
                    base=before.rounded(),
                    head=now.rounded(),
                )
            )
        return rows


def _used(side: CodeSide) -> list[int]:
    """The definitions that have a line, or call one that has."""
    rows = {one.definition for one in side.statements}
    return sorted(rows.union(caller for _, caller in side.callers))


def _touches(changed: Sequence[int], place: int, side: CodeSide) -> bool | None:
    """Whether one of these lines lies in a definition, and in none within it that is known too.

    A file has functions that no step runs: of what runs on its own only the lines between those
    that ran are sure.
    """
    one = side.definitions[place]
    first, last = one.first, one.last
    if one.name == MODULE:
        spans = [row.span for row in side.statements if row.definition == place and row.span]
        first = min((span.first for span in spans), default=None)
        last = max((span.last for span in spans), default=None)
    if first is None or last is None:
        return None
    inner = sorted(
        (other.first, other.last)
        for other in side.definitions
        if other.file == one.file
        and other.first is not None
        and other.last is not None
        and (one.first or 1, one.last) != (other.first, other.last)
        and (one.first or 1) <= other.first <= other.last <= (one.last or last)
    )
    # What is left between those within, so that no line is looked at more than once.
    for begin, end in inner:
        if _has_one(changed, first, min(begin - 1, last)):
            return True
        first = max(first, end + 1)
    return _has_one(changed, first, last)


def _has_one(numbers: Sequence[int], first: int, last: int) -> bool:
    """Whether one of these sorted numbers lies between two."""
    place = bisect_left(numbers, first)
    return place < len(numbers) and numbers[place] <= last


def total(work: Iterable[CodeWork], calls: float | None) -> CodeWork:
    """All of it together; the calls are the function's own, wherever its lines were before."""
    found = NO_WORK
    for one in work:
        found = found.plus(one)
    return found.but(calls=calls or 0.0).rounded()
