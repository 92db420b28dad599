"""The verdict of each case of a report: cases beside their baselines × history × policy.

- A *trial* is a case with everything that its verdict rests on.
- `eligibility` asks first whether it can be judged at all, and against what; and what is raised
  against its being green.
- A *finding* is a metric's change with its limits and the best `evidence` on it: pairs of launches,
  the branch's history, an exact count, or one number a side.
- `error_budget` shares the chance of a false failure among all that pairs test in the report.
- `decision` says what becomes of each finding, by `pairs`, `history`, a count or one number.
- `budgets` and `parity` demand what needs no baseline; `summary` puts the case's verdict together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.judge.acceptance import accepted_for
from ci_score.judge.budgets import with_demands
from ci_score.judge.decision import weighed
from ci_score.judge.eligibility import eligible, objections
from ci_score.judge.error_budget import shared_chances
from ci_score.judge.evidence import findings_of
from ci_score.judge.losses import loss_varies
from ci_score.judge.parity import parity_demands, parity_with_a_case
from ci_score.judge.policy import CaseRules, GateRule, Policy, passes, rules_of
from ci_score.judge.summary import as_far_as_proven, verdict_of
from ci_score.judge.trial import Finding, Objection, Trial
from ci_score.model.explanation import Contribution, Explanation
from ci_score.model.reasons import Reason, Why, quoted
from ci_score.model.record import BaselineUsed, HistoryPoint, Judged, Measured
from ci_score.model.scorecard import Parity, Regression
from ci_score.model.stages import BaselineFound, Compared, Difference
from ci_score.model.verdict import Acceptance, Change, Outcome, Unjudged, Verdict


def decide(
    cases: Sequence[Compared],
    branch: tuple[HistoryPoint, ...],
    policy: Policy,
    acceptances: Sequence[Acceptance] = (),
) -> list[Judged]:
    """Every case with its verdict.

    Pure, so it is called again for acceptances and for another policy. What failed on another kind
    of machine stays until it is measured there again, or accepted.
    """
    judged = _decided(cases, branch, policy, acceptances)
    return [
        done
        if done.verdict and done.verdict.outcome is Outcome.FAIL
        else (_red_elsewhere(case, branch, policy, acceptances) or done)
        for case, done in zip(cases, judged, strict=True)
    ]


def _red_elsewhere(
    case: Compared,
    branch: tuple[HistoryPoint, ...],
    policy: Policy,
    acceptances: Sequence[Acceptance],
) -> Judged | None:
    """The case as an earlier attempt measured it on another machine, where that fails."""
    for other in case.elsewhere:
        (done,) = _decided([other], branch, policy, acceptances)
        differs = case.measured.environment.mismatch(done.environment)
        if differs and done.verdict and done.verdict.outcome is Outcome.FAIL:
            reasons = (Why.RED_ELSEWHERE(why=differs), *done.verdict.reasons)
            return done.but(verdict=done.verdict.but(reasons=reasons))
    return None


def _decided(
    cases: Sequence[Compared],
    branch: tuple[HistoryPoint, ...],
    policy: Policy,
    acceptances: Sequence[Acceptance],
) -> list[Judged]:
    named = {case.measured.name: case.measured for case in cases}
    trials = [
        _trial(
            case,
            branch,
            rules_of(policy, case.measured.name, in_pairs=case.measured.has_both_sides),
            named,
            acceptances,
        )
        for case in cases
    ]
    # What each case is judged against, or the verdict that it cannot be judged.
    against = [eligible(trial) for trial in trials]
    findings = [
        [] if isinstance(base, Verdict) else findings_of(trial)
        for trial, base in zip(trials, against, strict=True)
    ]
    chances = shared_chances([trial.rules for trial in trials], findings)
    return [
        _unjudged_case(trial, base, policy, named)
        if isinstance(base, Verdict)
        else _judged_case(trial, base, policy, named, rows, shares)
        for trial, base, rows, shares in zip(trials, against, findings, chances, strict=True)
    ]


# --- what is judged -----------------------------------------------------------------------------


def _trial(
    case: Compared,
    branch: tuple[HistoryPoint, ...],
    rules: CaseRules,
    named: Mapping[str, Measured],
    acceptances: Sequence[Acceptance],
) -> Trial:
    demands = (
        demand for rule in rules.parities for demand in parity_demands(rule, case.measured, named)
    )
    measured, changes = case.measured, tuple[Change, ...]()
    try:
        with overflow_is_bad_input(f"case {measured.name}"):
            changes = tuple(_changes(case, rules))
    except BadInputError as error:
        measured = measured.but(unmeasured=quoted(str(error)))
    return Trial(
        measured,
        rules,
        case.baseline,
        recorded=case.recorded,
        changes=changes,
        contributions=case.contributions,
        explanation=case.explanation,
        base=case.base,
        history=branch,
        demands=tuple(demands),
        accepted=accepted_for(acceptances, case.measured.name),
    )


def _changes(case: Compared, rules: CaseRules) -> Iterator[Change]:
    """The differences of the metrics that the policy knows, in its order and its direction."""
    by_name = {row.metric: row for row in case.differences}
    for gate in rules.gates:
        metric, row = gate.metric, by_name.get(gate.metric.name)
        if row is None or (row.base is None and row.head is None):
            row = _lost_on_both_sides(case, gate) or row
        if row is None:
            continue
        known = row.base is not None and row.head is not None and row.not_compared is None
        delta = metric.delta(row.base or 0.0, row.head or 0.0) if known else None
        yield Change(
            metric=metric.name,
            base=row.base or 0.0,
            head=row.head or 0.0,
            delta=delta,
            severity=row.severity,
            not_compared=row.not_compared or _why_not(row, delta),
            higher_is_better=metric.higher_is_better,
            relative=metric.relative,
            unit=metric.unit,
        )


def _lost_on_both_sides(case: Compared, gate: GateRule) -> Difference | None:
    """A metric that the policy names and the branch has measured, and neither side of a session.

    A session may well measure less than the branch does; not what the policy has a word on.
    """
    known = gate.metric.value(case.recorded) if case.recorded is not None else None
    if known is None or not (gate.gate and gate.named):
        return None
    return Difference(gate.metric.name, known, None)


def _why_not(row: Difference, delta: float | None) -> Reason | None:
    """Why there is no change to tell of a metric that a side has measured."""
    if delta is not None or (row.base is None and row.head is None):
        return None
    if row.head is None:
        return Why.ONLY_IN_BASE()
    return Why.ONLY_IN_HEAD() if row.base is None else Why.NO_RATIO()


# --- the judged case ----------------------------------------------------------------------------


def _unjudged_case(
    trial: Trial, why: Verdict, policy: Policy, named: Mapping[str, Measured]
) -> Judged:
    """A case without judgement.

    A demand that needs no baseline, such as a budget, fails even so, unless the numbers are those
    of a disturbed machine.
    """
    changes = trial.changes if isinstance(trial.baseline, BaselineFound) else ()
    return _judged(trial, _with_demands(why, trial), policy, named, changes=changes)


def _judged_case(
    trial: Trial,
    baseline: BaselineFound,
    policy: Policy,
    named: Mapping[str, Measured],
    findings: Sequence[Finding],
    chances: Sequence[float],
) -> Judged:
    weighed_by_metric = {
        row.change.metric: weighed(row, trial, chance)
        for row, chance in zip(findings, chances, strict=True)
    }
    changes = tuple(
        weighed_by_metric[change.metric].change if change.metric in weighed_by_metric else change
        for change in trial.changes
    )
    doubts = [one.unjudged for one in weighed_by_metric.values() if one.unjudged]
    # What may be slower is shown as well, and said as not proven.
    regressed = Unjudged.UNCLEAR in doubts or any(
        change.outcome in (Outcome.FAIL, Outcome.WARN) or change.accepted for change in changes
    )
    raised = [*objections(trial, baseline), *map(Objection, doubts)]
    verdict = verdict_of(trial, baseline, changes, raised, policy)
    return _judged(
        trial,
        _with_demands(verdict, trial),
        policy,
        named,
        changes=changes,
        contributions=trial.contributions if regressed else (),
        explanation=as_far_as_proven(trial.explanation, changes),
    )


def _with_demands(verdict: Verdict, trial: Trial) -> Verdict:
    """With what is demanded without a baseline, unless the numbers are of a disturbed machine."""
    is_disturbed = verdict.unjudged is Unjudged.INVALID_MEASUREMENT
    return verdict if is_disturbed or not trial.case.has_a_time else with_demands(verdict, trial)


def _judged(
    trial: Trial,
    verdict: Verdict,
    policy: Policy,
    named: Mapping[str, Measured],
    *,
    changes: tuple[Change, ...],
    contributions: tuple[Contribution, ...] = (),
    explanation: Explanation | None = None,
) -> Judged:
    verdict = verdict.but(remarks=tuple(_remarks(trial)), may_pass=passes(policy, verdict.unjudged))
    return Judged.of(
        trial.case.but(
            scorecard=trial.case.scorecard.but(regressions=tuple(_regressions(changes))),
            parity=_parity(trial, named),
        ),
        baseline=_baseline_used(trial),
        base=trial.base,
        changes=changes,
        contributions=contributions,
        explanation=explanation,
        verdict=verdict,
    )


def _parity(trial: Trial, named: Mapping[str, Measured]) -> Parity | None:
    """The parity with the partner's file, or with another case of the report."""
    shown = trial.case.parity
    for rule in trial.rules.parities if shown is None else ():
        with suppress(BadInputError):
            shown = shown or parity_with_a_case(rule, trial.case, named)
    return shown


def _baseline_used(trial: Trial) -> BaselineUsed | None:
    """Where the baseline came from, and what else is not the same there."""
    if not isinstance(trial.baseline, BaselineFound):
        return None
    there = trial.baseline.case.environment
    return trial.baseline.used.but(changed_versions=trial.case.environment.versions_since(there))


def _regressions(changes: Iterable[Change]) -> Iterator[Regression]:
    for change in changes:
        if change.severity is not None and change.delta is not None:
            yield Regression(metric=change.metric, delta=change.delta, severity=change.severity)


# --- what the policy makes worth a remark -------------------------------------------------------


def _remarks(trial: Trial) -> Iterator[Reason]:
    case, rules = trial.case, trial.rules
    wanted = rules.measure.warmup_steps
    declared = {one.warmup_steps for one in case.launches if one.warmup_steps is not None}
    if wanted is not None and declared - {wanted}:
        # Another warm-up may leave a compilation in the timed steps.
        yield Why.OTHER_WARM_UP(wanted=wanted, declared=tuple(sorted(declared - {wanted})))
    if rules.measure.design == "interleaved" and case.took_turns is None and case.has_both_sides:
        yield Why.ORDER_NOT_TOLD()
    if loss_varies(trial):
        yield Why.LOSS_VARIES()
    if case.throughput_given:
        yield Why.THROUGHPUT_GIVEN()
