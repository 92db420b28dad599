"""What `ab` and `qualify` share: options, signals, and how a session is printed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.cli.console import LiveLine, say
from ci_score.cli.options import with_options
from ci_score.judge import LEAST_PAIRS, MOST_PAIRS
from ci_score.measure import Session, Side, share_in_words
from ci_score.model.lists import plural
from ci_score.model.record import DEFAULT_CASE, case_name

F = TypeVar("F", bound=Callable[..., Any])
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
# Without any noise the result would be 0.0 %, which is more than a clock can promise.
LEAST_SHOWN = 0.001


def looks_of(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[int, ...]:
    """Increasing numbers of pairs, or an error with an example."""
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    rising = all(first < second for first, second in pairwise(numbers))
    if not numbers or numbers[0] < LEAST_PAIRS or numbers[-1] > MOST_PAIRS or not rising:
        raise click.BadParameter(
            f"{text!r}: give rising numbers of pairs from {LEAST_PAIRS} to {MOST_PAIRS}, as 4,8,12"
        )
    return numbers


def case_name_of(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    """A name that a record can have."""
    if case_name(text) != text:
        raise click.BadParameter(f"{text!r}: use up to 64 letters, digits and @ . _ + -")
    return text


OPTIONS = (
    click.option(
        "--harness",
        required=True,
        metavar="CMD",
        help="A command that trains some steps. It runs in each side's folder; a file that it"
        " names is taken from the current folder, or else from head's, for both sides.",
    ),
    click.option(
        "--case",
        default=DEFAULT_CASE,
        show_default=True,
        callback=case_name_of,
        help="The name of the case.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0.1),
        default=1800.0,
        show_default=True,
        metavar="SECONDS",
        help="The longest that one launch may take.",
    ),
    click.option(
        "--max-minutes",
        type=click.FloatRange(0.01),
        metavar="MINUTES",
        help="Stop after this long and keep what was measured.",
    ),
    click.option(
        "--warmup-steps",
        type=click.IntRange(0),
        metavar="N",
        help="Steps at the start of each launch that do not count.",
    ),
    click.option(
        "--tokens-per-step",
        type=click.FloatRange(0, min_open=True),
        metavar="N",
        help="Tokens per step, if the harness does not report them.",
    ),
    click.option(
        "--seed", default=0, show_default=True, metavar="N", help="Decides which side runs first."
    ),
    click.option("--fresh", is_flag=True, help="Start again if --out holds a session."),
)


def session_options(out: str) -> Callable[[F], F]:
    """The options of a command that launches a harness, with its folder's default."""
    folder = click.option(
        "--out",
        default=out,
        show_default=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="Where the measurements go.",
    )
    harness, *others = OPTIONS
    return with_options(harness, folder, *others)


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Whether a signal came (Ctrl-C, or a cancelled job), so that a session can stop in order."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- what is printed ----------------------------------------------------------------------------


class ProgressLine(LiveLine):
    """Shows a session: on a terminal what is running, and one line for each pair that ended."""

    def begins(self, session: Session, side: Side, pair: int) -> None:
        """Shows what is running, and the result so far."""
        count, most = len(session.pairs), session.plan.looks[-1]
        known = _so_far(session) or _medians(session)
        self.begin(f"{count} of at most {most} pairs{known}; {side} of {pair + 1}")

    def ends(self, session: Session, result: str) -> None:
        """Prints the result of a pair."""
        self.clear()
        say_lines(f"pair {session.next_pair}: {result}{_so_far(session)}")


def say_lines(message: str) -> None:
    """Prints several lines: what happened, and the end of a log."""
    for line in message.split("\n"):
        say(line)


def interval_in_words(seen: float, low: float, high: float) -> str:
    """A slowdown with its confidence interval: `+3.2 % (+1.0 % to +5.4 %)`."""
    return f"{share_in_words(seen)} ({share_in_words(low)} to {share_in_words(high)})"


def words_of(session: Session) -> str:
    """Why the session stopped, what it found, and what it could have found."""
    count = len(session.pairs)
    lines = [f"{session.stopped} ({plural(count, 'pair')} measured)"]
    slowdown, visible = session.slowdown, session.smallest_visible
    if slowdown is not None and visible is not None:
        shown = "below 0.1 %" if visible < LEAST_SHOWN else share_in_words(visible)
        lines.append(f"head's step takes {interval_in_words(*slowdown)}, with 95 % confidence")
        lines.append(
            f"the smallest slowdown that this could have seen: {shown}"
            f" (the limit is {share_in_words(session.limit)})"
        )
        if not session.is_clear:
            lines.append("nothing is proven either way")
    if session.timed_from:
        lines.append(f"the times come from {session.timed_from}")
    if session.void:
        lines.append(f"void pairs: {len(session.void)}")
    return "\n".join([*lines, *session.notes, *_too_few(session)])


def _so_far(session: Session) -> str:
    slowdown = session.slowdown
    return f", so far {interval_in_words(*slowdown)}" if slowdown else ""


def _medians(session: Session) -> str:
    """The medians: few pairs have no interval yet, but show that the harness works."""
    if not session.pairs:
        return ""
    base, head = session.mean_ms("base"), session.mean_ms("head")
    return f", so far base {base:.4g} ms, head {head:.4g} ms"


def _too_few(session: Session) -> Iterator[str]:
    """Why the session cannot be judged."""
    count = len(session.pairs)
    if not count:
        why = session.void[-1].partition("\n")[0] if session.void else session.stopped
        yield f"nothing was measured, and nothing can be judged: {why}"
    elif count < LEAST_PAIRS:
        pairs = plural(count, "pair")
        yield f"it cannot be judged: {pairs}; at least {LEAST_PAIRS} are needed to judge"
