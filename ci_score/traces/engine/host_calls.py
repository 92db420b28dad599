"""The operators that the host ran: which of them called which, and whose backward each is.

What the program calls itself is the outermost operator. An operator of the backward pass belongs to
that of the forward pass that made its node: both have one sequence number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ci_score.traces.engine.autograd import ENGINE, is_node_name
from ci_score.traces.engine.device_events import NONE
from ci_score.traces.engine.host import TYPES, Host
from ci_score.traces.engine.timeline import Interval, Windows

# The type of numbers that goes without saying.
_USUAL = "float32"


@dataclass(slots=True)
class OperatorCalls:
    """The calls of operators within some windows, thread by thread in the order of their start.

    `own` has the time of a call without that of the calls within it, and `inside` the call around
    it. `caller` is the outermost operator around, of the backward pass that of the forward pass,
    and `made_by` the forward operator that made one of autograd's nodes. `backward` holds the calls
    of the backward pass whose forward operator is known.
    """

    host: Host
    calls: list[int] = field(default_factory=list)
    own: dict[int, int] = field(default_factory=dict)
    inside: dict[int, int] = field(default_factory=dict)
    caller: dict[int, int] = field(default_factory=dict)
    made_by: dict[int, int] = field(default_factory=dict)
    backward: set[int] = field(default_factory=set)
    _is_node: bytes = b""
    _labels: dict[tuple[int, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._is_node = bytes(map(is_node_name, self.host.names))

    def is_node(self, call: int) -> bool:
        """Whether it is one of autograd's own, which only call operators."""
        return bool(self._is_node[self.host.operators.names[call]])

    def is_outermost(self, call: int) -> bool:
        """Whether it is an operator that no other operator called; a node may have."""
        around = self.inside.get(call, NONE)
        return not self.is_node(call) and (around == NONE or self.is_node(around))

    def name(self, call: int) -> str:
        """The operator's bare name."""
        return self.host.names[self.host.operators.names[call]].removeprefix(ENGINE).strip(": ")

    def type_of(self, call: int) -> str:
        """The type of the numbers that it computes with, where that was recorded."""
        return TYPES[self.host.operators.types[call]]

    def label(self, call: int) -> str:
        """Its name, with the type of its numbers unless that is the usual one."""
        operators = self.host.operators
        key = operators.names[call], operators.types[call]
        if key not in self._labels:
            name, kind = self.name(call), self.type_of(call)
            self._labels[key] = name if kind in ("", _USUAL) else f"{name} ({kind})"
        return self._labels[key]


def operator_calls(host: Host, windows: Sequence[Interval]) -> OperatorCalls:
    """The calls that begin within the windows, each with what is around it."""
    operators, found = host.operators, OperatorCalls(host)
    by_thread: dict[int, list[int]] = defaultdict(list)
    for call, place in enumerate(Windows(windows).places(operators.starts)):
        if place >= 0:
            by_thread[operators.threads[call]].append(call)
    for of_thread in by_thread.values():
        of_thread.sort(key=lambda call: (operators.starts[call], -operators.ends[call]))
        _nest(found, of_thread)
        found.calls += of_thread
    _join_passes(found)
    return found


def _nest(found: OperatorCalls, of_thread: Sequence[int]) -> None:
    starts, ends = found.host.operators.starts, found.host.operators.ends
    own, stack = found.own, list[int]()
    for call in of_thread:
        while stack and ends[stack[-1]] <= starts[call]:
            stack.pop()
        if stack:
            within = min(ends[call], ends[stack[-1]]) - starts[call]
            own[stack[-1]] = max(own[stack[-1]] - within, 0)
            found.inside[call] = stack[-1]
        own[call] = ends[call] - starts[call]
        stack.append(call)


def _join_passes(found: OperatorCalls) -> None:
    """Gives every call its outermost operator, and those of the backward pass the forward's."""
    sequences = found.host.operators.sequences
    node_of: dict[int, int] = {}
    # The last operator of the forward pass with a number is the one that made the node.
    maker: dict[int, int] = {}
    for call in found.calls:
        around = found.inside.get(call, NONE)
        if found.is_node(call):
            node_of[call] = call
        elif around in node_of:
            node_of[call] = node_of[around]
        elif sequences[call] != NONE:
            maker[sequences[call]] = call
        found.caller[call] = call if found.is_outermost(call) else found.caller.get(around, call)
    for call, node in node_of.items():
        forward = maker.get(sequences[node], NONE)
        if forward != NONE:
            found.caller[call] = found.caller[forward]
            found.backward.add(call)
            if found.is_node(call):
                found.made_by[call] = forward


def shared_origins(found: OperatorCalls) -> Mapping[str, str]:
    """By label the outermost operator that makes all calls of another one."""
    known: dict[str, str | None] = {}
    for call in found.calls:
        if not found.is_node(call):
            label, caller = found.label(call), found.label(found.caller[call])
            known[label] = caller if known.get(label, caller) == caller else None
    return {label: caller for label, caller in known.items() if caller and caller != label}
