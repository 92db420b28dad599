"""Which processes belong to a launch: whoever carries its mark, in whatever session or group.

A launcher of several ranks gives each a session of its own, so neither the parent nor the group
says whose a process is. The environment does: it is inherited by all of them. A process that has
cleared its environment, to slow down the launches of the other side, is known by its descent: on
Linux we adopt whatever loses its parent.

Run as a program, this file ends a launch after ci-score itself was killed. So it imports only the
standard library.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, SubprocessError, run
from typing import IO, cast

PROCESSES = "/proc"
GRACE_SECONDS = 5.0
MOMENT_SECONDS = 0.5
POLL_SECONDS = 0.01
CONTAINER_SECONDS = 60.0
# After the last child that turned up, we wait so long for another one.
QUIET_SECONDS = 0.05
# Reads the launch's ID, then waits for the end of the pipe; "$0" is our Python.
KEEPER = 'read -r pid; read -r _; file=$1; shift; exec "$0" -I -S "$file" "$pid" "$@"'
# linux/prctl.h
SET_CHILD_SUBREAPER = 36


def carries(pid: int, mark: str) -> bool | None:
    """Whether a process has the mark in its environment; None where that cannot be known.

    In a container a driver may tell the host's numbers, which are nobody's here.
    """
    try:
        told = _read(pid, "environ")
    except PermissionError:
        return False  # It is another user's.
    except OSError:
        return None
    return mark.encode() in told.split(b"\0") if told else None


def _read(pid: int, name: str) -> bytes:
    """Every launch reads all processes a few times, so this is kept cheap."""
    with open(f"{PROCESSES}/{pid}/{name}", "rb", buffering=0) as stream:  # noqa: PTH123
        return stream.read()


def adopt_orphans() -> None:
    """What a launch leaves without a parent becomes our child, so that it can be found."""
    import ctypes

    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Whoever started us ignores its children: ours would all seem to exit with 0.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
    found = _told(pid)
    return None if found is None or found[0] == b"Z" else found[1:]


def _told(pid: int) -> tuple[bytes, int, int] | None:
    """A process's state, parent and session; an exited child of ours keeps them until reaped."""
    try:
        # The name, which comes before, may hold anything, brackets too.
        told = _read(pid, "stat").rpartition(b") ")[2]
        state, parent, _, session = told.split()[:4]
    except (OSError, ValueError):
        return None
    return state, int(parent), int(session)


def _numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROCESSES) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def carriers(mark: str) -> list[int]:
    """The processes with the mark; one that has ended and waits for its parent has none."""
    own = os.getpid()
    return [pid for pid in _numbers() if pid != own and carries(pid, mark)]


# --- ending them ----------------------------------------------------------------------------------


def end_all(
    process: Popen[bytes],
    mark: str,
    before: frozenset[int],
    *,
    is_over: bool = False,
    tidies_up: bool = False,
) -> tuple[int, bool]:
    """Ends a process, its group and all that it left.

    Returns how many had outlived their work, and whether any of them lives on. The work is over
    when the process has ended, or where its caller says so. `before` are the descendants that we
    had before it began: they are left alone. An engine of containers `tidies_up` after its end:
    that is awaited, and not counted.
    """

    def left() -> set[int]:
        return ({*carriers(mark), *descendants()} - before) - {process.pid}

    runs = process.poll() is None
    # A helper that ends with its parent, as multiprocessing's tracker does, takes a moment.
    adopted = left() if runs else _that_stay(left, GRACE_SECONDS if tidies_up else MOMENT_SECONDS)
    count = len(adopted) + runs if is_over or not runs else 0
    still = adopted
    for sign in (signal.SIGTERM, signal.SIGKILL):
        _signal(still, sign, process.pid)
        if not runs and not adopted:
            break
        still = _that_stay(lambda: left() | ({process.pid} if process.poll() is None else set()))
        if not still:
            break
    # A member of the group that hides its environment was asked, and is not waited for.
    _signal((), signal.SIGKILL, process.pid)
    hidden, lives_on = _end_hidden(before | {process.pid})
    return count + hidden, lives_on or bool(still)


def _end_hidden(others: frozenset[int]) -> tuple[int, bool]:
    """Ends what changes its process ID faster than we can look through all processes.

    It may fork and exit all the time, but each process that exits becomes a child of ours. While
    new ones turn up, it lives on. Says whether there was any, and whether there still is.
    """
    until = time.monotonic() + GRACE_SECONDS
    last, found = 0.0, False
    while (now := time.monotonic()) < until:
        seen = [_ended(pid) for pid in _strays(others)]
        if seen:
            last = now
        elif now - last > QUIET_SECONDS:
            return int(found), False
        found = found or any(seen)
    return int(found), True


def _strays(others: frozenset[int]) -> Iterator[int]:
    """Our other children in sessions of their own, the newest first."""
    own = os.getsid(0)
    for pid in reversed(_children()):
        if pid not in others and (one := _told(pid)) and one[2] != own:
            yield pid


def _children() -> list[int]:
    """Our children, exited ones included; most kernels list them in one place."""
    own = os.getpid()
    try:
        threads = list(Path(PROCESSES, "self", "task").iterdir())
        told = [int(pid) for one in threads for pid in (one / "children").read_text().split()]
    except OSError:
        return [pid for pid in _numbers() if (one := _told(pid)) and one[1] == own]
    return told


def _ended(pid: int) -> bool:
    """Kills a child of ours; False where it had already exited, and only had to be reaped."""
    with suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    return True


def _signal(pids: Iterable[int], sign: signal.Signals, group: int = 0) -> None:
    """Sends it to the processes, and to those of a group."""
    for kill, number in [
        *((os.kill, pid) for pid in pids),
        *([(os.killpg, group)] if group else []),
    ]:
        with suppress(ProcessLookupError, PermissionError):
            kill(number, sign)


def _that_stay(left: Callable[[], set[int]], seconds: float | None = None) -> set[int]:
    """What is left when nothing is, or when the time is up; each look reads all processes."""
    until = time.monotonic() + (GRACE_SECONDS if seconds is None else seconds)
    while (found := left()) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return found


# --- when nobody waits for them any more ----------------------------------------------------------


@contextmanager
def ended_with_us(mark: str, ending: Sequence[str]) -> Iterator[Callable[[int], None]]:
    """Ends a launch if we are killed; takes the ID of the launch's process.

    A process of its own waits for the end of a pipe that only we hold open. It is a shell: it
    starts faster than Python, which nearly no launch needs.
    """
    command = ["/bin/sh", "-c", KEEPER, sys.executable, __file__, mark, *ending]
    keeper = Popen(  # noqa: S603 - this very file
        command, cwd="/", stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    pipe = cast("IO[bytes]", keeper.stdin)

    def tell(pid: int) -> None:
        with suppress(OSError):
            pipe.write(b"%d\n" % pid)
            pipe.flush()

    try:
        yield tell
    finally:
        keeper.kill()
        keeper.wait()
        pipe.close()


def _end_orphans(mark: str, ending: Sequence[str], session: int | None) -> None:
    """Kills what carries the mark or is in that session, until nothing is left."""

    def left() -> set[int]:
        of_session = {pid for pid in _numbers() if (one := _living(pid)) and one[1] == session}
        found = {*carriers(mark), *of_session}
        _signal(found, signal.SIGKILL)
        return found

    _that_stay(left)
    if ending:
        end_container(ending)


def end_container(ending: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """A daemon's container outlives the program that asked for it."""
    with suppress(OSError, SubprocessError):
        run(  # noqa: S603 - the user's own launcher
            ending,
            env=environment,
            stdin=DEVNULL,
            capture_output=True,
            timeout=CONTAINER_SECONDS,
            check=False,
        )


if __name__ == "__main__":
    _end_orphans(sys.argv[2], sys.argv[3:], int(sys.argv[1]) if sys.argv[1] else None)
