"""One device of a capture: by the best way to find its steps, everything that a Profile has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

from ci_score.traces.engine.attribution import Attributing, Attribution
from ci_score.traces.engine.autograd import Autograd
from ci_score.traces.engine.capture import Capture, Lane
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents
from ci_score.traces.engine.gaps import GAPS_BY, gaps_of, host_activity
from ci_score.traces.engine.layers import codes_at, device_time_within, module_layers
from ci_score.traces.engine.memory import peak_ops
from ci_score.traces.engine.notes import notes_on_phases, notes_on_steps, notes_outside
from ci_score.traces.engine.origins import origins_of
from ci_score.traces.engine.phases import Phases, phases_of
from ci_score.traces.engine.repeats import repeated_layers, repeated_steps
from ci_score.traces.engine.soundness import doubts_of_events, doubts_of_steps
from ci_score.traces.engine.steps import Steps, called_functions, device_lines, one_step
from ci_score.traces.engine.timeline import Interval
from ci_score.traces.engine.tokens import add_tokens
from ci_score.traces.engine.totals import (
    capture_fields,
    coverage_fields,
    host_period_fields,
    layer_rows,
    phase_fields,
    share_of_layers,
    step_fields,
)

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Derived:
    """What one device's timeline tells: the fields of a Profile, and how good the evidence is."""

    label: str
    fields: Fields
    notes: tuple[str, ...]
    way: int
    # The ops of a repeated unit: times of devices that repeat different work are not compared.
    unit: frozenset[str] | None = None


def _ways(
    capture: Capture, lane: Lane, events: DeviceEvents, given: Steps | None
) -> Iterator[Steps]:
    """Steps for a device's events, the best evidence first; the last always finds one."""
    if given is not None:
        yield given.for_events(events)
    own = device_lines(lane.lines)
    marked = (each.for_events(events) for each in capture.marked_steps(lane.process))
    # What the user asks for comes before what the device calls a step.
    yield from chain(marked, own) if capture.ranges.asked_for else chain(own, marked)
    repeated = repeated_steps(events, capture.names, others_between=capture.took_a_while)
    called = called_functions(capture.calls)
    last = (repeated, called and called.for_events(events), one_step(events))
    yield from (steps for steps in last if steps is not None)


def derived(capture: Capture, lane: Lane, given: Steps | None) -> Derived | None:
    """The numbers of a device, by the first way to find steps that finds some with its work.

    None where the host marks steps and launched none of the device's work in them: that is
    not assigned to any by the time at which it ran.
    """
    events, backwards = lane.events.tidied()
    notes = [f"{backwards} device events end before they begin; left out"] if backwards else []
    capture.doubt(*doubts_of_events(events, nests=lane.nests))
    for way, steps in enumerate(_ways(capture, lane, events, given)):  # noqa: B007 - used below
        first, left_out = steps.limited()
        notes += left_out
        attributing = Attributing(events, capture.names, first)
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


@dataclass(frozen=True, slots=True)
class _Layers:
    """What the layers of a device are: modules of a class, or a sequence that repeats."""

    are: str
    of_class: str | None
    count: int


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
        self.notes += notes_on_steps(whole, events, per_ms)
        step_ms = fields["avg_step_ms"]
        capture.doubt(*doubts_of_steps(whole, step_ms * per_ms))
        _merge(fields, phase_fields(whole, phases, step_ms, per_ms))
        _merge(fields, coverage_fields(fields, whole.steps, phases))
        self.notes += notes_on_phases(fields["phases"], phases, whole.steps, per_ms)
        _merge(fields, self._layer_fields(whole, layers))
        fields["capture"] = capture_fields(events, names, whole, per_ms)
        self._add_to_capture(fields["capture"], whole)
        busy_ms, knows_host = fields["capture"]["gpu_busy_ms"], self.host is not None
        self.notes += notes_outside(whole, events, busy_ms, per_ms, knows_host=knows_host)
        if self.host is not None:
            ran = self.attributing.with_kernels
            step = self.attributing.members[ran[len(ran) // 2]]
            fields["op_origins"] = origins_of(events, names, self.host, step)
            fields["peak_ops"] = peak_ops(capture, self.lane.process, windows)
            self._add_gaps(fields, whole)
            kept = whole.steps.windows if whole.steps.host_times else windows
            if len(kept) == len(whole.works):
                add_tokens(capture, self.lane.process, kept, fields, self.notes)
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

    # --- the whole capture ---

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


def _merge(fields: Fields, more: Fields) -> None:
    fields["sources"] |= more.pop("sources", {})
    fields |= more
