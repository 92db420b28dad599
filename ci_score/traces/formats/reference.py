"""The reference model's own profile: one JSON object, taken as it is; and our normalised one."""

from __future__ import annotations

import re
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.strict_json import dump, parse, validate
from ci_score.model.profile import Profile
from ci_score.traces.formats.log_text import outer_keys
from ci_score.traces.source import ProfileSource

MARKER = "ci-score"
SCHEMA = 1
_FIELDS = frozenset({"steps", "avg_step_ms", "wall_coverage", "phases", "per_layer", "bottleneck"})
# Of those, what nobody else's JSON has by chance: a history of a training has `steps`, too.
_TELLING = frozenset({"avg_step_ms", "wall_coverage", "phases", "per_layer"})
# What the reference does not know and a user may add by hand.
_ADDED = frozenset({"tokens_per_step", "accelerator", "accelerator_count", "peak_bandwidth_gb_s"})
_KNOWN = frozenset(Profile.model_fields)
_EMPTY = re.compile(rb"\s*\{\s*\}\s*")
# A scorecard has fields of the reference's, too.
_OTHERS = frozenset({"_profiler", "_schema", "grade", "schema_version", "traceEvents"})
_MARKED_OURS = re.compile(rb'"_profiler"\s*:\s*"%b"' % MARKER.encode())


def recognises(head: bytes) -> bool:
    """An object whose own keys are a profile's: one that tells, or none that is anything else's.

    Every field may be missing, so `{}` and `{"steps": 1}` are profiles, of nothing.
    """
    text = head.lstrip(b"\xef\xbb\xbf").lstrip()
    keys = outer_keys(text)
    if not text.startswith(b"{") or keys & _OTHERS:
        return False
    if keys & _TELLING:
        return True
    return bool((keys & _FIELDS and keys <= _KNOWN) or _EMPTY.fullmatch(text))


def read(source: ProfileSource) -> Profile:
    """The profile, strictly; a field that is wrong is named by its path.

    Fields that only our normalised profile has are ignored, as the reference ignores them.
    """
    value = _object(source)
    profile = validate(
        Profile, {key: value[key] for key in value if key in _FIELDS | _ADDED}, source.name
    )
    return profile if profile.measured_something else _empty(profile)


def _empty(profile: Profile) -> Profile:
    """The reference takes it and grades nothing; as a measurement it is none."""
    return profile.model_copy(
        update={
            "unusable": "it measured nothing: avg_step_ms, phases and per_layer are 0 or missing"
        }
    )


def recognises_normalised(head: bytes) -> bool:
    """What `ci-score convert --json` prints."""
    return bool(_MARKED_OURS.search(head))


def read_normalised(source: ProfileSource) -> Profile:
    """Every field, as it was converted next to the accelerator."""
    value = _object(source)
    if value.get("_schema") != SCHEMA or isinstance(value.get("_schema"), bool):
        raise BadInputError(
            source.name,
            field="_schema",
            found=ascii(value.get("_schema"))[:40],
            expected=f"{SCHEMA} (a profile that this ci-score has converted)",
        )
    return validate(Profile, value, source.name)


def normalised(profile: Profile) -> str:
    """The profile as JSON that is read back equal."""
    return dump({"_profiler": MARKER, "_schema": SCHEMA, **profile.model_dump(mode="json")})


def _object(source: ProfileSource) -> dict[str, Any]:
    value = parse(source.whole(), source.name)
    if not isinstance(value, dict):
        raise BadInputError(source.name, found="no object", expected="a profile")
    return value
