"""The verdict of a case, by its worst change, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ci_score.judge.doubts import far_slower
from ci_score.judge.policy import Policy, passes
from ci_score.judge.trial import Objection, Trial
from ci_score.model.explanation import LEAST_EXPLAINED, Explanation
from ci_score.model.metrics import (
    COUNTS,
    STEP_TIME,
    THROUGHPUT,
    TIMES,
    is_surely,
    is_surely_faster,
    metric_of,
    slower_by,
)
from ci_score.model.reasons import Reason, Why
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict, decisive

LEAST_FOR_A_MODE, LEAST_OF_A_MODE = 6, 2
# What the program calls is the same however busy the machine was, as these causes are; so much more
# of it is worth a word beside a slowdown that the profile's times do not explain.
_EXACT, _WORTH_A_WORD = (Why.REPLACED, Why.MORE_CALLS), 0.01


def verdict_of(
    trial: Trial,
    baseline: BaselineFound,
    changes: Sequence[Change],
    raised: Sequence[Objection],
    policy: Policy,
) -> Verdict:
    """What becomes of the case, by its worst gated change and what is raised against green.

    Of several objections one decides that the policy does not let pass, else the first. Whoever has
    accepted a slowdown was told of the other work beside it.
    """
    worst = decisive(changes)
    outcome = worst.outcome if worst and worst.outcome else Outcome.PASS
    is_accepted = any(one.accepted for one in changes if one.metric in TIMES)
    against = [one for one in raised if one.kind is not Unjudged.OTHER_WORK or not is_accepted]
    first: Objection | None = None
    if against and outcome is not Outcome.FAIL:
        outcome = Outcome.INCONCLUSIVE
        first = next((one for one in against if not passes(policy, one.kind)), against[0])
    decided_by = next(iter(first.reasons), None) if first else None
    return Verdict(
        outcome=outcome,
        decided_by=decided_by,
        reasons=[
            *(why for one in raised for why in one.reasons if why is not decided_by),
            *_unknown_keys(trial, baseline),
            *_without_partner(trial),
            *_often_slow(trial),
        ],
        unjudged=first.kind if first else None,
        slower=any(change.slower for change in changes if change.outcome is not None),
        upper_end=_upper_end(changes),
    )


def _unknown_keys(trial: Trial, baseline: BaselineFound) -> Iterator[Reason]:
    keys = trial.case.environment.unknown_beside(baseline.case.environment, trial.rules.match)
    if keys:
        yield Why.KNOWN_ON_ONE_SIDE(keys=tuple(keys))


def _without_partner(trial: Trial) -> Iterator[Reason]:
    """How many launches have no partner on the other side, so that nothing is green beside them."""
    alone = trial.case.without_partner
    if alone:
        yield Why.LAUNCHES_WITHOUT_PARTNER(alone=alone, launches=len(trial.case.launches))


def _often_slow(trial: Trial) -> Iterator[Reason]:
    """A mode that only head shows: some launches far slower than its others, and none of base."""
    (slow, launches, share), (of_base, others, _) = (
        far_slower(trial, side) for side in ("head", "base")
    )
    is_mode = slow >= LEAST_OF_A_MODE and min(launches, others) >= LEAST_FOR_A_MODE
    if is_mode and not of_base:
        yield Why.OFTEN_SLOW(slow=slow, launches=launches, share=share)


def _upper_end(changes: Sequence[Change]) -> float | None:
    """The largest slowdown that the step's time leaves open, as a share of time."""
    times = [change for change in changes if change.metric in (STEP_TIME, THROUGHPUT)]
    ends = []
    for change in times:
        metric = metric_of(change)
        end = change.low if metric.higher_is_better else change.high
        if change.is_statistical and change.outcome is not None and end is not None:
            ends.append(slower_by(change.but(delta=end)))
    return min(ends, default=None)


# --- the cause ----------------------------------------------------------------------------------


def as_far_as_proven(found: Explanation | None, changes: Sequence[Change]) -> Explanation | None:
    """The parts of the step, with its cause only where a change is proven at all, or a count.

    However small it is, and whatever is unclear beside it. A reason for a change that is not
    proven would be a guess.
    """
    if found is None:
        return None
    worst = _proven_change(changes)
    if found.cause is not None and found.cause.code is Why.FASTER:
        has_cause = _explains_gain(found, changes)
    else:
        has_cause = worst is not None and _explains_time(found, worst)
    has_counts = worst is not None and any(map(_has_more, changes))
    if worst is not None and (found.is_vague or not has_cause):
        has_counts = has_counts or _calls_more(found, worst, changes)
    return found.but(
        cause=found.cause if has_cause else None,
        counts_cause=found.counts_cause if has_counts else None,
    )


def _proven_change(changes: Sequence[Change]) -> Change | None:
    """The worst change where it is proven or needs no proof, else a time that surely is longer."""
    worst = decisive(changes)
    is_worse = worst is not None and worst.outcome in (Outcome.WARN, Outcome.FAIL)
    if worst is not None and is_worse and (worst.is_proven or not worst.is_statistical):
        return worst
    times = [one for one in changes if one.metric in (STEP_TIME, THROUGHPUT) and one.outcome]
    slower = [one for one in times if is_surely(one, worse=True)]
    return max(slower, key=slower_by, default=None)


def _calls_more(found: Explanation, worst: Change, changes: Sequence[Change]) -> bool:
    """Whether the program does more than before, which may be why it is slower."""
    if found.counts_cause is None or found.counts_cause.code not in _EXACT:
        return False
    more = any(one.metric in COUNTS and (one.delta or 0.0) >= _WORTH_A_WORD for one in changes)
    return more and worst.metric in (STEP_TIME, THROUGHPUT)


def _explains_gain(found: Explanation, changes: Sequence[Change]) -> bool:
    """Whether the time became shorter beyond the noise, and the cause holds most of that."""
    of_time = (STEP_TIME, THROUGHPUT)
    times = [one for one in changes if one.metric in of_time and one.outcome is not None]
    faster = max(times, key=slower_by, default=None)
    if faster is None or not is_surely_faster(faster):
        return False
    return found.explained_ms <= LEAST_EXPLAINED * slower_by(faster) * found.base_step_ms


def _has_more(change: Change) -> bool:
    is_worse = change.outcome in (Outcome.WARN, Outcome.FAIL)
    return is_worse and change.metric in COUNTS and (change.delta or 0.0) > 0


def _explains_time(found: Explanation, worst: Change) -> bool:
    if worst.metric not in (STEP_TIME, THROUGHPUT) or worst.delta is None:
        return False
    # What a profile explains and what was measured without it are other times, but alike as shares.
    return found.explained_ms >= LEAST_EXPLAINED * slower_by(worst) * found.base_step_ms
