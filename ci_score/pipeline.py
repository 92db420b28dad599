"""The story of a run: read → score → find the baseline → compare → judge → publish.

Every collaborator is an argument. Nothing here touches the network, the clock or the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ci_score import __version__
from ci_score.baselines import BaselineStore
from ci_score.comparison import compare, explain
from ci_score.efficiency import Workload, training_scorecard
from ci_score.models import (
    Baseline,
    BaselineFound,
    BaselineMissing,
    BaselineUsed,
    CaseRecord,
    Change,
    Environment,
    HistoryPoint,
    ParityProfile,
    Profile,
    Record,
    Regression,
    RunIdentity,
    Scorecard,
    Unjudged,
    Verdict,
)
from ci_score.parity import compute_parity
from ci_score.records import join_histories
from ci_score.scoring import op_totals
from ci_score.strict_json import overflow_is_bad_input
from ci_score.verdict import judge

KEPT_OPS = 64
# A record that is judged anew brings what it was compared with when it was made.
_NOT_COMPARED = {"baseline": None, "changes": (), "contributions": ()}
# Concurrent pushes see the same record before them; the union of a few restores what each added.
HISTORIES_JOINED = 3


@dataclass(frozen=True, slots=True)
class CaseInput:
    """What was read of a case; `problem` says why there is nothing usable."""

    name: str
    profile: Profile = field(default_factory=Profile)
    problem: str | None = None
    notes: tuple[str, ...] = ()
    launch_step_ms: tuple[float, ...] = ()
    base: Profile | None = None
    partner: ParityProfile | None = None


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
    measured = [measured_case(case, job.workload) for case in job.cases]
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
        notices=(*job.notices, *_missing_cases(judged, baselines)),
        history=_history(job, judged, baselines, created_at),
    )
    publish(record)
    return record


def measured_case(case: CaseInput, workload: Workload) -> CaseRecord:
    """A case with its scorecard and what can explain it later, not yet judged."""
    profile = case.profile
    card = training_scorecard(profile, workload)
    card = card.model_copy(update={"notes": (*card.notes, *case.notes)})
    ops = op_totals(profile.per_layer)
    empty = None if profile.measured_something else "the profile holds no time"
    return CaseRecord(
        name=case.name,
        environment=Environment(
            accelerator=card.accelerator, accelerator_count=card.accelerator_count
        ),
        unmeasured=case.problem or empty,
        scorecard=card,
        tokens_per_step=workload.tokens_per_step or profile.tokens_per_step,
        phases={phase: times.total_ms for phase, times in profile.phases.items()},
        ops=_largest(ops),
        ops_left_out=max(len(ops) - KEPT_OPS, 0),
        launch_step_ms=case.launch_step_ms,
        parity=compute_parity(as_runtime("ours", card, ops), case.partner)
        if case.partner
        else None,
    )


def as_runtime(name: str, card: Scorecard, ops: dict[str, float]) -> ParityProfile:
    """A scored profile as one side of a parity; a profile of the reference counts no launches."""
    return ParityProfile(
        runtime=name,
        throughput_tok_s=card.throughput_tok_s,
        step_time_ms=card.step_time_ms,
        ops=ops,
    )


def judged_case(case: CaseRecord, baseline: Baseline) -> CaseRecord:
    """The case with what changed against its baseline, why, and the verdict."""
    if isinstance(baseline, BaselineFound):
        mismatch = case.environment.mismatch(baseline.case.environment)
        if mismatch is not None:
            skipped = baseline.used.skipped
            baseline = BaselineMissing(Unjudged.ENVIRONMENT_CHANGED, mismatch, skipped)
    if not isinstance(baseline, BaselineFound):
        return case.model_copy(update={**_NOT_COMPARED, "verdict": judge(case, baseline)})
    with overflow_is_bad_input(f"case {case.name}"):
        changes = compare(case, baseline.case)
        regressions = _regressions(changes)
        contributions = explain(case, baseline.case) if regressions else ()
    return case.model_copy(
        update={
            "scorecard": case.scorecard.model_copy(update={"regressions": regressions}),
            "baseline": baseline.used,
            "changes": changes,
            "contributions": contributions,
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
    base = measured_case(CaseInput(name=read.name, profile=read.base), workload)
    return BaselineFound(base, BaselineUsed(source="the base side of the same measurements"))


def _regressions(changes: tuple[Change, ...]) -> tuple[Regression, ...]:
    return tuple(
        Regression(metric=change.metric, delta=change.delta, severity=change.severity)
        for change in changes
        if change.severity is not None and change.delta is not None
    )


def _missing_cases(judged: list[CaseRecord], baselines: BaselineStore) -> list[str]:
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
    if not judged:
        return ()
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
        if case.unmeasured is None
    )
    return join_histories(baselines.history(HISTORIES_JOINED), points)


def _largest(ops: dict[str, float]) -> dict[str, float]:
    kept = sorted(ops, key=lambda op: (-ops[op], op))[:KEPT_OPS]
    return {op: ops[op] for op in kept}
