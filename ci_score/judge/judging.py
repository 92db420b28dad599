"""What changed × how sure that is × the policy → the verdict of each case, over a whole report.

A case is first asked whether it can be judged at all (`standing`). Then each gated metric is
weighed (`weighing`) by the best `evidence` there is: pairs of launches, the branch's history, an
exact count, or one number a side. The chance of a false failure is shared by all metrics and cases
of the report (`sharing`), `demands` need no baseline, and `wording` says it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ci_score.judge.budgets import with_demands
from ci_score.judge.decision import caps, weighed
from ci_score.judge.eligibility import standing
from ci_score.judge.error_budget import shared_chances
from ci_score.judge.evidence import findings_of
from ci_score.judge.trial import Finding, Trial
from ci_score.judge.wording import verdict_of
from ci_score.model.explanation import Explanation
from ci_score.model.record import CaseRecord
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import Outcome, Unjudged, Verdict

__all__ = ["Trial", "judge"]


def judge(trials: Sequence[Trial]) -> list[CaseRecord]:
    """Every case with its verdict; the report's chance of a false failure is shared by all."""
    standings = [standing(trial) for trial in trials]
    findings = [
        [] if isinstance(found, Verdict) else findings_of(trial)
        for trial, found in zip(trials, standings, strict=True)
    ]
    chances = shared_chances([_allowed(trial) for trial in trials], findings)
    return [
        _unjudged_case(trial, found)
        if isinstance(found, Verdict)
        else _judged_case(trial, found, rows, shares)
        for trial, found, rows, shares in zip(trials, standings, findings, chances, strict=True)
    ]


def _allowed(trial: Trial) -> float:
    """The chance of a false failure; a session with several looks spends it over all of them."""
    of_this_look = max((launch.look_share for launch in trial.case.launches), default=1.0)
    return trial.rules.measure.false_fail * of_this_look


def _unjudged_case(trial: Trial, why: Verdict) -> CaseRecord:
    """A case without judgement; what it was once compared with does not stay with it.

    A demand that needs no baseline, such as a budget, fails even so, unless the numbers are those
    of a disturbed machine.
    """
    found = trial.baseline if isinstance(trial.baseline, BaselineFound) else None
    is_measured = trial.case.has_a_time and why.unjudged is not Unjudged.INVALID_MEASUREMENT
    return trial.case.model_copy(
        update={
            "baseline": found.used if found else None,
            "changes": trial.changes if found else (),
            "contributions": (),
            "explanation": None,
            "verdict": with_demands(why, trial) if is_measured else why,
        }
    )


def _judged_case(
    trial: Trial,
    baseline: BaselineFound,
    findings: Sequence[Finding],
    chances: Sequence[float | None],
) -> CaseRecord:
    held_back_by = caps(trial, baseline)
    judged = {
        row.change.metric: weighed(row, trial, chance, held_back_by)
        for row, chance in zip(findings, chances, strict=True)
    }
    changes = tuple(judged.get(change.metric, change) for change in trial.changes)
    regressed = any(
        change.outcome in (Outcome.FAIL, Outcome.WARN) or change.accepted for change in changes
    )
    verdict = verdict_of(trial, baseline, changes, findings, held_back_by)
    return trial.case.model_copy(
        update={
            "baseline": baseline.used,
            "changes": changes,
            "contributions": trial.contributions if regressed else (),
            "explanation": _as_far_as_proven(trial.case.explanation, verdict),
            "verdict": with_demands(verdict, trial),
        }
    )


def _as_far_as_proven(found: Explanation | None, verdict: Verdict) -> Explanation | None:
    """The parts of the step, and of what is said in words only what the verdict says, too.

    A reason for a change that is not proven would be a guess.
    """
    if found is None:
        return None
    told = {
        name: words if words and words in verdict.headline else None
        for name, words in (
            ("sentence", found.sentence),
            ("counts_sentence", found.counts_sentence),
        )
    }
    return found.model_copy(update=told)
