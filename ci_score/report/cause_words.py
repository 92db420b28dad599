"""What the sentences of causes are made of: times, numbers, names and places."""

from __future__ import annotations

from ci_score.model.metrics import significant, three_digits
from ci_score.report.name_words import LONGEST_NAME


def ms_words(value: float) -> str:
    """A time; one below zero is an error of rounding."""
    return significant(max(value, 0.0), "ms")


def times_words(base_ms: float, head_ms: float) -> str:
    """`1.20 ms → 2.40 ms`"""
    return f"{ms_words(base_ms)} → {ms_words(head_ms)}"


def count_words(value: float) -> str:
    """A number of launches or calls, which may be a mean."""
    return f"{value:,.0f}" if value == round(value) else three_digits(value)


def quoted_name(name: str) -> str:
    """A name of the program's, cut where it is long."""
    return f"'{name[:LONGEST_NAME]}'"


def place_words(
    layers: str | None, repeats: int | None, direction: str | None, phase: str | None
) -> str:
    """` in the backward of layers 0–23`; empty if the place is not known."""
    if layers:
        several = "s" if "–" in layers else ""
        words = f"repeat{several} {layers} of {repeats}" if repeats else f"layer{several} {layers}"
        return f" in the {direction} of {words}" if direction else f" in {words}"
    if not phase:
        return ""
    if phase.lower() in ("forward", "fwd", "backward", "bwd"):
        return f" in the {phase.lower()}"
    return f" in phase {quoted_name(phase)}"
