"""From which step on the steps of the untimed launch count."""

from __future__ import annotations

import pytest

from ci_score.measure.launch.warm_up import LEAST, warm_up_of

STEADY = [10.0] * 20
LAUNCH = 49


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
        ([19.0, 18.0, 16.0, 12.0, *STEADY], (3, True)),
        ([*[19.0] * 5, *STEADY], (4, True)),
        ([10.0 * 1.05**-step for step in range(49)], (50, False)),
        ([10.0] * 9, (10, False)),
        ([], (1, False)),
    ],
    ids=["at once", "after some", "after many", "never", "too short", "none"],
)
def test_warm_up__ends_when_two_groups_agree(
    step_ms: list[float], expected: tuple[int, bool]
) -> None:
    """The medians of two following groups of five differ by at most a tenth."""
    assert warm_up_of(step_ms) == expected


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
    """Medians hide it, and a launch of twenty steps would carry it or not."""
    assert warm_up_of(step_ms) == (warmup, True)


@pytest.mark.parametrize("every", range(3, 13))
@pytest.mark.parametrize("is_after", [False, True], ids=["within", "after"])
def test_warm_up__what_recurs_is_work(every: int, is_after: bool) -> None:
    """An evaluation or a checkpoint every few steps stays in what is counted."""
    step_ms = times({}, every, 180.0)
    if is_after:  # its time belongs to the step that follows
        step_ms = [20.0, *step_ms[:-1]]
    assert warm_up_of(step_ms) == (LEAST, True)


@pytest.mark.parametrize("step", [12, 25, 50])
def test_warm_up__a_slow_step_later_on_is_work(step: int) -> None:
    """The start is over: a longer period begins so."""
    assert warm_up_of(times({step: 400.0})) == (LEAST, True)


@pytest.mark.parametrize("count", [10, 12, 14])
def test_warm_up__few_steps_tell_nothing_of_a_period(count: int) -> None:
    """A slow step may be the first of those that come every four."""
    assert warm_up_of(times({5: 400.0})[:count]) == (LEAST, True)
