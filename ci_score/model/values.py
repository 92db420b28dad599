"""The base of all values, which are frozen, strict and finite.

Strict means that `"3"`, `1.5` for a count, `true` and `null` are refused. A missing field takes its
default, and an unknown field is ignored.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

STRICT = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)

Count = Annotated[int, Field(ge=0, lt=2**64)]
Milliseconds = Annotated[float, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0)]
DeviceCount = Annotated[int, Field(ge=1, le=10**6)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
# It is sorted as text and part of a file's name, so it may have only this one form.
Timestamp = Annotated[str, StringConstraints(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$")]
Side = Literal["head", "base"]
CaseName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9@._+-]{1,64}$")]

# JSON has lists and texts where Python code has tuples and enums. A lax field takes either; the
# values inside it stay strict.
Lax = Strict(False)


def _without_dots(address: str) -> str:
    """Browsers take `..` and `%2e%2e` for the folder above, which may be another repository's."""
    parts = address.lower().replace("%2e", ".").split("/")
    if {".", ".."}.intersection(parts):
        raise ValueError("an address without . and ..")
    return address


# It is shown as a link, so it may have no character that means something in markdown or HTML.
PageAddress = Annotated[
    str,
    StringConstraints(
        max_length=500,
        pattern=r"^(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1))(:[0-9]{1,5})?"
        r"(/[A-Za-z0-9._~%-]+)+$",
    ),
    AfterValidator(_without_dots),
]

ShortText = Annotated[str, StringConstraints(max_length=200)]


@cache
def _page_addresses() -> TypeAdapter[str]:
    return TypeAdapter(PageAddress)


def page_address(text: str) -> str | None:
    """The address, if it is one that a report may link."""
    try:
        return _page_addresses().validate_python(text)
    except ValidationError:
        return None


class Value(BaseModel):
    """The base of every value."""

    model_config = STRICT

    def but(self, **fields: object) -> Self:
        """A copy with other values in some fields, which are validated as always."""
        unknown = fields.keys() - type(self).model_fields.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        rows = type(self).model_fields
        values = {**{name: getattr(self, name) for name in rows}, **fields}
        return type(self)(**{rows[name].alias or name: value for name, value in values.items()})


def four_digits(value: float) -> float:
    """A time as a record keeps it: more digits would be noise."""
    rounded = float(f"{value:.4g}")
    return rounded if math.isfinite(rounded) else value
