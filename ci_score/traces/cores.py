"""How many processes may read, and how another one begins."""

from __future__ import annotations

import os
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
    """One for each core that this process may use; a daemonic process may start no other."""
    if current_process().daemon:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cpu_count()
