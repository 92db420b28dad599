"""The ops of a step as columns: names once, four significant digits, a cell for each place.

A record keeps both sides in this form, so that a page is drawn from one record alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator

from ci_score.model.explanation import OpDetail
from ci_score.model.profile import OpOrigin, OpPlace, OpWork, RankWork
from ci_score.model.values import Count, Lax, Milliseconds, NotNegative, Value, four_digits

MOST_OPS = 1_024
MOST_CELLS = 65_536
MOST_PLACES = 8_192
LONGEST_OP = 1_000
LONGEST_PHASE = 200
# One mistake of a column is told: a million of them would fill the memory.
_PER_OP = Field(max_length=MOST_OPS, fail_fast=True)
OpName = Annotated[str, Field(max_length=LONGEST_OP)]
# A point of the history has the times of so many ops of its case, by digests of their names.
REMEMBERED_OPS = 16
OpKey = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]
Direction = Literal["forward", "backward"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A phase and a layer; None is outside of all phases, and outside of all layers."""

    phase: str | None = None
    layer: int | None = None
    direction: Direction | None = None


class OpCells(Value):
    """What ops take of a step in one place; `rows` are their rows in the table of ops.

    The columns have an entry for each row. `counts` is empty where launches were not counted. In a
    file `rows` may be left out where it is every row from the first on.
    """

    phase: Annotated[str, Field(max_length=LONGEST_PHASE)] | None = None
    layer: Count | None = None
    direction: Direction | None = None
    rows: Annotated[tuple[Count, ...], Lax, _PER_OP] = ()
    ms: Annotated[tuple[Milliseconds, ...], Lax, _PER_OP] = ()
    counts: Annotated[tuple[NotNegative, ...], Lax, _PER_OP] = ()

    @model_validator(mode="before")
    @classmethod
    def _all_rows(cls, value: object) -> object:
        if isinstance(value, dict) and not value.get("rows"):
            ms = value.get("ms", ())
            if isinstance(ms, list | tuple) and len(ms) <= MOST_OPS:
                return {**value, "rows": tuple(range(len(ms)))}
        return value

    @model_validator(mode="after")
    def _columns_are_alike(self) -> Self:
        if len(self.ms) != len(self.rows) or len(self.counts) not in (0, len(self.rows)):
            raise ValueError("each column as many entries as there are rows")
        return self

    @property
    def place(self) -> Place:
        """Where these ops run."""
        return Place(self.phase, self.layer, self.direction)


class StepOps(Value):
    """The ops of a step, the largest first, and what each takes in each phase and layer.

    A column has an entry for each name, or none at all. `orders` is the place of an op by its first
    run. `of_ops` and `of_modules` say where all launches come from. Of the smallest ops, which have
    no row, only their number and their time are known.
    """

    names: Annotated[tuple[OpName, ...], Lax, _PER_OP] = ()
    ms: Annotated[tuple[Milliseconds, ...], Lax, _PER_OP] = ()
    counts: Annotated[tuple[NotNegative | None, ...], Lax, _PER_OP] = ()
    kinds: Annotated[tuple[OpName, ...], Lax, _PER_OP] = ()
    types: Annotated[tuple[OpName, ...], Lax, _PER_OP] = ()
    orders: Annotated[tuple[Count | None, ...], Lax, _PER_OP] = ()
    of_ops: Annotated[tuple[OpName | None, ...], Lax, _PER_OP] = ()
    of_modules: Annotated[tuple[OpName | None, ...], Lax, _PER_OP] = ()
    cells: Annotated[tuple[OpCells, ...], Lax, Field(max_length=MOST_PLACES, fail_fast=True)] = ()
    left_out: Count = 0
    left_out_ms: Milliseconds = 0.0

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        size = len(self.names)
        if len(set(self.names)) != size:
            raise ValueError("each op once")
        if len(self.ms) != size or any(len(column) not in (0, size) for column in self._columns()):
            raise ValueError("each column as many entries as there are names")
        if self.cells_in_all > MOST_CELLS:
            raise ValueError(f"at most {MOST_CELLS} cells")
        if any(row >= size for each in self.cells for row in each.rows):
            raise ValueError("rows of cells below the number of names")
        return self

    def _columns(self) -> tuple[Sequence[object], ...]:
        return (
            self.counts,
            self.kinds,
            self.types,
            self.orders,
            self.of_ops,
            self.of_modules,
        )

    @cached_property
    def times(self) -> dict[str, float]:
        """Milliseconds of each op."""
        return dict(zip(self.names, self.ms, strict=True))

    @cached_property
    def details(self) -> Mapping[str, OpDetail]:
        """What is known about an op beside its time; one of which nothing is known is absent."""
        phases = self._phases()
        found = {
            name: OpDetail(
                kind=_at(self.kinds, row) or "",
                type=_at(self.types, row) or "",
                count=_at(self.counts, row),
                order=_at(self.orders, row),
                phases=phases.get(row, {}),
                origin=self._origin(row),
            )
            for row, name in enumerate(self.names)
        }
        return {name: detail for name, detail in found.items() if detail != OpDetail()}

    def _origin(self, row: int) -> OpOrigin | None:
        op, module = _at(self.of_ops, row), _at(self.of_modules, row)
        return OpOrigin(op=op, module=module) if op or module else None

    def _phases(self) -> dict[int, dict[str, OpWork]]:
        """What each op takes of each phase, over all layers."""
        found: dict[int, dict[str, OpWork]] = {}
        for phase, cells in self.by_phase().items():
            if phase is not None:
                for row, work in cells.items():
                    found.setdefault(row, {})[phase] = work
        return found

    def by_phase(self) -> dict[str | None, dict[int, OpWork]]:
        """What the ops take of each phase, by their rows."""
        sums: dict[str | None, dict[int, OpWork]] = {}
        for each in self.cells:
            rows = sums.setdefault(each.phase, {})
            counts = each.counts or (None,) * len(each.rows)
            for row, ms, count in zip(each.rows, each.ms, counts, strict=True):
                work = OpWork(count=count, ms=ms)
                rows[row] = _added(rows[row], work) if row in rows else work
        return sums

    @property
    def has_layers(self) -> bool:
        """Whether it is known in which layer some of the ops run."""
        return any(each.layer is not None for each in self.cells)

    @property
    def cells_in_all(self) -> int:
        """How many cells all places have together."""
        return sum(len(each.rows) for each in self.cells)

    @property
    def in_all_ms(self) -> float:
        """The time of all ops, those without a row too."""
        return sum(self.ms) + self.left_out_ms

    # --- less of it ------------------------------------------------------------------------------

    def largest(self, most: int) -> StepOps:
        """The first rows; of the others their number and time."""
        if len(self.names) <= most:
            return self
        cells = (_with_rows_below(each, most) for each in self.cells)
        columns = {name: getattr(self, name)[:most] for name in _COLUMNS}
        return self.but(
            **columns,
            cells=tuple(each for each in cells if each.rows),
            left_out=self.left_out + len(self.names) - most,
            left_out_ms=self.left_out_ms + sum(self.ms[most:]),
        )


_COLUMNS = ("names", "ms", "counts", "kinds", "types", "orders", "of_ops", "of_modules")


class BaseSide(Value):
    """What the step of the base is made of, in the same form as that of the head.

    `called` has the base's name of each op that is called otherwise now.
    """

    step_ops: StepOps = StepOps()
    called: Annotated[dict[OpName, OpName], Field(max_length=MOST_OPS)] = {}
    phases: Annotated[dict[str, Milliseconds], Field(max_length=256)] = {}
    layers: Annotated[tuple[Count, ...], Lax, Field(max_length=4_096)] = ()
    forward_ms: Annotated[tuple[Milliseconds, ...], Lax, Field(max_length=4_096)] = ()
    backward_ms: Annotated[tuple[Milliseconds, ...], Lax, Field(max_length=4_096)] = ()
    ranks: Annotated[tuple[RankWork, ...], Lax, Field(max_length=256)] = ()
    # Bytes in use at the peak by the operator that allocated them.
    peak_ops: Annotated[dict[str, Count], Field(max_length=256)] = {}

    @model_validator(mode="after")
    def _layers_fit(self) -> Self:
        if not len(self.layers) == len(self.forward_ms) == len(self.backward_ms):
            raise ValueError("a forward and a backward time for each layer")
        return self


# --- made of what a profile has -------------------------------------------------------------------


def step_ops_of(
    times: Mapping[str, float],
    details: Mapping[str, OpDetail],
    places: Iterable[OpPlace] = (),
) -> StepOps:
    """The ops with their details, and the cells of those that have a row."""
    named = [name for name in times if len(name) <= LONGEST_OP]
    names = sorted(named, key=lambda name: (-times[name], name))[:MOST_OPS]
    rows = {name: row for row, name in enumerate(names)}
    known = [details.get(name, OpDetail()) for name in names]
    origins = [detail.origin or OpOrigin() for detail in known]
    return StepOps(
        names=tuple(names),
        ms=tuple(four_digits(times[name]) for name in names),
        counts=_told([six_digits(detail.count) for detail in known]),
        kinds=_told([detail.kind[:LONGEST_OP] for detail in known]),
        types=_told([detail.type[:LONGEST_OP] for detail in known]),
        orders=_told([detail.order for detail in known]),
        of_ops=_told([_bounded(origin.op) for origin in origins]),
        of_modules=_told([_bounded(origin.module) for origin in origins]),
        cells=tuple(_cells(rows, places)),
        left_out=len(times) - len(names),
        left_out_ms=four_digits(sum(ms for name, ms in times.items() if name not in rows)),
    )


def _cells(rows: Mapping[str, int], places: Iterable[OpPlace]) -> Iterator[OpCells]:
    by_place: dict[Place, list[OpPlace]] = {}
    left = MOST_CELLS
    for each in places:
        place = Place(each.phase, each.layer, each.direction)
        if each.op not in rows or len(each.phase or "") > LONGEST_PHASE or place == Place():
            continue
        if place not in by_place and len(by_place) >= MOST_PLACES:
            continue
        if left := left - 1:
            by_place.setdefault(place, []).append(each)
        else:
            break
    for place, unordered in by_place.items():
        found = sorted(unordered, key=lambda each: rows[each.op])
        yield OpCells(
            phase=place.phase,
            layer=place.layer,
            direction=place.direction,
            rows=tuple(rows[each.op] for each in found),
            ms=tuple(four_digits(each.ms) for each in found),
            counts=_counts([each.count for each in found]),
        )


def _with_rows_below(cells: OpCells, most: int) -> OpCells:
    kept = [place for place, row in enumerate(cells.rows) if row < most]
    return cells.but(
        rows=tuple(cells.rows[place] for place in kept),
        ms=tuple(cells.ms[place] for place in kept),
        counts=tuple(cells.counts[place] for place in kept) if cells.counts else (),
    )


def _added(one: OpWork, other: OpWork) -> OpWork:
    counts = (one.count, other.count)
    count = None if counts[0] is None or counts[1] is None else counts[0] + counts[1]
    return OpWork(count=count, ms=one.ms + other.ms)


def _counts(counts: Sequence[float | None]) -> tuple[float, ...]:
    """The counts where all are known."""
    known = [six_digits(count) for count in counts if count is not None]
    return tuple(known) if len(known) == len(counts) else ()


def _told(column: Sequence[T]) -> tuple[T, ...]:
    """The column; an empty one where it tells nothing."""
    return tuple(column) if any(value not in (None, "") for value in column) else ()


def _bounded(text: str | None) -> str | None:
    return text[:LONGEST_OP] if text else None


def _at(column: Sequence[T], row: int) -> T | None:
    return column[row] if column else None


# --- by digests of their names --------------------------------------------------------------------


def keys_of_ops(names: Iterable[str]) -> dict[str, str]:
    """A short digest of each name; names with the same one are left out."""
    keys = {
        name: blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        for name in names
    }
    often = Counter(keys.values())
    return {name: key for name, key in keys.items() if often[key] == 1}


def remembered(ops: StepOps) -> dict[str, float]:
    """What a point of the history keeps: the times of the largest ops, by their digests."""
    keys = keys_of_ops(ops.names)
    largest = [name for name in ops.names if name in keys][:REMEMBERED_OPS]
    return {keys[name]: four_digits(ops.times[name]) for name in largest}


def six_digits(value: Any) -> Any:
    """A count, which may be a mean over steps."""
    return None if value is None else float(f"{value:.6g}")
