"""Logs of Megatron-LM and torchtitan: which lines count, for how many steps, and what they tell."""

from __future__ import annotations

import gzip

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces.formats import read_profile, training_log, training_run
from ci_score.traces.source import ProfileSource
from tests.builders.traces.training_log import (
    ARGUMENTS,
    BEGIN,
    MEMORY,
    iteration,
    megatron,
    step,
    torchtitan,
)

EACH = {1: 9000.0, 2: 4600.0, 3: 200.0, 4: 210.0, 5: 190.0}


def source(text: str | bytes) -> ProfileSource:
    return ProfileSource("out.log", data=text.encode() if isinstance(text, str) else text)


def read(text: str | bytes) -> Profile:
    profile = read_profile(source(text))
    assert profile.timed_by == "the trainer's log"
    return profile


def said(profile: Profile, words: str) -> bool:
    return any(words in note for note in profile.notes)


# --- Megatron-LM ----------------------------------------------------------------------------------


def test_megatron__each_iteration_line_is_a_step() -> None:
    """The first two are left out, as the second may be the mean of both."""
    profile = read(megatron(EACH))
    assert profile.step_times_ms == (200.0, 210.0, 190.0)
    assert profile.avg_step_ms == pytest.approx(200.0)
    assert profile.steps == 3
    assert profile.sources["avg_step_ms"] == (
        "elapsed time per iteration: the mean of 3 steps in 3 lines, without the first two lines"
    )
    assert (profile.tool, profile.phases, profile.per_layer) == ("Megatron-LM", {}, ())


def test_megatron__what_the_run_prints_before_its_steps() -> None:
    """Tokens are exact where both the batch and the length of a sequence are printed."""
    profile = read(megatron(EACH))
    assert profile.tokens_per_step == 64 * 4096
    assert profile.throughput_tok_s == pytest.approx(64 * 4096 / 0.2)
    assert (profile.world_size, profile.accelerator_count) == (16, 16)
    assert profile.peak_memory_gb == pytest.approx(20000.5 * 1024**2 / 1e9)
    without = read(megatron(EACH, ""))
    assert (without.tokens_per_step, without.throughput_tok_s, without.world_size) == (None,) * 3
    assert said(without, "tokens of a step are not known")


def test_megatron__a_mean_of_an_interval_counts_for_each_of_its_steps() -> None:
    """Lines every tenth iteration; the last one is of what was left."""
    profile = read(megatron({10: 900.0, 20: 200.0, 30: 200.0, 40: 200.0, 45: 600.0}))
    assert profile.step_times_ms == (200.0,) * 30 + (600.0,) * 5
    assert "without the first line" in profile.sources["avg_step_ms"]


def test_megatron__the_first_iteration_may_have_a_line_of_its_own() -> None:
    """Then the next line is the mean of an interval with the first iteration in it."""
    profile = read(megatron({1: 9000.0, 10: 1080.0, 20: 200.0, 30: 220.0}))
    assert profile.step_times_ms == (200.0,) * 10 + (220.0,) * 10
    assert read(megatron({1: 9000.0, 10: 1080.0, 20: 200.0})).avg_step_ms == pytest.approx(200.0)
    assert "has 2 lines" in (read(megatron({1: 9000.0, 10: 1080.0})).unusable or "")


def test_megatron__steps_of_lost_lines_do_not_count() -> None:
    """The mean after a gap is of its own interval alone."""
    profile = read(megatron({10: 900.0, 20: 200.0, 30: 200.0, 60: 500.0, 70: 200.0}))
    assert profile.step_times_ms == (200.0,) * 20 + (500.0,) * 10 + (200.0,) * 10
    assert said(profile, "Before 1 lines others are missing")


def test_megatron__with_deepspeed_prints_seconds_and_tokens() -> None:
    """A fork of 2021 has other units, and counts the tokens."""
    text = "".join(
        f"[default7]: iteration {n:8d}/  115311 | consumed samples: {n * 2048} | consumed tokens:"
        f" {n * 4096} | elapsed time per iteration (s): {1.0 + n / 100:.2f} | learning rate: 7E-06"
        f" | global batch size:  2048 | TFLOPs: 145.31 |\n"
        for n in range(94768, 94772)
    )
    profile = read(text)
    assert profile.step_times_ms == pytest.approx((948_700.0, 948_710.0), abs=20.0)
    assert profile.tokens_per_step == 4096
    assert profile.sources["tokens_per_step"] == "consumed tokens"


def test_megatron__a_mean_of_all_steps_beside_the_time_is_not_taken() -> None:
    """Primus prints `200.0/4000.0`: this interval, and all so far."""
    text = megatron(EACH).replace(" | throughput", "/4000.0 | hip mem usage: 1GB | throughput")
    assert read(text).avg_step_ms == pytest.approx(200.0)


def test_megatron__another_batch_makes_other_steps() -> None:
    """With a batch that grows there is no one number of tokens."""
    profile = read(ARGUMENTS + "".join(iteration(n, 200.0, batch=16 * n) for n in range(1, 6)))
    assert profile.tokens_per_step is None
    assert said(profile, "The global batch size is 16 to 80")


def test_megatron__skipped_and_nan_iterations_are_said() -> None:
    """Their time was spent, and the loss is not a matter of speed."""
    text = megatron(EACH) + iteration(6, 200.0, skipped=1) + iteration(7, 200.0, nan=1)
    profile = read(text)
    assert profile.steps == 5
    assert said(profile, "1 iterations were skipped")
    assert said(profile, "1 losses are NaN or infinite")


# --- torchtitan -----------------------------------------------------------------------------------


SECONDS = {1: 0.0, 10: 9.0, 20: 19.0, 30: 31.0}


def test_torchtitan__the_time_between_lines_is_that_of_their_steps() -> None:
    """A line does not tell how long its steps took, but when it was printed."""
    profile = read(torchtitan(SECONDS))
    assert profile.step_times_ms == (1000.0,) * 19 + (1200.0,) * 10
    assert profile.sources["avg_step_ms"] == (
        "the time between two lines: the mean of 29 steps in 3 lines, without the first line"
    )
    assert profile.tool == "torchtitan"
    assert said(profile, "such as a checkpoint")


def test_torchtitan__what_the_run_prints_before_its_steps() -> None:
    """The memory is that of a device, and the devices are those of the mesh."""
    profile = read(torchtitan(SECONDS))
    assert profile.tokens_per_step == 8 * 2048
    assert profile.throughput_tok_s == pytest.approx(8 * 2048 * 29 / 31.0)
    assert (profile.accelerator, profile.accelerator_count) == ("NVIDIA H100 80GB HBM3", 8)
    assert profile.accelerator_memory_gb == pytest.approx(79.1 * 1024**3 / 1e9)
    assert profile.peak_memory_gb == pytest.approx(40 * 1024**3 / 1e9)


NEWER = """\
- Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=2, cp=1, tp=2, ep=8
- Trainer is initialized with 4096 tokens per DP rank, 16384 tokens per train step, gradient \
accumulation steps 1, maximum context length 2048
"""
OLDER = """\
- Building 1-D device mesh with ['dp_shard'], [8]
- Training starts at step 1, with local batch size 1, global batch size 8, sequence length 2048, \
total steps 100 (warmup 200)
"""


@pytest.mark.parametrize("begin", [NEWER, OLDER])
def test_torchtitan__of_other_years(begin: str) -> None:
    """Its words changed; an expert's degree makes no more devices."""
    profile = read(torchtitan(SECONDS, begin))
    assert (profile.tokens_per_step, profile.world_size) == (16384, 8)


def test_torchtitan__its_rate_is_of_one_device() -> None:
    """Without the number of devices the job's throughput is not known."""
    text = torchtitan(SECONDS, "")
    assert read(text).throughput_tok_s is None
    mesh = "INFO - Building 1-D device mesh with ['dp'], [8]\n"
    profile = read(mesh + text)
    assert profile.throughput_tok_s == pytest.approx(8 * 4000)
    assert profile.tokens_per_step is None


def test_torchtitan__without_times_of_day_its_rate_tells_the_steps() -> None:
    """8 × 2048 tokens at 8 × 4000 tokens a second."""
    lines = torchtitan(SECONDS, "").replace("[titan] 2025-06-16", "")
    profile = read(BEGIN + lines)
    assert profile.avg_step_ms == pytest.approx(512.0)
    assert "tps" in profile.sources["avg_step_ms"]
    assert "tps is of one device" in (read(lines).unusable or "")


def test_torchtitan__a_validation_is_no_part_of_a_step() -> None:
    """It sets the clock of the next line back, as it does in the trainer."""
    lines = [step(1, 0.0), step(10, 9.0), step(10, 39.0, validates=True), step(20, 49.0)]
    assert read(BEGIN + "".join(lines)).step_times_ms == (1000.0,) * 19


def test_torchtitan__colours_labels_and_times_of_a_launcher() -> None:
    """They stand before the line and within it, and lines end as on Windows."""
    lines = torchtitan(SECONDS).replace("step:", "\x1b[31mstep:").replace("tps:", "\x1b[34mtps:")
    lines = "".join(f"2025-06-16T22:31:00.1234567Z 3: [rank0]:{x}\r\n" for x in lines.splitlines())
    bar = "loading:  10%|█   | 1/10 [00:00<00:01]\r"
    profile = read(bar + lines)
    assert profile.step_times_ms == (1000.0,) * 19 + (1200.0,) * 10
    assert profile.accelerator_count == 8


def test_torchtitan__a_loss_that_is_no_number_is_said() -> None:
    """It does not cost the times."""
    profile = read(torchtitan(SECONDS) + step(40, 41.0, loss="nan"))
    assert profile.steps == 39
    assert said(profile, "1 losses are NaN or infinite")


# --- one log, several ranks or runs ---------------------------------------------------------------


@pytest.mark.parametrize("labels", [("", ""), ("[rank0]:", "[rank1]:")])
def test_ranks__a_step_counts_once_and_with_the_most_memory(labels: tuple[str, str]) -> None:
    """Every rank of torchtitan prints the step."""
    lines = [
        step(n, float(n), label=label, memory=40.0 + place)
        for n in range(1, 6)
        for place, label in enumerate(labels)
    ]
    profile = read(BEGIN + "".join(lines))
    assert profile.step_times_ms == (1000.0,) * 4
    assert profile.peak_memory_gb == pytest.approx(41 * 1024**3 / 1e9)
    assert not said(profile, "runs")


def test_ranks__a_launcher_may_show_one_after_the_other() -> None:
    """What another rank printed before is not another run."""
    ranks = [
        "".join(f"[rank{rank}]:{x}\n" for x in torchtitan(SECONDS).splitlines())
        for rank in range(3)
    ]
    profile = read("".join(ranks))
    assert profile.step_times_ms == (1000.0,) * 19 + (1200.0,) * 10
    assert not said(profile, "runs")


def test_runs__the_last_one_counts() -> None:
    """A job that was started again has gone back to its last checkpoint."""
    again = {3: 9000.0, 4: 4600.0, 5: 300.0, 6: 300.0}
    profile = read(megatron(EACH) + "".join(iteration(n, ms) for n, ms in again.items()))
    assert profile.step_times_ms == (300.0, 300.0)
    assert said(profile, "The log holds 2 runs: this is the last, with lines of steps 3 to 6")


def test_runs__a_run_is_known_by_what_it_prints_first() -> None:
    """Its first line may be of a later step than all before; its size may be another."""
    resumed = ARGUMENTS.replace("16", "8") + "".join(iteration(n, 300.0) for n in range(6, 10))
    profile = read(megatron(EACH) + resumed)
    assert (profile.step_times_ms, profile.world_size) == ((300.0, 300.0), 8)
    assert profile.peak_memory_gb is None
    titan = torchtitan(SECONDS) + BEGIN + step(40, 100.0) + step(50, 130.0)
    assert read(titan).step_times_ms == (3000.0,) * 10


def test_runs__lines_that_are_there_twice_are_one_run() -> None:
    """A launcher and a logger may both write to the file."""
    text = "".join(f"{x}\n{x}\n" for x in megatron(EACH).splitlines())
    assert read(text).step_times_ms == (200.0, 210.0, 190.0)


def test_runs__the_last_one_may_be_too_short() -> None:
    """What came before is of the same job, but nobody knows whether of the same code."""
    profile = read(megatron(EACH) + ARGUMENTS + iteration(6, 300.0))
    assert "the last run in the log has one line about its steps" in (profile.unusable or "")


# --- what is no good log --------------------------------------------------------------------------


@pytest.mark.parametrize("text", [megatron({100: 300.0}), torchtitan({1: 0.0})])
def test_bad__a_single_line_is_warm_up(text: str) -> None:
    """It has compilation in it, and nothing tells how much."""
    profile = read(text)
    assert "the log has one line about its steps" in (profile.unusable or "")
    assert profile.avg_step_ms == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "iteration 10/100 | elapsed time per iteration (ms): 0.0 | lm loss: 1 |\n" * 9,
        "step: 3  loss: 2.5  tps: 400 \n" * 9,
        " validation loss at iteration 10 | lm loss value: 6.3E+00 |\n" * 9,
        ARGUMENTS + MEMORY,
    ],
)
def test_bad__text_without_a_step_is_no_training_log(text: str) -> None:
    """Such a file may lie beside a log."""
    assert not training_log.recognises(text.encode())
    with pytest.raises(BadInputError, match="text without a profile"):
        read_profile(source(text))
    with pytest.raises(BadInputError, match="text without a line about a step"):
        training_log.read(source(text))


def test_bad__json_is_no_log_whatever_it_says() -> None:
    """Texts of a trace may quote a line."""
    assert not training_log.recognises(b'{"traceEvents": [{"name": "' + megatron(EACH).encode())


def test_bad__a_line_that_a_killed_job_cut_short_does_not_count() -> None:
    """`1` may be the beginning of `190.0`."""
    text = megatron(EACH)
    cut = text[: text.rindex("190.0") + 1]
    assert read(cut).step_times_ms == (200.0, 210.0)
    titan = torchtitan(SECONDS)
    assert read(titan[: titan.rindex("4,000") + 3]).steps == 19


def test_bad__a_log_that_ends_early_says_so() -> None:
    """A killed job's last line may be whole; both trainers print how many steps they planned."""
    assert said(read(megatron(EACH)), "The log ends before the run does: at step 5 of 100.")
    assert said(read(torchtitan(SECONDS)), "at step 30 of 50.")
    done = torchtitan({1: 0.0, 20: 20.0, 40: 40.0})
    assert not said(read(done), "The log ends")


def test_bad__a_gzip_that_is_cut_short_keeps_its_lines() -> None:
    """What a killed job uploaded is used as far as it goes."""
    noise = "".join(f"NCCL INFO channel {n * 7919 % 99991}\n" for n in range(3000))
    packed = gzip.compress((megatron(EACH) + noise).encode())
    profile = read(packed[:-2000])
    assert profile.step_times_ms == (200.0, 210.0, 190.0)
    assert said(profile, "gzip is cut short")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_bad__marks_of_windows(encoding: str) -> None:
    """PowerShell writes UTF-16."""
    assert read(megatron(EACH).encode(encoding)).step_times_ms == (200.0, 210.0, 190.0)


def test_bad__the_steps_may_begin_late_in_a_log() -> None:
    """NCCL prints a lot; a line may be very long."""
    noise = "NCCL INFO some iteration of a channel\n" * 3000 + "x" * 3_000_000 + "\n"
    text = noise + megatron(EACH, ARGUMENTS)
    assert not training_log.recognises(text[:65536].encode())
    profile = read(text)
    assert (profile.step_times_ms, profile.world_size) == ((200.0, 210.0, 190.0), 16)


def test_bad__a_very_long_log_keeps_its_last_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither lines nor the steps between them may fill the memory."""
    monkeypatch.setattr(training_log, "MOST_MARKED", 12)
    with pytest.raises(BadInputError, match="over 12 lines of trainers"):
        read(megatron(EACH) * 2)
    monkeypatch.setattr(training_run, "MOST_STEPS", 20)
    monkeypatch.setattr(training_run, "MOST_LINES", 4)
    profile = read(megatron({10 * n: 100.0 * n for n in range(1, 9)}))
    assert profile.step_times_ms == (700.0,) * 10 + (800.0,) * 10
    assert said(profile, "only its last 20 steps count")
    assert "100 steps apart" in (read(megatron({100: 1.0, 200: 1.0})).unusable or "")


def test_bad__numbers_without_bounds_are_refused_or_left_out() -> None:
    """Steps far apart, a job of a billion devices, a time of a thousand years."""
    text = megatron({1: 1.0, 10**11: 1.0, 2 * 10**11: 1.0, 3 * 10**11: 1.0}, "")
    assert "steps apart" in (read(text).unusable or "")
    huge = "using world size: 9999999, data-parallel size: 1\n"
    assert read(megatron(EACH, huge)).world_size is None
    late = torchtitan(SECONDS).replace("2025-06-16", "2025-99-99")
    assert read(late).avg_step_ms == pytest.approx(512.0)
