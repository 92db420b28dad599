"""A step whose calls stand in marks: what each marked line of the program takes of it.

Work belongs to the innermost mark around it. That of the backward pass belongs to the node that ran
it, and goes to the line whose operator made the node: both have one sequence number, which counts
on each thread by itself.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from ci_score.model.step_code import CodeWork, MarkedStep
from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.host import Host
from ci_score.traces.engine.host_calls import operator_calls
from ci_score.traces.engine.host_only import counted_windows, operators_of_steps
from ci_score.traces.engine.memory import Peak, peak_of
from ci_score.traces.engine.nesting import NOBODY, Coverage, Measures, Nested, nested
from ci_score.traces.engine.steps import Steps
from ci_score.traces.engine.timeline import Interval, Windows, subtract, union

MARK = "ci_score.line#"
# Decimal, from 1, as the table of the launch counts its lines; the first mark of a call has a plus.
_NUMBER = re.compile(r"([1-9][0-9]{0,6})(\+?)")
# The lines that take most; what a million others do has no line.
MOST_MARKED = 20_000
# Where between the shortest and the longest pause before a mark that of a mark alone is.
_USUAL_PAUSE, _USUAL_INSIDE = 0.1, 0.5


def mark_of(name: str) -> tuple[int, bool] | None:
    """The line of a mark's name, and whether a call begins; None of what the hook did not write."""
    found = _NUMBER.fullmatch(name.removeprefix(MARK))
    return (int(found[1]), bool(found[2])) if found else None


def marked_step(capture: Capture) -> MarkedStep:
    """What the marks of a capture say of a step: of none where nothing marks the steps."""
    host = capture.hosts.get(0, Host())
    steps = capture.first_marked(0)
    if steps is None:
        return MarkedStep()
    steps, _ = steps.limited()
    windows = _whole_windows(steps)
    found, lines = lines_of(host, steps)
    tally = _Tally()
    _add_work(tally, capture, host, found, lines, windows)
    _add_python(tally, host, found)
    _add_calls(tally, host, windows)
    peak = peak_of(host.memory, steps.windows)
    return _as_step(tally, capture, steps, _peaks(peak, found, lines))


def lines_of(host: Host, steps: Steps) -> tuple[Nested, Lines]:
    """The holders of all that the host did, and whose line each holder is."""
    main = _main_thread(host, steps)
    clock = _Clock(host, _whole_windows(steps), steps.windows[0], main)
    found = nested(host, clock.measures)
    return found, Lines(host, found, main)


def _whole_windows(steps: Steps) -> list[Interval]:
    """Each step until the next begins, so that what is between them counts, and the last one."""
    ends = dict(steps.periods)
    return [ends.get(place, window) for place, window in enumerate(steps.windows)]


def _main_thread(host: Host, steps: Steps) -> int:
    """The thread of the steps; else that with most marks."""
    if isinstance(steps.thread, int):
        return steps.thread
    return next((thread for thread, _ in Counter(host.marks.threads).most_common(1)), -1)


class _Clock:
    """How time is measured: within the steps, and Python's where nothing else runs.

    Only the thread of the steps works when nothing is open on it: the others wait for something to
    do. And while others run operators, or a call waits for the device, it waits for them. Python of
    the first step is not looked at where there are more: there the profiler starts, and each line
    is met for the first time.
    """

    def __init__(self, host: Host, windows: Sequence[Interval], first: Interval, main: int) -> None:
        self._main = main
        whole = union(windows)
        later = subtract(whole, [first]) or whole
        self._own = Coverage(whole).of
        self._python = Coverage(later).of
        operators = host.operators
        rows = zip(operators.starts, operators.ends, operators.threads, strict=True)
        others = ((start, end) for start, end, thread in rows if thread != main)
        waits = ((wait.start, wait.end) for wait in host.waits if wait.thread == main)
        self._alone = Coverage(subtract(later, union(chain(others, waits)))).of

    def measures(self, thread: int) -> Measures:
        """Those of one thread."""
        if thread != self._main:
            return Measures(self._own, self._python, self._python, outside=lambda *_: 0.0)
        return Measures(self._own, self._python, self._alone, self._alone)


# --- whose line --------------------------------------------------------------------------------


class Place(NamedTuple):
    """A line by its number, 0 where none is known, and whether autograd's nodes lead to it."""

    number: int
    is_backward: bool


class Lines:
    """The line of every holder; a node leads to the operator that made it, whose holder counts."""

    def __init__(self, host: Host, found: Nested, main: int) -> None:
        self._host, self._found = host, found
        self._made_by = _makers(host, found)
        self._thread_of = _forward_threads(host, found)
        # What is known of nodes: their marks, and those of the calls that ran them.
        self._known: dict[int, int] = {}
        self._calls: dict[int, int] = {}
        marks = host.marks
        rows = zip(marks.starts, marks.ends, marks.threads, strict=True)
        self._of_main = sorted(
            (start, end, place + 1)
            for place, (start, end, thread) in enumerate(rows)
            if thread == main
        )
        self._main = Windows([(start, end) for start, end, _ in self._of_main])

    def of(self, holder: int) -> Place:
        """The line of what has this holder."""
        mark = holder if holder >= NOBODY else self._mark_of_node(holder)
        number = self._host.marks.numbers[mark - 1] if mark else 0
        return Place(number, holder < NOBODY)

    def _mark_of_node(self, holder: int) -> int:
        """The mark at the end of the way from a node; a way in a circle leads to the call's."""
        way: dict[int, None] = {}
        while holder < NOBODY and holder not in self._known and holder not in way:
            way[holder] = None
            holder = self._next(-holder - 1)
        if holder in way:
            holder = self._call_of(holder)
        holder = self._known.get(holder, holder)
        self._known.update(dict.fromkeys(way, holder))
        return holder

    def _next(self, node: int) -> int:
        """The holder of the operator that made a node.

        A node without a number, which adds up gradients, is that of the one before it. Of others
        only the call is known that ran the backward pass.
        """
        found, operators = self._found, self._host.operators
        number = operators.sequences[node]
        if number < 0 and node in found.previous:
            return -found.previous[node] - 1
        if number >= 0:
            maker = self._maker(node, number)
            if maker >= 0 and operators.starts[maker] <= operators.starts[node]:
                return found.of_operators[maker]
        return self._around(node)

    def _call_of(self, holder: int) -> int:
        """The mark of the call that ran the backward pass of a node."""
        way: list[int] = []
        while holder < NOBODY and holder not in self._calls:
            way.append(holder)
            holder = self._around(-holder - 1)
        holder = self._calls.get(holder, holder)
        self._calls.update(dict.fromkeys(way, holder))
        return holder

    def _around(self, node: int) -> int:
        """What is around a node; on a thread of its own the call on that of the steps."""
        return self._found.around[node] or self._call_at(self._host.operators.starts[node])

    def _maker(self, node: int, number: int) -> int:
        operators = self._host.operators
        thread = self._thread_of.get(operators.forward_threads[node], operators.threads[node])
        maker = self._made_by.get((thread, number))
        return self._made_by.get((-1, number), -1) if maker is None else maker

    def _call_at(self, time: int) -> int:
        place = self._main.at(time)
        return self._of_main[place][2] if place >= 0 else NOBODY


def _makers(host: Host, found: Nested) -> dict[tuple[int, int], int]:
    """The last operator with a number is the one that made the node: by thread and number.

    Thread -1 has the last of all threads.
    """
    operators = host.operators
    order: Sequence[int] = range(len(operators))
    order = sorted(order, key=operators.starts.__getitem__)
    makers: dict[tuple[int, int], int] = {}
    for call in order:
        number = operators.sequences[call]
        # What runs in a node with the node's own number is no forward work.
        if number >= 0 and not found.is_node[call] and operators.forward_threads[call] <= 0:
            makers[operators.threads[call], number] = makers[-1, number] = call
    return makers


def _forward_threads(host: Host, found: Nested) -> Mapping[int, int]:
    """Which thread the profiler's own number of one means: as most arrows to nodes say."""
    operators, arrows = host.operators, host.arrows
    nodes = {
        (operators.threads[node], operators.starts[node]): operators.forward_threads[node]
        for node in found.around
        if operators.forward_threads[node] > 0
    }
    begins: dict[int, int] = {}
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    rows = sorted(zip(arrows.starts, arrows.numbers, arrows.threads, strict=True))
    for start, number, thread in rows:
        if number not in begins:
            begins[number] = thread
        elif (thread, start) in nodes:
            votes[nodes[thread, start]][begins[number]] += 1
    return {named: threads.most_common(1)[0][0] for named, threads in votes.items()}


# --- what a line takes -------------------------------------------------------------------------


@dataclass(slots=True)
class _Tally:
    """Ticks and numbers of all steps, by line; backward apart."""

    ticks: dict[Place, float] = field(default_factory=lambda: defaultdict(float))
    launches: Counter[Place] = field(default_factory=Counter)
    python: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[int] = field(default_factory=Counter)


def _add_work(
    tally: _Tally,
    capture: Capture,
    host: Host,
    found: Nested,
    lines: Lines,
    windows: Sequence[Interval],
) -> None:
    """The kernels that a line launched, or where there is no device its operators' own time."""
    lanes = capture.busy_lanes()
    if not lanes:
        _add_operators(tally, host, found, lines, windows)
    for lane in lanes:
        events = lane.events
        calls = events.calls or array("i", [-1]) * len(events)
        launched = [
            host.launches.starts[call] if call >= 0 else start
            for call, start in zip(calls, events.starts, strict=True)
        ]
        places = Windows(windows).places(launched)
        rows = zip(calls, places, events.starts, events.ends, events.names, strict=True)
        for call, place, start, end, name in rows:
            if place >= 0 and end >= start:
                line = lines.of(found.of_launches[call] if call >= 0 else NOBODY)
                tally.ticks[line] += end - start
                tally.launches[line] += capture.names.is_kernel(name)


def _add_operators(
    tally: _Tally, host: Host, found: Nested, lines: Lines, windows: Sequence[Interval]
) -> None:
    places = Windows(windows).places(host.operators.starts)
    rows = zip(found.of_operators, found.own, found.is_node, places, strict=True)
    for holder, ticks, is_node, place in rows:
        if ticks or place >= 0:
            line = lines.of(holder)
            tally.ticks[line] += ticks
            tally.launches[line] += not is_node and place >= 0


def _add_python(tally: _Tally, host: Host, found: Nested) -> None:
    """The time of the host in which no operator ran, without what marks themselves cost.

    Each costs some microseconds before it and inside: with thousands of them that would be more
    than all Python of a step. Before most of them there is some Python of the program, too, so
    the shortest tenth of all pauses tells what a mark costs; inside it is rare, so half of them.
    """
    marks = range(len(host.marks))
    for places, column, share in (
        (marks, found.before, _USUAL_PAUSE),
        (marks, found.inside, _USUAL_INSIDE),
        (found.marks_of_pauses, found.pauses, _USUAL_INSIDE),
    ):
        usual = _usual(column, share)
        for mark, ticks in zip(places, column, strict=True):
            if ticks > usual:
                tally.python[host.marks.numbers[mark]] += ticks - usual


def _add_calls(tally: _Tally, host: Host, windows: Sequence[Interval]) -> None:
    marks, places = host.marks, Windows(windows).places(host.marks.starts)
    for number, is_call, place in zip(marks.numbers, marks.calls, places, strict=True):
        tally.calls[number] += is_call and place >= 0


def _usual(column: Sequence[int], share: float) -> int:
    known = sorted(filter(None, column))
    return known[int(len(known) * share)] if known else 0


# --- memory ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Peaks:
    """The bytes in use at the peak, and those of each line."""

    total: int = 0
    by_line: Mapping[int, int] = field(default_factory=dict)


def _peaks(peak: Peak | None, found: Nested, lines: Lines) -> _Peaks:
    if peak is None:
        return _Peaks()
    by_line: Counter[int] = Counter()
    for event, size in peak.live.items():
        by_line[lines.of(found.of_memory[event]).number] += size
    return _Peaks(peak.total, by_line)


# --- a step ------------------------------------------------------------------------------------


def _as_step(tally: _Tally, capture: Capture, steps: Steps, peaks: _Peaks) -> MarkedStep:
    count, per_ms = len(steps.windows), capture.ticks_per_ms
    numbers = {place.number for place in tally.ticks} | {*tally.python, *peaks.by_line}
    work = {
        number: _work_of(tally, number, peaks, per_ms, count)
        for number in _largest(tally, numbers - {0})
    }
    without = (ticks for place, ticks in tally.ticks.items() if place.number not in work)
    with_line = sum(each.peak_bytes for each in work.values())
    return MarkedStep(
        steps=count,
        step_ms=_step_ms(_whole_windows(steps), per_ms),
        work=work,
        total_ms=sum(tally.ticks.values()) / per_ms / count,
        without_line_ms=sum(without) / per_ms / count,
        peak_bytes=peaks.total,
        peak_without_line=max(peaks.total - with_line, 0),
        operators=_operators(capture, steps),
    )


def _step_ms(windows: Sequence[Interval], per_ms: int) -> float:
    """The mean of the steps after the first one, in which the profiler starts."""
    lengths = [end - begin for begin, end in windows[1:] or windows]
    return sum(lengths) / len(lengths) / per_ms


def _largest(tally: _Tally, numbers: set[int]) -> Iterator[int]:
    """The lines that take most time, in the order of their numbers."""

    def ticks(number: int) -> float:
        sides = (Place(number, False), Place(number, True))
        return tally.python.get(number, 0.0) + sum(tally.ticks.get(side, 0.0) for side in sides)

    yield from sorted(sorted(numbers, key=lambda each: (-ticks(each), each))[:MOST_MARKED])


def _work_of(tally: _Tally, number: int, peaks: _Peaks, per_ms: int, steps: int) -> CodeWork:
    """The means of a step; Python's are those of the steps after the first one."""
    forward, backward = Place(number, False), Place(number, True)
    return CodeWork(
        forward_ms=tally.ticks.get(forward, 0.0) / per_ms / steps,
        backward_ms=tally.ticks.get(backward, 0.0) / per_ms / steps,
        python_ms=tally.python.get(number, 0.0) / per_ms / max(steps - 1, 1),
        forward_launches=tally.launches[forward] / steps,
        backward_launches=tally.launches[backward] / steps,
        peak_bytes=peaks.by_line.get(number, 0),
        calls=tally.calls[number] / steps,
    )


def _operators(capture: Capture, steps: Steps) -> float | None:
    """The operators of a step, counted as those of a trace without marks are."""
    counted = replace(steps, windows=counted_windows(steps), follows=())
    found = operator_calls(capture.hosts.get(0, Host()), counted.windows)
    return operators_of_steps(found, counted)[0] if found.calls else None
