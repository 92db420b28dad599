"""Numbers → places in a drawing, as the per cent and whole units that SVG takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

# The side of a stretched drawing: whole units keep the paths of thousands of points short.
UNITS = 1000


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low` at the start to `high` at the end."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """The place of a value, from 0 to 1; a value outside is at the edge."""
        width = self.high - self.low
        return min(max((value - self.low) / width, 0.0), 1.0) if width > 0 else 0.5

    def percent(self, value: float) -> str:
        """The place from the left."""
        return percent(self.share(value))

    def span(self, start: float, end: float) -> tuple[str, str]:
        """The place of a bar from the left, and its width."""
        return self.percent(start), percent(max(self.share(end) - self.share(start), 0.0))

    def top(self, value: float) -> str:
        """The place from the top, where more stands higher."""
        return percent(1.0 - self.share(value))

    def units(self, value: float) -> int:
        """The place from the left in a stretched drawing."""
        return round(self.share(value) * UNITS)

    def down(self, value: float) -> int:
        """The place from the top in a stretched drawing."""
        return UNITS - self.units(value)

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers within the scale."""
        width = self.high - self.low
        if width <= 0 or not math.isfinite(width):
            return [self.low]
        rough = width / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(
            factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999
        )
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [count * step for count in range(first, last + 1)][: 3 * about]


def around(values: Iterable[float], margin: float = 0.12) -> Scale:
    """A scale with all values and some room, which spans at least 1 % of them."""
    known = list(values)
    low, high = min(known), max(known)
    room = max((high - low) * margin, max(abs(low), abs(high)) * 0.005, 1e-12)
    return Scale(max(low - room, 0.0) if low >= 0 else low - room, high + room)


def dots(points: Iterable[tuple[int, int]]) -> str:
    """The path of these points: lines of no length, whose round caps stretching leaves round."""
    return "".join(f"M{x} {y}h0" for x, y in points)


def percent(share: float) -> str:
    """`12.3%`, in as few characters as a screen can show."""
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"
