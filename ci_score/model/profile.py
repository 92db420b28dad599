"""What a profiler measured of a training step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from ci_score.model.step_code import StepCode
from ci_score.model.values import Count, DeviceCount, Lax, Milliseconds, NotNegative, Value

# Every kind of work that an op is known to do, in the order in which reports show them.
CATEGORIES = (
    "gemm",
    "attention",
    "conv",
    "norm",
    "elementwise",
    "softmax_loss",
    "embedding",
    "reduce",
    "optimizer",
    "copy",
    "other",
    "comm",
    "memcpy",
    "memset",
)


class Phase(Value):
    """A named part of the step."""

    total_ms: Milliseconds
    pct: NotNegative
    avg_ms: Milliseconds


class Layer(Value):
    """One layer of the network, with the time of its ops."""

    layer: Count
    fwd_ms: Milliseconds
    bwd_ms: Milliseconds
    ops: dict[str, Milliseconds] = {}


def op_totals(layers: Iterable[Layer]) -> dict[str, float]:
    """Milliseconds of each op over all layers."""
    totals: dict[str, float] = {}
    for layer in layers:
        for op, ms in layer.ops.items():
            totals[op] = totals.get(op, 0.0) + ms
    return totals


class OpWork(Value):
    """How often an op runs in a step, if that was counted, and how long all its runs take."""

    count: NotNegative | None = None
    ms: Milliseconds


class OpPlace(Value):
    """What one op takes of a step within one phase and one layer; None is outside of all of them.

    The direction is that of a layer: its backward includes what is computed again for it.
    """

    op: str
    phase: str | None = None
    layer: Count | None = None
    direction: Literal["forward", "backward"] | None = None
    count: NotNegative | None = None
    ms: Milliseconds


class OpOrigin(Value):
    """Where all launches of a kernel come from: the operator and the class of module, if one."""

    op: str | None = None
    module: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What is known of it, the outermost first."""
        return tuple(name for name in (self.module, self.op) if name)


class OpCalls(Value):
    """An operator of the host as the program calls it, with all that it leads to.

    `operators` counts it with those that it calls, and with those of its backward pass.
    `backward_calls` counts the calls that have a backward pass, and `backward_ms` is its time.
    """

    calls: NotNegative
    operators: NotNegative
    ms: Milliseconds
    backward_calls: NotNegative | None = None
    backward_ms: Milliseconds | None = None


class HostGap(Value):
    """Time in which the host ran no operator, by those before and after it."""

    after: str | None = None
    before: str | None = None
    ms: Milliseconds


# What would settle why a profile cannot be used, where its own words do not say it.
Remedy = Literal["run", "own file", "as written", "fewer steps", "whole file", "device", "steps"]
MOST_RANKS = 256
TimedBy = Literal["a profiler", "the trainer's log", "the runtime itself"]


class RankWork(Value):
    """One rank's part in a step. In synchronous training most of its other time is waiting."""

    rank: Count
    step_ms: Milliseconds
    own_ms: Milliseconds | None = None
    # The device did anything at all.
    busy_ms: Milliseconds | None = None
    # Kernels without communication: a rank that waits has no more of them.
    compute_ms: Milliseconds | None = None
    exposed_communication_ms: Milliseconds | None = None
    peak_memory_gb: NotNegative | None = None


MOST_RUNS = 1000


class RunTime(Value):
    """What a trainer's log tells of one run: its mean step, and its other numbers."""

    steps: Count
    step_ms: Milliseconds
    throughput_tok_s: NotNegative | None = None
    peak_memory_gb: NotNegative | None = None


class Profile(Value):
    """What a profiler measured of a training step.

    The first block is the reference's. All times are of one step and count attributed events only;
    `capture` has the sums over everything that was captured. None, an empty value or 0 means not
    measured. `sources` says where each derived number comes from, and `unusable` why a measurement
    cannot be used, with the `remedy`.
    """

    steps: Count = 0
    avg_step_ms: Milliseconds = 0.0
    wall_coverage: NotNegative = 0.0
    phases: dict[str, Phase] = {}
    per_layer: Annotated[tuple[Layer, ...], Lax] = ()
    bottleneck: str | None = None

    tokens_per_step: NotNegative | None = None
    # Whether they were inferred from what was traced: such tokens are shown, and never gate.
    tokens_inferred: bool = False
    accelerator: str | None = None
    accelerator_count: DeviceCount | None = None
    # As the device reports it; this decides between cards of several sizes with one name.
    accelerator_memory_gb: NotNegative | None = None
    peak_bandwidth_gb_s: NotNegative | None = None

    step_times_ms: Annotated[tuple[Milliseconds, ...], Lax] = ()
    kernel_launches_per_step: NotNegative | None = None
    device_kernels_per_step: NotNegative | None = None
    device_busy_ms: Milliseconds | None = None
    device_idle_share: Annotated[float, Field(ge=0, le=1)] | None = None
    compute_ms: Milliseconds | None = None
    communication_ms: Milliseconds | None = None
    exposed_communication_ms: Milliseconds | None = None
    ops: dict[str, Milliseconds] = {}
    op_categories: dict[str, Milliseconds] = {}
    # In the order in which a step first runs them: a renamed op is recognised by its neighbours.
    op_counts: dict[str, NotNegative] = {}
    op_kinds: dict[str, str] = {}
    # The largest 1,024 ops by phase and layer, with launches and time: the largest place first.
    op_places: Annotated[tuple[OpPlace, ...], Lax] = ()
    op_origins: dict[str, OpOrigin] = {}
    # Of a step that only a host did: its parts, the types of numbers that operators compute with,
    # the operators that the program calls itself, and the long gaps between any two.
    host_parts: dict[str, Milliseconds] = {}
    op_types: dict[str, str] = {}
    op_calls: dict[str, OpCalls] = {}
    host_gaps: Annotated[tuple[HostGap, ...], Lax] = ()
    host_ops_per_step: NotNegative | None = None
    # Compute of each tenth of a step's kernels, in the order of their launch: ten values, or none.
    compute_tenths_ms: Annotated[tuple[Milliseconds, ...], Lax] = ()
    # Why the device was idle, as far as the host's part of a trace shows it: cause -> ms per step.
    idle_causes: dict[str, Milliseconds] = {}
    # Idle time by the name of the host's range or operator that fills a gap; few gaps have one.
    # Without a device the time in no operator.
    idle_ranges: dict[str, Milliseconds] = {}
    # What `per_layer` lists: modules of a class, or a sequence of kernels that repeats; and its
    # share of all kernel time.
    layers_are: Literal["modules", "repeats"] | None = None
    layer_class: str | None = None
    layers_share: Annotated[float, Field(ge=0, le=1)] | None = None
    # The step time under the profiler, where a measurement without one has replaced it; 0 where the
    # profile had none.
    profiled_step_ms: Milliseconds | None = None
    throughput_tok_s: NotNegative | None = None
    world_size: DeviceCount | None = None
    rank: Count | None = None
    peak_memory_gb: NotNegative | None = None
    tool: str | None = None
    # What took the times; None where the format does not tell, which is taken for a profiler.
    timed_by: TimedBy | None = None
    sources: dict[str, str] = {}
    notes: Annotated[tuple[str, ...], Lax] = ()
    capture: dict[str, float] = {}
    # What the program's own lines and functions take of a step.
    code: StepCode | None = None
    # Bytes in use at the peak by the operator that allocated them.
    peak_ops: dict[str, Count] = {}
    ranks: Annotated[tuple[RankWork, ...], Lax, Field(max_length=MOST_RANKS)] = ()
    # Of several logs: each is a run of its own, which is judged like a launch.
    runs: Annotated[tuple[RunTime, ...], Lax, Field(max_length=MOST_RUNS)] = ()
    unusable: str | None = None
    remedy: Remedy | None = None

    @property
    def own_step_ms(self) -> float:
        """The step that the phases and ops are parts of; 0 where the profile does not tell it."""
        return self.avg_step_ms if self.profiled_step_ms is None else self.profiled_step_ms

    @property
    def measured_something(self) -> bool:
        """Whether the profile has a time above 0, so that a verdict is possible."""
        times = (
            self.avg_step_ms,
            self.throughput_tok_s or 0.0,
            *(phase.total_ms for phase in self.phases.values()),
            *(layer.fwd_ms + layer.bwd_ms for layer in self.per_layer),
        )
        return any(time > 0 for time in times)
