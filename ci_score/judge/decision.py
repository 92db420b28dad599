"""A finding × its share of the chance → what becomes of a change.

- *Pairs*: green where the upper end of the interval lies below the limit, red where head is proven
  slower and the estimate lies beyond it.
- *History*, by the `training` rules: the same from 28 runs on, red from 83. Fewer are one number.
- *One number a side*: by `training` green up to 20 %, or the limit if that is wider, and never red;
  by `reference` the fixed limits, with which the branch's level must agree.
- *A count*: green within the limit and red beyond it.

Whatever else may be beyond the limit is unclear.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ci_score.judge.doubts import why_undecided, why_void
from ci_score.judge.eligibility import gate_at_of
from ci_score.judge.history import ONE_NUMBER_UP_TO
from ci_score.judge.judgement import Judgement, beyond
from ci_score.judge.trial import BesideHistory, Finding, Trial
from ci_score.model.explanation import LEAST_SHARE_OF_STEP
from ci_score.model.metrics import (
    OF_THE_SAME_TIME,
    OF_TOKENS,
    STEP_TIME,
    THROUGHPUT,
    are_one_time,
    metric_named,
    slower_by,
)
from ci_score.model.reasons import Reason, Why
from ci_score.model.scorecard import Severity
from ci_score.model.verdict import Acceptance, Change, JudgedBy, Outcome, Unjudged

# Fewer runs have no level that could contradict a single record.
LEAST_FOR_A_LEVEL = 9
# Why a number is not compared -> what that means for a gate.
_LOST_GATES = {
    Why.ONLY_IN_BASE: Why.GATE_NOT_MEASURED,
    Why.NO_RATIO: Why.GATE_WITHOUT_RATIO,
    Why.OTHER_TOKENS: Why.GATE_OF_OTHER_STEP,
    Why.UNEVEN_TOKENS: Why.GATE_OF_OTHER_STEP,
}
_SEVERITIES = {Outcome.WARN: Severity.WARNING, Outcome.FAIL: Severity.CRITICAL}
_REFERENCE_OUTCOMES = {Severity.WARNING: Outcome.WARN, Severity.CRITICAL: Outcome.FAIL}


@dataclass(frozen=True, slots=True)
class Weighed:
    """What becomes of a change, why, and if it is undecided, which kind of doubt that is."""

    outcome: Outcome
    reasons: tuple[Reason, ...] = ()
    unjudged: Unjudged | None = None
    slower: bool = False


@dataclass(frozen=True, slots=True)
class WeighedChange:
    """A change with its outcome, and the kind of doubt if it is undecided."""

    change: Change
    unjudged: Unjudged | None = None


def weighed(finding: Finding, trial: Trial, share: float) -> WeighedChange:
    """The change with its interval, what it was judged by, and what became of it."""
    rule = finding.rule
    judged = _judgement(finding, trial, share)
    change = _with_interval(finding, judged).but(
        gated=rule.gate, warn_limit=rule.warn, fail_limit=rule.fail
    )
    if not rule.gate:
        return WeighedChange(change.but(severity=None))
    if change.delta is None:
        return _not_compared(finding, change)
    found = _attributable(_outcome(finding, trial, judged), finding, trial)
    if _is_a_claim(finding, trial) and found.outcome is Outcome.PASS:
        return WeighedChange(change.but(severity=None))
    if found.outcome is Outcome.WARN and _is_of_a_faster_step(finding, trial):
        reasons = (Why.OF_A_FASTER_STEP(),)
        return WeighedChange(change.but(outcome=Outcome.PASS, reasons=reasons, severity=None))
    accepted = _acceptance(found, trial, finding)
    if accepted is not None and _is_within(accepted, finding, trial, judged):
        change = change.but(outcome=Outcome.PASS, reasons=found.reasons, accepted=accepted)
        return WeighedChange(change.but(severity=None))
    too_far = (Why.ACCEPTED_UP_TO(bound=accepted.shown),) if accepted is not None else ()
    change = change.but(
        outcome=found.outcome,
        slower=found.slower,
        reasons=(*found.reasons, *too_far),
        severity=_SEVERITIES.get(found.outcome),
    )
    return WeighedChange(change, found.unjudged)


def _judgement(finding: Finding, trial: Trial, share: float) -> Judgement | None:
    """What the statistics say; None where the numbers themselves decide."""
    pairs, beside = finding.pairs, finding.beside
    limit, warn = finding.limit_score, finding.warn_score
    if pairs is not None:
        measure = trial.rules.measure
        looks = measure.looks or finding.looks
        return replace(
            pairs.judged(limit, warn, share),
            settled_by=lambda: pairs.settled_by(
                limit, warn, looks, measure.false_fail, measure.tests
            ),
        )
    if beside is None or _by_reference(finding, trial):
        return None
    if beside.has_interval:
        return beside.history.judged(beside.head, limit, warn)
    most = ONE_NUMBER_UP_TO if trial.may_be_waved_through(finding.rule.metric) else limit
    return beside.history.as_one_number(beside.head, limit, warn, most)


def _by_reference(finding: Finding, trial: Trial) -> bool:
    """Whether the reference's fixed limits decide: on one number of a metric of its own."""
    rules, metric = trial.rules, finding.rule.metric
    by_default = rules.rules == "reference" and rules.measure.design is None
    return by_default and metric.card_value is not None


# --- what is shown ------------------------------------------------------------------------------


def _with_interval(finding: Finding, judged: Judgement | None) -> Change:
    """The change with the interval of its delta, and what it rests on."""
    change, metric = finding.change, finding.rule.metric
    if change.delta is None:
        return change
    if finding.is_count:
        return change.but(judged_by=JudgedBy.EXACT)
    judged_by, samples = JudgedBy.ONE_NUMBER, 0
    if finding.pairs is not None:
        judged_by, samples = JudgedBy.PAIRED, len(finding.pairs.sound)
    elif judged is not None and finding.beside is not None and finding.beside.has_interval:
        judged_by, samples = JudgedBy.HISTORY, len(finding.beside.history.counted)
    change = change.but(judged_by=judged_by, samples=samples)
    if judged is None or math.isnan(judged.estimate):
        return change
    delta = metric.delta_of_score(judged.estimate)
    ends = [metric.delta_of_score(end) if math.isfinite(end) else None
            for end in (judged.low, judged.high)]  # fmt: skip
    low, high = reversed(ends) if metric.higher_is_better else ends
    # Both numbers beside the delta are the sides' own; of a branch that is its level.
    base, head = finding.medians or (change.base, change.head)
    if finding.beside is not None:
        base = metric.of_score(finding.beside.history.level)
    return change.but(base=base, head=head, delta=delta, low=low, high=high)


# --- what becomes of it -------------------------------------------------------------------------


def _outcome(finding: Finding, trial: Trial, judged: Judgement | None) -> Weighed:
    if finding.is_count:
        return _of_count(finding)
    if judged is None:
        beside = finding.beside
        found = _of_reference(finding, beside, trial) if beside else Weighed(Outcome.PASS)
    elif finding.rule.fail is None:
        found = _that_only_warns(finding, judged)
    else:
        found = _of_statistics(finding, trial, judged)
    not_qualified = next(_not_qualified(finding, trial), None)
    if not_qualified is None:
        return found
    if judged is not None and found.outcome is Outcome.FAIL:
        return replace(found, reasons=(*found.reasons, not_qualified))
    why = Unjudged.NOT_AS_DESIGNED
    return Weighed(Outcome.INCONCLUSIVE, (not_qualified,), why, found.slower)


def _of_count(finding: Finding) -> Weighed:
    rule, worse = finding.rule, finding.worse_by
    if rule.fail is not None and beyond(worse, rule.fail):
        if finding.varies_on_the_branch:
            return Weighed(Outcome.INCONCLUSIVE, (Why.COUNT_VARIES(),), Unjudged.UNCLEAR)
        return Weighed(Outcome.FAIL, (Why.COUNT(),), slower=True)
    if beyond(worse, rule.warn):
        return Weighed(Outcome.WARN, (Why.COUNT(),), slower=True)
    return Weighed(Outcome.PASS)


def _that_only_warns(finding: Finding, judged: Judgement) -> Weighed:
    """Without a limit that fails nothing is at stake: it warns, or it does not."""
    if judged.slower:
        return Weighed(Outcome.WARN, (Why.PROVEN_WITHIN(),), slower=True)
    if beyond(judged.estimate, finding.warn_score):
        return Weighed(Outcome.WARN, (_why_not_proven(finding),))
    return Weighed(Outcome.PASS)


def _why_not_proven(finding: Finding) -> Reason:
    """Why a number that looks worse than the limit that warns is not proven to be."""
    is_one = finding.beside is not None and not finding.beside.has_interval
    return Why.ONE_NUMBER() if is_one else Why.WARNING_NOT_PROVEN()


def _of_statistics(finding: Finding, trial: Trial, judged: Judgement) -> Weighed:
    """Red or green as the statistics say; in between, why, and what would settle it."""
    if judged.outcome is Outcome.FAIL:
        surely = finding.rule.metric.delta_of_score(judged.low)
        return Weighed(Outcome.FAIL, (Why.PROVEN_BEYOND(delta=surely),), slower=True)
    if judged.reason is not None:
        why, kind = why_undecided(finding, trial, judged, judged.reason)
        return Weighed(Outcome.INCONCLUSIVE, (why,), kind, judged.slower)
    if judged.slower:
        return Weighed(Outcome.WARN, (Why.PROVEN_WITHIN(),), slower=True)
    if judged.outcome is Outcome.WARN or beyond(judged.estimate, finding.warn_score):
        return Weighed(Outcome.WARN, (_why_not_proven(finding),))
    return Weighed(Outcome.PASS)


def _of_reference(finding: Finding, beside: BesideHistory, trial: Trial) -> Weighed:
    """The reference's own limits as it applies them, or those that the policy puts there.

    From nine runs on the branch's level has to agree. History never excuses: one of the two beyond
    the limit is unclear.
    """
    outcome = _by_fixed_limits(finding)
    by_level = _above_the_level(finding, beside)
    fails = outcome is Outcome.FAIL
    if by_level is not None and beyond(by_level, finding.limit_score) is not fails:
        why = Why.LEVEL_DISAGREES(
            by_base=finding.change.delta,
            by_level=finding.rule.metric.delta_of_score(by_level),
            runs=len(beside.history.counted),
        )
        return Weighed(Outcome.INCONCLUSIVE, (why,), Unjudged.CONTRADICTS)
    if beside.head.void and not fails:
        return Weighed(Outcome.INCONCLUSIVE, (why_void(finding, trial),), Unjudged.VOID)
    level = _SEVERITIES.get(outcome)
    reasons = (Why.REFERENCE_LIMIT(severity=level.value),) if level else ()
    # What the reference warns of counts as said, proven or not.
    return Weighed(outcome, reasons, slower=outcome is not Outcome.PASS)


def _is_of_a_faster_step(finding: Finding, trial: Trial) -> bool:
    """Whether a diagnostic that nobody asked for would warn of a step that became faster.

    What the phases cover falls where a copy or a wait between them is all that is left.
    """
    of_time = (STEP_TIME, THROUGHPUT)
    if finding.rule.named or finding.rule.fail is not None or finding.rule.metric.name in of_time:
        return False
    times = [one for one in trial.changes if one.metric in of_time and one.delta is not None]
    return bool(times) and all(slower_by(one) < -LEAST_SHARE_OF_STEP for one in times)


def _is_a_claim(finding: Finding, trial: Trial) -> bool:
    """Whether inputs give the number on both sides: that it is as before shows nothing."""
    return finding.rule.metric.name in OF_TOKENS and not trial.measures_throughput


def _by_fixed_limits(finding: Finding) -> Outcome:
    rule, worse, severity = finding.rule, finding.worse_by, finding.change.severity
    if not rule.named:
        return _REFERENCE_OUTCOMES[severity] if severity else Outcome.PASS
    if rule.fail is not None and beyond(worse, rule.fail):
        return Outcome.FAIL
    return Outcome.WARN if beyond(worse, rule.warn) else Outcome.PASS


def _above_the_level(finding: Finding, beside: BesideHistory) -> float | None:
    """How far head lies above the branch's level; None with too few runs for a level."""
    if finding.rule.fail is None or len(beside.history.counted) < LEAST_FOR_A_LEVEL:
        return None
    return finding.rule.metric.score(finding.change.head) - beside.history.level


def _attributable(found: Weighed, finding: Finding, trial: Trial) -> Weighed:
    """Without pairs, a record from before other commits proves nothing about this change."""
    away = trial.commits_away if finding.pairs is None else 0
    is_beyond = beyond(finding.worse_by, finding.limit) or found.outcome is Outcome.FAIL
    if not away or finding.rule.fail is None or not is_beyond:
        return found
    why = Why.NOT_ATTRIBUTABLE(commits=away)
    reasons = (why, *found.reasons)
    return Weighed(Outcome.INCONCLUSIVE, reasons, Unjudged.NOT_ATTRIBUTABLE, found.slower)


def _not_qualified(finding: Finding, trial: Trial) -> Iterator[Reason]:
    """Why the machine cannot gate this metric, where the policy wants qualified ones.

    A count is the same on every machine.
    """
    rule, machine = finding.rule, trial.case.environment
    if not trial.rules.measure.qualified:
        return
    gate_at = gate_at_of(trial)
    if machine.gate_at is None:
        yield Why.NOT_QUALIFIED(words=machine.not_qualified)
    elif gate_at is None:
        # What the change says of its own machine does not count.
        yield Why.NOT_QUALIFIED_BEFORE()
    elif rule.metric.relative and rule.fail is not None and rule.fail < gate_at:
        yield Why.QUALIFIED_FOR_MORE(gate_at=gate_at)


def _not_compared(finding: Finding, change: Change) -> WeighedChange:
    """A gate is not passed by measuring its metric no more.

    What is measured for the first time has nothing yet to be compared with.
    """
    lost = _LOST_GATES.get(change.not_compared.code) if change.not_compared else None
    if lost is Why.GATE_OF_OTHER_STEP and finding.change.metric == STEP_TIME:
        # Of steps of another size the throughput tells the time, unless the policy names the step.
        lost = lost if finding.rule.named else None
    if lost is None or finding.rule.fail is None:
        return WeighedChange(change)
    change = change.but(outcome=Outcome.INCONCLUSIVE, reasons=(lost(),))
    return WeighedChange(change, Unjudged.NOTHING_MEASURED)


# --- what was accepted --------------------------------------------------------------------------


def _acceptance(found: Weighed, trial: Trial, finding: Finding) -> Acceptance | None:
    """What somebody with write access said of a metric that became worse, or may have."""
    is_worse = found.outcome in (Outcome.FAIL, Outcome.WARN)
    if not is_worse and found.unjudged is not Unjudged.UNCLEAR:
        return None
    name = finding.rule.metric.name
    return trial.accepted.get(name) or _of_the_same_time(name, trial)


def _of_the_same_time(name: str, trial: Trial) -> Acceptance | None:
    """What was accepted of a step's time, for its throughput, or the other way round.

    Where the work is the same, or nothing but a throughput is known, both are one fact, and the
    bound is the same share of time.
    """
    said = trial.accepted.get(OF_THE_SAME_TIME.get(name, ""))
    if said is None or not are_one_time(trial.changes):
        return None
    if said.kind == "value":
        return said
    if name == THROUGHPUT:
        return said.but(bound=said.bound / (1.0 + said.bound))
    # No throughput at all would be endless time.
    return said.but(bound=said.bound / (1.0 - said.bound)) if said.bound < 1.0 else None


def _is_within(
    accepted: Acceptance, finding: Finding, trial: Trial, judged: Judgement | None
) -> bool:
    """Whether the worsening, or the number itself, is no worse than what was accepted."""
    metric = finding.rule.metric
    if accepted.kind == "value":
        value = metric_named(accepted.metric).value(trial.case)
        return value is not None and accepted.allows(value)
    worse = finding.worse_by
    if judged is not None:
        worse = metric.worsening(metric.delta_of_score(judged.estimate))
    return worse <= accepted.bound
