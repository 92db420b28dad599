"""Times the steps of a training loop and appends one line to `measurements.jsonl`.

    from ci_score.measure import Recorder

    with Recorder(tokens_per_step=8192, warmup_steps=3) as recorder:
        for batch in batches:
            with recorder.step():
                train(batch)

A loop that has no place for a `with` calls `start()` and `stop()`; `write()` at its end.

It imports nothing but the standard library: a training script pays nothing for it. A step begins
and ends when the device has nothing left to do: CUDA and ROCm are synchronised where torch uses
them. JAX returns before its work is done, so its step ends with `stop(result)`, which waits until
all arrays in the result are there. Anything else is waited for by `synchronize`.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import Any

SCHEMA = 1
FILE = "measurements.jsonl"
# Where `ci-score ab` wants the line; without it the script was started by hand.
PATH_VARIABLE = "CI_SCORE_MEASUREMENTS"
# The folders of a launch's own side and of the other one, whose code it must not run.
FOLDERS_VARIABLE = "CI_SCORE_FOLDERS"
LINE_LIMIT = 4 * 1024 * 1024
# `ci-score qualify` makes steps really longer by this share, to see whether it would be found.
PLANTED_VARIABLE = "CI_SCORE_PLANTED_SLOWDOWN"
# Who starts the ranks of a job tells each its number by one of these.
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
VERSIONED = ("torch", "jax", "jaxlib", "tensorflow", "triton", "transformers", "numpy")
# multiprocessing runs the command's own script once more under the second name.
OWN_SCRIPT = ("__main__", "__mp_main__")


class Recorder:
    """Records the steps of one process launch. Only rank 0 of a job writes."""

    # Whether this process has a recorder: then the start-up hook leaves it alone.
    is_in_use = False

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        case: str | None = None,
        tokens_per_step: float | None = None,
        warmup_steps: int = 0,
        synchronize: Callable[[], object] | None = None,
    ) -> None:
        Recorder.is_in_use = True
        # Absolute at once: a training script may change its folder.
        self._path = Path(path or os.environ.get(PATH_VARIABLE) or FILE).absolute()
        self._case = case
        self._warmup_steps = warmup_steps
        self._tokens = tokens_per_step
        self._synchronize = synchronize or _synchronize_torch
        self._tokens_seen: list[float] = []
        self._nanoseconds: list[int] = []
        self._metrics: dict[str, float] = {}
        self._loss: float | None = None
        self._begin = 0
        self._paused: int | None = None
        planted = os.environ.get(PLANTED_VARIABLE)
        self._planted = float(planted) if planted else None

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A trainer that spawns its ranks sends them its callbacks.
        self.__dict__.update(state)
        Recorder.is_in_use = True

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.write()

    def step(self, tokens: float | None = None) -> _Step:
        """Times what is done inside; `tokens` where steps differ in size."""
        if tokens is not None:
            self._tokens_seen.append(float(tokens))
        return _Step(self)

    def metric(self, name: str, value: float) -> None:
        """A number of your own, which a policy can gate; the last value counts."""
        self._metrics[name] = float(value)

    def loss(self, value: float) -> None:
        """The loss after the last step: a run that is faster because it did less is found out."""
        self._loss = float(value)

    def write(self) -> None:
        """Appends the launch; called at the end of the `with` block, unless it failed."""
        rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0")
        if rank != "0":
            return
        # JSON has no NaN.
        metrics = {name: value for name, value in self._metrics.items() if math.isfinite(value)}
        loss = self._loss
        known = {
            "case": self._case,
            "tokens_per_step": self._typical_tokens(),
            "peak_memory_gb": _peak_memory_gb(),
            "final_loss": loss if loss is not None and math.isfinite(loss) else None,
            "planted": self._planted,
            "metrics": metrics or None,
            "versions": _versions(),
            "failed": self._failure(),
        }
        line = {
            "schema": SCHEMA,
            "step_ms": [count / 1e6 for count in self._nanoseconds],
            "warmup_steps": self._warmup_steps,
            **{name: value for name, value in known.items() if value is not None},
        }
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    # --- one step -------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the clock of a step, when the device has finished what was before."""
        self._synchronize()
        self._paused = None
        self._begin = perf_counter_ns()

    def stop(self, result: object = None) -> None:
        """Stops it, when the device has finished the step, and what makes `result` is done."""
        self.resume()
        if result is not None:
            _block_until_ready(result)
        self._synchronize()
        now = perf_counter_ns()
        if self._planted:
            until = now + (now - self._begin) * self._planted
            while now < until:
                now = perf_counter_ns()
        self._nanoseconds.append(now - self._begin)

    def pause(self) -> None:
        """What follows is no part of the step, such as an evaluation."""
        if self._paused is None:
            self._synchronize()
            self._paused = perf_counter_ns()

    def resume(self) -> None:
        """The step goes on."""
        if self._paused is not None:
            self._synchronize()
            self._begin += perf_counter_ns() - self._paused
            self._paused = None

    def _typical_tokens(self) -> float | None:
        if not self._tokens_seen:
            return self._tokens
        timed = self._tokens_seen[self._warmup_steps :] or self._tokens_seen
        return sum(timed) / len(timed)

    def _failure(self) -> str | None:
        """Why this launch measured nothing: the line says so instead of vanishing."""
        if not self._nanoseconds:
            return "no step was recorded"
        numbers = [*self._metrics.values(), *([] if self._loss is None else [self._loss])]
        if not all(map(math.isfinite, numbers)):
            return "a loss or metric that is not finite (NaN or infinite)"
        return _code_of_the_other_side()


class _Step:
    """One step; a step that fails is not recorded."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        self._recorder.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._recorder.stop()


def _cuda_in_use() -> Any:
    """The CUDA of torch once the script uses it; asking earlier would take memory for nothing."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _synchronize_torch() -> None:
    cuda = _cuda_in_use()
    if cuda is not None:
        cuda.synchronize()


def _block_until_ready(result: object) -> None:
    """Waits for arrays that are promised and not there yet, alone or in any of JAX's trees."""
    of_trees = getattr(sys.modules.get("jax"), "block_until_ready", None)
    own = getattr(result, "block_until_ready", None)
    if of_trees is not None:
        of_trees(result)
    elif own is not None:
        own()


def _peak_memory_gb() -> float | None:
    """What torch allocated at most on its device."""
    cuda = _cuda_in_use()
    return None if cuda is None else cuda.max_memory_allocated() / 1e9


def _versions() -> dict[str, str]:
    """Of what this very process uses: nobody else can know it."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)[:200]
    built_for = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return {**found, "cuda": str(built_for)} if built_for else found


def _code_of_the_other_side() -> str | None:
    """A launch of one side that imported the other side's code would compare it with itself."""
    told = os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep)
    if len(told) != 2 or told[0] == told[1]:
        return None
    own, other = map(Path, told)
    installed = (Path(sys.prefix), Path(sys.base_prefix))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in OWN_SCRIPT or not file or "site-packages" in file:
            continue
        path = Path(file).absolute()
        if not path.is_relative_to(other) or any(map(path.is_relative_to, installed)):
            continue
        # Where one side's folder lies in the other's, the inner one is whose code it is.
        if not path.is_relative_to(own) or other.is_relative_to(own):
            return f"it imported {name} from the other side's folder ({path})"
    return None
