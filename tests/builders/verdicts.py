"""Single judged cases, and what a report says about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci_score.compare import compared
from ci_score.judge import decide
from ci_score.judge.policy import Policy, PolicyFile, policy_of
from ci_score.model.conversation import Comment, Comments
from ci_score.model.metrics import metric_of
from ci_score.model.reasons import Reason
from ci_score.model.record import Judged, Measured
from ci_score.model.stages import Baseline
from ci_score.model.verdict import Change, Verdict
from ci_score.report.headlines import describe
from ci_score.report.rows import reasons as shown_reasons
from ci_score.report.sentences import change_sentence

NO_POLICY = Policy()


def policy_file(**table: Any) -> PolicyFile:
    """A policy with its table, as read from a file."""
    return policy_of({"schema": 1, **table}, "the policy")


def policy(table: Mapping[str, Any] | None = None, /, **keys: Any) -> Policy:
    return policy_file(**{**(table or {}), **keys}).policy


def judged_case(case: Measured, baseline: Baseline, rules: Policy = NO_POLICY) -> Judged:
    """One case, judged alone and without a history."""
    (judged,) = decide([compared(case, baseline, rules.named_metrics)], (), rules)
    return judged


def verdict_on(judged: Judged) -> Verdict:
    assert judged.verdict is not None
    return judged.verdict


def reasons(judged: Judged) -> list[str]:
    """What the report says beside the numbers."""
    return [*shown_reasons(judged)]


def why(change: Change) -> str:
    """The reason for a change's outcome, in words."""
    return change_sentence(change, metric_of(change))


def change_lines(judged: Judged) -> list[str]:
    """A line for each gated change that has a reason."""
    return [
        f"{describe(change)}: {why(change)}"
        for change in judged.changes
        if change.outcome is not None and change.reasons
    ]


class Saying:
    """A conversation of one comment, by somebody who may."""

    def __init__(self, body: str) -> None:
        self.body = body

    def listen(self) -> Comments:
        """The comment."""
        return Comments((Comment("octo", self.body),))

    def why_not(self, login: str) -> Reason | None:
        """Everybody may."""
        del login
        return None

    def why_too_early(self, comment: Comment) -> Reason | None:
        """All was seen."""
        del comment
        return None
