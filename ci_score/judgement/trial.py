"""What is judged: a case with all that its verdict rests on, and what was found of each metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ci_score.models import (
    Acceptance,
    Baseline,
    CaseRecord,
    Change,
    Contribution,
    HistoryPoint,
    Outcome,
)
from ci_score.noise import SURE, Evidence, HistoryEvidence
from ci_score.policy import CaseRules, GateRule

# What holds without a baseline (a budget, a parity), and what became of it.
Demand = tuple[Outcome, str]


@dataclass(frozen=True, slots=True)
class Trial:
    """A case with everything that its verdict rests on."""

    case: CaseRecord
    rules: CaseRules
    baseline: Baseline
    changes: tuple[Change, ...] = ()
    contributions: tuple[Contribution, ...] = ()
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

    def agrees_beyond(self, limit: float) -> bool:
        """Whether the baseline, too, finds it beyond a limit.

        Where the branch's level has just moved, its history does not know that yet, and the nearest
        baseline does. Pairs have their base beside them.
        """
        return not isinstance(self.evidence, HistoryEvidence) or self.worse_by > limit

    @property
    def decisive_limit(self) -> float:
        """What it must stay within to pass."""
        return self.rule.warn if self.rule.fail is None else self.rule.fail

    @property
    def decisive_score(self) -> float:
        """What it must stay within to pass, on the scale of the evidence."""
        return self.rule.metric.limit_score(self.decisive_limit)

    @property
    def sides_disagree(self) -> bool:
        """Whether history and nearest baseline find it on different sides of a limit, for sure."""
        if not isinstance(self.evidence, HistoryEvidence):
            return False
        if self.worse_by > self.decisive_limit:
            return self.evidence.at_most(SURE) <= self.decisive_score
        return self.worse_by <= self.rule.warn and (
            self.evidence.at_least(SURE) > self.warn_score
            or self.evidence.suggests(self.decisive_score)
        )

    @property
    def is_tested(self) -> bool:
        """Whether it takes part in the report's shared chance of a false failure."""
        return self.rule.gate and self.evidence is not None and self.rule.fail is not None

    def is_proven(self, chance: float) -> bool:
        """Whether it is worse than what fails, wrongly said with that chance."""
        fail, limit = self.rule.fail, self.fail_score
        if self.evidence is None or fail is None or limit is None:
            return False
        return self.agrees_beyond(fail) and self.evidence.proves(limit, chance)
