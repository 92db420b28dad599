"""What a change may bring along to hide a slowdown, or what honest noise may do; whole commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.builders.whole_run import judged, session

Row = dict[str, Any]


def of_head(rows: Iterable[Row], change: Callable[[Row], Row | None]) -> list[Row]:
    """The lines with those of head changed; None leaves one out."""
    changed = (change(row) if row["side"] == "head" else row for row in rows)
    return [row for row in changed if row is not None]


def test_launches__left_out_by_the_slow_side(here: Path) -> None:
    """Slow launches of head that are not handed in are void, as if they had crashed."""
    slow = of_head(
        session(100.0),
        lambda row: {**row, "step_ms": [190.0] * 20} if row["launch"] % 3 == 0 else row,
    )
    assert judged(here, *slow)[0] == 3
    fast_ones = of_head(slow, lambda row: None if row["launch"] % 3 == 0 else row)
    code, report = judged(here, *fast_ones)
    assert code == 3
    assert "not measured in 4 of 12 pairs, so it may be worse there" in report
    assert "4 of 20 launches have no partner" in report


def test_shared__by_a_plan_of_two_thousand_pairs(here: Path) -> None:
    """What a session says of its plan does not let it leave out half of its pairs."""
    rows = of_head(
        session(100.0, pairs=20),
        lambda row: {**row, "step_ms": [190.0] * 20, "disturbances": {"shared": "somebody"}}
        if row["launch"] < 10
        else row,
    )
    code, report = judged(here, *({**row, "looks": [6, 12, 2000]} for row in rows))
    assert code == 3
    assert "others disturbed 10 of 20" in report


def test_shared__and_void(here: Path) -> None:
    """A launch that measured nothing is void, whoever is said to have disturbed it."""
    mark = {"failed": "out of memory", "disturbances": {"shared": "somebody"}}
    rows = of_head(session(100.0), lambda row: {**row, **mark} if row["launch"] == 3 else row)
    code, report = judged(here, *rows)
    assert code == 3
    assert "1 launch (1 of the head) measured nothing" in report
