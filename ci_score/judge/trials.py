"""A measured case × its baseline × the policy → what it is judged by, and the judged case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ci_score.compare.causes import with_sentences
from ci_score.compare.changes import compare, contributions
from ci_score.compare.explanation import explain
from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.judge.acceptance import accepted_for
from ci_score.judge.eligibility import untold_work
from ci_score.judge.evidence import comparable_points
from ci_score.judge.judging import Trial, judge
from ci_score.judge.parity import parity_demands, parity_with_a_case
from ci_score.judge.policy import DEFAULT_POLICY, CaseRules, Policy, rules_of
from ci_score.judge.trend import trends_of
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, metric_named
from ci_score.model.record import (
    MOST_TRENDS,
    Acceptance,
    BaselineUsed,
    CaseRecord,
    HistoryPoint,
    Trend,
)
from ci_score.model.scorecard import Regression
from ci_score.model.stages import Baseline, BaselineFound
from ci_score.model.verdict import Change


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured, what it is compared with, and what the branch remembers."""

    cases: Sequence[CaseRecord]
    baselines: Sequence[Baseline]
    history: tuple[HistoryPoint, ...]

    def judged(self, policy: Policy, acceptances: Sequence[Acceptance] = ()) -> list[CaseRecord]:
        """The cases with their verdicts under a policy."""
        trials = [
            trial_of(case, baseline, policy, self.history, accepted_for(acceptances, case.name))
            for case, baseline in zip(self.cases, self.baselines, strict=True)
        ]
        cases = {case.name: case for case in self.cases}
        return judged([_with_parities(trial, cases) for trial in trials])

    def trends(self, policy: Policy, history: tuple[HistoryPoint, ...]) -> tuple[Trend, ...]:
        """The lasting changes of what is gated, over the runs that were measured as these were."""
        return tuple(
            trend
            for case, baseline in zip(self.cases, self.baselines, strict=True)
            if case.has_a_time
            for trend in _trends_of(
                Trial(case, rules_of(policy, case.name), baseline, history=history)
            )
        )[:MOST_TRENDS]


def _trends_of(trial: Trial) -> Iterable[Trend]:
    """Throughput and step time are one fact: of the two, the one that is known tells it."""
    points = comparable_points(trial)
    gated = {gate.metric.name: gate.metric for gate in trial.rules.gates if gate.gate}
    told = THROUGHPUT if any(point.throughput_tok_s for point in points) else STEP_TIME
    times = {told: gated.get(told) or metric_named(told)}
    rest = {name: row for name, row in gated.items() if name not in (THROUGHPUT, STEP_TIME)}
    for metric in (times | rest).values():
        yield from trends_of(metric, points)


def _with_parities(trial: Trial, cases: Mapping[str, CaseRecord]) -> Trial:
    """The trial with what the policy demands of the case and its partners."""
    case, rules = trial.case, trial.rules.parities
    shown = case.parity
    for rule in rules if shown is None else ():
        with suppress(BadInputError):
            shown = shown or parity_with_a_case(rule, case, cases)
    demands = (demand for rule in rules for demand in parity_demands(rule, case, cases))
    return replace(
        trial,
        case=case.model_copy(update={"parity": shown}),
        demands=(*trial.demands, *demands),
    )


def trial_of(
    case: CaseRecord,
    baseline: Baseline,
    policy: Policy,
    history: tuple[HistoryPoint, ...] = (),
    accepted: Mapping[str, Acceptance] | None = None,
) -> Trial:
    """The case with its rules, what changed against its baseline, and where that went."""
    rules = rules_of(policy, case.name)
    case = _with_notes(
        case,
        _on_warm_up(case, rules),
        _on_untold_order(case, rules),
        _on_untold_work(case, baseline, rules),
    )
    trial = Trial(case, rules, baseline, history=history, accepted=accepted or {})
    if not isinstance(baseline, BaselineFound) or not case.has_a_time:
        return trial
    try:
        with overflow_is_bad_input(f"case {case.name}"):
            changes = compare(case, baseline.case, [gate.metric for gate in rules.gates])
            places = contributions(case, baseline.case)
            found = explain(case, baseline.case)
            if found is not None:
                found = with_sentences(found, case, baseline.case, places)
    except BadInputError as error:
        return replace(trial, case=case.model_copy(update={"unmeasured": str(error)}))
    if found is not None:
        case = case.model_copy(update={"explanation": found})
    return replace(trial, case=case, changes=changes, contributions=places)


def judged(trials: Sequence[Trial]) -> list[CaseRecord]:
    """The cases with their verdicts, and with the regressions in their scorecards."""
    return [
        case.model_copy(
            update={
                "scorecard": case.scorecard.model_copy(
                    update={"regressions": _regressions(case.changes)}
                ),
                "baseline": _with_changed_versions(case, trial.baseline),
            }
        )
        for trial, case in zip(trials, judge(trials), strict=True)
    ]


def judged_case(
    case: CaseRecord, baseline: Baseline, policy: Policy = DEFAULT_POLICY
) -> CaseRecord:
    """One case by itself, without a history."""
    return Evidence([case], [baseline], ()).judged(policy)[0]


def _with_notes(case: CaseRecord, *said: str | None) -> CaseRecord:
    """The case with what the policy makes worth a word; judged again, it is said once."""
    if not any(said):
        return case
    notes = dict.fromkeys((*case.scorecard.notes, *filter(None, said)))
    card = case.scorecard.model_copy(update={"notes": tuple(notes)})
    return case.model_copy(update={"scorecard": card})


def _on_warm_up(case: CaseRecord, rules: CaseRules) -> str | None:
    """Another warm-up than the policy asks for may leave a compilation in the timed steps."""
    wanted = rules.measure.warmup_steps
    others = {
        launch.warmup_steps
        for launch in case.launches
        if launch.warmup_steps is not None and launch.warmup_steps != wanted
    }
    if wanted is None or not others:
        return None
    said = " and ".join(str(steps) for steps in sorted(others))
    return f"The policy asks for {wanted} warm-up steps a launch; launches here declare {said}."


def _on_untold_order(case: CaseRecord, rules: CaseRules) -> str | None:
    """What a policy demands and nobody can check is no demand that was met."""
    both = len({launch.side for launch in case.launches}) > 1
    if rules.measure.design != "interleaved" or case.took_turns is not None or not both:
        return None
    return (
        "The policy asks for interleaved launches; the order in which these ran is not told"
        " (`order`)."
    )


def _on_untold_work(case: CaseRecord, baseline: Baseline, rules: CaseRules) -> str | None:
    """A check that the head has switched off by saying less is no check that held."""
    if not isinstance(baseline, BaselineFound) or not case.has_a_time:
        return None
    untold = untold_work(case, baseline.case, rules)
    if not untold:
        return None
    return (
        f"The baseline tells its {' and its '.join(untold)}, and this run does not: whether both"
        " did the same work is not known."
    )


def _with_changed_versions(case: CaseRecord, baseline: Baseline) -> BaselineUsed | None:
    """Where the baseline came from, and what else is not the same there."""
    if case.baseline is None or not isinstance(baseline, BaselineFound):
        return case.baseline
    changed = case.environment.versions_since(baseline.case.environment)
    return case.baseline.model_copy(update={"changed_versions": changed})


def _regressions(changes: tuple[Change, ...]) -> tuple[Regression, ...]:
    return tuple(
        Regression(metric=change.metric, delta=change.delta, severity=change.severity)
        for change in changes
        if change.severity is not None and change.delta is not None
    )
