"""What a person sees at a terminal: messages, colour, and what is being done right now.

Light, because an error of any command needs it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from typing import TYPE_CHECKING, Self, TextIO

import click

from ci_score.files.visible import log_line, unlike_commands
from ci_score.model.lists import duration_in_words

if TYPE_CHECKING:
    from ci_score.report import Screen

QUIET_FOR = 1.0
EVERY = 0.25
# Where nobody sees a line live, one in so long says that it does.
LINE_EVERY = 60.0
# Nothing is laid out for less: a terminal says 0 where it does not know.
LEAST_WIDTH, USUAL_WIDTH = 40, 80


def say(message: str) -> None:
    """Prints a message on standard error; a closed one is ignored."""
    line = log_line(message, 2000)
    with suppress(OSError):
        if _is_terminal(sys.stderr):
            line = _screen_of(_columns()).message(line)
        click.echo(line, err=True)


def complain(error: click.ClickException) -> None:
    """Prints what click says of a wrong use, which repeats what was typed."""
    text = StringIO()
    error.show(text)
    for line in text.getvalue().splitlines():
        say(line)


# --- reports ------------------------------------------------------------------------------------


def show_report(text: str) -> None:
    """Prints a text; no line of it is a command to the runner of a workflow."""
    click.echo(unlike_commands(text), nl=False)


def screen() -> Screen:
    """What standard output shows: a file or a pipe gets whole lines, which can be searched."""
    if not _is_terminal(sys.stdout):
        return _screen_of(None)
    return _screen_of(_columns(), has_colour=_is_colour_wanted())


def _screen_of(width: int | None, *, has_colour: bool = False) -> Screen:
    from ci_score.report import Screen

    return Screen(width, has_colour=has_colour, has_blocks=_can_show("█░"))


def _is_colour_wanted() -> bool:
    """NO_COLOR of any value turns it off, and dumb terminals get none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _columns() -> int:
    """The terminal's width, or what COLUMNS says."""
    return max(LEAST_WIDTH, shutil.get_terminal_size((USUAL_WIDTH, 24)).columns)


def _can_show(signs: str) -> bool:
    """Whether the encoding of standard output has these."""
    try:
        signs.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True


# --- progress -----------------------------------------------------------------------------------


def is_watched() -> bool:
    """Whether a person sees standard error as it is written."""
    is_terminal = _is_terminal(sys.stderr)
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
    """What is being done, for how long, and how long it may take yet.

    On a terminal a line that appears `after` so many seconds and disappears at the end; elsewhere
    a line a minute, as long as nothing else is printed.
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
        # One value, because a thread reads it: what is being done, since when, and how long the
        # rest took from there on.
        self._doing: tuple[str, float, float | None] = doing, now(), None
        self._reached = ""
        self._pace: tuple[float, int] | None = None
        self._pause = after if self._is_live else LINE_EVERY
        self._said = now()
        self._is_drawn = False
        self._stop = threading.Event()
        self._is_quiet = quiet
        self._ticker = threading.Thread(target=self._tick, args=(self._stop.wait,), daemon=True)

    def __enter__(self) -> Self:
        if not self._is_quiet:
            self._ticker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        if not self._is_quiet:
            self._ticker.join()
        self.clear()

    def change(self, doing: str) -> None:
        """The same work goes on; other words for it."""
        self._doing = doing, *self._doing[1:]

    def begin(self, doing: str, done: int = 0, total: int = 0) -> None:
        """Something else begins, the next of `total` such things; it is shown at once."""
        self._reached = ""
        self._doing = doing, self._now(), self._left(done, total)
        if self._is_live:
            self._draw()

    def reaches(self, words: str) -> None:
        """How far it is."""
        self._reached = words

    def clear(self) -> None:
        """Makes room for a line that stays."""
        self._said = self._now()
        if self._is_drawn:
            self._show("")

    def _left(self, done: int, total: int) -> float | None:
        """How many seconds the rest takes, if it goes on like this; None where nobody knows."""
        if not total or self._pace is None or self._pace[1] > done:
            self._pace = (self._now(), done) if total else None
        begin, before = self._pace or (0.0, done)
        if done == before:
            return None
        return (self._now() - begin) / (done - before) * (total - done)

    def _tick(self, stopped_within: Callable[[float], bool]) -> None:
        pause = self._pause
        while not stopped_within(pause):
            if self._is_live:
                pause = EVERY
                self._draw()
            elif (pause := self._said + LINE_EVERY - self._now()) <= 0:
                pause, self._said = LINE_EVERY, self._now()
                if words := self._words():
                    say(words)

    def _words(self) -> str:
        doing, since, rest = self._doing
        seconds = self._now() - since
        reached = f": {self._reached}" if self._reached else ""
        left = (rest or 0.0) - seconds
        yet = f", about {duration_in_words(left)} left" if left > 0 else ""
        return f"{doing}{reached}, {seconds:.0f} s{yet}" if doing else ""

    def _draw(self) -> None:
        if words := self._words():
            self._is_drawn = True
            self._show(words)

    def _show(self, text: str) -> None:
        # A line as long as the terminal is wide would begin a second one.
        width = _columns() - 2
        # The terminal may have been closed.
        with suppress(OSError):
            click.echo(f"\r{text[:width]:<{width}}\r", err=True, nl=False)
