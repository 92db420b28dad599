"""When autograd ran, by its operators: what tells the backward pass where no annotation does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import compress

from ci_score.traces.engine.host import Host
from ci_score.traces.engine.timeline import Interval, Windows, union

ENGINE = "autograd::engine::evaluate_function"
_BACKWARD_NODE = re.compile(r"\w+Backward\d*|(struct )?torch::autograd::\w+")
# Backward operators less far apart than this share of a step belong to one backward pass.
_ONE_PASS = 0.02


class Autograd:
    """Autograd's operators of a process, found where somebody asks for them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._passes: tuple[Sequence[Interval], list[Interval]] = ((), [])

    @cached_property
    def names(self) -> set[int]:
        """The names of its operators."""
        return _backward_names(self._host.names)

    @cached_property
    def calls(self) -> list[int]:
        """Their places among all operators."""
        is_node = bytes(name in self.names for name in range(len(self._host.names)))
        operators = self._host.operators
        nodes = map(is_node.__getitem__, operators.names)
        return list(compress(range(len(operators)), nodes))

    @cached_property
    def spans(self) -> list[Interval]:
        """When they ran, sorted."""
        operators = self._host.operators
        return sorted([(operators.starts[call], operators.ends[call]) for call in self.calls])

    def windows(self, steps: Sequence[Interval]) -> list[Interval]:
        """Its passes within the steps, which are asked for again and again."""
        if self._passes[0] is not steps:
            self._passes = steps, self._find_passes(steps)
        return self._passes[1]

    def _find_passes(self, steps: Sequence[Interval]) -> list[Interval]:
        """Its operators, with the pauses between them closed."""
        windows: list[Interval] = []
        places = Windows(steps).places(start for start, _ in self.spans)
        for place, (start, end) in zip(places, self.spans, strict=True):
            if place < 0:
                continue
            step = steps[place]
            stop = min(end, step[1])
            pause = _ONE_PASS * (step[1] - step[0])
            if windows and step[0] <= windows[-1][0] and start - windows[-1][1] <= pause:
                windows[-1] = (windows[-1][0], max(windows[-1][1], stop))
            else:
                windows.append((start, stop))
        return union(windows)


def is_node_name(name: str) -> bool:
    """Whether an operator is autograd's own, which only calls others."""
    return name.startswith((ENGINE, "torch::autograd::")) or bool(_BACKWARD_NODE.fullmatch(name))


def _backward_names(names: Sequence[str]) -> set[int]:
    """Autograd's operators: the engine's, or where an old profiler knew none, the nodes'."""
    engine = {place for place, name in enumerate(names) if name.startswith(ENGINE)}
    return engine or {place for place, name in enumerate(names) if _BACKWARD_NODE.fullmatch(name)}
