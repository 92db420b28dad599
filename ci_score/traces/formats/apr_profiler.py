"""apr_training_profiler_v1: the runtime's profile of its WebGPU path, printed over many lines.

It counts `steps_profiled` and `wall_time_ms` of all of them, and has no step time: that is their
ratio. Its 13 phases have names of their own; the two that move data between host and device get a
suffix, because phases are known as transfers by `h2d` or `d2h` in their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from ci_score.files.strict_json import overflow_is_bad_input, validate
from ci_score.model.profile import Profile
from ci_score.model.sums import plain_sum
from ci_score.model.values import Count, Milliseconds, NotNegative, Value
from ci_score.traces.formats.log_text import Excerpt, outer_keys, profiler_start, read_object
from ci_score.traces.formats.step_profiler import (
    OTHERS_KEYS,
    RunPhase,
    consistency_notes,
    no_steps,
    phases_per_step,
    unwrapped,
    without_tokens,
)
from ci_score.traces.source import ProfileSource

NAME = "apr_training_profiler_v1"
START = profiler_start(NAME)
# buf_write copies the batch to the device; sync waits for the device and reads the loss back.
TRANSFERS = {"buf_write": "buf_write_h2d", "sync": "sync_d2h"}
LEAST_SHARE_OF_RUN = 0.90

_RUN_SECONDS = re.compile(rb"Training complete in (\d{1,9}(?:\.\d{1,6})?)s")
_PRINTED_ROUNDING_MS = 0.1


class _AprProfile(Value):
    """What the profiler prints."""

    tool: Annotated[str, Field(alias="_profiler")] = NAME
    steps_profiled: Count = 0
    wall_time_ms: Milliseconds = 0.0
    phases: Mapping[str, RunPhase] = {}
    wall_coverage: NotNegative = 0.0
    bottleneck: str | None = None
    gpu_compute_ms: Milliseconds | None = None


def recognises(head: bytes) -> bool:
    """A profile that names itself, alone, wrapped or amid log lines."""
    if b"apr_training_profiler_v1" not in head:
        return False
    keys = outer_keys(head)
    if keys & OTHERS_KEYS:
        return False
    return START.search(head) is not None or "_profiler" in keys


def read(source: ProfileSource) -> Profile:
    """The profile, per step; of a log the last one."""
    return without_tokens(profile_of(read_object(source, START)))


def profile_of(excerpt: Excerpt) -> Profile:
    """The profile that an object holds, compared with what the log above it says of the run."""
    value, place = unwrapped(excerpt.value, excerpt.place)
    written = validate(_AprProfile, value, place)
    if written.steps_profiled == 0:
        return Profile(tool=written.tool, notes=excerpt.notes, **no_steps("steps_profiled"))
    with overflow_is_bad_input(place):
        profile = _per_step(written, excerpt.notes)
        run_ms = _run_ms(excerpt.before)
        return profile if run_ms is None else compared_with_run(profile, run_ms)


def compared_with_run(profile: Profile, run_ms: float) -> Profile:
    """The profile, with a note where it timed only a part of a run that took so long."""
    profiled_ms = profile.capture.get("wall_time_ms", 0.0)
    if run_ms <= 0 or profiled_ms <= 0 or "run_wall_ms" in profile.capture:
        return profile
    share = profiled_ms / run_ms
    notes = profile.notes
    if share < LEAST_SHARE_OF_RUN:
        note = (
            f"The profiler timed {profiled_ms / 1000:.1f} s of a run of {run_ms / 1000:.1f} s"
            f" ({share:.1%}): its wall coverage of {profile.wall_coverage:.3f} is of that part, and"
            " so is the step time."
        )
        notes = (*notes, note)
    return profile.model_copy(
        update={"notes": notes, "capture": {**profile.capture, "run_wall_ms": run_ms}}
    )


def _per_step(written: _AprProfile, notes: tuple[str, ...]) -> Profile:
    steps, wall_ms = written.steps_profiled, written.wall_time_ms
    step_ms = wall_ms / steps
    phases = {_phase_name(name, written.phases): run for name, run in written.phases.items()}
    capture = {"wall_time_ms": wall_ms}
    if written.gpu_compute_ms is not None:
        capture["gpu_compute_ms"] = written.gpu_compute_ms
    return Profile(
        steps=steps,
        avg_step_ms=step_ms,
        wall_coverage=written.wall_coverage,
        phases=phases_per_step(phases, steps, step_ms),
        bottleneck=written.bottleneck,
        tool=written.tool,
        sources=_sources(written),
        notes=(
            *notes,
            *consistency_notes(phases, steps, step_ms, written.wall_coverage),
            *_notes(written),
        ),
        capture=capture,
    )


def _phase_name(name: str, phases: Mapping[str, RunPhase]) -> str:
    renamed = TRANSFERS.get(name, name)
    return name if renamed in phases else renamed


def _sources(written: _AprProfile) -> dict[str, str]:
    steps = written.steps_profiled
    sources = {}
    if written.wall_time_ms > 0:
        sources["avg_step_ms"] = f"wall_time_ms ÷ steps_profiled ({steps})"
    if written.phases:
        renamed = ", ".join(
            f"{name} is named {_phase_name(name, written.phases)}"
            for name in TRANSFERS
            if name in written.phases
        )
        sources["phases"] = f"total_ms, a sum over {steps} steps, ÷ steps" + (
            f"; {renamed}: they copy between host and device" if renamed else ""
        )
    return sources


def _notes(written: _AprProfile) -> Iterator[str]:
    yield "The profile has no layers, ops or kernels."
    if written.wall_time_ms == 0:
        yield "The profile has no wall_time_ms: the step time is not known."
    elif _wall_is_sum_of_phases(written):
        yield (
            f"The wall time is the sum of the phases, so that a coverage of"
            f" {written.wall_coverage:.3f} follows from it and is no evidence: what happened"
            " outside the phases was not timed."
        )


def _wall_is_sum_of_phases(written: _AprProfile) -> bool:
    total = plain_sum(phase.total_ms for phase in written.phases.values())
    rounding = _PRINTED_ROUNDING_MS * max(1, len(written.phases))
    return written.wall_coverage >= 1.0 and abs(total - written.wall_time_ms) <= rounding


def _run_ms(log: bytes) -> float | None:
    said = _RUN_SECONDS.findall(log)
    return float(said[-1]) * 1000.0 if said else None
