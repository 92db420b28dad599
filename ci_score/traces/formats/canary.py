"""What a canary run of the reference project leaves: its result as JSON, or the log it printed.

The result has the run's throughput, machine and loss; a profile stands under `profiler` or amid the
log text in `stderr_summary`. A run that crashed reports *more* throughput than one that trained:
the tokens that were planned, over a short wall time. So the result is asked first whether anything
was trained, and a run that did not train is unusable, whatever its numbers are.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input, parse, validate
from ci_score.model.profile import Profile
from ci_score.model.values import Count, Lax, Milliseconds, NotNegative, Value
from ci_score.traces.formats import apr_profiler, step_profiler, text_table, training_log
from ci_score.traces.formats.log_text import (
    Excerpt,
    find_object,
    looks_like_text,
    outer_keys,
    profiler_start,
    text_of,
    without_nan,
)
from ci_score.traces.source import ProfileSource

_ANY_PROFILER = profiler_start("step_profiler_v1", "step_profiler_v2", apr_profiler.NAME)
_PARITY_SCHEMA = b'"parity-profile-v1"'
# baselines.json: what the project demands of each canary, some of it guessed before any run.
_LIMITS = re.compile(rb'\s*+\{\s*+"[^"\\]{1,99}"\s*+:\s*+\{\s*+"tokens_per_sec"\s*+:')
_PANIC = re.compile(r"thread 'main'[^\n]{0,200} panicked at")
_UNKNOWN_DEVICES = frozenset({"", "unknown", "cpu"})
_MIB = 1024**2


class _StepTime(Value):
    mean: Milliseconds | None = None
    p50: Milliseconds | None = None
    p95: Milliseconds | None = None
    p99: Milliseconds | None = None


class _Measured(Value):
    """The numbers of one run."""

    tokens_per_sec: NotNegative = 0.0
    peak_vram_mb: NotNegative = 0.0
    final_loss: float | None = None
    wall_time_sec: NotNegative = 0.0
    step_time_ms: _StepTime = _StepTime()
    step_times_ms: Annotated[tuple[Milliseconds, ...], Lax] = ()
    valid_backward_steps: Count | None = None
    nan_backward_skips: Count = 0
    quality: Annotated[str, Field(alias="_metrics_quality")] = "measured"
    status: Annotated[str, Field(alias="_baseline_status")] = "measured"

    @property
    def diverged(self) -> bool:
        """Whether there is a final loss which is no number."""
        return self.final_loss is None and "final_loss" in self.model_fields_set


class _Metrics(_Measured):
    """The numbers, or those of two back ends that ran one after the other."""

    default: _Measured | None = None
    cublas: _Measured | None = None


class _Gpu(Value):
    device: str = "unknown"


class _Config(Value):
    steps: Count = 0


class _Output(Value):
    stderr_summary: str = ""
    error: str | None = None
    exit_code: int = 0


class _Result(Value):
    """The result of a canary run."""

    canary: str
    backend: str = ""
    host: str = ""
    gpu: _Gpu = _Gpu()
    config: _Config = _Config()
    metrics: _Metrics
    apr_output: _Output = _Output()
    stderr_summary: str = ""
    error: str | None = None
    exit_code: int = 0

    @property
    def log(self) -> str:
        """The end of what the run printed."""
        return self.stderr_summary or self.apr_output.stderr_summary

    @property
    def measured(self) -> _Measured:
        """The numbers of the run; of two back ends those of the default, as the project judges."""
        return self.metrics.default or self.metrics.cublas or self.metrics

    @property
    def other_backend(self) -> _Measured | None:
        """The numbers of the back end that is compared with the default."""
        return self.metrics.cublas if self.metrics.default else None


# --- the result ---------------------------------------------------------------------------------


def recognises(head: bytes) -> bool:
    """The result of a run, or the table of limits, which is known in order to be refused."""
    keys = outer_keys(head)
    if {"canary", "metrics"} <= keys:
        return not ("profile" in keys and _PARITY_SCHEMA in head)
    return is_table_of_limits(head)


def is_table_of_limits(head: bytes) -> bool:
    """What the project demands of its canaries, which lies beside their results."""
    return _LIMITS.match(head) is not None


def read(source: ProfileSource) -> Profile:
    """What the run measured, with the profile it left; unusable where it did not train."""
    data = source.whole()
    if is_table_of_limits(data):
        raise BadInputError(
            source.name,
            found="a table of limits for canaries (as baselines.json), which is no measurement",
            expected="the result of one run, as in canary-*.json; ci-score finds baselines itself",
        )
    value = read_result(data, source.name)
    profiler = value.get("profiler") if isinstance(value, dict) else None
    if profiler is None:
        return of_run(value, source.name, None)
    embedded = _profile_of(Excerpt({"profiler": profiler}, source.name))
    return of_run(value, source.name, embedded)


def read_result(data: bytes, name: str) -> Any:
    """The JSON of a result. Python writes NaN for the loss of a run that diverged."""
    valid, _ = without_nan(data)
    return parse(valid, name)


def of_run(value: Any, name: str, embedded: Profile | None) -> Profile:
    """The profile that a result has, with the numbers of the run beside it."""
    result = validate(_Result, value, name)
    notes: tuple[str, ...] = ()
    if embedded is None:
        embedded, notes = _profile_in_log(result, f"{name}: stderr_summary")
    with overflow_is_bad_input(name):
        profile = apr_profiler.compared_with_run(embedded, result.measured.wall_time_sec * 1000.0)
        return _with_run(profile, result, notes, tuple(_why_unusable(result)))


def _with_run(
    profile: Profile, result: _Result, notes: tuple[str, ...], reasons: tuple[str, ...]
) -> Profile:
    measured = result.measured
    update: dict[str, Any] = {
        "accelerator": None if result.gpu.device in _UNKNOWN_DEVICES else result.gpu.device,
        "tool": " + ".join(filter(None, (f"canary {result.canary}", profile.tool))),
        "capture": {**profile.capture, **_capture(result)},
        "unusable": profile.unusable,
    }
    sources = dict(profile.sources)
    if measured.peak_vram_mb > 0:
        update["peak_memory_gb"] = measured.peak_vram_mb * _MIB / 1e9
        sources["peak_memory_gb"] = "metrics.peak_vram_mb (MiB)"
    if reasons:
        update["unusable"] = "the run crashed or did not train: " + "; ".join(reasons)
        update["remedy"] = "run"
    elif measured.tokens_per_sec > 0:
        update["throughput_tok_s"] = measured.tokens_per_sec
        sources["throughput_tok_s"] = "metrics.tokens_per_sec, as the run reports it"
    if profile.avg_step_ms == 0:
        update |= _step_time(result, sources)
    update["sources"] = sources
    merged = profile.model_copy(update=update)
    said = (*profile.notes, *notes, *_notes(result, merged, trained=not reasons))
    return Profile.model_validate({**dict(merged), "notes": said})


def _step_time(result: _Result, sources: dict[str, str]) -> dict[str, Any]:
    """The median step where it is known; a mean would count compilation and short batches."""
    measured, planned = result.measured, result.config.steps
    if measured.step_times_ms:
        times = measured.step_times_ms
        sources["avg_step_ms"] = f"the median of metrics.step_times_ms ({len(times)} steps)"
        return {
            "avg_step_ms": statistics.median(times),
            "steps": len(times),
            "step_times_ms": times,
        }
    if measured.step_time_ms.p50:
        sources["avg_step_ms"] = "metrics.step_time_ms.p50, the host's median step"
        sources["steps"] = "config.steps"
        return {"avg_step_ms": measured.step_time_ms.p50, "steps": planned}
    return {}


def _capture(result: _Result) -> dict[str, float]:
    """What is of the whole run, or a claim of it that is not used."""
    measured, other = result.measured, result.other_backend
    numbers = {
        "reported_tokens_per_sec": measured.tokens_per_sec,
        "run_wall_ms": measured.wall_time_sec * 1000.0,
        "planned_steps": float(result.config.steps),
        "step_mean_ms": measured.step_time_ms.mean or 0.0,
        "step_p95_ms": measured.step_time_ms.p95 or 0.0,
        "step_p99_ms": measured.step_time_ms.p99 or 0.0,
        "cublas_tokens_per_sec": other.tokens_per_sec if other else 0.0,
    }
    return {name: number for name, number in numbers.items() if number > 0}


def _why_unusable(result: _Result) -> Iterator[str]:
    """Every sign that nothing was trained, so that one which was renamed does not hide the rest."""
    measured, output = result.measured, result.apr_output
    if code := result.exit_code or output.exit_code:
        yield f"it exited with {code}"
    if error := result.error or output.error:
        yield f"it says {error[:80]!a}"
    if _PANIC.search(result.log):
        yield "its main thread panicked"
    if measured.diverged:
        yield "its final loss is not a number"
    elif measured.final_loss == 0:
        yield "its final loss is 0"
    if measured.valid_backward_steps == 0:
        yield "no backward step was valid"
    if measured.quality != "measured":
        yield f"it calls its numbers {measured.quality[:40]!a}"
    if measured.tokens_per_sec == 0:
        yield "it reports no tokens per second"


def _notes(result: _Result, profile: Profile, *, trained: bool) -> Iterator[str]:
    yield from _notes_on_run(result, profile, trained=trained)
    yield from _notes_on_steps(result, profile)


def _notes_on_run(result: _Result, profile: Profile, *, trained: bool) -> Iterator[str]:
    measured, other = result.measured, result.other_backend
    if result.host or result.backend:
        yield f"Run on {result.host or 'an unknown host'}, back end {result.backend or 'unknown'}."
    if measured.peak_vram_mb == 0:
        yield "The result has no peak memory."
    if profile.accelerator is None:
        yield f"The result names no accelerator (device: {result.gpu.device[:40]!a})."
    if not trained and measured.tokens_per_sec > 0:
        yield (
            f"Its {measured.tokens_per_sec:g} tokens/s are no throughput: a run that stops early"
            " divides the tokens it had planned by a short time."
        )
    if other:
        yield (
            f"Two back ends ran: these numbers are the default's; cublas made"
            f" {other.tokens_per_sec:g} tokens/s."
        )
    if measured.status.upper() == "PROVISIONAL":
        yield "The run calls its numbers provisional."


def _notes_on_steps(result: _Result, profile: Profile) -> Iterator[str]:
    measured, planned = result.measured, result.config.steps
    if profile.avg_step_ms == 0:
        yield (
            "The result has no median step time, and its wall time includes loading, so the step"
            " time is not known."
        )
    elif "avg_step_ms" in profile.sources and not profile.phases and profile.throughput_tok_s:
        yield (
            "The throughput is the whole run's, with compilation and short batches; the step time"
            " is the median's: they do not multiply to the tokens of a step."
        )
    if profile.steps and planned and profile.steps != planned:
        yield f"The run planned {planned} steps; {profile.steps} were timed."
    if measured.nan_backward_skips:
        yield (
            f"{measured.nan_backward_skips} backward passes were skipped because of NaN"
            f" ({measured.valid_backward_steps or 0} were valid): the run looks faster than it is."
        )


# --- a profile in the log of a run --------------------------------------------------------------


def recognises_log(head: bytes) -> bool:
    """Text for people. A log may hold its profile anywhere, so ask this after all other formats."""
    return looks_like_text(head)


def read_log(source: ProfileSource) -> Profile:
    """The last profile of a long log, whose beginning did not show one, or its training steps."""
    trained = training_log.find(source)
    if trained is not None:
        return trained.but(timed_by="the trainer's log")
    text, notes = text_of(source)
    profile = _find_profile(text, source.name)
    if profile is None:
        raise BadInputError(
            source.name,
            found="text without a profile",
            expected="a log with the JSON of step_profiler or apr_training_profiler in it, or with"
            " the table of the Step Profiler, or with the steps of Megatron-LM or torchtitan",
        )
    return step_profiler.without_tokens(profile, notes).but(timed_by="the runtime itself")


def _find_profile(log: bytes, name: str) -> Profile | None:
    """JSON first: where a run prints both, the table is the shorter form of the same numbers."""
    excerpt = find_object(log, _ANY_PROFILER, name)
    return _profile_of(excerpt) if excerpt else text_table.find_table(log, name)


def _profile_of(excerpt: Excerpt) -> Profile:
    value, _ = step_profiler.unwrapped(excerpt.value, excerpt.place)
    if isinstance(value, dict) and value.get("_profiler") == apr_profiler.NAME:
        return apr_profiler.profile_of(excerpt)
    return step_profiler.profile_of(excerpt)


def _profile_in_log(result: _Result, name: str) -> tuple[Profile, tuple[str, ...]]:
    """The profile in the end of the log, if any. A damaged one costs the result nothing."""
    try:
        found = _find_profile(result.log.encode(errors="replace"), name)
    except BadInputError as error:
        return Profile(), (f"The profile in the log cannot be used: {error}",)
    if found is None:
        return Profile(), ("The run left no profile.",)
    return found, ()
