"""`ci-score ab`: measures head against base in interleaved pairs of fresh processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ci_score.cli.session import (
    FILE,
    FOLDER,
    clock,
    looks_of,
    machine_watch,
    run_session,
    say_lines,
    session_options,
    state_file,
    stopped_by_signals,
    versions_of,
    words_of,
)
from ci_score.cli.voice import say
from ci_score.errors import WrongUseError
from ci_score.files.disk import read_bytes
from ci_score.judge.policy import LARGEST_POLICY, CaseRules, policy_of, policy_table, rules_of
from ci_score.judge.verdict import EXIT_OK, EXIT_UNJUDGED
from ci_score.measure.ab import Ending, Plan, Session
from ci_score.measure.environment import git_state, write_environment
from ci_score.measure.harness import Harness, harness_of
from ci_score.measure.profiling import profile_both
from ci_score.measure.qualify import qualification_for
from ci_score.measure.schedule import LOOKS
from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.run.inputs import input_named

POLICY = Path(input_named("config").default)


@click.command("ab")
@click.option("--base", required=True, type=FOLDER, help="The code before the change.")
@click.option("--head", required=True, type=FOLDER, help="The code with the change.")
@session_options("perf")
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
    metavar="CHANCE",
    help="The chance to call an unchanged program slower, over all looks.  [default: the policy's]",
)
@click.option(
    "--config", type=FILE, help=f"The policy with the limit.  [default: {POLICY}, as of `run`]"
)
@click.option(
    "--qualification",
    type=FILE,
    help="What `ci-score qualify` left.  [default: OUT/qualification.json, or this machine's]",
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

    It exits with 0 where `ci-score run` can judge what was measured, and with 3 where it cannot.

    \b
    Examples:
      ci-score ab --base ../main --head . --harness "python bench.py"
      ci-score ab --base base --head head --harness "python bench.py" --case llama@h100
      ci-score run --measurements perf
    """
    out: Path = said["out"].resolve()
    base, head = base.resolve(), head.resolve()
    harness = harness_of(said["harness"], head, out)
    harness.refuse_unless_startable((base, head))
    profiler = _profiler(said["profile_once"], base, head, out)
    session = _measured(base, head, harness, out, said)
    say_lines(words_of(session))
    if session.can_be_judged and profiler is not None:
        _profile(profiler, session, out)
    if not session.can_be_judged:
        return EXIT_UNJUDGED
    say(f"judge it: ci-score run --measurements {click.format_filename(said['out'])}")
    return EXIT_OK


def _measured(base: Path, head: Path, harness: Harness, out: Path, said: dict[str, Any]) -> Session:
    """The session, and beside it the machine's description."""
    rules = _rules(said["config"], said["case"])
    plan = Plan(
        base=str(base),
        head=str(head),
        harness=harness.words,
        case=said["case"],
        looks=said["looks"],
        false_fail=said["false_fail"] or rules.measure.false_fail,
        limit=limit_of(rules),
        seed=said["seed"],
        timeout=said["timeout"],
        warmup_steps=_first(said["warmup_steps"], rules.measure.warmup_steps),
        tokens_per_step=said["tokens_per_step"],
        imports=harness.imports,
        programs=_programs(base, head, harness),
    )
    watch = machine_watch()
    session = run_session(
        plan,
        harness,
        out,
        fresh=said["fresh"],
        seconds_left=clock(said["max_minutes"]),
        watch=watch,
    )
    if session.pairs and watch.launches:
        known = watch.seen(versions_of(session, harness))
        sides = (("git", head), ("base_git", base))
        gate = qualification_for(known, _qualifications(said, out), datetime.now(UTC))
        git = {key: state for key, folder in sides if (state := git_state(folder))}
        write_environment(out, {**known, **git, **gate})
    return session


def _profiler(text: str | None, base: Path, head: Path, out: Path) -> Harness | None:
    """Known before the timing, which would be waited for in vain."""
    if not text:
        return None
    harness = harness_of(text, head, out, "profile-once")
    harness.refuse_unless_startable((base, head), "profile-once")
    return harness


def _profile(harness: Harness, session: Session, out: Path) -> None:
    harness.install()
    with stopped_by_signals() as stopped:
        for note in profile_both(harness.words, session.plan, out, os.environ, stopped):
            say_lines(note)
        if stopped():
            session.stop(Ending.INTERRUPTED, session.stopped)
            say("interrupted: what was measured is kept, the profiles are not whole")


def _programs(base: Path, head: Path, harness: Harness) -> dict[str, str]:
    """Which programs are compared: a session that goes on with others would mix them."""
    sides = {"base": git_state(base), "head": git_state(head)}
    known = {side: " + ".join(state.values()) for side, state in sides.items() if state}
    return {**known, "harness": harness.digest}


def _qualifications(said: dict[str, Any], out: Path) -> list[Path]:
    """Where a qualification may lie; the one that the user names alone, if any."""
    if said["qualification"] is not None:
        return [said["qualification"]]
    return [out / "qualification.json", state_file()]


def _rules(config: Path | None, case: str) -> CaseRules:
    table: Mapping[str, Any] = {}
    if config is None and POLICY.is_file():
        config = POLICY
    if config is not None:
        table = policy_table(read_bytes(str(config), LARGEST_POLICY), config.name)
    return rules_of(policy_of(table, "the policy"), case)


def limit_of(rules: CaseRules) -> float:
    """What fails, as the logarithm of a ratio of step times; the first limit that would."""
    limits = [
        gate.metric.limit_score(gate.fail)
        for name in (THROUGHPUT, STEP_TIME)
        if (gate := rules.gate(name)) is not None and gate.gate and gate.fail is not None
    ]
    if limits:
        return min(limits)
    raise WrongUseError(
        "the policy fails on neither throughput nor step time; gate one of them, or leave --config"
        " away"
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
