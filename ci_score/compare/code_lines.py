"""Lines of base and of head through a diff, and whether the diff is one of these very files."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ci_score.model.code_diff import CodeDiff, FileDiff, Hunk
from ci_score.model.step_code import statement_digest

# Of the longest statement whose text is held against a diff. A record may have hundreds of them
# around one line, and a diff a line of megabytes.
MOST_STATEMENT_LINES, LONGEST_STATEMENT = 2_000, 100_000


@dataclass(frozen=True, slots=True)
class Span:
    """Lines from the first to the last, and the digest of their text where it is known."""

    first: int
    last: int
    text: str | None = None


class FileLines:
    """A file of both sides: which line of head is which of base."""

    def __init__(self, diff: FileDiff) -> None:
        self.base, self.head = diff.base, diff.head
        self.hunks = diff.hunks
        self.added = [line for hunk in diff.hunks for line in hunk.added]
        self.removed = [line for hunk in diff.hunks for line in hunk.removed]
        self._base_firsts = [hunk.base_first for hunk in diff.hunks]
        self._head_firsts = [hunk.head_first for hunk in diff.hunks]

    def head_line(self, line: int) -> int | None:
        """The head's number of a line that base has too; None of one that is gone."""
        place = bisect_right(self._base_firsts, line) - 1
        if place < 0:
            return line
        hunk = self.hunks[place]
        if line >= hunk.base_first + hunk.base_count:
            return line - hunk.base_first - hunk.base_count + hunk.head_first + hunk.head_count
        gone = bisect_left(hunk.removed, line)
        if gone < len(hunk.removed) and hunk.removed[gone] == line:
            return None
        return _nth_kept(hunk, line - hunk.base_first - gone)

    def first_added(self, span: Span) -> int | None:
        """The first line of the span that base does not have."""
        place = bisect_left(self.added, span.first)
        known = place < len(self.added) and self.added[place] <= span.last
        return self.added[place] if known else None

    def first_removed(self, span: Span) -> int | None:
        """The first line of the span that head does not have."""
        place = bisect_left(self.removed, span.first)
        known = place < len(self.removed) and self.removed[place] <= span.last
        return self.removed[place] if known else None

    def head_hunk(self, line: int) -> Hunk | None:
        """The hunk that has a line of head."""
        place = bisect_right(self._head_firsts, line) - 1
        hunk = self.hunks[place] if place >= 0 else None
        return hunk if hunk and line < hunk.head_first + hunk.head_count else None

    def base_hunk(self, line: int) -> Hunk | None:
        """The hunk that has a line of base."""
        place = bisect_right(self._base_firsts, line) - 1
        hunk = self.hunks[place] if place >= 0 else None
        return hunk if hunk and line < hunk.base_first + hunk.base_count else None

    def untouched(self, span: Span) -> tuple[int, int] | None:
        """The head's first and last line of a base's statement, if no line in it changed."""
        first, last = self.head_line(span.first), self.head_line(span.last)
        if first is None or last is None or last - first != span.last - span.first:
            return None
        return (first, last) if self.first_removed(span) is None else None

    def head_text(self, span: Span) -> tuple[str, ...] | None:
        """The lines of a head's statement, where the diff has all of them."""
        hunk = self.head_hunk(span.first)
        return _text(span, hunk.texts if hunk else {})

    def base_text(self, span: Span) -> tuple[str, ...] | None:
        """The lines of a base's statement, where the diff has all of them."""
        hunk = self.base_hunk(span.first)
        return _text(span, hunk.were if hunk else {})


def _nth_kept(hunk: Hunk, nth: int) -> int:
    """The head's line of the nth that both sides of a hunk have."""
    line = hunk.head_first + nth
    # Each line added before it moves it down by one.
    added = hunk.added
    return line + bisect_right(range(len(added)), line, key=lambda place: added[place] - place)


def _text(span: Span, texts: Mapping[int, str]) -> tuple[str, ...] | None:
    if span.last - span.first >= MOST_STATEMENT_LINES:
        return None
    lines = range(span.first, span.last + 1)
    if not all(line in texts for line in lines):
        return None
    found = tuple(texts[line] for line in lines)
    return found if sum(map(len, found)) <= LONGEST_STATEMENT else None


def agrees(span: Span, lines: tuple[str, ...] | None) -> bool | None:
    """Whether a statement has this text; None where one of both is not known."""
    if span.text is None or lines is None:
        return None
    # A mark of the order of bytes is no part of a file's text for Python.
    clean = (lines[0].removeprefix("\ufeff"), *lines[1:])
    return statement_digest(clean) == span.text


@dataclass(slots=True)
class DiffView:
    """What a diff says of the two sides' files.

    `contradicted` are files of head whose lines have another text than the diff says: nothing that
    it says of them holds.
    """

    is_known: bool
    by_head: dict[str, FileLines] = field(default_factory=dict)
    by_base: dict[str, FileLines] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)
    _agreed: set[str] = field(default_factory=set)
    # Hunks of head in which a whole statement has the diff's own text, and so all lines do.
    _sure: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def of(cls, diff: CodeDiff) -> DiffView:
        """The files of a diff by their names on both sides."""
        view = cls(diff.state == "known")
        for one in diff.files if view.is_known else ():
            lines = FileLines(one)
            if one.head is not None:
                view.by_head[one.head] = lines
            if one.base is not None:
                view.by_base[one.base] = lines
        return view

    def head_file(self, base_file: str) -> str | None:
        """How head calls a file of base; None where it is gone."""
        lines = self.by_base.get(base_file)
        return lines.head if lines else base_file

    def lines_of(self, head_file: str | None, base_file: str | None) -> FileLines | None:
        """How the lines of two files meet; None where that is not known, or they are two files."""
        if not self.is_known or head_file is None or base_file is None:
            return None
        if head_file in self.contradicted or self.head_file(base_file) != head_file:
            return None
        known = self.by_head.get(head_file)
        if known is None:
            return FileLines(FileDiff(base_file, head_file))
        return known if known.base == base_file else None

    @property
    def is_of_others(self) -> bool:
        """Whether the files that were measured are those of other commits."""
        return bool(self.contradicted) and not self._agreed - self.contradicted

    def bears_out(self, head_file: str, span: Span) -> bool:
        """Whether the lines that the diff adds are surely those of this statement."""
        lines = self.by_head.get(head_file)
        added = lines.first_added(span) if lines else None
        if lines is None or added is None or span.text is None:
            return False
        if head_file in self.contradicted:
            return False
        hunk = lines.head_hunk(added)
        return hunk is not None and (head_file, hunk.head_first) in self._sure

    def hold(self, head: Iterable[tuple[str, Span]], base: Iterable[tuple[str, Span]]) -> None:
        """Holds the text of both sides' statements against the diff's own."""
        if not self.is_known:
            return
        rows = list(head)
        for file, span in rows:
            if lines := self.by_head.get(file):
                agreed = agrees(span, lines.head_text(span))
                hunk = lines.head_hunk(span.first)
                if agreed and hunk:
                    self._sure.add((file, hunk.head_first))
                self._note(file, agreed)
        self._hold_base(list(base), {(file, span.first, span.last): span for file, span in rows})

    def _hold_base(
        self, base: Sequence[tuple[str, Span]], head: dict[tuple[str, int, int], Span]
    ) -> None:
        for file, span in base:
            lines, head_file = self.by_base.get(file), self.head_file(file)
            if head_file is None:
                continue
            if lines:
                self._note(head_file, agrees(span, lines.base_text(span)))
            # A statement that nothing has touched must have one text on both sides.
            whole = (lines or FileLines(FileDiff(file, file))).untouched(span)
            other = head.get((head_file, *whole)) if whole else None
            if other and None not in (other.text, span.text):
                self._note(head_file, other.text == span.text)

    def _note(self, head_file: str, agreed: bool | None) -> None:
        if agreed is None:
            return
        if not agreed:
            self.contradicted.add(head_file)
        elif head_file in self.by_head:
            self._agreed.add(head_file)
