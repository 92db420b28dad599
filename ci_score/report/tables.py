"""Rows → aligned columns for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ci_score.files.visible import log_line as line

# The longest text of a cell is the reason why a metric was not compared.
WIDEST = 64
WIDEST_LAST = 120


def table(rows: Iterable[Sequence[str]], widest: int = WIDEST) -> str:
    """Aligned columns, indented by two."""
    cells = [
        [*(line(cell, widest) for cell in row[:-1]), line(row[-1], WIDEST_LAST)] for row in rows
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = (
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)
