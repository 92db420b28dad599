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
