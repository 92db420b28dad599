"""Which ranges are steps, which work is theirs, and how many are looked at."""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.profile import Profile
from ci_score.traces.engine import host_ranges
from ci_score.traces.engine import steps as engine_steps
from ci_score.traces.engine.device_events import NONE
from ci_score.traces.engine.host_ranges import HostRanges, stem_and_number
from ci_score.traces.engine.steps import Steps
from ci_score.traces.engine.timeline import members_of
from ci_score.traces.formats import jax_trace, kineto, nsight
from ci_score.traces.source import ProfileSource
from tests.builders.traces import jax
from tests.builders.traces.kineto import Json, annotation, op, source, step, text, work
from tests.builders.traces.nsight import Export


def read(events: list[Json], wanted: str | None = None) -> Profile:
    file = source(text(events))
    return kineto.read(replace(file, step_name=re.compile(wanted) if wanted else None))


def steps_called(name: str, outside: float = 0.0) -> list[Json]:
    """Three ranges of a name around 20 us of work each, and other work between them."""
    events = []
    for number in range(3):
        at = 100 * number
        events += [annotation(name.format(number), at, 60)]
        events += work(2 * number, at + 10, at + 12, 20, f"kernel_{number}")
        if outside:
            events += work(2 * number + 1, at + 70, at + 72, outside, f"other_{number}")
    return events


def test_step_time__is_the_device_s_where_the_host_only_launches() -> None:
    """A host that returns long before the device is done tells nothing of the step."""
    profile = read([step(1, 0, 20), *work(1, 5, 10, 40), *work(2, 6, 60, 50)])
    assert profile.avg_step_ms == pytest.approx(0.1)
    assert profile.sources["avg_step_ms"].startswith("device time, from first start to last end")
    assert any("only launches the work" in note for note in profile.notes)
    assert sum(profile.idle_causes.values()) <= 0.01


def test_step_time__is_the_host_s_where_the_device_ends_a_little_later() -> None:
    """It is the host's as long as the device's work nearly fits into it."""
    profile = read([step(1, 0, 80), *work(1, 5, 10, 40), *work(2, 6, 60, 50)])
    assert profile.avg_step_ms == pytest.approx(0.08)


# --- by name ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "iter {}",
        "train_step",
        "Training iteration {}",
        "Step {}/100",
        "batch:{}",
        "Warm-up Step {}",
    ],
)
def test_steps__by_their_name(name: str) -> None:
    """A word for a step is looked for in the name; a number at its end only counts."""
    profile = read(steps_called(name))
    assert profile.steps == 3
    assert profile.device_kernels_per_step == 1
    assert profile.sources["steps"].startswith("annotations '")


@pytest.mark.parametrize(
    "name", ["optimizer_step {}", "forward_step", "lr_scheduler step", "loss step {}", "stepper"]
)
def test_steps__parts_of_a_step_are_none(name: str) -> None:
    """What is done once a step is not the step: the whole capture is one."""
    profile = read(steps_called(name))
    assert (profile.steps, profile.phases != {}) == (1, True)
    assert "no work repeats" in profile.sources["steps"]


def test_steps__a_word_within_a_name_counts_only_around_most_of_the_work() -> None:
    """An evaluation has steps, too; a name that is a step's counts in any case."""
    assert read(steps_called("eval step {}", outside=10)).steps == 3
    assert read(steps_called("eval step {}", outside=25)).steps == 1
    assert read(steps_called("step {}", outside=25)).steps == 3


def test_steps__that_the_user_names_come_first(tmp_path: Path) -> None:
    """In every reader that knows ranges; a pattern that nothing matches changes nothing."""
    events = steps_called("my window {}")
    events += [step(number, 150 * number, 150) for number in range(2)]
    assert read(events).sources["steps"] == "ProfilerStep#"
    assert read(events, "nothing like it").sources["steps"] == "ProfilerStep#"
    mine = read(events, r"my win\w+ \d")
    assert (mine.steps, mine.sources["steps"]) == (3, "annotations 'my window', as asked for")

    export = Export()
    for number in range(2):
        export.range(f"step {number}", number * 10, number * 10 + 9)
        for half in range(2):
            begin = number * 10 + half * 5
            export.range(f"my window {half}", begin, begin + 4)
            export.kernel(begin + 1, begin + 2, 1)
    file = ProfileSource("x.sqlite", path=export.write(tmp_path / "x.sqlite"))
    assert nsight.read(file).steps == 2
    assert nsight.read(replace(file, step_name=re.compile("window"))).steps == 4

    named = [jax.event("epoch", step * 4, 3, jax.HOST, 1, step_num=str(step)) for step in range(3)]
    other = [jax.event("mine", step * 6, 4, jax.HOST, 1, step_num=str(step)) for step in range(2)]
    trace = jax.source(*jax.work(), *named, *other)
    assert "'epoch'" in jax_trace.read(trace).sources["steps"]
    asked = jax_trace.read(replace(trace, step_name=re.compile("mine")))
    assert asked.sources["steps"] == "annotations 'mine', as asked for"


@pytest.mark.parametrize(
    ("name", "stem", "number"),
    [
        ("step 7", "step", 7),
        ("Step 3/100", "Step", 3),
        ("iter5", "iter", 5),
        ("iteration: 12 ", "iteration", 12),
        ("ProfilerStep#2", "ProfilerStep", 2),
        ("## epoch=4", "epoch", 4),
        ("layer1", "layer1", NONE),
        ("conv2d", "conv2d", NONE),
        ("3", "3", NONE),
        ("step", "step", NONE),
        ("step " + "9" * 30, "step", 10**18 - 1),
        ("step ٣", "step", NONE),
        ("####", "####", NONE),
    ],
)
def test_names__end_in_a_number_that_only_counts(name: str, stem: str, number: int) -> None:
    """Where something stands before it, or a word for a step; a layer's number is its name."""
    assert stem_and_number(name) == (stem, number)


@given(st.text(alphabet="step iter#:=-_/0123456789", max_size=200))
def test_names__of_any_kind_are_cut_once(name: str) -> None:
    """What is left is a part of the name, and a number fits a column."""
    stem, number = stem_and_number(name)
    assert stem in name
    assert array("q", [number])[0] >= NONE


# --- odd steps ----------------------------------------------------------------------------------


def test_steps__without_a_length_cost_nothing() -> None:
    """They hold no work: without work on a device, a step that takes no time is not measured."""
    marks = [step(number, 100 * number, 0) for number in range(3)]
    profile = read([*marks, *work(1, 100, 110, 20), *work(2, 150, 160, 20)])
    assert profile.device_kernels_per_step is None
    assert any("host times only" in note for note in profile.notes)
    at_once = [step(number, 50, 0) for number in range(3)]
    assert read([*at_once, op("aten::mm", 50, 10)]).unusable == "its steps took no time"


def test_steps__of_the_host_are_those_of_its_phases_ops_and_times() -> None:
    """The last step's end is not known, so it counts nowhere; nothing takes more than the step."""
    events = []
    for number in range(4):
        at = 100 * number
        events += [step(number, at, 60 + number), annotation("forward", at + 1, 40 + number)]
        events += [op("aten::mm", at + 5, 10 + number), annotation("backward", at + 50, 200)]
    profile = read(events)
    assert (profile.steps, len(profile.step_times_ms)) == (4, 3)
    assert profile.avg_step_ms == pytest.approx(0.1)
    assert profile.ops == {"aten::mm": pytest.approx(0.011)}
    assert profile.phases["forward"].total_ms == pytest.approx(0.041)
    assert profile.phases["backward"].total_ms == pytest.approx(0.05)


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 60), st.sampled_from(["a", "b", "c"])),
        max_size=12,
    ),
    st.integers(1, 4),
)
def test_steps__of_the_host_last_at_least_as_long_as_their_phases(
    ranges: list[tuple[int, int, str]], count: int
) -> None:
    """However the ranges lie in each other or overlap: no moment is in two phases."""
    events = [op("aten::mm", 0, 1)]
    for number in range(count):
        events += [step(number, 50 * number, 50)]
        events += [annotation(name, 50 * number + at, lasts) for at, lasts, name in ranges]
    profile = read(events)
    spent = sum(phase.total_ms for phase in profile.phases.values())
    assert spent <= profile.avg_step_ms + 1e-9


@pytest.mark.parametrize("has_device", [True, False])
def test_steps__of_very_many_the_first_count(
    monkeypatch: pytest.MonkeyPatch, has_device: bool
) -> None:
    """A step costs a kilobyte."""
    monkeypatch.setattr(engine_steps, "MOST_STEPS", 3)
    events = []
    for number in range(9):
        at = 100 * number
        events += [step(number, at, 100)]
        events += work(number, at + 5, at + 9, 5) if has_device else [op("aten::mm", at, 5)]
    profile = read(events)
    assert (profile.steps, len(profile.step_times_ms)) == (3, 2)
    assert "of 9 steps the first 3 count" in profile.notes


def test_ranges__of_very_many_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more names the ranges are left out one by one; of more ranges all that come after."""
    monkeypatch.setattr(host_ranges, "MOST_NAMES", 2)
    monkeypatch.setattr(host_ranges, "MOST_RANGES", 3)
    ranges = HostRanges()
    assert [ranges.add(0, 1, name, 0, 9) for name in ("a", "b", "c", "a", "b")] == [
        *(True, True, True, True, False)
    ]
    assert [ranges.names[each.name] for each in ranges.threads(0)[1]] == ["a", "b", "a"]


# --- the pure parts -----------------------------------------------------------------------------

WINDOWS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6)


def disjoint(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Windows of these pauses and lengths, one after the other."""
    windows, at = [], 0
    for pause, lasts in pieces:
        windows.append((at + pause, at + pause + lasts))
        at += pause + lasts
    return windows


@given(st.lists(st.integers(0, 60)), WINDOWS)
def test_members__every_time_is_in_one_window_at_most(
    times: list[int], pieces: list[tuple[int, int]]
) -> None:
    """In any order of times the same, and what is in none is counted."""
    windows = disjoint(pieces)
    for column in (times, sorted(times)):
        members, outside = members_of(column, windows)
        assert sum(map(len, members)) + outside == len(column)
        for (begin, end), places in zip(windows, members, strict=True):
            assert list(places) == [
                place for place, time in enumerate(column) if begin <= time < end
            ]


@given(st.lists(st.booleans(), max_size=12), st.sets(st.integers(0, 11)))
def test_only__a_step_follows_only_the_one_that_it_followed(
    follows: list[bool], chosen: set[int]
) -> None:
    """Where one was left out between two, their distance is no step time."""
    windows = [(10 * place, 10 * place + 10) for place in range(len(follows))]
    steps = Steps(windows, "", follows=follows)
    kept = sorted(place for place in chosen if place < len(follows))
    only = steps.only(kept)
    assert list(only.windows) == [windows[place] for place in kept]
    pairs = {
        (only.windows[place - 1], only.windows[place])
        for place in range(1, len(kept))
        if only.adjacent(place)
    }
    assert pairs == {
        (windows[place - 1], windows[place])
        for place in range(1, len(follows))
        if follows[place] and {place - 1, place} <= set(kept)
    }
    assert [place for place, _ in only.periods] == [
        place - 1 for place in range(1, len(kept)) if only.adjacent(place)
    ]
