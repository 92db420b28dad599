"""trainer_state.json of a Hugging Face Trainer: how long a run took, and how many tokens it saw.

It is no profile: there are no kernels, phases or layers. It has a runtime only where training
ended, so a checkpoint from the middle of a run is not measured, unless the trainer logged its step
times.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Annotated, Any

from ci_score.files.strict_json import overflow_is_bad_input, parse, validate
from ci_score.model.profile import Profile
from ci_score.model.sums import plain_sum
from ci_score.model.values import Count, Lax, NotNegative, Value
from ci_score.traces.formats.log_text import outer_keys, without_nan
from ci_score.traces.source import ProfileSource

TOOL = "Hugging Face Trainer"
# Two step times would be a compile step and another one.
FEWEST_STEP_TIMES = 3


class _Logged(Value):
    """One entry of the log: of some steps, of an evaluation, or of the whole run at its end."""

    step_time: NotNegative | None = None
    train_runtime: NotNegative | None = None
    eval_runtime: NotNegative | None = None


class _TrainerState(Value):
    """What the trainer saves beside a checkpoint."""

    global_step: Count
    max_steps: int = 0
    num_input_tokens_seen: NotNegative = 0.0
    total_flos: NotNegative = 0.0
    log_history: Annotated[tuple[_Logged, ...], Lax]

    @property
    def runtime_s(self) -> float:
        """The seconds of the run that ended last; 0 where none did."""
        return next(
            (entry.train_runtime for entry in reversed(self.log_history) if entry.train_runtime),
            0.0,
        )

    @property
    def step_times_ms(self) -> tuple[float, ...]:
        """The steps that were timed, where the trainer logs that (in seconds)."""
        times = tuple(e.step_time * 1000.0 for e in self.log_history if e.step_time)
        return times if len(times) >= FEWEST_STEP_TIMES else ()

    @property
    def evaluation_s(self) -> float:
        """The seconds of the runtime that went into evaluation."""
        return plain_sum(entry.eval_runtime or 0.0 for entry in self.log_history)


def recognises(head: bytes) -> bool:
    """The two keys that every version writes."""
    return {"global_step", "log_history"} <= outer_keys(head)


def read(source: ProfileSource) -> Profile:
    """Step time and throughput of the run, as far as they can be derived."""
    # A loss or gradient norm that overflowed is written as NaN, and says nothing about time.
    data, replaced = without_nan(source.whole())
    state = validate(_TrainerState, parse(data, source.name), source.name)
    with overflow_is_bad_input(source.name):
        return _profile(state, replaced)


def _profile(state: _TrainerState, replaced: int) -> Profile:
    measured, sources = _measured(state)
    return Profile(
        steps=state.global_step,
        tool=TOOL,
        sources=sources,
        notes=tuple(_notes(state, replaced)),
        capture=_capture(state),
        unusable=_why_unusable(state),
        **measured,
    )


def _measured(state: _TrainerState) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields that can be derived, and how."""
    measured: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if state.global_step == 0:
        return measured, sources
    if times := state.step_times_ms:
        measured |= {"avg_step_ms": statistics.median(times), "step_times_ms": times}
        sources["avg_step_ms"] = f"the median of {len(times)} step_time entries of log_history"
    elif state.runtime_s > 0:
        measured["avg_step_ms"] = state.runtime_s * 1000.0 / state.global_step
        sources["avg_step_ms"] = f"train_runtime ÷ global_step ({state.global_step})"
    if state.num_input_tokens_seen > 0:
        measured["tokens_per_step"] = state.num_input_tokens_seen / state.global_step
        sources["tokens_per_step"] = "num_input_tokens_seen ÷ global_step"
        if state.runtime_s > 0:
            measured["throughput_tok_s"] = state.num_input_tokens_seen / state.runtime_s
            sources["throughput_tok_s"] = "num_input_tokens_seen ÷ train_runtime"
    return measured, sources


def _why_unusable(state: _TrainerState) -> str | None:
    if state.global_step == 0:
        return "global_step is 0: no step was trained"
    if state.runtime_s == 0 and not state.step_times_ms:
        return (
            f"log_history has no train_runtime: this is a checkpoint of a run at step"
            f" {state.global_step}, and the trainer writes how long it took only at the end"
        )
    return None


def _notes(state: _TrainerState, replaced: int) -> Iterator[str]:
    yield "A trainer state has no kernels, phases, layers or peak memory."
    if state.num_input_tokens_seen == 0:
        yield (
            "num_input_tokens_seen is 0, so the throughput cannot be derived:"
            " include_num_input_tokens_seen=True makes the trainer count."
        )
    if state.runtime_s > 0 and not state.step_times_ms:
        yield (
            "The step time is the mean of the whole run, with compilation, checkpoints and"
            " evaluation: the trainer keeps no step times, so there is no median."
        )
    if state.evaluation_s > 0:
        yield f"Evaluation took {state.evaluation_s:.1f} s, which the runtime includes."
    if 0 < state.global_step < state.max_steps:
        yield f"The run stopped at step {state.global_step} of {state.max_steps}."
    if sum(1 for entry in state.log_history if entry.train_runtime) > 1:
        yield (
            "The run was resumed: the last train_runtime is of its last part only, while steps and"
            " tokens count from the beginning, so it looks faster than it is."
        )
    if replaced:
        yield f"{replaced} numbers in it are NaN or infinite, such as a loss that overflowed."


def _capture(state: _TrainerState) -> dict[str, float]:
    numbers = {
        "train_runtime_s": state.runtime_s,
        "evaluation_s": state.evaluation_s,
        "num_input_tokens_seen": state.num_input_tokens_seen,
        "total_flos": state.total_flos,
    }
    return {name: number for name, number in numbers.items() if number > 0}
