"""Ascend: the `trace_view.json` of torch_npu's profiler, and MindStudio's `msprof_*.json`.

Chrome's form, in processes that are named: `Ascend Hardware` with a thread a stream, `HCCL` (or
`Communication`) with a thread of collectives for each group and threads of the transfers that they
are made of, and `Python` with what the host did. Times are microseconds, written as text because
they have more digits than a float. `async_npu` flows lead from the host's call to the device's
task, `HostToDevice` flows from the driver's. A collective's own tasks stand on a stream, too: only
the collective counts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.lists import plural
from ci_score.model.profile import Profile
from ci_score.traces.damaged_json import CUT_SHORT, ProfilerJson
from ci_score.traces.engine.capture import Capture, Facts, Lane
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents, Names
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.launch_calls import LaunchCalls
from ci_score.traces.engine.profile import profile_of
from ci_score.traces.source import ProfileSource

TOOL = "Ascend PyTorch Profiler"
_TICKS_PER_US = 1000
_TICKS_PER_MS = 1_000_000
_FARTHEST = 2**61

_HARDWARE, _HOST = "Ascend Hardware", "Python"
_COLLECTIVES = frozenset({"HCCL", "Communication"})
# What is made of the others, or counted and not timed.
_DERIVED = frozenset({"Overlap Analysis", "CANN", "MindSpore", "AscendCL", "Runtime", "PTA"})
_CALL, _DRIVER_CALL = "async_npu", "HostToDevice"
# Tasks of a stream that do no work: waits, marks, and the steps of a collective.
_NO_WORK = re.compile(
    r"(event|notify)[ _]?(wait|record|reset)|write[ _]?value|place_?holder|profiling_|maintenance"
    r"|(load|data) context|^sdma$|^rdma$|^rocce|cdqm|model_(execute|maintaince)|stream_"
    r"|label_|barrier|condition|_?nop"
)
# The same where a task has a name and no type.
_NO_WORK_BY_NAME = re.compile(r"(event|notify)[ _](wait|record)|profiling_|write value")
_COPY = re.compile(r"memcpy|.*\b(pcie_dma|sdma)_sqe$")
_OF_A_COLLECTIVE = ("AicpuKernel", "AivKernel")
# A collective is called by its group and its number in it: other numbers in another run.
_NUMBERS_OF_A_COLLECTIVE = re.compile(r"__\d+(_\d+)*$")
_NAMES_A_RANK = re.compile(r"(?i)rank[-_]?\d")
# The call that puts an operator into the queue, as others launch a kernel.
_ENQUEUE = "enqueue"
_NO_RANGES = frozenset({"python_function", _ENQUEUE, "dequeue"})
_DEVICE_OF_LABEL = re.compile(r"NPU (\d{1,4})")
# The pid of a device's process: the host's, a kind, and in the last bits the device.
_DEVICE_BITS = 31

_TEXT_TIME = re.compile(rb'"ts"\s*:\s*"\d+(?:\.\d+)?"')
_MARKS = (b'"Ascend Hardware"', b'"async_npu"', b'"async_task_queue"')


def recognises(head: bytes) -> bool:
    """Whether a file that begins like this is an Ascend trace; only those write times as text."""
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not (begin.startswith(b"[") or (begin.startswith(b"{") and b'"traceEvents"' in begin)):
        return False
    return b'"ph"' in begin and (
        any(mark in begin for mark in _MARKS) or _TEXT_TIME.search(begin) is not None
    )


def read(source: ProfileSource) -> Profile:
    """The profile of a trace."""
    text = ProfilerJson(source, "a whole trace_view.json of Ascend")
    rows = _rows_of(text, HostRanges(source.step_name))
    if rows.has_collectives and not _NAMES_A_RANK.search(source.name):
        rows.notes.append("the trace does not tell its rank: give its folder a name like rank0")
    with overflow_is_bad_input(source.name):
        capture = _capture(rows)
        # Events do not come in the order of time, so a cut may have taken a part of any step.
        if text.is_cut:
            capture.doubt(CUT_SHORT, (), "whole file")
        capture.doubt(_of_several_processes(rows), (), "own file")
        return profile_of(capture)


# --- what of the file is looked at --------------------------------------------------------------

# No list and no object: those would be kept whole, however large.
_Plain = int | float | str | bool | None


class _Args(msgspec.Struct, gc=False):
    name: _Plain = None
    labels: _Plain = None
    task_type: _Plain = msgspec.field(name="Task Type", default=None)
    connection_id: _Plain = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: int | float | str = ""
    dur: int | float | str = ""
    id: int | str = ""
    args: _Args | None = None


Thread = tuple[int | str, int | str]


def _ticks(value: float | str) -> int | None:
    """Microseconds, also as text with decimals, in whole nanoseconds; None if it is no time."""
    if isinstance(value, str):
        whole, _, decimals = value.partition(".")
        digits = whole + decimals
        if not (digits.isascii() and digits.isdecimal() and len(whole) < 20):
            return None
        ticks = int(whole or "0") * _TICKS_PER_US + int((decimals + "000")[:3])
    elif abs(value) < _FARTHEST:
        ticks = round(value * _TICKS_PER_US)
    else:
        return None
    return ticks if 0 <= ticks < _FARTHEST else None


# --- the rows -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Processes:
    """What processes and threads are called, and which device a process is of."""

    names: dict[int | str, str] = field(default_factory=dict)
    labels: dict[int | str, str] = field(default_factory=dict)
    threads: dict[Thread, str] = field(default_factory=dict)

    def add(self, event: _Event) -> None:
        """One record of metadata."""
        if event.args is None:
            return
        if event.name == "process_name":
            self.names[event.pid] = str(event.args.name)
        elif event.name == "process_labels":
            self.labels[event.pid] = str(event.args.labels)
        elif event.name == "thread_name":
            self.threads[event.pid, event.tid] = str(event.args.name)

    def device(self, pid: int | str) -> int:
        """The number of the device, as labelled, or as the number of the process tells it."""
        told = _DEVICE_OF_LABEL.fullmatch(self.labels.get(pid, ""))
        if told:
            return int(told[1])
        return pid & _DEVICE_BITS if isinstance(pid, int) else 0


@dataclass(slots=True)
class _Rows:
    """The timelines of the devices, the host's ranges, and what to say of them."""

    ranges: HostRanges
    names: Names = field(default_factory=Names)
    lanes: dict[int, DeviceEvents] = field(default_factory=lambda: defaultdict(DeviceEvents))
    streams: dict[Thread, int] = field(default_factory=dict)
    host: dict[Thread, list[tuple[int, int, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    unread: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    launch_calls: LaunchCalls = field(default_factory=LaunchCalls)
    hosts: set[int | str] = field(default_factory=set)
    has_collectives: bool = False
    broken: int = 0
    events: int = 0


def _rows_of(text: ProfilerJson, ranges: HostRanges) -> _Rows:
    into = _Rows(ranges)
    events = text.events(_Event)
    into.notes += text.notes
    processes, launched_at = _Processes(), _launches(events)
    for event in events:
        if event.ph == "M":
            processes.add(event)
    places = {((event.pid, event.tid), _ticks(event.ts)) for event in events if event.ph == "X"}
    into.launch_calls.kernels = len(launched_at)
    into.launch_calls.without_work = len(launched_at.keys() - places)
    for event in events:
        if event.ph == "X":
            _add(into, processes, event, launched_at)
    for thread, events_of_thread in into.host.items():
        into.hosts.add(thread[0])
        _add_ranges(into.ranges, thread, events_of_thread)
    into.host.clear()
    return into


def _launches(events: Sequence[_Event]) -> dict[tuple[Thread, int], int]:
    """When the host launched what begins on a device's thread at a time.

    PyTorch's own flow is preferred: it begins in the thread that the ranges are of, while the
    driver is called by another one later.
    """
    begins: dict[tuple[str, int | str], int] = {}
    launched: dict[tuple[Thread, int], int] = {}
    flows = [event for event in events if event.cat in (_CALL, _DRIVER_CALL)]
    for event in flows:
        if event.ph == "s" and (ticks := _ticks(event.ts)) is not None:
            begins.setdefault((event.cat, event.id), ticks)
    for event in flows:
        begin = begins.get((event.cat, event.id))
        ticks = _ticks(event.ts)
        if event.ph != "f" or begin is None or ticks is None:
            continue
        place = (event.pid, event.tid), ticks
        if event.cat == _CALL:
            launched[place] = begin
        else:
            launched.setdefault(place, begin)
    return launched


def _add(
    into: _Rows,
    processes: _Processes,
    event: _Event,
    launched_at: dict[tuple[Thread, int], int],
) -> None:
    into.events += 1
    start, time = _ticks(event.ts), _ticks(event.dur)
    if start is None or time is None:
        into.broken += 1
        return
    process = processes.names.get(event.pid, "")
    thread = event.pid, event.tid
    if process == _HARDWARE:
        name = _task_name(event)
    elif process in _COLLECTIVES:
        is_whole = processes.threads.get(thread, "").endswith("Communication")
        name = _NUMBERS_OF_A_COLLECTIVE.sub("", event.name) if is_whole else None
        into.has_collectives |= is_whole
    else:
        _add_of_host(into, processes, event, process, (start, start + time))
        return
    if name is None:
        return
    device = processes.device(event.pid)
    stream = into.streams.setdefault(thread, len(into.streams))
    launch = event.args.connection_id if event.args is not None else None
    launch = launch if type(launch) is int and 0 < launch < _FARTHEST else UNKNOWN
    into.lanes[device].add(
        *(start, start + time),
        into.names.place(name, "comm" if process in _COLLECTIVES else None),
        *(stream, launch, launched_at.get((thread, start), UNKNOWN)),
    )


def _task_name(event: _Event) -> str | None:
    """What a task of a stream is called; None if it does no work of its own."""
    kind = str(event.args.task_type or "").lower() if event.args is not None else ""
    name = event.name.lower()
    is_no_work = _NO_WORK.search(kind) if kind else _NO_WORK_BY_NAME.match(name)
    if is_no_work or event.name.endswith(_OF_A_COLLECTIVE):
        return None
    return "Memcpy" if _COPY.match(f"{name} {kind}") else event.name


def _add_of_host(
    into: _Rows,
    processes: _Processes,
    event: _Event,
    process: str,
    window: tuple[int, int],
) -> None:
    if process == _HOST:
        if event.cat == _ENQUEUE:
            into.launch_calls.ticks.append(window[1] - window[0])
        if event.cat not in _NO_RANGES:
            into.host[event.pid, event.tid].append((window[0], -window[1], event.name))
    elif process not in _DERIVED and processes.labels.get(event.pid, "").startswith("NPU"):
        into.unread[process or str(event.pid)] += 1


def _add_ranges(ranges: HostRanges, thread: Thread, events: Sequence[tuple[int, int, str]]) -> None:
    """The ranges that people or PyTorch name: what no operator stands around.

    Operators are of the same kind, and those of NPUs have no `::` in their names.
    """
    operator_end = 0
    for start, end, name in sorted(events):
        if start < operator_end:
            continue
        if "::" in name or name.startswith("aclnn"):
            operator_end = -end
        elif start < -end:
            ranges.add(0, thread, name, start, -end)


# --- the capture --------------------------------------------------------------------------------


def _capture(rows: _Rows) -> Capture:
    notes = rows.notes
    if rows.broken:
        notes.append(f"{plural(rows.broken, 'event')} without times; left out")
    return Capture(
        TOOL,
        _TICKS_PER_MS,
        names=rows.names,
        lanes=[
            Lane(f"NPU {device}", 0, events, device)
            for device, events in sorted(rows.lanes.items())
        ],
        ranges=rows.ranges,
        ranges_called="host ranges",
        facts=_facts,
        needs_device="no work of an NPU was recorded",
        unread=rows.unread,
        launch_calls=rows.launch_calls,
        notes=notes,
        events=rows.events,
    )


def _of_several_processes(rows: _Rows) -> str | None:
    if len(rows.hosts) < 2:
        return None
    return f"it holds the events of {len(rows.hosts)} processes: give each rank's own file"


def _facts(lanes: Sequence[Lane], _: Lane | None) -> Facts:
    if not lanes:
        return Facts()
    note = "the trace tells neither the NPU's name and bandwidth nor the peak memory"
    source = {"accelerator_count": "devices on which tasks ran"}
    return Facts({"accelerator_count": len(lanes)}, source, (note,))
