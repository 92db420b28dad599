"""The story of a run: read → measure → find the baseline → compare → judge → report → publish.

Every collaborator is an argument. Nothing here touches the network, the clock or the environment.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ci_score import __version__
from ci_score.baselines import BaselineStore, join_histories
from ci_score.compare import Workload, base_of_launches, compared, with_its_base
from ci_score.errors import WrongUseError
from ci_score.judge import decide, exit_code, refuse_idle_gates, settle, trends
from ci_score.judge.policy import GateRule, Policy, PolicyFile, passes, rules_of
from ci_score.launches import pooled
from ci_score.model.code_diff import CodeDiff, Diffs, no_diffs
from ci_score.model.conversation import Conversation, Nobody
from ci_score.model.environment import MATCHING, Environment
from ci_score.model.gate import Gate
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, metric_named, slower_by, time_change
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import (
    MOST_NAMED,
    HistoryPoint,
    Judged,
    Measured,
    MetricFacts,
    Record,
    RunIdentity,
    Server,
)
from ci_score.model.stages import (
    Attempted,
    Baseline,
    BaselineFound,
    BaselineMissing,
    CaseInput,
    Compared,
)
from ci_score.model.step_ops import remembered
from ci_score.model.verdict import Acceptance, Outcome, Unjudged, Verdict, unjudged
from ci_score.run.code_diffs import base_of_session, diff_for
from ci_score.run.inputs import INPUTS

# If a session's base is this far from the branch's record, it may be the wrong checkout.
DOUBTFUL_BASE = 0.1
# Concurrent pushes see the same record before them; a few joined histories have all their points.
HISTORIES_JOINED = 3
# If this many cases all changed by about the same share, at least this one, they share a cause.
LEAST_TOGETHER, LEAST_COMMON_SHARE = 3, 0.02
# Records that have expired, or that nobody may read, could know the case.
_SURELY_NEW = frozenset({Unjudged.FIRST_RUN, Unjudged.NEW_CASE})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run belongs to, as its own event tells; a run on a machine has no such place."""

    repository: str | None = None
    server: Server = "github"
    pull: int | None = None
    pull_head: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What a run was asked to do: which cases, what is known about them, and who asks.

    `policy` is in force, and `own_policy` is the change's own where that is another one. `tracked`
    says that the run is on the baseline branch, and `may_lose_cases` that a known case may
    disappear without blocking. `gate_job` is the job that judges, and `inputs` are those
    that are not as they come. `gate` makes an exit code of the record: a report in the shadow says
    which one it would have been. `place` is where on a server all of that is.
    """

    cases: tuple[CaseInput, ...]
    workload: Workload = field(default_factory=Workload)
    policy: PolicyFile | None = None
    own_policy: Policy | None = None
    commit: str | None = None
    run: RunIdentity | None = None
    gate_job: str | None = None
    inputs: Mapping[str, str] | None = None
    unjudged: Verdict | None = None
    notices: tuple[Reason, ...] = ()
    tracked: bool = False
    may_lose_cases: bool = False
    gate: Gate = field(default_factory=Gate)
    place: Place = field(default_factory=Place)

    @property
    def in_force(self) -> Policy:
        """The rules that decide; the defaults if there is no file."""
        return self.policy.policy if self.policy else Policy()

    def of_this_run(self, case: CaseInput) -> CaseInput:
        """The case, which was measured by no attempt of the run that is still to come.

        It would be the newest whatever is measured again, and leave out what is unlike it. Outside
        of a job a run has no id, and its files may be of any other.
        """
        if self.run is None or self.run.id is None or case.attempt <= self.run.attempt:
            return case
        why = Why.ATTEMPT_TO_COME(there=case.attempt, here=self.run.attempt)
        return replace(case, problem=why)

    @property
    def named_metrics(self) -> list[str]:
        """Every metric that either policy names, so that one comparison serves both."""
        own = self.own_policy.named_metrics if self.own_policy else ()
        return [*self.in_force.named_metrics, *own]


_NOBODY = Nobody()


def run(
    job: Job,
    *,
    baselines: BaselineStore,
    publish: Callable[[Record], object],
    now: Callable[[], str],
    conversation: Conversation = _NOBODY,
    earlier: Iterable[Record | Reason] = (),
    diffs: Diffs = no_diffs,
) -> Record:
    """One run, from what was read to a published record; the gate turns that into an exit code."""
    measured, notices = _measured(job, earlier)
    cases = []
    for sides, elsewhere in measured:
        both, doubts = _beside_its_base(job, *sides, baselines, diffs)
        # Where a change is merged already, its newest attempt is what later runs begin from.
        others = () if job.gate.reports_only else elsewhere
        before = tuple(_beside_its_base(job, *each, baselines, diffs)[0] for each in others)
        cases.append(replace(both, elsewhere=before))
        notices += doubts
    job = replace(job, notices=(*job.notices, *notices, *_other_inputs(job, baselines)))
    record = judged_record(job, cases, baselines, conversation, now())
    if job.own_policy not in (None, job.in_force):
        notice = _under_its_own(job, cases, baselines)
        record = record.but(notices=(*record.notices, notice))
    publish(record)
    return record


# --- measured, and beside its base ----------------------------------------------------------------


# A case, and the base side of its own session.
_Sides = tuple[Measured, BaselineFound | None]


def _measured(
    job: Job, earlier: Iterable[Record | Reason]
) -> tuple[list[tuple[_Sides, tuple[_Sides, ...]]], list[Reason]]:
    """Each case, pooled with earlier attempts, and what those measured on other machines."""
    here: list[Attempted] = []
    # What a session's base was profiled with is known by the session.
    bases: dict[tuple[str, str | None], BaselineFound | None] = {}
    for read in map(job.of_this_run, job.cases):
        workload = job.workload.with_model(rules_of(job.in_force, read.name).model)
        attempted = []
        for each in (read, *read.before):
            case, base = with_its_base(each, workload)
            bases[case.name, case.measurement] = base
            attempted.append(Attempted(case, each.attempt))
        newest, *before = attempted
        here.append(replace(newest, before=tuple(before)))
    attempts = pooled(here, job.run, job.commit, earlier, job.gate_job)

    def sides_of(case: Measured) -> _Sides:
        base = bases.get((case.name, case.measurement))
        return case, base_of_launches(case, base) if case.earlier_measurements or not base else base

    cases = [
        (sides_of(case), tuple(map(sides_of, elsewhere)))
        for case, elsewhere in zip(attempts.cases, attempts.elsewhere, strict=True)
    ]
    left_out = [why for case in job.cases for why in case.left_out]
    return cases, [*left_out, *attempts.notices]


def _beside_its_base(
    job: Job,
    case: Measured,
    session_base: BaselineFound | None,
    baselines: BaselineStore,
    diffs: Diffs,
) -> tuple[Compared, tuple[Reason, ...]]:
    """A case beside its baseline, and what is doubtful about that."""
    beside = put_beside(case, session_base, baselines, job.in_force)
    diff = beside.diff(case, job.commit, diffs)
    both = compared(case, beside.baseline, job.named_metrics, beside.recorded, diff)
    return both, beside.doubts


@dataclass(frozen=True, slots=True)
class Beside:
    """What a case is compared with, what the branch has recorded of it, and what is doubtful.

    `commit` is that of the code which the baseline's profile explains.
    """

    baseline: Baseline
    recorded: Measured | None = None
    doubts: tuple[Reason, ...] = ()
    commit: str | None = None

    def diff(self, case: Measured, commit: str | None, diffs: Diffs) -> CodeDiff:
        """What the case's code and its baseline's differ in; `commit` is the run's."""
        return diff_for(case, self.baseline, commit=commit, base_commit=self.commit, diffs=diffs)


def put_beside(
    case: Measured, session_base: BaselineFound | None, baselines: BaselineStore, policy: Policy
) -> Beside:
    """The base side of the same session, else the branch's record.

    Where the policy wants no pairs, the change should not choose its own base, and none either by
    naming another machine.
    """
    found = baselines.find(case.name, _matching(case, policy))
    if without_base := _missing_base(case, found, baselines):
        return Beside(without_base)
    recorded, its_commit = None, None
    if isinstance(found, BaselineFound):
        recorded, its_commit = found.case, found.used.commit
    in_pairs = rules_of(policy, case.name).measure.design in (None, "interleaved")
    is_known = recorded is not None or case.name in baselines.known_cases()
    if session_base is None or (is_known and not in_pairs):
        return Beside(found, recorded, commit=its_commit)
    own_commit = base_of_session(case)
    # The policy may allow a record of another machine; its times cannot be compared with these.
    if recorded is None or case.environment.mismatch(recorded.environment) is not None:
        # Nothing then contradicts a base that is slow for a reason of its own.
        unknown = (Why.BASE_UNCHECKED(case=case.name),) if is_known else ()
        return Beside(session_base, recorded, unknown, own_commit)
    explained = _with_a_profile(session_base, case, recorded)
    doubts = tuple(_doubts(case, session_base.case, recorded))
    commit = own_commit if explained is session_base else its_commit
    return Beside(explained, recorded, doubts, commit)


def _missing_base(case: Measured, found: Baseline, baselines: BaselineStore) -> Baseline | None:
    """Why a session that measured head alone has no baseline; None for all other measurements.

    It is not compared with a record, which would hide that the base is broken. Only a case that the
    branch surely does not know is a new one.
    """
    if case.alone is None:
        return None
    lacks = isinstance(found, BaselineMissing) and found.reason in _SURELY_NEW
    is_new = lacks and case.name not in baselines.known_cases()
    others = tuple(found.reasons) if isinstance(found, BaselineMissing) else ()
    unjudged_as = Unjudged.NEW_CASE if is_new else Unjudged.MEASURED_ALONE
    return BaselineMissing(unjudged_as, case.alone.reason, others)


def _matching(case: Measured, policy: Policy) -> Environment:
    """The environment that a baseline must match, without the keys that the policy leaves out."""
    keys = rules_of(policy, case.name).match
    return case.environment.but(**{key: None for key in MATCHING if key not in keys})


def _doubts(case: Measured, base: Measured, recorded: Measured) -> Iterator[Reason]:
    """A reason if the session's base is unlike the record: perhaps it was the wrong checkout.

    A second look at the same session finds its head in the record, which says nothing of its base.
    """
    if case.measurement is not None and case.measurement == recorded.measurement:
        return
    session_ms, record_ms = base.scorecard.step_time_ms, recorded.scorecard.step_time_ms
    if session_ms and record_ms and abs(session_ms / record_ms - 1) > DOUBTFUL_BASE:
        yield Why.BASE_UNLIKE_RECORD(case=base.name, session_ms=session_ms, record_ms=record_ms)


def _with_a_profile(
    session_base: BaselineFound, head: Measured, recorded: Measured
) -> BaselineFound:
    """The session's base with the record's profile, if the session did not profile its base."""
    if session_base.case.timeline is not None or head.timeline is None:
        return session_base
    explained = session_base.case.but(
        phases=recorded.phases,
        step_ops=recorded.step_ops,
        categories=recorded.categories,
        timeline=recorded.timeline,
        step_spread=recorded.step_spread,
        compute_tenths_ms=recorded.compute_tenths_ms,
        idle_ranges=recorded.idle_ranges,
        op_calls=recorded.op_calls,
        host_gaps=recorded.host_gaps,
        layers_are=recorded.layers_are,
        code=recorded.code,
        peak_ops=recorded.peak_ops,
        ranks=recorded.ranks,
    )
    return replace(session_base, case=explained)


# --- judged -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Judgement:
    """A policy's judgement of the cases, and of those that are missing."""

    cases: list[Judged]
    unjudged: Verdict | None
    acceptances: tuple[Acceptance, ...]
    notices: tuple[Reason, ...]


def judged_record(
    job: Job,
    cases: Sequence[Compared],
    baselines: BaselineStore,
    conversation: Conversation,
    created_at: str,
) -> Record:
    """The record of the compared cases, judged by the policy in force."""
    policy = job.in_force
    judgement = _judge(job, cases, policy, baselines, conversation)
    history = _history(job, judgement.cases, baselines, policy, created_at)
    record = Record(
        ci_score_version=__version__,
        created_at=created_at,
        commit=job.commit,
        run=job.run,
        job=job.gate_job,
        repository=job.place.repository,
        server=job.place.server,
        pull=job.place.pull,
        pull_head=job.place.pull_head,
        inputs=job.inputs,
        rules=policy.rules,
        enforce=policy.enforce,
        policy=dict(job.policy.table) if job.policy else None,
        cases=judgement.cases,
        unjudged=judgement.unjudged,
        notices=(*job.notices, *judgement.notices, *_moving_together(judgement.cases)),
        acceptances=judgement.acceptances,
        history=history,
        metrics=_facts(history, judgement.cases, policy) if history else {},
        trends=trends(judgement.cases, policy, history),
    )
    if record.enforce is None:
        return record
    notice = Why.SHADOW(code=exit_code(record.but(enforce=None), job.gate))
    return record.but(notices=(notice, *record.notices))


def _judge(
    job: Job,
    cases: Sequence[Compared],
    policy: Policy,
    baselines: BaselineStore,
    conversation: Conversation,
) -> _Judgement:
    refuse_idle_gates(policy, cases)
    branch = baselines.history(most_records=1)
    judged = decide(cases, branch, policy)
    lost = _lost_cases(policy, judged, baselines)
    settled = settle(conversation, policy, judged, lost)
    if settled.granted:
        judged = decide(cases, branch, policy, settled.granted)
        lost = {name: why for name, why in lost.items() if not settled.accepts_loss_of(name)}
    trouble = (settled.trouble,) if settled.trouble else ()
    lost_notices = () if _blocks(lost, job) else tuple(_reasons_for(lost))
    verdict = job.unjudged or _verdict_on(lost, job)
    if verdict is not None:
        verdict = verdict.but(may_pass=passes(policy, verdict.unjudged))
    return _Judgement(judged, verdict, settled.all, (*trouble, *lost_notices))


def _under_its_own(job: Job, cases: Sequence[Compared], baselines: BaselineStore) -> Reason:
    """A notice with the verdict by the change's own policy, or that it does not fit the cases."""
    own = job.own_policy or Policy()
    try:
        judgement = _judge(job, cases, own, baselines, _NOBODY)
    except WrongUseError as error:
        return Why.OWN_POLICY_UNUSABLE(words=str(error))
    verdicts = [case.verdict for case in judgement.cases] + [judgement.unjudged]
    outcomes = [verdict.outcome for verdict in verdicts if verdict]
    outcome = Outcome.worst(outcomes) if outcomes else Outcome.INCONCLUSIVE
    names = [case.measured.name for case in cases]
    not_tried = _not_tried(names, own, job.in_force)
    return Why.OWN_POLICY(outcome=outcome.value, not_tried=not_tried)


def _not_tried(names: Sequence[str], own: Policy, in_force: Policy) -> tuple[str, ...]:
    """The parts of its own policy that act before anything is judged, and so were not tried."""
    rules = [(rules_of(own, name), rules_of(in_force, name)) for name in names]
    parts = {
        "[model]": any(one.model != other.model for one, other in rules),
        "environment.match": any(one.match != other.match for one, other in rules),
    }
    return tuple(part for part, differs in parts.items() if differs)


# --- over all cases -----------------------------------------------------------------------------


def _lost_cases(
    policy: Policy, cases: Sequence[Measured], baselines: BaselineStore
) -> dict[str, Unjudged]:
    """The required and known cases that were not measured.

    It is empty if no case was measured at all: the report then says so, and needs no list.
    """
    if not cases:
        return {}
    names = {case.name for case in cases}
    gone = sorted(baselines.known_cases() - names)
    return dict.fromkeys(gone, Unjudged.KNOWN_CASE_MISSING) | dict.fromkeys(
        policy.required_among(names), Unjudged.REQUIRED_CASE_MISSING
    )


def _blocks(lost: Mapping[str, Unjudged], job: Job) -> bool:
    """A known case that disappears blocks the check.

    The branch itself may lose one: that is how a case is removed.
    """
    return Unjudged.REQUIRED_CASE_MISSING in lost.values() or (
        bool(lost) and not job.may_lose_cases
    )


def _verdict_on(lost: Mapping[str, Unjudged], job: Job) -> Verdict | None:
    if not _blocks(lost, job):
        return None
    required = Unjudged.REQUIRED_CASE_MISSING
    reason = required if required in lost.values() else next(iter(lost.values()))
    first = next(name for name, why in lost.items() if why is reason)
    return unjudged(reason, Why.CASE_MISSING(case=first), *_reasons_for(lost))


def _reasons_for(lost: Mapping[str, Unjudged]) -> Iterator[Reason]:
    for name, why in lost.items():
        required = why is Unjudged.REQUIRED_CASE_MISSING
        yield (Why.POLICY_WANTS_CASE if required else Why.BASELINE_HAS_CASE)(case=name)


def _other_inputs(job: Job, baselines: BaselineStore) -> list[Reason]:
    """A notice if the workflow asks for something else than it did on the branch.

    A baseline that the change itself may have written says nothing of the branch.
    """
    if job.inputs is None:
        return []
    if "baseline" in job.inputs:
        return [Why.OWN_BASELINE(names=tuple(job.inputs), here=tuple(job.inputs.values()))]
    there = baselines.inputs()
    if there is None:
        return []
    here = {name: job.inputs.get(name, row.default) for name, row in INPUTS.items()}
    before = {name: there.get(name, row.default) for name, row in INPUTS.items()}
    names = tuple(name for name in INPUTS if here[name] != before[name])
    if not names:
        return []
    return [
        Why.OTHER_INPUTS(
            names=names,
            here=tuple(here[name] for name in names),
            there=tuple(before[name] for name in names),
        )
    ]


def _moving_together(cases: Sequence[Judged]) -> list[Reason]:
    """A notice if all cases changed alike, because then they probably share a cause."""
    shares = [slower_by(change) for case in cases if (change := time_change(case)) is not None]
    if len(shares) < LEAST_TOGETHER or len(shares) < len(cases):
        return []
    middle = statistics.median(shares)
    alike = all(share * middle > 0 and abs(share - middle) < abs(middle) / 2 for share in shares)
    if abs(middle) < LEAST_COMMON_SHARE or not alike:
        return []
    return [Why.MOVED_TOGETHER(cases=len(shares), share=middle)]


def _history(
    job: Job,
    judged: Sequence[Judged],
    baselines: BaselineStore,
    policy: Policy,
    created_at: str,
) -> tuple[HistoryPoint, ...]:
    """The baseline's history; on the tracked branch, with a point for this run.

    A point has the metrics that are gated: only those are judged by a history.
    """
    if not job.tracked:
        return baselines.history(most_records=1)
    points = tuple(_point(job, case, policy, created_at) for case in judged if case.has_a_time)
    return join_histories(baselines.history(most_records=HISTORIES_JOINED), points)


def _point(job: Job, case: Judged, policy: Policy, created_at: str) -> HistoryPoint:
    time = next((one for one in case.changes if one.metric == STEP_TIME), None)
    return HistoryPoint(
        case=case.name,
        commit=job.commit,
        run=job.run,
        created_at=created_at,
        step_time_ms=case.scorecard.step_time_ms,
        throughput_tok_s=metric_named(THROUGHPUT).measured(case) or 0.0,
        metrics=_gated(case, policy),
        environment=case.environment.but(versions={}, differs=(), asked=(), alone=None, code=None),
        tokens_per_step=case.told_tokens,
        outcome=case.verdict.outcome if case.verdict else None,
        low=time.low if time else None,
        high=time.high if time else None,
        accepted=tuple(dict.fromkeys(one.accepted for one in case.changes if one.accepted)),
        ops=remembered(case.step_ops),
    )


def _facts(
    history: Sequence[HistoryPoint], judged: Sequence[Judged], policy: Policy
) -> dict[str, MetricFacts]:
    """What the policy says of each metric that the history holds."""
    held = {STEP_TIME, THROUGHPUT}.union(*(point.metrics for point in history))
    rows = {
        gate.metric.name: gate.metric
        for case in judged
        for gate in _gates_of(case, policy)
        if gate.metric.name in held
    }
    return {
        name: MetricFacts(
            label=row.label,
            unit=row.shown_unit,
            higher_is_better=row.higher_is_better,
            relative=row.relative,
        )
        for name, row in list(rows.items())[:MOST_NAMED]
    }


def _gates_of(case: Measured, policy: Policy) -> tuple[GateRule, ...]:
    return rules_of(policy, case.name, in_pairs=case.has_both_sides).gates


def _gated(case: Measured, policy: Policy) -> dict[str, float]:
    gated = (gate.metric for gate in _gates_of(case, policy) if gate.gate)
    return {one.name: case.metrics[one.name] for one in gated
            if one.name in case.metrics and one.measured(case) is not None}  # fmt: skip
