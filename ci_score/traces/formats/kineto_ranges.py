"""A Kineto trace in ranges of its text, which several processes may read.

A range begins with the first event after each RANGE_BYTES, and is read as if nothing came before
it. That is right where the range before it ended with an event, and the trace says the same
however many processes read. Where a range did not end so, as in a broken text, what others read
behind it is not used: the first process goes on by itself.

This process reads from the front, and others from the back until they meet. A gzip has to be
unpacked from its beginning by everybody, so there is one other process, which decodes its end.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from ci_score.errors import BadInputError
from ci_score.traces.cores import start_method
from ci_score.traces.formats.kineto_events import Trace, add_events, add_part
from ci_score.traces.formats.kineto_text import (
    PIECE_BYTES,
    EventReader,
    first_event,
    first_time,
)
from ci_score.traces.source import CutShortError, ProfileSource

PIECES = 128
RANGE_BYTES = PIECES * PIECE_BYTES
# A process that begins anew imports all, which takes as long as reading this much.
WORTH_PROCESSES = {"fork": 64 * 1024**2, "spawn": 256 * 1024**2}
# Where two meet in a gzip if unpacking takes a third of the time of decoding.
_MEETING = 0.57


@dataclass(slots=True)
class Part:
    """What was read from the beginning of a range on: that range, or all to the end."""

    number: int
    trace: Trace
    reader: EventReader
    is_last: bool = False
    is_cut: bool = False


def read_trace(source: ProfileSource) -> Trace:
    """All that a profile needs of a trace, in one pass."""
    with _without_collector(), _helpers(source) as helpers:
        return read_beside(source, helpers)


def read_beside(source: ProfileSource, helpers: Helpers) -> Trace:
    """The same, with what others read of it where that is right."""
    trace, reader = Trace(first_time(source.head())), EventReader(source.name)
    try:
        _read_ranges(source, trace, reader, helpers)
    except CutShortError:
        if not reader.found_list:
            raise
        trace.is_cut = True
    add_events(trace, reader.finish())
    trace.metadata = reader.metadata
    trace.mended, trace.dropped = reader.mended, reader.dropped
    trace.is_cut = trace.is_cut or not reader.is_whole
    return trace


def _read_ranges(
    source: ProfileSource, trace: Trace, reader: EventReader, helpers: Helpers
) -> None:
    stream = source.chunks(PIECE_BYTES)
    chunk, number = next(stream, b""), 0
    while chunk:
        part = None
        if number and reader.is_settled and helpers.has(number):
            part = helpers.part(number)
        if part is None:
            chunk = _read_range(trace, reader, chunk, stream)
        else:
            add_part(trace, part.trace)
            reader.go_on_from(part.reader)
            trace.is_cut = part.is_cut
            if part.is_last:
                return
            chunk, stream = _opened(source, number + 1)
        number += 1


def _read_range(trace: Trace, reader: EventReader, chunk: bytes, stream: Iterator[bytes]) -> bytes:
    """Reads to the end of a range; gives what of the next has been read, nothing at the end."""
    add_events(trace, reader.take(chunk))
    for piece in islice(stream, PIECES - 1):
        add_events(trace, reader.take(piece))
    ahead = next(stream, b"")
    begin = first_event(ahead)
    if begin:
        add_events(trace, reader.take(ahead[:begin]))
        add_events(trace, reader.settle())
    return ahead[begin:]


def _opened(source: ProfileSource, number: int) -> tuple[bytes, Iterator[bytes]]:
    """The beginning of a range, and what follows it."""
    stream = source.chunks(PIECE_BYTES, number * RANGE_BYTES)
    chunk = next(stream, b"")
    return chunk[first_event(chunk) :], stream


@contextmanager
def _without_collector() -> Iterator[None]:
    """Events hold no cycles: looking for some among a million of them is half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# --- the work of the others ---------------------------------------------------------------------


class _Meeting:
    """How far everybody is: one process from the front, and others from the back, in turns.

    Without a lock, which one that is killed would never let go. Where both ends take a range at the
    same moment, both read it, and the first process uses what it read itself.
    """

    def __init__(self, context: Any, count: int, others: int) -> None:
        self._count = count
        self._others = others
        self._front = context.RawArray("q", 1)
        self._backs = context.RawArray("q", [count] * others)

    def is_taken(self, number: int) -> bool:
        """Whether another one has this range; else it belongs to the front now."""
        if self._backs[number % self._others] <= number:
            return True
        self._front[0] = number
        return False

    def from_back(self, other: int) -> Iterator[int]:
        """The ranges that one of the others reads; never the first, which holds the metadata."""
        for number in reversed(range(1, self._count)):
            if number % self._others == other:
                if number <= self._front[0]:
                    return
                self._backs[other] = number
                yield number


def plain_parts(source: ProfileSource, numbers: Iterable[int]) -> Iterator[Part]:
    """Each of these ranges, where it begins with an event."""
    for number in numbers:
        stream = source.chunks(PIECE_BYTES, number * RANGE_BYTES)
        chunk = next(stream, b"")
        if begin := first_event(chunk):
            part = Part(
                number, Trace(first_time(source.head())), EventReader(source.name, within_list=True)
            )
            _read_range(part.trace, part.reader, chunk[begin:], stream)
            yield part


def packed_parts(source: ProfileSource, number: int) -> Iterator[Part]:
    """All from a range on, if that begins with an event."""
    part = Part(
        number,
        Trace(first_time(source.head())),
        EventReader(source.name, within_list=True),
        is_last=True,
    )
    stream = source.chunks(PIECE_BYTES)
    try:
        chunk = next(islice(stream, number * PIECES, None), b"")
        begin = first_event(chunk)
        if not begin:
            return
        chunk = chunk[begin:]
        while chunk:
            chunk = _read_range(part.trace, part.reader, chunk, stream)
    except CutShortError:
        part.is_cut = True
    yield part


def _plain_work(source: ProfileSource, meeting: _Meeting, other: int) -> Iterator[Part]:
    return plain_parts(source, meeting.from_back(other))


def _read_beside(parts: Callable[..., Iterator[Part]], sender: Connection, *given: Any) -> None:
    """The whole work of a process: what it cannot read, the first one reads and says why not."""
    # Whoever interrupts the command ends the first process, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BadInputError, OSError), sender, _without_collector():
        # Sent at the end, because until then nobody listens.
        for part in list(parts(*given)):
            sender.send(part)


class Helpers(Protocol):
    """Who else reads: asked for each range in turn, and for its part where it is theirs."""

    @property
    def has(self) -> Callable[[int], bool]:
        """Whether a range is theirs; what is not, nobody else begins from then on."""

    def part(self, number: int) -> Part | None:
        """What they read of it; None where nothing can be said of it alone."""


class _Processes:
    """The processes that read beside this one."""

    def __init__(self) -> None:
        self.has: Callable[[int], bool] = lambda _: False
        self._running: list[tuple[BaseProcess, Connection]] = []
        self._parts: dict[int, Part] | None = None

    def start(self, context: Any, *work: Any) -> None:
        """One more that does this work."""
        receiver, sender = context.Pipe(duplex=False)
        parts, *given = work
        process = context.Process(target=_read_beside, args=(parts, sender, *given), daemon=True)
        process.start()
        sender.close()
        self._running.append((process, receiver))

    def part(self, number: int) -> Part | None:
        """A range that is not this process's, once the others have done all of theirs."""
        if self._parts is None:
            self._parts = {part.number: part for part in self._received()}
        return self._parts.pop(number, None)

    def _received(self) -> Iterator[Part]:
        for _, receiver in self._running:
            # Of one that was ended, all that is missing is read here.
            with suppress(EOFError, OSError):
                while True:
                    yield receiver.recv()

    def end(self) -> None:
        """Whatever they do: nothing of it is wanted any more."""
        for process, receiver in self._running:
            receiver.close()
            process.kill()
            process.join()


@contextmanager
def _helpers(source: ProfileSource) -> Iterator[Helpers]:
    """As many as the source allows and its size is worth; none where none can be started."""
    processes = _Processes()
    try:
        if source.processes > 1:
            # Some machines allow no processes, or no memory that they share.
            with suppress(OSError):
                _start(processes, source)
        yield processes
    finally:
        processes.end()


def _start(processes: _Processes, source: ProfileSource) -> None:
    size, is_packed = source.size()
    method = start_method()
    count = min(source.processes, 2 * size // WORTH_PROCESSES[method])
    # Bytes in memory are there in a fork, and would have to be sent to others.
    if count < 2 or (method != "fork" and source.data is not None):
        return
    context = get_context(method)
    if is_packed:
        begin = max(round(_MEETING * size / RANGE_BYTES), 1)
        processes.start(context, packed_parts, source, begin)
        processes.has = lambda number: number == begin
        return
    meeting = _Meeting(context, -(-size // RANGE_BYTES), count - 1)
    for other in range(count - 1):
        processes.start(context, _plain_work, source, meeting, other)
    processes.has = meeting.is_taken
