"""A finding × its share of the chance × what holds the verdict back → what becomes of a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ci_score.judge import noise
from ci_score.judge.eligibility import losses_apart
from ci_score.judge.evidence import varies_on_a_side
from ci_score.judge.noise import Evidence, PairedEvidence
from ci_score.judge.trial import Finding, Trial
from ci_score.model.metrics import Kind, tokens_differ
from ci_score.model.reasons import Reason, Why
from ci_score.model.scorecard import Severity
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import Acceptance, Change, JudgedBy, Outcome

# The noise is below this part of the limit: then the machine is quiet enough.
QUIET_ENOUGH = 8
# Why a number is not compared -> what that means for a gate.
_LOST_GATES = {Why.ONLY_IN_BASE: Why.GATE_NOT_MEASURED, Why.NO_RATIO: Why.GATE_WITHOUT_RATIO}
_SEVERITIES = {Outcome.WARN: Severity.WARNING, Outcome.FAIL: Severity.CRITICAL}
_REFERENCE_OUTCOMES = {Severity.WARNING: Outcome.WARN, Severity.CRITICAL: Outcome.FAIL}

Weighed = tuple[Outcome, tuple[Reason, ...]]


def caps(trial: Trial, baseline: BaselineFound) -> tuple[Reason, ...]:
    """Why nothing of this case can be worse than a warning."""
    reasons = []
    distance = not_attributable(baseline)
    if distance and trial.rules.rules == "training":
        reasons.append(distance)
    here, there = trial.case.tokens_per_step, baseline.case.tokens_per_step
    if "tokens_per_step" in trial.rules.environment.same_work and tokens_differ(here, there):
        reasons.append(Why.COMPARED_PER_TOKEN(head=here, base=there))
    losses = losses_apart(trial.case, baseline.case, trial.rules)
    if losses:
        reasons.append(Why.OTHER_LOSS(head=losses[0], base=losses[1]))
    return tuple(reasons)


def not_attributable(baseline: BaselineFound) -> Reason | None:
    """That other commits, too, lie between this measurement and its baseline."""
    away = baseline.used.commits_away or 0
    return Why.NOT_ATTRIBUTABLE(commits=away) if away else None


def weighed(
    finding: Finding, trial: Trial, chance: float | None, held_back_by: Sequence[Reason]
) -> Change:
    """The change with its interval, what it was judged by, and what became of it."""
    change, rule = finding.change, finding.rule
    change = change.but(gated=rule.gate, warn_limit=rule.warn, fail_limit=rule.fail)
    if change.delta is not None:
        change = _with_interval(change, finding)
    if not rule.gate:
        return change.but(severity=None)
    if change.delta is None:
        return _not_compared(finding, change)
    outcome, reasons = _outcome(finding, trial, chance)
    held_back = (*held_back_by, *_not_qualified(finding, trial))
    if outcome is Outcome.FAIL and held_back:
        outcome, reasons = Outcome.WARN, (*reasons, *held_back)
    accepted = _acceptance(finding, outcome, trial)
    within = accepted is not None and _is_within(accepted, finding, trial)
    if accepted is not None and not within:
        reasons = (*reasons, Why.ACCEPTED_UP_TO(bound=accepted.shown))
    if within:
        outcome = Outcome.PASS
    return change.but(
        outcome=outcome,
        reasons=reasons,
        accepted=accepted if within else None,
        severity=_SEVERITIES.get(outcome),
    )


def _not_qualified(finding: Finding, trial: Trial) -> Iterator[Reason]:
    """Why the machine may only report this metric, where the policy wants qualified ones.

    A count is the same on every machine.
    """
    rule, machine = finding.rule, trial.case.environment
    if not trial.rules.measure.qualified or rule.metric.kind is Kind.EXACT:
        return
    if machine.gate_at is None:
        yield Why.NOT_QUALIFIED(words=machine.not_qualified)
    elif rule.metric.relative and rule.fail is not None and rule.fail < machine.gate_at:
        yield Why.QUALIFIED_FOR_MORE(gate_at=machine.gate_at)


def _not_compared(finding: Finding, change: Change) -> Change:
    """A gate that the policy names is not passed by measuring its metric no more.

    What is measured for the first time has nothing yet to be compared with.
    """
    lost = _LOST_GATES.get(change.not_compared.code) if change.not_compared else None
    if lost is None or not finding.rule.named:
        return change
    return change.but(outcome=Outcome.INCONCLUSIVE, reasons=(lost(),))


def _with_interval(change: Change, finding: Finding) -> Change:
    """The change with the 95 % interval of its delta, and what it rests on."""
    evidence, metric = finding.evidence, finding.rule.metric
    if evidence is None:
        exact = metric.kind is Kind.EXACT
        return change.but(judged_by=JudgedBy.EXACT if exact else JudgedBy.UNVERIFIED)
    upper = evidence.at_most(noise.SURE / 2)
    ends = [metric.delta_of_score(end) for end in (upper, 2 * evidence.worsening - upper)]
    delta = metric.delta_of_score(evidence.worsening)
    # The numbers beside the delta are those that it is of: the pairs' means, or the branch's level.
    if isinstance(evidence, PairedEvidence):
        judged_by = JudgedBy.PAIRED
        base = metric.value_of_score(evidence.base)
        head = metric.value_of_score(evidence.base + evidence.worsening)
    else:
        judged_by, head = JudgedBy.HISTORY, change.head
        base = head / (1.0 + delta) if metric.relative else head - delta
    return change.but(
        base=base,
        head=head,
        delta=delta,
        low=min(ends),
        high=max(ends),
        judged_by=judged_by,
        samples=evidence.samples,
    )


# --- what becomes of it -------------------------------------------------------------------------


def _outcome(finding: Finding, trial: Trial, chance: float | None) -> Weighed:
    if finding.evidence is not None:
        return _of_evidence(finding, finding.evidence, chance)
    metric = finding.rule.metric
    if metric.kind is Kind.EXACT:
        return _of_exact(finding, trial)
    by_reference = trial.rules.rules == "reference" and trial.rules.measure.design is None
    # The reference speaks of its own metrics only; one number of any other proves nothing.
    if by_reference and metric.card_value is not None:
        return _of_reference(finding)
    if finding.worse_by > finding.rule.warn:
        return Outcome.WARN, (Why.ONE_NUMBER(),)
    return Outcome.PASS, ()


def _of_exact(finding: Finding, trial: Trial) -> Weighed:
    rule, worse = finding.rule, finding.worse_by
    if varies_on_a_side(trial.case, rule.metric.name):
        return (Outcome.WARN, (Why.COUNT_VARIES(),)) if worse > rule.warn else (Outcome.PASS, ())
    if rule.fail is not None and worse > rule.fail:
        return Outcome.FAIL, (Why.COUNT_FAILS(),)
    return (Outcome.WARN, (Why.COUNT(),)) if worse > rule.warn else (Outcome.PASS, ())


def _of_reference(finding: Finding) -> Weighed:
    """The reference's own limits as it applies them, or those that the policy puts there."""
    rule, worse, severity = finding.rule, finding.worse_by, finding.change.severity
    if not rule.named:
        outcome = _REFERENCE_OUTCOMES[severity] if severity else Outcome.PASS
    elif rule.fail is not None and worse > rule.fail:
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.WARN if worse > rule.warn else Outcome.PASS
    level = _SEVERITIES.get(outcome)
    return outcome, (Why.REFERENCE_LIMIT(severity=level.value),) if level else ()


def _of_evidence(finding: Finding, evidence: Evidence, chance: float | None) -> Weighed:
    """Fail what is proven beyond the limit; warn of what only looks so; say what is too noisy.

    The worse the numbers, the further down this ladder: pass, too noisy to tell, warn, fail.
    """
    metric = finding.rule.metric
    if chance is not None and finding.is_proven(chance):
        surely = metric.delta_of_score(evidence.at_least(chance))
        return Outcome.FAIL, (Why.CONFIRMED_AT_LEAST(delta=surely),)
    warning = _warning(finding, evidence, chance)
    if warning is not None:
        return Outcome.WARN, (warning,)
    if finding.sides_disagree:
        by_history = metric.delta_of_score(evidence.worsening)
        by_nearest = finding.change.delta or 0.0
        reason = Why.LEVEL_MOVED(by_history=by_history, by_nearest=by_nearest)
        return Outcome.INCONCLUSIVE, (reason,)
    most = evidence.at_most(noise.SURE)
    if most <= finding.decisive_score:
        return Outcome.PASS, ()
    return Outcome.INCONCLUSIVE, (Why.TOO_NOISY(up_to=metric.delta_of_score(most)),)


def _warning(finding: Finding, evidence: Evidence, chance: float | None) -> Reason | None:
    """Why it is worth a warning, where it is."""
    if not finding.may_warn:
        return None
    limit = finding.decisive_score
    if evidence.at_least(noise.SURE) > finding.warn_score:
        if finding.rule.fail is None:
            return Why.CONFIRMED()
        if evidence.worsening <= limit:
            return Why.CONFIRMED_WITHIN()
    return _what_would_prove_it(evidence, limit, chance) if evidence.suggests(limit) else None


def _what_would_prove_it(evidence: Evidence, limit: float, chance: float | None) -> Reason:
    chance = noise.SURE if chance is None else chance
    if not isinstance(evidence, PairedEvidence):
        enough = noise.runs_to_prove(chance)
        return Why.UNPROVEN_HISTORY(runs=evidence.samples, enough=enough)
    pairs = evidence.pairs_to_prove(limit, chance)
    if pairs is not None:
        return Why.UNPROVEN_PAIRS(pairs=evidence.samples, enough=pairs)
    if evidence.error < abs(limit) / QUIET_ENOUGH:
        return Why.UNPROVEN_NEAR_LIMIT()
    return Why.UNPROVEN_NOISE(most_pairs=noise.MOST_PAIRS)


def _acceptance(finding: Finding, outcome: Outcome, trial: Trial) -> Acceptance | None:
    """What somebody with write access said of a metric that became worse."""
    if outcome not in (Outcome.FAIL, Outcome.WARN):
        return None
    return trial.accepted.get(finding.rule.metric.name)


def _is_within(accepted: Acceptance, finding: Finding, trial: Trial) -> bool:
    """Whether the worsening, or the number itself, is no worse than what was accepted."""
    metric = finding.rule.metric
    if accepted.kind == "value":
        value = metric.value(trial.case)
        return value is not None and accepted.allows(value)
    worse = finding.worse_by
    if finding.evidence is not None:
        worse = metric.worsening(metric.delta_of_score(finding.evidence.worsening))
    return worse <= accepted.bound
