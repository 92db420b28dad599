"""What a side's untimed launch told: how its steps are counted, and from which one on they count.

Kept with the session, so that one that was interrupted goes on by the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# A launch takes at least this share of the untimed one, whose first steps are the longest.
LEAST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Settled:
    """Of one side.

    `by_hook` says that the start-up hook counts its steps; else the script tells its own. The
    `owner` is the optimizer whose step ends a step of the training. The launch took `seconds` for
    `steps`, of which the last ones took `step_ms` each, and it left `files` in its side's folder.
    """

    by_hook: bool
    seconds: float
    steps: int = 0
    warmup: int = 0
    is_settled: bool = True
    step_ms: float = 0.0
    owner: dict[str, Any] | None = None
    first_loss: float | None = None
    final_loss: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    world_size: int = 1
    files: tuple[str, ...] = ()

    def seconds_for(self, steps: int) -> float:
        """How long a launch of so many steps will take; one of its own length takes as long."""
        if not self.by_hook:
            return self.seconds
        more = (steps - self.steps) * self.step_ms / 1000.0
        return max(self.seconds + more, LEAST_SHARE * self.seconds)


def warmup_of(sides: Mapping[Any, Settled]) -> int:
    """The warm-up of every later launch: the larger of both sides, and one step at least.

    The first step has no beginning that anybody could have noticed.
    """
    return max([1, *(one.warmup for one in sides.values())])
