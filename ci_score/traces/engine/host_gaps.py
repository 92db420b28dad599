"""The time of a step in which the host ran no operator: what it did then, and between which two.

There Python runs, the data loader is waited for, or the other ranks are. A range that lies within
a gap gives it its name; else the operators before and after it do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ci_score.model.explanation import BACKWARD
from ci_score.traces.engine.gaps import LOADS_DATA, spans_called
from ci_score.traces.engine.host_calls import OperatorCalls
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.phases import LIBRARY_RANGE
from ci_score.traces.engine.timeline import Interval, intersection, length, subtract, union

# Shorter gaps are what it costs to call an operator. Under a profiler that is some 10 µs.
NAMED_FROM_US = 100.0
_NAMES_A_GAP = 0.5
_COMMUNICATES = re.compile(r"(nccl|gloo|mpi|ucc|xccl|c10d)(:|::)")

# The operators around a gap; None at either end of a step.
Between = tuple[str | None, str | None]


@dataclass(slots=True)
class HostGaps:
    """The ticks of all steps in which no operator ran: by cause, and those of long gaps by name."""

    loading: float = 0.0
    communicating: float = 0.0
    other: float = 0.0
    ranges: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    between: dict[Between, float] = field(default_factory=lambda: defaultdict(float))


def host_gaps(
    found: OperatorCalls,
    ranges: HostRanges,
    process: int,
    windows: Sequence[Interval],
    ticks_per_us: float,
) -> HostGaps:
    """The gaps between the operators of all threads, within the windows."""
    operators = found.host.operators
    outer = sorted(
        (operators.starts[call], operators.ends[call], call)
        for call in found.calls
        if call not in found.inside
    )
    gaps = HostGaps()
    free = subtract(union(windows), union((begin, end) for begin, end, _ in outer))
    loading = union(spans_called(LOADS_DATA, ranges, process))
    gaps.loading = length(intersection(free, loading))
    free = subtract(free, loading)
    communicating = union(spans_called(_COMMUNICATES, ranges, process))
    gaps.communicating = length(intersection(free, communicating))
    free = subtract(free, communicating)
    gaps.other = length(free)
    long = [gap for gap in free if gap[1] - gap[0] >= NAMED_FROM_US * ticks_per_us]
    named = dict(_ranges_within(long, ranges, process))
    for gap, between in zip(long, _neighbours(long, outer, found), strict=True):
        if gap in named:
            gaps.ranges[named[gap]] += gap[1] - gap[0]
        else:
            gaps.between[between] += gap[1] - gap[0]
    return gaps


def _ranges_within(
    gaps: Sequence[Interval], ranges: HostRanges, process: int
) -> Iterator[tuple[Interval, str]]:
    """Of each gap the longest range that lies in it, if that fills most of it."""
    inner = sorted(
        (each.start, each.end, ranges.names[each.name])
        for of_thread in ranges.threads(process).values()
        for each in of_thread
        if not LIBRARY_RANGE.match(ranges.names[each.name])
    )
    place = 0
    for gap in gaps:
        while place < len(inner) and inner[place][0] < gap[0]:
            place += 1
        longest, name = _NAMES_A_GAP * (gap[1] - gap[0]), None
        while place < len(inner) and inner[place][0] < gap[1]:
            begin, end, text = inner[place]
            if end <= gap[1] and end - begin >= longest:
                longest, name = end - begin, text
            place += 1
        if name is not None:
            yield gap, name


def _neighbours(
    gaps: Sequence[Interval], outer: Sequence[tuple[int, int, int]], found: OperatorCalls
) -> Iterator[Between]:
    """Of each gap the operators that ended last before it, and began first after it."""
    place = 0
    before: tuple[int, int, int] | None = None
    for gap in gaps:
        while place < len(outer) and outer[place][0] < gap[1]:
            before = outer[place]
            place += 1
        after = outer[place] if place < len(outer) else None
        yield _called(before, found), _called(after, found)


def _called(each: tuple[int, int, int] | None, found: OperatorCalls) -> str | None:
    if each is None:
        return None
    return BACKWARD if found.is_node(each[2]) else found.label(each[2])
