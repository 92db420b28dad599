"""Reading many files: here, in processes, or on a cluster; the result is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from ci_score.errors import BadInputError
from ci_score.models import Profile
from ci_score.profilers import read_profile
from ci_score.profilers.source import ProfileSource

# Starting a process and sending a profile back costs about as much as reading this much.
WORTH_A_PROCESS = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file could not be read: what an exception says, in a form that can travel."""

    source: str
    field: str
    found: str
    expected: str

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
        return Problem(error.source, error.field, error.found, error.expected)


def read_all(
    sources: Sequence[ProfileSource],
    executor: Executor | None = None,
    done: Callable[[int], None] | None = None,
) -> list[Profile | Problem]:
    """All files in their order. `done` hears how many are ready."""
    results: Iterable[Profile | Problem]
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
    large = [source for source in sources if _size(source) > WORTH_A_PROCESS]
    if len(large) < 2 or most == 1:
        yield None
        return
    # A fork of a process with threads may wait for ever; a fresh one does not.
    with ProcessPoolExecutor(most, mp_context=get_context("spawn")) as pool:
        yield pool


def _size(source: ProfileSource) -> int:
    if source.path is not None and source.path.is_file():
        return source.path.stat().st_size
    return len(source.data or b"")
