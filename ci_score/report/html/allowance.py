"""How much of each case fits into a page of bounded size; the worst cases come first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# What the cases of a page may have together: with style, scripts and the overview under 5 MB.
BYTES = 4_500_000
# About what the drawings of a case take: so much is left for each of those that follow.
BYTES_OF_DRAWINGS = 45_000
# Of more cases those that pass have no lists.
FEW = 16
# How many cells of ops are read for the drawings of all cases; one case may go beyond it.
MOST_WORK = 400_000
# After so many cases that did not fit in a form the others are not tried in it.
MOST_MISFITS = 3


@dataclass(frozen=True, slots=True)
class Form:
    """How much of a case is shown: rows of a table, their places, boxes of the drawing of its ops.

    One with `lists` has long tables, tips, and scripts with all ops as data.
    """

    rows: int = 0
    op_places: int = 2
    boxes: int = 0
    lists: bool = False

    @property
    def draws(self) -> bool:
        """Whether there is room for drawings."""
        return self != LEAST


LEAST = Form()
DRAWN = Form(rows=20, boxes=60)
# At most of a case that passes, of one that needs attention, and of one that is alone.
LISTED = Form(rows=60, boxes=64, lists=True)
WHOLE = Form(rows=200, boxes=64, lists=True)
ALONE = Form(rows=500, op_places=6, boxes=400, lists=True)

Render = Callable[[int, Form], str]


def fitted(
    needy: Sequence[bool],
    render: Render,
    room: int = BYTES,
    spare: int = BYTES_OF_DRAWINGS,
    *,
    work: Sequence[int] = (),
) -> list[str | None]:
    """The text of each case, in the richest form that fits; None where not even the least does.

    Those that need attention come first. What a case takes beyond its drawings leaves room for the
    drawings of the others that are in as much need. `work` is what reading each case's ops takes;
    once all of it is spent, the others have the least form, too.
    """
    texts: list[str | None] = []
    for place in range(len(needy)):
        text = render(place, LEAST)
        texts.append(text if (size := len(text.encode())) <= room else None)
        room -= size if texts[-1] is not None else 0
    misfits: Counter[Form] = Counter()
    order = sorted(range(len(needy)), key=lambda place: not needy[place])
    waiting = Counter(needy)
    left = MOST_WORK
    for place in order:
        waiting[needy[place]] -= 1
        if left <= 0:
            break
        left -= work[place] if work else 0
        for form in _forms(len(needy), needy[place]):
            least = texts[place]
            if least is None or misfits[form] == MOST_MISFITS:
                continue
            text = render(place, form)
            more = len(text.encode()) - len(least.encode())
            if more <= room - (0 if form is DRAWN else spare * waiting[needy[place]]):
                texts[place] = text
                room -= more
                break
            misfits[form] += 1
    return texts


def _forms(cases: int, is_needy: bool) -> Sequence[Form]:
    """The forms of a case beyond the least, the richest first."""
    if cases == 1:
        return ALONE, LISTED, DRAWN
    if is_needy:
        return WHOLE, LISTED, DRAWN
    return (LISTED, DRAWN) if cases <= FEW else (DRAWN,)
