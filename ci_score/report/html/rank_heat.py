"""A case → the map of its ranks by part of the step, with the base beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci_score.model.explanation import COMMUNICATION, COMPUTE, COPIES, IDLE, Explanation
from ci_score.model.profile import RankWork
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Judged
from ci_score.report.html.heat import (
    MOST_WITH_NUMBERS,
    UNKNOWN,
    Cell,
    Columns,
    Hover,
    Lane,
    Map,
    Marked,
    Row,
    Strip,
    Table,
    mark_of,
    strip,
)
from ci_score.report.html.scale import percent
from ci_score.report.html.shades import shade
from ci_score.report.numbers import delta_milliseconds, milliseconds

STEP = "step"
PARTS = (COMPUTE, COMMUNICATION, COPIES, IDLE, STEP)
OWN = "outside communication"
NOT_TOLD, NOT_IN_BASE = "–", "not in the base"
# Levels of a time between the least and the most of its part; differences below this share of the
# step are never dark, in a time or in a change.
LEVELS = 5
_DARK_FROM = 0.1
# A part that differs by less has no lane, except those that every reader looks for.
_ALIKE, _ALWAYS = 0.01, (COMPUTE, STEP)
# A rank is said to compute longest where it does so by this share of the step.
_STANDS_OUT = 0.03
_SAME_WORK = 0.01
_HEIGHT, _LOW_HEIGHT, _GAP = 18, 12, 2


@dataclass(frozen=True, slots=True)
class _Times:
    """A part of the step on both sides, rank by rank; None is not told."""

    name: str
    base: Mapping[int, float | None]
    head: Mapping[int, float | None]

    def of(self, rank: int) -> tuple[float | None, float | None]:
        return self.base.get(rank), self.head.get(rank)

    def delta(self, rank: int) -> float | None:
        base, head = self.of(rank)
        return None if base is None or head is None else head - base

    def differs(self, step_ms: float) -> bool:
        """Whether any rank has more of it than another, on either side, or does not tell it."""
        known, told = self.known, len(self.base) + len(self.head)
        return bool(known) and (len(known) < told or max(known) - min(known) >= _ALIKE * step_ms)

    @property
    def known(self) -> list[float]:
        both = (*self.base.values(), *self.head.values())
        return [value for value in both if value is not None]


def rank_map(case: Judged, head_word: str = "This run") -> Map | None:
    """The map of the ranks; None of a case without any."""
    ranks = [work.rank for work in case.ranks]
    if not ranks:
        return None
    base = case.base.ranks if case.base else ()
    every = [_part(name, base, case.ranks) for name in PARTS]
    # Without compute, what is left beside the communication is the nearest to it.
    own = _part(OWN, base, case.ranks)
    if not every[0].known and own.known:
        every.insert(1, own)
    step_ms = statistics.median(every[-1].known)
    parts = [part for part in every if part.name in _ALWAYS or part.differs(step_ms)]
    parts = [part for part in parts if part.known]
    slow = culprit(case.explanation)
    marked = ranks.index(slow) if slow in ranks else None
    columns = Columns(len(ranks))
    has_base = any(rank in part.base for part in parts for rank in ranks)
    largest = _largest_change(parts, ranks, step_ms)
    drawing = _Drawing(columns, ranks, has_base, largest, step_ms, head_word)
    return Map(
        sentence=_sentence(case, parts, ranks, slow),
        key=_key(has_base),
        notes=tuple(_notes(every, parts, base, ranks)),
        lanes=tuple(_lane(drawing, part) for part in parts),
        ticks=tuple(columns.ticks([_label(rank, slow) for rank in ranks], marked)),
        marked=_frame(columns, marked),
        has_sides=True,
        table=_table(drawing, every, case.ranks, slow),
    )


def culprit(explanation: Explanation | None) -> int | None:
    """The rank that the cause of the change names."""
    cause = explanation.cause if explanation else None
    if cause is not None and cause.code is Why.FASTER:
        inner = cause.data["cause"]
        cause = inner if isinstance(inner, Reason) else None
    rank = cause.data["rank"] if cause is not None and cause.code is Why.ONE_RANK else None
    return rank if isinstance(rank, int) else None


# --- the parts of a rank's step -------------------------------------------------------------------


def _part(name: str, base: Iterable[RankWork], head: Iterable[RankWork]) -> _Times:
    before, now = ({work.rank: _time(name, work) for work in side} for side in (base, head))
    return _Times(name, before, now)


def _time(name: str, work: RankWork) -> float | None:
    """A part of the step; what no part covers while the device is busy are copies."""
    if name == STEP:
        return work.step_ms
    if name == COMPUTE:
        return work.compute_ms
    if name == OWN:
        return work.own_ms
    if name == COMMUNICATION:
        return work.exposed_communication_ms
    if work.busy_ms is None:
        return None
    if name == IDLE:
        return max(work.step_ms - work.busy_ms, 0.0)
    if work.compute_ms is None or work.exposed_communication_ms is None:
        return None
    return max(work.busy_ms - work.compute_ms - work.exposed_communication_ms, 0.0)


def _largest_change(parts: Sequence[_Times], ranks: Sequence[int], step_ms: float) -> float:
    changes = (part.delta(rank) for part in parts for rank in ranks)
    largest = max((abs(change) for change in changes if change is not None), default=0.0)
    return max(largest, _DARK_FROM * step_ms, 1e-12)


# --- drawn ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What every lane of a map has in common."""

    columns: Columns
    ranks: Sequence[int]
    has_base: bool
    largest: float
    step_ms: float
    head_word: str

    @property
    def side(self) -> str:
        """What was measured now, in the middle of a sentence."""
        return self.head_word[0].lower() + self.head_word[1:]

    @property
    def height(self) -> int:
        return _HEIGHT if len(self.ranks) <= MOST_WITH_NUMBERS else _LOW_HEIGHT

    def number(self, text: str) -> str:
        """A number without its unit, where a cell has room for it."""
        return text.removesuffix(" ms") if len(self.ranks) <= MOST_WITH_NUMBERS else ""


def _lane(drawing: _Drawing, part: _Times) -> Lane:
    strips, top = [], 0
    sides = (("base", part.base), (drawing.side, part.head))
    for side, times in sides if drawing.has_base else sides[1:]:
        strips.append(_times(drawing, part, side, times, top))
        top += drawing.height + _GAP
    if drawing.has_base:
        strips.append(_changes(drawing, part, top))
        top += drawing.height + _GAP
    hovers = tuple(
        Hover(
            percent(drawing.columns.edges(place)[0]),
            percent(1 / drawing.columns.count),
            f"rank {rank}, {part.name}: {_both_words(drawing, part, rank)}",
        )
        for place, rank in enumerate(drawing.ranks)
    )
    return Lane(part.name, _span(part), top - _GAP, tuple(strips), hovers)


def _times(
    drawing: _Drawing, part: _Times, side: str, times: Mapping[int, float | None], top: int
) -> Strip:
    low = min(part.known)
    span = max(max(part.known) - low, _DARK_FROM * drawing.step_ms, 1e-12)
    cells = []
    for place, rank in enumerate(drawing.ranks):
        value = times.get(rank)
        edges = drawing.columns.edges(place)
        if value is None:
            cells.append(Cell(*edges, UNKNOWN, drawing.number(NOT_TOLD)))
            continue
        level = min(int(LEVELS * (value - low) / span), LEVELS - 1) + 1
        cells.append(Cell(*edges, f"heat{level}", drawing.number(milliseconds(value))))
    return strip(cells, side, top, drawing.height)


def _changes(drawing: _Drawing, part: _Times, top: int) -> Strip:
    cells = []
    for place, rank in enumerate(drawing.ranks):
        delta = part.delta(rank)
        edges = drawing.columns.edges(place)
        if delta is None:
            cells.append(Cell(*edges, UNKNOWN))
            continue
        cell = Cell(*edges, shade(delta, drawing.largest, _ALIKE * drawing.step_ms))
        sign = mark_of(cell)
        number = drawing.number(_change(delta, drawing))
        cells.append(Cell(*edges, cell.shade, f"{sign} {number}".strip()))
    return strip(cells, "Δ", top, drawing.height)


def _change(delta: float, drawing: _Drawing) -> str:
    """A change; one that is tiny beside the step is 0."""
    return "0 ms" if abs(delta) < 5e-4 * drawing.step_ms else delta_milliseconds(delta)


def _frame(columns: Columns, marked: int | None) -> Marked | None:
    if marked is None:
        return None
    start, end = columns.edges(marked)
    return Marked(percent(start), percent(end))


def _label(rank: int, slow: int | None) -> str:
    return f"rank {rank}" if rank == slow else str(rank)


def _span(part: _Times) -> str:
    low, high = milliseconds(min(part.known)), milliseconds(max(part.known))
    return high if low == high else f"{low.removesuffix(' ms')}–{high}"


def _key(has_base: bool) -> str:
    darker = "Each column is a rank; the stronger its shade, the more time in this part."
    if not has_base:
        return darker
    return (
        f"{darker} Δ compares each rank with itself: ▲ or hatched \\ longer, ▼ or hatched / less,"
        " grey by less than 1 % of the step."
    )


# --- said -----------------------------------------------------------------------------------------


def _both_words(drawing: _Drawing, part: _Times, rank: int) -> str:
    base, head = part.of(rank)
    now = "not told by this format" if head is None else milliseconds(head)
    if not drawing.has_base:
        return now
    if rank not in part.base:
        return f"{now}, {NOT_IN_BASE}"
    if base is None or head is None:
        before = "not told by the base's format" if base is None else milliseconds(base)
        return f"{before} → {now}"
    return f"{milliseconds(base)} → {now} ({_change(head - base, drawing)})"


def _sentence(case: Judged, parts: Sequence[_Times], ranks: Sequence[int], slow: int | None) -> str:
    """The rank that the others wait for; else the one that computes longest, or that none does."""
    compute = next((part for part in parts if part.name == COMPUTE), None)
    if compute is None:
        steps = [work.step_ms for work in case.ranks]
        return f"{_counted(ranks)}: their steps take {_from_to(steps)}, and compute is not told."
    now = {rank: ms for rank in ranks if (ms := compute.head.get(rank)) is not None}
    if slow is not None and slow in now and (delta := compute.delta(slow)) is not None:
        return _culprit_words(compute, now, slow, delta)
    if len(now) < 2:
        return f"{_counted(ranks)}; compute is told of {len(now)}."
    longest = max(now, key=lambda rank: (now[rank], -rank))
    next_ms = max(ms for rank, ms in now.items() if rank != longest)
    step_ms = max(work.step_ms for work in case.ranks)
    if now[longest] - next_ms < _STANDS_OUT * step_ms:
        return f"No rank stands out: compute takes {_from_to(now.values())} on {len(now)} ranks."
    words = (
        f"Rank {longest} of {len(now)} computes longest: {milliseconds(now[longest])}, the others"
    )
    before = compute.base.get(longest)
    as_before = f"; in the base it took {milliseconds(before)}" if before is not None else ""
    return f"{words} at most {milliseconds(next_ms)}{as_before}."


def _culprit_words(compute: _Times, now: Mapping[int, float], slow: int, delta: float) -> str:
    others = [
        change for rank in now if rank != slow and (change := compute.delta(rank)) is not None
    ]
    usual = statistics.median(others) if others else 0.0
    how = "for longer" if delta > 0 else "for less"
    base, head = (milliseconds(ms or 0.0) for ms in compute.of(slow))
    words = f"Rank {slow} of {len(now)} computes {how}: {base} → {head}"
    beside = f"by {delta_milliseconds(usual)} in the middle"
    if abs(usual) < _SAME_WORK * (compute.of(slow)[0] or 0.0):
        beside = "as long as before"
    waits = ", and wait for it" if delta > 0 else ""
    return f"{words} ({delta_milliseconds(delta)}). The others compute {beside}{waits}."


def _counted(ranks: Sequence[int]) -> str:
    return f"{len(ranks)} ranks" if len(ranks) > 1 else "One rank"


def _from_to(times: Iterable[float]) -> str:
    known = list(times)
    low, high = milliseconds(min(known)), milliseconds(max(known))
    return high if low == high else f"{low.removesuffix(' ms')} to {high}"


def _notes(
    every: Sequence[_Times],
    drawn: Sequence[_Times],
    base: Sequence[RankWork],
    ranks: Sequence[int],
) -> Iterable[str]:
    if alike := [
        f"{part.name} ({_span(part)})" for part in every if part.known and part not in drawn
    ]:
        yield f"Alike on all ranks: {', '.join(alike)}."
    if untold := [part.name for part in every if not part.known]:
        yield f"Not told by this format: {', '.join(untold)}."
    if any(None in (*side.values(),) for part in drawn for side in (part.base, part.head)):
        yield "Dashed cells are not told; their words on hover say by whom."
    gone = {work.rank for work in base} - set(ranks)
    if gone:
        yield f"The base has {len(gone)} more rank{'s' if len(gone) > 1 else ''}."


def _table(
    drawing: _Drawing, every: Sequence[_Times], works: Sequence[RankWork], slow: int | None
) -> Table:
    heads = [
        head
        for part in (one.name.capitalize() for one in every)
        for head in (
            (f"{part}, base", f"{part}, {drawing.side}", "Δ") if drawing.has_base else (part,)
        )
    ]
    return Table(
        "A step of each rank by its parts, and the most memory that it held",
        ("Rank", *heads, "Peak memory"),
        1,
        tuple(
            Row(
                (str(work.rank), *_row(drawing, every, work.rank), _memory(work)), work.rank == slow
            )
            for work in works
        ),
    )


def _row(drawing: _Drawing, every: Sequence[_Times], rank: int) -> Iterable[str]:
    for part in every:
        base, head = part.of(rank)
        now = NOT_TOLD if head is None else milliseconds(head)
        if not drawing.has_base:
            yield now
            continue
        is_there = rank in part.base
        yield NOT_IN_BASE if not is_there else NOT_TOLD if base is None else milliseconds(base)
        yield now
        delta = part.delta(rank)
        yield NOT_TOLD if delta is None else _change(delta, drawing)


def _memory(work: RankWork) -> str:
    return NOT_TOLD if work.peak_memory_gb is None else f"{work.peak_memory_gb:.3g} GB"
