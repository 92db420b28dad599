"""Can a case be judged at all? What is not comparable, disturbed or empty is never a regression."""

from __future__ import annotations

from ci_score.judge import noise
from ci_score.judge.evidence import complete_pairs, gate_rules, is_other_size
from ci_score.judge.policy import CaseRules
from ci_score.judge.trial import Trial
from ci_score.judge.verdict import unjudged
from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.model.record import CaseRecord
from ci_score.model.stages import BaselineFound, BaselineMissing
from ci_score.model.verdict import Unjudged, Verdict

SIGNS_OF_WORK = {"final_loss": "final loss", "valid_steps": "valid steps"}
# Of what is nearly nothing, a share says nothing: 1e-9 is no other loss than 0.
NO_LOSS = 1e-3
MISSING_WORDS = {
    Unjudged.FIRST_RUN: "there is no baseline yet, this is the first run",
    Unjudged.NEW_CASE: "the baselines do not know this case yet",
    Unjudged.ENVIRONMENT_CHANGED: "it was measured on something else than its baselines",
    Unjudged.ALL_UNUSABLE: "none of the baselines found can be used",
}


def standing(trial: Trial) -> BaselineFound | Verdict:
    """What the case is judged against, or the verdict that it cannot be."""
    unusable = _unusable(trial.case) or _disturbed(trial.case, trial.rules, "the measurement")
    unusable = unusable or _too_short(trial) or _not_as_designed(trial) or _uneven(trial)
    if unusable is not None:
        return unusable
    if isinstance(trial.baseline, BaselineMissing):
        missing = trial.baseline
        words = MISSING_WORDS.get(missing.reason, missing.reason.value)
        return unjudged(missing.reason, words, *_details(missing))
    return _incomparable(trial, trial.baseline) or trial.baseline


def _unusable(case: CaseRecord) -> Verdict | None:
    if case.has_a_time:
        return None
    words = case.unmeasured or "no step time and no throughput was measured"
    return unjudged(Unjudged.CRASHED_RUN if case.crashed else Unjudged.NOTHING_MEASURED, words)


def _disturbed(case: CaseRecord, rules: CaseRules, what: str) -> Verdict | None:
    events = [
        f"{event}: {words}"
        for event, words in case.environment.disturbances.items()
        if event in rules.environment.reject
    ]
    if not events:
        return None
    return unjudged(
        Unjudged.INVALID_MEASUREMENT, f"{what} was disturbed ({events[0]})", *events[1:]
    )


def _too_short(trial: Trial) -> Verdict | None:
    """Few steps tell little: the policy says from how many on a launch counts."""
    wanted = trial.rules.measure.timed_steps
    counts = [one.timed_steps for one in trial.case.launches if one.timed_steps is not None]
    short = [count for count in counts if wanted is not None and count < wanted]
    if not short:
        return None
    return unjudged(
        Unjudged.NOT_AS_DESIGNED,
        f"the policy asks for {wanted} timed steps a launch, and {len(short)} of {len(counts)}"
        f" launches have fewer (the shortest {min(short)})",
    )


def _not_as_designed(trial: Trial) -> Verdict | None:
    if trial.rules.measure.design != "interleaved":
        return None
    if trial.case.took_turns is False:
        return unjudged(
            Unjudged.NOT_AS_DESIGNED,
            "the policy asks for interleaved launches of both sides, and one side ran before the"
            " other",
        )
    counts = [len(complete_pairs(trial.case, name)) for name in (STEP_TIME, THROUGHPUT)]
    if max(counts) >= noise.LEAST_PAIRS:
        return None
    return unjudged(
        Unjudged.NOT_AS_DESIGNED,
        "the policy asks for interleaved launches of both sides, and there are"
        f" {max(counts) or 'no'} complete pairs of at least {noise.LEAST_PAIRS}",
    )


def _uneven(trial: Trial) -> Verdict | None:
    """Launches of one side that trained on other amounts have no one number of a step."""
    asked = "tokens_per_step" in trial.rules.environment.same_work
    for side in ("head", "base") if asked else ():
        sizes = _tokens_of_launches(trial.case, side)
        if sizes and is_other_size(max(sizes), min(sizes)):
            return unjudged(
                Unjudged.OTHER_WORK,
                f"the launches of the {side} did not do the same work:"
                f" {min(sizes):.0f} to {max(sizes):.0f} tokens a step",
            )
    return None


def _tokens_of_launches(case: CaseRecord, side: str) -> list[float]:
    """The tokens of the whole job's step; a launch keeps one device's throughput."""
    devices = case.scorecard.accelerator_count or 1
    return [
        one.values[THROUGHPUT] * one.values[STEP_TIME] / 1000.0 * devices
        for one in case.launches
        if one.side == side and THROUGHPUT in one.values and STEP_TIME in one.values
    ]


def _details(missing: BaselineMissing) -> list[str]:
    """Why there is none, and each record that was looked at; said once each."""
    details = [missing.detail, *missing.skipped]
    return [
        detail for place, detail in enumerate(details) if detail and detail not in details[:place]
    ]


# --- comparable with its baseline? ----------------------------------------------------------------


def _incomparable(trial: Trial, baseline: BaselineFound) -> Verdict | None:
    case, rules = trial.case, trial.rules
    mismatch = case.environment.mismatch(baseline.case.environment, rules.environment.match)
    if mismatch is not None:
        words = MISSING_WORDS[Unjudged.ENVIRONMENT_CHANGED]
        return unjudged(Unjudged.ENVIRONMENT_CHANGED, words, mismatch, *baseline.used.skipped)
    less = _less_work(trial, baseline.case)
    if less is not None:
        return unjudged(Unjudged.OTHER_WORK, f"it did not do the same work ({less})")
    return _disturbed(baseline.case, rules, "its baseline's measurement") or _nothing_gated(trial)


def _nothing_gated(trial: Trial) -> Verdict | None:
    """A comparison without any number of weight would be a pass on nothing."""
    compared = {change.metric for change in trial.changes if change.delta is not None}
    if compared.isdisjoint((STEP_TIME, THROUGHPUT)):
        return unjudged(
            Unjudged.NOTHING_MEASURED, "neither step time nor throughput is known on both sides"
        )
    gated = {name for name, rule in gate_rules(trial).items() if rule.gate}
    if gated and compared.isdisjoint(gated):
        return unjudged(
            Unjudged.NOTHING_MEASURED,
            f"nothing that the policy gates is known on both sides ({', '.join(sorted(gated))})",
        )
    return None


def _less_work(trial: Trial, base: CaseRecord) -> str | None:
    """What the head left out that the base did: being faster so is no improvement."""
    head, rules = trial.case, trial.rules
    mine, theirs = head.metrics.get("valid_steps"), base.metrics.get("valid_steps")
    asked = "valid_steps" in rules.environment.same_work
    if asked and mine is not None and theirs is not None and mine < theirs:
        return f"{mine:g} valid steps here, {theirs:g} there"
    untold, loss = untold_work(head, base, rules), losses_apart(head, base, rules)
    if untold and _is_faster(trial):
        return f"it is faster, and no longer tells its {' and its '.join(untold)}"
    if loss is not None and loss[0] > loss[1] and _is_faster(trial):
        return f"it is faster, and its final loss is {loss[0]:.4g} instead of {loss[1]:.4g}"
    return None


def _is_faster(trial: Trial) -> bool:
    rules = gate_rules(trial)
    return any(
        -rules[change.metric].metric.worsening(change.delta) > rules[change.metric].warn
        for change in trial.changes
        if change.delta is not None and change.metric in (STEP_TIME, THROUGHPUT)
    )


def untold_work(head: CaseRecord, base: CaseRecord, rules: CaseRules) -> list[str]:
    """What shows that the base did its work, and is not said of the head."""
    return [
        label
        for name, label in SIGNS_OF_WORK.items()
        if name in rules.environment.same_work and name in base.metrics and name not in head.metrics
    ]


def losses_apart(
    head: CaseRecord, base: CaseRecord, rules: CaseRules
) -> tuple[float, float] | None:
    """The final losses of both sides where they are too far apart for the same work."""
    mine, theirs = head.metrics.get("final_loss"), base.metrics.get("final_loss")
    if "final_loss" not in rules.environment.same_work or mine is None or theirs is None:
        return None
    if max(abs(mine), abs(theirs)) < NO_LOSS:
        return None
    if abs(mine - theirs) <= rules.environment.loss_tolerance * abs(theirs):
        return None
    return mine, theirs
