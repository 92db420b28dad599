"""What the start-up hook has counted in a launch, as a measurement line says it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ci_score.files.visible import plain
from ci_score.measure.launch.hook_records import HookProblem, Recorded, how_far, problem_in_words
from ci_score.model.counted_step import SHORT
from ci_score.model.lists import plural

COUNTED = "the optimizer's steps, which the start-up hook counts"
BYTES_A_GB = 1e9
# What the hook cannot know better than the exit code of a command that has failed.
BEFORE_ANY_STEP = frozenset({"not_loaded", "no_torch", "never_steps"})


def values_of(told: Recorded) -> dict[str, Any]:
    """The job's step is its slowest rank's; the loss is that of rank 0."""
    memory, first = told.peak_memory_bytes, told.first
    losses = {"first_loss": first.first_loss, "final_loss": first.final_loss}
    numbers = {name: loss for name, loss in losses.items() if isinstance(loss, float)}
    failed = _failure(told)
    return {
        "step_ms": told.slowest.step_ms,
        "warmup_steps": told.slowest.warmup_steps,
        "versions": first.versions,
        "step": _step(told),
        **({"peak_memory_gb": memory / BYTES_A_GB} if memory else {}),
        **({**numbers, "loss_from": "hook"} if numbers else {}),
        **({"profiler_ran": True} if told.profiler_found else {}),
        **({"planted": first.planted} if first.planted else {}),
        **({"failed": failed} if failed else {}),
    }


def _step(told: Recorded) -> dict[str, Any]:
    """What was counted as a step, and how it was timed."""
    first, timed_ms = told.first, told.slowest.step_ms[told.slowest.warmup_steps :]
    count = max(len(timed_ms), 1)
    return {
        "optimizer": plain(first.owner.class_),
        "parameters": first.owner.parameters,
        "alone": len(first.optimizers) < 2,
        "backward_passes": first.backward_passes / count,
        "skipped": min(first.skipped_steps / count, 1.0),
        "short": _short(timed_ms),
    }


def _short(step_ms: Sequence[float]) -> float:
    """The share of steps that take a small part of the mean."""
    least = SHORT * statistics.fmean(step_ms) if step_ms else 0.0
    return sum(ms < least for ms in step_ms) / max(len(step_ms), 1)


def _failure(told: Recorded) -> str:
    """Why times cannot be used that were measured well."""
    if told.other_side:
        return f"it imported {told.other_side} from the other side's folder"
    # As of the Recorder: NaN may be faster or slower, and it is not the same work.
    loss = told.first.final_loss
    return f"its last loss is not finite ({loss})" if isinstance(loss, str) else ""


def trouble_of(problem: HookProblem, exited: str, outlived_by: int = 0) -> str:
    """One sentence of what the hook knows and how the command ended, if that went wrong."""
    words = problem_in_words(problem)
    if outlived_by and not exited and problem.code in (*BEFORE_ANY_STEP, "died"):
        return (
            f"the command ended while {plural(outlived_by, 'process')} of it went on in the"
            " background, and had to be ended: let it wait for what trains"
        )
    if exited and problem.code in BEFORE_ANY_STEP:
        return exited
    return f"{exited} {how_far(problem)}" if exited and problem.code == "died" else words
