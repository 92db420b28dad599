"""The report on a fork's run, which may not write a comment, from the numbers of its record.

A stranger's code wrote the record. Its words, grades and verdicts are dropped, and its names are
cleaned. Its numbers were validated when it was read; they are compared, judged and explained here,
by the default branch's policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from ci_score.baselines import BaselineStore
from ci_score.compare import base_of_launches, compared
from ci_score.model.accelerators import known_precisions, says_only_a_name
from ci_score.model.code_diff import Diffs, no_diffs
from ci_score.model.conversation import Conversation
from ci_score.model.environment import Disturbance, Environment
from ci_score.model.explanation import DEVICE_PARTS, Timeline
from ci_score.model.profile import CATEGORIES
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Measured, Record
from ci_score.model.stages import BaselineFound, Compared
from ci_score.reference import grade_of
from ci_score.run.cleaned_names import CleanedNames, names_in
from ci_score.run.story import Job, judged_record, put_beside

_DEFAULTS, _NOT_KNOWN = Job(cases=()), Environment()
AS_ITS_RUN_SAYS, UNKNOWN = "as its run says", "unknown"
# No policy rejects another event, and a name of its own would be the author's words.
_EVENTS = frozenset(get_args(Disturbance))


def judged_anew(
    record: Record,
    baselines: BaselineStore,
    conversation: Conversation,
    created_at: str,
    job: Job = _DEFAULTS,
    diffs: Diffs = no_diffs,
) -> Record:
    """The record with only the stranger's numbers, and our verdict by the policy of the job."""
    cases: list[Compared] = []
    doubts: list[Reason] = []
    for case in record.cases:
        bare = only_numbers(case, _known_of(case, baselines), job.named_metrics)
        beside = put_beside(bare, base_of_launches(bare), baselines, job.in_force)
        diff = beside.diff(bare, job.commit, diffs)
        cases.append(compared(bare, beside.baseline, job.named_metrics, beside.recorded, diff))
        doubts += beside.doubts
    job = replace(job, notices=(*job.notices, *doubts))
    return judged_record(job, cases, baselines, conversation, created_at)


def _known_of(case: Measured, baselines: BaselineStore) -> Measured | None:
    """The case as the branch has measured it: what that calls so may be called so."""
    anywhere = case.environment.but(accelerator=None, precision=None)
    found = baselines.find(case.name, anywhere)
    return found.case if isinstance(found, BaselineFound) else None


def only_numbers(
    case: Measured, known: Measured | None = None, metrics: Iterable[str] = ()
) -> Measured:
    """The case without any words that its author could have written.

    It keeps everything that was measured and replaces only the fields that are named here, so that
    no number can be forgotten. The only texts that stay are names, such as those of ops, in a plain
    form unless the branch's own case in `known` has them, or they are `metrics` of the policy; and
    an accelerator and a precision where everybody calls them so, or the branch.
    """
    there = known.environment if known else _NOT_KNOWN
    bare = _with_names_alone(case)
    names = CleanedNames((*metrics, *(names_in(_with_names_alone(known)) if known else ())))
    bare = names.within(bare)
    card, environment = case.scorecard, case.environment
    return bare.but(
        name=case.name,
        environment=_bare_environment(environment).but(
            accelerator=_accelerator(environment.accelerator, there),
            precision=_precision(environment.precision, there),
        ),
        unmeasured=Why.EMPTY_BY_ITS_RUN() if case.unmeasured else None,
        scorecard=bare.scorecard.but(
            accelerator=_accelerator(card.accelerator, there),
            grade=grade_of(card.efficiency),
            ungraded_reason=None if card.graded else "the run that measured it could not grade it",
            mfu_basis=AS_ITS_RUN_SAYS if card.mfu_basis else None,
        ),
    )


def _with_names_alone(case: Measured) -> Measured:
    """The case with no text but names; those of the branch's own are of the same fields."""
    own = Measured(**{name: getattr(case, name) for name in Measured.model_fields})
    return own.but(
        environment=Environment(),
        unmeasured=None,
        scorecard=case.scorecard.but(
            accelerator=None,
            regressions=(),
            recommendations=(),
            noted=(),
            ungraded_reason=None,
            mfu_basis=None,
        ),
        advice=(),
        measurement=None,
        earlier_measurements=(),
        # A parity is a verdict; ours follows from the partner's numbers where a rule asks for it.
        parity=None,
        timeline=_bare_timeline(case.timeline),
        categories={kind: work for kind, work in case.categories.items() if kind in CATEGORIES},
        partner=case.partner.but(runtime="partner") if case.partner else None,
    )


def _bare_environment(environment: Environment) -> Environment:
    """What must match stays. A fork may not decide whether its machine can gate."""
    return environment.but(
        versions={},
        disturbances={
            event: AS_ITS_RUN_SAYS for event in environment.disturbances if event in _EVENTS
        },
        gate_at=None,
        not_qualified=None,
        differs=(),
        asked=(),
        code=None,
        alone=environment.alone.but(words=None) if environment.alone else None,
    )


def _accelerator(name: str | None, known: Environment) -> str | None:
    if name is None or name == known.accelerator or says_only_a_name(name):
        return name
    return UNKNOWN


def _precision(name: str | None, known: Environment) -> str | None:
    return name if name in (None, known.precision) or name in known_precisions() else UNKNOWN


def _bare_timeline(timeline: Timeline | None) -> Timeline | None:
    """The step; by what the device did it has the parts that we know, and phases have any name."""
    if timeline is None or timeline.basis != "device":
        return timeline
    known = {name: ms for name, ms in timeline.parts.items() if name in DEVICE_PARTS}
    return timeline.but(parts=known)
