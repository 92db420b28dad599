"""How many rows and figures fit into a page of bounded size; the worst case comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row")

# A page stays under 2 MB.
BYTES = 1_800_000
# Style, script, and what every case has: a line in the overview, and its verdict, metrics,
# scorecard and provenance.
BYTES_OF_A_PAGE, BYTES_OF_A_LINE, BYTES_OF_A_CASE = 30_000, 700, 7_500
# Of more cases only the line in the overview is shown.
MOST_CASES = 160


class Allowance:
    """Bytes that rows and figures may still take."""

    def __init__(self, cases: int, figures: int) -> None:
        self._left = BYTES - BYTES_OF_A_PAGE - cases * BYTES_OF_A_LINE
        self._left -= min(cases, MOST_CASES) * BYTES_OF_A_CASE
        # Room for the figures of all cases is reserved, because a figure shows more than its rows.
        self._kept = min(figures, max(self._left, 0))
        self._left -= self._kept

    def take(self, rows: Sequence[Row], bytes_a_row: int, least: int = 0) -> Sequence[Row]:
        """The rows to show: all of them if there is room, else only the first `least`."""
        if len(rows) * bytes_a_row > self._left:
            rows = rows[:least]
        self._left -= len(rows) * bytes_a_row
        return rows

    def draws(self, size: int) -> bool:
        """Whether there is room for a figure of so many bytes."""
        if size > self._kept:
            return False
        self._kept -= size
        return True
