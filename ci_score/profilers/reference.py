"""The reference model's own profile: one JSON object, taken as it is."""

from __future__ import annotations

from typing import Any

from ci_score.models import Profile
from ci_score.strict_json import validate

_FIELDS = frozenset({"steps", "avg_step_ms", "wall_coverage", "phases", "per_layer", "bottleneck"})


def recognises(value: Any) -> bool:
    """An object with a field of the reference's; an empty one is its profile of nothing."""
    if not isinstance(value, dict) or "grade" in value or "schema_version" in value:
        return False
    return not value or not _FIELDS.isdisjoint(value)


def read(value: Any, source: str) -> Profile:
    """The profile, strictly; a field that is wrong is named by its path."""
    return validate(Profile, value, source)
