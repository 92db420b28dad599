"""Sums as the reference adds: in the order given, from 0.0, in a plain loop.

`sum()` compensates since Python 3.12, and `fsum` and `fmean` round differently: each would change
what the reference computes.
"""

from __future__ import annotations

from collections.abc import Iterable


def plain_sum(values: Iterable[float]) -> float:
    """The sum that the reference would have."""
    total = 0.0
    for value in values:
        total += value
    return total
