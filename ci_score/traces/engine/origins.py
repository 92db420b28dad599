"""Where a kernel comes from: the operator and the class of module that all its launches share."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator

from ci_score.traces.engine.device_events import NONE, TRANSFER, DeviceEvents, Names
from ci_score.traces.engine.host import Host
from ci_score.traces.engine.layers import LayerCalls

_MODULE = "nn.Module: "
MOST_ORIGINS = 10_000

Origins = dict[str, dict[str, str | None]]


def origins_of(events: DeviceEvents, names: Names, host: Host) -> Origins:
    """The origin of each kernel of which one is known."""
    if not events.calls:
        return {}
    operators = _operators(host)
    modules, classes = _modules(host)
    found: dict[int, tuple[int, int]] = {}
    launches = set(zip(events.names, events.calls, strict=True))
    for name, call in launches:
        if names.kinds[name] == TRANSFER:
            continue
        own = (operators[call], modules[call]) if call != NONE else (NONE, NONE)
        known = found.setdefault(name, own)
        if known != own:
            found[name] = (
                own[0] if own[0] == known[0] else NONE,
                own[1] if own[1] == known[1] else NONE,
            )
    origins: Origins = {}
    for name in sorted(found)[:MOST_ORIGINS]:
        operator, module = found[name]
        op = host.names[operator] if operator != NONE else None
        of_class = classes[module] if module != NONE else None
        if op or of_class:
            origins[names.texts[name]] = {"op": op, "module": of_class}
    return origins


def _operators(host: Host) -> array[int]:
    """For each launch the name of its operator, or NONE."""
    by_id = dict(zip(host.operators.ids, host.operators.names, strict=False))
    by_id.pop(NONE, None)
    # Of work that no operator launched, old profilers write that its operator is 0.
    by_id.pop(0, None)
    launches = host.launches
    if not by_id or len(launches.ids) != len(launches):
        return array("i", [NONE]) * len(launches)
    return array("i", (by_id.get(each, NONE) for each in launches.ids))


def _modules(host: Host) -> tuple[array[int], list[str]]:
    """For each launch the class of the innermost module that it was called in, or NONE."""
    launches = host.launches
    classes: dict[str, int] = {}
    if not len(host.modules):
        return array("i", [NONE]) * len(launches), []
    numbers: dict[int, int] = {}
    for name in set(host.modules.names):
        kind = host.names[name].removeprefix(_MODULE).rpartition("_")[0]
        numbers[name] = classes.setdefault(kind, len(classes))
    innermost = LayerCalls(_innermost(host, numbers))
    found = innermost.layers_at(launches.threads, launches.starts)
    return array("i", found), list(classes)


def _innermost(host: Host, numbers: dict[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Spans of time without overlap, each with the class of the innermost module in it."""
    modules = host.modules
    by_thread: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    rows = zip(modules.threads, modules.starts, modules.ends, modules.names, strict=True)
    for thread, start, end, name in rows:
        by_thread[thread].append((start, -end, numbers[name]))
    for thread, calls in by_thread.items():
        stack: list[tuple[int, int]] = []
        time = 0
        for start, negative_end, number in sorted(calls):
            while stack and stack[-1][0] <= start:
                end, inner = stack.pop()
                if end > time:
                    yield thread, time, end, inner
                    time = end
            if stack and start > time:
                yield thread, time, start, stack[-1][1]
            time = max(time, start) if stack else start
            stack.append((-negative_end, number))
        while stack:
            end, inner = stack.pop()
            if end > time:
                yield thread, time, end, inner
                time = end
