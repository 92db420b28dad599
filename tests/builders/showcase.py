"""Large, realistic reports, for tests in a browser and for the README's pictures.

Their noise has fixed seeds, so that the pictures stay the same.
"""

from __future__ import annotations

import hashlib
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from ci_score.baselines import FolderBaselines
from ci_score.cli.demo import CASE, MAIN_COMMIT, PULL_REQUEST_COMMIT, WORKLOAD, sample
from ci_score.compare import measured_case
from ci_score.model.environment import AskedOption, Environment
from ci_score.model.explanation import OpDetail
from ci_score.model.metrics import MEMORY, STEP_TIME, THROUGHPUT
from ci_score.model.profile import OpOrigin, OpPlace, Profile, op_totals
from ci_score.model.record import (
    BaselineUsed,
    HistoryPoint,
    Judged,
    LaunchNumbers,
    Record,
    RunIdentity,
)
from ci_score.model.scorecard import LayerSummary, ParityProfile
from ci_score.model.stages import CaseInput
from ci_score.model.step_ops import BaseSide, StepOps, remembered, step_ops_of
from ci_score.model.values import four_digits
from ci_score.model.verdict import Change, JudgedBy, Outcome, Verdict
from ci_score.run.story import Job, run
from tests.builders import case, record, scorecard
from tests.builders.verdicts import policy_file

TOKENS = 8192.0
MACHINE = Environment(
    accelerator="L4",
    accelerator_count=1,
    timing="unprofiled",
    versions={"torch": "2.9.1", "cuda": "12.8", "driver": "570.86", "python": "3.12.8"},
)
POLICY = {
    "schema": 1,
    "rules": "training",
    "metrics": {"throughput_tok_s": {"gate": True, "warn": "3%", "fail": "5%"}},
}
NOW = "2026-02-18T09:30:00Z"
Side = Literal["head", "base"]


def slow_pull_request() -> Record:
    """The demo's pull request, measured in pairs, on a branch that has a history."""
    base_launches, head_launches = launches("base", 301.0), launches("head", 379.0)
    base, head = profiled("main.json", base_launches), profiled("pull_request.json", head_launches)
    before = record(
        measured_case(CaseInput(CASE, base, launches=base_launches), WORKLOAD).but(
            environment=MACHINE
        ),
        commit=MAIN_COMMIT,
        run=RunIdentity(number=912),
        history=history(CASE, 301.0, 120),
        rules="training",
    )
    read = CaseInput(
        CASE,
        head,
        launches=head_launches,
        environment=MACHINE.but(asked=(AskedOption(option="--base", value=MAIN_COMMIT[:12]),)),
        base=CaseInput(CASE, base, launches=base_launches, environment=MACHINE),
        partner=ParityProfile(
            runtime="eager",
            throughput_tok_s=25_100.0,
            step_time_ms=326.0,
            kernel_launches_per_step=2900,
            ops={
                name: ms * factor
                for (name, ms), factor in zip(
                    op_totals(head.per_layer).items(),
                    (0.98, 1.04, 0.9, 0.7, 0.12) * 3,
                    strict=False,
                )
            },
        ),
    )
    store = FolderBaselines.of_records([("ci-score.json", before)], asking=record(commit="f" * 40))
    return run(
        Job(
            cases=(read,),
            workload=WORKLOAD,
            policy=policy_file(rules="training"),
            commit=PULL_REQUEST_COMMIT,
            run=RunIdentity(number=918),
        ),
        baselines=store,
        publish=lambda _record: None,
        now=lambda: NOW,
    )


def profiled(name: str, measured: Sequence[LaunchNumbers]) -> Profile:
    """A sample of the demo with the data of a device's trace, beside unprofiled step times."""
    plain = sample(name)
    ops = op_totals(plain.per_layer)
    is_slow = name != "main.json"
    kinds = {op: kind_of(op) for op in ops}
    counts = {op: 24.0 * (3 if is_slow and op == "swiglu_bwd" else 1) for op in ops}
    places = tuple(
        OpPlace(op=op, phase=phase, count=counts[op], ms=ms)
        for phase in ("forward", "backward")
        for op, ms in ops.items()
        if of_phase(op, phase)
    )
    categories: dict[str, float] = {}
    for op, ms in ops.items():
        categories[kinds[op]] = categories.get(kinds[op], 0.0) + ms
    idle_ms = 14.0 if is_slow else 10.5
    return plain.but(
        avg_step_ms=statistics.median(one.values[STEP_TIME] for one in measured),
        profiled_step_ms=plain.avg_step_ms,
        ops=ops,
        op_kinds=kinds,
        op_counts=counts,
        op_places=places,
        op_categories=categories,
        device_busy_ms=plain.avg_step_ms - idle_ms,
        compute_ms=plain.avg_step_ms - idle_ms - 1.5,
        communication_ms=0.0,
        exposed_communication_ms=0.0,
        idle_causes={"data": 1.1, "launching": idle_ms - 3.0},
        kernel_launches_per_step=3030.0 if is_slow else 2980.0,
        peak_memory_gb=19.4 if is_slow else 18.9,
    )


def kind_of(op: str) -> str:
    return "gemm" if "gemm" in op else "attention" if "attention" in op else "elementwise"


def of_phase(op: str, phase: str) -> bool:
    return op.endswith("_bwd") == (phase == "backward")


def launches(side: Side, step_ms: float, count: int = 12) -> tuple[LaunchNumbers, ...]:
    """Launches with noise; both sides of a pair share part of it, as on one machine."""
    shared, own = random.Random(7), random.Random(side)  # noqa: S311 - no secret
    times = [step_ms * (1 + shared.gauss(0, 0.006) + own.gauss(0, 0.005)) for _ in range(count)]
    return tuple(
        LaunchNumbers(
            side=side,
            launch=number,
            values={STEP_TIME: ms, THROUGHPUT: TOKENS / ms * 1000.0, MEMORY: 18.9},
        )
        for number, ms in enumerate(times)
    )


def history(name: str, step_ms: float, runs: int, seed: int = 11) -> tuple[HistoryPoint, ...]:
    """Runs of the branch, one per day; after three quarters a change makes them 4 % slower."""
    noise = random.Random(seed)  # noqa: S311 - no secret
    points = []
    for number in range(runs):
        level = step_ms / 1.04 if number < runs * 3 // 4 else step_ms
        ms = level * (1 + noise.gauss(0, 0.004))
        day = number * 365 // max(runs, 365) if runs > 365 else number
        points.append(
            HistoryPoint(
                case=name,
                commit=hashlib.sha1(f"{name} {number}".encode()).hexdigest(),  # noqa: S324 - a name
                run=RunIdentity(number=800 + number),
                created_at=f"2025-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}T04:23:00Z",
                step_time_ms=ms,
                throughput_tok_s=TOKENS / ms * 1000.0,
                environment=MACHINE.but(versions={}),
                outcome=Outcome.PASS,
            )
        )
    return tuple(points)


def large(cases: int = 64, layers: int = 128, runs: int = 200) -> Record:
    """The record of a large matrix of models and machines, with every list at its longest."""
    names = [f"model-{number:02d}@h100" for number in range(cases)]
    outcomes = [Outcome.FAIL, Outcome.WARN, Outcome.INCONCLUSIVE, *[Outcome.PASS] * 13]
    judged = []
    for number, name in enumerate(names):
        summary = [
            LayerSummary(
                layer=place,
                fwd_ms=3.0 + (place * 31 + number) % 97 / 100,
                bwd_ms=7.0 + (place * 17 + number) % 89 / 50,
                ratio=2.3 + place / 1000,
                top_op=f"gate_up_gemm_bwd_{place % 7}",
                top_op_pct=20.0 + place / 10,
            )
            for place in range(layers)
        ]
        ops = {
            f"ampere_bf16_s16816gemm_128x{size}_ldg8_stages_{size % 5}": 90.0 / (size + 1)
            for size in range(64)
        }
        outcome = outcomes[number % len(outcomes)]
        delta = 0.004 if outcome is Outcome.PASS else 0.08
        changes = [
            Change(
                metric=metric,
                base=300.0,
                head=300.0 * (1 + delta),
                delta=delta,
                gated=True,
                warn_limit=0.03,
                fail_limit=0.05,
                low=delta - 0.003,
                high=delta + 0.003,
                judged_by=JudgedBy.PAIRED,
                samples=20,
                outcome=outcome,
            )
            for metric in (STEP_TIME, MEMORY)
        ]
        judged.append(
            case(
                name,
                scorecard(300.0 * (1 + delta), 27_000.0 + number, per_layer_summary=tuple(summary)),
                environment=MACHINE,
                ops=ops,
                phases={"forward": 84.0, "backward": 180.0, "optimizer": 18.0},
                changes=changes,
                verdict=Verdict(outcome=outcome, headline=f"Step time {delta:+.1%} of {name}"),
            )
        )
    points = [
        point
        for number, name in enumerate(names)
        for point in history(name, 300.0 + number, runs, seed=number)
    ]
    return record(*judged, history=tuple(points), commit="a" * 40)


def deep(layers: int = 128, ops: int = 200, cases: int = 1) -> Record:
    """Both sides of large models, with every op in every layer of two phases."""
    judged = [_deep(f"llama-{number:02d}@h100", layers, ops, number) for number in range(cases)]
    return record(
        *judged,
        commit="a" * 40,
        repository="https://github.com/octocat/train",
        pull=12,
        run=RunIdentity(number=918, id=88130),
    )


def _deep(name: str, layers: int, ops: int, number: int) -> Judged:
    head, base = (_deep_ops(layers, ops, number, is_head) for is_head in (True, False))
    delta = head.in_all_ms / base.in_all_ms - 1
    outcome = Outcome.PASS if number % 5 else Outcome.FAIL
    change = Change(
        metric=STEP_TIME, base=base.in_all_ms, head=head.in_all_ms, delta=delta, gated=True,
        warn_limit=0.03, fail_limit=0.05, low=delta - 0.003, high=delta + 0.003,
        judged_by=JudgedBy.PAIRED, samples=20, outcome=outcome,
    )  # fmt: skip
    return case(
        name,
        scorecard(head.in_all_ms, 27_000.0 + number),
        environment=MACHINE,
        step_ops=head,
        base=BaseSide(step_ops=base),
        baseline=BaselineUsed(
            source="ci-score.json", commit=MAIN_COMMIT, run=RunIdentity(number=917, id=88123)
        ),
        changes=(change,),
        verdict=Verdict(outcome=outcome),
    )


def _deep_ops(layers: int, ops: int, number: int, is_head: bool) -> StepOps:
    """Names as long as real ones; every seventh op is slower now, every eleventh faster."""
    kinds = ("gemm", "attention", "elementwise", "norm", "comm")
    names = [
        f"void at::native::vectorized_elementwise_kernel<{place}, at::native::{kinds[place % 5]}"
        f"_functor_{place}<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::"
        f"{kinds[place % 5]}_functor_{place}<c10::BFloat16>, std::array<char*, 3ul>)"
        for place in range(ops)
    ]
    places = []
    for op, name in enumerate(names):
        factor = 1.3 if op % 7 == 0 else 0.9 if op % 11 == 0 else 1.001
        for layer in range(layers):
            ms = (1 + (op * 31 + layer * 17 + number) % 97 / 50) / (op + 4)
            ms *= factor if is_head else 1.0
            for phase, share in (("forward", 1.0), ("backward", 2.0)):
                places.append(OpPlace(op=name, phase=phase, layer=layer, count=4, ms=share * ms))
    times = dict.fromkeys(names, 0.0)
    counts = dict.fromkeys(names, 0.0)
    for each in places:
        times[each.op] += each.ms
        counts[each.op] += each.count or 0.0
    details = {
        name: OpDetail(kind=kinds[place % 5], count=counts[name])
        for place, name in enumerate(names)
    }
    return step_ops_of(times, details, places)


def both_sides(left_out: int = 0) -> Record:
    """Ops of each kind of change, in two phases and three layers, with times of every size."""
    kernel = (
        "void at::native::vectorized_elementwise_kernel<4, {}<float>, std::array<char*, 3ul> >(int)"
    )
    times = {
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": (9.5, 21.25),
        "void softmax_warp_forward<float, float, float, 10, false, false>(float*, int)": (
            4.125,
            3.0,
        ),
        "void cunn_SoftMaxForward<8, float, float, float>(float*, float const*, int)": (2.0, 2.01),
        "triton_poi_fused_add_mul_7": (0.8755, 0.9),
        kernel.format("AddFunctor"): (0.0, 1.0005),
        kernel.format("MulFunctor"): (1.5, 0.0),
        **{kernel.format(f"Functor{n}"): (0.2 * 1.9**n, 0.212 * 1.9**n) for n in range(13)},
        "aten::copy_": (0.0625, 0.1875),
        "=HYPERLINK(1)": (0.3, 0.4),
    }
    head = _sided({name: ms for name, (_, ms) in times.items() if ms})
    before = {name: ms for name, (ms, _) in times.items() if ms}
    renamed = "triton_poi_fused_add_mul_7"
    before["triton_poi_fused_mul_add_3"] = before.pop(renamed)
    base = _sided(before).but(left_out=left_out, left_out_ms=0.01 * left_out)
    return deep(1, 1).but(
        cases=(
            deep(1, 1)
            .cases[0]
            .but(
                step_ops=head,
                base=BaseSide(step_ops=base, called={renamed: "triton_poi_fused_mul_add_3"}),
            ),
        )
    )


def with_op_history(left: Record, runs: int = 12) -> Record:
    """The record on a branch that has remembered the largest ops of each case in so many runs.

    Only those beyond 5 ms vary by more than a change.
    """
    noise = random.Random(5)  # noqa: S311 - no secret
    points = []
    for measured in left.cases:
        kept = remembered((measured.base or measured).step_ops)
        points += [
            point.but(
                environment=measured.environment.but(versions={}),
                ops={
                    key: four_digits(ms * (1 + noise.uniform(-1, 1) * (0.03 if ms > 5 else 0.002)))
                    for key, ms in kept.items()
                },
            )
            for point in history(measured.name, measured.scorecard.step_time_ms, runs)
        ]
    return left.but(history=tuple(points))


def _sided(times: Mapping[str, float]) -> StepOps:
    details = {
        name: OpDetail(
            kind="gemm" if "gemm" in name else "elementwise" if "kernel" in name else "",
            count=float(place % 5 + 1) if place % 4 else 1.5,
            origin=OpOrigin(op="aten::softmax", module="Attention") if "oft" in name else None,
        )
        for place, name in enumerate(times)
    }
    places = [
        OpPlace(op=name, phase=phase, layer=layer, direction=phase, count=1, ms=share * ms)
        for name, ms in times.items()
        for phase, layer, share in (
            ("forward", 0, 0.25),
            ("forward", 1, 0.25),
            ("backward", 1, 0.5),
        )
    ]
    return step_ops_of(times, details, places)
