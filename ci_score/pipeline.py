"""The story of a run: read → score → find the baseline → compare → judge → publish.

Every collaborator is an argument. Nothing here touches the network, the clock or the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from ci_score import __version__
from ci_score.baselines import BaselineStore
from ci_score.comparison import compare, explain
from ci_score.efficiency import Workload, training_scorecard
from ci_score.errors import BadInputError
from ci_score.models import (
    Baseline,
    BaselineFound,
    BaselineMissing,
    BaselineUsed,
    CaseInput,
    CaseRecord,
    Change,
    Environment,
    HistoryPoint,
    Record,
    Regression,
    RunIdentity,
    Unjudged,
    Verdict,
    op_totals,
)
from ci_score.parity import compute_parity, side_of
from ci_score.records import join_histories
from ci_score.strict_json import overflow_is_bad_input
from ci_score.verdict import judge

KEPT_OPS = 64
# A kernel template may be longer; a name of megabytes would be the record.
LONGEST_NAME = 1000
# A record that is judged anew brings what it was compared with when it was made.
_NOT_COMPARED = {"baseline": None, "changes": (), "contributions": ()}
# Concurrent pushes see the same record before them; the union of a few restores what each added.
HISTORIES_JOINED = 3


@dataclass(frozen=True, slots=True)
class Job:
    """What a run was asked to do: which cases, what is known about them, and who asks."""

    cases: tuple[CaseInput, ...]
    workload: Workload = field(default_factory=Workload)
    commit: str | None = None
    run: RunIdentity | None = None
    unjudged: Verdict | None = None
    notices: tuple[str, ...] = ()
    tracked: bool = False


def run(
    job: Job,
    *,
    baselines: BaselineStore,
    publish: Callable[[Record], object],
    now: Callable[[], str],
) -> Record:
    """One run, from what was read to a published record whose verdict is the exit code."""
    measured = [_measured_or_problem(case, job.workload) for case in job.cases]
    judged = [
        judged_case(
            case, _own_base(read, job.workload) or baselines.find(case.name, case.environment)
        )
        for case, read in zip(measured, job.cases, strict=True)
    ]
    created_at = now()
    record = record_of(
        judged,
        created_at,
        commit=job.commit,
        run=job.run,
        unjudged=job.unjudged,
        notices=(*job.notices, *missing_cases(judged, baselines)),
        history=_history(job, judged, baselines, created_at),
    )
    publish(record)
    return record


def measured_case(case: CaseInput, workload: Workload) -> CaseRecord:
    """A case with its scorecard and what can explain it later, not yet judged."""
    profile = case.profile
    card = training_scorecard(profile, workload)
    card = card.model_copy(update={"notes": (*card.notes, *profile.notes, *case.notes)})
    ops = op_totals(profile.per_layer) or profile.ops
    kept = _largest(ops)
    empty = None if profile.measured_something else "the profile holds no time"
    return CaseRecord(
        name=case.name,
        environment=Environment(
            accelerator=card.accelerator,
            accelerator_count=card.accelerator_count,
            timing=_timing(case),
        ),
        unmeasured=case.problem or profile.unusable or empty,
        crashed=case.problem is None and profile.unusable is not None,
        scorecard=card,
        tokens_per_step=workload.tokens_per_step or profile.tokens_per_step,
        phases=_largest({phase: times.total_ms for phase, times in profile.phases.items()}),
        ops=kept,
        ops_left_out=len(ops) - len(kept),
        launch_step_ms=case.launch_step_ms,
        parity=compute_parity(side_of("ours", profile), case.partner) if case.partner else None,
    )


def _measured_or_problem(case: CaseInput, workload: Workload) -> CaseRecord:
    """Numbers that no scorecard can be made of are a problem of their case, not of the run."""
    try:
        return measured_case(case, workload)
    except BadInputError as error:
        return measured_case(CaseInput(case.name, problem=str(error)), Workload())


def _timing(case: CaseInput) -> Literal["under a profiler", "unprofiled"] | None:
    """A time under a profiler is another number than one without: they are not compared."""
    if case.launch_step_ms:
        return "unprofiled"
    return "under a profiler" if case.profile.avg_step_ms > 0 else None


def judged_case(case: CaseRecord, baseline: Baseline) -> CaseRecord:
    """The case with what changed against its baseline, why, and the verdict."""
    if isinstance(baseline, BaselineFound):
        mismatch = case.environment.mismatch(baseline.case.environment)
        if mismatch is None and case.has_a_time:
            return _compared_case(case, baseline)
        if mismatch is not None:
            skipped = baseline.used.skipped
            baseline = BaselineMissing(Unjudged.ENVIRONMENT_CHANGED, mismatch, skipped)
    return case.model_copy(update={**_NOT_COMPARED, "verdict": judge(case, baseline)})


def _compared_case(case: CaseRecord, baseline: BaselineFound) -> CaseRecord:
    try:
        with overflow_is_bad_input(f"case {case.name}"):
            changes = compare(case, baseline.case)
            contributions = explain(case, baseline.case)
    except BadInputError as error:
        broken = case.model_copy(update={**_NOT_COMPARED, "unmeasured": str(error)})
        return broken.model_copy(update={"verdict": judge(broken, baseline)})
    regressions = _regressions(changes)
    return case.model_copy(
        update={
            "scorecard": case.scorecard.model_copy(update={"regressions": regressions}),
            "baseline": baseline.used,
            "changes": changes,
            "contributions": contributions if regressions else (),
            "verdict": judge(case, baseline, changes, contributions),
        }
    )


def record_of(
    cases: Iterable[CaseRecord],
    created_at: str,
    *,
    commit: str | None = None,
    run: RunIdentity | None = None,
    unjudged: Verdict | None = None,
    notices: tuple[str, ...] = (),
    history: tuple[HistoryPoint, ...] = (),
) -> Record:
    """What this version of ci-score leaves of the cases."""
    return Record(
        ci_score_version=__version__,
        created_at=created_at,
        commit=commit,
        run=run,
        cases=tuple(cases),
        unjudged=unjudged,
        notices=notices,
        history=history,
    )


def _own_base(read: CaseInput, workload: Workload) -> BaselineFound | None:
    """The base side of the same measurement session: no history can be as comparable."""
    if read.base is None:
        return None
    base = measured_case(read.base, workload)
    return BaselineFound(base, BaselineUsed(source="the base side of the same measurements"))


def _regressions(changes: tuple[Change, ...]) -> tuple[Regression, ...]:
    return tuple(
        Regression(metric=change.metric, delta=change.delta, severity=change.severity)
        for change in changes
        if change.severity is not None and change.delta is not None
    )


def missing_cases(judged: list[CaseRecord], baselines: BaselineStore) -> list[str]:
    """A case that the baseline has and this run has not: nobody may lose one unnoticed."""
    if not judged:
        return []
    gone = baselines.known_cases() - {case.name for case in judged}
    return [
        f"The baseline also has the case {name}, which was not measured." for name in sorted(gone)
    ]


def _history(
    job: Job, judged: list[CaseRecord], baselines: BaselineStore, created_at: str
) -> tuple[HistoryPoint, ...]:
    """On the tracked branch the history goes on; elsewhere it is what the baseline remembers."""
    if not job.tracked:
        return baselines.history(1)
    points = tuple(
        HistoryPoint(
            case=case.name,
            commit=job.commit,
            run=job.run,
            created_at=created_at,
            step_time_ms=case.scorecard.step_time_ms,
            throughput_tok_s=case.scorecard.throughput_tok_s,
            outcome=case.verdict.outcome if case.verdict else None,
        )
        for case in judged
        if case.has_a_time
    )
    return join_histories(baselines.history(HISTORIES_JOINED), points)


def _largest(ops: dict[str, float]) -> dict[str, float]:
    named = [op for op in ops if len(op) <= LONGEST_NAME]
    kept = sorted(named, key=lambda op: (-ops[op], op))[:KEPT_OPS]
    return {op: ops[op] for op in kept}
