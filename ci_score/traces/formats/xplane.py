"""JAX and TensorFlow: the `.xplane.pb` of their profilers, a protobuf message XSpace.

The few fields that matter are read from the wire by hand: a message is a row of (field, value), a
value is a number or a slice of the file. Every length is checked against what is left; nothing is
copied and nothing recursive is followed, so a hostile file costs what it weighs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.engine.capture import Capture, Facts
from ci_score.traces.engine.names import bounded_name
from ci_score.traces.engine.profile import profile_of
from ci_score.traces.engine.sources import Source, source_of
from ci_score.traces.formats.jax_trace import FARTHEST, JaxPlanes, shared_name
from ci_score.traces.source import ProfileSource

_PICOSECONDS_PER_MS = 1_000_000_000
_PICOSECONDS_PER_NS = 1000

# Numbers of fields, from xplane.proto.
_SPACE_PLANES = 1
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN_STATS = 2, 3, 4, 5, 6
_LINE_NAME, _LINE_BEGIN_NS, _LINE_EVENTS, _LINE_SHOWN_NAME = 2, 3, 4, 11
_EVENT_METADATA, _EVENT_OFFSET_PS, _EVENT_TIME_PS, _EVENT_STATS = 1, 2, 3, 4
_STAT_METADATA, _STAT_UINT64, _STAT_INT64, _STAT_TEXT, _STAT_NAME = 1, 3, 4, 5, 7
_MAP_KEY, _MAP_VALUE, _METADATA_NAME, _METADATA_STATS = 1, 2, 2, 5

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_LONGEST_TEXT = 100_000
_MOST_STATS = 64
# The stat that names a line of the program.
_SOURCE = "source"
# XSpace begins with a plane, which has an id or none, and then its name.
_BEGIN = re.compile(rb"\n[\x00-\xff]{1,10}?(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12[\x01-\x7f]")
_PLANE_NAMES = (b"/device:", b"/host:", b"Task Environment", b"#Chip")

MOST_EVENTS = 10_000_000
# Planes, their lines and the entries of their tables: two bytes can ask for an object of a hundred.
MOST_ENTRIES = 1_000_000

Value = int | memoryview


class _BrokenError(Exception):
    """The bytes are no message; what is wrong with them."""


class _EndsEarlyError(_BrokenError):
    """The bytes end within a message that began."""


def recognises(head: bytes) -> bool:
    """Whether a file that begins like this is an XSpace: its first plane is one that we know."""
    begin = _BEGIN.match(head)
    return begin is not None and head.startswith(_PLANE_NAMES, begin.end())


def read(source: ProfileSource) -> Profile:
    """The profile of an `.xplane.pb`, plain or gzipped."""
    data, is_cut = source.whole_or_cut()
    try:
        with overflow_is_bad_input(source.name):
            return profile_of(_capture(memoryview(data), is_cut, source.step_name))
    except _BrokenError as error:
        raise BadInputError(
            source.name,
            found=f"a protobuf that is cut short or damaged ({error})",
            expected="a whole .xplane.pb",
        ) from None


# --- the wire -----------------------------------------------------------------------------------


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message as they come, numbers of fixed width left out."""
    place, end = 0, len(message)
    while place < end:
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = _varint(message, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise _BrokenError(f"wire type {kind}")
        if size > end - place:
            raise _EndsEarlyError("a length beyond the end")
        if kind == _BYTES:
            yield number, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    for at in range(place, min(place + _LONGEST_VARINT, len(message))):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    if place + _LONGEST_VARINT > len(message):
        raise _EndsEarlyError("a number beyond the end")
    raise _BrokenError("a number without end")


def _message(value: Value) -> memoryview:
    if isinstance(value, int):
        raise _BrokenError("a number where a message belongs")
    return value


def _number(value: Value) -> int:
    """A number; negative ones are written as their complement of 64 bits."""
    if not isinstance(value, int):
        raise _BrokenError("a message where a number belongs")
    return value - 2**64 if value >= 2**63 else value


def _text(value: Value) -> str:
    return bounded_name(bytes(_message(value)[:_LONGEST_TEXT]).decode("utf-8", "replace"))


# --- planes -------------------------------------------------------------------------------------


@dataclass
class _Plane:
    """A plane's lines, still packed, and its tables of names."""

    name: str = ""
    lines: list[memoryview] = field(default_factory=list)
    events: dict[int, str] = field(default_factory=dict)
    stats: dict[int, str] = field(default_factory=dict)
    own_stats: list[memoryview] = field(default_factory=list)
    # What is said once of all events of a name.
    of_events: dict[int, list[memoryview]] = field(default_factory=dict)
    _sources: dict[int, Source | None] = field(default_factory=dict)

    @property
    def is_device(self) -> bool:
        return self.name.startswith("/device:")

    @cached_property
    def tells_sources(self) -> bool:
        """Whether there may be lines at all: most files have none, and many events."""
        return _SOURCE in self.stats.values()

    def own_stat(self, name: str) -> Value | None:
        """What the plane says of itself."""
        for stat in self.own_stats:
            known, value = self.stat(stat)
            if known == name:
                return value
        return None

    def source(self, event: int, own: Sequence[memoryview]) -> Source | None:
        """The line of the program that an event comes from: told by itself, or by all of a name."""
        found = self._source_in(own) if own else None
        if found is None and event not in self._sources:
            self._sources[event] = self._source_in(self.of_events.get(event, ()))
        return found or self._sources[event]

    def _source_in(self, stats: Iterable[memoryview]) -> Source | None:
        told = {name: self._words(value) for name, value in map(self.stat, stats)}
        return source_of(told.get(_SOURCE), told.get("tf_op"))

    def _words(self, value: Value | None) -> str:
        """A stat's text, which may be the name of another stat."""
        if value is None:
            return ""
        return self.stats.get(value, "") if isinstance(value, int) else _text(value)

    def stat(self, message: memoryview) -> tuple[str, Value | None]:
        """A stat's name, and its value where that is a whole number, text or the name of a stat."""
        name: str = ""
        value: Value | None = None
        for number, item in fields(message):
            if number == _STAT_METADATA:
                name = self.stats.get(_number(item), "")
            elif number in (_STAT_UINT64, _STAT_INT64, _STAT_TEXT, _STAT_NAME):
                value = item
        return name, value


@dataclass(slots=True)
class _Space:
    """The planes that are whole, and whether the file ends within another."""

    planes: list[_Plane] = field(default_factory=list)
    is_cut: bool = False
    entries: int = 0

    @classmethod
    def of(cls, message: memoryview) -> _Space:
        """What there is of a space; of a plane that ends early not even the names are there."""
        space = cls()
        try:
            for number, value in fields(message):
                space.count()
                if number == _SPACE_PLANES:
                    space.planes.append(_plane(_message(value), space))
        except _EndsEarlyError:
            # Of a length that is wrong within a plane it is not known where the next would begin.
            if not space.planes:
                raise
            space.is_cut = True
        return space

    def count(self) -> None:
        """One more object that is kept."""
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            raise _BrokenError(f"more than {MOST_ENTRIES} entries")


def _plane(message: memoryview, space: _Space) -> _Plane:
    plane = _Plane()
    for number, value in fields(message):
        space.count()
        if number == _PLANE_NAME:
            plane.name = _text(value)
        elif number == _PLANE_LINES:
            plane.lines.append(_message(value))
        elif number == _PLANE_EVENTS:
            _add_entry(plane.events, _message(value), plane.of_events)
        elif number == _PLANE_STATS:
            _add_entry(plane.stats, _message(value), {})
        elif number == _PLANE_OWN_STATS:
            plane.own_stats.append(_message(value))
    return plane


def _add_entry(
    table: dict[int, str], entry: memoryview, stats: dict[int, list[memoryview]]
) -> None:
    """An entry of a map from an id to what has a name, and stats."""
    key, name = 0, ""
    its_stats: list[memoryview] = []
    for number, value in fields(entry):
        if number == _MAP_KEY:
            key = _number(value)
        elif number == _MAP_VALUE:
            for place, item in fields(_message(value)):
                if place == _METADATA_NAME:
                    name = _text(item)
                elif place == _METADATA_STATS and len(its_stats) < _MOST_STATS:
                    its_stats.append(_message(item))
    table[key] = name
    if its_stats:
        stats[key] = its_stats


@dataclass(slots=True)
class _Line:
    """What a line says of itself; its events stay packed until they are looked at."""

    message: memoryview
    name: str = ""
    begin_ns: int = 0
    count: int = 0

    def events(self) -> Iterator[memoryview]:
        """One event after the other."""
        for number, value in fields(self.message):
            if number == _LINE_EVENTS:
                yield _message(value)


def _line(message: memoryview) -> _Line:
    line = _Line(message)
    for number, value in fields(message):
        if number == _LINE_NAME or (number == _LINE_SHOWN_NAME and not line.name):
            line.name = _text(value)
        elif number == _LINE_BEGIN_NS:
            line.begin_ns = _number(value)
        elif number == _LINE_EVENTS:
            line.count += 1
    return line


# --- the profile --------------------------------------------------------------------------------


def _capture(message: memoryview, is_cut: bool, step_name: re.Pattern[str] | None) -> Capture:
    space = _Space.of(message)
    planes = [(plane, list(map(_line, plane.lines))) for plane in space.planes]
    lines = [line for _, lines in planes for line in lines if line.count]
    if sum(line.count for line in lines) > MOST_EVENTS:
        raise _BrokenError(f"more than {MOST_EVENTS} events")
    base = min((line.begin_ns for line in lines), default=0)
    read = JaxPlanes("JAX profiler (xplane)", _PICOSECONDS_PER_MS, step_name=step_name)
    read.is_cut = is_cut or space.is_cut
    worked = [plane for plane, its_lines in planes if any(line.count for line in its_lines)]
    read.shared_name = shared_name(plane.name for plane in worked if plane.is_device)
    for plane, its_lines in planes:
        for line in its_lines:
            for event in line.events():
                _add_event(read, plane, line, event, base)
    device = next((plane for plane, _ in planes if plane.is_device), None)
    if device is not None:
        read.hardware = partial(_hardware, device)
    return read.capture()


def _add_event(read: JaxPlanes, plane: _Plane, line: _Line, message: memoryview, base: int) -> None:
    metadata = offset = time = 0
    correlation: int | None = None
    step: str | None = None
    is_op = False
    stats: list[memoryview] = []
    for number, value in fields(message):
        if number == _EVENT_METADATA:
            metadata = _number(value)
        elif number == _EVENT_OFFSET_PS:
            offset = _number(value)
        elif number == _EVENT_TIME_PS:
            time = _number(value)
        elif number == _EVENT_STATS:
            told = _message(value)
            name, stat = plane.stat(told)
            if len(stats) < _MOST_STATS:
                stats.append(told)
            if name == "correlation_id" and isinstance(stat, int):
                correlation = stat
            if name == "step_num":
                step = str(stat) if isinstance(stat, int) else ""
            is_op = is_op or name == "hlo_op"
    begin = (line.begin_ns - base) * _PICOSECONDS_PER_NS + offset
    if not (0 <= time < FARTHEST and 0 <= begin < FARTHEST and (correlation or 0) < FARTHEST):
        read.impossible += 1
        return
    name = plane.events.get(metadata, "")
    if plane.is_device:
        source = plane.source(metadata, stats) if plane.tells_sources else None
        window = begin, begin + time
        read.add_device_event(plane.name, line.name, name, window, correlation, source)
    else:
        thread = plane.name, line.name
        read.add_host_event(thread, name, (begin, begin + time), correlation, step, is_op)


def _hardware(plane: _Plane) -> Facts:
    """What a device's plane says of it: no name, and of NVIDIA's the peak bandwidth."""
    nameless = "the trace does not name the accelerator"
    bandwidth, vendor = plane.own_stat("memory_bandwidth"), plane.own_stat("device_vendor")
    if not isinstance(bandwidth, int) or bandwidth <= 0:
        return Facts(notes=(nameless,))
    maker = "" if vendor is None or isinstance(vendor, int) else _text(vendor)
    if maker != "Nvidia":
        # Clock times width, which is a half of what HBM moves: an MI300X says 2662 of 5300 GB/s.
        left_out = (
            f"the trace's memory bandwidth ({bandwidth / 1e9:g} GB/s) is not the peak of this kind"
            " of device; left out"
        )
        return Facts(notes=(nameless, left_out))
    return Facts(
        {"peak_bandwidth_gb_s": bandwidth / 1e9},
        {"peak_bandwidth_gb_s": f"memory_bandwidth of {plane.name}"},
        (nameless,),
    )
