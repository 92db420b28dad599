"""JAX: the `trace.json.gz` of `jax.profiler`, and what it has in common with the `.xplane.pb`.

Both list planes (a device, or the host) with lines (a stream, a thread) of timed events. A step is,
by what there is: an event of a device's line `Steps`; a host annotation with a `step_num`; a unit
of device work that repeats; a call of a compiled function. Calls come last because they return
before the work is even launched. On a CPU there is no device: times are those of the host.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import nan
from typing import Any

import msgspec

from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.damaged_json import CUT_SHORT, ProfilerJson, WrongTypeError
from ci_score.traces.engine.categories import category_of, memcpy_direction
from ci_score.traces.engine.device_steps import (
    MOST_OPS,
    UNKNOWN,
    Derived,
    DeviceEvents,
    Names,
    Phases,
    Steps,
    Way,
    derive,
    one_step,
    repeated_steps,
    slowest,
    sum_in_order,
    window_of,
)
from ci_score.traces.engine.host_ranges import outermost
from ci_score.traces.source import ProfileSource

Window = tuple[int, int]

# Trace events are written up to this number; what came after is missing without a word.
CAPPED_AT = 1_000_000
_NEARLY_CAPPED = 0.95
# Times beyond are no times: a year of picoseconds is less.
FARTHEST = 2**61
_NANOSECONDS_PER_US = 1000
_NANOSECONDS_PER_MS = 1e6

_STREAM = re.compile(r"Stream #(\d+)")
_CALL = re.compile(r"PjitFunction\(.+\)")
_TRANSFERS = {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "d2d": "Memcpy DtoD"}
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
        return _capture(source).profile()


# --- what both formats become -------------------------------------------------------------------


@dataclass(slots=True)
class HostOps:
    """What a CPU computed, in columns; a name is a place in `names`."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    names: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class JaxCapture:
    """The planes of a capture, sorted by what they tell of steps."""

    tool: str
    ticks_per_ms: float
    names: Names = field(default_factory=Names)
    devices: dict[str, DeviceEvents] = field(default_factory=lambda: defaultdict(DeviceEvents))
    step_lines: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    annotated: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[str, list[Window]] = field(default_factory=lambda: defaultdict(list))
    host_ops: HostOps = field(default_factory=HostOps)
    launched_at: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    impossible: int = 0
    events: int = 0
    is_cut: bool = False

    def add_device_event(
        self, device: str, line: str, name: str, window: Window, correlation: int | None
    ) -> None:
        """An event of a device's line: of a stream, of the ops, or of the steps."""
        self.events += 1
        if line == "Steps":
            self.step_lines[device].append(window)
            return
        stream = _STREAM.match(line)
        if stream is None and line != "XLA Ops":
            return
        number = int(stream[1][:9]) if stream else 0
        launch = UNKNOWN if correlation is None else correlation
        place = self.names.place(event_name(name))
        self.devices[device].add(*window, place, number, launch, UNKNOWN)

    def add_host_event(
        self, name: str, window: Window, correlation: int | None, is_step: bool, is_op: bool
    ) -> None:
        """An event of a thread of the host."""
        self.events += 1
        if correlation is not None:
            self.launched_at.setdefault(correlation, window[0])
        if is_step:
            self.annotated[name].append(window)
        elif _CALL.fullmatch(name):
            self.calls[name].append(window)
        elif is_op:
            self.host_ops.starts.append(window[0])
            self.host_ops.times.append(window[1] - window[0])
            self.host_ops.names.append(self.names.place(name))

    def profile(self, **known: Any) -> Profile:
        """The profile, with what else the format knows.

        What was read of a file that is cut short is shown, and not used: events do not come in the
        order of time, so the cut may have taken a part of any step.
        """
        profile = self._profile(known)
        if not self.is_cut:
            return profile
        return profile.model_copy(update={"unusable": CUT_SHORT})

    def _profile(self, known: dict[str, Any]) -> Profile:
        if self.impossible:
            self.notes.append(f"{self.impossible} events with a negative or impossible time")
        for events in self.devices.values():
            events.launched_at = array(
                "q", (self.launched_at.get(launch, UNKNOWN) for launch in events.launches)
            )
        busy = {
            device: events
            for device, events in sorted(self.devices.items())
            if events.has_kernels(self.names)
        }
        if busy:
            return self._of_devices(busy, known)
        return self._of_host(known) if self.events else self._of_nothing("no events")

    def _of_nothing(self, reason: str) -> Profile:
        return Profile(tool=self.tool, notes=tuple(self.notes), unusable=reason)

    def _of_devices(self, devices: dict[str, DeviceEvents], known: dict[str, Any]) -> Profile:
        derived = [self._derive(device, events) for device, events in devices.items()]
        chosen, spread = slowest(derived)
        fields = dict(chosen.fields)
        sources = {**fields.pop("sources"), **known.pop("sources", {})}
        sources["accelerator_count"] = "devices on which kernels ran"
        self.notes.append("the trace does not tell the peak memory")
        return Profile(
            **fields,
            **known,
            accelerator_count=len(devices),
            tool=self.tool,
            sources=sources,
            notes=(*self.notes, *spread, *chosen.notes),
        )

    def _derive(self, device: str, events: DeviceEvents) -> Derived:
        ways: list[Way] = []
        if self.step_lines.get(device):
            steps = Steps(outermost(self.step_lines[device]), "the device's line 'Steps'")
            ways.append(lambda _: (steps, Phases()))
        if (marked := self._annotated_steps()) is not None:
            ways.append(lambda events: (_by_launch(marked, events), Phases()))
        ways.append(lambda events: (repeated_steps(events), Phases()))
        if (called := self._calls()) is not None:
            ways.append(lambda events: (_by_launch(called, events), Phases()))
        ways.append(lambda events: (one_step(events), Phases()))
        return derive(device, events, self.names, ways, self.ticks_per_ms)

    def _annotated_steps(self) -> Steps | None:
        return _longest(self.annotated, "annotations '{}' with a step_num", least=1)

    def _calls(self) -> Steps | None:
        return _longest(self.calls, "calls of {}", least=2)

    # --- without a device ---

    def _of_host(self, known: dict[str, Any]) -> Profile:
        steps = self._annotated_steps() or self._calls()
        if steps is None:
            return self._of_nothing("the trace has neither device work nor a step on the host")
        starts = [begin for begin, _ in steps.windows]
        periods = tuple((after - begin) / self.ticks_per_ms for begin, after in pairwise(starts))
        if periods:
            average = sum_in_order(periods) / len(periods)
            source = f"host period of {len(starts)} steps ({steps.evidence})"
        else:
            average = (steps.windows[0][1] - starts[0]) / self.ticks_per_ms
            source = f"host time of one step ({steps.evidence})"
        sources = {"avg_step_ms": source, "steps": steps.evidence, **known.pop("sources", {})}
        ops = self._host_ops(steps)
        if ops:
            sources["ops"] = "XLA's operations on the host's threads, by step of their start"
        self.notes.append("no device: times are those of the host, where threads run side by side")
        return Profile(
            **known,
            steps=len(starts),
            avg_step_ms=average,
            step_times_ms=periods,
            ops=ops,
            tool=self.tool,
            sources=sources,
            notes=tuple(self.notes),
        )

    def _host_ops(self, steps: Steps) -> dict[str, float]:
        totals: Counter[int] = Counter()
        columns = self.host_ops
        placed = window_of(columns.starts, steps.windows)
        for name, time, step in zip(columns.names, columns.times, placed, strict=True):
            if step >= 0:
                totals[name] += time
        per_step = 1 / (self.ticks_per_ms * len(steps.windows))
        return {
            self.names.texts[name]: time * per_step for name, time in totals.most_common(MOST_OPS)
        }


def event_name(name: str) -> str:
    """A kernel's name as its vendor's compiler made it; a copy's by its direction."""
    name = name.removesuffix(".kd")
    if category_of(name) == "memcpy" and (direction := memcpy_direction(name)):
        return _TRANSFERS[direction]
    return name


def _longest(named: dict[str, list[Window]], evidence: str, least: int) -> Steps | None:
    """The windows of the name that takes most time, of those that come often enough."""
    best: tuple[int, str, list[Window]] | None = None
    for name in sorted(named):
        windows = outermost(named[name])
        if len(windows) >= least:
            time = sum(end - begin for begin, end in windows)
            best = max(best or (-1, "", []), (time, name, windows), key=lambda item: item[0])
    if best is None:
        return None
    return Steps(best[2], evidence.format(best[1][:80]), host_times=True)


def _by_launch(steps: Steps, events: DeviceEvents) -> Steps:
    launched = any(time != UNKNOWN for time in events.launched_at)
    return Steps(steps.windows, steps.evidence, by_launch=launched, host_times=True)


# --- the JSON -----------------------------------------------------------------------------------


# No list and no object: those would be kept whole, however large.
_Plain = int | float | str | bool | None


class _Args(msgspec.Struct, gc=False):
    name: _Plain = None
    step_num: _Plain = None
    correlation_id: _Plain = None
    hlo_op: _Plain = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = nan
    dur: float = nan
    name: str = ""
    args: _Args | None = None


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents", default_factory=list)


class _RawTrace(msgspec.Struct):
    events: list[msgspec.Raw] = msgspec.field(name="traceEvents", default_factory=list)


_LAX_EVENT = msgspec.json.Decoder(_Event, strict=False)

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


def _capture(source: ProfileSource) -> JaxCapture:
    file = ProfilerJson(source, "a whole trace.json of JAX")
    capture = JaxCapture("JAX profiler (trace.json)", _NANOSECONDS_PER_MS)
    events = _decoded(file, capture)
    capture.is_cut = file.is_cut
    capture.notes += file.notes
    if len(events) >= _NEARLY_CAPPED * CAPPED_AT:
        capture.notes.append(
            f"{len(events)} events: JAX writes a million at most, and leaves out what comes after;"
            " the .xplane.pb beside it has all"
        )
    lines = _Lines.of(events)
    for event in events:
        if event.ph == "X":
            _add(capture, event, lines)
    return capture


def _decoded(file: ProfilerJson, capture: JaxCapture) -> Sequence[_Event]:
    """The events; where some have something else where a number belongs, without those."""
    try:
        if file.is_list:
            return file.decode(list[_Event], strict=False)
        return file.decode(_Trace, strict=False).events
    except WrongTypeError:
        pass
    raw = file.decode(list[msgspec.Raw]) if file.is_list else file.decode(_RawTrace).events
    events = []
    for text in raw:
        try:
            events.append(_LAX_EVENT.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    if len(events) < len(raw):
        capture.notes.append(f"dropped {len(raw) - len(events)} events that are none")
    return events


def _add(capture: JaxCapture, event: _Event, lines: _Lines) -> None:
    if not (0 <= event.dur < FARTHEST / _NANOSECONDS_PER_US and abs(event.ts) < FARTHEST / 2000):
        capture.impossible += 1
        return
    begin = round(event.ts * _NANOSECONDS_PER_US)
    window = (begin, begin + round(event.dur * _NANOSECONDS_PER_US))
    args = event.args
    correlation = _whole(args.correlation_id) if args is not None else None
    plane = lines.planes.get(event.pid, "")
    if plane.startswith("/device:"):
        line = lines.lines.get((event.pid, event.tid), "")
        capture.add_device_event(plane, line, event.name, window, correlation)
        return
    is_step = args is not None and args.step_num is not None
    is_op = args is not None and args.hlo_op is not None
    capture.add_host_event(event.name, window, correlation, is_step, is_op)


def _whole(value: Any) -> int | None:
    """A number that JAX writes as text; None where it is none."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else None
