"""Signed ranks, exactly: what the differences of so many pairs say, whatever their luck is like.

Of an unchanged program each difference is as likely above 0 as below it, if a fair coin decided
which side of the pair ran first. That alone gives the chance; no spread is estimated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from operator import add

# Each end of the interval is wrong with this chance at most: both together make 95 %.
CHANCE_OF_AN_END = 0.025
# Equal times are common. Rounding makes their difference a hair more than 0.
TIE = 1e-9


def averages(differences: Sequence[float]) -> list[float]:
    """The averages of every two differences, each with itself too, sorted.

    Their middle is the estimate, and how many lie below a number is the sum of the ranks there.
    """
    # In order, so that there is little left to sort.
    ordered = sorted(differences)
    return sorted(
        [
            (first + second) / 2.0
            for place, first in enumerate(ordered)
            for second in ordered[place:]
        ]
    )


def chance(sorted_averages: Sequence[float], pairs: int) -> float:
    """How often an unchanged program looks so much slower; 1 without any pair."""
    below = bisect_right(sorted_averages, TIE)
    return sum(_ways(pairs)[: below + 1]) / 2**pairs if pairs else 1.0


@lru_cache(maxsize=256)
def places_from_the_end(pairs: int) -> int:
    """Which average, counted from an end, is that end of the interval; 0 if there is none."""
    likely, places = 0, 0
    for ways in _ways(pairs):
        likely += ways
        if likely > CHANCE_OF_AN_END * 2**pairs:
            break
        places += 1
    return places


@lru_cache(maxsize=256)
def _ways(pairs: int) -> tuple[int, ...]:
    """In how many of the 2^pairs ways to toss the signs the ranks sum to 0, 1, 2 …"""
    ways = [1]
    for rank in range(1, pairs + 1):
        without, with_it = [*ways, *[0] * rank], [*[0] * rank, *ways]
        ways = list(map(add, without, with_it))
    return tuple(ways)
