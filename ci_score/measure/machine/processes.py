"""Which processes belong to a launch: whoever carries its mark, in whatever session or group.

A launcher of several ranks gives each a session of its own, so neither the parent nor the group
says whose a process is. The environment does: it is inherited by all of them. A process that has
cleared its environment, to slow down the launches of the other side, is known by its descent: on
Linux we adopt whatever loses its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
GRACE_SECONDS = 5.0
MOMENT_SECONDS = 0.5
POLL_SECONDS = 0.01
# linux/prctl.h
SET_CHILD_SUBREAPER = 36


def carries(pid: int, mark: str) -> bool | None:
    """Whether a process has the mark in its environment; None where that cannot be known.

    In a container a driver may tell the host's numbers, which are nobody's here.
    """
    try:
        told = (PROCESSES / str(pid) / "environ").read_bytes()
    except PermissionError:
        return False  # It is another user's.
    except OSError:
        return None
    return mark.encode() in told.split(b"\0") if told else None


def adopt_orphans() -> None:
    """What a launch leaves without a parent becomes our child, so that it can be found."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> frozenset[int]:
    """Our children, theirs and so on: those that live, in sessions of their own.

    A launch begins a session, and nobody can join ours from there. Who is in ours is no launch's:
    a driver's tool that we have asked, say.
    """
    told = {pid: _living(pid) for pid in _numbers()}
    found = {os.getpid()}
    while more := {pid for pid, one in told.items() if one and one[0] in found} - found:
        found |= more
    own = os.getsid(0)
    return frozenset(pid for pid in found if (one := told.get(pid)) and one[1] != own)


def _living(pid: int) -> tuple[int, int] | None:
    """A process's parent and session; None if it has ended."""
    try:
        # The name, which comes before, may hold anything, brackets too.
        told = (PROCESSES / str(pid) / "stat").read_bytes().rpartition(b") ")[2]
        state, parent, _, session = told.split()[:4]
    except (OSError, ValueError):
        return None
    return None if state == b"Z" else (int(parent), int(session))


def _numbers() -> list[int]:
    try:
        return [int(entry.name) for entry in PROCESSES.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def carriers(mark: str) -> list[int]:
    """The processes with the mark; one that has ended and waits for its parent has none."""
    own = os.getpid()
    return [pid for pid in _numbers() if pid != own and carries(pid, mark)]


def end_all(
    process: subprocess.Popen[bytes],
    mark: str,
    before: frozenset[int],
    *,
    is_over: bool = False,
    tidies_up: bool = False,
) -> int:
    """Ends a process, its group and all that it left; says how many had outlived their work.

    The work is over when the process has ended, or where its caller says so. `before` are the
    descendants that we had before it began: they are left alone. An engine of containers
    `tidies_up` after its end: that is awaited, and not counted.
    """

    def left() -> set[int]:
        return ({*carriers(mark), *descendants()} - before) - {process.pid}

    runs = process.poll() is None
    # A helper that ends with its parent, as multiprocessing's tracker does, takes a moment.
    adopted = left() if runs else _that_stay(left, GRACE_SECONDS if tidies_up else MOMENT_SECONDS)
    count = len(adopted) + runs if is_over or not runs else 0
    for sign in (signal.SIGTERM, signal.SIGKILL):
        _signal_all(process, adopted, sign)
        if not runs and not adopted:
            break
        still = _that_stay(lambda: left() | ({process.pid} if process.poll() is None else set()))
        if not still:
            break
        adopted |= still - {process.pid}
    # A member of the group that hides its environment was asked, and is not waited for.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in adopted:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return count


def _signal_all(process: subprocess.Popen[bytes], left: set[int], sign: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sign)


def _that_stay(left: Callable[[], set[int]], seconds: float = GRACE_SECONDS) -> set[int]:
    """What is left when nothing is, or when the time is up; each look reads all processes."""
    until = time.monotonic() + seconds
    while (found := left()) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return found
