"""`ci-score score`: what one profile says."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import click

from ci_score.baselines import read_record
from ci_score.cli import options
from ci_score.cli.console import progress, say
from ci_score.compare import Workload, compared, measured_case
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED, CiScoreError, WrongUseError
from ci_score.files.disk import LOCAL_RECORD_LIMIT
from ci_score.files.strict_json import dump
from ci_score.judge import decide, exit_code
from ci_score.judge.policy import Policy
from ci_score.model.lists import did_you_mean, some_of
from ci_score.model.record import DEFAULT_CASE, BaselineUsed, Judged, Measured, Record
from ci_score.model.stages import BaselineFound, CaseInput
from ci_score.report import render, sentence
from ci_score.traces import ProfileSource, read_profile


@click.command("score")
@click.argument("profile", type=click.Path(allow_dash=True))
@options.workload_options
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Compare with this profile, record or scorecard.",
)
@click.option(
    "--case",
    "case_name",
    metavar="NAME",
    help=f"Which case of the baseline record.  [default: its only one, or {DEFAULT_CASE}]",
)
@options.step_name_option
@options.gate_options
@options.output_options
def command(
    profile: str,
    baseline: str | None,
    case_name: str | None,
    step_name: re.Pattern[str] | None,
    **values: Any,
) -> int:
    """Score one PROFILE (a file, or - for standard input).

    Without a baseline it describes the profile and exits with 0, or with 3 if it is not usable.
    With one it judges and says why: it exits with 1 on a regression that --fail-on names, and with
    3 if there was nothing to compare.

    \b
    Examples:
      ci-score score profile.json
      ci-score score after.json --baseline before.json
      ci-score score profile.json --tokens-per-step 8192 --hardware "L4" --bytes-per-step 21e9
      ci-score score profile.json --throughput 1327 --hardware gb10 --json
      zcat profile.json.gz | ci-score score - --baseline main.json
    """
    options.only_one_stdin(profile, baseline)
    output, gate = options.output_of(values), options.gate_of(values)
    workload = options.workload_of(values)
    source = replace(options.source_of(profile), step_name=step_name)
    with progress("reading", quiet=output.as_json):
        read = read_profile(source)
        case = measured_case(CaseInput(DEFAULT_CASE, read), workload)
        if baseline is not None:
            other = replace(options.source_of(baseline), step_name=step_name)
            base = _base(other, case_name, workload)
    if baseline is not None:
        used = BaselineUsed(source=other.name)
        (case,) = decide([compared(case, BaselineFound(base, used))], (), Policy())
    record = Record.describing([case])
    text = render(record, output.style, screen=output.screen)
    output.write(dump(case.scorecard) if output.as_json else text)
    if baseline is not None:
        return exit_code(record, gate)
    if read.unusable is None:
        return EXIT_OK
    say(f"{source.name} is not usable: {read.unusable}")
    return EXIT_UNJUDGED


def _base(source: ProfileSource, case_name: str | None, workload: Workload) -> Measured:
    """A record's case, or what another profile says of the same work."""
    # A record is JSON; of anything else a reader of profiles knows best what it is.
    begin = source.head().removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(b"{") and not options.is_profile(source):
        return _case_of(source, case_name)
    if case_name is not None:
        raise WrongUseError(f"--case names a case of a record, and {source.name} is a profile")
    read = read_profile(source)
    # --throughput is PROFILE's own.
    case = measured_case(CaseInput(DEFAULT_CASE, read), replace(workload, throughput_tok_s=None))
    if not case.has_a_time:
        why = sentence(case.unmeasured) if case.unmeasured else "it has no time"
        raise CiScoreError(f"{source.name} is not usable: {why}")
    return case


def _case_of(source: ProfileSource, case_name: str | None) -> Judged:
    name = source.name
    record = read_record(source.whole(LOCAL_RECORD_LIMIT), name)
    if case_name is None and len(record.cases) == 1:
        return record.cases[0]
    case = record.case(case_name or DEFAULT_CASE)
    if case is None:
        cases = [each.name for each in record.cases]
        known = some_of(cases, 10) or "none"
        raise WrongUseError(
            f"{name} has no case {case_name or DEFAULT_CASE!r} (it has: {known});"
            f" name one with --case{did_you_mean(case_name or '', cases)}"
        )
    return case
