"""What is said of a device's numbers beside them: what does not count, and what may be wrong."""

from __future__ import annotations

from collections.abc import Collection

from ci_score.model.lists import plural, some_of
from ci_score.traces.engine.attribution import Attribution
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents
from ci_score.traces.engine.phases import Phases
from ci_score.traces.engine.steps import Steps
from ci_score.traces.engine.timeline import Interval, intersection, length, union
from ci_score.traces.engine.totals import (
    coverage_note,
    only_transfers_or_rest,
    outlasts_host,
)

# So many phases are named in which the host starts no work.
_HOST_PHASES = 3


def notes_on_steps(whole: Attribution, events: DeviceEvents, ticks_per_ms: float) -> list[str]:
    """What the steps are, where nothing marks them; and those that do not count."""
    steps, works = whole.steps, whole.works
    notes: list[str] = []
    if whole.without_kernels:
        notes.append(f"{plural(whole.without_kernels, 'step')} without kernels left out")
    if not steps.marked and len(steps.windows) > 1:
        notes.append(
            f"nothing marks a step: what counts as one is {steps.evidence}, which may be a"
            " layer or a part of a step"
        )
    elif not steps.marked:
        notes.append(
            "nothing marks a step and no work repeats: the whole capture counts as one step,"
            " which takes as long as the device's work in it, from first start to last end"
        )
    if not any(work.launches for work in works):
        notes.append("no launches a step: no device event tells which call started it")
    ran = [place for place, work in enumerate(works) if work.kernels]
    if steps.host_times and len(ran) == 1:
        window, last = steps.windows[ran[0]], works[ran[0]].time.last
        if outlasts_host(whole):
            notes.append(
                "the device is busy for much longer than the host's step takes, which only launches"
                " the work: the step time is the device's, from first start to last end"
            )
        else:
            notes.append(_on_host_time(window, last, events, ticks_per_ms))
        if len(works) > 1:
            notes.append(
                f"the device worked in one of {len(works)} steps: its numbers are means over all"
            )
    return notes


def _on_host_time(window: Interval, last: int, events: DeviceEvents, ticks_per_ms: float) -> str:
    """Which way the host's time of a step may be wrong: the device works for it later."""
    spans: list[Interval] = [
        (start, end)
        for start, end, at in zip(events.starts, events.ends, events.launched_at, strict=True)
        if at < window[0] < end and start < window[1]
    ]
    doubts = ""
    if spans:
        older_ms = length(intersection(union(spans), [window])) / ticks_per_ms
        doubts += (
            f"; it may be long, because for {older_ms:.4g} ms of it the device still ran"
            f" {plural(len(spans), 'event')} launched before"
        )
    late = (last - window[1]) / ticks_per_ms
    if late > 0:
        doubts += f"; it may be short, because the device ended {late:.4g} ms after it"
    return (
        "only one step ran kernels, so that the device has no period: the step time is the"
        f" host's{doubts}"
    )


def notes_on_phases(
    working: Collection[str], phases: Phases, steps: Steps, ticks_per_ms: float
) -> list[str]:
    """Whether phases hold work, and what the host spends in others, as in loading data."""
    notes: list[str] = []
    if only_transfers_or_rest(working):
        why = "no kernel was launched in a phase" if phases.windows else "no phase is annotated"
        notes.append(f"{why}: the kernels of a step are one, 'unannotated'")
    if not steps.host_times:
        return notes
    notes += coverage_note(steps, phases)
    whole = union(steps.windows)
    per_step = 1 / ticks_per_ms / len(steps.windows)
    spent = {
        name: length(intersection(union(spans), whole)) * per_step
        for name, spans in phases.spans().items()
        if name not in working
    }
    if spent:
        largest = sorted(spent, key=lambda name: (-spent[name], name))
        named = some_of([f"{name} {spent[name]:.4g} ms" for name in largest], _HOST_PHASES)
        notes.append(f"phases in which the host starts no work on the device, a step: {named}")
    return notes


def notes_outside(
    whole: Attribution,
    events: DeviceEvents,
    busy_ms: float,
    ticks_per_ms: float,
    *,
    knows_host: bool,
) -> list[str]:
    """What belongs to no step, of `busy_ms` in all; else what has no launch, where others have."""
    unmatched = events.launched_at.count(UNKNOWN)
    total = plural(len(events), "device event")
    note = ""
    if whole.outside:
        counted = sum(work.time.busy for work in whole.works) / ticks_per_ms
        share = 100 * max(1 - counted / busy_ms, 0.0) if busy_ms else 0.0
        note = (
            f"{plural(whole.outside, 'device event')} of {len(events)} belong to no step"
            f" ({unmatched} without the call that launched them): not counted,"
            f" {share:.1f} % of the device's time"
        )
    elif unmatched and not whole.steps.by_launch and knows_host:
        note = (
            f"the launch of {unmatched} of {total} is not known: they count by the time at which"
            " they ran, and for no phase"
        )
    return [note] if note else []
