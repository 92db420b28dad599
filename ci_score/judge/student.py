"""Student's t distribution: how far a mean of few numbers may lie from the truth by chance."""

from __future__ import annotations

import math
from functools import lru_cache

_STEPS = 300
_TINY = 1e-300


def chance_above(t: float, freedom: float) -> float:
    """The probability that a t-distributed number is above `t`."""
    if t == 0:
        return 0.5
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    half = 0.5 * _incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
    return half if t > 0 else 1.0 - half


@lru_cache(maxsize=4096)
def quantile_above(chance: float, freedom: float) -> float:
    """The t that is exceeded with that chance (below one half)."""
    low, high = 0.0, 1.0
    while chance_above(high, freedom) > chance:
        low, high = high, high * 2.0
        if high > 1e12:
            return high
    for _ in range(80):
        middle = (low + high) / 2.0
        if chance_above(middle, freedom) > chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast on one side of the mean; the other is its complement.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _continued_fraction(a, b, x) / a
    return 1.0 - front * _continued_fraction(b, a, 1.0 - x) / b


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Lentz's evaluation of the fraction of the incomplete beta function."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / _not_zero(1.0 + even * d)
        c = _not_zero(1.0 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / _not_zero(1.0 + odd * d)
        c = _not_zero(1.0 + odd / c)
        value *= d * c
        if abs(d * c - 1.0) < 1e-14:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
