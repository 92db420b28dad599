"""The reference runtime's own files: what is read of each shape, and what is refused and why."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces.formats import (
    apr_profiler,
    canary,
    log_text,
    parity_profile,
    step_profiler,
    text_table,
    trainer_state,
)
from ci_score.traces.source import ProfileSource
from tests.builders import shared
from tests.builders.traces.upstream import (
    APR,
    LAYER_TABLE,
    LINES,
    METRICS,
    PARITY,
    RESULT,
    TABLE,
    V1,
    V2,
)

READERS: tuple[ModuleType, ...] = (
    step_profiler,
    apr_profiler,
    text_table,
    canary,
    parity_profile,
    trainer_state,
)


def source(content: Any, name: str = "profile.json") -> ProfileSource:
    if isinstance(content, dict):
        content = json.dumps(content)
    data = content.encode() if isinstance(content, str) else content
    return ProfileSource(name, data=data)


def readers_of(file: ProfileSource) -> list[ModuleType]:
    return [reader for reader in READERS if reader.recognises(file.head())]


def read(content: Any, name: str = "profile.json") -> Profile:
    """Read by the one reader that knows the content."""
    file = source(content, name)
    (reader,) = readers_of(file)
    profile = reader.read(file)
    assert isinstance(profile, Profile)
    return profile


def times(profile: Profile) -> dict[str, float]:
    return {name: phase.total_ms for name, phase in profile.phases.items()}


def with_metrics(**metrics: Any) -> dict[str, Any]:
    return {**RESULT, "metrics": {**METRICS, **metrics}}


def said(profile: Profile, words: str) -> bool:
    return any(words in note for note in profile.notes)


# --- step_profiler ------------------------------------------------------------------------------


def test_step_profiler__run_totals_become_times_per_step() -> None:
    """Phases, layers and ops are sums over the run; the step time is a mean already."""
    profile = read(V2)
    assert (profile.steps, profile.avg_step_ms, profile.wall_coverage) == (10, 50.0, 0.9)
    assert times(profile) == {"h2d": 5.0, "forward": 40.0}
    assert profile.phases["h2d"].pct == 10.0
    assert (profile.per_layer[0].fwd_ms, profile.per_layer[0].bwd_ms) == (10.0, 20.0)
    assert profile.ops == {"qkv_gemm": 7.0, "attention": 3.0}
    assert profile.tool == "step_profiler_v2"
    assert profile.capture == {"gemm_pct": 60.0}
    assert set(profile.sources) == {"avg_step_ms", "phases", "per_layer", "ops"}
    assert profile.throughput_tok_s is None
    assert said(profile, "nothing about tokens")


def test_step_profiler__v1_has_no_ops() -> None:
    """Version 1 is the same without ops and gemm_pct."""
    profile = read(V1)
    assert (profile.ops, profile.capture) == ({}, {})
    assert times(profile) == {"h2d": 5.0, "forward": 40.0}


SHAPES: dict[str, Any] = {
    "alone": V2,
    "pretty": json.dumps(V2, indent=2),
    "wrapped": {"profiler": V2},
    "marker last": dict(reversed(list(V2.items()))),
    "in a log": LINES + json.dumps(V2) + "\n[wgpu] done {\n",
    "in a log that begins with JSON": '{"level": "info"}\n' + json.dumps(V2) + "\n",
    "pretty in a log": LINES + json.dumps(V2, indent=2) + "\nbye }\n",
    "first line of a log": json.dumps(V2) + "\n" + LINES,
    "with a byte order mark": b"\xef\xbb\xbf" + json.dumps(V2).encode(),
    "gzipped": gzip.compress(json.dumps(V2).encode()),
    "in a log that is not UTF-8": b"loss \xff\xfe\n" + json.dumps(V2).encode(),
    "windows line ends": (LINES + json.dumps(V2, indent=2)).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES)
def test_step_profiler__every_shape_reads_the_same(content: Any) -> None:
    """Where the object stands changes nothing of what is read."""
    assert read(content) == read(V2)


def test_step_profiler__legacy_phases_are_keys_of_the_profile() -> None:
    """The shape without `phases` has the same numbers, with and without a marker."""
    legacy = {**{k: v for k, v in V2.items() if k not in ("phases", "_profiler")}, **V2["phases"]}
    assert times(read(legacy)) == times(read(V2))
    assert times(read({"_profiler": "step_profiler_v1", **legacy})) == times(read(V2))


def test_step_profiler__a_wrapped_profile_without_a_marker_is_per_step() -> None:
    """The bare reference format is taken as it is, also inside the wrapper, with a note."""
    bare = {key: value for key, value in V2.items() if key != "_profiler"}
    profile = read({"profiler": bare})
    assert times(profile) == {"h2d": 50.0, "forward": 400.0}
    assert said(profile, "does not say which profiler")


def test_step_profiler__a_missing_share_is_derived() -> None:
    """A share is the phase's part of the step, where the file does not have it."""
    assert read({**V2, "phases": {"opt": {"total_ms": 100.0}}}).phases["opt"].pct == 20.0


def test_step_profiler__of_several_in_a_log_the_last_counts() -> None:
    """A profiler that reports every so often writes cumulative profiles; the note says so."""
    later = {**V2, "steps": 20}
    profile = read(f"{json.dumps(V2)}\nstep 20\n{json.dumps(later)}\n", "train.log")
    assert profile.steps == 20
    assert said(profile, "holds 2 profiles: this is the last, from train.log:3")


def test_step_profiler__a_profile_that_was_cut_short_gives_way_to_the_one_before() -> None:
    """A kill while printing costs the last profile, not all of them."""
    profile = read(f"{json.dumps(V2)}\nstep 20\n{json.dumps(V2)[:60]}", "train.log")
    assert profile.steps == 10
    assert said(profile, "the last whole one, from train.log:1; after it, 1 cut short")


def test_step_profiler__a_gzip_that_was_cut_short_keeps_what_it_has() -> None:
    """A profile before the cut is whole; the note says that the file is not."""
    noise = "".join(f"step {n * 7919 % 10007} done\n" for n in range(20_000))
    packed = gzip.compress((LINES + json.dumps(V2) + "\n" + noise).encode())
    profile = read(packed[: len(packed) // 2])
    assert times(profile) == {"h2d": 5.0, "forward": 40.0}
    assert said(profile, "file is cut short")
    with pytest.raises(BadInputError, match="cut short"):
        step_profiler.read(source(gzip.compress(json.dumps(V2).encode())[:-60]))


def test_step_profiler__contradictions_get_a_note() -> None:
    """Totals that are no totals, and a coverage that the phases do not add up to."""
    per_step = {"forward": {"total_ms": 40.0, "pct": 80.0, "avg_ms": 40.0}}
    profile = read({**V2, "phases": per_step})
    assert said(profile, "do not agree")
    assert said(profile, "claims a wall coverage of 0.900; its phases add up to 0.080")
    assert not said(read(V2), "claims")


@pytest.mark.parametrize("steps", [{"steps": 0}, {}])
def test_step_profiler__no_steps_is_unusable(steps: dict[str, int]) -> None:
    """Sums over a run without a count of its steps measure nothing."""
    rest = {key: value for key, value in V2.items() if key != "steps"}
    profile = read({**rest, **steps})
    assert "steps is 0 or missing" in (profile.unusable or "")
    assert not profile.measured_something


def test_step_profiler__a_missing_step_time_stays_absent() -> None:
    """Nothing is put in its place."""
    profile = read({key: value for key, value in V2.items() if key != "avg_step_ms"})
    assert profile.avg_step_ms == 0
    assert "avg_step_ms" not in profile.sources
    assert said(profile, "step time is not known")


BAD: dict[str, tuple[Any, str]] = {
    "truncated": (json.dumps(V2)[:-40], "profile.json:1: found a profile that is cut short"),
    "steps as text": ({**V2, "steps": "10"}, r'steps: found "10", expected a whole number'),
    "half a step": ({**V2, "steps": 1.5}, "steps: found 1.5, expected a whole number"),
    "negative": (
        {**V2, "phases": {"opt": {"total_ms": -1.0}}},
        r"phases.opt.total_ms: found -1.0, expected a number of 0 or more",
    ),
    "null": ({**V2, "avg_step_ms": None}, "avg_step_ms: found null"),
    "phases as a list": ({**V2, "phases": []}, "phases: found an empty list, expected an object"),
    "a phase as a number": ({**V2, "phases": {"opt": 3}}, "phases.opt: found 3"),
    "an op as an object": ({**V2, "ops": {"a b": {}}}, r'ops\["a b"\]: found an empty object'),
    "a layer without a number": ({**V2, "per_layer": [{}]}, r"per_layer\[0\].layer: found nothing"),
    "NaN": (json.dumps(V2).replace("50.0", "NaN", 1), "not JSON"),
    "infinite": (json.dumps(V2).replace("50.0", "1e999", 1), "finite number"),
    "a key twice": (json.dumps(V2).replace('"steps"', '"steps": 9, "steps"'), "this key twice"),
    "a key twice in a wrapper": (
        f'{{"profiler": {json.dumps(V2)}, "profiler": {json.dumps(V2)}}}',
        "this key twice",
    ),
    "wrapped": ({"profiler": {**V2, "steps": -1}}, "profiler: steps: found -1"),
    "in a log": (LINES + json.dumps({**V2, "steps": -1}), "profile.json:3: steps: found -1"),
    "sums that overflow": (
        {**V2, "phases": {"a": {"total_ms": 1e308}, "b": {"total_ms": 1.7e308}}, "steps": 1},
        "overflows",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_step_profiler__refuses(content: Any, message: str) -> None:
    """Wrong fields are named by their path, with what was found and expected."""
    with pytest.raises(BadInputError, match=message):
        step_profiler.read(source(content))


# --- apr_training_profiler ----------------------------------------------------------------------


def test_apr_profiler__the_step_is_the_wall_time_over_the_steps() -> None:
    """There is no step time in the file, and its phases are sums over the run."""
    profile = read(APR)
    assert (profile.steps, profile.avg_step_ms, profile.wall_coverage) == (20, 100.0, 0.87)
    assert profile.sources["avg_step_ms"] == "wall_time_ms ÷ steps_profiled (20)"
    assert profile.capture == {"wall_time_ms": 2000.0, "gpu_compute_ms": 1600.0}
    assert profile.bottleneck == "gpu_fwd"


def test_apr_profiler__copies_are_known_as_transfers() -> None:
    """Transfers are phases with h2d or d2h in their names; how they got them is said."""
    profile = read(APR)
    assert times(profile) == {"buf_write_h2d": 5.0, "gpu_fwd": 80.0, "sync_d2h": 2.0}
    assert "buf_write is named buf_write_h2d" in profile.sources["phases"]
    assert "sync is named sync_d2h" in profile.sources["phases"]


def test_apr_profiler__a_new_name_never_hides_a_phase() -> None:
    """A file that has both names keeps both."""
    both = {**APR["phases"], "sync_d2h": {"total_ms": 20.0}}
    assert set(read({**APR, "phases": both}).phases) >= {"sync", "sync_d2h"}


def test_apr_profiler__pretty_printed_in_a_log() -> None:
    """The real ones are printed over many lines, between others."""
    log = f"{LINES}[wgpu] Training complete in 2.1s\n{json.dumps(APR, indent=2)}\n[wgpu] bye\n"
    assert times(read(log)) == times(read(APR))


def test_apr_profiler__coverage_of_a_part_of_the_run_gets_a_note() -> None:
    """The log says how long the run took, and the profile how much of that it timed."""
    log = f"[wgpu] Training complete in 40.0s\n{json.dumps(APR, indent=2)}\n"
    profile = read(log)
    assert said(profile, "timed 2.0 s of a run of 40.0 s (5.0%)")
    assert profile.capture["run_wall_ms"] == 40_000.0
    assert not said(read(log.replace("40.0s", "2.1s")), "of a run of")


def test_apr_profiler__a_coverage_that_follows_from_its_definition_is_no_evidence() -> None:
    """Where the wall time is the sum of the phases, a coverage of 1 says nothing."""
    assert said(read({**APR, "wall_time_ms": 1740.0, "wall_coverage": 1.0}), "no evidence")
    assert not said(read(APR), "no evidence")
    assert said(read({**APR, "wall_coverage": 1.0}), "claims a wall coverage of 1.000")


def test_apr_profiler__no_steps_or_no_wall_time() -> None:
    """Without steps it is unusable; without a wall time the step time is absent."""
    assert "steps_profiled is 0" in (read({**APR, "steps_profiled": 0}).unusable or "")
    profile = read({**APR, "wall_time_ms": 0.0})
    assert profile.avg_step_ms == 0
    assert said(profile, "step time is not known")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**APR, "steps_profiled": -3}, "steps_profiled: found -3"),
        ({**APR, "wall_time_ms": "2000"}, r'wall_time_ms: found "2000", expected a number'),
        ({"profiler": {**APR, "phases": 1}}, "profiler: phases: found 1"),
        (json.dumps(APR, indent=2)[:300], "cut short or damaged"),
        (json.dumps(APR).replace("2000.0", "Infinity"), "not JSON"),
    ],
)
def test_apr_profiler__refuses(content: Any, message: str) -> None:
    """Wrong fields are named by their path."""
    with pytest.raises(BadInputError, match=message):
        apr_profiler.read(source(content))


# --- the text table -----------------------------------------------------------------------------


def test_text_table__reads_phases_per_step() -> None:
    """`other` is time without a phase, so it is none, and coverage is what the phases have."""
    profile = read(LINES + TABLE + LINES)
    assert (profile.steps, profile.avg_step_ms) == (10, 50.0)
    assert profile.wall_coverage == pytest.approx(0.9)
    assert times(profile) == {"h2d": 5.0, "forward": 40.0}
    assert profile.capture == {"unaccounted_ms": 50.0}
    assert said(profile, "neither layers nor ops")


def test_text_table__reads_the_layers_below() -> None:
    """The second table has sums over the run, and percentiles are kept as of the run."""
    profile = read(TABLE + LAYER_TABLE)
    layers = [(layer.layer, layer.fwd_ms, layer.bwd_ms) for layer in profile.per_layer]
    assert layers == [(0, 10.0, 20.0), (1, 11.0, 21.0)]
    assert profile.capture["step_p50_ms"] == 49.1


def test_text_table__the_last_one_counts() -> None:
    """The profiler prints a cumulative table every so often."""
    profile = read(TABLE + TABLE.replace("10 steps", "20 steps"), "train.log")
    assert profile.steps == 20
    assert said(profile, "2 tables: this is the last, from train.log:11")


def test_text_table__lines_of_others_between_its_rows_do_not_matter() -> None:
    """Two streams that share a terminal interleave."""
    table = TABLE.replace("│    forward", "[warn] slow | disk\n│    forward")
    assert times(read(table)) == {"h2d": 5.0, "forward": 40.0}


def test_text_table__without_its_total() -> None:
    """A table that was cut short has the step time of its title, and says so."""
    profile = read(TABLE[: TABLE.index("│      other")])
    assert profile.avg_step_ms == 50.0
    assert said(profile, "ends before its TOTAL")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.replace("400.0", "  NaN"), "profile.json:6: found 'NaN', expected a number of 0"),
        (TABLE.replace("400.0", " -4.0"), "profile.json:6: found '-4.0'"),
        (TABLE.replace("forward", "    h2d"), "a second row 'h2d'"),
        (TABLE[:80], "a table without phases"),
        (LAYER_TABLE.replace("│     1", "│   one").join([TABLE, ""]), "number of a layer"),
        ("no table", "without its table"),
    ],
)
def test_text_table__refuses(table: str, message: str) -> None:
    """A cell that is no number is named with its line."""
    with pytest.raises(BadInputError, match=message):
        text_table.read(source(table))


def test_text_table__no_steps_is_unusable() -> None:
    """A table of no step measured nothing."""
    assert read(TABLE.replace("10 steps", "0 steps")).unusable


# --- canary results -----------------------------------------------------------------------------


def test_canary__throughput_and_machine() -> None:
    """The run's own numbers, and what cannot be derived is said."""
    profile = read(RESULT)
    assert profile.throughput_tok_s == 4000.0
    assert profile.accelerator == "NVIDIA L4"
    assert profile.peak_memory_gb == pytest.approx(1000 * 2**20 / 1e9)
    assert profile.tool == "canary pytorch"
    assert (profile.steps, profile.avg_step_ms, profile.tokens_per_step) == (0, 0.0, None)
    assert profile.unusable is None
    assert said(profile, "Run on box, back end cuda")
    assert said(profile, "step time is not known")


def test_canary__the_step_time_is_the_median() -> None:
    """A mean counts compilation; only a median is taken."""
    profile = read(with_metrics(step_time_ms={"mean": 90.0, "p50": 60.0, "p95": 70.0, "p99": 3e3}))
    assert (profile.avg_step_ms, profile.steps) == (60.0, 100)
    assert "p50" in profile.sources["avg_step_ms"]
    assert profile.capture["step_mean_ms"] == 90.0
    assert read(with_metrics(step_time_ms={"mean": 90.0})).avg_step_ms == 0


def test_canary__step_times_give_their_median_and_stay() -> None:
    """Where the run kept every step, the samples are the profile's."""
    profile = read(with_metrics(step_times_ms=[900.0, 10.0, 12.0]))
    assert (profile.avg_step_ms, profile.steps) == (12.0, 3)
    assert profile.step_times_ms == (900.0, 10.0, 12.0)
    assert said(profile, "planned 100 steps; 3 were timed")


def test_canary__a_profile_beside_the_metrics() -> None:
    """`profiler` holds any profile of the runtime; its step time goes before none."""
    profile = read({**RESULT, "profiler": V2})
    assert times(profile) == {"h2d": 5.0, "forward": 40.0}
    assert (profile.throughput_tok_s, profile.avg_step_ms) == (4000.0, 50.0)
    assert profile.tool == "canary pytorch + step_profiler_v2"
    assert not said(profile, "nothing about tokens")


def test_canary__a_profile_in_the_log() -> None:
    """The profile is in the end of what the run printed, also as a table."""
    log = f"{LINES}[wgpu] Training complete in 40.0s\n{json.dumps(APR, indent=2)}\n"
    profile = read({**RESULT, "apr_output": {"stderr_summary": log}})
    assert profile.avg_step_ms == 100.0
    assert said(profile, "timed 2.0 s of a run of 40.0 s")
    assert times(read({**RESULT, "stderr_summary": TABLE})) == {"h2d": 5.0, "forward": 40.0}


def test_canary__the_wall_time_of_the_run_tells_what_was_profiled() -> None:
    """Without a log, the run's own wall time shows how little the profile covers."""
    assert said(read({**RESULT, "profiler": APR}), "timed 2.0 s of a run of 100.0 s (2.0%)")


def test_canary__a_damaged_profile_in_the_log_costs_nothing_else() -> None:
    """The run's numbers stay, and the reason is a note."""
    profile = read({**RESULT, "stderr_summary": json.dumps(APR)[:90]})
    assert profile.throughput_tok_s == 4000.0
    assert said(profile, "cannot be used: profile.json: stderr_summary:1: found a profile that is")


CRASHES: dict[str, tuple[dict[str, Any], str]] = {
    "loss 0": (with_metrics(final_loss=0), "final loss is 0"),
    "no backward": (with_metrics(valid_backward_steps=0), "no backward step was valid"),
    "estimated": (with_metrics(_metrics_quality="estimated"), "calls its numbers 'estimated'"),
    "no throughput": (with_metrics(tokens_per_sec=0), "no tokens per second"),
    "exit code": ({**RESULT, "exit_code": 101}, "exited with 101"),
    "error": ({**RESULT, "apr_output": {"error": "apr exited 1"}}, "says 'apr exited 1'"),
    "panic": (
        {**RESULT, "stderr_summary": "\nthread 'main' (3) panicked at lib.rs:1\n"},
        "main thread panicked",
    ),
}


@pytest.mark.parametrize(("result", "reason"), CRASHES.values(), ids=CRASHES)
def test_canary__a_crashed_run_is_unusable(result: dict[str, Any], reason: str) -> None:
    """Its throughput is planned tokens over a short time: it is kept as a claim only."""
    profile = read(result)
    assert reason in (profile.unusable or "")
    assert profile.throughput_tok_s is None
    assert profile.capture.get("reported_tokens_per_sec", 0.0) in (0.0, 4000.0)


def test_canary__a_loss_that_diverged_is_unusable_and_not_a_broken_file() -> None:
    """Python writes NaN, which is no JSON."""
    diverged = {**METRICS, "final_loss": float("nan")}
    two = read({**RESULT, "metrics": {"default": diverged, "cublas": METRICS}})
    assert "final loss is not a number" in (two.unusable or "")
    assert "final loss is not a number" in (
        read(with_metrics(final_loss=float("nan"))).unusable or ""
    )


def test_canary__skipped_backward_passes_and_provisional_numbers_get_a_note() -> None:
    """The run trained, but not in every step."""
    result = with_metrics(
        nan_backward_skips=7, valid_backward_steps=6, _baseline_status="PROVISIONAL"
    )
    profile = read(result)
    assert profile.unusable is None
    assert said(profile, "7 backward passes were skipped")
    assert said(profile, "provisional")


def test_canary__of_two_back_ends_the_default_counts() -> None:
    """The parity canary measures two; the project judges the default's throughput."""
    both = {"default": METRICS, "cublas": {**METRICS, "tokens_per_sec": 4100.0}, "parity": {}}
    profile = read({**RESULT, "metrics": both})
    assert profile.throughput_tok_s == 4000.0
    assert profile.capture["cublas_tokens_per_sec"] == 4100.0
    assert said(profile, "cublas made 4100 tokens/s")


@pytest.mark.parametrize("gpu", [{"gpu": {"device": "unknown"}}, {}])
def test_canary__an_unknown_device_is_no_accelerator(gpu: dict[str, Any]) -> None:
    """`unknown` must not compare equal with another unknown."""
    profile = read({**{key: value for key, value in RESULT.items() if key != "gpu"}, **gpu})
    assert profile.accelerator is None
    assert said(profile, "names no accelerator")


def test_canary__a_table_of_limits_is_refused_with_what_to_give_instead() -> None:
    """baselines.json has what is demanded of runs, and no run."""
    limits = {"apr": {"tokens_per_sec": 470, "final_loss": 12.0}, "wgpu": {"tokens_per_sec": 1}}
    file = source(limits)
    assert readers_of(file) == [canary]
    with pytest.raises(BadInputError, match=r"table of limits.*canary-"):
        canary.read(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (with_metrics(tokens_per_sec="fast"), r'metrics.tokens_per_sec: found "fast"'),
        (with_metrics(tokens_per_sec=-1), "metrics.tokens_per_sec: found -1"),
        (with_metrics(tokens_per_sec=float("nan")), "metrics.tokens_per_sec: found null"),
        (with_metrics(step_times_ms=[1.0, -2.0]), r"metrics.step_times_ms\[1\]: found -2.0"),
        (with_metrics(default={"tokens_per_sec": "x"}), "metrics.default.tokens_per_sec"),
        ({**RESULT, "metrics": []}, "metrics: found an empty list"),
        ({**RESULT, "profiler": [1]}, "profiler: found a list"),
        ({**RESULT, "profiler": {**V2, "steps": True}}, "profiler: steps: found true"),
        (json.dumps(RESULT)[:-5], "end of the file inside the JSON"),
        (json.dumps(RESULT).replace('"host"', '"canary": "apr", "host"'), "this key twice"),
        (with_metrics(wall_time_sec=1e308), "overflows"),
    ],
)
def test_canary__refuses(content: Any, message: str) -> None:
    """Wrong fields are named by their path."""
    with pytest.raises(BadInputError, match=message):
        canary.read(source(content))


def test_canary__a_long_log_whose_head_shows_no_profile() -> None:
    """Any text may hold one; this is asked when no other reader knows the file."""
    log = "step done {\n" * 20_000 + json.dumps(V2) + "\n"
    file = source(log, "train.log")
    assert readers_of(file) == []
    assert canary.recognises_log(file.head())
    assert times(canary.read_log(file)) == {"h2d": 5.0, "forward": 40.0}
    assert times(canary.read_log(source(LINES + TABLE))) == {"h2d": 5.0, "forward": 40.0}
    assert canary.read_log(source(LINES + json.dumps(APR))).steps == 20
    with pytest.raises(BadInputError, match="text without a profile"):
        canary.read_log(source(LINES))


@pytest.mark.parametrize(
    "head", [b"", b" \n", b"{}", b'[{"ph": "X"}]', b'"x"', b"SQLite\x00 3\x00"]
)
def test_canary__what_is_no_log(head: bytes) -> None:
    """JSON, binary files and empty ones are not text for people."""
    assert not canary.recognises_log(head)
    assert canary.recognises_log(b"[2026-04-05 10:29] start\n")


# --- parity profiles ----------------------------------------------------------------------------


def test_parity_profile__ops_and_launches_of_a_step() -> None:
    """The means are per step already; ops have categories by which runtimes can be compared."""
    profile = read(PARITY)
    assert profile.ops == {"attention_ms": 12.5, "ffn_ms": 30.0, "rope_ms": 7.5}
    assert profile.op_categories == {"attention": 12.5, "gemm": 30.0, "other": 7.5}
    assert (profile.kernel_launches_per_step, profile.steps) == (812.0, 10)
    assert profile.unusable is None
    assert said(profile, "'rope_ms'")
    assert set(profile.sources) == {"ops", "op_categories", "kernel_launches_per_step"}


def test_parity_profile__the_throughput_stands_outside() -> None:
    """In the result of a run, the run's numbers are beside the ops."""
    profile = read({**with_metrics(step_time_ms={"p50": 60.0}), "profile": PARITY})
    assert (profile.throughput_tok_s, profile.avg_step_ms) == (4000.0, 60.0)
    assert profile.ops["ffn_ms"] == 30.0
    assert profile.accelerator == "NVIDIA L4"
    assert read({"profile": PARITY}).throughput_tok_s is None


@pytest.mark.parametrize("ops", [{}, {"attention_ms": {"mean": 0.0, "pct": 0}}])
def test_parity_profile__nothing_measured_is_unusable(ops: dict[str, Any]) -> None:
    """No ops and no launches is a profiler that did not see the GPU, not a fast runtime."""
    empty = {**PARITY, "ops": ops, "hardware": {"kernel_launches_per_step": 0}}
    assert "measured nothing" in (read(empty).unusable or "")
    assert "measured nothing" in (read({**RESULT, "profile": empty}).unusable or "")


def test_parity_profile__a_crashed_run_is_unusable_with_ops_too() -> None:
    """Ops of a run that did not train explain nothing."""
    profile = read({**with_metrics(final_loss=0), "profile": PARITY})
    assert "final loss is 0" in (profile.unusable or "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**PARITY, "ops": {"ffn_ms": {"mean": -1}}}, "ops.ffn_ms.mean: found -1"),
        ({**PARITY, "ops": {"ffn_ms": 3.0}}, "ops.ffn_ms: found 3.0, expected an object"),
        ({"profile": {**PARITY, "hardware": []}}, "profile.hardware: found an empty list"),
        ({**PARITY, "_schema": "parity-profile-v9"}, "expected parity-profile-v1"),
        (json.dumps(PARITY).replace("12.5", "NaN"), "ops.attention_ms.mean: found null"),
        (json.dumps(PARITY)[:-3], "end of the file"),
        (json.dumps(PARITY).replace('"runtime"', '"ops": {}, "runtime"'), "this key twice"),
        ([], "found"),
    ],
)
def test_parity_profile__refuses(content: Any, message: str) -> None:
    """Wrong fields are named by their path."""
    text = json.dumps(content) if isinstance(content, list) else content
    with pytest.raises(BadInputError, match=message):
        parity_profile.read(source(text))


# --- recognising --------------------------------------------------------------------------------

FOREIGN: dict[str, bytes] = {
    "empty": b"",
    "an empty object": b"{}",
    "the bare reference": json.dumps(V1 | {"_profiler": 1})
    .encode()
    .replace(b'"_profiler": 1,', b""),
    "a normalised profile": json.dumps({**V2, "_profiler": "ci-score"}).encode(),
    "a wrapped normalised profile": json.dumps(
        {"profiler": {**V2, "_profiler": "ci-score"}}
    ).encode(),
    "a trace": b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "step_profiler_v2"}]}',
    "a trace with a profile in it": json.dumps({"traceEvents": [{"args": V2}]}).encode(),
    "a trace as a list": json.dumps(
        [{"ph": "X", "args": {"log": json.dumps(V2) + TABLE}}]
    ).encode(),
    "a record": b'{"schema_version": 1, "cases": []}',
    "a scorecard": b'{"grade": "A", "efficiency": 0.7}',
    "measurements": b'{"schema": 1, "step_ms": [1.0], "metrics": {"tokens_per_sec": 3}}',
    "sqlite": b"SQLite format 3\x00" + bytes(100),
    "zeros": bytes(1000),
    "a list": b"[1, 2]",
    "prose": b"The step_profiler_v2 writes JSON, and so does apr_training_profiler_v1.",
}


@pytest.mark.parametrize("head", FOREIGN.values(), ids=FOREIGN)
def test_recognises__leaves_other_formats_alone(head: bytes) -> None:
    """A name in a string is no profile, and no file has two readers."""
    assert readers_of(ProfileSource("x", data=head)) == []


@pytest.mark.parametrize(
    "head",
    [
        b'{"' * 32_768,
        b"{[" * 32_768,
        b'{"a": "' + b'\\"' * 32_000,
        b'{"a": "' + b"\\" * 65_001,
        b'"' * 65_536,
        b" " * 65_536,
        b'{"_profiler"' * 5_000,
    ],
    ids=range(7),
)
def test_recognises__is_cheap(head: bytes) -> None:
    """Sixty kilobytes of anything are looked through in a moment."""
    began = time.process_time()
    readers_of(ProfileSource("x", data=head))
    assert time.process_time() - began < 1.0


# --- JSON amid log lines ------------------------------------------------------------------------


def test_find_object__is_linear_in_a_log_full_of_braces() -> None:
    """Nothing is scanned twice: not braces, not quotes that never close, not false beginnings."""
    began = time.process_time()
    for noise in ("{", '{"', '\\"', '{"_profiler":"step_profiler_v2"', "{ \n"):
        log = (noise * (4_000_000 // len(noise))).encode() + json.dumps(V2).encode()
        try:
            excerpt = log_text.find_object(log, step_profiler.START, "train.log")
        except BadInputError:
            continue
        assert excerpt is not None
        assert excerpt.value == V2
    assert time.process_time() - began < 20.0


def test_find_object__gives_up_on_an_object_that_never_ends() -> None:
    """A profile has kilobytes; what is longer than the limit was cut short."""
    log = b'{"_profiler": "step_profiler_v1", "x": [' + b"{}," * 1_500_000 + b"1]}"
    with pytest.raises(BadInputError, match="cut short or damaged"):
        log_text.find_object(log, step_profiler.START, "train.log")


def test_find_object__strings_may_hold_braces_quotes_and_escapes() -> None:
    """What stands in a string neither opens nor closes anything."""
    value = {**V1, "bottleneck": 'a "}{" \\ b', "note": "}}}"}
    excerpt = log_text.find_object(
        (LINES + json.dumps(value)).encode(), step_profiler.START, "train.log"
    )
    assert excerpt is not None
    assert excerpt.value == value


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_find_object__any_bytes_around_it(before: bytes, after: bytes) -> None:
    """A whole profile on a line of its own is found between any bytes."""
    log = before + b"\n" + json.dumps(V2).encode() + b"\n" + after
    excerpt = log_text.find_object(log, step_profiler.START, "train.log")
    assert excerpt is not None
    assert excerpt.value == V2


@given(st.binary(max_size=300))
def test_outer_keys__any_bytes(head: bytes) -> None:
    """The beginning of anything has keys or none, and never an error."""
    assert isinstance(log_text.outer_keys(head), frozenset)


def test_outer_keys__are_those_of_the_outermost_object() -> None:
    """Keys of inner objects and text that looks like keys do not count, nor does a cut matter."""
    head = b' {"a": {"b": 1}, "c\\"": "\\"d\\": 2", "e": [{"f": 1}], "g": "cut'
    assert log_text.outer_keys(head) == {"a", 'c\\"', "e", "g"}
    assert log_text.outer_keys(b'[{"a": 1}]') == frozenset()


# --- the samples --------------------------------------------------------------------------------


def samples() -> Path:
    folder = shared()
    if folder is None or not (folder / "samples" / "upstream").is_dir():
        pytest.skip("the samples of the reference runtime are not here (CI_SCORE_SHARED)")
    return folder / "samples" / "upstream"


def sample(name: str) -> Profile:
    """The profile of a sample, by the one reader that knows it."""
    file = ProfileSource(name, path=samples() / name)
    (reader,) = readers_of(file)
    profile = reader.read(file)
    assert isinstance(profile, Profile)
    return profile


def of_sample(name: str) -> Any:
    return json.loads((samples() / name).read_text(encoding="utf-8"))


def object_in(text: str) -> Any:
    """The pretty-printed object of a log, found by its unindented braces."""
    found = re.search(r"^\{$.*?^\}$", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return json.loads(found[0])


def check_apr(profile: Profile, written: Any) -> None:
    steps = written["steps_profiled"]
    assert profile.steps == steps
    assert profile.avg_step_ms == pytest.approx(written["wall_time_ms"] / steps)
    assert profile.wall_coverage == written["wall_coverage"] == 1.0
    assert len(profile.phases) == len(written["phases"]) == 13
    for name, phase in written["phases"].items():
        renamed = {"buf_write": "buf_write_h2d", "sync": "sync_d2h"}.get(name, name)
        assert profile.phases[renamed].total_ms == pytest.approx(phase["total_ms"] / steps)
        assert profile.phases[renamed].total_ms == pytest.approx(phase["avg_ms"], abs=0.06)
        assert profile.phases[renamed].pct == phase["pct"]
    assert said(profile, "no evidence")


APR_SAMPLES = {
    "canary-apr-gx10-async-20260405.profile.json": 989.153,
    "canary-apr-gx10-pretok-20260405.profile.json": 70.21175,
    "canary-apr-gx10-profile-20260405.profile.json": 988.8585,
}


@pytest.mark.parametrize(("name", "step_ms"), APR_SAMPLES.items(), ids=APR_SAMPLES)
def test_samples__apr_profiles(name: str, step_ms: float) -> None:
    """Thirteen phases, the step from wall time and steps."""
    profile = sample(name)
    check_apr(profile, of_sample(name))
    assert profile.avg_step_ms == pytest.approx(step_ms)
    assert profile.throughput_tok_s is None


def test_samples__apr_profile_in_a_log() -> None:
    """The log says that the run took longer than what was profiled."""
    name = "apr-stderr-with-embedded-profile.log"
    profile = sample(name)
    check_apr(profile, object_in((samples() / name).read_text(encoding="utf-8")))
    assert said(profile, "395.5 s of a run of 449.2 s (88.1%)")


def test_samples__canary_with_a_profile_in_its_log() -> None:
    """Throughput from the metrics, phases from the log."""
    name = "canary-apr-gx10-async-20260405.json"
    profile, written = sample(name), of_sample(name)
    check_apr(profile, object_in(written["apr_output"]["stderr_summary"]))
    assert profile.throughput_tok_s == written["metrics"]["tokens_per_sec"] == 470.2
    assert profile.accelerator is None
    assert profile.unusable is None


def test_samples__the_short_profile_of_a_long_run() -> None:
    """With the wall time of its run beside it, its coverage is shown for what it is."""
    short = of_sample("canary-apr-gx10-pretok-20260405.profile.json")
    profile = read({**with_metrics(wall_time_sec=505.1), "profiler": short})
    assert said(profile, "timed 28.1 s of a run of 505.1 s (5.6%)")


def test_samples__a_canary_that_crashed() -> None:
    """It reports 3144.5 tokens/s, seven times what the runtime does when it trains."""
    name = "canary-apr-yoga-pmat511v2-20260406.json"
    profile = sample(name)
    assert of_sample(name)["metrics"]["tokens_per_sec"] == 3144.5
    assert profile.throughput_tok_s is None
    for reason in ("panicked", "final loss is 0", "no backward step", "'estimated'"):
        assert reason in (profile.unusable or "")


def test_samples__a_canary_that_skipped_backward_passes() -> None:
    """It trained, with NaN; it left no profile, and its step time cannot be derived."""
    profile = sample("canary-apr-20260402.json")
    assert (profile.throughput_tok_s, profile.avg_step_ms) == (194.1, 0.0)
    assert profile.unusable is None
    assert said(profile, "7 backward passes were skipped")


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("canary-pytorch-gx10-20260331.json", None),
        ("canary-unsloth-20260331.json", None),
        ("canary-cublas-gx10-20260331.json", "default"),
    ],
)
def test_samples__canaries_with_step_times(name: str, block: str | None) -> None:
    """The median step and the reported throughput."""
    profile, written = sample(name), of_sample(name)
    metrics = written["metrics"][block] if block else written["metrics"]
    assert profile.throughput_tok_s == metrics["tokens_per_sec"]
    assert profile.avg_step_ms == metrics["step_time_ms"]["p50"]
    assert profile.steps == written["config"]["steps"]
    assert profile.accelerator == written["gpu"]["device"]
    assert profile.peak_memory_gb == pytest.approx(metrics["peak_vram_mb"] * 1048576 / 1e9)
    assert profile.unusable is None


def test_samples__the_empty_parity_profile() -> None:
    """No ops and no launches: nothing was measured, whatever the throughput beside it."""
    name = "parity-unsloth-empty.json"
    profile = sample(name)
    assert of_sample(name)["profile"]["ops"] == {}
    assert "0 ops with time and 0 kernel launches in 10 steps" in (profile.unusable or "")
    assert profile.throughput_tok_s == 5511.6


def test_samples__limits_are_refused() -> None:
    """baselines.json holds limits, some of runs that nobody has made."""
    file = ProfileSource("baselines.json", path=samples() / "baselines.json")
    assert readers_of(file) == [canary]
    with pytest.raises(BadInputError, match="a table of limits"):
        canary.read(file)


@pytest.mark.parametrize(
    "name",
    [
        "step_profiler_v2_from_kaizen_table.SYNTHETIC.json",
        "step_profiler_v2_instruct_pipeline_shape.SYNTHETIC.json",
    ],
)
def test_samples__step_profiles(name: str) -> None:
    """Every total over the steps; the means that the file has agree."""
    profile, written = sample(name), of_sample(name)
    steps = written["steps"]
    assert (profile.steps, profile.avg_step_ms) == (steps, written["avg_step_ms"])
    for phase, numbers in written["phases"].items():
        assert profile.phases[phase].total_ms == pytest.approx(numbers["total_ms"] / steps)
        assert profile.phases[phase].total_ms == pytest.approx(numbers["avg_ms"], abs=0.006)
    assert profile.ops == pytest.approx({op: ms / steps for op, ms in written["ops"].items()})
    assert [layer.bwd_ms for layer in profile.per_layer] == pytest.approx(
        [layer["bwd_ms"] / steps for layer in written["per_layer"]]
    )
    covered = sum(times(profile).values()) / profile.avg_step_ms
    assert covered == pytest.approx(profile.wall_coverage, abs=0.001)
    assert profile.capture == {"gemm_pct": written["gemm_pct"]}


def test_samples__the_table_says_what_the_json_says() -> None:
    """The same run as a table and as JSON has the same phases and step."""
    table = sample("step_profiler_text_table_kaizen_contract_example.txt")
    same = sample("step_profiler_v2_from_kaizen_table.SYNTHETIC.json")
    assert times(table) == pytest.approx(times(same))
    assert table.avg_step_ms == pytest.approx(31243.6 / 100)
    assert table.avg_step_ms == pytest.approx(same.avg_step_ms, rel=1e-4)
    assert table.wall_coverage == pytest.approx(same.wall_coverage, abs=0.0005)


def test_samples__every_file_has_one_reader() -> None:
    """No sample is left out, and none of other formats is taken for one of these."""
    for path in sorted(samples().iterdir()):
        assert len(readers_of(ProfileSource(path.name, path=path))) == 1, path.name
    for folder in ("kineto", "nsight", "jax", "rocprof"):
        for path in sorted((samples().parent / folder).iterdir()):
            assert readers_of(ProfileSource(path.name, path=path)) == [], path.name
