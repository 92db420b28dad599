"""What the rules for causes look at, and what they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ci_score.compare.explanation import NOT_COMPUTE, op_changes
from ci_score.model.explanation import (
    COMPUTE,
    IDLE,
    LEAST_EXPLAINED,
    REST,
    Contribution,
    Explanation,
    OpChange,
    Part,
)
from ci_score.model.reasons import Reason
from ci_score.model.record import Measured
from ci_score.model.sums import plain_sum


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause, and how many milliseconds or launches of the change it explains."""

    reason: Reason
    amount: float


@dataclass(frozen=True)
class Scene:
    """Two sides of which head is the slower one, and how their steps differ.

    For a step that became faster the two are exchanged.
    """

    head: Measured
    base: Measured
    explanation: Explanation
    places: Sequence[Contribution]

    @property
    def need(self) -> float:
        """The least that a cause must explain, in milliseconds."""
        return LEAST_EXPLAINED * self.explanation.delta_ms

    @cached_property
    def ops(self) -> list[OpChange]:
        """Every op that can be compared."""
        return op_changes(self.head, self.base)

    @cached_property
    def compute_ops(self) -> list[OpChange]:
        """Those that are neither communication nor copies."""
        return [change for change in self.ops if change.kind not in NOT_COMPUTE]

    @property
    def seen_ops(self) -> list[OpChange]:
        """Those that can make a step longer by themselves.

        Beside compute, communication and copies are hidden, or are parts of the step themselves.
        Where the parts are not known, copies may be in the way, and communication may not.
        """
        if self.explanation.basis == "device":
            return self.compute_ops
        return [change for change in self.ops if change.kind != "comm"]

    @cached_property
    def grown_ms(self) -> float:
        """By how much all kernels that grew did so together, also those that were left out."""
        kernels = (change for change in self.ops if change.kind not in ("memcpy", "memset"))
        known = plain_sum(max(change.delta_ms, 0.0) for change in kernels)
        return max(known, self.part(COMPUTE).delta_ms)

    @cached_property
    def grown_parts(self) -> list[Part]:
        """The parts of the step that grew, the one that grew most first; not the rest."""
        parts = self.explanation.parts
        grown = [part for part in parts if part.name != REST and part.delta_ms > 0]
        return sorted(grown, key=lambda part: -part.delta_ms)

    @property
    def idle_ms(self) -> float:
        """By how much the idle time grew, over all its causes."""
        parts = self.explanation.parts
        return plain_sum(part.delta_ms for part in parts if part.name.startswith(IDLE))

    def part(self, name: str) -> Part:
        """A part of the step by its name, with times of 0 if neither side has it."""
        nothing = Part(name=name, base_ms=0.0, head_ms=0.0)
        return next((part for part in self.explanation.parts if part.name == name), nothing)
