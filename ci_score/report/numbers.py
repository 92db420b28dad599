"""Numbers as people read them: `375 ms`, `+11.8 ms`, `48 % slower`, `77.9 → 115 ms`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Protocol

from ci_score.model.metrics import (
    MINUS,
    MOST_SHOWN,
    percent_digits,
    signed,
    significant,
    three_digits,
)

LEAST_PLAIN = 1e-6


class Changed(Protocol):
    """A line of a table of times."""

    @property
    def delta_ms(self) -> float | None:
        """How much longer it takes now, if that is known."""
        ...


def milliseconds(value: float) -> str:
    """`375 ms`"""
    return significant(value, "ms")


def delta_milliseconds(value: float) -> str:
    """`+11.8 ms`"""
    return signed(value, milliseconds(abs(value)))


def common_places(changed: Iterable[Changed]) -> int | None:
    """How many decimals the changes of a table have: three digits of the largest change."""
    largest = max((abs(one.delta_ms or 0.0) for one in changed), default=0.0)
    return max(0, min(2 - math.floor(math.log10(largest)), 5)) if 0.001 <= largest < 1e9 else None


def delta_at(value: float | None, places: int | None) -> str:
    """`+0.0 ms` beside `+80.0 ms`: with no more decimals than the largest change."""
    if value is None:
        return "–"
    if places is None:
        return delta_milliseconds(value)
    return signed(value, f"{abs(value):,.{places}f} ms")


# From this share on a change is told as a multiple.
TWICE = 1.0


def slower_words(share: float, beside: Iterable[float] = ()) -> str:
    """`48 % slower`, `3.2× as long`, `12 % faster`: a share of time, on its side of those beside.

    What is shown as no change at all is the same time.
    """
    if share >= TWICE:
        return f"{multiple(1 + share)} as long"
    shown = percent_digits(abs(share), map(abs, beside))
    if shown == "0":
        return "the same time"
    return f"{shown} % {'slower' if share > 0 else 'faster'}"


def multiple(ratio: float) -> str:
    """`3.2×`, `12×`"""
    shown = f"{ratio:.1f}" if ratio < 9.95 else percent_digits(ratio / 100)
    return f"{shown.removesuffix('.0')}×"


def plain_number(value: float, digits: int = 9) -> str:
    """`1048580`, `0.000012`: a number with so many digits, and without an exponent."""
    size = abs(value)
    if size and not LEAST_PLAIN <= size < MOST_SHOWN:
        return three_digits(value)
    return format(Decimal(f"{value:.{digits}g}"), ",f").replace("-", MINUS)


def from_to(base: str, head: str) -> str:
    """`77.9 → 115 ms`: two shown numbers, with their unit once where it is the same."""
    value, _, unit = base.rpartition(" ")
    same = value and unit and head.endswith(f" {unit}") and not head.endswith("%")
    return f"{value if same else base} → {head}"


_BYTES = ((1e8, 1e9, "GB"), (1e5, 1e6, "MB"), (0.0, 1e3, "kB"))


def bytes_words(value: float) -> str:
    """`2.90 GB`, `12.0 MB`: as memory is told elsewhere, and smaller where it is little."""
    if not value:
        return "0 GB"
    size, unit = next((size, unit) for least, size, unit in _BYTES if abs(value) >= least)
    return significant(value / size, unit)


def delta_bytes_words(value: float) -> str:
    """`+2.90 GB`"""
    return signed(value, bytes_words(abs(value)))
