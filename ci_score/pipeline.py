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
    CaseRecord,
    Environment,
    Profile,
    Record,
    RunIdentity,
)
from ci_score.scoring import find_regressions, op_totals
from ci_score.verdict import judge

KEPT_OPS = 64


@dataclass(frozen=True, slots=True)
class Job:
    """What a run was asked to do: which cases, what is known about them, and who asks."""

    cases: tuple[tuple[str, Profile], ...]
    workload: Workload = field(default_factory=Workload)
    commit: str | None = None
    run: RunIdentity | None = None


def run(
    job: Job,
    *,
    baselines: BaselineStore,
    publish: Callable[[Record], object],
    now: Callable[[], str],
) -> Record:
    """One run, from profiles to a published record whose verdict is the caller's exit code."""
    measured = [measured_case(name, profile, job.workload) for name, profile in job.cases]
    judged = [judged_case(case, baselines.find(case.name, case.environment)) for case in measured]
    record = record_of(judged, now(), commit=job.commit, run=job.run)
    publish(record)
    return record


def measured_case(name: str, profile: Profile, workload: Workload) -> CaseRecord:
    """A case with its scorecard and what can explain it later, not yet judged."""
    card = training_scorecard(profile, workload)
    return CaseRecord(
        name=name,
        environment=Environment(
            accelerator=card.accelerator, accelerator_count=card.accelerator_count
        ),
        scorecard=card,
        phases={phase: times.total_ms for phase, times in profile.phases.items()},
        ops=_largest(op_totals(profile.per_layer)),
    )


def judged_case(case: CaseRecord, baseline: Baseline) -> CaseRecord:
    """The case with what changed against its baseline, why, and the verdict."""
    if not isinstance(baseline, BaselineFound):
        return case.model_copy(update={"verdict": judge(case, baseline)})
    base = baseline.case.scorecard
    changes = compare(case.scorecard, base)
    regressions = find_regressions(case.scorecard, base)
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
) -> Record:
    """What this version of ci-score leaves of the cases."""
    return Record(
        ci_score_version=__version__,
        created_at=created_at,
        commit=commit,
        run=run,
        cases=tuple(cases),
    )


def _largest(ops: dict[str, float]) -> dict[str, float]:
    kept = sorted(ops, key=lambda op: (-ops[op], op))[:KEPT_OPS]
    return {op: ops[op] for op in kept}
