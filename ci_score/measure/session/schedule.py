"""Which side of a pair runs first, and how many pairs are added to a session. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ci_score.model.values import Side

SIDES: tuple[Side, Side] = ("base", "head")
# The judge spends what is left of the chance of a false failure at each so many pairs.
ADDED_AT_ONCE = 4


def order_of(pair: int, seed: int | None) -> tuple[Side, Side]:
    """Which side goes first in a pair: a fair coin of its own decides.

    Any fixed order meets work that is periodic in step with it, which then looks like a change. The
    same seed throws the same coins.
    """
    coin = random.Random(f"{seed} {pair}")  # noqa: S311 - no secret
    return ("head", "base") if coin.random() < 0.5 else ("base", "head")


def goal_with(more: int, measured: int, looks: Sequence[int]) -> int:
    """After how many pairs a session ends that gets so many more.

    That is a look of its plan, or a whole number of steps behind the plan: nothing could be proven
    in between.
    """
    behind = max(measured + more - looks[-1], 0)
    steps = -(-behind // ADDED_AT_ONCE)
    stops = (*looks, looks[-1] + steps * ADDED_AT_ONCE)
    return next(stop for stop in stops if stop >= measured + more)


class Answer(StrEnum):
    """What a look found."""

    SLOWER = "slower than the limit"
    WITHIN = "slower, and within the limit"
    FINE = "not slower than the limit"
    UNCLEAR = "not clear yet"


# The judge's outcome -> what it means for a session.
ANSWERS = {"fail": Answer.SLOWER, "warn": Answer.WITHIN, "pass": Answer.FINE}


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the pairs so far."""

    pairs: int
    answer: Answer
