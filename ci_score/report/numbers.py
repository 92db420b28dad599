"""Numbers as people read them: `375 ms`, `+11.8 ms`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from ci_score.model.metrics import MINUS, significant


class Changed(Protocol):
    """A line of a table of times."""

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        ...


def milliseconds(value: float) -> str:
    """`375 ms`"""
    return significant(value, "ms")


def delta_milliseconds(value: float) -> str:
    """`+11.8 ms`"""
    return ("+" if value >= 0 else MINUS) + significant(abs(value), "ms")


def maybe_delta(value: float | None) -> str:
    """A change in milliseconds, if it is known."""
    return "–" if value is None else delta_milliseconds(value)


def common_places(changed: Iterable[Changed]) -> int | None:
    """How many decimals the changes of a table have: three digits of the largest change."""
    largest = max((abs(one.delta_ms) for one in changed), default=0.0)
    return max(0, min(2 - math.floor(math.log10(largest)), 5)) if 0.001 <= largest < 1e9 else None


def delta_at(value: float | None, places: int | None) -> str:
    """`+0.0 ms` beside `+80.0 ms`: with no more decimals than the largest change."""
    if value is None or places is None:
        return maybe_delta(value)
    shown = f"{abs(value):,.{places}f} ms"
    if not any(digit in shown for digit in "123456789"):
        return shown
    return ("+" if value >= 0 else MINUS) + shown
