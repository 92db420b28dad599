"""A unified diff as git writes it → the files and lines that changed.

A server or git wrote the bytes, of files that are a stranger's. What is no diff, or only a part of
one, gives no lines at all: half a diff would move those that follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ci_score.model.code_diff import CodeDiff, FileDiff, Hunk, is_inside

MOST_BYTES = 8 * 1024 * 1024
MOST_FILES, MOST_LINES, LARGEST_NUMBER = 3_000, 200_000, 10**7
# A script may have no suffix at all. Other files are data, however many lines they have.
_CODE = frozenset({"", ".py", ".pyi", ".pyw", ".pyx", ".pxi", ".ipynb"})
_START = b"diff --git "
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(rb"\\(?:([0-7]{3})|(.))", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_ESCAPED[b"v"] = b"\v"
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)


class _BrokenDiffError(Exception):
    """Bytes that are no diff from here on."""


class _TooLargeError(Exception):
    """More files or lines than there may be."""


def may_hold_code(path: str) -> bool:
    """Whether a file of this name may be one that Python runs."""
    return PurePosixPath(path).suffix.lower() in _CODE


def code_diff_of(
    data: bytes,
    tracked: frozenset[str] = frozenset(),
    wanted: Callable[[str], bool] = may_hold_code,
) -> CodeDiff:
    """The files of a diff that are wanted; a state instead of them where it cannot be used."""
    if len(data) > MOST_BYTES:
        return CodeDiff("too large", tracked=tracked)
    try:
        files = tuple(_Reader(data, wanted).files())
    except _TooLargeError:
        return CodeDiff("too large", tracked=tracked)
    except _BrokenDiffError:
        return CodeDiff("not found", tracked=tracked)
    return CodeDiff(files=files, tracked=tracked)


@dataclass(slots=True)
class _Names:
    """What the head of a file's diff says of its names, before it is known which of it counts."""

    base: str | None
    head: str | None
    is_new: bool = False
    is_gone: bool = False
    is_copy: bool = False

    def learn(self, line: bytes) -> None:
        """Takes from a line what it says; the other lines of a head say nothing of names."""
        word, _, rest = line.partition(b" ")
        if line.startswith(b"new file mode "):
            self.is_new = True
        elif line.startswith(b"deleted file mode "):
            self.is_gone = True
        elif line.startswith((b"rename from ", b"copy from ")):
            self.is_copy = word == b"copy"
            self.base = _name(line.partition(b" from ")[2])
        elif line.startswith((b"rename to ", b"copy to ")):
            self.head = _name(line.partition(b" to ")[2])
        elif word == b"---":
            self.is_new |= rest == b"/dev/null"
            self.base = self.base if rest == b"/dev/null" else _side(rest)
        elif word == b"+++":
            self.is_gone |= rest == b"/dev/null"
            self.head = self.head if rest == b"/dev/null" else _side(rest)

    @property
    def sides(self) -> tuple[str | None, str | None]:
        """The path of base and that of head; None is a side that does not have the file."""
        base = None if self.is_new or self.is_copy else self.base
        head = None if self.is_gone else self.head
        if base is None and head is None:
            raise _BrokenDiffError
        return base, head


class _Reader:
    """Reads the lines of a diff one after the other."""

    def __init__(self, data: bytes, wanted: Callable[[str], bool]) -> None:
        self._lines = data.split(b"\n")
        if self._lines[-1] == b"":
            self._lines.pop()
        self._wanted = wanted
        self._at = 0
        self._room = MOST_LINES

    def files(self) -> Iterator[FileDiff]:
        """Every file that is wanted, and of a path that stays within the repository."""
        seen = 0
        while self._at < len(self._lines):
            if not self._lines[self._at].startswith(_START):
                # A combined diff, of a merge with conflicts, is of three sides.
                raise _BrokenDiffError
            names = self._head()
            base, head = names.sides
            hunks = tuple(self._hunks(keep=self._is_kept(base, head)))
            if not self._is_kept(base, head):
                continue
            seen += 1
            if seen > MOST_FILES:
                raise _TooLargeError
            yield FileDiff(base, head, () if names.is_copy else hunks)

    def _is_kept(self, base: str | None, head: str | None) -> bool:
        paths = [path for path in (base, head) if path is not None]
        return bool(paths) and all(map(is_inside, paths)) and any(map(self._wanted, paths))

    def _head(self) -> _Names:
        """What stands before the hunks; a binary patch is passed over."""
        names = _Names(*_both_names(self._lines[self._at][len(_START) :].rstrip(b"\r")))
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip(b"\r")
            if line.startswith((_START, b"@@ ", b"diff --c")):
                break
            names.learn(line)
            self._at += 1
        return names

    def _hunks(self, *, keep: bool) -> Iterator[Hunk]:
        base_end = head_end = 1
        while self._at < len(self._lines) and self._lines[self._at].startswith(b"@@ "):
            found = _HUNK.match(self._lines[self._at])
            if found is None:
                raise _BrokenDiffError
            base_first, base_count = _range(found[1], found[2])
            head_first, head_count = _range(found[3], found[4])
            # What lies between two hunks is the same on both sides.
            if base_first < base_end or base_first - base_end != head_first - head_end:
                raise _BrokenDiffError
            self._at += 1
            hunk = _OpenHunk(base_first, base_count, head_first, head_count)
            self._fill(hunk, keep=keep)
            base_end, head_end = base_first + base_count, head_first + head_count
            if keep:
                yield hunk.closed()

    def _fill(self, hunk: _OpenHunk, *, keep: bool) -> None:
        """Exactly as many lines as the hunk has, whatever they look like."""
        while not hunk.is_full:
            if self._at >= len(self._lines):
                raise _BrokenDiffError
            line = self._lines[self._at]
            self._at += 1
            self._room -= keep
            if self._room < 0:
                raise _TooLargeError
            hunk.take(line, keep=keep)
        while self._at < len(self._lines) and self._lines[self._at].startswith(b"\\"):
            self._at += 1


@dataclass(slots=True)
class _OpenHunk:
    """A hunk whose lines are being read; the numbers are those of the next line of each side."""

    base_first: int
    base_count: int
    head_first: int
    head_count: int
    base_at: int = field(init=False)
    head_at: int = field(init=False)
    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    were: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.base_at, self.head_at = self.base_first, self.head_first

    @property
    def is_full(self) -> bool:
        """Whether all lines of both sides are there."""
        base_end = self.base_first + self.base_count
        return self.base_at == base_end and self.head_at == self.head_first + self.head_count

    def take(self, line: bytes, *, keep: bool) -> None:
        """The next line, of one side or of both."""
        sign = line[:1]
        if sign == b"\\":
            return
        of_base, of_head = sign in (b"-", b" ", b""), sign in (b"+", b" ", b"")
        # Some tools cut the blank of an empty line that both sides have.
        if sign == b"\r":
            of_base = of_head = True
        if not of_base and not of_head:
            raise _BrokenDiffError
        if keep:
            self._keep(line[1:].decode("utf-8", "replace"), of_base=of_base, of_head=of_head)
        self.base_at += of_base
        self.head_at += of_head
        if self.base_at > self.base_first + self.base_count:
            raise _BrokenDiffError
        if self.head_at > self.head_first + self.head_count:
            raise _BrokenDiffError

    def _keep(self, text: str, *, of_base: bool, of_head: bool) -> None:
        if of_base:
            self.were[self.base_at] = text
            if not of_head:
                self.removed.append(self.base_at)
        if of_head:
            self.texts[self.head_at] = text
            if not of_base:
                self.added.append(self.head_at)

    def closed(self) -> Hunk:
        """The hunk, which is whole."""
        return Hunk(
            self.base_first,
            self.base_count,
            self.head_first,
            self.head_count,
            tuple(self.added),
            tuple(self.removed),
            self.texts,
            self.were,
        )


def _range(first: bytes, count: bytes | None) -> tuple[int, int]:
    """The first line and how many; git gives the line before where there are none."""
    number, lines = int(first), 1 if count is None else int(count)
    number += not lines
    if number < 1 or number + lines > LARGEST_NUMBER:
        raise _BrokenDiffError
    return number, lines


# --- names ----------------------------------------------------------------------------------------


def _both_names(rest: bytes) -> tuple[str | None, str | None]:
    """The two names of `a/train.py b/train.py`.

    Between names with blanks nothing tells where one ends. Where they differ, lines of their own
    follow with each of them.
    """
    if rest.startswith(b'"'):
        first = _QUOTED.match(rest)
        if first is None:
            raise _BrokenDiffError
        return _side(first[0]), _side(rest[first.end() + 1 :])
    if rest.endswith(b'"'):
        before, _, after = rest.partition(b' "')
        return _side(before), _side(b'"' + after)
    middle = len(rest) // 2
    base, head = rest[:middle], rest[middle + 1 :]
    if (base[:2], head[:2]) == (b"a/", b"b/") and base[2:] == head[2:]:
        return _side(base), _side(head)
    return None, None


def _side(name: bytes) -> str:
    """A name without the letter that says whose it is: `a/train.py` → train.py."""
    path = _name(name)
    if path[:2] not in ("a/", "b/"):
        raise _BrokenDiffError
    return path[2:]


def _name(name: bytes) -> str:
    """A name as git writes it: in quotes with escapes, or with a tab behind one with blanks."""
    name = name.removesuffix(b"\t")
    if name.startswith(b'"'):
        found = _QUOTED.fullmatch(name)
        if found is None:
            raise _BrokenDiffError
        name = _ESCAPE.sub(_unescaped, found[1])
    return name.decode("utf-8", "surrogateescape")


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes((int(found[1], 8) & 0xFF,))
    return _ESCAPED.get(found[2], found[2])
