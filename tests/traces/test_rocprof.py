"""rocprofv3's JSON: dispatches, copies and roctx ranges of a process."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces.formats import rocprof
from ci_score.traces.source import ProfileSource
from tests.builders import shared
from tests.builders.traces.rocprof import (
    CPU,
    GPU,
    MS,
    dispatch,
    handle,
    marked,
    process,
    source,
    window,
)


def read(*processes: dict[str, Any]) -> Profile:
    return rocprof.read(source(*processes))


def test_rocprof__launches_without_calls_say_what_they_are() -> None:
    """Each dispatch names its launch, also where the HIP calls were not traced."""
    traced, untraced = marked(), marked()
    del untraced["buffer_records"]["hip_api"]
    assert not any("HIP was not traced" in note for note in read(traced).notes)
    profile = read(untraced)
    assert profile.kernel_launches_per_step is not None
    assert any(note.startswith("HIP was not traced") for note in profile.notes)


def test_rocprof__ranges_are_phases_without_any_step() -> None:
    """What nothing marks has phases all the same."""
    one = marked()
    for name in one["strings"]["marker_api"]:
        name["value"] = name["value"].replace("step", "epoch")
    assert set(read(one).phases) == {"forward", "backward"}


def test_rocprof__is_known_by_its_key() -> None:
    """By content, packed or not."""
    assert rocprof.recognises(source().head())
    assert rocprof.recognises(b' {\n "rocprofiler-sdk-tool" : [')
    assert not rocprof.recognises(b'{"traceEvents": [{"name": "rocprofiler-sdk-tool"}]}')


def test_rocprof__steps_are_roctx_ranges_by_launch() -> None:
    """A dispatch belongs to the range in which HIP was called for it."""
    profile = read(marked())
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert profile.sources["steps"] == "roctx ranges 'step'"
    times = {name: round(phase.total_ms, 6) for name, phase in profile.phases.items()}
    assert times == {"forward": 2.0, "backward": 5.0}
    assert profile.communication_ms == pytest.approx(3.0)
    assert profile.exposed_communication_ms == pytest.approx(2.0)
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (3, 3)


def test_rocprof__without_ranges_the_unit_that_repeats() -> None:
    """On the busiest stream: communication falls now here, now there."""
    dispatches = []
    for step in range(20):
        for place, kernel in enumerate((1, 1, 3)):
            dispatches.append(dispatch(step * 5 + place, 0.5, kernel, step * 9 + place))
        dispatches.append(dispatch(step * 5 + (step % 3) + 0.2, 0.1, 2, step * 9 + 8, stream=2))
    profile = read(process(*dispatches))
    assert profile.steps == 20
    assert profile.avg_step_ms == pytest.approx(5.0)
    assert profile.device_kernels_per_step == 4


def test_rocprof__copies_are_phases() -> None:
    """Their direction is the name of the operation, whichever version numbers it."""
    copies = [
        {
            **window(step * 10 + 5, 1),
            "operation": operation,
            "src_agent_id": handle(CPU),
            "dst_agent_id": handle(GPU),
            "correlation_id": {"internal": 500 + step},
        }
        for step, operation in ((0, 2), (1, "ROCPROFILER_MEMORY_COPY_HOST_TO_DEVICE"), (2, 2))
    ]
    dispatches = [dispatch(step * 10, 2, kernel) for step in range(3) for kernel in (1,)]
    profile = read(process(*dispatches, memory_copy=copies))
    assert profile.phases["h2d"].total_ms == pytest.approx(1.0)
    assert profile.device_kernels_per_step == 1


def test_rocprof__several_devices_and_processes() -> None:
    """Each is a timeline; the slowest speaks."""
    slow = process(*(dispatch(step * 12, 5) for step in range(4)))
    fast = process(*(dispatch(step * 10, 5) for step in range(4)))
    profile = read(slow, fast)
    assert (profile.avg_step_ms, profile.accelerator_count) == (12.0, 2)
    assert profile.accelerator == "AMD Instinct MI350X"


def test_rocprof__no_dispatch_is_unusable() -> None:
    """Nothing ran, or kernels were not traced."""
    profile = read(process())
    assert "--kernel-trace" in (profile.unusable or "")
    assert not profile.measured_something


def test_rocprof__broken_records_are_left_out_and_counted() -> None:
    """Times that are none, kernels without a symbol, ends before starts."""
    good = [dispatch(step * 10, 2) for step in range(4)]
    bad = [
        {**dispatch(1, 1), "start_timestamp": "soon"},
        {**dispatch(1, 1), "end_timestamp": 2**63},
        {**dispatch(1, 1), "start_timestamp": None},
    ]
    profile = read(process(*good, *bad, dispatch(90, -1), dispatch(95, 1, kernel=99)))
    assert "3 records without times; left out" in profile.notes
    assert "1 device events end before they begin; left out" in profile.notes
    assert profile.capture["gpu_busy_ms"] == pytest.approx(9.0)


@pytest.mark.parametrize(
    "text",
    [
        '{"rocprofiler-sdk-tool": [',
        '{"rocprofiler-sdk-tool": 3}',
        '{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [3]}}]}',
        '{"rocprofiler-sdk-tool": [{"agents": [{"id": 3}]}]}',
        '{"rocprofiler-sdk-tool": ' + "[" * 5000,
        "{}",
    ],
)
def test_rocprof__what_is_no_such_file(text: str) -> None:
    """An error that says where it stops being one."""
    with pytest.raises(BadInputError, match=r"p\.json"):
        rocprof.read(ProfileSource("p.json", data=text.encode()))


def test_samples__a_training_run_of_50_steps() -> None:
    """The MI350X sample: 50 steps, without a warm-up and a last one that a barrier follows."""
    folder = shared()
    path = folder / "samples" / "rocprof" / "908_results.json.gz" if folder else None
    if path is None or not path.exists():
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    profile = rocprof.read(ProfileSource(path.name, path))
    with gzip.open(path) as stream:
        records = json.load(stream)["rocprofiler-sdk-tool"][0]
    names = {row["kernel_id"]: row["formatted_kernel_name"] for row in records["kernel_symbols"]}
    dispatches = records["buffer_records"]["kernel_dispatch"]
    windows = sorted((row["start_timestamp"], row["end_timestamp"]) for row in dispatches)
    busy, latest = 0, 0
    for start, end in windows:
        busy += max(end - max(start, latest), 0)
        latest = max(latest, end)
    assert profile.capture["gpu_busy_ms"] == pytest.approx(busy / MS)
    # `attn_fwd` runs eight times a step: a mark that the reader knows nothing of.
    marks = sorted(
        row["start_timestamp"]
        for row in dispatches
        if names[row["dispatch_info"]["kernel_id"]] == "attn_fwd"
    )[::8]
    assert len(marks) == 50
    assert profile.steps == 48
    # The end of a step on the device is the beginning of the next.
    assert profile.avg_step_ms == pytest.approx((marks[49] - marks[2]) / 47 / MS, rel=0.01)
    assert (profile.accelerator, profile.accelerator_count) == ("AMD Instinct MI350X", 1)
    assert 790 < (profile.device_kernels_per_step or 0) < 880
