"""Progress on a terminal for anything that takes over a second; quiet everywhere else."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

QUIET_FOR = 1.0
EVERY = 0.25
_WIDTH = 78


@contextmanager
def progress(what: str, total: int = 1, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Tells how many of `total` are done, on a line that goes away.

    `quiet` where a program reads what is printed, though a person may have started it.
    """
    done = [0]
    if quiet or not somebody_looks():
        yield lambda _count: None
        return
    stop = threading.Event()
    ticker = threading.Thread(target=_tick, args=(what, total, done, stop), daemon=True)
    ticker.start()
    try:
        yield lambda count: done.__setitem__(0, count)
    finally:
        stop.set()
        ticker.join()


def somebody_looks() -> bool:
    """Whether a person sees standard error as it is written."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


def _tick(what: str, total: int, done: list[int], stop: threading.Event) -> None:
    begin = time.monotonic()
    if stop.wait(QUIET_FOR):
        return
    while True:
        seconds = time.monotonic() - begin
        count = f" {done[0]} of {total}" if total > 1 else ""
        click.echo(f"\r{what}{count}, {seconds:.0f} s ", err=True, nl=False)
        if stop.wait(EVERY):
            break
    click.echo("\r" + " " * _WIDTH + "\r", err=True, nl=False)
