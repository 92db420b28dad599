"""A step taken apart, and what two of them differ by."""

from __future__ import annotations

from typing import Annotated, Literal

from ci_score.model.profile import OpWork
from ci_score.model.reasons import Reason
from ci_score.model.sums import plain_sum
from ci_score.model.values import Count, Lax, Milliseconds, NotNegative, Value


class Contribution(Value):
    """A phase, op or layer whose time changed: part of where a slowdown went."""

    kind: Literal["phase", "op", "layer"]
    name: str
    base_ms: Milliseconds
    head_ms: Milliseconds

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


class Timeline(Value):
    """A step taken apart: no moment is in two parts, and what they leave is the rest.

    `device` is what the device did, and why it did nothing; where that is not known, the step's
    `phases` stand in.
    """

    basis: Literal["device", "phases"]
    step_ms: Milliseconds
    parts: dict[str, Milliseconds]

    @property
    def rest_ms(self) -> float:
        """What no part explains; below zero where the work of two steps overlaps."""
        return self.step_ms - plain_sum(self.parts.values())


class OpDetail(Value):
    """What is known of an op beside its time: `order` counts the ops as a step first runs them."""

    kind: str = ""
    count: NotNegative | None = None
    order: Count | None = None
    phases: dict[str, OpWork] = {}


class Part(Value):
    """A part of the step, or of its compute, on both sides."""

    name: str
    base_ms: float
    head_ms: float

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


class OpChange(Value):
    """An op whose time changed: by more launches, and by the time of each.

    `name` is the head's, or the base's where the op is gone; `was` the base's of a renamed one.
    `by_count_ms` + `by_time_ms` is the change; where launches were not counted, both are None.
    """

    name: str
    kind: str = ""
    status: Literal["changed", "new", "gone", "renamed"] = "changed"
    was: str | None = None
    base_ms: Milliseconds
    head_ms: Milliseconds
    base_count: NotNegative | None = None
    head_count: NotNegative | None = None
    by_count_ms: float | None = None
    by_time_ms: float | None = None

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


class Explanation(Value):
    """Why the step time is another: its parts sum to the change, the rest included.

    `categories` sum to the change of the part `compute`. `under_profiler` where the numbers that
    are judged were measured without one, so that these times are others. A cause is there only
    where it explains most of a change that is proven; `counts_cause` is that of the launches.
    """

    basis: Literal["device", "phases"]
    under_profiler: bool = False
    base_step_ms: Milliseconds
    head_step_ms: Milliseconds
    parts: Annotated[tuple[Part, ...], Lax]
    categories: Annotated[tuple[Part, ...], Lax] = ()
    ops: Annotated[tuple[OpChange, ...], Lax] = ()
    cause: Reason | None = None
    explained_ms: float = 0.0
    counts_cause: Reason | None = None

    @property
    def delta_ms(self) -> float:
        """How much longer a step takes in the profiles."""
        return self.head_step_ms - self.base_step_ms
