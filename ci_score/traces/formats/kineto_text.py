"""The events of a Kineto trace, out of a text that may be huge or broken.

The text is read in small pieces. A piece is cut where one event ends and the next begins,
decoded at once into typed events, and forgotten. A piece that does not decode is taken apart event
by event: one that can be mended is mended, one that cannot is dropped and counted. Nothing ever
waits for the whole file.
"""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from ci_score.errors import BadInputError

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
# More than a hundred years after the epoch, and in nanoseconds less than 64 bits.
LATEST_US = 4e15
NONE = -1

# What is decoded at once. The events of more would not fit the processor's cache, nor one arena of
# Python's memory, which then goes back to the system and is fetched again: half the speed.
PIECE_BYTES = 128 * 1024
# The largest event that is waited for, and what may stand before and after the events.
EVENT_LIMIT = 8 * 1024 * 1024
METADATA_LIMIT = 32 * 1024 * 1024
# How many pieces of a broken text are put together again in search of one event.
JOINED_PIECES = 16


class Args(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "external_id": "External id",
        "old_external_id": "external id",
        "sequence": "Sequence number",
        "dims": "Input Dims",
        "types": "Input type",
        "allocated": "Total Allocated",
        "device_type": "Device Type",
        "device_id": "Device Id",
        "address": "Addr",
        "size": "Bytes",
        "forward_thread": "Fwd thread id",
    }.get,
):
    """What is read of an event's arguments."""

    correlation: Int64 = NONE
    external_id: Int64 = NONE
    old_external_id: Int64 = NONE
    sequence: int = NONE
    step_num: int | float | str | None = None
    device: int | str | None = None
    dims: msgspec.Raw = msgspec.Raw(b"")
    types: msgspec.Raw = msgspec.Raw(b"")
    allocated: int = NONE
    device_type: int = NONE
    # Other events have these names for other things.
    device_id: Any = NONE
    address: Any = NONE
    size: Any = 0
    forward_thread: Any = NONE


class Event(msgspec.Struct, gc=False):
    """What is read of an event; times are microseconds. Without a time they stand below zero."""

    name: str = ""
    cat: str = ""
    ts: float = -1.0
    dur: float = -1.0
    pid: int | str | None = None
    tid: int | str | None = None
    # Both ends of an arrow have the same.
    id: Any = None
    args: Args = Args()


_BATCH = msgspec.json.Decoder(list[Event])
_EVENT = msgspec.json.Decoder(Event)
_LAX_EVENT = msgspec.json.Decoder(Event, strict=False)
_ARG_NAMES = frozenset(spec.encode_name for spec in msgspec.structs.fields(Args))
_JSON = json.JSONDecoder(strict=False)

# Between two events. It cannot stand inside a string, where the quote would be escaped; in a list
# of objects inside an event it can, and then the pieces are put together again. The second is for
# texts in which the first is nowhere.
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|args|pid|ts)"\s*:)')
_BETWEEN_ANY = re.compile(rb'\}\s*,\s*(?=\{\s*["}])')
_TIME = re.compile(rb'"ts"\s*:\s*"?(\d{1,16})')
_EVENTS_BEGIN = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})(\\?)')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS_AND_COMMAS = b" \t\r\n,"
_BETWEEN_VALUES = re.compile(r"[\s,]*")
_TAIL = _OVERLAP = 4 * 1024


def split_at_last_event(text: bytes, searched: int = 0) -> tuple[int, int]:
    """Where the last but one event of `text` ends, and the last begins, which may not be whole.

    Zeros where no boundary is seen. What was searched before in vain is not searched again.
    """
    start = max(searched - _OVERLAP, 0)
    for pattern, first in ((_BETWEEN, len(text) - _TAIL), (_BETWEEN, start), (_BETWEEN_ANY, start)):
        last = None
        for match in pattern.finditer(text, max(first, start)):
            last = match
        if last is not None:
            return last.start() + 1, last.end()
    return 0, 0


def first_time(head: bytes) -> float:
    """The first possible time in the beginning of a file, in microseconds; 0 where it has none."""
    times = (float(match[1]) for match in _TIME.finditer(head))
    return next((time for time in times if time < LATEST_US), 0.0)


def first_event(text: bytes) -> int:
    """Where the first event begins that is known to; 0 where none is seen."""
    match = _BETWEEN.search(text)
    return match.end() if match else 0


class EventReader:
    """Takes the text of a trace as it comes and gives its events; knows what the file was like."""

    def __init__(self, name: str, *, within_list: bool = False) -> None:
        self._name = name
        self.metadata: dict[str, Any] = {}
        self.mended = 0
        self.dropped = 0
        self.found_list = within_list
        self.is_closed = False
        self._head = bytearray()
        self._pending = b""
        self._searched = 0
        self._trailer = b""

    def take(self, chunk: bytes) -> list[Event]:
        """The events that are whole now, but for the last, which the next chunk may continue."""
        if self.is_closed:
            self._keep_trailer(chunk)
            return []
        if not self.found_list:
            chunk = self._after_metadata(chunk)
        pending = self._pending + chunk
        end, begin = split_at_last_event(pending, self._searched)
        self._searched = 0 if end else len(pending)
        self._pending = pending
        if end:
            return self._decoded(end, begin)
        if len(pending) > EVENT_LIMIT:
            self.dropped += 1
            self._pending, self._searched = b"", 0
        return []

    def settle(self) -> list[Event]:
        """The events up to here, where one may end: it has, if this leaves the reader settled."""
        if self.is_closed or not self._pending:
            return []
        text, self._pending, self._searched = self._pending, b"", 0
        end = len(text.rstrip(_BLANKS_AND_COMMAS))
        try:
            return _BATCH.decode(b"".join((b"[", memoryview(text)[:end], b"]")))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._salvaged(text)

    @property
    def is_settled(self) -> bool:
        """Whether the next event is as good as the first of a text of its own."""
        return self.found_list and not self.is_closed and not self._pending

    def finish(self) -> list[Event]:
        """The last events; then the metadata is whole."""
        events: list[Event] = []
        if self.found_list and not self.is_closed:
            text, self._pending = self._pending, b""
            events = self._salvaged(text, to_the_end=True)
        elif not self.found_list:
            self._add_metadata(bytes(self._head))
        self._read_trailer()
        return events

    @property
    def is_whole(self) -> bool:
        """Whether the text ended as a trace does."""
        return self.is_closed or (not self.found_list and bytes(self._head).rstrip().endswith(b"}"))

    def go_on_from(self, other: EventReader) -> None:
        """As if this one, which was settled, had taken what the other one took."""
        self.mended += other.mended
        self.dropped += other.dropped
        self.is_closed = other.is_closed
        self._pending, self._searched = other._pending, other._searched
        self._trailer = other._trailer

    # --- what stands around the events ---

    def _after_metadata(self, chunk: bytes) -> bytes:
        """What follows the opening of the event list, once it is seen."""
        text = self._head
        searched = max(len(text) - _OVERLAP, 0)
        text += chunk if text else chunk.removeprefix(_BYTE_ORDER_MARK).lstrip()
        if text.startswith(b"["):
            begin = 1
        elif (match := _EVENTS_BEGIN.search(text, searched)) is not None:
            begin = match.end()
            self._add_metadata(bytes(text[: match.start()]).rstrip().rstrip(b",") + b"}")
        elif len(text) > METADATA_LIMIT:
            raise BadInputError(
                self._name,
                found=f"no traceEvents in the first {METADATA_LIMIT // 1024**2} MiB",
                expected="a trace of the PyTorch profiler",
            )
        else:
            return b""
        self.found_list = True
        self._head = bytearray()
        return bytes(text[begin:])

    def _keep_trailer(self, chunk: bytes) -> None:
        if len(self._trailer) < METADATA_LIMIT:
            self._trailer += chunk

    def _read_trailer(self) -> None:
        text = self._trailer.strip().lstrip(b",").strip()
        if len(text) > 1:
            self._add_metadata(b"{" + text)

    def _add_metadata(self, text: bytes) -> None:
        value = _leniently(text.decode("utf-8", "replace"))
        if isinstance(value, dict):
            self.metadata.update(value)

    # --- the events ---

    def _decoded(self, end: int, begin: int) -> list[Event]:
        """The events up to where one ends and the next begins; the rest is left for later."""
        text = self._pending
        self._pending = text[begin:]
        try:
            return _BATCH.decode(b"".join((b"[", memoryview(text)[:end], b"]")))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._salvaged(text[:begin])

    def _salvaged(self, text: bytes, *, to_the_end: bool = False) -> list[Event]:
        """The events of a broken text one by one; its end is left where that is not whole yet."""
        events: list[Event] = []
        pieces = _pieces(text)
        place = 0
        while place < len(pieces) and not self.is_closed:
            used, after = self._take_one(pieces, place, events)
            if used < 0:
                near_end = place + JOINED_PIECES >= len(pieces)
                if near_end and not to_the_end and len(text) < EVENT_LIMIT:
                    self._pending = b"".join(pieces[place:]) + self._pending
                    return events
                self.dropped += bool(pieces[place].strip(_BLANKS_AND_COMMAS))
                used = 1
            place += used
            if after:
                self.is_closed = True
                self._trailer = after[1:].encode() + b"".join(pieces[place:])
        if self.is_closed:
            self._keep_trailer(self._pending)
            self._pending = b""
        return events

    def _take_one(self, pieces: list[bytes], place: int, events: list[Event]) -> tuple[int, str]:
        """Takes the next event: how many pieces it had, and what closes the list behind it.

        -1 where no event begins. Where only a part of the last piece was needed, the rest of it
        stays in its place and is not counted.
        """
        piece = pieces[place].strip(_BLANKS_AND_COMMAS)
        if piece.startswith(b"]"):
            return 1, piece.decode("utf-8", "replace")
        try:
            events.append(_EVENT.decode(piece))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._take_joined(pieces, place, events)
        return 1, ""

    def _take_joined(self, pieces: list[bytes], place: int, events: list[Event]) -> tuple[int, str]:
        """The same where the next piece alone is no event: more of them may be one."""
        most = min(JOINED_PIECES, len(pieces) - place)
        count = 1
        while True:
            joined = b"".join(pieces[place : place + count]).decode("utf-8", "replace")
            unfinished = False
            for text in dict.fromkeys((joined, _without_bad_escapes(joined))):
                try:
                    end = self._take_all(text, text != joined, events)
                except _UnfinishedError:
                    unfinished = True
                except ValueError:
                    pass
                else:
                    if text.startswith("]", end) or end == len(text):
                        return count, text[end:]
                    # What comes after may go on in the next piece.
                    pieces[place + count - 1] = text[end:].encode()
                    return count - 1, ""
            if not unfinished or count == most:
                return -1, ""
            count = min(2 * count, most)

    def _take_all(self, text: str, changed: bool, events: list[Event]) -> int:
        """Takes the values that a text begins with; where they end. The first has to be there."""
        place = _after_blanks(text, 0)
        first = True
        while first or (place < len(text) and text[place] != "]"):
            try:
                value, end = _json_at(text, place)
            except ValueError:
                if first:
                    raise
                break
            self._take_value(value, text[place:end], changed, events)
            place = _after_blanks(text, end)
            first = False
        return place

    def _take_value(self, value: Any, raw: str, changed: bool, events: list[Event]) -> None:
        """An event as it is, else one that is mended, else none."""
        try:
            if not changed and "\ufffd" not in raw:
                events.append(_EVENT.decode(raw))
                return
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
        event = _event_of(value)
        if event is None:
            self.dropped += 1
        else:
            self.mended += 1
            events.append(event)


class _UnfinishedError(ValueError):
    """The text ends within a value, and nothing before its end is wrong."""


def _json_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value at a place of a text, and where it ends; NaN and control characters may be."""
    try:
        return _JSON.raw_decode(text, start)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated") or not text[error.pos :].strip():
            raise _UnfinishedError from None
        raise


def _after_blanks(text: str, place: int) -> int:
    match = _BETWEEN_VALUES.match(text, place)
    return match.end() if match else place


def _without_bad_escapes(text: str) -> str:
    """A backslash that escapes nothing JSON knows stands for itself."""
    return _BAD_ESCAPE.sub(r"\\\\\1", text)


def _pieces(text: bytes) -> list[bytes]:
    between = _BETWEEN if _BETWEEN.search(text) else _BETWEEN_ANY
    starts = [0, *(match.end() for match in between.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(starts) if start < end]


def _leniently(text: str) -> Any:
    """The JSON that a text begins with; None where it is broken."""
    for attempt in (text, _without_bad_escapes(text)):
        try:
            return _json_at(attempt, _after_blanks(attempt, 0))[0]
        except ValueError:
            continue
    return None


def _event_of(value: Any) -> Event | None:
    """The event of decoded JSON, without what is not a number though it should be."""
    if not isinstance(value, dict):
        return None
    known = {key: item for key, item in value.items() if key in Event.__struct_fields__}
    args = known.pop("args", None)
    if isinstance(args, dict):
        known["args"] = {key: item for key, item in args.items() if key in _ARG_NAMES}
        _drop_nothings(known["args"])
    _drop_nothings(known)
    if value.get("ph") == "X" and not {"ts", "dur"} <= known.keys():
        return None
    try:
        event = _LAX_EVENT.decode(msgspec.json.encode(known))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    # The text "nan" is read as a number, too.
    return None if math.isnan(event.ts + event.dur) else event


def _drop_nothings(values: dict[str, Any]) -> None:
    for key, value in list(values.items()):
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            del values[key]
