"""Named ranges of the host's time: what people call a step, and the phases inside it.

NVTX, roctx and the like are the same: a thread opens a range with a name and closes it. Ranges of
one thread nest, and those right inside a step are its phases.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ci_score.traces.engine.device_steps import UNKNOWN, DeviceEvents, Phases, Steps, Way, window_of

STEP_NAME = re.compile(
    r"(?:profiler|train(?:ing)?|global)?[\s_-]*(?:step|iteration|iter|batch)"
    r"[\s_#:=-]*\d*(?:\s*/\s*\d+)?",
    re.IGNORECASE,
)
# Possessive, because a name may be made to be searched for long.
_NUMBER_AT_THE_END = re.compile(r"[\s_#:=-]*+\d++(?:\s*+/\s*+\d++)?\s*+$")

LONGEST_NAME = 200
MOST_RANGES = 1_000_000
MOST_NAMES = 10_000
MOST_PHASES = 64
# Which thread's ranges hold the launches shows in some of them.
_LOOKED_AT = 10_000

Range = tuple[int, int, int]


def stem(text: str) -> str:
    """The name without the number at its end, which only counts: `step 7` is `step`."""
    return _NUMBER_AT_THE_END.sub("", text).strip("# ") or text


@dataclass(slots=True)
class ThreadRanges:
    """The ranges of one thread, in columns; a name is a place in HostRanges.names."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    names: array[int] = field(default_factory=lambda: array("q"))

    def __iter__(self) -> Iterator[Range]:
        return zip(self.starts, self.ends, self.names, strict=True)


class HostRanges:
    """All ranges of a capture: by process, and within it by thread (and domain of names)."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._places: dict[str, int] = {}
        self._threads: dict[int, dict[object, ThreadRanges]] = defaultdict(dict)
        self._kept = 0

    def add(self, process: int, thread: object, text: str, start: int, end: int) -> bool:
        """One more range; False where there are too many to keep more."""
        if self._kept >= MOST_RANGES:
            return False
        name = stem(text[:LONGEST_NAME])
        place = self._places.get(name)
        if place is None:
            if len(self.names) >= MOST_NAMES:
                return True
            place = self._places[name] = len(self.names)
            self.names.append(name)
        ranges = self._threads[process].setdefault(thread, ThreadRanges())
        ranges.starts.append(start)
        ranges.ends.append(end)
        ranges.names.append(place)
        self._kept += 1
        return True

    def marked_steps(
        self, process: int, step_name: re.Pattern[str] = STEP_NAME
    ) -> MarkedSteps | None:
        """The ranges of a process that are its steps: repeated ones first, of those the longest.

        An iteration may hold several steps of an accumulation: what takes more time holds the
        other.
        """
        best: MarkedSteps | None = None
        best_rank = (False, 0)
        is_step = [bool(step_name.fullmatch(name)) for name in self.names]
        for ranges in self._threads.get(process, {}).values():
            named: dict[int, list[tuple[int, int]]] = defaultdict(list)
            for start, end, name in ranges:
                if is_step[name]:
                    named[name].append((start, end))
            for place in sorted(named):
                windows = outermost(named[place])
                rank = (len(windows) > 1, sum(end - start for start, end in windows))
                if best is None or rank > best_rank:
                    best, best_rank = MarkedSteps(self.names, place, windows, ranges), rank
        return best

    def unmarked(self, process: int, find: Callable[[DeviceEvents], Steps | None]) -> Way:
        """A way to steps that no range marks: the ranges of the process are phases all the same."""

        def way(events: DeviceEvents) -> tuple[Steps | None, Phases]:
            steps = find(events)
            return steps, Phases() if steps is None else self._phases(process, events)

        return way

    def _phases(self, process: int, events: DeviceEvents) -> Phases:
        """The ranges of the thread, and of its library, in which most of the work is launched."""
        times = events.launched_at[:: len(events) // _LOOKED_AT + 1]
        best, most = Phases(), 0
        for ranges in self._threads.get(process, {}).values():
            phases = _phases_of(_levels(ranges), self.names)
            held = sum(place >= 0 for place in window_of(times, phases.windows))
            if held > most:
                best, most = phases, held
        return best


@dataclass(frozen=True, slots=True)
class MarkedSteps:
    """The steps that the ranges of a thread mark, and that thread's ranges."""

    names: list[str]
    place: int
    windows: list[tuple[int, int]]
    ranges: ThreadRanges

    def steps(self, kind: str, events: DeviceEvents) -> Steps:
        """The steps for a device's events: by launch where launches are known."""
        launched = any(time != UNKNOWN for time in events.launched_at)
        return Steps(
            self.windows,
            evidence=f"{kind} ranges '{self.names[self.place][:80]}'",
            by_launch=launched,
            host_times=True,
        )

    def phases(self) -> Phases:
        """The ranges right inside the steps, by name; deeper ones where one range wraps all."""
        steps = set(self.windows)
        return _phases_of(
            _levels(
                self.ranges,
                lambda each: each[2] == self.place and each[:2] in steps,
            ),
            self.names,
        )


def _phases_of(levels: Sequence[Sequence[Range]], names: Sequence[str]) -> Phases:
    """The first level that tells several phases apart, else the outermost."""
    if not levels:
        return Phases()
    several = (level for level in levels if len({name for *_, name in level}) > 1)
    chosen = next(several, levels[0])
    frequent = Counter(name for *_, name in chosen).most_common(MOST_PHASES)
    wanted = {name for name, _ in frequent}
    kept = sorted(item for item in chosen if item[2] in wanted)
    return Phases([item[:2] for item in kept], [names[name] for *_, name in kept])


def _levels(
    ranges: ThreadRanges, is_step: Callable[[Range], bool] | None = None
) -> list[list[Range]]:
    """The ranges level by level, of those with steps the ranges within steps.

    Those of one level do not overlap.
    """
    levels: list[list[Range]] = []
    open_ends: list[int] = []
    step_end = UNKNOWN if is_step else -UNKNOWN
    for start, end, name in sorted(ranges, key=lambda item: (item[0], -item[1])):
        if is_step and is_step((start, end, name)):
            step_end, open_ends = end, []
            continue
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if end > step_end:
            continue
        if len(open_ends) == len(levels):
            levels.append([])
        levels[len(open_ends)].append((start, end, name))
        open_ends.append(end)
    return levels


def outermost(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The windows that lie in no other, sorted; two that merely overlap are both kept."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(windows, key=lambda window: (window[0], -window[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return kept
