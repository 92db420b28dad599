"""Keys of measurement lines that nobody knows: a typo there would lose a number in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.visible import plain
from ci_score.model.lists import closest, did_you_mean, plural, some_of
from ci_score.model.reasons import Note

MOST_KEPT = 8
LONGEST_SHOWN = 40
MOST_SHOWN = 4


def strange_among(line: Mapping[str, Any], known: Iterable[str]) -> tuple[str, ...]:
    """The keys of a line that are not known; a few of many."""
    return tuple(sorted(line.keys() - set(known))[:MOST_KEPT])


def refuse_typo(line: Mapping[str, Any], wanted: str, source: str, strange: Iterable[str]) -> None:
    """BadInputError where a line lacks a key that it must have, and has one that looks like it."""
    close = "" if wanted in line else closest(wanted, strange)
    if close:
        raise BadInputError(
            source,
            field=plain(close, LONGEST_SHOWN),
            found="a key that ci-score does not know",
            expected=wanted,
        )


def note_on_strange(lines: Iterable[tuple[str, ...]], known: Iterable[str]) -> Iterator[Note]:
    """One note about the unknown keys of all lines."""
    counts = Counter(key for keys in lines for key in keys)
    if not counts:
        return
    names = list(known)
    shown = [
        f"{plain(key, LONGEST_SHOWN)} in {plural(count, 'line')}{did_you_mean(key, names)}"
        for key, count in counts.most_common()
    ]
    words = (
        f"Measurement lines have keys that ci-score does not know: {some_of(shown, MOST_SHOWN)}."
    )
    yield Note(code="unknown_keys", words=words)
