"""Why a step of a CPU takes longer, in a sentence: of traces with known causes, and of none."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from benchmarks.hosts import HOST_KINDS, Call, Model, base_of, host_trace, linear, usual
from ci_score.compare import Workload, compared, measured_case
from ci_score.model.explanation import Explanation
from ci_score.model.record import BaselineUsed, Measured
from ci_score.model.stages import BaselineFound, CaseInput
from ci_score.report import sentence
from ci_score.report.headlines import cause_words
from ci_score.traces import ProfileSource, read_profile

SHARE = 0.15
ATTENTION = "scaled_dot_product_attention"
# Plant -> what is said of the slower step, of the number of its operators, and of the way back.
SAID: dict[str, tuple[str, str, str]] = {
    "host, attention by hand": (
        (
            f"'{ATTENTION}' is gone; bmm, softmax and masked_fill do its work: 4.02 → 6.50 ms"
            " (+2.49 ms)"
        ),
        f"'{ATTENTION}' is gone; bmm, softmax and masked_fill do its work",
        (f"'{ATTENTION}' does the work of bmm, softmax and masked_fill: 6.50 → 4.02 ms (−2.49 ms)"),
    ),
    "host, norm by hand": (
        "'layer_norm' is gone; mean, mul and pow do its work: 0.496 → 2.94 ms (+2.44 ms)",
        "'layer_norm' is gone; mean, mul and pow do its work",
        "'layer_norm' does the work of mean, mul and pow: 2.94 → 0.496 ms (−2.44 ms)",
    ),
    "host, float64": (
        "mm computes in float64 instead of float32: 6.44 → 10.5 ms a step (+4.05 ms)",
        "'linear (float64)' is new, 4 calls a step",
        "mm computes in float32 instead of float64: 10.5 → 6.44 ms a step (−4.05 ms)",
    ),
    "host, without autocast": (
        "mm and addmm compute in float32 instead of bfloat16: 10.4 → 12.9 ms a step (+2.43 ms)",
        "",
        "mm and addmm compute in bfloat16 instead of float32: 12.9 → 10.4 ms a step (−2.43 ms)",
    ),
    "host, a clone a layer": (
        "'clone' is new, 4 calls and 2.43 ms a step (+2.43 ms)",
        "'clone' is new, 4 calls a step",
        "'clone' is gone, 4 calls and 2.43 ms a step (−2.43 ms)",
    ),
    "host, items in a loop": (
        "'item' is new, 243 calls and 1.94 ms a step (+1.94 ms)",
        "'item' is new, 243 calls a step",
        "'item' is gone, 243 calls and 1.94 ms a step (−1.94 ms)",
    ),
    "host, operator slower": (
        f"mostly '{ATTENTION}': 61 % longer (4.02 → 6.45 ms), same 4 calls a step (+2.43 ms)",
        "",
        f"mostly '{ATTENTION}': 38 % shorter (6.45 → 4.02 ms), same 4 calls a step (−2.43 ms)",
    ),
    "host, undetached": (
        (
            "the backward pass goes through more of the same calls ('linear' 12 → 16 and 'gelu'"
            " 0 → 4): 6.41 → 9.16 ms a step; a lost detach or no_grad? (+2.75 ms)"
        ),
        (
            "the backward pass goes through more of the same calls ('linear' 12 → 16 and 'gelu'"
            " 0 → 4); a lost detach or no_grad?"
        ),
        (
            "the backward pass goes through fewer of the same calls ('linear' 16 → 12 and 'gelu'"
            " 4 → 0): 9.16 → 6.41 ms a step (−2.75 ms)"
        ),
    ),
    "host, loader slower": (
        "the step waits for the data loader: 0.0800 → 2.51 ms (+2.43 ms)",
        "",
        "the step waits for the data loader: 2.51 → 0.0800 ms (−2.43 ms)",
    ),
    "host, slow Python": (
        (
            "the host spends 2.43 ms a step in no operator between 'embedding' and 'layer_norm':"
            " slow Python? (+2.43 ms)"
        ),
        "",
        (
            "the host spends 2.43 → 0 ms a step in no operator between 'embedding' and"
            " 'layer_norm' (−2.43 ms)"
        ),
    ),
    "host, in a range": (
        "the host is in 'log_metrics' for 2.43 ms a step (+2.43 ms)",
        "",
        "the host is in 'log_metrics' for 2.43 → 0 ms a step (−2.43 ms)",
    ),
    "host, machine slower": (
        (
            "every operator takes about 17 % longer with the same number of calls, so look "
            "at the machine before the code (+2.75 ms)"
        ),
        "",
        (
            "every operator takes about 15 % less time with the same number of calls, which the"
            " machine may explain and the code hardly (−2.75 ms)"
        ),
    ),
}


def measured(model: Model, jitter: float = 0.0) -> Measured:
    chance = random.Random(5)  # noqa: S311 - noise, no secret
    data = host_trace(model, chance, jitter)
    profile = read_profile(ProfileSource("trace.json", data=data))
    return measured_case(CaseInput("training", profile), Workload())


def explained(head: Measured, base: Measured) -> Explanation:
    found = compared(head, BaselineFound(base, BaselineUsed(source="a test"))).explanation
    assert found is not None
    return found


def of_counts(found: Explanation) -> str:
    return sentence(found.counts_cause) if found.counts_cause else ""


def test_plants__are_all_told() -> None:
    """A new one needs its sentence."""
    assert SAID.keys() == HOST_KINDS.keys()


@pytest.mark.parametrize("kind", HOST_KINDS)
def test_cause__of_a_plant_and_of_its_way_back(kind: str) -> None:
    """The sentence that a reviewer reads, for the time and for the number of operators."""
    base = measured(base_of(kind))
    planted, _ = HOST_KINDS[kind](SHARE * base.scorecard.step_time_ms * 1000.0)
    head = measured(planted)
    slower, faster = explained(head, base), explained(base, head)
    assert (cause_words(slower), of_counts(slower), cause_words(faster)) == SAID[kind]


@pytest.mark.parametrize("kind", HOST_KINDS)
def test_cause__parts_sum_to_the_step(kind: str) -> None:
    """What the table shows is all of the change."""
    base = measured(base_of(kind))
    head = measured(HOST_KINDS[kind](3000.0)[0])
    found = explained(head, base)
    assert found.basis == "host"
    assert sum(part.delta_ms for part in found.parts) == pytest.approx(found.delta_ms)


def test_cause__of_the_same_work_is_none() -> None:
    """Other names of modules and functions are in no operator."""
    found = explained(measured(usual(), 0.02), measured(usual()))
    assert (found.cause, found.counts_cause) == (None, None)


def test_call__whose_backward_alone_is_longer_says_so() -> None:
    """The same calls with the same nodes, in which each product takes twice as long."""
    base, head = usual(), usual()
    inner = linear(400.0).inside[1]
    longer = replace(inner, backward=[each.times(2.0) for each in inner.backward])
    head.narrow = [replace(linear(400.0), inside=[linear(400.0).inside[0], longer])]
    found = explained(measured(head), measured(base))
    assert cause_words(found) == (
        "mostly 'linear' in the backward: 40 % longer (6.41 → 8.97 ms), same 12 calls a step"
        " (+2.56 ms)"
    )


@pytest.mark.parametrize("how", ["undetached", "another type"])
def test_cause__of_calls_that_were_there_before_is_no_new_number_of_them(how: str) -> None:
    """Neither are they called more often, nor gone, nor is the machine slower."""
    kind = {"undetached": "host, undetached", "another type": "host, float64"}[how]
    base = measured(base_of(kind))
    head = measured(HOST_KINDS[kind](9000.0)[0])
    said = cause_words(explained(head, base)) + of_counts(explained(head, base))
    assert not re.search(r"(\d+) → \1 times|is gone|look at the machine", said), said


def test_replaced__needs_several_that_run_as_often() -> None:
    """One operator more, where another is gone, may be a matter of its own."""
    base, head = usual(), usual()
    base.before_layer = [Call("aten::dropout", 20.0)]
    head.before_layer = [Call("aten::clone", 900.0)]
    found = explained(measured(head), measured(base))
    assert cause_words(found) == "'clone' is new, 4 calls and 3.60 ms a step (+3.60 ms)"


def test_replaced__is_nothing_that_took_hardly_any_time() -> None:
    """Where a view became a loop, the loop is the reason."""
    base, head = usual(), usual()
    base.before_layer = [Call("aten::chunk", 2.0)]
    head.before_layer = [Call("aten::slice", 40.0), Call("aten::clone", 40.0)] * 8
    found = explained(measured(head), measured(base))
    assert "do its work" not in cause_words(found) + of_counts(found)
    assert of_counts(found) == "'clone' is new, 32 calls a step"


def test_call__that_is_made_more_often_says_how_often() -> None:
    """Before and now."""
    base, head = usual(), usual()
    base.after_loss = [Call("aten::item", 8.0)] * 10
    head.after_loss = [Call("aten::item", 8.0)] * 300
    found = explained(measured(head), measured(base))
    assert cause_words(found) == (
        "'item' is called 10 → 300 times a step: 0.0800 → 2.40 ms (+2.32 ms)"
    )
    assert of_counts(found) == "'item' is called 10 → 300 times a step"


def test_counts__name_several_where_no_one_is_most() -> None:
    """At most three, and none where three are not enough."""
    base, head = usual(), usual()
    head.after_loss = [
        Call(name, 1.0) for name in ("aten::abs", "aten::neg", "aten::exp") for _ in range(40)
    ]
    assert of_counts(explained(measured(head), measured(base))) == (
        "'abs' is new, 40 calls a step and 'exp' is new, 40 calls a step"
    )
    head.after_loss = [Call(f"own::{number}", 1.0) for number in range(40)]
    assert of_counts(explained(measured(head), measured(base))) == ""


def test_counts__have_their_reason_in_a_faster_profile() -> None:
    """A busy machine slows down the base's only profiled launch, and changes no count."""
    base, head = usual(), usual()
    base.slower = 1.5
    head.before_layer = [Call("aten::clone", 20.0)]
    found = explained(measured(head), measured(base))
    assert found.delta_ms < 0
    assert of_counts(found) == "'clone' is new, 4 calls a step"


def test_traces__with_and_without_a_device_are_not_compared() -> None:
    """Their steps are divided otherwise."""
    host = measured(usual())
    device = host.but(timeline=host.timeline and host.timeline.but(basis="device"))
    found = compared(host, BaselineFound(device, BaselineUsed(source="a test")))
    assert found.explanation is None
