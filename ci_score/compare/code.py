"""What the code of two steps takes → where in the code a step changed, and what explains it.

The lines of both sides meet through the diff of their commits. Nothing of a line is said that the
diff's own text does not bear out: a launch may tell anything of its stacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ci_score.compare.code_blame import (
    Guilty,
    growth_of_memory,
    growth_of_time,
    guilty,
    warned,
    with_noise,
)
from ci_score.compare.code_lines import DiffView, FileLines
from ci_score.compare.code_matching import CodeSide, matched
from ci_score.compare.code_paths import with_paths
from ci_score.compare.code_rows import DefinitionRow, LineRow, definition_rows
from ci_score.model.code_changes import (
    MOST_CALLERS,
    MOST_CHANGED,
    MOST_CHANGED_LINES,
    Blame,
    CallerChange,
    ChangedPlace,
    CodeChanges,
    DefinitionChange,
    LineChange,
)
from ci_score.model.code_diff import NO_DIFF, CodeDiff
from ci_score.model.explanation import is_far
from ci_score.model.step_code import StepCode

# Below this share of a step, or of its peak, a definition has no row.
LEAST_SHOWN = 0.002
T = TypeVar("T")


def code_changes(
    head: StepCode,
    base: StepCode,
    diff: CodeDiff = NO_DIFF,
    step: tuple[float, float] | None = None,
) -> CodeChanges | None:
    """Where in the code a step changed; None if the two sides' code was found in two ways.

    `step` is how long a step of base and one of head takes: half of that change has to be
    explained, where it is more than that of the code's work.
    """
    if head.found_by != base.found_by or not (head.lines and base.lines):
        return None
    head, base = with_paths(head, base, diff)
    view = DiffView.of(diff)
    sides = CodeSide.of(head), CodeSide.of(base)
    view.hold(*(side.spans() for side in sides))
    before, now = step or (base.total_ms, head.total_ms)
    # What all launches without marks show goes before what the one with marks does.
    is_disturbed = before > 0 and is_far(base.total_ms, head.total_ms, now / before - 1)
    rows = definition_rows(*sides, matched(*sides, view), view)
    rows = with_noise(rows, is_more=now > before, is_disturbed=is_disturbed)
    time, memory = growth_of_time(head, base, rows, step), growth_of_memory(head, base, rows)
    blames = guilty(time), guilty(memory)
    largest = _Largest(head, base)
    kept = largest.definitions(rows, [one.row for one in blames if one])
    shown = [_shown(row, largest, [one for one in blames if one]) for row in kept]
    return CodeChanges(
        found_by=head.found_by,
        diff="other commit" if view.is_of_others else diff.state,
        base_ms=base.total_ms,
        head_ms=head.total_ms,
        base_without_line_ms=base.without_line_ms,
        head_without_line_ms=head.without_line_ms,
        base_peak_bytes=base.peak_bytes,
        head_peak_bytes=head.peak_bytes,
        marked_ms=head.marked_ms,
        unmarked_ms=head.unmarked_ms,
        definitions=tuple(shown),
        left_out=sum(largest.is_shown(row.change) for row in _without(kept, rows)),
        time=_blame(blames[0], kept, shown, view),
        memory=_blame(blames[1], kept, shown, view),
        warned=warned(time, memory),
    )


class _Largest:
    """Which changes are the largest, as shares of the step's time or of its peak memory."""

    def __init__(self, head: StepCode, base: StepCode) -> None:
        self._ms = max(head.total_ms, base.total_ms) or 1.0
        self._bytes = max(head.peak_bytes, base.peak_bytes) or 1

    def _size(self, one: DefinitionChange | LineChange | CallerChange) -> float:
        ms = one.head.ms + one.head.python_ms - one.base.ms - one.base.python_ms
        if isinstance(one, DefinitionChange) and one.is_noise:
            ms = 0.0
        memory = one.head.peak_bytes - one.base.peak_bytes
        return max(abs(ms) / self._ms, abs(memory) / self._bytes)

    def is_shown(self, one: DefinitionChange) -> bool:
        """Whether a definition changed enough to have a row."""
        return self._size(one) >= LEAST_SHOWN

    def definitions(
        self, rows: Sequence[DefinitionRow], blamed: Sequence[DefinitionRow]
    ) -> list[DefinitionRow]:
        """Those that are shown, first what the diff touches; what is blamed is always there."""
        notable = [row for row in _without(blamed, rows) if self.is_shown(row.change)]
        notable.sort(key=lambda row: -self._size(row.change))
        # What is blamed was not touched perhaps, and many that were changed a little.
        notable.sort(key=lambda row: row.change.touched is not True)
        kept = [*_once(blamed), *notable][:MOST_CHANGED]
        return sorted(
            kept, key=lambda row: (row.change.touched is not True, -self._size(row.change))
        )

    def lines(self, row: DefinitionRow, blamed: Sequence[LineRow]) -> list[LineRow]:
        """The lines of a definition that changed most."""
        rest = [line for line in _without(blamed, row.lines) if self._size(line.change) > 0]
        rest.sort(key=lambda line: -self._size(line.change))
        kept = [*blamed, *rest][:MOST_CHANGED_LINES]
        return sorted(kept, key=lambda line: -self._size(line.change))

    def callers(self, row: DefinitionRow, blamed: Sequence[CallerChange]) -> list[CallerChange]:
        """The callers through which most of the change comes."""
        rest = sorted(_without(blamed, row.callers), key=lambda one: -self._size(one))
        kept = [*blamed, *rest][:MOST_CALLERS]
        return sorted(kept, key=lambda one: -self._size(one))


def _once(rows: Sequence[T]) -> list[T]:
    """Each row once: time and memory may have one to blame."""
    return list({id(row): row for row in rows}.values())


def _without(taken: Sequence[T], rows: Sequence[T]) -> list[T]:
    known = {id(row) for row in taken}
    return [row for row in rows if id(row) not in known]


def _shown(row: DefinitionRow, largest: _Largest, blamed: Sequence[Guilty]) -> DefinitionChange:
    of_row = [one for one in blamed if one.row is row]
    lines = largest.lines(row, _once([one.line for one in of_row if one.line]))
    callers = largest.callers(row, _once([one.caller for one in of_row if one.caller]))
    return row.change.but(lines=tuple(one.change for one in lines), callers=tuple(callers))


def _blame(
    found: Guilty | None,
    kept: Sequence[DefinitionRow],
    shown: Sequence[DefinitionChange],
    view: DiffView,
) -> Blame | None:
    if found is None:
        return None
    place = next(place for place, row in enumerate(kept) if row is found.row)
    one = shown[place]
    is_told = not found.by or (found.caller and found.caller.touched)
    return Blame(
        definition=place,
        line=one.lines.index(found.line.change) if found.line else None,
        called_from=one.callers.index(found.caller) if found.caller else None,
        share=found.share,
        by=found.by,
        near=None if is_told else changed_near(found.row, view),
    )


def changed_near(row: DefinitionRow, view: DiffView) -> ChangedPlace | None:
    """Where the diff touches what is nearest to a function that it does not touch."""
    places = [place for lines in view.by_head.values() for place in _places_in(lines, view)]
    in_file = [place for place in places if place.file == row.change.file]
    outer = row.outer
    in_outer = [one for one in in_file if outer and outer.first <= one.line <= outer.last]
    for within, listed in (("outer", in_outer), ("file", in_file), ("diff", places)):
        if listed:
            return listed[0].but(within=within, more=len(listed) - 1)
    return None


def _places_in(lines: FileLines, view: DiffView) -> Iterator[ChangedPlace]:
    """The first line of each hunk in a file of head; of lines that are gone the one behind them."""
    if lines.head is None or lines.head in view.contradicted:
        return
    for hunk in lines.hunks:
        line = hunk.added[0] if hunk.added else max(hunk.head_first, 1)
        yield ChangedPlace(within="diff", file=lines.head, line=line)
