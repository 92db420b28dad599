"""Where a kernel comes from: the operator and the class of module that its launches share.

Operators are told by time, not by the ids that profilers write: those of some years are others'.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ci_score.traces.engine.device_events import NONE, TRANSFER, DeviceEvents, Names
from ci_score.traces.engine.host import Host, Spans
from ci_score.traces.engine.layers import class_of_module
from ci_score.traces.engine.timeline import is_sorted

# So many launches are looked at, evenly spread over the capture.
_LOOKED_AT = 2_000
# What a thread is in began at most so many spans before: others end in between.
_LOOKED_BACK = 256

Origins = dict[str, dict[str, str | None]]


def origins_of(events: DeviceEvents, names: Names, host: Host) -> Origins:
    """The origin of each kernel of which all launches that are looked at have the same."""
    every = len(events) // _LOOKED_AT + 1
    operators, modules = _Innermost(host.operators), _Innermost(host.modules)
    found: dict[int, tuple[str | None, str | None]] = {}
    for name, call in set(zip(events.names[::every], events.calls[::every], strict=True)):
        if names.kinds[name] == TRANSFER or call == NONE:
            continue
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
    """Spans of threads, asked which of them a thread was in last."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._order: Sequence[int] = range(len(spans))
        self._starts: Sequence[float] = spans.starts
        if not is_sorted(spans.starts):
            self._order = sorted(self._order, key=spans.starts.__getitem__)
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
