"""Nsight Systems databases: what is read of them, what is missing in some, and what is hostile."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_score.errors import BadInputError
from ci_score.traces.engine.busy import busy_time
from ci_score.traces.engine.device_events import DeviceEvents
from ci_score.traces.engine.host_ranges import HostRanges
from ci_score.traces.engine.repeats import repeated_units
from ci_score.traces.engine.steps import marked_steps
from ci_score.traces.formats import can_lie_beside, nsight, sqlite_file
from ci_score.traces.source import ProfileSource
from tests.builders import shared
from tests.builders.traces.nsight import MS, PID, TABLES, TID, Export, read, training

# --- what is read -------------------------------------------------------------------------------


def test_nsight__steps_are_ranges_and_their_time_is_the_gpus(tmp_path: Path) -> None:
    """The host runs a step in 4 ms, the GPU in 10."""
    profile = training().read(tmp_path)
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert profile.step_times_ms == (10.0, 10.0)
    assert profile.sources["avg_step_ms"] == "GPU end-to-end period of 3 steps (NVTX ranges 'step')"


def test_nsight__work_of_a_step_is_a_union(tmp_path: Path) -> None:
    """Communication beside computation counts once, and exposed is what sticks out."""
    profile = training().read(tmp_path)
    assert profile.device_busy_ms == pytest.approx(1 + 2 + 3 + 1.5 + 0.5)
    assert profile.compute_ms == pytest.approx(5.5)
    assert profile.communication_ms == pytest.approx(2.5)
    assert profile.exposed_communication_ms == pytest.approx(1.5)
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (4, 4)
    assert profile.ops["sgemm_128x128"] == pytest.approx(2.0)
    assert profile.op_categories["comm"] == pytest.approx(2.5)


def test_nsight__phases_are_ranges_inside_steps_by_launch(tmp_path: Path) -> None:
    """Work counts for the phase that launched it, copies for their direction, nothing twice."""
    profile = training().read(tmp_path)
    times = {name: round(phase.total_ms, 6) for name, phase in profile.phases.items()}
    assert times == {"forward": 2.0, "backward": 4.5, "optimizer": 0.5, "h2d": 1.0}
    assert sum(times.values()) == pytest.approx(profile.device_busy_ms)
    assert profile.wall_coverage == pytest.approx(3.8 / 4)


def test_nsight__ranges_are_phases_without_any_step(tmp_path: Path) -> None:
    """Where work repeats, and where it does not; those of a library that launches nothing not."""
    export = training()
    export.rows["NVTX_EVENTS"] = [
        row for row in export.rows["NVTX_EVENTS"] if not str(row[4]).startswith("step")
    ]
    export.row("NVTX_EVENTS", 0, 12 * MS, 59, TID, "MPI_Recv", None, 5)
    export.row("NVTX_EVENTS", 0, 90 * MS, 59, TID + 1, "waiting", None, 0)
    profile = export.read(tmp_path)
    assert profile.steps == 3
    assert {name: phase.total_ms for name, phase in profile.phases.items()} == pytest.approx(
        {"forward": 2.0, "backward": 4.5, "optimizer": 0.5, "h2d": 1.0}
    )
    assert not any("no phase is annotated" in note for note in profile.notes)
    alone = Export()
    alone.range("saxpy", 0, 5)
    alone.kernel(1, 10, 2.0)
    alone.kernel(6, 20, 3.0, name=1)
    profile = alone.read(_folder(tmp_path, "alone"))
    assert {name: phase.total_ms for name, phase in profile.phases.items()} == pytest.approx(
        {"saxpy": 2.0, "unannotated": 3.0}
    )


def test_nsight__a_copy_behind_work_costs_nothing(tmp_path: Path) -> None:
    """Only the part of a transfer in which no kernel runs is its phase."""
    export = Export()
    for step in range(2):
        export.range("step", step * 10, step * 10 + 9)
        export.kernel(step * 10 + 1, step * 10 + 1, 4)
        export.copy(step * 10 + 1, step * 10 + 3, 3, kind=2)
    profile = export.read(tmp_path)
    assert profile.phases["d2h"].total_ms == pytest.approx(1.0)
    assert profile.phases["unannotated"].total_ms == pytest.approx(4.0)


def test_nsight__text_of_ranges_may_stand_in_string_ids(tmp_path: Path) -> None:
    """`textId` names a range as well as `text` does."""
    export = Export()
    export.row("StringIds", 50, "iteration")
    for step in range(2):
        export.range(None, step * 10, step * 10 + 5, text_id=50)
        export.kernel(step * 10 + 1, step * 10 + 2, 1)
    assert export.read(tmp_path).sources["steps"] == "NVTX ranges 'iteration'"


@pytest.mark.parametrize(
    ("text", "is_step"),
    [
        *((text, True) for text in ("step", "Step 12", "ProfilerStep#3", "iteration_7", "iter5")),
        *((text, True) for text in ("train_step", "global step: 9", "batch 3/100")),
        *((text, False) for text in ("optimizer.step", "stepper", "epoch", "zero_grad step")),
        *((text, None) for text in ("Warm-up Step 3", "inner iter", "run_step_fn")),
    ],
)
def test_nsight__what_is_a_step(text: str, is_step: bool | None) -> None:
    """A word for a step and a number; within other words only what holds most of the work is."""
    ranges = HostRanges()
    for number in range(2):
        ranges.add(0, 1, text, 10 * number, 10 * number + 8)
    steps = next(marked_steps(ranges, 0, "NVTX ranges"), None)
    found = False if steps is None else None if steps.must_hold_most else True
    assert found is is_step


def test_nsight__iterations_hold_the_steps_of_an_accumulation(tmp_path: Path) -> None:
    """Of two names of steps the one that holds the other is the step."""
    export = Export()
    for step in range(3):
        export.range("iteration", step * 10, step * 10 + 9)
        for micro in range(2):
            begin = step * 10 + micro * 4
            export.range("step", begin, begin + 4)
            export.kernel(begin + 1, begin + 2, 1)
    assert export.read(tmp_path).steps == 3


def test_nsight__overlapping_steps_share_nothing(tmp_path: Path) -> None:
    """A launch in two steps belongs to the later one."""
    export = Export()
    export.range("step 1", 0, 10)
    export.range("step 2", 8, 20)
    for launch in (1, 9, 15):
        export.kernel(launch, launch, 0.5)
    profile = export.read(tmp_path)
    assert (profile.steps, profile.device_kernels_per_step) == (2, 1.5)


def test_nsight__unmatched_kernels_are_counted_not_assigned(tmp_path: Path) -> None:
    """A kernel without a launch, or launched between steps, belongs to no step."""
    export = training()
    export.row("CUPTI_ACTIVITY_KIND_KERNEL", 5 * MS, 6 * MS, 0, 7, 10**6, PID, 0, 0, None)
    profile = export.read(tmp_path)
    assert profile.device_kernels_per_step == 4
    assert any(
        note.startswith("1 device event of 16 belong to no step (1 without the call")
        for note in profile.notes
    )


def test_nsight__ids_repeat_between_processes(tmp_path: Path) -> None:
    """A launch of another process with the same id is another launch; the slowest device speaks."""
    export, other = Export(), PID + (1 << 24)
    for step in range(3):
        for pid, device, period in ((PID, 0, 10), (other, 1, 12)):
            export.range("step", step * period, step * period + 5, tid=pid + 7)
            export.kernel(
                step * period + 1, step * period + 2, 3, device=device, pid=pid, correlation=step
            )
    profile = export.read(tmp_path)
    assert (profile.avg_step_ms, profile.accelerator_count) == (12.0, 2)
    assert any("the slowest of 2 (10 to 12 ms a step)" in note for note in profile.notes)


def test_nsight__a_graph_is_one_launch_of_many_kernels(tmp_path: Path) -> None:
    """Both numbers are told."""
    export = Export()
    for step in range(2):
        export.range("step", step * 10, step * 10 + 5)
        for kernel in range(5):
            export.kernel(step * 10 + 1, step * 10 + 2 + kernel, 0.5, correlation=step)
    # Each kernel of a graph has the launch's id, which the host called once.
    export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] = export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][::5]
    profile = export.read(tmp_path)
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (5, 1)


def test_nsight__graphs_traced_as_a_whole_are_told(tmp_path: Path) -> None:
    """Their kernels are not in the export, and the note says how to get them."""
    export = training()
    export.row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", 8 * MS, 9 * MS, 0, 7, 10**6, PID)
    assert any("--cuda-graph-trace=node" in note for note in export.read(tmp_path).notes)


def test_nsight__a_call_recorded_at_two_levels_is_one_launch(tmp_path: Path) -> None:
    """Exports of 2022 have `cudaLaunchKernel` and `cudaLaunchKernel_v7000` with the same id."""
    export = training()
    launches = export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]
    export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] = [row for row in launches for _ in range(2)]
    assert export.read(tmp_path) == training().read(_folder(tmp_path, "once"))


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_nsight__the_gpu_and_its_peak(tmp_path: Path) -> None:
    """Bandwidth stands in the export in bytes a second."""
    export = training()
    export.row("TARGET_INFO_GPU", 0, "NVIDIA H100 80GB HBM3", 3_352_320_000_000, 85_018_279_936)
    profile = export.read(tmp_path)
    assert (profile.accelerator, profile.accelerator_count) == ("NVIDIA H100 80GB HBM3", 1)
    assert profile.peak_bandwidth_gb_s == pytest.approx(3352.32)
    assert profile.accelerator_memory_gb == pytest.approx(85.02, abs=0.01)


@pytest.mark.parametrize("value", ["much", b"\xff", None, -1, 1e300])
def test_nsight__nonsense_about_the_gpu_costs_nothing_else(tmp_path: Path, value: object) -> None:
    """Sizes that are none are not known."""
    export = training()
    export.row("TARGET_INFO_GPU", value, "NVIDIA L4", value, value)
    export.row("TARGET_INFO_CUDA_DEVICE", value, value, value)
    export.row("CUDA_GPU_MEMORY_USAGE_EVENTS", value, PID, 0, value, 2, 0)
    profile = export.read(tmp_path)
    assert (profile.avg_step_ms, profile.accelerator) == (10.0, "NVIDIA L4")


def test_nsight__peak_memory_is_the_most_that_was_held(tmp_path: Path) -> None:
    """Of the device and by the process; a free gives back, the host's memory does not count."""
    export = training()
    for start, size, kind, freed in (
        *((1, 2e9, 2, 0), (2, 3e9, 2, 0), (3, 2e9, 2, 1)),
        *((4, 1e9, 2, 0), (5, 9e9, 1, 0)),
    ):
        export.row("CUDA_GPU_MEMORY_USAGE_EVENTS", start, PID, 0, int(size), kind, freed)
    export.row("CUDA_GPU_MEMORY_USAGE_EVENTS", 6, PID, 1, 10**11, 2, 0)
    profile = export.read(_folder(tmp_path, "recorded"))
    assert profile.peak_memory_gb == 5.0
    assert "peak_memory_gb" in profile.sources
    without = training().read(_folder(tmp_path, "not"))
    assert without.peak_memory_gb is None
    assert any("--cuda-memory-usage=true" in note for note in without.notes)


def test_nsight__processes_that_each_see_one_gpu(tmp_path: Path) -> None:
    """Both call it 0: two GPUs where the export says so, else nobody knows."""
    export, other = training(), PID + (1 << 24)
    for step in range(3):
        export.kernel(step, step * 10, 5, pid=other, correlation=step)
    assert export.read(_folder(tmp_path, "unknown")).accelerator_count is None
    for gpu, pid in enumerate((0x41, 0x42)):
        export.row("TARGET_INFO_CUDA_DEVICE", gpu, 0, pid)
    assert export.read(_folder(tmp_path, "known")).accelerator_count == 2


def test_nsight__rank_and_world_size_of_the_launcher(tmp_path: Path) -> None:
    """From the environment of the profiled process, and nothing else of it is shown."""
    export = training()
    for value in ('RANK="3"', 'WORLD_SIZE="8"', 'HF_TOKEN="secret"'):
        export.row("META_DATA_CAPTURE", "PROCESS_0:ENVIRONMENT_VARIABLE", value)
    profile = export.read(tmp_path)
    assert (profile.rank, profile.world_size) == (3, 8)
    assert "secret" not in profile.model_dump_json()


def test_nsight__gzip_is_unpacked(tmp_path: Path) -> None:
    """A packed export reads the same, from memory too."""
    path = training().write(tmp_path / "capture.sqlite")
    data = gzip.compress(path.read_bytes())
    assert nsight.read(ProfileSource(name="packed", data=data)) == read(path)


# --- without marks ------------------------------------------------------------------------------


def repeating(slower: float = 1.0, until: float = 300.0, marks: bool = False) -> Export:
    """A capture of a fixed window: as many units of four kernels as fit."""
    export, time, number = Export(), 0.0, 0
    while time < until:
        if marks:
            export.range("step", time, time + 4 * slower)
        for name in (0, 1, 1, 3):
            export.kernel(time, time, 0.8 * slower, name)
            time += slower
        number += 1
    return export


def test_nsight__a_fixed_window_is_compared_per_unit(tmp_path: Path) -> None:
    """13 % slower is 13 % slower, though both windows last 300 ms."""
    before = repeating().read(_folder(tmp_path, "before"))
    after = repeating(slower=1.13).read(_folder(tmp_path, "after"))
    assert after.avg_step_ms / before.avg_step_ms == pytest.approx(1.13)
    assert after.device_busy_ms is not None
    assert after.device_busy_ms / (before.device_busy_ms or 0) == pytest.approx(1.13)
    assert any("a sequence of 4 device events that repeats 75 times" in n for n in before.notes)


def test_nsight__marks_and_repetition_agree(tmp_path: Path) -> None:
    """The same work costs the same, whether somebody marked it or not."""
    marked = repeating(marks=True).read(_folder(tmp_path, "marked"))
    found = repeating().read(_folder(tmp_path, "found"))
    assert marked.steps == found.steps
    assert marked.avg_step_ms == pytest.approx(found.avg_step_ms)


def test_nsight__nothing_repeats_is_one_step_and_says_so(tmp_path: Path) -> None:
    """The whole capture, flagged."""
    export = Export()
    for name in range(4):
        export.kernel(name, name, 0.5, name)
    profile = export.read(tmp_path)
    assert (profile.steps, profile.avg_step_ms) == (1, 3.5)
    assert any("no work repeats: the whole capture" in note for note in profile.notes)


LAYER, HEAD = [1, 2, 3, 1, 4], [5, 5, 6]
STEP = [9, *LAYER * 24, *HEAD, *[7, 8, 7, 2] * 24, 10]
MICRO_STEPS = [*[9, *LAYER * 4, 6] * 4, 20]


@pytest.mark.parametrize(
    ("names", "count", "size"),
    [
        pytest.param(STEP * 20, 20, len(STEP), id="steps, not the layers in them"),
        pytest.param(STEP * 2, 2, len(STEP), id="two of them"),
        pytest.param((STEP * 20)[333:-100], 18, len(STEP), id="cut at both ends"),
        pytest.param(MICRO_STEPS * 8, 8, len(MICRO_STEPS), id="an accumulation is one step"),
        pytest.param([0, 11, 12, *LAYER * 30], 30, len(LAYER), id="layers, where that is all"),
        pytest.param([1] * 5, 5, 1, id="one kernel"),
        pytest.param([1, 2, 1], 0, 0, id="too short to tell"),
        pytest.param(list(range(1000)), 0, 0, id="nothing"),
        pytest.param([], 0, 0, id="empty"),
    ],
)
def test_repeated_units(names: list[int], count: int, size: int) -> None:
    """The unit that covers most of the sequence."""
    units = repeated_units(names)
    assert len(units) == count
    assert {end - first for first, end in units} == ({size} if count else set())


@settings(max_examples=500)
@given(st.lists(st.integers(0, 3), max_size=60))
def test_repeated_units__are_the_same_work(names: list[int]) -> None:
    """Whatever is found is in order, does not overlap, and is the same each time."""
    units = repeated_units(names)
    assert all(end <= after for (_, end), (after, _) in pairwise(units))
    assert len({tuple(names[first:end]) for first, end in units}) <= 1


def test_nsight__warm_up_is_no_step(tmp_path: Path) -> None:
    """The first unit compiled for a second; the others are what training costs."""
    export = repeating()
    export.rows["CUPTI_ACTIVITY_KIND_KERNEL"][3:] = [
        (row[0] + 1000 * MS, row[1] + 1000 * MS, *row[2:])  # type: ignore[operator]
        for row in export.rows["CUPTI_ACTIVITY_KIND_KERNEL"][3:]
    ]
    profile = export.read(tmp_path)
    assert profile.steps == 74
    assert profile.avg_step_ms == pytest.approx(4.0)
    assert "without the first 1 (warm-up)" in profile.sources["steps"]


# --- arithmetic ---------------------------------------------------------------------------------

EVENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 2)), max_size=25)


@given(EVENTS)
def test_busy_time__is_what_counting_moments_says(events: list[tuple[int, int, int]]) -> None:
    """Moment by moment: which of them had a computation, communication, anything."""
    events.sort()
    starts, ends = [e[0] for e in events], [e[0] + e[1] for e in events]
    found = busy_time(starts, ends, bytes(kind for *_, kind in events))
    moments: dict[int, set[int]] = {}
    for start, time, kind in events:
        for moment in range(start, start + time):
            moments.setdefault(moment, set()).add(kind)
    assert found.busy == len(moments)
    assert found.compute == sum(0 in kinds for kinds in moments.values())
    assert found.communication == sum(1 in kinds for kinds in moments.values())
    exposed = sum(1 in kinds and 0 not in kinds for kinds in moments.values())
    assert found.exposed_communication == exposed


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(-5, 20)), max_size=40))
def test_device_events__come_in_order(events: list[tuple[int, int]]) -> None:
    """All but those that end before they begin, by start, each with its own values."""
    columns = DeviceEvents()
    for number, (start, time) in enumerate(events):
        columns.add(start, start + time, number, 0, 0, 0)
    tidy, backwards = columns.tidied()
    good = sorted((start, number) for number, (start, time) in enumerate(events) if time >= 0)
    assert sorted(zip(tidy.starts, tidy.names, strict=True)) == good
    assert list(tidy.starts) == [start for start, _ in good]
    assert backwards == len(events) - len(good)


# --- what is missing ----------------------------------------------------------------------------


def test_nsight__launches_that_are_there_are_not_said_to_be_missing(tmp_path: Path) -> None:
    """Of a database without kernels the calls are known all the same."""
    export = training()
    del export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    profile = export.read(tmp_path)
    assert profile.unusable is not None
    assert not any("launches" in note for note in profile.notes)
    named = training().without("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId")
    named.without("CUPTI_ACTIVITY_KIND_MEMCPY", "correlationId")
    notes = named.read(_folder(tmp_path, "named")).notes
    assert any("launches that no device event names" in note for note in notes)


def test_nsight__times_of_other_work_are_not_compared(tmp_path: Path) -> None:
    """A unit of one device may be a layer, and that of another a step."""
    export = Export()
    for unit in range(6):
        for device in range(2):
            export.kernel(40 * unit, 40 * unit + 1, 12 + device, device=device)
            export.kernel(40 * unit, 40 * unit + 15, 9, name=1, device=device)
        export.kernel(40 * unit, 40 * unit + 1, 30, name=2, device=2)
        export.kernel(40 * unit, 40 * unit + 32, 1, name=3, device=2)
    for late in range(6):
        export.kernel(240, 260 + 90 * late, 5, name=2, device=2)
        export.kernel(240, 265 + 90 * late, 1, name=3, device=2)
    notes = export.read(tmp_path).notes
    assert any("the slowest of 2 (" in note for note in notes)
    assert any("; not compared: 1 with other work" in note for note in notes)
    assert any("which may be a layer or a part of a step" in note for note in notes)


def test_nsight__no_kernels_is_unusable(tmp_path: Path) -> None:
    """Tracing of the GPU failed, or nothing ran: said, and no number."""
    export = Export()
    export.range("step", 0, 5)
    profile = export.read(tmp_path)
    assert profile.unusable is not None
    assert not profile.measured_something


def test_nsight__without_processes_the_join_degrades(tmp_path: Path) -> None:
    """An export without globalPid: launches by their number alone, with a note."""
    export = training().without("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid")
    export.without("NVTX_EVENTS", "globalTid")
    profile = export.without("CUPTI_ACTIVITY_KIND_MEMCPY", "globalPid").read(tmp_path)
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert any("by their number alone" in note for note in profile.notes)


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds", "NVTX_EVENTS"])
def test_nsight__a_table_may_be_missing(tmp_path: Path, table: str) -> None:
    """What it would have told is absent; the kernels still count."""
    export = training()
    del export.rows[table]
    profile = export.read(tmp_path)
    assert profile.unusable is None
    assert profile.device_kernels_per_step is not None


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("CUPTI_ACTIVITY_KIND_KERNEL", column) for column in ("deviceId", "streamId")),
        *(("CUPTI_ACTIVITY_KIND_KERNEL", column) for column in ("correlationId", "demangledName")),
        *(("NVTX_EVENTS", column) for column in ("textId", "domainId", "text", "globalTid")),
        *(("CUPTI_ACTIVITY_KIND_RUNTIME", column) for column in ("globalTid", "nameId", "start")),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "start"),
    ],
)
def test_nsight__a_column_may_be_missing(tmp_path: Path, table: str, column: str) -> None:
    """As with tables."""
    profile = training().without(table, column).read(tmp_path)
    assert profile.unusable is None
    assert (profile.device_kernels_per_step or 0) > 0


def test_nsight__kernels_without_times_are_none(tmp_path: Path) -> None:
    """Nothing is measured where the times are missing, and the note says which."""
    profile = training().without("CUPTI_ACTIVITY_KIND_KERNEL", "end").read(tmp_path)
    assert profile.unusable is not None
    assert any("CUPTI_ACTIVITY_KIND_KERNEL has no times" in note for note in profile.notes)


def test_nsight__empty_tables(tmp_path: Path) -> None:
    """All tables, no rows: nothing was measured."""
    export = Export()
    export.rows = {table: [] for table in TABLES}
    assert export.read(tmp_path).unusable is not None


# --- what is hostile ----------------------------------------------------------------------------


def test_nsight__another_database(tmp_path: Path) -> None:
    """It is named by its tables, whose names may be anything."""
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute('CREATE TABLE "x; DROP TABLE y --\x1b[31m" (a)')
    with pytest.raises(BadInputError, match="SQLite database with the tables") as error:
        read(path)
    assert "\x1b" not in str(error.value)


def test_nsight__another_s_database_is_named(tmp_path: Path) -> None:
    """That of Ascend's profiler is known by its tables; others show some of theirs."""
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE invoices (a)")
    with pytest.raises(BadInputError, match="the tables invoices"):
        read(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE SESSION_TIME_INFO (a)")
    with pytest.raises(BadInputError, match=r"Ascend profiler, expected trace_view\.json"):
        read(path)
    assert can_lie_beside(ProfileSource("results.db", path=path))
    assert not can_lie_beside(ProfileSource("x", path=training().write(tmp_path / "x.sqlite")))


def test_nsight__hostile_names_are_only_names(tmp_path: Path) -> None:
    """SQL in the name of a kernel or range is text."""
    export = Export()
    name = "x'); DROP TABLE StringIds; --"
    export.row("StringIds", 77, name)
    export.row("StringIds", 78, "k" * 100_000)
    for step in range(3):
        export.range("step", step * 10, step * 10 + 5)
        export.range(name, step * 10 + 0.5, step * 10 + 4)
        export.kernel(step * 10 + 1, step * 10 + 1, 1, name=77)
        export.kernel(step * 10 + 2, step * 10 + 3, 1, name=78)
    profile = export.read(tmp_path)
    assert profile.ops[name] == pytest.approx(1.0)
    assert profile.phases[name].total_ms == pytest.approx(2.0)
    assert max(map(len, profile.ops)) <= 400


def test_nsight__views_are_no_tables(tmp_path: Path) -> None:
    """A view would run its maker's query."""
    path = training().write(tmp_path / "capture.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        database.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start, end) AS"
            " (SELECT 1, 2 UNION ALL SELECT start + 1, end + 1 FROM n) SELECT * FROM n"
        )
    assert read(path).unusable is not None


@pytest.mark.parametrize("value", ["text", b"blob", 1.5, None])
def test_nsight__something_else_where_a_time_belongs(tmp_path: Path, value: object) -> None:
    """SQLite keeps any value in any column."""
    export = training()
    export.row("CUPTI_ACTIVITY_KIND_KERNEL", value, 9 * MS, 0, 7, 1, PID, 0, 0, None)
    with pytest.raises(BadInputError, match="whole numbers"):
        export.read(tmp_path)


def test_nsight__negative_durations_are_left_out(tmp_path: Path) -> None:
    """And counted."""
    export = training()
    export.row("CUPTI_ACTIVITY_KIND_KERNEL", 9 * MS, 8 * MS, 0, 7, 1, PID, 0, 0, None)
    profile = export.read(tmp_path)
    assert profile.device_kernels_per_step == 4
    assert "1 device events end before they begin; left out" in profile.notes


def test_nsight__nothing_but_negative_durations_is_unusable(tmp_path: Path) -> None:
    """No kernel is left."""
    export = Export()
    export.kernel(1, 5, -1)
    assert export.read(tmp_path).unusable is not None


def test_nsight__a_join_that_multiplies_is_refused(tmp_path: Path) -> None:
    """A thousand launches with the same id would be a thousand times as many rows."""
    export = training()
    export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] += [(5, 6, TID, 1, 100)] * 1000
    with pytest.raises(BadInputError, match="same correlation id"):
        export.read(tmp_path)


def test_nsight__a_damaged_database(tmp_path: Path) -> None:
    """Cut short, or with bytes of something else in it."""
    path = training(steps=200).write(tmp_path / "capture.sqlite")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInputError):
        read(path)
    path.write_bytes(sqlite_file.MAGIC)
    with pytest.raises(BadInputError):
        read(path)


# --- a database that somebody has open -----------------------------------------------------------


def test_nsight__rows_in_a_log_beside_it_count(tmp_path: Path) -> None:
    """What a write-ahead log holds is part of the database: never opened as immutable then."""
    path = training().write(tmp_path / "capture.sqlite")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, 1, ?, 0, 0, NULL)",
            (9 * MS, 9 * MS + 1, PID),
        )
        writer.commit()
        assert (tmp_path / "capture.sqlite-wal").stat().st_size > 0
        assert read(path).device_kernels_per_step == pytest.approx(13 / 3)


def test_nsight__reading_leaves_no_file_behind(tmp_path: Path) -> None:
    """A database in WAL mode that was closed gets no -shm or -wal from its reader."""
    path = training().write(tmp_path / "capture.sqlite")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
    assert read(path).steps == 3
    assert [each.name for each in tmp_path.iterdir()] == ["capture.sqlite"]


def test_nsight__a_locked_database_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be read now, and the error says why."""
    monkeypatch.setattr(sqlite_file, "LOCK_SECONDS", 0.0)
    path = training().write(tmp_path / "capture.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BadInputError, match="being written"):
            read(path)


def test_nsight__a_database_that_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that asks for no lock is found out by the file's size and time."""
    path = training().write(tmp_path / "capture.sqlite")
    gather = nsight._timelines_of

    def gather_while_it_grows(database: sqlite_file.Database) -> nsight._Timelines:
        found = gather(database)
        with path.open("ab") as stream:
            stream.write(b"\0" * 4096)
        return found

    monkeypatch.setattr(nsight, "_timelines_of", gather_while_it_grows)
    with pytest.raises(BadInputError, match="changed while it was read"):
        read(path)


# --- the samples --------------------------------------------------------------------------------


def sample(name: str) -> ProfileSource:
    folder = shared()
    path = folder / "samples" / "nsight" / f"{name}.sqlite.gz" if folder else None
    if path is None or not path.exists():
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    return ProfileSource(name=name, path=path)


def rows_of(name: str, query: str) -> list[tuple[int, ...]]:
    with sample(name).on_disk() as path, closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def covered(windows: Iterable[tuple[int, ...]]) -> float:
    """Milliseconds that any of the windows covers, moment by sorted moment."""
    total, end = 0, -1
    for start, stop in sorted((row[0], row[1]) for row in windows):
        total += max(stop - max(start, end), 0)
        end = max(end, stop)
    return total / MS


EVENTS_OF_DEVICE = (
    "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE deviceId = {0}"
    " UNION ALL SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE deviceId = {0}"
)


def test_samples__export_of_2022() -> None:
    """Five rounds of copy, copy, saxpy, copy."""
    profile = nsight.read(sample("export2022_saxpy_mpi"))
    kernels = rows_of("export2022_saxpy_mpi", "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL")
    to_host = rows_of(
        "export2022_saxpy_mpi",
        "SELECT end FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 2 ORDER BY end",
    )
    everything = rows_of("export2022_saxpy_mpi", EVENTS_OF_DEVICE.format(0))
    assert (profile.steps, profile.rank) == (5, 0)
    assert profile.avg_step_ms == pytest.approx((to_host[-1][0] - to_host[0][0]) / 4 / MS)
    assert profile.compute_ms == pytest.approx(covered(kernels) / 5)
    assert profile.device_busy_ms == pytest.approx(covered(everything) / 5)
    assert (profile.accelerator, profile.peak_bandwidth_gb_s) == ("NVIDIA A100-SXM4-40GB", 1555.2)


def test_samples__two_h100() -> None:
    """A second of two ranks that copy each layer's weights to the GPU before they use them."""
    profile = nsight.read(sample("h100_2gpu_1s"))
    sizes = rows_of(
        "h100_2gpu_1s",
        "SELECT end FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName"
        " WHERE deviceId = 1 AND value = 'softmax_warp_forward' ORDER BY start LIMIT 24",
    )
    softmax_period = (sizes[-1][0] - sizes[0][0]) / 23 / MS
    assert (profile.steps, profile.accelerator_count) == (24, 2)
    assert profile.avg_step_ms == pytest.approx(softmax_period, rel=0.001)
    everything = rows_of("h100_2gpu_1s", EVENTS_OF_DEVICE.format(1))
    assert profile.capture["gpu_busy_ms"] == pytest.approx(covered(everything), rel=0.001)
    assert profile.phases["h2d"].pct > 90
    assert profile.device_kernels_per_step == 62
    assert "the export does not name the GPU" in profile.notes


def test_samples__a_minimal_schema() -> None:
    """Two kernels of a millisecond every 2.02 ms, without processes or ranges."""
    profile = nsight.read(sample("minimal_schema"))
    assert (profile.steps, profile.device_busy_ms) == (200, 2.0)
    assert profile.avg_step_ms == pytest.approx(2.02)
    assert profile.capture["gpu_span_ms"] == pytest.approx(403.99)
    assert profile.accelerator == "NVIDIA H100 80GB HBM3"
    assert profile.peak_bandwidth_gb_s is None


def test_samples__two_kernels() -> None:
    """One step, flagged: two different kernels and a copy."""
    profile = nsight.read(sample("rtx3080_mock"))
    assert (profile.steps, profile.kernel_launches_per_step) == (1, 2)
    assert profile.device_busy_ms == pytest.approx((1440 + 2689 + 1632) / MS)
    assert profile.avg_step_ms == pytest.approx((1540180111 - 1517727052) / MS)
    assert profile.peak_bandwidth_gb_s == pytest.approx(760.08)
