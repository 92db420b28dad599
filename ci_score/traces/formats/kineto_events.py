"""The events of a Kineto trace, out of a text that may be huge or broken.

The text is read in small pieces. A piece is cut where one event ends and the next begins,
decoded at once into typed events, and forgotten; what is kept of an event are numbers in columns.
A piece that does not decode is taken apart event by event: one that can be mended is mended, one
that cannot is dropped and counted. Nothing ever waits for the whole file.
"""

from __future__ import annotations

import gc
import json
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import compress, pairwise
from operator import add
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from ci_score.errors import BadInputError
from ci_score.traces.source import CutShortError, ProfileSource

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
NONE = -1

# What is decoded at once. The events of more would not fit the processor's cache, nor one arena of
# Python's memory, which then goes back to the system and is fetched again: half the speed.
PIECE_BYTES = 128 * 1024
# The largest event that is waited for, and what may stand before and after the events.
EVENT_LIMIT = 8 * 1024 * 1024
METADATA_LIMIT = 64 * 1024 * 1024
# Three hundred years after the epoch.
LATEST_US = 1e16
# How many pieces of a broken text are put together again in search of one event.
JOINED_PIECES = 16

_NO_SEQUENCE = 2**63
KERNEL, MEMCPY, MEMSET = 0, 1, 2
_DEVICE_WORK = {
    "kernel": KERNEL,
    "Kernel": KERNEL,
    "gpu_memcpy": MEMCPY,
    "Memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "Memset": MEMSET,
}
# Calls of the runtime that keep a thread from launching more.
WAIT, ALLOCATION = 1, 2
_KEEPS_WAITING = (
    (WAIT, re.compile(r"ynchronize|^(cuda|hip)Memcpy$")),
    (
        ALLOCATION,
        re.compile(r"^(cuda|hip|cuMem)(Host)?(Malloc|Alloc|Free|Create|Map)(Host|_v\d+)?$"),
    ),
)
_RUNTIME = ("cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime", "hip_runtime", "xpu_runtime")
# Old ones have no kind.
_INSTANTS = ("cpu_instant_event", "")
_MODULE = "nn.Module: "
_EMBEDDING = "aten::embedding"
# Up to 2021 annotations were written as operators: these names tell them apart.
OLD_ANNOTATION = re.compile(r"ProfilerStep|Optimizer\.|enumerate\(DataLoader\)|## ")


class Args(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "external_id": "External id",
        "old_external_id": "external id",
        "sequence": "Sequence number",
        "dims": "Input Dims",
        "allocated": "Total Allocated",
        "device_type": "Device Type",
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
    allocated: int = NONE
    device_type: int = NONE


class Event(msgspec.Struct, gc=False):
    """What is read of an event; times are microseconds. Without a time they stand below zero."""

    name: str = ""
    cat: str = ""
    ts: float = -1.0
    dur: float = -1.0
    tid: int | str | None = None
    args: Args = Args()


_BATCH = msgspec.json.Decoder(list[Event])
_EVENT = msgspec.json.Decoder(Event)
_LAX_EVENT = msgspec.json.Decoder(Event, strict=False)
_DIMS = msgspec.json.Decoder(list[Any])
_ARG_NAMES = frozenset(spec.encode_name for spec in msgspec.structs.fields(Args))
_JSON = json.JSONDecoder(strict=False)

# Between two events. It cannot stand inside a string, where the quote would be escaped; in a list
# of objects inside an event it can, and then the pieces are put together again. The second is for
# texts in which the first is nowhere.
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|args|pid|ts)"\s*:)')
_BETWEEN_ANY = re.compile(rb'\}\s*,\s*(?=\{\s*["}])')
_EVENTS_BEGIN = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})(\\?)')
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


class EventReader:
    """Reads the events of a source in batches, and knows afterwards what the file was like."""

    def __init__(self, source: ProfileSource) -> None:
        self._source = source
        self.metadata: dict[str, Any] = {}
        self.mended = 0
        self.dropped = 0
        self.is_cut = False
        self.found_list = False
        self._closed = False
        self._trailer = b""

    def batches(self) -> Iterator[list[Event]]:
        """The events, in lists as they come; the metadata is whole when the last has been taken."""
        chunks = self._chunks()
        pending = self._after_metadata(chunks)
        if pending is None:
            return
        searched = 0
        for chunk in chunks:
            if self._closed:
                self._keep_trailer(chunk)
                continue
            pending += chunk
            end, begin = split_at_last_event(pending, searched)
            searched = 0 if end else len(pending)
            if end:
                events, rest = self._decoded(pending, end, begin)
                pending = rest + pending[begin:]
                if self._closed:
                    self._keep_trailer(pending)
                yield events
            elif len(pending) > EVENT_LIMIT:
                self.dropped += 1
                pending, searched = b"", 0
        if not self._closed:
            events, _ = self._salvaged(pending, to_the_end=True)
            self.is_cut = self.is_cut or not self._closed
            yield events
        self._read_trailer()

    def _chunks(self) -> Iterator[bytes]:
        """The source's bytes; one that ends early is cut, and what came before it counts."""
        first = True
        try:
            for chunk in self._source.chunks(PIECE_BYTES):
                yield chunk.removeprefix(b"\xef\xbb\xbf") if first else chunk
                first = False
        except CutShortError:
            if first or not self.found_list:
                raise
            self.is_cut = True

    # --- what stands around the events ---

    def _after_metadata(self, chunks: Iterator[bytes]) -> bytes | None:
        """What follows the opening of the event list, once it is seen; None where none comes."""
        text = bytearray()
        for chunk in chunks:
            searched = max(len(text) - _OVERLAP, 0)
            text += chunk if text else chunk.lstrip()
            if text.startswith(b"["):
                self.found_list = True
                return bytes(text[1:])
            match = _EVENTS_BEGIN.search(text, searched)
            if match is not None:
                self.found_list = True
                self._add_metadata(bytes(text[: match.start()]).rstrip().rstrip(b",") + b"}")
                return bytes(text[match.end() :])
            if len(text) > METADATA_LIMIT:
                raise BadInputError(
                    self._source.name,
                    found=f"no traceEvents in the first {METADATA_LIMIT // 1024**2} MiB",
                    expected="a trace of the PyTorch profiler",
                )
        self.is_cut = not text.rstrip().endswith(b"}")
        self._add_metadata(bytes(text))
        return None

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

    def _decoded(self, text: bytes, end: int, begin: int) -> tuple[list[Event], bytes]:
        """The events up to where one ends and the next begins, and what is left for later."""
        try:
            return _BATCH.decode(b"".join((b"[", memoryview(text)[:end], b"]"))), b""
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._salvaged(text[:begin])

    def _salvaged(self, text: bytes, *, to_the_end: bool = False) -> tuple[list[Event], bytes]:
        """The events of a broken text one by one, and its end where that is not whole yet."""
        events: list[Event] = []
        pieces = _pieces(text)
        place = 0
        while place < len(pieces) and not self._closed:
            used, after = self._take_one(pieces, place, events)
            if used < 0:
                near_end = place + JOINED_PIECES >= len(pieces)
                if near_end and not to_the_end and len(text) < EVENT_LIMIT:
                    return events, b"".join(pieces[place:])
                self.dropped += bool(pieces[place].strip(_BLANKS_AND_COMMAS))
                used = 1
            place += used
            if after:
                self._closed = True
                self._trailer = after[1:].encode() + b"".join(pieces[place:])
        return events, b""

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
        except (msgspec.DecodeError, UnicodeDecodeError):
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
        except (msgspec.DecodeError, UnicodeError):
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


# --- columns ------------------------------------------------------------------------------------

Name = TypeVar("Name")


class Numbers(dict[Name, int]):
    """A number for each name, in the order of their first appearance."""

    def __missing__(self, name: Name) -> int:
        self[name] = number = len(self)
        return number


@dataclass(slots=True)
class DeviceWork:
    """Kernels, copies and fills, a column each; times are microseconds.

    A device is a place in Trace.devices.
    """

    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("i"))
    kind: array[int] = field(default_factory=lambda: array("b"))
    stream: array[int] = field(default_factory=lambda: array("i"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    external_id: array[int] = field(default_factory=lambda: array("q"))
    device: array[int] = field(default_factory=lambda: array("i"))

    def only(self, device: int) -> DeviceWork:
        """The work of one device."""
        is_its = [each == device for each in self.device]
        columns = (getattr(self, each.name) for each in fields(self))
        return DeviceWork(*(array(each.typecode, compress(each, is_its)) for each in columns))


@dataclass(slots=True)
class Launches:
    """Calls of the runtime or driver, by which the host starts work on the device.

    The kind is that of the work that a call starts: KERNEL, MEMCPY, MEMSET, or NONE.
    """

    start: array[float] = field(default_factory=lambda: array("d"))
    thread: array[int] = field(default_factory=lambda: array("i"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    external_id: array[int] = field(default_factory=lambda: array("q"))
    kind: array[int] = field(default_factory=lambda: array("b"))


@dataclass(slots=True)
class HostCalls:
    """Calls that keep their thread from launching: they WAIT for the device, or for its memory."""

    kind: array[int] = field(default_factory=lambda: array("b"))
    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))
    thread: array[int] = field(default_factory=lambda: array("i"))


@dataclass(slots=True)
class HostWork:
    """Operators or modules, as the host ran them."""

    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("i"))
    thread: array[int] = field(default_factory=lambda: array("i"))
    sequence: array[int] = field(default_factory=lambda: array("q"))


@dataclass(frozen=True, slots=True)
class Annotation:
    """A span that the program named, or the profiler for it."""

    name: str
    start: float
    end: float
    thread: int
    step: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingCall:
    """A lookup of tokens, by the shapes of its inputs."""

    time: float
    vocabulary: int
    tokens: int


@dataclass(slots=True)
class Trace:
    """What a trace says, in columns, and what its file was like."""

    metadata: dict[str, Any] = field(default_factory=dict)
    names: Numbers[str] = field(default_factory=Numbers)
    threads: Numbers[int | str | None] = field(default_factory=Numbers)
    device: DeviceWork = field(default_factory=DeviceWork)
    launches: Launches = field(default_factory=Launches)
    host_calls: HostCalls = field(default_factory=HostCalls)
    operators: HostWork = field(default_factory=HostWork)
    modules: HostWork = field(default_factory=HostWork)
    annotations: list[Annotation] = field(default_factory=list)
    embeddings: list[EmbeddingCall] = field(default_factory=list)
    devices: Numbers[int | str | None] = field(default_factory=Numbers)
    peak_allocated: int = NONE
    memory_events: int = 0
    events: int = 0
    impossible: int = 0
    mended: int = 0
    dropped: int = 0
    is_cut: bool = False


def read_trace(source: ProfileSource) -> Trace:
    """All that a profile needs of a trace, in one pass."""
    reader = EventReader(source)
    trace = Trace()
    with _without_collector():
        for events in reader.batches():
            _add(trace, events)
            # Freed before the next are made, they leave them memory that is in the cache.
            events.clear()
    trace.metadata = reader.metadata
    trace.mended, trace.dropped, trace.is_cut = reader.mended, reader.dropped, reader.is_cut
    return trace


@contextmanager
def _without_collector() -> Iterator[None]:
    """Events hold no cycles: looking for some among a million of them is half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _add(trace: Trace, events: list[Event]) -> None:
    """One batch, sorted by kind and taken into the columns kind by kind."""
    trace.events += len(events)
    by_kind: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_kind[event.cat].append(event)
    for kind, group in by_kind.items():
        _add_kind(trace, kind, group)


def _add_kind(trace: Trace, kind: str, group: list[Event]) -> None:
    if kind == "python_function":
        modules = [event for event in group if event.name.startswith(_MODULE)]
        _add_host_work(trace, trace.modules, _columns(trace, modules))
    elif kind in _DEVICE_WORK:
        _add_device_work(trace, _DEVICE_WORK[kind], _columns(trace, group))
    elif kind in _RUNTIME:
        _add_launches(trace, _columns(trace, group))
    elif kind == "cpu_op":
        _add_operators(trace, _columns(trace, group))
    elif kind == "Operator":
        _add_operators(trace, _columns(trace, group))
        named = [event for event in group if OLD_ANNOTATION.match(event.name)]
        _add_annotations(trace, named)
    elif kind == "user_annotation":
        _add_annotations(trace, group)
    elif kind in _INSTANTS:
        _add_memory(trace, group)


class _Columns(NamedTuple):
    """A group of events, field by field: an array takes lists at half the price of others."""

    names: list[str]
    starts: list[float]
    durations: list[float]
    threads: list[int | str | None]
    args: list[Args]


def _columns(trace: Trace, group: list[Event]) -> _Columns:
    """The fields of those that are possible: they end after they begin, within all calendars."""
    starts = [event.ts for event in group]
    durations = [event.dur for event in group]
    if group and not (
        min(starts) >= 0.0 <= min(durations) and max(starts) < LATEST_US > max(durations)
    ):
        possible = [event for event in group if _is_possible(event)]
        trace.impossible += len(group) - len(possible)
        return _columns(trace, possible)
    return _Columns(
        [event.name for event in group],
        starts,
        durations,
        [event.tid for event in group],
        [event.args for event in group],
    )


def _is_possible(event: Event) -> bool:
    return 0.0 <= event.ts < LATEST_US and 0.0 <= event.dur < LATEST_US


def _numbered(places: list[int | str | None], numbers: Numbers[int | str | None]) -> array[int]:
    """The numbers of threads, streams or devices; mostly all of a group are the same."""
    if places and places.count(places[0]) == len(places):
        return array("i", [numbers[places[0]]]) * len(places)
    return array("i", [numbers[place] for place in places])


def _external_ids(group: _Columns) -> list[int]:
    ids = [args.external_id for args in group.args]
    return [args.old_external_id for args in group.args] if ids == [NONE] * len(ids) else ids


def _add_device_work(trace: Trace, kind: int, group: _Columns) -> None:
    columns = trace.device
    columns.start.fromlist(group.starts)
    columns.end.fromlist(list(map(add, group.starts, group.durations)))
    columns.name.fromlist(list(map(trace.names.__getitem__, group.names)))
    columns.kind.extend(array("b", [kind]) * len(group.names))
    columns.stream.extend(_numbered(group.threads, trace.threads))
    columns.correlation.fromlist([args.correlation for args in group.args])
    columns.external_id.fromlist(_external_ids(group))
    columns.device.extend(_numbered([args.device for args in group.args], trace.devices))


def _add_launches(trace: Trace, group: _Columns) -> None:
    columns = trace.launches
    columns.start.fromlist(group.starts)
    columns.thread.extend(_numbered(group.threads, trace.threads))
    columns.correlation.fromlist([args.correlation for args in group.args])
    columns.external_id.fromlist(_external_ids(group))
    kinds = {name: _started_by(name) for name in set(group.names)}
    columns.kind.fromlist(list(map(kinds.__getitem__, group.names)))
    if any(map(_keeps_waiting, kinds)):
        _add_host_calls(trace, group)


@lru_cache(maxsize=1024)
def _started_by(call: str) -> int:
    """The kind of work that a call of the runtime starts, by its name."""
    for kind, sign in ((KERNEL, "aunch"), (MEMCPY, "emcpy"), (MEMSET, "emset")):
        if sign in call:
            return kind
    return NONE


def _add_host_calls(trace: Trace, group: _Columns) -> None:
    kinds = map(_keeps_waiting, group.names)
    columns = trace.host_calls
    rows = zip(kinds, group.starts, group.durations, group.threads, strict=True)
    for kind, start, duration, thread in rows:
        if kind:
            columns.kind.append(kind)
            columns.start.append(start)
            columns.end.append(start + duration)
            columns.thread.append(trace.threads[thread])


@lru_cache(maxsize=1024)
def _keeps_waiting(call: str) -> int:
    """What a call makes its thread wait for, by its name; 0 for most."""
    return next((kind for kind, pattern in _KEEPS_WAITING if pattern.search(call)), 0)


def _add_operators(trace: Trace, group: _Columns) -> None:
    _add_host_work(trace, trace.operators, group)
    if _EMBEDDING in group.names:
        for name, start, args in zip(group.names, group.starts, group.args, strict=True):
            if name == _EMBEDDING:
                _add_embedding(trace, start, args.dims)


def _add_host_work(trace: Trace, columns: HostWork, group: _Columns) -> None:
    columns.start.fromlist(group.starts)
    columns.end.fromlist(list(map(add, group.starts, group.durations)))
    columns.name.fromlist(list(map(trace.names.__getitem__, group.names)))
    columns.thread.extend(_numbered(group.threads, trace.threads))
    numbers = [args.sequence for args in group.args]
    try:
        columns.sequence.fromlist(numbers)
    except OverflowError:
        # No number is written as -1, or as the 64 bits of it.
        known = [number if 0 <= number < _NO_SEQUENCE else NONE for number in numbers]
        columns.sequence.fromlist(known)


def _add_annotations(trace: Trace, group: list[Event]) -> None:
    for event in filter(_is_possible, group):
        step = event.args.step_num
        trace.annotations.append(
            Annotation(
                event.name,
                event.ts,
                event.ts + event.dur,
                trace.threads[event.tid],
                None if step is None else str(step),
            )
        )


def _add_memory(trace: Trace, group: list[Event]) -> None:
    """Device type 0 is the host."""
    allocated = [
        event.args.allocated
        for event in group
        if event.args.device_type > 0 and event.name == "[memory]"
    ]
    trace.memory_events += len(allocated)
    trace.peak_allocated = max([trace.peak_allocated, *allocated])


def _add_embedding(trace: Trace, time: float, dims: msgspec.Raw) -> None:
    """Of [[vocabulary, width], [batch, tokens], …]; other shapes say nothing."""
    try:
        shapes = _DIMS.decode(dims)
        (vocabulary, _), places = shapes[0], shapes[1]
        tokens = math.prod(places)
    except (msgspec.DecodeError, ValueError, TypeError, IndexError):
        return
    if places and isinstance(vocabulary, int) and isinstance(tokens, int) and tokens > 0:
        trace.embeddings.append(EmbeddingCall(time, vocabulary, tokens))
