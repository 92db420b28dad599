"""One chance of a false failure for a whole report, shared by all that is tested in it."""

from __future__ import annotations

from collections.abc import Sequence

from ci_score.judgement.trial import Finding

# The chance of each finding of each case, None where it is not tested.
Chances = list[list[float | None]]


def shared_chances(allowed: Sequence[float], findings: Sequence[Sequence[Finding]]) -> Chances:
    """Holm's procedure: the chance of error at which each finding of each case is tested.

    Each is tested at an equal share of what its case is `allowed`; each one that is proven leaves
    its share to the others, until none is proven any more.
    """
    chances: Chances = [[None] * len(rows) for rows in findings]
    waiting = [
        (case, place)
        for case, rows in enumerate(findings)
        for place, row in enumerate(rows)
        if row.is_tested
    ]
    while waiting:
        unproven = []
        for case, place in waiting:
            chance = allowed[case] / len(waiting)
            chances[case][place] = chance
            if not findings[case][place].is_proven(chance):
                unproven.append((case, place))
        if len(unproven) == len(waiting):
            break
        waiting = unproven
    return chances
