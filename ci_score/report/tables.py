"""Rows → aligned columns for a terminal of any width.

Where a table is too wide, bars go first. Then long texts wrap, names lose their middle, and at last
the columns at the end move below their rows. Numbers are never broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

from ci_score.report.cells import at_most, cells, kept_apart, long_words, shown, tokens, wrapped

# `fixed` and `number` never give way, a `name` is shortened, a `text` wraps, a `bar` is left out.
Kind = Literal["fixed", "number", "name", "text", "bar"]
INDENT, GAP, UNDER = 2, 2, 4
# Stands in a cell without a value; below a row it would only take a line.
UNKNOWN = "–"
# A text wraps to the first before a name is shortened to the second; then both go on to the least.
COMFORTABLE_TEXT, COMFORTABLE_NAME = 30, 24
LEAST_NAME, LEAST_TEXT = 12, 24
# Where lines may have any length.
LONGEST_NAME = 160


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and the style that it is painted in."""

    text: str
    style: str = ""


Row = Sequence[str | Cell]
Paint = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, with a kind for each column; texts may be limited to a number of lines."""

    rows: tuple[tuple[Cell, ...], ...]
    kinds: tuple[Kind, ...]
    has_header: bool = False
    most_lines: int | None = None

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        kinds: Sequence[Kind],
        header: Sequence[str] = (),
        most_lines: int | None = None,
    ) -> Table:
        """A table of a stranger's texts, which are made visible here."""
        every = [*([header] if header else []), *rows]
        styled = tuple(tuple(map(_cell, row)) for row in every)
        return cls(styled, tuple(kinds), bool(header), most_lines)

    def lines(self, width: int | None, paint: Paint) -> list[str]:
        """The lines, none of them wider."""
        return [line for block in self.blocks(width, paint) for line in block]

    def blocks(self, width: int | None, paint: Paint) -> list[list[str]]:
        """The lines of each row."""
        widths = self.natural()
        room = None if width is None else width - INDENT - GAP * (len(widths) - 1)
        if width is None or room is None or sum(widths) <= room:
            return list(self.drawn(widths, paint))
        if len(widths) == 1:
            return list(replace(self, kinds=("text",)).drawn([room], paint))
        if "bar" in self.kinds:
            return self._without(self.kinds.index("bar")).blocks(width, paint)
        least = [self._least(place) for place in range(len(widths))]
        if sum(least) > room:
            return list(self._folded(width, paint))
        return list(self.drawn(self._narrowed(widths, least, room), paint))

    def natural(self) -> list[int]:
        """The widths of the columns if nothing gives way."""
        widths = [
            max(cells(row[place].text) for row in self.rows) for place in range(len(self.kinds))
        ]
        return [
            min(width, LONGEST_NAME) if kind == "name" else width
            for width, kind in zip(widths, self.kinds, strict=True)
        ]

    def _column(self, place: int) -> list[Cell]:
        return [row[place] for row in self.rows]

    def _least(self, place: int) -> int:
        texts = [cell.text for cell in self._column(place)]
        natural = max(map(cells, texts))
        if self.kinds[place] == "name":
            return min(natural, LEAST_NAME)
        if self.kinds[place] == "text":
            longest = max((cells(token) for text in texts for token in tokens(text)), default=0)
            return min(longest, LEAST_TEXT)
        return natural

    def _narrowed(self, widths: list[int], least: list[int], room: int) -> list[int]:
        """Widths that have room: long texts give way first, then names, then both to the least."""
        for kind, comfortable in (
            ("text", COMFORTABLE_TEXT),
            ("name", COMFORTABLE_NAME),
            ("text", 0),
            ("name", 0),
        ):
            floors = [
                max(floor, comfortable) if self.kinds[place] == kind else widths[place]
                for place, floor in enumerate(least)
            ]
            widths = _shrunk(widths, floors, room)
        return self._filled(widths, room)

    def _filled(self, widths: list[int], room: int) -> list[int]:
        """The room that wrapped texts leave over goes to the last text."""
        texts = [place for place, kind in enumerate(self.kinds) if kind == "text"]
        for place in texts[:-1]:
            widths[place] = max(
                cells(line) for block in self._cell_lines(place, widths[place]) for line in block
            )
        if texts:
            natural = max(cells(cell.text) for cell in self._column(texts[-1]))
            widths[texts[-1]] = min(natural, widths[texts[-1]] + room - sum(widths))
        return widths

    def _without(self, place: int) -> Table:
        return replace(
            self,
            rows=tuple((*row[:place], *row[place + 1 :]) for row in self.rows),
            kinds=(*self.kinds[:place], *self.kinds[place + 1 :]),
        )

    # --- drawing --------------------------------------------------------------------------------

    def drawn(self, widths: Sequence[int], paint: Paint) -> Iterator[list[str]]:
        """The lines of each row, for columns of these widths."""
        columns = [self._cell_lines(place, width) for place, width in enumerate(widths)]
        for row, parts in zip(self.rows, zip(*columns, strict=True), strict=True):
            lines = zip_longest(*parts, fillvalue="")
            yield [self._line(row, pieces, widths, paint) for pieces in lines]

    def _cell_lines(self, place: int, width: int) -> list[list[str]]:
        """What each cell of a column shows, line by line."""
        texts = [cell.text for cell in self._column(place)]
        if self.kinds[place] == "name":
            short = kept_apart(texts, width)
            return [[short[text]] for text in texts]
        if self.kinds[place] == "text":
            short = kept_apart((word for text in texts for word in long_words(text, width)), width)
            return [at_most(wrapped(text, width, short), self.most_lines, width) for text in texts]
        return [[text] for text in texts]

    def _line(
        self, row: Sequence[Cell], pieces: Sequence[str], widths: Sequence[int], paint: Paint
    ) -> str:
        line, blank = "", " " * INDENT
        for place, (cell, piece) in enumerate(zip(row, pieces, strict=True)):
            gap = " " * (widths[place] - cells(piece))
            before, after = (gap, "") if self.kinds[place] == "number" else ("", gap)
            if piece:
                line += blank + before + paint(piece, cell.style)
                blank = ""
            else:
                blank += before
            blank += after + " " * GAP
        return line

    def _folded(self, width: int, paint: Paint) -> Iterator[list[str]]:
        """The last column's texts below their rows, behind its name."""
        last = self._column(-1)
        label = f"{last[0].text}: " if self.has_header and last[0].text else ""
        above = self._without(len(self.kinds) - 1).blocks(width, paint)
        for place, (block, cell) in enumerate(zip(above, last, strict=True)):
            is_header = self.has_header and place == 0
            is_known = cell.text not in ("", UNKNOWN)
            text = label + cell.text if is_known and not is_header else ""
            under = wrapped(text, width - UNDER) if text else []
            yield [*block, *(" " * UNDER + paint(line, cell.style) for line in under)]


def _cell(value: str | Cell) -> Cell:
    return Cell(shown(value)) if isinstance(value, str) else replace(value, text=shown(value.text))


def _shrunk(widths: Sequence[int], floors: Sequence[int], room: int) -> list[int]:
    """The widths, made narrower from the end until all have room or none may give way."""
    made = list(widths)
    for place in range(len(made) - 1, -1, -1):
        too_much = max(0, sum(made) - room)
        made[place] -= min(too_much, max(0, made[place] - floors[place]))
    return made
