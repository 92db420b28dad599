"""The verdict of a case, by its worst change, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ci_score.judge.decision import not_attributable
from ci_score.judge.trial import Finding, Trial
from ci_score.model.explanation import LEAST_EXPLAINED, Explanation
from ci_score.model.metrics import KERNELS, LAUNCHES, STEP_TIME, THROUGHPUT, slower_by
from ci_score.model.reasons import Reason, Why
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict, decisive


def verdict_of(
    trial: Trial,
    baseline: BaselineFound,
    changes: Sequence[Change],
    findings: Sequence[Finding],
    held_back_by: Sequence[Reason],
) -> Verdict:
    """What becomes of the case, by its worst gated change."""
    worst = decisive(changes)
    outcome = worst.outcome if worst and worst.outcome else Outcome.PASS
    visible = _smallest_visible(findings, outcome)
    limiting = [
        *filter(None, (not_attributable(baseline), *held_back_by)),
        *_unknown_keys(trial, baseline),
        *_without_partner(trial),
        *_could_have_seen(changes, outcome, visible),
    ]
    return Verdict(
        outcome=outcome,
        reasons=[reason for place, reason in enumerate(limiting) if reason not in limiting[:place]],
        unjudged=_unjudged(changes) if outcome is Outcome.INCONCLUSIVE else None,
        smallest_visible_slowdown=visible,
    )


def _unjudged(changes: Sequence[Change]) -> Unjudged:
    lost = any(change.delta is None for change in changes if change.outcome is not None)
    return Unjudged.NOTHING_MEASURED if lost else Unjudged.TOO_NOISY


def _unknown_keys(trial: Trial, baseline: BaselineFound) -> Iterator[Reason]:
    keys = trial.case.environment.unknown_beside(baseline.case.environment, trial.rules.match)
    if keys:
        yield Why.KNOWN_ON_ONE_SIDE(keys=tuple(keys))


def _without_partner(trial: Trial) -> Iterator[Reason]:
    """How many launches have no partner on the other side, so that they count for nothing."""
    pairs = len(trial.case.pairs_of(STEP_TIME))
    sides = [sum(one.side == side for one in trial.case.launches) for side in ("head", "base")]
    alone = sum(sides) - 2 * pairs
    if min(sides) and alone:
        yield Why.LAUNCHES_WITHOUT_PARTNER(alone=alone, launches=sum(sides))


def _could_have_seen(
    changes: Sequence[Change], outcome: Outcome, visible: float | None
) -> Iterator[Reason]:
    """The smallest slowdown that this run could have seen; a pass says it in its first line."""
    is_tested = any(change.is_statistical for change in changes if change.outcome is not None)
    if visible is not None and outcome is not Outcome.PASS and is_tested:
        yield Why.WOULD_HAVE_SHOWN(share=visible)


def _smallest_visible(findings: Sequence[Finding], outcome: Outcome) -> float | None:
    """The least slowdown that would have been noticed, of the metric that sees it best.

    Of a pass no slowdown above it could hide; of others it is how far luck reaches.
    """
    seen: list[float] = []
    for row in findings:
        if row.change.metric not in (STEP_TIME, THROUGHPUT) or row.change.delta is None:
            continue
        if not row.rule.gate:
            continue
        if row.evidence is None:
            seen.append(row.rule.warn)
            continue
        most = row.evidence.smallest_visible(of_a_pass=outcome is Outcome.PASS)
        seen.append(math.expm1(min(most, 700.0)) if row.rule.metric.relative else most)
    return min(seen, default=None)


# --- the cause ----------------------------------------------------------------------------------


def as_far_as_proven(found: Explanation | None, changes: Sequence[Change]) -> Explanation | None:
    """The parts of the step, with its cause only where the worst change is proven, or a count.

    A reason for a change that is not proven would be a guess.
    """
    if found is None:
        return None
    worst = decisive(changes)
    is_slower = worst is not None and worst.outcome in (Outcome.WARN, Outcome.FAIL)
    if worst is None or not is_slower or (worst.is_statistical and not worst.is_confirmed):
        return found.but(cause=None, counts_cause=None)
    return found.but(
        cause=found.cause if _explains_time(found, worst) else None,
        counts_cause=found.counts_cause if _explains_counts(worst) else None,
    )


def _explains_counts(worst: Change) -> bool:
    return worst.metric in (LAUNCHES, KERNELS) and (worst.delta or 0.0) > 0


def _explains_time(found: Explanation, worst: Change) -> bool:
    if worst.metric not in (STEP_TIME, THROUGHPUT) or worst.delta is None:
        return False
    # What a profile explains and what was measured without it are other times, but alike as shares.
    return found.explained_ms >= LEAST_EXPLAINED * slower_by(worst) * found.base_step_ms
