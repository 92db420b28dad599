"""rocprofv3 of ROCm: the JSON of `rocprofv3 --output-format json`.

A file holds one process (or several) with its agents, the symbols of its kernels, and records in
buffers, all with times in nanoseconds. A dispatch names its kernel by an id and its launch by a
correlation id; whether the HIP calls and the roctx ranges are there depends on what was traced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Profile
from ci_score.traces.damaged_json import CUT_SHORT, ProfilerJson
from ci_score.traces.engine.device_steps import (
    UNKNOWN,
    Derived,
    DeviceEvents,
    Names,
    Way,
    derive,
    one_step,
    repeated_steps,
    slowest,
)
from ci_score.traces.engine.host_ranges import STEP_NAME, HostRanges
from ci_score.traces.source import ProfileSource

_NANOSECONDS_PER_MS = 1e6
_GPU = 2
_BEGIN = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')
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


def read(source: ProfileSource, step_name: re.Pattern[str] = STEP_NAME) -> Profile:
    """The profile of a rocprofv3 file; `step_name` is what the ranges of steps match."""
    text = ProfilerJson(source, "a whole JSON of rocprofv3")
    processes = text.decode(_File).processes
    with overflow_is_bad_input(source.name):
        profile = _profile(processes, step_name, text.notes)
    # Kernels come first, then the calls and ranges that tell their steps.
    return profile.model_copy(update={"unusable": CUT_SHORT}) if text.is_cut else profile


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


@dataclass(slots=True)
class _Capture:
    """The timelines of the devices, by process and agent."""

    names: Names
    lanes: dict[tuple[int, int], DeviceEvents]
    broken: int = 0

    def add(
        self, lane: tuple[int, int], record: _Record, name: int, launches: dict[int, int]
    ) -> None:
        """One record's event, on the timeline of its device."""
        window = record.window
        correlation = record.correlation_id.internal
        numbers = (record.stream_id.handle, correlation)
        if window is None or not all(abs(number) < 2**62 for number in numbers):
            self.broken += 1
            return
        launched_at = launches.get(correlation, UNKNOWN)
        self.lanes.setdefault(lane, DeviceEvents()).add(*window, name, *numbers, launched_at)


def _profile(
    processes: Sequence[_Process], step_name: re.Pattern[str], notes: list[str]
) -> Profile:
    capture = _Capture(Names(), {})
    ranges = HostRanges()
    for number, process in enumerate(processes):
        _add_process(capture, number, process)
        _add_ranges(ranges, number, process)
    lanes = {
        lane: events
        for lane, events in sorted(capture.lanes.items())
        if events.has_kernels(capture.names)
    }
    if capture.broken:
        notes.append(f"{capture.broken} records without times; left out")
    if not lanes:
        return Profile(
            tool="rocprofv3",
            notes=tuple(notes),
            unusable="no kernel was recorded: nothing ran on a GPU, or --kernel-trace was missing",
        )
    derived = [
        _derive(capture.names, ranges, lane, events, step_name) for lane, events in lanes.items()
    ]
    chosen, spread = slowest(derived)
    fields = dict(chosen.fields)
    hardware, hardware_notes = _hardware(processes, list(lanes))
    if not any(process.buffer_records.hip_api for process in processes):
        told = fields["sources"].get("kernel_launches_per_step")
        if told:
            fields["sources"]["kernel_launches_per_step"] = f"HIP was not traced: {told}"
    sources = {**fields.pop("sources"), **hardware.pop("sources")}
    return Profile(
        **fields,
        **hardware,
        tool="rocprofv3",
        sources=sources,
        notes=(*notes, *spread, *chosen.notes, *hardware_notes),
    )


def _add_process(capture: _Capture, number: int, process: _Process) -> None:
    launches = _launches(process)
    symbols = {
        symbol.kernel_id: capture.names.place(
            symbol.formatted_kernel_name or symbol.kernel_name or "(no name)"
        )
        for symbol in process.kernel_symbols
    }
    for record in process.buffer_records.kernel_dispatch:
        info = record.dispatch_info or _DispatchInfo()
        name = symbols.get(info.kernel_id)
        if name is None:
            name = capture.names.place(f"kernel {info.kernel_id}")
        capture.add((number, info.agent_id.handle), record, name, launches)
    gpus = {agent.id.handle for agent in process.agents if agent.type == _GPU}
    operations = _operations(process, "MEMORY_COPY")
    for record in process.buffer_records.memory_copy:
        source, target = record.src_agent_id.handle, record.dst_agent_id.handle
        operation = _named(record.operation, operations)
        name = capture.names.place(COPIES.get(operation, OTHER_COPY))
        capture.add((number, source if source in gpus else target), record, name, launches)


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


def _add_ranges(ranges: HostRanges, number: int, process: _Process) -> None:
    """The roctx ranges; a mark has no duration and is none."""
    texts = {message.key: message.value for message in process.strings.marker_api}
    for record in process.buffer_records.marker_api:
        text, window = texts.get(record.correlation_id.internal), record.window
        if text and window and window[1] > window[0]:
            ranges.add(number, record.thread_id, text, *window)


def _derive(
    names: Names,
    ranges: HostRanges,
    lane: tuple[int, int],
    events: DeviceEvents,
    step_name: re.Pattern[str],
) -> Derived:
    """A device's numbers: by its process's roctx ranges, else by what repeats, else as one step."""
    process, agent = lane
    marked = ranges.marked_steps(process, step_name)
    ways: list[Way] = []
    if marked is not None:
        ways.append(lambda events: (marked.steps("roctx", events), marked.phases()))
    ways += [ranges.unmarked(process, find) for find in (repeated_steps, one_step)]
    return derive(f"agent {agent} of process {process}", events, names, ways, _NANOSECONDS_PER_MS)


def _hardware(
    processes: Sequence[_Process], lanes: Sequence[tuple[int, int]]
) -> tuple[dict[str, Any], list[str]]:
    fields: dict[str, Any] = {
        "accelerator_count": len(lanes),
        "sources": {"accelerator_count": "agents on which kernels ran"},
    }
    names = {
        agent.product_name or agent.name
        for number, process in enumerate(processes)
        for agent in process.agents
        if (number, agent.id.handle) in lanes
    }
    if len(names) == 1 and (name := names.pop()):
        fields["accelerator"] = name
        fields["sources"]["accelerator"] = "product_name of the agent"
        return fields, ["the file tells neither the GPU's memory bandwidth nor the peak memory"]
    return fields, ["the file does not name the GPU, or names several kinds; no peak memory"]
