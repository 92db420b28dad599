"""`ci-score ab`: measures head against base in interleaved pairs of fresh processes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ci_score.cli.session import (
    FILE,
    Surroundings,
    TraceReader,
    WithCommand,
    added_pairs_of,
    looks_of,
    measuring,
    place_in_words,
    plan_in_words,
    profile_options,
    session_options,
    words_of,
)
from ci_score.cli.sides import FOLDER, FolderOrCommit, sides_of, sides_options
from ci_score.errors import (
    EXIT_OK,
    EXIT_UNJUDGED,
    BadInputError,
    WrongUseError,
)
from ci_score.files.disk import read_bytes
from ci_score.judge import MOST_PAIRS, planned_looks
from ci_score.judge.policy import LARGEST_POLICY, CaseRules, Policy, read_policy, rules_of
from ci_score.measure import ComparisonRequest, Sitting
from ci_score.model.environment import Alone, AskedOption
from ci_score.run import INPUTS

POLICY = Path(INPUTS["config"].default)
NUMBERS = ("limit", "looks", "false_fail", "steps", "warmup_steps", "tokens_per_step")
ONLY_TRACKED = (
    "base is a fresh checkout, and has only what git tracks: if it misses data of your folder, give"
    " --link data, and if it must be built, --setup"
)


@click.command("ab", cls=WithCommand)
@click.option(
    "--base",
    required=True,
    type=FolderOrCommit(),
    help="The code before the change: a folder, or a commit or branch, which is checked out.",
)
@click.option(
    "--or-alone",
    is_flag=True,
    is_eager=True,
    help="Measure head alone where --base is empty, or cannot run the command and head can.",
)
@click.option("--head", required=True, type=FOLDER, help="The code with the change.")
@session_options("perf")
@sides_options
@click.option(
    "--limit",
    type=click.FloatRange(0, 10, min_open=True),
    metavar="SHARE",
    help="The slowdown that fails, as a share of the time of a step.  [default: policy's]",
)
@click.option(
    "--looks",
    callback=looks_of,
    metavar="N,N,…",
    help="After how many pairs to check whether the answer is clear.  [default: policy's]",
)
@click.option(
    "--more-pairs",
    type=click.IntRange(0, MOST_PAIRS),
    default=0,
    callback=added_pairs_of,
    metavar="N",
    help="Add so many pairs to the finished session in --out, in steps of four.",
)
@click.option(
    "--false-fail",
    type=click.FloatRange(1e-6, 0.1),
    metavar="CHANCE",
    help="The chance to call an unchanged program slower, over all checks.  [default: policy's]",
)
@click.option(
    "--config", type=FILE, help=f"The policy with the limit.  [default: {POLICY} in --base]"
)
@click.option(
    "--qualification",
    type=FILE,
    help="The record of `ci-score qualify`.  [default: OUT/qualification.json, or this machine's]",
)
@profile_options(by_default=True)
def command(
    base: Path | str, head: Path, config: Path | None, or_alone: bool, **options: Any
) -> int:
    """Measure head against base in pairs of fresh processes, until the answer is clear.

    Behind -- stands the command that trains, as you would type it. It runs in each side's folder,
    so that each side runs its own copy of the script, which needs no change: ci-score counts the
    steps of torch's optimizers, and ends a launch after some of them. A script that tells its own
    steps wins: by ci_score.measure.Recorder, or by printing {"step_ms": 12.3} for each of them.

    First each side runs once untimed: when do its steps settle? Then come pairs, in each of which a
    coin decides which side runs first, so that neither a warm or busy machine nor periodic work
    favours one. Last, each side runs once under torch's profiler, which explains what was measured,
    and where they differ once more, to find the lines of code.
    After an interruption the same command goes on, and --more-pairs adds to a session that is
    finished. {out} in the command is a fresh folder for each launch.

    It exits with 0 if `ci-score run` can judge what was measured, and with 3 if it cannot. What
    head measured alone (--or-alone) is a new case to `run`, which blocks if it knows that case.

    \b
    Examples:
      ci-score ab --base ../main --head . -- python train.py
      ci-score ab --base ../main --head . -- torchrun --nproc-per-node 2 train.py --out {out}
      ci-score ab --base base --head head --case llama@h100 --more-pairs 8 -- python train.py
      ci-score run --measurements perf
    """
    with measuring(options["out"]) as here:
        return _measured(base, head, config, or_alone, here, options)


def _measured(
    base: Path | str,
    head: Path,
    config: Path | None,
    or_alone: bool,
    here: Surroundings,
    options: dict[str, Any],
) -> int:
    request_of_sides = sides_of(options, base or None, head)
    asked = (*request_of_sides.asked, *_numbers(options))
    here.line.does("preparing both sides")
    with request_of_sides.ready(os.environ, here.line.says) as sides:
        case = options["case"]
        rules = _rules_in(config, case) if config else _rules_of_base(sides.base.folder, case)
        request, words = _planned({**options, "asked": asked}, rules)
        sitting = Sitting(
            request=request,
            sides=sides,
            environment=os.environ,
            reader=TraceReader(),
            audience=here.line,
            stopped=here.stopped,
            words_of=words_of,
        )
        if not base:
            is_measured = sitting.measures_alone(Alone(why="no_base"))
        else:
            is_measured = sitting.compares(words, or_alone=or_alone)
    if not is_measured:
        here.because(sitting.ended)
        if isinstance(base, str) and sitting.base_failed:
            here.line.says(ONLY_TRACKED)
        return EXIT_UNJUDGED
    here.line.says(f"judge it: ci-score run --measurements {place_in_words(request.out)}")
    return EXIT_OK


# --- by which rules -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for the case, and where that is written."""

    of_case: CaseRules
    source: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Which slowdown fails and which one warns, as shares of the time of a step.

    `as_written` is the limit as the policy has it: throughput that is 3 % lower is 3.1 % more time.
    """

    fail: float
    warn: float
    as_written: float


def _rules_in(file: Path, case: str) -> Rules:
    policy = read_policy(read_bytes(str(file), LARGEST_POLICY), file.name).policy
    return Rules(rules_of(policy, case, in_pairs=True), click.format_filename(file))


def _rules_of_base(base: Path, case: str) -> Rules:
    """The rules are the base's: a change cannot move its own limit."""
    built_in = rules_of(Policy(), case, in_pairs=True)
    file = base / POLICY
    if not file.is_file():
        return Rules(built_in, f"the built-in rules (base has no {POLICY})")
    try:
        return Rules(_rules_in(file, case).of_case, "the base's policy")
    except (BadInputError, WrongUseError) as error:
        # Else nobody could measure the change that repairs it.
        return Rules(built_in, f"the built-in rules (the base's policy cannot be used: {error})")


def _numbers(options: dict[str, Any]) -> Iterator[AskedOption]:
    """The numbers that a person gave, which the policy would else say."""
    for name in NUMBERS:
        if (value := options[name]) is not None:
            text = ",".join(map(str, value)) if name == "looks" else f"{value:.15g}"
            yield AskedOption(option=f"--{name.replace('_', '-')}", value=text)


def _planned(options: dict[str, Any], rules: Rules) -> tuple[ComparisonRequest, str]:
    """What is asked of the session, by option or by policy, and its plan in one line."""
    measure, asked, source = rules.of_case.measure, dict(options), rules.source
    for name in ("false_fail", "warmup_steps", "looks"):
        if asked[name] is None:
            asked[name] = getattr(measure, name)
    asked["steps"] = asked["steps"] or measure.timed_steps
    limit = asked.pop("limit")
    if limit is None:
        limits = limits_of(rules.of_case, has_tokens=asked["tokens_per_step"] is not None)
        with_tokens = limits_of(rules.of_case, has_tokens=True)
    else:
        limits = with_tokens = Limits(limit, limit, limit)
        source = "--limit"
    tightest = min(limits.as_written, with_tokens.as_written)
    looks = planned_looks(tightest, asked.pop("looks"), asked["false_fail"], measure.tests)
    request = ComparisonRequest(
        **asked,
        looks=looks,
        tests=measure.tests,
        limit=limits.fail,
        warn=limits.warn,
        with_tokens=(with_tokens.fail, with_tokens.warn),
        repeats_shared="shared" in rules.of_case.environment.reject,
    )
    return request, plan_in_words(looks, limits.fail, with_tokens.fail, source)


def limits_of(rules: CaseRules, *, has_tokens: bool) -> Limits:
    """The smallest limit on times that fails, by the rules that `run` judges the launches with.

    Without tokens there is no throughput, and the step time stands in for it.
    """
    gates = [
        (gate.metric.limit_score(gate.fail), gate.metric.limit_score(gate.warn), gate.fail)
        for gate in rules.of_time(measured=has_tokens).values()
        if gate.gate and gate.fail is not None
    ]
    if not gates:
        raise WrongUseError(
            "the policy fails on neither throughput nor step time; gate one of them, or give"
            " --limit"
        )
    fail, warn, as_written = min(gates)
    return Limits(math.expm1(fail), math.expm1(warn), as_written)
