"""The PyTorch profiler's Chrome trace (Kineto), of 2021 until now, on NVIDIA and AMD.

A trace is read in one pass into columns (kineto_events). Here they become a profile: where the
steps are, which step launched which work of the device, and what of it belongs to which phase,
layer and op. Kineto's times are microseconds; the device's are counted in whole nanoseconds.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, pairwise, repeat
from math import inf
from operator import itemgetter
from typing import Any, TypeVar

from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.profile import Layer, Phase, Profile
from ci_score.traces.engine.categories import category_of, memcpy_direction
from ci_score.traces.engine.device_steps import (
    MOST_OPS,
    UNKNOWN,
    DeviceEvents,
    Names,
    Phases,
    Steps,
    StepWork,
    Way,
    capture_sums,
    derive,
    one_step,
    op_fields,
    repeated_steps,
    slowest,
    step_fields,
    sum_in_order,
    times_by_name,
    window_of,
    work_per_step,
)
from ci_score.traces.engine.timeline import Interval, Windows, intersection, length, subtract, union
from ci_score.traces.formats.kineto_events import (
    KERNEL,
    MEMCPY,
    MEMSET,
    OLD_ANNOTATION,
    Annotation,
    HostWork,
    Trace,
)
from ci_score.traces.formats.kineto_gaps import GAPS_BY, causes_of_gaps
from ci_score.traces.formats.kineto_ranges import read_trace
from ci_score.traces.formats.kineto_text import NONE
from ci_score.traces.source import ProfileSource

TOOL = "PyTorch profiler (Kineto)"
TICKS_PER_US = 1000
TICKS_PER_MS = 1_000_000
US_PER_MS = 1000.0

_BACKWARD_OP = "autograd::engine::evaluate_function"
_BACKWARD_NODE = re.compile(r"\w+Backward\d*|(struct )?torch::autograd::\w+")
_TRANSFER_NAMES = {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "d2d": "Memcpy DtoD"}
# Annotations that the communication library writes for itself say nothing about phases.
_LIBRARY_ANNOTATION = re.compile(
    r"(nccl|gloo|mpi|ucc|xccl|c10d)(:|::)|ProfilerStep|PyTorch Profiler"
)
_HASHES = re.compile(r"^#+\s*(.*?)\s*#*$")
# What PyTorch annotates by itself, by what everybody calls it.
_PHASES_OF_PYTORCH = (
    ("optimizer", re.compile(r"Optimizer\.step#")),
    ("zero_grad", re.compile(r"Optimizer\.zero_grad#")),
    ("data_loading", re.compile(r"enumerate\(DataLoader\)")),
    ("forward", re.compile(r"(Distributed|FullySharded)DataParallel\.forward$")),
)
_FORWARD = re.compile(r"forward|fwd", re.IGNORECASE)
_BACKWARD = re.compile(r"backward|bwd", re.IGNORECASE)
_DATA_PARALLEL = re.compile(r"(Distributed|FullySharded)DataParallel\.forward")
_DATA_PARALLEL_GROUP = re.compile(
    r"(^|[^a-z])(dp|ddp|fsdp|data_?parallel)([^a-z]|$)", re.IGNORECASE
)
# An annotation around everything names no phase: what is inside it does.
_WHOLE_STEP = 0.9
_HOST_PHASES = 3
# Backward operators less far apart than this share of a step belong to one backward pass.
_ONE_PASS = 0.02
# Of a trace that is cut short two steps make a period; operators vary a little from one to the
# next, and the runtime leaves out a fill of nothing.
_LEAST_WHOLE_STEPS = 2
_WHOLE_OPERATORS = 0.99
_WHOLE_FILLS = 0.9
# Marks less far apart than this share of a step follow each other.
_PAUSE = 0.5
_AT_ONCE = 65_536

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
    with overflow_is_bad_input(source.name):
        return _Draft(trace).profile()


@dataclass(frozen=True, slots=True)
class HostSteps:
    """The steps as the host marked them, in microseconds, and by what."""

    windows: list[Interval]
    evidence: str
    thread: int = NONE
    # Where a mark is missing between two, their distance is no step time.
    follows: Sequence[bool] = ()

    def adjacent(self, place: int) -> bool:
        """Whether the step at `place` came right after the one before it."""
        return place > 0 and (self.follows[place] if self.follows else True)

    def only(self, kept: Sequence[int]) -> HostSteps:
        """The steps at these places; where one was left out before it, a step follows none."""
        follows = [
            number > 0 and kept[number - 1] == place - 1 and self.adjacent(place)
            for number, place in enumerate(kept)
        ]
        return replace(self, windows=[self.windows[place] for place in kept], follows=follows)


@dataclass(slots=True)
class _Device:
    """The device's work in the shape in which steps are counted, and which launch began it."""

    events: DeviceEvents
    names: Names
    launch_of: array[int]
    kernels: int
    unmatched: int
    graph_launched: int


class _Draft:
    """A profile in the making: each method adds the fields that one question answers."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.base = _first_time(trace)
        self.steps = _marked_steps(trace)
        self.fields: dict[str, Any] = {"tool": _tool(trace.metadata)}
        self.sources: dict[str, str] = {}
        self.notes: list[str] = []
        self.capture: dict[str, float] = {"events": float(trace.events)}
        self.device = _device_work(trace, self.base)
        self.autograd = _Autograd(trace)

    def profile(self) -> Profile:
        """All of it, or why there is nothing."""
        self._note_what_was_broken()
        self._add_environment()
        reason = self._unusable()
        self._let_the_slowest_device_speak()
        if reason is None:
            self._add_steps()
            reason = None if self.fields.get("avg_step_ms", 0.0) > 0 else "its steps took no time"
        else:
            self._add_capture()
        return Profile(
            **self.fields,
            sources=self.sources,
            notes=tuple(self.notes),
            capture=self.capture,
            unusable=reason,
        )

    # --- what the file is like ---

    def _note_what_was_broken(self) -> None:
        trace = self.trace
        if trace.is_cut:
            self.notes.append("the trace is cut short: its last events are missing")
        if trace.dropped:
            self.notes.append(f"dropped {_count(trace.dropped, 'event')} that could not be read")
        if trace.mended:
            self.notes.append(f"mended {_count(trace.mended, 'event')} with broken text")
        if trace.impossible:
            times = "a negative or impossible time"
            self.notes.append(f"dropped {_count(trace.impossible, 'event')} with {times}")

    def _unusable(self) -> str | None:
        trace = self.trace
        if not trace.events:
            return "no events"
        if self.device.kernels:
            return self._unusable_cut() if trace.is_cut else None
        launched = trace.launches.kind.tobytes().count(bytes([KERNEL]))
        # Only a list of no devices says that there were none.
        if trace.is_cut and (launched or trace.metadata.get("deviceProperties") != []):
            return "the trace is cut short before the device's work: no whole step was measured"
        if launched:
            return (
                f"no kernels, though {_count(launched, 'call')} launched some: "
                "the device's profiler (CUPTI, roctracer) failed"
            )
        if not (trace.operators.start or trace.annotations):
            return "neither kernels nor operators were recorded"
        return self._unusable_cut() if trace.is_cut else None

    def _unusable_cut(self) -> str | None:
        """Of a trace that is cut short only whole steps count, that follow each other."""
        if not self.steps.windows:
            return "the trace is cut short, and without step markers no step is known to be whole"
        if self.device.graph_launched:
            return (
                "the trace is cut short, and whether its CUDA graphs have all kernels is not known"
            )
        whole = _longest_run(_whole_steps(self.trace, self.steps, self.device), self.steps)
        left_out = len(self.steps.windows) - len(whole)
        if len(whole) < _LEAST_WHOLE_STEPS:
            return (
                f"the trace is cut short: of {_count(len(self.steps.windows), 'step')} it is known"
                f" of {len(whole) or 'none'} that nothing is missing, and no whole step follows"
                " another"
            )
        if left_out:
            self.notes.append(f"left out {_count(left_out, 'step')} that the cut may have reached")
        self.steps = self.steps.only(whole)
        return None

    def _keep_steps(self, kept: Sequence[int]) -> None:
        if kept and self.steps.windows:
            self.steps = self.steps.only(kept)

    # --- where it ran ---

    def _add_environment(self) -> None:
        metadata = self.trace.metadata
        job = _mapping(metadata.get("distributedInfo"))
        rank, world = _number(job.get("rank")), _number(job.get("world_size"))
        if rank is not None and rank >= 0:
            self._set("rank", rank, "distributedInfo")
        if world is not None and 1 <= world <= 10**6:
            self._set("world_size", world, "distributedInfo")
        self._add_accelerator(metadata, world)
        if self.trace.is_cut and self.trace.peak_allocated > 0:
            self.notes.append("no peak memory: the events that tell it may be cut off")
        elif self.trace.peak_allocated > 0:
            self._set(
                "peak_memory_gb",
                self.trace.peak_allocated / 1e9,
                "the largest Total Allocated of the [memory] events",
            )
        elif self.trace.memory_events:
            self.notes.append("no peak memory: the [memory] events of this trace hold no totals")
        elif self.trace.devices:
            self.notes.append("no peak memory: profile_memory=True records it")

    def _add_accelerator(self, metadata: Mapping[str, Any], world: int | None) -> None:
        listed = metadata.get("deviceProperties") or metadata.get("computeProperties") or []
        cards = [_mapping(each) for each in listed] if isinstance(listed, list) else []
        devices = {str(name) for name in _busy_devices(self.trace).values()}
        used = [card for card in cards if str(card.get("id")) in devices]
        names = {str(card["name"]) for card in used or cards if card.get("name")}
        if len(names) == 1 and (devices or used or not self.device.kernels):
            self._set("accelerator", names.pop(), "deviceProperties")
        elif self.device.kernels:
            told = (
                "names several kinds of accelerator" if names else "does not name the accelerator"
            )
            self.notes.append(f"the trace {told}")
        sizes = {_number(card.get("totalGlobalMem")) for card in used}
        if len(sizes) == 1 and (size := sizes.pop()) is not None and size > 0:
            self._set("accelerator_memory_gb", size / 1e9, "totalGlobalMem of deviceProperties")
        bandwidth = _peak_bandwidth(used)
        if bandwidth is not None:
            self._set("peak_bandwidth_gb_s", bandwidth, "deviceProperties")
        if world is not None and 1 <= world <= 10**6 and len(devices) == 1:
            self._set(
                "accelerator_count", world, "world_size of distributedInfo, one device a rank"
            )
        elif devices and (world is None or world == 1):
            self._set("accelerator_count", len(devices), "devices on which kernels ran")
        elif devices:
            self.notes.append(
                f"this rank used {len(devices)} devices; how many the others did is not known"
            )

    def _let_the_slowest_device_speak(self) -> None:
        """Of several devices in one process each has its own numbers; steps are theirs together."""
        if len(self.trace.devices.keys() - {None}) < 2 or not self.device.kernels:
            return
        busy = _busy_devices(self.trace)
        if not busy:
            return
        ways: list[Way] = [lambda events: (repeated_steps(events), Phases()), _as_one_step]
        if self.steps.windows:
            marked = self._device_steps()
            ways.insert(0, lambda _: (marked, Phases()))
        traces = [replace(self.trace, device=self.trace.device.only(place)) for place in busy]
        devices = [_device_work(trace, self.base) for trace in traces]
        derived = [
            derive(f"device {name}", device.events, device.names, ways, TICKS_PER_MS)
            for name, device in zip(busy.values(), devices, strict=True)
        ]
        chosen, spread = slowest(derived)
        place = derived.index(chosen)
        others = len(self.device.events) - sum(len(device.events) for device in devices)
        self.trace, self.device = traces[place], devices[place]
        self.notes += spread
        if others:
            self.notes.append(
                f"{_count(others, 'device event')} on a device without kernels, or of which no"
                " device is told: not counted"
            )

    # --- the whole capture ---

    def _add_capture(self, all_work: Sequence[StepWork] = ()) -> None:
        """The sums over it; `all_work` are the steps where they hold every event of the device."""
        device = self.device
        self.capture["kernels"] = float(device.kernels)
        host = _host_step_ms(self.steps)
        if host:
            self.capture["host_step_ms"] = host
        if not len(device.events):
            return
        self.capture |= capture_sums(device.events, device.names, TICKS_PER_MS, all_work)
        totals: Counter[str] = Counter()
        events = device.events
        everything = times_by_name(events.names, events.starts, events.ends) if not all_work else {}
        for ops in (everything, *(work.ops for work in all_work)):
            for name, ticks in ops.items():
                totals[device.names.categories[name]] += ticks
        for category, ticks in totals.most_common():
            self.capture[f"ops_ms_total.{category}"] = ticks / TICKS_PER_MS
        self.capture["graph_launched_kernels"] = float(device.graph_launched)

    # --- what a step costs ---

    def _add_steps(self) -> None:
        works, steps, phases = self._attributed()
        if works:
            self._take(step_fields(works, self.device.names, steps, TICKS_PER_MS))
            self._mend_host_times(works, steps)
            self._add_ops(works, steps, phases)
        else:
            self._add_host_steps()
        windows = [(begin, end) for begin, end in self.steps.windows] or [self._everything()]
        if works:
            self.sources["phases"] = (
                f"{phases.evidence}; the device's time by launch, no moment twice: copies count"
                " here where nothing else runs, and in ops in full"
            )
            self._note_phases_of_the_host(phases, len(windows))
        else:
            self._add_host_phases(phases, windows)
            self._add_host_ops(windows)
        self._add_wall_coverage(phases, windows)
        if len(windows) != self.fields["steps"]:
            self.notes.append("no layers, no tokens: the host's part of each step is not known")
            return
        self._add_layers(windows, bool(works))
        self._add_tokens(windows)

    def _attributed(self) -> tuple[list[StepWork], Steps, _PhaseWindows]:
        """The device's work of each step, where its work can be told apart by steps."""
        device = self.device
        steps = self._device_steps()
        host_windows = self.steps.windows or [self._everything()]
        backward = self.autograd.windows(host_windows)
        phases = _phase_windows(self.trace, host_windows, self.steps.thread, backward)
        if not device.kernels:
            self._add_capture()
            return [], steps, phases
        ticks = Phases([self._ticks(window) for window in phases.windows], phases.names)
        works, unattributed = work_per_step(device.events, device.names, steps, ticks)
        self.capture["unattributed_gpu_events"] = float(unattributed)
        if device.unmatched and not steps.by_launch:
            self.notes.append(
                f"of {device.unmatched} of {_count(len(device.events), 'device event')} the launch"
                " is not known: they count by the time at which they ran, and for no phase"
            )
        if not any(work.launches for work in works):
            self.notes.append("no launches a step: no device event tells which call started it")
        kept = [place for place, work in enumerate(works) if work.kernels]
        self._add_capture(works if not unattributed and len(kept) == len(works) else ())
        if unattributed:
            counted = sum(work.time.busy for work in works) / TICKS_PER_MS
            total = self.capture["gpu_busy_ms"]
            share = 100 * max(1 - counted / total, 0.0) if total else 0.0
            self.notes.append(
                f"{_count(unattributed, 'device event')} of {len(device.events)} belong to no step"
                f" ({device.unmatched} without the call that launched them): not counted,"
                f" {share:.1f} % of the device's time"
            )
        if len(kept) == 1:
            return works, steps, phases
        if len(kept) < len(works):
            missing = len(works) - len(kept)
            self.notes.append(f"{_count(missing, 'step')} without kernels left out")
            self._keep_steps(kept)
        return [works[place] for place in kept], steps.only(kept), phases

    def _device_steps(self) -> Steps:
        """Where the steps are, for the device's events."""
        if self.steps.windows:
            windows = [self._ticks(window) for window in self.steps.windows]
            follows = [self.steps.adjacent(place) for place in range(len(windows))]
            return Steps(
                windows, self.steps.evidence, by_launch=True, follows=follows, host_times=True
            )
        repeated = repeated_steps(self.device.events) if self.device.kernels else None
        if repeated is not None and _is_all_there_is(repeated, self.device):
            self.notes.append(f"no step markers: steps are {repeated.evidence}")
            self.steps = HostSteps(self._launch_windows(repeated), repeated.evidence)
            return repeated
        self.notes.append(
            "no step markers, no repeated sequence: the capture counts as one step, which takes as"
            " long as the device's work in it, from first start to last end"
        )
        ends = self.device.events.ends or [1]
        starts = self.device.events.starts or [0]
        whole = (min(starts), max(ends) + 1)
        return Steps([whole], "no step marker, the whole capture")

    def _launch_windows(self, steps: Steps) -> list[Interval]:
        """When the host launched the units of repeated work: none where not all are known."""
        events = self.device.events
        first: dict[int, int] = {}
        places = window_of(events.starts, steps.windows)
        for place, at in zip(places, events.launched_at, strict=True):
            if place >= 0 and at != UNKNOWN:
                first[place] = min(at, first.get(place, at))
        begins = [self.base + first[place] / TICKS_PER_US for place in sorted(first)]
        if len(begins) < len(steps.windows) or sorted(begins) != begins:
            return []
        return list(pairwise([*begins, max(self._everything()[1], begins[-1])]))

    def _mend_host_times(self, works: Sequence[StepWork], steps: Steps) -> None:
        """Where but one step ran kernels there is no period of the device's, only the host's."""
        ran = [work for work in works if work.kernels]
        if not steps.host_times or len(ran) > 1:
            return
        place = next(place for place, work in enumerate(works) if work.kernels)
        self.notes.append(
            "only one step ran kernels, so that the device has no period: the step time is the"
            f" host's{self._doubts_of_host_time(steps.windows[place], ran[0])}"
        )
        if len(works) > 1:
            self.notes.append(
                f"the device worked in one of {len(works)} steps: its numbers are means over all"
            )
        self._add_host_period()
        period, time = self.fields["avg_step_ms"], ran[0].time
        for phase in self.fields["phases"].values():
            phase["pct"] = 100 * phase["total_ms"] / period if period > 0 else 0.0
        self.fields["device_idle_share"] = 1 - time.busy / time.span if time.span > 0 else 0.0

    def _doubts_of_host_time(self, window: tuple[int, int], work: StepWork) -> str:
        """Which way the host's time of a step may be wrong: the device works for it later."""
        doubts = []
        older, older_ms = self._older_work(window)
        if older:
            doubts.append(
                f"it may be long, because for {older_ms:.4g} ms of it the device still ran"
                f" {_count(older, 'event')} launched before"
            )
        late = (work.time.last - window[1]) / TICKS_PER_MS
        if late > 0:
            doubts.append(f"it may be short, because the device ended {late:.4g} ms after it")
        return "".join(f"; {doubt}" for doubt in doubts)

    def _older_work(self, window: tuple[int, int]) -> tuple[int, float]:
        """How many events the device ran in a window though they were launched before, how long."""
        events = self.device.events
        spans = [
            (start, end)
            for start, end, at in zip(events.starts, events.ends, events.launched_at, strict=True)
            if at < window[0] < end and start < window[1]
        ]
        return len(spans), length(intersection(union(spans), [window])) / TICKS_PER_MS

    def _add_host_steps(self) -> None:
        """Steps by the host's clock, where no device's work belongs to any."""
        windows = self.steps.windows
        if self.device.kernels:
            self.notes.append("no device work could be told apart by steps: host times only")
        else:
            self.notes.append("no kernels: times are those of the host")
        if windows:
            self._set("steps", len(windows), self.steps.evidence)
            self._add_host_period()
            return
        begin, end = self._everything()
        self._set("steps", 1, "no step marker, the whole capture")
        self._set(
            "avg_step_ms", (end - begin) / US_PER_MS, "no step marker: the span of all host events"
        )

    def _add_host_period(self) -> None:
        self._set("avg_step_ms", _host_step_ms(self.steps), _host_source(self.steps))
        self.fields["step_times_ms"] = tuple(_host_periods_ms(self.steps))

    # --- ops and gaps ---

    def _add_ops(self, works: Sequence[StepWork], steps: Steps, phases: _PhaseWindows) -> None:
        device = self.device
        ticks = Phases([self._ticks(window) for window in phases.windows], phases.names)
        self._take(op_fields(works, device.names, ticks, TICKS_PER_MS))
        causes = causes_of_gaps(self.trace, device.events, works, steps, self._ticks)
        if causes is not None:
            self._set("idle_causes", causes, GAPS_BY)

    # --- phases ---

    def _add_host_phases(self, phases: _PhaseWindows, windows: Sequence[Interval]) -> None:
        times: dict[str, list[Interval]] = defaultdict(list)
        for name, window in zip(phases.names, phases.windows, strict=True):
            times[name].append(window)
        period = self.fields["avg_step_ms"]
        means = {
            name: length(union(spans)) / US_PER_MS / len(windows) for name, spans in times.items()
        }
        self.fields["phases"] = {
            name: Phase(total_ms=mean, avg_ms=mean, pct=100 * mean / period if period else 0.0)
            for name, mean in means.items()
        }
        if means:
            self.sources["phases"] = f"{phases.evidence}; host time"

    def _note_phases_of_the_host(self, phases: _PhaseWindows, steps: int) -> None:
        """What the host spends in phases that start no work, as loading data: no time of phases."""
        times: dict[str, list[Interval]] = defaultdict(list)
        for name, window in zip(phases.names, phases.windows, strict=True):
            if name not in self.fields["phases"]:
                times[name].append(window)
        spent = {name: length(union(spans)) / US_PER_MS / steps for name, spans in times.items()}
        largest = sorted(spent, key=lambda name: (-spent[name], name))[:_HOST_PHASES]
        if largest:
            told = ", ".join(f"{name} {spent[name]:.4g} ms" for name in largest)
            more = f" and {len(spent) - len(largest)} more" if len(spent) > len(largest) else ""
            self.notes.append(
                f"phases in which the host starts no work on the device, a step: {told}{more}"
            )

    def _add_wall_coverage(self, phases: _PhaseWindows, windows: Sequence[Interval]) -> None:
        wall = length(windows)
        if phases.annotated and wall > 0:
            covered = length(intersection(union(phases.annotated), union(windows)))
            what = "annotated phases / host time of the steps"
            if self.device.kernels:
                what += ", both by the host's clock"
            self._set("wall_coverage", min(covered / wall, 1.0), what)
        elif self.fields.get("device_busy_ms") and self.fields["avg_step_ms"] > 0:
            share = self.fields["device_busy_ms"] / self.fields["avg_step_ms"]
            self._set("wall_coverage", min(share, 1.0), "device busy time / step time")

    # --- ops of the host ---

    def _add_host_ops(self, windows: Sequence[Interval]) -> None:
        """Without kernels the operators' own time, without that of the operators they called."""
        names = list(self.trace.names)
        own = _own_times(self.trace.operators, windows)
        ops = {names[name]: time / US_PER_MS / len(windows) for name, time in own.most_common()}
        kept = {name: ms for name, ms in ops.items() if not OLD_ANNOTATION.match(name)}
        self.fields["ops"] = dict(list(kept.items())[:MOST_OPS])
        if kept:
            self.sources["ops"] = "operators on the host, without those they called"

    # --- layers ---

    def _add_layers(self, windows: Sequence[Interval], on_device: bool) -> None:
        # What autograd did for a layer is told by operators, which a cut may have taken.
        known = not self.trace.is_cut or len(self.trace.operators.start)
        layers = _find_layers(self.trace, windows) if known else None
        if layers is None:
            lost = (
                "the cut may have taken them" if self.trace.is_cut else "with_stack, with_modules"
            )
            self.notes.append(f"no layers: no repeated nn.Module was recorded ({lost})")
            return
        if on_device:
            times = _device_layer_times(self.trace, self.device, layers, self.autograd, windows)
        else:
            times = _host_layer_times(self.trace, layers, self.autograd)
        self.fields["per_layer"] = tuple(
            _layer(number, each, len(windows)) for number, each in times
        )
        clock = "kernels by launch" if on_device else "host time"
        self.sources["per_layer"] = f"nn.Module {layers.container}, {clock}; backward by sequence"

    # --- tokens ---

    def _add_tokens(self, windows: Sequence[Interval]) -> None:
        inside = Windows(windows)
        calls = [call for call in self.trace.embeddings if inside.at(call.time) >= 0]
        if not calls:
            self.notes.append(
                "no tokens a step: no aten::embedding with its shapes was recorded (record_shapes)"
            )
            return
        largest = max(call.vocabulary for call in calls)
        mine = sum(call.tokens for call in calls if call.vocabulary == largest) / len(windows)
        world = self.fields.get("world_size", 1)
        degree = 1 if world == 1 else self._data_parallel_degree(world)
        inferred = f"inferred from the shapes of aten::embedding, vocabulary {largest}"
        if degree is None:
            self.notes.append(
                f"tokens: {mine:g} a step on this rank ({inferred}); of {world} ranks it is not"
                " known how many saw other data, so the job's are not derived"
            )
            return
        self._set("tokens_per_step", mine * degree, f"{inferred}, × {degree} data-parallel ranks")
        self.fields["tokens_inferred"] = True
        self.notes.append(f"tokens per step are {inferred}")

    def _data_parallel_degree(self, world: int) -> int | None:
        """How many ranks see different data, where the trace tells."""
        job = _mapping(self.trace.metadata.get("distributedInfo"))
        groups = job.get("pg_config")
        groups = [_mapping(each) for each in groups] if isinstance(groups, list) else []
        sizes = [
            _number(group.get("pg_size"))
            for group in groups
            if _DATA_PARALLEL_GROUP.search(str(group.get("pg_desc", "")))
        ]
        known = [size for size in sizes if size is not None and 1 <= size <= world]
        if known:
            return max(known)
        wrapped = any(_DATA_PARALLEL.search(each.name) for each in self.trace.annotations)
        return world if wrapped and len(groups) == 1 else None

    # --- small things ---

    def _set(self, name: str, value: Any, source: str) -> None:
        self.fields[name] = value
        self.sources[name] = source

    def _take(self, fields: dict[str, Any]) -> None:
        self.sources |= fields.pop("sources", {})
        self.fields |= fields

    def _ticks(self, window: Interval) -> tuple[int, int]:
        return _tick(window[0], self.base), _tick(window[1], self.base)

    def _everything(self) -> Interval:
        """From the first event of the host to the last."""
        trace = self.trace
        begins = [trace.operators.start, trace.launches.start]
        ends = [trace.operators.end, trace.launches.start]
        spans = [(min(begin), max(end)) for begin, end in zip(begins, ends, strict=True) if begin]
        spans += [(each.start, each.end) for each in trace.annotations]
        if not spans and trace.device.start:
            spans = [(min(trace.device.start), max(trace.device.end))]
        if not spans:
            return 0.0, 0.0
        return min(begin for begin, _ in spans), max(end for _, end in spans)


def _tool(metadata: Mapping[str, Any]) -> str:
    version = metadata.get("schemaVersion")
    return f"{TOOL}, schema {version}" if isinstance(version, int) else TOOL


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


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


def _busy_devices(trace: Trace) -> dict[int, int | str | None]:
    """The places and names of the devices that ran kernels, or where none did, did anything."""
    work = trace.device
    ran: set[int] = set()
    if len(trace.devices) > 1:
        ran.update(compress(work.device, [kind == KERNEL for kind in work.kind]))
    names = {place: name for name, place in trace.devices.items()}
    known = {place: names[place] for place in sorted(ran or trace.devices.values())}
    return {place: name for place, name in known.items() if name is not None}


def _as_one_step(events: DeviceEvents) -> tuple[Steps | None, Phases]:
    return one_step(events), Phases()


def _first_time(trace: Trace) -> float:
    """What nanoseconds are counted from: the epoch's would not fit a double."""
    columns = (trace.device.start, trace.launches.start, trace.operators.start)
    return min((column[0] for column in columns if column), default=0.0)


def _tick(time: float, base: float) -> int:
    return round((time - base) * TICKS_PER_US)


Number = TypeVar("Number", int, float)


def _ticks(times: array[float], base: float) -> array[int]:
    """All of a column. By the piece: a list of ten million numbers would be half a gigabyte."""
    ticks = array("q")
    for piece in _pieces(times):
        ticks.fromlist([round((time - base) * TICKS_PER_US) for time in piece])
    return ticks


def _pieces(column: array[Number]) -> Iterator[array[Number]]:
    return (column[first : first + _AT_ONCE] for first in range(0, len(column), _AT_ONCE))


# --- steps --------------------------------------------------------------------------------------


def _marked_steps(trace: Trace) -> HostSteps:
    """The steps by the best mark that there is."""
    profiler = [each for each in trace.annotations if each.name.startswith("ProfilerStep")]
    if profiler:
        return _steps_of_marks(profiler, "ProfilerStep#")
    optimizer = [each for each in trace.annotations if each.name.startswith("Optimizer.step#")]
    if optimizer:
        return _steps_between(optimizer, trace)
    numbered = [each for each in trace.annotations if each.step is not None]
    if numbered:
        return _steps_of_marks(numbered, "annotations with step_num")
    return HostSteps([], "")


def _steps_of_marks(marks: Sequence[Annotation], evidence: str) -> HostSteps:
    """One step a mark, on the thread that has most of them; one mark within another is none."""
    thread = Counter(each.thread for each in marks).most_common(1)[0][0]
    mine = sorted(
        (each.start, each.end, _step_number(each)) for each in marks if each.thread == thread
    )
    windows: list[Interval] = []
    follows: list[bool] = []
    last = NONE
    for begin, end, number in mine:
        if windows and (end <= windows[-1][1] or begin <= windows[-1][0]):
            continue
        if windows and begin < windows[-1][1]:
            windows[-1] = (windows[-1][0], begin)
        pause = begin - windows[-1][1] if windows else 0.0
        follows.append(bool(windows) and (number == last + 1 or pause < _PAUSE * (end - begin)))
        windows.append((begin, end))
        last = number
    return HostSteps(windows, evidence, thread, follows)


def _step_number(mark: Annotation) -> int:
    digits = mark.step if mark.step is not None else mark.name.partition("#")[2]
    return int(digits[:18]) if digits.isascii() and digits.isdigit() else NONE


def _steps_between(marks: Sequence[Annotation], trace: Trace) -> HostSteps:
    """From the end of one optimizer's step to the end of the next: the first step began unseen."""
    thread = Counter(each.thread for each in marks).most_common(1)[0][0]
    mine = [each for each in marks if each.thread == thread]
    name = Counter(each.name for each in mine).most_common(1)[0][0]
    ends = sorted(each.end for each in mine if each.name == name)
    if len(ends) > 1:
        windows = [(begin, end) for begin, end in pairwise(ends) if begin < end]
        return HostSteps(windows, f"from {name} to {name}", thread)
    columns = (trace.operators.start, trace.launches.start)
    begin = min([mine[0].start, *(min(column) for column in columns if column)])
    return HostSteps([(begin, ends[0])], f"up to the only {name}", thread)


def _host_periods_ms(steps: HostSteps) -> list[float]:
    """From the start of each step to that of the one right after it."""
    return [
        (steps.windows[place][0] - steps.windows[place - 1][0]) / US_PER_MS
        for place in range(1, len(steps.windows))
        if steps.adjacent(place)
    ]


def _host_step_ms(steps: HostSteps) -> float:
    """The mean period, or where no step follows another, the mean span."""
    spans = [(end - begin) / US_PER_MS for begin, end in steps.windows]
    times = _host_periods_ms(steps) or spans
    return sum_in_order(times) / len(times) if times else 0.0


def _host_source(steps: HostSteps) -> str:
    count = len(steps.windows)
    if count == 1:
        return f"host span of one step ({steps.evidence})"
    if not _host_periods_ms(steps):
        return f"host span of {count} steps, none right after another ({steps.evidence})"
    return f"host period of {count} steps ({steps.evidence})"


def _is_all_there_is(steps: Steps, device: _Device) -> bool:
    """Whether the repeated units are steps: layers repeat as well, but between others' kernels."""
    inside: set[int] = set()
    outside: set[int] = set()
    events = device.events
    places = window_of(events.starts, steps.windows)
    for name, place in zip(events.names, places, strict=True):
        (inside if place >= 0 else outside).add(name)
    return not any(device.names.is_kernel(name) for name in outside - inside)


def _longest_run(places: Sequence[int], steps: HostSteps) -> list[int]:
    """The most of these steps that come one right after the other; of equals the first."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place - 1 and steps.adjacent(place):
            runs[-1].append(place)
        else:
            runs.append([place])
    return max(runs, key=len, default=[])


def _whole_steps(trace: Trace, steps: HostSteps, device: _Device) -> list[int]:
    """The places of the steps of a trace that is cut short of which nothing is missing.

    The text is in no order: calls and the work that they started come in buffers, and any of both
    may be behind the cut. So each call has to have its work, no work without a call may be the
    step's, and what is lost of both, or of the host's, shows beside the fullest step.
    """
    windows = Windows(steps.windows)
    step_of = array("i", windows.places(trace.launches.start))
    matched = set(device.launch_of)
    called = Counter(zip(step_of, trace.launches.kind, strict=True))
    worked = Counter(
        (step_of[launch], trace.launches.kind[launch]) for launch in matched if launch >= 0
    )
    # The last is for work without a call, whose place is -1.
    step_of.append(NONE)
    events = Counter(step_of[launch] for launch in device.launch_of)
    modules = Counter(windows.places(trace.modules.start))
    annotations = Counter(windows.places(each.start for each in trace.annotations))
    operators = Counter(windows.places(trace.operators.start))
    places = range(len(steps.windows))
    most_operators = max(operators[place] for place in places)
    tallies = [
        (
            worked[place, KERNEL] if device.kernels else operators[place],
            *(worked[place, kind] for kind in (MEMCPY, MEMSET)),
            *(each[place] for each in (events, modules, annotations)),
        )
        for place in places
    ]
    fullest = tuple(map(max, zip(*tallies, strict=True)))
    doubtful = _doubtful_steps(trace, steps, device)
    return [
        place
        for place in places
        if tallies[place] == fullest
        and fullest[0]
        and place not in doubtful
        and all(worked[place, kind] == called[place, kind] for kind in (KERNEL, MEMCPY))
        and worked[place, MEMSET] >= _WHOLE_FILLS * called[place, MEMSET]
        and operators[place] >= _WHOLE_OPERATORS * most_operators
    ]


def _doubtful_steps(trace: Trace, steps: HostSteps, device: _Device) -> set[int]:
    """The steps that may have started work whose call is missing.

    A stream runs its work in the order of the calls: a call was made between those of the work
    before and after, and before its own work. What ran before all work that has calls was started
    before the profiler.
    """
    columns, launches = trace.device, trace.launches
    pairs = zip(columns.start, device.launch_of, strict=True)
    first = min((start for start, launch in pairs if launch >= 0), default=-inf)
    lanes: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for start, launch, lane in zip(
        columns.start,
        device.launch_of,
        zip(columns.device, columns.stream, strict=True),
        strict=True,
    ):
        lanes[lane].append((start, launch))
    doubtful: set[int] = set()
    for work in lanes.values():
        work.sort()
        calls = [launches.start[launch] if launch >= 0 else None for _, launch in work]
        after = list(accumulate(reversed(calls), _last_known))
        before = -inf
        for (start, _), call, next_call in zip(work, calls, reversed(after), strict=True):
            if call is not None:
                before = call
            elif start >= first:
                until = start if next_call is None else min(start, next_call)
                doubtful.update(_overlapping(steps.windows, before, until))
    return doubtful


def _last_known(known: float | None, time: float | None) -> float | None:
    return known if time is None else time


def _overlapping(windows: Sequence[Interval], begin: float, end: float) -> range:
    """The places of those that reach into a span of time."""
    first = bisect_right(windows, begin, key=itemgetter(1))
    return range(first, max(bisect_right(windows, end, key=itemgetter(0)), first))


# --- the device's work --------------------------------------------------------------------------


def _device_work(trace: Trace, base: float) -> _Device:
    """The device's columns in nanoseconds, each event with the launch that it came from."""
    columns, names = trace.device, Names()
    texts = list(trace.names)
    keys = set(zip(columns.name, columns.kind, strict=True))
    places = {key: _place(names, texts[key[0]], key[1]) for key in sorted(keys)}
    launch_of = _launches_of(trace)
    # The last is for those without a launch, whose place is -1.
    begun = _ticks(trace.launches.start, base)
    begun.append(UNKNOWN)
    events = DeviceEvents()
    events.extend(
        _ticks(columns.start, base),
        _ticks(columns.end, base),
        map(places.__getitem__, zip(columns.name, columns.kind, strict=True)),
        iter(columns.stream),
        _known(columns.correlation),
        map(begun.__getitem__, launch_of),
    )
    kernels = columns.kind.tobytes().count(bytes([KERNEL]))
    from_graphs = 0
    if len(set(columns.correlation)) < len(columns.correlation):
        launched = Counter(
            correlation
            for correlation, kind in zip(columns.correlation, columns.kind, strict=True)
            if kind == KERNEL and correlation != NONE
        )
        from_graphs = sum(count for count in launched.values() if count > 1)
    unmatched = launch_of.count(NONE)
    return _Device(events.tidied()[0], names, launch_of, kernels, unmatched, from_graphs)


def _known(correlations: array[int]) -> Iterable[int]:
    if NONE not in correlations:
        return correlations
    return (UNKNOWN if each == NONE else each for each in correlations)


def _place(names: Names, text: str, kind: int) -> int:
    if kind == KERNEL:
        return names.place(text, category_of(text))
    if kind == MEMCPY:
        return names.place(_TRANSFER_NAMES.get(memcpy_direction(text) or "", text), "memcpy")
    return names.place(text, "memset")


def _launches_of(trace: Trace) -> array[int]:
    """For each device event the call that launched it: by correlation, else by External id."""
    launches, device = trace.launches, trace.device
    by_correlation = dict(zip(launches.correlation, range(len(launches.correlation)), strict=True))
    by_correlation.pop(NONE, None)
    found = array("i")
    for piece in _pieces(device.correlation):
        found.fromlist(list(map(by_correlation.get, piece, repeat(NONE))))
    if NONE not in found:
        return found
    by_id: dict[int, int] = {}
    for place, each in enumerate(launches.external_id):
        by_id.setdefault(each, place)
    by_id.pop(NONE, None)
    ids = zip(found, device.external_id, strict=True)
    return array("i", (by_id.get(each, NONE) if place < 0 else place for place, each in ids))


# --- phases -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _PhaseWindows:
    """Named windows of the host's time, sorted and disjoint."""

    windows: list[Interval] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    annotated: list[Interval] = field(default_factory=list)
    evidence: str = ""


def _phase_windows(
    trace: Trace, steps: Sequence[Interval], thread: int, backward: Sequence[Interval]
) -> _PhaseWindows:
    """The phases of the steps: the program's annotations, else what autograd's operators tell."""
    named = _annotated_phases(trace, steps, thread)
    annotated = [window for _, window in named]
    knows_forward = any(_FORWARD.search(name) for name, _ in named)
    knows_backward = any(_BACKWARD.search(name) for name, _ in named)
    evidence = ["annotations"] if named else []
    if backward and not knows_backward:
        evidence.append("backward by autograd's operators")
        free = subtract(backward, union(annotated))
        named += [("backward", window) for window in free]
        if not knows_forward:
            evidence.append("forward is what came before")
            taken = union([*annotated, *backward])
            named += [("forward", each) for each in subtract(_before(backward, steps), taken)]
    named.sort(key=lambda item: item[1])
    return _PhaseWindows(
        [window for _, window in named],
        [name for name, _ in named],
        annotated,
        ", ".join(evidence) or "neither annotations nor autograd's operators",
    )


def _annotated_phases(
    trace: Trace, steps: Sequence[Interval], thread: int
) -> list[tuple[str, Interval]]:
    """The outermost annotations of each step on the thread that steps, with what they contain."""
    mine = [
        each
        for each in trace.annotations
        if not _LIBRARY_ANNOTATION.match(each.name) and each.step is None
    ]
    if thread == NONE and mine:
        thread = Counter(each.thread for each in mine).most_common(1)[0][0]
    mine = [each for each in mine if each.thread == thread]
    mine.sort(key=lambda each: (each.start, -each.end))
    by_step: dict[int, list[Annotation]] = defaultdict(list)
    for each, place in zip(mine, Windows(steps).places(each.start for each in mine), strict=True):
        if place >= 0:
            by_step[place].append(each)
    return [
        (_phase_name(each.name), (each.start, min(each.end, steps[place][1])))
        for place, inside in by_step.items()
        for each in _outermost(inside, steps[place])
    ]


def _outermost(annotations: Sequence[Annotation], step: Interval) -> list[Annotation]:
    """Those that lie in no other, unless one lies around nearly all of the step."""
    outer: list[Annotation] = []
    end = float("-inf")
    for each in annotations:
        if each.start >= end:
            outer.append(each)
            end = each.end
    around = max(outer, key=lambda each: each.end - each.start)
    inside = [each for each in annotations if each is not around and _contains(around, each)]
    if inside and around.end - around.start > _WHOLE_STEP * (step[1] - step[0]):
        rest = [each for each in outer if each is not around]
        return sorted([*rest, *_outermost(inside, step)], key=lambda each: each.start)
    return outer


def _contains(outer: Annotation, inner: Annotation) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _phase_name(name: str) -> str:
    """`## forward ##` is `forward`, and so is what PyTorch calls `DistributedDataParallel.forward`.

    Whose step of the optimizer it is tells the optimizer's name, and not what the phase is.
    """
    for phase, pattern in _PHASES_OF_PYTORCH:
        if pattern.match(name):
            return phase
    match = _HASHES.match(name)
    return (match.group(1) if match else name) or name


class _Autograd:
    """When autograd ran, by its operators."""

    def __init__(self, trace: Trace) -> None:
        operators = trace.operators
        self.names = _backward_names(trace)
        is_mine = bytes(name in self.names for name in range(len(trace.names)))
        self.calls = list(
            compress(range(len(operators.name)), map(is_mine.__getitem__, operators.name))
        )
        self.spans = sorted([(operators.start[call], operators.end[call]) for call in self.calls])
        self._passes: tuple[Sequence[Interval], list[Interval]] = ((), [])

    def windows(self, steps: Sequence[Interval]) -> list[Interval]:
        """Its passes within the steps, which are asked for again and again."""
        if self._passes[0] != steps:
            self._passes = steps, self._find_passes(steps)
        return self._passes[1]

    def _find_passes(self, steps: Sequence[Interval]) -> list[Interval]:
        """Its operators, with the pauses between them closed."""
        windows: list[Interval] = []
        places = Windows(steps).places(start for start, _ in self.spans)
        for place, (start, end) in zip(places, self.spans, strict=True):
            if place < 0:
                continue
            step = steps[place]
            stop = min(end, step[1])
            pause = _ONE_PASS * (step[1] - step[0])
            if windows and step[0] <= windows[-1][0] and start - windows[-1][1] <= pause:
                windows[-1] = (windows[-1][0], max(windows[-1][1], stop))
            else:
                windows.append((start, stop))
        return union(windows)


def _backward_names(trace: Trace) -> set[int]:
    """Autograd's operators: the engine's, or where an old profiler knew none, the nodes'."""
    engine = {number for name, number in trace.names.items() if name.startswith(_BACKWARD_OP)}
    return engine or {
        number for name, number in trace.names.items() if _BACKWARD_NODE.fullmatch(name)
    }


def _before(backward: Sequence[Interval], steps: Sequence[Interval]) -> list[Interval]:
    """Of each step what comes before the end of its last backward pass."""
    last: dict[int, float] = {}
    places = Windows(steps).places(start for start, _ in backward)
    for place, (_, end) in zip(places, backward, strict=True):
        last[place] = max(end, last.get(place, end))
    return [(steps[place][0], end) for place, end in sorted(last.items()) if place >= 0]


# --- operators on the host ----------------------------------------------------------------------


def _own_times(columns: HostWork, windows: Sequence[Interval]) -> Counter[int]:
    """For each name the time of its calls without that of the calls within them."""
    by_thread: dict[int, list[int]] = defaultdict(list)
    for call, place in enumerate(Windows(windows).places(columns.start)):
        if place >= 0:
            by_thread[columns.thread[call]].append(call)
    own: Counter[int] = Counter()
    for calls in by_thread.values():
        calls.sort(key=lambda call: (columns.start[call], -columns.end[call]))
        stack: list[int] = []
        for call in calls:
            start, end = columns.start[call], columns.end[call]
            while stack and columns.end[stack[-1]] <= start:
                stack.pop()
            if stack:
                own[columns.name[stack[-1]]] -= min(end, columns.end[stack[-1]]) - start  # type: ignore[assignment]
            own[columns.name[call]] += end - start  # type: ignore[assignment]
            stack.append(call)
    return Counter({name: max(time, 0) for name, time in own.items()})


# --- layers -------------------------------------------------------------------------------------


_NOWHERE = Windows(())


class _LayerCalls:
    """Spans of time that belong to a layer: on each thread sorted, and one for one their layers."""

    def __init__(self, calls: Iterable[tuple[int, float, float, int]]) -> None:
        self.spans: dict[int, list[Interval]] = defaultdict(list)
        self.layers: dict[int, list[int]] = defaultdict(list)
        for thread, start, end, layer in sorted(calls):
            self.spans[thread].append((start, end))
            self.layers[thread].append(layer)
        self._windows = {thread: Windows(spans) for thread, spans in self.spans.items()}

    def layers_at(self, threads: Iterable[int], times: Iterable[float]) -> Iterator[int]:
        """For each time the layer that its thread was in, or -1; most are where the last was."""
        begin = end = 0.0
        layer = last = -1
        for thread, time in zip(threads, times, strict=True):
            if thread != last or not begin <= time < end:
                place, begin, end = self._windows.get(thread, _NOWHERE).around(time)
                layer = self.layers[thread][place] if place >= 0 else -1
                last = thread
            yield layer

    def __iter__(self) -> Iterator[tuple[int, Interval]]:
        for thread, spans in self.spans.items():
            yield from zip(self.layers[thread], spans, strict=True)


@dataclass(slots=True)
class _Layers:
    """The class of modules that repeats, its calls, and how many different ones there are."""

    container: str
    calls: _LayerCalls
    count: int


@dataclass(slots=True)
class _LayerTime:
    forward: float = 0.0
    backward: float = 0.0
    ops: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, time: float, is_forward: bool) -> None:
        """More of the time of an op."""
        if is_forward:
            self.forward += time
        else:
            self.backward += time
        self.ops[name] = self.ops.get(name, 0.0) + time


def _find_layers(trace: Trace, steps: Sequence[Interval]) -> _Layers | None:
    """The class of modules that has others inside, several instances, and most of the time."""
    modules, texts = trace.modules, list(trace.names)
    kinds = [name.removeprefix("nn.Module: ").rpartition("_")[0] for name in texts]
    columns = zip(modules.thread, modules.start, modules.end, modules.name, strict=True)
    calls = sorted(
        (thread, start, -end, call, kinds[name])
        for call, (place, (thread, start, end, name)) in enumerate(
            zip(Windows(steps).places(modules.start), columns, strict=True)
        )
        if place >= 0
    )
    outermost: dict[str, list[int]] = defaultdict(list)
    containers: set[str] = set()
    stack: list[tuple[int, float, str]] = []
    for thread, _, end, call, kind in calls:
        while stack and (stack[-1][0] != thread or stack[-1][1] > end):
            stack.pop()
        if stack:
            containers.add(stack[-1][2])
        if all(kind != outer for _, _, outer in stack):
            outermost[kind].append(call)
        stack.append((thread, end, kind))
    times = {
        kind: sum_in_order(modules.end[call] - modules.start[call] for call in outermost[kind])
        for kind in containers
        if len({modules.name[call] for call in outermost[kind]}) > 1
    }
    if not times:
        return None
    container = max(times, key=lambda kind: (times[kind], kind))
    return _layers_of(container, modules, outermost[container])


def _layers_of(container: str, modules: HostWork, calls: Sequence[int]) -> _Layers:
    order: dict[int, int] = {}
    for call in sorted(calls, key=lambda call: modules.start[call]):
        order.setdefault(modules.name[call], len(order))
    spans = _LayerCalls(
        (modules.thread[call], modules.start[call], modules.end[call], order[modules.name[call]])
        for call in calls
    )
    return _Layers(container, spans, len(order))


def _backward_calls(trace: Trace, layers: _Layers, autograd: _Autograd) -> _LayerCalls:
    """Autograd's operators that belong to a layer: by their number, which its operators share.

    The last operator of the forward pass with a node's number is the one that made the node.
    """
    operators = trace.operators
    in_backward = Windows(union(autograd.spans))
    made_at: dict[int, float] = {}
    layer_of: dict[int, int] = {}
    forward = [
        call
        for call, (sequence, thread, name) in enumerate(
            zip(operators.sequence, operators.thread, operators.name, strict=True)
        )
        if sequence >= 0 and thread in layers.calls.spans and name not in autograd.names
    ]
    starts = [operators.start[call] for call in forward]
    found = layers.calls.layers_at([operators.thread[call] for call in forward], starts)
    for call, start, layer in zip(forward, starts, found, strict=True):
        sequence = operators.sequence[call]
        if start < made_at.get(sequence, start) or (layer < 0 and in_backward.at(start) >= 0):
            continue
        made_at[sequence] = start
        layer_of[sequence] = layer
    return _LayerCalls(
        (operators.thread[call], operators.start[call], operators.end[call], layer)
        for call in autograd.calls
        if (layer := layer_of.get(operators.sequence[call], -1)) >= 0
    )


def _device_layer_times(
    trace: Trace, device: _Device, layers: _Layers, autograd: _Autograd, steps: Sequence[Interval]
) -> list[tuple[int, _LayerTime]]:
    """Kernels launched in a layer's forward, and those launched by its nodes of autograd.

    What a layer launches while autograd runs is recomputation, and counts as backward.
    """
    launches, columns, texts = trace.launches, trace.device, list(trace.names)
    nodes = _backward_calls(trace, layers, autograd)
    in_step = Windows(steps).places(launches.start)
    in_backward = Windows(autograd.windows(steps)).places(launches.start)
    by_module = layers.calls.layers_at(launches.thread, launches.start)
    by_node = nodes.layers_at(launches.thread, launches.start)
    belongs = [
        (NONE if step < 0 else module if module >= 0 else node, module >= 0 > backward)
        for step, backward, module, node in zip(
            in_step, in_backward, by_module, by_node, strict=True
        )
    ]
    belongs.append((NONE, False))
    totals: dict[tuple[tuple[int, bool], int], float] = {}
    spans = zip(device.launch_of, columns.name, columns.start, columns.end, strict=True)
    # What no launch is known of has the last place, -1.
    for launch, name, start, end in spans:
        key = belongs[launch], name
        totals[key] = totals.get(key, 0.0) + (end - start)
    times = [_LayerTime() for _ in range(layers.count)]
    for ((layer, is_forward), name), time in totals.items():
        if layer >= 0:
            times[layer].add(texts[name], time, is_forward)
    return list(enumerate(times))


def _host_layer_times(
    trace: Trace, layers: _Layers, autograd: _Autograd
) -> list[tuple[int, _LayerTime]]:
    """The same by the host's clock, where there is no device."""
    in_backward = Windows(union(autograd.spans))
    forward: dict[int, list[Interval]] = defaultdict(list)
    backward: dict[int, list[Interval]] = defaultdict(list)
    for layer, span in layers.calls:
        (forward if in_backward.at(span[0]) < 0 else backward)[layer].append(span)
    for layer, span in _backward_calls(trace, layers, autograd):
        backward[layer].append(span)
    return [
        (layer, _LayerTime(length(union(forward[layer])), length(union(backward[layer]))))
        for layer in range(layers.count)
    ]


def _layer(number: int, time: _LayerTime, steps: int) -> Layer:
    scale = 1 / US_PER_MS / steps
    return Layer(
        layer=number,
        fwd_ms=time.forward * scale,
        bwd_ms=time.backward * scale,
        ops={name: each * scale for name, each in time.ops.items()},
    )
