"""Sums as the reference computes them: from 0.0, in the given order, in a plain loop.

`sum()` compensates for rounding since Python 3.12, and `fsum` and `fmean` round differently. Each
of them would change the reference's bits.
"""

from __future__ import annotations

from collections.abc import Iterable


def plain_sum(values: Iterable[float]) -> float:
    """The sum, rounded as the reference rounds it."""
    total = 0.0
    for value in values:
        total += value
    return total
