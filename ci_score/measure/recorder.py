"""Times the steps of a training loop and appends one line to `measurements.jsonl`.

    from ci_score.measure import Recorder

    with Recorder(tokens_per_step=8192, warmup_steps=3) as recorder:
        for batch in batches:
            with recorder.step():
                train(batch)

It imports nothing but the standard library: a training script pays nothing for it. A step ends when
the device is done: CUDA is synchronised where torch uses it, and anything else by `synchronize`.
"""

from __future__ import annotations

import json
import math
import os
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
LINE_LIMIT = 4 * 1024 * 1024
# `ci-score qualify` makes steps really longer by this share, to see whether it would be found.
PLANTED_VARIABLE = "CI_SCORE_PLANTED_SLOWDOWN"


def _nothing() -> None:
    """Where there is no device to wait for."""


class Recorder:
    """Records the steps of one process launch. Only rank 0 of a job writes."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        case: str | None = None,
        tokens_per_step: float | None = None,
        warmup_steps: int = 0,
        synchronize: Callable[[], object] | None = None,
    ) -> None:
        self._path = Path(path or os.environ.get(PATH_VARIABLE) or FILE)
        self._line: dict[str, Any] = {"schema": SCHEMA}
        if case is not None:
            self._line["case"] = case
        self._warmup_steps = warmup_steps
        self._tokens = tokens_per_step
        self._given = synchronize
        self._synchronize: Callable[[], object] | None = None
        self._tokens_seen: list[float] = []
        self._nanoseconds: list[int] = []
        self._metrics: dict[str, float] = {}
        self._begin = 0
        self._planted = float(os.environ.get(PLANTED_VARIABLE) or 0.0)

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
            self._tokens_seen.append(tokens)
        return _Step(self)

    def metric(self, name: str, value: float) -> None:
        """A number of your own, which a policy can gate; the last value counts."""
        self._metrics[name] = float(value)

    def loss(self, value: float) -> None:
        """The loss after the last step: a run that is faster because it did less is found out."""
        self._line["final_loss"] = float(value)

    def write(self) -> None:
        """Appends the launch; called at the end of the `with` block, unless it failed."""
        if os.environ.get("RANK", "0") != "0" or not self._nanoseconds:
            return
        tokens = self._typical_tokens()
        line = {
            **self._line,
            "step_ms": [count / 1e6 for count in self._nanoseconds],
            "warmup_steps": min(self._warmup_steps, len(self._nanoseconds) - 1),
            **({"tokens_per_step": tokens} if tokens else {}),
            **_peak_memory(),
            **({"planted": self._planted} if self._planted else {}),
            **({"metrics": self._metrics} if self._metrics else {}),
        }
        _refuse_nonsense(line)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    # --- one step -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts the clock of a step, when the device has finished what was before."""
        if self._synchronize is None:
            self._synchronize = self._given or _torch_synchronize() or _nothing
            self._synchronize()
        self._begin = perf_counter_ns()

    def end(self) -> None:
        """Stops it, when the device has finished the step."""
        if self._synchronize is not None:
            self._synchronize()
        now = perf_counter_ns()
        if self._planted:
            until = now + (now - self._begin) * self._planted
            while now < until:
                now = perf_counter_ns()
        self._nanoseconds.append(now - self._begin)

    def _typical_tokens(self) -> float | None:
        if not self._tokens_seen:
            return self._tokens
        timed = self._tokens_seen[self._warmup_steps :] or self._tokens_seen
        return sum(timed) / len(timed)


class _Step:
    """One step; a step that fails is not recorded."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        self._recorder.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._recorder.end()


def _torch_synchronize() -> Callable[[], object] | None:
    """CUDA's barrier where torch is loaded and has a device; a script without torch has none."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_available():
        return None
    barrier: Callable[[], object] = cuda.synchronize
    return barrier


def _peak_memory() -> dict[str, float]:
    """What torch allocated at most on its device, in GB."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_available():
        return {}
    return {"peak_memory_gb": cuda.max_memory_allocated() / 1e9}


def _refuse_nonsense(line: dict[str, Any]) -> None:
    """JSON has no NaN, and a launch with one has measured nothing."""
    numbers = [*line["step_ms"], *line.get("metrics", {}).values(), line.get("final_loss", 0.0)]
    if not all(math.isfinite(number) for number in numbers):
        # The line says so instead of vanishing: `ab` then names the launch and the reason.
        line.pop("final_loss", None)
        line["metrics"] = {
            name: value for name, value in line.get("metrics", {}).items() if math.isfinite(value)
        }
        line["failed"] = "a number that is not finite (NaN or infinite)"
