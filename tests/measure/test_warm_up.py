"""What the steps of an untimed launch say: from which one on they count, and which are slow."""

from __future__ import annotations

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.measure.launch.warm_up import LEAST, Slow, slow_steps_in, warm_up_of
from tests.builders import PROJECT

STEADY = [10.0] * 20
LAUNCH = 49
# Untimed launches of torch scripts on a machine of two cores that others used, too.
RECORDED: dict[str, list[float]] = json.loads(
    (PROJECT / "tests" / "fixtures" / "untimed_steps.json").read_text("utf-8")
)


def times(slow: dict[int, float], every: int = 0, longer: float = 0.0) -> list[float]:
    """Of steps 2 to 50: 20 ms each, some slow ones by their number, and each so-manieth longer."""
    return [
        slow.get(step, 20.0) + (longer if every and step % every == 0 else 0.0)
        for step in range(2, LAUNCH + 2)
    ]


@pytest.mark.parametrize(
    ("step_ms", "expected"),
    [
        (STEADY, (LEAST, True)),
        ([19.0, 18.0, 16.0, 12.0, *STEADY], (5, True)),
        ([*[19.0] * 5, *STEADY], (6, True)),
        ([*[145.0] * 19, 140.0, 133.0, 126.0, 122.0, *[118.0] * 26], (23, True)),
        ([*[145.0] * 34, *[118.0] * 15], (35, True)),
        ([10.0 * 1.05**-step for step in range(49)], (50, False)),
        ([10.0, 20.0] * 24, (LEAST, True)),
        ([10.0] * 9, (10, False)),
        ([], (1, False)),
    ],
    ids=["at once", "after some", "after many", "a level that falls", "late", "never", "in turns",
         "too short", "none"],
)  # fmt: skip
def test_warm_up__ends_when_all_that_follows_has_one_level(
    step_ms: list[float], expected: tuple[int, bool]
) -> None:
    """The next five steps and both halves of what follows agree, but for the noise."""
    assert warm_up_of(step_ms) == expected


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("a second compilation at step 8", 8, 12),
        ("a second compilation, on a busy machine", 8, 30),
        ("data-loader workers that take turns", 2, 2),
        ("others busy until step 17", 17, 20),
        ("others busy until step 32", 25, 33),
        ("others busy from step 7 to 26", 27, 50),
        ("others busy from step 20 on", 20, 33),
        ("an evaluation every 25 steps", 2, 2),
        ("an evaluation every 25 steps, on a busy machine", 2, 2),
        ("noise of half a step", 2, 14),
        ("one core for two", 2, 2),
    ],
)
def test_warm_up__of_recorded_launches(name: str, least: int, most: int) -> None:
    """Real series: the start is left out, and noise alone is no start."""
    assert least <= warm_up_of(RECORDED[name])[0] <= most


@pytest.mark.parametrize(
    ("step_ms", "warmup"),
    [
        (times({2: 900.0, 5: 400.0}), 5),
        (times({3: 90.0}), 3),
        (times({2: 400.0, 3: 350.0}), 3),
        (times({3: 90.0}, every=10, longer=400.0), 3),
        (times({3: 900.0}, every=10, longer=40.0), 3),
        ([*[40.0] * 5, *[10.0] * 44], 6),
        ([*[100.0] * 9, *[20.0] * 40], 10),
    ],
    ids=["two", "one", "alike", "shorter than an evaluation", "longer than one", "five", "nine"],
)
def test_warm_up__a_slow_step_at_the_start_is_part_of_it(step_ms: list[float], warmup: int) -> None:
    """Medians hide it, and a short window would carry it or not."""
    assert warm_up_of(step_ms) == (warmup, True)


@pytest.mark.parametrize("every", range(3, 13))
@pytest.mark.parametrize("is_after", [False, True], ids=["within", "after"])
def test_warm_up__what_recurs_is_work(every: int, is_after: bool) -> None:
    """An evaluation or a checkpoint every few steps stays in what counts, and has its period."""
    step_ms = times({}, every, 180.0)
    if is_after:  # its time belongs to the step that follows
        step_ms = [20.0, *step_ms[:-1]]
    assert warm_up_of(step_ms) == (LEAST, True)
    assert slow_steps_in(step_ms, LEAST - 1).every == every


@pytest.mark.parametrize("step", [12, 25, 50])
def test_warm_up__a_slow_step_later_on_is_work(step: int) -> None:
    """The start is over: a longer period begins so, and the window must be as long to see one."""
    step_ms = times({step: 400.0})
    assert warm_up_of(step_ms) == (LEAST, True)
    assert slow_steps_in(step_ms, LEAST - 1) == Slow(0, 48, 380.0 / 48)


@pytest.mark.parametrize("count", [10, 12, 14])
def test_warm_up__few_steps_tell_nothing_of_a_period(count: int) -> None:
    """A slow step may be the first of those that come every four."""
    assert warm_up_of(times({5: 400.0})[:count]) == (LEAST, True)


STEPS = st.lists(st.floats(0.1, 1e4), min_size=0, max_size=80)


@given(STEPS, st.floats(0.01, 100))
def test_warm_up__means_the_same_in_any_unit(step_ms: list[float], factor: float) -> None:
    """And it is a number of steps of the launch."""
    warmup, is_settled = warm_up_of(step_ms)
    assert 1 <= warmup <= len(step_ms) + 1
    assert is_settled or warmup == len(step_ms) + 1
    # Rounding decides only what is exactly at a threshold.
    longer = [ms * 2.0 ** round(factor) for ms in step_ms]
    assert warm_up_of(longer) == (warmup, is_settled)


@given(
    st.integers(1, 36),
    st.floats(1.25, 100.0),
    st.lists(st.floats(0.97, 1.03), min_size=49, max_size=49),
)
def test_warm_up__a_slower_start_of_any_length_is_left_out(
    count: int, times_as_long: float, noise: list[float]
) -> None:
    """All of it, as long as ten steps follow."""
    step_ms = [20.0 * one * (times_as_long if at < count else 1.0) for at, one in enumerate(noise)]
    warmup, is_settled = warm_up_of(step_ms)
    assert is_settled
    assert count + 1 <= warmup <= count + 6


@given(st.integers(11, 48), st.floats(2.5, 100.0))
def test_warm_up__a_burst_later_on_changes_nothing(place: int, times_as_long: float) -> None:
    """One long step is no other level."""
    step_ms = [20.0 * (times_as_long if at == place else 1.0) for at in range(LAUNCH)]
    assert warm_up_of(step_ms) == (LEAST, True)


# --- slow steps that recur ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step_ms", "begin", "every", "least"),
    [
        (times({}), 1, 0, 0),
        (times({}, 25, 46.0), 1, 25, 25),
        (times({}, 10, 400.0), 1, 10, 10),
        # Two periods: the longer steps have theirs, and a window for all of them.
        (times({25: 200.0}, 10, 400.0), 1, 10, 48),
        # The first one is within the warm-up, and tells the period all the same.
        ([100.0, *[20.0] * 24, 100.0, *[20.0] * 23], 1, 25, 25),
        # They are not alike: nobody knows whether it is one kind of step.
        (times({20: 60.0, 40: 600.0}), 1, 0, 48),
        ([*[20.0] * 9, 90.0, *[20.0] * 9, 95.0, *[20.0] * 9, 88.0, 70.0], 0, 10, 31),
        ([], 0, 0, 0),
        ([0.0] * 20, 0, 0, 0),
    ],
)
def test_slow_steps__have_a_period_where_two_are_seen(
    step_ms: list[float], begin: int, every: int, least: int
) -> None:
    """Else a window as long as what was seen is the best guess."""
    found = slow_steps_in(step_ms, begin)
    assert (found.every, found.least) == (every, least)
    if step_ms:
        usual = statistics.median(step_ms[begin:])
        counted = step_ms[begin:]
        more = sum(ms - usual for ms in counted if ms >= 2 * usual) / len(counted)
        assert found.ms == pytest.approx(more)


@pytest.mark.parametrize(
    ("slow", "held", "needed"),
    [
        (Slow(), [1, 20, 33], 1),
        (Slow(25, 25, 2.0), [25, 50, 75], 25),
        (Slow(10, 48, 2.0), [50, 60], 50),
        (Slow(0, 48, 2.0), [48, 49], 48),
    ],
)
def test_slow_steps__are_held_by_whole_periods(slow: Slow, held: list[int], needed: int) -> None:
    """And by no window in which one more or less would be there by chance."""
    assert [steps for steps in range(1, 80) if slow.is_held_by(steps)][:1] == [needed]
    assert all(slow.is_held_by(steps) for steps in held)
    assert slow.every == 0 or not slow.is_held_by(needed + 1)


def test_slow_steps__of_noise_alone_are_found_in_time() -> None:
    """Thousands of steps, half of which are far slower than the others."""
    step_ms = [1.0 + (place * 7919 % 13) ** 2 for place in range(20_000)]
    assert slow_steps_in(step_ms).least
