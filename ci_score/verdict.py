"""Comparison × rules → Verdict: our judgement. What could not be judged is never a pass."""

from __future__ import annotations

from enum import StrEnum

from ci_score.metrics import METRICS, significant
from ci_score.models import (
    Baseline,
    BaselineMissing,
    CaseRecord,
    Change,
    Contribution,
    Outcome,
    Record,
    Severity,
    Unjudged,
    Verdict,
)

EXIT_OK, EXIT_REGRESSION, EXIT_WRONG_USE, EXIT_UNJUDGED = 0, 1, 2, 3


class FailOn(StrEnum):
    """Which outcome fails the check."""

    CRITICAL = "critical"
    WARNING = "warning"
    NEVER = "never"


class OnInconclusive(StrEnum):
    """What becomes of a run that could not be judged; `auto` looks at the reason."""

    AUTO = "auto"
    FAIL = "fail"
    PASS = "pass"


# These are part of a healthy life: there is nothing yet to compare with. All others block.
HARMLESS = frozenset(
    {
        Unjudged.FIRST_RUN,
        Unjudged.EXPIRED,
        Unjudged.NEW_CASE,
        Unjudged.NEW_ENVIRONMENT_OF_NEW_CASE,
    }
)

REFERENCE_BASIS = "Unverified: one number a side, judged by the reference's fixed limits."

_OUTCOMES = {Severity.WARNING: Outcome.WARN, Severity.CRITICAL: Outcome.FAIL}

_MISSING_WORDS = {
    Unjudged.FIRST_RUN: "there is no baseline yet, this is the first run",
    Unjudged.NEW_CASE: "the baselines do not know this case yet",
    Unjudged.ENVIRONMENT_CHANGED: "it was measured on something else than its baselines",
    Unjudged.ALL_UNUSABLE: "none of the baselines found can be used",
}


def judge(
    case: CaseRecord,
    baseline: Baseline,
    changes: tuple[Change, ...] = (),
    contributions: tuple[Contribution, ...] = (),
) -> Verdict:
    """The verdict of the reference's rules on one case."""
    if not _measured_something(case):
        return unjudged(Unjudged.NOTHING_MEASURED, "the profile holds no step time, phase or layer")
    if isinstance(baseline, BaselineMissing):
        words = _MISSING_WORDS.get(baseline.reason, baseline.reason.value)
        return unjudged(baseline.reason, words, *filter(None, (baseline.detail,)))
    if not any(change.delta is not None for change in changes):
        return unjudged(
            Unjudged.NOTHING_MEASURED, "no metric has a number on both sides of the comparison"
        )
    return _judged(changes, contributions)


def unjudged(reason: Unjudged, words: str, *details: str) -> Verdict:
    """No judgement, and why: neither a regression nor a pass."""
    return Verdict(
        outcome=Outcome.INCONCLUSIVE,
        headline=f"Not judged: {words}",
        reasons=details,
        unjudged=reason,
    )


def report_outcome(record: Record) -> Outcome:
    """The report's verdict is its worst case's; a report without cases measured nothing."""
    outcomes = [case.verdict.outcome for case in record.cases if case.verdict]
    return Outcome.worst(outcomes) if outcomes else Outcome.INCONCLUSIVE


def exit_code(record: Record, fail_on: FailOn, on_inconclusive: OnInconclusive) -> int:
    """What the process says to the workflow about the record's verdicts."""
    verdicts = [case.verdict for case in record.cases if case.verdict]
    codes = [_exit_code(verdict, fail_on, on_inconclusive) for verdict in verdicts]
    if EXIT_REGRESSION in codes:
        return EXIT_REGRESSION
    return max(codes, default=EXIT_UNJUDGED)


def _exit_code(verdict: Verdict, fail_on: FailOn, on_inconclusive: OnInconclusive) -> int:
    if verdict.outcome is Outcome.INCONCLUSIVE:
        harmless = verdict.unjudged in HARMLESS
        passes = {
            OnInconclusive.AUTO: harmless,
            OnInconclusive.FAIL: False,
            OnInconclusive.PASS: True,
        }
        return EXIT_OK if passes[on_inconclusive] else EXIT_UNJUDGED
    failing = {
        FailOn.CRITICAL: {Outcome.FAIL},
        FailOn.WARNING: {Outcome.FAIL, Outcome.WARN},
        FailOn.NEVER: set(),
    }
    return EXIT_REGRESSION if verdict.outcome in failing[fail_on] else EXIT_OK


def _measured_something(case: CaseRecord) -> bool:
    card = case.scorecard
    return card.step_time_ms > 0 or card.throughput_tok_s > 0


def _judged(changes: tuple[Change, ...], contributions: tuple[Contribution, ...]) -> Verdict:
    outcome = Outcome.PASS
    for change in changes:
        if change.severity is not None:
            outcome = Outcome.worst([outcome, _OUTCOMES[change.severity]])
    return Verdict(
        outcome=outcome,
        headline=_headline(changes, contributions),
        reasons=tuple(
            f"{describe(change)}: {change.severity.value}"
            for change in changes
            if change.severity is not None
        ),
        basis=REFERENCE_BASIS,
        smallest_visible_slowdown=_smallest_visible(changes),
    )


def _headline(changes: tuple[Change, ...], contributions: tuple[Contribution, ...]) -> str:
    """The one sentence that matters: the worst change, and where most of it comes from."""
    severities = list(Severity)
    regressions = [change for change in changes if change.severity is not None]
    if not regressions:
        limit = _smallest_visible(changes)
        return f"No slowdown beyond {limit:.0%}" if limit else "No regression beyond the limits"
    # Of equally severe ones the step time, which is what people feel.
    worst = max(
        regressions,
        key=lambda change: (
            severities.index(change.severity or Severity.WARNING),
            change.metric == "step_time_ms",
        ),
    )
    places = [
        next((part for part in contributions if part.kind == kind and part.delta_ms > 0), None)
        for kind in ("phase", "op")
    ]
    where = " and ".join(
        f"{part.kind} {part.name} (+{significant(part.delta_ms, 'ms')})" for part in places if part
    )
    return describe(worst) + (f", most of it in {where}" if where else "")


def describe(change: Change) -> str:
    """A change in words: `Step time +25.0 % (400 ms → 500 ms)`."""
    metric = next(row for row in METRICS if row.name == change.metric)
    delta = metric.show_delta(change.delta) if change.delta is not None else "not compared"
    return f"{metric.label} {delta} ({metric.show(change.base)} → {metric.show(change.head)})"


def _smallest_visible(changes: tuple[Change, ...]) -> float | None:
    """The least slowdown that would have been reported: the tightest limit that was applied."""
    compared = {change.metric for change in changes if change.delta is not None}
    limits = [row.warning for row in METRICS if row.relative and row.name in compared]
    return min(limits, default=None)
