"""The verdict of a case in words: the one sentence that matters, the reasons, and how sure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ci_score.judge.decision import CONFIRMED, not_attributable
from ci_score.judge.error_budget import TIMES
from ci_score.judge.evidence import complete_pairs, gate_rules
from ci_score.judge.trial import Finding, Trial
from ci_score.judge.verdict import describe, in_plain_words, why
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, metric_named
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import Change, JudgedBy, Outcome, Unjudged, Verdict

REFERENCE_BASIS = "Unverified: one number a side, judged by the reference's fixed limits."
UNVERIFIED_BASIS = "Unverified: one number a side cannot be told from noise, so it warns at most."
_STATISTICAL = (JudgedBy.PAIRED, JudgedBy.HISTORY)


def verdict_of(
    trial: Trial,
    baseline: BaselineFound,
    changes: Sequence[Change],
    findings: Sequence[Finding],
    held_back_by: Sequence[str],
) -> Verdict:
    """What becomes of the case, by its worst gated change."""
    gated = [change for change in changes if change.outcome is not None]
    outcome = Outcome.worst([change.outcome or Outcome.PASS for change in gated] or [Outcome.PASS])
    visible = _smallest_visible(findings, outcome)
    return Verdict(
        outcome=outcome,
        headline=_headline(trial, changes, gated, visible),
        reasons=(
            *(_reason(change) for change in gated if _is_worth_a_word(change)),
            *(_not_compared(change) for change in changes if _is_lost_gate(change)),
            *_said_once(not_attributable(baseline), *held_back_by),
            *_unknown_keys(trial, baseline),
            *_without_partner(trial),
            *_could_have_seen(gated, outcome, visible),
        ),
        unjudged=_unjudged(gated) if outcome is Outcome.INCONCLUSIVE else None,
        basis=_basis(trial, gated),
        smallest_visible_slowdown=visible,
    )


# --- reasons ------------------------------------------------------------------------------------


def _is_worth_a_word(change: Change) -> bool:
    return change.outcome is not Outcome.PASS or change.accepted is not None


def _reason(change: Change) -> str:
    said = [describe(change)]
    if change.accepted:
        said.append(f"accepted: {change.accepted}")
    elif change.reason:
        said.append(change.reason)
    return ": ".join(said)


def _is_lost_gate(change: Change) -> bool:
    """A gated number that only the baseline has; one that the policy names has its own reason."""
    lost = change.delta is None and change.gated and change.base > 0 and not change.head
    return lost and change.outcome is None


def _not_compared(change: Change) -> str:
    return f"{metric_named(change.metric).label} is not compared: {change.not_compared}"


def _said_once(*words: str | None) -> list[str]:
    return list(dict.fromkeys(said for said in words if said))


def _unknown_keys(trial: Trial, baseline: BaselineFound) -> list[str]:
    keys = trial.case.environment.unknown_beside(
        baseline.case.environment, trial.rules.environment.match
    )
    return [f"only one side says its {', '.join(keys)}: taken as the same"] if keys else []


def _unjudged(gated: Sequence[Change]) -> Unjudged:
    lost = any(change.delta is None for change in gated)
    return Unjudged.NOTHING_MEASURED if lost else Unjudged.TOO_NOISY


def _basis(trial: Trial, gated: Sequence[Change]) -> str:
    """How the numbers came to be judged, in one sentence for each way."""
    samples = {change.judged_by: change.samples for change in gated}
    said = []
    if JudgedBy.PAIRED in samples:
        said.append(f"Judged by {samples[JudgedBy.PAIRED]} pairs of launches of both sides.")
    if JudgedBy.HISTORY in samples:
        runs = samples[JudgedBy.HISTORY]
        said.append(f"Judged by the level and the spread of {runs} runs of the branch.")
    if said:
        return " ".join(said)
    return REFERENCE_BASIS if trial.rules.rules == "reference" else UNVERIFIED_BASIS


# --- the headline -------------------------------------------------------------------------------


def _could_have_seen(gated: Sequence[Change], outcome: Outcome, visible: float | None) -> list[str]:
    """The smallest slowdown that this run could have seen; a pass says it in its first line."""
    is_proven = any(change.judged_by in _STATISTICAL for change in gated)
    if visible is None or outcome is Outcome.PASS or not is_proven:
        return []
    return [f"the smallest slowdown that would have shown here is {_share(visible)}"]


def _without_partner(trial: Trial) -> list[str]:
    """How many launches stand alone: they are no pairs, and count for nothing."""
    pairs = len(complete_pairs(trial.case, STEP_TIME))
    sides = [sum(one.side == side for one in trial.case.launches) for side in ("head", "base")]
    alone = sum(sides) - 2 * pairs
    if not min(sides) or not alone:
        return []
    return [f"{alone} of {sum(sides)} launches have no partner on the other side, and do not count"]


def _share(value: float) -> str:
    return f"{value * 100:.1f} %" if value >= 0.001 else "below 0.1 %"


def _headline(
    trial: Trial, changes: Sequence[Change], gated: Sequence[Change], visible: float | None
) -> str:
    """The worst change, and where most of it comes from."""
    outcome = Outcome.worst([change.outcome or Outcome.PASS for change in gated] or [Outcome.PASS])
    if outcome is Outcome.PASS:
        return _passed(trial, changes, gated, visible)
    # Of equally severe ones the step time, which is what people feel.
    worst = max(
        (change for change in gated if change.outcome is outcome),
        key=lambda change: change.metric == STEP_TIME,
    )
    if outcome is Outcome.INCONCLUSIVE:
        return f"Not judged: {metric_named(worst.metric).label.lower()} is {worst.reason}"
    said = in_plain_words(worst, changes)
    if worst.judged_by not in _STATISTICAL:
        doubt = " (unverified)" if worst.judged_by is JudgedBy.UNVERIFIED else ""
        return said + doubt + why(worst, trial.case.explanation)
    if (worst.reason or "").startswith(CONFIRMED):
        return f"{said} (confirmed){why(worst, trial.case.explanation)}"
    return f"{said} (not proven)"


def _passed(
    trial: Trial, changes: Sequence[Change], gated: Sequence[Change], visible: float | None
) -> str:
    if not any(rule.gate for rule in gate_rules(trial).values()):
        times = [one for one in changes if one.metric in TIMES and one.delta is not None]
        told = f": {in_plain_words(times[-1], changes)}" if times else ""
        return f"Nothing is gated by the policy, so this is only reported{told}"
    accepted = next((change for change in gated if change.accepted), None)
    if accepted is not None:
        return f"{describe(accepted)}, accepted: {accepted.accepted}"
    if visible is None:
        return "No regression beyond the limits"
    if any(change.judged_by in _STATISTICAL for change in gated):
        faster = next((change for change in gated if _is_surely_better(change)), None)
        if faster is not None:
            return f"{in_plain_words(faster, changes)} (confirmed)"
        what = "slowdown beyond the limits" if any(map(_is_surely_worse, gated)) else "slowdown"
        return f"No {what}. Anything above {_at_least(visible)} would have shown"
    return f"No slowdown beyond {visible * 100:g} % (unverified)"


def _at_least(visible: float) -> str:
    return f"+{max(visible * 100, 0.1):.1f} %"


def _is_surely_worse(change: Change) -> bool:
    """Whether the whole interval lies on the worse side of no change at all."""
    worsening = metric_named(change.metric).worsening
    ends = (change.low, change.high)
    return change.metric in TIMES and all(end is not None and worsening(end) > 0 for end in ends)


def _is_surely_better(change: Change) -> bool:
    """Whether the whole interval lies on the better side of no change at all."""
    worsening = metric_named(change.metric).worsening
    ends = (change.low, change.high)
    return change.metric in TIMES and all(end is not None and worsening(end) < 0 for end in ends)


def _smallest_visible(findings: Sequence[Finding], outcome: Outcome) -> float | None:
    """The least slowdown that would have been noticed, of the metric that sees it best.

    Of a pass no slowdown above it could hide; of others it is how far luck reaches.
    """
    seen: list[float] = []
    for row in findings:
        if row.change.metric not in (STEP_TIME, THROUGHPUT) or row.change.delta is None:
            continue
        if not row.rule.gate:
            continue
        if row.evidence is None:
            seen.append(row.rule.warn)
            continue
        most = row.evidence.smallest_visible(of_a_pass=outcome is Outcome.PASS)
        seen.append(math.expm1(min(most, 700.0)) if row.rule.metric.relative else most)
    return min(seen, default=None)
