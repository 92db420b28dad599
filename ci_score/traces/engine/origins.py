"""Where a kernel comes from: the operator and the class of module that its launches share.

Operators are told by time, not by the ids that profilers write: those of some years are others'.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import compress
from operator import and_

from ci_score.traces.engine.device_events import NONE, TRANSFER, DeviceEvents, Names
from ci_score.traces.engine.host import Host, Spans
from ci_score.traces.engine.layers import class_of_module
from ci_score.traces.engine.timeline import taken

# So many events in a row are looked at, from the middle of a step.
_LOOKED_AT = 10_000
# What a thread is in began at most so many spans before: others end in between.
_LOOKED_BACK = 256

Origins = dict[str, dict[str, str | None]]


def origins_of(events: DeviceEvents, names: Names, host: Host, step: Sequence[int]) -> Origins:
    """The origin of each kernel of which all launches of a step have the same.

    `step` has the places of the events of one: a part of it may be its forward alone.
    """
    first = max(len(step) - _LOOKED_AT, 0) // 2
    some = step[first : first + _LOOKED_AT] if events.calls else ()
    launched = {
        (name, call)
        for name, call in zip(taken(events.names, some), taken(events.calls, some), strict=True)
        if call != NONE and names.kinds[name] != TRANSFER
    }
    times = [host.launches.starts[call] for _, call in launched]
    operators, modules = (
        _Innermost(spans, host.names, min(times, default=0), max(times, default=0))
        for spans in (host.operators, host.modules)
    )
    found: dict[int, tuple[str | None, str | None]] = {}
    for name, call in launched:
        thread, time = host.launches.threads[call], host.launches.starts[call]
        op = _named(operators.at(thread, time), host.names)
        module = class_of_module(_named(modules.at(thread, time), host.names) or "") or None
        known = found.setdefault(name, (op, module))
        found[name] = (_shared(known[0], op), _shared(known[1], module))
    return {
        names.texts[name]: {"op": op, "module": module}
        for name, (op, module) in sorted(found.items())
        if op or module
    }


def _shared(known: str | None, now: str | None) -> str | None:
    return known if known == now else None


def _named(place: int, texts: Sequence[str]) -> str | None:
    return texts[place] if place != NONE else None


class _Innermost:
    """Spans of threads, asked which of them a thread was in last, between two times."""

    def __init__(self, spans: Spans, texts: Sequence[str], first: float, last: float) -> None:
        self._spans = spans
        begun = [start <= last for start in spans.starts]
        ended = [end > first for end in spans.ends]
        around = compress(range(len(spans)), map(and_, begun, ended))
        # Of two that begin at once the longer one is around the other.
        # Two of the same time are told apart by name: the order of a file says nothing.
        self._order = sorted(
            around,
            key=lambda place: (spans.starts[place], -spans.ends[place], texts[spans.names[place]]),
        )
        self._starts = [spans.starts[place] for place in self._order]

    def at(self, thread: int, time: float) -> int:
        """The name of the span that began last and goes on, or NONE."""
        spans = self._spans
        last = bisect_right(self._starts, time) - 1
        for place in range(last, max(last - _LOOKED_BACK, -1), -1):
            span = self._order[place]
            if spans.threads[span] == thread and spans.ends[span] > time:
                return spans.names[span]
        return NONE
