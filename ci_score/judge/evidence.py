"""The best evidence on each metric: pairs of launches, the branch's history, or a count."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ci_score.judge.history import OF_A_LEVEL, HeadLaunches, History
from ci_score.judge.pairs import Pairs
from ci_score.judge.policy import CaseRules, GateRule
from ci_score.judge.trial import BesideHistory, Finding, Trial
from ci_score.model.metrics import (
    HOST_OPS,
    OF_TOKENS,
    STEP_TIME,
    THROUGHPUT,
    Kind,
    Metric,
    tokens_differ,
)
from ci_score.model.record import HistoryPoint, LaunchNumbers, Measured
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import Change

# Counts of launches that differ by a smaller share are the same count.
SAME_NUMBER = 0.001
VOID = math.nan
# So many changes of a count among the branch's last runs are no change of the program's.
LEAST_STEPS = 2


def findings_of(trial: Trial) -> list[Finding]:
    """Every change that a rule speaks of, with the evidence on it."""
    rules = gate_rules(trial)
    points = points_of(trial)
    looks = _looks_of(trial)
    return [
        _finding(trial, Finding(change, rules[change.metric], looks=looks), points)
        for change in trial.changes
        if change.metric in rules
    ]


def gate_rules(trial: Trial) -> dict[str, GateRule]:
    """The rule of each metric, as it holds for what was measured."""
    rules = {rule.metric.name: rule for rule in trial.rules.gates}
    if HOST_OPS in rules and not rules[HOST_OPS].named and _has_another_torch(trial):
        # Another torch divides the same work into other operators: that is shown, and no more.
        rules[HOST_OPS] = replace(rules[HOST_OPS], gate=False)
    compared = {change.metric for change in trial.changes if change.delta is not None}
    measured = trial.measures_throughput
    # Where a launch tells no tokens its step time stands in: else they could be left out.
    told = measured and THROUGHPUT in compared and _told_by_all(trial.case)
    rules |= trial.rules.of_time(measured=told)
    if not (measured or trial.claims_throughput):
        rules |= {name: replace(rules[name], gate=False) for name in OF_TOKENS & rules.keys()}
    return rules


def _told_by_all(case: Measured) -> bool:
    sound = [one.values for one in case.launches if not one.void]
    return len({THROUGHPUT in values for values in sound}) < 2


def _has_another_torch(trial: Trial) -> bool:
    if not isinstance(trial.baseline, BaselineFound):
        return False
    sides = trial.case.environment, trial.baseline.case.environment
    here, there = (side.versions.get("torch") for side in sides)
    return here != there and None not in (here, there)


def _looks_of(trial: Trial) -> tuple[int, ...] | None:
    """What the session says of its plan; launches of several sessions may say several."""
    plans = {launch.looks for launch in trial.case.launches if launch.looks}
    return max(plans, key=len) if plans else None


def _finding(trial: Trial, bare: Finding, points: Sequence[HistoryPoint]) -> Finding:
    """The finding with its evidence."""
    change, metric = bare.change, bare.rule.metric
    if change.delta is None:
        return bare
    if metric.kind is Kind.EXACT and not varies_on_a_side(trial.case, metric.name):
        varies = not trial.is_in_pairs and _varies_on_the_branch(bare, points)
        return replace(bare, varies_on_the_branch=varies)
    pairs = _in_pairs(trial, metric) if trial.is_in_pairs else None
    if pairs is not None:
        return replace(bare, pairs=pairs, medians=_medians(trial, metric))
    # What the session's own launches did not measure comes from the profiles beside it.
    return replace(bare, beside=_beside_history(trial, change, metric, points))


def varies_on_a_side(case: Measured, metric: str) -> bool:
    """Whether launches of one program differ in what should be a count: then it is none here."""
    for side in ("head", "base"):
        seen = case.numbers_of(side, metric)
        if seen and max(seen) - min(seen) > SAME_NUMBER * abs(max(seen)):
            return True
        # Whoever leaves it out may need more than those who tell it.
        if seen and len(seen) < sum(one.side == side and not one.void for one in case.launches):
            return True
    return False


def _varies_on_the_branch(finding: Finding, points: Sequence[HistoryPoint]) -> bool:
    """Whether it has come and gone by more than the limit in the branch's last runs.

    One step is a change that somebody made; two or more within so few runs are luck.
    """
    metric = finding.rule.metric
    numbers = [point.number(metric.name) for point in points]
    last = [number for number in numbers if number is not None][-OF_A_LEVEL:]
    steps = [metric.delta(before, after) for before, after in pairwise(last)]
    return sum(step is not None and abs(step) > finding.limit for step in steps) >= LEAST_STEPS


# --- pairs --------------------------------------------------------------------------------------


def _in_pairs(trial: Trial, metric: Metric) -> Pairs | None:
    pairs = trial.pairs()
    measured = any(metric.name in launch.values for pair in pairs for launch in pair)
    if not measured and metric.name not in (STEP_TIME, THROUGHPUT):
        return None
    # A launch whose partner is missing is half of a pair that measured nothing: else whoever leaves
    # out the slow launches of head would be green.
    alone = [VOID] * trial.case.without_partner
    head = [*(_cost(here, metric) for here, _ in pairs), *alone]
    base = [*(_cost(there, metric) for _, there in pairs), *alone]
    if not metric.relative:
        return Pairs.of_amounts(head, base)
    return Pairs.of_times(head, base, _tick_of(pairs, metric))


def _medians(trial: Trial, metric: Metric) -> tuple[float, float] | None:
    """What is shown beside the estimate: a launch of each side, and no number that neither had."""
    sound = [
        (there.values[metric.name], here.values[metric.name])
        for here, there in trial.pairs()
        if not math.isnan(_cost(here, metric) + _cost(there, metric))
    ]
    if not sound:
        return None
    base, head = (statistics.median(side) for side in zip(*sound, strict=True))
    return base, head


def _cost(launch: LaunchNumbers, metric: Metric) -> float:
    """The launch's number, turned so that more is worse; a void launch has none."""
    value = launch.values.get(metric.name)
    if value is None or launch.void:
        return VOID
    return _turned(value, metric)


def _turned(value: float, metric: Metric) -> float:
    if not metric.higher_is_better:
        return value
    if not metric.relative:
        return -value
    return 1.0 / value if value > 0 else VOID


def _tick_of(pairs: Sequence[tuple[LaunchNumbers, LaunchNumbers]], metric: Metric) -> float:
    """A tick of the timer in the unit of the cost: a throughput's cost is the time of a token."""
    ticks = []
    for launch in (launch for pair in pairs for launch in pair):
        step, cost = launch.values.get(STEP_TIME), _cost(launch, metric)
        if launch.resolution_ms and step and metric.name in (STEP_TIME, THROUGHPUT):
            ticks.append(launch.resolution_ms * cost / step)
    return max(ticks, default=0.0)


# --- history ------------------------------------------------------------------------------------


def _beside_history(
    trial: Trial, change: Change, metric: Metric, points: Sequence[HistoryPoint]
) -> BesideHistory:
    runs = [_turned(change.base, metric)]
    is_of_branch = isinstance(trial.baseline, BaselineFound) and not trial.baseline.used.of_session
    if is_of_branch and trial.rules.measure.design in (None, "history"):
        runs = _runs(change, metric, points)
    # A launch that tells less than the others may be worse: it counts as void.
    launches = trial.of_head()
    head = [_cost(launch, metric) for launch in launches]
    if not any(metric.name in launch.values for launch in launches):
        head = [_turned(change.head, metric)]
    false_fail = trial.rules.measure.false_fail
    if not metric.relative:
        history = History(tuple(map(_or_none, runs)), false_fail)
        return BesideHistory(history, HeadLaunches(tuple(map(_or_none, head))), trial.rules.rules)
    tick = _tick_of([(launch, launch) for launch in launches], metric)
    return BesideHistory(
        History.of_times(runs, false_fail), HeadLaunches.of_times(head, tick), trial.rules.rules
    )


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _runs(change: Change, metric: Metric, points: Sequence[HistoryPoint]) -> list[float]:
    """The branch's runs, oldest first; the last one is the baseline's own."""
    own = _turned(change.base, metric)
    values = [point.number(metric.name) for point in points]
    runs = [VOID if value is None else _turned(value, metric) for value in values]
    runs = [run for run in runs if math.isfinite(run)]
    is_there = bool(runs) and math.isclose(runs[-1], own, rel_tol=1e-12)
    return runs if is_there else [*runs, own]


def points_of(trial: Trial) -> list[HistoryPoint]:
    """The branch's runs that this one can be compared with.

    What it does not say of its machine is as the branch's record has it: else the runs of every
    machine would count, and the noise between machines would hide a slowdown.
    """
    case, there = trial.case, trial.recorded
    if there is not None:
        known = case.environment.filled_from(there.environment)
        # Of steps of another size the token's time is compared, with runs of the base's size.
        case = case.but(
            environment=known,
            tokens_per_step=there.told_tokens or case.told_tokens,
            tokens_inferred=False,
        )
    return comparable_points(case, trial.rules, trial.history)


def comparable_points(
    case: Measured, rules: CaseRules, history: Iterable[HistoryPoint]
) -> list[HistoryPoint]:
    """The branch's runs of this case that were measured as this one was, the oldest first."""
    return [
        point
        for point in history
        if point.case == case.name
        and case.environment.mismatch(point.environment, rules.match) is None
        and not tokens_differ(case.told_tokens, point.tokens_per_step)
        and not point.environment.disturbances.keys() & set(rules.environment.reject)
    ]
