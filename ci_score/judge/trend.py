"""The history of a metric → the lasting changes of its level: shifts, and slow drift. Pure.

A trend is told, it is never a verdict. Everything is on the scale of a metric's `score`, where more
is worse: log ratios for relative metrics. `benchmarks/trend.py` simulates how often it is wrong.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import islice

from ci_score.judge.evidence import comparable_points
from ci_score.judge.levels import LEAST_RUNS, LOOKS_BACK, LevelChange, level_changes
from ci_score.judge.policy import CaseRules, Policy, rules_of
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Metric, metric_named
from ci_score.model.reasons import ENDLESS
from ci_score.model.record import MOST_BETWEEN, MOST_TRENDS, HistoryPoint, Measured, Trend

# Smaller changes are not worth anybody's time.
LEAST_CHANGE = 0.01
# So many runs on either side say what the levels are.
AROUND = 20


def trends(
    cases: Sequence[Measured],
    policy: Policy,
    history: Sequence[HistoryPoint],
    looks_back: int = LOOKS_BACK,
) -> tuple[Trend, ...]:
    """The lasting changes of what is gated, over the runs that were measured as these were.

    A record looks back as far as its cut history allows, a history that was joined of many records
    over all of its runs.
    """
    by_case: dict[str, list[HistoryPoint]] = {}
    for point in history:
        by_case.setdefault(point.case, []).append(point)
    found = (
        trend
        for case in cases
        if case.has_a_time
        for trend in _of_case(
            case,
            rules_of(policy, case.name, in_pairs=case.has_both_sides),
            by_case.get(case.name, ()),
            looks_back,
        )
    )
    return tuple(islice(found, MOST_TRENDS))


def _of_case(
    case: Measured, rules: CaseRules, history: Sequence[HistoryPoint], looks_back: int
) -> Iterator[Trend]:
    """Throughput and step time are one fact: of the two, the one that is known tells it."""
    points = comparable_points(case, rules, history)
    gated = {gate.metric.name: gate.metric for gate in rules.gates if gate.gate}
    told = THROUGHPUT if any(point.throughput_tok_s for point in points) else STEP_TIME
    times = {told: gated.get(told) or metric_named(told)}
    rest = {name: row for name, row in gated.items() if name not in (THROUGHPUT, STEP_TIME)}
    for metric in (times | rest).values():
        yield from trends_of(metric, points, looks_back)


def trends_of(
    metric: Metric, history: Sequence[HistoryPoint], looks_back: int = LOOKS_BACK
) -> list[Trend]:
    """The trends of one series: points of one case, measured alike, the oldest first."""
    measured = [
        (point, value, score)
        for point in history
        if (value := point.number(metric.name)) is not None
        and (value > 0 or not metric.relative)
        and abs(score := metric.score(value)) < ENDLESS
    ]
    if len(measured) < LEAST_RUNS:
        return []
    points, values, scores = zip(*measured, strict=True)
    changes = level_changes(scores, metric.limit_score(LEAST_CHANGE), looks_back)
    starts = [0, *(change.new for change in changes)]
    ends = [*(change.old for change in changes[1:]), len(values)]
    told = []
    for change, start, end in zip(changes, starts, ends, strict=False):
        old = values[max(start, change.old - AROUND) : change.old]
        new = values[change.new : min(end, change.new + AROUND)]
        told.append(_told(metric, history, points, change, old, new))
    return told


def _told(
    metric: Metric,
    history: Sequence[HistoryPoint],
    points: Sequence[HistoryPoint],
    change: LevelChange,
    old: Sequence[float],
    new: Sequence[float],
) -> Trend:
    """A change, told as commits and values: those of the runs on either side."""
    last, first = points[change.last], points[change.first]
    before, after = statistics.median(old), statistics.median(new)
    delta = metric.delta_of_score(metric.score(after) - metric.score(before))
    between = history[history.index(last) + 1 : history.index(first)]
    commits = dict.fromkeys(point.commit for point in between if point.commit)
    return Trend(
        case=first.case,
        metric=metric.name,
        kind="drift" if change.is_slow else "shift",
        before=before,
        after=after,
        delta=delta,
        worse=metric.worsening(delta) > 0,
        last_before=last.commit,
        first_after=first.commit,
        between=() if change.is_slow else tuple(commits)[:MOST_BETWEEN],
        created_at=first.created_at,
        run=first.run,
        runs_before=len(old),
        runs_after=len(new),
    )
