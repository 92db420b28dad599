"""What a person sees at a terminal: messages, colour, and what is being done right now.

Light, because an error of any command needs it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

import click

from ci_score.files.visible import log_line, unlike_commands

QUIET_FOR = 1.0
EVERY = 0.25
WIDTH = 78
_VERDICTS = {"Pass": "green", "Warning": "yellow", "Not judged": "magenta", "Fail": "red"}
# The sign before a metric's outcome; the words after it are painted with it.
_SIGNS = {"✅": "green", "⚠️": "yellow", "❔": "magenta", "❌": "red", "☑️": "cyan"}
_VERDICT = re.compile(rf"^({'|'.join(_VERDICTS)}): .*$", re.MULTILINE)
_MARK = re.compile(rf"({'|'.join(_SIGNS)})(?: [A-Za-z]+)+")
# A heading stands alone on its line, over a table or a list.
_HEADING = re.compile(r"^(?:Hotspots|Notes|Where .+)$", re.MULTILINE)


def say(message: str) -> None:
    """Prints a message on standard error; a closed one is ignored."""
    with suppress(OSError):
        click.echo(log_line(message, 2000), err=True)


# --- colour -------------------------------------------------------------------------------------


def show_report(text: str) -> None:
    """Prints a report, with colour for a person who has not turned it off."""
    safe = unlike_commands(text)
    click.echo(painted(safe) if _is_colour_wanted() else safe, nl=False)


def painted(text: str) -> str:
    """The report with its verdicts, marks and headings in colour, which only repeats the words."""
    text = _VERDICT.sub(lambda row: click.style(row[0], fg=_VERDICTS[row[1]], bold=True), text)
    text = _MARK.sub(lambda mark: click.style(mark[0], fg=_SIGNS[mark[1]]), text)
    return _HEADING.sub(lambda row: click.style(row[0], bold=True), text)


def _is_colour_wanted() -> bool:
    """NO_COLOR of any value turns it off, and files and dumb terminals get none."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


# --- progress -----------------------------------------------------------------------------------


def is_watched() -> bool:
    """Whether a person sees standard error as it is written."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


@contextmanager
def progress(what: str, total: int = 1, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Shows how many of `total` are done, after a second; the line disappears at the end.

    `quiet` where a program reads what is printed, though a person may have started it.
    """

    def doing(done: int) -> str:
        return f"{what} {done} of {total}" if total > 1 else what

    with LiveLine(doing(0), after=QUIET_FOR, quiet=quiet) as line:
        yield lambda done: line.change(doing(done))


class LiveLine:
    """On a terminal, a line that says what is being done and for how long; nothing elsewhere.

    It appears `after` so many seconds and disappears at the end.
    """

    def __init__(
        self,
        doing: str = "",
        *,
        after: float = EVERY,
        quiet: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_live = is_watched() and not quiet
        self._now = now
        # One value, because a thread reads it: what is being done, and since when.
        self._doing = doing, now()
        self._after = after
        self._is_drawn = False
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, args=(self._stop.wait,), daemon=True)

    def __enter__(self) -> Self:
        if self._is_live:
            self._ticker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        if self._is_live:
            self._ticker.join()
            self.clear()

    def change(self, doing: str) -> None:
        """The same work goes on; other words for it."""
        self._doing = doing, self._doing[1]

    def begin(self, doing: str) -> None:
        """Something else begins, and is shown at once."""
        self._doing = doing, self._now()
        if self._is_live:
            self._draw()

    def clear(self) -> None:
        """Makes room for a line that stays."""
        if self._is_drawn:
            self._show("")

    def _tick(self, stopped_within: Callable[[float], bool]) -> None:
        pause = self._after
        while not stopped_within(pause):
            self._draw()
            pause = EVERY

    def _draw(self) -> None:
        doing, since = self._doing
        if doing:
            self._is_drawn = True
            self._show(f"{doing}, {self._now() - since:.0f} s")

    def _show(self, text: str) -> None:
        click.echo(f"\r{text[:WIDTH]:<{WIDTH}}\r", err=True, nl=False)
