"""A finding × its share of the chance × what holds the verdict back → what becomes of a change."""

from __future__ import annotations

from collections.abc import Sequence

from ci_score.judge import noise
from ci_score.judge.eligibility import losses_apart
from ci_score.judge.evidence import is_other_size, varies_on_a_side
from ci_score.judge.noise import Evidence, PairedEvidence
from ci_score.judge.trial import Finding, Trial
from ci_score.model.metrics import Kind
from ci_score.model.record import Acceptance
from ci_score.model.scorecard import Severity
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import BASE_ALONE, Change, JudgedBy, Outcome

# What is certain says so first.
CONFIRMED = "confirmed"
# A machine that tells apart this part of a limit is not the one to blame.
FINE = 8
_SEVERITIES = {Outcome.WARN: Severity.WARNING, Outcome.FAIL: Severity.CRITICAL}
_REFERENCE_OUTCOMES = {Severity.WARNING: Outcome.WARN, Severity.CRITICAL: Outcome.FAIL}
_BY_THE_REFERENCE = {outcome: severity.value for severity, outcome in _REFERENCE_OUTCOMES.items()}

Weighed = tuple[Outcome, str | None]


def caps(trial: Trial, baseline: BaselineFound) -> tuple[str, ...]:
    """Why nothing of this case can be worse than a warning."""
    reasons = []
    distance = not_attributable(baseline)
    if distance and trial.rules.rules == "training":
        reasons.append(distance)
    asked = "tokens_per_step" in trial.rules.environment.same_work
    if asked and is_other_size(trial.case.tokens_per_step, baseline.case.tokens_per_step):
        reasons.append(
            f"{trial.case.tokens_per_step:g} tokens a step here,"
            f" {baseline.case.tokens_per_step:g} there: compared per token"
        )
    losses = losses_apart(trial.case, baseline.case, trial.rules)
    if losses:
        mine, theirs = losses
        reasons.append(
            f"the final loss is {mine:.4g} here and {theirs:.4g} there: is it the same work?"
        )
    return tuple(reasons)


def not_attributable(baseline: BaselineFound) -> str | None:
    """That other commits, too, lie between this measurement and its baseline."""
    away = baseline.used.commits_away or 0
    if not away:
        return None
    commits = f"{away} commit{'s' if away > 1 else ''}"
    return f"not attributable: the baseline is {commits} before the tested base"


def weighed(
    finding: Finding, trial: Trial, chance: float | None, held_back_by: Sequence[str]
) -> Change:
    """The change with its interval, what it was judged by, and what became of it."""
    change, rule = finding.change, finding.rule
    change = change.model_copy(
        update={
            "gated": rule.gate,
            "warn_limit": rule.warn,
            "fail_limit": rule.fail,
            **(_interval(finding) if change.delta is not None else {}),
        }
    )
    if not rule.gate:
        return change.model_copy(update={"severity": None})
    if change.delta is None:
        return _not_compared(finding, change)
    outcome, reason = _outcome(finding, trial, chance)
    held_back = list(filter(None, (*held_back_by, _not_qualified(finding, trial))))
    if outcome is Outcome.FAIL and held_back:
        outcome, reason = Outcome.WARN, f"{reason}; {'; '.join(held_back)}"
    accepted = _acceptance(finding, outcome, trial)
    within = accepted is not None and _is_within(accepted, finding, trial)
    if accepted is not None and not within:
        reason = "; ".join(filter(None, (reason, f"accepted only up to {accepted.shown}")))
    if within:
        outcome = Outcome.PASS
    return change.model_copy(
        update={
            "outcome": outcome,
            "reason": reason,
            "accepted": accepted.words if accepted and within else None,
            "severity": _SEVERITIES.get(outcome),
        }
    )


def _not_qualified(finding: Finding, trial: Trial) -> str | None:
    """Why the machine may only report this metric, where the policy wants qualified ones.

    A count is the same on every machine.
    """
    rule, machine = finding.rule, trial.case.environment
    if not trial.rules.measure.qualified or rule.metric.kind is Kind.EXACT:
        return None
    if machine.gate_at is None:
        why = machine.not_qualified or "nothing says that it is"
        return f"only reported: the machine is not qualified ({why})"
    if rule.metric.relative and rule.fail is not None and rule.fail < machine.gate_at:
        return f"only reported: the machine can gate at {machine.gate_at:.0%}, and not at less"
    return None


def _not_compared(finding: Finding, change: Change) -> Change:
    """A gate that the policy names is not passed by measuring its metric no more.

    What is measured for the first time has nothing yet to be compared with.
    """
    lost = change.not_compared == BASE_ALONE
    has_no_ratio = change.not_compared is not None and "ratio" in change.not_compared
    if not finding.rule.named or not (lost or has_no_ratio):
        return change
    why = "not measured here" if lost else f"{change.not_compared}"
    return change.model_copy(
        update={"outcome": Outcome.INCONCLUSIVE, "reason": f"gated by the policy, and {why}"}
    )


def _interval(finding: Finding) -> dict[str, object]:
    """The 95 % interval of the delta, and what it rests on."""
    evidence, metric = finding.evidence, finding.rule.metric
    if evidence is None:
        exact = metric.kind is Kind.EXACT
        return {"judged_by": JudgedBy.EXACT if exact else JudgedBy.UNVERIFIED}
    upper = evidence.at_most(noise.SURE / 2)
    ends = [metric.delta_of_score(end) for end in (upper, 2 * evidence.worsening - upper)]
    delta = metric.delta_of_score(evidence.worsening)
    found: dict[str, object] = {
        "delta": delta,
        "low": min(ends),
        "high": max(ends),
        "judged_by": JudgedBy.PAIRED,
        "samples": evidence.samples,
    }
    # The numbers beside the delta are those that it is of: the pairs' means, or the branch's level.
    if isinstance(evidence, PairedEvidence):
        found["base"] = metric.value_of_score(evidence.base)
        found["head"] = metric.value_of_score(evidence.base + evidence.worsening)
        return found
    head = finding.change.head
    found["base"] = head / (1.0 + delta) if metric.relative else head - delta
    return found | {"judged_by": JudgedBy.HISTORY}


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
        return Outcome.WARN, "unverified: one number a side"
    return Outcome.PASS, None


def _of_exact(finding: Finding, trial: Trial) -> Weighed:
    rule, worse = finding.rule, finding.worse_by
    if varies_on_a_side(trial.case, rule.metric.name):
        varying = "it varies between the launches of one side, and too few pairs tell"
        return (Outcome.WARN, varying) if worse > rule.warn else (Outcome.PASS, None)
    if rule.fail is not None and worse > rule.fail:
        return Outcome.FAIL, "a count, which does not vary from run to run"
    return (Outcome.WARN, "a count") if worse > rule.warn else (Outcome.PASS, None)


def _of_reference(finding: Finding) -> Weighed:
    """The reference's own limits as it applies them, or those that the policy puts there."""
    rule, worse, severity = finding.rule, finding.worse_by, finding.change.severity
    if not rule.named:
        outcome = _REFERENCE_OUTCOMES[severity] if severity else Outcome.PASS
    elif rule.fail is not None and worse > rule.fail:
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.WARN if worse > rule.warn else Outcome.PASS
    return outcome, _BY_THE_REFERENCE.get(outcome)


def _of_evidence(finding: Finding, evidence: Evidence, chance: float | None) -> Weighed:
    """Fail what is proven beyond the limit; warn of what only looks so; say what is too noisy.

    The worse the numbers, the further down this ladder: pass, too noisy to tell, warn, fail.
    """
    metric = finding.rule.metric
    if chance is not None and finding.is_proven(chance):
        surely = metric.show_delta(metric.delta_of_score(evidence.at_least(chance)))
        return Outcome.FAIL, f"{CONFIRMED}: at least {surely}"
    warning = _warning(finding, evidence, chance)
    if warning is not None:
        return Outcome.WARN, warning
    if finding.sides_disagree:
        return Outcome.INCONCLUSIVE, _how_they_disagree(finding, evidence)
    most = evidence.at_most(noise.SURE)
    if most <= finding.decisive_score:
        return Outcome.PASS, None
    hidden = metric.show_delta(metric.delta_of_score(most))
    return Outcome.INCONCLUSIVE, f"too noisy: up to {hidden} could hide in it"


def _warning(finding: Finding, evidence: Evidence, chance: float | None) -> str | None:
    """Why it is worth a warning, where it is."""
    if not finding.may_warn:
        return None
    limit = finding.decisive_score
    if evidence.at_least(noise.SURE) > finding.warn_score:
        if finding.rule.fail is None:
            return CONFIRMED
        if evidence.worsening <= limit:
            return f"{CONFIRMED}, within the limit that fails"
    return _what_would_prove_it(evidence, limit, chance) if evidence.suggests(limit) else None


def _what_would_prove_it(evidence: Evidence, limit: float, chance: float | None) -> str:
    words, chance = "not proven: it may be noise", noise.SURE if chance is None else chance
    if not isinstance(evidence, PairedEvidence):
        runs = noise.runs_to_prove(chance)
        few = f"{evidence.samples} runs are too few to be sure ({runs} are not), and "
        few = few if evidence.samples < runs else ""
        return f"{words}; {few}interleaved launches of head and base would tell"
    pairs = evidence.pairs_to_prove(limit, chance)
    if pairs is None and evidence.error < abs(limit) / FINE:
        return f"{words}; it is so near the limit that no number of pairs would prove it"
    if pairs is None:
        return f"{words}; this machine is too noisy to prove it with {noise.MOST_PAIRS} pairs"
    return f"{words}; {pairs} pairs would prove it, {evidence.samples} were measured"


def _how_they_disagree(finding: Finding, evidence: Evidence) -> str:
    metric = finding.rule.metric
    theirs = metric.show_delta(metric.delta_of_score(evidence.worsening))
    return (
        f"{theirs} against the branch's history, {metric.show_delta(finding.change.delta or 0.0)}"
        " against its nearest baseline: the branch's level may just have moved"
    )


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
