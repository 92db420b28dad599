"""What all values have in common: frozen, strict and finite.

Strict means: `"3"`, `1.5` for a count, `true` and `null` are refused, a missing field takes its
default, an unknown field is ignored.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints

STRICT = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

Count = Annotated[int, Field(ge=0, lt=2**64)]
Milliseconds = Annotated[float, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0)]
DeviceCount = Annotated[int, Field(ge=1, le=10**6)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
# Sorted as text and part of a file's name, so it has exactly one form.
Timestamp = Annotated[str, StringConstraints(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$")]
CaseName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9@._+-]{1,64}$")]

# JSON knows lists and texts, Python code has tuples and enums: such a field takes either, and what
# is inside it stays strict.
Lax = Strict(False)


ShortText = Annotated[str, StringConstraints(max_length=200)]


class Value(BaseModel):
    """What every value has in common."""

    model_config = STRICT

    def but(self, **fields: object) -> Self:
        """A copy with other values in some fields; they are validated like all others."""
        unknown = fields.keys() - type(self).model_fields.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        rows = type(self).model_fields
        values = {**dict(self), **fields}
        return type(self)(**{rows[name].alias or name: value for name, value in values.items()})
