"""Why a device did nothing: what the host was doing while it waited.

A gap between two events of the device belongs to what the host did in it: waiting for the data
loader, compiling, allocating. Else it is told by how it began and how it ended. The host was inside
a call that waits for the device when the device ran out of work: nothing could be launched ahead.
Or the next event started right after its launch: the host is too slow. What queued on the device
for some other reason has no cause here.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, islice

from ci_score.traces.engine.device_steps import UNKNOWN, DeviceEvents, window_of
from ci_score.traces.engine.timeline import Interval, Windows, intersection, length, subtract, union

SYNCHRONISATION, LAUNCHING = "synchronisation", "launching"
# Shorter gaps are the device's own, from one kernel to the next.
SHORTEST_GAP_US = 2.0
# An event that starts sooner after its launch did not queue for anything.
LAUNCH_LATENCY_US = 20.0
MOST_GAPS = 200_000


@dataclass(frozen=True, slots=True)
class HostActivity:
    """What the host did that keeps a device waiting, in the ticks of the device's events.

    `doing` is a cause's name and its spans, the first of them counts where two overlap; `waits` are
    calls that return when the device has done its work.
    """

    doing: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    waits: Sequence[Interval] = ()


@dataclass(frozen=True, slots=True)
class _Gap:
    """A time without work, and when the work that ended it was launched."""

    start: int
    end: int
    launched_at: int


def idle_causes(
    events: DeviceEvents,
    periods: Sequence[tuple[int, int]],
    host: HostActivity,
    ticks_per_us: float,
) -> dict[str, float]:
    """The ticks of each cause within the periods; the events come by start."""
    gaps = _gaps(events, periods, SHORTEST_GAP_US * ticks_per_us)
    causes = dict.fromkeys((*host.doing, SYNCHRONISATION, LAUNCHING), 0.0)
    left: list[Interval] = [(gap.start, gap.end) for gap in gaps]
    for cause, of_cause in host.doing.items():
        spans = union(of_cause)
        causes[cause] += length(intersection(left, spans))
        left = subtract(left, spans)
    waits = Windows(union(host.waits))
    by_start = Windows([(gap.start, gap.end) for gap in gaps])
    for start, end in left:
        gap = gaps[by_start.at(start)]
        if waits.at(gap.start) >= 0:
            causes[SYNCHRONISATION] += end - start
        elif gap.launched_at != UNKNOWN and _did_not_queue(gap, ticks_per_us):
            causes[LAUNCHING] += end - start
    return causes


def _did_not_queue(gap: _Gap, ticks_per_us: float) -> bool:
    return gap.launched_at > gap.start or gap.end - gap.launched_at <= (
        LAUNCH_LATENCY_US * ticks_per_us
    )


def _gaps(events: DeviceEvents, periods: Sequence[tuple[int, int]], shortest: float) -> list[_Gap]:
    """The gaps that count, sorted; of very many the longest."""
    if not len(events):
        return []
    ends = list(accumulate(events.ends, max))
    lengths = list(map(operator.sub, islice(events.starts, 1, None), ends))
    long = [size > shortest for size in lengths]
    if sum(long) > MOST_GAPS:
        shortest = sorted(lengths)[-MOST_GAPS]
        long = [size > shortest for size in lengths]
    columns = zip(
        compress(ends, long),
        compress(islice(events.starts, 1, None), long),
        compress(islice(events.launched_at, 1, None), long),
        strict=True,
    )
    gaps = [_Gap(*each) for each in columns]
    if periods and periods[0][0] < events.starts[0]:
        gaps.insert(0, _Gap(periods[0][0], events.starts[0], events.launched_at[0]))
    places = window_of([gap.start for gap in gaps], periods)
    return [gap for gap, place in zip(gaps, places, strict=True) if place >= 0]
