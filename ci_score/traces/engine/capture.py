"""What a reader hands to the engine: the device's work, the host's ranges, calls and facts.

A reader fills a Capture and knows nothing of steps. Times are whole ticks of the format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ci_score.model.profile import Remedy
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents, Names
from ci_score.traces.engine.host import Host
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.launch_calls import LaunchCalls
from ci_score.traces.engine.sources import Source
from ci_score.traces.engine.steps import Steps, Window, marked_steps
from ci_score.traces.engine.timeline import Interval


@dataclass(slots=True)
class Lane:
    """A device of a process: a timeline of its own."""

    label: str
    process: int
    events: DeviceEvents
    device: int | str | None = None
    # The device's own lines of what its work was for, by the name of the line and of the work.
    lines: dict[str, dict[str, list[Window]]] = field(default_factory=dict)
    # Whether an event may hold others of its stream, as a loop its body.
    nests: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file tells beside times: fields of a Profile, where they come from, and notes."""

    fields: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Capture:
    """Everything that a file says of a capture.

    `facts` is asked when it is known which devices ran kernels, and which of them speaks for all.
    `needs_device` says why a capture without kernels cannot be used; None of a format in which a
    CPU may have done the work.
    """

    tool: str
    ticks_per_ms: int
    names: Names = field(default_factory=Names)
    lanes: list[Lane] = field(default_factory=list)
    ranges: HostRanges = field(default_factory=HostRanges)
    ranges_called: str = "annotations"
    hosts: dict[int, Host] = field(default_factory=dict)
    launch_calls: LaunchCalls = field(default_factory=LaunchCalls)
    # Calls of compiled functions: they return before the work is launched.
    calls: dict[str, list[Window]] = field(default_factory=dict)
    # The program's own lines that work of the device comes from, where the format tells them.
    sources: Sequence[Source] = ()
    facts: Callable[[Sequence[Lane], Lane | None], Facts] = lambda *_: Facts()
    needs_device: str | None = None
    # Whether a tool captured for some time, rather than the program for the steps that it chose.
    # Then work that repeats is steps even between other work, and not the layers of one pass.
    took_a_while: bool = True
    # Whether its operators are all that the program runs, and so a number that is always the same.
    counts_operators: bool = False
    # What records the modules of a model, for who looks for layers; empty where nothing does.
    layers_advice: str = ""
    # The ranks of the job, and how many of them see other data than the rest (None: not known).
    data_ranks: tuple[int, int | None] | None = None
    # Kinds of device work that the reader does not know, with their numbers.
    unread: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    # None where the reader does not count them.
    events: int | None = None
    is_cut: bool = False
    # Why nothing of the file can be used, though what was read of it is shown.
    unusable: str | None = None
    remedy: Remedy | None = None
    # Only a list of no devices says that there were none.
    had_no_device: bool = False

    @property
    def ticks_per_us(self) -> float:
        """How many ticks a microsecond has."""
        return self.ticks_per_ms / 1000

    def doubt(
        self, reason: str | None, notes: Sequence[str] = (), remedy: Remedy | None = None
    ) -> None:
        """Adds notes, and a reason not to judge the capture; of several the first counts."""
        if reason is not None and self.unusable is None:
            self.unusable, self.remedy = reason, remedy
        self.notes += notes

    def marked_steps(self, process: int) -> Iterator[Steps]:
        """The ways in which ranges mark steps, the best first.

        A first step that began unseen begins with the capture.
        """
        for steps in marked_steps(self.ranges, process, self.ranges_called):
            begin, end = steps.windows[0]
            if begin == UNKNOWN:
                begin = int(min(self.host_span(process)[0], end))
                yield replace(steps, windows=[(begin, end), *steps.windows[1:]])
            else:
                yield steps

    def first_marked(self, process: int) -> Steps | None:
        """The best of those that need no proof by the device's work."""
        return next((each for each in self.marked_steps(process) if not each.must_hold_most), None)

    def busy_lanes(self) -> list[Lane]:
        """The devices that ran kernels; work of which no device is told counts only alone."""
        busy = [lane for lane in self.lanes if lane.events.has_kernels(self.names)]
        return [lane for lane in busy if lane.device is not None] or busy

    def host_span(self, process: int) -> Interval:
        """From the first event of a process's host to the last; of the device's where none is."""
        host = self.hosts.get(process)
        spans = [host.span] if host is not None and host.span is not None else []
        threads = self.ranges.threads(process).values()
        spans += [(min(ranges.starts), max(ranges.ends)) for ranges in threads]
        if host is None:
            spans += [span for lane in self.lanes if (span := _launching_span(lane, process))]
        if not spans:
            events = [lane.events for lane in self.lanes if len(lane.events)]
            spans = [(min(each.starts), max(each.ends)) for each in events]
        if not spans:
            return 0, 0
        return min(begin for begin, _ in spans), max(end for _, end in spans)


def _launching_span(lane: Lane, process: int) -> Interval | None:
    """From the first launch of a device's work to the last, where they are known."""
    if lane.process != process:
        return None
    known = [time for time in lane.events.launched_at if time != UNKNOWN]
    return (min(known), max(known)) if known else None
