"""A change in milliseconds → the class of its colour: the same steps in every drawing of a case."""

from __future__ import annotations

from bisect import bisect_right

# Shares of the largest change. A case has few large changes, so the steps are no quarters.
STEPS = (0.02, 0.10, 0.30, 0.60)
SAME = "same"
MORE, LESS = "▲", "▼"


def shade(delta: float, largest: float, noise: float = 0.0) -> str:
    """`up1` to `up4` where it takes longer, `down1` to `down4` where less, else `same`."""
    step = bisect_right(STEPS, abs(delta) / largest) if largest > 0 else 0
    if not step or abs(delta) < noise:
        return SAME
    return f"{'up' if delta > 0 else 'down'}{step}"


def mark(shaded: str) -> str:
    """The sign of a shade, because not everybody can tell colours apart; none for `same`."""
    return "" if shaded == SAME else MORE if shaded.startswith("up") else LESS
