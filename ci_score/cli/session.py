"""What the commands that measure have in common: their options, a session, and what they tell."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.cli.progress import somebody_looks
from ci_score.cli.voice import say
from ci_score.judge import noise
from ci_score.judge.noise import LEAST_PAIRS, MOST_PAIRS
from ci_score.measure.ab import Plan, Runner, Session, opened, per_cent
from ci_score.measure.accelerators import find_probe
from ci_score.measure.environment import MachineWatch, own_versions
from ci_score.measure.harness import Harness
from ci_score.measure.launching import launch
from ci_score.measure.schedule import Answer, Side, visible_in
from ci_score.model.record import DEFAULT_CASE
from ci_score.run.case_files import case_name

F = TypeVar("F", bound=Callable[..., Any])
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
SECONDS_A_MINUTE = 60.0
TICK_SECONDS = 0.5
WIDTH = 78
LEAST_TOLD = 0.001
# Which devices a program may use: of CUDA, and of ROCm.
VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def looks_of(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[int, ...]:
    """Rising numbers of pairs, or an error with an example."""
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


def session_options(out: str) -> Callable[[F], F]:
    """The options of a command that launches a harness, with its folder's default."""
    options = (
        click.option(
            "--harness",
            required=True,
            metavar="CMD",
            help="What trains some steps. It is run in each side's folder; a file that it names,"
            " of the current folder or else of head's, is the same one for both sides.",
        ),
        click.option(
            "--out",
            default=out,
            show_default=True,
            type=click.Path(path_type=Path, file_okay=False),
            help="Where the measurements go.",
        ),
        click.option(
            "--case", default=DEFAULT_CASE, show_default=True, callback=case_name_of,
            help="Its name.",
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
            help="Stop after this long, with what there is.",
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
            help="Tokens of a step, where the harness does not say.",
        ),
        click.option(
            "--seed", default=0, show_default=True, metavar="N", help="Decides who goes first."
        ),
        click.option("--fresh", is_flag=True, help="Begin anew where --out holds a session."),
    )  # fmt: skip

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def run_session(
    plan: Plan,
    harness: Harness,
    out: Path,
    *,
    fresh: bool,
    seconds_left: Callable[[], float],
    watch: MachineWatch,
    only_for_head: Mapping[str, str] | None = None,
) -> Session:
    """Runs or goes on with the session in a folder."""
    session = opened(out, plan, fresh=fresh)
    if session.ending is not None:
        return session
    harness.install()
    with Told() as audience, stopped_by_signals() as stopped:
        runner = Runner(
            session,
            out,
            os.environ,
            partial(launch, stopped=stopped),
            watch,
            seconds_left,
            stopped,
            audience,
            only_for_head or {},
        )
        return runner.run()


def machine_watch() -> MachineWatch:
    """Looks at the accelerators that the harness may use."""
    return MachineWatch(find_probe(), visible_devices())


def visible_devices() -> str | None:
    """What the environment says of them."""
    return next((os.environ[name] for name in VISIBLE_DEVICES if os.environ.get(name)), None)


def clock(minutes: float | None) -> Callable[[], float]:
    """Tells how many seconds are left from now on."""
    if minutes is None:
        return lambda: inf
    until = time.monotonic() + minutes * SECONDS_A_MINUTE
    return lambda: until - time.monotonic()


def state_file() -> Path:
    """Where the qualification of this machine is kept for whoever measures on it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ci-score" / "qualification.json"


def versions_of(session: Session, harness: Harness) -> dict[str, str]:
    """What the launches tell of theirs; ours only where the harness runs in this very Python."""
    told = [one.versions for pair in session.pairs for one in pair if one.versions]
    if told:
        return told[-1]
    return own_versions() if harness.is_run_by(sys.executable) else {}


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Tells whether a job was cancelled, or a person has enough: what runs is ended in order."""
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


# --- what is told -------------------------------------------------------------------------------


class Told:
    """On a terminal a line that lives, elsewhere a line for each pair that ended."""

    def __init__(self) -> None:
        self._live = somebody_looks()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._doing = ""
        self._since = 0.0

    def __enter__(self) -> Told:
        if self._live:
            self._ticker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        if self._live:
            self._ticker.join()
            self._show("")

    def begins(self, session: Session, side: Side, pair: int) -> None:
        """The line says what is running, and what the pairs say so far."""
        count, most = len(session.pairs), session.plan.looks[-1]
        with self._lock:
            known = _so_far(session) or _medians(session)
            self._doing = f"{count} of at most {most} pairs{known}; {side} of {pair + 1}"
            self._since = time.monotonic()
        if self._live:
            self._draw()

    def ends(self, session: Session, words: str) -> None:
        """A line that stays."""
        if self._live:
            self._show("")
        say_lines(f"pair {session.next_pair}: {words}{_so_far(session)}")

    def _tick(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            text = f"{self._doing}, {time.monotonic() - self._since:.0f} s"
        self._show(text)

    def _show(self, text: str) -> None:
        click.echo(f"\r{text[:WIDTH]:<{WIDTH}}\r", err=True, nl=False)


def say_lines(words: str) -> None:
    """The first line says what happened, the others are the end of a log."""
    for line in words.split("\n"):
        say(line)


def _so_far(session: Session) -> str:
    evidence = session.evidence()
    return f", so far {_interval(evidence)}" if evidence else ""


def _medians(session: Session) -> str:
    """What few pairs say: too little for an interval, and enough to see that it goes well."""
    if not session.pairs:
        return ""
    head, base = (
        statistics.median(one.typical_ms for one in side)
        for side in zip(*session.pairs, strict=True)
    )
    return f", so far base {base:.4g} ms, head {head:.4g} ms"


def _interval(evidence: noise.Evidence) -> str:
    high = evidence.at_most(noise.SURE / 2)
    low = 2 * evidence.worsening - high
    return f"{per_cent(evidence.worsening)} ({per_cent(low)} to {per_cent(high)})"


def words_of(session: Session) -> str:
    """Why it stopped, what was found, and what could have been seen."""
    count = len(session.pairs)
    lines = [f"{session.stopped} ({count} pair{'s' if count != 1 else ''} measured)"]
    evidence = session.evidence()
    if evidence is not None:
        lines.append(f"head's step takes {_interval(evidence)}, with 95 % confidence")
        lines.append(
            f"the smallest slowdown that this could have seen: {_visible(evidence, session)}"
            f" (the limit is {per_cent(session.plan.limit)})"
        )
        if session.answer is Answer.UNCLEAR:
            lines.append("nothing is proven either way")
    if session.timed_from:
        lines.append(f"the times come from {session.timed_from}")
    if session.void:
        lines.append(f"void pairs: {len(session.void)}")
    return "\n".join([*lines, *session.notes, *_too_few(session)])


def _visible(evidence: noise.Evidence, session: Session) -> str:
    visible = visible_in(evidence, session.plan.limit)
    # Where there was no noise at all, a zero would promise more than the clock can tell.
    return "below 0.1 %" if visible < LEAST_TOLD else per_cent(visible)


def _too_few(session: Session) -> Iterator[str]:
    """Why there is nothing to judge."""
    count = len(session.pairs)
    if not count:
        why = _first_line(session.void[-1]) if session.void else session.stopped
        yield f"nothing was measured, and nothing can be judged: {why}"
    elif count < LEAST_PAIRS:
        pairs = f"{count} pair{'s' if count > 1 else ''}"
        yield f"it cannot be judged: {pairs}; at least {LEAST_PAIRS} are needed to judge"


def _first_line(words: str) -> str:
    return words.partition("\n")[0]
