"""`ci-score compare`: what changed between two records."""

from __future__ import annotations

from pathlib import Path

import click

from ci_score.baselines.folder import FolderBaselines
from ci_score.cli import options
from ci_score.errors import BadInputError
from ci_score.files import RECORD_LIMIT, display_name, read_bytes
from ci_score.pipeline import judged_case
from ci_score.records import read_record
from ci_score.strict_json import dump
from ci_score.verdict import FailOn, OnInconclusive, exit_code


@click.command("compare")
@click.argument("record")
@click.argument("baseline", type=click.Path(path_type=Path))
@options.gate_options
@options.output_options
def command(
    record: str,
    baseline: Path,
    fail_on: FailOn,
    on_inconclusive: OnInconclusive,
    as_json: bool,
    style: str,
    output: Path | None,
) -> int:
    """Judge RECORD against BASELINE.

    RECORD is a ci-score.json or a bare scorecard (- reads standard input); BASELINE is one too, or
    a folder of records, of which each case takes the newest that fits.

    \b
    Examples:
      ci-score compare head/ci-score.json base/ci-score.json
      ci-score compare ci-score.json baselines/ --fail-on warning
      ci-score compare ci-score.json baselines/ --style markdown -o comment.md
    """
    if not baseline.exists():
        raise BadInputError(str(baseline), found="nothing there", expected="a record or a folder")
    head = read_record(read_bytes(record, RECORD_LIMIT), display_name(record))
    if not head.cases:
        raise BadInputError(
            record, field="cases", found="an empty list", expected="a case to judge"
        )
    store = FolderBaselines(baseline)
    judged = head.model_copy(
        update={
            "cases": tuple(
                judged_case(case, store.find(case.name, case.environment)) for case in head.cases
            )
        }
    )
    text = dump(judged) if as_json else options.report_in_style(judged, style)
    options.write_result(text, output)
    return exit_code(judged, fail_on, on_inconclusive)
