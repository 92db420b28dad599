"""What an A/B session makes of its pairs, from launches that are made up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ci_score import judge_pairs
from ci_score.cli.session import interval_in_words
from ci_score.launches.lines import Launch
from ci_score.measure.session import quiet
from ci_score.measure.session.quiet import Quiet
from ci_score.measure.session.schedule import Answer, order_of
from ci_score.measure.session.session import Ending, Pair, Plan, Session


def plan(**more: Any) -> Plan:
    known: dict[str, Any] = {
        "command": ("python",),
        "case": "training",
        "looks": (6, 12),
        "false_fail": 0.005,
        "limit": 0.05,
        "seed": 1,
        "timeout": 60.0,
    }
    return Plan(**known | more)


def launch(ms: float, **more: Any) -> Launch:
    return Launch.model_validate({"schema": 1, "step_ms": [ms], **more})


def session(slower: float, count: int = 12, spread: float = 0.001, **more: Any) -> Session:
    """Pairs of which head is slower by that share."""
    pairs: list[Pair] = [
        (launch(10 * (1 + slower + spread * (pair % 5))), launch(10.0)) for pair in range(count)
    ]
    return Session(plan(**more), pairs=pairs)


@pytest.mark.parametrize(
    ("slower", "answer"),
    [(0.0, Answer.FINE), (0.03, Answer.WITHIN), (0.05, Answer.UNCLEAR), (0.08, Answer.SLOWER)],
)
def test_session__sees_what_the_judge_sees(slower: float, answer: Answer) -> None:
    """Its numbers and its answer are those of `judge_pairs`, for the same pairs and rules."""
    found = session(slower - 0.002, spread=0.001, warn=0.02)
    seen = found.seen()
    head = [one.mean_ms for one, _ in found.pairs]
    judged = judge_pairs(head, [10.0] * 12, limit=0.05, warn=0.02, looks=(6, 12))
    assert (seen.slower, seen.low, seen.high) == (judged.estimate, judged.low, judged.high)
    assert seen.answer is answer


def test_session__compares_the_time_of_a_token_where_both_sides_tell_theirs() -> None:
    """Twice the time of twice the tokens is no slowdown; of untold tokens it is one."""
    told = [(launch(20.0, tokens_per_step=200), launch(10.0, tokens_per_step=100))] * 8
    untold = [(launch(20.0), launch(10.0))] * 8
    assert Session(plan(), pairs=told).seen().answer is Answer.FINE
    assert Session(plan(), pairs=untold).seen().answer is Answer.SLOWER


def test_session__a_coarse_timer_proves_less() -> None:
    """One tick more or less can be all of the difference."""
    pairs = [(launch(11.0, resolution_ms=1.0), launch(10.0, resolution_ms=1.0))] * 12
    found = Session(plan(), pairs=pairs).seen()
    assert found.is_unclear
    assert found.low == pytest.approx(0.0)
    assert found.high == pytest.approx(0.2)


def test_session__beside_a_void_launch_nothing_is_clear() -> None:
    """Not even where all the others are equal; a slowdown still is, as long as pairs are enough."""
    dead = launch(10.0, failed="it exited with 1")
    equal = session(0.0, 11)
    equal.pairs.append((dead, launch(10.0)))
    assert equal.seen().is_unclear
    slow = session(0.2, 11)
    slow.pairs.append((launch(12.0), dead))
    assert slow.seen().answer is Answer.SLOWER


def test_session__goes_on_only_while_a_slowdown_can_be_proven() -> None:
    """By the pairs that are still to come, at one of the looks."""
    assert session(0.0, 4).may_fail
    assert session(-0.2, 1).may_fail
    assert not session(-0.2, 6).may_fail
    void = [(launch(10.0, failed="it exited with 1"), launch(10.0))]
    assert Session(plan(), pairs=void * 4).may_fail
    assert not Session(plan(), pairs=void * 5).may_fail


def test_session__of_periodic_work_finds_no_slowdown_in_an_unchanged_program() -> None:
    """Two of four launches are slower, in step with a fixed order; coins are in step with none."""
    slow, fast = launch(12.0), launch(10.0)
    slower = 0
    for seed in range(1000):
        pairs: list[Pair] = []
        for number in range(12):
            both = (slow, fast) if number % 2 else (fast, slow)
            pairs.append(both if order_of(number, seed)[0] == "head" else both[::-1])
        slower += Session(plan(), pairs=pairs).seen().answer is Answer.SLOWER
    assert slower <= 10


@pytest.mark.parametrize(
    ("slower", "low", "high", "words"),
    [
        (0.032, 0.01, 0.054, "+3.2 % (+1.0 % to +5.4 %)"),
        (0.032, 0.01, math.inf, "+3.2 % (+1.0 % or more)"),
        (0.032, -1.0, math.inf, "+3.2 %"),
    ],
)
def test_words__an_interval_is_told_as_far_as_there_is_one(
    slower: float, low: float, high: float, words: str
) -> None:
    """Few pairs have none, and a void launch may have been endlessly slow."""
    assert interval_in_words(slower, low, high) == words


# --- a machine that others use --------------------------------------------------------------------


def pair(head: bool, base: bool) -> Pair:
    """Head and base, of which others may have disturbed either."""
    shared = {"disturbances": {"shared": "CPU steal 9 %"}}
    return (
        launch(10.0, side="head", **(shared if head else {})),
        launch(10.0, side="base", **(shared if base else {})),
    )


@pytest.mark.parametrize(
    ("disturbed", "words"),
    [
        ([], ""),
        ([pair(head=True, base=False)] * 5, ""),
        ([pair(head=True, base=False)] * 6, "what disturbs the launches comes with head: 6 of its"),
        ([pair(head=False, base=True)] * 9, ""),
        ([pair(head=True, base=True)] * 12, ""),
        ([pair(head=True, base=False), pair(head=False, base=True)] * 6, ""),
        ([pair(head=True, base=True)] * 13, "other processes disturbed 13 pairs, more than the 12"),
    ],
)
def test_session__measures_again_what_others_disturbed(disturbed: list[Pair], words: str) -> None:
    """Not what comes with head: it could drop its slow launches by disturbing them."""
    found = session(0.0, 12)
    found.disturbed = disturbed
    found.stop(Ending.DISTURBED, "")
    assert found.too_disturbed.startswith(words)
    assert bool(found.too_disturbed) == bool(words)
    # What was measured is judged, if it is enough and no selection.
    assert found.can_be_judged is not bool(words)
    found.pairs = found.pairs[:5]
    assert not found.can_be_judged


def waits(looks: list[str], most: float, heard: list[str], *, stopped: bool = False) -> str:
    """For quiet, on a machine where each look finds the next of these, and then the last again."""
    left = iter(looks)

    def others(*, was_disturbed: bool) -> str:
        assert was_disturbed
        return next(left, looks[-1])

    class Heard:
        says = reaches = staticmethod(heard.append)

    return Quiet(others, most, lambda: stopped, Heard()).comes(was_disturbed=True)


BUSY, WAITING = "others use 1.5 of 2 CPUs", "waiting for a quiet machine"


@pytest.mark.parametrize(
    ("looks", "most", "said", "left"),
    [
        ([""], 60.0, [], ""),
        ([BUSY, BUSY, ""], 60.0, [f"{BUSY}: waiting, up to 60 s", WAITING], ""),
        (
            [BUSY],
            0.05,
            [f"{BUSY}: waiting, up to 0.05 s", WAITING],
            f"{BUSY}, still after 0.05 s of waiting",
        ),
        ([BUSY], 0.0, [], ""),
    ],
)
def test_quiet__is_waited_for_and_that_is_said(
    looks: list[str], most: float, said: list[str], left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, with how long it may take; a machine that stays busy is told."""
    monkeypatch.setattr(quiet, "EVERY_SECONDS", 0.01)
    heard: list[str] = []
    assert (waits(looks, most, heard), heard) == (left, said)


def test_quiet__is_not_waited_for_when_somebody_stops_it() -> None:
    """Ctrl-C ends the waiting, and what comes next sees it as well."""
    assert waits([BUSY], 60.0, [], stopped=True) == ""
