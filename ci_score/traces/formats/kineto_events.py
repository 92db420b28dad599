"""What is kept of the events of a Kineto trace: numbers, in columns."""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import compress, islice
from operator import add
from typing import Any, NamedTuple, TypeVar

import msgspec

from ci_score.traces.formats.kineto_text import NONE, Args, Event

# Three hundred years after the epoch.
LATEST_US = 1e16
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
# It launches a function of the host.
_NO_DEVICE_WORK = "LaunchHostFunc"
_RUNTIME = ("cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime", "hip_runtime", "xpu_runtime")
# Old ones have no kind.
_INSTANTS = ("cpu_instant_event", "")
_MODULE = "nn.Module: "
_EMBEDDING = "aten::embedding"
# Up to 2021 annotations were written as operators: these names tell them apart.
OLD_ANNOTATION = re.compile(r"ProfilerStep|Optimizer\.|enumerate\(DataLoader\)|## ")


_DIMS = msgspec.json.Decoder(list[Any])

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


# Of each batch so many calls that start kernels are asked how long they take.
_CALLS_TIMED = 16
# So many processes are enough to refuse a file.
_MOST_PROCESSES = 16


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
    # The processes that called the runtime, and those that ran operators.
    callers: set[int | str | None] = field(default_factory=set)
    operating: set[int | str | None] = field(default_factory=set)
    launch_times: array[float] = field(default_factory=lambda: array("d"))
    captured_graphs: bool = False
    peak_allocated: int = NONE
    memory_events: int = 0
    events: int = 0
    impossible: int = 0
    mended: int = 0
    dropped: int = 0
    is_cut: bool = False


# --- events into columns ------------------------------------------------------------------------


def add_events(trace: Trace, events: list[Event]) -> None:
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
        _add_processes(trace.callers, group)
        _add_launches(trace, _columns(trace, group))
    elif kind == "cpu_op":
        _add_processes(trace.operating, group)
        _add_operators(trace, _columns(trace, group))
    elif kind == "Operator":
        _add_processes(trace.operating, group)
        _add_operators(trace, _columns(trace, group))
        named = [event for event in group if OLD_ANNOTATION.match(event.name)]
        _add_annotations(trace, named)
    elif kind == "user_annotation":
        _add_annotations(trace, group)
    elif kind in _INSTANTS:
        _add_memory(trace, group)


def _add_processes(processes: set[int | str | None], group: list[Event]) -> None:
    if len(processes) < _MOST_PROCESSES:
        processes.update([event.pid for event in group])


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
    started = list(map(kinds.__getitem__, group.names))
    columns.kind.fromlist(started)
    # A graph starts many kernels, and takes its time for it.
    of_one = {name for name in kinds if "LaunchKernel" in name}
    timed = compress(group.durations, map(of_one.__contains__, group.names))
    trace.launch_times.extend(islice(timed, _CALLS_TIMED))
    if any("BeginCapture" in name for name in kinds):
        trace.captured_graphs = True
    if any(map(_keeps_waiting, kinds)):
        _add_host_calls(trace, group)


@lru_cache(maxsize=1024)
def _started_by(call: str) -> int:
    """The kind of work that a call of the runtime starts, by its name."""
    if _NO_DEVICE_WORK in call:
        return NONE
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
    possible = list(filter(_is_possible, group))
    trace.impossible += len(group) - len(possible)
    for event in possible:
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


# --- a trace read in parts ----------------------------------------------------------------------


def add_part(trace: Trace, part: Trace) -> None:
    """What comes next, read apart: its numbers of names and places become those of the whole."""
    threads = [trace.threads[thread] for thread in part.threads]
    numbers = {
        "name": [trace.names[name] for name in part.names],
        "thread": threads,
        "stream": threads,
        "device": [trace.devices[device] for device in part.devices],
    }
    for whole, more in (
        (trace.device, part.device),
        (trace.launches, part.launches),
        (trace.host_calls, part.host_calls),
        (trace.operators, part.operators),
        (trace.modules, part.modules),
    ):
        for column in fields(more):
            values = _renumbered(getattr(more, column.name), numbers.get(column.name))
            getattr(whole, column.name).extend(values)
    trace.annotations += [replace(each, thread=threads[each.thread]) for each in part.annotations]
    trace.embeddings += part.embeddings
    trace.callers |= part.callers
    trace.operating |= part.operating
    trace.launch_times += part.launch_times
    trace.captured_graphs |= part.captured_graphs
    trace.peak_allocated = max(trace.peak_allocated, part.peak_allocated)
    trace.memory_events += part.memory_events
    trace.events += part.events
    trace.impossible += part.impossible


def _renumbered(column: array[int], numbers: list[int] | None) -> array[int]:
    if numbers is None or numbers == list(range(len(numbers))):
        return column
    return array(column.typecode, map(numbers.__getitem__, column))
