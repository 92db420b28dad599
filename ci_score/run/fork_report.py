"""A fork's run may not write a comment: this posts it, from the record's numbers alone.

The record comes from a stranger's code. Its words, grades and verdicts are dropped; its numbers
were validated when it was read, and are scored, compared and judged here, by the policy of the
default branch.
"""

from __future__ import annotations

from ci_score.baselines import BaselineStore
from ci_score.compare.measuring import base_of_launches
from ci_score.judge.acceptance import Conversation
from ci_score.judge.trials import Evidence
from ci_score.model.environment import Environment
from ci_score.model.record import CaseRecord, Record
from ci_score.model.scorecard import Scorecard
from ci_score.reference import grade_of
from ci_score.run.story import Job, judged_record


def judged_anew(
    record: Record, baselines: BaselineStore, conversation: Conversation, created_at: str
) -> Record:
    """The stranger's numbers, with our verdict."""
    cases = [only_numbers(case) for case in record.cases]
    found = [
        base_of_launches(case) or baselines.find(case.name, case.environment) for case in cases
    ]
    evidence = Evidence(cases, found, baselines.history(1))
    return judged_record(
        Job(cases=()), evidence, baselines.policy(), baselines, conversation, created_at
    )


def only_numbers(case: CaseRecord) -> CaseRecord:
    """The case without anything that its author could have written in words."""
    card = case.scorecard
    return CaseRecord(
        name=case.name,
        environment=Environment(
            accelerator=case.environment.accelerator,
            accelerator_count=case.environment.accelerator_count,
            precision=case.environment.precision,
            timing=case.environment.timing,
            disturbances=dict.fromkeys(case.environment.disturbances, "as its run says"),
        ),
        unmeasured="the run that measured it says that nothing was" if case.unmeasured else None,
        scorecard=Scorecard(
            grade=grade_of(card.efficiency),
            efficiency=card.efficiency,
            bottleneck=card.bottleneck,
            throughput_tok_s=card.throughput_tok_s,
            step_time_ms=card.step_time_ms,
            forward_backward_ratio=card.forward_backward_ratio,
            wall_coverage=card.wall_coverage,
            per_layer_summary=card.per_layer_summary,
            hotspot_ops=card.hotspot_ops,
            ungraded_reason=None if card.graded else "the run that measured it could not grade it",
            bottleneck_known=card.bottleneck_known,
            accelerator=card.accelerator,
            accelerator_count=card.accelerator_count,
            job_throughput_tok_s=card.job_throughput_tok_s,
        ),
        metrics=case.metrics,
        launches=case.launches,
        took_turns=case.took_turns,
        tokens_per_step=case.tokens_per_step,
        phases=case.phases,
        ops=case.ops,
        ops_left_out=case.ops_left_out,
        ranks=case.ranks,
        categories=case.categories,
        partner=case.partner.model_copy(update={"runtime": "partner"}) if case.partner else None,
    )
