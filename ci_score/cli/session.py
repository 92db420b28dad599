"""What `ab`, `measure` and `qualify` share: options, signals, and how a session is printed."""

from __future__ import annotations

import math
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from ci_score.cli.console import LiveLine, say
from ci_score.cli.options import with_options
from ci_score.errors import CiScoreError, DiskFullError, WrongUseError
from ci_score.files.disk import is_full
from ci_score.files.failures import forget_failure, leave_failure
from ci_score.files.locks import alone
from ci_score.judge import LEAST_PAIRS, MOST_PAIRS
from ci_score.measure import ADDED_AT_ONCE, Session
from ci_score.model.lists import listed, plural, share_in_words
from ci_score.model.profile import Profile
from ci_score.model.record import DEFAULT_CASE, case_name
from ci_score.model.step_code import MarkedStep
from ci_score.traces import ProfileSource, normalised, read_marked, read_profile

Looks = tuple[int, ...]
# As many as a policy may name.
MOST_LOOKS = 15
MOST_STEPS = 100_000
LOCK, MEASUREMENTS = ".lock", "measurements.jsonl"
F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def looks_of(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Looks | None:
    """Increasing numbers of pairs, or an error with an example."""
    if text is None:
        return None
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    rising = all(first < second for first, second in pairwise(numbers))
    known = min(numbers, default=0) >= LEAST_PAIRS and max(numbers, default=0) <= MOST_PAIRS
    if not known or not rising or len(numbers) > MOST_LOOKS:
        raise click.BadParameter(
            f"{text!r}: give rising numbers of pairs from {LEAST_PAIRS} to {MOST_PAIRS}, as 6,12"
        )
    return numbers


def added_pairs_of(_ctx: click.Context, _param: click.Parameter, pairs: int) -> int:
    """A whole number of steps, or an error that says why."""
    if pairs % ADDED_AT_ONCE:
        raise click.BadParameter(
            f"{pairs}: pairs are added in steps of {ADDED_AT_ONCE}, and nothing can be proven"
            f" between two of them; give {pairs + -pairs % ADDED_AT_ONCE}"
        )
    return pairs


def case_name_of(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    """A name that a record can have."""
    if case_name(text) != text:
        raise click.BadParameter(f"{text!r}: use up to 64 letters, digits and @ . _ + -")
    return text


OPTIONS = (
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
        "--steps",
        type=click.IntRange(1, MOST_STEPS),
        metavar="N",
        help="Time this many steps of each launch.  [default: what the policy says, in ab; else"
        " 20 to 1,000, so that timing takes as long as the start-up]",
    ),
    click.option(
        "--settle-steps",
        # Nobody knows when the first step began.
        type=click.IntRange(2, MOST_STEPS),
        default=50,
        show_default=True,
        metavar="N",
        help="Steps of the untimed launch, from which the warm-up is chosen.",
    ),
    click.option(
        "--warmup-steps",
        type=click.IntRange(0, MOST_STEPS),
        metavar="N",
        help="Steps at the start of each launch that do not count.  [default: until they settle]",
    ),
    click.option(
        "--tokens-per-step",
        type=click.FloatRange(0, min_open=True),
        metavar="N",
        help="Tokens per step, if the script does not report them.",
    ),
    click.option(
        "--wait",
        type=click.FloatRange(0),
        default=10.0,
        show_default=True,
        envvar="CI_SCORE_WAIT",
        show_envvar=True,
        metavar="MINUTES",
        help="Wait at most this long until other processes leave the machine alone.",
    ),
    click.option("--fresh", is_flag=True, help="Start again if --out holds a session."),
)

SEED = click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Decides which side of each pair runs first.  [default: a fresh one]",
)


def session_options(out: str, *, with_seed: bool = True) -> Callable[[F], F]:
    """The options of a command that launches the user's own, with its folder's default."""
    folder = click.option(
        "--out",
        default=out,
        show_default=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="Where the measurements go.",
    )
    words = click.argument("words", nargs=-1, type=click.UNPROCESSED)
    return with_options(words, folder, *OPTIONS, *([SEED] if with_seed else []))


def profile_options(*, by_default: bool) -> Callable[[F], F]:
    """The options of a command that can profile what it has measured."""
    usually = "it does" if by_default else "it does not"
    return with_options(
        click.option(
            "--profile/--no-profile",
            "profiled",
            default=by_default,
            help="Whether each side runs once more after the timing, under torch's profiler."
            f"  [default: {usually}]",
        ),
        click.option(
            "--lines/--no-lines",
            default=True,
            help="Whether a profiled side runs once more, to find the lines of its code that take"
            " the time.  [default: it does, in ab where the sides differ]",
        ),
        click.option(
            "--keep-trace", is_flag=True, help="Keep the profiler's traces, too: OUT/traces."
        ),
    )


# What stands behind an option that must be given.
EXAMPLES = {"--base": "main", "--head": "."}


class WithCommand(click.Command):
    """A command whose own options end at `--`; behind it stands the user's command."""

    is_needed = True

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """As it is written."""
        return ["[OPTIONS]", "-- COMMAND…"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuses a command without the dashes, whose options would be taken for ours."""
        example = " ".join(["ci-score", str(ctx.info_name), *self._example, "-- python train.py"])
        has_dashes = "--" in args
        try:
            left = super().parse_args(ctx, args)
        except click.MissingParameter as error:
            missing = error.param.opts[0] if error.param else "an option"
            raise WrongUseError(f"{missing} is missing; write {example}") from None
        except click.NoSuchOption as error:
            if has_dashes:
                raise
            told = error.format_message()
            raise WrongUseError(f"{told} Your own command goes behind --, as {example}") from None
        words = ctx.params.pop("words", ())
        if words and not has_dashes:
            raise WrongUseError(f"write -- before your command, as {example}")
        if not words and self.is_needed and not ctx.resilient_parsing:
            raise WrongUseError(f"give the command that trains after --, as {example}")
        ctx.params["command"] = tuple(words)
        return left

    @property
    def _example(self) -> Iterator[str]:
        for one in self.params:
            if one.required and isinstance(one, click.Option):
                yield f"{one.opts[0]} {EXAMPLES.get(one.opts[0], '…')}"


class WithOptionalCommand(WithCommand):
    """The same, where the user's command may be left out."""

    is_needed = False

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """As it is written."""
        return ["[OPTIONS]", "[-- COMMAND…]"]


class TraceReader:
    """Reads the traces of launches for the room that makes them."""

    def profile(self, trace: Path) -> Profile:
        """What a profiler's trace says of a step."""
        return read_profile(ProfileSource(trace.name, path=trace))

    def marked(self, trace: Path) -> MarkedStep:
        """What a trace with marks says of the program's lines."""
        return read_marked(ProfileSource(trace.name, path=trace))

    def text(self, profile: Profile) -> str:
        """A profile in kilobytes, as `run` reads it."""
        return normalised(profile)


class Surroundings(NamedTuple):
    """Whether a signal came, the line that shows a session, and who is told why it failed."""

    stopped: Callable[[], bool]
    line: ProgressLine
    because: Callable[[str], None]


@contextmanager
def measuring(out: Path) -> Iterator[Surroundings]:
    """The surroundings of a session, which has the folder for itself alone."""
    busy = f"another ci-score measures in {out} now; wait for its end, or give another --out"
    try:
        with (
            alone(out / LOCK, busy),
            leaving_why(out) as because,
            _saying_what_is_kept(out),
            stopped_by_signals() as stopped,
            ProgressLine() as line,
        ):
            yield Surroundings(stopped, line, because)
    finally:
        with suppress(OSError):
            out.rmdir()  # nothing was measured


@contextmanager
def _saying_what_is_kept(out: Path) -> Iterator[None]:
    """Where the disk is full."""
    try:
        yield
    except (DiskFullError, OSError) as error:
        if isinstance(error, OSError):
            if not is_full(error):
                raise
            error = DiskFullError(error.filename or out, str(error.strerror))
        launches = 0
        with suppress(OSError):
            launches = (out / MEASUREMENTS).read_bytes().count(b"\n")
        kept = f"kept in {out}: {plural(launches, 'launch')}"
        raise DiskFullError(error.path, error.why, kept) from None


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """Whether a signal came, so that a session can stop in order.

    Ctrl-C, a cancelled job, or a terminal that was closed; `nohup` says to go on then.
    """
    stop = threading.Event()
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} - ignored
    }
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def leaving_why(out: Path) -> Iterator[Callable[[str], None]]:
    """Leaves in the folder of the measurements why there are none, for the job that judges.

    A person on a machine of their own has just read it.
    """

    def leave(words: str) -> None:
        if os.environ.get("GITHUB_ACTIONS") == "true":
            leave_failure(out, words)

    forget_failure(out)
    try:
        yield leave
    except CiScoreError as error:
        leave(str(error))
        raise


def place_in_words(out: Path) -> str:
    """The folder as `ci-score run` takes it in a shell, from the folder that this is run in."""
    text = click.format_filename(out)
    # `run` reads name=path, where no slash comes before.
    is_plain = out.is_absolute() or not ("=" in text or text.startswith("-"))
    return shlex.quote(text if is_plain else f"./{text}")


# --- what is printed ----------------------------------------------------------------------------


class ProgressLine(LiveLine):
    """Shows a session: what is running, and one line for each pair that ended."""

    def begins(self, session: Session, side: str, pair: int) -> None:
        """Shows what is running, and the result so far."""
        count = len(session.pairs)
        known = _so_far(session) or _medians(session)
        words = f"{count} of at most {session.goal} pairs{known}; {side} of {pair + 1}"
        self.begin(words, count, session.goal)

    def does(self, words: str, done: int = 0, total: int = 0) -> None:
        """Shows what is running that is no pair."""
        self.begin(words, done, total)

    def says(self, words: str) -> None:
        """Prints what a person wants to know."""
        self.clear()
        say_lines(words)

    def ends(self, session: Session, result: str) -> None:
        """Prints the result of a pair."""
        self.clear()
        say_lines(f"pair {session.next_pair}: {result}{_so_far(session)}")


def say_lines(message: str) -> None:
    """Prints several lines: what happened, and the end of a log."""
    for line in message.split("\n"):
        say(line)


def interval_in_words(seen: float, low: float, high: float) -> str:
    """A slowdown with its confidence interval, if any: `+3.2 % (+1.0 % to +5.4 %)`."""
    words = share_in_words(seen)
    if low <= -1.0:
        return words
    if math.isinf(high):
        return f"{words} ({share_in_words(low)} or more)"
    return f"{words} ({share_in_words(low)} to {share_in_words(high)})"


def plan_in_words(looks: Looks, limit: float, with_tokens: float, source: str) -> str:
    """What a session is going to do, before it begins."""
    when = plural(len(looks), "look")[2:]
    words, other = share_in_words(limit), share_in_words(with_tokens)
    beside = f" ({other} if the script tells its tokens)" if other != words else ""
    return (
        f"up to {looks[-1]} pairs, {when} after {listed([str(look) for look in looks])}; limit"
        f" {words} a step{beside}, from {source}"
    )


def words_of(session: Session) -> str:
    """Why the session stopped, what it found, and how an open question could be settled."""
    if session.never_ran:
        return session.stopped
    count = len(session.pairs)
    told = "" if session.is_measured else f" ({plural(count, 'pair')} measured)"
    lines = [f"{session.stopped}{told}"]
    if len(session.void) < 2 * count:
        lines += _found(session)
    if session.timed_from:
        lines.append(f"the times come from {session.timed_from}")
    if session.void:
        lines.append(f"void launches: {len(session.void)}")
    if session.disturbed:
        lines.append(f"pairs disturbed by other processes: {len(session.disturbed)}")
    if session.was_extended:
        lines.append(
            f"pairs were added after the plan of {session.plan.looks[-1]}: they spend what it has"
            " left of the chance of a false failure"
        )
    return "\n".join([*lines, *session.notes, *_too_few(session)])


def _found(session: Session) -> Iterator[str]:
    seen = session.seen()
    if math.isnan(seen.slower):
        return
    sure = ", with 95 % confidence" if seen.low > -1.0 else ""
    yield f"head's step takes {interval_in_words(seen.slower, seen.low, seen.high)}{sure}"
    limit = f"(the limit is {share_in_words(session.limit)})"
    if math.isfinite(seen.high) and not session.void and not session.leaves_out:
        yield f"anything above {share_in_words(seen.high)} is ruled out (95 %) {limit}"
    if seen.is_unclear and len(session.pairs) >= LEAST_PAIRS:
        yield f"nothing is proven either way{_what_settles_it(session)}"


def _what_settles_it(session: Session) -> str:
    """How to go on; pairs can be added where the planned ones are measured."""
    if not session.may_be_extended:
        return ""
    pairs = session.pairs_to_settle()
    if pairs is None:
        return f"; even {MOST_PAIRS} pairs would probably not settle it"
    more = pairs - len(session.pairs)
    more += -more % ADDED_AT_ONCE
    return f"; about {pairs} pairs would probably settle it: --more-pairs {more}"


def _so_far(session: Session) -> str:
    if len(session.pairs) < LEAST_PAIRS:
        return ""
    seen = session.seen()
    if math.isnan(seen.slower):
        return ""
    return f", so far {interval_in_words(seen.slower, seen.low, seen.high)}"


def _medians(session: Session) -> str:
    """The medians: few pairs have no interval yet, but show that the command works."""
    base, head = session.usual_ms("base"), session.usual_ms("head")
    if math.isnan(base + head):
        return ""
    return f", so far base {base:.4g} ms, head {head:.4g} ms"


def _too_few(session: Session) -> Iterator[str]:
    """Why the session cannot be judged."""
    sound, prove = session.sound_pairs, session.plan.least_to_prove
    needed = f"{LEAST_PAIRS} are needed to clear a change, and {prove} to prove a slowdown"
    if not sound:
        void = session.void
        why = f"{void[-1].side}: {void[-1].failed}" if void else session.stopped
        yield f"nothing was measured, and nothing can be judged: {why}"
    elif sound < LEAST_PAIRS:
        yield f"it cannot be judged: {plural(sound, 'sound pair')}; {needed}"
