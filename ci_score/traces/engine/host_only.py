"""A capture without device work: steps, phases, operators and layers by the host's clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import Any

from ci_score.model.explanation import (
    BETWEEN,
    BETWEEN_LOADING,
    COMMUNICATION,
    OUTSIDE_PHASES,
)
from ci_score.model.lists import some_of
from ci_score.traces.engine.attribution import OpPlaceKey, by_name
from ci_score.traces.engine.autograd import Autograd
from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.categories import category_of_operator
from ci_score.traces.engine.host import Host
from ci_score.traces.engine.host_calls import OperatorCalls, operator_calls, shared_origins
from ci_score.traces.engine.host_gaps import host_gaps
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

# So many of the gaps between operators are named, the longest first.
MOST_GAPS = 64
_COUNTS_SHOWN = 5

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
    windows = counted_windows(steps)
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
    found = operator_calls(host, windows)
    if found.calls:
        work = _work_of(found, windows, phases, layers, autograd)
        _add_ops(fields, work, per_ms)
        if not capture.lanes:
            _add_host_work(fields, work, capture, process, counted, notes)
    if layers is None and capture.layers_advice:
        notes.append(f"no layers: no repeated nn.Module was recorded ({capture.layers_advice})")
    if layers is not None:
        fields |= _layer_fields(host, layers, autograd, windows, per_ms)
        sources["per_layer"] = f"nn.Module {layers.of_class}, host time; backward by sequence"
    return fields, windows


def counted_windows(steps: Steps) -> Sequence[Window]:
    """The steps until the next begins; the last one as it is where it is the only one."""
    return [window for _, window in steps.periods] or steps.windows


def _add_phases(fields: Fields, phases: Phases, windows: Sequence[Interval], per_ms: float) -> None:
    means = {
        name: length(intersection(union(spans), union(windows))) / per_ms / len(windows)
        for name, spans in phases.spans().items()
    }
    fields["phases"] = phases_of_means(means, fields["avg_step_ms"])
    if means:
        fields["sources"]["phases"] = f"{phases.evidence}; host time"


# --- operators ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    """The operators' own time and number by name, phase and layer, and what they have in common."""

    found: OperatorCalls
    windows: Sequence[Interval]
    texts: list[str] = field(default_factory=list)
    ticks: dict[OpPlaceKey, int] = field(default_factory=dict)
    counts: dict[OpPlaceKey, int] = field(default_factory=dict)
    # Of each text the operator's bare name, and the type of its numbers.
    names: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def add(self, call: int, phase: str, code: int, numbers: dict[str, int]) -> None:
        """One more call; what a node of autograd takes itself is the forward operator's."""
        found = self.found
        named = found.made_by.get(call, call)
        text = found.label(named)
        if text not in numbers:
            numbers[text] = len(self.texts)
            self.texts.append(text)
            self.names[text] = found.name(named)
            if kind := found.type_of(named):
                self.types[text] = kind
        key = OpPlaceKey(numbers[text], phase, code)
        self.ticks[key] = self.ticks.get(key, 0) + found.own[call]
        self.counts[key] = self.counts.get(key, 0) + (not found.is_node(call))


def _work_of(
    found: OperatorCalls,
    windows: Sequence[Interval],
    phases: Phases,
    layers: ModuleLayers | None,
    autograd: Autograd,
) -> _Work:
    operators = found.host.operators
    starts = [operators.starts[call] for call in found.calls]
    threads = [operators.threads[call] for call in found.calls]
    places = Windows(phases.windows).places(starts)
    named = [phases.names[place] if place >= 0 else REST for place in places]
    codes = [0] * len(starts)
    if layers is not None:
        codes = list(codes_at(found.host, layers, autograd, windows)(threads, starts))
    work = _Work(found, windows)
    numbers: dict[str, int] = {}
    for call, phase, code in zip(found.calls, named, codes, strict=True):
        work.add(call, phase, code, numbers)
    return work


def _add_ops(fields: Fields, work: _Work, per_ms: float) -> None:
    """Without kernels the operators' own time, without that of the operators they called."""
    texts, steps = work.texts, len(work.windows)
    per_step = 1 / per_ms / steps
    ticks, counts = by_name(work.ticks), by_name(work.counts)
    largest = dict(ticks.most_common(MOST_OPS))
    kinds = {texts[name]: category_of_operator(work.names[texts[name]]) for name in largest}
    categories: Counter[str] = Counter()
    for name, time in largest.items():
        categories[kinds[texts[name]]] += time
    fields["ops"] = {texts[name]: time * per_step for name, time in largest.items()}
    fields["op_kinds"] = kinds
    fields["op_types"] = work.types
    fields["op_counts"] = {texts[name]: counts[name] / steps for name in largest}
    fields["op_origins"] = {
        text: {"op": caller} for text, caller in shared_origins(work.found).items() if text in kinds
    }
    fields["op_categories"] = {kind: time * per_step for kind, time in categories.most_common()}
    fields["op_places"] = place_rows(work.ticks, work.counts, texts, per_step, 1 / steps)
    fields["sources"]["ops"] = "operators on the host, without those they called"


def _add_host_work(
    fields: Fields,
    work: _Work,
    capture: Capture,
    process: int,
    steps: Steps,
    notes: list[str],
) -> None:
    """The parts of a step of the host, what the program calls, and how many operators it runs."""
    per_step = 1 / capture.ticks_per_ms / len(work.windows)
    gaps = host_gaps(work.found, capture.ranges, process, work.windows, capture.ticks_per_us)
    parts: dict[str, float] = {}
    for key, ticks in work.ticks.items():
        name = OUTSIDE_PHASES if key.phase == REST else key.phase
        parts[name] = parts.get(name, 0.0) + ticks * per_step
    fields["host_parts"] = parts | {
        name: ticks * per_step
        for name, ticks in (
            (BETWEEN_LOADING, gaps.loading),
            (COMMUNICATION, gaps.communicating),
            (BETWEEN, gaps.other),
        )
    }
    fields["idle_ranges"] = {name: ticks * per_step for name, ticks in gaps.ranges.items()}
    longest = sorted(gaps.between, key=lambda each: (-gaps.between[each], str(each)))[:MOST_GAPS]
    fields["host_gaps"] = tuple(
        {"after": each[0], "before": each[1], "ms": gaps.between[each] * per_step}
        for each in longest
    )
    fields["op_calls"] = _calls_by_caller(work, per_step)
    fields["sources"]["host_parts"] = "operators by phase, and the time between them; host time"
    if capture.counts_operators and steps.marked:
        _add_count(fields, work.found, steps, notes)


def _calls_by_caller(work: _Work, per_step: float) -> Mapping[str, Fields]:
    """What the program calls itself, each with all operators and the time that it leads to."""
    found, steps = work.found, len(work.windows)
    rows: dict[str, list[int]] = {}
    for call in found.calls:
        caller = found.caller[call]
        row = rows.setdefault(found.label(caller), [0, 0, 0, 0])
        row[0] += call == caller
        row[1] += not found.is_node(call)
        row[2] += found.own[call]
        row[3] += found.own[call] if call in found.backward else 0
    passes = Counter(
        found.label(caller) for caller in {found.caller[each] for each in found.backward}
    )
    return {
        name: {
            "calls": calls / steps,
            "operators": count / steps,
            "ms": ticks * per_step,
            "backward_calls": passes[name] / steps,
            "backward_ms": backward * per_step,
        }
        for name, (calls, count, ticks, backward) in rows.items()
    }


def _add_count(fields: Fields, found: OperatorCalls, steps: Steps, notes: list[str]) -> None:
    """Adds how many operators a step runs, with a note where the steps differ."""
    fields["host_ops_per_step"], counts = operators_of_steps(found, steps)
    fields["sources"]["host_ops_per_step"] = (
        f"operators of {len(steps.windows)} steps, without autograd's nodes"
    )
    if len(set(counts)) > 1:
        shown = some_of([str(count) for count in counts], _COUNTS_SHOWN)
        notes.append(f"the steps do not run the same number of operators ({shown})")


def operators_of_steps(found: OperatorCalls, steps: Steps) -> tuple[int, list[int]]:
    """How many operators a step runs, on its own thread: others may run ahead of it.

    Of steps that differ the usual one counts: another may have evaluated or logged as well. The
    number of each stands behind it.
    """
    operators = found.host.operators
    starts = [
        operators.starts[call]
        for call in found.calls
        if not found.is_node(call) and steps.thread in (None, operators.threads[call])
    ]
    places = Counter(Windows(steps.windows).places(starts))
    counts = [places[place] for place in range(len(steps.windows))]
    return median_low(counts), counts


# --- layers -------------------------------------------------------------------------------------


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
