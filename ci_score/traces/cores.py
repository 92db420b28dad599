"""How many processes may read, and how another one begins."""

from __future__ import annotations

from multiprocessing import cpu_count, current_process
from pathlib import Path

_THREADS = Path("/proc/self/task")


def start_method() -> str:
    """A fork where it is safe: it is there at once, with all that is imported.

    That of a process with threads may wait for ever; and only Linux tells of all threads.
    """
    try:
        return "fork" if len(list(_THREADS.iterdir())) == 1 else "spawn"
    except OSError:
        return "spawn"


def most_processes() -> int:
    """One for each core; a daemonic process may start no other."""
    return 1 if current_process().daemon else cpu_count()
