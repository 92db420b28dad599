"""How wrong a red may be: the chance of a false failure, shared by tests, looks and later pairs."""

from __future__ import annotations

from collections.abc import Sequence

# What planned looks spend together; the rest is for pairs that are added after the plan.
OF_THE_PLAN, OF_MORE_PAIRS = 0.8, 0.2
# Pairs are added in steps of so many, and each step spends half of what the one before spent.
ADDED_AT_ONCE = 4


def share_of_look(
    pairs: int, looks: Sequence[int] | None, false_fail: float = 0.005, tests: int = 1
) -> float:
    """The chance of a false failure that a look at so many pairs may spend.

    `looks` are the planned numbers of pairs; None is one look at all pairs. A look that could
    prove nothing gets nothing, and leaves its part to the others. A session that was cut short
    between two looks gets the part of one.
    """
    planned = tuple(looks) if looks else (pairs,)
    if pairs > planned[-1]:
        steps, between = divmod(pairs - planned[-1], ADDED_AT_ONCE)
        return 0.0 if between else OF_MORE_PAIRS * false_fail / tests * 2.0**-steps
    able, share = _able_to_prove(planned, OF_THE_PLAN * false_fail / tests)
    return 0.0 if pairs in planned and pairs not in able else share


def _able_to_prove(planned: Sequence[int], chance: float) -> tuple[Sequence[int], float]:
    """The looks that can prove anything with their equal share, and that share."""
    able = planned
    while able:
        share = chance / len(able)
        # The smallest chance there is: every pair says the same.
        if 2.0 ** -able[0] <= share:
            return able, share
        able = able[1:]
    return (), 0.0
