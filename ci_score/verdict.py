"""Comparison × rules → Verdict: our judgement. What could not be judged is never a pass."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ci_score.metrics import METRICS, STEP_TIME, metric_named, significant
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

LONGEST_NAME = 80
EXIT_OK, EXIT_REGRESSION, EXIT_UNJUDGED = 0, 1, 3


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


@dataclass(frozen=True, slots=True)
class Gate:
    """What becomes of a verdict: `reports_only` on a branch that is merged already."""

    fail_on: FailOn = FailOn.CRITICAL
    on_inconclusive: OnInconclusive = OnInconclusive.AUTO
    reports_only: bool = False


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
    if not case.has_a_time:
        words = case.unmeasured or "no step time and no throughput was measured"
        return unjudged(Unjudged.CRASHED_RUN if case.crashed else Unjudged.NOTHING_MEASURED, words)
    if isinstance(baseline, BaselineMissing):
        words = _MISSING_WORDS.get(baseline.reason, baseline.reason.value)
        return unjudged(baseline.reason, words, *_details(baseline))
    if not any(change.delta is not None and _is_timing(change) for change in changes):
        return unjudged(
            Unjudged.NOTHING_MEASURED,
            "neither step time nor throughput is known on both sides",
        )
    return _judged(changes, contributions)


def _details(missing: BaselineMissing) -> list[str]:
    """Why there is none, and each record that was looked at; said once each."""
    details = [missing.detail, *missing.skipped]
    return [
        detail for place, detail in enumerate(details) if detail and detail not in details[:place]
    ]


def unjudged(reason: Unjudged, words: str, *details: str) -> Verdict:
    """No judgement, and why: neither a regression nor a pass."""
    return Verdict(
        outcome=Outcome.INCONCLUSIVE,
        headline=f"Not judged: {words}",
        reasons=details,
        unjudged=reason,
    )


def verdicts_of(record: Record) -> list[Verdict]:
    """Every verdict of a report: of its cases, and of the report itself where it has one."""
    own = [record.unjudged] if record.unjudged else []
    return own + [case.verdict for case in record.cases if case.verdict]


def report_outcome(record: Record) -> Outcome:
    """The report's verdict is its worst case's; a report without any measured nothing."""
    outcomes = [verdict.outcome for verdict in verdicts_of(record)]
    return Outcome.worst(outcomes) if outcomes else Outcome.INCONCLUSIVE


def exit_code(record: Record, gate: Gate) -> int:
    """What the process says to the workflow about the record's verdicts."""
    codes = [_exit_code(verdict, gate) for verdict in verdicts_of(record)]
    if EXIT_REGRESSION in codes:
        return EXIT_REGRESSION
    if any(case.verdict is None for case in record.cases):
        return EXIT_UNJUDGED
    return max(codes, default=EXIT_UNJUDGED)


def _exit_code(verdict: Verdict, gate: Gate) -> int:
    if verdict.outcome is Outcome.INCONCLUSIVE:
        passes = {
            OnInconclusive.AUTO: verdict.unjudged in HARMLESS,
            OnInconclusive.FAIL: False,
            OnInconclusive.PASS: True,
        }
        return EXIT_OK if passes[gate.on_inconclusive] else EXIT_UNJUDGED
    failing = {
        FailOn.CRITICAL: {Outcome.FAIL},
        FailOn.WARNING: {Outcome.FAIL, Outcome.WARN},
        FailOn.NEVER: set(),
    }
    fails = verdict.outcome in failing[gate.fail_on] and not gate.reports_only
    return EXIT_REGRESSION if fails else EXIT_OK


def _is_timing(change: Change) -> bool:
    """A share of the wall time alone does not say how long anything takes."""
    return metric_named(change.metric).relative


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
            change.metric == STEP_TIME,
        ),
    )
    return describe(worst) + _where(worst, contributions)


def _where(worst: Change, contributions: tuple[Contribution, ...]) -> str:
    """Where the slowdown is, if the phase that grew most holds at least half of it."""
    if worst.metric != STEP_TIME:
        return ""
    slower_ms = worst.head - worst.base
    places = [
        next((part for part in contributions if part.kind == kind and part.delta_ms > 0), None)
        for kind in ("phase", "op")
    ]
    if not any(part and part.delta_ms >= slower_ms / 2 for part in places):
        return ""
    where = " and ".join(
        f"{part.kind} '{part.name[:LONGEST_NAME]}' (+{significant(part.delta_ms, 'ms')})"
        for part in places
        if part
    )
    return f", most of it in {where}"


def describe(change: Change) -> str:
    """A change in words: `Step time +25.0 % (400 ms → 500 ms)`."""
    metric = metric_named(change.metric)
    delta = metric.show_delta(change.delta) if change.delta is not None else "not compared"
    values = f"{metric.show_or_dash(change.base)} → {metric.show_or_dash(change.head)}"
    return f"{metric.label} {delta} ({values})"


def _smallest_visible(changes: tuple[Change, ...]) -> float | None:
    """The least slowdown that would have been reported: the tightest limit that was applied."""
    compared = {change.metric for change in changes if change.delta is not None}
    limits = [row.warning for row in METRICS if row.relative and row.name in compared]
    return min(limits, default=None)
