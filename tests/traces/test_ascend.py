"""Ascend: trace_view.json, step_trace_time.csv, and both in one folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces import profile_of, read_all, read_profile
from ci_score.traces.formats import ascend, kineto
from ci_score.traces.formats.ascend_steps import recognises as is_table
from ci_score.traces.source import ProfileSource
from tests.builders.traces import ascend as npu
from tests.builders.traces.ascend import source, table, text, training
from tests.builders.traces.valid_files import valid_files


def said(profile: Profile, words: str) -> bool:
    return any(words in note for note in profile.notes)


def read(*events: dict[str, object]) -> Profile:
    return ascend.read(source(*events))


# --- the trace ----------------------------------------------------------------------------------


def test_trace__steps_of_the_host_hold_the_work_that_they_launched() -> None:
    """The device's period; collectives once; waits, marks and parts of collectives are no work."""
    one = read(*training())
    assert one.steps == 3
    assert one.avg_step_ms == pytest.approx(10)
    assert one.compute_ms == pytest.approx(4)
    assert one.communication_ms == pytest.approx(4)
    assert one.exposed_communication_ms == pytest.approx(3)
    assert one.device_busy_ms == pytest.approx(8)
    assert one.device_kernels_per_step == 3
    assert set(one.ops) == {
        "aclnnMm_MatMulCommon_MatMulV2",
        "hcom_allReduce",
        "ForeachAddList",
        "Memcpy",
    }
    assert one.op_categories["comm"] == pytest.approx(4)
    assert one.op_categories["gemm"] == pytest.approx(3)
    assert one.tool == "Ascend PyTorch Profiler"
    assert one.sources["steps"] == "ProfilerStep#"


def test_trace__phases_are_ranges_outside_of_operators() -> None:
    """Operators are of the same kind as ranges: what lies within one, or is one, is no phase."""
    one = read(*training())
    assert one.phases["forward"].total_ms == pytest.approx(4)
    assert one.phases["optimizer"].total_ms == pytest.approx(1)
    assert not {"empty_tensor", "aclnnMm"} & set(one.phases)


def test_trace__a_driver_s_call_serves_where_pytorch_s_is_missing() -> None:
    """The flow from the driver begins later, on another thread, and in the same step."""
    events = training()
    for each in events:
        if each.get("cat") == "async_npu":
            each["cat"] = "HostToDevice"
    assert read(*events).avg_step_ms == pytest.approx(10)
    assert read(*events).steps == 3


def test_trace__without_flows_work_counts_where_it_ran() -> None:
    """MindStudio's own trace has no host: what repeats is a step."""
    events = [each for each in training(steps=4) if each["pid"] != npu.HOST]
    one = read(*(each for each in events if each["ph"] == "X"))
    assert one.avg_step_ms == pytest.approx(10)
    assert said(one, "nothing marks a step")


def test_trace__devices_are_told_by_label_or_by_the_number_of_their_process() -> None:
    """Several NPUs of one process: the slowest speaks."""
    second = [*npu.processes("NPU 1", 1), *training(shift=1, slower=1.0)]
    one = read(*training(), *second)
    assert one.accelerator_count == 2
    assert one.avg_step_ms == pytest.approx(11)
    assert said(one, "the numbers of NPU 1")


def test_trace__times_keep_their_nanoseconds() -> None:
    """Text of seventeen digits and more would lose them as a float."""
    events = npu.task("a", 0.1, 1.000001, 0.000003)
    events += npu.task("b", 0.2, 1.000005, 0.000002)
    one = read(*events)
    assert one.avg_step_ms == pytest.approx(6e-6)
    assert one.device_busy_ms == pytest.approx(5e-6)


@pytest.mark.parametrize("value", [1736408883000123.5, 1736408883000123, 12.25])
def test_trace__times_may_be_numbers(value: float) -> None:
    """Other versions write them as JSON has them."""
    one = npu.event("a", npu.HARDWARE, 2, 0, 0.001)
    one["ts"], one["dur"] = value, 1
    assert read(one).device_busy_ms == pytest.approx(0.001)


@pytest.mark.parametrize("value", ["soon", "-1", "1e9", "", "9" * 30, None, "1.2.3", 1e300])
def test_trace__events_without_times_are_counted(value: object) -> None:
    """And all others are as good as before."""
    broken = npu.event("a", npu.HARDWARE, 2, 0, 1)
    broken["ts"] = value
    one = read(*training(), broken)
    assert one.compute_ms == pytest.approx(4)
    assert said(one, "1 event ")


@pytest.mark.parametrize(
    ("name", "kind", "counts"),
    [
        ("Add", "AI_VECTOR_CORE", True),
        ("barrier_free_add", "KERNEL_AIVEC", True),
        ("Add", "", True),
        ("EVENT_WAIT", "", False),
        ("NOTIFY_WAIT", "NOTIFY_WAIT_SQE", False),
        ("Write Value", "Write Value", False),
        ("PROFILING_ENABLE", "PLACE_HOLDER_SQE", False),
        ("allreduceAicpuKernel", "AI_CPU", False),
    ],
)
def test_trace__what_counts_as_work(name: str, kind: str, counts: bool) -> None:
    """Types tell it, and names where a task has no type; a collective counts once."""
    more = npu.task(name, None, 9.2, 0.5, kind)
    one = read(*training(steps=1), *more)
    assert one.capture["kernels"] == (4 if counts else 3)


def test_trace__of_a_job_wants_its_rank_in_a_name() -> None:
    """Two ranks would else be two captures of the same work."""
    data = text(training())
    assert said(ascend.read(ProfileSource("host_7_ascend_pt/x.json", data=data)), "like rank0")
    assert not said(ascend.read(ProfileSource("rank1_ascend_pt/x.json", data=data)), "like rank0")


def test_trace__work_that_is_not_read_is_named() -> None:
    """A process of the NPU that we do not know, with timed work in it."""
    unknown = [
        *npu.named(99, "New Engine", {0: "x"}),
        npu.event("work", 99, 0, 1, 1),
    ]
    assert said(read(*training(), *unknown), "1 event of 'New Engine'")


def test_trace__without_an_npu_is_never_a_step_of_a_cpu() -> None:
    """Operators of the host alone measured nothing of a device."""
    one = read(*(each for each in training() if each["pid"] == npu.HOST))
    assert one.unusable == "no work of an NPU was recorded"
    assert one.steps == 0


def test_trace__is_known_by_its_first_bytes() -> None:
    """The processes are named at the end; times that are text are enough, and Kineto has none."""
    assert ascend.recognises(text(training())[:4096])
    assert ascend.recognises(b'{"traceEvents":[' + text(training())[1:4096])
    assert not ascend.recognises(valid_files()["kineto"])
    assert not ascend.recognises(valid_files()["jax-trace"])
    one = read_profile(ProfileSource("x.json", data=text(training())))
    assert one.tool == "Ascend PyTorch Profiler"
    assert one.timed_by == "a profiler"


def test_trace__that_is_cut_short_is_shown_and_not_used() -> None:
    """Events do not come in the order of time."""
    whole = text(training())
    cut = json.dumps(npu.processes()).encode()[:-1] + b"," + whole[1 : len(whole) // 2]
    one = ascend.read(ProfileSource("x", data=cut))
    assert one.unusable == "the file is cut short: which of its steps are whole is not known"


# --- the table ----------------------------------------------------------------------------------


def table_of(*rows: str, columns: str = npu.COLUMNS) -> Profile:
    return read_profile(ProfileSource("step_trace_time.csv", data=table(*rows, columns=columns)))


def test_table__steps_of_a_device() -> None:
    """Milliseconds a step; the step is the device's time, with the bubble of a pipeline."""
    one = table_of(
        "0,7,6000,2000,1000,3000,2000,9000,1000,2000,50",
        "0,8,6000.5,2000,1000,3000,3000,11000,0,2000,50",
    )
    assert one.steps == 2
    assert one.step_times_ms == (10, 11)
    assert one.avg_step_ms == pytest.approx(10.5)
    assert one.compute_ms == pytest.approx(6.00025)
    assert one.communication_ms == pytest.approx(3)
    assert one.exposed_communication_ms == pytest.approx(2)
    assert one.device_idle_share == pytest.approx(2.5 / 10.5)
    assert said(one, "neither ops nor phases")


def test_table__old_columns_are_enough() -> None:
    """Before there were devices in it, and preparing."""
    columns = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage"
    assert table_of("2,10,20,5,25,30,60", columns=columns).avg_step_ms == pytest.approx(0.06)


def test_table__the_slowest_device_speaks() -> None:
    """Several devices of one process."""
    one = table_of("0,7,1,1,0,1,1,3,0,1,0", "1,7,1,2,0,2,1,4,0,2,0")
    assert one.avg_step_ms == pytest.approx(0.004)
    assert one.accelerator_count == 2
    assert said(one, "the numbers of NPU 1")


def test_table__without_a_step_is_the_whole_capture() -> None:
    """The profiler leaves the name empty where no step was marked."""
    assert said(table_of("0,,1,1,0,1,1,3,0,1,0"), "no step is marked")


@pytest.mark.parametrize("row", ["0,7,x,1,0,1,1,3,0,1,0", "0,7,1", "0,7,nan,1,0,1,1,3,0,1,0"])
def test_table__with_something_else_than_numbers_names_the_place(row: str) -> None:
    """File, line and column."""
    with pytest.raises(BadInputError, match=r"step_trace_time.csv:2: (Computing|Communication)"):
        table_of(row)


def test_table__of_a_cluster_is_refused() -> None:
    """It has a row a rank and a row a group; each rank has a table of its own."""
    columns = npu.COLUMNS.replace("Device_id,Step", "Step,Type,Index")
    with pytest.raises(BadInputError, match="whole cluster"):
        table_of("2,rank,0,1,1,0,1,1,3,0,1,0", columns=columns)


def test_table__without_a_row_measured_nothing() -> None:
    """A header alone."""
    assert table_of().unusable == "the table has no step"
    assert not is_table(b"Step,Computing\n")


# --- both ---------------------------------------------------------------------------------------


def job(*files: tuple[str, bytes]) -> Profile:
    sources = [ProfileSource(name, data=data) for name, data in files]
    return profile_of(sources, read_all(sources))


RIGHT = "0,{},4000,3000,1000,4000,2000,10000,0,3000,50"


def rows(*steps: int, row: str = RIGHT) -> bytes:
    return table(*(row.format(step) for step in steps))


def test_folder__the_trace_counts_and_the_table_agrees() -> None:
    """Both are the same rank's: no second capture, and no rank of its own."""
    one = job(
        ("rank0/trace_view.json", text(training())),
        ("rank0/step_trace_time.csv", rows(0, 1, 2)),
    )
    assert one == job(("rank0/trace_view.json", text(training()))).but(notes=one.notes)
    assert said(one, "made of: rank0/step_trace_time.csv")
    assert not said(one, " says ")


def test_folder__where_they_disagree_that_is_said() -> None:
    """Another time of computing, or other steps."""
    wrong = rows(0, 1, 2, row=RIGHT.replace("4000,3000", "9000,3000"))
    trace = ("rank0/trace_view.json", text(training()))
    assert said(job(trace, ("rank0/step_trace_time.csv", wrong)), "says 9 ms of compute_ms")
    assert said(job(trace, ("rank0/step_trace_time.csv", rows(0))), "has 1 steps")


def test_folder__a_table_without_its_trace_is_a_rank() -> None:
    """Of another folder, or where the trace cannot be used."""
    nothing = json.dumps(npu.processes()).encode()
    one = job(
        ("rank0/trace_view.json", nothing),
        ("rank0/step_trace_time.csv", rows(0, 1)),
        ("rank1/step_trace_time.csv", rows(0, 1)),
    )
    assert len(one.ranks) == 2
    assert one.avg_step_ms == pytest.approx(10)


def test_folder__what_else_lies_there_is_left_out() -> None:
    """Tables of kernels, statistics and databases: one note a kind where there are many."""
    others = [(f"rank0/{n}.csv", b"Level,API Name,Time(us)\nacl,x,1\n") for n in range(6)]
    one = job(
        ("rank0/trace_view.json", text(training())),
        *others,
        ("rank0/kernel_details.csv", b"Name,Accelerator Core,Duration(us)\n"),
    )
    assert said(one, "6 files were left out (text without a profile): rank0/0.csv")
    assert said(one, "1 files were left out (a table of Ascend's kernels)")


def test_folder__kineto_never_reads_it(tmp_path: Path) -> None:
    """Its own reader would take the host's operators for a step of a CPU."""
    path = tmp_path / "trace_view.json"
    path.write_bytes(text(training()))
    wrong = kineto.read(ProfileSource("x", path=path))
    assert wrong.device_busy_ms is None
    assert read_profile(ProfileSource("x", path=path)).device_busy_ms
