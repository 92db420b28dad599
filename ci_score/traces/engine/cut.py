"""Which steps of a trace that is cut short are whole: only those count, where they are in a row.

The text is in no order: calls and the work that they started come in buffers, and any of both may
be behind the cut. So each call has to have its work, no work without a call may be the step's, and
what is lost of both, or of the host's, shows beside the fullest step.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate, chain
from math import inf
from operator import itemgetter

from ci_score.model.lists import plural
from ci_score.traces.engine.capture import Capture, Lane
from ci_score.traces.engine.device_events import NONE
from ci_score.traces.engine.host import KERNEL, MEMCPY, MEMSET, Host
from ci_score.traces.engine.steps import Steps
from ci_score.traces.engine.timeline import Interval, Windows

# Two steps make a period; operators vary a little from one to the next, and the runtime leaves out
# a fill of nothing.
_LEAST_WHOLE_STEPS = 2
_WHOLE_OPERATORS = 0.99
_WHOLE_FILLS = 0.9


def whole_steps(capture: Capture, steps: Steps | None, process: int) -> tuple[Steps | None, str]:
    """The steps of which nothing is missing, with a note; or None, with the reason."""
    if steps is None:
        return None, "the trace is cut short, and without step markers no step is known to be whole"
    if any(_has_graphs(lane) for lane in capture.lanes):
        return None, (
            "the trace is cut short, and whether its CUDA graphs have all kernels is not known"
        )
    host = capture.hosts.get(process, Host())
    whole = _longest_run(_Cut(capture, host, steps).whole(), steps)
    count = len(steps.windows)
    if len(whole) < _LEAST_WHOLE_STEPS:
        return None, (
            f"the trace is cut short: of {plural(count, 'step')} it is known of"
            f" {len(whole) or 'none'} that nothing is missing, and no whole step follows another"
        )
    left_out = count - len(whole)
    note = f"left out {plural(left_out, 'step')} that the cut may have reached" if left_out else ""
    return steps.only(whole), note


def _has_graphs(lane: Lane) -> bool:
    """Whether one call launched several kernels."""
    calls = Counter(lane.events.calls)
    calls.pop(NONE, None)
    return any(count > 1 for count in calls.values())


def _longest_run(places: Sequence[int], steps: Steps) -> list[int]:
    """The most of these steps that come one right after the other; of equals the first."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place - 1 and steps.adjacent(place):
            runs[-1].append(place)
        else:
            runs.append([place])
    return max(runs, key=len, default=[])


class _Cut:
    """A cut capture and the steps of it."""

    def __init__(self, capture: Capture, host: Host, steps: Steps) -> None:
        self.capture, self.host, self.steps = capture, host, steps
        self.windows = Windows(steps.windows)

    def whole(self) -> list[int]:
        """The places of the steps of which nothing is missing."""
        host, windows, launches = self.host, self.windows, self.host.launches
        step_of = array("i", windows.places(launches.starts))
        calls = list(chain.from_iterable(lane.events.calls for lane in self.capture.lanes))
        called = Counter(zip(step_of, launches.kinds, strict=True))
        worked = Counter(
            (step_of[call], launches.kinds[call]) for call in set(calls) if call != NONE
        )
        # The last is for work without a call, whose place is -1.
        step_of.append(NONE)
        events = Counter(step_of[call] for call in calls)
        modules = Counter(windows.places(host.modules.starts))
        annotations = Counter(windows.places(self._range_starts()))
        operators = Counter(windows.places(host.operators.starts))
        places = range(len(self.steps.windows))
        most_operators = max(operators[place] for place in places)
        has_kernels = bool(self.capture.busy_lanes())
        tallies = [
            (
                worked[place, KERNEL] if has_kernels else operators[place],
                *(worked[place, kind] for kind in (MEMCPY, MEMSET)),
                *(each[place] for each in (events, modules, annotations)),
            )
            for place in places
        ]
        fullest = tuple(map(max, zip(*tallies, strict=True)))
        doubtful = self._doubtful()
        return [
            place
            for place in places
            if tallies[place] == fullest
            and fullest[0]
            and place not in doubtful
            and all(worked[place, kind] == called[place, kind] for kind in (KERNEL, MEMCPY))
            and worked[place, MEMSET] >= _WHOLE_FILLS * called[place, MEMSET]
            and operators[place] >= _WHOLE_OPERATORS * most_operators
        ]

    def _range_starts(self) -> list[int]:
        threads = self.capture.ranges.threads(0).values()
        return list(chain.from_iterable(of_thread.starts for of_thread in threads))

    def _doubtful(self) -> set[int]:
        """The steps that may have started work whose call is missing.

        A stream runs its work in the order of the calls: a call was made between those of the work
        before and after, and before its own work. What ran before all work that has calls was
        started before the profiler.
        """
        first: float = min((start for start, call in self._work() if call != NONE), default=-inf)
        # How many doubts begin at a step less those that ended before it: each costs the same.
        changes = [0] * (len(self.steps.windows) + 1)
        for work in self._streams():
            work.sort()
            starts = self.host.launches.starts
            times = [starts[call] if call != NONE else None for _, call in work]
            after = list(accumulate(reversed(times), _last_known))
            before: float = -inf
            for (start, _), time, next_time in zip(work, times, reversed(after), strict=True):
                if time is not None:
                    before = time
                elif start >= first:
                    until = start if next_time is None else min(start, next_time)
                    overlapping = _overlapping(self.steps.windows, before, until)
                    changes[overlapping.start] += 1
                    changes[overlapping.stop] -= 1
        return {place for place, doubts in enumerate(accumulate(changes)) if doubts}

    def _work(self) -> list[tuple[int, int]]:
        return list(chain.from_iterable(self._streams()))

    def _streams(self) -> list[list[tuple[int, int]]]:
        streams: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for number, lane in enumerate(self.capture.lanes):
            events = lane.events
            for start, call, stream in zip(
                events.starts, events.calls, events.streams, strict=True
            ):
                streams[number, stream].append((start, call))
        return list(streams.values())


def _last_known(known: int | None, time: int | None) -> int | None:
    return known if time is None else time


def _overlapping(windows: Sequence[Interval], begin: float, end: float) -> range:
    """The places of those that reach into a span of time."""
    first = bisect_right(windows, begin, key=itemgetter(1))
    return range(first, max(bisect_right(windows, end, key=itemgetter(0)), first))
