"""How many rows of long tables a page of bounded size can hold; the worst case takes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row")

# A page stays under 2 MB: this is for rows, the rest for figures and what every case has.
BYTES_OF_ROWS = 1_000_000


class Allowance:
    """Bytes that rows may still take."""

    def __init__(self, left: int = BYTES_OF_ROWS) -> None:
        self.left = left

    def take(self, rows: Sequence[Row], bytes_a_row: int, least: int = 0) -> Sequence[Row]:
        """As many of the first rows as there is room for: all, or only the `least` of them."""
        if len(rows) * bytes_a_row > self.left:
            rows = rows[:least]
        self.left -= len(rows) * bytes_a_row
        return rows
