"""trainer_state.json of a Hugging Face Trainer: how long a run took, and how many tokens it saw.

It is no profile: there are no kernels, phases or layers. A checkpoint from the middle of a run may
have no seconds; then it is not measured, unless the trainer logged its step times.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ci_score.files.strict_json import overflow_is_bad_input, parse, validate
from ci_score.model.profile import Profile
from ci_score.model.sums import plain_sum
from ci_score.traces.formats.log_text import outer_keys, without_nan
from ci_score.traces.formats.trainer_runs import Logged, Run, TrainerState, run_of
from ci_score.traces.source import ProfileSource

TOOL = "Hugging Face Trainer"
# Two step times would be a compile step and another one.
FEWEST_STEP_TIMES = 3
# Where mean and median are further apart, a few steps take much longer than the others.
APART = 0.1


@dataclass(frozen=True, slots=True)
class _StepTimes:
    """The steps that the trainer logged with their times; `first_ms` is left out of them."""

    ms: tuple[float, ...] = ()
    first_ms: float = 0.0


def recognises(head: bytes) -> bool:
    """The two keys that every version writes."""
    return {"global_step", "log_history"} <= outer_keys(head)


def read(source: ProfileSource) -> Profile:
    """Step time and throughput of the run, as far as they can be derived."""
    # A loss or gradient norm that overflowed is written as NaN, and says nothing about time.
    data, replaced = without_nan(source.whole())
    state = validate(TrainerState, parse(data, source.name), source.name)
    with overflow_is_bad_input(source.name):
        return _profile(state, replaced)


def _profile(state: TrainerState, replaced: int) -> Profile:
    run = run_of(state)
    own = [row for row in state.log_history if not run.begin or state.step_of(row) > run.begin]
    times = _step_times(state, run, own)
    evaluation_s = plain_sum(entry.eval_runtime or 0.0 for entry in own)
    measured, sources = _measured(run, times, evaluation_s)
    return Profile(
        steps=run.steps or state.global_step,
        tool=TOOL,
        sources=sources,
        notes=(*_notes(state, run, evaluation_s), *_notes_on_times(run, times, replaced)),
        capture=_capture(state, run, evaluation_s),
        unusable=_why_unusable(state, run, measured),
        **measured,
    )


def _step_times(state: TrainerState, run: Run, own: Sequence[Logged]) -> _StepTimes:
    """The logged step times without the first step, which compiles.

    Only that one, however slow the next ones are: a rule that looks at the times would leave out
    what has become slow.
    """
    logged = [entry for entry in own if entry.step_time]
    if len(logged) < FEWEST_STEP_TIMES or (run.resumed and not run.steps):
        return _StepTimes()
    times = tuple((entry.step_time or 0.0) * 1000.0 for entry in logged)
    if state.step_of(logged[0]) <= run.begin + 1:
        return _StepTimes(times[1:], times[0])
    return _StepTimes(times)


def _measured(
    run: Run, times: _StepTimes, evaluation_s: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields that can be derived, and how."""
    measured: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if times.ms:
        average, told_by = _mean_step(run, times, evaluation_s)
        measured |= {"avg_step_ms": average, "step_times_ms": times.ms}
        sources["avg_step_ms"] = told_by
    elif run.steps:
        measured["avg_step_ms"] = run.seconds * 1000.0 / run.steps
        sources["avg_step_ms"] = run.told_by
    if run.tokens_per_step:
        measured["tokens_per_step"] = run.tokens_per_step
        sources["tokens_per_step"] = run.tokens_told_by
        if run.steps:
            measured["throughput_tok_s"] = run.tokens_per_step * run.steps / run.seconds
            sources["throughput_tok_s"] = "num_input_tokens_seen ÷ train_runtime"
    return measured, sources


def _mean_step(run: Run, times: _StepTimes, evaluation_s: float) -> tuple[float, str]:
    """The mean of the step times; that of the run where it is more, as time is lost between them.

    What logs step times may leave out the data loader or the optimizer, and most of the steps.
    """
    mean = plain_sum(times.ms) / len(times.ms)
    without = ", without the first step" if times.first_ms else ""
    steps = run.steps - (1 if times.first_ms else 0)
    if steps > 0:
        of_run = (run.seconds - evaluation_s) * 1000.0 - times.first_ms
        if of_run > mean * steps:
            words = f"train_runtime less evaluation ÷ {steps} steps{without}"
            return of_run / steps, f"{words}; step_time says {mean:.4g} ms"
    return mean, f"the mean of {len(times.ms)} step_time entries of log_history{without}"


def _why_unusable(state: TrainerState, run: Run, measured: dict[str, Any]) -> str | None:
    if state.global_step == 0:
        return "global_step is 0: no step was trained"
    if run.resumed and not run.steps:
        return (
            f"the run was resumed, and log_history does not say how many of the {state.global_step}"
            " steps its train_runtime is of"
        )
    if "avg_step_ms" not in measured:
        return (
            f"log_history has no train_runtime: this is a checkpoint of a run at step"
            f" {state.global_step}, and the trainer writes how long it took only at the end"
            " (`trainer.save_state()` after `trainer.train()` keeps that)"
        )
    return None


def _notes(state: TrainerState, run: Run, evaluation_s: float) -> Iterator[str]:
    yield "A trainer state has no kernels, phases, layers or peak memory."
    if state.num_input_tokens_seen == 0:
        yield (
            "num_input_tokens_seen is 0, so the throughput cannot be derived:"
            " include_num_input_tokens_seen=True makes the trainer count."
        )
    if evaluation_s > 0:
        yield f"Evaluation took {evaluation_s:.1f} s, which the runtime includes."
    if 0 < state.global_step < state.max_steps:
        yield f"The run stopped at step {state.global_step} of {state.max_steps}."
    if run.resumed and run.steps:
        yield f"The run was resumed: only its own steps {run.begin + 1} to {run.end} count."
    if run.resumed and state.num_input_tokens_seen > 0 and run.tokens_per_step is None:
        yield "How many tokens the run saw since it was resumed is not told."


def _notes_on_times(run: Run, times: _StepTimes, replaced: int) -> Iterator[str]:
    if run.steps and not run.resumed and not times.ms:
        yield (
            "The step time is the mean of the whole run, with compilation, checkpoints and"
            " evaluation: the trainer keeps no step times, so there is no median."
        )
    yield from far_from_the_median(times.ms)
    if replaced:
        yield f"{replaced} numbers in it are NaN or infinite, such as a loss that overflowed."


def far_from_the_median(times: Sequence[float]) -> Iterator[str]:
    """A note where the mean of the step times is not that of a usual step."""
    if not times:
        return
    mean, median = plain_sum(times) / len(times), statistics.median(times)
    if abs(mean - median) > APART * mean:
        yield (
            f"The median of the step times is {median:.4g} ms and their mean {mean:.4g} ms:"
            " some steps take much longer than the others, and they count."
        )


def _capture(state: TrainerState, run: Run, evaluation_s: float) -> dict[str, float]:
    numbers = {
        "global_step": float(state.global_step),
        "train_runtime_s": run.seconds,
        "evaluation_s": evaluation_s,
        "num_input_tokens_seen": state.num_input_tokens_seen,
        "total_flos": state.total_flos,
    }
    return {name: number for name, number in numbers.items() if number > 0}
