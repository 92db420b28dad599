"""Can a case be judged at all? What is not comparable, disturbed or empty is never a regression."""

from __future__ import annotations

from ci_score.judge.evidence import gate_rules
from ci_score.judge.noise import LEAST_PAIRS
from ci_score.judge.policy import CaseRules
from ci_score.judge.trial import Trial
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, tokens_differ
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Measured
from ci_score.model.stages import BaselineFound, BaselineMissing
from ci_score.model.verdict import Unjudged, Verdict, unjudged

SIGNS_OF_WORK = ("final_loss", "valid_steps")
# Of what is nearly nothing, a share says nothing: 1e-9 is no other loss than 0.
NO_LOSS = 1e-3


def eligible(trial: Trial) -> BaselineFound | Verdict:
    """What the case is judged against, or the verdict that it cannot be."""
    unusable = _unusable(trial.case) or _disturbed(trial.case, trial.rules, Why.DISTURBED)
    unusable = unusable or _too_short(trial) or _not_as_designed(trial) or _uneven(trial)
    if unusable is not None:
        return unusable
    if isinstance(trial.baseline, BaselineMissing):
        missing = trial.baseline
        decided_by = Why.NO_BASELINE(why=missing.reason.value)
        return unjudged(missing.reason, decided_by, *missing.reasons)
    return _incomparable(trial, trial.baseline) or trial.baseline


def _unusable(case: Measured) -> Verdict | None:
    if case.has_a_time:
        return None
    why = Unjudged.CRASHED_RUN if case.crashed else Unjudged.NOTHING_MEASURED
    return unjudged(why, case.unmeasured or Why.NO_NUMBER_TO_COMPARE())


def _disturbed(case: Measured, rules: CaseRules, why: Why) -> Verdict | None:
    events = [
        (event, words)
        for event, words in case.environment.disturbances.items()
        if event in rules.environment.reject
    ]
    if not events:
        return None
    first, *others = events
    return unjudged(
        Unjudged.INVALID_MEASUREMENT,
        why(event=first[0], words=first[1]),
        *(Why.ALSO_DISTURBED(event=event, words=words) for event, words in others),
    )


def _too_short(trial: Trial) -> Verdict | None:
    """Few steps tell little: the policy says from how many on a launch counts."""
    wanted = trial.rules.measure.timed_steps
    counts = [one.timed_steps for one in trial.case.launches if one.timed_steps is not None]
    short = [count for count in counts if wanted is not None and count < wanted]
    if not short:
        return None
    reason = Why.TOO_FEW_STEPS(
        wanted=wanted, short=len(short), launches=len(counts), shortest=min(short)
    )
    return unjudged(Unjudged.NOT_AS_DESIGNED, reason)


def _not_as_designed(trial: Trial) -> Verdict | None:
    if trial.rules.measure.design != "interleaved":
        return None
    if trial.case.took_turns is False:
        return unjudged(Unjudged.NOT_AS_DESIGNED, Why.NOT_IN_TURNS())
    pairs = max(len(trial.case.pairs_of(name)) for name in (STEP_TIME, THROUGHPUT))
    if pairs >= LEAST_PAIRS:
        return None
    return unjudged(Unjudged.NOT_AS_DESIGNED, Why.TOO_FEW_PAIRS(pairs=pairs, least=LEAST_PAIRS))


def _uneven(trial: Trial) -> Verdict | None:
    """Launches of one side that trained on other amounts have no one number of a step."""
    asked = "tokens_per_step" in trial.rules.environment.same_work
    for side in ("head", "base") if asked else ():
        sizes = _tokens_of_launches(trial.case, side)
        if sizes and tokens_differ(max(sizes), min(sizes)):
            reason = Why.UNEVEN_TOKENS(side=side, least=min(sizes), most=max(sizes))
            return unjudged(Unjudged.OTHER_WORK, reason)
    return None


def _tokens_of_launches(case: Measured, side: str) -> list[float]:
    """The tokens of the whole job's step; a launch keeps one device's throughput."""
    devices = case.scorecard.accelerator_count or 1
    return [
        one.values[THROUGHPUT] * one.values[STEP_TIME] / 1000.0 * devices
        for one in case.launches
        if one.side == side and THROUGHPUT in one.values and STEP_TIME in one.values
    ]


# --- comparable with its baseline? ----------------------------------------------------------------


def _incomparable(trial: Trial, baseline: BaselineFound) -> Verdict | None:
    case, rules = trial.case, trial.rules
    mismatch = case.environment.mismatch(baseline.case.environment, rules.match)
    if mismatch is not None:
        why = Unjudged.ENVIRONMENT_CHANGED
        return unjudged(why, Why.NO_BASELINE(why=why.value), mismatch, *baseline.used.skipped)
    less = _less_work(trial, baseline.case)
    if less is not None:
        return unjudged(Unjudged.OTHER_WORK, less)
    return _disturbed(baseline.case, rules, Why.BASE_DISTURBED) or _nothing_gated(trial)


def _nothing_gated(trial: Trial) -> Verdict | None:
    """A comparison without any number of weight would be a pass on nothing."""
    compared = {change.metric for change in trial.changes if change.delta is not None}
    if compared.isdisjoint((STEP_TIME, THROUGHPUT)):
        return unjudged(Unjudged.NOTHING_MEASURED, Why.NO_COMMON_TIME())
    gated = {name for name, rule in gate_rules(trial).items() if rule.gate}
    if gated and compared.isdisjoint(gated):
        reason = Why.NOTHING_GATED_IN_COMMON(metrics=tuple(sorted(gated)))
        return unjudged(Unjudged.NOTHING_MEASURED, reason)
    return None


def _less_work(trial: Trial, base: Measured) -> Reason | None:
    """What the head left out that the base did: being faster so is no improvement."""
    head, rules = trial.case, trial.rules
    here, there = head.metrics.get("valid_steps"), base.metrics.get("valid_steps")
    asked = "valid_steps" in rules.environment.same_work
    if asked and here is not None and there is not None and here < there:
        return Why.FEWER_VALID_STEPS(head=here, base=there)
    untold, loss = untold_work(head, base, rules), losses_apart(head, base, rules)
    if untold and _is_faster(trial):
        return Why.FASTER_AND_SILENT(signs=tuple(untold))
    if loss is not None and loss[0] > loss[1] and _is_faster(trial):
        return Why.FASTER_WITH_OTHER_LOSS(head=loss[0], base=loss[1])
    return None


def _is_faster(trial: Trial) -> bool:
    rules = gate_rules(trial)
    return any(
        -rules[change.metric].metric.worsening(change.delta) > rules[change.metric].warn
        for change in trial.changes
        if change.delta is not None and change.metric in (STEP_TIME, THROUGHPUT)
    )


def untold_work(head: Measured, base: Measured, rules: CaseRules) -> list[str]:
    """What shows that the base did its work, and is not said of the head."""
    return [
        name
        for name in SIGNS_OF_WORK
        if name in rules.environment.same_work and name in base.metrics and name not in head.metrics
    ]


def losses_apart(head: Measured, base: Measured, rules: CaseRules) -> tuple[float, float] | None:
    """The final losses of both sides where they are too far apart for the same work."""
    here, there = head.metrics.get("final_loss"), base.metrics.get("final_loss")
    if "final_loss" not in rules.environment.same_work or here is None or there is None:
        return None
    if max(abs(here), abs(there)) < NO_LOSS:
        return None
    if abs(here - there) <= rules.environment.loss_tolerance * abs(there):
        return None
    return here, there
