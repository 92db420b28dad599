"""The rules of a team: `.github/ci-score.toml`. An unknown key is an error with a suggestion."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from ci_score.errors import BadInputError

SCHEMA = 1
_KEYS = ("schema", "rules")
_RULES = ("reference",)


@dataclass(frozen=True, slots=True)
class Policy:
    """What is judged and how. Without a file: the reference's regressions, a critical one fails."""

    rules: Literal["reference"] = "reference"


def read_policy(data: bytes, source: str) -> Policy:
    """The policy in a file of TOML."""
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(source, found=f"no TOML ({error})", expected="TOML") from None
    for key in table:
        if key not in _KEYS:
            close = get_close_matches(key, _KEYS, n=1)
            hint = f", perhaps {close[0]}" if close else ""
            raise BadInputError(
                source,
                field=key[:80],
                found="a key that does not exist",
                expected=f"one of {', '.join(_KEYS)}{hint}",
            )
    _expect(table, "schema", (SCHEMA,), source)
    _expect(table, "rules", _RULES, source)
    return Policy()


def _expect(table: dict[str, Any], key: str, known: tuple[object, ...], source: str) -> None:
    value = table.get(key, known[0])
    if type(value) is not type(known[0]) or value not in known:
        raise BadInputError(
            source,
            field=key,
            found=ascii(value)[:80],
            expected=" or ".join(map(repr, known)),
        )
