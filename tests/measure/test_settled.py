"""What the untimed launches decide: whose steps count, and how many of them are timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.measure.launch.warm_up import Slow
from ci_score.measure.session.settled import (
    MOST_STEPS,
    STEPS,
    Settled,
    owners_of,
    window_of,
)

# --- whose steps count ----------------------------------------------------------------------------


def side(*optimizers: str, passes: float = 1.0) -> Settled:
    """`AdamW 100`, or `AdamW 100 x2` for one that steps twice in a step; the first is the owner."""
    rows = []
    for order, text in enumerate(optimizers):
        name, parameters, *often = text.split()
        times = float(often[0][1:]) if often else 1.0
        shape = {"class": name, "parameters": int(parameters), "order": order}
        rows.append({**shape, "steps": round(50 * times)})
    owner = {key: rows[0][key] for key in ("class", "parameters", "order")}
    return Settled(
        by_hook=True,
        seconds=1.0,
        owner=owner,
        optimizers=tuple(rows),
        backward_passes=passes,
    )


@pytest.mark.parametrize(
    ("base", "head", "orders", "is_one"),
    [
        (side("AdamW 100"), side("AdamW 100"), (0, 0), True),
        # Each has one alone: the model or the optimizer is the change, and hardly both.
        (side("AdamW 100"), side("Muon 100"), (0, 0), True),
        (side("AdamW 100"), side("AdamW 120"), (0, 0), True),
        (side("AdamW 100"), side("SGD 5000"), (0, 0), False),
        # What head adds does not become the step, however large it is and wherever it steps.
        (side("AdamW 100"), side("SGD 900 x2", "AdamW 100"), (0, 1), True),
        (side("AdamW 100"), side("AdamW 900", "SGD 100", "AdamW 100"), (0, 2), True),
        # Nor does what head leaves out.
        (side("SGD 900", "AdamW 100"), side("AdamW 100"), (1, 0), True),
        (side("Adam 300", "SGD 200", "SGD 100"), side("SGD 100", "SGD 200"), (1, 1), True),
        (side("Adam 200", "SGD 100"), side("Adam 250", "SGD 100"), (1, 1), True),
        # Of several alike it is the one that steps as often.
        (side("Adam 100"), side("Adam 100 x2", "Adam 100", passes=0.5), (0, 1), True),
        (side("Adam 100"), side("Adam 100", "Adam 100 x0.1"), (0, 0), True),
        (side("Adam 100", "Adam 100"), side("Adam 100", "Adam 100"), (0, 0), True),
        # Nothing in common.
        (side("Muon 900", "AdamW 100"), side("Muon 950", "AdamW 110"), (0, 0), False),
        (side("AdamW 100"), side("SGD 900", "AdamW 110"), (0, 0), False),
        (Settled(by_hook=False, seconds=1.0), Settled(by_hook=False, seconds=1.0), None, True),
    ],
)
def test_owner__is_an_optimizer_that_both_sides_have(
    base: Settled, head: Settled, orders: tuple[int, int] | None, is_one: bool
) -> None:
    """Base's own first, then the largest of its others; else each side's own."""
    found = owners_of(base, head)
    if orders is None:
        assert found == {"base": None, "head": None}
        return
    rows = base.optimizers[orders[0]], head.optimizers[orders[1]]
    named = [{key: row[key] for key in ("class", "parameters", "order")} for row in rows]
    assert [found["base"], found["head"]] == named
    steps = [replace(one, owner=owner).step for one, owner in zip((base, head), named, strict=True)]
    assert steps[0]
    assert steps[1]
    assert steps[1].is_change_of(steps[0]) is is_one


# --- how many are timed ---------------------------------------------------------------------------


def launch(step_ms: float, start: float, **fields: Any) -> Settled:
    """Of 50 steps after a start of so many seconds."""
    known = {"steps": 50, "warmup": 2, **fields}
    return Settled(by_hook=True, seconds=start + 0.05 * step_ms, step_ms=step_ms, **known)


@pytest.mark.parametrize(
    ("sides", "seconds", "window"),
    [
        # As long as the launch took to get there; twenty steps at least, as of slow ones.
        ([launch(30.0, 3.94)], 1e9, 134),
        ([launch(300.0, 4.0)], 1e9, STEPS),
        ([launch(5000.0, 4.0)], 1e9, STEPS),
        ([launch(1.0, 60.0)], 1e9, MOST_STEPS),
        ([launch(0.0, 4.0)], 1e9, STEPS),
        # Of both sides together.
        ([launch(20.0, 3.96), launch(60.0, 3.88)], 1e9, 100),
        # Slow steps are held in proportion, of both sides.
        ([launch(30.0, 3.94, slow=Slow(25, 25, 2.0))], 1e9, 150),
        ([launch(300.0, 4.0, slow=Slow(25, 25, 2.0))], 1e9, 25),
        ([launch(300.0, 4.0, slow=Slow(0, 48, 2.0))], 1e9, 48),
        ([launch(300.0, 4.0, slow=Slow(10, 48, 2.0))], 1e9, 50),
        ([launch(300.0, 4.0, slow=Slow(10, 10)), launch(300.0, 4.0, slow=Slow(25, 25))], 1e9, 50),
        # A common multiple without measure would take hours.
        ([launch(300.0, 4.0, slow=Slow(23, 23)), launch(300.0, 4.0, slow=Slow(19, 19))], 1e9, 23),
        # All pairs fit into the time that is given, and never fewer steps than twenty.
        ([launch(30.0, 3.94)], 6.0, 66),
        ([launch(30.0, 3.94, slow=Slow(25, 25))], 6.0, 50),
        ([launch(30.0, 3.94)], 1.0, STEPS),
        ([launch(30.0, 3.94)], -9.0, STEPS),
        ([launch(300.0, 4.0, slow=Slow(25, 25, 2.0))], 8.0, STEPS),
    ],
)
def test_window__is_as_long_as_the_way_to_it(
    sides: list[Settled], seconds: float, window: int
) -> None:
    """So a launch costs at most twice as much, for all the steps that this buys."""
    assert window_of(sides, 2, seconds) == window


@given(
    st.floats(0.1, 1e5),
    st.floats(0.1, 1e3),
    st.integers(0, 40),
    st.integers(0, 48),
    st.floats(-10, 1e5),
)
def test_window__is_never_shorter_than_twenty_steps(
    step_ms: float, start: float, every: int, least: int, seconds: float
) -> None:
    """Nor longer than it may be, unless these are; and where it can it holds the slow steps."""
    slow = Slow(every, least, 1.0)
    sides = [launch(step_ms, start, slow=slow)]
    window = window_of(sides, 2, seconds)
    assert window >= STEPS
    assert window == STEPS or (sides[0].seconds_for(2) + window * step_ms / 1000 <= seconds + 1e-6)
    assert window <= MOST_STEPS + every
    if seconds >= 1e4 and step_ms <= 100:
        assert slow.is_held_by(window)
