"""Comparison × rules → Verdict: our judgement. What could not be judged is never a pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ci_score.judge.policy import fates_of
from ci_score.model.explanation import Explanation
from ci_score.model.metrics import KERNELS, LAUNCHES, STEP_TIME, THROUGHPUT, metric_named, metric_of
from ci_score.model.record import Record, Trend
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict

# A reason that holds less of a change is none.
LEAST_EXPLAINED = 0.5
# Beyond this the step's time and its throughput do not tell the same change.
SAME_SHARE = 0.01
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
        # Something was measured, and what could hide in it is said; blocking every noisy run would
        # only get the check switched off.
        Unjudged.TOO_NOISY,
    }
)


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
    fates = fates_of(record.policy)
    codes = [_exit_code(verdict, gate, fates) for verdict in verdicts_of(record)]
    if EXIT_REGRESSION in codes:
        return EXIT_REGRESSION
    if any(case.verdict is None for case in record.cases):
        return EXIT_UNJUDGED
    return max(codes, default=EXIT_UNJUDGED)


def _exit_code(verdict: Verdict, gate: Gate, fates: Mapping[Unjudged, bool]) -> int:
    if verdict.outcome is Outcome.INCONCLUSIVE:
        passes = {
            OnInconclusive.AUTO: _is_harmless(verdict.unjudged, fates),
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


def _is_harmless(reason: Unjudged | None, fates: Mapping[Unjudged, bool]) -> bool:
    """Whether it passes without a judgement; the policy's word counts where it says one."""
    return reason is not None and fates.get(reason, reason in HARMLESS)


def why(worst: Change, found: Explanation | None) -> str:
    """`: the device waits for the data loader`, where most of the change is explained."""
    if found is None or worst.delta is None:
        return ""
    if worst.metric in (LAUNCHES, KERNELS):
        return f": {found.counts_sentence}" if found.counts_sentence and worst.delta > 0 else ""
    if worst.metric not in (STEP_TIME, THROUGHPUT) or found.sentence is None:
        return ""
    slower = slower_by(worst)
    # What a profile explains and what was measured without it are other times, but alike as shares.
    if found.explained_ms < LEAST_EXPLAINED * slower * found.base_step_ms:
        return ""
    return f": {'under the profiler ' if found.under_profiler else ''}{found.sentence}"


def slower_by(change: Change) -> float:
    """The share of time that a step or a token takes more; below zero where it is faster."""
    delta = change.delta or 0.0
    # A throughput of nearly nothing is infinitely slow.
    return delta if change.metric == STEP_TIME else 1 / max(1 + delta, 1e-9) - 1


def in_plain_words(change: Change, changes: Iterable[Change] = ()) -> str:
    """`25.0 % slower (400 ms → 500 ms a step)`; what is no time is described as it is.

    The step is what people know, so it is named where the change is the throughput's.
    """
    if change.metric not in (STEP_TIME, THROUGHPUT) or not change.delta:
        return describe(change)
    share = slower_by(change)
    words = f"{abs(share) * 100:.1f} % {'slower' if share > 0 else 'faster'}"
    step = next((one for one in (change, *changes) if one.metric == STEP_TIME), None)
    # Steps of other sizes have other times: then the share is that of a token.
    if step is None or step.delta is None or abs(step.delta - share) > SAME_SHARE:
        return words
    metric = metric_of(step)
    return f"{words} ({metric.show(step.base)} → {metric.show(step.head)} a step)"


def describe(change: Change) -> str:
    """A change in words: `Step time +25.0 % (400 ms → 500 ms)`."""
    metric = metric_of(change)
    delta = metric.show_delta(change.delta) if change.delta is not None else "not compared"
    values = f"{metric.show_or_dash(change.base)} → {metric.show_or_dash(change.head)}"
    return f"{metric.label} {delta} ({values})"


def describe_trend(trend: Trend) -> str:
    """A trend in words: `Step time +5.0 % (400 ms → 420 ms) since …, between … and …`."""
    metric = metric_named(trend.metric)
    values = f"{metric.show(trend.before)} → {metric.show(trend.after)}"
    changed = f"{metric.label} {metric.show_delta(trend.delta)} ({values})"
    old, new = (
        commit[:12] if commit else "a run" for commit in (trend.last_before, trend.first_after)
    )
    if trend.kind == "drift":
        return f"{changed} in slow steps, from {old} to {new}"
    return f"{changed} since {trend.created_at[:10]}, between {old} and {new}"
