"""What a parity says beside the reference's numbers."""

from __future__ import annotations

import pytest

from ci_score import compute_parity
from ci_score.errors import BadInputError
from ci_score.models import ParityProfile
from tests.builders import runtime


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
