"""Did both sides learn the same? Losses are compared only where a side repeats its own."""

from __future__ import annotations

from ci_score.judge.trial import Trial
from ci_score.model.record import LaunchNumbers, Measured
from ci_score.model.stages import BaselineFound

LOSS = "final_loss"
# Losses below this are the same: a share of almost nothing says nothing.
NO_LOSS = 1e-3


def losses_apart(trial: Trial, base: Measured) -> tuple[float, float] | None:
    """The final losses of both sides where they are too far apart for the same work."""
    rules = trial.rules.environment
    here, there = trial.case.metrics.get(LOSS), base.metrics.get(LOSS)
    if LOSS not in rules.same_work or here is None or there is None:
        return None
    if not repeats_its_loss(trial, base) or _are_near(here, there, rules.loss_tolerance):
        return None
    return here, there


def repeats_its_loss(trial: Trial, base: Measured) -> bool:
    """Whether the launches of the base agree on their loss, so that the head is held to it.

    The head's own launches are not asked: a change must not switch the check off by its noise. The
    hook finds a loss in every script, with fixed seeds or without; there one launch shows nothing.
    """
    launches = _with_a_loss(trial, base)
    losses = [one.values[LOSS] for one in launches]
    if len(losses) < 2:
        return all(one.loss_from is None for one in launches)
    return _are_near(max(losses), min(losses), trial.rules.environment.loss_tolerance)


def loss_varies(trial: Trial) -> bool:
    """Whether losses are not compared because several launches of the base differ in theirs."""
    if not isinstance(trial.baseline, BaselineFound):
        return False
    base = trial.baseline.case
    asked = LOSS in trial.rules.environment.same_work and len(_with_a_loss(trial, base)) > 1
    return asked and not repeats_its_loss(trial, base)


def _with_a_loss(trial: Trial, base: Measured) -> list[LaunchNumbers]:
    """The base's launches that tell a loss: of the same session, or of the record."""
    session = isinstance(trial.baseline, BaselineFound) and trial.baseline.used.of_session
    rows, side = (trial.case.launches, "base") if session else (base.launches, "head")
    return [one for one in rows if one.side == side and LOSS in one.values]


def _are_near(one: float, other: float, tolerance: float) -> bool:
    if max(abs(one), abs(other)) < NO_LOSS:
        return True
    return abs(one - other) <= tolerance * abs(other)
