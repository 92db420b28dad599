"""Traces with Python stacks of their own: functions of the program, and no lines."""

from __future__ import annotations

import pytest

from ci_score.model.step_code import StepCode
from ci_score.traces import read_profile
from ci_score.traces.engine.stacks import is_candidate
from tests.builders import shared
from tests.builders.traces.kineto import (
    AUTOGRAD,
    MAIN,
    Json,
    node,
    op,
    source,
    span,
    step,
    text,
    work,
)


def function(name: str, ts: float, dur: float, tid: int = MAIN) -> Json:
    return span("python_function", name, ts, dur, tid)


def code_of(*events: Json) -> StepCode | None:
    return read_profile(source(text([step(1, 0, 100), *events]))).code


def milliseconds(code: StepCode | None) -> dict[str, tuple[float, float]]:
    """Forward and backward of each function, in microseconds."""
    assert code is not None
    return {
        f"{function.name} {function.file}:{function.first}": (
            round(1000 * one.work.forward_ms, 3),
            round(1000 * one.work.backward_ms, 3),
        )
        for one, function in ((one, code.definitions[one.definition]) for one in code.lines)
    }


def test_stacks__work_is_of_the_innermost_function_of_the_program() -> None:
    """A library's functions in between do not count, a comprehension is part of its own."""
    code = code_of(
        function("train.py(90): <module>", 0, 200),
        function("src/model.py(14): forward", 10, 60),
        op("aten::add", 12, 4),
        function("torch/nn/modules/linear.py(120): forward", 20, 20),
        op("aten::linear", 22, 8),
        function("src/model.py(17): <listcomp>", 45, 10),
        op("aten::mul", 46, 2),
        op("aten::sub", 80, 6),
    )
    assert milliseconds(code) == {
        "forward src/model.py:14": (14, 0),
        "<module> train.py:None": (6, 0),
    }
    assert [line.work.calls for line in code.lines] == [1, 1] if code else False
    assert code is not None
    assert (code.found_by, code.paths, code.knows_lines) == ("stacks", "trace", False)
    assert all((one.line, one.work.python_ms) == (None, 0) for one in code.lines)


def test_stacks__backward_goes_to_the_function_of_its_forward_operator() -> None:
    """On the thread of autograd there is no frame of the program."""
    code = code_of(
        function("model.py(3): forward", 10, 20),
        op("aten::addmm", 12, 4, Sequence_number=7),
        node(40, 10, 7, AUTOGRAD),
        op("aten::mm", 42, 6, AUTOGRAD),
    )
    assert milliseconds(code)["forward model.py:3"] == (4, 10)


def test_stacks__kernels_by_their_launch() -> None:
    """With a device the functions take what they launched there."""
    code = code_of(
        function("model.py(3): forward", 10, 20),
        *work(1, 15, 60, 30),
    )
    assert milliseconds(code)["forward model.py:3"] == (30, 0)


def test_stacks__none_without_functions_of_the_program() -> None:
    """Modules alone, or a library's functions, tell nothing of the program's code."""
    plain = op("aten::add", 12, 4)
    assert code_of(plain) is None
    of_torch = function("torch/nn/modules/module.py(1): _call_impl", 10, 20)
    assert code_of(of_torch, plain) is None


@pytest.mark.parametrize(
    "name",
    [
        "<built-in method relu of type object at 0x7f>",
        "nn.Module: Linear_3",
        "threading.py(1032): _bootstrap",
        "torch/nn/functional.py(3): relu",
        "/opt/venv/lib/python3.11/site-packages/mine/model.py(3): forward",
        "model.py(3): <lambda>",
        "model.py(12345678): forward",
        "mod\x00el.py(3): forward",
        "model.py(3): for\nward",
        "m" * 500 + ".py(3): forward",
        "model.py(3): " + "f" * 300,
    ],
)
def test_is_candidate__not(name: str) -> None:
    """What is no function, a library's, or longer than a name may be."""
    assert not is_candidate(name)


def test_stacks__a_million_names_leave_a_bounded_table() -> None:
    """However many functions a trace names, the table has as many as it may."""
    events = [
        each
        for place in range(2000)
        for each in (
            function(f"{'../' * (place % 3)}f{place}.py(3): forward", place * 0.04, 0.03),
            op("aten::add", place * 0.04 + 0.01, 0.01),
        )
    ]
    code = code_of(*events)
    assert code is not None
    assert (len(code.definitions), len(code.lines)) == (256, 256)
    assert code.left_out == 2000 - 256


def test_stacks__a_real_trace() -> None:
    """Of a small language model the functions of its script hold all that its operators took."""
    folder = shared()
    if folder is None:
        pytest.skip("there is no shared folder")
    name = "samples/kineto/torch213_cpu_lm_modules_3step.json.gz"
    profile = read_profile(source((folder / name).read_bytes()))
    names = milliseconds(profile.code)
    assert {name.partition(" ")[2].partition(":")[0] for name in names} == {"gen_torch.py"}
    assert profile.code is not None
    assert profile.code.without_line_ms == 0
    assert profile.code.total_ms == pytest.approx(sum(profile.ops.values()), rel=0.2)
