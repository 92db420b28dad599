"""The story of a run: read → score → find the baseline → compare → judge → publish.

Every collaborator is an argument. Nothing here touches the network, the clock or the environment.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ci_score import __version__
from ci_score.baselines import BaselineStore, join_histories
from ci_score.compare.efficiency import Workload
from ci_score.compare.measuring import OWN_BASE, base_of_launches, with_its_base
from ci_score.errors import WrongUseError
from ci_score.judge import noise
from ci_score.judge.acceptance import Asked, Conversation, Nobody, Settled, is_accepted_loss, settle
from ci_score.judge.evidence import complete_pairs
from ci_score.judge.policy import CaseRule, Policy, PolicyTable, Rules, policy_of, rules_of
from ci_score.judge.trials import Evidence
from ci_score.judge.verdict import report_outcome, slower_by, unjudged
from ci_score.launches.attempts import pooled
from ci_score.model.environment import MATCHING, Environment
from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.model.record import Acceptance, CaseRecord, HistoryPoint, Record, RunIdentity, Trend
from ci_score.model.stages import Baseline, BaselineFound, CaseInput
from ci_score.model.verdict import Outcome, Unjudged, Verdict

TOLD_BY_A_PROFILE = ("phases", "ops", "ops_left_out", "op_details", "categories", "timeline")
# A session's base that is so far from the branch's record is worth a question.
DOUBTFUL_BASE = 0.1
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
        with_its_base(read, job.workload.with_model(rules_of(policy, read.name).model))
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
