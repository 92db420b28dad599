"""What holds without a baseline: absolute budgets, and what a parity demands of a case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ci_score.judge.trial import Demand, Trial
from ci_score.model.metrics import metric_named
from ci_score.model.reasons import Why
from ci_score.model.verdict import HARMLESS, Outcome, Unjudged, Verdict


def with_demands(verdict: Verdict, trial: Trial) -> Verdict:
    """What holds without a baseline decides where it is worse."""
    broken = [
        (outcome, reason)
        for outcome, reason in (*_budgets(trial), *trial.demands)
        if outcome is not Outcome.PASS
    ]
    if not broken:
        return verdict
    outcome = Outcome.worst([verdict.outcome, *(outcome for outcome, _ in broken)])
    reasons = (*verdict.reasons, *(reason for _, reason in broken))
    if outcome is verdict.outcome and not _blocks_a_harmless(verdict, broken):
        return verdict.but(reasons=reasons)
    return verdict.but(
        outcome=outcome,
        decided_by=next(reason for found, reason in broken if found is outcome),
        reasons=reasons,
        unjudged=Unjudged.NOTHING_MEASURED if outcome is Outcome.INCONCLUSIVE else None,
    )


def _blocks_a_harmless(verdict: Verdict, broken: Sequence[Demand]) -> bool:
    """A first run may pass without a judgement; what is demanded without a baseline may not."""
    return verdict.unjudged in HARMLESS and any(
        outcome is Outcome.INCONCLUSIVE for outcome, _ in broken
    )


def _budgets(trial: Trial) -> Iterable[Demand]:
    for name, budget in trial.rules.budgets.items():
        rule = trial.rules.gate(name)
        metric = rule.metric if rule else metric_named(name)
        value = metric.measured(trial.case)
        if value is None:
            # A budget on what nobody measures would always be kept.
            yield Outcome.INCONCLUSIVE, Why.BUDGET_NOT_MEASURED(metric=name, budget=budget)
        elif name in trial.accepted and trial.accepted[name].allows(value):
            continue
        elif value < budget if metric.higher_is_better else value > budget:
            why = Why.UNDER_BUDGET if metric.higher_is_better else Why.OVER_BUDGET
            yield Outcome.FAIL, why(metric=name, value=value, budget=budget)
