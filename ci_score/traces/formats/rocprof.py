"""rocprofv3 of ROCm: the JSON of `rocprofv3 --output-format json`.

A file holds one process (or several) with its agents, the symbols of its kernels, and records in
buffers, all with times in nanoseconds. A dispatch names its kernel by an id and its launch by a
correlation id; whether the HIP calls and the roctx ranges are there depends on what was traced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.damaged_json import CUT_SHORT, ProfilerJson
from ci_score.traces.engine.capture import Capture, Facts, Lane
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.launch_calls import Call, blocks_of, is_of_interest
from ci_score.traces.engine.profile import profile_of
from ci_score.traces.source import ProfileSource

MOST_DEVICES = 1024
_NANOSECONDS_PER_MS = 1_000_000
_GPU = 2
_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')
# Copies are told by the names of their operations; ROCm's own copy kernels stand among kernels.
COPIES = {
    "MEMORY_COPY_HOST_TO_DEVICE": "Memcpy HtoD",
    "MEMORY_COPY_DEVICE_TO_HOST": "Memcpy DtoH",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "Memcpy DtoD",
}
OTHER_COPY = "Memcpy"


def recognises(head: bytes) -> bool:
    """Whether a file that begins like this is rocprofv3's."""
    return _BEGIN.match(head) is not None


def read(source: ProfileSource) -> Profile:
    """The profile of a rocprofv3 file."""
    text = ProfilerJson(source, "a whole JSON of rocprofv3")
    processes = text.decode(_File).processes
    with overflow_is_bad_input(source.name):
        capture = _capture(processes, source.step_name, text.notes)
        # Kernels come first, then the calls and ranges that tell their steps.
        if text.is_cut:
            capture.unusable, capture.remedy = CUT_SHORT, "whole file"
        return profile_of(capture)


# --- what of the file is looked at --------------------------------------------------------------

# Checked where it is used: a wrong one costs its record, not the file.
Time = int | float | str | bool | None


class _Handle(msgspec.Struct, gc=False, frozen=True):
    handle: int = 0


class _Correlation(msgspec.Struct, gc=False, frozen=True):
    internal: int = 0


class _Agent(msgspec.Struct, gc=False):
    id: _Handle = _Handle()
    type: int = 0
    product_name: str = ""
    name: str = ""


class _Symbol(msgspec.Struct, gc=False):
    kernel_id: int = 0
    formatted_kernel_name: str = ""
    kernel_name: str = ""


class _DispatchInfo(msgspec.Struct, gc=False):
    agent_id: _Handle = _Handle()
    kernel_id: int = 0


class _Record(msgspec.Struct, gc=False):
    """A record of any buffer: each buffer fills some of it."""

    start_timestamp: Time = None
    end_timestamp: Time = None
    kind: int | str = 0
    operation: int | str = 0
    thread_id: int = 0
    correlation_id: _Correlation = _Correlation()
    dispatch_info: _DispatchInfo | None = None
    stream_id: _Handle = _Handle()
    src_agent_id: _Handle = _Handle()
    dst_agent_id: _Handle = _Handle()

    @property
    def window(self) -> tuple[int, int] | None:
        """From when to when; None if those are no times."""
        start, end = self.start_timestamp, self.end_timestamp
        if type(start) is int and type(end) is int and 0 <= start < 2**62 and 0 <= end < 2**62:
            return start, end
        return None


class _Records(msgspec.Struct, gc=False, frozen=True):
    kernel_dispatch: list[_Record] = []
    memory_copy: list[_Record] = []
    hip_api: list[_Record] = []
    marker_api: list[_Record] = []


class _Kind(msgspec.Struct, gc=False):
    kind: str = ""
    operations: list[str] = []


class _Message(msgspec.Struct, gc=False):
    key: int = 0
    value: str = ""


class _Strings(msgspec.Struct, gc=False, frozen=True):
    buffer_records: list[_Kind] = []
    marker_api: list[_Message] = []


class _Metadata(msgspec.Struct, gc=False, frozen=True):
    pid: int = 0


class _Process(msgspec.Struct, gc=False):
    metadata: _Metadata = _Metadata()
    agents: list[_Agent] = []
    kernel_symbols: list[_Symbol] = []
    strings: _Strings = _Strings()
    buffer_records: _Records = _Records()


class _File(msgspec.Struct):
    processes: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool")


# --- the profile --------------------------------------------------------------------------------


class _Lanes:
    """The timelines of the devices, by process and agent."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.broken = 0
        self._lanes: dict[tuple[int, int], DeviceEvents] = {}

    def add(
        self, lane: tuple[int, int], record: _Record, text: str, launches: dict[int, int]
    ) -> None:
        """One record's event, on the timeline of its device."""
        window = record.window
        correlation = record.correlation_id.internal
        numbers = (record.stream_id.handle, correlation)
        if window is None or not all(abs(number) < 2**62 for number in numbers):
            self.broken += 1
            return
        launched_at = launches.get(correlation, UNKNOWN)
        events = self._lanes.setdefault(lane, DeviceEvents())
        events.add(*window, self.capture.names.place(text), *numbers, launched_at)

    def in_order(self) -> list[Lane]:
        """A lane for each device of each process; of more than a machine has, none."""
        if len(self._lanes) > MOST_DEVICES:
            self.capture.doubt(f"it has the work of {len(self._lanes)} devices", (), "own file")
            return []
        return [
            Lane(f"agent {agent} of process {process}", process, events, agent)
            for (process, agent), events in sorted(self._lanes.items())
        ]


def _capture(
    processes: Sequence[_Process], step_name: re.Pattern[str] | None, notes: list[str]
) -> Capture:
    capture = Capture(
        "rocprofv3",
        _NANOSECONDS_PER_MS,
        ranges=HostRanges(step_name),
        ranges_called="roctx ranges",
        facts=lambda lanes, _: _facts(processes, lanes),
        needs_device="no kernel was recorded: nothing ran on a GPU, or --kernel-trace was missing",
        notes=notes,
    )
    lanes = _Lanes(capture)
    for number, process in enumerate(processes):
        _add_process(lanes, number, process)
        _add_ranges(capture, number, process)
    capture.lanes = lanes.in_order()
    for number, process in enumerate(processes):
        own = [lane.events for lane in capture.lanes if lane.process == number]
        capture.launch_calls.add(list(_calls(process)), own)
    if lanes.broken:
        notes.append(f"{lanes.broken} records without times; left out")
    if not any(process.buffer_records.hip_api for process in processes):
        notes.append("HIP was not traced: launches are those that the dispatches name")
    return capture


def _add_process(lanes: _Lanes, number: int, process: _Process) -> None:
    launches = _launches(process)
    symbols = {
        symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name or "(no name)"
        for symbol in process.kernel_symbols
    }
    for record in process.buffer_records.kernel_dispatch:
        info = record.dispatch_info or _DispatchInfo()
        name = symbols.get(info.kernel_id, f"kernel {info.kernel_id}")
        lanes.add((number, info.agent_id.handle), record, name, launches)
    gpus = {agent.id.handle for agent in process.agents if agent.type == _GPU}
    operations = _operations(process, "MEMORY_COPY")
    for record in process.buffer_records.memory_copy:
        source, target = record.src_agent_id.handle, record.dst_agent_id.handle
        name = COPIES.get(_named(record.operation, operations), OTHER_COPY)
        lanes.add((number, source if source in gpus else target), record, name, launches)


def _calls(process: _Process) -> Iterator[Call]:
    """Calls of HIP by their names."""
    kinds = process.strings.buffer_records
    records = process.buffer_records.hip_api
    for first, last in blocks_of(len(records)):
        for record in records[first:last]:
            kind = record.kind if isinstance(record.kind, int) else -1
            operations = kinds[kind].operations if 0 <= kind < len(kinds) else []
            name, window = _named(record.operation, operations), record.window
            if window is not None and is_of_interest(name):
                yield Call(*window, record.correlation_id.internal, name)


def _launches(process: _Process) -> dict[int, int]:
    """When the HIP call was made that a correlation id stands for."""
    return {
        record.correlation_id.internal: window[0]
        for record in process.buffer_records.hip_api
        if (window := record.window) is not None
    }


def _operations(process: _Process, kind: str) -> list[str]:
    return next((row.operations for row in process.strings.buffer_records if row.kind == kind), [])


def _named(operation: int | str, operations: Sequence[str]) -> str:
    if isinstance(operation, int):
        known = 0 <= operation < len(operations)
        operation = operations[operation] if known else ""
    return operation.removeprefix("ROCPROFILER_")


def _add_ranges(capture: Capture, number: int, process: _Process) -> None:
    """The roctx ranges; a mark has no duration and is none."""
    texts = {message.key: message.value for message in process.strings.marker_api}
    backwards = 0
    for record in process.buffer_records.marker_api:
        text, window = texts.get(record.correlation_id.internal), record.window
        if text and window and window[1] > window[0]:
            capture.ranges.add(number, record.thread_id, text, *window)
        backwards += bool(window and window[1] < window[0])
    if backwards:
        capture.notes.append(f"{backwards} ranges end before they begin; left out")


def _facts(processes: Sequence[_Process], lanes: Sequence[Lane]) -> Facts:
    fields: dict[str, Any] = {"accelerator_count": len(lanes)}
    sources = {"accelerator_count": "agents on which kernels ran"}
    used = {(lane.process, lane.device) for lane in lanes}
    names = {
        agent.product_name or agent.name
        for number, process in enumerate(processes)
        for agent in process.agents
        if (number, agent.id.handle) in used
    }
    if not lanes:
        return Facts()
    if len(names) == 1 and (name := names.pop()):
        fields["accelerator"] = name
        sources["accelerator"] = "product_name of the agent"
        note = "the file tells neither the GPU's memory bandwidth nor the peak memory"
        return Facts(fields, sources, (note,))
    note = "the file does not name the GPU, or names several kinds; no peak memory"
    return Facts(fields, sources, (note,))
