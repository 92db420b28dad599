"""What the ops of a case are called: short, and no two of them alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.errors import BadInputError
from ci_score.model.profile import OpOrigin
from ci_score.report.names_of_case import LONGEST_CASE_NAME, names_of_case
from ci_score.traces import ProfileSource, read_profile
from tests.builders import shared


def called(*names: str) -> list[str]:
    return list(names_of_case(dict.fromkeys(names)).values())


def test_names__of_different_ops_are_short_names() -> None:
    """Nothing is added where the short names differ already."""
    assert called("aten::mm", "aten::add") == ["aten::mm", "aten::add"]
    assert names_of_case({"gemm": OpOrigin(op="aten::mm")}) == {"gemm": "aten::mm · gemm"}


def test_names__that_are_alike_keep_what_differs() -> None:
    """The first words in which the full names part stand in brackets, and nothing else."""
    names = [f"Kernel<{'a, ' * 40}{word}, {'b, ' * 40}1>" for word in ("half", "float")]
    first, second = called(*names)
    assert first.endswith("[half]")
    assert second.endswith("[float]")
    assert first.partition(" [")[0] == second.partition(" [")[0]


def test_names__of_long_words_show_where_they_part() -> None:
    """Not the start that they have in common."""
    start = "x" * 300
    first, second = called(f"{start}forward{'y' * 40}", f"{start}backward{'y' * 40}")
    assert first.endswith("[forwardyyyyyyyyyyyyy]")
    assert second.endswith("[backwardyyyyyyyyyyyy]")


def test_names__that_nobody_could_tell_apart_are_numbered() -> None:
    """Invisible characters and spaces make no name another one."""
    assert called("a\u200bb", "a\u200cb") == ["a\ufffdb #1", "a\ufffdb #2"]
    assert len(set(called("a b", "a  b", "a b #1", "a b [b]"))) == 4


@given(
    st.sets(
        st.lists(st.sampled_from(("a", "b#1", " [a]", "<", ">", ", ", "\u200b", "x" * 90)),
                 max_size=6).map("".join),
        max_size=12,
    )
)  # fmt: skip
def test_names__whatever_they_are_are_told_apart(names: set[str]) -> None:
    """Every op has a name of its own, of bounded length."""
    shown = called(*sorted(names))
    assert len(set(shown)) == len(names)
    assert all(0 < len(name) <= LONGEST_CASE_NAME for name in shown)


def test_names__of_real_traces_are_told_apart() -> None:
    """In every sample, and without a number."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    paths = sorted(path for path in (folder / "samples").glob("*/*") if path.suffix != ".md")
    seen = 0
    for path in paths:
        try:
            read = read_profile(ProfileSource(path.name, path=path))
        except BadInputError:
            continue
        names = names_of_case({name: read.op_origins.get(name) for name in read.ops})
        assert len(set(names.values())) == len(names)
        assert not any(" #" in name for name in names.values())
        seen += len(names)
    assert seen > 1_000
