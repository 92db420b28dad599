"""Phases: the program's ranges, no moment in two, and nothing of a step in none."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.profile import Profile
from ci_score.traces.formats import kineto
from tests.builders.traces.kineto import (
    ADD,
    GEMM,
    NCCL,
    Json,
    annotation,
    call,
    copy,
    kernel,
    source,
    step,
    text,
    work,
)


def read(events: list[Json]) -> Profile:
    return kineto.read(source(text(events)))


def phases(profile: Profile) -> dict[str, float]:
    return {name: round(1000 * phase.total_ms, 6) for name, phase in profile.phases.items()}


def launches(*times: float) -> list[Json]:
    """Work of 10 us for each launch."""
    return [
        each
        for place, at in enumerate(times)
        for each in work(place, at, 200 + 20 * place, 10, f"kernel_{place}")
    ]


def test_phases__are_inside_a_range_that_wraps_all() -> None:
    """It says nothing; and one within another that wraps all does not, either."""
    wraps = [annotation("train", 1, 98), annotation("inner", 2, 96)]
    parts = [annotation("forward", 3, 40), annotation("backward", 50, 45)]
    profile = read([step(0, 0, 100), *wraps, *parts, *launches(10, 60, 97)])
    assert phases(profile) == {"forward": 10, "backward": 10, "unannotated": 10}


def test_phases__beside_a_wrapper_are_not_looked_into() -> None:
    """Only a range around nearly all is left out: the others are phases with what is in them."""
    ranges = [annotation("data", 0, 5), annotation("part of data", 1, 1)]
    ranges += [annotation("train", 6, 93), annotation("forward", 10, 30)]
    profile = read([step(0, 0, 100), *ranges, *launches(1.5, 3, 20)])
    assert phases(profile) == {"data": 20, "forward": 10}


def test_phases__in_which_nothing_is_are_phases_whatever_they_cover() -> None:
    """A wrapper is one that has others inside."""
    profile = read([step(0, 0, 100), annotation("forward", 1, 98), *launches(10, 60)])
    assert phases(profile) == {"forward": 20}


def test_phases__under_one_name_are_what_fills_it() -> None:
    """Every part of a step has the name of its thread: what is inside says more."""
    ranges = []
    for place, part in enumerate(("embed", "attention", "mlp")):
        ranges += [annotation("worker", 30 * place, 25), annotation(part, 30 * place + 1, 23)]
    profile = read([step(0, 0, 100), *ranges, *launches(5, 35, 65)])
    assert phases(profile) == {"embed": 10, "attention": 10, "mlp": 10}
    sparse = [each if each["name"] == "worker" else {**each, "dur": 9} for each in ranges]
    assert set(phases(read([step(0, 0, 100), *sparse, *launches(5, 35, 65)]))) == {"worker"}


def test_phases__of_one_name_many_times_are_found_at_once() -> None:
    """Each range is looked at once, however many there are of it."""
    events = [step(0, 0, 200_000)]
    for place in range(20_000):
        events += [annotation("worker", 10 * place, 9), annotation("part", 10 * place, 9)]
    assert phases(read([*events, *work(1, 5, 10, 5)])) == {"part": 5}


def test_phases__of_very_many_names_are_the_most_frequent() -> None:
    """A name that counts something is no phase: 64 are kept, the rest is not annotated."""
    events = [step(0, 0, 10_000)]
    for place in range(100):
        name = f"often {place}x" if place < 10 else f"once {place}x"
        for again in range(3 if place < 10 else 1):
            at = 30 * (3 * place + again)
            events += [annotation(name, at, 20), *work(500 + 3 * place + again, at + 1, at + 2, 1)]
    found = phases(read(events))
    assert len(found) == 64 + 1
    assert all(found[f"often {place}x"] == 3 for place in range(10))
    assert sum(found.values()) == pytest.approx(120)


NAMES = (GEMM, ADD, NCCL, "copy")
RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 90), st.sampled_from(["a", "b", "c", "backward"])),
    max_size=10,
)
WORK = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 200), st.integers(0, 30), st.sampled_from(NAMES)),
    min_size=1,
    max_size=25,
)


@given(RANGES, WORK, st.integers(1, 4), st.booleans())
def test_phases__and_places_sum_up_to_the_work_of_the_steps(
    ranges: list[tuple[int, int, str]],
    jobs: list[tuple[int, int, int, str]],
    steps: int,
    is_marked: bool,
) -> None:
    """Each event is in one step at most, each busy moment in one phase, all of an op in places."""
    events = [step(number, 30 * number, 30) for number in range(steps)] if is_marked else []
    events += [annotation(name, at, lasts) for at, lasts, name in ranges]
    for place, (launch, later, lasts, name) in enumerate(jobs):
        events.append(call(place, launch))
        make = copy if name == "copy" else kernel
        args = () if name == "copy" else (name,)
        events.append(make(place, launch + later, lasts, *args))
    profile = read(events)
    if profile.device_busy_ms is None:
        return
    assert sum(phase.total_ms for phase in profile.phases.values()) == pytest.approx(
        profile.device_busy_ms
    )
    count = profile.steps
    total: dict[str, float] = defaultdict(float)
    for each in profile.op_places:
        total[each.op] += each.ms
    assert total == pytest.approx(dict(profile.ops))
    attributed = round(sum(profile.op_counts.values()) * count)
    assert attributed + profile.capture["unattributed_gpu_events"] <= len(jobs)
    assert profile.compute_ms is not None
    assert profile.device_busy_ms <= sum(profile.ops.values()) + 1e-9
