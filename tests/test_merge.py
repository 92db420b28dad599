"""Many files, one case: ranks of a job, captures of the same work."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.models import Profile
from ci_score.profilers.merge import merged
from tests.builders import profile


def rank(number: int | None, step_ms: float, exposed_ms: float = 0.0, **fields: Any) -> Profile:
    return profile(step_ms, rank=number, exposed_communication_ms=exposed_ms, **fields)


def notes(one: Profile) -> str:
    return "\n".join(one.notes)


def test_ranks__a_job_s_step_is_its_slowest_rank_s() -> None:
    """Whoever is last decides when the next step begins."""
    one = merged([("a", rank(0, 78.0)), ("b", rank(1, 96.0)), ("c", rank(2, 80.0))])
    assert one.avg_step_ms == 96.0
    assert one.sources["avg_step_ms"] == "the slowest of 3 ranks (rank 1)"
    assert "3 ranks: 78.0 to 96.0 ms, spread 23% a step." in one.notes


def test_ranks__the_straggler_is_the_one_with_the_most_work_of_its_own() -> None:
    """The slowest step is often that of the rank that waits for the straggler."""
    waiting = rank(0, 100.0, exposed_ms=60.0, ops={"nccl": 60.0})
    straggler = rank(1, 98.0, exposed_ms=5.0, ops={"gemm": 93.0})
    one = merged([("a", waiting), ("b", straggler)])
    assert one.avg_step_ms == 100.0
    assert one.ops == {"gemm": 93.0}
    assert "straggler by its own work is rank 1: 93.0 ms" in notes(one)


def test_ranks__count_the_job_s_devices() -> None:
    """A job of eight ranks has eight devices, also where only four files are here."""
    one = merged([(str(n), rank(n, 50.0, world_size=8)) for n in range(4)])
    assert (one.accelerator_count, one.world_size) == (8, 8)
    assert "The job has 8 ranks, files of 4 are here." in one.notes
    assert merged([(str(n), rank(n, 50.0)) for n in range(2)]).accelerator_count == 2


@pytest.mark.parametrize(
    "names",
    [
        ("run.rank0.json", "run.rank1.json"),
        ("rank_0/t.json", "rank_1/t.json"),
        ("R-RANK-0", "R-RANK-1"),
    ],
)
def test_ranks__by_the_files_names_where_the_profile_says_none(names: tuple[str, str]) -> None:
    """Older traces carry no rank, their files do."""
    one = merged([(name, profile(step)) for name, step in zip(names, (10.0, 20.0), strict=True)])
    assert "2 ranks" in notes(one)


def test_ranks__tokens_that_differ_are_not_added_up() -> None:
    """How ranks share a step's tokens is not to be guessed."""
    same = merged(
        [("a", rank(0, 1.0, tokens_per_step=8.0)), ("b", rank(1, 1.0, tokens_per_step=8.0))]
    )
    assert same.tokens_per_step == 8.0
    other = merged(
        [("a", rank(0, 1.0, tokens_per_step=8.0)), ("b", rank(1, 1.0, tokens_per_step=9.0))]
    )
    assert other.tokens_per_step is None


def test_captures__are_samples_of_the_same_work() -> None:
    """The step is their median; the steps of all of them are kept."""
    files = [
        (str(n), profile(ms, step_times_ms=(ms, ms))) for n, ms in enumerate((100.0, 104.0, 101.0))
    ]
    one = merged(files)
    assert one.avg_step_ms == 101.0
    assert len(one.step_times_ms) == 6
    assert "3 captures: 100.0 to 104.0 ms, spread 4% a step." in one.notes


def test_captures__of_each_rank_are_merged_first() -> None:
    """Two captures of two ranks are one job."""
    files = [(f"rank{r}-{n}", profile(10.0 * (r + 1) + n)) for r in range(2) for n in range(3)]
    one = merged(files)
    assert one.avg_step_ms == 21.0
    assert "2 ranks" in notes(one)


def test_merged__one_file_is_itself() -> None:
    """Nothing is added to a profile that stands alone."""
    assert merged([("a", profile())]) == profile()


def test_merged__what_is_not_usable_is_left_out_and_said() -> None:
    """A crashed capture does not drag the others down; all of them crashed is crashed."""
    crashed = profile(1.0, unusable="no whole step")
    one = merged([("bad.json", crashed), ("good.json", profile(100.0))])
    assert one.avg_step_ms == 100.0
    assert "bad.json was left out: no whole step" in one.notes
    assert merged([("a", crashed), ("b", crashed)]).unusable == "no whole step"
