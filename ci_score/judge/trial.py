"""What is judged: a case with all that its verdict rests on, and what was found of each metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ci_score.judge.noise import SURE, Evidence, HistoryEvidence
from ci_score.judge.policy import CaseRules, GateRule
from ci_score.model.explanation import Contribution, Explanation
from ci_score.model.reasons import Reason
from ci_score.model.record import HistoryPoint, Measured
from ci_score.model.stages import Baseline
from ci_score.model.verdict import Acceptance, Change, Outcome

# What holds without a baseline (a budget, a parity), and what became of it.
Demand = tuple[Outcome, Reason]


@dataclass(frozen=True, slots=True)
class Trial:
    """A case with everything that its verdict rests on."""

    case: Measured
    rules: CaseRules
    baseline: Baseline
    changes: tuple[Change, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    explanation: Explanation | None = None
    history: tuple[HistoryPoint, ...] = ()
    demands: tuple[Demand, ...] = ()
    accepted: Mapping[str, Acceptance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A metric's change with the rule for it and the evidence on it."""

    change: Change
    rule: GateRule
    evidence: Evidence | None = None

    @property
    def warn_score(self) -> float:
        """From where on it warns, on the scale of the evidence."""
        return self.rule.metric.limit_score(self.rule.warn)

    @property
    def fail_score(self) -> float | None:
        """From where on it fails, on the scale of the evidence."""
        return None if self.rule.fail is None else self.rule.metric.limit_score(self.rule.fail)

    @property
    def worse_by(self) -> float:
        """The one number here against the one of the baseline; more is worse."""
        return self.rule.metric.worsening(self.change.delta or 0.0)

    @property
    def decisive_limit(self) -> float:
        """What it must stay within to pass."""
        return self.rule.warn if self.rule.fail is None else self.rule.fail

    @property
    def decisive_score(self) -> float:
        """What it must stay within to pass, on the scale of the evidence."""
        return self.rule.metric.limit_score(self.decisive_limit)

    @property
    def may_warn(self) -> bool:
        """Whether the nearest baseline, too, finds it worth a warning; pairs have theirs."""
        return not isinstance(self.evidence, HistoryEvidence) or self.worse_by > self.rule.warn

    @property
    def sides_disagree(self) -> bool:
        """Whether history and nearest baseline are sure of different answers.

        Where the branch's level has just moved, its history does not know that yet.
        """
        if not isinstance(self.evidence, HistoryEvidence):
            return False
        if self.worse_by > self.decisive_limit:
            return self.evidence.at_most(SURE) <= self.decisive_score
        return not self.may_warn and (
            self.evidence.at_least(SURE) > self.warn_score
            or self.evidence.suggests(self.decisive_score)
        )

    @property
    def is_tested(self) -> bool:
        """Whether it takes part in the report's shared chance of a false failure."""
        return self.rule.gate and self.evidence is not None and self.rule.fail is not None

    def is_proven(self, chance: float) -> bool:
        """Whether it is worse than what fails, wrongly said with that chance."""
        evidence, limit = self.evidence, self.fail_score
        if evidence is None or limit is None or not evidence.proves(limit, chance):
            return False
        if not isinstance(evidence, HistoryEvidence):
            return True
        return evidence.is_borne_out_by(self.rule.metric.limit_score(self.worse_by), limit)
