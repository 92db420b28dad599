"""Whether both sides do the same work in a step, by what the start-up hook counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from ci_score.judge.trial import Trial
from ci_score.model.counted_step import CountedStep, passes_differ
from ci_score.model.metrics import STEP_TIME
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Measured
from ci_score.model.stages import BaselineFound

# A larger difference in the share of skipped or short steps is no chance.
MOST_SKIPPED, MOST_SHORT = 0.05, 0.1


def counted_otherwise(trial: Trial, base: Measured) -> Iterator[Reason]:
    """The reasons why a step is not the same work on both sides."""
    here, there = _both(trial, base)
    asked = trial.rules.environment.same_work
    if not (here and there):
        return
    if "optimizer_steps" in asked:
        yield from _of_the_optimizer(here, there)
    if "backward_passes" in asked:
        yield from _of_the_passes(here, there)


def slow_steps_left_out(trial: Trial, base: Measured) -> Iterator[Reason]:
    """A reason, if slow steps outside the timed window could push the change beyond the limit."""
    here, there = _both(trial, base)
    rule = trial.rules.of_time(measured=False).get(STEP_TIME)
    times = trial.case.scorecard.step_time_ms, base.scorecard.step_time_ms
    if not (here and there and all(times)) or rule is None or rule.fail is None:
        return
    head, own = (fmean(one.left_out_ms for one in side) for side in (here, there))
    if head > own and (times[0] + head) / (times[1] + own) - 1.0 > rule.fail:
        yield Why.SLOW_STEPS_LEFT_OUT(more_ms=head - own)


def _both(trial: Trial, base: Measured) -> tuple[list[CountedStep], list[CountedStep]]:
    """The counted steps of head, and those of its base: the same session's, or the record's."""
    is_session = isinstance(trial.baseline, BaselineFound) and trial.baseline.used.of_session
    there = _steps(trial.case, "base") if is_session else _steps(base, "head")
    return _steps(trial.case, "head"), there


def _steps(case: Measured, side: str) -> list[CountedStep]:
    return [one.step for one in case.launches if one.side == side and one.step and not one.void]


def _of_the_optimizer(
    here: Sequence[CountedStep], there: Sequence[CountedStep]
) -> Iterator[Reason]:
    head, base = here[0], there[0]
    if not head.is_change_of(base):
        yield Why.OTHER_OPTIMIZER(head=head.name, base=base.name)
    skipped = [fmean(one.skipped for one in side) for side in (here, there)]
    if skipped[0] - skipped[1] > MOST_SKIPPED:
        yield Why.SKIPPED_STEPS(head=skipped[0], base=skipped[1])
    # Other processes may stretch the mean of a launch or two, which makes its usual steps short.
    short = [median(one.short for one in side) for side in (here, there)]
    if short[0] - short[1] > MOST_SHORT:
        yield Why.SHORT_STEPS(head=short[0], base=short[1])


def _of_the_passes(here: Sequence[CountedStep], there: Sequence[CountedStep]) -> Iterator[Reason]:
    """Not where base's own launches differ from each other, as they do with LBFGS."""
    passes = [one.backward_passes for one in there]
    head, base = fmean(one.backward_passes for one in here), fmean(passes)
    if not passes_differ(max(passes), min(passes)) and passes_differ(head, base):
        yield Why.OTHER_PASSES(head=head, base=base)
