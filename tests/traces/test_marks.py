"""A trace whose calls stand in marks: whose line each work is, and how else it is read."""

from __future__ import annotations

import gzip
import json

import pytest

from ci_score.errors import BadInputError
from ci_score.model.step_code import MarkedStep
from ci_score.traces import read_marked, read_profile
from tests.builders.traces.kineto import (
    AUTOGRAD,
    MAIN,
    Json,
    call,
    kernel,
    node,
    op,
    source,
    span,
    step,
    text,
    work,
)
from tests.builders.traces.marked import FIXTURE, judged

NO_DEVICE = {"deviceProperties": list[str]()}


def mark(number: object, ts: float, dur: float, tid: int = MAIN) -> Json:
    return span("cpu_op", f"ci_score.line#{number}", ts, dur, tid)


def forward(name: str, ts: float, dur: float, sequence: int, tid: int = MAIN) -> Json:
    return op(name, ts, dur, tid, Sequence_number=sequence, Fwd_thread_id=0)


def backward(ts: float, dur: float, sequence: int, tid: int = MAIN, of: int = 1) -> Json:
    return op("MulBackward0", ts, dur, tid, Sequence_number=sequence, Fwd_thread_id=of)


def accumulate(ts: float, dur: float, tid: int = MAIN) -> Json:
    return op("torch::autograd::AccumulateGrad", ts, dur, tid)


def marked(*events: Json, **metadata: object) -> MarkedStep:
    return read_marked(source(text(list(events), **(NO_DEVICE | metadata))))


def us(step: MarkedStep, number: int) -> tuple[float, float]:
    """Forward and backward of a line, in microseconds."""
    taken = step.work[number]
    return round(1000 * taken.forward_ms, 6), round(1000 * taken.backward_ms, 6)


# --- whose line --------------------------------------------------------------------------------


def test_work__is_of_the_innermost_mark() -> None:
    """An operator counts its own time, and where marks nest the inner one has it."""
    found = marked(
        step(1, 0, 100),
        mark(1, 10, 60),
        op("aten::linear", 12, 20),
        op("aten::mm", 15, 5),
        mark(2, 40, 20),
        op("aten::relu", 45, 10),
        op("aten::add", 80, 4),
    )
    assert us(found, 1) == (20, 0)
    assert us(found, 2) == (10, 0)
    assert (found.work[1].forward_launches, found.work[2].forward_launches) == (2, 1)
    assert 1000 * found.total_ms == pytest.approx(34)
    assert 1000 * found.without_line_ms == pytest.approx(4)
    assert (found.steps, found.operators) == (1, 4)


def test_backward__goes_to_the_line_of_its_forward_operator() -> None:
    """The last operator with a number made the node; an earlier one only asked for the next."""
    found = marked(
        step(1, 0, 200),
        mark(1, 10, 20),
        forward("aten::item", 12, 10, 7),
        mark(2, 40, 20),
        forward("aten::mul", 42, 10, 7),
        mark(3, 70, 100),
        backward(100, 30, 7),
        op("aten::mul", 110, 10),
        accumulate(140, 5),
    )
    assert us(found, 2) == (10, 35)
    assert us(found, 1) == (10, 0)
    assert 3 not in found.work or found.work[3].ms == 0
    assert (found.work[2].forward_launches, found.work[2].backward_launches) == (1, 1)


def test_backward__of_an_operator_with_the_number_of_the_node_around_it_is_the_node_s() -> None:
    """It is no forward work, though nothing in its name says so."""
    found = marked(
        step(1, 0, 300),
        mark(1, 10, 20),
        forward("aten::mul", 12, 10, 7),
        mark(3, 40, 200),
        backward(50, 30, 7),
        op("odd", 55, 20, Sequence_number=7, Fwd_thread_id=1),
        backward(100, 30, 7),
    )
    assert us(found, 1) == (10, 60)


def test_backward__of_a_number_that_is_used_later_is_of_its_call() -> None:
    """An operator after a node cannot have made it."""
    found = marked(
        step(1, 0, 300),
        mark(3, 40, 60),
        backward(50, 30, 7),
        mark(1, 110, 20),
        forward("aten::mul", 112, 10, 7),
    )
    assert us(found, 3) == (0, 30)
    assert us(found, 1) == (10, 0)


def test_backward__of_nobody_is_of_its_call() -> None:
    """A number without an operator, and gradients added up before any node, are the call's."""
    found = marked(
        step(1, 0, 300),
        mark(1, 10, 20),
        forward("aten::mul", 12, 10, 8),
        mark(2, 40, 20),
        backward(42, 10, 8),
        mark(3, 70, 100),
        accumulate(80, 5),
        backward(100, 30, 7),
    )
    assert us(found, 3) == (0, 35)
    assert us(found, 1) == (10, 10)


def test_backward__on_a_thread_of_its_own_is_of_the_call_on_the_steps_thread() -> None:
    """There no mark is around it, and the numbers of its own thread are others."""
    arrows = [
        span("fwdbwd", "fwdbwd", 22, 0, MAIN) | {"ph": "s", "id": 1},
        span("fwdbwd", "fwdbwd", 110, 0, AUTOGRAD) | {"ph": "f", "id": 1},
    ]
    found = marked(
        step(1, 0, 300),
        mark(1, 20, 20),
        forward("aten::mul", 22, 10, 7),
        mark(3, 70, 200),
        backward(80, 4, 99, AUTOGRAD),
        mark(2, 90, 15, AUTOGRAD),
        forward("aten::mul", 92, 10, 7, AUTOGRAD),
        backward(110, 30, 7, AUTOGRAD, of=1),
        backward(150, 20, 7, AUTOGRAD, of=2),
        *arrows,
        span("fwdbwd", "fwdbwd", 92, 0, AUTOGRAD) | {"ph": "s", "id": 2},
        span("fwdbwd", "fwdbwd", 150, 0, AUTOGRAD) | {"ph": "f", "id": 2},
    )
    assert us(found, 1) == (10, 30)
    assert us(found, 2) == (10, 20)
    assert us(found, 3) == (0, 4)


def test_backward__of_a_mark_within_a_node_is_its_own() -> None:
    """What is computed again stands in marks; a node made there goes on to its line."""
    found = marked(
        step(1, 0, 300),
        mark(1, 10, 20),
        forward("CheckpointFunction", 12, 10, 7),
        mark(3, 70, 200),
        node(80, 150, 7, MAIN),
        mark(2, 90, 30),
        forward("aten::mul", 95, 20, 8),
        backward(130, 40, 8),
    )
    assert us(found, 2) == (20, 40)
    # The rest of the node itself: all but the mark, the node within it, and 10 µs before the mark.
    assert us(found, 1) == (10, 70)


def test_backward__of_a_node_made_in_a_backward_pass_goes_on_to_its_forward_line() -> None:
    """A gradient of gradients has its numbers from operators within nodes."""
    found = marked(
        step(1, 0, 300),
        mark(1, 10, 20),
        forward("aten::mul", 12, 10, 7),
        mark(2, 40, 60),
        backward(50, 30, 7),
        forward("aten::mul", 55, 20, 8),
        mark(3, 120, 100),
        backward(130, 40, 8),
    )
    assert us(found, 1) == (10, 70)


def test_backward__whose_numbers_lead_in_a_circle_is_of_its_call() -> None:
    """Numbers may lie; nothing goes round for ever."""
    found = marked(
        step(1, 0, 300),
        mark(3, 10, 200),
        backward(20, 40, 7),
        forward("aten::mul", 20, 40, 7),
        backward(100, 40, 7),
    )
    assert us(found, 3)[1] == pytest.approx(80)


def test_kernels__are_of_the_line_that_launched_them() -> None:
    """With a device its work counts; what a call outside all marks launched has no line."""
    found = marked(
        step(1, 0, 100),
        step(2, 100, 100),
        mark(1, 10, 20),
        forward("aten::mul", 12, 10, 7),
        *work(1, at=15, ts=40, dur=30),
        mark(2, 40, 50),
        backward(45, 30, 7, AUTOGRAD),
        call(2, 50, AUTOGRAD),
        kernel(2, 80, 10),
        *work(3, at=120, ts=130, dur=6),
        deviceProperties=[{"id": 0, "name": "A"}],
    )
    assert us(found, 1) == (15, 5)
    assert (found.work[1].forward_launches, found.work[1].backward_launches) == (0.5, 0.5)
    assert 1000 * found.without_line_ms == pytest.approx(3)


def test_lines__of_a_real_step_are_those_of_the_script() -> None:
    """All ways to an operator: checkpoints, functions of one's own, gradients of gradients."""
    data = gzip.decompress(FIXTURE.read_bytes())
    told = json.loads(data)
    lines = {int(number): line for number, line in told["lines"].items()}
    right, wrong = judged(source(data), lines, told["wanted"])
    assert not wrong
    assert set(right) == set(told["wanted"])
    assert right.total() == 128
    assert read_marked(source(data)).without_line_ms == 0


# --- Python ------------------------------------------------------------------------------------


def test_python__counts_to_the_next_mark_without_what_marks_cost() -> None:
    """Between most marks there are 5 µs, and before one of them 500."""
    events = [step(1, 0, 2000)]
    starts = [10.0 * place for place in range(1, 21)] + [710.0]
    for number, ts in enumerate(starts, 1):
        events += [mark(number, ts, 5), op("aten::mul", ts + 1, 3)]
    found = marked(*events)
    assert 1000 * found.work[21].python_ms == pytest.approx(500)
    assert sum(found.work[number].python_ms for number in range(2, 21)) == 0


def test_python__is_no_time_in_which_another_thread_runs_operators() -> None:
    """The call of the backward pass waits for it."""
    found = marked(
        step(1, 0, 1000),
        *[each for ts in (10, 20, 30) for each in (mark(1, ts, 5), op("aten::mul", ts + 1, 3))],
        mark(3, 40, 900),
        op("aten::mul", 41, 4),
        backward(45, 894, 99, AUTOGRAD),
    )
    assert found.work[3].python_ms == 0
    assert us(found, 3)[1] == pytest.approx(894)


def test_python__is_no_time_in_which_a_call_waits_for_the_device() -> None:
    """What is slow then is the device."""
    found = marked(
        step(1, 0, 1000),
        *[each for ts in (10, 20, 30) for each in (mark(1, ts, 5), op("aten::mul", ts + 1, 3))],
        span("cuda_runtime", "cudaDeviceSynchronize", 35, 700),
        mark(3, 740, 5),
        op("aten::mul", 741, 3),
        kernel(9, 40, 690),
        deviceProperties=[{"id": 0, "name": "A"}],
    )
    assert 3 not in found.work


def test_python__of_a_thread_that_waits_for_work_does_not_count() -> None:
    """Between its marks the engine's thread does nothing."""
    found = marked(
        step(1, 0, 1000),
        *[each for ts in (10, 20, 30) for each in (mark(1, ts, 5), op("aten::mul", ts + 1, 3))],
        *[
            each
            for ts in (100, 800)
            for each in (mark(2, ts, 5, AUTOGRAD), op("aten::mul", ts + 1, 3, AUTOGRAD))
        ],
    )
    assert found.work[2].python_ms == 0


def test_python__between_steps_counts_to_the_next_step() -> None:
    """There data is loaded."""
    found = marked(
        step(1, 0, 40),
        mark(1, 30, 10),
        step(2, 540, 60),
        mark(2, 545, 5),
        op("aten::mul", 546, 3),
        *[each for ts in (555, 565) for each in (mark(1, ts, 5), op("aten::mul", ts + 1, 3))],
    )
    assert 1000 * found.work[2].python_ms == pytest.approx(500)


def test_python__of_the_first_of_several_steps_does_not_count() -> None:
    """There the profiler starts, and lines are met for the first time."""
    events: list[Json] = []
    for number, pause in enumerate((800, 0, 90)):
        begin = 1000 * number
        events += [step(number, begin, 1000)]
        for line, ts in ((1, 10), (20, 20 + pause), (3, 30 + pause)):
            events += [mark(line, begin + ts, 5), op("aten::mul", begin + ts + 1, 3)]
    found = marked(*events, step(9, 3000, 10), mark(9, 3001, 5), op("aten::mul", 3002, 3))
    assert 1000 * found.work[20].python_ms == pytest.approx(90 / 3)
    assert 1000 * found.step_ms == pytest.approx((1000 + 1000 + 10) / 3)


def test_python__in_a_hook_of_the_backward_pass_is_of_the_call() -> None:
    """From one node to the next the engine takes 2 µs of its own, and once somebody takes 300."""
    pauses = [2.0, 2.0, 2.0, 300.0]
    events = [step(1, 0, 1000), mark(3, 10, 900), backward(11, 4, 98)]
    ts = 15.0
    for number, pause in enumerate(pauses):
        events.append(backward(ts + pause, 4, 100 + number))
        ts += pause + 4
    found = marked(*events)
    # And a µs before the first node, and what follows the last one: that of the only mark is usual.
    assert 1000 * found.work[3].python_ms == pytest.approx(298)


def test_python__within_an_operator_counts_to_the_mark_in_it() -> None:
    """A function of one's own runs Python in a node of autograd."""
    found = marked(
        step(1, 0, 1000),
        *[each for ts in (10, 20, 30) for each in (mark(1, ts, 5), op("aten::mul", ts + 1, 3))],
        mark(3, 40, 900),
        backward(41, 600, 99),
        mark(4, 541, 5),
        op("aten::mul", 542, 3),
    )
    assert 1000 * found.work[4].python_ms == pytest.approx(495)
    assert us(found, 3)[1] == pytest.approx(95)


# --- memory ------------------------------------------------------------------------------------


def memory(ts: float, address: int, size: int, total: int, device: int = 0) -> Json:
    args = {"Addr": address, "Bytes": size, "Total Allocated": total, "Device Type": device}
    args["Device Id"] = 0 if device else -1
    return span("cpu_instant_event", "[memory]", ts, 0) | {"ph": "i", "args": args}


def test_peak__is_of_the_lines_whose_allocations_are_in_use_then() -> None:
    """What was there before the capture has no line; backward is of the forward's line."""
    events = [
        step(1, 0, 300),
        mark(1, 10, 40),
        forward("aten::mul", 12, 20, 7),
        memory(15, 100, 50, 1050),
        memory(16, 200, 30, 1080),
        memory(17, 200, -30, 1050),
        memory(18, 900, 300, 1350),
        memory(19, 900, -300, 1050),
        mark(2, 60, 30),
        memory(65, 200, 7, 1057),
        mark(3, 100, 100),
        backward(110, 30, 7),
        memory(115, 300, 400, 1457),
        memory(190, 300, -400, 1057),
        op("aten::add", 400, 100),
        memory(410, 400, 9000, 10057),
        memory(420, 400, -9000, 1057),
    ]
    found = marked(*events)
    assert (found.peak_bytes, found.peak_without_line) == (1457, 1000)
    assert {number: work.peak_bytes for number, work in found.work.items()} == {1: 450, 2: 7, 3: 0}
    plain = read_profile(source(text(events, **NO_DEVICE)))
    assert plain.peak_ops == {"aten::mul": 450}


def test_peak__is_the_device_s_where_there_is_one() -> None:
    """A host may have more in use, which nobody lacks."""
    found = marked(
        step(1, 0, 300),
        mark(1, 10, 40),
        memory(15, 100, 5000, 5000),
        memory(16, 100, 50, 50, device=1),
    )
    assert found.peak_bytes == 50
    assert found.work[1].peak_bytes == 50


def test_peak__of_events_that_lie_stays_within_bounds() -> None:
    """No total, a size without end, what is freed twice, and numbers that are none."""
    freed = [memory(15, 100, -500, -1), memory(16, 100, 40, -1), memory(17, 1, 3, -1)]
    del freed[2]["args"]["Addr"]
    found = marked(step(1, 0, 300), mark(1, 10, 100), *freed)
    assert (found.peak_bytes, found.peak_without_line) == (43, 3)
    found = marked(
        step(1, 0, 300),
        mark(1, 10, 100),
        memory(15, 100, 2**62, -1),
        memory(16, 100, -5, -1),
        memory(17, 100, -5, -1),
        memory(18, 2**64 - 1, 2**64 - 1, 2**63),
        span("cpu_instant_event", "[memory]", 19, 0) | {"args": {"Addr": "x", "Bytes": [1]}},
        memory(20, 100, 40, -1),
    )
    assert found.peak_bytes == 2**60
    many = [memory(15 + each, 100 + each, 2**60, 1 + each) for each in range(20)]
    events = [step(1, 0, 300), mark(1, 10, 100), op("aten::mul", 12, 80), *many]
    found = marked(*events)
    assert (found.peak_bytes, found.work[1].peak_bytes) == (2**60, 2**60)
    assert read_profile(source(text(events, **NO_DEVICE))).peak_ops == {"aten::mul": 2**60}


# --- the same trace for everybody else ---------------------------------------------------------


def test_marks__are_nothing_to_an_ordinary_profile() -> None:
    """Neither phases nor operators, nor names of gaps: all is as without them."""
    plain = [
        step(1, 0, 1000),
        forward("aten::mul", 12, 20, 7),
        backward(110, 30, 7),
        step(2, 1000, 1000),
        op("aten::mul", 1500, 3),
    ]
    marks = [
        mark(1, 10, 40),
        mark(2, 400, 1000),
        mark("x", 5, 2),
        span("user_annotation", "ci_score.line#3", 1200, 250),
    ]
    expected = read_profile(source(text(plain, **NO_DEVICE)))
    assert read_profile(source(text([*plain, *marks], **NO_DEVICE))) == expected


@pytest.mark.parametrize("number", ["x", "0", "-1", "1e3", "12345678", "٣", "1 ", ""])
def test_marks__whose_number_is_none_do_not_count(number: str) -> None:
    """The hook writes decimal numbers from 1; the mark around such a one counts."""
    found = marked(step(1, 0, 100), mark(1, 10, 60), mark(number, 20, 40), op("aten::mul", 30, 10))
    assert us(found, 1) == (10, 0)
    assert set(found.work) == {1}


def test_marks__that_overlap_share_no_time() -> None:
    """A mark that ends within another one is broken; what runs counts once."""
    found = marked(
        step(1, 0, 100),
        mark(1, 10, 30),
        mark(2, 20, 60),
        op("aten::mul", 25, 10),
        op("aten::add", 50, 10),
    )
    assert us(found, 2) == (20, 0)
    assert 1000 * found.total_ms == pytest.approx(20)


def test_marked__needs_steps_and_a_whole_trace() -> None:
    """Without marks of steps there is no step; half a trace is no answer."""
    assert marked(mark(1, 10, 60), op("aten::mul", 30, 10)).steps == 0
    with pytest.raises(BadInputError):
        read_marked(source(text([step(1, 0, 100), mark(1, 10, 60)], **NO_DEVICE)[:-30]))
    with pytest.raises(BadInputError, match="no trace of the PyTorch profiler"):
        read_marked(source(b"{}"))


def test_calls__are_the_marks_that_say_so_within_the_steps() -> None:
    """As a mean of a step; without a plus a mark is of a call that was counted before."""
    found = marked(
        *(mark("1+", at, 4) for at in (10, 20, 110, 120, 250)),
        *(mark("1", at, 2) for at in (15, 115)),
        *(mark(2, at, 4) for at in (30, 130)),
        *(op("aten::mul", at, 1) for at in (12, 22, 32, 112, 122, 132)),
        step(1, 0, 100),
        step(2, 100, 100),
    )
    assert (found.work[1].calls, found.work[2].calls) == (2, 0)
    assert 1000 * found.work[1].forward_ms == pytest.approx(2)


# --- what nobody's hook writes -----------------------------------------------------------------


def test_hostile__nodes_within_nodes_that_lead_to_themselves() -> None:
    """Each has an operator of its own number in it; however many they are, it stays quick."""
    count = 20_000
    events = [step(1, 0, 9 * count), mark(3, 1, 8 * count)]
    for place in range(count):
        length = 7 * count - place / 10
        events += [backward(2, length, place), forward("aten::mul", 2, length - 0.05, place)]
    assert set(marked(*events).work) == {3}


def test_hostile__more_lines_than_are_kept() -> None:
    """The largest stay; what others do has no line."""
    count = 21_000
    events = [step(1, 0, 10 * count)]
    for place in range(1, count + 1):
        length = 8 if place > count - 10 else 4
        events += [mark(place, 10 * place - 9, 9), op("aten::mul", 10 * place - 9, length)]
    found = marked(*events)
    assert len(found.work) == 20_000
    assert set(range(count - 9, count + 1)) <= set(found.work)
    assert 1000 * found.without_line_ms == pytest.approx(4 * 1000)


def test_hostile__numbers_that_no_column_holds() -> None:
    """They are as if they were not there, and the operator counts."""
    found = marked(
        step(1, 0, 300),
        mark(1, 10, 200),
        op("aten::mul", 12, 10, Sequence_number=2**70),
        op("MulBackward0", 30, 10, Sequence_number=7, Fwd_thread_id="x"),
        span("fwdbwd", "fwdbwd", 30, 0) | {"ph": "f", "id": [1]},
        span("fwdbwd", "fwdbwd", -5, 0) | {"ph": "s", "id": 2**64 - 1},
    )
    assert us(found, 1) == (10, 10)
