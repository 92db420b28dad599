"""JAX: the `trace.json.gz` of `jax.profiler`, and what it has in common with the `.xplane.pb`.

Both list planes (a device, or the host) with lines (a stream, a thread) of timed events. On a CPU
there is no device: times are those of the host.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import msgspec

from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.damaged_json import CUT_SHORT, ProfilerJson
from ci_score.traces.engine.capture import Capture, Facts, Lane
from ci_score.traces.engine.categories import category_of, memcpy_direction
from ci_score.traces.engine.device_events import NONE, TRANSFER_NAMES, UNKNOWN, DeviceEvents
from ci_score.traces.engine.host import Host
from ci_score.traces.engine.host_ranges import LONGEST_NAME, HostRanges
from ci_score.traces.engine.launch_calls import MOST_CALLS, Call, LaunchCalls, is_of_interest
from ci_score.traces.engine.profile import profile_of
from ci_score.traces.engine.sources import Source, source_of
from ci_score.traces.engine.steps import PROGRAMS_LINE, STEPS_LINE, Window
from ci_score.traces.source import ProfileSource

# Trace events are written up to this number; what came after is missing without a word.
CAPPED_AT = 1_000_000
_NEARLY_CAPPED = 0.95
# Times beyond are no times: a year of picoseconds is less.
FARTHEST = 2**61
_NANOSECONDS_PER_US = 1000
_NANOSECONDS_PER_MS = 1_000_000

_STREAM = re.compile(r"Stream #(\d+)")
_CALL = re.compile(r"PjitFunction\(.+\)")
# A device's line whose events are named like `train.py:12`.
_SOURCE_LINE = "Source code"
# Of an op on a TPU some files have the whole instruction: its operands name other ops.
_INSTRUCTION = re.compile(r"%([^\s=]+) = ")
# What holds others for this share of its time is control flow, as a loop: the work is in those.
_CONTROL_FLOW = 0.5
_MARKS = (b'"/host:CPU"', b'"/device:', b'"XLA Ops"', b'"XLA Modules"', b'"highres-ticks"')


def recognises(head: bytes) -> bool:
    """Whether a file that begins like this is a trace of JAX."""
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not (begin.startswith(b"[") or (begin.startswith(b"{") and b'"traceEvents"' in begin)):
        return False
    return b'"ph"' in begin and any(mark in begin for mark in _MARKS)


def read(source: ProfileSource) -> Profile:
    """The profile of a `trace.json`, plain or gzipped."""
    with overflow_is_bad_input(source.name):
        return profile_of(_planes(source).capture())


# --- what both formats become -------------------------------------------------------------------


@dataclass(slots=True)
class _Device:
    """A device's events on its streams, those on its line of ops, and its other lines."""

    streams: DeviceEvents = field(default_factory=DeviceEvents)
    ops: DeviceEvents = field(default_factory=DeviceEvents)
    lines: dict[str, dict[str, list[Window]]] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    # What the device's own line of source code says: from when until when, and which line.
    source_code: list[tuple[int, int, int]] = field(default_factory=list)

    def events(self) -> DeviceEvents:
        """What ran: a line of ops beside streams says the same again."""
        return self.streams if len(self.streams) else _without_control_flow(self.ops)


@dataclass(slots=True)
class JaxPlanes:
    """The planes of a trace, on the way to a Capture."""

    tool: str
    ticks_per_ms: int
    devices: dict[str, _Device] = field(default_factory=lambda: defaultdict(_Device))
    # What the user calls a step: other names of the host are not kept.
    step_name: re.Pattern[str] | None = None
    annotated: list[tuple[object, str, Window, str | None]] = field(default_factory=list)
    calls: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    host: Host = field(default_factory=Host)
    launched_at: dict[int, int] = field(default_factory=dict)
    launch_calls: LaunchCalls = field(default_factory=LaunchCalls)
    called: list[Call] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    impossible: int = 0
    events: int = 0
    is_cut: bool = False
    # The name of a device that several planes have.
    shared_name: str | None = None
    hardware: Callable[[], Facts] = Facts
    _numbers: dict[str, int] = field(default_factory=dict)
    _sources: dict[Source, int] = field(default_factory=dict)

    def add_device_event(
        self,
        device: str,
        line: str,
        name: str,
        window: Window,
        correlation: int | None,
        source: Source | None = None,
    ) -> None:
        """An event of a device's line: of a stream, of the ops, of the steps or the programs."""
        self.events += 1
        to = self.devices[device]
        if line in (STEPS_LINE, PROGRAMS_LINE):
            called = "" if line == STEPS_LINE else name
            to.lines.setdefault(line, {}).setdefault(called, []).append(window)
            return
        if line == _SOURCE_LINE:
            told = source_of(name, "")
            if told is not None:
                to.source_code.append((*window, self._source_number(told)))
            return
        stream = _STREAM.match(line)
        if stream is None and line != "XLA Ops":
            to.unread[line] += 1
            return
        number = int(stream[1][:9]) if stream else 0
        launch = UNKNOWN if correlation is None else correlation
        place = self._number(event_name(name))
        events = to.streams if stream else to.ops
        events.add(*window, place, number, launch, UNKNOWN)
        events.sources.append(NONE if source is None else self._source_number(source))

    def _source_number(self, source: Source) -> int:
        return self._sources.setdefault(source, len(self._sources))

    def add_host_event(
        self,
        thread: object,
        name: str,
        window: Window,
        correlation: int | None,
        step: str | None,
        is_op: bool,
    ) -> None:
        """An event of a thread of the host."""
        self.events += 1
        if correlation is not None:
            if is_of_interest(name):
                self._add_call(Call(*window, correlation, name))
            self.launched_at.setdefault(correlation, window[0])
        if step is not None or (not is_op and self._is_asked_for(name)):
            self.annotated.append((thread, name, window, step))
        elif _CALL.fullmatch(name):
            self.calls[name].append(window)
        elif is_op:
            operators = self.host.operators
            operators.starts.append(window[0])
            operators.ends.append(window[1])
            operators.names.append(self._number(name))
            operators.threads.append(self._number(f"thread {thread}"))
            operators.sequences.append(-1)
            operators.types.append(0)

    def _is_asked_for(self, name: str) -> bool:
        wanted = self.step_name
        return wanted is not None and wanted.search(name[:LONGEST_NAME]) is not None

    def _add_call(self, call: Call) -> None:
        # Calls that fill a graph have names of launches, and those that begin it are not traced.
        self.launch_calls.captured_graphs |= "GraphLaunch" in call.name
        self.launch_calls.calls += 1
        self.launch_calls.repeated += call.number in self.launched_at
        if len(self.called) < MOST_CALLS:
            self.called.append(call)

    def _number(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number

    def capture(self) -> Capture:
        """The capture. What was read of a file that is cut short is shown, and not used.

        Events do not come in the order of time, so the cut may have taken a part of any step.
        """
        if self.impossible:
            self.notes.append(f"{self.impossible} events with a negative or impossible time")
        capture = Capture(
            self.tool,
            self.ticks_per_ms,
            ranges=HostRanges(self.step_name),
            calls=self.calls,
            launch_calls=self.launch_calls,
            sources=tuple(self._sources),
            facts=lambda lanes, _: self._facts(lanes),
            notes=self.notes,
            events=self.events,
        )
        if self.is_cut:
            capture.doubt(CUT_SHORT, (), "whole file")
        capture.doubt(self._of_several_captures(), (), "own file")
        for thread, name, window, step in self.annotated:
            capture.ranges.add(0, thread, name, *window, step)
        for name, device in sorted(self.devices.items()):
            lane = self._lane(name, device, capture)
            capture.lanes.append(lane)
            if not len(lane.events):
                capture.unread.update({f"{name} {line}": n for line, n in device.unread.items()})
        self.launch_calls.add(self.called, [lane.events for lane in capture.lanes])
        if not capture.busy_lanes():
            self.host.names = self.names
            capture.hosts[0] = self.host
            if not (capture.unread or self.annotated or self.calls):
                capture.needs_device = "the trace has neither device work nor a step on the host"
        return capture

    def _of_several_captures(self) -> str | None:
        if self.shared_name is None:
            return None
        return (
            f"several devices are called {self.shared_name[:80]}: the file holds several captures,"
            " or those of several hosts; give each one's own file"
        )

    def _lane(self, name: str, device: _Device, capture: Capture) -> Lane:
        events = device.events()
        places = [capture.names.place(text) for text in self.names] if len(events) else []
        events.names = array("q", map(places.__getitem__, events.names))
        _add_sources(events, device.source_code)
        launched = (self.launched_at.get(launch, UNKNOWN) for launch in events.launches)
        events.launched_at = array("q", launched)
        # A loop on the line of ops holds those of its body.
        is_ops = events is device.ops
        return Lane(name, 0, events, name, device.lines, nests=is_ops)

    def _facts(self, lanes: Sequence[Lane]) -> Facts:
        hardware = self.hardware()
        if not lanes:
            return hardware
        fields = {**hardware.fields, "accelerator_count": len(lanes)}
        sources = {**hardware.sources, "accelerator_count": "devices on which kernels ran"}
        notes = (*hardware.notes, "the trace does not tell the peak memory")
        return Facts(fields, sources, notes)


def _add_sources(events: DeviceEvents, told: Iterable[tuple[int, int, int]]) -> None:
    """Of events that do not tell their line, what the device's line of source code says then."""
    spans = sorted(told)
    begins = [begin for begin, _, _ in spans]
    for place, known in enumerate(events.sources) if spans else ():
        at = bisect_right(begins, events.starts[place]) - 1
        if known == NONE and at >= 0 and events.starts[place] < spans[at][1]:
            events.sources[place] = spans[at][2]


def shared_name(devices: Iterable[str]) -> str | None:
    """The name that several devices have, if one has."""
    return next((name for name, count in Counter(devices).items() if count > 1), None)


def _without_control_flow(ops: DeviceEvents) -> DeviceEvents:
    """A line's ops without those that only hold others: both would count the same time."""
    starts, ends = ops.starts, ops.ends
    held = array("q", [0]) * len(ops)
    around: list[int] = []
    for place in sorted(range(len(ops)), key=lambda place: (starts[place], -ends[place])):
        while around and ends[around[-1]] <= starts[place]:
            around.pop()
        if (
            around
            and ends[place] <= ends[around[-1]]
            and _span(ops, place) != _span(ops, around[-1])
        ):
            held[around[-1]] += ends[place] - starts[place]
        around.append(place)
    return ops.only(
        not time or time < _CONTROL_FLOW * (end - start)
        for time, start, end in zip(held, starts, ends, strict=True)
    )


def _span(ops: DeviceEvents, place: int) -> Window:
    return ops.starts[place], ops.ends[place]


def event_name(name: str) -> str:
    """A kernel's name as its vendor's compiler made it; a copy's by its direction."""
    instruction = _INSTRUCTION.match(name)
    name = instruction[1] if instruction else name.removesuffix(".kd")
    if category_of(name) == "memcpy" and (direction := memcpy_direction(name)):
        return TRANSFER_NAMES[direction]
    return name


# --- the JSON -----------------------------------------------------------------------------------


# No list and no object: those would be kept whole, however large.
_Plain = int | float | str | bool | None


class _Args(msgspec.Struct, gc=False):
    name: _Plain = None
    step_num: _Plain = None
    correlation_id: _Plain = None
    hlo_op: _Plain = None
    source: _Plain = None
    tf_op: _Plain = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = nan
    dur: float = nan
    name: str = ""
    args: _Args | None = None


Thread = tuple[int | str, int | str]


@dataclass(frozen=True, slots=True)
class _Lines:
    """What the planes and lines are called."""

    planes: dict[int | str, str]
    lines: dict[Thread, str]

    @classmethod
    def of(cls, events: Iterable[_Event]) -> _Lines:
        planes: dict[int | str, str] = {}
        lines: dict[Thread, str] = {}
        for event in events:
            if event.ph == "M" and event.args is not None:
                if event.name == "process_name":
                    planes[event.pid] = str(event.args.name)
                elif event.name == "thread_name":
                    lines[event.pid, event.tid] = str(event.args.name)
        return cls(planes, lines)


def _planes(source: ProfileSource) -> JaxPlanes:
    file = ProfilerJson(source, "a whole trace.json of JAX")
    planes = JaxPlanes("JAX profiler (trace.json)", _NANOSECONDS_PER_MS, step_name=source.step_name)
    events = file.events(_Event, strict=False)
    planes.is_cut = file.is_cut
    planes.notes += file.notes
    if len(events) >= _NEARLY_CAPPED * CAPPED_AT:
        planes.notes.append(
            f"{len(events)} events: JAX writes a million at most, and leaves out what comes after;"
            " the .xplane.pb beside it has all"
        )
    lines = _Lines.of(events)
    worked = {event.pid for event in events if event.ph == "X"}
    names = (name for pid, name in lines.planes.items() if pid in worked)
    planes.shared_name = shared_name(name for name in names if name.startswith("/device:"))
    for event in events:
        if event.ph == "X":
            _add(planes, event, lines)
    return planes


def _add(planes: JaxPlanes, event: _Event, lines: _Lines) -> None:
    if not (0 <= event.dur < FARTHEST / _NANOSECONDS_PER_US and abs(event.ts) < FARTHEST / 2000):
        planes.impossible += 1
        return
    begin = round(event.ts * _NANOSECONDS_PER_US)
    window = (begin, begin + round(event.dur * _NANOSECONDS_PER_US))
    args = event.args
    correlation = _whole(args.correlation_id) if args is not None else None
    plane = lines.planes.get(event.pid, "")
    if plane.startswith("/device:"):
        line = lines.lines.get((event.pid, event.tid), "")
        source = source_of(args.source, args.tf_op) if args is not None else None
        planes.add_device_event(plane, line, event.name, window, correlation, source)
        return
    thread = event.pid, event.tid
    step = None if args is None or args.step_num is None else str(args.step_num)
    is_op = args is not None and args.hlo_op is not None
    planes.add_host_event(thread, event.name, window, correlation, step, is_op)


def _whole(value: Any) -> int | None:
    """A number that JAX writes as text; None where it is none."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else None
