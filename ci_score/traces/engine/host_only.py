"""A capture without device work: steps, phases, operators and layers by the host's clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ci_score.traces.engine.attribution import OpPlaceKey, by_name
from ci_score.traces.engine.autograd import Autograd
from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.categories import category_of_operator
from ci_score.traces.engine.host import Host, Operators
from ci_score.traces.engine.layers import (
    ModuleLayers,
    codes_at,
    host_time_within,
    layer_of,
    module_layers,
    spans_of_codes,
)
from ci_score.traces.engine.phases import REST, Phases, phases_of
from ci_score.traces.engine.steps import Steps, Window
from ci_score.traces.engine.timeline import Interval, Windows, intersection, length, union
from ci_score.traces.engine.totals import (
    MOST_OPS,
    coverage_fields,
    coverage_note,
    host_period_fields,
    phases_of_means,
    place_rows,
)

Fields = dict[str, Any]


def host_fields(
    capture: Capture, process: int, steps: Steps, notes: list[str]
) -> tuple[Fields, Sequence[Interval]]:
    """The fields of a Profile by the host's clock, and the windows that they are means of.

    A step lasts until the next begins, so the last one's end is not known: its work counts no more
    than its time does.
    """
    per_ms = capture.ticks_per_ms
    steps, left_out = steps.limited()
    notes += left_out
    fields, source = host_period_fields(steps, per_ms)
    windows: Sequence[Window] = [window for _, window in steps.periods] or steps.windows
    sources = {"avg_step_ms": source, "steps": steps.evidence}
    fields |= {"steps": len(steps.windows), "sources": sources}
    fields["capture"] = {"kernels": 0.0, "host_step_ms": fields["avg_step_ms"]}
    host = capture.hosts.get(process, Host())
    autograd = Autograd(host)
    phases = phases_of(
        capture.ranges, process, windows, steps.thread, host.operators.starts, autograd, windows
    )
    _add_phases(fields, phases, windows, per_ms)
    counted = replace(steps, windows=windows, follows=())
    notes += coverage_note(counted, phases)
    covered = coverage_fields(fields, counted, phases)
    sources |= covered.pop("sources", {})
    fields |= covered
    layers = module_layers(host, windows, host_time_within)
    _add_ops(fields, _OwnTimes(host, windows, phases, layers, autograd), per_ms)
    if layers is None and capture.layers_advice:
        notes.append(f"no layers: no repeated nn.Module was recorded ({capture.layers_advice})")
    if layers is not None:
        fields |= _layer_fields(host, layers, autograd, windows, per_ms)
        sources["per_layer"] = f"nn.Module {layers.of_class}, host time; backward by sequence"
    return fields, windows


def _add_phases(fields: Fields, phases: Phases, windows: Sequence[Interval], per_ms: float) -> None:
    means = {
        name: length(intersection(union(spans), union(windows))) / per_ms / len(windows)
        for name, spans in phases.spans().items()
    }
    fields["phases"] = phases_of_means(means, fields["avg_step_ms"])
    if means:
        fields["sources"]["phases"] = f"{phases.evidence}; host time"


def _add_ops(fields: Fields, own: _OwnTimes, per_ms: float) -> None:
    """Without kernels the operators' own time, without that of the operators they called."""
    texts, per_step = own.host.names, 1 / per_ms / own.steps
    ticks, counts = by_name(own.ticks), by_name(own.counts)
    if not ticks:
        return
    largest = dict(ticks.most_common(MOST_OPS))
    kinds = {texts[name]: category_of_operator(texts[name]) for name in largest}
    categories: Counter[str] = Counter()
    for name, time in largest.items():
        categories[kinds[texts[name]]] += time
    fields["ops"] = {texts[name]: time * per_step for name, time in largest.items()}
    fields["op_kinds"] = kinds
    fields["op_counts"] = {texts[name]: counts[name] / own.steps for name in largest}
    fields["op_categories"] = {kind: time * per_step for kind, time in categories.most_common()}
    fields["op_places"] = place_rows(own.ticks, own.counts, texts, per_step, 1 / own.steps)
    fields["sources"]["ops"] = "operators on the host, without those they called"


class _OwnTimes:
    """The operators' own time by name, phase and layer: without that of calls within them."""

    def __init__(
        self,
        host: Host,
        windows: Sequence[Interval],
        phases: Phases,
        layers: ModuleLayers | None,
        autograd: Autograd,
    ) -> None:
        self.host, self.steps = host, len(windows)
        self.ticks: dict[OpPlaceKey, int] = {}
        self.counts: dict[OpPlaceKey, int] = {}
        operators = host.operators
        inside = Windows(windows).places(operators.starts)
        calls = [call for call, place in enumerate(inside) if place >= 0]
        starts = [operators.starts[call] for call in calls]
        threads = [operators.threads[call] for call in calls]
        places = Windows(phases.windows).places(starts)
        named = [phases.names[place] if place >= 0 else REST for place in places]
        codes = [0] * len(calls)
        if layers is not None:
            codes = list(codes_at(host, layers, autograd, windows)(threads, starts))
        own = _own_times(operators, calls)
        for call, phase, code in zip(calls, named, codes, strict=True):
            key = OpPlaceKey(operators.names[call], phase, code)
            self.ticks[key] = self.ticks.get(key, 0) + own[call]
            self.counts[key] = self.counts.get(key, 0) + 1


def _own_times(operators: Operators, calls: Sequence[int]) -> dict[int, int]:
    """For each call its time without that of the calls within it."""
    by_thread: dict[int, list[int]] = defaultdict(list)
    for call in calls:
        by_thread[operators.threads[call]].append(call)
    own: dict[int, int] = {}
    starts, ends = operators.starts, operators.ends
    for of_thread in by_thread.values():
        of_thread.sort(key=lambda call: (starts[call], -ends[call]))
        stack: list[int] = []
        for call in of_thread:
            while stack and ends[stack[-1]] <= starts[call]:
                stack.pop()
            if stack:
                inside = min(ends[call], ends[stack[-1]]) - starts[call]
                own[stack[-1]] = max(own[stack[-1]] - inside, 0)
            own[call] = ends[call] - starts[call]
            stack.append(call)
    return own


def _layer_fields(
    host: Host,
    layers: ModuleLayers,
    autograd: Autograd,
    windows: Sequence[Interval],
    per_ms: float,
) -> Fields:
    rows: list[Fields] = [
        {"layer": layer, "fwd_ms": 0.0, "bwd_ms": 0.0, "ops": {}} for layer in range(layers.count)
    ]
    for code, spans in spans_of_codes(host, layers, autograd, windows).items():
        layer, is_backward = layer_of(code)
        if layer is not None:
            time = length(union(spans)) / per_ms / len(windows)
            rows[layer]["bwd_ms" if is_backward else "fwd_ms"] = time
    return {
        "per_layer": tuple(rows),
        "layers_are": "modules",
        "layer_class": layers.of_class,
    }
