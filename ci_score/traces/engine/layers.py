"""The layers of a model: modules of the class that repeats, and the work that each launches.

A code stands for a layer and its direction, so that an event's place is one number; 0 is none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ci_score.traces.engine.autograd import Autograd
from ci_score.traces.engine.device_events import DeviceEvents
from ci_score.traces.engine.host import Host, Spans
from ci_score.traces.engine.timeline import Interval, Windows, length, union

_MODULE = "nn.Module: "
# Of a container that occurs once or twice, what is inside it may be the layers: a class that has
# modules inside, occurs so often in each container, and holds so much of its time.
_FEW_CONTAINERS, _LEAST_INSIDE, _MOST_OF_CONTAINER = 2, 3, 0.8
# Each is a row of the profile; no model that people read layer by layer has as many.
MOST_LAYERS = 4096

_NOWHERE = Windows(())

# Spans on a thread -> the time of what was launched in them, or their own.
TimeWithin = Callable[[Iterable[tuple[int, Interval]]], float]


def forward_code(layer: int) -> int:
    """The code of a layer's forward."""
    return 1 + 2 * layer


def backward_code(layer: int) -> int:
    """The code of a layer's backward, what is computed again for it included."""
    return 2 + 2 * layer


def layer_of(code: int) -> tuple[int | None, bool]:
    """The layer that a code stands for, and whether it is its backward."""
    return ((code - 1) // 2, code % 2 == 0) if code else (None, False)


def class_of_module(name: str) -> str:
    """`nn.Module: Linear_3` is a Linear."""
    return name.removeprefix(_MODULE).rpartition("_")[0]


class LayerCalls:
    """Spans of time that belong to a layer: on each thread sorted, and one for one their layers."""

    def __init__(self, calls: Iterable[tuple[int, float, float, int]]) -> None:
        self.spans: dict[int, list[Interval]] = defaultdict(list)
        self.layers: dict[int, list[int]] = defaultdict(list)
        for thread, start, end, layer in sorted(calls):
            self.spans[thread].append((start, end))
            self.layers[thread].append(layer)
        self._windows = {thread: Windows(spans) for thread, spans in self.spans.items()}

    def layers_at(self, threads: Iterable[int], times: Iterable[float]) -> Iterator[int]:
        """For each time the layer that its thread was in, or -1; most are where the last was."""
        begin = end = 0.0
        layer = last = -1
        for thread, time in zip(threads, times, strict=True):
            if thread != last or not begin <= time < end:
                place, begin, end = self._windows.get(thread, _NOWHERE).around(time)
                layer = self.layers[thread][place] if place >= 0 else -1
                last = thread
            yield layer

    def __iter__(self) -> Iterator[tuple[int, Interval]]:
        for thread, spans in self.spans.items():
            yield from zip(self.layers[thread], spans, strict=True)


@dataclass(frozen=True, slots=True)
class ModuleLayers:
    """The class of modules that repeats, its calls, and how many different ones there are."""

    of_class: str
    calls: LayerCalls
    count: int


def module_layers(
    host: Host, steps: Sequence[Interval], time_within: TimeWithin
) -> ModuleLayers | None:
    """The class of modules that has others inside, several instances, and most of the time."""
    if not len(host.modules):
        return None
    modules = _Modules(host, steps)
    times = {
        kind: sum(modules.length(call) for call in modules.outermost[kind])
        for kind in modules.containers
        if len({modules.spans.names[call] for call in modules.outermost[kind]}) > 1
    }
    if not times:
        return None
    chosen = max(times, key=lambda kind: (times[kind], kind))
    chosen = modules.class_below(chosen, time_within) or chosen
    layers = modules.layers_of(chosen)
    return layers if layers.count <= MOST_LAYERS else None


class _Modules:
    """The calls of modules within the steps, by class."""

    def __init__(self, host: Host, steps: Sequence[Interval]) -> None:
        self.spans: Spans = host.modules
        self.kinds = [class_of_module(name) for name in host.names]
        self.outermost: dict[str, list[int]] = defaultdict(list)
        self.containers: set[str] = set()
        stack: list[tuple[int, float, str]] = []
        # How many of each class are on the stack: who nests a million looks at each once.
        around: Counter[str] = Counter()
        for thread, _, negative_end, call, kind in self._sorted_calls(steps):
            end = -negative_end
            while stack and (stack[-1][0] != thread or stack[-1][1] < end):
                around[stack.pop()[2]] -= 1
            if stack:
                self.containers.add(stack[-1][2])
            if not around[kind]:
                self.outermost[kind].append(call)
            stack.append((thread, end, kind))
            around[kind] += 1

    def _sorted_calls(self, steps: Sequence[Interval]) -> list[tuple[int, float, float, int, str]]:
        spans = self.spans
        columns = zip(spans.threads, spans.starts, spans.ends, spans.names, strict=True)
        places = Windows(steps).places(spans.starts)
        return sorted(
            (thread, start, -end, call, self.kinds[name])
            for call, (place, (thread, start, end, name)) in enumerate(
                zip(places, columns, strict=True)
            )
            if place >= 0
        )

    def length(self, call: int) -> float:
        """How long a call took on the host."""
        return self.spans.ends[call] - self.spans.starts[call]

    def class_below(self, container: str, time_within: TimeWithin) -> str | None:
        """The class that repeats in each of a few containers, and holds most of their time."""
        outer = self.outermost[container]
        names = {self.spans.names[call] for call in outer}
        if len(names) > _FEW_CONTAINERS:
            return None
        containers = LayerCalls((*self._row(call), self.spans.names[call]) for call in outer)
        whole = time_within(map(self._span, outer))
        best, most = None, _MOST_OF_CONTAINER * whole
        for kind in sorted(self.containers - {container}):
            inside = self._within(containers, self.outermost[kind])
            if any(len(inside[name][0]) < _LEAST_INSIDE for name in names):
                continue
            calls = [call for _, of_container in inside.values() for call in of_container]
            time = time_within(map(self._span, calls))
            if time >= most and time > 0:
                best, most = kind, time
        return best

    def _span(self, call: int) -> tuple[int, Interval]:
        return self.spans.threads[call], (self.spans.starts[call], self.spans.ends[call])

    def _within(
        self, containers: LayerCalls, calls: Sequence[int]
    ) -> Mapping[int, tuple[set[int], list[int]]]:
        """For each container, by its name, the names and calls of those within it."""
        inside: dict[int, tuple[set[int], list[int]]] = defaultdict(lambda: (set(), []))
        starts = [self.spans.starts[call] for call in calls]
        names = containers.layers_at([self.spans.threads[call] for call in calls], starts)
        for call, name in zip(calls, names, strict=True):
            if name >= 0:
                inside[name][0].add(self.spans.names[call])
                inside[name][1].append(call)
        return inside

    def _row(self, call: int) -> tuple[int, float, float]:
        return self.spans.threads[call], self.spans.starts[call], self.spans.ends[call]

    def layers_of(self, of_class: str) -> ModuleLayers:
        """The layers of a class, numbered as they are first called."""
        calls = self.outermost[of_class]
        order: dict[int, int] = {}
        for call in sorted(calls, key=self.spans.starts.__getitem__):
            order.setdefault(self.spans.names[call], len(order))
        rows = ((*self._row(call), order[self.spans.names[call]]) for call in calls)
        return ModuleLayers(of_class, LayerCalls(rows), len(order))


def _node_calls(host: Host, layers: ModuleLayers, autograd: Autograd) -> LayerCalls:
    """Autograd's operators that belong to a layer: by their number, which its operators share.

    The last operator of the forward pass with a node's number is the one that made the node.
    """
    operators = host.operators
    in_backward = Windows(union(autograd.spans))
    made_at: dict[int, float] = {}
    layer_of_number: dict[int, int] = {}
    forward = [
        call
        for call, (sequence, thread, name) in enumerate(
            zip(operators.sequences, operators.threads, operators.names, strict=True)
        )
        if sequence >= 0 and thread in layers.calls.spans and name not in autograd.names
    ]
    starts = [operators.starts[call] for call in forward]
    found = layers.calls.layers_at([operators.threads[call] for call in forward], starts)
    for call, start, layer in zip(forward, starts, found, strict=True):
        sequence = operators.sequences[call]
        if start < made_at.get(sequence, start) or (layer < 0 and in_backward.at(start) >= 0):
            continue
        made_at[sequence] = start
        layer_of_number[sequence] = layer
    return LayerCalls(
        (operators.threads[call], operators.starts[call], operators.ends[call], layer)
        for call in autograd.calls
        if (layer := layer_of_number.get(operators.sequences[call], -1)) >= 0
    )


def codes_at(
    host: Host, layers: ModuleLayers, autograd: Autograd, steps: Sequence[Interval]
) -> Callable[[Sequence[int], Sequence[float]], Iterator[int]]:
    """For threads and times the codes of the layers that these were in.

    A layer's forward launches its kernels, and its nodes of autograd those of its backward. What a
    layer does while autograd runs is recomputation, and counts as backward.
    """
    nodes = _node_calls(host, layers, autograd)
    in_backward = Windows(autograd.windows(steps))

    def codes(threads: Sequence[int], times: Sequence[float]) -> Iterator[int]:
        by_module = layers.calls.layers_at(threads, times)
        by_node = nodes.layers_at(threads, times)
        backward = in_backward.places(times)
        for module, node, is_backward in zip(by_module, by_node, backward, strict=True):
            if module >= 0:
                yield forward_code(module) if is_backward < 0 else backward_code(module)
            else:
                yield backward_code(node) if node >= 0 else 0

    return codes


def spans_of_codes(
    host: Host, layers: ModuleLayers, autograd: Autograd, steps: Sequence[Interval]
) -> Mapping[int, list[Interval]]:
    """The spans of each code by the host's clock, where there is no device."""
    in_backward = Windows(autograd.windows(steps))
    spans: dict[int, list[Interval]] = defaultdict(list)
    for layer, span in layers.calls:
        is_forward = in_backward.at(span[0]) < 0
        spans[forward_code(layer) if is_forward else backward_code(layer)].append(span)
    for layer, span in _node_calls(host, layers, autograd):
        spans[backward_code(layer)].append(span)
    return spans


def host_time_within(spans: Iterable[tuple[int, Interval]]) -> float:
    """The host's own time of spans."""
    return length([span for _, span in spans])


def device_time_within(host: Host, events: DeviceEvents) -> TimeWithin:
    """The device's time of what was launched within spans of a thread."""
    return _DeviceTime(host, events).within


class _DeviceTime:
    """The device's time by launch, summed up only for who asks: most models have no container."""

    def __init__(self, host: Host, events: DeviceEvents) -> None:
        self._launches, self._events = host.launches, events

    def within(self, spans: Iterable[tuple[int, Interval]]) -> float:
        """The time of what was launched in any of the spans."""
        windows: dict[int, list[Interval]] = defaultdict(list)
        for thread, span in spans:
            windows[thread].append(span)
        time = 0
        for thread in windows.keys() & self._by_thread.keys():
            starts, sums = self._by_thread[thread]
            for begin, end in union(windows[thread]):
                time += sums[bisect_left(starts, end)] - sums[bisect_left(starts, begin)]
        return time

    @cached_property
    def _by_thread(self) -> dict[int, tuple[list[int], list[int]]]:
        """For each thread when it launched, sorted, and the time of all launches before that."""
        launches, events = self._launches, self._events
        # The last is for work without a launch, whose place is -1.
        times = array("q", [0]) * (len(launches) + 1)
        for call, start, end in zip(events.calls, events.starts, events.ends, strict=True):
            times[call] += end - start
        by_thread: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for call in sorted(range(len(launches)), key=launches.starts.__getitem__):
            starts, spent = by_thread[launches.threads[call]]
            starts.append(launches.starts[call])
            spent.append(times[call])
        return {
            thread: (starts, [0, *accumulate(spent)])
            for thread, (starts, spent) in by_thread.items()
        }
