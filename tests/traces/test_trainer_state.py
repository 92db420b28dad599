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
from tests.builders.traces.trainer_state import END, STATE


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


def test_trainer_state__logged_step_times_give_their_median() -> None:
    """The first step compiles; a mean would hide what a usual step takes."""
    history = [{"step": n, "step_time": s} for n, s in enumerate((60.0, 1.5, 1.4, 1.6))]
    profile = read({**STATE, "log_history": [*history, END]})
    assert profile.avg_step_ms == pytest.approx(1550.0)
    assert profile.step_times_ms == pytest.approx((60_000.0, 1500.0, 1400.0, 1600.0))
    assert "median of 4" in profile.sources["avg_step_ms"]
    assert not said(profile, "mean of the whole run")


def test_trainer_state__two_step_times_are_no_median() -> None:
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
    """Evaluation, an early stop and a resumed run change what the mean step means."""
    profile = read(
        {
            **STATE,
            "max_steps": 80,
            "log_history": [END, {"eval_runtime": 12.5}, {**END, "train_runtime": 40.0}],
        }
    )
    assert profile.avg_step_ms == 800.0
    assert profile.capture["evaluation_s"] == 12.5
    assert said(profile, "Evaluation took 12.5 s")
    assert said(profile, "stopped at step 50 of 80")
    assert said(profile, "resumed")


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
