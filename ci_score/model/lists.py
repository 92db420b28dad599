"""Lists, counts, shares and durations in English, and what a wrong name may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_NAMED = 5
# A longer name is hardly a typo, and comparing it takes time.
LONGEST_TYPO = 100
SECONDS_A_MINUTE, MINUTES_AN_HOUR = 60.0, 60.0


def listed(words: Sequence[str]) -> str:
    """`a, b and c`"""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def some_of(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """`a, b, c, d, e and 3 more`"""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def closest(wrong: str, known: Iterable[str]) -> str:
    """The known name that looks most like a wrong one, in capitals or not; empty if none does."""
    from difflib import get_close_matches

    if len(wrong) > LONGEST_TYPO:
        return ""
    names = {name.casefold(): name for name in known}
    close = get_close_matches(wrong.casefold(), names, n=1)
    return names[close[0]] if close else ""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """What a sentence about a wrong name may say beside it, or nothing."""
    return meant(closest(wrong, known))


def meant(close: str) -> str:
    """In brackets, because the sentence may go on, or end with a mark of its own."""
    return f" (did you mean {close}?)" if close else ""


def plural(count: int, word: str) -> str:
    """`1 commit`, `3 commits`, `2 launches`, `2 processes`"""
    ending = "es" if word.endswith(("ch", "ss")) else "s"
    return f"{count} {word}{'' if count == 1 else ending}"


def share_in_words(share: float) -> str:
    """A part of something as a change of it: `+3.2 %`, `−0.4 %`, and no zero with a minus."""
    # Adding zero takes the sign from a negative one.
    return f"{round(share * 100, 1) + 0.0:+.1f} %".replace("-", "\u2212")


def duration_in_words(seconds: float) -> str:
    """As a person says it: 40 s, 16 minutes, 2.5 hours."""
    minutes = seconds / SECONDS_A_MINUTE
    if seconds < 1.5 * SECONDS_A_MINUTE:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if minutes < 1.5 * MINUTES_AN_HOUR:
        return f"{minutes:.0f} minutes"
    return f"{minutes / MINUTES_AN_HOUR:.1f} hours"
