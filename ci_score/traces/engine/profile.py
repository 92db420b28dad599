"""A capture → the Profile of a step: steps, attribution, phases, layers, gaps, totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from ci_score.model.profile import Profile
from ci_score.traces.engine.attribution import Attributing, Attribution
from ci_score.traces.engine.autograd import Autograd
from ci_score.traces.engine.capture import Capture, Lane
from ci_score.traces.engine.cut import whole_steps
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents
from ci_score.traces.engine.gaps import GAPS_BY, gaps_of, host_activity
from ci_score.traces.engine.host import KERNEL
from ci_score.traces.engine.host_only import host_fields
from ci_score.traces.engine.layers import codes_at, device_time_within, module_layers
from ci_score.traces.engine.origins import origins_of
from ci_score.traces.engine.phases import Phases, phases_of
from ci_score.traces.engine.repeats import repeated_layers, repeated_steps
from ci_score.traces.engine.soundness import (
    Doubts,
    doubts_of_calls,
    doubts_of_copies,
    doubts_of_events,
    doubts_of_steps,
)
from ci_score.traces.engine.steps import (
    MOST_STEPS,
    Steps,
    called_functions,
    device_lines,
    marked_steps,
    one_step,
)
from ci_score.traces.engine.timeline import Interval, intersection, length, union
from ci_score.traces.engine.tokens import token_fields
from ci_score.traces.engine.totals import (
    capture_fields,
    coverage_fields,
    coverage_note,
    host_period_fields,
    layer_rows,
    only_transfers_or_rest,
    outlasts_host,
    phase_fields,
    share_of_layers,
    step_fields,
)

_LEAST_SHARE_OF_BUSIEST = 0.1
_HOST_PHASES = 3
_UNREAD_NAMED = 5

Fields = dict[str, Any]


def profile_of(capture: Capture) -> Profile:
    """The profile of a capture; of one that measured nothing it says why in `unusable`."""
    lanes = capture.busy_lanes()
    reason = _why_nothing(capture, lanes)
    steps: Steps | None = None
    if reason is None and capture.is_cut:
        steps, note = whole_steps(capture, _first_marked(capture, 0), 0)
        reason = None if steps else note
        capture.notes += [note] if steps and note else []
    if reason is not None:
        return _with_facts(capture, {}, lanes, None, reason)
    if not lanes:
        return _of_host(capture, steps)
    _doubt(capture, doubts_of_calls(capture))
    found = [_derive(capture, lane, steps) for lane in lanes]
    _doubt(capture, doubts_of_copies([lane.events for lane in lanes]))
    derived = [each for each in found if each is not None]
    if capture.unread:
        capture.notes.append(f"not read, and so not counted: {_unread(capture)}")
    if len(derived) < len(lanes):
        return _of_host(capture, steps, lanes)
    chosen, spread = slowest(derived)
    lane = lanes[derived.index(chosen)]
    capture.notes += [*spread, *chosen.notes, *_other_devices(capture, lanes)]
    fields = chosen.fields
    reason = None if fields["avg_step_ms"] > 0 else "its steps took no time"
    return _with_facts(capture, fields, lanes, lane, reason)


def _with_facts(
    capture: Capture, fields: Fields, lanes: Sequence[Lane], lane: Lane | None, reason: str | None
) -> Profile:
    """The profile with what else the file tells."""
    reason = capture.unusable or reason
    facts = capture.facts(lanes, lane)
    known = dict(fields)
    sources = {**known.pop("sources", {}), **facts.sources}
    sums = {**known.pop("capture", {})}
    if capture.events is not None:
        sums = {"events": float(capture.events), **sums}
    return Profile(
        tool=capture.tool,
        **known,
        **facts.fields,
        sources=sources,
        notes=(*capture.notes, *facts.notes),
        capture=sums,
        unusable=reason,
    )


def _doubt(capture: Capture, doubts: Doubts) -> None:
    """Notes it; of several reasons not to judge a capture the first is told."""
    capture.unusable = capture.unusable or doubts.reason
    capture.notes += doubts.notes


def _why_nothing(capture: Capture, lanes: Sequence[Lane]) -> str | None:
    """Why there is nothing to measure; None where there is something."""
    if capture.events == 0:
        return "no events"
    if lanes:
        return None
    if capture.unread:
        return f"the device's work is of kinds that are not read ({_unread(capture)})"
    if capture.needs_device is not None:
        return capture.needs_device
    launched = sum(
        host.launches.kinds.tobytes().count(bytes([KERNEL])) for host in capture.hosts.values()
    )
    if capture.is_cut and (launched or not capture.had_no_device):
        return "the trace is cut short before the device's work: no whole step was measured"
    if launched:
        calls = f"{launched} call{'s' if launched > 1 else ''}"
        return (
            f"no kernels, though {calls} launched some: the device's profiler (CUPTI, roctracer)"
            " failed"
        )
    has_ranges = bool(capture.ranges.threads(0))
    if not has_ranges and not any(len(host.operators) for host in capture.hosts.values()):
        return "neither kernels nor operators were recorded"
    return None


def _unread(capture: Capture) -> str:
    return ", ".join(
        f"{_count(count, 'event')} of '{kind[:40]}'"
        for kind, count in capture.unread.most_common(_UNREAD_NAMED)
    )


def _first_marked(capture: Capture, process: int) -> Steps | None:
    ways = marked_steps(capture.ranges, process, capture.ranges_called)
    return next((_begun(capture, process, each) for each in ways if not each.must_hold_most), None)


def _begun(capture: Capture, process: int, steps: Steps) -> Steps:
    """A first step that began unseen begins with the capture."""
    begin, end = steps.windows[0]
    if begin != UNKNOWN:
        return steps
    span = capture.host_span(process)
    return replace(steps, windows=[(int(min(span[0], end)), end), *steps.windows[1:]])


# --- without a device ---------------------------------------------------------------------------


def _of_host(capture: Capture, steps: Steps | None, lanes: Sequence[Lane] = ()) -> Profile:
    """Steps by the host's clock; without marks the calls of a compiled function, else all."""
    process = next(iter(capture.hosts), 0)
    capture.notes.append(
        "no device work could be told apart by steps: host times only"
        if lanes
        else "no kernels: times are those of the host"
    )
    if steps is None:
        steps = _first_marked(capture, process)
    if steps is None:
        steps = called_functions(capture.calls)
    if steps is None:
        begin, end = capture.host_span(process)
        steps = Steps(
            [(int(begin), int(end))], "no step marker, the whole capture", host_times=True
        )
        steps = replace(steps, marked=False)
    fields, windows = host_fields(capture, process, steps, capture.notes)
    _add_tokens(capture, process, windows, fields, capture.notes)
    reason = None if fields["avg_step_ms"] > 0 else "its steps took no time"
    return _with_facts(capture, fields, lanes, None, reason)


def _add_tokens(
    capture: Capture,
    process: int,
    windows: Sequence[Interval],
    fields: Fields,
    notes: list[str],
) -> None:
    host = capture.hosts.get(process)
    if host is None or capture.data_ranks is None:
        return
    world, degree = capture.data_ranks
    found, note = token_fields(host, windows, world, degree)
    fields["sources"] |= found.pop("sources", {})
    fields |= found
    notes.append(note)


# --- one device ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Derived:
    """What one device's timeline tells: the fields of a Profile, and how good the evidence is."""

    label: str
    fields: Fields
    notes: tuple[str, ...]
    way: int
    # Of work that repeats what it is: times of other work are no other times of the same.
    unit: frozenset[str] | None = None


def _ways(
    capture: Capture, lane: Lane, events: DeviceEvents, given: Steps | None
) -> Iterator[Steps]:
    """Steps for a device's events, the best evidence first; the last always finds one."""
    if given is not None:
        yield given.for_events(events)
    yield from device_lines(lane.lines)
    for marked in marked_steps(capture.ranges, lane.process, capture.ranges_called):
        yield _begun(capture, lane.process, marked).for_events(events)
    repeated = repeated_steps(events, capture.names, others_between=capture.took_a_while)
    called = called_functions(capture.calls)
    last = (repeated, called and called.for_events(events), one_step(events))
    yield from (steps for steps in last if steps is not None)


def _derive(capture: Capture, lane: Lane, given: Steps | None) -> Derived | None:
    """The numbers of a device, by the first way to find steps that finds some with its work.

    None where the host marks steps and launched none of the device's work in them: that is
    not assigned to any by the time at which it ran.
    """
    events, backwards = lane.events.tidied()
    notes = [f"{backwards} device events end before they begin; left out"] if backwards else []
    _doubt(capture, doubts_of_events(events, nests=lane.nests))
    for way, steps in enumerate(_ways(capture, lane, events, given)):  # noqa: B007 - used below
        if len(steps.windows) > MOST_STEPS:
            notes.append(f"of {len(steps.windows)} steps the first {MOST_STEPS} count")
        attributing = Attributing(events, capture.names, steps.first(MOST_STEPS))
        if not attributing.with_kernels:
            if steps.host_times and steps.marked and lane.process in capture.hosts:
                return None
            notes.append(f"no kernel belongs to any step ({steps.evidence})")
        elif not steps.must_hold_most or attributing.holds_most():
            break
    device = _Device(capture, lane, events, attributing)
    fields = device.fields()
    found = attributing.steps
    repeats = not found.marked and len(found.windows) > 1
    unit = frozenset(fields["ops"]) if repeats else None
    return Derived(lane.label, fields, (*notes, *device.notes), way, unit)


class _Device:
    """One device and the steps of its work; `fields` puts together what each part tells."""

    def __init__(
        self, capture: Capture, lane: Lane, events: DeviceEvents, attributing: Attributing
    ) -> None:
        self.capture, self.lane, self.events = capture, lane, events
        self.attributing = attributing
        self.host = capture.hosts.get(lane.process)
        self.autograd = Autograd(self.host) if self.host is not None else None
        self.notes: list[str] = []

    def fields(self) -> Fields:
        """Everything that the device's timeline tells."""
        capture, events = self.capture, self.events
        per_ms, names = capture.ticks_per_ms, capture.names
        windows = self._host_windows()
        phases = self._phases(windows)
        codes, layers = self._layers(windows)
        whole = self.attributing.attributed(phases, codes)
        fields = step_fields(whole, names, per_ms)
        self._note_steps(whole, fields)
        step_ms = fields["avg_step_ms"]
        _doubt(capture, doubts_of_steps(whole, step_ms * per_ms))
        _merge(fields, phase_fields(whole, phases, step_ms, per_ms))
        _merge(fields, coverage_fields(fields, whole.steps, phases))
        self._note_phases(fields, phases, whole.steps)
        _merge(fields, self._layer_fields(whole, layers))
        fields["capture"] = capture_fields(events, names, whole, per_ms)
        self._add_to_capture(fields["capture"], whole)
        self._note_outside(whole, fields)
        if self.host is not None:
            ran = self.attributing.with_kernels
            step = self.attributing.members[ran[len(ran) // 2]]
            fields["op_origins"] = origins_of(events, names, self.host, step)
            self._add_gaps(fields, whole)
            kept = whole.steps.windows if whole.steps.host_times else windows
            if len(kept) == len(whole.works):
                _add_tokens(capture, self.lane.process, kept, fields, self.notes)
        return fields

    # --- the host's part ---

    def _host_windows(self) -> Sequence[Interval]:
        """When the host was in each step; everything as one where that is not known."""
        steps, events = self.attributing.steps, self.events
        if steps.host_times:
            return steps.windows
        everything = self._everything()
        begins: list[int] = []
        for places in self.attributing.members:
            known = [at for at in map(events.launched_at.__getitem__, places) if at != UNKNOWN]
            if not known:
                return [everything]
            begins.append(min(known))
        if len(begins) < 2 or sorted(begins) != begins:
            return [everything]
        ends = [*begins[1:], int(max(everything[1], begins[-1]))]
        return list(zip(begins, ends, strict=True))

    def _phases(self, windows: Sequence[Interval]) -> Phases:
        return phases_of(
            self.capture.ranges,
            self.lane.process,
            windows,
            self.attributing.steps.thread,
            self.events.launched_at,
            self.autograd,
            windows if self.attributing.steps.host_times else [self._everything()],
        )

    def _everything(self) -> Interval:
        return self.capture.host_span(self.lane.process)

    def _layers(self, windows: Sequence[Interval]) -> tuple[Sequence[int], _Layers | None]:
        """The code of each event's layer, and what the layers are."""
        host, events = self.host, self.events
        # What autograd did for a layer is told by operators, which a cut may have taken.
        is_lost = self.capture.is_cut and (host is None or not len(host.operators))
        if is_lost:
            return (), None
        if host is not None and self.autograd is not None and events.calls:
            within = device_time_within(host, events)
            layers = module_layers(host, windows, within)
            if layers is not None:
                launches = host.launches
                codes_of = codes_at(host, layers, self.autograd, windows)
                codes = [*codes_of(launches.threads, launches.starts), 0]
                of_events = [codes[call] for call in events.calls]
                return of_events, _Layers("modules", layers.of_class, layers.count)
        repeats = repeated_layers(self.events, self.capture.names, self.attributing.members)
        if repeats is None:
            return (), None
        return repeats.codes, _Layers("repeats", None, repeats.count)

    def _layer_fields(self, whole: Attribution, layers: _Layers | None) -> Fields:
        if layers is None:
            lost = (
                "the cut may have taken them" if self.capture.is_cut else self.capture.layers_advice
            )
            if self.capture.layers_advice:
                self.notes.append(f"no layers: no repeated nn.Module was recorded ({lost})")
            return {}
        names = self.capture.names
        per_step = 1 / self.capture.ticks_per_ms / len(whole.works)
        share = share_of_layers(whole, names)
        called = f"layers ({layers.of_class})" if layers.of_class else "repeats of kernels"
        self.notes.append(f"{called} cover {100 * share:.0f} % of all kernel time")
        what = (
            f"nn.Module {layers.of_class}, kernels by launch; backward by sequence"
            if layers.of_class
            else "a sequence of kernels that repeats, and not what the program calls a layer"
        )
        return {
            "per_layer": layer_rows(whole.ticks, names.texts, layers.count, per_step),
            "layers_are": layers.are,
            "layer_class": layers.of_class,
            "layers_share": share,
            "sources": {"per_layer": f"{what}; {100 * share:.0f} % of all kernel time"},
        }

    def _add_gaps(self, fields: Fields, whole: Attribution) -> None:
        capture, host = self.capture, self.host
        if host is None:
            return
        activity = host_activity(host, capture.ranges, self.lane.process, capture.ticks_per_us)
        found = gaps_of(self.events, whole, host, activity, capture.ticks_per_us)
        if found is None:
            return
        idle, periods = found
        per_step = 1 / capture.ticks_per_ms / periods
        for name, ticks in (("idle_causes", idle.causes), ("idle_ranges", idle.ranges)):
            fields[name] = {cause: time * per_step for cause, time in ticks.items() if time > 0}
        fields["sources"]["idle_causes"] = GAPS_BY

    # --- notes ---

    def _note_steps(self, whole: Attribution, fields: Fields) -> None:
        steps, works = whole.steps, whole.works
        if whole.without_kernels:
            left_out = _count(whole.without_kernels, "step")
            self.notes.append(f"{left_out} without kernels left out")
        if not steps.marked and len(steps.windows) > 1:
            self.notes.append(
                f"nothing marks a step: what counts as one is {steps.evidence}, which may be a"
                " layer or a part of a step"
            )
        elif not steps.marked:
            self.notes.append(
                "nothing marks a step and no work repeats: the whole capture counts as one step,"
                " which takes as long as the device's work in it, from first start to last end"
            )
        if not any(work.launches for work in works):
            self.notes.append("no launches a step: no device event tells which call started it")
        ran = [work for work in works if work.kernels]
        if steps.host_times and len(ran) == 1:
            place = works.index(ran[0])
            if outlasts_host(whole):
                self.notes.append(
                    "the device is busy for much longer than the host's step takes, which only"
                    " launches the work: the step time is the device's, from first start to last"
                    " end"
                )
            else:
                self._note_host_time(steps.windows[place], ran[0].time.last)
            if len(works) > 1:
                self.notes.append(
                    f"the device worked in one of {len(works)} steps: its numbers are means over"
                    " all"
                )

    def _note_host_time(self, window: tuple[int, int], last: int) -> None:
        """Which way the host's time of a step may be wrong: the device works for it later."""
        per_ms, events = self.capture.ticks_per_ms, self.events
        spans: list[Interval] = [
            (start, end)
            for start, end, at in zip(events.starts, events.ends, events.launched_at, strict=True)
            if at < window[0] < end and start < window[1]
        ]
        doubts = ""
        if spans:
            older_ms = length(intersection(union(spans), [window])) / per_ms
            doubts += (
                f"; it may be long, because for {older_ms:.4g} ms of it the device still ran"
                f" {_count(len(spans), 'event')} launched before"
            )
        late = (last - window[1]) / per_ms
        if late > 0:
            doubts += f"; it may be short, because the device ended {late:.4g} ms after it"
        self.notes.append(
            "only one step ran kernels, so that the device has no period: the step time is the"
            f" host's{doubts}"
        )

    def _note_phases(self, fields: Fields, phases: Phases, steps: Steps) -> None:
        """What the host spends in phases that start no work, as loading data."""
        if only_transfers_or_rest(fields["phases"]):
            why = "no kernel was launched in a phase" if phases.windows else "no phase is annotated"
            self.notes.append(f"{why}: the kernels of a step are one, 'unannotated'")
        if not steps.host_times:
            return
        self.notes += coverage_note(steps, phases)
        whole = union(steps.windows)
        per_step = 1 / self.capture.ticks_per_ms / len(steps.windows)
        spent = {
            name: length(intersection(union(spans), whole)) * per_step
            for name, spans in phases.spans().items()
            if name not in fields["phases"]
        }
        largest = sorted(spent, key=lambda name: (-spent[name], name))[:_HOST_PHASES]
        if largest:
            listed = ", ".join(f"{name} {spent[name]:.4g} ms" for name in largest)
            more = f" and {len(spent) - len(largest)} more" if len(spent) > len(largest) else ""
            self.notes.append(
                f"phases in which the host starts no work on the device, a step: {listed}{more}"
            )

    def _note_outside(self, whole: Attribution, fields: Fields) -> None:
        events = self.events
        unmatched = events.launched_at.count(UNKNOWN)
        if whole.outside:
            counted = sum(work.time.busy for work in whole.works) / self.capture.ticks_per_ms
            total = fields["capture"]["gpu_busy_ms"]
            share = 100 * max(1 - counted / total, 0.0) if total else 0.0
            self.notes.append(
                f"{_count(whole.outside, 'device event')} of {len(events)} belong to no step"
                f" ({unmatched} without the call that launched them): not counted,"
                f" {share:.1f} % of the device's time"
            )
        elif unmatched and not whole.steps.by_launch and self.host is not None:
            self.notes.append(
                f"of {unmatched} of {_count(len(events), 'device event')} the launch is not known:"
                " they count by the time at which they ran, and for no phase"
            )

    def _add_to_capture(self, sums: dict[str, float], whole: Attribution) -> None:
        if whole.steps.host_times:
            host = host_period_fields(whole.steps, self.capture.ticks_per_ms)[0]
            sums["host_step_ms"] = host["avg_step_ms"]
        sums["graph_launched_kernels"] = float(self._kernels_of_graphs())

    def _kernels_of_graphs(self) -> int:
        """The kernels that one launch started several of."""
        launches = self.events.launches
        if len(set(launches)) == len(launches):
            return 0
        kernels = [name for name in set(self.events.names) if self.capture.names.is_kernel(name)]
        launched = Counter(compress(launches, map(set(kernels).__contains__, self.events.names)))
        del launched[UNKNOWN]
        return sum(count for count in launched.values() if count > 1)


@dataclass(frozen=True, slots=True)
class _Layers:
    """What the layers of a device are: modules of a class, or a sequence that repeats."""

    are: str
    of_class: str | None
    count: int


def _merge(fields: Fields, more: Fields) -> None:
    fields["sources"] |= more.pop("sources", {})
    fields |= more


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


# --- several devices ----------------------------------------------------------------------------


def slowest(devices: Sequence[Derived]) -> tuple[Derived, list[str]]:
    """The device that speaks for all, as a job's step is its slowest rank's; and what to note.

    One that hardly works beside the others does not count, nor one with weaker evidence of steps.
    """
    busiest = max(device.fields["capture"]["gpu_busy_ms"] for device in devices)
    working = [
        device
        for device in devices
        if device.fields["capture"]["gpu_busy_ms"] >= _LEAST_SHARE_OF_BUSIEST * busiest
    ]
    best_way = min(device.way for device in working)
    found = [device for device in working if device.way == best_way]
    comparable = _of_most_work(found)
    chosen = max(comparable, key=lambda device: device.fields["avg_step_ms"])
    if len(devices) == 1:
        return chosen, []
    times = [device.fields["avg_step_ms"] for device in comparable]
    least, most = f"{min(times):.4g}", f"{max(times):.4g}"
    between = most if least == most else f"{least} to {most}"
    which = f"the slowest of {len(comparable)} ({between} ms a step)"
    if len(comparable) == 1:
        which = "the busiest of those whose steps are known"
    others = len(found) - len(comparable)
    if others:
        which += f"; not compared: {others} with other work"
    return chosen, [f"{len(devices)} devices: these are the numbers of {chosen.label}, {which}"]


def _of_most_work(devices: Sequence[Derived]) -> list[Derived]:
    """Those that repeat the same work, of several works that of which there is most."""
    busy: Counter[frozenset[str] | None] = Counter()
    for device in devices:
        busy[device.unit] += device.fields["capture"]["gpu_busy_ms"]
    return [device for device in devices if device.unit == busy.most_common(1)[0][0]]


def _other_devices(capture: Capture, lanes: Sequence[Lane]) -> list[str]:
    others = sum(len(lane.events) for lane in capture.lanes) - sum(
        len(lane.events) for lane in lanes
    )
    if not others:
        return []
    events = _count(others, "device event")
    return [f"{events} on a device without kernels, or of which no device is told: not counted"]
