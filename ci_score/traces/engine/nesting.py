"""What is around what on the threads of a host: marks, operators, and moments between them.

A moment is a call that launches work, or an allocation. Each belongs to its holder: the innermost
mark or node of autograd around it, whichever is further in.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from ci_score.traces.engine.autograd import is_node_name
from ci_score.traces.engine.host import Host, Marks, Operators
from ci_score.traces.engine.timeline import Interval

# A holder: a mark is its place and one, a node its place and one below zero.
NOBODY = 0
_MARK, _OPERATOR, _LAUNCH, _ALLOCATION = range(4)


class Coverage:
    """Disjoint and sorted intervals, asked again and again how much of a span they cover."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self._begins = [begin for begin, _ in intervals]
        self._ends = [end for _, end in intervals]
        self._sums = [0.0, *accumulate(end - begin for begin, end in intervals)]

    def of(self, start: float, end: float) -> float:
        """How much of the time from start to end they cover."""
        return max(self._until(end) - self._until(start), 0.0)

    def _until(self, time: float) -> float:
        place = bisect_right(self._begins, time)
        if not place:
            return 0.0
        return self._sums[place] - max(self._ends[place - 1] - time, 0.0)


class _Frame(NamedTuple):
    """A mark or an operator that is open; `mark` is the innermost mark, whatever nodes are in it.

    The holder is that of what lies within it.
    """

    end: int
    kind: int
    place: int
    holder: int
    mark: int


@dataclass(slots=True)
class Nested:
    """The holders of a host's operators, launches and allocations, and whose time is whose.

    `own` has an operator's time without what lies within it. Time that no operator has belongs to
    a mark: `before` it the time since what ended last, on its thread or in the operator around it,
    and `inside` it its own.
    """

    of_operators: array[int]
    of_launches: array[int]
    of_memory: array[int]
    own: array[int]
    before: array[int]
    inside: array[int]
    is_node: bytes
    # The holder around a node, and for one without a number the node with one that ran before it.
    around: dict[int, int] = field(default_factory=dict)
    previous: dict[int, int] = field(default_factory=dict)


# How much of a span on a thread counts as an operator's own, and how much as nobody's.
Measure = Callable[[float, float], float]


class Measures(NamedTuple):
    """How much of a span of a thread counts: within an operator, a mark, and outside both."""

    operator: Measure
    mark: Measure
    outside: Measure


def nested(host: Host, measures: Callable[[int], Measures]) -> Nested:
    """Goes through each thread once, from its first event to its last."""
    operators, marks = host.operators, host.marks
    is_node = bytes(map(is_node_name, host.names))
    found = Nested(
        of_operators=_zeros(len(operators)),
        of_launches=_zeros(len(host.launches)),
        of_memory=_zeros(len(host.memory)),
        own=_zeros(len(operators)),
        before=_zeros(len(marks)),
        inside=_zeros(len(marks)),
        is_node=bytes(map(is_node.__getitem__, operators.names)),
    )
    for thread, events in _by_thread(host).items():
        _Thread(found, operators, marks, measures(thread)).go_through(events)
    return found


def _zeros(count: int) -> array[int]:
    return array("q", [0]) * count


# Start, whether it is a moment, the end below zero, kind and place: what is around comes first.
_Event = tuple[int, bool, int, int, int]


def _by_thread(host: Host) -> dict[int, list[_Event]]:
    """The events of each thread by their start, what is longer first; moments lie within spans."""
    found: dict[int, list[_Event]] = defaultdict(list)
    for thread, event in _events(host):
        found[thread].append(event)
    for events in found.values():
        events.sort()
    return found


def _events(host: Host) -> Iterator[tuple[int, _Event]]:
    spans: Sequence[tuple[int, Marks | Operators]] = (
        (_MARK, host.marks),
        (_OPERATOR, host.operators),
    )
    for kind, column in spans:
        rows = zip(column.threads, column.starts, column.ends, strict=True)
        for place, (thread, start, end) in enumerate(rows):
            yield thread, (start, False, -end, kind, place)
    for kind, moments in ((_LAUNCH, host.launches), (_ALLOCATION, host.memory)):
        for place, (thread, start) in enumerate(zip(moments.threads, moments.starts, strict=True)):
            yield thread, (start, True, 0, kind, place)


class _Thread:
    """One thread on the way from its first event to its last."""

    def __init__(
        self, found: Nested, operators: Operators, marks: Marks, measures: Measures
    ) -> None:
        self.found, self.measures = found, measures
        self.operators, self.marks = operators, marks
        self.stack: list[_Frame] = []
        # Up to here the time of what is open has been given to somebody.
        self.done = 0
        # What nobody was in since the last mark.
        self.pending = 0.0
        # The last node with a number, by the mark of the `backward()` that ran it.
        self.numbered: dict[int, int] = {}

    def go_through(self, events: Sequence[_Event]) -> None:
        """All events, and what is open after the last one."""
        if not events:
            return
        # What came before the first event counts to its mark, too.
        self.done = -(2**62)
        for start, is_moment, minus_end, kind, place in events:
            self._close(start)
            if is_moment:
                holders = self.found.of_launches if kind == _LAUNCH else self.found.of_memory
                holders[place] = self.stack[-1].holder if self.stack else NOBODY
            else:
                self._open(start, -minus_end, kind, place)
        self._close(2**62)

    def _close(self, until: int) -> None:
        """Ends what ends before this time; each has the time since what ended in it last."""
        while self.stack and self.stack[-1].end <= until:
            frame = self.stack.pop()
            self._give_own(frame, frame.end)

    def _give_own(self, frame: _Frame, until: int) -> None:
        if until <= self.done:
            return
        if frame.kind == _OPERATOR:
            self.found.own[frame.place] += int(self.measures.operator(self.done, until))
        else:
            self.found.inside[frame.place] += int(self.measures.mark(self.done, until))
        self.done = until

    def _open(self, start: int, end: int, kind: int, place: int) -> None:
        around = self.stack[-1] if self.stack else None
        if kind == _MARK:
            self._give_to_mark(around, start, place)
            frame = _Frame(end, kind, place, place + 1, place + 1)
        else:
            self._give_to_what_is_around(around, start)
            frame = self._operator(around, end, place)
        self.stack.append(frame)

    def _give_to_mark(self, around: _Frame | None, start: int, mark: int) -> None:
        """Time without an operator is of the next mark, and what an operator did in Python."""
        if start > self.done:
            measure = self.measures.outside
            if around is not None:
                is_operator = around.kind == _OPERATOR
                measure = self.measures.operator if is_operator else self.measures.mark
            self.pending += measure(self.done, start)
            self.done = start
        self.found.before[mark] += int(self.pending)
        self.pending = 0.0

    def _give_to_what_is_around(self, around: _Frame | None, start: int) -> None:
        if around is not None:
            self._give_own(around, start)
        elif start > self.done:
            self.pending += self.measures.outside(self.done, start)
            self.done = start

    def _operator(self, around: _Frame | None, end: int, place: int) -> _Frame:
        holder, mark = (around.holder, around.mark) if around is not None else (NOBODY, NOBODY)
        self.found.of_operators[place] = holder
        if self.found.is_node[place]:
            self.found.around[place] = holder
            if self.operators.sequences[place] >= 0:
                self.numbered[mark] = place
            elif mark in self.numbered:
                self.found.previous[place] = self.numbered[mark]
            holder = -place - 1
            self.found.of_operators[place] = holder
        return _Frame(end, _OPERATOR, place, holder, mark)
