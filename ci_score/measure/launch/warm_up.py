"""From which step on a script's times have settled, by those of its untimed launch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

GROUP = 5
SETTLED = 0.10
# In every other launch the second step waits for data-loader workers that start, so one launch
# cannot tell whether the next one's will.
LEAST = 2
# A step is slow from so many times the median on.
SLOW = 2.0
# Of two slow steps each takes at most so many times as much longer as the other: they are alike.
ALIKE = 2.0


def warm_up_of(step_ms: Sequence[float]) -> tuple[int, bool]:
    """After how many steps the times have settled, and whether they have.

    It is the first step after which the medians of two following groups of five differ by at most
    10 %, and then the last slow step in these groups that belongs to the start alone. `step_ms`
    begins with the second step: nobody knows when the first one began.
    """
    for warmup in range(1, len(step_ms) - 2 * GROUP + 2):
        begin = warmup - 1
        one = statistics.median(step_ms[begin : begin + GROUP])
        other = statistics.median(step_ms[begin + GROUP : begin + 2 * GROUP])
        if abs(one - other) <= SETTLED * min(one, other):
            return max(LEAST, warmup + _slow_start(step_ms, begin)), True
    return len(step_ms) + 1, False


def _slow_start(step_ms: Sequence[float], begin: int) -> int:
    """How many more steps end with the last slow one that medians hide and that does not recur.

    Workers that start, a second compilation, a cache that fills: a launch has it once, here or
    there, and twenty timed steps would carry it or not. What recurs, such as an evaluation, is
    part of the work, so the steps that follow must be enough to show a second one.
    """
    median = statistics.median(step_ms[begin:])
    end = begin + 2 * GROUP
    later = [one - median for one in step_ms[end:]]
    steps = 0
    for place in range(begin, end):
        excess = step_ms[place] - median
        # The step that ends here has the number `place + 2`: no period is longer.
        would_recur = len(later) >= place + 2
        if would_recur and excess >= (SLOW - 1) * median and not _is_among(excess, later):
            steps = place + 1 - begin
    return steps


def _is_among(excess: float, others: Sequence[float]) -> bool:
    return any(excess / ALIKE <= one <= excess * ALIKE for one in others)
