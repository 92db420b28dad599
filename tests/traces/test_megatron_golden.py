"""Golden values of Megatron-LM's functional tests: seconds of sampled iterations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces.formats import megatron_golden, read_profile
from ci_score.traces.source import ProfileSource


def golden(values: Any, interval: int = 1) -> dict[str, Any]:
    rows = {"start_step": 1, "end_step": 50, "step_interval": interval}
    loss = {**rows, "values": {"1": 10.5, "2": 10.4}}
    return {"lm loss": loss, "iteration-time": {**rows, "values": values}}


def read(content: Any) -> Profile:
    profile = read_profile(ProfileSource("golden.json", data=json.dumps(content).encode()))
    assert profile.timed_by == "the trainer's log"
    return profile


def test_golden__each_value_is_a_step_in_seconds() -> None:
    """The first one has compilation in it; since 2026 it is that of the second iteration."""
    memory = {"step_interval": 1, "values": {"1": 1e9, "2": 5.7e9, "3": 5.7e9}}
    values = {"2": 6.4, "3": 0.5, "4": 0.75, "5": 0.25}
    profile = read({**golden(values), "mem-max-allocated-bytes": memory})
    assert profile.step_times_ms == (500.0, 750.0, 250.0)
    assert (profile.avg_step_ms, profile.peak_memory_gb) == (500.0, 5.7)
    assert profile.sources["avg_step_ms"] == (
        "the mean of 3 values of iteration-time, without the first"
    )
    assert (profile.tool, profile.tokens_per_step) == ("Megatron-LM", None)


def test_golden__values_are_samples_where_they_are_further_apart() -> None:
    """What lies between two of them is not known; older files have a list."""
    for values in ({"1": 9.0, "5": 0.5, "10": 0.5}, [9.0, 0.5, 0.5]):
        profile = read(golden(values, interval=5))
        assert profile.step_times_ms == (500.0, 500.0)
        assert "They keep every 5th step, and not those between." in profile.notes


def test_golden__a_resumed_run_has_nan_before_it() -> None:
    """Its own first value is warm-up."""
    values = {"1": "nan", "2": "nan", "51": 7.0, "52": 0.5, "53": 0.5}
    assert read(golden(values)).step_times_ms == (500.0, 500.0)


def test_golden__a_file_of_2023_has_only_a_mean() -> None:
    """There are no step times then."""
    content = golden([])
    del content["iteration-time"]
    profile = read({**content, "iteration_timing_avg": 0.125})
    assert (profile.avg_step_ms, profile.step_times_ms) == (125.0, ())


@pytest.mark.parametrize(
    ("values", "why"),
    [({"1": 3.0}, "has 1 values, and the first one is warm-up"), ({"1": "nan"}, "has 0 values")],
)
def test_golden__too_few_values_are_unusable(values: Any, why: str) -> None:
    """A single one has compilation in it."""
    assert why in (read(golden(values)).unusable or "")


def test_golden__without_times_is_unusable() -> None:
    """Some tests only look at losses."""
    content = golden([])
    del content["iteration-time"]
    assert read(content).unusable == "it has no iteration-time"


def test_golden__recognises_nothing_else() -> None:
    """Golden values of inference are not those of training steps."""
    inference = {"0": {"generated_tokens": [1]}, "mem-max-allocated-bytes": 5, "throughput": [1.0]}
    for other in (inference, {}, {"iteration-time": 3}):
        assert not megatron_golden.recognises(json.dumps(other).encode())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"1": [1.0]}, "iteration-time"),
        (7, "iteration-time"),
        ([1e308, 1e308, 1e308], "overflows"),
    ],
)
def test_golden__refuses(values: Any, message: str) -> None:
    """Wrong fields are named by their path."""
    with pytest.raises(BadInputError, match=message):
        read(golden(values))
