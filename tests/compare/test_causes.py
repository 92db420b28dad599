"""The one sentence: each rule with its evidence, and silence without it."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.compare import Workload, measured_case
from ci_score.compare.causes import with_causes
from ci_score.compare.changes import contributions
from ci_score.compare.explanation import explain
from ci_score.model.explanation import Explanation, Timeline
from ci_score.model.profile import Layer, OpOrigin, OpPlace, OpWork, Profile, RankWork
from ci_score.model.record import Measured
from ci_score.model.scorecard import LayerSummary
from ci_score.model.stages import CaseInput
from ci_score.report.headlines import cause_words
from ci_score.report.sentences import sentence as report_sentence
from tests.builders import phase

ADDED = "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>"
GEMM = "ampere_sgemm_128x64_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"
COPY = "void at::native::unrolled_elementwise_kernel<direct_copy>"
FUSED = "triton_poi_fused_add_mul_0"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>"
Ops = dict[str, tuple[str, float, float]]


def side(
    ops: Ops | None = None,
    *,
    exposed: float = 0.0,
    copies: float = 0.0,
    idle: float = 5.0,
    causes: dict[str, float] | None = None,
    layers: dict[int, float] | None = None,
    phases: dict[str, dict[str, OpWork]] | None = None,
    **fields: Any,
) -> Measured:
    """A step with these ops (kind, launches, ms); its compute is what they take together."""
    ops = ops or {GEMM: ("gemm", 10, 80.0)}
    categories: dict[str, float] = {}
    for kind, _, ms in ops.values():
        categories[kind] = categories.get(kind, 0.0) + ms
    compute = sum(ms for kind, ms in categories.items() if kind not in ("comm", "memcpy"))
    busy = compute + exposed + copies
    totals = {
        name: phase(sum(work.ms for work in works.values()))
        for name, works in (phases or {}).items()
    }
    profile = Profile(
        steps=3,
        avg_step_ms=busy + idle,
        device_busy_ms=busy,
        compute_ms=compute,
        exposed_communication_ms=exposed,
        idle_causes=causes or {},
        ops={name: ms for name, (_, _, ms) in ops.items()},
        op_counts={name: count for name, (_, count, _) in ops.items()},
        op_kinds={name: kind for name, (kind, _, _) in ops.items()},
        op_categories=categories,
        op_places=tuple(
            OpPlace(op=name, phase=of, count=work.count, ms=work.ms)
            for of, works in (phases or {}).items()
            for name, work in works.items()
        ),
        phases=totals,
        per_layer=tuple(
            Layer(layer=number, fwd_ms=1.0, bwd_ms=ms) for number, ms in (layers or {}).items()
        ),
        **fields,
    )
    return measured_case(CaseInput("training", profile), Workload())


def told(head: Measured, base: Measured) -> Explanation:
    found = explain(head, base)
    assert found is not None
    return with_causes(found, head, base, contributions(head, base))


def counts_words(found: Explanation) -> str:
    assert found.counts_cause is not None
    return report_sentence(found.counts_cause)


def sentence(head: Measured, base: Measured) -> str:
    return cause_words(told(head, base))


# --- compute ------------------------------------------------------------------------------------


def test_fusion__that_was_lost_is_named_with_its_place_and_launches() -> None:
    """The fused kernel is gone, three small ones run for each of it."""
    rest: Ops = {GEMM: ("gemm", 96, 60.0)}
    base = side({**rest, FUSED: ("elementwise", 196, 9.8)}, layers=dict.fromkeys(range(24), 2.0))
    head = side(
        {
            **rest,
            ADD: ("elementwise", 196, 9.0),
            MUL: ("elementwise", 196, 9.0),
            COPY: ("copy", 196, 9.0),
        },
        layers=dict.fromkeys(range(24), 3.0),
    )
    found = told(head, base)
    assert cause_words(found) == (
        "a fusion was lost in the backward of layers 0–23: launches 196 → 588 (+17.2 ms)"
    )
    assert counts_words(found) == (
        "a fusion was lost in the backward of layers 0–23: launches 196 → 588"
    )


def test_fusion__of_attention_says_what_does_its_work_now() -> None:
    """Without its own kernel attention is products and softmax."""
    rest: Ops = {"norm": ("norm", 24, 60.0)}
    base = side({**rest, FLASH: ("attention", 24, 12.0)})
    head = side(
        {
            **rest,
            "bmm": ("gemm", 48, 20.0),
            "softmax_warp": ("softmax_loss", 24, 11.0),
            MUL: ("elementwise", 24, 5.0),
        }
    )
    assert sentence(head, base) == (
        "the fused attention 'flash_fwd_kernel<…64…>' is gone and matrix product, softmax and loss"
        " and elementwise kernels do its work: launches 24 → 96 (+24.0 ms)"
    )


def test_fusion__is_none_where_the_new_kernels_take_longer_each() -> None:
    """Slower kernels in place of quicker ones are no lost fusion."""
    base = side({GEMM: ("gemm", 96, 60.0), FUSED: ("elementwise", 10, 1.0)})
    head = side({GEMM: ("gemm", 96, 60.0), "norm": ("norm", 20, 30.0)})
    assert sentence(head, base) == "'norm' is new, 20 launches a step (+30.0 ms)"


def test_op__that_runs_more_often() -> None:
    """The same time for each, four times as many."""
    base = side({GEMM: ("gemm", 96, 60.0), ADD: ("elementwise", 50, 5.0)})
    head = side({GEMM: ("gemm", 96, 60.0), ADD: ("elementwise", 200, 20.0)})
    assert sentence(head, base) == (f"'{ADDED}' is launched 50 → 200 times a step (+15.0 ms)")


def test_op__that_takes_longer_at_the_same_count() -> None:
    """Nothing else changed."""
    base = side({GEMM: ("gemm", 96, 60.0), "norm": ("norm", 48, 5.0)})
    head = side({GEMM: ("gemm", 96, 60.0), "norm": ("norm", 48, 15.0)})
    assert sentence(head, base) == "mostly 'norm': 3× as long (5.00 → 15.0 ms), same 48 launches"


def test_op__under_another_name_says_which_it_was() -> None:
    """Another library's kernel in the same place."""
    base = side({"a": ("norm", 1, 1.0), "xmma_gemm": ("gemm", 96, 60.0), "b": ("copy", 1, 1.0)})
    head = side({"a": ("norm", 1, 1.0), "nvjet": ("gemm", 96, 75.0), "b": ("copy", 1, 1.0)})
    assert sentence(head, base) == (
        "mostly 'nvjet' (was 'xmma_gemm'): 25 % longer (60.0 → 75.0 ms), same 96 launches"
    )


def test_op__is_placed_in_the_phase_in_which_it_grew() -> None:
    """An op of several phases that grew in one of them."""
    ops: Ops = {GEMM: ("gemm", 96, 60.0)}

    def in_phases(norm_ms: float) -> dict[str, dict[str, OpWork]]:
        return {
            "forward": {"norm": OpWork(count=24, ms=2.0), GEMM: OpWork(count=96, ms=60.0)},
            "optimizer": {"norm": OpWork(count=24, ms=norm_ms - 2.0)},
        }

    base = side({**ops, "norm": ("norm", 48, 5.0)}, phases=in_phases(5.0))
    head = side({**ops, "norm": ("norm", 48, 15.0)}, phases=in_phases(15.0))
    assert sentence(head, base) == (
        "mostly 'norm': 3× as long (5.00 → 15.0 ms), same 48 launches in phase 'optimizer'"
    )


def test_kind__where_no_single_op_is_most_of_it() -> None:
    """Five products of five shapes, each a little slower."""
    names = [f"kernel_{letter}_gemm" for letter in "abcde"]
    base = side({"norm": ("norm", 9, 50.0), **dict.fromkeys(names, ("gemm", 10, 10.0))})
    head = side({"norm": ("norm", 9, 50.0), **dict.fromkeys(names, ("gemm", 10, 13.0))})
    assert sentence(head, base) == (
        "matrix product kernels take 50.0 → 65.0 ms, same 50 launches (+15.0 ms)"
    )


def test_uniform__slowdown_points_at_the_device_and_not_at_the_code() -> None:
    """No change of code makes everything nine per cent slower."""
    kinds = ("gemm", "norm", "elementwise", "copy", "reduce")
    base = side({kind: (kind, 10, 10.0) for kind in kinds}, compute_tenths_ms=(5.0,) * 10)
    head = side({kind: (kind, 10, 10.9) for kind in kinds}, compute_tenths_ms=(5.45,) * 10)
    assert sentence(head, base) == (
        "every kernel takes about 9 % longer with the same number of launches, so look "
        "at the device's clocks and power before the code (+4.50 ms)"
    )


def slower_by_tenths(factors: tuple[float, ...], **fields: Any) -> tuple[Measured, Measured]:
    """All kinds 9 % slower, and the tenths of the step by these factors: head and base."""
    kinds = ("gemm", "norm", "elementwise", "copy", "reduce")
    base = side({kind: (kind, 10, 10.0) for kind in kinds}, compute_tenths_ms=(5.0,) * 10, **fields)
    tenths = tuple(5.0 * factor for factor in factors)
    head = side({kind: (kind, 10, 10.9) for kind in kinds}, compute_tenths_ms=tenths, **fields)
    return head, base


def test_uniform__is_not_said_where_only_a_part_of_the_step_grew() -> None:
    """A slow layer has every kind of kernels in it, and the clocks slow all layers."""
    assert "clocks" not in sentence(*slower_by_tenths((1.0,) * 8 + (1.45, 1.45)))


def test_uniform__is_not_said_where_the_course_of_the_step_is_not_known() -> None:
    """Alike in all kinds is half of the evidence."""
    assert "clocks" not in sentence(*slower_by_tenths(()))


def test_uniform__is_not_said_of_products_alone() -> None:
    """Every tenth of the step grew, because each has products."""
    ops: Ops = {GEMM: ("gemm", 96, 60.0), "norm": ("norm", 48, 20.0), ADD: ("elementwise", 9, 20.0)}
    base = side(ops, compute_tenths_ms=(10.0,) * 10)
    head = side({**ops, GEMM: ("gemm", 96, 72.0)}, compute_tenths_ms=(11.2,) * 10)
    assert sentence(head, base) == (
        "mostly 'ampere_sgemm_128x64_nn': 20 % longer (60.0 → 72.0 ms), same 96 launches"
    )


def test_layer__that_alone_is_slower_is_named() -> None:
    """Each kind of kernels is a little slower, all of it in one of eight layers."""
    kinds = ("gemm", "norm", "elementwise", "copy", "reduce")
    layers = dict.fromkeys(range(8), 6.0)
    base = side({kind: (kind, 10, 10.0) for kind in kinds}, layers=layers)
    head = side({kind: (kind, 10, 11.0) for kind in kinds}, layers=layers | {5: 11.0})
    assert sentence(head, base) == "layer 5 takes 6.00 → 11.0 ms in the backward (+5.00 ms)"


def test_layer__that_is_a_repeat_is_called_so() -> None:
    """Nobody named these layers: kernels repeat."""
    kinds = ("gemm", "norm", "elementwise", "copy", "reduce")
    layers = dict.fromkeys(range(8), 6.0)
    base = side({kind: (kind, 10, 10.0) for kind in kinds}, layers=layers, layers_are="repeats")
    ops: Ops = {kind: (kind, 10, 11.0) for kind in kinds}
    head = side(ops, layers=layers | {5: 11.0}, layers_are="repeats")
    assert sentence(head, base).startswith("repeat 5 of 8 takes 6.00 → 11.0 ms")


def test_layers__that_cover_little_of_the_time_are_not_named() -> None:
    """What lies outside of them may have grown as well."""
    base = side({GEMM: ("gemm", 8, 60.0)}, layers=dict.fromkeys(range(4), 2.0), layers_share=0.2)
    head = side({GEMM: ("gemm", 8, 70.0)}, layers=dict.fromkeys(range(4), 4.5), layers_share=0.2)
    assert "layer" not in sentence(head, base)


def test_place__has_no_direction_where_both_grew() -> None:
    """An op of the forward that runs again in the backward."""
    base = side({"norm": ("norm", 8, 20.0), GEMM: ("gemm", 9, 40.0)})
    head = side({"norm": ("norm", 8, 40.0), GEMM: ("gemm", 9, 40.0)})
    base, head = (
        case.but(
            scorecard=case.scorecard.but(
                per_layer_summary=tuple(
                    LayerSummary(layer=n, fwd_ms=ms, bwd_ms=ms, ratio=1, top_op="", top_op_pct=0)
                    for n in range(4)
                )
            )
        )
        for case, ms in ((base, 5.0), (head, 7.5))
    )
    assert sentence(head, base) == (
        "mostly 'norm': 2× as long (20.0 → 40.0 ms), same 8 launches in layers 0–3"
    )


def test_place__is_no_copy() -> None:
    """An op grew beside copies; it does not run in the phase of the copies."""
    h2d = "h2d"
    base = side(
        {"norm": ("norm", 8, 20.0), h2d: ("memcpy", 1, 1.0)}, copies=1.0,
        phases={h2d: {h2d: OpWork(count=1, ms=1.0)}},
    )  # fmt: skip
    head = side(
        {"norm": ("norm", 8, 30.0), h2d: ("memcpy", 1, 9.0)}, copies=9.0,
        phases={h2d: {h2d: OpWork(count=1, ms=9.0)}},
    )  # fmt: skip
    assert sentence(head, base) == ("mostly 'norm': 50 % longer (20.0 → 30.0 ms), same 8 launches")


def test_every_kernel__twice() -> None:
    """The batch is split in two: nothing is a place of it. The optimizer runs as before."""
    kinds = ("gemm", "norm", "elementwise", "copy", "reduce")
    adam: Ops = {"adam": ("optimizer", 4, 9.0)}
    base = side({**{kind: (kind, 10, 10.0) for kind in kinds}, **adam})
    head = side({**{kind: (kind, 20, 20.0) for kind in kinds}, **adam})
    assert sentence(head, base) == (
        "every kernel runs twice as often: 50 → 100 launches a step (+50.0 ms)"
    )
    assert sentence(base, head) == (
        "every kernel runs half as often: 100 → 50 launches a step (−50.0 ms)"
    )


def test_kind__is_named_by_what_its_kernels_share() -> None:
    """The optimizer's kernels differ in their lists of tensors."""
    names = [f"void at::native::multi_tensor_apply_kernel<Meta<{n}>, Adam>" for n in range(3)]
    base = side({GEMM: ("gemm", 9, 60.0), **dict.fromkeys(names, ("optimizer", 4, 2.0))})
    head = side({GEMM: ("gemm", 9, 60.0), **dict.fromkeys(names, ("optimizer", 4, 6.0))})
    assert sentence(head, base) == (
        "optimizer kernels ('multi_tensor_apply_kernel') take 6.00 → 18.0 ms, same 12 "
        "launches (+12.0 ms)"
    )


def test_place__alone_where_neither_op_nor_kind_stands_out() -> None:
    """All kinds grew, all of it in the backward of some layers."""
    kinds = ("gemm", "norm", "elementwise", "copy", "reduce")
    base = side({kind: (kind, 10, 10.0) for kind in kinds}, layers={0: 20.0, 1: 20.0})
    ops: Ops = {kind: (kind, 20 + place, 14.0 + place) for place, kind in enumerate(kinds)}
    head = side(ops, layers={0: 35.0, 1: 35.0})
    assert sentence(head, base) == "compute grew in the backward of layers 0–1 (+30.0 ms)"


# --- the other parts ----------------------------------------------------------------------------


def test_communication__that_takes_longer() -> None:
    """As many launches of more time each."""
    base = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 12, 20.0)}, exposed=5.0)
    head = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 12, 40.0)}, exposed=25.0)
    assert sentence(head, base) == (
        "communication takes 20.0 → 40.0 ms with the same number of launches: slower "
        "links, or a rank that the others wait for; 5.00 → 25.0 ms are not hidden "
        "behind compute (+20.0 ms)"
    )


def test_communication__in_smaller_pieces() -> None:
    """More launches are part of the reason."""
    base = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 12, 20.0)}, exposed=5.0)
    head = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 96, 40.0)}, exposed=25.0)
    assert "20.0 → 40.0 ms, launches 12 → 96;" in sentence(head, base)


def test_communication__that_is_hidden_no_more() -> None:
    """It takes as long, and overlaps less."""
    base = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 12, 30.0)}, exposed=5.0)
    head = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 12, 30.0)}, exposed=25.0)
    assert sentence(head, base) == (
        "communication overlaps less with compute: 5.00 → 25.0 ms are not hidden behind compute,"
        " of 30.0 ms in all (+20.0 ms)"
    )


def test_communication__that_is_hidden_is_no_cause() -> None:
    """However much longer it takes: what compute hides makes no step longer."""
    base = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 12, 30.0)}, exposed=5.0)
    head = side({GEMM: ("gemm", 9, 100.0), "nccl": ("comm", 12, 75.0)}, exposed=5.0)
    assert sentence(head, base) == (
        "mostly 'ampere_sgemm_128x64_nn': 25 % longer (80.0 → 100 ms), same 9 launches"
    )
    alone = side({GEMM: ("gemm", 9, 80.0), "nccl": ("comm", 12, 75.0)}, exposed=5.0, idle=15.0)
    assert "nccl" not in sentence(alone, base)


def test_communication__is_no_cause_where_the_parts_of_the_step_are_not_known() -> None:
    """By phases alone nobody knows whether compute hides it."""
    phases = ({"forward": 50.0, "backward": 50.0}, {"forward": 50.0, "backward": 70.0})
    base, head = (
        side({GEMM: ("gemm", 9, gemm), "nccl": ("comm", 12, nccl)}).but(
            timeline=Timeline(basis="phases", step_ms=sum(parts.values()), parts=parts)
        )
        for gemm, nccl, parts in ((80.0, 30.0, phases[0]), (91.0, 75.0, phases[1]))
    )
    assert sentence(head, base) == (
        "mostly 'ampere_sgemm_128x64_nn': 14 % longer (80.0 → 91.0 ms), same 9 launches"
    )


def test_copies__between_host_and_device() -> None:
    """The copy that grew most is named."""
    base = side({GEMM: ("gemm", 9, 80.0), "Memcpy HtoD": ("memcpy", 2, 1.0)}, copies=1.0)
    head = side({GEMM: ("gemm", 9, 80.0), "Memcpy HtoD": ("memcpy", 26, 13.0)}, copies=13.0)
    assert sentence(head, base) == (
        "copies that nothing hides: 1.00 → 13.0 ms, 'Memcpy HtoD' is launched 2 → 26 times a"
        " step (+12.0 ms)"
    )


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("data", "the device waits for the data loader: 1.00 → 21.0 ms"),
        (
            "compilation",
            "something is compiled anew within the steps: 1.00 → 21.0 ms",
        ),
        (
            "allocation",
            "the device waits while memory is allocated: 1.00 → 21.0 ms",
        ),
        (
            "synchronisation",
            (
                "the host waits for the device before it launches more (a synchronisation):"
                " 1.00 → 21.0 ms idle"
            ),
        ),
        (
            "launching",
            "the device waits for the host to launch work: 1.00 → 21.0 ms",
        ),
    ],
)
def test_idle__by_its_cause(cause: str, words: str) -> None:
    """Each cause of idleness has its own words."""
    base = side(idle=5.0, causes={cause: 1.0, "other": 1.0})
    head = side(idle=25.0, causes={cause: 21.0})
    assert sentence(head, base) == f"{words} (+20.0 ms)"


def test_idle__of_unknown_cause_says_that_the_work_is_the_same() -> None:
    """Only idle grew."""
    assert sentence(side(idle=25.0), side(idle=5.0)) == (
        "the device is idle: 5.00 → 25.0 ms, while its work takes as long as before (+20.0 ms)"
    )


def test_clocks__of_kernels_of_no_time_to_speak_of_break_nothing() -> None:
    """Half of the smallest number is 0, by which nothing is divided."""
    tiny: Ops = {"a": ("gemm", 2, 5e-324), "b": ("norm", 2, 5e-324), GEMM: ("gemm", 10, 80.0)}
    assert sentence(side({**tiny, GEMM: ("gemm", 10, 120.0)}), side(tiny)) is not None


def test_idle__with_recompiles() -> None:
    """Where the program counts them they are the reason."""
    base = side(idle=5.0).but(metrics={"recompiles": 0.0})
    head = side(idle=25.0).but(metrics={"recompiles": 3.0})
    assert "recompiles 0 → 3" in sentence(head, base)


def test_idle__in_a_function_of_the_host() -> None:
    """Most of the new idle time has a name; half of it is the least."""
    causes = {"launching": 1.0}
    base = side(idle=5.0, causes=causes)
    slow = side(idle=25.0, causes={"launching": 21.0}, idle_ranges={"log_metrics": 19.0})
    assert sentence(slow, base) == (
        "the device waits while the host is in 'log_metrics': 0 → 19.0 ms a step (+19.0 ms)"
    )
    little = side(idle=25.0, causes={"launching": 21.0}, idle_ranges={"log_metrics": 9.0})
    assert sentence(little, base).startswith("the device waits for the host to launch work")


def test_idle__beside_other_work_does_not_say_that_the_work_is_the_same() -> None:
    """Three per cent of the base's work, and not a part of the change."""
    base = side(idle=5.0)
    assert "as long as before" in sentence(side({GEMM: ("gemm", 10, 82.0)}, idle=25.0), base)
    assert "as long as before" not in sentence(side({GEMM: ("gemm", 10, 83.0)}, idle=60.0), base)
    assert "as long as before" not in sentence(side(exposed=4.0, idle=60.0), base)


@pytest.mark.parametrize(
    ("head", "base", "is_named"),
    [
        ((80.0, 80.0, 80.0, 160.0), (80.0, 80.0, 80.0, 80.0), True),
        ((80.0, 80.0, 160.0), (80.0, 80.0, 80.0), False),
        ((80.0, 80.0, 80.0, 160.0), (80.0, 80.0, 80.0, 140.0), False),
        ((100.0, 100.0, 100.0, 120.0), (80.0, 80.0, 80.0, 80.0), False),
    ],
    ids=["one of four", "three steps", "the base has one, too", "all are slower"],
)
def test_step__that_alone_is_slow(
    head: tuple[float, ...], base: tuple[float, ...], is_named: bool
) -> None:
    """One step among several explains the mean; fewer steps, or such a base, do not."""
    sides = [
        side(idle=sum(times) / len(times) - 80.0, step_times_ms=times) for times in (head, base)
    ]
    found = sentence(*sides)
    assert found.startswith("one of 4 steps takes 160 ms, where 80.0 ms is usual") is is_named


def ranked(*compute: float, step_ms: float) -> Measured:
    works = tuple(
        RankWork(rank=rank, step_ms=step_ms, compute_ms=ms) for rank, ms in enumerate(compute)
    )
    return side({GEMM: ("gemm", 9, 60.0)}, idle=step_ms - 60.0, ranks=works)


def test_rank__that_computes_for_longer_is_named() -> None:
    """In synchronous training all others wait for it, so that each is compared with itself."""
    base = ranked(60.0, 61.0, 59.0, 60.0, step_ms=100.0)
    assert sentence(ranked(60.0, 61.2, 75.0, 60.1, step_ms=116.0), base) == (
        "rank 2 of 4, for which the others wait, computes for longer: 59.0 → 75.0 ms a step"
        " (+16.0 ms)"
    )
    assert "rank" not in sentence(ranked(75.0, 76.0, 75.0, 75.0, step_ms=116.0), base)


def test_rank__that_was_slow_before_is_not_the_cause() -> None:
    """It is compared with itself: what grew is something that all ranks share."""
    base = ranked(60.0, 61.0, 75.0, 60.0, step_ms=116.0)
    assert "rank" not in sentence(ranked(60.0, 61.2, 75.3, 60.1, step_ms=130.0), base)
    assert "rank 0 of 4" in sentence(ranked(75.0, 61.2, 75.3, 60.1, step_ms=131.0), base)


def test_two__parts_together_where_neither_is_most_of_it() -> None:
    """A change may have two causes."""
    base = side(idle=5.0)
    head = side({GEMM: ("gemm", 10, 88.0)}, idle=14.0, copies=6.0)
    assert sentence(head, base) == "most of it is idle (+9.00 ms) and compute (+8.00 ms)"


# --- faster ------------------------------------------------------------------------------------


def test_gain__is_told_with_its_cause() -> None:
    """The same rules with the two sides exchanged, in sentences of their own."""
    rest: Ops = {GEMM: ("gemm", 96, 60.0)}
    slow = side({**rest, ADD: ("elementwise", 48, 12.1)})
    fast = side({**rest, ADD: ("elementwise", 48, 8.0)})
    assert sentence(fast, slow) == (
        f"mostly '{ADDED}': 34 % shorter (12.1 → 8.00 ms), same 48 launches"
    )
    assert sentence(side(rest), slow) == (f"'{ADDED}' is gone, 48 launches a step (−12.1 ms)")


def test_gain__of_a_fusion() -> None:
    """Many small kernels became one."""
    rest: Ops = {GEMM: ("gemm", 96, 60.0)}
    pieces = dict.fromkeys((ADD, MUL, COPY), ("elementwise", 32.0, 4.0))
    fast = side({**rest, FUSED: ("elementwise", 24, 4.0)})
    assert sentence(fast, side({**rest, **pieces})) == "fused: 96 → 24 launches (−8.00 ms)"


def test_gain__of_an_op_under_another_name_says_which_it_was() -> None:
    """The head's name comes first, as in a slowdown."""
    base = side({"a": ("norm", 1, 1.0), "xmma_gemm": ("gemm", 96, 75.0), "b": ("copy", 1, 1.0)})
    head = side({"a": ("norm", 1, 1.0), "nvjet": ("gemm", 96, 60.0), "b": ("copy", 1, 1.0)})
    assert sentence(head, base) == (
        "mostly 'nvjet' (was 'xmma_gemm'): 20 % shorter (75.0 → 60.0 ms), same 96 launches"
    )


def test_gain__of_the_host() -> None:
    """The device waits for less."""
    slow = side(idle=25.0, causes={"data": 21.0})
    fast = side(idle=5.0, causes={"data": 1.0})
    assert sentence(fast, slow) == (
        "the device waits for the data loader: 21.0 → 1.00 ms (−20.0 ms)"
    )


# --- silence ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "base"),
    [
        (side(idle=5.0), side(idle=5.0)),
        (side(idle=5.5), side(idle=5.0)),
        (side(idle=25.0, tokens_per_step=2000.0), side(idle=5.0, tokens_per_step=1000.0)),
    ],
    ids=["the same", "hardly slower", "other work"],
)
def test_sentence__is_not_there_without_a_slowdown(head: Measured, base: Measured) -> None:
    """No story about what did not happen."""
    assert sentence(head, base) == ""


def test_sentence__is_not_there_where_the_rest_grew() -> None:
    """What no part explains, no sentence explains either."""
    base = side(idle=5.0)
    assert base.timeline is not None
    head = base.but(timeline=base.timeline.but(step_ms=120.0))
    found = told(head, base)
    assert found.delta_ms == 35.0
    assert found.parts[-1].delta_ms == 35.0
    assert found.cause is None


# --- phases alone -------------------------------------------------------------------------------


def of_phases(step_ms: float, **phases: float) -> Measured:
    profile = Profile(
        steps=3,
        avg_step_ms=step_ms,
        phases={name: phase(ms) for name, ms in phases.items()},
    )
    return measured_case(CaseInput("training", profile), Workload())


def test_phases__where_they_are_all_that_is_known() -> None:
    """A runtime that times its own phases says where, and not why."""
    head, base = of_phases(130.0, forward=30.0, bwd=95.0), of_phases(100.0, forward=30.0, bwd=65.0)
    assert sentence(head, base) == "most of it is in the bwd (+30.0 ms)"


# --- launches -----------------------------------------------------------------------------------


def test_counts__of_one_op() -> None:
    """More launches are explained even where the step is not slower."""
    base = side({GEMM: ("gemm", 10, 80.0), ADD: ("elementwise", 50, 1.0)})
    head = side({GEMM: ("gemm", 10, 80.0), ADD: ("elementwise", 100, 1.1)})
    found = told(head, base)
    assert found.cause is None
    assert counts_words(found) == (f"'{ADDED}' is launched 50 → 100 times a step")


def test_counts__of_one_kind() -> None:
    """Many ops of a kind, each a little more often."""
    names = [f"elementwise_{letter}" for letter in "abcde"]
    base = side(dict.fromkeys(names, ("elementwise", 10, 1.0)))
    head = side(dict.fromkeys(names, ("elementwise", 14, 1.0)))
    assert counts_words(told(head, base)) == "20 more elementwise kernels a step"


def test_op__with_the_module_and_the_operator_that_launch_it() -> None:
    """Where all of its launches come from them, they say more than its name."""
    origins = {ADD: OpOrigin(op="aten::add_", module="Residual")}
    base = side({GEMM: ("gemm", 10, 80.0), ADD: ("elementwise", 50, 5.0)})
    head = side({GEMM: ("gemm", 10, 80.0), ADD: ("elementwise", 200, 20.0)}, op_origins=origins)
    called = f"'Residual' · 'aten::add_' · '{ADDED}'"
    assert sentence(head, base) == f"{called} is launched 50 → 200 times a step (+15.0 ms)"
    assert counts_words(told(head, base)) == f"{called} is launched 50 → 200 times a step"


def test_op__that_only_the_compilers_counter_tells_apart_was_no_other() -> None:
    """The counter is shown, and is no news."""
    base = side({GEMM: ("gemm", 10, 80.0), "triton_poi_fused_add_3": ("elementwise", 4, 4.0)})
    head = side({GEMM: ("gemm", 10, 80.0), "triton_poi_fused_add_4": ("elementwise", 4, 20.0)})
    assert sentence(head, base) == (
        "mostly 'triton_poi_fused_add_4': 5× as long (4.00 → 20.0 ms), same 4 launches"
    )
