"""A step divided into parts, and how the parts of two steps differ."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ci_score.model.code_changes import CodeChanges
from ci_score.model.profile import OpOrigin, OpWork
from ci_score.model.reasons import Reason, Why
from ci_score.model.sums import plain_sum
from ci_score.model.values import Count, Lax, Milliseconds, NotNegative, Value

# The parts of a step by what the device did; what no part explains is the rest.
COMPUTE, COMMUNICATION, COPIES = "compute", "exposed communication", "exposed copies"
IDLE, IDLE_OTHER = "idle", "idle, other causes"
# The readers' codes for why the device is idle -> the names of the parts.
IDLE_WORDS = {
    "data": "idle, waiting for data",
    "compilation": "idle, compiling",
    "allocation": "idle, allocating memory",
    "synchronisation": "idle, after synchronising",
    "launching": "idle, waiting for launches",
}
REST = "the rest"
# Of a step that only a host did: the time in no operator, and operators that are in no phase.
BETWEEN, BETWEEN_LOADING = "between operators", "between operators, loading data"
OUTSIDE_PHASES = "outside all phases"
# Stands for any of autograd's nodes before or after such a time.
BACKWARD = "backward"
# How much of a change a cause has to explain; and how much a step has to change at all.
LEAST_EXPLAINED, LEAST_SHARE_OF_STEP = 0.5, 0.01
# How many times the measured share of a step a profile may show, and how much beside it: a profiler
# costs a side with more operators more.
MOST_TIMES, MOST_BESIDE = 2.0, 0.05
DEVICE_PARTS = frozenset({COMPUTE, COMMUNICATION, COPIES, IDLE, IDLE_OTHER, *IDLE_WORDS.values()})


def is_far(base_ms: float, head_ms: float, share: float) -> bool:
    """Whether a single launch of each side shows a far larger change than this share."""
    return base_ms > 0 and abs(head_ms / base_ms - 1) > MOST_TIMES * abs(share) + MOST_BESIDE


class Contribution(Value):
    """A phase, op or layer whose time changed, and so a place of the slowdown."""

    kind: Literal["phase", "op", "layer"]
    name: str
    base_ms: Milliseconds
    head_ms: Milliseconds

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


class Timeline(Value):
    """A step divided into parts that do not overlap; the time that no part covers is the rest.

    The basis `device` divides it by what the device did, and by why it was idle. Where that is not
    known, the basis is the step's `phases`. The basis `host` is of a step without a device:
    its operators by phase, and the time between them.
    """

    basis: Literal["device", "host", "phases"]
    step_ms: Milliseconds
    parts: dict[str, Milliseconds]

    @property
    def rest_ms(self) -> float:
        """The time that no part covers; below zero where the work of two steps overlaps."""
        return self.step_ms - plain_sum(self.parts.values())


class OpDetail(Value):
    """What is known about an op beside its time; `order` is its place by its first run.

    `phases` is what it takes of each phase; what it takes outside of all is not told.
    """

    kind: str = ""
    # Of an operator of the host the type of its numbers.
    type: str = ""
    count: NotNegative | None = None
    order: Count | None = None
    phases: dict[str, OpWork] = {}
    origin: OpOrigin | None = None


class StepSpread(Value):
    """The steps that were timed one by one: how many, the middle one, and the slowest."""

    count: Count
    median_ms: Milliseconds
    slowest_ms: Milliseconds

    @property
    def excess_ms(self) -> float:
        """How much longer the mean step is because of the slowest one."""
        return (self.slowest_ms - self.median_ms) / self.count if self.count else 0.0


class LayersAre(Value):
    """What the layers of a scorecard are, and which share of all kernel time they cover."""

    kind: Literal["modules", "repeats"] | None = None
    share: Annotated[float, Field(ge=0, le=1)] | None = None


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
    """An op whose time changed, through its number of launches and through the time of each.

    `name` is the head's, or the base's where the op is gone. `was` is the base's name where it is
    another: of a renamed op, and of one that only a compiler's counter tells apart. `by_count_ms` +
    `by_time_ms` is the change; both are None where launches were not counted.
    """

    name: str
    kind: str = ""
    status: Literal["changed", "new", "gone", "renamed"] = "changed"
    was: str | None = None
    origin: OpOrigin | None = None
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

    @property
    def base_name(self) -> str:
        """What the base calls it. A stranger's trace may have a name without a letter."""
        return self.name if self.was is None else self.was

    @property
    def count_delta(self) -> float:
        """How many more launches it has now; an unknown number counts as none."""
        return (self.head_count or 0.0) - (self.base_count or 0.0)


class Explanation(Value):
    """Why the step time changed. The changes of the parts, with the rest, sum to the whole change.

    `categories` sum to the change of the part `compute`. `under_profiler` is set where the judged
    numbers were measured without a profiler, so that these times differ from them. `cause` is there
    only where it explains most of the change; of a step that became faster it is what it gained by,
    and `explained_ms` is below zero. `counts_cause` is the cause of more launches.
    """

    basis: Literal["device", "host", "phases"]
    under_profiler: bool = False
    base_step_ms: Milliseconds
    head_step_ms: Milliseconds
    parts: Annotated[tuple[Part, ...], Lax]
    categories: Annotated[tuple[Part, ...], Lax] = ()
    ops: Annotated[tuple[OpChange, ...], Lax] = ()
    cause: Reason | None = None
    explained_ms: float = 0.0
    counts_cause: Reason | None = None
    code: CodeChanges | None = None

    @property
    def is_vague(self) -> bool:
        """Whether the cause names a part of the step alone, which nobody can change as such."""
        return self.cause is not None and self.cause.code in (Why.PHASE_GREW, Why.TWO_PARTS)

    @property
    def delta_ms(self) -> float:
        """How much longer a step takes in the profiles."""
        return self.head_step_ms - self.base_step_ms

    def is_far_from(self, share: float) -> bool:
        """Whether the step changed by far more in the profiles than by this share, as measured.

        One launch a side is profiled: somebody disturbed it, and its times explain nothing.
        """
        return self.under_profiler and is_far(self.base_step_ms, self.head_step_ms, share)
