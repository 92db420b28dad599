"""A folder for one process alone: of two sessions in it, each would destroy the other's."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ci_score.errors import WrongUseError
from ci_score.files.disk import cannot_write, remove

LOCK_SECONDS, PAUSE_SECONDS = 2.0, 0.1


@contextmanager
def alone(lock: Path, busy: str, advice: str = "") -> Iterator[None]:
    """Holds the lock, a file that is gone at the end; whoever comes second is told `busy`.

    The `advice` is for a folder that cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = _held(lock)
    except OSError as error:
        raise cannot_write(lock.parent, error, advice) from None
    if held is None:
        raise WrongUseError(busy)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(held)


def _held(lock: Path) -> int | None:
    """The lock's open file; None where another process has it.

    What a killed session was about to start has it for a moment.
    """
    end = time.monotonic() + LOCK_SECONDS
    while True:
        file = _opened(lock)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Else whoever had it has removed it meanwhile.
            if lock.stat().st_ino == os.fstat(file).st_ino:
                return file
        except (BlockingIOError, FileNotFoundError):
            os.close(file)
        except OSError:
            return file  # a file system without locks: better alone by chance than not at all
        else:
            os.close(file)
        if time.monotonic() > end:
            return None
        time.sleep(PAUSE_SECONDS)


def _opened(lock: Path) -> int:
    """The file, whatever a launch has put in its place."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        if not stat.S_ISREG(lock.lstat().st_mode):
            remove(lock)
    return os.open(lock, flags, 0o666)
