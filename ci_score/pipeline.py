"""The story of a run: read → score → find the baseline → compare → judge → publish.

Every collaborator is an argument. Nothing here touches the network, the clock or the environment.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from ci_score import __version__, noise
from ci_score.acceptance import (
    Asked,
    Conversation,
    Nobody,
    Settled,
    accepted_for,
    is_accepted_loss,
    settle,
)
from ci_score.advice import advice_on
from ci_score.baselines import BaselineStore
from ci_score.comparison import compare, contributions
from ci_score.efficiency import Workload, training_scorecard
from ci_score.errors import BadInputError, WrongUseError
from ci_score.explanation import categories_of, explain, op_details_of, timeline_of
from ci_score.judgement import Trial, judge
from ci_score.judgement.evidence import comparable_points, complete_pairs
from ci_score.judgement.standing import untold_work
from ci_score.metrics import KERNELS, LAUNCHES, MEMORY, STEP_TIME, THROUGHPUT, metric_named
from ci_score.models import (
    MATCHING,
    MOST_TRENDS,
    Acceptance,
    Baseline,
    BaselineFound,
    BaselineUsed,
    CaseInput,
    CaseRecord,
    Change,
    Environment,
    HistoryPoint,
    LaunchNumbers,
    Outcome,
    ParityProfile,
    Profile,
    Record,
    Regression,
    RunIdentity,
    Scorecard,
    Trend,
    Unjudged,
    Verdict,
    op_totals,
)
from ci_score.parity import compute_parity, side_of
from ci_score.parity_gate import parity_demands, parity_with_a_case
from ci_score.policy import (
    DEFAULT_POLICY,
    CaseRule,
    CaseRules,
    Policy,
    PolicyTable,
    Rules,
    policy_of,
    rules_of,
)
from ci_score.pooling import as_one, pooled
from ci_score.reasons import with_sentences
from ci_score.records import join_histories
from ci_score.scoring import LACKING_IN_A_PROFILE
from ci_score.strict_json import overflow_is_bad_input
from ci_score.trend import trends_of
from ci_score.verdict import report_outcome, slower_by, unjudged

KEPT_OPS = 64
TOLD_BY_A_PROFILE = ("phases", "ops", "ops_left_out", "op_details", "categories", "timeline")
# A session's base that is so far from the branch's record is worth a question.
DOUBTFUL_BASE = 0.1
OWN_BASE = "the base side of the same measurements"
# A kernel template may be longer; a name of megabytes would be the record.
LONGEST_NAME = 1000
# Concurrent pushes see the same record before them; the union of a few restores what each added.
HISTORIES_JOINED = 3


@dataclass(frozen=True, slots=True)
class Job:
    """What a run was asked to do: which cases, what is known about them, and who asks.

    `policy` is the workspace's file; `tracked` where the run is the baseline branch's own, and
    `gates` where a known case may not be lost.
    """

    cases: tuple[CaseInput, ...]
    workload: Workload = field(default_factory=Workload)
    policy: PolicyTable | None = None
    commit: str | None = None
    run: RunIdentity | None = None
    unjudged: Verdict | None = None
    notices: tuple[str, ...] = ()
    tracked: bool = False
    gates: bool = True


_NOBODY = Nobody()


def run(
    job: Job,
    *,
    baselines: BaselineStore,
    publish: Callable[[Record], object],
    now: Callable[[], str],
    conversation: Conversation = _NOBODY,
    earlier: Iterable[Record] = (),
) -> Record:
    """One run, from what was read to a published record whose verdict is the exit code."""
    theirs = None if job.tracked else baselines.policy()
    table = job.policy if theirs is None else theirs
    policy = policy_of(table or {}, "the policy" if theirs is None else "the baseline's policy")
    cases = [
        _with_its_base(read, job.workload.with_model(rules_of(policy, read.name).model))
        for read in job.cases
    ]
    attempts = pooled([case for case, _ in cases], job.run, job.commit, earlier)
    job = replace(job, notices=(*job.notices, *attempts.notices))
    cases = [
        (case, base_of_launches(case) if base and case.earlier_measurements else base)
        for case, (_, base) in zip(attempts.cases, cases, strict=True)
    ]
    found = [_compared_with(case, own, baselines, policy) for case, own in cases]
    measured = [case for case, _ in cases]
    doubts = [
        _doubt_of_base(case, base, baselines) for case, base in zip(measured, found, strict=True)
    ]
    job = replace(job, notices=(*job.notices, *filter(None, doubts)))
    created_at = now()
    evidence = Evidence(measured, found, baselines.history(1))
    record = judged_record(job, evidence, table, baselines, conversation, created_at)
    if theirs is not None and policy_of(job.policy or {}, "the policy here") != policy:
        record = _beside_own_policy(record, job, evidence, baselines, created_at)
    publish(record)
    return record


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


def judged_record(
    job: Job,
    evidence: Evidence,
    table: PolicyTable | None,
    baselines: BaselineStore,
    conversation: Conversation,
    created_at: str,
) -> Record:
    """The record of cases that were measured and have their baselines, judged by a policy."""
    policy = policy_of(table or {}, "the policy")
    _check_gates(policy, evidence)
    cases = evidence.judged(policy)
    lost = _lost_cases(policy, cases, baselines)
    settled = _settled(conversation, policy, cases, lost)
    if settled.granted:
        cases = evidence.judged(policy, settled.granted)
        lost = {
            name: why for name, why in lost.items() if not is_accepted_loss(settled.granted, name)
        }
    history = _history(job, cases, baselines, created_at)
    return record_of(
        cases,
        created_at,
        commit=job.commit,
        run=job.run,
        rules=policy.rules,
        policy=table,
        unjudged=job.unjudged or _verdict_on(lost, job),
        notices=(
            *job.notices,
            *settled.words(),
            *(() if _gates_loss(lost, job) else _words_on(lost)),
            *_moving_together(cases),
        ),
        acceptances=settled.all,
        history=history,
        trends=evidence.trends(policy, history),
    )


def _settled(
    conversation: Conversation,
    policy: Policy,
    cases: Sequence[CaseRecord],
    lost: Mapping[str, Unjudged],
) -> Settled:
    """What people accept, who are asked only where there is something to accept."""
    worse = frozenset(
        case.name
        for case in cases
        if case.verdict and case.verdict.outcome in (Outcome.FAIL, Outcome.WARN)
    )
    if not worse and not lost:
        return Settled()
    known = frozenset(case.name for case in cases)
    return settle(conversation, policy, Asked(worse, frozenset(lost), known))


def _beside_own_policy(
    record: Record, job: Job, evidence: Evidence, baselines: BaselineStore, created_at: str
) -> Record:
    """A change cannot loosen its own gate; what its own rules would say is said beside."""
    try:
        own = judged_record(job, evidence, job.policy, baselines, _NOBODY, created_at)
        words = f"under its own the verdict would be {report_outcome(own).value}"
    except WrongUseError as error:
        words = f"its own cannot be used ({error})"
    notice = f"The policy was changed here. The default branch's policy judges; {words}."
    return record.model_copy(update={"notices": (*record.notices, notice)})


def _check_gates(policy: Policy, evidence: Evidence) -> None:
    """A gate on what nobody measures would always pass; a `[[case]]` table speaks of its cases.

    What the baseline has measured is lost, and not wrong: that is judged, and published.
    """
    bases = [found.case for found in evidence.baselines if isinstance(found, BaselineFound)]
    tables: tuple[Policy | CaseRule, ...] = (policy, *policy.case)
    for table in tables:
        gates = {
            case.name: rules_of(policy, case.name).gates
            for case in evidence.cases
            if case.has_a_time and (isinstance(table, Policy) or table.applies_to(case.name))
        }
        for name in table.metrics:
            rows = [
                (gate, case)
                for case in evidence.cases
                for gate in gates.get(case.name, ())
                if gate.metric.name == name and gate.gate
            ]
            known = [case for _, case in rows] + [base for base in bases if base.name in gates]
            if rows and not any(rows[0][0].metric.value(case) is not None for case in known):
                where = "no case measures" if len(rows) > 1 else f"the case {rows[0][1].name} lacks"
                raise WrongUseError(
                    f"the policy gates {name}, which {where}; measure it (in the profile, or as"
                    " `metrics` of the measurements) or take the gate out"
                )


def _matching(case: CaseRecord, policy: Policy) -> Environment:
    """What a baseline has to share: a key that the policy does not name fits anything."""
    keys = rules_of(policy, case.name).environment.match
    return case.environment.model_copy(
        update={key: None for key in MATCHING if key not in keys},
    )


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


def _with_its_base(read: CaseInput, workload: Workload) -> tuple[CaseRecord, BaselineFound | None]:
    """The case, and the base side of the same session: no history can be as comparable."""
    case = _measured_or_problem(read, workload)
    if read.base is None:
        return case, None
    base = _measured_or_problem(read.base, workload)
    used = BaselineUsed(source=OWN_BASE)
    both = case.model_copy(update={"launches": (*case.launches, *base.launches)})
    return both, BaselineFound(base, used)


def _compared_with(
    case: CaseRecord, own: BaselineFound | None, baselines: BaselineStore, policy: Policy
) -> Baseline:
    """The base side of the same session where it can prove anything, else the branch's record.

    Few pairs are one number a side: then the base should not be the change's own choice.
    """
    proves = own is not None and len(complete_pairs(case, STEP_TIME)) >= noise.LEAST_PAIRS
    if own is not None and proves:
        return _with_a_profile(own, case, baselines)
    found = baselines.find(case.name, _matching(case, policy))
    if own is None or isinstance(found, BaselineFound):
        return found
    return _with_a_profile(own, case, baselines)


def _doubt_of_base(case: CaseRecord, base: Baseline, baselines: BaselineStore) -> str | None:
    """That the session's base is not what the branch has measured: was it the right checkout?"""
    if not isinstance(base, BaselineFound) or base.used.source != OWN_BASE:
        return None
    known = baselines.find(case.name, case.environment)
    if not isinstance(known, BaselineFound):
        return None
    mine, theirs = base.case.scorecard.step_time_ms, known.case.scorecard.step_time_ms
    if not mine or not theirs or abs(mine / theirs - 1) <= DOUBTFUL_BASE:
        return None
    return (
        f"{case.name}: the base of this session takes {mine:.4g} ms a step, the branch's record"
        f" {theirs:.4g} ms. Was it the right checkout?"
    )


def _with_a_profile(
    base: BaselineFound, head: CaseRecord, baselines: BaselineStore
) -> BaselineFound:
    """A session measures its base without a profile: the branch's own record explains it."""
    if base.case.timeline is not None or head.timeline is None:
        return base
    recorded = baselines.find(head.name, head.environment)
    if not isinstance(recorded, BaselineFound):
        return base
    told = {name: getattr(recorded.case, name) for name in TOLD_BY_A_PROFILE}
    return replace(base, case=base.case.model_copy(update=told))


def measured_case(case: CaseInput, workload: Workload) -> CaseRecord:
    """A case with its scorecard and what can explain it later, not yet judged."""
    profile = case.profile
    card = training_scorecard(profile, workload)
    of_card = (note for note in card.notes if case.has_profile or note not in LACKING_IN_A_PROFILE)
    card = card.model_copy(update={"notes": (*of_card, *profile.notes, *case.notes)})
    # Counts are of the whole step, so are the times beside them.
    of_layers = {} if profile.op_counts else op_totals(profile.per_layer)
    ops = of_layers or profile.ops
    kept = _largest(ops)
    timeline, categories = timeline_of(profile), categories_of(profile)
    nothing = "the profile holds no time" if case.has_profile else "no time was measured"
    empty = None if profile.measured_something else nothing
    launches = tuple(_per_device(launch, card.accelerator_count) for launch in case.launches)
    return CaseRecord(
        name=case.name,
        environment=_environment(case, card, workload),
        unmeasured=case.problem or profile.unusable or empty,
        crashed=case.problem is None and profile.unusable is not None,
        scorecard=card,
        metrics=_metrics(profile, card, launches),
        launches=launches,
        took_turns=case.took_turns,
        measurement=case.measurement,
        tokens_per_step=workload.tokens_per_step or profile.tokens_per_step,
        phases=_largest({phase: times.total_ms for phase, times in profile.phases.items()}),
        ops=kept,
        ops_left_out=len(ops) - len(kept),
        op_details=op_details_of(profile, kept),
        categories=categories,
        timeline=timeline,
        advice=advice_on(timeline, categories),
        ranks=profile.ranks,
        parity=compute_parity(side_of("ours", profile), case.partner) if case.partner else None,
        partner=_kept_side(case.partner) if case.partner else None,
    )


def _kept_side(side: ParityProfile) -> ParityProfile:
    """A partner's numbers, so that its parity can be judged again from the record."""
    numbers = {name: getattr(side, name) for name in ParityProfile.model_fields}
    return ParityProfile(**{**numbers, "ops": _largest(side.ops)})


def _environment(case: CaseInput, card: Scorecard, workload: Workload) -> Environment:
    """What the measurement says of itself; the profile and the user fill what it leaves open."""
    said = case.environment or Environment()
    return said.model_copy(
        update={
            "accelerator": card.accelerator or said.accelerator,
            "accelerator_count": card.accelerator_count or said.accelerator_count,
            # What was measured is known better than what the policy expects.
            "precision": said.precision or workload.precision,
            "timing": _timing(case),
        }
    )


def _per_device(launch: LaunchNumbers, devices: int | None) -> LaunchNumbers:
    job = launch.values.get(THROUGHPUT)
    if job is None or not devices:
        return launch
    return launch.model_copy(update={"values": {**launch.values, THROUGHPUT: job / devices}})


def _metrics(
    profile: Profile, card: Scorecard, launches: tuple[LaunchNumbers, ...]
) -> dict[str, float]:
    """Every number that a policy can gate, beside the scorecard's own."""
    known: dict[str, float | None] = {
        "mfu": card.mfu,
        "hfu": card.hfu,
        "forward_backward_ratio": card.forward_backward_ratio or None,
        **{
            name: getattr(profile, name)
            for name in (
                MEMORY,
                LAUNCHES,
                KERNELS,
                "device_busy_ms",
                "device_idle_share",
                "exposed_communication_ms",
            )
        },
    }
    for name in _names(launches) - {STEP_TIME, THROUGHPUT}:
        known[name] = as_one(name, _of_all(name, launches))
    return {name: value for name, value in sorted(known.items()) if value is not None}


def _measured_or_problem(case: CaseInput, workload: Workload) -> CaseRecord:
    """Numbers that no scorecard can be made of are a problem of their case, not of the run."""
    try:
        with overflow_is_bad_input(f"case {case.name}"):
            return measured_case(case, workload)
    except BadInputError as error:
        wrong = CaseInput(case.name, problem=str(error), has_profile=case.has_profile)
        return measured_case(wrong, Workload())


def _timing(case: CaseInput) -> Literal["under a profiler", "unprofiled"] | None:
    """A time under a profiler is another number than one without: they are not compared."""
    if case.launches:
        return "unprofiled"
    return "under a profiler" if case.profile.avg_step_ms > 0 else None


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


def _with_changed_versions(case: CaseRecord, baseline: Baseline) -> BaselineUsed | None:
    """Where the baseline came from, and what else is not the same there."""
    if case.baseline is None or not isinstance(baseline, BaselineFound):
        return case.baseline
    changed = case.environment.versions_since(baseline.case.environment)
    return case.baseline.model_copy(update={"changed_versions": changed})


def judged_case(
    case: CaseRecord, baseline: Baseline, policy: Policy = DEFAULT_POLICY
) -> CaseRecord:
    """One case by itself, without a history."""
    return Evidence([case], [baseline], ()).judged(policy)[0]


def record_of(
    cases: Iterable[CaseRecord],
    created_at: str,
    *,
    commit: str | None = None,
    run: RunIdentity | None = None,
    rules: Rules = "reference",
    policy: PolicyTable | None = None,
    unjudged: Verdict | None = None,
    notices: tuple[str, ...] = (),
    acceptances: tuple[Acceptance, ...] = (),
    history: tuple[HistoryPoint, ...] = (),
    trends: tuple[Trend, ...] = (),
) -> Record:
    """What this version of ci-score leaves of the cases."""
    return Record(
        ci_score_version=__version__,
        created_at=created_at,
        commit=commit,
        run=run,
        rules=rules,
        policy=dict(policy) if policy is not None else None,
        cases=tuple(cases),
        unjudged=unjudged,
        notices=notices,
        acceptances=acceptances,
        history=history,
        trends=trends,
    )


def _regressions(changes: tuple[Change, ...]) -> tuple[Regression, ...]:
    return tuple(
        Regression(metric=change.metric, delta=change.delta, severity=change.severity)
        for change in changes
        if change.severity is not None and change.delta is not None
    )


def base_of_launches(case: CaseRecord) -> BaselineFound | None:
    """The base side of a record's own launches, where they have both sides."""
    base = [launch for launch in case.launches if launch.side == "base"]
    if not base:
        return None
    numbers = {name: as_one(name, _of_all(name, base)) for name in _names(base)}
    card = case.scorecard.model_copy(
        update={
            "step_time_ms": numbers.pop(STEP_TIME, 0.0),
            "throughput_tok_s": numbers.pop(THROUGHPUT, 0.0),
            "wall_coverage": 0.0,
            "per_layer_summary": (),
            "hotspot_ops": (),
        }
    )
    found = CaseRecord(
        name=case.name,
        environment=case.environment,
        scorecard=card,
        metrics=numbers,
        tokens_per_step=case.tokens_per_step,
    )
    return BaselineFound(found, BaselineUsed(source=OWN_BASE))


def _names(launches: Iterable[LaunchNumbers]) -> set[str]:
    return {name for launch in launches for name in launch.values}


def _of_all(name: str, launches: Iterable[LaunchNumbers]) -> list[float]:
    return [launch.values[name] for launch in launches if name in launch.values]


# --- over all cases -----------------------------------------------------------------------------


def _lost_cases(
    policy: Policy, cases: Sequence[CaseRecord], baselines: BaselineStore
) -> dict[str, Unjudged]:
    """The required and known cases that were not measured; without any the report says it all."""
    if not cases:
        return {}
    names = {case.name for case in cases}
    gone = sorted(baselines.known_cases() - names)
    return dict.fromkeys(gone, Unjudged.KNOWN_CASE_MISSING) | dict.fromkeys(
        policy.required_among(names), Unjudged.REQUIRED_CASE_MISSING
    )


def _gates_loss(lost: Mapping[str, Unjudged], job: Job) -> bool:
    """Nobody may lose a case unnoticed: what is not measured any more is no pass.

    The branch itself may lose one that it has known: that is how a case ends.
    """
    return Unjudged.REQUIRED_CASE_MISSING in lost.values() or (bool(lost) and job.gates)


def _verdict_on(lost: Mapping[str, Unjudged], job: Job) -> Verdict | None:
    if not _gates_loss(lost, job):
        return None
    required = Unjudged.REQUIRED_CASE_MISSING
    reason = required if required in lost.values() else next(iter(lost.values()))
    first = next(name for name, why in lost.items() if why is reason)
    return unjudged(reason, f"the case {first} was not measured", *_words_on(lost))


def _words_on(lost: Mapping[str, Unjudged]) -> list[str]:
    words = {
        Unjudged.KNOWN_CASE_MISSING: "The baseline also has the case {}, which was not measured.",
        Unjudged.REQUIRED_CASE_MISSING: "The policy requires the case {}, which was not measured.",
    }
    return [words[why].format(name) for name, why in lost.items()]


def _share_of_time(case: CaseRecord) -> float | None:
    """How much slower the case is, by its throughput or its step time."""
    known = {change.metric: change for change in case.changes if change.delta}
    change = known.get(THROUGHPUT) or known.get(STEP_TIME)
    return slower_by(change) if change else None


def _moving_together(cases: Sequence[CaseRecord]) -> list[str]:
    """Where all cases became slower alike, the cause is more likely a shared one."""
    deltas = [share for case in cases if (share := _share_of_time(case)) is not None]
    if len(deltas) < 3 or len(deltas) < len(cases):
        return []
    middle = statistics.median(deltas)
    alike = all(delta * middle > 0 and abs(delta - middle) < abs(middle) / 2 for delta in deltas)
    if abs(middle) < 0.02 or not alike:
        return []
    words = (
        f"All {len(deltas)} cases moved together (by about {abs(middle) * 100:.1f} %"
        f" {'slower' if middle > 0 else 'faster'}): look for a"
        " shared cause, the machine or a common dependency, before any one of them."
    )
    return [words]


def _history(
    job: Job, judged: list[CaseRecord], baselines: BaselineStore, created_at: str
) -> tuple[HistoryPoint, ...]:
    """On the tracked branch the history goes on; elsewhere it is what the baseline remembers."""
    if not job.tracked:
        return baselines.history(1)
    points = tuple(
        HistoryPoint(
            case=case.name,
            commit=job.commit,
            run=job.run,
            created_at=created_at,
            step_time_ms=case.scorecard.step_time_ms,
            throughput_tok_s=case.scorecard.throughput_tok_s,
            metrics=case.metrics,
            environment=case.environment.model_copy(update={"versions": {}}),
            tokens_per_step=case.tokens_per_step,
            outcome=case.verdict.outcome if case.verdict else None,
        )
        for case in judged
        if case.has_a_time
    )
    return join_histories(baselines.history(HISTORIES_JOINED), points)


def _trends_of(trial: Trial) -> Iterable[Trend]:
    """Throughput and step time are one fact: of the two, the one that is known tells it."""
    points = comparable_points(trial)
    gated = {gate.metric.name: gate.metric for gate in trial.rules.gates if gate.gate}
    told = THROUGHPUT if any(point.throughput_tok_s for point in points) else STEP_TIME
    times = {told: gated.get(told) or metric_named(told)}
    rest = {name: row for name, row in gated.items() if name not in (THROUGHPUT, STEP_TIME)}
    for metric in (times | rest).values():
        yield from trends_of(metric, points)


def _largest(ops: dict[str, float]) -> dict[str, float]:
    named = [op for op in ops if len(op) <= LONGEST_NAME]
    kept = sorted(named, key=lambda op: (-ops[op], op))[:KEPT_OPS]
    return {op: ops[op] for op in kept}
