"""What else people decide with, beside `benchmarks.gate` and on the same times: is head slower?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec

Times = Sequence[float]
Rival = Callable[[Times, Times], bool]


def fixed(head: Times, base: Times) -> bool:
    """The medians, or head against the branch's last run: 10 % slower."""
    before = statistics.median(base) if len(head) == len(base) else base[-1]
    return statistics.median(head) > 1.10 * before


def mann_whitney(head: Times, base: Times) -> bool:
    """The ranks, exactly, at 5 % for both sides together; no two of these times are equal."""
    above = sum(here > there for here in head for there in base)
    ways = _ways(len(head), len(base))
    return sum(ways[above:]) <= 0.025 * sum(ways)


@lru_cache(maxsize=16)
def _ways(head: int, base: int) -> tuple[int, ...]:
    """In how many orders of all launches so many times a launch of head lies above one of base."""
    found = [[1, *[0] * (head * base)] for _ in range(head + 1)]
    for bases in range(1, base + 1):
        for heads in range(1, head + 1):
            # The highest is one of base, or one of head that lies above all bases.
            lower = [*[0] * bases, *found[heads - 1]]
            found[heads] = [sum(both) for both in zip(found[heads], lower, strict=False)]
    return tuple(found[head])


def t_threshold(head: Times, base: Times, *, sure: float) -> bool:
    """Welch's t-test of two sides; of a branch its mean and t spreads more."""
    gap = statistics.fmean(head) - statistics.fmean(base)
    there = _variance(base)
    if len(head) < len(base):
        return gap > t_quantile(sure, len(base) - 1) * math.sqrt(there)
    parts = (_variance(head) / len(head), there / len(base))
    freedom = sum(parts) ** 2 / sum(part**2 / (len(base) - 1) for part in parts)
    return gap > t_quantile(sure, freedom) * math.sqrt(sum(parts))


def _variance(times: Times) -> float:
    # That of the statistics module is exact, and takes fifty times as long.
    mean = statistics.fmean(times)
    return math.fsum((time - mean) ** 2 for time in times) / (len(times) - 1)


def t_quantile(sure: float, freedom: float) -> float:
    """Cornish and Fisher's series: three digits from ten degrees of freedom on."""
    z = statistics.NormalDist().inv_cdf(sure)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def otava(head: Times, base: Times) -> bool:
    """Apache Otava with its defaults: a rise where head begins, give or take two launches."""
    points, _ = import_module("otava.analysis").compute_change_points([*base, *head])
    return any(
        abs(point.index - len(base)) <= 2 and point.stats.mean_2 > point.stats.mean_1
        for point in points
    )


RIVALS: dict[str, Rival] = {
    "fixed 10 %": fixed,
    "Mann–Whitney": mann_whitney,
    "t 95 %": partial(t_threshold, sure=0.95),
    "t 99 %": partial(t_threshold, sure=0.99),
}
if find_spec("otava"):
    RIVALS["Otava"] = otava
