"""Cases in which somebody differs: one rank of many, some layers of many, some launches of many."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from ci_score.compare import Workload, measured_case
from ci_score.model.metrics import STEP_TIME
from ci_score.model.profile import Layer, OpPlace, Profile, RankWork
from ci_score.model.record import BaselineUsed, Judged, LaunchNumbers
from ci_score.model.stages import BaselineFound, CaseInput
from ci_score.model.values import Side
from ci_score.model.verdict import Change, JudgedBy, Outcome
from tests.builders import case, phase
from tests.builders.verdicts import judged_case

Works = Iterable[RankWork]
GEMM, ADAM = "ampere_sgemm_128x64_nn", "multi_tensor_apply_kernel<adam>"


def works(compute: Sequence[float], step_ms: float, **fields: float | None) -> tuple[RankWork, ...]:
    """A rank for each time of compute; what is left of the step is mostly communication."""
    return tuple(
        RankWork(
            rank=rank,
            step_ms=step_ms,
            **{
                "busy_ms": step_ms - 4.0,
                "compute_ms": ms,
                "exposed_communication_ms": step_ms - ms - 5.0,
                "peak_memory_gb": 60.0,
                **fields,
            },
        )
        for rank, ms in enumerate(compute)
    )


def times(count: int, usual_ms: float, slow: Mapping[int, float] | None = None) -> list[float]:
    """Compute of so many ranks, which differ by little; some are slow."""
    noise = random.Random(count)  # noqa: S311 - no secret
    return [(slow or {}).get(rank, usual_ms + noise.uniform(-0.4, 0.4)) for rank in range(count)]


def ranked(head: Works, base: Works, *, name: str = "training") -> Judged:
    """A job of several ranks beside its baseline; its step is that of the slowest rank."""
    now, before = (_of_ranks(name, tuple(side)) for side in (head, base))
    return judged_case(now, _found(before))


def _of_ranks(name: str, ranks: tuple[RankWork, ...]) -> Judged:
    longest = max(ranks, key=lambda work: work.compute_ms or 0.0)
    compute = longest.compute_ms or 0.0
    profile = Profile(
        steps=3,
        avg_step_ms=max(work.step_ms for work in ranks),
        device_busy_ms=longest.busy_ms,
        compute_ms=compute,
        exposed_communication_ms=longest.exposed_communication_ms,
        ops={GEMM: compute},
        op_kinds={GEMM: "gemm"},
        op_categories={"gemm": compute},
        ranks=ranks,
    )
    return Judged.of(measured_case(CaseInput(name, profile), Workload()))


def layered(
    layers: int = 128,
    grown: Mapping[int, float] | None = None,
    *,
    phases: Sequence[str] = ("forward", "backward"),
    optimizer_ms: float = 0.0,
    has_places: bool = True,
    **fields: object,
) -> Judged:
    """A model whose layers grew in the last phase, with an optimizer outside of all of them."""
    head = _of_layers(layers, grown or {}, phases, 8.0 + optimizer_ms, has_places=has_places)
    base = _of_layers(layers, {}, phases, 8.0, has_places=has_places)
    return judged_case(head.but(**fields), _found(base))


def _of_layers(
    layers: int,
    grown: Mapping[int, float],
    phases: Sequence[str],
    optimizer_ms: float,
    *,
    has_places: bool,
) -> Judged:
    places = [
        OpPlace(op=GEMM, phase=name, layer=layer, ms=1.0 + _more(grown, layer, name == phases[-1]))
        for name in phases
        for layer in range(layers)
    ]
    outside = OpPlace(op=ADAM, phase="optimizer", ms=optimizer_ms)
    gemm_ms = sum(place.ms for place in places)
    profile = Profile(
        steps=3,
        avg_step_ms=gemm_ms + optimizer_ms + 2.0,
        ops={GEMM: gemm_ms, ADAM: optimizer_ms},
        op_kinds={GEMM: "gemm", ADAM: "optimizer"},
        op_counts={GEMM: 2.0 * layers, ADAM: 1.0},
        op_places=(*places, outside) if has_places else (),
        phases={name: phase(float(layers)) for name in (*phases, "optimizer")},
        per_layer=tuple(
            Layer(layer=layer, fwd_ms=1.0, bwd_ms=1.0 + grown.get(layer, 0.0), ops={GEMM: 2.0})
            for layer in range(layers)
        ),
    )
    return Judged.of(measured_case(CaseInput("training", profile), Workload()))


def _more(grown: Mapping[int, float], layer: int, is_last: bool) -> float:
    return grown.get(layer, 0.0) if is_last else 0.0


def launched(
    base: Sequence[float], head: Sequence[float], *, void: int = 0, **fields: object
) -> Judged:
    """A case with launches of both sides, and with some of the head that measured nothing."""
    change = Change(
        metric=STEP_TIME,
        base=base[0] if base else 100.0,
        head=head[0],
        **{
            "delta": 0.09,
            "gated": True,
            "warn_limit": 0.05,
            "fail_limit": 0.10,
            "low": 0.072,
            "high": 0.108,
            "judged_by": JudgedBy.PAIRED,
            "samples": len(head),
            "outcome": Outcome.WARN,
            **fields,
        },
    )
    numbers = [_launch("base", place, ms) for place, ms in enumerate(base)]
    numbers += [_launch("head", place, ms) for place, ms in enumerate(head)]
    empty = [
        LaunchNumbers(side="head", launch=len(head) + place, void=True, values={})
        for place in range(void)
    ]
    return case(launches=(*numbers, *empty), changes=(change,))


def _launch(side: Side, number: int, ms: float) -> LaunchNumbers:
    return LaunchNumbers(side=side, launch=number, values={STEP_TIME: ms})


def _found(base: Judged) -> BaselineFound:
    return BaselineFound(base, BaselineUsed(source="base.json"))
