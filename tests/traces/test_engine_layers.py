"""Layers: the class that repeats, below a container or not, and what they hold of the work."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ci_score.model.profile import Profile
from ci_score.traces.formats import kineto
from tests.builders.traces.kineto import (
    ADD,
    GEMM,
    NCCL,
    Json,
    annotation,
    module,
    op,
    source,
    step,
    text,
    work,
)

ADAM = "void multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>"


def read(events: list[Json]) -> Profile:
    return kineto.read(source(text(events)))


# --- modules ------------------------------------------------------------------------------------


def stacks(
    count: int = 2, blocks: int = 3, own: float = 0.0, inner: str | None = "Linear"
) -> list[Json]:
    """Containers with blocks of 10 us of work each in them, and `own` work beside the blocks."""
    events = [step(0, 0, 10_000), module("Model_0", 1, 9000)]
    correlation, begin = 0, 10
    for stack in range(count):
        events += [module(f"Stack_{stack}", begin, 100 * blocks + (90 if own else 0))]
        for block in range(blocks):
            at = begin + 5 + 100 * block
            name = f"Block_{stack * blocks + block}"
            events += [module(name, at, 90)]
            if inner is not None:
                events += [module(f"{inner}_{stack * blocks + block}", at + 1, 40)]
            correlation += 1
            events += work(correlation, at + 3, at + 10, 10)
        if own:
            correlation += 1
            at = begin + 100 * blocks + 10
            events += work(correlation, at, at + 5, own)
        begin += 100 * blocks + 100
    return events


def test_layers__below_a_container_are_numbered_over_all_of_them() -> None:
    """Two stacks of three blocks are six layers, and not two."""
    profile = read(stacks())
    assert (profile.layers_are, profile.layer_class) == ("modules", "Block")
    assert [layer.layer for layer in profile.per_layer] == list(range(6))
    assert [layer.fwd_ms for layer in profile.per_layer] == pytest.approx([0.01] * 6)
    assert profile.layers_share == 1


@pytest.mark.parametrize(
    ("events", "of_class", "count"),
    [
        (stacks(count=3), "Stack", 3),
        (stacks(blocks=2), "Stack", 2),
        (stacks(inner=None), "Stack", 2),
        (stacks(own=7.5), "Block", 6),
        (stacks(own=8.5), "Stack", 2),
    ],
    ids=["many containers", "too few inside", "nothing inside", "four fifths", "less of the time"],
)
def test_layers__below_a_container_need_evidence(
    events: list[Json], of_class: str, count: int
) -> None:
    """A model of two layers would read `Linear` otherwise."""
    profile = read(events)
    assert (profile.layer_class, len(profile.per_layer)) == (of_class, count)


def test_layers__below_a_container_occur_in_each_of_them() -> None:
    """An encoder of blocks beside a decoder of something else is two parts."""
    events = [
        {**each, "name": each["name"].replace("Block_", "Other_")}
        if each["name"].removeprefix("nn.Module: ") in {"Block_3", "Block_4", "Block_5"}
        else each
        for each in stacks()
    ]
    assert read(events).layer_class == "Stack"


def test_layers__of_the_host_hold_most_of_its_time() -> None:
    """Without a device the host's own time decides, by the same rules."""
    for events, of_class in ((stacks(), "Block"), (stacks(blocks=2), "Stack")):
        modules = [each for each in events if each["cat"] not in {"kernel", "cuda_runtime"}]
        profile = read([*modules, op("aten::mm", 20, 5)])
        assert (profile.device_busy_ms, profile.layer_class) == (None, of_class)


def test_layers__share_is_of_all_kernel_time() -> None:
    """Work in no layer counts, communication too; a copy is no kernel."""
    head = [*work(80, 9500, 9600, 20), *work(81, 9510, 9700, 20, NCCL)]
    profile = read([*stacks(), *head])
    assert profile.layers_share == pytest.approx(60 / 100)
    assert "60 % of all kernel time" in profile.sources["per_layer"]


def test_layers__in_each_other_count_as_the_outer_one() -> None:
    """A block within a block is a part of it."""
    events = [step(0, 0, 1000)]
    for layer in range(2):
        at = 10 + 200 * layer
        events += [module(f"Block_{2 * layer}", at, 150), module("Linear_0", at + 60, 5)]
        events += [module(f"Block_{2 * layer + 1}", at + 20, 30), module("Linear_1", at + 22, 5)]
        events += work(layer, at + 25, at + 30, 10)
    profile = read(events)
    assert len(profile.per_layer) == 2
    assert [layer.fwd_ms for layer in profile.per_layer] == pytest.approx([0.01, 0.01])


# --- a sequence that repeats --------------------------------------------------------------------


def inference(
    repeats: int = 5, head: float = 5.0, steps: int = 2, last: str = "logits_kernel"
) -> list[Json]:
    """Each step: a product and an addition, 20 us together and so many times, then a head."""
    events, correlation = [], 0
    for number in range(steps):
        at = 1000 * number
        events.append(step(number, at, 1000))
        for place in range(2 * repeats):
            correlation += 1
            name = ADD if place % 2 else GEMM
            begin = at + 100 + 20 * place
            events += work(correlation, at + 10 + place, begin, 5 if place % 2 else 15, name)
        correlation += 1
        events += work(correlation, at + 90, at + 900, head, last)
    return events


def test_repeats__are_layers_of_a_model_that_names_none() -> None:
    """So often in each step; they are no modules, and the source says so."""
    profile = read(inference())
    assert (profile.layers_are, profile.layer_class) == ("repeats", None)
    assert [layer.fwd_ms for layer in profile.per_layer] == pytest.approx([0.02] * 5)
    assert profile.per_layer[0].ops == pytest.approx({GEMM: 0.015, ADD: 0.005})
    assert profile.layers_share == pytest.approx(100 / 105)
    assert "not what the program calls a layer" in profile.sources["per_layer"]
    assert {each.layer for each in profile.op_places if each.op == ADD} == set(range(5))


@pytest.mark.parametrize(
    "events",
    [
        inference(repeats=3),
        inference(head=70),
        inference(last=ADAM),
        [*inference(steps=1), *inference(repeats=6)[len(inference(repeats=6, steps=1)) :]],
    ],
    ids=["three in a row", "too little of the time", "training", "not in all steps alike"],
)
def test_repeats__need_evidence(events: list[Json]) -> None:
    """Else the layers would be invented, and none is better."""
    profile = read(events)
    assert profile.per_layer == ()
    assert profile.layers_are is None


def test_repeats__hold_their_share_without_communication() -> None:
    """What waits for other ranks is no part of the model."""
    assert read(inference(head=70, last=NCCL)).layers_are == "repeats"


def test_repeats__stand_in_a_row() -> None:
    """Something else between them makes them parts of something larger."""
    between: list[Json] = []
    for number in range(2):
        at = 1000 * number
        between += work(90 + number, at + 13, at + 158, 1, "something_else")
    assert read([*inference(), *between]).layers_are is None


def test_repeats__are_not_looked_for_beside_modules() -> None:
    """What the program calls a layer is one."""
    events = [*inference(), module("Net_0", 5, 80)]
    for layer in range(2):
        events += [module(f"Block_{layer}", 6 + 30 * layer, 25)]
        events += [module(f"Linear_{layer}", 7 + 30 * layer, 20)]
    assert read(events).layers_are == "modules"


# --- what strangers write -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["modules", "annotations", "operators"])
def test_nesting__as_deep_as_it_likes_is_looked_at_once(kind: str) -> None:
    """No recursion, and nothing that looks at all that is around each."""
    deep = 30_000
    makers: dict[str, Callable[[int, int, int], Json]] = {
        "modules": lambda place, ts, dur: module(f"Class{place % 500}_{place}", ts, dur),
        "annotations": lambda place, ts, dur: annotation(f"range {place % 500} x", ts, dur),
        "operators": lambda place, ts, dur: op(f"aten::op{place % 500}", ts, dur),
    }
    make = makers[kind]
    events = [step(0, 0, 3 * deep), *work(1, deep, deep + 1, 5)]
    events += [make(place, place, 2 * (deep - place) + 1) for place in range(deep)]
    profile = read(events[::-1])
    assert profile.unusable is None
    assert sum(phase.total_ms for phase in profile.phases.values()) == pytest.approx(0.005)
    assert json.loads(profile.model_dump_json())
