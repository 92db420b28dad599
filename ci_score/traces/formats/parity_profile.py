"""parity-profile-v1: the ops of a runtime, per step, as the reference project compares runtimes.

Its times are means per step already. It stands under `profile` in the result of a canary run, which
has the throughput, or alone. A profiler whose GPU part failed leaves one without ops and launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input, validate
from ci_score.model.profile import Profile
from ci_score.model.values import Count, Milliseconds, NotNegative, Value
from ci_score.traces.formats import canary
from ci_score.traces.formats.log_text import outer_keys
from ci_score.traces.source import ProfileSource

SCHEMA = "parity-profile-v1"
# The project sorts kernels by their names: every matrix product is `ffn_ms`, attention's too.
CATEGORIES = {
    "attention_ms": "attention",
    "ffn_ms": "gemm",
    "norm_ms": "norm",
    "embed_ms": "embedding",
    "other_ms": "other",
}


class _Op(Value):
    mean: Milliseconds
    pct: NotNegative | None = None


class _Hardware(Value):
    kernel_launches_per_step: NotNegative = 0.0
    total_cuda_time_ms: Milliseconds = 0.0


class _ParityProfile(Value):
    """What the comparison of runtimes reads."""

    schema_name: Annotated[str, Field(alias="_schema")]
    runtime: str = ""
    steps_profiled: Count = 0
    throughput_tok_s: NotNegative | None = None
    ops: Mapping[str, _Op] = {}
    hardware: _Hardware = _Hardware()


class _Holder(Value):
    """The result of a run around it."""

    profile: _ParityProfile


def recognises(head: bytes) -> bool:
    """A profile that names its schema, alone or in the result of a run."""
    if b'"parity-profile-v1"' not in head:
        return False
    keys = outer_keys(head)
    return "traceEvents" not in keys and bool({"_schema", "profile"} & keys)


def read(source: ProfileSource) -> Profile:
    """The ops and launches of a step, with the throughput of the run where it is there."""
    value = canary.read_result(source.whole(), source.name)
    if not isinstance(value, dict) or "profile" not in value:
        return _profile_of(validate(_ParityProfile, value, source.name), source.name)
    profile = _profile_of(validate(_Holder, value, source.name).profile, source.name)
    return canary.of_run(value, source.name, profile) if "metrics" in value else profile


def _profile_of(written: _ParityProfile, name: str) -> Profile:
    if written.schema_name != SCHEMA:
        raise BadInputError(
            name, field="_schema", found=ascii(written.schema_name[:40]), expected=SCHEMA
        )
    with overflow_is_bad_input(name):
        return Profile(
            steps=written.steps_profiled,
            kernel_launches_per_step=written.hardware.kernel_launches_per_step or None,
            ops={op: times.mean for op, times in written.ops.items()},
            op_categories=_categories(written),
            throughput_tok_s=written.throughput_tok_s,
            tool=" of ".join(filter(None, (SCHEMA, written.runtime))),
            sources=_sources(written),
            notes=tuple(_notes(written)),
            capture=_capture(written),
            unusable=_why_unusable(written),
        )


def _why_unusable(written: _ParityProfile) -> str | None:
    measured = any(op.mean > 0 for op in written.ops.values())
    if measured or written.hardware.kernel_launches_per_step > 0:
        return None
    return (
        f"the parity profile measured nothing: 0 ops with time and 0 kernel launches in"
        f" {written.steps_profiled} steps (did its profiler see the GPU?)"
    )


def _categories(written: _ParityProfile) -> dict[str, float]:
    """The time of each category; of ops whose names are new it is `other`."""
    totals: dict[str, float] = {}
    for op in sorted(written.ops):
        category = CATEGORIES.get(op, "other")
        totals[category] = totals.get(category, 0.0) + written.ops[op].mean
    return totals


def _sources(written: _ParityProfile) -> dict[str, str]:
    sources = {}
    if written.ops:
        sources["ops"] = f"ops.*.mean: the mean of {written.steps_profiled} steps"
        sources["op_categories"] = "ops, by their names; ffn_ms is every matrix product (gemm)"
    if written.hardware.kernel_launches_per_step:
        sources["kernel_launches_per_step"] = "hardware.kernel_launches_per_step"
    return sources


def _notes(written: _ParityProfile) -> Iterator[str]:
    yield "The profile has no phases or layers, and no peak memory but its run's."
    unknown = sorted(written.ops.keys() - CATEGORIES.keys())
    if unknown:
        names = ", ".join(ascii(name)[:40] for name in unknown[:5])
        yield f"Of these ops the category is not known, so it is 'other': {names}."


def _capture(written: _ParityProfile) -> dict[str, Any]:
    device_ms = written.hardware.total_cuda_time_ms
    return {"cuda_ms_per_step": device_ms} if device_ms > 0 else {}
