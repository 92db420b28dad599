"""Why a comparison is undecided, and what would settle it."""

from __future__ import annotations

import statistics

from ci_score.judge.history import OF_A_LEVEL, ONE_NUMBER_UP_TO, HeadLaunches, runs_to_prove
from ci_score.judge.judgement import Doubt, Judgement, as_share, below
from ci_score.judge.pairs import Pairs
from ci_score.judge.trial import BesideHistory, Finding, Trial
from ci_score.model.metrics import STEP_TIME
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import KEPT_POINTS
from ci_score.model.verdict import Unjudged

# A launch this much slower than the others of its side is in a mode of its own.
FAR_SLOWER = 1.2

_UNJUDGED = {
    Doubt.VOID: Unjudged.VOID,
    Doubt.CONTRADICTS: Unjudged.CONTRADICTS,
    Doubt.UNCLEAR: Unjudged.UNCLEAR,
    Doubt.TOO_NOISY: Unjudged.TOO_NOISY,
}


def why_undecided(
    finding: Finding, trial: Trial, judged: Judgement, doubt: Doubt
) -> tuple[Reason, Unjudged]:
    """The doubt as a reason with its data, and its kind."""
    if doubt is Doubt.CONTRADICTS and not below(judged.estimate, _limit_of(finding, trial)):
        # Nothing contradicts where the level says the same as the base's own run.
        doubt = Doubt.UNCLEAR
    return _reason(finding, trial, judged, doubt), _UNJUDGED[doubt]


def _limit_of(finding: Finding, trial: Trial) -> float:
    """What may not be beyond it to pass, on the scale of the evidence."""
    is_one = finding.beside is not None and not finding.beside.has_interval
    is_more = is_one and trial.may_be_waved_through(finding.rule.metric)
    return max(ONE_NUMBER_UP_TO, finding.limit_score) if is_more else finding.limit_score


def _reason(finding: Finding, trial: Trial, judged: Judgement, doubt: Doubt) -> Reason:
    if doubt is Doubt.VOID:
        return why_void(finding, trial)
    if finding.pairs is not None:
        return _of_pairs(finding, trial, finding.pairs, judged)
    if finding.beside is not None:
        return _of_history(finding, trial, finding.beside, judged, doubt)
    raise AssertionError("a count is never in doubt")


def why_void(finding: Finding, trial: Trial) -> Reason:
    """Launches without a time, or those that do not tell this number."""
    void = [launch.side for launch in trial.case.launches if launch.void]
    if void:
        return Why.VOID_LAUNCHES(head=void.count("head"), base=void.count("base"))
    if finding.pairs is not None:
        pairs = len(finding.pairs.differences)
        return Why.NOT_IN_EVERY_PAIR(missing=pairs - len(finding.pairs.sound), pairs=pairs)
    head = finding.beside.head if finding.beside else HeadLaunches(())
    return Why.NOT_IN_EVERY_LAUNCH(missing=head.void, launches=len(head.scores))


def far_slower(trial: Trial, side: str) -> tuple[int, int, float]:
    """How many launches of a side are far slower than its others, of how many, and by how much."""
    times = trial.case.numbers_of(side, STEP_TIME)
    usual = statistics.median(times) if times else 0.0
    slow = [one for one in times if one > FAR_SLOWER * usual]
    share = statistics.fmean(slow) / usual - 1.0 if slow else 0.0
    return len(slow), len(times), share


def _of_pairs(finding: Finding, trial: Trial, pairs: Pairs, judged: Judgement) -> Reason:
    limit = finding.limit_score
    if below(judged.estimate, limit) and not below(pairs.whole, limit):
        # The estimate forgives a few launches that stand still; the sum of all steps does not.
        slow, launches, share = far_slower(trial, "head")
        delta = finding.rule.metric.delta_of_score(pairs.whole)
        return Why.UNCLEAR_SUM(delta=delta, slow=slow, launches=launches, share=share)
    count = len(pairs.differences)
    return Why.UNCLEAR_PAIRS(pairs=count, void=count - len(pairs.sound), more=judged.more)


def _of_history(
    finding: Finding, trial: Trial, beside: BesideHistory, judged: Judgement, doubt: Doubt
) -> Reason:
    metric, history, head = finding.rule.metric, beside.history, beside.head
    if doubt is Doubt.CONTRADICTS:
        above = min(head.sound) - (history.runs[-1] or 0.0)
        return Why.CONTRADICTS(by_base=metric.delta_of_score(above))
    if doubt is Doubt.TOO_NOISY:
        return Why.TOO_NOISY(up_to=metric.delta_of_score(judged.high))
    if not beside.has_interval:
        most = as_share(_limit_of(finding, trial)) if metric.relative else finding.limit
        return Why.FAR_FOR_ONE_NUMBER(most=most)
    enough = runs_to_prove(history.false_fail) + OF_A_LEVEL
    return Why.UNCLEAR_HISTORY(
        runs=len(history.counted),
        enough=enough if enough <= KEPT_POINTS else None,
        # More launches prove only what already stands out.
        launches=0 if judged.more is None else judged.more - len(head.scores),
    )
