"""What a parity says beside the reference's numbers."""

from __future__ import annotations

import pytest

from ci_score import compute_parity
from ci_score.errors import BadInputError
from ci_score.model.profile import CATEGORIES
from ci_score.model.scorecard import ParityProfile
from ci_score.reference.parity import kind_of, side_of
from ci_score.report import render
from ci_score.report.terminal import parity_text
from tests.builders import profile, runtime


def test_parity__without_a_common_op_is_not_judged() -> None:
    """The reference calls it achieved; we say that nothing was compared."""
    parity = compute_parity(runtime("ours", qkv_gemm=1.0), runtime("theirs", attention_ms=1.0))
    assert parity.parity_achieved
    assert not parity.judged
    assert "nothing was compared" in parity.notes[0]


def test_parity__says_how_much_of_each_side_the_compared_ops_cover() -> None:
    """One shared op of ten per cent must not stand for the model."""
    parity = compute_parity(
        runtime("ours", gemm=1.0, mine=9.0), runtime("theirs", gemm=3.0, other=1.0)
    )
    assert parity.apr_share_compared == pytest.approx(0.1)
    assert parity.baseline_share_compared == pytest.approx(0.75)
    assert "10.0% of ours's op time" in parity.notes[0]
    assert "75.0% of theirs's op time" in parity.notes[1]


@pytest.mark.parametrize(("common", "judged"), [(4.9, False), (5.0, True)])
def test_parity__of_a_small_part_is_not_judged(common: float, judged: bool) -> None:
    """Half of either side's time has to be compared; the reference's answer stays as it is."""
    ours = runtime("ours", gemm=common, mine=10.0 - common)
    for parity in (
        compute_parity(ours, runtime("theirs", gemm=10.0)),
        compute_parity(runtime("theirs", gemm=common), ours),
    ):
        assert parity.parity_achieved
        assert parity.judged is judged
        text = parity_text(parity)
        assert ("Parity not judged: the compared ops cover only" in text) is not judged


def test_parity__an_op_of_no_time_is_not_compared() -> None:
    """An op counts only where both sides spent time on it."""
    parity = compute_parity(runtime("ours", a=0.0, b=1.0), runtime("theirs", a=1.0, b=1.0))
    assert [gap.op for gap in parity.top_gaps] == ["b"]


def test_parity__a_ratio_of_nothing_is_said() -> None:
    """A throughput or launch count of 0 was not measured, and its 0.0x means nothing."""
    silent = ParityProfile(runtime="silent", ops={"gemm": 1.0})
    notes = "\n".join(compute_parity(silent, runtime("theirs", gemm=1.0)).notes)
    assert "No throughput of silent: 0 or not given" in notes
    assert "No kernel launches of silent" in notes


def test_parity__an_overflowing_ratio_is_refused() -> None:
    """A ratio that is not finite could not be printed."""
    with pytest.raises(BadInputError, match="overflow"):
        compute_parity(runtime("ours", a=1e300), runtime("theirs", a=1e-300))


# --- what two profiles are compared by ----------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("qkv_gemm", "gemm"),
        ("gate_up_gemm", "gemm"),
        ("down_gemm", "gemm"),
        ("o_proj", "gemm"),
        ("gate_up_bwd", "gemm"),
        ("lora_fwd", "gemm"),
        ("attn_bwd", "attention"),
        ("attention_ms", "attention"),
        ("rmsnorm_attn", "norm"),
        ("norm_bwd", "norm"),
        ("silu", "elementwise"),
        ("swiglu_bwd", "elementwise"),
        ("cast_fp16", "elementwise"),
        ("fused_ce", "softmax_loss"),
        ("grad_h2d", "memcpy"),
        ("my_secret_op", "my_secret_op"),
    ],
)
def test_kinds__of_ops_by_their_names(op: str, kind: str) -> None:
    """What a runtime calls its ops says what they do; where it does not, nothing is guessed."""
    assert kind_of(op) == kind


def test_kinds__have_the_names_of_the_kernels_kinds() -> None:
    """Both sides must call the same work the same; a kind's own name means itself."""
    assert {kind_of(kind) for kind in CATEGORIES} == set(CATEGORIES)


def test_kinds__of_kernels_and_of_named_ops_compare() -> None:
    """A step profiler's qkv_gemm is a gemm, and what is not matched is said."""
    named = profile(per_layer=(), ops={"qkv_gemm": 2.0, "down_gemm": 1.0, "strange": 0.5})
    traced = profile(op_categories={"gemm": 6.0, "norm": 1.0}, ops={"sgemm_128": 6.0})
    for ours, theirs, ratio in ((named, traced, 0.5), (traced, named, 2.0)):
        parity = compute_parity(side_of("ours", ours), side_of("theirs", theirs))
        assert [(gap.op, gap.ratio) for gap in parity.top_gaps] == [("gemm", ratio)]
        assert parity.judged
        assert any("strange" in note for note in parity.notes)


def test_kinds__are_not_asked_where_both_name_their_ops() -> None:
    """Two runs of one runtime compare op by op, as the reference does."""
    one = side_of("a", profile(per_layer=(), ops={"qkv_gemm": 2.0, "down_gemm": 1.0}))
    assert {gap.op for gap in compute_parity(one, one).top_gaps} == {"qkv_gemm", "down_gemm"}


def test_kinds__that_are_not_known_are_no_match() -> None:
    """Two heaps of unknown kernels are not the same work."""
    heap = side_of("a", profile(op_categories={"other": 6.0, "gemm": 4.0}))
    parity = compute_parity(heap, heap)
    assert [gap.op for gap in parity.top_gaps] == ["gemm"]
    assert parity.apr_share_compared == pytest.approx(0.4)
    assert not parity.judged
    assert any("60.0% of a's op time is of no known kind" in note for note in parity.notes)


# --- what the numbers rest on -------------------------------------------------------------------


def test_side__that_is_not_usable_says_why() -> None:
    """It has no numbers, and its reason stands where the verdict would."""
    broken = side_of("broken", profile(unusable="no whole step", throughput_tok_s=9.0))
    parity = compute_parity(broken, runtime("theirs", gemm=1.0))
    assert parity.unjudged_reason == "broken is not usable (no whole step)"
    assert (parity.throughput_ratio, parity.step_time_ratio) == (0.0, 0.0)
    assert "no op in common" not in parity_text(parity)
    assert not any("of broken" in note for note in parity.notes)


def test_side__with_a_hostile_name_is_only_text() -> None:
    """The reason and a runtime's name are a stranger's; in markdown all of it is a code block."""
    broken = side_of("<img src=x> @everyone\n# x", profile(unusable="#1 | `x`\n```\n# y"))
    text = render(compute_parity(broken, runtime("b", gemm=1.0)), "markdown")
    assert "<img src=x> @everyone" in text
    assert all(line.startswith("    ") for line in text.splitlines() if line)


def test_side__without_ops_still_has_its_times() -> None:
    """A result of a run has a throughput and no ops: no parity, and no riddle either."""
    one = side_of("ours", profile(per_layer=(), throughput_tok_s=500.0))
    parity = compute_parity(one, runtime("theirs", gemm=1.0))
    assert parity.unjudged_reason == "no op of ours has any time"
    assert parity.throughput_ratio == 2.0


def test_ratios__all_go_one_way() -> None:
    """Ours in times of theirs: nobody has to turn a sentence round."""
    ours = ParityProfile(
        runtime="ours", throughput_tok_s=500.0, step_time_ms=150.0,
        kernel_launches_per_step=300, ops={"gemm": 1.0},
    )  # fmt: skip
    parity = compute_parity(ours, runtime("theirs", gemm=1.0))
    assert (parity.step_time_ratio, parity.throughput_ratio) == (1.5, 2.0)
    text = parity_text(parity)
    assert "1.50x as long" in text
    assert "0.50x as many tokens per second" in text
    assert "1.50x as many" in text


def test_throughput__from_inferred_tokens_is_marked() -> None:
    """It was not measured: tokens from shapes, in a step that may be one, of the host."""
    sources = {"tokens_per_step": "inferred from shapes", "avg_step_ms": "host span of one step"}
    guess = side_of("a", profile(tokens_per_step=8.0, tokens_inferred=True, sources=sources))
    parity = compute_parity(guess, runtime("b", qkv=1.0))
    assert "(from inferred tokens, see the notes)" in parity_text(parity)
    note = next(note for note in parity.notes if "was not measured" in note)
    assert "8 tokens a step (inferred from shapes) in 100 ms (host span of one step)" in note
    told = side_of("a", profile(tokens_per_step=8.0, sources={"tokens_per_step": "a counter"}))
    assert not compute_parity(told, runtime("b", qkv=1.0)).throughput_inferred


def test_notes__of_each_side_are_carried() -> None:
    """What a profile says of itself holds for the comparison, too."""
    first = side_of("a", profile(notes=("no layers", "one step")))
    second = side_of("b", profile(notes=("no layers",)))
    notes = compute_parity(first, second).notes
    assert "a and b: no layers" in notes
    assert "a: one step" in notes


@pytest.mark.parametrize(("captured", "said"), [(150.0, True), (102.0, False)])
def test_notes__device_time_outside_the_steps_is_said(captured: float, said: bool) -> None:
    """What belongs to no step is in no op, so no coverage of ops would show it."""
    one = side_of("a", profile(steps=10, device_busy_ms=10.0, capture={"gpu_busy_ms": captured}))
    notes = compute_parity(one, runtime("b", qkv=1.0)).notes
    found = [note for note in notes if "belongs to no step" in note]
    assert bool(found) is said
    assert not said or "a: 33% of the device time" in found[0]
