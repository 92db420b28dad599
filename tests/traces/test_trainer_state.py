"""trainer_state.json: what a Hugging Face Trainer's own log tells about speed, and what not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces.formats import trainer_state
from ci_score.traces.source import ProfileSource
from tests.builders import shared
from tests.builders.traces.trainer_state import END, STATE, trained


def source(content: Any) -> ProfileSource:
    text = content if isinstance(content, str) else json.dumps(content)
    return ProfileSource("trainer_state.json", data=text.encode())


def read(content: Any) -> Profile:
    file = source(content)
    assert trainer_state.recognises(file.head())
    return trainer_state.read(file)


def said(profile: Profile, words: str) -> bool:
    return any(words in note for note in profile.notes)


def test_trainer_state__step_time_and_throughput() -> None:
    """Both are ratios of what the trainer counted, and say so."""
    profile = read(STATE)
    assert (profile.steps, profile.avg_step_ms) == (50, 2000.0)
    assert (profile.throughput_tok_s, profile.tokens_per_step) == (4000.0, 8000.0)
    assert profile.sources["avg_step_ms"] == "train_runtime ÷ global_step (50)"
    assert profile.sources["throughput_tok_s"] == "num_input_tokens_seen ÷ train_runtime"
    assert said(profile, "mean of the whole run")
    assert (profile.phases, profile.per_layer, profile.device_kernels_per_step) == ({}, (), None)


@pytest.mark.parametrize("tokens", [{"num_input_tokens_seen": 0}, {}])
def test_trainer_state__without_tokens_there_is_no_throughput(tokens: dict[str, int]) -> None:
    """The trainer counts tokens only where it was told to; nothing is put in their place."""
    rest = {key: value for key, value in STATE.items() if key != "num_input_tokens_seen"}
    profile = read({**rest, **tokens})
    assert (profile.throughput_tok_s, profile.tokens_per_step) == (None, None)
    assert profile.avg_step_ms == 2000.0
    assert said(profile, "include_num_input_tokens_seen")


def stepped(*seconds: float) -> dict[str, Any]:
    history = [{"step": n, "step_time": s} for n, s in enumerate(seconds, start=1)]
    end = {**END, "step": len(seconds), "train_runtime": sum(seconds)}
    return {**STATE, "global_step": len(seconds), "log_history": [*history, end]}


def test_trainer_state__logged_step_times_give_their_mean() -> None:
    """All steps count but the first one, which compiles."""
    profile = read(stepped(60.0, 1.5, 1.4, 1.6))
    assert profile.avg_step_ms == pytest.approx(1500.0)
    assert profile.step_times_ms == pytest.approx((1500.0, 1400.0, 1600.0))
    assert profile.sources["avg_step_ms"] == (
        "the mean of 3 step_time entries of log_history, without the first step"
    )
    assert not said(profile, "mean of the whole run")
    assert not said(profile, "median")


def test_trainer_state__stalls_that_a_median_hides_count() -> None:
    """Four steps of ten take five times as long: the median is that of a run without them."""
    profile = read(stepped(60.0, *(1.0,) * 6, *(5.0,) * 4))
    assert profile.avg_step_ms == pytest.approx(2600.0)
    assert said(profile, "median of the step times is 1000 ms and their mean 2600 ms")


def test_trainer_state__a_slow_second_step_is_no_warm_up() -> None:
    """Only the first step is left out, however slow the next ones are."""
    assert read(stepped(60.0, 9.0, 1.0, 2.0)).avg_step_ms == pytest.approx(4000.0)


def test_trainer_state__time_between_the_logged_steps_counts() -> None:
    """What logs step times does not see a slow data loader; evaluation is no step."""
    state = stepped(60.0, 1.0, 1.0, 1.0)
    end = {**state["log_history"][-1], "train_runtime": 60.0 + 3.0 + 6.0 + 4.5}
    evaluation = {"step": 4, "eval_runtime": 4.5}
    profile = read({**state, "log_history": [*state["log_history"][:-1], evaluation, end]})
    assert profile.avg_step_ms == pytest.approx(3000.0)
    assert profile.sources["avg_step_ms"] == (
        "train_runtime less evaluation ÷ 3 steps, without the first step; step_time says 1000 ms"
    )


def test_trainer_state__two_step_times_are_no_mean() -> None:
    """One of two may be the compile step."""
    history = [{"step_time": 60.0}, {"step_time": 1.5}, END]
    assert read({**STATE, "log_history": history}).avg_step_ms == 2000.0


def test_trainer_state__a_checkpoint_of_a_run_that_goes_on_is_unusable() -> None:
    """The runtime is written at the end; before it, nothing tells how long the steps took."""
    profile = read({**STATE, "log_history": [{"step": 10, "loss": 2.5}], "max_steps": 500})
    assert "no train_runtime" in (profile.unusable or "")
    assert (profile.avg_step_ms, profile.throughput_tok_s) == (0.0, None)


def test_trainer_state__no_step_is_unusable() -> None:
    """A state that was saved before the first step."""
    assert "no step was trained" in (read({**STATE, "global_step": 0}).unusable or "")


def test_trainer_state__what_the_runtime_includes_is_said() -> None:
    """Evaluation and an early stop change what the mean step means."""
    history = [{"eval_runtime": 12.5}, END]
    profile = read({**STATE, "max_steps": 80, "log_history": history})
    assert profile.avg_step_ms == 2000.0
    assert profile.capture["evaluation_s"] == 12.5
    assert said(profile, "Evaluation took 12.5 s")
    assert said(profile, "stopped at step 50 of 80")


# --- resumed, or not ------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [0, 8000])
@pytest.mark.parametrize("rates_of_all", [False, True])
def test_resumed__a_runtime_in_every_entry_is_one_run(tokens: int, rates_of_all: bool) -> None:
    """Transformers 5 writes the seconds so far into every entry."""
    profile = read(trained(2.0, tokens=tokens, rates_of_all=rates_of_all))
    assert (profile.steps, profile.avg_step_ms) == (60, 2000.0)
    assert profile.tokens_per_step == (tokens or None)
    assert not said(profile, "resumed")


@pytest.mark.parametrize("earlier_step_s", [2.0, 0.001], ids=["falls", "rises"])
@pytest.mark.parametrize("tokens", [0, 8000])
def test_resumed__its_own_steps_count(tokens: int, earlier_step_s: float) -> None:
    """The seconds are those since the resume, even if they rise there."""
    profile = read(trained(3.0, tokens=tokens, resumed_at=25, earlier_step_s=earlier_step_s))
    assert (profile.steps, profile.avg_step_ms) == (35, 3000.0)
    assert profile.sources["avg_step_ms"] == (
        "train_runtime of steps 26 to 60, since the run was resumed"
    )
    assert said(profile, "only its own steps 26 to 60 count")
    assert profile.tokens_per_step == (tokens or None)
    assert profile.throughput_tok_s == (pytest.approx(8000 / 3.0) if tokens else None)


@pytest.mark.parametrize("ended", [True, False])
def test_resumed__by_its_own_entries_where_the_rates_are_those_of_all_steps(ended: bool) -> None:
    """Two entries have the same start, so that of the resume need not be known."""
    profile = read(trained(3.0, resumed_at=25, rates_of_all=True, ended=ended))
    assert (profile.steps, profile.avg_step_ms) == (30, 3000.0)
    assert profile.throughput_tok_s == pytest.approx(8000 / 3.0)


def test_resumed__where_its_steps_are_not_told_is_unusable() -> None:
    """Transformers 5.0 without tokens: only the loss tells that fewer steps were trained."""
    profile = read(trained(3.0, tokens=0, resumed_at=25, rates_of_all=True))
    assert "does not say how many of the 60 steps its train_runtime is of" in (
        profile.unusable or ""
    )
    assert profile.avg_step_ms == 0.0


@pytest.mark.parametrize("earlier_step_s", [2.0, 0.001], ids=["falls", "rises"])
def test_resumed__a_log_of_two_parts_that_look_like_one_is_unusable(earlier_step_s: float) -> None:
    """The seconds may go on rising, and the loss tells of a resume without saying where."""
    state = trained(3.0, resumed_at=25, rates_of_all=True, earlier_step_s=earlier_step_s)
    profile = read(state)
    assert profile.avg_step_ms == (3000.0 if earlier_step_s == 2.0 else 0.0)
    assert bool(profile.unusable) == (earlier_step_s == 0.001)


def test_resumed__a_log_that_begins_with_the_last_part() -> None:
    """Its rates of tokens tell that something came before."""
    state = trained(3.0, resumed_at=25, ended=False)
    profile = read({**state, "log_history": state["log_history"][2:]})
    assert (profile.steps, profile.avg_step_ms) == (30, 3000.0)


def test_resumed__at_the_end_of_a_run_has_no_step_of_its_own() -> None:
    """The second runtime is of a part that trained nothing more."""
    again = {**END, "train_runtime": 40.0}
    assert "resumed" in (read({**STATE, "log_history": [END, again]}).unusable or "")


def test_resumed__tokens_that_are_not_told_stay_absent() -> None:
    """The state counts those of all parts; the last part may have had another batch."""
    state = trained(3.0, tokens=0, resumed_at=25)
    profile = read({**state, "num_input_tokens_seen": 480_000})
    assert (profile.avg_step_ms, profile.tokens_per_step) == (3000.0, None)
    assert profile.throughput_tok_s is None
    assert said(profile, "How many tokens the run saw since it was resumed is not told")


def test_resumed__evaluations_and_step_times_of_the_part_before_are_left_out() -> None:
    """They may be those of other code."""
    state = trained(3.0, resumed_at=25)
    before = [{"step": n, "step_time": 0.1, "eval_runtime": 9.0} for n in range(1, 25)]
    after = [{"step": n, "step_time": 3.0, "eval_runtime": 0.5} for n in range(30, 33)]
    profile = read({**state, "log_history": [*before, *after, *state["log_history"]]})
    assert profile.step_times_ms == (3000.0,) * 3
    assert profile.capture["evaluation_s"] == 1.5


@pytest.mark.parametrize("loss", [-0.5, 0.0])
def test_resumed__a_loss_below_zero_tells_nothing(loss: float) -> None:
    """Parts of a sum may cancel out."""
    state = trained(2.0, tokens=0)
    rows = [{**row, "loss": loss if row["step"] > 10 else 9.0} for row in state["log_history"][:-1]]
    end = {**state["log_history"][-1], "train_loss": (90.0 + 50 * loss) / 60}
    assert read({**state, "log_history": [*rows, end]}).avg_step_ms == 2000.0


def test_checkpoint__is_divided_by_the_step_that_its_seconds_were_logged_at() -> None:
    """A state that is saved between two entries of the log has trained further than it tells."""
    state = trained(2.0, ended=False)
    profile = read({**state, "global_step": 65, "num_input_tokens_seen": 65 * 8000})
    assert (profile.steps, profile.avg_step_ms) == (60, 2000.0)
    assert profile.throughput_tok_s == 4000.0
    assert profile.sources["avg_step_ms"] == "train_runtime ÷ step (60)"


def test_trainer_state__a_gradient_that_overflowed_does_not_cost_the_times() -> None:
    """Python writes NaN and Infinity for losses and norms, which are no JSON."""
    overflow = {"step": 10, "loss": float("nan"), "grad_norm": float("inf"), "note": "NaN"}
    profile = read({**STATE, "log_history": [overflow, END]})
    assert profile.avg_step_ms == 2000.0
    assert said(profile, "2 numbers in it are NaN or infinite")


def test_trainer_state__recognises_nothing_else() -> None:
    """Both keys are needed, at the outside."""
    others: list[Any] = [{}, {"global_step": 1}, {"log_history": []}, {"x": STATE}, [STATE]]
    for other in others:
        assert not trainer_state.recognises(json.dumps(other).encode())
    assert trainer_state.recognises(json.dumps(STATE).encode()[:140])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**STATE, "global_step": "50"}, r'global_step: found "50", expected a whole number'),
        ({**STATE, "global_step": -1}, "global_step: found -1"),
        ({**STATE, "global_step": True}, "global_step: found true"),
        ({**STATE, "num_input_tokens_seen": -4}, "num_input_tokens_seen: found -4"),
        ({**STATE, "log_history": {}}, "log_history: found an empty object, expected a list"),
        ({**STATE, "log_history": [3]}, r"log_history\[0\]: found 3, expected an object"),
        (
            {**STATE, "log_history": [{"train_runtime": -1.0}]},
            r"log_history\[0\].train_runtime: found -1.0",
        ),
        (json.dumps(STATE)[:-9], "end of the file inside the JSON"),
        (json.dumps(STATE).replace('"epoch"', '"global_step": 1, "epoch"'), "this key twice"),
        (json.dumps(STATE).replace("100.0", "1e999"), "finite number"),
        ({**STATE, "log_history": [{"train_runtime": 1e308}]}, "overflows"),
        ("", "an empty file"),
        ("[]", "expected an object"),
    ],
)
def test_trainer_state__refuses(content: Any, message: str) -> None:
    """Wrong fields are named by their path."""
    with pytest.raises(BadInputError, match=message):
        trainer_state.read(source(content))


def sample(name: str) -> tuple[Profile, Any]:
    folder = shared()
    path = (folder or Path()) / "samples" / "hf" / name
    if folder is None or not path.is_file():
        pytest.skip("the samples of Hugging Face trainers are not here (CI_SCORE_SHARED)")
    file = ProfileSource(name, path=path)
    assert trainer_state.recognises(file.head())
    return trainer_state.read(file), json.loads(path.read_text(encoding="utf-8"))


def test_samples__a_run_with_tokens() -> None:
    """768 steps, 24.7 million tokens, 5980.7 s."""
    profile, written = sample("aa-n_Qwen3_Lora_trainer_state.json")
    seconds = written["log_history"][-1]["train_runtime"]
    assert profile.throughput_tok_s == pytest.approx(written["num_input_tokens_seen"] / seconds)
    assert profile.throughput_tok_s == pytest.approx(4128.17, rel=1e-5)
    assert profile.avg_step_ms == pytest.approx(seconds * 1000 / 768)
    # The trainer's own rate, which it rounds to three digits.
    rate = written["log_history"][-1]["train_steps_per_second"]
    assert 1000 / profile.avg_step_ms == pytest.approx(rate, abs=0.0005)


def test_samples__a_run_without_tokens() -> None:
    """45 steps in 472.1 s, and no count of tokens."""
    profile, written = sample("anonymousgigachad_llm-training_trainer_state.json")
    assert written["num_input_tokens_seen"] == 0
    assert profile.throughput_tok_s is None
    assert profile.steps == 45
    assert profile.avg_step_ms == pytest.approx(472.0904 * 1000 / 45)
    assert 1000 / profile.avg_step_ms == pytest.approx(0.095, abs=0.0005)


def test_samples__are_all_read() -> None:
    """No sample is left out."""
    folder = shared()
    if folder is None or not (folder / "samples" / "hf").is_dir():
        pytest.skip("the samples of Hugging Face trainers are not here (CI_SCORE_SHARED)")
    for path in sorted((folder / "samples" / "hf").iterdir()):
        profile, _ = sample(path.name)
        assert profile.avg_step_ms > 0
