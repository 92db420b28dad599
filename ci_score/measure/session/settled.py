"""What the untimed launches show: the optimizer that counts steps, the warm-up, the timed window.

Stored with the session, so that an interrupted one resumes from the same facts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import ceil, inf, lcm
from typing import Any

from ci_score.files.visible import plain
from ci_score.measure.launch.warm_up import Slow
from ci_score.model.counted_step import CountedStep, optimizer_in_words
from ci_score.model.values import Side

# The untimed launch has the slowest start. A later one takes at least this share of its time.
LEAST_SHARE = 0.1
# Bounds of the timed window. Launches repeat to 1 % at best, so more than a thousand steps, even
# very noisy ones, would not tell more.
STEPS, MOST_STEPS = 20, 1000
# To hold recurring slow steps a window may grow to this many untimed launches.
MOST_LAUNCHES_LONG = 2
# Two optimizers step equally often if their backward passes per step differ by less than this.
AS_OFTEN = 0.1


@dataclass(frozen=True, slots=True)
class Settled:
    """One side's untimed launch.

    With `by_hook` the start-up hook counted the steps; otherwise the script reported its own. The
    launch took `seconds` for `steps`; those after the `warmup` took `step_ms` on average, including
    the `slow` ones. The `owner` is the optimizer that ends a step, the first of all `optimizers`
    that stepped; each has its number of steps. A step has `backward_passes` on average. The launch
    left `files` behind in its side's folder.
    """

    by_hook: bool
    seconds: float
    steps: int = 0
    warmup: int = 0
    is_settled: bool = True
    step_ms: float = 0.0
    slow: Slow = field(default_factory=Slow)
    owner: dict[str, Any] | None = None
    optimizers: tuple[dict[str, Any], ...] = ()
    backward_passes: float = 0.0
    tokens_per_step: float | None = None
    first_loss: float | None = None
    final_loss: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    world_size: int = 1
    files: tuple[str, ...] = ()

    def seconds_for(self, steps: int) -> float:
        """An estimate for a launch of this many steps."""
        if not self.by_hook:
            return self.seconds
        more = (steps - self.steps) * self.step_ms / 1000.0
        return max(self.seconds + more, LEAST_SHARE * self.seconds)

    @property
    def step(self) -> CountedStep | None:
        """What the hook counted as a step, in the form that a measured launch has."""
        if self.owner is None:
            return None
        return CountedStep(
            optimizer=plain(self.owner["class"]),
            parameters=self.owner["parameters"],
            alone=len(self.optimizers) < 2,
            backward_passes=self.backward_passes,
        )

    def passes_of(self, optimizer: Mapping[str, Any]) -> float:
        """Backward passes for each step of one of its optimizers."""
        own = int(self.optimizers[0]["steps"])
        return self.backward_passes * own / max(int(optimizer["steps"]), 1)


def warmup_of(sides: Mapping[Any, Settled]) -> int:
    """The warm-up of every later launch: the longer of both sides, and at least one step.

    Nobody can tell when the first step began.
    """
    return max([1, *(one.warmup for one in sides.values())])


def window_of(sides: Collection[Settled], warmup: int, seconds: float = inf) -> int:
    """How many steps to time in each launch: timing takes as long as reaching the first timed step.

    So a launch costs at most twice what it must. The window holds recurring slow steps in
    proportion. A pair of launches takes at most `seconds`.
    """
    start = sum(one.seconds_for(warmup) for one in sides)
    each = sum(one.step_ms for one in sides) / 1000.0
    if not each:
        return STEPS
    wanted = min(start / each, MOST_STEPS)
    longest = max(wanted, *(MOST_LAUNCHES_LONG * one.steps for one in sides))
    every = lcm(*(one.slow.every or 1 for one in sides))
    if every > longest:
        every = max(one.slow.every for one in sides)
    steps = ceil(max(STEPS, wanted, *(one.slow.least for one in sides)) / every) * every
    most = int((seconds - start) / each) if steps * each > seconds - start else steps
    return max(STEPS, most - most % every or most)


# --- the optimizer that counts --------------------------------------------------------------------

Owner = Mapping[str, Any]


def owners_of(base: Settled, head: Settled) -> dict[Side, dict[str, Any] | None]:
    """Which optimizer's steps count on each side: one that both sides have.

    Base's own owner is tried first, then base's others by size, so an optimizer that the change
    adds never becomes the step. If each side has a single optimizer, it counts. Sides with none in
    common keep their own owners, and are then judged as different work.
    """
    are_alone = len(base.optimizers) == len(head.optimizers) == 1
    for one in () if are_alone else base.optimizers:
        alike = [other for other in head.optimizers if _kind(other) == _kind(one)]
        if alike:
            wanted = base.passes_of(one)
            # A launch can end between the steps of two optimizers that step equally often.
            apart = [abs(head.passes_of(other) - wanted) > AS_OFTEN * wanted for other in alike]
            return {"base": _named(one), "head": _named(alike[apart.index(min(apart))])}
    return {"base": base.owner, "head": head.owner}


def _kind(optimizer: Owner | None) -> dict[str, Any]:
    """What identifies the same optimizer on the other side."""
    return {key: (optimizer or {}).get(key) for key in ("class", "parameters")}


def _named(optimizer: Owner) -> dict[str, Any]:
    """What identifies it in later launches of the same side."""
    return {**_kind(optimizer), "order": optimizer["order"]}


def owner_in_words(optimizer: Owner | None) -> str:
    """Its class and size: `AdamW (8,320 parameters)`."""
    if optimizer is None:
        return "its own optimizer"
    return optimizer_in_words(plain(optimizer["class"]), optimizer["parameters"])
