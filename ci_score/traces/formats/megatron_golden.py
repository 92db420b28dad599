"""The golden values of Megatron-LM's functional tests: numbers of a run, sampled from TensorBoard.

`{"iteration-time": {"start_step": 1, "end_step": 100, "step_interval": 5, "values": {"1": 12.3}}}`
in seconds; older files have a list for the values, or only `iteration_timing_avg`. A value is what
Megatron logged at that iteration, and `nan` where it logged nothing.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Field

from ci_score.files.strict_json import overflow_is_bad_input, parse, validate
from ci_score.model.profile import Profile
from ci_score.model.sums import plain_sum
from ci_score.model.values import Lax, NotNegative, Value
from ci_score.traces.formats.log_text import outer_keys, without_nan
from ci_score.traces.formats.trainer_state import far_from_the_median
from ci_score.traces.formats.training_lines import GB, MEGATRON
from ci_score.traces.source import ProfileSource

# A test runs for some hundred steps.
MOST_SAMPLES = 100_000
_TIMES, _MEAN, _MEMORY = "iteration-time", "iteration_timing_avg", "mem-max-allocated-bytes"
_KEYS = frozenset({_TIMES, _MEAN, _MEMORY, "lm loss", "num-zeros", "mem-allocated-bytes"})
_MARK = b'"step_interval"'

_Sample = float | str | None
_Samples = dict[str, _Sample] | Annotated[tuple[_Sample, ...], Lax]


class _Metric(Value):
    step_interval: NotNegative = 1
    values: Annotated[_Samples, Field(max_length=MOST_SAMPLES)]

    @property
    def numbers(self) -> list[float]:
        """The values in the order of their steps, without those that are no number."""
        values = self.values.values() if isinstance(self.values, dict) else self.values
        return [value for value in values if isinstance(value, float) and _is_measured(value)]


class _Golden(Value):
    times: Annotated[_Metric | None, Field(alias=_TIMES)] = None
    mean_s: Annotated[NotNegative | None, Field(alias=_MEAN)] = None
    memory: Annotated[_Metric | None, Field(alias=_MEMORY)] = None


def recognises(head: bytes) -> bool:
    """A metric that every version has, and how its samples are written."""
    return bool(outer_keys(head) & _KEYS) and _MARK in head


def read(source: ProfileSource) -> Profile:
    """The mean of the sampled iterations."""
    data, _ = without_nan(source.whole())
    golden = validate(_Golden, parse(data, source.name), source.name)
    with overflow_is_bad_input(source.name):
        return _profile(golden)


def _profile(golden: _Golden) -> Profile:
    measured, source = _measured(golden)
    peak = max(golden.memory.numbers, default=0.0) if golden.memory else 0.0
    sources = {"avg_step_ms": source} if source else {}
    notes = ["Golden values have no kernels, phases or layers, and do not tell tokens."]
    if golden.times is not None and golden.times.step_interval > 1:
        notes.append(
            f"They keep every {golden.times.step_interval:g}th step, and not those between."
        )
    notes += far_from_the_median(measured.get("step_times_ms", ()))
    if peak:
        sources["peak_memory_gb"] = f"{_MEMORY}, the largest"
    else:
        notes.append(f"Without {_MEMORY} the peak memory is not known.")
    return Profile(
        tool=MEGATRON,
        peak_memory_gb=peak / GB or None,
        sources=sources,
        notes=tuple(notes),
        unusable=None if measured else _why_unusable(golden),
        **measured,
    )


def _measured(golden: _Golden) -> tuple[dict[str, Any], str]:
    seconds = golden.times.numbers if golden.times else []
    # The first value has compilation and warm-up in it, wherever the run began.
    times = tuple(value * 1000.0 for value in seconds[1:])
    if times:
        mean = plain_sum(times) / len(times)
        measured = {"steps": len(times), "avg_step_ms": mean, "step_times_ms": times}
        return measured, f"the mean of {len(times)} values of {_TIMES}, without the first"
    if golden.mean_s:
        return {"avg_step_ms": golden.mean_s * 1000.0}, f"{_MEAN}, as the file has it"
    return {}, ""


def _why_unusable(golden: _Golden) -> str:
    if golden.times is None:
        return f"it has no {_TIMES}"
    return f"{_TIMES} has {len(golden.times.numbers)} values, and the first one is warm-up"


def _is_measured(value: float) -> bool:
    return math.isfinite(value) and value > 0
