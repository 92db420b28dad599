"""Lists and counts in English, one way for every sentence."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 5


def listed(words: Sequence[str]) -> str:
    """`a, b and c`"""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def some_of(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """`a, b, c, d, e and 3 more`"""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def plural(count: int, word: str) -> str:
    """`1 commit`, `3 commits`, `2 launches`"""
    ending = "es" if word.endswith("ch") else "s"
    return f"{count} {word}{'' if count == 1 else ending}"
