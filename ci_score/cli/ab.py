"""`ci-score ab`: measures head against base in interleaved pairs of fresh processes."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import expm1
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_score.cli.voice import say
from ci_score.errors import WrongUseError
from ci_score.files import read_bytes
from ci_score.measure.ab import Plan, Runner, Session, opened
from ci_score.measure.environment import MachineWatch, write_environment
from ci_score.measure.launching import launch
from ci_score.measure.profiling import profile_both
from ci_score.measure.schedule import LOOKS, Answer
from ci_score.metrics import STEP_TIME, THROUGHPUT
from ci_score.noise import LEAST_PAIRS, MOST_PAIRS
from ci_score.policy import LARGEST_POLICY, CaseRules, policy_of, policy_table, rules_of
from ci_score.records import DEFAULT_CASE
from ci_score.verdict import EXIT_OK, EXIT_UNJUDGED

F = TypeVar("F", bound=Callable[..., Any])
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
SECONDS_A_MINUTE = 60.0


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


def session_options(command: F) -> F:
    """What `ab` and `qualify` have in common."""
    for option in reversed(
        (
            click.option(
                "--harness",
                required=True,
                metavar="CMD",
                help="What trains some steps, run in each side's folder. Files of the current"
                " folder that it names are used for both sides.",
            ),
            click.option(
                "--out",
                default=Path("perf"),
                show_default=True,
                type=click.Path(path_type=Path, file_okay=False),
                help="Where the measurements go.",
            ),
            click.option("--case", default=DEFAULT_CASE, show_default=True, help="Its name."),
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
                help="Stop after this long, with what there is.",
            ),
            click.option(
                "--warmup-steps",
                type=click.IntRange(0),
                help="Steps at the start of each launch that do not count.",
            ),
            click.option(
                "--tokens-per-step",
                type=click.FloatRange(0, min_open=True),
                help="Tokens of a step, where the harness does not say.",
            ),
            click.option("--seed", default=0, show_default=True, help="Decides who goes first."),
            click.option("--fresh", is_flag=True, help="Begin anew where --out holds a session."),
        )
    ):
        command = option(command)
    return command


@click.command("ab")
@click.option("--base", required=True, type=FOLDER, help="The code before the change.")
@click.option("--head", required=True, type=FOLDER, help="The code with the change.")
@session_options
@click.option(
    "--looks",
    callback=looks_of,
    default=",".join(map(str, LOOKS)),
    show_default=True,
    metavar="N,N,…",
    help="After how many pairs to look whether it is clear.",
)
@click.option(
    "--false-fail",
    type=click.FloatRange(1e-6, 0.1),
    help="The chance to call an unchanged program slower.  [default: the policy's, 0.005]",
)
@click.option(
    "--config", type=FILE, help="The policy with the limit.  [default: 5 % under training rules]"
)
@click.option(
    "--profile-once",
    metavar="CMD",
    help="After the timing, run this once a side; it writes a trace to $CI_SCORE_PROFILE_DIR.",
)
def command(base: Path, head: Path, **said: Any) -> int:
    """Measure head against base in pairs of fresh processes, until the answer is clear.

    The harness trains some steps and says how long they took in one of three ways: it uses
    ci_score.measure.Recorder (or appends such a line itself to $CI_SCORE_MEASUREMENTS), it prints
    {"step_ms": 12.3} for each step, or it says nothing and is timed from outside. Head and base
    take turns, so that a warm or busy machine favours neither. What was measured is kept: the same
    command goes on after an interruption.

    \b
    Examples:
      ci-score ab --base ../main --head . --harness "python bench.py"
      ci-score ab --base base --head head --harness "python bench.py" --case llama@h100
      ci-score run --measurements perf
    """
    out: Path = said["out"].resolve()
    rules = _rules(said["config"], said["case"])
    plan = Plan(
        base=str(base.resolve()),
        head=str(head.resolve()),
        harness=harness_of(said["harness"]),
        case=said["case"],
        looks=said["looks"],
        false_fail=said["false_fail"] or rules.measure.false_fail,
        limit=limit_of(rules),
        seed=said["seed"],
        timeout=said["timeout"],
        warmup_steps=_first(said["warmup_steps"], rules.measure.warmup_steps),
        tokens_per_step=said["tokens_per_step"],
    )
    session = measured(opened(out, plan, fresh=said["fresh"]), out, said["max_minutes"])
    say(words_of(session))
    if said["profile_once"]:
        for note in profile_both(harness_of(said["profile_once"]), plan, out, os.environ):
            say(note)
    say(f"judge it: ci-score run --measurements {click.format_filename(said['out'])}")
    return EXIT_OK if len(session.pairs) >= LEAST_PAIRS else EXIT_UNJUDGED


def measured(
    session: Session,
    out: Path,
    max_minutes: float | None,
    only_for_head: Mapping[str, str] | None = None,
) -> Session:
    """Runs the session with progress on a terminal, and leaves the machine's description."""
    begin = time.monotonic()

    def minutes_left() -> float:
        gone = (time.monotonic() - begin) / SECONDS_A_MINUTE
        return max_minutes - gone if max_minutes is not None else 1.0

    watch = MachineWatch()
    runner = Runner(
        session,
        out,
        os.environ,
        launch,
        watch,
        minutes_left,
        _teller(),
        only_for_head or {},
    )
    try:
        return runner.run()
    except KeyboardInterrupt:
        session.stopped = "it was interrupted; the same command goes on"
        return session
    finally:
        write_environment(out, watch.seen())


def harness_of(text: str) -> tuple[str, ...]:
    """The words of the command; a file that stands here is the same one for both sides."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUseError(f"harness: {error}") from None
    if not words:
        raise WrongUseError('harness: it is empty; give a command, as "python bench.py"')
    first, *rest = words
    if "/" in first and Path(first).is_file():
        first = str(Path(first).resolve())
    # Its folder would be the side's otherwise, and the two sides would run two harnesses.
    return (first, *(str(Path(word).resolve()) if Path(word).is_file() else word for word in rest))


def _rules(config: Path | None, case: str) -> CaseRules:
    table: Mapping[str, Any] = {"schema": 1, "rules": "training"}
    if config is not None:
        table = policy_table(read_bytes(str(config), LARGEST_POLICY), config.name)
    return rules_of(policy_of(table, "the policy"), case)


def limit_of(rules: CaseRules) -> float:
    """What fails, as a ratio of step times: the throughput's limit, else the step time's."""
    for name in (THROUGHPUT, STEP_TIME):
        gate = rules.gate(name)
        if gate is not None and gate.gate and gate.fail is not None:
            return gate.metric.limit_score(gate.fail)
    raise WrongUseError(
        "the policy fails on neither throughput nor step time; gate one of them, or leave --config"
        " away"
    )


def words_of(session: Session) -> str:
    """Why it stopped, what was found, and what could have been seen."""
    pairs = f"{len(session.pairs)} pairs measured"
    parts = [f"{session.stopped or 'not finished'} ({pairs})"]
    evidence = session.evidence()
    if evidence is not None:
        low, high = 2 * evidence.worsening - evidence.at_most(0.025), evidence.at_most(0.025)
        parts.append(
            f"head's step takes {expm1(evidence.worsening):+.1%}"
            f" ({expm1(low):+.1%} to {expm1(high):+.1%})"
        )
        visible = session.looks[-1].visible if session.looks else evidence.reach(0.005)
        parts.append(f"a slowdown above {expm1(visible):+.1%} would have shown")
    if session.answer is Answer.UNCLEAR and not session.stopped.startswith("after"):
        parts.append("nothing is proven either way")
    if session.void:
        parts.append(f"void: {len(session.void)} pairs, the last one: {session.void[-1]}")
    return "; ".join(parts)


def _teller() -> Callable[[Session, str], None]:
    """On a terminal a line that is written over; elsewhere a line for each pair."""
    live = sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("CI")

    def tell(session: Session, doing: str) -> None:
        evidence = session.evidence()
        total = session.plan.looks[-1]
        so_far = f", so far {expm1(evidence.worsening):+.1%}" if evidence else ""
        text = f"{len(session.pairs)} of at most {total} pairs{so_far}; now {doing}"
        if live:
            click.echo(f"\r{text:<78}", err=True, nl=doing == "")
        elif doing.endswith("head"):
            say(text)

    return tell


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
