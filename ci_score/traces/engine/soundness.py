"""Whether a capture's records can be true. One that is broken is not judged, and says why.

The limits lie far from all sound files that were measured. What stays below one is noted. A launch
that was lost together with its kernel leaves no trace.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress, count, islice
from typing import NamedTuple

from ci_score.model.lists import plural
from ci_score.model.profile import Remedy
from ci_score.traces.engine.attribution import Attribution
from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.device_events import DeviceEvents
from ci_score.traces.engine.launch_calls import LaunchCalls
from ci_score.traces.engine.totals import MOST_BUSY, device_periods

# Shares of all calls that start kernels, of all events of a device, and of those of one stream.
MOST_WITHOUT_WORK, MOST_REPEATED = 0.02, 0.02
MOST_DOUBLED = 0.005
MOST_COPIED = 0.25
MOST_OVERLAPPED, LEAST_OVERLAPPED = 0.25, 4
# The part of the shorter of two events from which on they cannot have run one after the other.
_HALF = 2
# What a call that starts a kernel can take, in microseconds: a median.
SHORTEST_CALL, LONGEST_CALL = 0.2, 500.0
# The first launches of a program load what they launch.
LEAST_TIMED = 8
# So many events are enough to see how they overlap, or which of them are the same.
_BLOCK, _BLOCKS = 8_192, 4
_MOST_COMPARED, _FEW = 200_000, 20_000
_ONE_OF = 61


class Doubts(NamedTuple):
    """Why a capture is not judged, or None; what is to be noted of it, and what would settle it."""

    reason: str | None = None
    notes: tuple[str, ...] = ()
    remedy: Remedy | None = None


# --- the calls ----------------------------------------------------------------------------------


def doubts_of_calls(capture: Capture) -> Doubts:
    """What is wrong with the calls that start work; a cut file has a rule of its own for them."""
    calls = capture.launch_calls
    if len(calls.ticks) >= LEAST_TIMED:
        median = sorted(calls.ticks)[len(calls.ticks) // 2] / capture.ticks_per_us
        if not SHORTEST_CALL <= median <= LONGEST_CALL:
            return Doubts(
                f"its calls that launch kernels take {median:.3g} us (median), and others take"
                f" {SHORTEST_CALL:g} to {LONGEST_CALL:g} us: the times are in another unit, or each"
                " call waits for its kernel (CUDA_LAUNCH_BLOCKING)",
                remedy="as written",
            )
    if calls.repeated > MOST_REPEATED * calls.calls:
        return Doubts(
            f"{calls.repeated} of {calls.calls} calls of the runtime have the correlation id of"
            " another one: the file holds records twice, or those of several processes",
            remedy="own file",
        )
    return Doubts() if capture.is_cut else _doubts_of_lost(calls)


def _doubts_of_lost(calls: LaunchCalls) -> Doubts:
    notes = []
    if calls.without_copy:
        of_all = f"of {plural(calls.copies, 'call')} that copy"
        notes = [f"{calls.without_copy} {of_all} have no copy on the device: it is not counted"]
    if not calls.without_work:
        return Doubts(notes=tuple(notes))
    lost = f"{calls.without_work} of {plural(calls.kernels, 'launch')} have no work on the device"
    if calls.captured_graphs:
        return Doubts(notes=(*notes, f"{lost}: graphs were captured, which run later"))
    if calls.without_work <= MOST_WITHOUT_WORK * calls.kernels:
        return Doubts(notes=(*notes, f"{lost}: it is not counted"))
    reason = f"{lost}: the profiler lost it, and the device's times are too short"
    return Doubts(reason, tuple(notes), "fewer steps")


# --- the device's events ------------------------------------------------------------------------


def doubts_of_events(events: DeviceEvents, *, nests: bool = False) -> Doubts:
    """What is wrong with a device's events, which come by start.

    `nests`: an event may hold others of its stream, as a loop its body.
    """
    doubled, copied = _doubled(events)
    if doubled > MOST_DOUBLED * len(events):
        return Doubts(
            f"{doubled} of {len(events)} device events are there twice (the same name, stream,"
            " start and duration): the file holds records more than once",
            remedy="as written",
        )
    if copied > MOST_COPIED * len(events):
        return _copies(copied, len(events))
    notes = (
        [f"{plural(doubled, 'device event')} of {len(events)} are there twice"] if doubled else []
    )
    share, slightly = (0.0, 0.0) if nests else overlaps_of(events)
    if share > MOST_OVERLAPPED:
        return Doubts(
            f"{100 * share:.0f} % of the events of a stream overlap another one of it by more than"
            " half, and a stream runs one after the other: the file holds the events of several"
            " captures or processes, or wrong times",
            remedy="own file",
        )
    if slightly >= MOST_DOUBLED:
        notes.append(
            f"{100 * slightly:.1f} % of the events of a stream begin before the one before has"
            f" ended ({100 * share:.1f} % by more than half)"
        )
    return Doubts(notes=tuple(notes))


def doubts_of_copies(lanes: Sequence[DeviceEvents]) -> Doubts:
    """Whether events of a device come again on another one, under another name of it."""
    if len(lanes) < 2:
        return Doubts()
    total = sum(map(len, lanes))
    of_all = 1 if total < _FEW else _ONE_OF
    compared = list(islice(chain.from_iterable(_some(each, of_all) for each in lanes), 2 * _FEW))
    copied = len(compared) - len(set(compared))
    if copied <= MOST_COPIED * len(compared):
        return Doubts()
    return _copies(copied, len(compared))


def _copies(copied: int, compared: int) -> Doubts:
    return Doubts(
        f"{100 * copied / compared:.0f} % of the device events are there again on another stream or"
        " device (the same name, start and duration): the file holds records more than once",
        remedy="as written",
    )


def _some(events: DeviceEvents, of_all: int) -> Iterator[tuple[int, int, int]]:
    """Events by what they are, chosen by their start: of each copy the same ones."""
    rows = zip(events.starts, events.ends, events.names, strict=True)
    return (row for row in rows if not row[0] % of_all and row[1] > row[0])


def _doubled(events: DeviceEvents) -> tuple[int, int]:
    """How many events are there before with the same name, start and duration.

    First those of the same stream, then those of any.
    """
    starts = events.starts
    again = compress(count(1), map(operator.eq, starts, islice(starts, 1, None)))
    places = list(islice(again, _MOST_COMPARED))
    if not places:
        return 0, 0
    alike = sorted({*places, *(place - 1 for place in places)})
    alike = [place for place in alike if events.ends[place] > starts[place]]
    columns = [array("q", map(each.__getitem__, alike)) for each in events.columns[:4]]
    distinct = (len(set(zip(*columns[:size], strict=True))) for size in (4, 3))
    on_one, on_any = (len(alike) - number for number in distinct)
    return on_one, on_any


def overlaps_of(events: DeviceEvents) -> tuple[float, float]:
    """The largest share of a stream's events that overlap one before: by more than half, and any.

    Of many events four long stretches are looked at.
    """
    worst = any_overlap = 0.0
    for block in _blocks(len(events)):
        starts, ends = events.starts[block], events.ends[block]
        if all(map(operator.le, accumulate(ends, max), islice(starts, 1, None))):
            continue
        for half, some, total in _overlaps_by_stream(starts, ends, events.streams[block]):
            if half >= LEAST_OVERLAPPED:
                worst = max(worst, half / total)
            if some >= LEAST_OVERLAPPED:
                any_overlap = max(any_overlap, some / total)
    return worst, any_overlap


def _blocks(size: int) -> list[slice]:
    if size <= _BLOCKS * _BLOCK:
        return [slice(0, size)]
    begins = [(size - _BLOCK) * place // (_BLOCKS - 1) for place in range(_BLOCKS)]
    return [slice(begin, begin + _BLOCK) for begin in begins]


def _overlaps_by_stream(
    starts: Sequence[int], ends: Sequence[int], streams: Sequence[int]
) -> Iterable[list[int]]:
    """For each stream the events that overlap by more than half, those that do at all, and all."""
    last: dict[int, tuple[int, int]] = {}
    totals: dict[int, list[int]] = {}
    for start, end, stream in zip(starts, ends, streams, strict=True):
        before = last.get(stream)
        if before is None:
            last[stream] = start, end
            totals[stream] = [0, 0, 1]
            continue
        found = totals[stream]
        found[2] += 1
        if start < before[1]:
            shared = min(before[1], end) - start
            found[1] += shared > 0
            found[0] += _HALF * shared > min(before[1] - before[0], end - start)
        if end > before[1]:
            last[stream] = start, end
    return totals.values()


# --- the steps ----------------------------------------------------------------------------------


def doubts_of_steps(whole: Attribution, step_ticks: float) -> Doubts:
    """Whether the device is busy for longer than its steps take; the host's step may end before."""
    periods = device_periods(whole.works, whole.steps)
    if not periods:
        busy = whole.busy
        if busy <= step_ticks or not step_ticks:
            return Doubts()
        share = f"{busy / step_ticks:.2f} times as long as the host's step takes"
        note = f"the device is busy for {share}: it works on after the host has ended the step"
        return Doubts(notes=(note,))
    busy = sum(whole.works[place].time.busy for place in periods)
    total = sum(periods.values())
    if busy <= MOST_BUSY * total:
        return Doubts()
    return Doubts(
        f"the device is busy for {busy / total if total > 0 else 0:.2f} times as long as its steps"
        " take: the work of several processes or steps is mixed",
        remedy="own file",
    )
