"""What the calls that start work tell of how sound a capture is."""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from ci_score.traces.engine.device_events import NONE, DeviceEvents
from ci_score.traces.engine.host import KERNEL, MEMCPY, Launches

# So many calls are enough to see how many have no work, and how long they take.
MOST_CALLS = 20_000
_BLOCKS = 4
_COPIES = re.compile(r"(cuda|cu|hip)Memcpy")
_OF_INTEREST = re.compile(r"LaunchKernel|BeginCapture|GraphLaunch")


class Call(NamedTuple):
    """A call of the runtime or driver, with the number that its work has, too."""

    start: int
    end: int
    number: int
    name: str


@dataclass(slots=True)
class LaunchCalls:
    """The calls that start work, as far as the format records them one by one."""

    # Calls that start kernels, or copy, each with those of them whose work is not there.
    kernels: int = 0
    without_work: int = 0
    copies: int = 0
    without_copy: int = 0
    # All calls, and those with the number of an earlier one.
    calls: int = 0
    repeated: int = 0
    # How long some calls take that start one kernel each.
    ticks: array[int] = field(default_factory=lambda: array("q"))
    # What is launched while a graph is captured does not run then.
    captured_graphs: bool = False

    def count(self, launches: Launches, lanes: Sequence[DeviceEvents]) -> None:
        """Counts all calls of a capture that ends when the work has ended."""
        worked = set(chain.from_iterable(events.calls for events in lanes)) - {NONE}
        kinds = array("b", map(launches.kinds.__getitem__, worked))
        self.kernels, self.copies = (_number_of(kind, launches.kinds) for kind in (KERNEL, MEMCPY))
        self.without_work = self.kernels - _number_of(KERNEL, kinds)
        self.without_copy = self.copies - _number_of(MEMCPY, kinds)

    def add(self, calls: Sequence[Call], lanes: Sequence[DeviceEvents]) -> None:
        """Counts calls of a process, from the first that has work to the last.

        A capture of some time begins after some launches and ends before some work.
        """
        launches = [call for call in calls if "LaunchKernel" in call.name]
        copies = [call for call in calls if _COPIES.match(call.name)]
        self.captured_graphs |= any("BeginCapture" in call.name for call in calls)
        self.ticks.extend(call.end - call.start for call in launches)
        wanted = {call.number for call in (*launches, *copies)}
        worked = set().union(*(wanted.intersection(events.launches) for events in lanes))
        kernels = _up_to_the_last(launches, worked)
        self.kernels += len(kernels)
        self.without_work += sum(call.number not in worked for call in kernels)
        copied = _up_to_the_last(copies, worked) or copies
        self.copies += len(copied)
        self.without_copy += sum(call.number not in worked for call in copied)


def is_of_interest(name: str) -> bool:
    """Whether a call says anything here, by its name."""
    return bool(_OF_INTEREST.search(name) or _COPIES.match(name))


def blocks_of(size: int) -> list[tuple[int, int]]:
    """The first and the last of the rows to look at: all, or a few stretches of many."""
    if size <= MOST_CALLS:
        return [(0, size)]
    block = MOST_CALLS // _BLOCKS
    begins = ((size - block) * place // (_BLOCKS - 1) for place in range(_BLOCKS))
    return [(begin, begin + block) for begin in begins]


def _up_to_the_last(calls: Sequence[Call], worked: Collection[int]) -> Sequence[Call]:
    """The calls from the first that has work to the last."""
    in_order = sorted(calls)
    places = [place for place, call in enumerate(in_order) if call.number in worked]
    return in_order[places[0] : places[-1] + 1] if places else ()


def _number_of(kind: int, kinds: array[int]) -> int:
    return kinds.tobytes().count(bytes([kind]))
