"""How wrong a red may be: the chance of a false failure, shared by tests, looks and later pairs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

MOST_PAIRS = 64
# What planned looks spend together; the rest is for pairs that are added after the plan.
OF_THE_PLAN, OF_MORE_PAIRS = 0.8, 0.2
# After how many pairs a session looks by itself; a tight limit takes more of them.
LOOKS, TIGHT_LOOKS = (6, 9, 12), (8, 12, 24)
TIGHT = 0.03
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
        more = pairs - planned[-1]
        if more % ADDED_AT_ONCE and not _are_whole_sessions(pairs, planned):
            return 0.0
        return OF_MORE_PAIRS * false_fail / tests * 2.0 ** -ceil(more / ADDED_AT_ONCE)
    able, share = _able_to_prove(planned, OF_THE_PLAN * false_fail / tests)
    return 0.0 if pairs in planned and pairs not in able else share


def planned_looks(
    limit: float,
    looks: Sequence[int] | None = None,
    false_fail: float = 0.005,
    tests: int = 1,
) -> tuple[int, ...]:
    """After how many pairs a session looks, so that one look at least can prove a slowdown.

    `looks` are those that somebody asked for. Where none of them could prove anything, because many
    tests share `false_fail`, the least number that can is one more look.
    """
    asked = tuple(looks) if looks else TIGHT_LOOKS if limit <= TIGHT else LOOKS
    plans = (asked, *((*asked, last) for last in range(asked[-1] + 1, MOST_PAIRS + 1)))
    chance = OF_THE_PLAN * false_fail / tests
    return next((plan for plan in plans if _able_to_prove(plan, chance)[0]), asked)


def _are_whole_sessions(pairs: int, planned: Sequence[int]) -> bool:
    """Whether sessions that each ended at a look have so many pairs together.

    A job that runs again adds a session, which may end between two steps. It has more pairs than a
    step, so that no step's part is spent twice.
    """
    ends = {0}
    for number in range(1, pairs + 1):
        ends.update(number for look in planned if number - look in ends)
    return pairs in ends


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
