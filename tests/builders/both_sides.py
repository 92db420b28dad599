"""Cases whose record has the ops of both sides, with their kinds, phases and layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ci_score.model.explanation import COMPUTE, IDLE_WORDS, Explanation, OpDetail, Part
from ci_score.model.profile import OpPlace
from ci_score.model.record import Judged
from ci_score.model.step_ops import BaseSide, StepOps, step_ops_of
from tests.builders import case, scorecard

KINDS = {"gemm": "gemm", "send": "comm", "gelu": "elementwise", "old": "copy", "fused": "gemm"}
FULL_NAME = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def at(op: str, ms: float, phase: str | None = "forward", **fields: int) -> OpPlace:
    """What an op takes in a phase, seven launches if nothing else is said."""
    return OpPlace(op=op, phase=phase, ms=ms, **{"count": 7, **fields})


def side(
    places: Iterable[OpPlace],
    kinds: Mapping[str, str] | None = None,
    whole: Mapping[str, float] | None = None,
) -> StepOps:
    """The ops of one side; `whole` are their times where they are more than their places."""
    known = list(places)
    times: dict[str, float] = {}
    counts: dict[str, float] = {}
    for one in known:
        times[one.op] = times.get(one.op, 0.0) + one.ms
        counts[one.op] = counts.get(one.op, 0.0) + (one.count or 0.0)
    times.update(whole or {})
    named = KINDS if kinds is None else kinds
    details = {op: OpDetail(kind=named.get(op, ""), count=counts.get(op)) for op in times}
    return step_ops_of(times, details, known)


def compared(head: StepOps, base: StepOps | None = None, **fields: Any) -> Judged:
    """A case with the ops of both sides, or of the head alone."""
    if base is not None:
        fields = {"base": BaseSide(step_ops=base), "explanation": explained(), **fields}
    return case(card=scorecard(106.0), step_ops=head, **fields)


def explained() -> Explanation:
    """A step that is 28 ms longer, part of it because the device waits for data."""
    return Explanation(
        basis="device",
        base_step_ms=78.0,
        head_step_ms=106.0,
        parts=(
            Part(name=COMPUTE, base_ms=70.0, head_ms=90.0),
            Part(name=IDLE_WORDS["data"], base_ms=8.0, head_ms=16.0),
        ),
    )


def slower() -> Judged:
    """An op takes longer in one phase, one is new, one is gone, and one is as it was."""
    base = side(
        [
            at("gemm", 20.0, layer=0),
            at("gemm", 20.0, layer=1),
            at("gemm", 10.0, "backward", layer=0),
            at("send", 20.0, "backward"),
            at(FULL_NAME, 6.0),
            at("old", 3.0),
        ]
    )
    head = side(
        [
            at("gemm", 20.0, layer=0),
            at("gemm", 20.1, layer=1),
            at("gemm", 10.0, "backward", layer=0),
            at("send", 50.0, "backward", count=9),
            at(FULL_NAME, 5.0),
            at("fused", 10.9, layer=1),
        ]
    )
    return compared(head, base)
