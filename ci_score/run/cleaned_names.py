"""Names of a stranger's record → names that pass for nothing else.

An op, a phase or a range may be called by any sentence, link or mention. What the branch's own
record calls so keeps its name. Any other keeps its letters, its digits and a few signs that
names of kernels have, so that it reads as one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Literal, TypeVar, get_args, get_origin

from pydantic import StringConstraints

from ci_score.model.code_diff import is_inside
from ci_score.model.explanation import (
    BACKWARD,
    BETWEEN,
    BETWEEN_LOADING,
    DEVICE_PARTS,
    OUTSIDE_PHASES,
)
from ci_score.model.metrics import METRICS
from ci_score.model.profile import CATEGORIES
from ci_score.model.values import Value

LONGEST = 100
# Of a name that is cleaned; all that follows is cut.
LONGEST_READ = 8192
_NO_PART_OF_A_NAME = re.compile(r"[^A-Za-z0-9_:.]+")
# What a diff is asked for. A path has no blank, and nothing that markdown knows but its lines; of
# `www.example.com/a.py` it would make a link.
_FILES = frozenset({"file", "was_file"})
_PART = "[A-Za-z0-9_][A-Za-z0-9_+-]*"
_PATH = re.compile(rf"(?!www\.)(?:{_PART}/(?:[A-Za-z0-9_.+-]+/)*)?[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_OWN_NAMES = frozenset(
    {"<module>", *DEVICE_PARTS, BETWEEN, BETWEEN_LOADING, OUTSIDE_PHASES, BACKWARD}
    | {metric.name for metric in METRICS}
)
_KINDS = frozenset({*CATEGORIES, ""})

V = TypeVar("V", bound=Value)
# A text, and the field that it stands in, become a text.
Rename = Callable[[str, str], str]


class CleanedNames:
    """How the names of one case are called: each the same wherever it stands, and no two alike."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known) | _OWN_NAMES
        self._called: dict[str, str] = {}
        self._alike: dict[str, int] = {}

    def within(self, value: V) -> V:
        """The value with all of its names cleaned; kinds that are not ours are `other`."""
        return _renamed(value, self._call)

    def _call(self, name: str, field: str) -> str:
        if field in ("kind", "kinds"):
            return name if name in _KINDS else "other"
        if not name or name in self._known:
            return name
        if name not in self._called:
            self._called[name] = self._new(name, field)
        return self._called[name]

    def _new(self, name: str, field: str) -> str:
        plain = name if field in _FILES and _is_plain_path(name) else _plain(name)
        while True:
            number = self._alike[plain] = self._alike.get(plain, 0) + 1
            called = plain if number == 1 else f"{plain}~{number}"
            if called not in self._known:
                return called


def _plain(name: str) -> str:
    return _NO_PART_OF_A_NAME.sub("_", name[:LONGEST_READ]).strip("_")[:LONGEST] or "unnamed"


def _is_plain_path(name: str) -> bool:
    """Whether it is a path within a repository that reads as nothing else."""
    return len(name) <= LONGEST and is_inside(name) and _PATH.fullmatch(name) is not None


def names_in(value: Value) -> Iterator[str]:
    """Every name below, with those that may repeat."""
    found: list[str] = []

    def keep(name: str, _field: str) -> str:
        found.append(name)
        return name

    _renamed(value, keep)
    yield from found


def _renamed(value: V, rename: Rename) -> V:
    fields = _open_fields(type(value))
    return value.but(**{name: _below(getattr(value, name), name, rename) for name in fields})


def _below(value: object, field: str, rename: Rename) -> object:
    if isinstance(value, Value):
        return _renamed(value, rename)
    if isinstance(value, Mapping):
        return {rename(key, field): _below(own, field, rename) for key, own in value.items()}
    if isinstance(value, tuple):
        return tuple(_below(own, field, rename) for own in value)
    if isinstance(value, str) and not isinstance(value, Enum):
        return rename(value, field)
    return value


@cache
def _open_fields(model: type[Value]) -> tuple[str, ...]:
    """The fields that may hold any text; the others hold numbers, or one of our own words."""
    return tuple(
        name for name, field in model.model_fields.items() if _may_hold_text(field.annotation)
    )


def _has_a_pattern(annotation: object) -> bool:
    """Whether a text may have one form only, as a digest has."""
    marks = getattr(annotation, "__metadata__", ())
    return any(isinstance(one, StringConstraints) and one.pattern for one in marks)


def _may_hold_text(annotation: object) -> bool:
    if get_origin(annotation) is Literal or _has_a_pattern(annotation):
        return False
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation is str or issubclass(annotation, Value)
    return any(map(_may_hold_text, get_args(annotation)))
