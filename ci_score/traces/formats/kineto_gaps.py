"""What the host did in the gaps of the device, as a Kineto trace tells it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import compress, pairwise

from ci_score.traces.engine.device_steps import DeviceEvents, Steps, StepWork
from ci_score.traces.engine.idle_causes import HostActivity, idle_causes
from ci_score.traces.engine.timeline import Interval
from ci_score.traces.formats.kineto_events import ALLOCATION, KERNEL, WAIT, Trace

TICKS_PER_US, TICKS_PER_MS = 1000, 1_000_000
GAPS_BY = "the device's gaps by what the host did: annotations, calls that wait, late launches"

_LOADS_DATA = re.compile(r"DataLoader|data_?load|load_?data|(next|get|fetch)_?batch", re.IGNORECASE)
_COMPILES = re.compile(r"\(dynamo_timed\)")

Ticks = Callable[[Interval], tuple[int, int]]


def causes_of_gaps(
    trace: Trace, events: DeviceEvents, works: Sequence[StepWork], steps: Steps, ticks: Ticks
) -> dict[str, float] | None:
    """Milliseconds of each cause a step; None where the trace does not tell what the host did."""
    periods = _periods(works, steps)
    if not periods or not trace.launches.start:
        return None
    causes = idle_causes(events, periods, _host_activity(trace, ticks), TICKS_PER_US)
    return {cause: time / TICKS_PER_MS / len(periods) for cause, time in causes.items() if time > 0}


def _periods(works: Sequence[StepWork], steps: Steps) -> list[tuple[int, int]]:
    """The spans of which the step's time is the mean: from one end of work to the next."""
    ran = [place for place, work in enumerate(works) if work.kernels]
    if len(ran) == 1:
        return list(steps.windows[ran[0] : ran[0] + 1]) if steps.host_times else []
    return [
        (works[before].time.last, works[after].time.last)
        for before, after in pairwise(ran)
        if steps.adjacent(after) and works[before].time.last < works[after].time.last
    ]


def _host_activity(trace: Trace, ticks: Ticks) -> HostActivity:
    """The host's part; a thread that launches nothing keeps nobody from it when it waits."""
    launching = set(
        compress(trace.launches.thread, [kind == KERNEL for kind in trace.launches.kind])
    )
    calls = trace.host_calls
    spans: dict[int, list[tuple[int, int]]] = {ALLOCATION: [], WAIT: []}
    for kind, start, end, thread in zip(
        calls.kind, calls.start, calls.end, calls.thread, strict=True
    ):
        if thread in launching:
            spans[kind].append(ticks((start, end)))
    named = [(each.name, (each.start, each.end)) for each in trace.annotations]
    return HostActivity(
        doing={
            "data": [ticks(span) for name, span in named if _LOADS_DATA.search(name)],
            "compilation": [ticks(span) for name, span in named if _COMPILES.search(name)],
            "allocation": spans[ALLOCATION],
        },
        waits=spans[WAIT],
    )
