"""A case → the table of its ranks by part of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from ci_score.model.explanation import COMMUNICATION, COMPUTE, COPIES, IDLE, Explanation
from ci_score.model.lists import plural
from ci_score.model.profile import MOST_RANKS, RankWork
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Judged
from ci_score.report.html.shades import NOT_TOLD, Cell, ShadedTable, shaded_rows
from ci_score.report.joined_ops import Sides
from ci_score.report.numbers import milliseconds
from ci_score.report.sentences import sentence

OWN, STEP = "outside communication", "step"
# A rank is said to compute longest where it does so by this share of the step.
STANDS_OUT = 0.03


def _copies(work: RankWork) -> float | None:
    """What no part covers while the device is busy."""
    if work.busy_ms is None or work.compute_ms is None or work.exposed_communication_ms is None:
        return None
    return max(work.busy_ms - work.compute_ms - work.exposed_communication_ms, 0.0)


_PARTS: Mapping[str, Callable[[RankWork], float | None]] = {
    COMPUTE: lambda work: work.compute_ms,
    OWN: lambda work: work.own_ms,
    COMMUNICATION: lambda work: work.exposed_communication_ms,
    COPIES: _copies,
    IDLE: lambda work: None if work.busy_ms is None else max(work.step_ms - work.busy_ms, 0.0),
    STEP: lambda work: work.step_ms,
}


def rank_table(case: Judged, most: int = MOST_RANKS) -> ShadedTable | None:
    """The table of the ranks; None of a case without any."""
    base = {work.rank: work for work in case.base.ranks} if case.base else {}
    works = {work.rank: work for work in case.ranks}
    if not works:
        return None
    has_base = not base.keys().isdisjoint(works)
    every = [*works.values(), *base.values()]
    told = [name for name, part in _PARTS.items() if any(part(work) is not None for work in every)]
    # Without compute, what is left beside the communication is the nearest to it.
    shown = [name for name in told if name != OWN or COMPUTE not in told]
    parts = {name: _part(_PARTS[name], works, base if has_base else None) for name in shown}
    cause = _cause_of_one_rank(case.explanation)
    step_ms = median(work.step_ms for work in works.values())
    rows = shaded_rows(
        {str(rank): [part[rank] for part in parts.values()] for rank in works},
        most,
        whole_ms=step_ms,
        shows_base=has_base,
        marked=_rank_of(cause),
    )
    memory = {str(rank): Cell("", _memory(work)) for rank, work in works.items()}
    return ShadedTable(
        sentence=f"{sentence(cause).capitalized}."
        if cause
        else _sentence(works, parts, has_base=has_base),
        caption=_caption(has_base),
        notes=tuple(_notes(told, len(works) - len(rows), len(base.keys() - works))),
        heads=("Rank", *(name.capitalize() for name in shown), "Peak memory"),
        rows=[replace(row, cells=(*row.cells, memory[row.name])) for row in rows],
    )


def _cause_of_one_rank(explanation: Explanation | None) -> Reason | None:
    cause = explanation.cause if explanation else None
    return cause if cause is not None and _rank_of(cause) else None


def _rank_of(cause: Reason | None) -> str | None:
    if cause is not None and cause.code is Why.FASTER:
        inner = cause.data["cause"]
        cause = inner if isinstance(inner, Reason) else None
    return str(cause.data["rank"]) if cause is not None and cause.code is Why.ONE_RANK else None


def _part(
    part: Callable[[RankWork], float | None],
    works: Mapping[int, RankWork],
    base: Mapping[int, RankWork] | None,
) -> dict[int, Sides]:
    """A part of each rank's step beside its base, or without any beside the rank in the middle."""
    now = {rank: part(work) for rank, work in works.items()}
    if base is not None:
        return {
            rank: Sides(part(base[rank]) if rank in base else None, ms) for rank, ms in now.items()
        }
    known = [ms for ms in now.values() if ms is not None]
    middle = median(known) if len(known) > 1 else None
    return {rank: Sides(middle, ms) for rank, ms in now.items()}


def _caption(has_base: bool) -> str:
    compared = (
        "by how many ms a part of the rank's step changed, and below that its time in the base and"
        " now. Without a colour, it hardly changed."
        if has_base
        else "by how many ms the rank takes longer, or less, than the one in the middle, and below"
        " that its time. Without a colour, it hardly differs."
    )
    return f"Each cell: {compared}"


def _notes(told: Sequence[str], fewer: int, gone: int) -> Iterator[str]:
    if untold := [name for name in _PARTS if name not in (*told, OWN)]:
        yield f"Not told by this format: {', '.join(untold)}."
    if fewer > 0:
        yield f"{plural(fewer, 'more rank')} differ less."
    if gone:
        yield f"The base has {plural(gone, 'more rank')}."


def _memory(work: RankWork) -> str:
    return NOT_TOLD if work.peak_memory_gb is None else f"{work.peak_memory_gb:.3g} GB"


# --- said -----------------------------------------------------------------------------------------


def _sentence(
    works: Mapping[int, RankWork],
    parts: Mapping[str, Mapping[int, Sides]],
    *,
    has_base: bool,
) -> str:
    """The rank that computes longest, or that none does."""
    counted, compute = plural(len(works), "rank"), parts.get(COMPUTE)
    if compute is None:
        steps = _range(work.step_ms for work in works.values())
        return f"{counted}: their steps take {steps}, and compute is not told."
    now = {rank: sides.head_ms for rank, sides in compute.items() if sides.head_ms is not None}
    if len(now) < 2:
        return f"{counted}; compute is told of {len(now)}."
    next_ms, longest_ms = sorted(now.values())[-2:]
    longest = next(rank for rank, ms in now.items() if ms == longest_ms)
    if longest_ms - next_ms < STANDS_OUT * max(work.step_ms for work in works.values()):
        return f"No rank stands out: compute takes {_range(now.values())} on {len(now)} ranks."
    before = compute[longest].base_ms if has_base else None
    as_before = f"; in the base it took {milliseconds(before)}" if before is not None else ""
    return (
        f"Rank {longest} of {len(now)} computes longest: {milliseconds(longest_ms)}, the others at"
        f" most {milliseconds(next_ms)}{as_before}."
    )


def _range(times: Iterable[float]) -> str:
    known = list(times)
    low, high = milliseconds(min(known)), milliseconds(max(known))
    return high if low == high else f"{low.removesuffix(' ms')} to {high}"
