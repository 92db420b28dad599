"""The short names of kernels: what an engineer calls them, in 60 characters at most."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import names as names_benchmark
from ci_score.report.kernel_names import op_names, short_name
from tests.builders import shared

# As profilers write them, of every library that the names come from; the short name is the first.
_ROWS = (Path(__file__).parents[1] / "fixtures/kernel_names.tsv").read_text(encoding="utf-8")
NAMES = [tuple(row.split("\t")[::-1]) for row in _ROWS.splitlines()]
# What names are made of, so that invented ones come near to real ones.
PIECES = st.sampled_from(
    (*"<>(){}[],:&*~ _1…", "::", "void ", "at::native::", "(anonymous namespace)", "<unnamed>",
     "elementwise_kernel", "gpu_kernel_impl", "{lambda(float)#1}", "[lambda(int) (instance 2)]",
     "operator()", "float", "(bool)1", "128", "cute::C<8>", "cute::tuple", "_Z", "N", "I", "S0_",
     "E", "3foo", "Li4E", "UlvE_", "Cijk_", "MT64x64x16", "_", "'lambda'(", "&(", ".kd",
     "…0123abcd")
)  # fmt: skip


@pytest.mark.parametrize(("name", "short"), NAMES)
def test_short_name__is_what_people_call_it(name: str, short: str) -> None:
    """It keeps the functor or the operation, the type and the tile."""
    assert short_name(name) == short


@pytest.mark.parametrize("name", [name for name, _ in NAMES])
def test_short_name__of_a_name_that_was_cut(name: str) -> None:
    """Wherever a trace cuts a name, what is left is read."""
    for length in range(1, len(name), 7):
        assert_readable(short_name(name[:length]))


def assert_readable(short: str) -> None:
    """Never empty, short, balanced, and short already."""
    assert 0 < len(short) <= 60
    assert all(short.count(a) == short.count(b) for a, b in ("<>", "()", "[]", "{}"))


@given(st.one_of(st.text(), st.lists(PIECES, max_size=80).map("".join)))
@example("operator<")
@example("_ZN1aI" + "S_" * 150 + "E")
@example("a<" * 200)
@example("_" * 1000)
def test_short_name__of_any_text(name: str) -> None:
    """A stranger's name can be anything."""
    assert_readable(short_name(name))


@given(st.lists(PIECES, max_size=40).map("".join))
def test_short_name__of_a_short_name_is_readable(name: str) -> None:
    """A record may hold names that were shortened before."""
    assert_readable(short_name(short_name(name)))


@pytest.mark.parametrize("short", [short for _, short in NAMES])
def test_short_name__stays_as_it_is(short: str) -> None:
    """A short name has no shorter one."""
    assert short_name(short) == short


def test_short_name__is_the_same_from_each_profiler() -> None:
    """Nsight writes casts and instances where others write values and numbers."""
    kineto = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::log_kernel_cuda"
        "(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#2}::operator()() "
        "const::{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::log_kernel_cuda)"
    )
    nsight = (
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::log_kernel_cuda"
        "(at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::[lambda() "
        "(instance 2)]::operator ()() const::[lambda(float) (instance 1)], std::array<char *, "
        "(unsigned long)2>>(int, T2, T3)"
    )
    assert short_name(kineto) == short_name(nsight)


def test_short_name__shows_the_hash_of_a_name_that_a_reader_cut() -> None:
    """Only where it was cut within what tells kernels apart."""
    head = "_ZN2ck14kernel_gemm_v3INS_13GridwiseGemm3ILi256ELi128EL"
    names = [short_name(f"{head}…{tail}") for tail in ("01234567", "89abcdef")]
    shown = "kernel_gemm_v3<GridwiseGemm3, 256, 128…{}>"
    assert names == [shown.format("0123"), shown.format("89ab")]
    whole = "void at::native::tanh_kernel<float>(float*, float const*, …01234567"
    assert short_name(whole) == "tanh_kernel<float>"


def test_op_names__have_the_module_and_the_operator_first() -> None:
    """They stand outside of the 60 characters, each bounded for itself."""
    assert op_names("void softmax<float>(int)", ("Attention", "aten::softmax")) == (
        "Attention",
        "aten::softmax",
        "softmax<float>",
    )
    assert all(len(name) <= 60 for name in op_names("x" * 900, ("y" * 900, "z" * 900)))


def test_short_names__of_real_traces_tell_kernels_apart() -> None:
    """Under 5 % of kernel time has an ambiguous name, and under 1 % one that says nothing."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    samples = sorted((folder / "samples").glob("[knr]*/*.gz"))
    assert samples
    for kernels in filter(None, map(names_benchmark.kernels_of, samples)):
        assert names_benchmark.ambiguous(kernels, short_name) <= 5
        assert names_benchmark.says_nothing(kernels, short_name) <= 1
