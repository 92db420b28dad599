"""JSON that a profiler wrote: decoded into types, and if it is broken, what of it is whole.

Profilers write names as they come, NaN for what they could not measure, and half a file where the
job was killed. What JSON does not know is mended where it stands; a text that ends early is closed
after its last whole record. Decoding into types is fast; mending is slow, and only for the broken.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from ci_score.errors import BadInputError
from ci_score.model.lists import plural
from ci_score.traces.source import ProfileSource

T = TypeVar("T")

# Three bytes of JSON can ask for an object of a hundred. Real files have one in sixty or more.
MOST_OBJECTS = 6_000_000
CUT_SHORT = "the file is cut short: which of its steps are whole is not known"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A string (also one that is cut off), what opens and closes, or what is no number. Quantifiers are
# possessive: there is one way to read a string, so one without its quote is gone through once.
_MARK = re.compile(
    rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]]|-?\b(?:NaN|nan|Infinity|inf)\b', re.DOTALL
)
_WRONG = re.compile(rb'[\x00-\x1f]|\\(?!["\\/bfnrt])')
_HALF_A_PAIR = rb"u[dD][89a-fA-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rb'(\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    rb"|(?!" + _HALF_A_PAIR + rb")u[0-9a-fA-F]{4}))|\\(" + _HALF_A_PAIR + rb")?|[\x00-\x1f]"
)
_CLOSING = {b"{": b"}", b"[": b"]"}


class WrongTypeError(BadInputError):
    """It is JSON, but something else stands where records, numbers or names belong."""


class _ChromeTrace(msgspec.Struct, Generic[T]):
    events: list[T] = msgspec.field(name="traceEvents", default_factory=list)


class ProfilerJson:
    """The text of a file, and after decoding what has to be said of it."""

    def __init__(self, source: ProfileSource, expected: str) -> None:
        data, self.is_cut = source.whole_or_cut()
        self.notes: list[str] = []
        self._name = source.name
        self._expected = expected
        self._data = data.removeprefix(_BYTE_ORDER_MARK)
        # Before anything is decoded, because a decoder knows no limit.
        if self._data.count(b"{") + self._data.count(b"[") > MOST_OBJECTS:
            raise BadInputError(
                self._name,
                found=f"more than {MOST_OBJECTS} objects and lists",
                expected=f"{expected} with fewer steps in it",
            )

    def events(self, kind: type[T], *, strict: bool = True) -> list[T]:
        """The events of a Chrome trace, without those in which a field has a wrong type."""
        try:
            return self._events(kind, strict=strict)
        except WrongTypeError:
            pass
        raw, decoder = self._events(msgspec.Raw), msgspec.json.Decoder(kind, strict=strict)
        events: list[T] = []
        for text in raw:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                events.append(decoder.decode(text))
        if len(events) < len(raw):
            dropped = plural(len(raw) - len(events), "event")
            self.notes.append(f"dropped {dropped} in which a field has a wrong type")
        return events

    def _events(self, kind: type[T], *, strict: bool = True) -> list[T]:
        if self._data[:256].lstrip().startswith(b"["):
            return self.decode(list[kind], strict=strict)  # type: ignore[valid-type]
        return self.decode(_ChromeTrace[kind], strict=strict).events  # type: ignore[valid-type]

    def decode(self, kind: type[T], *, strict: bool = True) -> T:
        """The value as `kind`, of a text that is mended where it must be."""
        try:
            return msgspec.json.decode(self._data, type=kind, strict=strict)
        except msgspec.ValidationError as error:
            raise WrongTypeError(
                self._name, found=f"JSON with {str(error)[:100]!a}", expected=self._expected
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if not self._is_changed_by_mending():
                raise BadInputError(
                    self._name,
                    found=f"JSON that is broken ({str(error)[:100]})",
                    expected=self._expected,
                ) from None
        return self.decode(kind, strict=strict)

    def _is_changed_by_mending(self) -> bool:
        """Mends the text, first what stands in it, then its end; says what was done."""
        text, places = mended(self._data)
        if places:
            self.notes.append(
                f"mended {places} places in which it was no JSON (line breaks, backslashes, bytes"
                " that are not text, values that are not numbers)"
            )
        closed = None if text != self._data else up_to_the_last_whole_record(text)
        if closed is not None:
            self.is_cut = True
            text = closed
        is_changed = text != self._data
        self._data = text
        return is_changed


def mended(data: bytes) -> tuple[bytes, int]:
    """The text with what JSON knows in place of what it does not, and in how many places."""
    places = 0

    def character(found: re.Match[bytes]) -> bytes:
        nonlocal places
        if found[1] is not None:
            return found[1]
        places += 1
        if found[2] is not None:
            return b"\\ufffd"
        return rb"\\" if found[0] == b"\\" else b"\\u%04x" % found[0][0]

    def right(found: re.Match[bytes]) -> bytes:
        nonlocal places
        mark = found[0]
        if mark[:1] == b'"':
            return _ESCAPE.sub(character, mark) if _WRONG.search(mark) else mark
        if mark in b"{}[]":
            return mark
        places += 1
        return b"null"

    characters = data.decode("utf-8", "replace")
    places += characters.count("\ufffd")
    text = characters.encode()
    del characters
    # Not by `sub`, which keeps a list of everything between two marks: ten times the text.
    pieces, end = bytearray(), 0
    for found in _MARK.finditer(text):
        piece = right(found)
        if piece != found[0]:
            pieces += text[end : found.start()] + piece
            end = found.end()
    return (bytes(pieces + text[end:]) if end else text), places


def up_to_the_last_whole_record(data: bytes) -> bytes | None:
    """A text that ends early, closed after the last object of a list that is whole in it.

    None where it does not end early, or holds no such object.
    """
    opened: list[bytes] = []
    end = depth = 0
    for found in _MARK.finditer(data):
        mark = found[0]
        if mark in _CLOSING:
            opened.append(mark)
        elif mark in (b"}", b"]"):
            if not opened or _CLOSING[opened.pop()] != mark:
                return None
            in_a_list = opened[-1:] == [b"["]
            # Of a list that is closed itself, the end is as good as that of its last object.
            if (mark == b"}" and in_a_list) or len(opened) < depth:
                end, depth = found.end(), len(opened)
    if not opened or not end:
        return None
    return data[:end] + b"".join(_CLOSING[mark] for mark in reversed(opened[:depth]))
