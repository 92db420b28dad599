"""What changed × how sure that is × the policy → the verdict of each case, over a whole report.

A case is first asked whether it can be judged at all. Then each gated metric is weighed by the best
evidence there is: pairs of launches, the branch's history, an exact count, or one number a side.
The chance of a false failure is shared by all metrics and cases of the report (Holm's procedure).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ci_score import noise
from ci_score.metrics import STEP_TIME, THROUGHPUT, Kind, metric_named
from ci_score.models import (
    Baseline,
    BaselineFound,
    BaselineMissing,
    CaseRecord,
    Change,
    Contribution,
    HistoryPoint,
    JudgedBy,
    Outcome,
    Severity,
    Unjudged,
    Verdict,
)
from ci_score.noise import Evidence
from ci_score.policy import CaseRules, GateRule
from ci_score.verdict import describe, unjudged, where_it_went

SAME_TOKENS = 0.02
_SEVERITIES = {Outcome.WARN: Severity.WARNING, Outcome.FAIL: Severity.CRITICAL}
_REFERENCE_OUTCOMES = {Severity.WARNING: Outcome.WARN, Severity.CRITICAL: Outcome.FAIL}

MISSING_WORDS = {
    Unjudged.FIRST_RUN: "there is no baseline yet, this is the first run",
    Unjudged.NEW_CASE: "the baselines do not know this case yet",
    Unjudged.ENVIRONMENT_CHANGED: "it was measured on something else than its baselines",
    Unjudged.ALL_UNUSABLE: "none of the baselines found can be used",
}
REFERENCE_BASIS = "Unverified: one number a side, judged by the reference's fixed limits."
UNVERIFIED_BASIS = "Unverified: one number a side cannot be told from noise, so it warns at most."


@dataclass(frozen=True, slots=True)
class Trial:
    """A case with everything that its verdict rests on."""

    case: CaseRecord
    rules: CaseRules
    baseline: Baseline
    changes: tuple[Change, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    history: tuple[HistoryPoint, ...] = ()
    demands: tuple[tuple[Outcome, str], ...] = ()
    accepted: Mapping[str, tuple[float, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Finding:
    """A gated metric's change with the evidence on it."""

    change: Change
    rule: GateRule
    evidence: Evidence | None = None

    @property
    def fail_score(self) -> float | None:
        return None if self.rule.fail is None else self.rule.metric.limit_score(self.rule.fail)

    @property
    def is_tested(self) -> bool:
        """Whether it takes part in the report's shared chance of a false failure."""
        return self.rule.gate and self.evidence is not None and self.fail_score is not None

    def is_proven(self, chance: float) -> bool:
        """Whether it is worse than what fails, wrongly said with that chance."""
        limit = self.fail_score
        return (
            self.evidence is not None and limit is not None and self.evidence.proves(limit, chance)
        )


def judge(trials: Sequence[Trial]) -> list[CaseRecord]:
    """Every case with its verdict; the report's chance of a false failure is shared by all."""
    standings = [_standing(trial) for trial in trials]
    findings = [
        [] if isinstance(standing, Verdict) else _findings(trial)
        for trial, standing in zip(trials, standings, strict=True)
    ]
    chances = _shared_chances(trials, findings)
    return [
        _unjudged_case(trial, standing)
        if isinstance(standing, Verdict)
        else _judged_case(trial, standing, rows, chances)
        for trial, standing, rows in zip(trials, standings, findings, strict=True)
    ]


# --- can it be judged at all? -------------------------------------------------------------------


def _standing(trial: Trial) -> BaselineFound | Verdict:
    """What the case is judged against, or the verdict that it cannot be."""
    case, rules = trial.case, trial.rules
    if not case.has_a_time:
        words = case.unmeasured or "no step time and no throughput was measured"
        return unjudged(Unjudged.CRASHED_RUN if case.crashed else Unjudged.NOTHING_MEASURED, words)
    disturbed = [
        f"{what}: {words}"
        for what, words in case.environment.disturbances.items()
        if what in rules.environment.reject
    ]
    if disturbed:
        return unjudged(
            Unjudged.INVALID_MEASUREMENT,
            f"the measurement was disturbed ({disturbed[0]})",
            *disturbed,
        )
    if rules.measure.design == "interleaved" and not _sides(case)[1]:
        return unjudged(
            Unjudged.NOT_AS_DESIGNED,
            "the policy asks for interleaved launches of both sides, and the base's are not there",
        )
    if isinstance(trial.baseline, BaselineMissing):
        missing = trial.baseline
        words = MISSING_WORDS.get(missing.reason, missing.reason.value)
        return unjudged(missing.reason, words, *_details(missing))
    return _incomparable(trial, trial.baseline) or trial.baseline


def _incomparable(trial: Trial, baseline: BaselineFound) -> Verdict | None:
    case, rules = trial.case, trial.rules
    mismatch = case.environment.mismatch(baseline.case.environment, rules.environment.match)
    if mismatch is not None:
        words = MISSING_WORDS[Unjudged.ENVIRONMENT_CHANGED]
        return unjudged(Unjudged.ENVIRONMENT_CHANGED, words, mismatch, *baseline.used.skipped)
    less = _less_work(case, baseline.case, rules)
    if less is not None:
        return unjudged(Unjudged.OTHER_WORK, f"it did not do the same work ({less})")
    if not any(_is_time(change) for change in trial.changes):
        return unjudged(
            Unjudged.NOTHING_MEASURED, "neither step time nor throughput is known on both sides"
        )
    return None


def _is_time(change: Change) -> bool:
    """A share of the wall time alone does not say how long anything takes."""
    return change.delta is not None and change.metric in (STEP_TIME, THROUGHPUT)


def _less_work(head: CaseRecord, base: CaseRecord, rules: CaseRules) -> str | None:
    """What the head left out that the base did: being faster so is no improvement."""
    if "valid_steps" in rules.environment.same_work:
        mine, theirs = head.metrics.get("valid_steps"), base.metrics.get("valid_steps")
        if mine is not None and theirs is not None and mine < theirs:
            return f"{mine:g} valid steps here, {theirs:g} there"
    return None


def _other_loss(head: CaseRecord, base: CaseRecord, rules: CaseRules) -> str | None:
    mine, theirs = head.metrics.get("final_loss"), base.metrics.get("final_loss")
    if "final_loss" not in rules.environment.same_work or mine is None or theirs is None:
        return None
    if abs(mine - theirs) <= rules.environment.loss_tolerance * abs(theirs):
        return None
    return f"the final loss is {mine:.4g} here and {theirs:.4g} there: is it the same work?"


def _details(missing: BaselineMissing) -> list[str]:
    """Why there is none, and each record that was looked at; said once each."""
    details = [missing.detail, *missing.skipped]
    return [
        detail for place, detail in enumerate(details) if detail and detail not in details[:place]
    ]


def _unjudged_case(trial: Trial, standing: Verdict) -> CaseRecord:
    """A case without judgement; what it was once compared with does not stay with it.

    A demand that needs no baseline, such as a budget, fails even so.
    """
    found = isinstance(trial.baseline, BaselineFound)
    verdict = standing
    if trial.case.has_a_time:
        verdict = _with_demands(standing, (*_budgets(trial), *trial.demands))
    return trial.case.model_copy(
        update={
            "baseline": trial.baseline.used if isinstance(trial.baseline, BaselineFound) else None,
            "changes": trial.changes if found else (),
            "contributions": (),
            "verdict": verdict,
        }
    )


# --- the evidence -------------------------------------------------------------------------------


def _findings(trial: Trial) -> list[_Finding]:
    rows = []
    for change in trial.changes:
        rule = trial.rules.gate(change.metric)
        if rule is not None:
            rows.append(_Finding(change, rule, _evidence(trial, change, rule)))
    return rows


def _evidence(trial: Trial, change: Change, rule: GateRule) -> Evidence | None:
    if change.delta is None or rule.metric.kind is Kind.EXACT:
        return None
    return _of_pairs(trial.case, rule) or _of_history(trial, rule)


def _sides(case: CaseRecord) -> tuple[dict[int, dict[str, float]], dict[int, dict[str, float]]]:
    """What each launch of the head and of the base measured, by the launch's number."""
    head = {one.launch: one.values for one in case.launches if one.side == "head"}
    base = {one.launch: one.values for one in case.launches if one.side == "base"}
    return head, base


def _of_pairs(case: CaseRecord, rule: GateRule) -> Evidence | None:
    head, base = _sides(case)
    name, score = rule.metric.name, rule.metric.score
    pairs = [
        (head[launch][name], base[launch][name])
        for launch in sorted(head.keys() & base.keys())
        if name in head[launch] and name in base[launch]
    ]
    usable = [pair for pair in pairs if min(pair) > 0 or not rule.metric.relative]
    return noise.paired([score(mine) for mine, _ in usable], [score(his) for _, his in usable])


def _of_history(trial: Trial, rule: GateRule) -> Evidence | None:
    """Single launches are judged by the branch's history; one launch of it is one number."""
    if trial.rules.measure.design in ("single", "interleaved"):
        return None
    metric = rule.metric
    now = metric.value(trial.case)
    numbers = [_of_point(point, metric.name) for point in comparable_points(trial)]
    past = [number for number in numbers if number is not None and number > 0]
    if now is None or now <= 0:
        return None
    return noise.against_history([metric.score(now)], [metric.score(number) for number in past])


def _of_point(point: HistoryPoint, metric: str) -> float | None:
    known = {STEP_TIME: point.step_time_ms, THROUGHPUT: point.throughput_tok_s}
    return known.get(metric, point.metrics.get(metric))


def comparable_points(trial: Trial) -> list[HistoryPoint]:
    """The branch's runs of this case that were measured as this one was, the oldest first."""
    case, keys = trial.case, trial.rules.environment.match
    return [
        point
        for point in trial.history
        if point.case == case.name
        and case.environment.mismatch(point.environment, keys) is None
        and not _other_size(case.tokens_per_step, point.tokens_per_step)
    ]


def _other_size(mine: float | None, theirs: float | None) -> bool:
    return bool(mine and theirs and abs(mine / theirs - 1) > SAME_TOKENS)


def _shared_chances(
    trials: Sequence[Trial], findings: Sequence[Sequence[_Finding]]
) -> dict[int, float]:
    """Holm's procedure: the chance of error at which each finding (by identity) is tested.

    The surest is tested at an equal share; each one that is proven leaves its share to the others.
    """
    waiting = [
        (row, trial.rules.measure.false_fail)
        for trial, rows in zip(trials, findings, strict=True)
        for row in rows
        if row.is_tested
    ]
    chances: dict[int, float] = {}
    while waiting:
        share = {id(row): chance / len(waiting) for row, chance in waiting}
        chances |= share
        unproven = [(row, chance) for row, chance in waiting if not row.is_proven(share[id(row)])]
        if len(unproven) == len(waiting):
            break
        waiting = unproven
    return chances


# --- the verdict --------------------------------------------------------------------------------


def _judged_case(
    trial: Trial,
    baseline: BaselineFound,
    findings: Sequence[_Finding],
    chances: Mapping[int, float],
) -> CaseRecord:
    cap = _cap(trial, baseline)
    judged = {
        row.change.metric: _weighed(row, trial, chances.get(id(row)), cap) for row in findings
    }
    changes = tuple(judged.get(change.metric, change) for change in trial.changes)
    demands = (*_budgets(trial), *trial.demands)
    verdict = _with_demands(_verdict(trial, changes, findings, chances, cap), demands)
    regressed = any(
        change.outcome in (Outcome.FAIL, Outcome.WARN) or change.accepted for change in changes
    )
    return trial.case.model_copy(
        update={
            "baseline": baseline.used,
            "changes": changes,
            "contributions": trial.contributions if regressed else (),
            "verdict": verdict,
        }
    )


@dataclass(frozen=True, slots=True)
class _Cap:
    """Why nothing here can be worse than a warning."""

    reasons: tuple[str, ...] = ()


def _cap(trial: Trial, baseline: BaselineFound) -> _Cap:
    reasons = []
    away = baseline.used.commits_away or 0
    if away and trial.rules.rules == "training":
        reasons.append(
            f"not attributable: the baseline is {away} commit{'s' if away > 1 else ''} before the"
            " tested base"
        )
    if _other_size(trial.case.tokens_per_step, baseline.case.tokens_per_step):
        reasons.append(
            f"{trial.case.tokens_per_step:g} tokens a step here,"
            f" {baseline.case.tokens_per_step:g} there: compared per token"
        )
    loss = _other_loss(trial.case, baseline.case, trial.rules)
    if loss:
        reasons.append(loss)
    return _Cap(tuple(reasons))


def _weighed(finding: _Finding, trial: Trial, chance: float | None, cap: _Cap) -> Change:
    """The change with its interval, what it was judged by, and what became of it."""
    change, rule = finding.change, finding.rule
    change = change.model_copy(
        update={"gated": rule.gate, "warn_limit": rule.warn, "fail_limit": rule.fail}
    )
    if change.delta is None:
        return change
    change = change.model_copy(update=_interval(finding))
    if not rule.gate:
        return change.model_copy(update={"severity": None})
    outcome, reason = _outcome(finding, trial, chance)
    if outcome is Outcome.FAIL and cap.reasons:
        outcome, reason = Outcome.WARN, f"{reason}; {'; '.join(cap.reasons)}"
    accepted = _acceptance(finding, outcome, trial)
    if accepted is not None:
        outcome = Outcome.PASS
    return change.model_copy(
        update={
            "outcome": outcome,
            "reason": reason,
            "accepted": accepted,
            "severity": _SEVERITIES.get(outcome),
        }
    )


def _interval(finding: _Finding) -> dict[str, object]:
    """The 95 % interval of the delta, and what it rests on."""
    evidence, metric = finding.evidence, finding.rule.metric
    if evidence is None:
        exact = metric.kind is Kind.EXACT
        return {"judged_by": JudgedBy.EXACT if exact else JudgedBy.UNVERIFIED}
    ends = [
        metric.delta_of_score(evidence.at_most(noise.SURE / 2)),
        metric.delta_of_score(2 * evidence.worsening - evidence.at_most(noise.SURE / 2)),
    ]
    return {
        "delta": metric.delta_of_score(evidence.worsening),
        "low": min(ends),
        "high": max(ends),
        "judged_by": JudgedBy.PAIRED if evidence.kind == "paired" else JudgedBy.HISTORY,
        "samples": evidence.samples,
    }


def _outcome(finding: _Finding, trial: Trial, chance: float | None) -> tuple[Outcome, str | None]:
    if finding.evidence is not None:
        return _of_evidence(finding, finding.evidence, chance)
    change, rule = finding.change, finding.rule
    worse = rule.metric.worsening(change.delta or 0.0)
    if rule.metric.kind is Kind.EXACT:
        if rule.fail is not None and worse > rule.fail:
            return Outcome.FAIL, "a count, which does not vary from run to run"
        return (Outcome.WARN if worse > rule.warn else Outcome.PASS), None
    if trial.rules.rules == "reference" and trial.rules.measure.design is None:
        return _of_reference(change, finding)
    return (
        (Outcome.WARN, "unverified: one number a side")
        if worse > rule.warn
        else (
            Outcome.PASS,
            None,
        )
    )


def _of_reference(change: Change, finding: _Finding) -> tuple[Outcome, str | None]:
    """The reference's own limits as it applies them, or those that the policy puts there."""
    rule = finding.rule
    if not rule.named and change.severity is None:
        return Outcome.PASS, None
    if not rule.named and change.severity is not None:
        return _REFERENCE_OUTCOMES[change.severity], change.severity.value
    worse = rule.metric.worsening(change.delta or 0.0)
    if rule.fail is not None and worse > rule.fail:
        return Outcome.FAIL, Severity.CRITICAL.value
    return (Outcome.WARN, Severity.WARNING.value) if worse > rule.warn else (Outcome.PASS, None)


def _of_evidence(
    finding: _Finding, evidence: Evidence, chance: float | None
) -> tuple[Outcome, str | None]:
    """Fail what is proven beyond the limit; warn of what only looks so; say what is too noisy."""
    metric, limit = finding.rule.metric, finding.fail_score
    warn = metric.limit_score(finding.rule.warn)
    if limit is not None and chance is not None and evidence.proves(limit, chance):
        surely = metric.show_delta(metric.delta_of_score(evidence.at_least(chance)))
        return Outcome.FAIL, f"confirmed: at least {surely}"
    if evidence.worsening > (limit if limit is not None else warn):
        if limit is None and evidence.at_least(noise.SURE) > warn:
            return Outcome.WARN, "confirmed"
        return Outcome.WARN, _what_would_prove_it(evidence, limit, chance)
    if evidence.at_least(noise.SURE) > warn:
        return Outcome.WARN, "confirmed, within the limit that fails"
    most = evidence.at_most(noise.SURE)
    if most <= (limit if limit is not None else warn):
        return Outcome.PASS, None
    hidden = metric.show_delta(metric.delta_of_score(most))
    return Outcome.INCONCLUSIVE, f"too noisy: up to {hidden} could hide in it"


def _what_would_prove_it(evidence: Evidence, limit: float | None, chance: float | None) -> str:
    words = "not proven: it may be noise"
    if evidence.kind == "history":
        return f"{words}; interleaved launches of head and base would tell"
    pairs = evidence.pairs_to_prove(limit or 0.0, chance or noise.SURE)
    if pairs is None:
        return f"{words}; this machine is too noisy to prove it with {noise.MOST_PAIRS} pairs"
    return f"{words}; {pairs} pairs would prove it, {evidence.samples} were measured"


def _acceptance(finding: _Finding, outcome: Outcome, trial: Trial) -> str | None:
    """The reason why somebody with write access lets a worsening up to a bound pass."""
    found = trial.accepted.get(finding.rule.metric.name)
    if found is None or outcome is not Outcome.FAIL:
        return None
    bound, words = found
    worse = finding.rule.metric.worsening(finding.change.delta or 0.0)
    if finding.evidence is not None:
        delta = finding.rule.metric.delta_of_score(finding.evidence.worsening)
        worse = finding.rule.metric.worsening(delta)
    return words if worse <= bound else None


def _budgets(trial: Trial) -> Iterable[tuple[Outcome, str]]:
    """Absolute limits need no baseline."""
    for name, most in trial.rules.budgets.items():
        rule = trial.rules.gate(name)
        metric = rule.metric if rule else metric_named(name)
        value = metric.value(trial.case)
        beyond = value is not None and (value < most if metric.higher_is_better else value > most)
        if value is not None and beyond:
            word = "under" if metric.higher_is_better else "over"
            yield (
                Outcome.FAIL,
                f"{metric.label} {metric.show(value)} is {word} its budget of {metric.show(most)}",
            )


def _with_demands(verdict: Verdict, demands: Sequence[tuple[Outcome, str]]) -> Verdict:
    """What holds without a baseline (budgets, parity) decides where it is worse."""
    broken = [(outcome, words) for outcome, words in demands if outcome is not Outcome.PASS]
    if not broken:
        return verdict
    outcome = Outcome.worst([verdict.outcome, *(outcome for outcome, _ in broken)])
    reasons = (*verdict.reasons, *(words for _, words in broken))
    worse = outcome is not verdict.outcome
    decisive = next((words for found, words in broken if found is outcome), verdict.headline)
    return verdict.model_copy(
        update={
            "outcome": outcome,
            "headline": decisive if worse else verdict.headline,
            "reasons": reasons,
            "unjudged": None if worse else verdict.unjudged,
        }
    )


def _verdict(
    trial: Trial,
    changes: Sequence[Change],
    findings: Sequence[_Finding],
    chances: Mapping[int, float],
    cap: _Cap,
) -> Verdict:
    gated = [change for change in changes if change.outcome is not None]
    outcome = Outcome.worst([change.outcome or Outcome.PASS for change in gated] or [Outcome.PASS])
    visible = _smallest_visible(findings, chances)
    noisy = outcome is Outcome.INCONCLUSIVE
    return Verdict(
        outcome=outcome,
        headline=_headline(trial, gated, outcome, visible),
        reasons=(
            *(_reason(change) for change in gated if _is_worth_a_word(change)),
            *cap.reasons,
            *_unknown_keys(trial),
        ),
        unjudged=Unjudged.TOO_NOISY if noisy else None,
        basis=_basis(trial, gated),
        smallest_visible_slowdown=visible,
    )


def _is_worth_a_word(change: Change) -> bool:
    return change.outcome is not Outcome.PASS or change.accepted is not None


def _reason(change: Change) -> str:
    said = [describe(change)]
    if change.accepted:
        said.append(f"accepted: {change.accepted}")
    elif change.reason:
        said.append(change.reason)
    return ": ".join(said)


def _unknown_keys(trial: Trial) -> list[str]:
    if not isinstance(trial.baseline, BaselineFound):
        return []
    keys = trial.case.environment.unknown_beside(
        trial.baseline.case.environment, trial.rules.environment.match
    )
    return [f"only one side says its {', '.join(keys)}: taken as the same"] if keys else []


def _basis(trial: Trial, gated: Sequence[Change]) -> str:
    """How the numbers came to be judged, in one sentence."""
    times = [change for change in gated if change.judged_by in (JudgedBy.PAIRED, JudgedBy.HISTORY)]
    if not times:
        reference = trial.rules.rules == "reference"
        return REFERENCE_BASIS if reference else UNVERIFIED_BASIS
    first = times[0]
    if first.judged_by is JudgedBy.PAIRED:
        return f"Judged by {first.samples} pairs of launches of both sides."
    return f"Judged by the spread of {first.samples} runs of the branch."


def _headline(
    trial: Trial, gated: Sequence[Change], outcome: Outcome, visible: float | None
) -> str:
    """The one sentence that matters: the worst change, and where most of it comes from."""
    if outcome is Outcome.INCONCLUSIVE:
        noisy = next(change for change in gated if change.outcome is Outcome.INCONCLUSIVE)
        return f"Not judged: {metric_named(noisy.metric).label.lower()} is {noisy.reason}"
    accepted = next((change for change in gated if change.accepted), None)
    if outcome is Outcome.PASS and accepted is not None:
        return f"{describe(accepted)}, accepted: {accepted.accepted}"
    if outcome is Outcome.PASS:
        return _passed(gated, visible)
    # Of equally severe ones the step time, which is what people feel.
    worst = max(
        (change for change in gated if change.outcome is outcome),
        key=lambda change: change.metric == STEP_TIME,
    )
    proven = worst.judged_by in (JudgedBy.PAIRED, JudgedBy.HISTORY)
    sure = ""
    if proven:
        confirmed = (worst.reason or "").startswith("confirmed")
        sure = " (confirmed)" if confirmed else " (not proven)"
    explains = not proven or sure == " (confirmed)"
    return describe(worst) + sure + (where_it_went(worst, trial.contributions) if explains else "")


def _passed(gated: Sequence[Change], visible: float | None) -> str:
    proven = any(change.judged_by in (JudgedBy.PAIRED, JudgedBy.HISTORY) for change in gated)
    if visible is None:
        return "No regression beyond the limits"
    if proven:
        return f"No slowdown. Anything above +{visible:.1%} would have shown"
    return f"No slowdown beyond {visible:.0%}"


def _smallest_visible(findings: Sequence[_Finding], chances: Mapping[int, float]) -> float | None:
    """The least slowdown that would have been noticed, of the metric that sees it best."""
    seen: list[float] = []
    for row in findings:
        if row.change.delta is None or not row.rule.gate:
            continue
        if row.change.metric not in (STEP_TIME, THROUGHPUT):
            continue
        if row.evidence is None:
            seen.append(row.rule.warn)
            continue
        reach = row.evidence.reach(chances.get(id(row), noise.SURE))
        shown = row.rule.metric.delta_of_score(reach)
        seen.append(abs(shown))
    return min(seen, default=None)
