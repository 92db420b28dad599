"""A step taken apart, and the change of it: parts that sum, ops by launches and time, renames."""

from __future__ import annotations

from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ci_score.compare import Workload
from ci_score.compare.causes import with_causes
from ci_score.compare.changes import contributions
from ci_score.compare.explanation import OVERLAP, explain, op_changes, stem, timeline_of
from ci_score.compare.measuring import measured_case
from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.explanation import IDLE, REST, OpChange, Timeline
from ci_score.model.profile import Layer, OpOrigin, OpPlace, Phase, Profile, RankWork
from ci_score.model.record import Judged, Measured
from ci_score.model.stages import CaseInput
from ci_score.model.step_ops import MOST_OPS
from tests.builders import case, found, phase, profile
from tests.builders.verdicts import judged_case

GEMM = "ampere_sgemm_128x64_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def measured(**fields: Any) -> Measured:
    return measured_case(CaseInput("training", Profile(steps=3, **fields)), Workload())


def of_ops(**ops: tuple[str, float, float]) -> Measured:
    """A side by its ops in the order of the step: kind, launches, milliseconds."""
    return of_named(ops)


def of_named(ops: dict[str, tuple[str, float, float]]) -> Measured:
    categories: dict[str, float] = {}
    for kind, _, ms in ops.values():
        categories[kind] = categories.get(kind, 0.0) + ms
    return measured(
        avg_step_ms=100.0,
        ops={name: ms for name, (_, _, ms) in ops.items()},
        op_counts={name: count for name, (_, count, _) in ops.items()},
        op_kinds={name: kind for name, (kind, _, _) in ops.items()},
        op_categories=categories,
    )


def change(head: Measured, base: Measured, name: str) -> OpChange:
    return next(each for each in op_changes(head, base) if each.name == name)


def statuses(head: Measured, base: Measured) -> dict[str, tuple[str, str | None]]:
    return {each.name: (each.status, each.was) for each in op_changes(head, base)}


# --- one step -----------------------------------------------------------------------------------


def test_timeline__is_what_the_device_did() -> None:
    """Copies are what is busy beside compute and exposed communication; the rest of it is idle."""
    found = timeline_of(
        Profile(
            avg_step_ms=100.0,
            device_busy_ms=80.0,
            compute_ms=60.0,
            communication_ms=30.0,
            exposed_communication_ms=15.0,
        )
    )
    assert found is not None
    assert found.basis == "device"
    assert found.parts == {
        "compute": 60.0,
        "exposed communication": 15.0,
        "exposed copies": 5.0,
        "idle": 20.0,
    }
    assert found.rest_ms == 0.0


def test_timeline__names_why_the_device_was_idle() -> None:
    """Known causes stand by themselves, what they leave is idle for others."""
    found = timeline_of(
        Profile(
            avg_step_ms=100.0,
            device_busy_ms=80.0,
            compute_ms=80.0,
            idle_causes={"data": 12.0, "launching": 3.0},
        )
    )
    assert found is not None
    assert found.parts["idle, waiting for data"] == 12.0
    assert found.parts["idle, waiting for launches"] == 3.0
    assert found.parts["idle, other causes"] == 5.0


def test_timeline__of_phases_where_no_device_is_known() -> None:
    """What lies outside all phases is the rest."""
    found = timeline_of(profile(100.0, phases={"forward": phase(30.0), "backward": phase(65.0)}))
    assert found is not None
    assert (found.basis, found.parts) == ("phases", {"forward": 30.0, "backward": 65.0})
    assert found.rest_ms == 5.0


@pytest.mark.parametrize(
    "bad",
    [
        Profile(),
        Profile(avg_step_ms=10.0),
        Profile(avg_step_ms=10.0, device_busy_ms=5.0, compute_ms=5.0, unusable="crashed"),
        Profile(avg_step_ms=10.0, phases={"all": Phase(total_ms=99.0, pct=1.0, avg_ms=1.0)}),
    ],
    ids=["nothing", "only a time", "unusable", "totals of a run"],
)
def test_timeline__of_nothing_to_take_apart(bad: Profile) -> None:
    """Nothing is invented."""
    assert timeline_of(bad) is None


def test_timeline__is_of_the_profiled_step() -> None:
    """Where measurements judge, the parts are those of the step under the profiler."""
    found = timeline_of(
        Profile(avg_step_ms=80.0, profiled_step_ms=100.0, device_busy_ms=90.0, compute_ms=90.0)
    )
    assert found is not None
    assert (found.step_ms, found.parts["idle"]) == (100.0, 10.0)


def test_timeline__is_bounded() -> None:
    """A record does not grow with the names that a program invents."""
    phases = {f"phase {number}": phase(0.01) for number in range(500)}
    found = timeline_of(profile(100.0, phases=phases))
    assert found is not None
    assert len(found.parts) == 32
    assert found.rest_ms == pytest.approx(100.0 - 0.32)


# --- the change ---------------------------------------------------------------------------------

MS = st.floats(0, 1e6, allow_nan=False)
PARTS = st.fixed_dictionaries(
    {"avg_step_ms": st.floats(0.001, 1e6), "device_busy_ms": MS, "compute_ms": MS},
    optional={
        "exposed_communication_ms": MS,
        "idle_causes": st.dictionaries(
            st.sampled_from(["data", "launching", "synchronisation"]), MS
        ),
    },
)


@given(head=PARTS, base=PARTS)
def test_parts__sum_to_the_change(head: dict[str, Any], base: dict[str, Any]) -> None:
    """Whatever the two sides know, the parts and the rest are the whole change."""
    found = explain(measured(**head), measured(**base))
    assert found is not None
    total = sum(part.delta_ms for part in found.parts)
    largest = max(abs(part.base_ms) + abs(part.head_ms) for part in found.parts)
    assert total == pytest.approx(found.delta_ms, abs=1e-9 * (1 + largest))
    assert found.parts[-1].name == REST


@given(head=st.dictionaries(st.text(max_size=5), MS), base=st.dictionaries(st.text(max_size=5), MS))
def test_parts__of_phases_sum_to_the_change(head: dict[str, float], base: dict[str, float]) -> None:
    """The same where phases are all there is."""
    sides = [
        case(timeline=Timeline(basis="phases", step_ms=50.0 + place, parts=parts))
        for place, parts in enumerate((base, head))
    ]
    found = explain(sides[1], sides[0])
    assert found is not None
    total = sum(part.delta_ms for part in found.parts)
    assert total == pytest.approx(1.0, abs=1e-9 * (1 + sum(head.values()) + sum(base.values())))


def test_parts__idle_is_one_where_one_side_knows_no_causes() -> None:
    """A cause that only one side can tell did not appear with the change."""
    fields = {"avg_step_ms": 100.0, "device_busy_ms": 80.0, "compute_ms": 80.0}
    found = explain(measured(**fields, idle_causes={"data": 20.0}), measured(**fields))
    assert found is not None
    assert [(part.name, part.delta_ms) for part in found.parts if part.name.startswith(IDLE)] == [
        ("idle", 0.0)
    ]


@pytest.mark.parametrize("head_knows", [True, False])
def test_explain__of_one_side_alone_there_is_none(head_knows: bool) -> None:
    """A bare scorecard has no parts, and a step of phases none of a device's."""
    whole = measured(avg_step_ms=100.0, device_busy_ms=80.0, compute_ms=80.0)
    others = (
        case(),
        measured(avg_step_ms=90.0, phases={"forward": phase(80.0)}),
    )
    for other in others:
        assert explain(*((whole, other) if head_knows else (other, whole))) is None


def test_categories__sum_to_the_change_of_compute() -> None:
    """Kernels that run at once are counted twice; the last row takes that back."""
    before = {"avg_step_ms": 100.0, "device_busy_ms": 80.0, "compute_ms": 80.0}
    now = {"avg_step_ms": 120.0, "device_busy_ms": 95.0, "compute_ms": 95.0}
    found = explain(
        measured(**now, op_categories={"gemm": 70.0, "norm": 30.0, "comm": 50.0}),
        measured(**before, op_categories={"gemm": 70.0, "norm": 10.0, "memcpy": 9.0}),
    )
    assert found is not None
    assert [(row.name, row.delta_ms) for row in found.categories] == [
        ("norm", 20.0),
        ("gemm", 0.0),
        (OVERLAP, -5.0),
    ]


# --- ops ----------------------------------------------------------------------------------------


def test_ops__more_launches_and_more_time_for_each() -> None:
    """Two more at the old time, and each of the six a quarter slower: that is the change."""
    found = change(of_ops(gemm=("gemm", 6, 15.0)), of_ops(gemm=("gemm", 4, 8.0)), "gemm")
    assert (found.by_count_ms, found.by_time_ms) == (4.0, 3.0)
    assert found.delta_ms == 7.0


COUNTED = st.tuples(st.just("gemm"), st.integers(1, 1000), st.floats(0.001, 1e5))


@given(
    head=st.dictionaries(st.text(max_size=4), COUNTED, max_size=8),
    base=st.dictionaries(st.text(max_size=4), COUNTED, max_size=8),
)
@example(head={"0": ("gemm", 1, 1.0)}, base={"": ("gemm", 1, 1.0)})
def test_ops__launches_and_time_are_the_whole_change(
    head: dict[str, tuple[str, float, float]], base: dict[str, tuple[str, float, float]]
) -> None:
    """Of every op, and of all of them together, and each op of either side stands in one row."""
    found = op_changes(of_named(head), of_named(base))
    for each in found:
        assert each.by_count_ms is not None
        assert each.by_time_ms is not None
        size = 1e-6 * (1 + each.head_ms + each.base_ms) * 1000
        assert each.by_count_ms + each.by_time_ms == pytest.approx(each.delta_ms, abs=size)
    if head and base:
        total = sum(op[2] for op in head.values()) - sum(op[2] for op in base.values())
        rounded = 5e-4 * sum(op[2] for op in (*head.values(), *base.values()))
        assert sum(each.delta_ms for each in found) == pytest.approx(total, abs=rounded)
        assert {each.name for each in found if each.status != "gone"} == head.keys()
        assert {each.base_name for each in found if each.status != "new"} == base.keys()


def test_ops__another_tile_is_another_name_of_the_same() -> None:
    """A library picks a tile by the shape: one op, not one gone and one new."""
    head = of_named({"ampere_sgemm_128x64_nn": ("gemm", 12, 9.0), "norm": ("norm", 1, 1.0)})
    base = of_named({"ampere_sgemm_32x32_nn": ("gemm", 12, 6.0), "norm": ("norm", 1, 1.0)})
    assert statuses(head, base) == {
        "ampere_sgemm_128x64_nn": ("renamed", "ampere_sgemm_32x32_nn"),
        "norm": ("changed", None),
    }


def test_ops__a_compilers_counter_makes_no_other_op() -> None:
    """The same name first, then without the counter, in the order of the step."""
    times = ("elementwise", 10.0, 1.0)
    base = of_named({f"triton_poi_fused_add_{number}": times for number in (0, 1, 9)})
    head = of_named({f"triton_poi_fused_add_{number}": times for number in (1, 2, 10)})
    assert statuses(head, base) == {
        "triton_poi_fused_add_1": ("changed", None),
        "triton_poi_fused_add_2": ("changed", "triton_poi_fused_add_0"),
        "triton_poi_fused_add_10": ("changed", "triton_poi_fused_add_9"),
    }


def test_ops__another_fusion_is_another_op() -> None:
    """What is fused decides, and one more of the same is new."""
    times = ("other", 10.0, 1.0)
    base = of_named(
        {"triton_poi_fused_add_0": times, "triton_red_fused_sum_1": ("reduce", 1.0, 1.0)}
    )
    head = of_named({"triton_poi_fused_add_1": times, "triton_poi_fused_add_2": times})
    assert statuses(head, base) == {
        "triton_poi_fused_add_1": ("changed", "triton_poi_fused_add_0"),
        "triton_poi_fused_add_2": ("new", None),
        "triton_red_fused_sum_1": ("gone", None),
    }


def test_contributions__follow_an_op_to_its_new_counter() -> None:
    """It is one place of the change, and not one that came and one that went."""
    base = of_ops(triton_red_fused_sum_3=("reduce", 1.0, 20.0))
    head = of_ops(triton_red_fused_sum_4=("reduce", 1.0, 30.0))
    [place] = contributions(head, base)
    assert (place.name, place.base_ms, place.head_ms) == ("triton_red_fused_sum_4", 20.0, 30.0)


def test_details__have_where_an_op_comes_from() -> None:
    """The head's origin stands beside what changed."""
    origin = OpOrigin(op="aten::mm", module="Linear")
    ops = {GEMM: 10.0}
    head = measured(avg_step_ms=100.0, ops=ops, op_origins={GEMM: origin})
    base = measured(avg_step_ms=100.0, ops=ops)
    assert head.op_details[GEMM].origin == origin
    assert change(head, base, GEMM).origin == origin
    assert change(base, of_ops(another=("gemm", 1.0, 1.0)), GEMM).origin is None


def test_ops__of_one_kind_in_one_place_are_the_same() -> None:
    """Between the same neighbours, as often, of the same kind: another implementation."""
    around = {"first": ("norm", 4.0, 1.0), "last": ("copy", 4.0, 1.0)}
    head = of_named({"first": around["first"], "nvjet": ("gemm", 24, 9.0), "last": around["last"]})
    base = of_named({"first": around["first"], "xmma": ("gemm", 24, 6.0), "last": around["last"]})
    assert statuses(head, base)["nvjet"] == ("renamed", "xmma")


@pytest.mark.parametrize(
    "ours",
    [
        {"nvjet": ("gemm", 96.0, 9.0)},
        {"nvjet": ("attention", 24.0, 9.0)},
        {"nvjet": ("gemm", 24.0, 9.0), "another": ("gemm", 24.0, 1.0)},
        {"nvjet": ("", 24.0, 9.0)},
    ],
    ids=["more often", "another kind", "two of them", "unknown kind"],
)
def test_ops__that_may_be_others_are_not_called_renamed(
    ours: dict[str, tuple[str, float, float]],
) -> None:
    """Without the same kind, count and place it is one new op and one gone."""
    first, last = ("norm", 4.0, 1.0), ("copy", 4.0, 1.0)
    head = of_named({"first": first, **ours, "last": last})
    base = of_named({"first": first, "xmma": ("gemm", 24.0, 6.0), "last": last})
    found = statuses(head, base)
    assert found["nvjet"] == ("new", None)
    assert found["xmma"] == ("gone", None)


def test_ops__another_function_of_a_template_is_another_op() -> None:
    """Of an elementwise kernel the template's argument is the op itself."""
    assert stem(ADD, "elementwise") != stem(ADD.replace("add", "mul"), "elementwise")
    assert stem("k<float, 3>(int)", "gemm") == stem("k<half, 7>(int)", "gemm")


def test_ops__an_op_that_was_dropped_as_small_is_not_new() -> None:
    """The other side kept its largest ops: what it does not list may have been there."""
    many = {f"op{number:04d}": ("gemm", 1.0, 10.0) for number in range(MOST_OPS)}
    head = of_named({**many, "x": ("norm", 1.0, 30.0)})
    assert statuses(head, of_named(many))["x"] == ("new", None)
    base = of_named({**many, "y": ("gemm", 1.0, 10.0)})
    assert base.step_ops.left_out == 1
    assert "x" not in statuses(head, base)


def test_ops__the_order_in_which_they_come_changes_nothing() -> None:
    """Ops are told by name; where no order is known, the dict's own does not matter."""
    ops = {"a1": 5.0, "a2": 7.0, "b": 2.0}
    base = case(ops={"a3": 4.0, "c": 1.0})
    results = {
        tuple(op_changes(case(ops={name: ops[name] for name in order}), base))
        for order in permutations(ops)
    }
    assert len(results) == 1


ANY_OPS = st.dictionaries(
    st.text(max_size=6),
    st.tuples(st.sampled_from(["", "gemm", "norm", "elementwise", "attention"]), MS, MS),
    max_size=6,
)


@given(head=PARTS, base=PARTS, ours=ANY_OPS, theirs=ANY_OPS)
def test_sentence__never_breaks_and_never_explains_less_than_half(
    head: dict[str, Any], base: dict[str, Any], ours: Any, theirs: Any
) -> None:
    """Whatever is known: a sentence stands for at least half of a change, or is not there."""
    sides = []
    for fields, ops in ((head, ours), (base, theirs)):
        known = of_named(ops)
        sides.append(measured(**fields).but(step_ops=known.step_ops, categories=known.categories))
    mine, other = sides
    found = explain(mine, other)
    assert found is not None
    told = with_causes(found, mine, other, ())
    assert told.parts == found.parts
    if told.cause is not None:
        assert told.explained_ms * found.delta_ms > 0
        assert abs(told.explained_ms) >= 0.5 * abs(found.delta_ms) * (1 - 1e-9)


HUGE = st.one_of(st.sampled_from([0.0, 5e-324, 1.0, 1e308, 1.7e308]), st.floats(0, 1.7e308))
NAMES = st.sampled_from(["a", "b", ""])
KINDS = st.sampled_from(["gemm", "norm", "comm"])
EXTREME = st.builds(
    Profile,
    steps=st.just(2),
    avg_step_ms=HUGE,
    device_busy_ms=st.none() | HUGE,
    compute_ms=st.none() | HUGE,
    exposed_communication_ms=st.none() | HUGE,
    idle_causes=st.dictionaries(st.sampled_from(["data", "launching", "unheard of"]), HUGE),
    ops=st.dictionaries(NAMES, HUGE),
    op_counts=st.dictionaries(NAMES, HUGE),
    op_kinds=st.dictionaries(NAMES, KINDS),
    op_categories=st.dictionaries(KINDS, HUGE),
    op_places=st.lists(
        st.builds(OpPlace, op=NAMES, phase=NAMES | st.none(), count=HUGE | st.none(), ms=HUGE)
    ).map(tuple),
    step_times_ms=st.lists(HUGE, max_size=6).map(tuple),
    compute_tenths_ms=st.lists(HUGE, max_size=10).map(tuple),
    idle_ranges=st.dictionaries(NAMES, HUGE),
    per_layer=st.lists(
        st.builds(Layer, layer=st.integers(0, 3), fwd_ms=HUGE, bwd_ms=HUGE), max_size=4
    ).map(tuple),
    ranks=st.lists(
        st.builds(RankWork, rank=st.integers(0, 3), step_ms=HUGE, compute_ms=HUGE), max_size=4
    ).map(tuple),
)


@given(head=EXTREME, base=EXTREME)
def test_extremes__are_bad_input_or_fit_a_record(head: Profile, base: Profile) -> None:
    """A stranger's profile may hold any number: what comes of it is a record that reads back."""
    with suppress(BadInputError), overflow_is_bad_input("x"):
        mine, other = (
            measured_case(CaseInput("training", profile), Workload()) for profile in (head, base)
        )
        judged = judged_case(mine, found(other))
        assert Judged.model_validate_json(judged.model_dump_json()) == judged
