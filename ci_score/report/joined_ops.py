"""A case's record → its ops with base and head side by side: what every drawing and table shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ci_score.model.profile import OpOrigin
from ci_score.model.record import Judged
from ci_score.model.step_ops import BaseSide, Place, StepOps

NOWHERE = Place()


class Status(StrEnum):
    """Whether both sides have an op. A side that did not keep all of its ops may have had it."""

    BOTH = "both"
    RENAMED = "renamed"
    NEW = "new"
    GONE = "gone"
    NOT_KEPT_IN_BASE = "not kept on the base side"
    NOT_KEPT_IN_HEAD = "not kept on this side"
    ONE_SIDE = "one side"


@dataclass(frozen=True, slots=True)
class Sides:
    """Time and launches on both sides; None where a side does not know them."""

    base_ms: float | None
    head_ms: float | None
    base_count: float | None = None
    head_count: float | None = None

    @property
    def delta_ms(self) -> float | None:
        """How much longer it takes now; None where a side does not tell."""
        known = self.base_ms is not None and self.head_ms is not None
        return (self.head_ms or 0.0) - (self.base_ms or 0.0) if known else None


@dataclass(frozen=True, slots=True)
class JoinedOp:
    """An op of either side, and of it what each place takes, as far as it is told."""

    name: str
    was: str | None
    kind: str
    origin: OpOrigin | None
    status: Status
    sides: Sides
    places: Mapping[Place, Sides]


@dataclass(frozen=True, slots=True)
class JoinedOps:
    """All ops of a case; of those that a side has left out only their number and time are known."""

    ops: Sequence[JoinedOp]
    has_base: bool
    left_out: Sides


def joined_ops(case: Judged) -> JoinedOps:
    """The ops of a case, the head's first, the largest first; then those of the base alone."""
    head, base = case.step_ops, case.base
    there = base.step_ops if base else StepOps()
    has_base = bool(there.names)
    return JoinedOps(
        tuple(_joined(head, base if has_base else None)),
        has_base,
        Sides(
            there.left_out_ms if has_base else None,
            head.left_out_ms,
            float(there.left_out) if has_base else None,
            float(head.left_out),
        ),
    )


def _joined(head: StepOps, base: BaseSide | None) -> Iterator[JoinedOp]:
    here = _Side.of(head)
    if base is None:
        for name in head.names:
            yield _alone(here, name, Status.ONE_SIDE, is_head=True)
        return
    there = _Side.of(base.step_ops)
    taken = set()
    for name in head.names:
        was = base.called.get(name, name)
        if was in there.rows and was not in taken:
            taken.add(was)
            yield _both(here, there, name, was)
        else:
            is_new = not base.step_ops.left_out
            status = Status.NEW if is_new else Status.NOT_KEPT_IN_BASE
            yield _alone(here, name, status, is_head=True)
    for name in base.step_ops.names:
        if name not in taken:
            status = Status.GONE if not head.left_out else Status.NOT_KEPT_IN_HEAD
            yield _alone(there, name, status, is_head=False)


@dataclass(frozen=True, slots=True)
class _Side:
    """The ops of one side by their rows, with their cells."""

    ops: StepOps
    rows: Mapping[str, int]
    cells: Mapping[int, Mapping[Place, tuple[float, float | None]]]
    knows_layers: bool

    @classmethod
    def of(cls, ops: StepOps) -> _Side:
        cells: dict[int, dict[Place, tuple[float, float | None]]] = {}
        for each in ops.cells:
            place = each.place
            counts = each.counts or (None,) * len(each.rows)
            for row, ms, count in zip(each.rows, each.ms, counts, strict=True):
                known = cells.setdefault(row, {})
                before_ms, before = known.get(place, (0.0, 0.0))
                both = None if count is None or before is None else before + count
                known[place] = before_ms + ms, both
        return cls(ops, {name: row for row, name in enumerate(ops.names)}, cells, ops.has_layers)

    def work(self, name: str) -> tuple[float, float | None]:
        row = self.rows[name]
        return self.ops.ms[row], self.ops.counts[row] if self.ops.counts else None

    def places(self, name: str) -> Mapping[Place, tuple[float, float | None]]:
        return self.cells.get(self.rows[name], {})

    def at(
        self, place: Place, places: Mapping[Place, tuple[float, float | None]]
    ) -> tuple[float | None, float | None]:
        """What an op takes there; a side that knows no layers at all does not tell it of one."""
        knows = place.layer is None or self.knows_layers
        return places.get(place, (0.0, 0.0) if knows else (None, None))


def _in_place(
    base: tuple[float | None, float | None], head: tuple[float | None, float | None]
) -> Sides:
    return Sides(base[0], head[0], base[1], head[1])


def _both(here: _Side, there: _Side, name: str, was: str) -> JoinedOp:
    (head_ms, head_count), (base_ms, base_count) = here.work(name), there.work(was)
    now, before = here.places(name), there.places(was)
    places = {
        place: _in_place(there.at(place, before), here.at(place, now))
        for place in dict.fromkeys((*now, *before))
        # A side without any place does not say where its ops run. An op without one ran outside.
        if here.cells and there.cells
    }
    detail = here.ops.details.get(name) or there.ops.details.get(was)
    return JoinedOp(
        name=name,
        was=was if was != name else None,
        kind=detail.kind if detail else "",
        origin=detail.origin if detail else None,
        status=Status.RENAMED if was != name else Status.BOTH,
        sides=Sides(base_ms, head_ms, base_count, head_count),
        places=places,
    )


def _alone(side: _Side, name: str, status: Status, *, is_head: bool) -> JoinedOp:
    """An op of one side; the other had nothing of it where it is new or gone."""
    detail = side.ops.details.get(name)
    is_sure = status in (Status.NEW, Status.GONE)

    def sides(ms: float, count: float | None) -> Sides:
        other_ms = 0.0 if is_sure else None
        other_count = 0.0 if is_sure and count is not None else None
        if is_head:
            return Sides(other_ms, ms, other_count, count)
        return Sides(ms, other_ms, count, other_count)

    return JoinedOp(
        name=name,
        was=None,
        kind=detail.kind if detail else "",
        origin=detail.origin if detail else None,
        status=status,
        sides=sides(*side.work(name)),
        places={place: sides(ms, count) for place, (ms, count) in side.places(name).items()},
    )
