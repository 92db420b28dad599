"""All mistakes of a policy at once.

What is wrong is taken out, and the rest is looked at again: a slip in one table hides nothing that
is wrong in another. What only follows from a mistake that is told already is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from ci_score.errors import BadInputError
from ci_score.files.strict_json import json_path
from ci_score.judge.policy.checking import (
    Mistake,
    Place,
    keys_at,
    wrong_form,
    wrong_limits,
    wrong_meaning,
)
from ci_score.judge.policy.tables import Policy
from ci_score.model.lists import closest

# In place of a table that is wrong, so that those behind it keep their numbers.
_HARMLESS: Mapping[str, Mapping[str, object]] = {
    "case": {"required": True},
    "parity": {"op_ratio": 2.0},
}
_BY_METRIC = ("metrics", "budgets")
# Which limits hold depends on these tables.
_BELOW_LIMITS = ("rules", "measure")


def mistakes_in(table: Mapping[str, Any], source: str) -> list[BadInputError]:
    """Every mistake in a policy's table, by what kind of mistake it is."""
    left = deepcopy(dict(table))
    found = list(wrong_form(left))
    _take_out(left, found)
    if policy := _policy(left):
        found += _new(wrong_meaning(policy), found)
        _take_out(left, found)
        policy = _policy(left)
    if policy and not any(_root(place) in _BELOW_LIMITS for place, _, _ in found):
        found += _new(wrong_limits(policy), found)
    return [
        BadInputError(source, field=json_path(place), found=what, expected=wanted)
        for place, what, wanted in found
    ]


def _policy(table: Mapping[str, Any]) -> Policy | None:
    try:
        return Policy.model_validate(table)
    except ValidationError:
        return None


def _new(mistakes: Iterable[Mistake], told: Iterable[Mistake]) -> list[Mistake]:
    """Those that do not follow from what was taken out."""
    before = [place for place, _, _ in told]
    return [one for one in mistakes if not any(_follows(one[0], earlier) for earlier in before)]


def _follows(place: Place, earlier: Place) -> bool:
    root = _root(earlier)
    if root in _BY_METRIC:
        # The same metric may stand in several tables, and each relies on what the first says.
        names = earlier[1:2] or _BY_METRIC
        return any(name in place for name in names)
    if root in _HARMLESS and len(earlier) > 1:
        return place[:2] == earlier[:2]
    return place[:1] == (root,)


def _root(place: Place) -> str:
    """The table of the file that a place is in, or that a wrong name probably means."""
    root = str(place[0]) if place else ""
    known = keys_at(())
    return root if root in known else closest(root, known)


def _take_out(table: dict[str, Any], mistakes: Iterable[Mistake]) -> None:
    for place, _, _ in mistakes:
        if place:
            _take_out_one(table, place)


def _take_out_one(table: dict[str, Any], place: Place) -> None:
    root, *behind = place
    rows = table.get(str(root))
    if root in _HARMLESS and behind and isinstance(rows, list):
        number = int(behind[0])
        rows[number] = {"match": f"none-{number}"} | dict(_HARMLESS[str(root)])
        return
    # As deep as the place goes: of a key that is missing, the table that lacks it.
    holder: Any = table
    last: tuple[dict[str, Any], str] | None = None
    for key in place:
        if not isinstance(holder, dict) or key not in holder:
            break
        last = holder, str(key)
        holder = holder[key]
    if last is not None:
        del last[0][last[1]]
