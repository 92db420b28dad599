"""Evidence: how much worse, and how sure. What must hold whatever the numbers are."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ci_score.judge import noise, student
from ci_score.judge.noise import HistoryEvidence, PairedEvidence, against_history, paired
from ci_score.launches.lines import Launch

LIMIT = math.log(1.05)
CHANCE = 0.005

scores = st.floats(-1.0, 1.0)
pairs = st.lists(st.tuples(scores, scores), min_size=4, max_size=16)
histories = st.lists(scores, min_size=30, max_size=60)


def of_pairs(rows: Sequence[tuple[float, float]]) -> PairedEvidence:
    found = paired([head for head, _ in rows], [base for _, base in rows])
    assert found is not None
    return found


def differences(*percents: float) -> PairedEvidence:
    """Pairs whose head is slower by that much."""
    return of_pairs([(math.log1p(percent / 100.0), 0.0) for percent in percents])


def of_runs(now: float, history: Sequence[float]) -> HistoryEvidence:
    found = against_history(now, history)
    assert found is not None
    return found


def quiet(runs: int, spread: float = 0.01) -> list[float]:
    """A machine whose launches differ a little."""
    luck = random.Random(7)  # noqa: S311 - no secret
    return [luck.gauss(0.0, spread) for _ in range(runs)]


# --- Student's t --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chance", "freedom", "table"),
    [
        (0.05, 1, 6.3138),
        (0.025, 10, 2.2281),
        (0.005, 3, 5.8409),
        (0.005, 7, 3.4995),
        (0.005, 29, 2.7564),
        (0.001, 5, 5.8934),
        (0.0005, 4, 8.6103),
        (0.05, 10**6, 1.64486),
    ],
)
def test_quantile__is_that_of_the_printed_tables(
    chance: float, freedom: float, table: float
) -> None:
    """The values that statisticians have printed since 1908."""
    assert student.quantile_above(chance, freedom) == pytest.approx(table, abs=6e-5)


@given(st.floats(1e-6, 0.499), st.integers(1, 500))
def test_quantile__is_exceeded_with_its_chance(chance: float, freedom: int) -> None:
    """Quantile and probability are each other's inverse."""
    quantile = student.quantile_above(chance, freedom)
    assert student.chance_above(quantile, freedom) == pytest.approx(chance, rel=1e-9)


@given(st.floats(-50.0, 50.0), st.integers(1, 200))
def test_chance__of_both_sides_is_one(t: float, freedom: int) -> None:
    """The distribution is even, and its chances are chances."""
    above, below = student.chance_above(t, freedom), student.chance_above(-t, freedom)
    assert 0.0 <= above <= 1.0
    assert above + below == pytest.approx(1.0)


def test_chance__at_the_ends() -> None:
    """Nothing lies above infinity, half of it above 0."""
    assert student.chance_above(math.inf, 3) == 0.0
    assert student.chance_above(-math.inf, 3) == 1.0
    assert student.chance_above(0.0, 3) == 0.5


# --- pairs --------------------------------------------------------------------------------------


@given(pairs, st.randoms(use_true_random=False))
def test_paired__permuting_pairs_changes_nothing(
    rows: list[tuple[float, float]], luck: random.Random
) -> None:
    """The order in which pairs are told is no evidence."""
    shuffled = list(rows)
    luck.shuffle(shuffled)
    assert of_pairs(shuffled) == of_pairs(rows)


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_launch__permuting_steps_changes_nothing(steps: list[float], luck: random.Random) -> None:
    """A launch is one number, whatever the order of its timed steps."""
    shuffled = list(steps)
    luck.shuffle(shuffled)
    told = ({"schema": 1, "step_ms": one} for one in (steps, shuffled))
    first, second = (Launch.model_validate(line).numbers() for line in told)
    assert first == second


@given(pairs, st.floats(0.0, 1.0))
def test_paired__a_slower_head_is_never_less_proven(
    rows: list[tuple[float, float]], slower: float
) -> None:
    """What slows every launch of head moves each bound by as much."""
    before = of_pairs(rows)
    after = of_pairs([(head + slower, base) for head, base in rows])
    for bound in (PairedEvidence.at_least, PairedEvidence.at_most):
        assert bound(after, CHANCE) >= bound(before, CHANCE) - 1e-9
    if before.proves(LIMIT, CHANCE):
        assert after.proves(LIMIT - 1e-9, CHANCE)


@given(
    st.lists(st.floats(5.1, 40.0), min_size=8, max_size=16),
    st.integers(0, 7),
    st.floats(0.0, 5000.0),
)
def test_paired__one_launch_that_ran_away_cannot_hide_the_others(
    percents: list[float], which: int, runaway: float
) -> None:
    """Where each of eight pairs is beyond the limit, a hiccup in one of them proves no less."""
    assert differences(*percents).proves(LIMIT, CHANCE)
    percents[which] += runaway
    assert differences(*percents).proves(LIMIT, CHANCE)


def test_paired__one_launch_that_ran_away_leaves_a_suspicion() -> None:
    """Four pairs are too few to prove it then, and each of them says the same."""
    found = differences(10.0, 10.5, 9.5, 900.0)
    assert not found.proves(LIMIT, CHANCE)
    assert found.suggests(LIMIT)
    assert not differences(1.0, 0.5, 1.5, 900.0).suggests(LIMIT)


@given(pairs, st.floats(-6.0, 6.0))
def test_paired__the_unit_does_not_matter(rows: list[tuple[float, float]], moved: float) -> None:
    """Seconds instead of milliseconds move both sides of a pair alike."""
    before = of_pairs(rows)
    after = of_pairs([(head + moved, base + moved) for head, base in rows])
    assert after.worsening == pytest.approx(before.worsening, abs=1e-12)
    assert after.error == pytest.approx(before.error, abs=1e-12)


def test_paired__three_pairs_say_nothing() -> None:
    """So few numbers have no spread to speak of."""
    assert paired([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]) is None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_evidence__nan_never_gets_through(number: float) -> None:
    """A number that is none is no evidence, on either side and in any place."""
    assert paired([number, 1.0, 1.0, 1.0], [1.0] * 4) is None
    assert paired([1.0] * 4, [1.0, 1.0, 1.0, number]) is None
    assert against_history(number, quiet(30)) is None
    assert against_history(0.0, [*quiet(30), number]) is None


def test_paired__four_pairs_are_not_surer_than_a_machine_of_two_modes_allows() -> None:
    """Head slow and base fast in all of four pairs is luck once in 256 sessions."""
    found = differences(20.0, 20.1, 19.9, 20.0)
    assert found.proves(LIMIT, 1 / 256)
    assert not found.proves(LIMIT, 1 / 257)


def test_paired__numbers_that_agree_to_the_last_digit_prove() -> None:
    """A spread of 0 is rounding, and no division by it."""
    assert differences(6.0, 6.0, 6.0, 6.0).proves(LIMIT, CHANCE)
    assert not differences(5.0, 5.0, 5.0, 5.0).proves(LIMIT, CHANCE)


def test_paired__says_how_many_pairs_would_prove_it() -> None:
    """As many as prove it when the suggested difference and spread are true, and no fewer."""
    found = differences(8.0, 12.0, 9.0, 11.0)
    assert not found.proves(LIMIT, CHANCE)
    needed = found.pairs_to_prove(LIMIT, CHANCE)
    assert needed is not None
    spread = found.error * math.sqrt(found.samples)
    for count, proves in ((needed, True), (needed - 1, False)):
        assumed = PairedEvidence(
            found.worsening, spread / math.sqrt(count), count - 1, count, found.least
        )
        assert (assumed.at_least(CHANCE) > LIMIT) is proves


def test_paired__no_number_of_pairs_proves_what_is_not_suggested() -> None:
    """Within the limit there is nothing to prove, and a hopeless spread is said to be one."""
    assert differences(1.0, 2.0, 1.0, 2.0).pairs_to_prove(LIMIT, CHANCE) is None
    assert differences(-60.0, 90.0, -50.0, 80.0).pairs_to_prove(LIMIT, CHANCE) is None


@given(pairs, st.floats(1e-5, 0.4), st.floats(1e-5, 0.4))
def test_evidence__a_smaller_chance_of_error_reaches_further(
    rows: list[tuple[float, float]], one: float, other: float
) -> None:
    """Who wants to be surer says less."""
    assume(one < other)
    found = of_pairs(rows)
    assert found.at_least(one) <= found.at_least(other) <= found.worsening
    assert found.at_most(one) >= found.at_most(other) >= found.worsening


# --- a history ----------------------------------------------------------------------------------


@given(histories, scores, st.floats(0.0, 2.0))
def test_history__a_slower_run_is_never_less_proven(
    history: list[float], now: float, slower: float
) -> None:
    """Only head's own number moves: what is proven stays proven."""
    before, after = of_runs(now, history), of_runs(now + slower, history)
    assert after.at_least(CHANCE) >= before.at_least(CHANCE)
    assert after.at_most(CHANCE) >= before.at_most(CHANCE)
    assert after.proves(LIMIT, CHANCE) >= before.proves(LIMIT, CHANCE)
    assert after.suggests(LIMIT) >= before.suggests(LIMIT)


@given(histories, scores, st.floats(-6.0, 6.0))
def test_history__the_unit_does_not_matter(history: list[float], now: float, moved: float) -> None:
    """A branch that was measured in seconds gives the same answer."""
    before = of_runs(now, history)
    after = of_runs(now + moved, [run + moved for run in history])
    assume(noise.shift_in(history) == noise.shift_in([run + moved for run in history]))
    assert after.worsening == pytest.approx(before.worsening, abs=1e-6)
    assert after.error == pytest.approx(before.error, rel=1e-6)


def test_history__eleven_runs_say_nothing() -> None:
    """So few runs have hardly met the slow mode of their machine."""
    assert against_history(0.0, quiet(11)) is None
    assert against_history(0.0, quiet(12)) is not None


@pytest.mark.parametrize(("runs", "chance"), [(30, 0.005), (60, 0.0025), (150, 0.001)])
def test_history__is_not_surer_than_its_length_allows(runs: int, chance: float) -> None:
    """A mode that no run has shown yet is the likelier the fewer they are; none doubles a time."""
    assert noise.runs_to_prove(chance) == pytest.approx(runs, abs=1)
    needed = noise.runs_to_prove(chance)
    assert of_runs(0.2, quiet(needed)).proves(LIMIT, chance)
    assert not of_runs(0.2, quiet(needed - 1)).proves(LIMIT, chance)
    assert of_runs(0.8, quiet(needed - 1)).proves(LIMIT, chance)


def test_history__a_merged_regression_is_the_new_level() -> None:
    """After a shift the line starts anew, and the jump is no part of the spread."""
    runs = quiet(40)
    shifted = [run + 0.2 * (place >= 30) for place, run in enumerate(runs)]
    assert noise.shift_in(shifted) == 30
    found = of_runs(0.2, shifted)
    assert found.worsening == pytest.approx(0.0, abs=0.01)
    assert found.error < 0.015


def test_history__drift_is_followed() -> None:
    """A branch that becomes slower by a third of a per cent a run is predicted to go on so."""
    runs = [run + 0.003 * place for place, run in enumerate(quiet(30, 0.002))]
    assert of_runs(0.003 * 30, runs).worsening == pytest.approx(0.0, abs=0.005)


def test_history__luck_that_dwarfs_the_limit_has_to_be_surpassed_by_far() -> None:
    """How often such a machine is far off is not known well enough to believe its own spread."""
    found = of_runs(0.5, quiet(40, 0.13))
    assert found.at_least(CHANCE) > LIMIT
    assert not found.proves(LIMIT, CHANCE)


def test_history__lopsided_luck_reaches_further() -> None:
    """Runs that are mostly fast and sometimes slow are slow more often than even luck would be."""
    even, lopsided = (
        quiet(30),
        [run + 0.06 * (place % 8 == 0) for place, run in enumerate(quiet(30))],
    )
    assert of_runs(0.0, even).skew == 0.0
    found = of_runs(0.0, lopsided)
    assert found.reach(CHANCE) > 1.2 * student.quantile_above(CHANCE, found.freedom) * found.error


def test_history__the_spread_is_the_larger_one_of_two() -> None:
    """Neither runs that alternate nor runs that wander slowly pass for precision."""
    alternating = [0.01 * (-1) ** place for place in range(30)]
    assert of_runs(0.0, alternating).error > 0.014
    wandering = [0.05 * math.sin(place / 4.0) for place in range(30)]
    steps = [after - before for before, after in pairwise(wandering)]
    assert of_runs(0.0, wandering).error > 3.0 * statistics.stdev(steps)


def test_history__a_level_of_few_runs_is_less_sure() -> None:
    """The mean of the three runs since a shift has luck of its own."""
    old, new = quiet(30), [run + 0.3 for run in quiet(3)]
    assert of_runs(0.3, [*old, *new]).error > 1.1 * of_runs(0.0, old).error


def test_history__two_modes_are_no_precision() -> None:
    """Runs that are either fast or slow have the spread of both."""
    runs = [run + 0.1 * (place % 3 == 0) for place, run in enumerate(quiet(30, 0.001))]
    assert not of_runs(0.1, runs).proves(LIMIT, CHANCE)


def test_history__the_last_run_bears_out_only_what_its_own_luck_cannot_be() -> None:
    """One number against another one is far less sure than against thirty."""
    found = of_runs(0.1, quiet(30))
    assert found.is_borne_out_by(0.1, LIMIT)
    assert not found.is_borne_out_by(LIMIT + 0.001, LIMIT)


def test_shift__a_slope_is_none() -> None:
    """Any two parts of a slope differ, and it has no place where it changed."""
    runs = [run + 0.005 * place for place, run in enumerate(quiet(60, 0.002))]
    assert noise.shift_in(runs) is None


def test_shift__takes_five_runs_before_and_three_after() -> None:
    """One or two slow runs are no new level."""
    assert noise.shift_in([0.0] * 5 + [1.0] * 3) == 5
    assert noise.shift_in([0.0] * 6 + [1.0] * 2) is None
    assert noise.shift_in([0.0] * 4 + [1.0] * 4) is None
