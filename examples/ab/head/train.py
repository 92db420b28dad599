"""A training script in miniature, in plain Python: attention and MLP, forward and backward."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import exp
from operator import mul
from pathlib import Path

from ci_score.measure import Recorder

# Brackets a piece of work by its phase, layer and name; whoever wants to may time it.
Watch = Callable[[str, int, str], AbstractContextManager[object]]

LAYERS, TOKENS, WIDTH = 4, 96, 16
WARMUP, TIMED = 3, 30
# How far back the heads look, in tokens.
REACHES = (4, 8, 16, 32, 64, 128)


def causal_mask() -> list[list[float]]:
    """How much a token looks at the ones before it, over all heads: the further, the less."""
    mask = [[0.0] * TOKENS for _ in range(TOKENS)]
    for reach in REACHES:
        for token, row in enumerate(mask):
            for seen in range(token + 1):
                row[seen] += exp((seen - token) / reach)
    return mask


class Model:
    """Makes its mask wherever it needs it: the cache of the base is lost."""

    def __init__(self) -> None:
        self.hidden = [[0.01 * (token + unit) for unit in range(WIDTH)] for token in range(TOKENS)]

    def step(self, watch: Watch) -> float:
        """One step; its loss."""
        for layer in range(LAYERS):
            with watch("forward", layer, "causal_mask"):
                mask = causal_mask()
            with watch("forward", layer, "attention"):
                scores = [sum(row) for row in self.hidden]
                mixed = [sum(map(mul, row, scores)) for row in mask]
            with watch("forward", layer, "mlp"):
                out = [max(0.0, value) * 0.5 for value in mixed for _ in range(WIDTH)]
        for layer in reversed(range(LAYERS)):
            with watch("backward", layer, "attention"):
                grads = [sum(map(mul, row, out)) for row in mask]
                grads = [sum(map(mul, row, grads)) for row in mask]
            with watch("backward", layer, "mlp"):
                out = [grad * 0.5 for grad in grads for _ in range(WIDTH)]
                out = [value * 0.5 for value in out]
        return sum(out) / len(out)


def train() -> None:
    """Some steps, timed without a profiler."""
    model = Model()
    with Recorder(tokens_per_step=TOKENS, warmup_steps=WARMUP) as recorder:
        for _ in range(WARMUP + TIMED):
            with recorder.step():
                loss = model.step(lambda *_names: nullcontext())
        recorder.loss(loss)


def profile(folder: Path) -> None:
    """The same steps with every piece timed, as a profile that ci-score reads.

    The toy is plain Python in one thread and waits for nothing, so that its processor time is its
    work, whoever else is busy here. Of a program that waits for a device it would say nothing.
    """
    took: dict[tuple[str, int, str], list[float]] = defaultdict(list)

    @contextmanager
    def watch(phase: str, layer: int, name: str) -> Iterator[None]:
        begin = time.process_time()
        yield
        took[phase, layer, name].append((time.process_time() - begin) * 1000)

    model, steps = Model(), []
    for _ in range(WARMUP + TIMED):
        begin = time.process_time()
        model.step(watch)
        steps.append((time.process_time() - begin) * 1000)
    # The fastest of its times: a profile explains, and what else the machine did is no part of it.
    fastest = {key: min(times[WARMUP:]) for key, times in took.items()}
    step_ms = min(steps[WARMUP:])

    def of(phase: str, layer: int | None = None) -> float:
        """Milliseconds of a phase, or of a layer in it."""
        pieces = ((one, at, ms) for (one, at, _), ms in fastest.items())
        return sum(ms for one, at, ms in pieces if one == phase and layer in (None, at))

    phases = {
        phase: {"total_ms": of(phase), "pct": 100 * of(phase) / step_ms, "avg_ms": of(phase)}
        for phase in ("forward", "backward")
    }
    layers = [
        {
            "layer": layer,
            "fwd_ms": of("forward", layer),
            "bwd_ms": of("backward", layer),
            "ops": {
                f"{name}_{phase}": ms for (phase, at, name), ms in fastest.items() if at == layer
            },
        }
        for layer in range(LAYERS)
    ]
    told = {
        "steps": TIMED,
        "avg_step_ms": step_ms,
        "wall_coverage": min(1.0, sum(fastest.values()) / step_ms),
        "tokens_per_step": TOKENS,
        "phases": phases,
        "per_layer": layers,
    }
    (folder / "profile.json").write_text(json.dumps(told), encoding="utf-8")


# `ci-score ab` lets each side run once more after the timing, and then says where a profile goes.
if asked := os.environ.get("CI_SCORE_PROFILE_DIR"):
    profile(Path(asked))
else:
    train()
