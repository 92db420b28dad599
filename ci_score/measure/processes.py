"""Which processes belong to a launch: whoever carries its mark, in whatever session or group.

A launcher of several ranks gives each a session of its own, so neither the parent nor the group
says whose a process is. The environment does: it is inherited by all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.01


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


def carriers(mark: str) -> list[int]:
    """The processes with the mark; one that has ended and waits for its parent has none."""
    try:
        numbers = [int(entry.name) for entry in PROCESSES.iterdir() if entry.name.isdigit()]
    except OSError:
        return []
    return [pid for pid in numbers if pid != os.getpid() and carries(pid, mark)]


def end_all(process: subprocess.Popen[bytes], mark: str) -> int:
    """Ends a process, its group and all that it left; says how many had outlived it."""
    outlived = len(carriers(mark)) if process.poll() is not None else 0
    for sign in (signal.SIGTERM, signal.SIGKILL):
        _signal_all(process, mark, sign)
        if _wait_until(lambda: process.poll() is not None and not carriers(mark)):
            break
    # A member of the group that hides its environment was asked, and is not waited for.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return outlived


def _signal_all(process: subprocess.Popen[bytes], mark: str, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
    for pid in carriers(mark):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sign)


def _wait_until(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until:
        if done():
            return True
        time.sleep(POLL_SECONDS)
    return False
