"""Names that a reader keeps: of ops, bounded so that two stay two, and of phases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.traces.engine.names import LONGEST_NAME, bounded_name
from ci_score.traces.engine.phase_names import phase_name


@given(st.text(max_size=20), st.text(max_size=20))
def test_bounded_name__two_ops_never_become_one(first: str, second: str) -> None:
    """However long what they have in common is."""
    common = "x" * LONGEST_NAME
    names = [bounded_name(common + tail) for tail in (first, second)]
    assert (names[0] == names[1]) == (first == second)
    assert all(len(name) <= LONGEST_NAME for name in names)


def test_bounded_name__of_a_name_that_is_short_enough_is_itself() -> None:
    """A longer one ends in a mark and a hash, which is the same in every run."""
    assert bounded_name("x" * LONGEST_NAME) == "x" * LONGEST_NAME
    longer = bounded_name("x" * (LONGEST_NAME + 1))
    assert longer == "x" * (LONGEST_NAME - 9) + "…" + longer[-8:]
    assert int(longer[-8:], 16)
    assert bounded_name(longer) == longer


def test_bounded_name__of_what_is_no_text() -> None:
    """Half a character of UTF-16 comes out of escapes in JSON."""
    assert len(bounded_name("\ud800" * 500)) == LONGEST_NAME


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("## forward ##", "forward"),
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("Optimizer.zero_grad#SGD.zero_grad", "zero_grad"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data_loading"),
        ("DistributedDataParallel.forward", "forward"),
        (
            "## Call CompiledFxGraph fbvcwuqulrovfujd7iuc223hzjvp3lnu3ph7abcdefghijklmnop ##",
            "Call CompiledFxGraph",
        ),
        ("Call CompiledFxGraph fs2eo6ymbddiaqvlvl43h26r4o56...", "Call CompiledFxGraph"),
        ("## Call CompiledFxGraph None ##", "Call CompiledFxGraph"),
        ("Call CompiledFxGraph forward", "Call CompiledFxGraph forward"),
        ("Torch-Compiled Region: 0/1", "Torch-Compiled Region: 0/1"),
        ("####", "####"),
    ],
)
def test_phase_name__is_the_same_on_both_sides(name: str, phase: str) -> None:
    """What differs between two runs of the same work is left out."""
    assert phase_name(name) == phase
