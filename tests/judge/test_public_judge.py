"""`judge_pairs` and `judge_history`: the golden cases of a trial, and what they promise."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_score import judge_history, judge_pairs
from ci_score.judge.judgement import Doubt, Judgement
from ci_score.judge.looks import share_of_look
from ci_score.judge.signed_ranks import averages, chance, places_from_the_end
from ci_score.model.verdict import Outcome
from tests.builders import shared

CALLS: dict[str, Callable[..., Judgement]] = {
    "judge_pairs": judge_pairs,
    "judge_history": judge_history,
}
ORDER = list(Outcome)
NAN = math.nan


def golden() -> list[dict[str, Any]]:
    folder = shared()
    assert folder is not None
    with gzip.open(folder / "golden" / "judge.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def with_nan(value: Any) -> Any:
    """JSON has no NaN: null stands for it among launches."""
    if isinstance(value, list):
        return [NAN if one is None else one for one in value]
    return NAN if value is None else value


def differences(found: Judgement, expected: dict[str, Any]) -> list[str]:
    wrong = []
    for name, value in expected.items():
        here = getattr(found, name)
        if isinstance(here, float):
            wanted = math.inf if value is None and name == "high" else with_nan(value)
            both_nan = math.isnan(here) and math.isnan(wanted)
            same = both_nan or here == wanted or abs(here - wanted) <= 1e-9
        else:
            same = here == value
        if not same:
            wrong.append(f"{name}: {here}, expected {value}")
    return wrong


@pytest.mark.skipif(shared() is None, reason="the golden cases are not here (CI_SCORE_SHARED)")
def test_every_golden_case_of_the_judge_agrees() -> None:
    """Outcome, reason, estimate and both ends agree with the trial to 1e-9 in every case."""
    cases = golden()
    wrong = {}
    for number, case in enumerate(cases):
        arguments = {
            name: with_nan(value) if name in ("head", "base", "runs") else value
            for name, value in case["arguments"].items()
        }
        if found := differences(CALLS[case["call"]](**arguments), case["expected"]):
            wrong[number] = found
    assert len(cases) > 700
    assert wrong == {}


# --- signed ranks -------------------------------------------------------------------------------


def test_ends_of_the_interval_are_those_of_the_tables() -> None:
    """The places of Wilcoxon's tables for 95 %, and none below six pairs."""
    places = {pairs: places_from_the_end(pairs) for pairs in (1, 5, 6, 8, 12, 16, 24)}
    assert places == {1: 0, 5: 0, 6: 1, 8: 4, 12: 14, 16: 30, 24: 82}


@pytest.mark.parametrize("pairs", range(1, 8))
def test_the_chance_is_that_of_all_ways_to_toss_the_signs(pairs: int) -> None:
    """Counted by hand over every way in which a fair coin may fall for each pair."""
    sizes = [1.0 + 0.1 * place for place in range(pairs)]
    seen = [-sizes[0], *sizes[1:]]
    below = sum(one <= 0 for one in averages(seen))
    tossed = []
    for signs in product((-1, 1), repeat=pairs):
        one_way = [sign * size for sign, size in zip(signs, sizes, strict=True)]
        tossed.append(sum(one <= 0 for one in averages(one_way)))
    by_hand = sum(one <= below for one in tossed) / 2**pairs
    assert chance(averages(seen), pairs) == by_hand


@pytest.mark.parametrize(
    ("pairs", "looks", "share"),
    [
        (6, (6, 12), 0.0),
        (9, (6, 12), 0.004),
        (12, (6, 12), 0.004),
        (8, (8, 16, 24), 0.0),
        (16, (8, 16, 24), 0.002),
        (24, (8, 16, 24), 0.002),
        (12, None, 0.004),
        (14, (6, 12), 0.0),
        (16, (6, 12), 0.0005),
        (20, (6, 12), 0.00025),
        (15, (6, 9, 12), 0.0005),
        (17, (6, 9, 12), 0.0),
        (18, (6, 9, 12), 0.00025),
    ],
)
def test_looks_share_the_chance(pairs: int, looks: tuple[int, ...] | None, share: float) -> None:
    """A look that can prove nothing leaves its part to the others; pairs added later get less."""
    assert share_of_look(pairs, looks) == pytest.approx(share)


@pytest.mark.parametrize("looks", [(6, 9, 12), (8, 12, 24), (6, 12), (8,), (10,), (9, 15), (7, 11)])
def test_a_job_that_runs_again_takes_no_proof_away(looks: tuple[int, ...]) -> None:
    """Two sessions may end at any look, and all of their pairs say the same."""
    for first, second in product(looks, looks):
        pairs = first + second
        head, base = ([ms + 0.01 * number for number in range(pairs)] for ms in (126.0, 100.0))
        found = judge_pairs(head, base, limit=0.05, looks=looks)
        assert found.outcome == "fail", (first, second)


def test_twelve_pairs_serve_sixteen_tests() -> None:
    """What every pair says is proven with 12 pairs among 16 tests, and with 13 among 32."""
    proven = {
        (pairs, tests): judge_pairs([2.0] * pairs, [1.0] * pairs, limit=0.05, tests=tests).outcome
        for pairs, tests in ((12, 16), (12, 17), (13, 32), (13, 33))
    }
    assert [one is Outcome.FAIL for one in proven.values()] == [True, False, True, False]


# --- what the rules promise -----------------------------------------------------------------------


def test_no_green_below_six_pairs_and_no_red_below_eight() -> None:
    """Five equal pairs are unclear, and so are seven of which each is twice as slow."""
    assert judge_pairs([1.0] * 5, [1.0] * 5, limit=0.05).reason is Doubt.UNCLEAR
    assert judge_pairs([1.0] * 6, [1.0] * 6, limit=0.05).outcome is Outcome.PASS
    assert judge_pairs([2.0] * 7, [1.0] * 7, limit=0.05).reason is Doubt.UNCLEAR
    assert judge_pairs([2.0] * 8, [1.0] * 8, limit=0.05).outcome is Outcome.FAIL


def test_stalls_that_the_estimate_forgives_are_not_green() -> None:
    """One launch of 24 that stands still leaves the interval, and not the sum of all steps."""
    head = [100.0] * 23 + [300.0]
    found = judge_pairs(head, [100.0] * 24, limit=0.05)
    assert found.high < 0.05
    assert found.reason is Doubt.UNCLEAR


def test_one_void_launch_leaves_nothing_green() -> None:
    """On either side."""
    times = [100.0] * 12
    for head, base in ((NAN, 100.0), (100.0, NAN)):
        found = judge_pairs([*times, head], [*times, base], limit=0.05)
        assert found.reason is Doubt.VOID
        assert found.outcome is Outcome.INCONCLUSIVE


def test_more_says_how_many_pairs_would_settle_it() -> None:
    """Three pairs need three more to be green, and a decided judgement needs none."""
    assert judge_pairs([1.0] * 3, [1.0] * 3, limit=0.05, looks=(6, 12)).more == 6
    assert judge_pairs([1.0] * 6, [1.0] * 6, limit=0.05).more is None
    slower = judge_pairs([1.2, 1.19, 1.21, 1.2, 1.18, 1.22], [1.0] * 6, limit=0.05, looks=(6, 12))
    assert slower.more == 12


def test_a_second_launch_proves_what_stands_out_of_a_long_history() -> None:
    """One launch twice as slow as 90 quiet runs is undecided; two of them fail."""
    runs = [100.0 + place % 3 for place in range(90)]
    one = judge_history(runs, 200.0, limit=0.05)
    assert (one.reason, one.more) == (Doubt.CONTRADICTS, 2)
    assert judge_history(runs, [200.0, 201.0], limit=0.05).outcome is Outcome.FAIL


def test_more_history_never_excuses_a_slowdown() -> None:
    """Half as slow again is never green, whatever the length of a quiet history."""
    for count in range(1, 120):
        runs = [100.0 + place % 3 for place in range(count)]
        found = judge_history(runs, [150.0, 151.0], limit=0.05)
        assert found.outcome in (Outcome.INCONCLUSIVE, Outcome.FAIL)
        assert found.reason is not Doubt.TOO_NOISY


def test_nothing_sound_is_void() -> None:
    """No run, no launch or only void ones give no estimate, and are not green."""
    for found in (
        judge_history([], 1.0, limit=0.1),
        judge_history([1.0], [], limit=0.1),
        judge_history([1.0], NAN, limit=0.1),
        judge_pairs([NAN], [1.0], limit=0.1),
    ):
        assert math.isnan(found.estimate)
        assert found.reason is Doubt.VOID
        assert (found.low, found.high) == (-1.0, math.inf)


# --- ladders: slower is never better --------------------------------------------------------------

times = st.floats(50.0, 200.0)
steps = st.floats(0.0, 100.0)


@st.composite
def two_sessions(draw: st.DrawFn) -> tuple[list[float], list[float], int, float]:
    """A session, and one of its pairs made worse."""
    count = draw(st.integers(1, 20))
    head = draw(st.lists(times, min_size=count, max_size=count))
    base = draw(st.lists(times, min_size=count, max_size=count))
    near = draw(st.booleans())
    if near:
        head = [there * (1 + (here - 100) / 1000) for here, there in zip(head, base, strict=True)]
    return head, base, draw(st.integers(0, count - 1)), draw(steps)


@settings(max_examples=20 * settings().max_examples)
@given(two_sessions(), st.sampled_from([0.02, 0.05, 0.10]), st.sampled_from([None, (6, 12)]))
def test_a_slower_launch_never_gives_a_better_verdict_to_pairs(
    session: tuple[list[float], list[float], int, float],
    limit: float,
    looks: tuple[int, ...] | None,
) -> None:
    """A head launch that is slower, or a base launch that is faster, never climbs down."""
    head, base, place, more = session
    before = judge_pairs(head, base, limit=limit, warn=limit / 2, looks=looks)
    slower = [*head[:place], head[place] + more, *head[place + 1 :]]
    faster_base = [*base[:place], base[place] / (1 + more / 100), *base[place + 1 :]]
    for after in (
        judge_pairs(slower, base, limit=limit, warn=limit / 2, looks=looks),
        judge_pairs(head, faster_base, limit=limit, warn=limit / 2, looks=looks),
    ):
        assert ORDER.index(after.outcome) >= ORDER.index(before.outcome)
        assert after.slower >= before.slower


@settings(max_examples=10 * settings().max_examples)
@given(
    st.lists(st.floats(90.0, 110.0), min_size=1, max_size=110),
    st.lists(st.floats(80.0, 160.0), min_size=1, max_size=4),
    st.floats(0.0, 100.0),
    st.sampled_from([0.02, 0.05, 0.10, 0.30]),
)
def test_a_slower_launch_never_gives_a_better_verdict_to_a_history(
    runs: list[float], head: list[float], more: float, limit: float
) -> None:
    """Any launch of head that is slower leaves the verdict as it is, or makes it worse."""
    before = judge_history(runs, head, limit=limit, warn=limit / 2)
    for place in range(len(head)):
        slower = [*head[:place], head[place] + more, *head[place + 1 :]]
        after = judge_history(runs, slower, limit=limit, warn=limit / 2)
        assert ORDER.index(after.outcome) >= ORDER.index(before.outcome)
        assert after.slower >= before.slower


@settings(max_examples=10 * settings().max_examples)
@given(two_sessions(), st.sampled_from([0.02, 0.05, 0.10]))
def test_green_has_one_ground(
    session: tuple[list[float], list[float], int, float], limit: float
) -> None:
    """Pairs are green only where the upper end of their interval lies below the limit."""
    head, base, _, _ = session
    found = judge_pairs(head, base, limit=limit)
    if found.outcome in (Outcome.PASS, Outcome.WARN):
        assert found.high < limit
        assert sum(head) < (1 + limit) * sum(base)


@settings(max_examples=10 * settings().max_examples)
@given(two_sessions(), st.integers(1, 40), st.integers(1, 40))
def test_more_tests_never_turn_anything_green(
    session: tuple[list[float], list[float], int, float], few: int, many: int
) -> None:
    """A larger report makes red harder to prove, and what is then unproven is unclear."""
    head, base, _, _ = session
    few, many = sorted((few, many))
    alone = judge_pairs(head, base, limit=0.05, tests=few)
    among_many = judge_pairs(head, base, limit=0.05, tests=many)
    if among_many.outcome is not alone.outcome:
        assert alone.outcome in (Outcome.FAIL, Outcome.WARN)
        assert among_many.outcome in (Outcome.INCONCLUSIVE, Outcome.PASS)
        assert alone.outcome is Outcome.WARN or among_many.outcome is Outcome.INCONCLUSIVE
