"""What a side's untimed launch told: how its steps are counted, and from which one on they count.

Kept with the session, so that one that was interrupted goes on by the same facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Settled:
    """Of one side.

    `by_hook` says that the start-up hook counts its steps; else the script tells its own. The
    `owner` is the optimizer whose step ends a step of the training. `step_ms` is the typical step
    once it has settled, and `seconds` is how long the launch took.
    """

    by_hook: bool
    seconds: float
    warmup: int = 0
    is_settled: bool = True
    step_ms: float = 0.0
    owner: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)


def warmup_of(sides: Iterable[Settled]) -> int:
    """The warm-up of every later launch: the larger of both sides, and one step at least.

    The first step has no beginning that anybody could have noticed.
    """
    return max([1, *(one.warmup for one in sides)])
