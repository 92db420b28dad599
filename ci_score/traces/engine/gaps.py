"""Why a device did nothing: what the host was doing while it waited.

A gap between two events of the device belongs to what the host did in it: waiting for the data
loader, compiling, allocating. Else it is told by how it began and how it ended. The host was inside
a call that waits for the device when the device ran out of work: nothing could be launched ahead.
Or the next event started right after its launch: the host is too slow. Then the range of the host
that fills the gap gives it its name. What queued on the device for some other reason has no cause.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, islice, pairwise
from typing import NamedTuple

from ci_score.traces.engine.attribution import Attribution
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents
from ci_score.traces.engine.host import ALLOCATION, KERNEL, WAIT, Host
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.phases import LIBRARY_RANGE
from ci_score.traces.engine.timeline import Interval, Windows, intersection, length, subtract, union
from ci_score.traces.engine.totals import outlasts_host

SYNCHRONISATION, LAUNCHING = "synchronisation", "launching"
GAPS_BY = "the device's gaps by what the host did: annotations, calls that wait, late launches"
# Shorter gaps are the device's own, from one kernel to the next.
SHORTEST_GAP_US = 2.0
# An event that starts sooner after its launch did not queue for anything.
LAUNCH_LATENCY_US = 20.0
MOST_GAPS = 200_000
# A range gives a gap its name if it covers this share of it; only long gaps are worth one.
_NAMES_A_GAP, _NAMED_FROM_US = 0.5, 100.0
_NAMED_GAPS, _NAMES = 10_000, 32
# So many ranges are looked at for all gaps, the longest gaps first.
_LOOKED_AT = 2_000_000

LOADS_DATA = re.compile(r"DataLoader|data_?load|load_?data|(next|get|fetch)_?batch", re.IGNORECASE)
_COMPILES = re.compile(r"\(dynamo_timed\)")


@dataclass(frozen=True, slots=True)
class HostActivity:
    """What the host did that keeps a device waiting, in the ticks of the device's events.

    `doing` is a cause's name and its spans, the first of them counts where two overlap; `waits` are
    calls that return when the device has done its work. `launches` are the times of all launches,
    sorted, and `ranges` what may fill the time between two: sorted by start.
    """

    doing: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    waits: Sequence[Interval] = ()
    launches: Sequence[int] = ()
    ranges: Sequence[tuple[int, int, str]] = ()


class _Gap(NamedTuple):
    """A time without work, and when the work that ended it was launched."""

    start: int
    end: int
    launched_at: int


@dataclass(slots=True)
class IdleTime:
    """The ticks of each cause, and of each range that fills gaps."""

    causes: dict[str, float]
    ranges: dict[str, float] = field(default_factory=dict)


def gaps_of(
    events: DeviceEvents,
    whole: Attribution,
    host: Host,
    activity: HostActivity,
    ticks_per_us: float,
) -> tuple[IdleTime, int] | None:
    """The idle time of the steps and how many there are; None if the host's part is not known."""
    periods = _periods(whole)
    if not periods or not host.launches.starts:
        return None
    return idle_time(events, periods, activity, ticks_per_us), len(periods)


def _periods(whole: Attribution) -> list[tuple[int, int]]:
    """The spans of which the step's time is the mean: from one end of work to the next.

    Where only one step ran kernels the host's, all of them: so do the other numbers.
    """
    works, steps = whole.works, whole.steps
    ran = [place for place, work in enumerate(works) if work.kernels]
    if outlasts_host(whole):
        return [(works[0].time.first, works[0].time.last)]
    if len(ran) == 1:
        return list(steps.windows) if steps.host_times else []
    return [
        (works[before].time.last, works[after].time.last)
        for before, after in pairwise(ran)
        if steps.adjacent(after) and works[before].time.last < works[after].time.last
    ]


def host_activity(
    host: Host, ranges: HostRanges, process: int, ticks_per_us: float
) -> HostActivity:
    """What the host did. Only threads that launch work can delay a launch by waiting."""
    launches = host.launches
    starts_kernel = [kind == KERNEL for kind in launches.kinds]
    launching = set(compress(launches.threads, starts_kernel))
    spans: dict[int, list[Interval]] = {ALLOCATION: [], WAIT: []}
    for kind, start, end, thread in host.waits:
        if thread in launching:
            spans[kind].append((start, end))
    shortest = _NAMES_A_GAP * _NAMED_FROM_US * ticks_per_us
    return HostActivity(
        doing={
            "data": spans_called(LOADS_DATA, ranges, process),
            "compilation": spans_called(_COMPILES, ranges, process),
            "allocation": spans[ALLOCATION],
        },
        waits=spans[WAIT],
        launches=sorted(compress(launches.starts, starts_kernel)),
        ranges=sorted(
            [
                *_long_ranges(ranges, process, launching, shortest),
                *_long_operators(host, launching, shortest),
            ]
        ),
    )


def spans_called(pattern: re.Pattern[str], ranges: HostRanges, process: int) -> list[Interval]:
    """The ranges of a process in whose names the pattern is found."""
    names = {place for place, name in enumerate(ranges.names) if pattern.search(name)}
    return [
        (each.start, each.end)
        for of_thread in (ranges.threads(process).values() if names else ())
        for each in of_thread
        if each.name in names
    ]


def _long_ranges(
    ranges: HostRanges, process: int, launching: set[int], shortest: float
) -> Iterator[tuple[int, int, str]]:
    """The ranges that can fill a gap: of the threads that launch, and long enough; no steps."""
    is_named = [
        not LIBRARY_RANGE.match(name) and place not in ranges.numbered | ranges.asked_for
        for place, name in enumerate(ranges.names)
    ]
    for thread, of_thread in ranges.threads(process).items():
        for each in of_thread if thread in launching else ():
            if is_named[each.name] and each.end - each.start >= shortest:
                yield each.start, each.end, ranges.names[each.name]


def _long_operators(
    host: Host, launching: set[int], shortest: float
) -> Iterator[tuple[int, int, str]]:
    """The operators that can fill a gap, in the same way."""
    operators = host.operators
    lengths = map(operator.sub, operators.ends, operators.starts)
    for place in compress(range(len(operators)), [size >= shortest for size in lengths]):
        if operators.threads[place] in launching:
            name = host.names[operators.names[place]]
            yield operators.starts[place], operators.ends[place], name


def idle_time(
    events: DeviceEvents,
    periods: Sequence[tuple[int, int]],
    host: HostActivity,
    ticks_per_us: float,
) -> IdleTime:
    """The idle time within the periods by its cause; the events come by start."""
    gaps = _gaps(events, periods, SHORTEST_GAP_US * ticks_per_us)
    causes = dict.fromkeys((*host.doing, SYNCHRONISATION, LAUNCHING), 0.0)
    # A step by the host's clock may begin and end within a gap.
    left = intersection([(gap.start, gap.end) for gap in gaps], union(periods))
    for cause, of_cause in host.doing.items():
        spans = union(of_cause)
        causes[cause] += length(intersection(left, spans))
        left = subtract(left, spans)
    waits = Windows(union(host.waits))
    by_start = Windows([(gap.start, gap.end) for gap in gaps])
    late: list[_Gap] = []
    for start, end in left:
        gap = gaps[by_start.at(start)]
        if waits.at(gap.start) >= 0:
            causes[SYNCHRONISATION] += end - start
        elif gap.launched_at != UNKNOWN and _did_not_queue(gap, ticks_per_us):
            causes[LAUNCHING] += end - start
            late.append(_Gap(int(start), int(end), gap.launched_at))
    shortest_named = _NAMED_FROM_US * ticks_per_us
    long = [gap for gap in late if gap.end - gap.start >= shortest_named]
    return IdleTime(causes, _by_range(long, host))


def _did_not_queue(gap: _Gap, ticks_per_us: float) -> bool:
    return gap.launched_at > gap.start or gap.end - gap.launched_at <= (
        LAUNCH_LATENCY_US * ticks_per_us
    )


def _gaps(events: DeviceEvents, periods: Sequence[tuple[int, int]], shortest: float) -> list[_Gap]:
    """The gaps of all events, sorted; of very many the longest."""
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
    return gaps


# --- by the name of what the host did -----------------------------------------------------------


def _by_range(gaps: Iterable[_Gap], host: HostActivity) -> dict[str, float]:
    """The idle time of late launches by the range that fills the time between two of them."""
    longest = sorted(gaps, key=lambda gap: gap.start - gap.end)[:_NAMED_GAPS]
    starts = [start for start, _, _ in host.ranges]
    ticks: dict[str, float] = defaultdict(float)
    looked_at = 0
    for gap in longest:
        between = _between_launches(gap, host.launches, starts)
        looked_at += len(between)
        if looked_at > _LOOKED_AT:
            break
        name = _name_of(gap, host.ranges[between.start : between.stop])
        if name is not None:
            ticks[name] += gap.end - gap.start
    largest = sorted(ticks, key=lambda name: (-ticks[name], name))[:_NAMES]
    return {name: ticks[name] for name in largest}


def _between_launches(gap: _Gap, launches: Sequence[int], starts: Sequence[int]) -> range:
    """The places of the ranges that begin after the launch before, and within the gap or before."""
    place = bisect_left(launches, gap.launched_at) - 1
    first = bisect_right(starts, launches[place]) if place >= 0 else 0
    return range(first, max(bisect_left(starts, min(gap.launched_at, gap.end)), first))


def _name_of(gap: _Gap, ranges: Iterable[tuple[int, int, str]]) -> str | None:
    """The range that ends before the next launch and covers most of the gap, at least half.

    The outermost: it began before all others within it.
    """
    best, most = None, _NAMES_A_GAP * (gap.end - gap.start)
    for start, end, name in ranges:
        covered = min(end, gap.end) - max(start, gap.start)
        if end <= gap.launched_at and covered >= most and (best is None or covered > most):
            best, most = name, covered
    return best
