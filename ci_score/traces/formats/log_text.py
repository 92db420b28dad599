"""Objects of JSON in what a training run prints: amid log lines, cut short, or alone in a file.

A log may be hundreds of megabytes with a brace in every line. So nothing is scanned but what
follows a place where a profile begins, up to the next such place and `LARGEST_OBJECT` at most: the
work is linear in the size of the log, whatever stands in it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.strict_json import parse
from ci_score.traces.source import ProfileSource

LARGEST_OBJECT = 4 * 1024**2
# How many profiles of one log may be damaged before we stop looking for a whole one.
MOST_CANDIDATES = 16
CONTEXT_BYTES = 64 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A string (also one that is cut off), or what opens and closes. Quantifiers are possessive: there
# is one way to read a string, so a text without a closing quote is gone through once.
_MARK = re.compile(rb'"(?P<name>(?:[^"\\]|\\.)*+)(?:"(?P<colon>\s*+:)?|\\?\Z)|[{}\[\]]', re.DOTALL)
_OBJECT_BEGINS = re.compile(rb"\s*+\{")
_NOTHING_FOLLOWS = re.compile(rb"\s*+\Z")
_NOT_A_NUMBER = re.compile(rb'("(?:[^"\\]|\\.)*+"?)|-?\b(?:NaN|Infinity)\b', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """An object that stood in a text: its value, where it stood, and what has to be said of it.

    `before` is the text above it, where a run says things that the object does not.
    """

    value: Any
    place: str
    before: bytes = b""
    notes: tuple[str, ...] = ()


def outer_keys(head: bytes) -> frozenset[str]:
    """The keys of the outermost object, as far as `head` goes; none where it is no object."""
    text = _without_byte_order_mark(head).lstrip()
    keys: set[str] = set()
    if not text.startswith(b"{"):
        return frozenset()
    depth = 0
    for mark in _MARK.finditer(text):
        depth += _depth_change(mark)
        if depth == 0:
            break
        if depth == 1 and mark["colon"] is not None:
            keys.add(mark["name"].decode(errors="replace"))
    return frozenset(keys)


def profiler_start(*names: str) -> re.Pattern[bytes]:
    """Where an object begins whose first key says that one of these profilers wrote it."""
    either = b"|".join(re.escape(name).encode() for name in names)
    return re.compile(rb'\{\s*+"_profiler"\s*+:\s*+"(?:' + either + rb')"')


def text_of(source: ProfileSource) -> tuple[bytes, tuple[str, ...]]:
    """All of a file, or what there is of one that is packed and cut short, which is then noted."""
    data, is_cut = source.whole_or_cut()
    note = "The file is cut short or damaged: what was printed after that is missing."
    return data, (note,) if is_cut else ()


def read_object(source: ProfileSource, start: re.Pattern[bytes]) -> Excerpt:
    """The object that is the whole text, or else the last whole one of those that begin in it."""
    data, notes = text_of(source)
    found = None if _is_one_object(data) else find_object(data, start, source.name)
    if found is None:
        # Where it is neither one object nor a log with one, the parser says best what is wrong.
        return Excerpt(parse(data, source.name), source.name, notes=notes)
    return replace(found, notes=(*notes, *found.notes))


def find_object(data: bytes, start: re.Pattern[bytes], name: str) -> Excerpt | None:
    """The last whole object of those that begin in a log; None where none begins.

    A profiler that reports every so often writes cumulative profiles, so the last one has it all.
    """
    latest, total = _latest(match.start() for match in start.finditer(data))
    stop = len(data)
    for damaged, begin in enumerate(reversed(latest)):
        end = _end_of_object(data, begin, min(stop, begin + LARGEST_OBJECT))
        if end is not None:
            place = line_of(data, begin, name)
            return Excerpt(
                value=parse(data[begin:end], place),
                place=place,
                before=data[max(0, begin - CONTEXT_BYTES) : begin],
                notes=_log_notes(place, total, damaged),
            )
        stop = begin
    if not latest:
        return None
    raise BadInputError(
        line_of(data, latest[-1], name),
        found="a profile that is cut short or damaged",
        expected="a whole one (was the job killed while it printed?)",
    )


def line_of(data: bytes, position: int, name: str) -> str:
    """`train.log:17`, as editors and compilers name a place."""
    line = data.count(b"\n", 0, position) + 1
    return f"{name}:{line}"


def looks_like_text(head: bytes) -> bool:
    """Whether this is text for people: not empty, not one JSON value, and without binary bytes."""
    text = _without_byte_order_mark(head).lstrip()
    if not text or text[:1] in b'{"' or re.match(rb"\[\s*+[\[{\"\]]", text):
        return False
    return not any(byte < 32 and byte not in b"\t\n\r\x1b\b\f" for byte in text[:4096])


def without_nan(data: bytes) -> tuple[bytes, int]:
    """The JSON with `null` for NaN and Infinity, which Python writes, and how many there were.

    For files in which they stand for a loss that diverged and say nothing about the other numbers.
    """
    if b"NaN" not in data and b"Infinity" not in data:
        return data, 0
    count = 0

    def null_for(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if found[1] is not None:
            return found[0]
        count += 1
        return b"null"

    return _NOT_A_NUMBER.sub(null_for, data), count


def _is_one_object(data: bytes) -> bool:
    text = _without_byte_order_mark(data)
    first = _OBJECT_BEGINS.match(text)
    if first is None:
        return False
    begin = first.end() - 1
    end = _end_of_object(text, begin, min(len(text), begin + LARGEST_OBJECT))
    return end is not None and _NOTHING_FOLLOWS.match(text, end) is not None


def _end_of_object(data: bytes, begin: int, stop: int) -> int | None:
    depth = 0
    for mark in _MARK.finditer(data, begin, stop):
        depth += _depth_change(mark)
        if depth == 0:
            return mark.end()
    return None


def _depth_change(mark: re.Match[bytes]) -> int:
    opening = mark[0][:1]
    if opening in b"{[":
        return 1
    return -1 if opening in b"}]" else 0


def _latest(positions: Iterable[int]) -> tuple[deque[int], int]:
    latest: deque[int] = deque(maxlen=MOST_CANDIDATES)
    total = 0
    for position in positions:
        latest.append(position)
        total += 1
    return latest, total


def _log_notes(place: str, total: int, damaged: int) -> tuple[str, ...]:
    if total == 1:
        return ()
    which = "the last" if damaged == 0 else "the last whole one"
    cut = f"; after it, {damaged} cut short or damaged" if damaged else ""
    return (f"The log holds {total} profiles: this is {which}, from {place}{cut}.",)


def _without_byte_order_mark(data: bytes) -> bytes:
    return data.removeprefix(_BYTE_ORDER_MARK)
