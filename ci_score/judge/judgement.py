"""What the statistics say of one comparison, before a policy makes an exit code of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from ci_score.model.verdict import Outcome

# *Beyond* and *below* a limit mean by more than this, on the scale of the scores.
EXACTLY = 1e-9


class Doubt(StrEnum):
    """Why a comparison is neither red nor green; of several the first in this order."""

    VOID = "void"
    CONTRADICTS = "contradicts"
    UNCLEAR = "unclear"
    TOO_NOISY = "too_noisy"


def _nothing() -> int | None:
    return None


@dataclass(frozen=True)
class Judgement:
    """Whether head is slower than a limit, by how much, and how sure that is.

    `estimate`, `low` and `high` are differences of scores here and shares of time in the public
    functions. `slower` says that it is proven slower, and beyond `warn`; an undecided judgement
    may be that, too. `settled` says that it is known by both limits, so that a session may end.
    `reason` is set if it is undecided. Then `more` is how many pairs, or launches of head, would
    probably settle it; None if no number of them would.
    """

    outcome: Outcome
    estimate: float
    low: float
    high: float
    slower: bool = False
    reason: Doubt | None = None
    settled: bool = False
    settled_by: Callable[[], int | None] = field(default=_nothing, repr=False, compare=False)

    @cached_property
    def more(self) -> int | None:
        """Computed only when somebody asks, because it tries many numbers."""
        return None if self.reason is None else self.settled_by()

    def in_shares(self) -> Judgement:
        """The same with shares of time for the differences of logarithms."""
        return replace(
            self,
            estimate=as_share(self.estimate),
            low=as_share(self.low),
            high=as_share(self.high),
        )


def beyond(score: float, limit: float) -> bool:
    """Whether a difference lies above a limit; exactly at it is not above."""
    return score > limit + EXACTLY


def below(score: float, limit: float) -> bool:
    """Whether a difference lies below a limit; exactly at it is not below."""
    return score < limit - EXACTLY


def as_share(score: float) -> float:
    """A difference of logarithms as a share of time: log 1.05 is 5 %."""
    try:
        return math.expm1(score)
    except OverflowError:
        return math.inf


def is_a_time(value: float) -> bool:
    """Whether a launch's number can be used; NaN stands for a void launch."""
    return math.isfinite(value) and value > 0
