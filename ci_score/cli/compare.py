"""`ci-score compare`: what changed between two records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from ci_score.baselines import FolderBaselines, read_record
from ci_score.cli import options
from ci_score.compare import compared
from ci_score.errors import BadInputError, NoSuchFileError
from ci_score.files.disk import LOCAL_RECORD_LIMIT, STANDARD_INPUT, display_name, read_bytes
from ci_score.files.strict_json import dump
from ci_score.judge import decide, exit_code
from ci_score.judge.policy import LARGEST_POLICY, Policy, PolicyFile, policy_of, read_policy
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Judged, LaunchNumbers, Measured, Record, RunIdentity
from ci_score.model.stages import BaselineFound, Compared
from ci_score.report import render


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
@options.all_option
@options.output_options
def command(record: str, baseline: str, config: Path | None, whole: bool, **values: Any) -> int:
    """Judge RECORD against BASELINE.

    RECORD is a ci-score.json (from `ci-score run`) or a bare scorecard (from `ci-score score
    --json`). BASELINE is one too, or a folder of records, where each case takes the newest that
    fits. One of them may be -, for standard input. Two profiles are compared by `ci-score score`.

    \b
    Examples:
      ci-score compare head/ci-score.json base/ci-score.json
      ci-score compare ci-score.json baselines/ --fail-on warning
      ci-score compare ci-score.json baselines/ --style markdown -o comment.md
      ci-score compare ci-score.json baselines/ --config .github/ci-score.toml
    """
    options.only_one_stdin(record, baseline)
    output, gate = options.output_of(values), options.gate_of(values)
    head = _read(record)
    if not head.cases:
        source = display_name(record)
        raise BadInputError(
            source, field="cases", found="an empty list", expected="a case to judge"
        )
    store = _store(baseline, head)
    file = _policy(config, store)
    policy = file.policy if file else Policy()
    # The launches of its own base are left out, because the user asks to compare with another one.
    compared_cases = [_compared(case, store, policy) for case in head.cases]
    cases = decide(compared_cases, store.history(1), policy)
    notices = (one for one in head.notices if one.code is not Why.SHADOW)
    judged = head.but(
        cases=cases,
        rules=policy.rules,
        enforce=None,
        policy=dict(file.table) if file else None,
        notices=(*_of_one_commit(head, display_name(record), cases), *notices),
    )
    if policy.enforce is not None:
        notice = Why.SHADOW(code=exit_code(judged, gate))
        judged = judged.but(enforce=policy.enforce, notices=(notice, *judged.notices))
    output.write(dump(judged) if output.as_json else _text(judged, output, whole=whole))
    return exit_code(judged, gate)


def _text(judged: Record, output: options.Output, *, whole: bool) -> str:
    return render(judged, output.style, screen=output.screen, whole=whole)


def _compared(case: Measured, store: FolderBaselines, policy: Policy) -> Compared:
    found = store.find(case.name, case.environment)
    recorded = found.case if isinstance(found, BaselineFound) else None
    return compared(case.but(launches=_of_head(case)), found, policy.named_metrics, recorded)


def _of_one_commit(head: Record, file: str, cases: Iterable[Judged]) -> Iterator[Reason]:
    """Which record is compared with which, where their commit does not tell them apart."""
    base = next((case.baseline for case in cases if case.baseline), None)
    if base is not None and head.commit is not None and base.commit == head.commit:
        here = _run_in(file, head.run, head.created_at)
        there = _run_in(base.source, base.run, base.created_at or "")
        yield Why.SAME_COMMIT(commit=head.commit[:12], here=here, there=there)


def _run_in(file: str, run: RunIdentity | None, created_at: str) -> str:
    """A record's file, with its run as far as it is known."""
    number = f"run {run.number}" if run else ""
    time = f"{created_at[:16].replace('T', ' ')} UTC" if created_at else ""
    return ", ".join(filter(None, (file, number, time)))


def _of_head(case: Measured) -> tuple[LaunchNumbers, ...]:
    return tuple(launch for launch in case.launches if launch.side == "head")


def _policy(config: Path | None, store: FolderBaselines) -> PolicyFile | None:
    if config is not None:
        return read_policy(read_bytes(str(config), LARGEST_POLICY), config.name)
    table = store.policy()
    return None if table is None else policy_of(table, "the policy")


def _read(name: str) -> Record:
    try:
        return read_record(read_bytes(name, LOCAL_RECORD_LIMIT), display_name(name))
    except NoSuchFileError:
        raise
    except BadInputError as error:
        if name == STANDARD_INPUT or not options.is_profile(options.source_of(name)):
            raise
        raise _of_a_profile(error.source) from None


def _of_a_profile(source: str) -> BadInputError:
    return BadInputError(
        source,
        found="a profile",
        expected="records or scorecards; of two profiles, `ci-score score HEAD --baseline BASE`",
    )


def _store(name: str, head: Record) -> FolderBaselines:
    path = Path(name)
    if name != STANDARD_INPUT and path.is_dir():
        return FolderBaselines(path, asking=head)
    # A file that the user named must exist and be readable; reading it raises otherwise.
    return FolderBaselines.of_records([(display_name(name), _read(name))], asking=head)
