"""What the host of a capture did beside its named ranges: operators, modules, launches, waits."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ci_score.traces.engine.timeline import Interval

# The kinds of work that a call of the runtime starts.
KERNEL, MEMCPY, MEMSET = 0, 1, 2
# The types of numbers that an operator computes with; none where that was not recorded.
TYPES = ("", "float32", "float64", "bfloat16", "float16")
# Calls of the runtime that keep a thread from launching more.
WAIT, ALLOCATION = 1, 2


def _times() -> array[int]:
    return array("q")


def _numbers() -> array[int]:
    return array("i")


@dataclass(slots=True)
class Spans:
    """Operators or modules as the host ran them; a name is a place in `Host.names`."""

    starts: array[int] = field(default_factory=_times)
    ends: array[int] = field(default_factory=_times)
    names: array[int] = field(default_factory=_numbers)
    threads: array[int] = field(default_factory=_numbers)

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True)
class Operators(Spans):
    """Operators, with the number that those of a forward pass share with autograd's nodes."""

    sequences: array[int] = field(default_factory=_times)
    # Places in TYPES.
    types: array[int] = field(default_factory=lambda: array("b"))
    # Of autograd's nodes the profiler's own number of the thread that ran the forward pass.
    forward_threads: array[int] = field(default_factory=_times)


@dataclass(slots=True)
class Marks:
    """Ranges around the calls of one line of the program each, by the line's number.

    `calls` is 1 where the function that the line is in has just been called.
    """

    starts: array[int] = field(default_factory=_times)
    ends: array[int] = field(default_factory=_times)
    numbers: array[int] = field(default_factory=_numbers)
    threads: array[int] = field(default_factory=_numbers)
    calls: array[int] = field(default_factory=lambda: array("b"))

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True)
class Arrows:
    """The ends of arrows from an operator to its node of autograd: two have the same number."""

    starts: array[int] = field(default_factory=_times)
    threads: array[int] = field(default_factory=_numbers)
    numbers: array[int] = field(default_factory=_times)


@dataclass(slots=True)
class MemoryEvents:
    """Allocations, and with a negative size what is given back; a total of -1 is not known.

    A memory is that of the host, 0, or of one of the devices.
    """

    starts: array[int] = field(default_factory=_times)
    threads: array[int] = field(default_factory=_numbers)
    addresses: array[int] = field(default_factory=_times)
    sizes: array[int] = field(default_factory=_times)
    totals: array[int] = field(default_factory=_times)
    memories: array[int] = field(default_factory=_times)

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True)
class Launches:
    """Calls of the runtime or driver by which the host starts work, each with its kind.

    The device's work names its call by a correlation, or by an id that both have.
    """

    starts: array[int] = field(default_factory=_times)
    threads: array[int] = field(default_factory=_numbers)
    kinds: array[int] = field(default_factory=lambda: array("b"))
    correlations: array[int] = field(default_factory=_times)
    ids: array[int] = field(default_factory=_times)

    def __len__(self) -> int:
        return len(self.starts)


class Wait(NamedTuple):
    """A call that keeps its thread from launching: it waits for the device, or for memory."""

    kind: int
    start: int
    end: int
    thread: int


class EmbeddingCall(NamedTuple):
    """A lookup in a table, by the shapes of its inputs; with a gradient it is part of training."""

    time: int
    vocabulary: int
    width: int
    tokens: int
    has_gradient: bool


@dataclass(slots=True)
class Host:
    """The host's part of one process, where the format tells it."""

    names: Sequence[str] = ()
    operators: Operators = field(default_factory=Operators)
    modules: Spans = field(default_factory=Spans)
    launches: Launches = field(default_factory=Launches)
    waits: list[Wait] = field(default_factory=list)
    embeddings: list[EmbeddingCall] = field(default_factory=list)
    marks: Marks = field(default_factory=Marks)
    # Functions of Python that may be the program's own; a number is a place in `names` and one.
    frames: Marks = field(default_factory=Marks)
    arrows: Arrows = field(default_factory=Arrows)
    memory: MemoryEvents = field(default_factory=MemoryEvents)

    @property
    def span(self) -> Interval | None:
        """From the first operator or launch to the last; None if there was none."""
        spans: list[Interval] = []
        if self.operators.starts:
            spans.append((min(self.operators.starts), max(self.operators.ends)))
        if self.launches.starts:
            spans.append((min(self.launches.starts), max(self.launches.starts)))
        if not spans:
            return None
        return min(begin for begin, _ in spans), max(end for _, end in spans)
