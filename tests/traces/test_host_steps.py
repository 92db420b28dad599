"""A step without a device: its operators, whose backward each is, and the time between them."""

from __future__ import annotations

import pytest

from benchmarks.hosts import LAYERS, LOADER, Call, host_trace, in_float64, linear, usual
from ci_score.model.explanation import BACKWARD, BETWEEN, BETWEEN_LOADING, COMMUNICATION
from ci_score.model.profile import Profile
from ci_score.traces.formats import kineto
from tests.builders.traces.kineto import AUTOGRAD, Json, annotation, op, source, step, text

NO_DEVICE = {"deviceProperties": list[str]()}


def read(events: list[Json]) -> Profile:
    return kineto.read(source(text(events, **NO_DEVICE)))


def engine(ts: float, dur: float, sequence: int) -> list[Json]:
    """A node of autograd, as the engine calls it."""
    name = "AddmmBackward0"
    return [
        op(f"autograd::engine::evaluate_function: {name}", ts, dur, Sequence_number=sequence),
        op(name, ts + 1, dur - 2, Sequence_number=sequence),
    ]


def product() -> list[Json]:
    """A linear layer with its way back, of 30 + 20 µs, in a step of 100."""
    return [
        step(1, 0, 100),
        op("aten::linear", 10, 30, Sequence_number=7),
        op("aten::addmm", 15, 20, Sequence_number=7),
        *engine(60, 20, 7),
        op("aten::mm", 62, 10),
    ]


def test_calls__of_the_backward_pass_belong_to_the_forward_pass() -> None:
    """What the program calls has all that it leads to; the engine's own time is no operator's."""
    profile = read(product())
    assert profile.ops == pytest.approx(
        {"aten::linear": 0.01, "aten::addmm": 0.03, "aten::mm": 0.01}
    )
    assert profile.op_counts == {"aten::linear": 1, "aten::addmm": 1, "aten::mm": 1}
    (called,) = profile.op_calls.items()
    assert called[0] == "aten::linear"
    assert (called[1].calls, called[1].operators) == (1, 3)
    assert called[1].ms == pytest.approx(0.05)
    assert called[1].backward_calls == 1
    assert called[1].backward_ms == pytest.approx(0.02)
    assert profile.op_origins["aten::mm"].op == "aten::linear"


def test_calls__of_nodes_without_a_forward_pass_are_their_own() -> None:
    """A number that no operator of the step has says nothing."""
    profile = read([step(1, 0, 100), *engine(60, 20, 7), op("aten::mm", 62, 10)])
    assert profile.op_calls["aten::mm"].calls == 1
    assert profile.op_calls["aten::mm"].backward_calls == 0
    assert profile.ops["AddmmBackward0"] == pytest.approx(0.01)


def test_count__is_of_operators_on_the_step_s_own_thread() -> None:
    """Autograd's nodes only call some, and another thread may run ahead of the step."""
    profile = read([*product(), op("aten::stack", 5, 1, AUTOGRAD)])
    assert profile.host_ops_per_step == 3
    assert "without autograd's nodes" in profile.sources["host_ops_per_step"]


def test_count__of_steps_that_differ_is_the_usual_one() -> None:
    """One of them has also logged; that is said."""
    events: list[Json] = []
    for number, count in enumerate((2, 5, 2, 1)):
        events.append(step(number, 100 * number, 100))
        events += [op("aten::mm", 100 * number + 10 * place, 5) for place in range(count)]
    profile = read(events)
    assert profile.host_ops_per_step == 2
    assert any("not run the same number of operators (2, 5, 2)" in n for n in profile.notes)


def test_count__needs_marks_of_steps_and_no_device() -> None:
    """Of a whole capture it is no number of a step; with a device others are gated."""
    unmarked = read([op("aten::mm", 10, 5)])
    assert unmarked.host_ops_per_step is None
    assert read(product()).host_parts
    assert kineto.read(source(host_trace(usual()))).host_ops_per_step is not None


def test_parts__are_operators_by_phase_and_the_time_between() -> None:
    """They sum to the step, and Python's own time has a part."""
    profile = read([*product(), annotation("forward", 5, 40), annotation("backward", 55, 30)])
    assert profile.host_parts == pytest.approx(
        {
            "forward": 0.03, "backward": 0.02, BETWEEN_LOADING: 0.0, COMMUNICATION: 0.0,
            BETWEEN: 0.05,
        }
    )  # fmt: skip


def test_gaps__in_the_data_loader_wait_for_it() -> None:
    """What the loader's own operators take is theirs."""
    events = [step(1, 0, 1000), annotation(LOADER, 0, 500), op("aten::stack", 400, 50)]
    profile = read([*events, op("aten::mm", 600, 400)])
    assert profile.host_parts[BETWEEN_LOADING] == pytest.approx(0.45)
    assert profile.host_parts[BETWEEN] == pytest.approx(0.1)


def test_gaps__while_others_communicate_are_a_part_of_their_own() -> None:
    """The thread of a library writes what it does."""
    events = [step(1, 0, 1000), op("aten::mm", 0, 200), op("aten::mm", 800, 200)]
    profile = read([*events, annotation("gloo:all_reduce", 100, 500, tid=5)])
    assert profile.host_parts[COMMUNICATION] == pytest.approx(0.4)
    assert profile.host_parts[BETWEEN] == pytest.approx(0.2)


def test_gaps__are_named_by_the_range_within_or_by_what_is_around() -> None:
    """Short ones are what it costs to call an operator."""
    events = [step(1, 0, 2000), op("aten::mm", 0, 100), op("aten::sum", 500, 100)]
    events += [annotation("log_metrics", 620, 300), op("aten::mul", 950, 30), *engine(1000, 100, 9)]
    events += [op("aten::add_", 1900, 90)]
    profile = read(events)
    assert profile.idle_ranges == pytest.approx({"log_metrics": 0.35})
    found = [(gap.after, gap.before, round(gap.ms, 3)) for gap in profile.host_gaps]
    assert found == [(BACKWARD, "aten::add_", 0.8), ("aten::mm", "aten::sum", 0.4)]


def test_types__are_those_of_tensors_and_stand_behind_the_name() -> None:
    """One number alone is always a double in Python; float32 goes without saying."""
    wide: Json = {"Input_type": ["double", "float"], "Input_Dims": [[4, 4], [4]]}
    scaled: Json = {"Input_type": ["float", "double"], "Input_Dims": [[4, 4], []]}
    half: Json = {"Input_type": ["c10::BFloat16", "Scalar"], "Input_Dims": [[4], []]}
    events = [step(1, 0, 100), op("aten::mm", 10, 10, **wide), op("aten::mul", 20, 10, **scaled)]
    profile = read([*events, op("aten::add", 30, 10, **half), op("aten::t", 40, 10)])
    assert list(profile.ops)[2:] == ["aten::add (bfloat16)", "aten::t"]
    assert profile.op_types == {
        "aten::mm (float64)": "float64",
        "aten::mul": "float32",
        "aten::add (bfloat16)": "bfloat16",
    }
    assert profile.op_kinds["aten::mm (float64)"] == "gemm"


@pytest.mark.parametrize("written", ["x", [["double"]], [1], {"double": 1}])
def test_types__of_any_shape_are_no_error(written: object) -> None:
    """What cannot be read tells nothing."""
    event = op("aten::mm", 10, 10, Input_type=written, Input_Dims=[[4, 4]])
    assert read([step(1, 0, 100), event]).op_types == {}


def test_trace__of_a_whole_step() -> None:
    """Every operator of the model is counted once a step, in each of the steps."""
    profile = kineto.read(source(host_trace(usual())))
    assert profile.op_calls["aten::linear"].calls == 3 * LAYERS
    assert sum(profile.host_parts.values()) == pytest.approx(profile.avg_step_ms)
    operators = sum(row.operators for row in profile.op_calls.values())
    assert profile.host_ops_per_step == operators
    assert not any("same number" in note for note in profile.notes)


def test_trace__in_float64_says_so_by_name() -> None:
    """The forward operator and those of its way back."""
    profile = kineto.read(source(host_trace(in_float64(500.0)[0])))
    assert profile.op_counts["aten::mm (float64)"] == 3 * LAYERS
    assert profile.op_origins["aten::mm (float64)"].op == "aten::linear (float64)"


def test_call__that_is_longer_is_so_on_both_ways() -> None:
    """What the builder of these traces promises."""
    call = Call("aten::linear", 1.0, [linear(10.0)])
    assert call.times(2.0).time_us == pytest.approx(2 * call.time_us)
