"""The report on a fork's run, which may not write a comment, from the numbers of its record.

A stranger's code wrote the record. Its words, grades and verdicts are dropped. Its numbers were
validated when it was read; they are compared and judged here, by the default branch's policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from ci_score.baselines import BaselineStore
from ci_score.compare import base_of_launches, compared
from ci_score.model.accelerators import known_precisions, says_only_a_name
from ci_score.model.conversation import Conversation
from ci_score.model.environment import Disturbance, Environment
from ci_score.model.explanation import DEVICE_PARTS, Timeline
from ci_score.model.reasons import Why
from ci_score.model.record import Judged, Measured, Record
from ci_score.model.scorecard import Scorecard
from ci_score.model.stages import BaselineFound, Compared
from ci_score.reference import grade_of
from ci_score.run.story import Job, judged_record, missing_base

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
) -> Record:
    """The record with only the stranger's numbers, and our verdict by the policy of the job."""
    names = job.named_metrics
    bare = (only_numbers(case, _environment_of(case, baselines)) for case in record.cases)
    cases = [_compared(case, baselines, names) for case in bare]
    judged = judged_record(job, cases, baselines, conversation, created_at)
    return judged.but(cases=tuple(map(_without_causes, judged.cases)))


def _environment_of(case: Measured, baselines: BaselineStore) -> Environment:
    """Where the branch has measured the case: what it calls so may be called so."""
    anywhere = case.environment.but(accelerator=None, precision=None)
    found = baselines.find(case.name, anywhere)
    return found.case.environment if isinstance(found, BaselineFound) else _NOT_KNOWN


def _compared(case: Measured, baselines: BaselineStore, names: Iterable[str]) -> Compared:
    found = baselines.find(case.name, case.environment)
    if without_base := missing_base(case, found, baselines):
        return compared(case, without_base, names)
    recorded = found.case if isinstance(found, BaselineFound) else None
    return compared(case, base_of_launches(case) or found, names, recorded)


def _without_causes(case: Judged) -> Judged:
    """The case with no cause in its headline: an op may be called by any sentence."""
    if case.explanation is None:
        return case
    return case.but(explanation=case.explanation.but(cause=None, counts_cause=None))


def only_numbers(case: Measured, known: Environment = _NOT_KNOWN) -> Measured:
    """The case without any words that its author could have written.

    It keeps everything that was measured and replaces only the fields that are named here, so that
    no number can be forgotten. The only text that stays are names: of ops, phases and metrics, and
    of an accelerator and a precision where everybody calls them so, or the branch in `known`.
    """
    own = Measured(**{name: getattr(case, name) for name in Measured.model_fields})
    accelerator = _accelerator(case.environment.accelerator, known)
    card = _bare_card(case.scorecard, _accelerator(case.scorecard.accelerator, known))
    return own.but(
        environment=_bare_environment(case.environment).but(
            accelerator=accelerator, precision=_precision(case.environment.precision, known)
        ),
        unmeasured=Why.EMPTY_BY_ITS_RUN() if case.unmeasured else None,
        scorecard=card,
        advice=(),
        measurement=None,
        earlier_measurements=(),
        # A parity is a verdict; ours follows from the partner's numbers where a rule asks for it.
        parity=None,
        timeline=_bare_timeline(case.timeline),
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
        alone=environment.alone.but(words=None) if environment.alone else None,
    )


def _accelerator(name: str | None, known: Environment) -> str | None:
    if name is None or name == known.accelerator or says_only_a_name(name):
        return name
    return UNKNOWN


def _precision(name: str | None, known: Environment) -> str | None:
    return name if name in (None, known.precision) or name in known_precisions() else UNKNOWN


def _bare_card(card: Scorecard, accelerator: str | None) -> Scorecard:
    ungraded = None if card.graded else "the run that measured it could not grade it"
    return card.but(
        accelerator=accelerator,
        grade=grade_of(card.efficiency),
        regressions=(),
        recommendations=(),
        noted=(),
        ungraded_reason=ungraded,
        mfu_basis=AS_ITS_RUN_SAYS if card.mfu_basis else None,
    )


def _bare_timeline(timeline: Timeline | None) -> Timeline | None:
    """The step by what the device did, in the parts that we know; phases are named by anybody."""
    if timeline is None or timeline.basis != "device":
        return None
    known = {name: ms for name, ms in timeline.parts.items() if name in DEVICE_PARTS}
    return timeline.but(parts=known)
