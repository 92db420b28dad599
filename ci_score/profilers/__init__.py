"""Which reader understands a file: one row a format, chosen by content, never by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ci_score.errors import BadInputError
from ci_score.models import Profile
from ci_score.profilers import reference
from ci_score.strict_json import parse


@dataclass(frozen=True, slots=True)
class Format:
    """One row: how to know the format, and who reads it."""

    name: str
    description: str
    recognises: Callable[[Any], bool]
    read: Callable[[Any, str], Profile]


FORMATS: tuple[Format, ...] = (
    Format(
        name="reference",
        description="the reference's profile: JSON with steps, avg_step_ms, phases, per_layer",
        recognises=reference.recognises,
        read=reference.read,
    ),
)


def read_profile(data: bytes, source: str) -> Profile:
    """The profile in `data`, by the first reader that knows its content."""
    value = parse(data, source)
    for candidate in FORMATS:
        if candidate.recognises(value):
            return candidate.read(value, source)
    raise BadInputError(
        source,
        found=_description(value),
        expected="a profile: " + "; or ".join(row.description for row in FORMATS),
    )


def _description(value: Any) -> str:
    if isinstance(value, dict):
        if "schema_version" in value or "grade" in value:
            return "a record or scorecard, which `ci-score compare` reads"
        keys = ", ".join(sorted(ascii(key)[:40] for key in list(value)[:5]))
        return f"an object with the keys {keys}" if keys else "an empty object"
    names = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
