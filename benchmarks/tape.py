"""A PyTorch trace that can be edited, so that what causes a slowdown in it is known.

Work that gets longer or is added takes its time from the whole trace: whatever comes later, on the
host and on the device, comes later by as much. So a kernel still starts after its launch, and
streams keep their order. A host that stalls is cut where nothing is queued on the device.
"""

from __future__ import annotations

import gzip
import json
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_DEVICE = {
    "kernel": "kernel",
    **dict.fromkeys(("gpu_memcpy", "memcpy"), "memcpy"),
    **dict.fromkeys(("gpu_memset", "memset"), "memset"),
}
_CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime"})
_WAITS = ("Synchronize", "Wait")
# Microseconds between a kernel and one that is added after it, and the longest wait in a queue
# that a stall of the host is not hidden by.
PAUSE, NEARLY_NO_QUEUE = 0.2, 40.0


@dataclass(slots=True)
class Work:
    """A kernel, copy or fill: its event, and the call that launched it."""

    event: int
    kind: str
    name: str
    start: float
    end: float
    launch: int

    @property
    def time(self) -> float:
        """How long it runs, in microseconds."""
        return self.end - self.start


@dataclass(slots=True)
class Edit:
    """What to change: by the place of a work in `Tape.works`, in microseconds."""

    longer: dict[int, float] = field(default_factory=dict)
    # Behind a work: names and times of more of its kind.
    added: dict[int, list[tuple[str, float]]] = field(default_factory=dict)
    renamed: dict[int, str] = field(default_factory=dict)
    # Before the launch of a work the host is busy for so long, with such an event if any.
    stalls: dict[int, tuple[float, Json | None]] = field(default_factory=dict)
    # What starts within a work starts so much later.
    pushed: dict[int, float] = field(default_factory=dict)


class Tape:
    """The events of a trace: those with a duration, and metadata."""

    def __init__(self, text: bytes) -> None:
        self.head: Json = json.loads(text.decode("utf-8", "replace"), strict=False)
        events = self.head.pop("traceEvents")
        self.events: list[Json] = [
            event
            for event in events
            if event.get("ph") in ("X", "M") and (event.get("ph") == "M" or "ts" in event)
        ]
        # Microseconds since 1970 leave no digits for parts of one.
        first = min((event["ts"] for event in self.events if event["ph"] == "X"), default=0)
        calls: dict[Any, int] = {}
        for place, event in enumerate(self.events):
            if event["ph"] == "X":
                event["ts"] -= first
            if str(event.get("cat")).lower() in _CALLS:
                calls.setdefault(_args(event).get("correlation"), place)
        calls.pop(None, None)
        self.works = sorted(self._works(calls), key=lambda work: (work.start, work.end))
        marks = (event for event in self.events if _is_step(event))
        self.steps = sorted((event["ts"], event["ts"] + event.get("dur", 0)) for event in marks)

    def _works(self, calls: dict[Any, int]) -> Iterable[Work]:
        for place, event in enumerate(self.events):
            kind = _DEVICE.get(str(event.get("cat")).lower())
            if kind is None or event.get("ph") != "X":
                continue
            start, time = float(event["ts"]), float(event.get("dur", 0))
            launch = calls.get(_args(event).get("correlation"), -1)
            yield Work(place, kind, str(event.get("name")), start, start + time, launch)

    def launched_at(self, work: Work) -> float:
        """When the host called for it; its own start where that is not known."""
        return float(self.events[work.launch]["ts"]) if work.launch >= 0 else work.start

    def thread_of(self, work: Work) -> tuple[Any, Any]:
        """The process and thread that launched it."""
        event = self.events[work.launch]
        return event.get("pid"), event.get("tid")

    def step_of(self, work: Work) -> int:
        """In which step it was launched; -1 where in none, 0 where the trace marks no steps."""
        if not self.steps:
            return 0
        at = self.launched_at(work)
        return next((n for n, (begin, end) in enumerate(self.steps) if begin <= at < end), -1)

    def clean_cuts(self) -> list[int]:
        """The works before which the host can stall and the device starves at once.

        All that was launched before has ended before, and it does not queue.
        """
        times = [(self.launched_at(work), work.start) for work in self.works]
        ended = list(accumulate((work.end for work in self.works), max))
        latest = list(accumulate((at for at, _ in times), max))
        coming = list(accumulate((at for at, _ in reversed(times)), min))[::-1]
        return [
            place
            for place, (at, start) in enumerate(times)
            if place
            and 0 < start - at <= NEARLY_NO_QUEUE
            and latest[place - 1] < at <= coming[place]
            and ended[place - 1] <= start
            and self.works[place].launch >= 0
        ]

    def text(self, edit: Edit | None = None, order: random.Random | None = None) -> bytes:
        """The trace as it is, or edited; `order` shuffles its events."""
        events = self.events if edit is None else _edited(self, edit)
        if order is not None:
            events = list(events)
            order.shuffle(events)
        return json.dumps({**self.head, "traceEvents": events}).encode()


def opened(path: Path) -> Tape:
    """The tape of a trace, packed or not."""
    data = path.read_bytes()
    return Tape(gzip.decompress(data) if path.suffix == ".gz" else data)


def _args(event: Json) -> Json:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _is_step(event: Json) -> bool:
    is_host = not str(event.get("cat")).startswith("gpu_")
    return is_host and event["ph"] == "X" and str(event.get("name")).startswith("ProfilerStep#")


# --- editing ------------------------------------------------------------------------------------


class _Clock:
    """From the time of before to the time of now: spans that last longer, and jumps."""

    def __init__(self, spans: Sequence[tuple[float, float, float]], jumps: dict[float, float]):
        edges = sorted({edge for begin, end, _ in spans for edge in (begin, end)})
        starting = sorted(spans)
        self._edges, self._gained = edges, [0.0] * len(edges)
        active: list[tuple[float, float, float]] = []
        following = 0
        for place in range(len(edges) - 1):
            at = edges[place]
            while following < len(starting) and starting[following][0] <= at:
                active.append(starting[following])
                following += 1
            active = [span for span in active if span[1] > at]
            rates = [more / (end - begin) for begin, end, more in active]
            # What overlaps lasts longer together: the one that needs most leads.
            rate = max(rates, key=lambda each: (each > 0, abs(each)), default=0.0)
            self._gained[place + 1] = self._gained[place] + rate * (edges[place + 1] - at)
        self._at = sorted(jumps)
        self._jumped = [0.0, *accumulate(jumps[at] for at in self._at)]

    def start(self, time: float) -> float:
        """When something that began then begins now: after a jump at that time."""
        return time + self._stretched(time) + self._jumped[bisect_right(self._at, time)]

    def end(self, time: float) -> float:
        """When something that ended then ends now: before a jump at that time."""
        return time + self._stretched(time) + self._jumped[bisect_left(self._at, time)]

    def _stretched(self, time: float) -> float:
        if not self._edges or time <= self._edges[0]:
            return 0.0
        place = bisect_right(self._edges, time) - 1
        if place >= len(self._edges) - 1:
            return self._gained[-1]
        begin, end = self._edges[place], self._edges[place + 1]
        share = (time - begin) / (end - begin)
        return self._gained[place] + share * (self._gained[place + 1] - self._gained[place])


def _clocks(tape: Tape, edit: Edit) -> tuple[_Clock, _Clock]:
    """The host's clock and the device's, which part only where the host stalls."""
    spans = []
    both: dict[float, float] = {}
    for place, more in edit.longer.items():
        work = tape.works[place]
        if work.time > 0:
            spans.append((work.start, work.end, more))
        else:
            both[work.end] = both.get(work.end, 0.0) + more
    for place, added in edit.added.items():
        end = tape.works[place].end
        both[end] = both.get(end, 0.0) + sum(time + PAUSE for _, time in added)
    for place, later in edit.pushed.items():
        at = tape.works[place].start + 1e-3
        both[at] = both.get(at, 0.0) + later
    of_host, of_device = dict(both), dict(both)
    for place, (time, _) in edit.stalls.items():
        work = tape.works[place]
        at = tape.launched_at(work)
        of_host[at] = of_host.get(at, 0.0) + time
        of_device[work.start] = of_device.get(work.start, 0.0) + time
    return _Clock(spans, of_host), _Clock(spans, of_device)


def _edited(tape: Tape, edit: Edit) -> list[Json]:
    host, device = _clocks(tape, edit)
    events = [_moved(event, host, device) for event in tape.events]
    number = max((_correlation(event) for event in tape.events), default=0) + 1
    more: list[Json] = []
    for place, work in enumerate(tape.works):
        event = events[work.event]
        event["ts"] = device.start(work.start)
        event["dur"] = max(work.time + edit.longer.get(place, 0.0), 0.0)
        event["name"] = edit.renamed.get(place, work.name)
        at = event["ts"] + event["dur"] + PAUSE
        for turn, (name, time) in enumerate(edit.added.get(place, ())):
            args = {"correlation": number}
            more.append({**event, "name": name, "ts": at, "dur": time, "args": _args(event) | args})
            at += time + PAUSE
            call = events[work.launch]
            ts = call["ts"] + 1e-3 * (turn + 1)
            more.append({**call, "ts": ts, "args": _args(call) | args})
            number += 1
        time, what = edit.stalls.get(place, (0.0, None))
        if what is not None:
            begin = host.end(tape.launched_at(work))
            pid, tid = tape.thread_of(work)
            span = {"ph": "X", "pid": pid, "tid": tid, "ts": begin + 0.02, "dur": time - 0.05}
            more.append({**span, **what})
    return events + more


def _moved(event: Json, host: _Clock, device: _Clock) -> Json:
    if "ts" not in event or event.get("ph") != "X":
        return dict(event)
    start = float(event["ts"])
    end = start + float(event.get("dur", 0))
    kind = str(event.get("cat")).lower()
    if kind.startswith("gpu_user"):
        begin = device.start(start)
        return {**event, "ts": begin, "dur": max(device.end(end) - begin, 0.0)}
    begin = host.start(start)
    is_short = kind in _CALLS and not any(word in str(event.get("name")) for word in _WAITS)
    time = end - start if is_short else max(host.end(end) - begin, 0.0)
    return {**event, "ts": begin, "dur": time}


def _correlation(event: Json) -> int:
    number = _args(event).get("correlation")
    return number if isinstance(number, int) else 0


def with_jitter(tape: Tape, edit: Edit, share: float, chance: random.Random) -> Edit:
    """The same edit of a trace whose every work takes a little more or less time."""
    noisy = dict(edit.longer)
    for place, work in enumerate(tape.works):
        factor = 1 + max(min(chance.gauss(0, share), 3 * share), -3 * share)
        planted = noisy.get(place, 0.0)
        noisy[place] = (work.time + planted) * factor - work.time
    return Edit(noisy, edit.added, edit.renamed, edit.stalls, edit.pushed)
