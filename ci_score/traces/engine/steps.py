"""Where the steps of a capture are: the ways to find them, the best evidence first.

What a user calls a step comes first, then the device's own line of steps, then marks of the
frameworks, then names that people use for steps, then work that repeats. What is left is one step.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from ci_score.traces.engine.device_events import NONE, UNKNOWN, DeviceEvents
from ci_score.traces.engine.host_ranges import HostRanges, Range
from ci_score.traces.engine.timeline import outermost

# A name that is nothing but a step's, and one with a step's word in it.
_STEP_NAME = re.compile(
    r"(?:profiler|train(?:ing)?|global)?[\s_-]*(?:step|iteration|iter|batch)",
    re.IGNORECASE,
)
_WORD_OF_STEPS = re.compile(r"(?<![a-z])(?:step|iteration|iter)(?![a-z])", re.IGNORECASE)
_PART_OF_A_STEP = re.compile(r"optim|zero_?grad|sched|loss|forward|backward|fwd|bwd", re.IGNORECASE)
_PROFILER_STEP = re.compile("ProfilerStep")
_OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
# Marks less far apart than this share of a step follow each other.
_PAUSE = 0.5
_LONGER_PAUSE = 2

# A step costs a kilobyte. A capture has hundreds of them; ten million equal kernels are not steps.
MOST_STEPS = 100_000

Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Steps:
    """Where the steps are: windows of time, sorted, none within another.

    An event belongs to the window in which it was launched, or, where launches are not known or the
    windows are the device's own, in which it started.
    """

    windows: Sequence[Window]
    evidence: str
    by_launch: bool = False
    # Whether each came right after the one before: else their distance is not a step's time.
    follows: Sequence[bool] = ()
    host_times: bool = False
    marked: bool = True
    # Weak evidence: it counts only where the steps hold most of the device's time.
    must_hold_most: bool = False
    # The thread whose ranges they are.
    thread: object = None

    def adjacent(self, place: int) -> bool:
        """Whether the step at `place` came right after the one before it."""
        return place > 0 and (self.follows[place] if self.follows else True)

    def only(self, kept: Sequence[int]) -> Steps:
        """The steps at these places; where one was left out before it, a step follows none."""
        follows = [
            number > 0 and kept[number - 1] == place - 1 and self.adjacent(place)
            for number, place in enumerate(kept)
        ]
        return replace(self, windows=[self.windows[place] for place in kept], follows=follows)

    def limited(self) -> tuple[Steps, list[str]]:
        """The first MOST_STEPS of them, with a note where there are more."""
        count = len(self.windows)
        if count <= MOST_STEPS:
            return self, []
        return self.only(range(MOST_STEPS)), [f"of {count} steps the first {MOST_STEPS} count"]

    @property
    def periods(self) -> list[tuple[int, Window]]:
        """The steps that another follows, each from its start to the start of that one."""
        return [
            (place - 1, (self.windows[place - 1][0], self.windows[place][0]))
            for place in range(1, len(self.windows))
            if self.adjacent(place)
        ]

    def for_events(self, events: DeviceEvents) -> Steps:
        """The same for a device's events: by launch where the format tells of launches."""
        if not self.host_times:
            return self
        told = bool(events.calls) or any(time != UNKNOWN for time in events.launched_at)
        return replace(self, by_launch=told)


def marked_steps(ranges: HostRanges, process: int, called: str) -> Iterator[Steps]:
    """Every way in which the ranges of a process mark its steps, the best evidence first.

    `called` is what the format calls its ranges.
    """
    marks = _StepMarks(ranges, process)
    yield from _of_spans(
        marks.best(ranges.asked_for.__contains__), f"{called} '{{}}', as asked for"
    )
    yield from _of_spans(marks.named(_PROFILER_STEP.fullmatch), "ProfilerStep#")
    numbered = f"{called} '{{}}' with a step_num"
    yield from _of_spans(marks.best(ranges.numbered.__contains__), numbered)
    yield from _of_spans(marks.named(_STEP_NAME.fullmatch), f"{called} '{{}}'")
    yield from _between(marks.named(_OPTIMIZER_STEP.match))
    for steps in _of_spans(marks.named(_has_word_of_steps), f"{called} '{{}}'"):
        yield replace(steps, must_hold_most=True)


def one_step(events: DeviceEvents) -> Steps | None:
    """Everything as one step, where nothing marks steps and nothing repeats."""
    if not len(events):
        return None
    window = (min(events.starts), max(events.ends) + 1)
    return Steps([window], "the whole capture, in which no work repeats", marked=False)


# The line of a device that lists its steps, and that of the programs that it ran.
STEPS_LINE, PROGRAMS_LINE = "Steps", "XLA Modules"


def device_lines(lines: Mapping[str, Mapping[str, list[Window]]]) -> Iterator[Steps]:
    """What the device itself calls steps; else the program that takes most of its time."""
    if STEPS_LINE in lines:
        windows = outermost(chain.from_iterable(lines[STEPS_LINE].values()))
        yield Steps(windows, f"the device's line '{STEPS_LINE}'")
    programs = _longest(lines.get(PROGRAMS_LINE, {}), least=1)
    if programs is not None:
        name, windows = programs
        evidence = f"'{name[:80]}' on the device's line '{PROGRAMS_LINE}'"
        yield Steps(windows, evidence, must_hold_most=True)


def called_functions(calls: Mapping[str, list[Window]]) -> Steps | None:
    """The calls of the compiled function that takes most time: they return before it is done."""
    longest = _longest(calls, least=2)
    if longest is None:
        return None
    name, windows = longest
    return Steps(windows, f"calls of {name[:80]}", host_times=True)


def _longest(named: Mapping[str, list[Window]], least: int) -> tuple[str, list[Window]] | None:
    """The name that takes most time, of those that come often enough."""
    best: tuple[int, str, list[Window]] | None = None
    for name in sorted(named):
        windows = outermost(named[name])
        if len(windows) >= least:
            time = sum(end - begin for begin, end in windows)
            best = max(best or (-1, "", []), (time, name, windows), key=lambda item: item[0])
    return None if best is None else best[1:]


# --- ranges -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marks:
    """The ranges of one name and thread."""

    name: str
    thread: object
    ranges: list[Range]

    @property
    def rank(self) -> tuple[bool, int]:
        """Repeated ones first, of those the longest.

        An iteration may hold several steps of an accumulation: what takes more time holds the
        other.
        """
        windows = outermost(each[:2] for each in self.ranges)
        return len(windows) > 1, sum(end - start for start, end in windows)


class _StepMarks:
    """The ranges of a process, asked which of them mark its steps."""

    def __init__(self, ranges: HostRanges, process: int) -> None:
        self._names = ranges.names
        self._threads = ranges.threads(process)

    def named(self, is_mark: Callable[[str], object]) -> _Marks | None:
        """The best of those of which the name says it."""
        return self.best(lambda place: bool(is_mark(self._names[place])))

    def best(self, is_mark: Callable[[int], bool]) -> _Marks | None:
        """Of all names and threads those that rank first; of a thread's copy there is less."""
        marking = {place for place in range(len(self._names)) if is_mark(place)}
        if not marking:
            return None
        every: list[_Marks] = []
        for thread, of_thread in self._threads.items():
            named: dict[int, list[Range]] = defaultdict(list)
            for each in of_thread:
                if each.name in marking:
                    named[each.name].append(each)
            every += [_Marks(self._names[place], thread, named[place]) for place in sorted(named)]
        return max(every, key=lambda marks: marks.rank, default=None)


def _has_word_of_steps(name: str) -> bool:
    """A step's word within a name that is not of a part of a step."""
    spaced = name.replace("_", " ")
    return bool(_WORD_OF_STEPS.search(spaced)) and not _PART_OF_A_STEP.search(name)


def _of_spans(marks: _Marks | None, evidence: str) -> Iterator[Steps]:
    """One step for each mark; of two that overlap the first ends where the second begins."""
    if marks is None:
        return
    windows: list[Window] = []
    pauses: list[int] = []
    is_next: list[bool | None] = []
    last = NONE
    for begin, end, _, number in sorted(marks.ranges, key=lambda each: (each[0], -each[1])):
        if windows and (end <= windows[-1][1] or begin <= windows[-1][0]):
            continue
        if windows and begin < windows[-1][1]:
            windows[-1] = (windows[-1][0], begin)
        pauses.append(begin - windows[-1][1] if windows else 0)
        is_next.append(None if NONE in (last, number) else number == last + 1)
        windows.append((begin, end))
        last = number
    text = evidence.format(marks.name[:80])
    follows = _follows(windows, pauses, is_next)
    yield Steps(windows, text, follows=follows, host_times=True, thread=marks.thread)


def _follows(
    windows: Sequence[Window], pauses: Sequence[int], is_next: Sequence[bool | None]
) -> list[bool]:
    """Whether each step came right after the one before: by its number, else by a short pause.

    Ranges without numbers may leave out a part of every step: their usual pause is short.
    """
    usual = sorted(pauses[1:])[len(pauses[1:]) // 2] if len(pauses) > 1 else 0
    follows = [False]
    for (begin, end), pause, numbered in zip(windows[1:], pauses[1:], is_next[1:], strict=True):
        is_usual = numbered is None and pause <= _LONGER_PAUSE * usual
        follows.append(bool(numbered) or is_usual or pause < _PAUSE * (end - begin))
    return follows


def _between(marks: _Marks | None) -> Iterator[Steps]:
    """From the end of one mark to the end of the next: the first step began unseen."""
    if marks is None:
        return
    ends = sorted(each.end for each in marks.ranges)
    if len(ends) > 1:
        windows = [(begin, end) for begin, end in pairwise(ends) if begin < end]
        evidence = f"from {marks.name} to {marks.name}"
    else:
        windows = [(UNKNOWN, ends[0])]
        evidence = f"up to the only {marks.name}"
    if windows:
        yield Steps(windows, evidence, host_times=True, thread=marks.thread)
