"""step_profiler_v1 and v2: the reference runtime's own profile, one line of JSON on stderr.

Its times are sums over all steps, but for `avg_step_ms` and the `avg_ms` of a phase. v2 adds `ops`
of the whole network, which no layer has, and `gemm_pct`. Older versions wrote the phases beside the
other keys instead of into `phases`, and scripts wrap the object as `{"profiler": …}`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from ci_score.files.strict_json import overflow_is_bad_input, validate
from ci_score.model.profile import Layer, Phase, Profile
from ci_score.model.sums import plain_sum
from ci_score.model.values import Count, Lax, Milliseconds, NotNegative, Value
from ci_score.traces.formats.log_text import Excerpt, outer_keys, profiler_start, read_object
from ci_score.traces.source import ProfileSource

START = profiler_start("step_profiler_v1", "step_profiler_v2")
# Files with these keys are of other readers, even where a profile of ours stands in them.
OTHERS_KEYS = frozenset({"canary", "metrics", "traceEvents", "grade", "schema_version"})

_FEWEST_LEGACY_PHASES = 2
# The printed numbers are rounded to 0.1 ms, and means to 0.01 or 0.1 ms.
_ROUNDING_MS = 0.06
_COVERAGE_TOLERANCE = 0.02


class RunPhase(Value):
    """A phase as these profilers write it: `total_ms` is the sum over the steps of the run."""

    total_ms: Milliseconds
    pct: NotNegative | None = None
    avg_ms: Milliseconds | None = None


class _LegacyPhases(Value):
    """The phases of the shape that had them as keys of the profile."""

    embed: RunPhase | None = None
    h2d: RunPhase | None = None
    forward: RunPhase | None = None
    norm_lm: RunPhase | None = None
    loss: RunPhase | None = None
    grad_h2d: RunPhase | None = None
    lm_bwd: RunPhase | None = None
    norm_bwd: RunPhase | None = None
    blk_bwd: RunPhase | None = None
    embed_bwd: RunPhase | None = None
    opt: RunPhase | None = None


class _StepProfile(Value):
    """What the profiler prints."""

    tool: Annotated[str, Field(alias="_profiler")] = "step_profiler"
    steps: Count = 0
    avg_step_ms: Milliseconds = 0.0
    wall_coverage: NotNegative = 0.0
    bottleneck: str | None = None
    gemm_pct: NotNegative | None = None
    phases: Mapping[str, RunPhase] = {}
    per_layer: Annotated[tuple[Layer, ...], Lax] = ()
    ops: Mapping[str, Milliseconds] = {}


def recognises(head: bytes) -> bool:
    """A profile that names itself, also amid log lines; the legacy shape; or the wrapper of one."""
    keys = outer_keys(head)
    if keys & OTHERS_KEYS:
        return False
    if START.search(head):
        return True
    named = b'"step_profiler_v' in head
    if "_profiler" in keys:
        return named
    if keys == {"profiler"}:
        return named or b'"_profiler"' not in head
    return _is_legacy(keys)


def read(source: ProfileSource) -> Profile:
    """The profile, per step; of a log the last one."""
    return without_tokens(profile_of(read_object(source, START)))


def without_tokens(profile: Profile, notes: tuple[str, ...] = ()) -> Profile:
    """The profile with the note that nothing tells its throughput, after other notes."""
    note = (
        "The profile says nothing about tokens or memory: neither the throughput nor the peak"
        " memory is known from it."
    )
    return profile.model_copy(update={"notes": (*notes, *profile.notes, note)})


def profile_of(excerpt: Excerpt) -> Profile:
    """The profile that an object holds, which may be wrapped."""
    value, place = unwrapped(excerpt.value, excerpt.place)
    if isinstance(value, dict) and "_profiler" not in value and not _is_legacy(value):
        return _as_it_is(value, place, excerpt.notes)
    written = validate(_StepProfile, value, place)
    phases = written.phases
    if isinstance(value, dict) and "phases" not in value:
        legacy = validate(_LegacyPhases, value, place)
        phases = {name: phase for name, phase in legacy if phase is not None}
    if written.steps == 0:
        return Profile(tool=written.tool, notes=excerpt.notes, **no_steps("steps"))
    with overflow_is_bad_input(place):
        return _per_step(written, phases, excerpt.notes)


def unwrapped(value: Any, place: str) -> tuple[Any, str]:
    """What `{"profiler": …}` holds, or the value itself; with its place."""
    if isinstance(value, dict) and "profiler" in value and "_profiler" not in value:
        return value["profiler"], f"{place}: profiler"
    return value, place


def no_steps(field: str) -> dict[str, Any]:
    """Why a profile of no step is unusable, and what would settle that."""
    why = f"{field} is 0 or missing: no step was measured, and sums over a run need their steps"
    return {"unusable": why, "remedy": "steps"}


def phases_per_step(
    phases: Mapping[str, RunPhase], steps: int, avg_step_ms: float
) -> dict[str, Phase]:
    """The phases of a run as those of its mean step. Shares are as written, where they are."""
    return {name: _phase_per_step(phase, steps, avg_step_ms) for name, phase in phases.items()}


def consistency_notes(
    phases: Mapping[str, RunPhase], steps: int, avg_step_ms: float, wall_coverage: float
) -> Iterator[str]:
    """Where a profile contradicts itself."""
    for name, phase in phases.items():
        mean = phase.total_ms / steps
        if phase.avg_ms is not None and abs(mean - phase.avg_ms) > _ROUNDING_MS + 0.01 * mean:
            yield (
                f"The phase {name!r} has a total of {phase.total_ms:g} ms and a mean of"
                f" {phase.avg_ms:g} ms in {steps} steps, which do not agree: totals are taken as"
                " sums over all steps."
            )
            break
    if avg_step_ms > 0 and wall_coverage > 0 and phases:
        covered = plain_sum(phase.total_ms for phase in phases.values()) / steps / avg_step_ms
        if abs(covered - wall_coverage) > _COVERAGE_TOLERANCE:
            yield (
                f"The profile claims a wall coverage of {wall_coverage:.3f}; its phases add up to"
                f" {covered:.3f} of its step."
            )


def _is_legacy(keys: Collection[str]) -> bool:
    phases = _LegacyPhases.model_fields.keys() & set(keys)
    return "phases" not in keys and len(phases) >= _FEWEST_LEGACY_PHASES


def _as_it_is(value: Any, place: str, notes: tuple[str, ...]) -> Profile:
    """A wrapped profile without a marker is the bare reference format, whose times are per step."""
    profile = validate(Profile, value, place)
    note = "The profile does not say which profiler wrote it: its times are taken as per step."
    return profile.model_copy(update={"notes": (*profile.notes, *notes, note)})


def _per_step(
    written: _StepProfile, phases: Mapping[str, RunPhase], notes: tuple[str, ...]
) -> Profile:
    steps, step_ms = written.steps, written.avg_step_ms
    return Profile(
        steps=steps,
        avg_step_ms=step_ms,
        wall_coverage=written.wall_coverage,
        phases=phases_per_step(phases, steps, step_ms),
        per_layer=tuple(_layer_per_step(layer, steps) for layer in written.per_layer),
        bottleneck=written.bottleneck,
        ops={name: ms / steps for name, ms in written.ops.items()},
        tool=written.tool,
        sources=_sources(written, phases),
        notes=(
            *notes,
            *consistency_notes(phases, steps, step_ms, written.wall_coverage),
            *_notes(written),
        ),
        capture={} if written.gemm_pct is None else {"gemm_pct": written.gemm_pct},
    )


def _phase_per_step(phase: RunPhase, steps: int, avg_step_ms: float) -> Phase:
    mean = phase.total_ms / steps
    pct = phase.pct
    if pct is None:
        pct = mean / avg_step_ms * 100.0 if avg_step_ms > 0 else 0.0
    return Phase(total_ms=mean, pct=pct, avg_ms=mean)


def _layer_per_step(layer: Layer, steps: int) -> Layer:
    return Layer(
        layer=layer.layer,
        fwd_ms=layer.fwd_ms / steps,
        bwd_ms=layer.bwd_ms / steps,
        ops={name: ms / steps for name, ms in layer.ops.items()},
    )


def _sources(written: _StepProfile, phases: Mapping[str, RunPhase]) -> dict[str, str]:
    sources = {}
    if written.avg_step_ms > 0:
        sources["avg_step_ms"] = f"avg_step_ms: the profiler's mean of {written.steps} steps"
    if phases:
        sources["phases"] = f"total_ms, a sum over {written.steps} steps, ÷ steps"
    if written.per_layer:
        sources["per_layer"] = f"fwd_ms and bwd_ms, sums over {written.steps} steps, ÷ steps"
    if written.ops:
        sources["ops"] = f"ops, sums over {written.steps} steps and all layers, ÷ steps"
    return sources


def _notes(written: _StepProfile) -> Iterator[str]:
    if not written.per_layer:
        yield "The profile has no layers."
    if written.avg_step_ms == 0:
        yield "The profile has no avg_step_ms: the step time is not known."
