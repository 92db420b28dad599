"""Which commits' code a case compares, and whether a diff of them is worth asking for."""

from __future__ import annotations

from ci_score.model.code_diff import NO_DIFF, CodeDiff, CodeState, Diffs
from ci_score.model.environment import MeasuredCode
from ci_score.model.metrics import MEMORY, STEP_TIME, metric_named
from ci_score.model.record import Measured
from ci_score.model.stages import Baseline, BaselineFound

# A change below it explains nothing: a diff would cost a request and say nothing.
LEAST_SHARE = 0.01
_UNKNOWN = MeasuredCode()


def diff_for(
    head: Measured,
    baseline: Baseline,
    *,
    commit: str | None,
    base_commit: str | None,
    diffs: Diffs,
) -> CodeDiff:
    """The diff between the code of the two sides, where both tell which lines take their time.

    A session says what it measured; without one it is the run's own `commit`.
    """
    if not isinstance(baseline, BaselineFound) or not _is_wanted(head, baseline.case):
        return NO_DIFF
    told = head.environment.code or _UNKNOWN
    measured = told.head or commit
    if measured is None or base_commit is None:
        return CodeDiff(state="not found")
    edited = told.head_edited if told.head else None
    return diffs(CodeState(base_commit), CodeState(measured, edited))


def base_of_session(head: Measured) -> str | None:
    """The commit of a session's base, as the session tells it."""
    return head.environment.code.base if head.environment.code else None


def _is_wanted(head: Measured, base: Measured) -> bool:
    """Whether both sides know their lines, and a line can explain that something changed."""
    if head.code is None or base.code is None:
        return False
    return any(_changed(head, base, name) for name in (STEP_TIME, MEMORY))


def _changed(head: Measured, base: Measured, name: str) -> bool:
    now, before = metric_named(name).value(head), metric_named(name).value(base)
    if now is None or not before:
        return False
    return abs(now / before - 1) >= LEAST_SHARE
