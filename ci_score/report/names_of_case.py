"""The ops of a case → what each is called, so that no two of them have the same name.

A short name leaves out most of a kernel's full name. Where two of a case become equal, the first
words that differ between their full names stand behind them in brackets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ci_score.files.visible import plain
from ci_score.model.profile import OpOrigin
from ci_score.report.kernel_names import LONGEST_LABEL, op_label
from ci_score.report.name_parts import LONGEST_READ

# A trace is converted without a record.
if TYPE_CHECKING:
    from ci_score.report.joined_ops import JoinedOp

# So many places at which full names part are shown, each in so many characters.
MOST_FORKS, LONGEST_FORK = 3, 20
LONGEST_CASE_NAME = LONGEST_LABEL + MOST_FORKS * (LONGEST_FORK + 1) + 16
_WORD = re.compile(r"[^\W_]+|_+|\s+|.", re.DOTALL)
_MEANS_NOTHING = re.compile(r"[\W_]+")


def names_of_ops(ops: Iterable[JoinedOp]) -> dict[str, str]:
    """What each op of either side is called, by its full name."""
    origins: dict[str, OpOrigin | None] = {}
    for op in ops:
        origins[op.name] = op.origin
        if op.was is not None:
            origins.setdefault(op.was, op.origin)
    return names_of_case(origins)


def names_of_case(origins: Mapping[str, OpOrigin | None]) -> dict[str, str]:
    """A short name for each full name of a case, none of them twice."""
    names = {name: _visible(op_label(name, origin)) for name, origin in origins.items()}
    for alike in _alike(names):
        words = {name: tuple(_WORD.findall(name[:LONGEST_READ])) for name in alike}
        for name, forks in zip(alike, _forks([words[name] for name in alike]), strict=True):
            shown = "…".join(fork for fork in forks if plain(fork) == fork and fork.strip())
            names[name] += f" [{shown}]" if shown else ""
    _number(names)
    return names


def _visible(label: str) -> str:
    """As HTML shows it: spaces in a row are one."""
    return " ".join(plain(label, LONGEST_LABEL).split()) or "unnamed"


def _alike(names: Mapping[str, str]) -> list[list[str]]:
    """The full names that have a short name in common, in order."""
    groups: dict[str, list[str]] = {}
    for name, shown in names.items():
        groups.setdefault(shown, []).append(name)
    return [sorted(group) for group in groups.values() if len(group) > 1]


def _forks(rows: Sequence[Sequence[str]], depth: int = 0) -> list[tuple[str, ...]]:
    """For each row its own words at the first places where the rows part."""
    if len(rows) < 2 or depth == MOST_FORKS:
        return [()] * len(rows)
    start = next(
        (place for place, words in enumerate(zip(*rows, strict=False)) if len(set(words)) > 1),
        min(map(len, rows)),
    )
    tails = [row[start:] for row in rows]
    keys = [_first_telling(tail) for tail in tails]
    if len(set(keys)) == 1:
        keys = [tail[0] if tail else "" for tail in tails]
    shown = dict(zip(dict.fromkeys(keys), _unlike(list(dict.fromkeys(keys))), strict=True))
    found: list[tuple[str, ...]] = [()] * len(rows)
    for key in shown:
        places = [place for place, own in enumerate(keys) if own == key]
        inner = _forks([tails[place] for place in places], depth + 1)
        for place, more in zip(places, inner, strict=True):
            found[place] = (shown[key], *more)
    return found


def _first_telling(words: Sequence[str]) -> str:
    """The first word that is more than a bracket, a comma or a space."""
    return next((word for word in words if not _MEANS_NOTHING.fullmatch(word)), "")


def _unlike(words: Sequence[str]) -> Iterator[str]:
    """Each word; of long ones what follows their common start."""
    if all(len(word) <= LONGEST_FORK for word in words):
        yield from words
        return
    start = next(
        (place for place, letters in enumerate(zip(*words, strict=False)) if len(set(letters)) > 1),
        min(map(len, words)),
    )
    for word in words:
        yield word[start : start + LONGEST_FORK]


def _number(names: dict[str, str]) -> None:
    """Numbers those that are still equal: a stranger may choose any name."""
    counts = Counter(names.values())
    taken = set(counts)
    for name in sorted(name for name, shown in names.items() if counts[shown] > 1):
        shown, number = plain(names[name], LONGEST_CASE_NAME), 1
        while f"{shown} #{number}" in taken:
            number += 1
        names[name] = f"{shown} #{number}"
        taken.add(names[name])
