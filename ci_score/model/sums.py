"""Sums as the reference computes them: from 0.0, in the given order, in a plain loop.

`sum()` compensates for rounding since Python 3.12, and `fsum` and `fmean` round differently. Each
of them would change the reference's bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plain_sum(values: Iterable[float]) -> float:
    """The sum, rounded as the reference rounds it."""
    total = 0.0
    for value in values:
        total += value
    return total


def weighted_median(values: Sequence[tuple[float, float]]) -> float:
    """The value that half of the weight lies below; 0 of nothing."""
    half = plain_sum(weight for _, weight in values) / 2
    reached = 0.0
    for value, weight in sorted(values):
        reached += weight
        if reached >= half:
            return value
    return 0.0
