"""One chance of a false failure for a whole report, shared by all that is tested in it."""

from __future__ import annotations

from collections.abc import Sequence

from ci_score.judge.trial import Finding
from ci_score.model.metrics import STEP_TIME, TIMES

Fact = tuple[int, str]


def shared_chances(
    allowed: Sequence[float], findings: Sequence[Sequence[Finding]]
) -> list[list[float | None]]:
    """Holm's procedure: the chance of error at which each finding of each case is tested.

    Each fact is tested at an equal share of what its case is `allowed`; each one that is proven
    leaves its share to the others, until none is proven any more. None is not tested.
    """
    facts: dict[Fact, list[Finding]] = {}
    for case, rows in enumerate(findings):
        for row in rows:
            if row.is_tested:
                facts.setdefault(_fact(case, row), []).append(row)
    chances: dict[Fact, float] = {}
    waiting = list(facts)
    while waiting:
        chances |= {fact: allowed[fact[0]] / len(waiting) for fact in waiting}
        unproven = [
            fact for fact in waiting if not any(row.is_proven(chances[fact]) for row in facts[fact])
        ]
        if len(unproven) == len(waiting):
            break
        waiting = unproven
    return [
        [chances.get(_fact(case, row)) if row.is_tested else None for row in rows]
        for case, rows in enumerate(findings)
    ]


def _fact(case: int, finding: Finding) -> Fact:
    metric = finding.change.metric
    return case, STEP_TIME if metric in TIMES else metric
