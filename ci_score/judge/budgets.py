"""Demands that need no baseline: absolute budgets, and what others ask of a case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ci_score.judge.trial import Demand, Trial
from ci_score.judge.verdict import HARMLESS
from ci_score.model.metrics import metric_named
from ci_score.model.verdict import Outcome, Unjudged, Verdict


def with_demands(verdict: Verdict, trial: Trial) -> Verdict:
    """What holds without a baseline decides where it is worse."""
    broken = [
        (outcome, words)
        for outcome, words in (*_budgets(trial), *trial.demands)
        if outcome is not Outcome.PASS
    ]
    if not broken:
        return verdict
    outcome = Outcome.worst([verdict.outcome, *(outcome for outcome, _ in broken)])
    reasons = (*verdict.reasons, *(words for _, words in broken))
    if outcome is verdict.outcome and not _blocks_a_harmless(verdict, broken):
        return verdict.model_copy(update={"reasons": reasons})
    unmeasured = Unjudged.NOTHING_MEASURED if outcome is Outcome.INCONCLUSIVE else None
    return verdict.model_copy(
        update={
            "outcome": outcome,
            "headline": _decisive(broken, outcome),
            "reasons": reasons,
            "unjudged": unmeasured,
        }
    )


def _blocks_a_harmless(verdict: Verdict, broken: Sequence[Demand]) -> bool:
    """A first run may pass without a judgement; what is demanded without a baseline may not."""
    return verdict.unjudged in HARMLESS and any(
        outcome is Outcome.INCONCLUSIVE for outcome, _ in broken
    )


def _decisive(broken: Sequence[Demand], outcome: Outcome) -> str:
    words = next(words for found, words in broken if found is outcome)
    return f"Not judged: {words}" if outcome is Outcome.INCONCLUSIVE else words


def _budgets(trial: Trial) -> Iterable[Demand]:
    for name, budget in trial.rules.budgets.items():
        rule = trial.rules.gate(name)
        metric = rule.metric if rule else metric_named(name)
        value = metric.value(trial.case)
        limit = metric.show(budget)
        if value is None:
            # A budget on what nobody measures would always be kept.
            yield Outcome.INCONCLUSIVE, f"{metric.label} has a budget of {limit}, and no number"
        elif name in trial.accepted and trial.accepted[name].allows(value):
            continue
        elif value < budget if metric.higher_is_better else value > budget:
            word = "under" if metric.higher_is_better else "over"
            yield (
                Outcome.FAIL,
                f"{metric.label} {metric.show(value)} is {word} its budget of {limit}",
            )
