"""The scorecard and the parity of the reference model, with fields that we add."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, computed_field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from ci_score.model.reasons import Note
from ci_score.model.values import Count, DeviceCount, Lax, Milliseconds, NotNegative, Value


@pydantic_dataclass(frozen=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class Hardware:
    """The roofline: what the memory can deliver, and what a token needs of it.

    A value that is not known is None. Then there is no efficiency, and the scorecard is not graded.
    """

    peak_bw_gb_s: float | None = None
    bytes_per_token: float | None = None


# The code of the note that says why there is no grade.
NOT_GRADED = "not_graded"

Grade = Literal["A", "B", "C", "D", "F"]
Bottleneck = Literal["transfer", "launch", "compute", "memory_bw"]


class Severity(StrEnum):
    """How severe a regression is, by the reference's limits."""

    WARNING = "warning"
    CRITICAL = "critical"


class LayerSummary(Value):
    """One layer in the scorecard."""

    layer: Count
    fwd_ms: Milliseconds
    bwd_ms: Milliseconds
    ratio: NotNegative
    top_op: str
    top_op_pct: NotNegative


class Regression(Value):
    """A metric beyond the reference's limit; the delta is relative if the metric is."""

    metric: str
    delta: float
    severity: Annotated[Severity, Lax]


class Scorecard(Value):
    """The reference's judgement of a profile. The second block of fields is ours."""

    grade: Grade
    efficiency: Annotated[float, Field(ge=0, le=1)]
    bottleneck: Bottleneck
    throughput_tok_s: NotNegative
    step_time_ms: Milliseconds
    forward_backward_ratio: NotNegative
    wall_coverage: NotNegative
    per_layer_summary: Annotated[tuple[LayerSummary, ...], Lax] = ()
    hotspot_ops: Annotated[
        tuple[Annotated[tuple[str, Milliseconds, NotNegative], Lax], ...], Lax
    ] = ()
    regressions: Annotated[tuple[Regression, ...], Lax] = ()
    recommendations: Annotated[tuple[str, ...], Lax] = ()

    noted: Annotated[tuple[Note, ...], Lax] = ()
    ungraded_reason: str | None = None
    bottleneck_known: bool = True
    job_throughput_tok_s: NotNegative | None = None
    accelerator: str | None = None
    accelerator_count: DeviceCount | None = None
    mfu: NotNegative | None = None
    mfu_basis: str | None = None
    hfu: NotNegative | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def notes(self) -> tuple[str, ...]:
        """Where the numbers do not mean what they seem to, in words."""
        return tuple(note.words for note in self.noted)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def graded(self) -> bool:
        """Whether grade, efficiency, bottleneck and recommendations mean anything."""
        return self.ungraded_reason is None

    @property
    def lacks_its_grade(self) -> bool:
        """Whether it could have had a grade, as no step on a CPU could."""
        return not self.graded and any(note.code == NOT_GRADED for note in self.noted)


class ParityProfile(Value):
    """One runtime's side of a parity: per-step numbers and the time of each op."""

    runtime: str
    throughput_tok_s: NotNegative = 0.0
    step_time_ms: Milliseconds = 0.0
    kernel_launches_per_step: Count = 0
    ops: dict[str, Milliseconds]


class ParityGap(Value):
    """An op that both runtimes have."""

    op: str
    apr_ms: Milliseconds
    baseline_ms: Milliseconds
    ratio: NotNegative


class Parity(Value):
    """The reference's comparison of two runtimes. The second block of fields is ours."""

    apr_runtime: str
    baseline_runtime: str
    throughput_ratio: NotNegative
    launch_ratio: NotNegative
    top_gaps: Annotated[tuple[ParityGap, ...], Lax] = ()
    parity_achieved: bool

    notes: Annotated[tuple[str, ...], Lax] = ()
    compared_ops: Count = 0
    apr_share_compared: NotNegative | None = None
    baseline_share_compared: NotNegative | None = None
    step_time_ratio: NotNegative = 0.0
    throughput_inferred: bool = False
    unjudged_reason: str | None = None

    @property
    def judged(self) -> bool:
        """Whether enough was compared; the reference itself counts an empty parity as achieved."""
        return self.compared_ops > 0 and self.unjudged_reason is None
