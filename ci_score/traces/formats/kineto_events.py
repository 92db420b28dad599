"""What is kept of the events of a Kineto trace: numbers, in the columns of the engine.

Kineto's times are microseconds. They become whole nanoseconds, so that what ends when something
else begins does so exactly; and they count from the first time in the file, as a float holds no
nanoseconds of the epoch.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import compress, islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from ci_score.traces.engine.host import (
    ALLOCATION,
    KERNEL,
    MEMCPY,
    MEMSET,
    TYPES,
    WAIT,
    EmbeddingCall,
    Host,
    Spans,
    Wait,
)
from ci_score.traces.engine.marks import MARK, mark_of
from ci_score.traces.engine.stacks import is_candidate
from ci_score.traces.formats.kineto_text import LATEST_US, NONE, Args, Event

TICKS_PER_US = 1000.0
_NO_SEQUENCE = 2**63
_DEVICE_WORK = {
    "kernel": KERNEL,
    "Kernel": KERNEL,
    "gpu_memcpy": MEMCPY,
    "Memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "Memset": MEMSET,
}
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
# What other devices do, in kinds of their own: without kernels beside it, nothing is known of it.
_OTHER_DEVICE = re.compile(
    r"(hpu|mtia|privateuse1|xpu|npu|tpu|ipu|mlu|musa|gcu|ascend|cann|glow)(_|$)|collective_comm"
)
# Old ones have no kind.
_INSTANTS = ("cpu_instant_event", "")
_MODULE = "nn.Module: "
_EMBEDDING = "aten::embedding"
# Up to 2021 annotations were written as operators: these names tell them apart.
OLD_ANNOTATION = re.compile(r"ProfilerStep|Optimizer\.|enumerate\(DataLoader\)|## ")

# Of each batch so many calls that start kernels are asked how long they take.
_CALLS_TIMED = 16
# Where marks may be, by the way in which they are made.
_MAY_BE_MARKS = ("cpu_op", "Operator", "user_annotation")
# A memory is its kind times this, and its device.
_MOST_DEVICES = 1024
# So many processes are enough to refuse a file.
_MOST_PROCESSES = 16
_MOST_DIMENSIONS = 64

# The types of inputs as they are written, the widest first.
_NUMBERS = {
    "double": "float64",
    "float": "float32",
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
}

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
    """Kernels, copies and fills, a column each. A device is a place in Trace.devices."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    names: array[int] = field(default_factory=lambda: array("i"))
    kinds: array[int] = field(default_factory=lambda: array("b"))
    streams: array[int] = field(default_factory=lambda: array("i"))
    correlations: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("q"))
    devices: array[int] = field(default_factory=lambda: array("i"))


@dataclass(frozen=True, slots=True)
class Annotation:
    """A span that the program named, or the profiler for it."""

    name: str
    start: int
    end: int
    thread: int
    step: str | None = None


@dataclass(slots=True)
class Trace:
    """What a trace says, in columns, and what its file was like."""

    # The microsecond that times count from.
    base: float = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)
    names: Numbers[str] = field(default_factory=Numbers)
    threads: Numbers[int | str | None] = field(default_factory=Numbers)
    device: DeviceWork = field(default_factory=DeviceWork)
    host: Host = field(default_factory=Host)
    annotations: list[Annotation] = field(default_factory=list)
    devices: Numbers[int | str | None] = field(default_factory=Numbers)
    # The kinds of other devices' events, which are not read.
    unread: Counter[str] = field(default_factory=Counter)
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
    if kind in _MAY_BE_MARKS and any(event.name.startswith(MARK) for event in group):
        group = _without_marks(trace, group)
        if not group:
            return
    if kind == "python_function":
        modules = [event for event in group if event.name.startswith(_MODULE)]
        _add_spans(trace, trace.host.modules, _columns(trace, modules))
        _add_frames(trace, group)
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
        named = [event for event in group if OLD_ANNOTATION.match(event.name)]
        if named:
            _add_annotations(trace, named)
            group = [event for event in group if not OLD_ANNOTATION.match(event.name)]
        _add_operators(trace, _columns(trace, group))
    elif kind == "user_annotation":
        _add_annotations(trace, group)
    elif kind in _INSTANTS:
        _add_memory(trace, group)
    elif kind == "fwdbwd":
        _add_arrows(trace, group)
    if _OTHER_DEVICE.match(kind):
        trace.unread[kind] += len(group)


def _without_marks(trace: Trace, group: list[Event]) -> list[Event]:
    """Takes the marks out of a group, as if the program had run without them."""
    marks = [event for event in group if event.name.startswith(MARK)]
    trace.events -= len(marks)
    told = {name: mark_of(name) for name in {event.name for event in marks}}
    known = _columns(trace, [event for event in marks if told[event.name] is not None])
    numbers = [told[name] or (0, False) for name in known.names]
    columns = trace.host.marks
    columns.starts.fromlist(_whole(known.starts, trace.base))
    columns.ends.fromlist(_ends(known.starts, known.durations, trace.base))
    columns.numbers.fromlist([number for number, _ in numbers])
    columns.calls.fromlist([int(is_call) for _, is_call in numbers])
    columns.threads.extend(_numbered(known.threads, trace.threads))
    return [event for event in group if not event.name.startswith(MARK)]


def _add_frames(trace: Trace, group: list[Event]) -> None:
    """The functions that may be the program's own, of whichever repository."""
    known = _columns(trace, [event for event in group if is_candidate(event.name)])
    frames = trace.host.frames
    frames.starts.fromlist(_whole(known.starts, trace.base))
    frames.ends.fromlist(_ends(known.starts, known.durations, trace.base))
    frames.numbers.fromlist([trace.names[name] + 1 for name in known.names])
    frames.threads.extend(_numbered(known.threads, trace.threads))
    frames.calls.extend([1] * len(known.names))


def _add_processes(processes: set[int | str | None], group: list[Event]) -> None:
    """Those of the first and the last of a batch: of files put together there are both soon."""
    if len(processes) < _MOST_PROCESSES:
        processes.update((group[0].pid, group[-1].pid))


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


def _whole(times: list[float], base: float) -> list[int]:
    """Microseconds from the base on as whole nanoseconds."""
    return [int((time - base) * TICKS_PER_US + 0.5) for time in times]


def _ends(starts: list[float], durations: list[float], base: float) -> list[int]:
    """When spans end, rounded as the start of what begins then: the base is taken off first."""
    spans = zip(starts, durations, strict=True)
    return [int((start - base + lasts) * TICKS_PER_US + 0.5) for start, lasts in spans]


def _add_device_work(trace: Trace, kind: int, group: _Columns) -> None:
    columns = trace.device
    columns.starts.fromlist(_whole(group.starts, trace.base))
    columns.ends.fromlist(_ends(group.starts, group.durations, trace.base))
    columns.names.fromlist(list(map(trace.names.__getitem__, group.names)))
    columns.kinds.extend(array("b", [kind]) * len(group.names))
    columns.streams.extend(_numbered(group.threads, trace.threads))
    columns.correlations.fromlist([args.correlation for args in group.args])
    columns.ids.fromlist(_external_ids(group))
    columns.devices.extend(_numbered([args.device for args in group.args], trace.devices))


def _add_launches(trace: Trace, group: _Columns) -> None:
    columns = trace.host.launches
    columns.starts.fromlist(_whole(group.starts, trace.base))
    columns.threads.extend(_numbered(group.threads, trace.threads))
    columns.correlations.fromlist([args.correlation for args in group.args])
    columns.ids.fromlist(_external_ids(group))
    kinds = {name: _started_by(name) for name in set(group.names)}
    started = list(map(kinds.__getitem__, group.names))
    columns.kinds.fromlist(started)
    # A graph starts many kernels, and takes its time for it.
    of_one = {name for name in kinds if "LaunchKernel" in name}
    timed = compress(group.durations, map(of_one.__contains__, group.names))
    trace.launch_times.extend(islice(timed, _CALLS_TIMED))
    if any("BeginCapture" in name for name in kinds):
        trace.captured_graphs = True
    if any(map(_keeps_waiting, kinds)):
        _add_waits(trace, group)


@lru_cache(maxsize=1024)
def _started_by(call: str) -> int:
    """The kind of work that a call of the runtime starts, by its name."""
    if _NO_DEVICE_WORK in call:
        return NONE
    for kind, sign in ((KERNEL, "aunch"), (MEMCPY, "emcpy"), (MEMSET, "emset")):
        if sign in call:
            return kind
    return NONE


def _add_waits(trace: Trace, group: _Columns) -> None:
    rows = zip(group.names, group.starts, group.durations, group.threads, strict=True)
    for name, start, duration, thread in rows:
        if kind := _keeps_waiting(name):
            [begin] = _whole([start], trace.base)
            [end] = _ends([start], [duration], trace.base)
            trace.host.waits.append(Wait(kind, begin, end, trace.threads[thread]))


@lru_cache(maxsize=1024)
def _keeps_waiting(call: str) -> int:
    """What a call makes its thread wait for, by its name; 0 for most."""
    return next((kind for kind, pattern in _KEEPS_WAITING if pattern.search(call)), 0)


def _add_operators(trace: Trace, group: _Columns) -> None:
    columns = trace.host.operators
    _add_spans(trace, columns, group)
    numbers = [args.sequence for args in group.args]
    try:
        columns.sequences.fromlist(numbers)
    except OverflowError:
        # No number is written as -1, or as the 64 bits of it.
        known = [number if 0 <= number < _NO_SEQUENCE else NONE for number in numbers]
        columns.sequences.fromlist(known)
    columns.forward_threads.fromlist([_within(args.forward_thread) for args in group.args])
    types = [bytes(args.types) for args in group.args]
    kinds = list(map(_only_type, types))
    for place, kind in enumerate(kinds):
        if kind == NONE:
            kinds[place] = _widest_type(types[place], bytes(group.args[place].dims))
    columns.types.fromlist(kinds)
    if _EMBEDDING in group.names:
        for name, start, args in zip(group.names, group.starts, group.args, strict=True):
            if name == _EMBEDDING:
                _add_embedding(trace, start, args)


@lru_cache(maxsize=4096)
def _only_type(types: bytes) -> int:
    """The type of floating numbers among an operator's inputs, or NONE where shapes decide.

    In Python each number is a double: only a tensor of them says something.
    """
    known = [kind for kind in _NUMBERS if b'"%s"' % kind.encode() in types]
    if len(known) > 1 or "double" in known:
        return NONE
    return TYPES.index(_NUMBERS[known[0]]) if known else 0


@lru_cache(maxsize=4096)
def _widest_type(types: bytes, dims: bytes) -> int:
    """The widest type among those of an operator's tensors that are more than one number."""
    try:
        pairs = zip(_DIMS.decode(types), _DIMS.decode(dims), strict=False)
        known = {kind for kind, shape in pairs if shape and isinstance(kind, str)}
    except (msgspec.DecodeError, TypeError, RecursionError):
        return 0
    return next((TYPES.index(_NUMBERS[kind]) for kind in _NUMBERS if kind in known), 0)


def _add_spans(trace: Trace, columns: Spans, group: _Columns) -> None:
    columns.starts.fromlist(_whole(group.starts, trace.base))
    columns.ends.fromlist(_ends(group.starts, group.durations, trace.base))
    columns.names.fromlist(list(map(trace.names.__getitem__, group.names)))
    columns.threads.extend(_numbered(group.threads, trace.threads))


def _add_annotations(trace: Trace, group: list[Event]) -> None:
    possible = list(filter(_is_possible, group))
    trace.impossible += len(group) - len(possible)
    for event in possible:
        step = event.args.step_num
        [begin] = _whole([event.ts], trace.base)
        [end] = _ends([event.ts], [event.dur], trace.base)
        trace.annotations.append(
            Annotation(
                event.name,
                begin,
                end,
                trace.threads[event.tid],
                None if step is None else str(step),
            )
        )


def _add_memory(trace: Trace, group: list[Event]) -> None:
    """Device type 0 is the host."""
    events = [event for event in group if event.name == "[memory]"]
    allocated = [event.args.allocated for event in events if event.args.device_type > 0]
    trace.memory_events += len(allocated)
    trace.peak_allocated = max([trace.peak_allocated, *allocated])
    columns = trace.host.memory
    known = [event for event in events if 0.0 <= event.ts < LATEST_US]
    columns.starts.fromlist(_whole([event.ts for event in known], trace.base))
    columns.threads.extend(_numbered([event.tid for event in known], trace.threads))
    columns.addresses.fromlist([_within(event.args.address) for event in known])
    columns.sizes.fromlist([_within(event.args.size, nothing=0) for event in known])
    columns.totals.fromlist([_within(event.args.allocated) for event in known])
    columns.memories.fromlist([_memory(event.args) for event in known])


def _within(value: Any, nothing: int = NONE) -> int:
    """A whole number that a column holds."""
    return value if type(value) is int and -_NO_SEQUENCE <= value < _NO_SEQUENCE else nothing


def _memory(args: Args) -> int:
    """The number of a memory: 0 is the host's, whatever its device is called."""
    kind, device = _within(args.device_type), _within(args.device_id)
    if kind == 0:
        return 0
    is_known = 0 < kind < _MOST_DEVICES > device >= 0
    return kind * _MOST_DEVICES + device if is_known else NONE


def _add_arrows(trace: Trace, group: list[Event]) -> None:
    known = [event for event in group if 0.0 <= event.ts < LATEST_US]
    columns = trace.host.arrows
    columns.starts.fromlist(_whole([event.ts for event in known], trace.base))
    columns.threads.extend(_numbered([event.tid for event in known], trace.threads))
    columns.numbers.fromlist([_within(event.id) for event in known])


def _add_embedding(trace: Trace, time: float, args: Args) -> None:
    """Of [[vocabulary, width], [batch, tokens], …]; other shapes say nothing."""
    try:
        shapes = _DIMS.decode(args.dims)
        (vocabulary, width), places = shapes[0], shapes[1]
        sizes = [vocabulary, width, *places]
    except (msgspec.DecodeError, ValueError, TypeError, IndexError, RecursionError):
        return
    # Looked at before they are multiplied: a text times a number is a text of that length.
    if not 2 < len(sizes) <= _MOST_DIMENSIONS or not all(type(one) is int for one in sizes):
        return
    tokens = math.prod(places)
    if tokens > 0:
        [begin] = _whole([time], trace.base)
        trains = 0 <= args.sequence < _NO_SEQUENCE
        trace.host.embeddings.append(EmbeddingCall(begin, vocabulary, width, tokens, trains))


# --- a trace read in parts ----------------------------------------------------------------------


def add_part(trace: Trace, part: Trace) -> None:
    """What comes next, read apart: its numbers of names and places become those of the whole."""
    threads = [trace.threads[thread] for thread in part.threads]
    numbers = {
        "names": [trace.names[name] for name in part.names],
        "threads": threads,
        "streams": threads,
        "devices": [trace.devices[device] for device in part.devices],
    }
    host, more_host = trace.host, part.host
    for whole, more in (
        (trace.device, part.device),
        (host.launches, more_host.launches),
        (host.operators, more_host.operators),
        (host.modules, more_host.modules),
        (host.marks, more_host.marks),
        (host.frames, more_host.frames),
        (host.arrows, more_host.arrows),
        (host.memory, more_host.memory),
    ):
        for column in fields(more):
            values = _renumbered(getattr(more, column.name), numbers.get(column.name))
            getattr(whole, column.name).extend(values)
    host.waits += [each._replace(thread=threads[each.thread]) for each in more_host.waits]
    host.embeddings += more_host.embeddings
    trace.annotations += [replace(each, thread=threads[each.thread]) for each in part.annotations]
    trace.unread.update(part.unread)
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
