"""`ci-score score`: what one profile says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ci_score.baselines.folder import single
from ci_score.cli import options
from ci_score.errors import WrongUseError
from ci_score.files import RECORD_LIMIT, display_name, read_bytes
from ci_score.models import CaseRecord
from ci_score.pipeline import judged_case, measured_case, record_of
from ci_score.profilers import read_profile
from ci_score.records import DEFAULT_CASE, read_record
from ci_score.strict_json import dump
from ci_score.verdict import FailOn, OnInconclusive, exit_code


@click.command("score")
@click.argument("profile")
@options.workload_options
@click.option("--baseline", metavar="FILE", help="Compare with this record or scorecard.")
@click.option(
    "--case",
    "case_name",
    default=DEFAULT_CASE,
    show_default=True,
    metavar="NAME",
    help="Which case of the baseline record.",
)
@options.gate_options
@options.output_options
def command(
    profile: str,
    baseline: str | None,
    case_name: str,
    fail_on: FailOn,
    on_inconclusive: OnInconclusive,
    as_json: bool,
    style: str,
    output: Path | None,
    **workload: Any,
) -> int:
    """Score one PROFILE (a file, or - for standard input).

    Without a baseline it describes and exits 0. With one it judges: exit 1 is a regression that
    --fail-on asks to fail on, exit 3 a comparison that nothing was measured for.

    \b
    Examples:
      ci-score score profile.json
      ci-score score profile.json --tokens-per-step 8192 --hardware "L4" --bytes-per-step 21e9
      ci-score score profile.json --throughput 1327 --hardware gb10 --json
      zcat profile.json.gz | ci-score score - --baseline main.json
    """
    measured = measured_case(
        DEFAULT_CASE,
        read_profile(read_bytes(profile), display_name(profile)),
        options.workload_of(workload),
    )
    code = 0
    if baseline is not None:
        base = _baseline_case(baseline, case_name)
        measured = judged_case(measured, single(base, display_name(baseline)))
        code = exit_code(record_of([measured], ""), fail_on, on_inconclusive)
    if as_json:
        text = dump(measured.scorecard)
    else:
        text = options.report_in_style(record_of([measured], ""), style)
    options.write_result(text, output)
    return code


def _baseline_case(name: str, case_name: str) -> CaseRecord:
    record = read_record(read_bytes(name, RECORD_LIMIT), display_name(name))
    found = record.cases[0] if len(record.cases) == 1 else record.case(case_name)
    if found is None:
        known = ", ".join(case.name for case in record.cases) or "none"
        raise WrongUseError(
            f"{name} has no case {case_name!r} (it has: {known}); name one with --case"
        )
    return found
