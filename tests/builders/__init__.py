"""Small inputs for tests; a test passes only the values that it is about."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ci_score.model.environment import Environment
from ci_score.model.explanation import OpDetail
from ci_score.model.profile import Layer, OpPlace, Phase, Profile
from ci_score.model.record import BaselineUsed, Judged, Measured, Record
from ci_score.model.scorecard import Grade, ParityProfile, Scorecard
from ci_score.model.stages import BaselineFound
from ci_score.model.step_ops import StepOps, step_ops_of

PROJECT = Path(__file__).parents[2]


def shared() -> Path | None:
    """The folder of golden cases and samples beside the clone, if it exists."""
    named = os.environ.get("CI_SCORE_SHARED")
    folder = Path(named) if named else PROJECT.parent / "shared"
    return folder if (folder / "golden").is_dir() else None


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits for what another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def phase(total_ms: float = 10.0, pct: float = 10.0) -> Phase:
    return Phase(total_ms=total_ms, pct=pct, avg_ms=total_ms)


def layer(number: int = 0, fwd_ms: float = 1.0, bwd_ms: float = 2.0, **ops: float) -> Layer:
    return Layer(layer=number, fwd_ms=fwd_ms, bwd_ms=bwd_ms, ops=ops)


def profile(step_ms: float = 100.0, **fields: Any) -> Profile:
    defaults: dict[str, Any] = {
        "steps": 10,
        "wall_coverage": 0.95,
        "phases": {"forward": phase(30.0, 30.0), "backward": phase(65.0, 65.0)},
        "per_layer": (layer(0, qkv=1.0, mlp=2.0), layer(1, qkv=1.0, mlp=2.0)),
    }
    return Profile(avg_step_ms=step_ms, **{**defaults, **fields})


def scorecard(step_ms: float = 100.0, tok_s: float = 1000.0, **fields: Any) -> Scorecard:
    grade: Grade = "B"
    defaults: dict[str, Any] = {
        "grade": grade,
        "efficiency": 0.45,
        "bottleneck": "memory_bw",
        "forward_backward_ratio": 2.0,
        "wall_coverage": 0.95,
    }
    return Scorecard(step_time_ms=step_ms, throughput_tok_s=tok_s, **{**defaults, **fields})


def step_ops(
    ops: Mapping[str, float], op_details: Mapping[str, OpDetail] | None = None, left_out: int = 0
) -> StepOps:
    """Ops with what is known of them; their phases become places."""
    details = op_details or {}
    places = [
        OpPlace(op=name, phase=phase, count=work.count, ms=work.ms)
        for name, detail in details.items()
        for phase, work in detail.phases.items()
    ]
    return step_ops_of(ops, details, places).but(left_out=left_out)


def case(
    name: str = "training",
    card: Scorecard | None = None,
    ops: Mapping[str, float] | None = None,
    op_details: Mapping[str, OpDetail] | None = None,
    **fields: Any,
) -> Judged:
    if ops is not None:
        fields["step_ops"] = step_ops(ops, op_details)
    return Judged(name=name, scorecard=card or scorecard(), **fields)


def record(*cases: Measured, created_at: str = "2026-01-02T03:04:05Z", **fields: Any) -> Record:
    described = Record.describing(cases or (case(),))
    return described.but(ci_score_version="0.1.0", created_at=created_at, **fields)


def found(base: Measured) -> BaselineFound:
    return BaselineFound(base, BaselineUsed(source="base.json", commit="b" * 40))


def on(accelerator: str | None, count: int | None = None) -> Environment:
    return Environment(accelerator=accelerator, accelerator_count=count)


def runtime(name: str = "ours", **ops: float) -> ParityProfile:
    return ParityProfile(
        runtime=name,
        throughput_tok_s=1000.0,
        step_time_ms=100.0,
        kernel_launches_per_step=200,
        ops=ops,
    )
