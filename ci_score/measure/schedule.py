"""In which order the two sides run, when to look, and how sure a look must be. Pure.

Pairs run as ABBA: whichever side went first goes second in the next pair, so that a machine that
warms up or drifts favours neither. The chance of a false failure is spent over the looks, the later
ones get more of it: that way looking early costs little, and a clear answer still stops early.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from ci_score.judge import SURE, Evidence

Side = Literal["head", "base"]
LOOKS = (4, 8, 12)


def order_of(pair: int, seed: int) -> tuple[Side, Side]:
    """Which side goes first in a pair: the seed decides the first, then they alternate."""
    head_first = (random.Random(seed).random() < 0.5) == (pair % 2 == 0)  # noqa: S311 - no secret
    return ("head", "base") if head_first else ("base", "head")


def share_of_look(look: int, looks: int) -> float:
    """The part of the chance of error that the look (counted from 1) may spend."""
    return look / (looks * (looks + 1) / 2)


class Answer(StrEnum):
    """What a look found."""

    SLOWER = "slower than the limit"
    FINE = "not slower than the limit"
    UNCLEAR = "not clear yet"


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the pairs so far."""

    number: int
    pairs: int
    answer: Answer
    worsening: float
    low: float
    high: float
    visible: float


def visible_in(evidence: Evidence, limit: float) -> float:
    """The least slowdown that the pairs would have shown, as the judge of `run` tells it."""
    return evidence.smallest_visible(of_a_pass=evidence.at_most(SURE) <= limit)


def interval_of(evidence: Evidence) -> tuple[float, float, float]:
    """How much slower head is, and between which two scores that lies with 95 % confidence."""
    high = evidence.at_most(SURE / 2)
    return evidence.worsening, 2 * evidence.worsening - high, high


def look_at(
    evidence: Evidence, number: int, looks: Sequence[int], limit: float, false_fail: float
) -> Look:
    """The answer of a look: both errors are spent over the looks."""
    share = share_of_look(number, len(looks))
    if evidence.proves(limit, false_fail * share):
        answer = Answer.SLOWER
    elif evidence.at_most(SURE * share) <= limit:
        answer = Answer.FINE
    else:
        answer = Answer.UNCLEAR
    seen = interval_of(evidence)
    return Look(number, evidence.samples, answer, *seen, visible_in(evidence, limit))
