"""Reading many files: here, in processes, or on a cluster; the result is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context

from ci_score.errors import BadInputError, NoSuchFileError
from ci_score.model.profile import Profile
from ci_score.traces.cores import most_processes, start_method
from ci_score.traces.formats import read_profile
from ci_score.traces.packing import MAGIC_BYTES, is_packed
from ci_score.traces.source import ProfileSource

# Forking and sending profiles back costs as much as reading this much, beside the largest file;
# a process that begins anew and imports all costs so many times that.
WORTH_A_PROCESS = 4 * 1024**2
_COST = {"fork": 1, "spawn": 16}
# A trace is some ten times as long as when it is packed.
_PACKED = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file could not be read: what an exception says, in a form that can travel."""

    source: str
    field: str
    found: str
    expected: str
    is_missing: bool = False

    def error(self) -> BadInputError:
        """The exception that it was."""
        return BadInputError(
            self.source, field=self.field, found=self.found, expected=self.expected
        )


def read_one(source: ProfileSource) -> Profile | Problem:
    """One file; what is wrong with it is a value, because it may come from another process."""
    try:
        return read_profile(source)
    except BadInputError as error:
        is_missing = isinstance(error, NoSuchFileError)
        return Problem(error.source, error.field, error.found, error.expected, is_missing)


def read_all(
    sources: Sequence[ProfileSource],
    executor: Executor | None = None,
    done: Callable[[int], None] | None = None,
    most: int | None = None,
) -> list[Profile | Problem]:
    """All files in their order. `done` hears how many are ready.

    Without an executor they are read one by one, each by as many as `most` processes.
    """
    results: Iterable[Profile | Problem]
    if executor is None:
        most = min(most or most_processes(), most_processes())
        sources = [replace(source, processes=most) for source in sources]
    results = executor.map(read_one, sources) if executor else map(read_one, sources)
    ready = []
    for number, result in enumerate(results, start=1):
        ready.append(result)
        if done:
            done(number)
    return ready


@contextmanager
def processes(sources: Sequence[ProfileSource], most: int | None) -> Iterator[Executor | None]:
    """A pool of processes where it pays: several files, and enough in them."""
    sizes = sorted(_size(source) for source in sources)
    count = min(most or most_processes(), len(sources))
    method = start_method()
    if count < 2 or sum(sizes[:-1]) <= WORTH_A_PROCESS * _COST[method]:
        yield None
        return
    with ProcessPoolExecutor(count, mp_context=get_context(method)) as pool:
        yield pool


def _size(source: ProfileSource) -> int:
    """About how much there is to read; what cannot be read says so later."""
    try:
        if source.path is None:
            size, begin = len(source.data or b""), (source.data or b"")[:MAGIC_BYTES]
        else:
            size = source.path.stat().st_size
            with source.path.open("rb") as stream:
                begin = stream.read(MAGIC_BYTES)
    except OSError:
        return 0
    return size * _PACKED if is_packed(begin) else size
