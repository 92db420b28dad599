"""A case's ops → the rows of the op page: the first ones as texts, all of them as columns of JSON.

Without scripts the first rows are a table. With scripts the table is drawn anew of the columns, in
windows: both show the same texts, so `ops.js` rounds as `three_digits` does.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from markupsafe import Markup

from ci_score.files.visible import plain
from ci_score.model.explanation import OUTSIDE_PHASES, OpChange
from ci_score.model.metrics import three_digits
from ci_score.model.record import HistoryPoint, Judged
from ci_score.model.step_ops import Place, keys_of_ops, six_digits
from ci_score.model.values import four_digits
from ci_score.report.joined_ops import JoinedOp, JoinedOps, Sides, Status, joined_ops
from ci_score.report.names_of_case import names_of_ops
from ci_score.report.numbers import delta_milliseconds, milliseconds

LONGEST_FULL_NAME = 1000
HALF_BAR = 30
# An op is slower or faster from this share of its time on; a record keeps four digits of a time.
LEAST_CHANGE, LEAST_TOLD = 0.02, 0.0005
_STATUSES = tuple(Status)
# Said beside an op's name; the others say nothing that the numbers do not.
_TAGS = {
    Status.RENAMED: "renamed",
    Status.NEW: "new",
    Status.GONE: "gone",
    Status.NOT_KEPT_IN_BASE: Status.NOT_KEPT_IN_BASE.value,
    Status.NOT_KEPT_IN_HEAD: Status.NOT_KEPT_IN_HEAD.value,
}
# The course of an op: at most so many runs, and the side of its stretched drawing.
LEAST_RUNS, MOST_RUNS, COURSE_UNITS = 5, 60, 100
NOT_KEPT, NOT_KNOWN, NOT_COUNTED = "not kept", "not known", "not counted"
# What would end a script element, or a line of a script.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class OpTexts:
    """The times and launches of an op, or of it in one place, as they are shown."""

    base: str
    head: str
    change: str
    launches: str
    each: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in whole pixels: of a change to the right or left of the middle, of a time from 0."""

    kind: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class OpCourse:
    """An op's times in the branch's runs, and this run's, as a small drawing and in words."""

    line: str
    now: str
    words: str


@dataclass(frozen=True, slots=True)
class OpRow:
    """A row of the table; below it the places that it has room for."""

    name: str
    outer: str
    full: str
    was: str
    tag: str
    kind: str
    texts: OpTexts
    bar: Bar
    course: OpCourse | None
    places: Sequence[str]
    more_places: int


@dataclass(frozen=True, slots=True)
class OpTable:
    """The ops of a case: the first rows, and all of them for a script."""

    rows: Sequence[OpRow]
    in_all: int
    has_base: bool
    has_history: bool
    counted: str
    left_out: str
    columns: Markup
    places: Markup


class CaseOps:
    """The ops of a case, joined and named once, of which tables of several sizes are made.

    `earlier` are the branch's runs that were measured as the case was.
    """

    def __init__(self, case: Judged, earlier: Sequence[HistoryPoint] = ()) -> None:
        self.joined = joined = known_ops(case)
        self._has_base = joined.has_base
        self._left_out = joined.left_out
        self._ops = sorted(joined.ops, key=_most_changed_first if joined.has_base else _largest)
        self.names = names_of_ops(self._ops)
        shown = (abs(_delta(op)) if joined.has_base else _own_ms(op) for op in self._ops)
        self._largest = max(shown, default=0.0)
        self._history = _histories(self._ops, earlier)

    def __len__(self) -> int:
        return len(self._ops)

    def table(self, rows: int, places: int, *, is_live: bool = True) -> OpTable:
        """So many rows with so many places as texts; a live one has all as columns, too."""
        by_place = self._by_place() if is_live else {}
        phases = _numbered(place.phase for place in by_place)
        return OpTable(
            rows=list(self._rows(rows, places)),
            in_all=len(self._ops),
            has_base=self._has_base,
            has_history=bool(self._history),
            counted=self._counted(),
            left_out=self._left_out_words(),
            columns=self._columns(phases) if is_live else Markup(),
            places=_cells(by_place, phases) if is_live else Markup(),
        )

    # --- as texts --------------------------------------------------------------------------------

    def _rows(self, most: int, told: int) -> Iterator[OpRow]:
        for op in self._ops[:most]:
            outer, _, name = self.names[op.name].rpartition(" · ")
            places = sorted(op.places.items(), key=_most_changed_place_first)
            yield OpRow(
                name=name,
                outer=outer,
                full=plain(op.name, LONGEST_FULL_NAME),
                was=self.names[op.was] if op.was else "",
                tag=_TAGS.get(op.status, ""),
                kind=op.kind,
                texts=_texts(op.sides),
                bar=self._bar(op),
                course=_course(self._history.get(op.name, ()), op.sides.head_ms),
                places=[self._in_place(*one) for one in places[:told]],
                more_places=max(len(places) - told, 0),
            )

    def _in_place(self, place: Place, sides: Sides) -> str:
        """`forward · layer 3: 1.00 → 2.00 ms (+1.00), count 4, each 0.250 → 0.500 ms`"""
        texts = _texts(sides)
        times = f"{texts.head} ms"
        if self._has_base:
            times = f"{texts.base} → {times} ({texts.change})"
        is_counted = texts.launches != NOT_COUNTED
        launches = f", count {texts.launches}, each {texts.each} ms" if is_counted else ""
        return f"{place_words(place)}: {times}{launches}"

    def _bar(self, op: JoinedOp) -> Bar:
        if not self._has_base:
            return Bar("all", 0, _pixels(_own_ms(op), self._largest, 2 * HALF_BAR))
        width = _pixels(abs(_delta(op)), self._largest, HALF_BAR)
        return (
            Bar("more", HALF_BAR, width) if _delta(op) > 0 else Bar("less", HALF_BAR - width, width)
        )

    def _counted(self) -> str:
        """`12 slower, 3 faster, 1 new`; what is not told is left out."""
        if not self._has_base:
            return ""
        groups = Counter(map(_group, self._ops))
        words = ("slower", "faster", "new", "gone")
        told = ", ".join(f"{groups[word]} {word}" for word in words if groups[word])
        return told or "none changed by 2 %"

    def _left_out_words(self) -> str:
        """How much the rows are not, on each side that left some out."""
        sides = (
            ("the base", self._left_out.base_count, self._left_out.base_ms),
            ("this side", self._left_out.head_count, self._left_out.head_ms),
        )
        parts = [
            f"{count:,.0f} of {side} ({milliseconds(ms or 0.0)})"
            for side, count, ms in sides
            if count
        ]
        return f"Of the smallest ops only the sum is kept: {' and '.join(parts)}." if parts else ""

    # --- as columns ------------------------------------------------------------------------------

    def _columns(self, phases: Iterable[str | None]) -> Markup:
        kinds = _numbered(op.kind for op in self._ops)
        full = [plain(op.name, LONGEST_FULL_NAME) for op in self._ops]
        names = [self.names[op.name] for op in self._ops]
        return _json(
            {
                "hasBase": self._has_base,
                "names": names,
                # A name that is whole already is not told twice.
                "full": [0 if one == name else one for one, name in zip(full, names, strict=True)],
                "was": {
                    row: [self.names[op.was], plain(op.was, LONGEST_FULL_NAME)]
                    for row, op in enumerate(self._ops)
                    if op.was
                },
                "kinds": [plain(kind) for kind in kinds],
                "kind": [kinds[op.kind] for op in self._ops],
                "statuses": [_TAGS.get(status, "") for status in _STATUSES],
                "status": [_STATUSES.index(op.status) for op in self._ops],
                "phases": [OUTSIDE_PHASES if phase is None else plain(phase) for phase in phases],
                "leftOut": _sides_as_columns([self._left_out]),
                **self._history_by_row(),
                **_sides_as_columns([op.sides for op in self._ops]),
            }
        )

    def _history_by_row(self) -> dict[str, object]:
        """The times of the ops that have a history."""
        rows = {
            row: list(map(_short, self._history[op.name]))
            for row, op in enumerate(self._ops)
            if op.name in self._history
        }
        return {"history": rows} if rows else {}

    def _by_place(self) -> dict[Place, list[tuple[int, Sides]]]:
        by_place: dict[Place, list[tuple[int, Sides]]] = {}
        for row, op in enumerate(self._ops):
            for place, sides in op.places.items():
                by_place.setdefault(place, []).append((row, sides))
        return by_place


def _cells(
    by_place: Mapping[Place, Sequence[tuple[int, Sides]]], phases: Mapping[str | None, int]
) -> Markup:
    """What each place has of the ops."""
    return _json(
        [
            {
                "phase": phases[place.phase],
                "layer": place.layer,
                "words": plain(place_words(place), LONGEST_FULL_NAME),
                "rows": _run([row for row, _ in cells]),
                **_sides_as_columns([sides for _, sides in cells]),
            }
            for place, cells in by_place.items()
        ]
    )


def place_words(place: Place) -> str:
    """`forward · layer 3`"""
    parts = [place.phase if place.phase is not None else OUTSIDE_PHASES]
    if place.layer is not None:
        parts.append(f"layer {place.layer}")
        if place.direction and place.direction != place.phase:
            parts.append(place.direction)
    return " · ".join(parts)


def counted(value: float) -> str:
    """`1,234`; a mean over steps has a decimal."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


# --- which ops, and in which order --------------------------------------------------------------


def known_ops(case: Judged) -> JoinedOps:
    """The ops of both sides; of a record that kept less, what it has of them."""
    joined = joined_ops(case)
    if not joined.ops:
        alone = (_of_head(name, ms) for name, ms, _ in case.scorecard.hotspot_ops)
        joined = replace(joined, ops=tuple(alone))
    explained = case.explanation.ops if case.explanation else ()
    if joined.has_base or not explained:
        return joined
    named = {op.name: op for op in explained}
    ops = [
        *(_of_change(op) for op in explained),
        *(replace(op, status=Status.NOT_KEPT_IN_BASE) for op in joined.ops if op.name not in named),
    ]
    return JoinedOps(tuple(ops), has_base=True, left_out=joined.left_out)


def _of_head(name: str, ms: float) -> JoinedOp:
    return JoinedOp(name, None, "", None, Status.ONE_SIDE, Sides(None, ms), {})


def _of_change(op: OpChange) -> JoinedOp:
    status = Status.BOTH if op.status == "changed" else Status(op.status)
    sides = Sides(op.base_ms, op.head_ms, op.base_count, op.head_count)
    return JoinedOp(op.name, op.was, op.kind, op.origin, status, sides, {})


def _own_ms(op: JoinedOp) -> float:
    """The larger of both sides."""
    return max(op.sides.base_ms or 0.0, op.sides.head_ms or 0.0)


def _delta(op: JoinedOp) -> float:
    return op.sides.delta_ms or 0.0


def _group(op: JoinedOp) -> str:
    """By which filter the op is found; an empty text where it is as it was, or not known."""
    if op.status in (Status.NEW, Status.GONE):
        return op.status.value
    if abs(_delta(op)) < LEAST_CHANGE * _own_ms(op) or not _own_ms(op):
        return ""
    return "slower" if _delta(op) > 0 else "faster"


def _largest(op: JoinedOp) -> tuple[float, str]:
    return -_own_ms(op), op.name


def _most_changed_first(op: JoinedOp) -> tuple[float, float, str]:
    """An op of which only one side is known may have changed by all that it takes."""
    change = _own_ms(op) if op.sides.delta_ms is None else abs(_delta(op))
    return -change, *_largest(op)


def _most_changed_place_first(item: tuple[Place, Sides]) -> tuple[float, float]:
    _, sides = item
    return -abs(sides.delta_ms or 0.0), -max(sides.base_ms or 0.0, sides.head_ms or 0.0)


# --- over the branch's runs ---------------------------------------------------------------------


def _histories(
    ops: Sequence[JoinedOp], earlier: Sequence[HistoryPoint]
) -> dict[str, Sequence[float]]:
    """The times of each op in the newest runs that kept it, the oldest first, where they suffice.

    An op that is called otherwise now goes on where its former name ends.
    """
    by_key: dict[str, dict[int, float]] = {}
    for place, point in enumerate(earlier):
        for key, ms in point.ops.items():
            by_key.setdefault(key, {})[place] = four_digits(ms)
    if not by_key:
        return {}
    keys = keys_of_ops(name for op in ops for name in (op.was, op.name) if name)
    found: dict[str, Sequence[float]] = {}
    for op in ops:
        runs: dict[int, float] = {}
        for name in (op.was, op.name):
            runs |= by_key.get(keys.get(name or "", ""), {})
        if len(runs) >= LEAST_RUNS:
            found[op.name] = [runs[place] for place in sorted(runs)[-MOST_RUNS:]]
    return found


def _course(values: Sequence[float], now: float | None) -> OpCourse | None:
    """The drawing; a course that spans less than a change does not fill its height."""
    if not values:
        return None
    shown = [*values] if now is None else [*values, four_digits(now)]
    shares = [value / (max(shown) or 1.0) for value in shown]
    low, high = min(shares), max(shares)
    room = max(LEAST_CHANGE - (high - low), 0.0) / 2
    span = high - low + 2 * room
    places = [
        (
            math.floor(COURSE_UNITS * place / (len(shown) - 1) + 0.5),
            math.floor(COURSE_UNITS * (high + room - share) / span + 0.5),
        )
        for place, share in enumerate(shares)
    ]
    x, y = places[-1]
    line = "M" + "L".join(f"{x} {y}" for x, y in places[: len(values)])
    return OpCourse(line, "" if now is None else f"M{x} {y}h0", _course_words(values, shown))


def _course_words(values: Sequence[float], shown: Sequence[float]) -> str:
    """`12 runs of the branch, 3.90 to 4.20 ms; this run 7.90 ms`"""
    ends = " to ".join(dict.fromkeys(map(three_digits, (min(values), max(values)))))
    this = f"; this run {three_digits(shown[-1])} ms" if len(shown) > len(values) else ""
    return f"{len(values)} runs of the branch, {ends} ms{this}"


# --- texts and JSON -----------------------------------------------------------------------------


def _texts(sides: Sides) -> OpTexts:
    counts = (sides.base_count, sides.head_count)
    return OpTexts(
        base=_shown(sides.base_ms),
        head=_shown(sides.head_ms),
        change=_change(sides),
        launches=_both([None if count is None else counted(count) for count in counts]),
        each=_both([_each(sides.base_ms, counts[0]), _each(sides.head_ms, counts[1])]),
    )


def _change(sides: Sides) -> str:
    """`+3.84`; what is less than a record can tell is 0."""
    delta = sides.delta_ms
    if delta is None:
        return NOT_KNOWN
    largest = max(sides.base_ms or 0.0, sides.head_ms or 0.0)
    return (
        delta_milliseconds(delta).removesuffix(" ms") if abs(delta) > LEAST_TOLD * largest else "0"
    )


def _shown(ms: float | None) -> str:
    return NOT_KEPT if ms is None else three_digits(ms)


def _each(ms: float | None, count: float | None) -> str | None:
    """The time of a launch; an empty text where there is none."""
    if ms is None or count is None:
        return None
    return three_digits(ms / count) if count else ""


def _both(sides: Sequence[str | None]) -> str:
    """`196 → 588`, or one of them where the other says the same or nothing."""
    told = list(dict.fromkeys(side for side in sides if side))
    return " → ".join(told) if told else NOT_COUNTED


def _sides_as_columns(sides: Sequence[Sides]) -> dict[str, object]:
    columns = {
        "base": _column([_four_digits(one.base_ms) for one in sides]),
        "head": _column([_four_digits(one.head_ms) for one in sides]),
        "baseCount": _column([six_digits(one.base_count) for one in sides]),
        "headCount": _column([six_digits(one.head_count) for one in sides]),
    }
    return {name: column for name, column in columns.items() if column is not None}


def _four_digits(ms: float | None) -> float | None:
    """A time of JSON, in as few characters as a record has."""
    return None if ms is None else four_digits(ms)


T = TypeVar("T")


def _numbered(values: Iterable[T]) -> dict[T, int]:
    """Each value once, with its place."""
    return {value: place for place, value in enumerate(dict.fromkeys(values))}


def _pixels(value: float, largest: float, width: int) -> int:
    return round(width * (value / largest)) if largest else 0


def _column(values: Iterable[float | None]) -> object:
    """The values; one where all are the same, and nothing where none is known."""
    short = [None if one is None else _short(one) for one in values]
    return short[0] if len(set(short)) == 1 else short


def _short(value: float) -> float:
    """`4` is shorter than `4.0`, and means the same."""
    return int(value) if value == int(value) else value


def _run(rows: Sequence[int]) -> object:
    """Rows that follow each other are the first and their number."""
    is_run = list(rows) == list(range(rows[0], rows[0] + len(rows)))
    return {"from": rows[0], "count": len(rows)} if is_run else rows


def _json(value: object) -> Markup:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))  # noqa: S704 - nothing in it can end the element
