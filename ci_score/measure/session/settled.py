"""What the sides' untimed launches told: the optimizer that counts, the warm-up, the timed steps.

Kept with the session, so that one that was interrupted goes on by the same facts.
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

# A launch takes at least this share of the untimed one, whose first steps are the longest.
LEAST_SHARE = 0.1
# How many steps of a launch are timed. Launches repeat to about a percent at best, and the mean of
# a thousand steps, each as noisy as it is long, is known to three.
STEPS, MOST_STEPS = 20, 1000
# Slow steps may make a window so many times as long as the untimed launch, where that is longer.
MOST_LAUNCHES_LONG = 2
# An optimizer steps as often as another one if their backward passes a step differ by this share.
AS_OFTEN = 0.1


@dataclass(frozen=True, slots=True)
class Settled:
    """Of one side.

    `by_hook` says that the start-up hook counts its steps; else the script tells its own. The
    launch took `seconds` for `steps`, of which those after its `warmup` took `step_ms` on average,
    the `slow` ones among them. The `owner` is the optimizer whose step ended a step. It comes first
    among the `optimizers` that stepped, each with the number of its steps; `backward_passes` is how
    many there were for a step. The launch left `files` in its side's folder.
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
        """How long a launch of so many steps will take; one of its own length takes as long."""
        if not self.by_hook:
            return self.seconds
        more = (steps - self.steps) * self.step_ms / 1000.0
        return max(self.seconds + more, LEAST_SHARE * self.seconds)

    @property
    def step(self) -> CountedStep | None:
        """What the hook counted as a step, as a launch's line has it."""
        if self.owner is None:
            return None
        return CountedStep(
            optimizer=plain(self.owner["class"]),
            parameters=self.owner["parameters"],
            alone=len(self.optimizers) < 2,
            backward_passes=self.backward_passes,
        )

    def passes_of(self, optimizer: Mapping[str, Any]) -> float:
        """How many backward passes there were for each step of one of its optimizers."""
        own = int(self.optimizers[0]["steps"])
        return self.backward_passes * own / max(int(optimizer["steps"]), 1)


def warmup_of(sides: Mapping[Any, Settled]) -> int:
    """The warm-up of every later launch: the larger of both sides, and one step at least.

    The first step has no beginning that anybody could have noticed.
    """
    return max([1, *(one.warmup for one in sides.values())])


def window_of(sides: Collection[Settled], warmup: int, seconds: float = inf) -> int:
    """How many steps of each launch are timed: for as long as a launch takes to get there.

    So it costs at most twice as much. Slow steps that recur are held in proportion. All of the
    launches together, one of each side, shall take no longer than so many seconds.
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
    """Whose steps shall count on each side: those of one optimizer that both of them have.

    Base's own owner comes first, then the largest of its others, so that no optimizer which a
    change adds can become the step. Where each side has one alone, that one it is. Sides that have
    none in common count their own steps, and these are not the same.
    """
    are_alone = len(base.optimizers) == len(head.optimizers) == 1
    for one in () if are_alone else base.optimizers:
        alike = [other for other in head.optimizers if _kind(other) == _kind(one)]
        if alike:
            wanted = base.passes_of(one)
            # By chance a launch ends between the steps of two that step as often.
            apart = [abs(head.passes_of(other) - wanted) > AS_OFTEN * wanted for other in alike]
            return {"base": _named(one), "head": _named(alike[apart.index(min(apart))])}
    return {"base": base.owner, "head": head.owner}


def _kind(optimizer: Owner | None) -> dict[str, Any]:
    """By what the other side's optimizer is the same one."""
    return {key: (optimizer or {}).get(key) for key in ("class", "parameters")}


def _named(optimizer: Owner) -> dict[str, Any]:
    """By what a launch of the same side knows it again."""
    return {**_kind(optimizer), "order": optimizer["order"]}


def owner_in_words(optimizer: Owner | None) -> str:
    """Its class and size: `AdamW (8,320 parameters)`."""
    if optimizer is None:
        return "its own optimizer"
    return optimizer_in_words(plain(optimizer["class"]), optimizer["parameters"])
