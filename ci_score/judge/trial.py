"""What is judged: a case with all that its verdict rests on, and what was found of each metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ci_score.judge.history import HeadLaunches, History
from ci_score.judge.pairs import Pairs
from ci_score.judge.policy import CaseRules, GateRule
from ci_score.model.explanation import Contribution, Explanation
from ci_score.model.metrics import Kind, Metric
from ci_score.model.reasons import Reason
from ci_score.model.record import HistoryPoint, LaunchNumbers, Measured
from ci_score.model.stages import Baseline, BaselineFound
from ci_score.model.step_ops import BaseSide
from ci_score.model.verdict import Acceptance, Change, Outcome, Unjudged

# What holds without a baseline (a budget, a parity), and what became of it.
Demand = tuple[Outcome, Reason]


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a case must not be green, and in which word; without `reasons` a change tells it."""

    kind: Unjudged
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """A case with everything that its verdict rests on.

    `recorded` is the branch's own record of the case, which a session's base does not replace:
    what it says of the machine and of what is measured is not the change's to say.
    """

    case: Measured
    rules: CaseRules
    baseline: Baseline
    recorded: Measured | None = None
    changes: tuple[Change, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    explanation: Explanation | None = None
    base: BaseSide | None = None
    history: tuple[HistoryPoint, ...] = ()
    demands: tuple[Demand, ...] = ()
    accepted: Mapping[str, Acceptance] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[Measured, ...]:
        """Head, and its base where there is one."""
        base = (self.baseline.case,) if isinstance(self.baseline, BaselineFound) else ()
        return self.case, *base

    @property
    def measures_throughput(self) -> bool:
        """Whether both sides have measured their throughput."""
        return all(side.measures_throughput for side in self.sides)

    @property
    def claims_throughput(self) -> bool:
        """Whether an input gives it on both sides: such a number counts only where it is worse."""
        return all(side.throughput_given for side in self.sides)

    @property
    def is_in_pairs(self) -> bool:
        """Whether its launches are judged in pairs of both sides."""
        design = self.rules.measure.design
        return self.case.has_both_sides and design in (None, "interleaved")

    @property
    def drops_shared(self) -> bool:
        """Whether launches that others disturbed are left out."""
        return "shared" in self.rules.environment.reject

    def pairs(self) -> list[tuple[LaunchNumbers, LaunchNumbers]]:
        """The pairs of launches, without those that others disturbed.

        A void launch stays: whoever disturbed it, it measured nothing.
        """
        return [pair for pair in self.case.pairs() if not self._is_dropped(*pair)]

    def of_head(self) -> list[LaunchNumbers]:
        """The launches of head alone, without those that others disturbed."""
        return [
            launch
            for launch in self.case.launches
            if launch.side == "head" and not self._is_dropped(launch)
        ]

    def _is_dropped(self, *launches: LaunchNumbers) -> bool:
        is_shared = self.drops_shared and any(one.shared for one in launches)
        return is_shared and not any(one.void for one in launches)

    def may_be_waved_through(self, metric: Metric) -> bool:
        """Whether one number a side may pass up to twenty per cent, as luck of a noisy machine.

        Not where the branch measures in pairs, which the change would only have to leave out; not
        what should be a count; and of what is no ratio twenty per cent mean nothing.
        """
        in_pairs = self.recorded is not None and self.recorded.has_both_sides
        has_fewer = in_pairs and not self.case.has_both_sides
        return metric.relative and metric.kind is Kind.NOISY and not has_fewer

    @property
    def commits_away(self) -> int:
        """How many other commits lie between the baseline's record and the tested base."""
        if not isinstance(self.baseline, BaselineFound):
            return 0
        return self.baseline.used.commits_away or 0


@dataclass(frozen=True, slots=True)
class BesideHistory:
    """Head's launches and the branch's runs; a single number may be all there is of either."""

    history: History
    head: HeadLaunches
    rules: Literal["training", "reference"] = "training"

    @property
    def has_interval(self) -> bool:
        """Whether there are runs enough for an interval, and the rules judge by it."""
        return self.rules == "training" and self.history.has_interval


@dataclass(frozen=True, slots=True)
class Finding:
    """A metric's change with the rule for it, and the evidence on it: an exact count has none."""

    change: Change
    rule: GateRule
    pairs: Pairs | None = None
    # The median launch of base and of head, of those pairs.
    medians: tuple[float, float] | None = None
    beside: BesideHistory | None = None
    # After how many pairs the session planned to look.
    looks: tuple[int, ...] | None = None
    # Of a count: whether the branch's own runs disagree on it.
    varies_on_the_branch: bool = False

    @property
    def warn_score(self) -> float:
        """From where on it warns, on the scale of the evidence."""
        return self.rule.metric.limit_score(self.rule.warn)

    @property
    def limit(self) -> float:
        """What it must stay within."""
        return self.rule.warn if self.rule.fail is None else self.rule.fail

    @property
    def limit_score(self) -> float:
        """The same on the scale of the evidence."""
        return self.rule.metric.limit_score(self.limit)

    @property
    def is_count(self) -> bool:
        """Whether it is a count, on which every run of a program agrees."""
        return self.rule.metric.kind is Kind.EXACT and self.pairs is None and self.beside is None

    @property
    def worse_by(self) -> float:
        """The one number here against the one of the baseline; more is worse."""
        return self.rule.metric.worsening(self.change.delta or 0.0)

    @property
    def is_tested(self) -> bool:
        """Whether it takes part in the report's shared chance of a false failure."""
        return self.rule.gate and self.rule.fail is not None and self.pairs is not None
