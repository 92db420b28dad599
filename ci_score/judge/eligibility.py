"""Can a case be judged at all, and if so, may it be green?

Where nothing usable was measured, or nothing that can be compared, there is no judgement. All else
is an objection: the case is judged, what is red stays red, and nothing is green beside it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator

from ci_score.judge.counted_steps import counted_otherwise, slow_steps_left_out
from ci_score.judge.evidence import gate_rules, points_of
from ci_score.judge.history import HeadLaunches, History
from ci_score.judge.looks import planned_looks
from ci_score.judge.losses import losses_apart, repeats_its_loss
from ci_score.judge.pairs import LEAST_PAIRS
from ci_score.judge.policy import CaseRules
from ci_score.judge.trial import Objection, Trial
from ci_score.model.metrics import OF_TOKENS, STEP_TIME, THROUGHPUT, metric_named, tokens_differ
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import OF_WHICH_ONE_SHARED, LaunchNumbers, Measured, is_lopsided
from ci_score.model.stages import BaselineFound, BaselineMissing
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict, unjudged

# What shows that a side did its work -> the number of a launch that tells it.
SIGNS_OF_WORK = {
    "final_loss": "final_loss",
    "valid_steps": "valid_steps",
    "tokens_per_step": THROUGHPUT,
}
# Counting their ranks takes time that grows with the third power of the pairs.
MOST_JUDGED_PAIRS = 256


def eligible(trial: Trial) -> BaselineFound | Verdict:
    """What the case is judged against, or the verdict that it cannot be."""
    unusable = _unusable(trial.case) or _disturbed_alone(trial) or _not_as_designed(trial)
    if unusable is not None:
        return unusable
    if isinstance(trial.baseline, BaselineMissing):
        if objection := next(_to_head_alone(trial), None):
            return unjudged(objection.kind, *objection.reasons)
        missing = trial.baseline
        decided_by = Why.NO_BASELINE(why=missing.reason.value)
        return unjudged(missing.reason, decided_by, *missing.reasons)
    there = trial.baseline.case.environment
    mismatch = trial.case.environment.mismatch(there, trial.rules.match)
    if mismatch is None:
        return trial.baseline
    why, skipped = Unjudged.ENVIRONMENT_CHANGED, trial.baseline.used.skipped
    return unjudged(why, Why.NO_BASELINE(why=why.value), mismatch, *skipped)


def objections(trial: Trial, baseline: BaselineFound) -> Iterator[Objection]:
    """Why the case must not be green; the first one is told first. None of them hides a red."""
    yield from _to_head_alone(trial)
    yield from _each(
        (Unjudged.OTHER_WORK, _other_work(trial, baseline.case)),
        (Unjudged.NOT_AS_DESIGNED, _more_warm_up(trial, baseline.case)),
        (Unjudged.NOT_AS_DESIGNED, slow_steps_left_out(trial, baseline.case)),
        (Unjudged.NOTHING_MEASURED, _nothing_gated(trial)),
        (Unjudged.CONTRADICTS, _base_contradicts(trial)),
    )


def _to_head_alone(trial: Trial) -> Iterator[Objection]:
    """What is wrong with how head was measured, whatever it is compared with."""
    return _each(
        (Unjudged.INVALID_MEASUREMENT, _disturbances(trial.case, trial.rules, Why.DISTURBED)),
        (Unjudged.INVALID_MEASUREMENT, _often_shared(trial)),
        (Unjudged.NOT_AS_DESIGNED, _too_short(trial)),
    )


def _each(*raised: tuple[Unjudged, Iterable[Reason]]) -> Iterator[Objection]:
    """One objection a kind, with all of its reasons."""
    for kind, reasons in raised:
        if told := tuple(reasons):
            yield Objection(kind, told)


def _unusable(case: Measured) -> Verdict | None:
    if case.has_a_time:
        return None
    why = Unjudged.CRASHED_RUN if case.crashed else Unjudged.NOTHING_MEASURED
    return unjudged(why, case.unmeasured or Why.NO_NUMBER_TO_COMPARE())


def _disturbed_alone(trial: Trial) -> Verdict | None:
    """Whether a disturbance may have made the difference: the sides of pairs share theirs."""
    if trial.is_in_pairs:
        return None
    disturbed = [*_disturbances(trial.case, trial.rules, Why.DISTURBED)]
    if not disturbed and isinstance(trial.baseline, BaselineFound):
        disturbed = [*_disturbances(trial.baseline.case, trial.rules, Why.BASE_DISTURBED)]
    return unjudged(Unjudged.INVALID_MEASUREMENT, *disturbed) if disturbed else None


def _disturbances(case: Measured, rules: CaseRules, why: Why) -> Iterator[Reason]:
    for event, words in case.environment.disturbances.items():
        if event in rules.environment.reject:
            yield why(event=event, words=words)
            why = Why.ALSO_DISTURBED


def _often_shared(trial: Trial) -> Iterator[Reason]:
    """A disturbed launch is left out, unless too many are, or none would be left.

    Whoever selects launches can make them say anything. Other processes hit both sides alike.
    """
    if not trial.drops_shared:
        return
    pairs, left = trial.case.pairs(), trial.pairs()
    shared = [any(launch.shared for launch in pair) for pair in pairs]
    most = max(len(pairs) - sum(shared), _most_planned(trial))
    if not trial.case.has_both_sides:
        shared = [launch.shared for launch in trial.case.launches]
        most = len(shared) // OF_WHICH_ONE_SHARED
    if any(shared) and not (left and sum(shared) <= most and not _are_lopsided(pairs)):
        yield Why.OFTEN_SHARED(shared=sum(shared), launches=len(shared))


def _are_lopsided(pairs: Iterable[tuple[LaunchNumbers, LaunchNumbers]]) -> bool:
    alone = [(head.shared, base.shared) for head, base in pairs]
    return is_lopsided(alone.count((True, False)), alone.count((False, True)))


def _most_planned(trial: Trial) -> int:
    """How many pairs the session planned: no more than the policy lets anybody plan."""
    measure = trial.rules.measure
    most = planned_looks(0.0, measure.looks, measure.false_fail, measure.tests)[-1]
    planned = [min(launch.looks[-1], most) for launch in trial.case.launches if launch.looks]
    return max(planned, default=0)


def _too_short(trial: Trial) -> Iterator[Reason]:
    """Few steps tell little: the policy says from how many on a launch counts."""
    wanted = trial.rules.measure.timed_steps
    # A void launch has its own consequences: it must not hide a slowdown that the others prove.
    sound = [one for one in trial.case.launches if not one.void]
    counts = [one.timed_steps for one in sound if one.timed_steps is not None]
    short = [count for count in counts if wanted is not None and count < wanted]
    if short:
        yield Why.TOO_FEW_STEPS(
            wanted=wanted, short=len(short), launches=len(counts), shortest=min(short)
        )


def _not_as_designed(trial: Trial) -> Verdict | None:
    pairs = len(trial.case.pairs())
    if trial.is_in_pairs and pairs > MOST_JUDGED_PAIRS:
        return unjudged(
            Unjudged.NOT_AS_DESIGNED, Why.TOO_MANY_PAIRS(pairs=pairs, most=MOST_JUDGED_PAIRS)
        )
    if trial.is_in_pairs and trial.case.took_turns is False:
        # Launches that did not run side by side are no pairs.
        return unjudged(Unjudged.NOT_AS_DESIGNED, Why.NOT_IN_TURNS())
    if trial.rules.measure.design != "interleaved":
        return None
    # Whoever measured head alone knows why there are no pairs, and that is said instead.
    was_alone = trial.case.environment.alone is not None and not trial.case.has_both_sides
    if pairs >= LEAST_PAIRS or (was_alone and isinstance(trial.baseline, BaselineMissing)):
        return None
    return unjudged(Unjudged.NOT_AS_DESIGNED, Why.TOO_FEW_PAIRS(pairs=pairs, least=LEAST_PAIRS))


# --- comparable with its baseline? ----------------------------------------------------------------


def _nothing_gated(trial: Trial) -> Iterator[Reason]:
    """A comparison without any number of weight would be a pass on nothing."""
    compared = {change.metric for change in trial.changes if change.delta is not None}
    if not trial.measures_throughput:
        compared -= OF_TOKENS
    gated = {name for name, rule in gate_rules(trial).items() if rule.gate}
    if STEP_TIME in {change.metric for change in trial.changes if _is_lost(change)}:
        yield Why.STEP_TIME_LOST()
    elif compared.isdisjoint((STEP_TIME, THROUGHPUT)):
        yield Why.NO_COMMON_TIME()
    elif gated and compared.isdisjoint(gated):
        yield Why.NOTHING_GATED_IN_COMMON(metrics=tuple(sorted(gated)))


def _is_lost(change: Change) -> bool:
    return change.not_compared is not None and change.not_compared.code is Why.ONLY_IN_BASE


def _other_work(trial: Trial, base: Measured) -> Iterator[Reason]:
    """How both sides show that they did not do the same: then a faster step shows nothing."""
    head, asked = trial.case, trial.rules.environment.same_work
    here, there = head.metrics.get("valid_steps"), base.metrics.get("valid_steps")
    if "valid_steps" in asked and here is not None and there is not None and here < there:
        yield Why.FEWER_VALID_STEPS(head=here, base=there)
    tokens = head.told_tokens, base.told_tokens
    if "tokens_per_step" in asked and head.uneven_tokens is not None:
        yield head.uneven_tokens
    elif "tokens_per_step" in asked and tokens_differ(*tokens):
        yield Why.OTHER_AMOUNT(head=tokens[0], base=tokens[1])
    losses = losses_apart(trial, base)
    if losses is not None:
        yield Why.OTHER_LOSS(head=losses[0], base=losses[1])
    yield from counted_otherwise(trial, base)
    # A head that says less must not switch off the check by that.
    means_nothing = () if repeats_its_loss(trial, base) else ("final_loss",)
    signs = [sign for sign in SIGNS_OF_WORK if sign in asked and sign not in means_nothing]
    untold = tuple(sign for sign in signs if not _tells(head, sign) and _tells(base, sign))
    if untold:
        yield Why.WORK_NOT_TOLD(signs=untold)
    # Nor does one launch speak for the others, where each launch of the base speaks for itself.
    by_some = tuple(sign for sign in signs if 0 < _tells(head, sign) < _tells(base, sign) == 1)
    if by_some:
        yield Why.WORK_TOLD_BY_SOME(signs=by_some)


def _tells(case: Measured, sign: str) -> float:
    """The share of its launches that tell it; 1 if the case itself does."""
    of_case = case.told_tokens if sign == "tokens_per_step" else case.metrics.get(sign)
    if of_case is None:
        return 0.0
    own = "head" if any(one.side == "head" for one in case.launches) else "base"
    told = [SIGNS_OF_WORK[sign] in one.values for one in case.launches
            if one.side == own and not one.void]  # fmt: skip
    return statistics.fmean(told) if any(told) else 1.0


def _more_warm_up(trial: Trial, base: Measured) -> Iterator[Reason]:
    """Warm-up steps are not timed, so a longer warm-up could hide slow steps."""
    wanted = trial.rules.measure.warmup_steps
    here = _warm_up(trial.case, "head")
    there = _warm_up(trial.case, "base") if trial.case.has_both_sides else _warm_up(base, "head")
    # A session that leaves out more on both sides may hide the slow steps of one of them.
    branch = None if trial.recorded is None else _warm_up(trial.recorded, "head")
    if wanted is None and there is not None and branch is not None:
        there = min(there, branch)
    bounds = [bound for bound in (wanted, there) if bound is not None]
    if here is not None and bounds and here > max(bounds):
        yield Why.MORE_WARM_UP(head=here, base=max(bounds))


def _warm_up(case: Measured, side: str) -> int | None:
    steps = (one.warmup_steps for one in case.launches if one.side == side and not one.void)
    return max((count for count in steps if count is not None), default=None)


# --- what only the branch can say -----------------------------------------------------------------


def gate_at_of(trial: Trial) -> float | None:
    """The smallest limit that the machine can gate, as the branch's record of it says.

    What the change says of itself counts only where it is worse.
    """
    if trial.recorded is None:
        return None
    known = trial.recorded.environment
    if trial.case.environment.mismatch(known, trial.rules.match) is not None:
        return None
    here = trial.case.environment.gate_at
    return None if known.gate_at is None or here is None else max(known.gate_at, here)


def _base_contradicts(trial: Trial) -> Iterator[Reason]:
    """Whether the session's base is surely slower than the branch: then it is the wrong base."""
    rule = trial.rules.gate(STEP_TIME)
    if not trial.is_in_pairs or rule is None:
        return
    launches = [_number(one.values.get(STEP_TIME)) for one in trial.case.launches
                if one.side == "base" and not one.void]  # fmt: skip
    points = points_of(trial)
    history = History.of_times(_numbers(point.number(STEP_TIME) for point in points),
                               trial.rules.measure.false_fail)  # fmt: skip
    if not history.has_interval:
        return
    limit = rule.metric.limit_score(rule.warn if rule.fail is None else rule.fail)
    judged = history.judged(HeadLaunches.of_times(launches), limit, limit)
    if judged.outcome is Outcome.FAIL:
        slower_by = metric_named(STEP_TIME).delta_of_score(judged.estimate)
        yield Why.BASE_CONTRADICTS(slower_by=slower_by, runs=len(history.counted))


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [_number(value) for value in values]
