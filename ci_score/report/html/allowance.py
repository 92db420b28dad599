"""How much of each case fits into a page of bounded size; the worst cases come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# What the cases of a page may have together: with style, scripts and the overview under 5 MB.
BYTES = 4_500_000
# A round ends after so many cases that did not fit: the others would hardly do either.
MOST_MISFITS = 3


@dataclass(frozen=True, slots=True)
class Form:
    """How much of a case is shown: ops as rows, all ops as data, drawings, long lists."""

    rank: int
    op_rows: int = 0
    boxes: int = 0
    is_live: bool = False
    draws: bool = False
    lists: bool = False


LEAST = Form(0)
DRAWN = Form(1, op_rows=20, boxes=60, draws=True)
WHOLE = Form(2, op_rows=200, boxes=64, is_live=True, draws=True, lists=True)
# Without other cases a page has room for more.
ALONE = Form(2, op_rows=500, boxes=400, is_live=True, draws=True, lists=True)

Render = Callable[[int, Form], str]


def fitted(needy: Sequence[bool], render: Render, room: int = BYTES) -> list[str | None]:
    """The text of each case, in the richest form that fits; None where not even the least does.

    Those that need attention are whole before others have more than their tables.
    """
    texts: list[str | None] = [None] * len(needy)
    ranks = [-1] * len(needy)
    tried: set[tuple[int, Form]] = set()
    for form, places in _rounds(needy):
        misfits = 0
        for place in places:
            if ranks[place] >= form.rank or misfits == MOST_MISFITS or (place, form) in tried:
                continue
            tried.add((place, form))
            text = render(place, form)
            more = len(text.encode()) - len((texts[place] or "").encode())
            if more > room:
                misfits += 1
                continue
            texts[place], ranks[place] = text, form.rank
            room -= more
    return texts


def _rounds(needy: Sequence[bool]) -> Iterator[tuple[Form, Sequence[int]]]:
    every = range(len(needy))
    if len(needy) == 1:
        yield ALONE, every
    else:
        first = [place for place in every if needy[place]]
        yield from ((LEAST, every), (DRAWN, first), (WHOLE, first))
    yield DRAWN, every
    yield WHOLE, every
    yield LEAST, every
