"""Where each op runs and comes from: by phase, layer and direction, by module, by tenths."""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.profile import OpOrigin, OpPlace, Profile
from ci_score.traces.engine.device_events import DeviceEvents, Names
from ci_score.traces.engine.host import Host, Launches, Spans
from ci_score.traces.engine.origins import origins_of
from ci_score.traces.formats import kineto, read_profile
from ci_score.traces.source import ProfileSource
from tests.builders import shared
from tests.builders.traces.kineto import (
    ADD,
    AUTOGRAD,
    GEMM,
    Json,
    annotation,
    call,
    copy,
    kernel,
    module,
    node,
    op,
    source,
    step,
    text,
    work,
)

WGRAD = "sm80_xmma_gemm_f32f32_nt"
ADAM = "void multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>"
STEP = 1000


def read(events: list[Json]) -> Profile:
    return kineto.read(source(text(events)))


def training(steps: int = 2) -> list[Json]:
    """Each step: a copy, two blocks of a product and an addition, backward, optimizer."""
    events: list[Json] = []
    for number in range(steps):
        at, first = STEP * number, 100 * number
        events += [step(number, at, STEP), call(first + 9, at + 5), copy(first + 9, at + 8, 7)]
        events += [annotation("forward", at + 10, 290), annotation("backward", at + 300, 300)]
        events += [annotation("optimizer", at + 600, 300), module("Net_0", at + 11, 280)]
        for layer in range(2):
            begin, own = at + 20 + 100 * layer, first + 10 * layer
            events += [
                module(f"Block_{layer}", begin, 90),
                module(f"Linear_{layer}", begin + 5, 30),
            ]
            events += [op("aten::addmm", begin + 6, 20, Sequence_number=own)]
            events += work(own, begin + 8, begin + 10, 30 + layer)
            events += work(own + 1, begin + 50, begin + 60, 5, ADD)
            back = at + 420 - 100 * layer
            events += [node(back, 80, own), call(own + 2, back + 5, AUTOGRAD)]
            events += [kernel(own + 2, back + 10, 40 + layer, WGRAD)]
        events += work(first + 50, at + 610, at + 620, 25, ADAM)
    return events


def sums(places: tuple[OpPlace, ...], of: str) -> dict[Any, float]:
    """The milliseconds of the places by one of their fields."""
    total: dict[Any, float] = defaultdict(float)
    for place in places:
        total[getattr(place, of)] += place.ms
    return dict(total)


# --- by phase, layer and direction --------------------------------------------------------------


def test_places__are_phase_layer_and_direction() -> None:
    """One row each, the largest first; work outside of layers has none, and no direction."""
    places = read(training()).op_places
    rows = [
        (each.op, each.phase, each.layer, each.direction, each.count, round(each.ms, 9))
        for each in places
    ]
    assert rows == [
        (WGRAD, "backward", 1, "backward", 1, 0.041),
        (WGRAD, "backward", 0, "backward", 1, 0.040),
        (GEMM, "forward", 1, "forward", 1, 0.031),
        (GEMM, "forward", 0, "forward", 1, 0.030),
        (ADAM, "optimizer", None, None, 1, 0.025),
        ("Memcpy HtoD", None, None, None, 1, 0.007),
        (ADD, "forward", 0, "forward", 1, 0.005),
        (ADD, "forward", 1, "forward", 1, 0.005),
    ]


def test_places__sum_up_to_ops_phases_and_layers() -> None:
    """So that whoever draws one beside the other shows the same numbers."""
    profile = read(training())
    places = profile.op_places
    assert sums(places, "op") == pytest.approx(dict(profile.ops))
    by_phase = {name or "h2d": time for name, time in sums(places, "phase").items()}
    assert by_phase == pytest.approx({n: each.total_ms for n, each in profile.phases.items()})
    by_layer = sums(places, "layer")
    for layer in profile.per_layer:
        assert by_layer[layer.layer] == pytest.approx(layer.fwd_ms + layer.bwd_ms)
        inside = tuple(each for each in places if each.layer == layer.layer)
        assert sums(inside, "op") == pytest.approx(dict(layer.ops))
        assert sums(inside, "direction") == pytest.approx(
            {"forward": layer.fwd_ms, "backward": layer.bwd_ms}
        )
    counts: dict[str, float] = defaultdict(float)
    for each in places:
        counts[each.op] += each.count or 0
    assert counts == pytest.approx(dict(profile.op_counts))


def test_places__of_the_host_have_kinds_phases_and_layers() -> None:
    """Operators count their own time, without those they called, where they began."""
    events = []
    for number in range(3):
        at = 100 * number
        events += [step(number, at, 100), annotation("forward", at + 5, 50)]
        events += [module("Net_0", at + 6, 45)]
        for layer in range(2):
            begin = at + 10 + 20 * layer
            events += [module(f"Block_{layer}", begin, 18), module(f"Linear_{layer}", begin, 17)]
            events += [op("aten::linear", begin + 1, 10), op("aten::addmm", begin + 2, 8)]
        events += [op("aten::_foreach_add_", at + 70, 20)]
    profile = read(events)
    rows = [
        (each.op, each.phase, each.layer, each.direction, each.count, round(each.ms, 9))
        for each in profile.op_places
    ]
    assert rows == [
        ("aten::_foreach_add_", None, None, None, 1, 0.02),
        ("aten::addmm", "forward", 0, "forward", 1, 0.008),
        ("aten::addmm", "forward", 1, "forward", 1, 0.008),
        ("aten::linear", "forward", 0, "forward", 1, 0.002),
        ("aten::linear", "forward", 1, "forward", 1, 0.002),
    ]
    assert profile.op_kinds["aten::addmm"] == "gemm"
    assert profile.op_counts["aten::linear"] == 2
    assert sums(profile.op_places, "op") == pytest.approx(dict(profile.ops))


def test_places__of_very_many_ops_are_those_of_the_largest() -> None:
    """The others are in `ops` all the same."""
    events = [step(0, 0, 14_000)]
    for number in range(1_100):
        events += work(number, number, 10 * number + 5, 1 + number % 7, f"kernel_{number}_of_many")
    profile = read(events)
    assert len(profile.ops) == 1_100
    assert len(profile.op_places) == 1_024
    shown = {each.op for each in profile.op_places}
    left_out = [time for name, time in profile.ops.items() if name not in shown]
    assert max(left_out) <= min(each.ms for each in profile.op_places)


def test_samples__numbers_add_up() -> None:
    """Of real traces: places to ops and layers, phases to busy time, idle time within the step."""
    folder = shared()
    if folder is None or not (folder / "samples").is_dir():
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    files = sorted(
        each
        for kind in ("kineto", "nsight", "jax", "rocprof")
        for each in (folder / "samples" / kind).iterdir()
        if each.name != "expected.json"
    )
    for file in files:
        profile = read_profile(ProfileSource(file.name, path=file))
        totals = sums(profile.op_places, "op")
        assert totals == pytest.approx({name: profile.ops[name] for name in totals}), file.name
        busy = profile.device_busy_ms
        spent = sum(phase.total_ms for phase in profile.phases.values())
        if busy is None:
            assert spent <= profile.avg_step_ms + 1e-9, file.name
        else:
            assert spent == pytest.approx(busy), file.name
        for layer in profile.per_layer if busy is not None else ():
            its = tuple(each for each in profile.op_places if each.layer == layer.layer)
            assert sum(each.ms for each in its) <= layer.fwd_ms + layer.bwd_ms + 1e-9
        idle = sum(profile.idle_causes.values())
        assert sum(profile.idle_ranges.values()) <= idle + 1e-9
        assert idle <= 1.001 * profile.avg_step_ms


# --- where an op comes from ---------------------------------------------------------------------


def test_origins__are_the_innermost_operator_and_class_of_module() -> None:
    """What autograd launches is in no module; a copy has no origin."""
    node_name = "autograd::engine::evaluate_function: AddmmBackward0"
    assert read(training()).op_origins == {
        GEMM: OpOrigin(op="aten::addmm", module="Linear"),
        ADD: OpOrigin(module="Block"),
        WGRAD: OpOrigin(op=node_name),
    }


@pytest.mark.parametrize(("at", "module"), [(990, None), (130, None), (70, "Block")])
def test_origins__are_those_of_all_launches_of_a_step(at: int, module: str | None) -> None:
    """One from elsewhere, and nobody knows; another layer of the class is no elsewhere."""
    events = [*training(1), *work(70, at, 900, 1, ADD)]
    found = read(events).op_origins
    assert found.get(ADD, OpOrigin()).module == module


def test_origins__say_nothing_of_work_without_a_call() -> None:
    """What is known of the other launches holds."""
    lost = kernel(999, 400, 3)
    assert read([*training(), lost]).op_origins[GEMM].op == "aten::addmm"


def test_origins__of_a_large_step_are_those_of_all_its_parts() -> None:
    """Most of it may be the forward, which says nothing of the rest."""
    many = [work(1000 + place, 70 + place / 1000, 950, 0.001, ADD) for place in range(6000)]
    forward = [*training(1), *(each for pair in many for each in pair)]
    assert read(forward).op_origins[ADD].module == "Block"
    assert ADD not in read([*forward, *work(70, 990, 995, 1, ADD)]).op_origins


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 8), st.integers(0, 2), st.integers(0, 1)),
        max_size=8,
    )
)
def test_origins__are_what_looking_at_each_moment_says(
    calls: list[tuple[int, int, int, int]],
) -> None:
    """Of the modules of a thread that are open, that which began last: in each other or not."""
    moments = range(22)
    names = ["nn.Module: A_0", "nn.Module: B_0", "nn.Module: C_0"]
    modules = Spans(
        array("q", [start for start, _, _, _ in calls]),
        array("q", [start + lasts for start, lasts, _, _ in calls]),
        array("i", [name for _, _, name, _ in calls]),
        array("i", [thread for _, _, _, thread in calls]),
    )
    count = len(moments)
    launches = Launches(array("q", moments), array("i", [0] * count), array("b", [0] * count))
    known, events = Names(), DeviceEvents()
    for moment in moments:
        events.add(moment, moment + 1, known.place(f"at {moment}"), 0, moment, moment, moment)
    host = Host(names, modules=modules, launches=launches)
    found = origins_of(events, known, host, range(count))
    for moment in moments:
        around = [
            (start, -(start + lasts), name)
            for start, lasts, name, thread in calls
            if thread == 0 and start <= moment < start + lasts
        ]
        expected = "ABC"[max(around)[2]] if around else None
        # Two that begin together and end together: either is right.
        same = {"ABC"[name] for start, end, name in around if (start, end) == max(around)[:2]}
        origin = found.get(f"at {moment}", {}).get("module")
        assert origin == expected or origin in same


# --- tenths -------------------------------------------------------------------------------------


def test_tenths__are_compute_in_the_order_of_launch() -> None:
    """Not in that of running, and without communication; the mean over the steps."""
    events = []
    for number in range(2):
        at, first = STEP * number, 100 * number
        events += [step(number, at, STEP)]
        for place in range(20):
            # The second half runs on another stream, before the first.
            begin = at + 500 + 20 * place - (400 if place >= 10 else 0)
            events += [call(first + place, at + place)]
            events += [kernel(first + place, begin, 1 + place, stream=7 + place // 10)]
        events += work(first + 50, at + 300, at + 970, 9, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    profile = read(events)
    expected = [(1 + 2 * tenth + 2 + 2 * tenth) / 1000 for tenth in range(10)]
    assert profile.compute_tenths_ms == pytest.approx(expected)
    assert sum(profile.compute_tenths_ms) == pytest.approx(profile.compute_ms)


def test_tenths__of_fewer_kernels_there_are_none() -> None:
    """Nine kernels have no tenth of them."""
    events = [step(0, 0, STEP)]
    for place in range(9):
        events += work(place, place, 20 * place + 50, 10)
    assert read(events).compute_tenths_ms == ()
