"""The PyTorch profiler's Chrome trace (Kineto), of 2021 until now, on NVIDIA and AMD.

A trace is read in one pass into columns (kineto_events). Here they become a Capture: which call
launched which work of the device, and what the file tells of the job and its machine. Kineto's
times are microseconds; a Capture counts whole nanoseconds.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.lists import plural
from ci_score.model.profile import Profile
from ci_score.model.step_code import MarkedStep
from ci_score.traces.engine.capture import Capture, Facts, Lane
from ci_score.traces.engine.categories import category_of, memcpy_direction
from ci_score.traces.engine.device_events import TRANSFER_NAMES, UNKNOWN, DeviceEvents, Names
from ci_score.traces.engine.host import KERNEL, MEMCPY
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.launch_calls import LaunchCalls
from ci_score.traces.engine.marks import marked_step
from ci_score.traces.engine.profile import profile_of
from ci_score.traces.formats.kineto_events import TICKS_PER_US, Trace
from ci_score.traces.formats.kineto_ranges import read_trace
from ci_score.traces.formats.kineto_text import NONE
from ci_score.traces.source import CutShortError, ProfileSource

TOOL = "PyTorch profiler (Kineto)"
TICKS_PER_MS = 1_000_000

_DATA_PARALLEL = re.compile(r"(?:Distributed|FullySharded)DataParallel\.forward|^FSDP::")
_DATA_PARALLEL_GROUP = re.compile(
    r"(^|[^a-z])(dp|ddp|fsdp|data_?parallel)([^a-z]|$)", re.IGNORECASE
)
_MOST_RANKS = 10**6
# Each is a timeline of its own, for all of which the host is looked at.
MOST_DEVICES = 32
_AT_ONCE = 65_536
_MOST_SHOWN = 4

# --- is it one? ---------------------------------------------------------------------------------

_OTHERS = (b'"/host:CPU"', b'"/device:', b'"XLA Ops"', b'"XLA Modules"', b"highres-ticks")
_KINETO_KEY = re.compile(
    rb'"(schemaVersion|deviceProperties|computeProperties|distributedInfo|record_shapes'
    rb"|with_stack|profile_memory|cupti_version|roctracer_version|baseTimeNanoseconds)\"\s*:"
)
_KINETO_EVENT = re.compile(
    rb'"cat"\s*:\s*"(cpu_op|cuda_runtime|cuda_driver|kernel|gpu_memcpy|gpu_memset|user_annotation'
    rb"|gpu_user_annotation|python_function|cpu_instant_event|ac2g|fwdbwd|Operator|Runtime|Kernel"
    rb'|Memcpy|Memset|Trace)"|"ProfilerStep#|"PyTorch Profiler'
)
_EVENT_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_NO_EVENTS = re.compile(rb'^\s*\{[^{\[]*"traceEvents"\s*:\s*\[\s*(\{\s*\})?\s*\]')


def recognises(head: bytes) -> bool:
    """Whether a file that begins like this is a trace of the PyTorch profiler."""
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin[:1] not in (b"{", b"["):
        return False
    if _KINETO_EVENT.search(begin):
        return True
    if any(sign in begin for sign in _OTHERS):
        return False
    if _NO_EVENTS.match(begin):
        return True
    # The list of events may begin later than the head: a job of a thousand ranks lists them first.
    return begin[:1] == b"{" and len(set(_KINETO_KEY.findall(begin))) >= (
        1 if _EVENT_LIST.search(begin) else 2
    )


# --- the profile --------------------------------------------------------------------------------


def read(source: ProfileSource) -> Profile:
    """The profile of a trace; of one that measured nothing it says why in `unusable`."""
    trace = read_trace(source)
    if len(trace.devices) > MOST_DEVICES:
        raise BadInputError(
            source.name,
            found=f"the work of {len(trace.devices)} devices",
            expected=f"a trace of one machine, with at most {MOST_DEVICES}",
        )
    with overflow_is_bad_input(source.name):
        return profile_of(_capture(trace, source.step_name))


def read_marked(source: ProfileSource) -> MarkedStep:
    """What the marks around the calls of a program say, of a trace that has them."""
    if not recognises(source.head()):
        raise BadInputError(
            source.name, found="no trace of the PyTorch profiler", expected="one with marks"
        )
    with overflow_is_bad_input(source.name):
        capture = capture_of(source)
        if capture.is_cut:
            raise CutShortError(source.name)
        if capture.unusable is not None:
            raise BadInputError(
                source.name, found=capture.unusable, expected="a trace of one process"
            )
        return marked_step(capture)


def capture_of(source: ProfileSource) -> Capture:
    """All that a trace says, before anything is made of it."""
    return _capture(read_trace(source), source.step_name)


def _capture(trace: Trace, step_name: re.Pattern[str] | None) -> Capture:
    capture = Capture(TOOL, TICKS_PER_MS, ranges=HostRanges(step_name))
    version = trace.metadata.get("schemaVersion")
    if isinstance(version, int):
        capture.tool = f"{TOOL}, schema {version}"
    capture.events, capture.is_cut = trace.events, trace.is_cut
    capture.took_a_while = False
    capture.counts_operators = True
    capture.layers_advice = "with_stack, with_modules"
    capture.had_no_device = trace.metadata.get("deviceProperties") == []
    capture.unread = trace.unread
    capture.notes += _damage(trace)
    trace.host.names = list(trace.names)
    capture.hosts[0] = trace.host
    for each in trace.annotations:
        capture.ranges.add(0, each.thread, each.name, each.start, each.end, each.step)
    capture.lanes = _lanes(trace, capture.names)
    capture.launch_calls = _launch_calls(trace, capture)
    capture.doubt(_of_several_processes(trace), (), "own file")
    capture.facts = lambda lanes, _: _facts(trace, lanes)
    world = _world(trace.metadata) or 1
    degree = 1 if world == 1 else _data_parallel_degree(trace, world)
    capture.data_ranks = world, degree
    return capture


def _launch_calls(trace: Trace, capture: Capture) -> LaunchCalls:
    """What the calls of the runtime tell of how sound the trace is."""
    numbers = trace.host.launches.correlations
    calls = len(numbers) - numbers.count(NONE) - numbers.count(0)
    found = LaunchCalls(
        calls=calls,
        repeated=calls - len(set(numbers) - {NONE, 0}),
        ticks=array("q", (int(time * TICKS_PER_US + 0.5) for time in trace.launch_times)),
        captured_graphs=trace.captured_graphs,
    )
    found.count(capture.hosts[0].launches, [lane.events for lane in capture.lanes])
    return found


def _of_several_processes(trace: Trace) -> str | None:
    """Why a trace that others merged is refused: numbers of launches repeat between processes."""
    processes = max(trace.callers, trace.operating, key=len)
    if len(processes) < 2:
        return None
    shown = ", ".join(sorted(str(each)[:20] for each in processes)[:_MOST_SHOWN])
    return (
        f"it holds the events of several processes ({shown}), whose launches cannot be told apart:"
        " give each rank's own file"
    )


def _damage(trace: Trace) -> Iterator[str]:
    """What the file was like."""
    if trace.is_cut:
        yield "the trace is cut short: its last events are missing"
    if trace.dropped:
        yield f"dropped {plural(trace.dropped, 'event')} that could not be read"
    if trace.mended:
        yield f"mended {plural(trace.mended, 'event')} with broken text"
    if trace.impossible:
        yield f"dropped {plural(trace.impossible, 'event')} with a negative or impossible time"


# --- where it ran -------------------------------------------------------------------------------


def _facts(trace: Trace, lanes: Sequence[Lane]) -> Facts:
    """The job and its machine, as far as the metadata says."""
    facts = Facts()
    notes: list[str] = []
    job = _mapping(trace.metadata.get("distributedInfo"))
    rank, world = _number(job.get("rank")), _world(trace.metadata)
    if rank is not None and 0 <= rank < _MOST_RANKS:
        _tell(facts, "rank", rank, "distributedInfo")
    if world is not None:
        _tell(facts, "world_size", world, "distributedInfo")
    _add_accelerator(facts, notes, trace, lanes)
    _add_count(facts, notes, lanes, world)
    _add_memory(facts, notes, trace)
    return Facts(facts.fields, facts.sources, tuple(notes))


def _tell(facts: Facts, name: str, value: Any, source: str) -> None:
    facts.fields[name] = value
    facts.sources[name] = source


def _add_accelerator(facts: Facts, notes: list[str], trace: Trace, lanes: Sequence[Lane]) -> None:
    metadata = trace.metadata
    listed = metadata.get("deviceProperties") or metadata.get("computeProperties") or []
    cards = [_mapping(each) for each in listed] if isinstance(listed, list) else []
    devices = {str(lane.device) for lane in lanes if lane.device is not None}
    used = [card for card in cards if str(card.get("id")) in devices]
    names = {str(card["name"]) for card in used or cards if card.get("name")}
    if len(names) == 1 and (devices or used or not lanes):
        _tell(facts, "accelerator", names.pop(), "deviceProperties")
    elif lanes:
        kinds = "names several kinds of accelerator" if names else "does not name the accelerator"
        notes.append(f"the trace {kinds}")
    sizes = {_number(card.get("totalGlobalMem")) for card in used}
    if len(sizes) == 1 and (size := sizes.pop()) is not None and size > 0:
        _tell(facts, "accelerator_memory_gb", size / 1e9, "totalGlobalMem of deviceProperties")
    bandwidth = _peak_bandwidth(used)
    if bandwidth is not None:
        _tell(facts, "peak_bandwidth_gb_s", bandwidth, "deviceProperties")


def _add_count(facts: Facts, notes: list[str], lanes: Sequence[Lane], world: int | None) -> None:
    devices = {lane.device for lane in lanes if lane.device is not None}
    if world is not None and len(devices) == 1:
        source = "world_size of distributedInfo, one device a rank"
        _tell(facts, "accelerator_count", world, source)
    elif devices and (world is None or world == 1):
        _tell(facts, "accelerator_count", len(devices), "devices on which kernels ran")
    elif devices:
        notes.append(f"this rank used {len(devices)} devices; how many the others did is not known")


def _add_memory(facts: Facts, notes: list[str], trace: Trace) -> None:
    if trace.is_cut and trace.peak_allocated > 0:
        notes.append("no peak memory: the events that tell it may be cut off")
    elif trace.peak_allocated > 0:
        source = "the largest Total Allocated of the [memory] events"
        _tell(facts, "peak_memory_gb", trace.peak_allocated / 1e9, source)
    elif trace.memory_events:
        notes.append("no peak memory: the [memory] events of this trace hold no totals")
    elif trace.devices:
        notes.append("no peak memory: profile_memory=True records it")


def _world(metadata: Mapping[str, Any]) -> int | None:
    world = _number(_mapping(metadata.get("distributedInfo")).get("world_size"))
    return world if world is not None and 1 <= world <= _MOST_RANKS else None


def _data_parallel_degree(trace: Trace, world: int) -> int | None:
    """How many ranks see different data, where the trace tells."""
    groups = _mapping(trace.metadata.get("distributedInfo")).get("pg_config")
    groups = [_mapping(each) for each in groups] if isinstance(groups, list) else []
    sizes = [
        _number(group.get("pg_size"))
        for group in groups
        if _DATA_PARALLEL_GROUP.search(str(group.get("pg_desc", "")))
    ]
    known = [size for size in sizes if size is not None and 1 <= size <= world]
    if known:
        return max(known)
    wrapped = any(_DATA_PARALLEL.search(each.name) for each in trace.annotations)
    return world if wrapped and len(groups) == 1 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _peak_bandwidth(cards: Sequence[Mapping[str, Any]]) -> float | None:
    """Twice the memory's clock (kHz) times the width of its bus (bits), where they are written."""
    for card in cards:
        clock, width = _number(card.get("memoryClockRate")), _number(card.get("memoryBusWidth"))
        if clock and width and clock > 0 < width:
            return 2.0 * clock * 1e3 * width / 8 / 1e9
    return None


# --- the device's work --------------------------------------------------------------------------


def _lanes(trace: Trace, names: Names) -> list[Lane]:
    """The device's columns, each event with the launch that it came from."""
    columns = trace.device
    if not columns.starts:
        return []
    texts = list(trace.names)
    keys = set(zip(columns.names, columns.kinds, strict=True))
    places = {key: _place(names, texts[key[0]], key[1]) for key in sorted(keys)}
    calls = _calls_of(trace)
    # The last is for those without a launch, whose place is -1.
    begun = trace.host.launches.starts[:]
    begun.append(UNKNOWN)
    events = DeviceEvents()
    events.extend(
        columns.starts,
        columns.ends,
        map(places.__getitem__, zip(columns.names, columns.kinds, strict=True)),
        iter(columns.streams),
        _known(columns.correlations),
        map(begun.__getitem__, calls),
        calls,
    )
    named = {name: place for name, place in trace.devices.items() if name is not None}
    if len(named) < 2:
        return [Lane("the device", 0, events, next(iter(named), None))]
    return [
        Lane(f"device {name}", 0, events.only(each == place for each in columns.devices), name)
        for name, place in sorted(trace.devices.items(), key=lambda item: item[1])
    ]


def _known(correlations: array[int]) -> array[int]:
    if NONE not in correlations:
        return correlations
    return array("q", (UNKNOWN if each == NONE else each for each in correlations))


def _place(names: Names, text: str, kind: int) -> int:
    if kind == KERNEL:
        return names.place(text, category_of(text))
    if kind == MEMCPY:
        return names.place(TRANSFER_NAMES.get(memcpy_direction(text) or "", text), "memcpy")
    return names.place(text, "memset")


def _calls_of(trace: Trace) -> array[int]:
    """For each device event the call that launched it: by correlation, else by External id."""
    launches, device = trace.host.launches, trace.device
    by_correlation = dict(zip(launches.correlations, range(len(launches)), strict=True))
    by_correlation.pop(NONE, None)
    found = array("i")
    # By the piece: a list of ten million numbers would be half a gigabyte.
    for first in range(0, len(device.correlations), _AT_ONCE):
        piece = device.correlations[first : first + _AT_ONCE]
        found.fromlist(list(map(by_correlation.get, piece, repeat(NONE))))
    if NONE not in found:
        return found
    by_id: dict[int, int] = {}
    for place, each in enumerate(launches.ids):
        by_id.setdefault(each, place)
    # Old profilers write 0 for work that belongs to no operator.
    for nothing in (NONE, 0):
        by_id.pop(nothing, None)
    ids = zip(found, device.ids, strict=True)
    return array("i", (by_id.get(each, NONE) if place < 0 else place for place, each in ids))
