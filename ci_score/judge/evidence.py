"""The best evidence on each metric: pairs of launches, the branch's history, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ci_score.judge import noise
from ci_score.judge.noise import Evidence
from ci_score.judge.policy import CaseRules, GateRule
from ci_score.judge.trial import Finding, Trial
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Kind, Metric, tokens_differ
from ci_score.model.record import HistoryPoint, Measured
from ci_score.model.verdict import Change

# Counts of launches that differ by a smaller share are the same count.
SAME_NUMBER = 0.001


def findings_of(trial: Trial) -> list[Finding]:
    """Every change that a rule speaks of, with the evidence on it."""
    rules = gate_rules(trial)
    points = comparable_points(trial.case, trial.rules, trial.history)
    return [
        Finding(
            change, rules[change.metric], _evidence(trial, change, rules[change.metric], points)
        )
        for change in trial.changes
        if change.metric in rules
    ]


def gate_rules(trial: Trial) -> dict[str, GateRule]:
    """The rule of each metric.

    Where throughput is gated and not known, as of a script that tells no tokens, the step time
    stands in for it: they are one fact.
    """
    rules = {rule.metric.name: rule for rule in trial.rules.gates}
    throughput, step_time = rules.get(THROUGHPUT), rules.get(STEP_TIME)
    if throughput is None or step_time is None:
        return rules
    compared = {change.metric for change in trial.changes if change.delta is not None}
    is_left_open = not step_time.gate and not step_time.named
    if throughput.gate and THROUGHPUT not in compared and is_left_open:
        rules[STEP_TIME] = replace(step_time, gate=True, warn=throughput.warn, fail=throughput.fail)
    return rules


def _evidence(
    trial: Trial, change: Change, rule: GateRule, points: Sequence[HistoryPoint]
) -> Evidence | None:
    if change.delta is None:
        return None
    design = trial.rules.measure.design
    pairs = _of_pairs(trial.case, rule.metric) if design in (None, "interleaved") else None
    if rule.metric.kind is Kind.EXACT:
        return pairs if varies_on_a_side(trial.case, rule.metric.name) else None
    return pairs or _of_history(trial, rule.metric, points)


def varies_on_a_side(case: Measured, metric: str) -> bool:
    """Whether launches of one program differ in what should be a count: then it is none here."""
    for side in ("head", "base"):
        seen = case.numbers_of(side, metric)
        if seen and max(seen) - min(seen) > SAME_NUMBER * abs(max(seen)):
            return True
    return False


# --- pairs --------------------------------------------------------------------------------------


def _of_pairs(case: Measured, metric: Metric) -> Evidence | None:
    pairs = [pair for pair in case.pairs_of(metric.name) if min(pair) > 0 or not metric.relative]
    return noise.paired(
        [metric.score(head) for head, _ in pairs], [metric.score(base) for _, base in pairs]
    )


# --- history ------------------------------------------------------------------------------------


def _of_history(trial: Trial, metric: Metric, points: Sequence[HistoryPoint]) -> Evidence | None:
    if trial.rules.measure.design in ("single", "interleaved"):
        return None
    now = metric.value(trial.case)
    numbers = (point.number(metric.name) for point in points)
    past = [number for number in numbers if number and (number > 0 or not metric.relative)]
    if not now or (now <= 0 and metric.relative):
        return None
    return noise.against_history(metric.score(now), [metric.score(number) for number in past])


def comparable_points(
    case: Measured, rules: CaseRules, history: Iterable[HistoryPoint]
) -> list[HistoryPoint]:
    """The branch's runs of this case that were measured as this one was, the oldest first."""
    return [
        point
        for point in history
        if point.case == case.name
        and case.environment.mismatch(point.environment, rules.match) is None
        and not tokens_differ(case.tokens_per_step, point.tokens_per_step)
        and not point.environment.disturbances.keys() & set(rules.environment.reject)
    ]
