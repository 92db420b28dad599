"""Many files, one case: ranks of a job, captures of the same work."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import MOST_RANKS, Profile
from ci_score.model.step_code import CodeLine, CodeWork, Definition, StepCode
from ci_score.traces.formats import read_profile
from ci_score.traces.formats.reference import normalised
from ci_score.traces.merge import merged
from ci_score.traces.source import ProfileSource
from tests.builders import phase, profile, shared


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
    assert (
        "straggler is rank 1: without communication its step takes 93.0 ms, the others' at"
        " most 40.0 ms" in notes(one)
    )


def test_ranks__one_that_waits_for_its_host_is_no_straggler() -> None:
    """Its kernels without communication say what it does itself."""
    slow_host = rank(0, 100.0, exposed_ms=5.0, compute_ms=50.0)
    computing = rank(1, 98.0, exposed_ms=30.0, compute_ms=65.0)
    assert "straggler is rank 1" in notes(merged([("a", slow_host), ("b", computing)]))


def test_ranks__each_number_says_whose_it_is() -> None:
    """The step is one rank's and the work another's: nobody may take them for one rank's."""
    shares = {"forward": phase(50.0, 50.0)}
    waiting = rank(0, 200.0, exposed_ms=160.0, device_busy_ms=190.0, steps=3)
    straggler = rank(
        1, 100.0, exposed_ms=5.0, device_busy_ms=90.0, phases=shares, steps=2, tool="x",
        sources={"device_busy_ms": "events", "rank": "a header", "tool": "y"},
    )  # fmt: skip
    one = merged([("a", waiting.but(tool="x")), ("b", straggler)])
    assert (one.avg_step_ms, one.device_busy_ms, one.rank) == (200.0, 90.0, None)
    assert one.phases["forward"].pct == 25.0
    assert one.sources == {
        "accelerator_count": "2 ranks, one device each",
        "avg_step_ms": "the slowest of 2 ranks (rank 0)",
        "device_busy_ms": "rank 1: events",
        "exposed_communication_ms": "rank 1",
        "phases": "rank 1",
        "steps": "the fewest of 2 ranks",
        "tool": "y",
    }


def test_ranks__what_each_of_them_did_is_kept() -> None:
    """In the order of their numbers; where the waiting is not known, own work is not."""
    one = merged([("b", rank(3, 98.0, exposed_ms=5.0)), ("a", rank(0, 100.0, exposed_ms=60.0))])
    assert [(work.rank, work.step_ms, work.own_ms) for work in one.ranks] == [
        (0, 100.0, 40.0),
        (3, 98.0, 93.0),
    ]
    assert "ranks" not in one.sources
    unknown = merged([("rank0", profile(10.0)), ("rank1", profile(20.0))])
    assert [work.own_ms for work in unknown.ranks] == [None, None]


def test_ranks__of_very_many_the_slowest_are_kept() -> None:
    """A record has a size."""
    one = merged([(f"f{n}", rank(n, 100.0 + n, exposed_ms=1.0)) for n in range(MOST_RANKS + 3)])
    assert [work.rank for work in one.ranks][:1] == [3]
    assert len(one.ranks) == MOST_RANKS


def test_ranks__a_small_margin_makes_no_straggler() -> None:
    """Then all numbers are those of the slowest rank."""
    files = [("a", rank(0, 100.0, 60.0, ops={"a": 1.0})), ("b", rank(1, 99.0, 58.0))]
    one = merged(files)
    assert one.ops == {"a": 1.0}
    told = "No rank is clearly the straggler: without communication their steps take 40.0"
    assert f"{told} to 41.0" in notes(one)


def test_ranks__without_their_waiting_name_no_straggler() -> None:
    """A slow step alone does not tell who waits for whom."""
    one = merged([("rank0", profile(10.0)), ("rank1", profile(20.0))])
    assert "which one straggles is unknown" in notes(one)


def test_ranks__a_note_says_whose_it_is() -> None:
    """One that is everybody's needs no name."""
    both, own = ("no layers",), ("no layers", "64 events dropped")
    files = [("a", rank(0, 1.0, notes=both)), ("b", rank(3, 1.0, notes=own))]
    one = merged(files)
    assert one.notes[:2] == ("no layers", "rank 3: 64 events dropped")


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
    """The step is their mean; the steps of all of them are kept."""
    files = [
        (str(n), profile(ms, step_times_ms=(ms, ms))) for n, ms in enumerate((100.0, 106.0, 100.0))
    ]
    one = merged(files)
    assert one.avg_step_ms == 102.0
    assert len(one.step_times_ms) == 6
    assert "3 captures: 100.0 to 106.0 ms, spread 6% a step." in one.notes


def test_captures__say_which_file_tells_the_rest() -> None:
    """The mean is no capture's; all else is one's, with its shares of that step."""
    shares = {"forward": phase(60.0, 50.0)}
    files = [
        ("slow.json", profile(108.0, phases=shares, sources={"phases": "annotations"})),
        ("fast.json", profile(100.0)),
    ]
    one = merged(files)
    assert one.avg_step_ms == 104.0
    assert one.sources["avg_step_ms"] == "mean of 2 captures"
    assert one.sources["phases"] == "slow.json: annotations"
    assert one.phases["forward"].pct == pytest.approx(54.0 / 104.0 * 100.0)


def test_captures__a_throughput_is_that_of_all_of_them() -> None:
    """A run of half the tokens a second takes twice as long for each of them."""
    rates = [("a", profile(throughput_tok_s=1000.0)), ("b", profile(throughput_tok_s=950.0))]
    assert merged(rates).throughput_tok_s == pytest.approx(2 / (1 / 1000 + 1 / 950))
    assert merged([*rates, ("c", profile())][1:]).throughput_tok_s is None


@pytest.mark.parametrize("times", [(100.0, 100.0, 111.0), (100.0, 111.0), (90.0, 101.0, 101.0)])
def test_captures__that_are_far_apart_are_not_of_the_same_work(times: tuple[float, ...]) -> None:
    """Old captures beside that of a slower change would be judged in its place."""
    files = [(f"{n}.json", profile(ms)) for n, ms in enumerate(times)]
    with pytest.raises(BadInputError, match=r"too far apart for the same work \(ms a step: ") as no:
        merged(files)
    assert all(f"{n}.json {ms:g}" in no.value.found for n, ms in enumerate(times))
    assert "within 10% of the middle one" in no.value.expected


def test_captures__of_which_one_has_no_time_are_not_of_the_same_work() -> None:
    """What one does not tell may be what is slow."""
    with pytest.raises(BadInputError, match="too far apart"):
        merged([("a", profile(100.0)), ("b", profile(0.0))])


def test_captures__are_far_apart_by_their_throughput_alone() -> None:
    """The result of a run may have no step time."""
    files = [(name, profile(0.0, throughput_tok_s=rate)) for name, rate in (("a", 9e3), ("b", 5e3))]
    with pytest.raises(BadInputError, match=r"\(tok/s: a 9000, b 5000\)"):
        merged(files)


def test_captures__of_very_many_name_those_that_are_furthest() -> None:
    """The slow one is never among those that are only counted."""
    files = [(f"{n}.json", profile(100.0 + n / 10)) for n in range(20)]
    with pytest.raises(BadInputError, match=r"a step: slow\.json 130, .* and 16 more\)"):
        merged([*files, ("slow.json", profile(130.0))])


def state(steps: int, step_ms: float = 100.0, **fields: Any) -> Profile:
    return profile(step_ms, capture={"global_step": float(steps)}, **fields)


def test_states__of_checkpoints_give_way_to_that_of_the_run() -> None:
    """What a trainer saved on the way is no capture; it may have been slower at first."""
    one = merged(
        [
            ("out/checkpoint-20/trainer_state.json", state(20, 300.0)),
            ("out/checkpoint-60/trainer_state.json", state(60, 110.0)),
            ("out/trainer_state.json", state(60, 100.0)),
        ]
    )
    assert one.avg_step_ms == 100.0
    assert (
        "Left out as older states of the same run: out/checkpoint-20/trainer_state.json,"
        " out/checkpoint-60/trainer_state.json." in one.notes
    )


def test_states__of_checkpoints_alone_are_one_run() -> None:
    """The newest, by its steps and not by its name, also where it is not usable."""
    files = [
        ("checkpoint-20/trainer_state.json", state(20, 100.0)),
        ("checkpoint-100/trainer_state.json", state(100, 300.0)),
    ]
    assert merged(files).avg_step_ms == 300.0
    unusable = ("checkpoint-120/trainer_state.json", state(120, unusable="no train_runtime"))
    assert merged([*files, unusable]).unusable == "no train_runtime"


def test_states__of_another_run_are_refused() -> None:
    """A checkpoint of more steps than the run has is left from before, or the run never ended."""
    files = [
        ("out/checkpoint-500/trainer_state.json", state(500)),
        ("out/trainer_state.json", state(60)),
    ]
    with pytest.raises(BadInputError, match=r"at step 60, beside .*checkpoint-500.* at step 500"):
        merged(files)


def test_states__of_several_runs_are_captures() -> None:
    """Each run has a folder of its own."""
    files = [
        (f"run{n}/{where}trainer_state.json", state(60, ms))
        for n, ms in enumerate((100.0, 104.0))
        for where in ("", "checkpoint-60/")
    ]
    assert merged(files).avg_step_ms == 102.0


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


OTHER_JOBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "accelerator": ({"accelerator": "NVIDIA A100"}, {"accelerator": "AMD Instinct MI300X"}),
    "world size": ({"world_size": 2}, {"world_size": 8}),
    "device": ({"device_busy_ms": 1.0}, {}),
    "tool": ({"tool": "Nsight Systems 2026.1"}, {"tool": "PyTorch profiler (Kineto), schema 1"}),
    "rank": ({"rank": 0}, {}),
    "number of devices": ({"accelerator_count": 2}, {"accelerator_count": 8}),
    "kernels a step": (
        {"device_kernels_per_step": 60.0},
        {"device_kernels_per_step": 1029.0},
    ),
}


@pytest.mark.parametrize("what", OTHER_JOBS)
def test_other_jobs__are_refused(what: str) -> None:
    """Two jobs are no case: the files are named, and how each gets a case."""
    first, second = OTHER_JOBS[what]
    with pytest.raises(BadInputError) as error:
        merged([("one.json", profile(**first)), ("two.json", profile(**second))])
    assert f"more than one job ({what}: " in error.value.found
    assert "one.json" in error.value.found
    assert "two.json" in error.value.found
    assert "`name=glob`" in error.value.expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"accelerator": "NVIDIA A100"}, {}),
        ({"tool": "Nsight Systems 2026.1"}, {"tool": "Nsight Systems 2022.2"}),
        ({"tool": "canary apr + step_profiler_v2"}, {"tool": "canary apr"}),
        ({"device_kernels_per_step": 1462.0}, {"device_kernels_per_step": 1478.0}),
        (
            {"rank": 0, "device_kernels_per_step": 10.0, "accelerator_count": 1},
            {"rank": 1, "device_kernels_per_step": 90.0, "accelerator_count": 2},
        ),
    ],
)
def test_one_job__may_differ_in_what_its_files_happen_to_tell(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    """What is not known agrees with all; stages of a pipeline do different work."""
    assert merged([("a", profile(**first)), ("b", profile(**second))]).avg_step_ms == 100.0


def test_other_jobs__of_many_files_name_a_few() -> None:
    """A folder of a thousand files is an error of three lines."""
    files = [(f"{n}.json", profile(world_size=2 + n % 2)) for n in range(20)]
    with pytest.raises(BadInputError, match=r"2: 0\.json, 2\.json, 4\.json and 7 more; 3: 1\.json"):
        merged(files)


def test_other_jobs__what_is_not_usable_is_not_asked() -> None:
    """A crashed capture tells nothing of its job."""
    crashed = profile(accelerator="none", unusable="no whole step")
    assert merged([("a", profile(accelerator="H100")), ("b", crashed)]).accelerator == "H100"


def test_ranks__of_a_real_job() -> None:
    """Four of eight ranks of a step whose waiting tells nobody apart: all is one rank's."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    names = [f"v100_dlrm_rank{number}of8_1step.json.gz" for number in range(4)]
    kineto = folder / "samples" / "kineto"
    one = merged([(name, read_profile(ProfileSource(name, kineto / name))) for name in names])
    assert "No rank is clearly the straggler" in notes(one)
    assert one.sources["avg_step_ms"] == "the slowest of 4 ranks (rank 1)"
    assert one.sources["device_busy_ms"].startswith("rank 1: ")
    assert "rank" not in one.sources


# --- what only one of them may tell ---------------------------------------------------------------


def code_of(total_ms: float) -> StepCode:
    """The lines of a step, told apart by their time."""
    line = CodeLine(definition=0, line=2, work=CodeWork(forward_ms=total_ms))
    own = Definition(name="train", file="train.py", first=1, last=3)
    return StepCode(definitions=(own,), lines=(line,), total_ms=total_ms)


@pytest.mark.parametrize("with_code", [(0, 1), (0,), (1,), ()])
def test_ranks__lines_of_code_are_those_of_rank_0_or_of_the_only_one(
    with_code: tuple[int, ...],
) -> None:
    """Whichever rank is the straggler."""
    codes = [code_of(10.0 + at) if at in with_code else None for at in range(2)]
    one = merged([(f"r{at}", rank(at, 100.0 + at, 10.0 * at, code=codes[at])) for at in (1, 0)])
    assert one.code == next(filter(None, codes), None)
    assert "code" not in one.sources


def test_ranks__what_had_the_memory_is_told_by_the_fullest() -> None:
    """Or by rank 0 where the fullest does not tell it; its source says whose it is."""
    ops = {"aten::mm": 5}, {"aten::mm": 7}
    for of_fullest, found in ((ops[1], ops[1]), ({}, ops[0])):
        parts = [rank(0, 100.0, peak_memory_gb=1.0, peak_ops=ops[0]),
                 rank(1, 90.0, peak_memory_gb=2.0, peak_ops=of_fullest)]  # fmt: skip
        one = merged([(f"r{at}", part) for at, part in enumerate(parts)])
        assert one.peak_ops == found
        assert one.sources["peak_ops"] == ("rank 1" if of_fullest else "rank 0")


def test_captures__one_with_lines_of_code_tells_them_for_all() -> None:
    """Beside one whose profiler had no marks."""
    codes = code_of(10.0), None
    for both in (codes, codes[::-1]):
        parts = [(f"c{at}", profile(100.0 + at, code=code)) for at, code in enumerate(both)]
        assert merged(parts).code == codes[0]


def test_normalised__lines_and_memory_of_a_step_are_read_back() -> None:
    """As they were stored beside the accelerator; a line without its definition is refused."""
    one = profile(100.0, code=code_of(10.0), peak_ops={"aten::mm": 2**40})
    text = normalised(one)
    assert read_profile(ProfileSource("profile.json", data=text.encode())) == one
    broken = text.replace('"definition": 0', '"definition": 1')
    with pytest.raises(BadInputError):
        read_profile(ProfileSource("profile.json", data=broken.encode()))
