"""What is written on: how wide it is, whether it shows colours and blocks, and the one style map.

A colour only repeats what the words say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci_score.report.cells import long_words, shown, wrapped
from ci_score.report.tables import Kind, Row, Table

# What a terminal is told for each style: bold is 1, red 31, green 32, yellow 33.
STYLES = {
    "heading": "1",
    "fail": "1;31",
    "warning": "33",
    "not judged": "35",
    "pass": "32",
    "accepted": "36",
    "slower": "31",
    "faster": "32",
}
LONGEST_BAR = 12
LONGEST_LINE = 2000


@dataclass(frozen=True, slots=True)
class Screen:
    """A terminal, or with the defaults a file: lines of any length, and no colour."""

    width: int | None = None
    has_colour: bool = False
    has_blocks: bool = True

    def paint(self, text: str, style: str = "") -> str:
        """The text in a style of the map, where there are colours."""
        code = STYLES[style] if style and text and self.has_colour else ""
        return f"\x1b[{code}m{text}\x1b[0m" if code else text

    def text(
        self,
        text: str,
        style: str = "",
        *,
        first: str = "",
        hang: str = "",
        longest: int = LONGEST_LINE,
    ) -> str:
        """A paragraph that wraps between words, behind `first`; further lines are behind `hang`."""
        room = None if self.width is None else self.width - max(len(first), len(hang))
        lines = wrapped(shown(text, longest), room)
        begins = [first, *([hang] * len(lines))]
        return "\n".join(
            begin + self.paint(line, style) for begin, line in zip(begins, lines, strict=False)
        )

    def message(self, text: str) -> str:
        """A message, which wraps too; but a path stays whole, because it is there to be copied."""
        line = shown(text, LONGEST_LINE)
        whole = {word: word for word in long_words(line, self.width)} if self.width else {}
        return "\n".join(wrapped(line, self.width, whole))

    def item(self, text: str) -> str:
        """An entry of a list."""
        return self.text(text, first="  - ", hang="    ")

    def table(
        self,
        rows: Sequence[Row],
        kinds: Sequence[Kind],
        header: Sequence[str] = (),
        most_lines: int | None = None,
    ) -> str:
        """Aligned columns, indented by two; empty without a row."""
        if not rows:
            return ""
        return "\n".join(Table.of(rows, kinds, header, most_lines).lines(self.width, self.paint))

    def bar(self, value: float, largest: float) -> str:
        """A bar of a change: full blocks where it takes longer, light ones where it is faster."""
        length = round(LONGEST_BAR * (abs(value) / largest)) if largest > 0 else 0
        longer, less = ("█", "░") if self.has_blocks else ("#", ".")
        return (longer if value > 0 else less) * length


# A file or a pipe, whose lines are whole, so that a log can be searched.
UNLIMITED = Screen()
