"""Traces of a step on a CPU, as the PyTorch profiler writes them, with known causes planted.

A transformer of four layers: the forward pass with the numbers that autograd's nodes have, the
backward pass in reverse, an optimizer, a data loader, and pauses of the length that an operator's
call takes under a profiler. All times are microseconds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.planting import Check, Truth, always, has
from benchmarks.tape import Json
from ci_score.model.explanation import BETWEEN, BETWEEN_LOADING

LAYERS, STEPS, PARAMETERS = 4, 3, 24
PAUSE_US = 2.0
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
_WRITTEN = {"float32": "float", "float64": "double", "bfloat16": "c10::BFloat16"}


@dataclass(frozen=True)
class Call:
    """An operator with its own time, the calls within it, and what its node calls in return."""

    name: str
    own_us: float
    inside: Sequence[Call] = ()
    backward: Sequence[Call] = ()
    type: str = "float32"

    def times(self, factor: float) -> Call:
        """The same, longer by a factor, forward and backward."""
        inside, backward = (
            tuple(each.times(factor) for each in calls) for calls in (self.inside, self.backward)
        )
        return Call(self.name, self.own_us * factor, inside, backward, self.type)

    @property
    def time_us(self) -> float:
        """Of both passes, without pauses."""
        return self.own_us + sum(each.time_us for each in (*self.inside, *self.backward))


@dataclass
class Model:
    """What a step does; a plant changes it."""

    norm: Sequence[Call]
    attention: Sequence[Call]
    narrow: Sequence[Call]
    product: Call
    before_layer: Sequence[Call] = ()
    after_loss: Sequence[Call] = ()
    loading_us: float = 80.0
    # Of the pause behind the first operator, and the range that fills it.
    stall_us: float = 0.0
    stall_name: str | None = None
    slower: float = 1.0


def linear(us: float, kind: str = "float32", product: str = "aten::addmm") -> Call:
    """A product with a weight: two more in the backward pass."""
    grads = [Call("aten::mm", 0.8 * us, type=kind) for _ in range(2)]
    inner = Call(product, us, backward=grads, type=kind)
    return Call("aten::linear", 3.0, [Call("aten::t", 2.0), inner], type=kind)


def simple(name: str, us: float, kind: str = "float32") -> Call:
    """An operator with one of its own behind it, and one in return."""
    bare = name.removeprefix("aten::")
    inner = Call(
        f"aten::_{bare}", us, backward=[Call(f"aten::_{bare}_backward", us, type=kind)], type=kind
    )
    return Call(name, 3.0, [inner], type=kind)


def usual() -> Model:
    """Without a plant."""
    return Model(
        norm=[simple("aten::layer_norm", 60.0)],
        attention=[simple("aten::scaled_dot_product_attention", 500.0)],
        narrow=[linear(400.0)],
        product=linear(300.0),
    )


# --- writing ------------------------------------------------------------------------------------


@dataclass
class _Writer:
    """The events of one thread, one after the other; `jitter` makes each time another."""

    chance: random.Random
    jitter: float
    now: float = 1000.0
    number: int = 100
    events: list[Json] = field(default_factory=list)
    nodes: list[tuple[int, Call]] = field(default_factory=list)

    def wait(self, us: float) -> None:
        """Nothing happens; all times are whole nanoseconds."""
        us *= 1 + self.chance.uniform(-self.jitter, self.jitter)
        self.now = round(self.now + us, 3)

    def span(self, cat: str, name: str, begin: float, **args: object) -> None:
        """What began then ends now."""
        event: Json = {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 7, "ts": begin}
        self.events.append(event | {"dur": round(self.now - begin, 3), "args": args})

    def call(self, call: Call, *, in_backward: bool = False) -> None:
        """An operator; one of the forward pass that has a way back gets a number."""
        begin = self.now
        self.wait(call.own_us / 2)
        for each in call.inside:
            self.call(each, in_backward=in_backward)
        self.wait(call.own_us / 2)
        kind = _WRITTEN[call.type]
        args: Json = {"Input type": [kind, kind, "Scalar"], "Input Dims": [[64, 64], [64], []]}
        if call.backward and not in_backward:
            self.number += 1
            self.nodes.append((self.number, call))
            args["Sequence number"] = self.number
        self.span("cpu_op", call.name, begin, **args)

    def pause(self) -> None:
        """What it costs to call the next one."""
        self.wait(PAUSE_US)

    def back(self) -> None:
        """The backward pass."""
        for number, call in reversed(self.nodes):
            name = f"{call.name.removeprefix('aten::').strip('_').title()}Backward0"
            outer = self.now
            self.wait(0.5)
            begin = self.now
            for each in call.backward:
                self.call(each, in_backward=True)
            args = {"Sequence number": number}
            self.span("cpu_op", name, begin, **args)
            self.wait(0.5)
            self.span("cpu_op", f"autograd::engine::evaluate_function: {name}", outer, **args)
            self.pause()
        self.nodes.clear()


def host_trace(model: Model, chance: random.Random | None = None, jitter: float = 0.0) -> bytes:
    """The trace of some steps of a model, each ended by its optimizer."""
    writer = _Writer(chance or random.Random(0), jitter)  # noqa: S311 - no secret
    for number in range(STEPS):
        begin = writer.now
        _write_step(writer, model)
        writer.span("user_annotation", f"ProfilerStep#{number}", begin)
    facts = {"schemaVersion": 1, "deviceProperties": [], "record_shapes": 1}
    return json.dumps({**facts, "traceEvents": writer.events}).encode()


def _write_step(writer: _Writer, model: Model) -> None:
    begin = writer.now
    writer.wait(model.loading_us)
    writer.call(Call("aten::stack", 5.0))
    writer.span("user_annotation", LOADER, begin)
    forward: list[Call] = []
    for _ in range(LAYERS):
        forward += [*model.before_layer, *model.norm, model.product, *model.attention]
        forward += [model.product, *model.narrow]
    forward.append(simple("aten::cross_entropy_loss", 150.0))
    writer.call(Call("aten::embedding", 30.0))
    if model.stall_us:
        stalled = writer.now
        writer.wait(model.stall_us)
        if model.stall_name:
            writer.span("user_annotation", model.stall_name, stalled)
    for call in (*forward, *model.after_loss):
        writer.pause()
        writer.call(call.times(model.slower))
    writer.pause()
    writer.back()
    begin = writer.now
    for _ in range(PARAMETERS):
        for name in ("aten::mul_", "aten::lerp_", "aten::addcdiv_"):
            writer.call(Call(name, 8.0 * model.slower))
            writer.pause()
    writer.span("user_annotation", "Optimizer.step#AdamW.step", begin)


# --- plants -------------------------------------------------------------------------------------

Planted = tuple[Model, Truth]


def attention_by_hand(us: float) -> Planted:
    """The fused operator is gone; products, a mask and a softmax do its work."""
    model = usual()
    each = (sum(call.time_us for call in model.attention) + us / LAYERS) / 10
    bmm = Call("aten::bmm", each, backward=[Call("aten::bmm", each), Call("aten::bmm", each)])
    model.attention = [
        Call("aten::matmul", 4.0, [bmm]),
        Call("aten::masked_fill", each, backward=[Call("aten::masked_fill", each)]),
        simple("aten::softmax", each),
        Call("aten::matmul", 4.0, [bmm]),
    ]
    return model, _gone("aten::scaled_dot_product_attention")


def norm_by_hand(us: float) -> Planted:
    """The same of a norm."""
    model = usual()
    each = (sum(call.time_us for call in model.norm) + us / LAYERS) / 8
    names = ("aten::mean", "aten::pow", "aten::rsqrt", "aten::mul")
    model.norm = [Call(name, each, backward=[Call("aten::mul", each)]) for name in names]
    return model, _gone("aten::layer_norm")


def _gone(name: str) -> Truth:
    return Truth({"replaced": has(gone=name)}, {"phase_grew": always, "two_parts": always})


def in_float64(us: float) -> Planted:
    """One product of each layer computes with wider numbers."""
    model = usual()
    factor = (sum(call.time_us for call in model.narrow) + us / LAYERS) / 1040.0
    convert = Call("aten::to", 2.0, [Call("aten::_to_copy", 4.0)])
    model.narrow = [convert, linear(400.0 * factor, "float64", "aten::mm")]
    return model, _of_type("float32", "float64")


def without_autocast(us: float) -> Planted:
    """In the base the products compute with half of the bits."""
    model = usual()
    model.product = linear(300.0 + us / (2 * LAYERS * 2.6))
    return model, _of_type("bfloat16", "float32")


def _of_type(was: str, now: str) -> Truth:
    right: Check = has(base_type=was, head_type=now)
    turned: Check = has(base_type=now, head_type=was)
    either: Check = lambda data: right(data) or turned(data)  # noqa: E731
    return Truth({"other_type": either}, {"phase_grew": always})


def a_clone_a_layer(us: float) -> Planted:
    """A copy before each layer."""
    model = usual()
    copy = Call("aten::copy_", us / LAYERS - 4.0)
    model.before_layer = [Call("aten::clone", 2.0, [Call("aten::empty_like", 2.0), copy])]
    return model, _call("aten::clone")


def items_in_a_loop(us: float) -> Planted:
    """Many reads of one number each."""
    model = usual()
    read = Call("aten::item", 4.0, [Call("aten::_local_scalar_dense", 4.0)])
    model.after_loss = [read] * max(round(us / (8.0 + PAUSE_US)), 1)
    return model, _call("aten::item")


def operator_slower(us: float) -> Planted:
    """The same calls, each longer."""
    model = usual()
    model.attention = [call.times(1 + us / (LAYERS * call.time_us)) for call in model.attention]
    return model, _call("aten::scaled_dot_product_attention")


def undetached(us: float) -> Planted:
    """What had no backward pass has one: the very same calls, of several operators."""
    model = with_targets()
    lost = sum(each.time_us for call in TARGETS for each in _nodes(call)) * LAYERS
    model.before_layer = [_stretched(call, us / lost) for call in TARGETS]
    right = has(names=("aten::linear", "aten::gelu"))
    return model, Truth({"more_backward": right}, {"phase_grew": always})


# A second pass through some operators; in the base its result is detached.
TARGETS = (linear(400.0), simple("aten::gelu", 100.0))


def with_targets() -> Model:
    """Without a plant, but with those."""
    model = usual()
    model.before_layer = [_stretched(call, 0.0) for call in TARGETS]
    return model


def _nodes(call: Call) -> Sequence[Call]:
    """What the nodes of a call run, and of those within it."""
    return [*call.backward, *(one for each in call.inside for one in _nodes(each))]


def _stretched(call: Call, factor: float) -> Call:
    """The call with its backward pass `factor` times as long; a factor of 0 removes the pass."""
    inside = tuple(_stretched(each, factor) for each in call.inside)
    backward = tuple(each.times(factor) for each in call.backward) if factor else ()
    return Call(call.name, call.own_us, inside, backward, call.type)


def _call(name: str) -> Truth:
    return Truth({"one_call": has(name=name)}, {"phase_grew": always, "two_parts": always})


def loader_slower(us: float) -> Planted:
    """The step waits for its data."""
    model = usual()
    model.loading_us += us
    return model, Truth({"between_operators": has(part=BETWEEN_LOADING)})


def slow_python(us: float) -> Planted:
    """Python works between two operators."""
    model = usual()
    model.stall_us = us
    right = has(part=BETWEEN, last_op="aten::embedding", next_op="aten::layer_norm")
    return model, Truth({"between_operators": right}, {"between_operators": has(part=BETWEEN)})


def in_a_range(us: float) -> Planted:
    """The same within a range that the program has named."""
    model = usual()
    model.stall_us, model.stall_name = us, "log_metrics"
    right = has(name="log_metrics")
    return model, Truth({"host_in_range": right}, {"between_operators": has(part=BETWEEN)})


def machine_slower(us: float) -> Planted:
    """Every operator takes longer alike."""
    model = usual()
    model.slower = 1 + us / 14_000.0
    return model, Truth({"all_operators": always}, {"phase_grew": always})


HOST_KINDS: dict[str, Callable[[float], Planted]] = {
    "host, attention by hand": attention_by_hand,
    "host, norm by hand": norm_by_hand,
    "host, float64": in_float64,
    "host, without autocast": without_autocast,
    "host, a clone a layer": a_clone_a_layer,
    "host, items in a loop": items_in_a_loop,
    "host, operator slower": operator_slower,
    "host, undetached": undetached,
    "host, loader slower": loader_slower,
    "host, slow Python": slow_python,
    "host, in a range": in_a_range,
    "host, machine slower": machine_slower,
}


def base_of(kind: str) -> Model:
    """What a plant is compared with."""
    if kind == "host, undetached":
        return with_targets()
    model = usual()
    if kind == "host, without autocast":
        model.product = linear(300.0, "bfloat16")
    return model
