"""The phases of a step: the program's own ranges, else what autograd's operators tell."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ci_score.traces.engine.autograd import Autograd
from ci_score.traces.engine.host_ranges import HostRanges, Range, ThreadRanges
from ci_score.traces.engine.phase_names import phase_name
from ci_score.traces.engine.timeline import Interval, Windows, subtract, union

# What no phase covers.
REST = "unannotated"
MOST_PHASES = 64
# Ranges that libraries and profilers write for themselves say nothing about phases.
LIBRARY_RANGE = re.compile(
    r"(nccl|gloo|mpi|ucc|xccl|c10d)(:|::)|nccl[A-Z]|MPI_|ProfilerStep|PyTorch Profiler"
)
_FORWARD = re.compile(r"forward|fwd", re.IGNORECASE)
_BACKWARD = re.compile(r"backward|bwd", re.IGNORECASE)
# A range around everything names no phase: what is inside it does.
_WHOLE_STEP = 0.9
# One name that all others lie in says nothing, either, where they fill it by this share.
_FILLED = 0.8
# So many ranges within each other are looked into.
_DEEPEST = 16
# Which thread's ranges hold the launches shows in some of them.
_LOOKED_AT = 10_000


@dataclass(frozen=True, slots=True)
class Phases:
    """Named windows of host time, sorted and disjoint: an event belongs to that of its launch."""

    windows: Sequence[Interval] = ()
    names: Sequence[str] = ()
    # Those that the program named, which may cover other time than all of them.
    annotated: Sequence[Interval] = ()
    evidence: str = ""

    def spans(self) -> dict[str, list[Interval]]:
        """The windows of each phase."""
        named: dict[str, list[Interval]] = defaultdict(list)
        for name, window in zip(self.names, self.windows, strict=True):
            named[name].append(window)
        return named


def phases_of(
    ranges: HostRanges,
    process: int,
    steps: Sequence[Interval],
    thread: object,
    times: Sequence[float],
    autograd: Autograd | None,
    within: Sequence[Interval],
) -> Phases:
    """The phases of the steps. `thread` has the marks of steps; else that which made the launches.

    `times` are those of the launches. Ranges count `within` what the host marks as steps, or all of
    its time: where steps are told by launches alone a range begins before the first launch in it.
    """
    of_process = ranges.threads(process)
    has_marks = thread is not None
    if thread is None:
        thread = _launching_thread(of_process, times)
    named = _annotated(ranges, of_process.get(thread), within, has_marks=has_marks)
    annotated = [window for _, window in named]
    knows_forward = any(_FORWARD.search(name) for name, _ in named)
    knows_backward = any(_BACKWARD.search(name) for name, _ in named)
    evidence = ["annotations"] if named else []
    needs_backward = autograd is not None and not knows_backward
    backward = autograd.windows(steps) if autograd is not None and needs_backward else []
    if backward:
        evidence.append("backward by autograd's operators")
        free = subtract(backward, union(annotated))
        named += [("backward", window) for window in free]
        if not knows_forward:
            evidence.append("forward is what came before")
            taken = union([*annotated, *backward])
            named += [("forward", each) for each in subtract(_before(backward, steps), taken)]
    named.sort(key=lambda item: item[1])
    return Phases(
        [window for _, window in named],
        [name for name, _ in named],
        annotated,
        ", ".join(evidence) or "neither annotations nor autograd's operators",
    )


def _launching_thread(threads: Mapping[object, ThreadRanges], times: Sequence[float]) -> object:
    """The thread, and of its libraries that, in whose ranges most of the work is launched."""
    some = times[:: len(times) // _LOOKED_AT + 1]
    best, most = None, -1
    for thread, ranges in threads.items():
        windows = union(zip(ranges.starts, ranges.ends, strict=True))
        held = sum(place >= 0 for place in Windows(windows).places(some))
        if held > most:
            best, most = thread, held
    return best


def _annotated(
    ranges: HostRanges,
    of_thread: ThreadRanges | None,
    steps: Sequence[Interval],
    *,
    has_marks: bool,
) -> list[tuple[str, Interval]]:
    """The outermost ranges of each step on a thread; deeper ones where one range wraps all."""
    if of_thread is None:
        return []
    is_phase = [
        place not in ranges.numbered and not LIBRARY_RANGE.match(name)
        for place, name in enumerate(ranges.names)
    ]
    whole = set(steps) if has_marks else set()
    chosen = [each for each in of_thread if is_phase[each.name] and each[:2] not in whole]
    chosen.sort(key=lambda each: (each.start, -each.end))
    by_step: dict[int, list[Range]] = defaultdict(list)
    places = Windows(steps).places(each.start for each in chosen)
    for each, place in zip(chosen, places, strict=True):
        if place >= 0:
            by_step[place].append(each)
    texts = [phase_name(name) for name in ranges.names]
    named: list[tuple[str, Interval]] = [
        (texts[each.name], (each.start, min(each.end, steps[place][1])))
        for place, inside in by_step.items()
        for each in _outermost(inside, steps[place])
    ]
    return _most_frequent(named)


def _most_frequent(named: list[tuple[str, Interval]]) -> list[tuple[str, Interval]]:
    counts = Counter(name for name, _ in named)
    if len(counts) <= MOST_PHASES:
        return named
    kept = {name for name, _ in counts.most_common(MOST_PHASES)}
    return [item for item in named if item[0] in kept]


def _outermost(inside: Sequence[Range], step: Interval) -> list[Range]:
    """Those that lie in no other, and of a wrapper what it contains."""
    kept: list[Range] = []
    for _ in range(_DEEPEST):
        outer, within = _uncovered(inside)
        wrappers = _wrappers(outer, within, step)
        wrapped = Windows([each[:2] for each in wrappers])
        unwrapped = set(outer).difference(wrappers)
        kept += unwrapped
        if not wrappers:
            break
        inside = [each for each in within if wrapped.at(each.start) >= 0]
    return sorted(kept)


def _uncovered(inside: Sequence[Range]) -> tuple[list[Range], list[Range]]:
    """The ranges that begin after all before them have ended, and those within them."""
    outer: list[Range] = []
    within: list[Range] = []
    for each in inside:
        if not outer or each.start >= outer[-1].end:
            outer.append(each)
        elif each.end <= outer[-1].end:
            within.append(each)
    return outer, within


def _wrappers(outer: Sequence[Range], within: Sequence[Range], step: Interval) -> list[Range]:
    """Those that say nothing: one around nearly all of the step, or one name for all parts of it.

    What such a name contains has to cover most of its time.
    """
    if not within:
        return []
    around = max(outer, key=_length)
    if _length(around) > _WHOLE_STEP * (step[1] - step[0]):
        is_filled = any(around.start <= each.start < around.end for each in within)
        return [around] if is_filled else []
    covered = sum(map(_length, _uncovered(within)[0]))
    is_one_name = len({each.name for each in outer}) == 1
    filled = is_one_name and covered >= _FILLED * sum(map(_length, outer))
    return list(outer) if filled else []


def _length(each: Range) -> int:
    return each.end - each.start


def _before(backward: Sequence[Interval], steps: Sequence[Interval]) -> list[Interval]:
    """Of each step what comes before the end of its last backward pass."""
    last: dict[int, float] = {}
    places = Windows(steps).places(start for start, _ in backward)
    for place, (_, end) in zip(places, backward, strict=True):
        last[place] = max(end, last.get(place, end))
    return [(steps[place][0], end) for place, end in sorted(last.items()) if place >= 0]
