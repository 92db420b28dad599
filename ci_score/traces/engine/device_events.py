"""What devices did: the columns of their events, and the names of those with their categories.

Times are whole ticks of the format (nanoseconds, picoseconds): sums of them are exact, and become
milliseconds at the very end.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import compress, islice

from ci_score.traces.engine.categories import category_of
from ci_score.traces.engine.names import bounded_name

# What an event does to the device's time, told by its category.
COMPUTE, COMMUNICATION, TRANSFER = 0, 1, 2
# What a runtime copies or fills with a kernel is a transfer, and a kernel that was launched.
TRANSFER_KERNEL = 3
_KERNELS_OF_TRANSFERS = "__amd_rocclr_"
_KINDS = {"comm": COMMUNICATION, "memcpy": TRANSFER, "memset": TRANSFER}
# How every reader names a transfer whose direction it knows.
TRANSFER_NAMES = {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "d2d": "Memcpy DtoD"}

UNKNOWN = -(2**62)
NONE = -1
_FEW_BEHIND = 8


class Names:
    """Every name of a device event once, with its category."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.categories: list[str] = []
        self.kinds: list[int] = []
        self._places: dict[str, int] = {}

    def place(self, text: str, category: str | None = None) -> int:
        """The number of a name; its category is told by its text where the format says nothing."""
        text = bounded_name(text)
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.texts)
            category = category or category_of(text)
            self.texts.append(text)
            self.categories.append(category)
            kind = _KINDS.get(category, COMPUTE)
            is_kernel = kind == TRANSFER and text.startswith(_KERNELS_OF_TRANSFERS)
            self.kinds.append(TRANSFER_KERNEL if is_kernel else kind)
        return place

    def is_kernel(self, place: int) -> bool:
        """Whether it is a kernel, and not a transfer or a fill."""
        return self.kinds[place] != TRANSFER


class DeviceEvents:
    """What one device did: a million events are eight arrays, not a million objects."""

    __slots__ = (
        "calls", "ends", "launched_at", "launches", "names", "sources", "starts", "streams",
    )  # fmt: skip

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")
        self.names = array("q")
        self.streams = array("q")
        # Which launch an event belongs to: one launch of a graph starts hundreds of kernels.
        self.launches = array("q")
        # When the host launched it; UNKNOWN where the format does not tell.
        self.launched_at = array("q")
        # The place of that call among the host's launches, or NONE; empty where no call is known.
        self.calls = array("i")
        # The place of the program's own line that it comes from, or NONE; empty where none is told.
        self.sources = array("i")

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def columns(self) -> tuple[array[int], ...]:
        """The arrays, in the order in which `extend` takes them; the last ones may be left out."""
        return (
            self.starts,
            self.ends,
            self.names,
            self.streams,
            self.launches,
            self.launched_at,
            self.calls,
            self.sources,
        )

    def extend(self, *columns: Iterable[int]) -> None:
        """More events: starts, ends, names, streams, launches, times of launch, calls, sources."""
        for column, more in zip(self.columns, columns, strict=False):
            if isinstance(more, array) and more.typecode == column.typecode:
                column.extend(more)
            else:
                # From a list it takes a third of the time that it takes from an iterator.
                column.fromlist(list(more))

    def add(self, *values: int) -> None:
        """One event, in the order of `extend`."""
        for column, value in zip(self.columns, values, strict=False):
            column.append(value)

    def has_kernels(self, names: Names) -> bool:
        """Whether there is a kernel at all, that does not end before it starts."""
        columns = zip(self.names, self.starts, self.ends, strict=True)
        return any(names.is_kernel(name) and start <= end for name, start, end in columns)

    def only(self, chosen: Iterable[bool]) -> DeviceEvents:
        """The chosen events, in the same order."""
        chosen = list(chosen)
        kept = DeviceEvents()
        kept.extend(*(compress(column, chosen) for column in self.columns))
        return kept

    def tidied(self) -> tuple[DeviceEvents, int]:
        """The same events by start, without those that end before they start, and their number."""
        backwards = sum(map(operator.gt, self.starts, self.ends))
        if backwards:
            return self.only(map(operator.le, self.starts, self.ends)).tidied()[0], backwards
        long = _length_in_order(self.starts)
        behind = len(self) - long
        if not behind:
            return self, 0
        tidy = DeviceEvents()
        if behind > long // _FEW_BEHIND:
            order = sorted(range(len(self)), key=self.starts.__getitem__)
            for column, known in zip(tidy.columns, self.columns, strict=True):
                column.fromlist(list(map(known.__getitem__, order)) if known else [])
            return tidy, 0
        for piece in _pieces_in_order(self.starts, long):
            tidy.extend(*(column[piece] for column in self.columns))
        return tidy, 0


def _length_in_order(starts: array[int]) -> int:
    descents = list(map(operator.gt, starts, islice(starts, 1, None)))
    return descents.index(True) + 1 if True in descents else len(starts)


def _pieces_in_order(starts: array[int], long: int) -> Iterator[slice]:
    """Slices that put events in order of which few stand behind a long part that is in order.

    Tables are in order, and short ones behind a long one are what is usual.
    """
    done = 0
    for place in sorted(range(long, len(starts)), key=starts.__getitem__):
        cut = bisect_right(starts, starts[place], done, long)
        yield slice(done, cut)
        yield slice(place, place + 1)
        done = cut
    yield slice(done, long)
