"""`ci-score compare`: what changed between two records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ci_score.baselines import FolderBaselines, read_record
from ci_score.cli import options
from ci_score.errors import BadInputError
from ci_score.files.disk import LOCAL_RECORD_LIMIT, STANDARD_INPUT, display_name, read_bytes
from ci_score.files.strict_json import dump
from ci_score.judge.policy import LARGEST_POLICY, policy_of, policy_table
from ci_score.judge.trials import Evidence
from ci_score.judge.verdict import exit_code
from ci_score.model.record import CaseRecord, LaunchNumbers, Record


@click.command("compare")
@click.argument("record", type=click.Path(allow_dash=True))
@click.argument("baseline", type=click.Path(allow_dash=True))
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Judge by this policy.  [default: the one in BASELINE's newest record]",
)
@options.gate_options
@options.output_options
def command(record: str, baseline: str, config: Path | None, **said: Any) -> int:
    """Judge RECORD against BASELINE.

    RECORD is a ci-score.json (which `ci-score run` leaves) or a bare scorecard (which `ci-score
    score --json` prints). BASELINE is one too, or a folder of records, of which each case takes
    the newest that fits. One of them may be - for standard input.

    \b
    Examples:
      ci-score compare head/ci-score.json base/ci-score.json
      ci-score compare ci-score.json baselines/ --fail-on warning
      ci-score compare ci-score.json baselines/ --style markdown -o comment.md
      ci-score compare ci-score.json baselines/ --config .github/ci-score.toml
    """
    options.only_one_stdin(record, baseline)
    output, gate = options.output_of(said), options.gate_of(said)
    head = _read(record)
    if not head.cases:
        source = display_name(record)
        raise BadInputError(
            source, field="cases", found="an empty list", expected="a case to judge"
        )
    store = _store(baseline, head)
    table = _rules(config, store)
    found = [store.find(case.name, case.environment) for case in head.cases]
    policy = policy_of(table or {}, "the policy")
    # Pairs tell of the base that was measured beside them, and not of the one that is asked for.
    alone = [case.model_copy(update={"launches": _of_head(case)}) for case in head.cases]
    cases = Evidence(alone, found, store.history(1)).judged(policy)
    judged = head.model_copy(update={"cases": tuple(cases), "rules": policy.rules, "policy": table})
    output.write(dump(judged) if output.as_json else options.report_in_style(judged, output.style))
    return exit_code(judged, gate)


def _of_head(case: CaseRecord) -> tuple[LaunchNumbers, ...]:
    return tuple(launch for launch in case.launches if launch.side == "head")


def _rules(config: Path | None, store: FolderBaselines) -> dict[str, Any] | None:
    if config is None:
        return store.newest_policy()
    return policy_table(read_bytes(str(config), LARGEST_POLICY), config.name)


def _read(name: str) -> Record:
    return read_record(read_bytes(name, LOCAL_RECORD_LIMIT), display_name(name))


def _store(name: str, head: Record) -> FolderBaselines:
    path = Path(name)
    if name != STANDARD_INPUT and path.is_dir():
        return FolderBaselines(path, asking=head)
    # A file that was named is there and readable, or the call is wrong.
    return FolderBaselines.of_records([(display_name(name), _read(name))], asking=head)
