"""Which allocations are in use when a step uses most memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.device_events import NONE
from ci_score.traces.engine.host import Host, MemoryEvents
from ci_score.traces.engine.host_calls import OperatorCalls, operator_calls
from ci_score.traces.engine.steps import Steps
from ci_score.traces.engine.timeline import Interval, Windows

# So many operators are named, those with most bytes.
MOST_PEAK_OPS = 256
_ALWAYS = (-(2**62), 2**62)
# More than any machine has, and less than what a number may hold.
_MOST_BYTES = 2**60


@dataclass(frozen=True, slots=True)
class Peak:
    """The bytes in use at the peak of one memory, and those of the allocations that were seen.

    `live` has the place of each allocation among the events. What was allocated before the capture
    is in the total alone.
    """

    memory: int
    total: int
    live: Mapping[int, int] = field(default_factory=dict)


def peak_of(events: MemoryEvents, windows: Sequence[Interval]) -> Peak | None:
    """The peak within the windows: of the device that has the most, else of the host."""
    order = sorted(range(len(events)), key=events.starts.__getitem__)
    totals = _totals(events, order)
    peaks: dict[int, int] = {}
    in_steps = Windows(sorted(windows)).places(map(events.starts.__getitem__, order))
    for event, place in zip(order, in_steps, strict=True):
        memory = events.memories[event]
        if place >= 0 and (memory not in peaks or totals[event] > totals[peaks[memory]]):
            peaks[memory] = event
    # The host's counts where there is no other.
    chosen = max(
        (memory for memory in peaks if memory >= 0),
        key=lambda memory: (memory > 0, totals[peaks[memory]]),
        default=None,
    )
    if chosen is None:
        return None
    live = _live(events, order, chosen, peaks[chosen])
    total = max(totals[peaks[chosen]], sum(live.values()))
    return Peak(chosen, min(total, _MOST_BYTES), live)


def _totals(events: MemoryEvents, order: Sequence[int]) -> array[int]:
    """What is in use after each event; where nobody says, the sum of all events."""
    sums: Counter[int] = Counter()
    totals = array("q", [0]) * len(events)
    for event in order:
        memory = events.memories[event]
        sums[memory] = min(max(sums[memory] + events.sizes[event], 0), _MOST_BYTES)
        told = events.totals[event]
        totals[event] = told if told >= 0 else sums[memory]
    return totals


def _live(events: MemoryEvents, order: Sequence[int], memory: int, last: int) -> dict[int, int]:
    """The allocations of a memory that are in use after an event, each with its bytes.

    Together they have no more than any machine has, whatever a trace tells.
    """
    at: dict[int, int] = {}
    for event in order:
        if events.memories[event] == memory:
            if events.sizes[event] > 0 and events.addresses[event] != NONE:
                at[events.addresses[event]] = event
            elif events.sizes[event] < 0:
                at.pop(events.addresses[event], None)
        if event == last:
            break
    left = _MOST_BYTES
    live: dict[int, int] = {}
    for event in at.values():
        live[event] = min(events.sizes[event], left)
        left -= live[event]
    return live


def peak_ops(capture: Capture, process: int, steps: Steps | None) -> dict[str, int]:
    """Bytes in use at the peak by what the program called to allocate them.

    Without marks of steps it is that of the whole capture.
    """
    host = capture.hosts.get(process, Host())
    if not len(host.memory):
        return {}
    steps = steps or capture.first_marked(process)
    peak = peak_of(host.memory, steps.windows if steps and steps.host_times else [_ALWAYS])
    if peak is None or not peak.live:
        return {}
    found = operator_calls(host, [_ALWAYS])
    sums: Counter[str] = Counter()
    for event, call in _innermost(found, host.memory, list(peak.live)).items():
        sums[found.label(found.caller[call])] += peak.live[event]
    return dict(sums.most_common(MOST_PEAK_OPS))


def _innermost(
    found: OperatorCalls, events: MemoryEvents, wanted: Sequence[int]
) -> Mapping[int, int]:
    """Of each of the wanted events the operator in which it lies, if there is one."""
    operators = found.host.operators
    moments: dict[int, list[int]] = {}
    for event in sorted(wanted, key=events.starts.__getitem__, reverse=True):
        moments.setdefault(events.threads[event], []).append(event)
    inside: dict[int, int] = {}
    open_calls: dict[int, list[int]] = {thread: [] for thread in moments}

    def settle(thread: int, until: float) -> None:
        stack, waiting = open_calls[thread], moments[thread]
        while waiting and events.starts[waiting[-1]] < until:
            event = waiting.pop()
            while stack and operators.ends[stack[-1]] <= events.starts[event]:
                stack.pop()
            if stack:
                inside[event] = stack[-1]

    for call in found.calls:
        if (thread := operators.threads[call]) in moments:
            settle(thread, operators.starts[call])
            open_calls[thread].append(call)
    for thread in moments:
        settle(thread, float("inf"))
    return inside
