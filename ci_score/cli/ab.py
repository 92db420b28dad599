"""`ci-score ab`: measures head against base in interleaved pairs of fresh processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ci_score.cli.console import say
from ci_score.cli.session import (
    FILE,
    FOLDER,
    ProgressLine,
    looks_of,
    say_lines,
    session_options,
    stopped_by_signals,
    words_of,
)
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED, WrongUseError
from ci_score.files.disk import read_bytes
from ci_score.judge.policy import LARGEST_POLICY, CaseRules, Policy, read_policy, rules_of
from ci_score.measure import LOOKS, Comparison, ComparisonRequest
from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.run import INPUTS

POLICY = Path(INPUTS["config"].default)


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
    help="After how many pairs to check whether the answer is clear.",
)
@click.option(
    "--false-fail",
    type=click.FloatRange(1e-6, 0.1),
    metavar="CHANCE",
    help="The chance to call an unchanged program slower, over all checks.  [default: policy's]",
)
@click.option(
    "--config", type=FILE, help=f"The policy with the limit.  [default: {POLICY}, as for `run`]"
)
@click.option(
    "--qualification",
    type=FILE,
    help="The record of `ci-score qualify`.  [default: OUT/qualification.json, or this machine's]",
)
@click.option(
    "--profile-once",
    metavar="CMD",
    help="After the timing, run this once per side; it writes a trace to $CI_SCORE_PROFILE_DIR.",
)
def command(base: Path, head: Path, config: Path | None, **options: Any) -> int:
    """Measure head against base in pairs of fresh processes, until the answer is clear.

    The harness trains some steps and reports how long they took in one of three ways: it uses
    ci_score.measure.Recorder (or appends such a line itself to $CI_SCORE_MEASUREMENTS), it prints
    {"step_ms": 12.3} for each step, or it reports nothing and is timed from outside. Head and base
    take turns, so that a warm or busy machine favours neither. Measurements are kept: after an
    interruption, the same command continues.

    It exits with 0 if `ci-score run` can judge what was measured, and with 3 if it cannot.

    \b
    Examples:
      ci-score ab --base ../main --head . --harness "python bench.py"
      ci-score ab --base base --head head --harness "python bench.py" --case llama@h100
      ci-score run --measurements perf
    """
    rules = _rules(config, options["case"])
    for name in ("false_fail", "warmup_steps"):
        if options[name] is None:
            options[name] = getattr(rules.measure, name)
    request = ComparisonRequest(**options, limit=limit_of(rules))
    comparison = Comparison(request, base, head, os.environ)
    with ProgressLine() as line, stopped_by_signals() as stopped:
        session = comparison.run(line, stopped)
    say_lines(words_of(session))
    if session.can_be_judged:
        with stopped_by_signals() as stopped:
            for problem in comparison.profile(session, stopped):
                say_lines(problem)
    if not session.can_be_judged:
        return EXIT_UNJUDGED
    say(f"judge it: ci-score run --measurements {click.format_filename(request.out)}")
    return EXIT_OK


def _rules(config: Path | None, case: str) -> CaseRules:
    """The rules for the case; the defaults if there is no policy file."""
    if config is None and not POLICY.is_file():
        return rules_of(Policy(), case)
    file = config or POLICY
    return rules_of(read_policy(read_bytes(str(file), LARGEST_POLICY), file.name).policy, case)


def limit_of(rules: CaseRules) -> float:
    """The smallest limit that fails, as the logarithm of a ratio of step times."""
    limits = [
        gate.metric.limit_score(gate.fail)
        for name in (THROUGHPUT, STEP_TIME)
        if (gate := rules.gate(name)) is not None and gate.gate and gate.fail is not None
    ]
    if limits:
        return min(limits)
    raise WrongUseError(
        "the policy fails on neither throughput nor step time; gate one of them, or leave out"
        " --config"
    )
