"""The work of the steps as a Profile has it: means per step, each with its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from ci_score.model.lists import plural
from ci_score.model.sums import plain_sum
from ci_score.traces.engine.attribution import (
    COPIES,
    Attribution,
    OpPlaceKey,
    StepWork,
    by_name,
)
from ci_score.traces.engine.busy import Busy, busy_time
from ci_score.traces.engine.device_events import TRANSFER, DeviceEvents, Names
from ci_score.traces.engine.layers import layer_of
from ci_score.traces.engine.phases import REST, Phases
from ci_score.traces.engine.steps import Steps
from ci_score.traces.engine.timeline import intersection, length, union

MOST_OPS = 10_000
# Of these it is also said in which phase and layer they run, in so many rows.
MOST_PLACED_OPS, MOST_PLACES = 1_024, 65_536
# A device that is busy for longer than this many times a step has not only that step to do.
MOST_BUSY = 1.25

Fields = dict[str, Any]


def step_fields(whole: Attribution, names: Names, ticks_per_ms: float) -> Fields:
    """The fields of a Profile that the steps tell, each with its source."""
    works, steps = whole.works, whole.steps
    count = len(works)
    basis = f"device events of {plural(count, 'step')} ({steps.evidence})"
    per_step = 1 / (ticks_per_ms * count)
    times = [work.time for work in works]
    fields: Fields = {
        "device_busy_ms": sum(time.busy for time in times) * per_step,
        "compute_ms": sum(time.compute for time in times) * per_step,
        "communication_ms": sum(time.communication for time in times) * per_step,
        "exposed_communication_ms": sum(time.exposed_communication for time in times) * per_step,
        "device_idle_share": _idle_share(works, steps),
        "device_kernels_per_step": sum(work.kernels for work in works) / count,
        **_op_fields(whole, names, per_step),
    }
    if any(work.launches for work in works):
        fields["kernel_launches_per_step"] = sum(work.launches for work in works) / count
    sources = dict.fromkeys(fields, basis)
    if "kernel_launches_per_step" in fields:
        sources["kernel_launches_per_step"] = f"calls that are named by {basis}"
    sources["device_idle_share"] = f"of the device's own span, first start to last end; {basis}"
    sources["steps"] = steps.evidence
    step_times, sources["avg_step_ms"] = _step_times(whole, ticks_per_ms)
    fields |= {"steps": count, **step_times}
    tenths = [work.tenths for work in works if work.tenths]
    if len(tenths) == count:
        columns = zip(*tenths, strict=True)
        fields["compute_tenths_ms"] = tuple(sum(column) * per_step for column in columns)
    return {**fields, "sources": sources}


def phase_fields(
    whole: Attribution, phases: Phases, avg_step_ms: float, ticks_per_ms: float
) -> Fields:
    """The phases as a Profile has them: mean per step, and the share of the step's time."""
    totals: dict[str, int] = {}
    for work in whole.works:
        for name, ticks in work.phases.items():
            totals[name] = totals.get(name, 0) + ticks
    means = {name: ticks / ticks_per_ms / len(whole.works) for name, ticks in totals.items()}
    source = (
        f"{phases.evidence}; the device's time by launch, no moment twice: copies count here where"
        " nothing else runs, and in ops in full"
    )
    return {"phases": phases_of_means(means, avg_step_ms), "sources": {"phases": source}}


def phases_of_means(means: Mapping[str, float], avg_step_ms: float) -> Fields:
    """Phases of so many milliseconds each."""
    return {
        name: {
            "total_ms": mean,
            "avg_ms": mean,
            "pct": 100 * mean / avg_step_ms if avg_step_ms > 0 else 0.0,
        }
        for name, mean in means.items()
    }


def coverage_fields(fields: Mapping[str, Any], steps: Steps, phases: Phases) -> Fields:
    """How much of the host's step time annotated phases cover, else of the step the device."""
    wall = length(union(steps.windows))
    if steps.host_times and phases.annotated and wall > 0:
        covered = length(intersection(union(phases.annotated), union(steps.windows)))
        what = "annotated phases / host time of the steps"
        if fields.get("device_busy_ms") is not None:
            what += ", both by the host's clock"
        return {"wall_coverage": min(covered / wall, 1.0), "sources": {"wall_coverage": what}}
    busy, average = fields.get("device_busy_ms"), fields["avg_step_ms"]
    if not busy or average <= 0:
        return {}
    sources = {"wall_coverage": "device busy time / step time"}
    return {"wall_coverage": min(busy / average, 1.0), "sources": sources}


def coverage_note(steps: Steps, phases: Phases) -> list[str]:
    """What the coverage leaves out: phases that autograd's operators tell are no annotations."""
    whole = union(steps.windows)
    told, annotated = (
        length(intersection(union(spans), whole)) for spans in (phases.windows, phases.annotated)
    )
    if not steps.host_times or not annotated or told <= annotated:
        return []
    share = f"{told / length(whole) * 100:.1f} %"
    own = "the wall coverage counts the program's own ranges alone"
    return [f"{own}: with the phases that autograd's operators tell it would be {share}"]


def host_period_fields(steps: Steps, ticks_per_ms: float) -> tuple[Fields, str]:
    """The step by the host's clock: from the start of each to that of the one right after it."""
    count = len(steps.windows)
    periods = tuple((end - begin) / ticks_per_ms for _, (begin, end) in steps.periods)
    if periods:
        average = plain_sum(periods) / len(periods)
        source = f"host period of {count} steps ({steps.evidence})"
        return {"avg_step_ms": average, "step_times_ms": periods}, source
    average = sum(end - begin for begin, end in steps.windows) / ticks_per_ms / count
    which = "one step" if count == 1 else f"{count} steps, none right after another"
    return {"avg_step_ms": average}, f"host span of {which} ({steps.evidence})"


def _idle_share(works: Sequence[StepWork], steps: Steps) -> float:
    """The share of the device's span in which it did nothing; gaps between steps do not count."""
    times = [(place, work.time) for place, work in enumerate(works) if work.kernels]
    span = busy = 0
    end = times[0][1].first
    for place, time in times:
        begin = end if steps.adjacent(place) and place else time.first
        end = max(time.last, begin)
        span += end - begin
        busy += time.busy
    return min(max(1 - busy / span, 0.0), 1.0) if span > 0 else 0.0


def device_periods(works: Sequence[StepWork], steps: Steps) -> dict[int, int]:
    """Of each step right after another the time between their ends; none of one step alone."""
    if sum(work.kernels > 0 for work in works) < 2:
        return {}
    ends = list(accumulate((work.time.last for work in works), max))
    return {
        place: ends[place] - ends[place - 1]
        for place in range(1, len(ends))
        if steps.adjacent(place)
    }


def outlasts_host(whole: Attribution) -> bool:
    """Whether the host has launched its only step long before the device has done it.

    The host's time of such a step is that of its launches.
    """
    if len(whole.works) != 1 or not whole.steps.host_times:
        return False
    begin, end = whole.steps.windows[0]
    return whole.works[0].kernels > 0 and whole.busy > MOST_BUSY * (end - begin)


def _step_times(whole: Attribution, ticks_per_ms: float) -> tuple[Fields, str]:
    """The device's end-to-end period: host spans are wrong where the host runs ahead."""
    works, steps = whole.works, whole.steps
    periods = tuple(ticks / ticks_per_ms for ticks in device_periods(works, steps).values())
    if periods:
        source = f"GPU end-to-end period of {len(works)} steps ({steps.evidence})"
        average = plain_sum(periods) / len(periods)
        return {"avg_step_ms": average, "step_times_ms": periods}, source
    if steps.host_times and not outlasts_host(whole):
        return host_period_fields(steps, ticks_per_ms)
    spans = [(work.time.first, work.time.last) for work in works]
    which = "one step" if len(spans) == 1 else f"{len(spans)} steps, none right after another"
    average = sum(end - begin for begin, end in spans) / ticks_per_ms / len(spans)
    clock = "device time, from first start to last end,"
    return {"avg_step_ms": average}, f"{clock} of {which} ({steps.evidence})"


# --- ops ----------------------------------------------------------------------------------------


def _op_fields(whole: Attribution, names: Names, per_step: float) -> Fields:
    """How long and how often a step runs each op, of which kind it is, and where it is launched."""
    ticks, counts = by_name(whole.ticks), by_name(whole.counts)
    categories: Counter[str] = Counter()
    for name, time in ticks.items():
        categories[names.categories[name]] += time
    largest = dict(ticks.most_common(MOST_OPS))
    return {
        "ops": {names.texts[name]: time * per_step for name, time in largest.items()},
        "op_categories": {name: time * per_step for name, time in categories.most_common()},
        "op_counts": {
            names.texts[name]: count / len(whole.works)
            for name, count in counts.items()
            if name in largest
        },
        "op_kinds": {
            names.texts[name]: names.categories[name] for name in counts if name in largest
        },
        "op_places": place_rows(
            whole.ticks, whole.counts, names.texts, per_step, 1 / len(whole.works)
        ),
    }


def place_rows(
    ticks: Mapping[OpPlaceKey, int],
    counts: Mapping[OpPlaceKey, int],
    texts: Sequence[str],
    ms: float,
    times: float,
) -> tuple[Fields, ...]:
    """The ops by phase and layer, the largest first; `ms` and `times` make means per step."""
    placed = {name for name, _ in by_name(ticks).most_common(MOST_PLACED_OPS)}
    kept = sorted(
        (key for key in ticks if key.name in placed),
        key=lambda key: (-ticks[key], texts[key.name], key.phase, key.layer),
    )
    return tuple(
        _row(key, texts[key.name], counts[key] * times, ticks[key] * ms)
        for key in kept[:MOST_PLACES]
    )


def _row(key: OpPlaceKey, name: str, count: float, ms: float) -> Fields:
    layer, is_backward = layer_of(key.layer)
    return {
        "op": name,
        "phase": None if key.phase == REST else key.phase,
        "layer": layer,
        "direction": None if layer is None else "backward" if is_backward else "forward",
        "count": count,
        "ms": ms,
    }


def layer_rows(
    ticks: Mapping[OpPlaceKey, int], texts: Sequence[str], count: int, per_step: float
) -> tuple[Fields, ...]:
    """The layers as a Profile has them, those without any work too."""
    rows: list[Fields] = [
        {"layer": layer, "fwd_ms": 0.0, "bwd_ms": 0.0, "ops": {}} for layer in range(count)
    ]
    for key, time in ticks.items():
        layer, is_backward = layer_of(key.layer)
        if layer is None:
            continue
        row, name = rows[layer], texts[key.name]
        row["bwd_ms" if is_backward else "fwd_ms"] += time * per_step
        row["ops"][name] = row["ops"].get(name, 0.0) + time * per_step
    return tuple(rows)


def share_of_layers(whole: Attribution, names: Names) -> float:
    """The share of all kernels' time that is a layer's."""
    covered = kernels = 0
    for key, ticks in whole.ticks.items():
        if names.kinds[key.name] != TRANSFER:
            kernels += ticks
            covered += ticks if key.layer else 0
    return covered / kernels if kernels else 0.0


# --- the whole capture --------------------------------------------------------------------------


def capture_fields(
    events: DeviceEvents, names: Names, whole: Attribution, ticks_per_ms: float
) -> dict[str, float]:
    """What the device did from the first event to the last, attributed to a step or not."""
    is_all = not whole.outside and not whole.without_kernels
    times = [work.time for work in whole.works] if is_all else []
    follow = bool(times) and all(before.last <= after.first for before, after in pairwise(times))
    time = _sum_of(times) if follow else _busy_time_of(events, names)
    ticks = by_name(whole.ticks) if is_all else _times_by_name(events)
    totals: Counter[str] = Counter()
    for name, spent in ticks.items():
        totals[names.categories[name]] += spent
    counts = Counter(events.names)
    kernels = sum(count for name, count in counts.items() if names.is_kernel(name))
    return {
        "kernels": float(kernels),
        "unattributed_gpu_events": float(whole.outside),
        **_capture_values(time, ticks_per_ms),
        **{f"ops_ms_total.{name}": spent / ticks_per_ms for name, spent in totals.most_common()},
    }


def _times_by_name(events: DeviceEvents) -> dict[int, int]:
    times = dict.fromkeys(events.names, 0)
    for name, start, end in zip(events.names, events.starts, events.ends, strict=True):
        times[name] += end - start
    return times


def _busy_time_of(events: DeviceEvents, names: Names) -> Busy:
    kinds = bytes(map(names.kinds.__getitem__, events.names))
    return busy_time(events.starts, events.ends, kinds)


def _sum_of(times: Sequence[Busy]) -> Busy:
    """The time of steps that come one after the other and are all there is."""
    return Busy(
        times[0].first,
        times[-1].last,
        sum(time.busy for time in times),
        sum(time.compute for time in times),
        sum(time.communication for time in times),
        sum(time.exposed_communication for time in times),
    )


def _capture_values(time: Busy, ticks_per_ms: float) -> dict[str, float]:
    overlapped = time.communication - time.exposed_communication
    return {
        "gpu_span_ms": time.span / ticks_per_ms,
        "gpu_busy_ms": time.busy / ticks_per_ms,
        "gpu_idle_pct": 100 * (1 - time.busy / time.span) if time.span > 0 else 0.0,
        "compute_ms": time.compute / ticks_per_ms,
        "comm_ms": time.communication / ticks_per_ms,
        "comm_overlapped_ms": overlapped / ticks_per_ms,
    }


def only_transfers_or_rest(phases: Iterable[str]) -> bool:
    """Whether no phase of the program's has any work."""
    return set(phases) <= {REST, *COPIES.values()}
