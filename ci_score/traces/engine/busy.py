"""How long a device was busy, and with what: unions, so that parallel work counts once."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, islice

from ci_score.traces.engine.device_events import (
    COMMUNICATION,
    COMPUTE,
    TRANSFER,
    TRANSFER_KERNEL,
)

BEFORE_ALL = -(2**63)


@dataclass(frozen=True, slots=True)
class Busy:
    """The unions over some events, from the first start to the last end."""

    first: int = 0
    last: int = 0
    busy: int = 0
    compute: int = 0
    communication: int = 0
    exposed_communication: int = 0

    @property
    def span(self) -> int:
        """From the first start to the last end."""
        return self.last - self.first


def busy_time(starts: Sequence[int], ends: Sequence[int], kinds: bytes) -> Busy:
    """The unions over events that come by start."""
    if not starts:
        return Busy()
    if not _in_sequence(starts, ends):
        return _parallel_busy_time(starts, ends, kinds)
    busy = sum(ends) - sum(starts)
    communication = _sum_of_kind(COMMUNICATION, starts, ends, kinds)
    transfers = sum(_sum_of_kind(each, starts, ends, kinds) for each in (TRANSFER, TRANSFER_KERNEL))
    compute = busy - communication - transfers
    return Busy(starts[0], ends[-1], busy, compute, communication, communication)


def added_time(starts: array[int], ends: array[int], busy_end: int) -> tuple[int, int]:
    """What the events, by start, add to a union that ends at `busy_end`; and where it ends then."""
    if not starts:
        return 0, busy_end
    if starts[0] >= busy_end and _in_sequence(starts, ends):
        return sum(ends) - sum(starts), ends[-1]
    added = 0
    for start, end in zip(starts, ends, strict=True):
        if start >= busy_end:
            added += end - start
            busy_end = end
        elif end > busy_end:
            added += end - busy_end
            busy_end = end
    return added, busy_end


def _in_sequence(starts: Sequence[int], ends: Sequence[int]) -> bool:
    """Whether each begins when the one before has ended: then times are sums, and found fast."""
    return all(map(operator.le, ends, islice(starts, 1, None)))


def _sum_of_kind(kind: int, starts: Sequence[int], ends: Sequence[int], kinds: bytes) -> int:
    if kind not in kinds:
        return 0
    chosen = [each == kind for each in kinds]
    return sum(compress(ends, chosen)) - sum(compress(starts, chosen))


def _parallel_busy_time(starts: Sequence[int], ends: Sequence[int], kinds: bytes) -> Busy:
    """In order of start an event adds to a union what lies beyond the latest end so far.

    So no interval is kept. Exposed communication is what communication adds to the union of all
    computation.
    """
    busy = compute = communication = work = 0
    busy_end = compute_end = communication_end = work_end = BEFORE_ALL
    for start, end, kind in zip(starts, ends, kinds, strict=True):
        if start >= busy_end:
            busy += end - start
            busy_end = end
        elif end > busy_end:
            busy += end - busy_end
            busy_end = end
        if kind >= TRANSFER:
            continue
        if start >= work_end:
            work += end - start
            work_end = end
        elif end > work_end:
            work += end - work_end
            work_end = end
        if kind == COMPUTE:
            if start >= compute_end:
                compute += end - start
                compute_end = end
            elif end > compute_end:
                compute += end - compute_end
                compute_end = end
        elif end > communication_end:
            communication += end - max(start, communication_end)
            communication_end = end
    return Busy(starts[0], busy_end, busy, compute, communication, work - compute)
