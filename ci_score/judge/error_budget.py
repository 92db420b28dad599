"""One chance of a false failure for a whole report, shared by all that pairs test in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci_score.judge.looks import planned_looks, share_of_look
from ci_score.judge.pairs import Pairs
from ci_score.judge.policy import CaseRules
from ci_score.judge.trial import Finding
from ci_score.model.metrics import STEP_TIME, TIMES

Fact = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Tested:
    """The pairs on a metric, and what says how they may be tested."""

    pairs: Pairs
    looks: tuple[int, ...] | None
    rules: CaseRules

    def share(self, tests: int) -> float:
        """Its share among so many tests; what a session says of its plan makes it only smaller."""
        measure = self.rules.measure
        asked = measure.looks
        # As `ab` plans it: where none of the policy's looks can prove anything, one more does.
        known = asked and planned_looks(1.0, asked, measure.false_fail, measure.tests)
        plans = {known, self.looks or known}
        count = len(self.pairs.differences)
        return min(share_of_look(count, looks, measure.false_fail, tests) for looks in plans)


def shared_chances(
    rules: Sequence[CaseRules], findings: Sequence[Sequence[Finding]]
) -> list[list[float]]:
    """Holm's procedure: the share at which each finding of each case is tested; 0 is not tested.

    Each fact is tested among as many as there are, or as the policy says of a matrix. Each one
    that is proven leaves its share to the others, until none is proven any more.
    """
    facts: dict[Fact, list[_Tested]] = {}
    for case, rows in enumerate(findings):
        for row in rows:
            if row.is_tested and row.pairs is not None:
                tested = _Tested(row.pairs, row.looks, rules[case])
                facts.setdefault(_fact(case, row), []).append(tested)
    tests = max([len(facts), *(each.measure.tests for each in rules)])
    shares: dict[Fact, float] = {}
    waiting = list(facts)
    while waiting:
        shares |= {fact: min(one.share(tests) for one in facts[fact]) for fact in waiting}
        unproven = [
            fact
            for fact in waiting
            if not any(one.pairs.is_proven(shares[fact]) for one in facts[fact])
        ]
        if len(unproven) == len(waiting):
            break
        tests -= len(waiting) - len(unproven)
        waiting = unproven
    return [
        [shares[_fact(case, row)] if row.is_tested else _alone(row, rules[case]) for row in rows]
        for case, rows in enumerate(findings)
    ]


def _alone(finding: Finding, rules: CaseRules) -> float:
    """What cannot fail takes no share from the others."""
    if finding.pairs is None:
        return 0.0
    return _Tested(finding.pairs, finding.looks, rules).share(rules.measure.tests)


def _fact(case: int, finding: Finding) -> Fact:
    metric = finding.change.metric
    return case, STEP_TIME if metric in TIMES else metric
