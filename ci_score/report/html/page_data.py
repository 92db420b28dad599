"""A case's ops → the JSON in a page that scripts filter, sort and draw anew.

Names stand there once, times with four significant digits, and what each op takes in a phase and a
layer as columns, so that 51,200 cells are a megabyte. Its size is bounded: ops without room are
counted in `left_out`, and `without_layers` says that the cells are sums over the layers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ci_score.files.visible import plain
from ci_score.model.record import Judged
from ci_score.model.step_ops import Place, four_digits, six_digits
from ci_score.report.joined_ops import JoinedOp, JoinedOps, Sides, joined_ops
from ci_score.report.names_of_case import names_of_ops

LONGEST_NAME = 1_000
# Of one case; half of it may be names.
ROOM = 1_400_000
# What would end the element, wherever it stands in the JSON.
_UNSAFE = re.compile("[<>&]")


def page_data(case: Judged, room: int = ROOM) -> Markup:
    """What a page's scripts know of the ops of a case, ready for a script element of type JSON."""
    found = joined_ops(case)
    lines = list(_named(found.ops, room // 2))
    kept = found.ops[: len(lines)]
    columns: dict[str, object] = {
        "has_base": found.has_base,
        "ops": [line.name for line in lines],
        "short": [line.short for line in lines],
        "was": {row: line.was for row, line in enumerate(lines) if line.was},
        "kinds": [line.kind for line in lines],
        "status": [op.status.value for op in kept],
        **_columns("_ms", "_n", [op.sides for op in kept]),
        "left_out": _left_out(found, len(lines)),
    }
    text = _json(columns)
    room -= len(text)
    with_layers = _json(list(_places(kept, with_layers=True)))
    if len(with_layers) <= room:
        return _object(text, "false", with_layers)
    of_phases = _json(list(_places(kept, with_layers=False)))
    return _object(text, "true", of_phases if len(of_phases) <= room else "[]")


def _object(columns: str, without_layers: str, places: str) -> Markup:
    text = f'{columns[:-1]},"without_layers":{without_layers},"places":{places}}}'
    return Markup(text)  # noqa: S704 - `_json` has escaped it


# --- names ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """An op's texts, as a page shows them."""

    name: str
    short: str
    was: str
    kind: str


def _named(ops: Sequence[JoinedOp], room: int) -> Iterator[_Line]:
    """The texts of the first ops, the largest, for which there is room."""
    short = names_of_ops(ops)
    for op in ops:
        line = _Line(
            plain(op.name, LONGEST_NAME),
            plain(short[op.name], LONGEST_NAME),
            plain(op.was or "", LONGEST_NAME),
            plain(op.kind, LONGEST_NAME),
        )
        room -= sum(len(_json(text)) for text in (line.name, line.short, line.was, line.kind))
        if room < 0:
            return
        yield line


# --- numbers --------------------------------------------------------------------------------------


def _columns(ms: str, count: str, sides: Sequence[Sides]) -> dict[str, object]:
    """Times and launches of both sides.

    The head's launches are left out where they are the base's, and of the other columns those of
    which nothing is known.
    """
    base_n, head_n = [one.base_count for one in sides], [one.head_count for one in sides]
    columns = {
        f"base{ms}": [_ms(one.base_ms) for one in sides],
        f"head{ms}": [_ms(one.head_ms) for one in sides],
        f"base{count}": [_count(value) for value in base_n],
    }
    told = {name: column for name, column in columns.items() if _is_told(column)}
    same = {} if base_n == head_n else {f"head{count}": [_count(value) for value in head_n]}
    return {**told, **same}


def _is_told(column: Sequence[object]) -> bool:
    return any(value is not None for value in column)


def _places(ops: Sequence[JoinedOp], *, with_layers: bool) -> Iterator[dict[str, object]]:
    """The cells of each place, or of each phase."""
    by_place: dict[Place, dict[int, list[Sides]]] = {}
    for row, op in enumerate(ops):
        for place, sides in op.places.items():
            key = place if with_layers else Place(place.phase)
            by_place.setdefault(key, {}).setdefault(row, []).append(sides)
    for place, rows in by_place.items():
        told = {
            "phase": None if place.phase is None else plain(place.phase, LONGEST_NAME),
            "layer": place.layer,
            "direction": place.direction,
        }
        yield {
            **{name: value for name, value in told.items() if value is not None},
            "rows": list(rows),
            **_columns("", "_n", [_sum(cells) for cells in rows.values()]),
        }


def _left_out(found: JoinedOps, kept: int) -> dict[str, float | int | None]:
    """The ops that have no row here, of each side."""
    rest = [op.sides for op in found.ops[kept:]]
    base, head = found.left_out.base_count, found.left_out.head_count
    total = _sum([found.left_out, *rest])
    return {
        "base_ops": None if base is None else int(base) + sum(bool(one.base_ms) for one in rest),
        "head_ops": int(head or 0) + sum(bool(one.head_ms) for one in rest),
        "base_ms": _ms(total.base_ms),
        "head_ms": _ms(total.head_ms),
    }


def _sum(sides: Iterable[Sides]) -> Sides:
    """All of them together; what none of them knows stays unknown."""
    known = list(sides)
    return Sides(
        _total(one.base_ms for one in known),
        _total(one.head_ms for one in known),
        _total(one.base_count for one in known),
        _total(one.head_count for one in known),
    )


def _total(values: Iterable[float | None]) -> float | None:
    total = None
    for value in values:
        if value is not None:
            total = (total or 0.0) + value
    return total


def _ms(value: float | None) -> float | int | None:
    return None if value is None else _short(four_digits(value))


def _count(value: float | None) -> float | int | None:
    return None if value is None else _short(six_digits(value))


def _short(value: float) -> float | int:
    """A whole number without its `.0`."""
    return int(value) if value == int(value) else value


def _json(value: object) -> str:
    """JSON that stands in a script element as it is."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
