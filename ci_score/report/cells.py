"""A stranger's text in the cells of a terminal: how wide it is, where it may break, how it is cut.

A character is 0, 1 or 2 cells wide. A line breaks between words, and not inside a number with its
unit, a limit, a sign with its word, a short bracket of numbers, or a short piece of code.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from ci_score.files.visible import log_line

LONGEST_TEXT = 400
CUT = "…"
# How much of a long name stands before the cut; further ones where two names would look alike.
_HALF, _OTHER_SHARES = 0.5, (0.75, 0.25, 0.95, 0.05)
# Asks for the coloured form of a sign, which is two cells wide on some terminals only.
_AS_PICTURE = "\ufe0f"
# Once lines are wrapped, any word may begin one.
_COMMAND = re.compile(r"(?<!\S)::")
_UNIT = r"(?:%|[kMGTP]|[µn]?s|ms|[KMGT]?i?B|tok/s|GB/s|ms/step|points?)"
_TOKEN = re.compile(
    r"\([+−-]?\d[^()]{0,32}\)\S*"
    r"|`[^`]{1,40}`\S*"
    rf"|[(+−~-]?\d[\d.,]*(?: → \d[\d.,]*)?(?: {_UNIT}(?![\w/]))+\S*(?: (?:warns|fails)\b\S*)?"
    r"|[✅⚠❔❌☑🆕] [A-Za-z]+(?: [a-z]+)*"
    r"|\S+"
)


def shown(text: str, longest: int = LONGEST_TEXT) -> str:
    """One visible line, of which no word is a command to the runner of a workflow."""
    return _COMMAND.sub(": :", log_line(text.replace(_AS_PICTURE, ""), longest))


def cells(text: str) -> int:
    """How many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


@lru_cache(4096)
def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# --- lines --------------------------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    """The pieces between which a line may break."""
    return _TOKEN.findall(text)


def wrapped(text: str, width: int | None, short: Mapping[str, str] | None = None) -> list[str]:
    """The lines of a text; `short` has the words that are longer than a line."""
    if width is None or cells(text) <= width:
        return [text.rstrip()]
    lines: list[str] = []
    for piece in _pieces(text, width, short or {}):
        if lines and cells(lines[-1]) + 1 + cells(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines or [""]


def _pieces(text: str, width: int, short: Mapping[str, str]) -> Iterator[str]:
    for token in tokens(text):
        if cells(token) <= width:
            yield token
        else:
            for word in token.split():
                yield short.get(word) or shortened(word, width)


def long_words(text: str, width: int) -> list[str]:
    """The words of a text that no line can hold."""
    return [word for word in text.split() if cells(word) > width]


def at_most(lines: list[str], most: int | None, width: int | None) -> list[str]:
    """The first lines; a cut after the last of them, between words, where there are more."""
    if most is None or width is None or len(lines) <= most:
        return lines
    last = tokens(lines[most - 1])
    while last and cells(" ".join(last)) + 2 > width:
        last.pop()
    return [*lines[: most - 1], " ".join([*last, CUT])]


# --- names --------------------------------------------------------------------------------------


def shortened(name: str, width: int, share: float = _HALF) -> str:
    """A name without its middle, if it is longer than that."""
    if cells(name) <= width:
        return name
    head = _beginning(name, round((width - 1) * share))
    return f"{head.rstrip()}{CUT}{_ending(name, width - 1 - cells(head)).lstrip()}"


def _beginning(name: str, width: int) -> str:
    taken = 0
    for place, character in enumerate(name):
        taken += _cells_of(character)
        if taken > width:
            return name[:place]
    return name


def _ending(name: str, width: int) -> str:
    taken = 0
    for place in range(len(name) - 1, -1, -1):
        taken += _cells_of(name[place])
        if taken > width:
            return _without_loose_marks(name[place + 1 :])
    return name


def _without_loose_marks(text: str) -> str:
    """A mark belongs to the character before it, which was cut off."""
    place = next((place for place, char in enumerate(text) if _cells_of(char)), len(text))
    return text[place:]


def kept_apart(names: Iterable[str], width: int) -> dict[str, str]:
    """Names of one table at a width: what differs in full differs when it is shortened."""
    made = {name: shortened(name, width) for name in names}
    for share in _OTHER_SHARES:
        for name in _alike(made):
            made[name] = shortened(name, width, share)
    for name in _alike(made):
        made[name] = _numbered(name, width, set(made.values()))
    return made


def _alike(made: Mapping[str, str]) -> list[str]:
    times = Counter(made.values())
    return [name for name, text in made.items() if times[text] > 1]


def _numbered(name: str, width: int, taken: set[str]) -> str:
    number = 1
    while True:
        mark = f"#{number}"
        text = shortened(name, max(1, width - len(mark))) + mark
        if text not in taken:
            return text
        number += 1
