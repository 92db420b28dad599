"""What explains it: the same steps with every piece timed, as a profile that ci-score reads.

The toy is plain Python in one thread and waits for nothing, so that its processor time is its work,
whoever else is busy here. Of a program that waits for a device it would say nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from model import LAYERS, TOKENS, Model

WARMUP, TIMED = 3, 40
Key = tuple[str, int, str]
took: dict[Key, list[float]] = defaultdict(list)


@contextmanager
def watch(phase: str, layer: int, name: str) -> Iterator[None]:
    """Times a piece of a step."""
    begin = time.process_time()
    yield
    took[phase, layer, name].append((time.process_time() - begin) * 1000)


model, steps = Model(), []
for _ in range(WARMUP + TIMED):
    begin = time.process_time()
    model.step(watch)
    steps.append((time.process_time() - begin) * 1000)

# The fastest of its times: a profile explains, and what else the machine did is no part of that.
fastest = {key: min(times[WARMUP:]) for key, times in took.items()}
step_ms = min(steps[WARMUP:])


def of(phase: str, layer: int | None = None) -> float:
    """Milliseconds of a phase, or of a layer in it."""
    return sum(
        ms for (one, number, _), ms in fastest.items() if one == phase and layer in (None, number)
    )


profile = {
    "steps": TIMED,
    "avg_step_ms": step_ms,
    "wall_coverage": min(1.0, sum(fastest.values()) / step_ms),
    "tokens_per_step": TOKENS,
    "phases": {
        phase: {"total_ms": of(phase), "pct": 100 * of(phase) / step_ms, "avg_ms": of(phase)}
        for phase in ("forward", "backward")
    },
    "per_layer": [
        {
            "layer": layer,
            "fwd_ms": of("forward", layer),
            "bwd_ms": of("backward", layer),
            "ops": {
                f"{name}_{phase}": ms
                for (phase, number, name), ms in fastest.items()
                if number == layer
            },
        }
        for layer in range(LAYERS)
    ],
}
folder = Path(os.environ.get("CI_SCORE_PROFILE_DIR", "profiles"))
folder.mkdir(parents=True, exist_ok=True)
(folder / "profile.json").write_text(json.dumps(profile), encoding="utf-8")
