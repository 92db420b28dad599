"""A record on one line, in the least room, and back.

What is absent has no key. Each name stands once, in `texts`, and where it is used stands its place
there. What a line or a function of the code takes is a list of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ci_score.errors import BadInputError
from ci_score.model.record import Judged, Record
from ci_score.model.step_code import CodeWork

# The columns of a table of ops that hold names, and the rows of an explanation that do.
_NAMES = ("names", "kinds", "types", "of_ops", "of_modules")
_OF_CHANGES = ("name", "was", "kind")
# The same of the code: of definitions, lines and callers.
_OF_CODE = ("name", "file", "was_name", "was_file", "through")
_WORKS, _PARTS_OF_WORK = ("work", "base", "head"), tuple(CodeWork.model_fields)


def as_written(record: Record) -> dict[str, Any]:
    """The record in the least room: what is absent has no key, and a name stands once."""
    value = record.model_dump(mode="json", exclude={"cases", "history"})
    value |= record.model_dump(mode="json", include={"history"}, exclude_defaults=True)
    value.setdefault("history", [])
    value["cases"] = [case_as_written(case) for case in record.cases]
    texts: dict[str, int] = {}
    for case in value["cases"]:
        refer(case, texts)
    value["texts"] = list(texts)
    return value


def case_as_written(case: Judged) -> dict[str, Any]:
    """A case without what is absent, and still with its names."""
    slim = {"launches", "step_ops", "base", "explanation", "code"}
    value = case.model_dump(mode="json", exclude=slim)
    value |= case.model_dump(mode="json", include=slim, exclude_defaults=True)
    for row in _rows_of_code(value):
        for key in _WORKS:
            if isinstance(row.get(key), dict):
                row[key] = _as_numbers(row[key])
    return value


def _as_numbers(work: Mapping[str, float]) -> list[float]:
    """Its parts in the order of their fields; zeros at the end are left out."""
    parts = [work.get(name, 0) for name in _PARTS_OF_WORK]
    while parts and not parts[-1]:
        parts.pop()
    return parts


def refer(case: Mapping[str, Any], texts: dict[str, int]) -> None:
    """Puts the place in `texts` where a name of an op, a function or a file stands."""
    for row, key in _places_of_names(case):
        row[key] = _each(row[key], lambda text: texts.setdefault(text, len(texts)), str)


def with_its_texts(value: dict[str, Any], source: str) -> dict[str, Any]:
    """The record with the names again where it has only their places."""
    texts, cases = value.get("texts"), value.get("cases")
    if not isinstance(texts, list) or not isinstance(cases, list):
        return value

    def text_at(place: int) -> object:
        # A list would stand for a thousand names, at as many places as a stranger likes.
        if 0 <= place < len(texts) and isinstance(texts[place], str):
            return texts[place]
        raise BadInputError(
            source, field="texts", found=f"no text {place}", expected=f"{len(texts)} texts at most"
        )

    for case in cases:
        for row, key in _places_of_names(case):
            row[key] = _each(row[key], text_at, int)
        for row in _rows_of_code(case):
            for key in _WORKS:
                if isinstance(row.get(key), list):
                    row[key] = dict(zip(_PARTS_OF_WORK, row[key], strict=False))
    return value


def _places_of_names(case: object) -> Iterator[tuple[dict[str, Any], str]]:
    """Where a case may have such names; a stranger's record may hold anything there."""
    base, explanation = (_object(case, key) for key in ("base", "explanation"))
    for table in (_object(case, "step_ops"), _object(base, "step_ops")):
        yield from ((table, key) for key in _NAMES if key in table)
    for change in _rows(explanation, "ops"):
        yield from ((change, key) for key in _OF_CHANGES if key in change)
    for row in _rows_of_code(case):
        yield from ((row, key) for key in _OF_CODE if key in row)


def _rows_of_code(case: object) -> Iterator[dict[str, Any]]:
    """What a case says of definitions, lines and callers, each of them a row."""
    code, changes = _object(case, "code"), _object(_object(case, "explanation"), "code")
    for key in ("definitions", "lines"):
        yield from _rows(code, key)
    for row in _rows(changes, "definitions"):
        yield row
        for key in ("lines", "callers"):
            yield from _rows(row, key)
    yield from _rows(changes, "warned")


def _rows(value: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    found = value.get(key)
    yield from (row for row in found if isinstance(row, dict)) if isinstance(found, list) else ()


def _object(value: object, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _each(value: Any, to: Callable[[Any], object], kind: type) -> Any:
    """The value, or each of a list, made another where it is of that type."""
    if isinstance(value, list):
        return [to(one) if type(one) is kind else one for one in value]
    return to(value) if type(value) is kind else value
