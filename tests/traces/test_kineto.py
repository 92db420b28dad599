from __future__ import annotations

import gzip
import json
import os
import re
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.repeated import taken_apart
from benchmarks.traces import make_up, write_trace
from ci_score.errors import BadInputError
from ci_score.model.profile import CATEGORIES, Profile
from ci_score.traces.engine.categories import (
    category_of,
    category_of_operator,
    memcpy_direction,
)
from ci_score.traces.engine.timeline import Interval, Windows, intersection, length, subtract, union
from ci_score.traces.formats import kineto
from ci_score.traces.formats.kineto_ranges import read_trace
from ci_score.traces.source import CutShortError, ProfileSource
from tests.builders.traces.kineto import (
    ADD,
    AUTOGRAD,
    GEMM,
    NCCL,
    Json,
    annotation,
    call,
    copy,
    kernel,
    module,
    node,
    op,
    source,
    span,
    step,
    text,
    work,
)

SAMPLES = Path(os.environ.get("CI_SCORE_SHARED", Path(__file__).parents[3] / "shared")) / (
    "samples/kineto"
)

# --- builders -----------------------------------------------------------------------------------


def read(events: list[Json], **metadata: Any) -> Profile:
    return kineto.read(source(text(events, **metadata)))


def three_steps() -> list[Json]:
    """The host takes 100 us a step, the device 150: it lags further behind each time."""
    events = []
    for number in range(3):
        events.append(step(number, 1000 + 100 * number, 100))
        events += work(number + 1, 1010 + 100 * number, 1020 + 150 * number, 150)
    return events


def ms(value: float | None) -> float:
    assert value is not None
    return round(value, 9)


def phases(profile: Profile) -> dict[str, float]:
    return {name: ms(phase.total_ms) for name, phase in profile.phases.items()}


# --- steps --------------------------------------------------------------------------------------


def test_steps__time_is_the_devices_period() -> None:
    """Of an asynchronous run the host's spans are too short: the device's ends are the truth."""
    profile = read(three_steps())
    assert (profile.steps, ms(profile.avg_step_ms)) == (3, 0.150)
    assert [ms(time) for time in profile.step_times_ms] == [0.150, 0.150]
    assert profile.sources["avg_step_ms"].startswith("GPU end-to-end period of 3 steps")
    assert profile.capture["host_step_ms"] == pytest.approx(0.1)


def test_steps__work_belongs_to_the_step_that_launched_it() -> None:
    """Even where it runs while the host is in the next step."""
    profile = read(
        [step(1, 0, 100), step(2, 100, 100), *work(1, 90, 150, 20), *work(2, 110, 180, 5)]
    )
    assert profile.device_kernels_per_step == 1
    assert ms(profile.device_busy_ms) == 0.0125
    assert ms(profile.avg_step_ms) == 0.015


def test_steps__the_devices_copy_of_a_marker_is_none() -> None:
    """A gpu_user_annotation may lie anywhere."""
    events = [*three_steps(), span("gpu_user_annotation", "ProfilerStep#7", 0, 5000, 7)]
    assert read(events).steps == 3


def test_steps__of_one_step_the_host_is_asked() -> None:
    """There is no period, and the note says what that means."""
    profile = read([step(4, 0, 100), *work(1, 10, 20, 30)])
    assert (profile.steps, ms(profile.avg_step_ms)) == (1, 0.1)
    assert any("only one step" in note for note in profile.notes)


def test_steps__of_one_step_the_note_says_which_way_the_host_may_be_wrong() -> None:
    """Older work may fill its beginning, and the device may end after it."""
    within = read([step(4, 0, 100), *work(1, 10, 20, 30)])
    assert not any("it may be" in note for note in within.notes)
    short = read([step(4, 0, 100), *work(1, 10, 50, 100)])
    assert any("the device ended 0.05 ms after it" in note for note in short.notes)
    assert not any("may be long" in note for note in short.notes)
    long = read([step(4, 100, 100), kernel(9, 60, 70), *work(1, 150, 160, 30)])
    assert any("may be long, because for 0.03 ms" in note for note in long.notes)
    assert not any("may be short" in note for note in long.notes)
    assert any("1 device event of 2 belong to no step" in n and "70.0 %" in n for n in long.notes)


def test_steps__a_mean_over_steps_without_work_is_told() -> None:
    """Half of the numbers of one step are those of none."""
    profile = read([step(1, 0, 90), step(2, 100, 90), *work(1, 10, 20, 30)])
    assert profile.device_kernels_per_step == 0.5
    assert any("the device worked in one of 2 steps" in note for note in profile.notes)


def test_steps__between_optimizer_steps_where_nothing_else_marks_them() -> None:
    """From the end of one to the end of the next; the first step began unseen."""
    events = [annotation("Optimizer.step#AdamW.step", 80 + 100 * i, 20) for i in range(3)]
    for number in range(3):
        events += work(number + 1, 10 + 100 * number, 20 + 100 * number, 30)
    profile = read(events)
    assert (profile.steps, ms(profile.avg_step_ms)) == (2, 0.1)
    assert "Optimizer.step#AdamW.step" in profile.sources["avg_step_ms"]


def test_steps__by_step_num() -> None:
    """A StepTraceAnnotation carries its number as an argument."""
    events = [annotation("train", 100 * i, 100, step_num=i) for i in range(2)]
    events += [*work(1, 10, 20, 30), *work(2, 110, 130, 30)]
    assert read(events).steps == 2


def test_steps__by_a_repeated_sequence_of_kernels() -> None:
    """Where nothing marks them, the kernels themselves do, and it is said."""
    events = []
    for number in range(6):
        for place, name in enumerate((GEMM, ADD, NCCL, "layer_norm_kernel", "adam_kernel")):
            at = 100 * number + 10 * place
            events += work(5 * number + place + 1, at, at + 2, 5, name)
    profile = read(events)
    assert (profile.steps, ms(profile.avg_step_ms)) == (6, 0.1)
    assert any("repeats 6 times" in note for note in profile.notes)


def test_steps__layers_that_repeat_are_no_steps() -> None:
    """A forward pass has kernels around its layers: then the capture is one step, flagged."""
    events = work(1, 0, 1, 2, "embedding_kernel")
    for layer in range(8):
        for place, name in enumerate((GEMM, ADD, "layer_norm_kernel", "flash_fwd_kernel")):
            at = 10 + 40 * layer + 10 * place
            events += work(10 + 4 * layer + place, at, at + 1, 5, name)
    profile = read(events + work(99, 400, 401, 9, "lm_head_gemm"))
    assert profile.steps == 1
    assert any("counts as one step" in note for note in profile.notes)


def test_steps__that_overlap_are_cut_where_the_next_begins() -> None:
    """Each launch belongs to one step, and one marker within another is none."""
    events = [step(1, 0, 150), step(2, 100, 100), step(3, 110, 20), *work(1, 120, 130, 10)]
    events += work(2, 10, 20, 10)
    profile = read(events)
    assert profile.steps == 2
    assert profile.device_kernels_per_step == 1


def test_steps__without_kernels_leave_the_period_to_the_others() -> None:
    """And where but one ran some, the host's period of all counts."""
    events = [*three_steps(), step(3, 1300, 100)]
    assert read(events).steps == 3
    single = read([step(1, 0, 90), step(2, 100, 90), *work(1, 10, 20, 30)])
    assert (single.steps, ms(single.avg_step_ms)) == (2, 0.1)
    assert ms(single.device_busy_ms) == 0.015


# --- attribution --------------------------------------------------------------------------------


def test_attribution__unmatched_work_is_counted_and_not_assigned() -> None:
    """A kernel whose launch was not recorded belongs to no step, whenever it ran."""
    profile = read([*three_steps(), kernel(77, 1050, 500)])
    assert profile.capture["unattributed_gpu_events"] == 1
    assert profile.device_kernels_per_step == 1
    assert profile.capture["kernels"] == 4
    assert any("1 device event of 4" in note for note in profile.notes)


def test_attribution__by_external_id_where_correlations_are_missing() -> None:
    """Some traces join the two by nothing else."""
    events = [
        step(1, 0, 100),
        span("cuda_runtime", "cudaLaunchKernel", 10, 1, **{"External id": 5}),
        span("kernel", GEMM, 20, 30, 7, **{"External id": 5}),
    ]
    assert read(events).device_kernels_per_step == 1


def test_attribution__kernels_without_any_give_no_numbers_of_the_device() -> None:
    """The host's step time stands, and the note says why there is no more."""
    events = [step(1, 0, 100), step(2, 100, 100), span("kernel", GEMM, 20, 30, 7)]
    profile = read(events)
    assert profile.unusable is None
    assert (profile.steps, ms(profile.avg_step_ms)) == (2, 0.1)
    assert profile.device_busy_ms is None
    assert profile.device_kernels_per_step is None


def test_attribution__work_without_a_launch_is_told_of_where_it_counts() -> None:
    """Without marks the time at which it ran says which step it belongs to, and no launch is."""
    events = []
    for number in range(6):
        for place, name in enumerate((GEMM, ADD, NCCL, "layer_norm_kernel", "adam_kernel")):
            at = 100 * number + 10 * place
            events.append(span("kernel", name, at, 5, 7))
    profile = read(events)
    assert (profile.steps, profile.kernel_launches_per_step) == (6, None)
    assert any("the launch of 30 of 30 device events is not known" in n for n in profile.notes)
    assert any("no launches a step" in note for note in profile.notes)


def test_attribution__a_graph_is_one_launch_of_many_kernels() -> None:
    """Both numbers are published."""
    events = [step(1, 0, 100), call(1, 10, name="cudaGraphLaunch")]
    events += [kernel(1, 20 + 5 * place, 5) for place in range(8)]
    profile = read(events)
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (8, 1)
    assert profile.capture["graph_launched_kernels"] == 8


def test_attribution__old_names_of_kinds_and_threads() -> None:
    """Up to 2021 kinds had other names, and threads were texts."""
    events = [
        span("Operator", "ProfilerStep#1", 0, 100, "11"),
        span("Runtime", "cudaLaunchKernel", 10, 1, "11", correlation=1),
        span("Kernel", GEMM, 20, 30, "stream 7", correlation=1),
        span("Runtime", "cudaMemcpyAsync", 12, 1, "11", correlation=2),
        span("Memcpy", "Memcpy DtoH (Device -> Pageable)", 50, 5, "stream 7", correlation=2),
    ]
    profile = read(events)
    assert profile.device_kernels_per_step == 1
    assert phases(profile)["d2h"] == 0.005


# --- what the device did ------------------------------------------------------------------------


def test_device__parallel_work_counts_once() -> None:
    """Busy, compute and communication are unions; exposed is what no computation hides."""
    events = [step(1, 0, 100), *work(1, 1, 10, 20), *work(2, 2, 20, 20), *work(3, 3, 30, 30, NCCL)]
    profile = read(events)
    assert ms(profile.device_busy_ms) == 0.050
    assert ms(profile.compute_ms) == 0.030
    assert ms(profile.communication_ms) == 0.030
    assert ms(profile.exposed_communication_ms) == 0.020
    assert profile.device_idle_share == 0
    assert profile.op_categories == {"gemm": 0.04, "comm": 0.03}
    assert profile.ops == {GEMM: 0.04, NCCL: 0.03}


def test_device__what_rocm_copies_with_a_kernel_is_no_computation() -> None:
    """It is launched and counted as one, and its time is that of a transfer."""
    events = [step(1, 0, 100), *work(1, 1, 10, 20)]
    for place, name in enumerate(("__amd_rocclr_copyBuffer", "__amd_rocclr_fillBufferAligned")):
        events += work(place + 2, place + 5, 40 + 10 * place, 5, name)
    profile = read(events)
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (3, 3)
    assert (ms(profile.compute_ms), ms(profile.device_busy_ms)) == (0.02, 0.03)
    assert profile.op_categories == {"gemm": 0.02, "memcpy": 0.005, "memset": 0.005}


def on_device(device: int, events: list[Json]) -> list[Json]:
    """The same, with the device's work on another one."""
    for event in events:
        if "device" in event["args"]:
            event["args"]["device"] = device
    return events


def data_parallel_steps() -> list[Json]:
    """Two devices in one process: 30 us of work a step on the first, 50 us on the second."""
    events = []
    for number in range(3):
        at, first = 1000.0 + 100 * number, 3 * number
        events.append(step(number, at, 100))
        events += on_device(0, work(first + 1, at + 10, at + 20, 30, ADD))
        events += on_device(1, work(first + 2, at + 12, at + 25, 40))
        events += on_device(1, work(first + 3, at + 14, at + 65, 10 + number, NCCL))
    return events


def test_device__of_several_in_one_process_the_slowest_speaks() -> None:
    """Busy time, kernels, launches, ops and the capture are one device's, not all devices' sum."""
    profile = read(data_parallel_steps())
    assert profile.avg_step_ms == pytest.approx(0.101)
    assert ms(profile.device_busy_ms) == 0.051
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (2, 2)
    assert set(profile.ops) == {GEMM, NCCL}
    assert ms(profile.compute_ms) == 0.04
    assert profile.capture["kernels"] == 6
    assert profile.capture["gpu_busy_ms"] == pytest.approx(0.153)
    assert profile.accelerator_count == 2
    assert any("2 devices: these are the numbers of device 1" in each for each in profile.notes)


def test_device__one_of_several_that_hardly_works_says_nothing() -> None:
    """A forgotten tensor on another device makes no slow device."""
    events = data_parallel_steps()
    for number in (0, 2):
        ts = 1030.0 + 130 * number
        events += on_device(5, work(20 + number, 1030.0 + 100 * number, ts, 1))
    profile = read(events)
    assert profile.avg_step_ms == pytest.approx(0.101)
    assert any("numbers of device 1" in each for each in profile.notes)


def test_device__copies_alone_make_no_second_one() -> None:
    """A device that ran no kernel is none of those that computed; its copies count nowhere."""
    events = three_steps()
    events += on_device(1, [call(9, 1030), copy(9, 1040, 10)])
    events += on_device(1, [call(10, 1040), copy(10, 1060, 10)])
    profile = read(events)
    assert profile.accelerator_count == 1
    assert set(profile.ops) == {GEMM}
    assert any("2 device events on a device without kernels" in each for each in profile.notes)


def test_device__of_several_a_cut_counts_whole_steps_of_all() -> None:
    """A step is whole when the launches for every device have their kernels."""
    data = text(data_parallel_steps())
    cut = data[: data.rindex(b'{"ph"')]
    profile = kineto.read(source(cut))
    assert profile.unusable is None
    assert profile.steps == 2


def test_device__several_of_one_rank_leave_the_jobs_number_open() -> None:
    """What the other ranks used is not in this trace."""
    profile = read(data_parallel_steps(), distributedInfo={"rank": 0, "world_size": 4})
    assert profile.accelerator_count is None
    assert any("this rank used 2 devices" in each for each in profile.notes)


def test_device__layers_of_several_are_those_of_the_one_that_speaks() -> None:
    """Modules run on all devices; the work of a layer is that of one."""
    events = data_parallel_steps()
    for number in range(3):
        at = 1000.0 + 100 * number
        events.append(module("Block_0", at + 9, 4))
        events.append(module("Linear_0", at + 9.5, 3))
        events.append(module("Block_1", at + 13.5, 4))
        events.append(module("Linear_1", at + 13.6, 3))
    layers = read(events).per_layer
    assert [set(layer.ops) for layer in layers] == [{GEMM}, {NCCL}]
    assert ms(layers[0].fwd_ms) == 0.04


def test_device__sums_over_the_capture_stand_apart() -> None:
    """They count what belongs to no step, too."""
    profile = read([*three_steps(), kernel(77, 2000, 50, ADD)])
    assert profile.capture["gpu_busy_ms"] == pytest.approx(0.5)
    assert profile.capture["ops_ms_total.gemm"] == pytest.approx(0.45)
    assert profile.capture["ops_ms_total.elementwise"] == pytest.approx(0.05)


# --- phases -------------------------------------------------------------------------------------


def annotated_step() -> list[Json]:
    return [
        step(1, 0, 100),
        annotation("## forward ##", 0, 30),
        annotation("DistributedDataParallel.forward", 1, 20),
        annotation("nccl:all_reduce", 2, 3),
        annotation("## backward ##", 30, 40),
        annotation("ncclGroupEnd", 92, 1),
        annotation("MPI_Send", 94, 1),
        annotation("Optimizer.step#SGD.step", 70, 20),
        call(9, 0.5, name="cudaMemcpyAsync"),
        copy(9, 1, 4),
        *work(1, 5, 10, 20),
        *work(2, 35, 30, 50),
        *work(3, 75, 80, 5),
    ]


def test_phases__are_busy_time_by_launch() -> None:
    """Outermost annotations, without their hashes; copies are phases of their own."""
    profile = read(annotated_step())
    expected = {"forward": 0.02, "backward": 0.05, "optimizer": 0.005, "h2d": 0.004}
    assert phases(profile) == expected
    assert ms(profile.wall_coverage) == 0.9
    assert sum(expected.values()) == pytest.approx(ms(profile.device_busy_ms))


def test_phases__of_pytorch_have_the_names_that_all_use() -> None:
    """Whose optimizer it is, and that a wrapper ran the forward pass, is no other phase."""
    events = [
        step(1, 0, 100),
        annotation("DistributedDataParallel.forward", 0, 20),
        annotation("Optimizer.zero_grad#SGD.zero_grad", 30, 10),
        annotation("Optimizer.step#SGD.step", 60, 20),
        *work(1, 5, 10, 20),
        *work(2, 32, 35, 2),
        *work(3, 65, 80, 5),
    ]
    assert phases(read(events)) == {"forward": 0.02, "zero_grad": 0.002, "optimizer": 0.005}


def test_phases__in_which_the_host_starts_nothing_are_told() -> None:
    """Loading data keeps the device waiting, and is no time of the device's."""
    loading = annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 40)
    profile = read([step(1, 0, 100), loading, *work(1, 50, 60, 20)])
    assert set(phases(profile)) == {"unannotated"}
    assert any("starts no work" in n and "data_loading 0.04 ms" in n for n in profile.notes)


def test_phases__an_annotation_around_the_step_is_none() -> None:
    """What it contains is."""
    profile = read([*annotated_step(), annotation("train_step", 0, 99)])
    assert set(phases(profile)) == {"forward", "backward", "optimizer", "h2d"}


def test_phases__backward_by_autograds_operators() -> None:
    """Where the program names none."""
    events = [step(1, 0, 100), node(40, 10, 1), node(51, 9, 2), *work(1, 10, 12, 20)]
    events += [call(2, 45, AUTOGRAD), kernel(2, 50, 10), *work(3, 80, 90, 5)]
    profile = read(events)
    assert phases(profile) == {"forward": 0.02, "backward": 0.01, "unannotated": 0.005}
    assert "autograd" in profile.sources["phases"]


def test_phases__that_nobody_annotated_are_beside_the_wall_coverage() -> None:
    """Autograd tells of most of the step, the program's own ranges of little."""
    own = annotation("Optimizer.step#SGD.step", 80, 20)
    profile = read([step(1, 0, 100), node(40, 20, 1), own, *work(1, 10, 12, 20)])
    assert profile.wall_coverage == pytest.approx(0.2)
    assert any("it would be 80.0 %" in note for note in profile.notes)
    assert not any("it would be" in note for note in read(annotated_step()).notes)


def test_phases__of_the_host_where_there_is_no_device() -> None:
    """Spans of the annotations, per step."""
    events = []
    for number in range(2):
        at = 100 * number
        events += [step(number, at, 90), annotation("forward", at, 30), op("aten::mm", at, 20)]
    profile = read(events, deviceProperties=[])
    assert phases(profile) == {"forward": 0.03}
    assert profile.sources["steps"] == "ProfilerStep#"
    assert ms(profile.wall_coverage) == 0.3
    assert (profile.steps, ms(profile.avg_step_ms)) == (2, 0.1)
    assert profile.device_busy_ms is None
    assert any("no work of a device" in note for note in profile.notes)


def test_ops__of_the_host_count_their_own_time() -> None:
    """What an operator called is not its own."""
    events = [step(1, 0, 100), op("aten::linear", 10, 30), op("aten::addmm", 15, 20)]
    events += [op("aten::linear", 200, 30)]
    assert read(events).ops == pytest.approx({"aten::linear": 0.01, "aten::addmm": 0.02})


# --- layers, tokens, where it ran ---------------------------------------------------------------


def two_layers() -> list[Json]:
    events = [step(1, 0, 200), module("Model_0", 1, 60)]
    for layer in range(2):
        at = 5 + 20 * layer
        events += [module(f"Block_{layer}", at, 15), module(f"Linear_{layer}", at + 1, 10)]
        events += [op("aten::addmm", at + 2, 5, Sequence_number=layer)]
        events += work(10 + layer, at + 3, at + 10, 4 + layer)
    for layer in (1, 0):
        at = 140 - 20 * layer
        events += [node(at, 10, layer), call(20 + layer, at + 2, AUTOGRAD)]
        events += [kernel(20 + layer, at + 3, 8 + layer)]
    return events


def test_layers__forward_by_module_backward_by_sequence() -> None:
    """The repeated container with most time is the layer, numbered as they run."""
    layers = read(two_layers()).per_layer
    times = [(each.layer, ms(each.fwd_ms), ms(each.bwd_ms)) for each in layers]
    assert times == [(0, 0.004, 0.008), (1, 0.005, 0.009)]
    assert layers[0].ops == {GEMM: 0.012}


def test_layers__what_is_launched_when_one_ends_is_the_next_one_s() -> None:
    """Exactly then, whatever a float makes of the decimals."""
    first, last = 4458676000000.1, 4458676000000.3
    events = [step(1, first, 1000), module("Block_0", first, 0.2), module("Linear_0", first, 0.2)]
    events += [module("Block_1", last, 5), module("Linear_1", last, 4)]
    layers = read(events + work(1, last, last + 9, 7)).per_layer
    assert [ms(each.fwd_ms) for each in layers] == [0, 0.007]


def test_layers__recomputation_counts_as_backward() -> None:
    """A module that runs while autograd does computes again what was forgotten."""
    again = [module("Block_0", 140, 8, AUTOGRAD), module("Linear_0", 140, 7, AUTOGRAD)]
    again += [call(50, 142, AUTOGRAD), kernel(50, 150, 3)]
    first = read(two_layers() + again).per_layer[0]
    assert (ms(first.fwd_ms), ms(first.bwd_ms)) == (0.004, 0.011)


def test_layers__without_evidence_there_are_none() -> None:
    """And the note says what to record."""
    profile = read(three_steps())
    assert profile.per_layer == ()
    assert any("no layers" in note for note in profile.notes)


def embedding(
    vocabulary: int, batch: int, tokens: int, ts: float, width: int = 64, **args: Any
) -> Json:
    dims = [[vocabulary, width], [batch, tokens], [], []]
    return op("aten::embedding", ts, 1, Input_Dims=dims, **args)


def test_tokens__of_the_largest_vocabulary_are_inferred() -> None:
    """Positions are embedded too; two micro-batches are two."""
    events = [*three_steps()]
    for number in range(3):
        at = 1000 + 100 * number
        events += [embedding(50_000, 4, 128, at + 1), embedding(512, 4, 128, at + 2)]
        events += [embedding(50_000, 4, 128, at + 3)]
    profile = read(events)
    assert profile.tokens_per_step == 2 * 4 * 128
    assert "inferred" in profile.sources["tokens_per_step"]


def test_tokens__of_another_model_and_of_an_evaluation_are_not_counted() -> None:
    """What has no gradient is no training, and tables of other shapes are not one table."""
    events = [*three_steps()]
    for number in range(3):
        at = 1000 + 100 * number
        events += [
            embedding(500, 4, 128, at + 1, Sequence_number=7 + number),
            embedding(500, 4, 128, at + 2),
            embedding(500, 2, 128, at + 3, 32, Sequence_number=17 + number),
            embedding(2048, 1, 128, at + 4, Sequence_number=27 + number),
        ]
    assert read(events).tokens_per_step == 4 * 128


CLEARS, STEPS = "Optimizer.zero_grad#SAM.zero_grad", "Optimizer.step#SGD.step"


@pytest.mark.parametrize(
    ("ranges", "tokens"),
    [
        ([(CLEARS, 1, 2), (STEPS, 40, 45)], 2 * 128),
        ([(CLEARS, 1, 2), (CLEARS, 15, 16), (STEPS, 40, 45)], None),
        ([(CLEARS, 1, 2), (STEPS, 14, 45), (CLEARS, 15, 16)], None),
        ([(CLEARS, 1, 2), (STEPS, 14, 15), (CLEARS, 16, 17), (STEPS, 40, 45)], 2 * 128),
        ([(CLEARS, 15, 16), (STEPS, 17, 18)], 2 * 128),
        ([(STEPS, 40, 45), (CLEARS, 46, 47)], 2 * 128),
    ],
    ids=["micro-batches", "SAM", "within the step", "two steps", "cleared first", "cleared last"],
)
def test_tokens__of_passes_over_the_same_data_are_not_inferred(
    ranges: list[tuple[str, int, int]], tokens: int | None
) -> None:
    """Gradients that are cleared between two lookups and not stepped for are not summed."""
    events = [*three_steps()]
    for at in range(1000, 1300, 100):
        events += [embedding(500, 1, 128, at + place, Sequence_number=at) for place in (10, 20)]
        events += [annotation(name, at + begin, end - begin) for name, begin, end in ranges]
    profile = read(events)
    assert profile.tokens_per_step == tokens
    assert any("SAM, LBFGS" in note for note in profile.notes) is (tokens is None)


DDP = "DistributedDataParallel.forward"


@pytest.mark.parametrize(
    ("groups", "wrapped", "tokens"),
    [
        ([{"pg_desc": "default_pg", "pg_size": 8}], DDP, 8 * 128),
        ([{"pg_desc": "default_pg", "pg_size": 8}], "FSDP::pre_forward", 8 * 128),
        ([{"pg_desc": "default_pg", "pg_size": 8}], "", None),
        ([{"pg_desc": "default_pg"}, {"pg_desc": "mesh_dp", "pg_size": 4}], "", 4 * 128),
        ([{"pg_desc": "default_pg"}, {"pg_desc": "tp", "pg_size": 4}], DDP, None),
    ],
)
def test_tokens__times_ranks_only_where_the_degree_is_known(
    groups: list[Json], wrapped: str, tokens: int | None
) -> None:
    """Of eight ranks some may have split one batch."""
    events = [*three_steps(), *(embedding(50_000, 1, 128, 1001 + 100 * i) for i in range(3))]
    events += [annotation(wrapped, 1002, 5)] if wrapped else []
    job = {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": groups}
    profile = read(events, distributedInfo=job)
    assert profile.tokens_per_step == tokens
    assert (profile.rank, profile.world_size) == (3, 8)
    assert tokens is not None or any("128 a step on this rank" in note for note in profile.notes)


def test_environment__the_accelerator_that_was_used() -> None:
    """Of all that the host has."""
    cards = [{"id": 0, "name": "Small"}, {"id": 1, "name": "Large"}]
    events = [*three_steps()]
    for event in events:
        if event["cat"] == "kernel":
            event["args"]["device"] = 1
    memory = span("", "[memory]", 5, 0, **{"Total Allocated": 3_000_000_000, "Device Type": 1})
    profile = read([*events, memory | {"ph": "i"}], deviceProperties=cards)
    assert (profile.accelerator, profile.accelerator_count) == ("Large", 1)
    assert profile.peak_memory_gb == 3
    assert profile.tool == "PyTorch profiler (Kineto), schema 1"


def test_environment__memory_events_without_totals_tell_no_peak() -> None:
    """Old profilers write changes alone, and were asked to."""
    memory = span("", "[memory]", 5, 0, **{"Bytes": 512, "Device Type": 1, "Device Id": 0})
    notes = read([*three_steps(), memory | {"ph": "i"}]).notes
    assert any("the [memory] events of this trace hold no totals" in note for note in notes)
    assert not any("profile_memory" in note for note in notes)


def test_environment__what_is_absent_is_told() -> None:
    """Neither the accelerator's name nor tokens are always recorded."""
    notes = " ".join(read(three_steps()).notes)
    assert "does not name the accelerator" in notes
    assert "no tokens a step" in notes
    cards = [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}]
    notes = " ".join(read(three_steps(), deviceProperties=cards).notes)
    assert "names several kinds of accelerator" in notes


def test_environment__nonsense_is_not_taken() -> None:
    """Neither negative ranks nor texts where lists are."""
    job = {"rank": -1, "world_size": 0, "pg_config": "x"}
    profile = read(three_steps(), distributedInfo=job, deviceProperties="A100")
    assert (profile.rank, profile.world_size, profile.accelerator) == (None, None, None)


# --- text: layouts ------------------------------------------------------------------------------


def layouts() -> Iterator[tuple[str, bytes]]:
    events = three_steps()
    indented = json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=4)
    yield "compact", json.dumps({"traceEvents": events}, separators=(",", ":")).encode()
    yield "one line", text(events)
    yield "indented", indented.encode()
    yield "name first", text([{"name": each["name"], **each} for each in events])
    yield "sorted keys", json.dumps({"traceEvents": events}, sort_keys=True).encode()
    yield (
        "unknown order",
        text([{"pid": 9, "x": 1, **dict(sorted(each.items()))} for each in events]),
    )
    yield "list", json.dumps(events).encode()
    yield "byte order mark", b"\xef\xbb\xbf" + text(events)
    yield "empty last event", text([*events, {}])
    yield "blank lines", indented.replace("\n", "\r\n\r\n").encode()
    yield "metadata after", json.dumps({"traceEvents": events, "schemaVersion": 1}).encode()
    yield "gzip", gzip.compress(text(events))
    yield "two gzips", gzip.compress(text(events)[:500]) + gzip.compress(text(events)[500:])


@pytest.mark.parametrize(("name", "data"), [pytest.param(*each, id=each[0]) for each in layouts()])
def test_text__every_layout_reads_the_same(name: str, data: bytes) -> None:
    """And is known by its content."""
    assert kineto.recognises(source(data).head())
    profile = kineto.read(source(data))
    assert (profile.steps, ms(profile.avg_step_ms)) == (3, 0.150)
    assert not [note for note in profile.notes if "dropped" in note or "mended" in note]


class InPieces(ProfileSource):
    """Yields few bytes at once, so that every place becomes a boundary."""

    __slots__ = ()

    def chunks(self, size: int = 97, start: int = 0) -> Iterator[bytes]:
        """Always so few."""
        yield from super().chunks(97, start)


def test_text__boundaries_may_fall_anywhere() -> None:
    """Pieces of any size give the same profile, also where events hold lists of objects."""
    nested = op("odd", 5, 1)
    nested["args"] = {"list": [{"name": "a, {"}, {"ph": "}, {"}, {"name": [{}, {"name": 1}]}]}
    data = text([nested, *three_steps(), nested, nested], distributedInfo={"rank": 1})
    whole, pieces = kineto.read(source(data)), kineto.read(InPieces("trace.json", data=data))
    assert whole == pieces
    assert whole.capture["events"] == 12


def test_text__metadata_may_be_larger_than_the_head() -> None:
    """A job of thousands of ranks lists them before the events."""
    job = {"rank": 0, "world_size": 8000, "pg_config": [{"ranks": list(range(8000))}] * 4}
    data = text(three_steps(), distributedInfo=job, deviceProperties=[])
    assert data.index(b"traceEvents") > 2 * 64 * 1024
    assert kineto.recognises(source(data).head())
    assert kineto.read(source(data)).world_size == 8000


def test_text__metadata_after_the_events_counts() -> None:
    """Wherever it stands, even where it looks like events."""
    late = {"distributedInfo": {"rank": 2, "world_size": 4, "x": [{"name": 1}, {"name": 2}]}}
    data = json.dumps({"traceEvents": three_steps(), **late}).encode()
    for profile in (kineto.read(source(data)), kineto.read(InPieces("t", data=data))):
        assert (profile.steps, profile.rank, profile.world_size) == (3, 2, 4)


JAX = (
    b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[{"ph":"M","pid":1,'
    b'"args":{"name":"/device:GPU:0"},"name":"process_name"},{"args":{"name":"XLA Ops"},"ph":"M"},'
    b'{"ph":"X","pid":1,"name":"fusion","ts":1,"dur":2}]}'
)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"SQLite format 3\0",
        b'{"steps": 3, "phases": {}}',
        JAX,
        b'[{"ph":"X","cat":"blink","name":"Paint","ts":1,"dur":1}]',
    ],
)
def test_recognises__no_other_format(head: bytes) -> None:
    """JAX and browsers write Chrome traces, too."""
    assert not kineto.recognises(head)


# --- text: broken -------------------------------------------------------------------------------


def broken(old: str, new: bytes) -> bytes:
    data = text([*three_steps(), span("cpu_op", "VICTIM", 1500, 7, marker=1)])
    assert old.encode() in data
    return data.replace(old.encode(), new)


@pytest.mark.parametrize(
    "data",
    [
        broken("VICTIM", b"two\nlines\t"),
        broken("VICTIM", b"C:\\path\\x"),
        broken("VICTIM", b"bad \xff\xfe utf-8"),
        broken('"marker": 1', b'"marker": NaN, "correlation": NaN'),
        broken('"marker": 1', b'"correlation": "12"'),
        broken('"marker": 1', b'"correlation": 99999999999999999999999'),
    ],
    ids=["newline", "escape", "utf-8", "nan", "text", "huge"],
)
def test_broken__what_can_be_mended_is_kept(data: bytes) -> None:
    """No event is lost, and it is said."""
    for profile in (kineto.read(source(data)), kineto.read(InPieces("t", data=data))):
        assert (profile.steps, ms(profile.avg_step_ms)) == (3, 0.150)
        assert profile.capture["events"] + ("dropped" in str(profile.notes)) == 10
        assert any("1 event " in note for note in profile.notes)


@pytest.mark.parametrize(
    "data",
    [
        broken('"dur": 7', b'"dur": NaN'),
        broken('"dur": 7', b'"dur": "long"'),
        broken('"ts": 1500', b'"ts": 1500 1500'),
        broken('"dur": 7', b'"dur": -7'),
        broken('"ts": 1500', b'"ts": 1e300'),
    ],
    ids=["nan", "text", "garbage", "negative", "beyond"],
)
def test_broken__what_cannot_is_dropped_and_counted(data: bytes) -> None:
    """All others stay."""
    profile = kineto.read(source(data))
    assert (profile.steps, ms(profile.avg_step_ms)) == (3, 0.150)
    assert any(note.startswith("dropped 1 event") for note in profile.notes)


@pytest.mark.parametrize("first", [9.99e15, 1e300, -5.0])
def test_broken__an_impossible_first_time_costs_nothing_else(first: float) -> None:
    """Others are counted from the first that may be one, in whole nanoseconds."""
    odd = op("aten::mm", first, 1)
    profile = read([odd, *three_steps()])
    assert (profile.steps, ms(profile.avg_step_ms)) == (3, 0.150)


def test_broken__an_event_that_ends_in_the_next_is_the_only_loss() -> None:
    """A writer that died and went on leaves half an event between whole ones."""
    data = text([*three_steps(), *three_steps()])
    middle = data.index(b"ProfilerStep#0", len(data) // 2)
    for hurt in (data[:middle] + data[middle + 60 :], data[:middle] + b'"' + data[middle:]):
        trace = read_trace(source(hurt))
        assert trace.events >= 16
        assert trace.dropped + trace.mended >= 1


def long_trace() -> bytes:
    """A trace like those that a killed job leaves: launches and kernels as they came."""
    events = [step(number, 1000 + 100 * number, 100) for number in range(4)]
    for number in range(4):
        for place in range(10):
            at = 1001 + 100 * number + 5 * place
            events += work(10 * number + place + 1, at, at + 20, 4)
    return text(events, deviceProperties=[{"id": 0, "name": "X"}])


def test_cut__only_whole_steps_count() -> None:
    """The step in which the file ends is left out, and of none it is said so."""
    data = long_trace()
    whole = kineto.read(source(data))
    cut = kineto.read(source(data[: int(len(data) * 0.8)]))
    assert (whole.steps, cut.steps) == (4, 3)
    assert ms(cut.avg_step_ms) == ms(whole.avg_step_ms)
    assert any("cut short" in note for note in cut.notes)
    early = kineto.read(source(data[: int(len(data) * 0.25)]))
    assert early.unusable is not None
    assert "no whole step" in early.unusable


@given(st.integers(0, len(long_trace())))
@settings(max_examples=60, deadline=None)
def test_cut__anywhere(place: int) -> None:
    """Every event before the cut is kept, and no number comes from half a step."""
    data = long_trace()[:place]
    profile = kineto.read(source(data))
    whole = data.count(b'"ph": "X"') - (not data.rstrip().endswith((b"}", b"]", b",")))
    if place < len(long_trace()) - 2:
        assert profile.capture["events"] >= whole - 1
        assert profile.unusable or profile.steps in (1, 2, 3, 4)
    if profile.unusable is None and profile.steps > 1:
        assert ms(profile.avg_step_ms) == 0.1


def in_blocks(events: list[Json], key: Callable[[Json], Any]) -> list[Json]:
    """The same events, those of one key together and each block by time."""
    return sorted(events, key=lambda each: (key(each), each["ts"]))


def buffers(events: list[Json]) -> list[Json]:
    """The host's first, and calls and the device's work in buffers that come in no order."""
    is_host = [each.get("cat") in ("cpu_op", "user_annotation") for each in events]
    host = [each for each, mine in zip(events, is_host, strict=True) if mine]
    rest = [each for each, mine in zip(events, is_host, strict=True) if not mine]
    size = len(rest) // 20 + 1
    pieces = [rest[place : place + size] for place in range(0, len(rest), size)]
    pieces[3::4], pieces[1::4] = (
        pieces[1 : len(pieces[3::4]) * 4 : 4],
        pieces[3::4] + (pieces[1::4][len(pieces[3::4]) :]),
    )
    return host + [each for piece in pieces for each in piece]


def order_of(kinds: str) -> Callable[[Json], Any]:
    ranks = {kind: place for place, kind in enumerate(kinds.split())}
    return lambda each: ranks.get(each.get("cat", ""), -1)


LAYOUTS: dict[str, Callable[[list[Json]], list[Json]]] = {
    "as it is collected": list,
    "by time": lambda events: in_blocks(events, lambda _: 0),
    "buffers": lambda events: buffers(in_blocks(events, lambda _: 0)),
    "by stream and thread": lambda events: in_blocks(
        events, lambda each: (each.get("cat") == "kernel", str(each["tid"]))
    ),
    "by stream, the device first": lambda events: in_blocks(
        events, lambda each: (each.get("cat") != "user_annotation", str(each["tid"]))
    ),
    "by kernel": lambda events: in_blocks(
        events, lambda each: each["name"] if each.get("cat") == "kernel" else ""
    ),
    "calls, copies, kernels": lambda events: in_blocks(
        events, order_of("cuda_runtime gpu_memcpy kernel")
    ),
    "calls, kernels, copies": lambda events: in_blocks(
        events, order_of("cuda_runtime kernel gpu_memcpy")
    ),
    "kernels, calls": lambda events: in_blocks(events, order_of("kernel gpu_memcpy cuda_runtime")),
    "kernels, calls by thread": lambda events: in_blocks(
        events,
        lambda each: (
            order_of("kernel gpu_memcpy cuda_runtime")(each),
            each["tid"] if each.get("cat") == "cuda_runtime" else 0,
        ),
    ),
    "operators last": lambda events: in_blocks(
        events, order_of("user_annotation cuda_runtime kernel gpu_memcpy python_function cpu_op")
    ),
    "modules last": lambda events: in_blocks(
        events, order_of("user_annotation cuda_runtime kernel gpu_memcpy cpu_op python_function")
    ),
    "annotations last": lambda events: in_blocks(
        events, order_of("cuda_runtime kernel gpu_memcpy cpu_op python_function user_annotation")
    ),
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """A trace of the benchmarks' generator: five steps of two layers on two streams."""
    path = tmp_path_factory.mktemp("generated") / "rank0.json"
    write_trace(path, 0, layers=4, steps=5)
    trace: Json = json.loads(path.read_text())
    return trace


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cut__gives_the_truth_or_nothing(generated: Json, layout: str, packed: bool) -> None:
    """However the text is ordered: no number comes from steps that lack events."""
    events = LAYOUTS[layout](generated["traceEvents"])
    data = json.dumps({**generated, "traceEvents": events}).encode()
    truth = numbers(kineto.read(source(data)))
    assert truth["steps"] == 5
    data = gzip.compress(data) if packed else data
    usable = 0
    for percent in range(5, 100, 5):
        profile = kineto.read(source(data[: len(data) * percent // 100]))
        if profile.unusable is not None:
            continue
        usable += 1
        measured = numbers(profile)
        assert 2 <= measured.pop("steps") <= 5, percent
        wanted = {key: truth[key] for key in measured}
        assert measured == pytest.approx(wanted, rel=0.01), percent
        assert any("cut short" in note for note in profile.notes)
    if layout in ("as it is collected", "by time"):
        assert usable > 1


def numbers(profile: Profile) -> dict[str, float]:
    """Every number of a step that there is, by its path."""
    found = {
        key: time for key, time in profile.model_dump().items() if isinstance(time, float | int)
    }
    found |= {f"phase {name}": phase.total_ms for name, phase in profile.phases.items()}
    found |= {f"op {name}": time for name, time in profile.ops.items()}
    found |= {f"kind {name}": time for name, time in profile.op_categories.items()}
    found |= {f"forward {each.layer}": each.fwd_ms for each in profile.per_layer}
    found |= {f"backward {each.layer}": each.bwd_ms for each in profile.per_layer}
    return found


def test_cut__only_steps_that_follow_each_other_count() -> None:
    """A period over a step that is left out would be that of two."""
    events = []
    for number in range(5):
        events.append(step(number, 1000 + 100 * number, 100))
        for place in range(3):
            at = 1010 + 100 * number + 10 * place
            events += work(10 * number + place + 1, at, at + 5, 9)
    without_one = [each for each in events if each.get("args", {}).get("correlation") != 12]
    profile = kineto.read(source(text(without_one)[:-3]))
    assert (profile.steps, ms(profile.avg_step_ms)) == (2, 0.1)
    assert any("left out 3 steps" in note for note in profile.notes)


def test_cut__one_whole_step_alone_is_no_measurement() -> None:
    """It has no period, and the host's span of it may be off by a fifth."""
    profile = kineto.read(source(text(three_steps()[:6])[:-3]))
    assert profile.unusable is not None
    assert "of 2 steps it is known of 1 " in profile.unusable


def test_cut__a_trace_of_which_no_device_is_told_may_have_had_one() -> None:
    """Only a list of no devices says that the host's part is all."""
    events = [each for number in range(4) for each in (step(number, 100 * number, 100),)]
    events += [op("aten::mm", 100 * number + 5, 50) for number in range(4)]
    assert kineto.read(source(text(events)[:-3])).unusable is not None
    known = kineto.read(source(text(events, deviceProperties=[])[:-3]))
    assert known.unusable is None
    assert (known.steps, ms(known.avg_step_ms)) == (3, 0.1)


def test_steps__where_a_mark_is_missing_none_follows() -> None:
    """The distance over it would be two steps' time."""
    events = [each for each in three_steps() if "#1" not in each["name"]]
    profile = read(events)
    assert profile.steps == 2
    assert ms(profile.avg_step_ms) == 0.1
    assert "none right after another" in profile.sources["avg_step_ms"]


def test_cut__gzip_gives_every_byte_that_is_there() -> None:
    """Then it says that it is cut."""
    data = gzip.compress(long_trace())
    chunks = source(data[:-5]).chunks()
    assert next(chunks) == long_trace()
    with pytest.raises(CutShortError):
        next(chunks)
    assert kineto.read(source(data[: len(data) * 3 // 4])).notes


def test_bomb__the_limit_is_stated() -> None:
    """What unpacks to more than the limit is refused before memory is full."""
    bomb = gzip.compress(b'{"traceEvents": [' + b" " * 30_000_000)
    with pytest.raises(BadInputError, match="--unpacked-limit"):
        kineto.read(ProfileSource("bomb", data=bomb, unpacked_limit=20_000_000))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_fuzz__nothing_crashes_the_reader(data: st.DataObject) -> None:
    """Whatever is cut out, doubled or overwritten: a profile, or a reason."""
    good = data.draw(st.sampled_from([long_trace(), text(two_layers()), text(annotated_step())]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(good)))
        removed = data.draw(st.integers(0, 60))
        noise = data.draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from([b'"', b"{", b"}", b"]", b"},{", b"\\", b"NaN", b"-1", b"1e999"]),
            )
        )
        good = good[:place] + noise + good[place + removed :]
    try:
        profile = kineto.read(InPieces("fuzz", data=good))
    except BadInputError:
        return
    assert profile.unusable or profile.avg_step_ms > 0


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([])
)


@given(st.lists(st.dictionaries(st.sampled_from(["ph", "cat", "ts", "dur", "args"]), scalars)))
@settings(max_examples=100, deadline=None)
def test_fuzz__fields_of_any_type(changes: list[Json]) -> None:
    """An event of the wrong types is dropped, or does not matter."""
    events = [{**step(1, 0, 100), **change} for change in changes]
    profile = kineto.read(source(text([*three_steps(), *events])))
    assert profile.unusable or profile.steps >= 1


# --- nothing to measure -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "no events"),
        ([{}], "neither kernels nor operators"),
        ([{"ph": "M", "name": "process_name", "args": {"name": "python"}}], "neither kernels"),
        ([step(1, 0, 100), call(1, 10), call(2, 20)], "CUPTI"),
        ([span("Trace", "PyTorch Profiler (0)", 0, 100)], "neither kernels nor operators"),
        ([step(1, 5, 0), op("aten::mm", 5, 0)], "took no time"),
    ],
)
def test_unusable__says_why(events: list[Json], reason: str) -> None:
    """A measurement that measured nothing is its own state."""
    profile = read(events)
    assert profile.unusable is not None
    assert reason in profile.unusable


@pytest.mark.parametrize("data", [b"[]", b"[", b'{"traceEvents": []}', b'{"schemaVersion": 1}'])
def test_unusable__without_events(data: bytes) -> None:
    """Empty in every form."""
    assert kineto.read(source(data)).unusable


def test_bounded__a_million_tiny_events_need_little_memory() -> None:
    """What is not needed of an event is forgotten with its piece of the text."""
    tiny = b",".join([b'{"ph":"X","ts":1,"dur":1}'] * 200_000)
    tracemalloc.start()
    trace = read_trace(source(b'{"traceEvents":[' + tiny + b"]}"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert trace.events == 200_000
    assert peak < 40_000_000


# --- categories and intervals -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("void elementwise_kernel<float, sqrt(...)::{lambda(float)#1}>", "elementwise"),
        ("void convert_kernel<float>", "other"),
        ("ncclDevKernel_AllGather_RING_LL", "comm"),
        ("void vllm::cross_device_reduce_1stage<float>", "comm"),
        ("void deep_ep::internode::combine<false>", "comm"),
        ("void x::ep::intranode::dispatch<8>", "comm"),
        ("nvshmem_putmem_nbi", "comm"),
        ("void multimem_all_reduce_kernel<16>", "comm"),
        *((name, "comm") for name in ("all-reduce.1", "reduce-scatter", "collective-permute.2")),
        *((name, "gemm") for name in ("dot.3", "dot_general.1", "dot_add_fusion")),
        ("void pytorch_flash::flash_fwd_kernel<64>", "attention"),
        ("attn_fwd", "attention"),
        ("void multi_tensor_apply_kernel<LAMBFunctor>", "optimizer"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "conv"),
        ("Cijk_Alik_Bljk_B_BS_BH_MT16x16", "gemm"),
        ("void layer_norm_grad_input_kernel<float>", "norm"),
        ("void softmax_warp_forward<float>", "softmax_loss"),
        ("void indexSelectLargeIndex<float>", "embedding"),
        ("void reduce_kernel<512, 1>", "reduce"),
        ("void CatArrayBatchedCopy<float>", "copy"),
        ("Memcpy DtoH (Device -> Pinned)", "memcpy"),
        ("Memset (Device)", "memset"),
        ("__amd_rocclr_fillBufferAligned", "memset"),
        ("__amd_rocclr_copyBuffer", "memcpy"),
        ("quantize_with_block_size<2, flashinfer::QuantizationSFLayout>", "elementwise"),
        ("void flashinfer::norm::RMSNormKernel<8u, __half>", "norm"),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<1>", "attention"),
        ("bwd_kernel_fuse", "attention"),
        ("void cuComputeGradGammaBeta<float, float, false>", "norm"),
        ("void cuComputePartGradGammaBeta<float, float, false>", "norm"),
        ("Im3d2Col", "conv"),
        ("void max_pool_forward_nchw<float, float>", "reduce"),
        ("void permute_pooled_embs_kernel<float>", "embedding"),
        ("rocprim::detail::radix_sort_block_sort_kernel<int>", "reduce"),
    ],
)
def test_category__of_names_that_lie(name: str, category: str) -> None:
    """Parts of a name may mean something else."""
    assert category_of(name) == category
    assert category in CATEGORIES


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("All2All_Pooled_Req", "comm"),
        ("c10d::alltoall_base_", "comm"),
        ("aten::linalg_vector_norm", "reduce"),
        ("LinalgVectorNormBackward0", "reduce"),
        ("aten::native_layer_norm", "norm"),
        ("NativeLayerNormBackward0", "norm"),
        ("aten::max_pool2d", "reduce"),
    ],
)
def test_category__of_operators_whose_names_lie(name: str, category: str) -> None:
    """Pooled embeddings are exchanged, and the norm of a vector normalises nothing."""
    assert category_of_operator(name) == category


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "h2d"),
        ("Memcpy DtoH (Device -> Pageable)", "d2h"),
        ("Memcpy DtoD (Device -> Device)", "d2d"),
        ("Memcpy PtoP (Device -> Device)", "d2d"),
        ("CopyDeviceToHost", "d2h"),
        ("Memcpy HtoH (Pinned -> Pinned)", None),
    ],
)
def test_category__of_copies(name: str, direction: str | None) -> None:
    """Vendors name directions differently."""
    assert memcpy_direction(name) == direction


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def ticks(intervals: list[Interval]) -> set[int]:
    return {tick for start, end in intervals for tick in range(int(start), int(end))}


@given(spans, spans)
def test_timeline__is_arithmetic_of_sets(first: list[Interval], second: list[Interval]) -> None:
    """Of every moment it is known whether it is in."""
    mine, others = union(first), union(second)
    assert ticks(mine) == ticks(first)
    assert length(mine) == len(ticks(first))
    assert ticks(intersection(mine, others)) == ticks(first) & ticks(second)
    assert ticks(subtract(mine, others)) == ticks(first) - ticks(second)
    assert mine == sorted(mine)


@given(spans, st.lists(st.integers(0, 40)))
def test_timeline__windows_answer_alike_one_by_one_and_in_a_row(
    intervals: list[Interval], times: list[float]
) -> None:
    """What is remembered of the last answer changes none."""
    windows = Windows(union(intervals))
    assert list(windows.places(times)) == [windows.at(time) for time in times]


# --- the generator of the benchmarks ------------------------------------------------------------


def test_generator__its_numbers_are_known(tmp_path: Path) -> None:
    """Steps, kernels, layers and tokens of a generated trace are those that were written."""
    path = tmp_path / "rank0.json"
    write_trace(path, 0, layers=8, steps=3)
    profile = kineto.read(ProfileSource(path.name, path=path))
    assert (profile.steps, len(profile.per_layer), profile.rank) == (3, 8, 0)
    assert profile.device_kernels_per_step == 8 * (10 + 14) + 1 + 2 + 8
    assert all(layer.bwd_ms > layer.fwd_ms > 0 for layer in profile.per_layer)
    assert set(profile.phases) == {"forward", "backward", "optimizer", "h2d"}
    assert ms(profile.op_categories["comm"]) == 0.36
    assert profile.capture["unattributed_gpu_events"] == 0


def real_training_traces() -> list[bytes]:
    names = ["a100_ddp_resnet_3step", "a100_dlrm_rank3of8_6step", "h800_deepseek_train_1step"]
    names += ["mi300_ddp_resnet_checkpoint_3step", "old2021_resnet50_workers0_6step"]
    return [gzip.decompress((SAMPLES / f"{name}.json.gz").read_bytes()) for name in names]


def test_generator__is_made_up_like_real_traces(tmp_path: Path) -> None:
    """Each group's share, and the bytes of an event, lie within what real traces show."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no samples in {SAMPLES}: set CI_SCORE_SHARED")
    path = tmp_path / "trace.json"
    write_trace(path, 0, layers=16, steps=2)
    kinds = re.compile(rb'"cat": "(\w+)"')
    mine = [each.decode() for each in kinds.findall(path.read_bytes())]
    real = [
        (data, [each.decode() for each in kinds.findall(data)]) for data in real_training_traces()
    ]
    shares = [make_up(names) for _, names in real]
    for group, share in make_up(mine).items():
        of_real = [each.get(group, 0.0) for each in shares]
        assert min(of_real) * 0.7 <= share <= max(of_real) * 1.3, (group, share, of_real)
    sizes = [len(data) / len(names) for data, names in real]
    assert min(sizes) <= path.stat().st_size / len(mine) <= max(sizes)


def test_benchmark__a_trace_made_long_is_as_sound_as_before(tmp_path: Path) -> None:
    """More steps of the same work, each launch with its own kernel."""
    once, long = tmp_path / "once.json", tmp_path / "long.json"
    write_trace(once, 0, layers=2, steps=3)
    sample = tmp_path / "once.json.gz"
    sample.write_bytes(gzip.compress(once.read_bytes()))
    steps = taken_apart(sample).write(long, 5 * once.stat().st_size // 2)
    before, after = (kineto.read(ProfileSource(path.name, path=path)) for path in (once, long))
    assert steps == after.steps == 9
    assert after.device_kernels_per_step == before.device_kernels_per_step
    assert after.capture["unattributed_gpu_events"] == 0
    assert after.phases.keys() == before.phases.keys()


# --- real traces --------------------------------------------------------------------------------

EXPECTED: Json = json.loads((SAMPLES / "expected.json").read_text()) if SAMPLES.is_dir() else {}
# Where our category is the better one: the kernels, what they were counted as, and why.
BETTER = (
    (r"scudnn_winograd|cask_cudnn::computeWgrad", "conv", ""),
    (r"scudnn.*split", "gemm", "cuDNN's convolutions; its splitK is part of one"),
    (r"scudnn|cask_cudnn", "other", "cuDNN's convolutions"),
    (r"cutlass_cudnn.*ReduceSplitK", "gemm", "the end of a convolution"),
    (r"bwd_weight", "gemm", "the weight gradient of a convolution"),
    (r"fbgemm|FBGEMM", "gemm", "FBGEMM is the library that embeds, permutes and quantises"),
    (r"GammaBetaBackward|RowwiseMoments", "other", "the two ends of LayerNorm"),
    (r"permute_pooled_embs|bounds_check_indices", "other", "part of FBGEMM's embedding"),
    (r"indexFuncLargeIndex.*ReduceAdd", "reduce", "index_add, the gradient of a lookup"),
    (r"indexing_backward", "other", "the gradient of an indexing"),
    (r"gatherTopK", "embedding", "a selection, that looks nothing up"),
    (r"topk_sum", "other", "a selection"),
    (r"^bmm_", "other", "TensorRT-LLM's batched matrix products"),
    (r"rotary_embedding", "embedding", "a rotation, that looks nothing up"),
    (r"reshape_and_cache_flash", "attention", "a write into a cache"),
    (r"cast_and_transpose", "copy", ""),
    (r"rotary|swiglu|cast_(to_fp8|back)|fp8_quant", "other", "arithmetic of each element"),
    (r"NLLCriterion", "other", "a loss, by its old name"),
    (r"GradGammaBeta", "other", "the gradient of LayerNorm"),
    (r"max_pool", "other", "a reduction of windows"),
    (r"quantize_with_block_size", "attention", "FlashInfer's quantisation"),
)


def sample(name: str) -> Profile:
    path = next(SAMPLES.glob(f"{name}.json*"))
    return kineto.read(ProfileSource(path.name, path=path))


def theirs(name: str) -> str:
    """The category of a name where ours are the better ones undone."""
    for pattern, category, _ in BETTER:
        if re.search(pattern, name):
            return category
    return category_of(name)


def close(value: Any, rounded: float = 6e-5) -> Any:
    """What is within 0.1 %, or within what the expected numbers were rounded by."""
    return pytest.approx(value, rel=1e-3, abs=rounded)


def category_totals(name: str) -> dict[str, float]:
    """The sums of a whole capture by full names, as they were counted."""
    path = next(SAMPLES.glob(f"{name}.json*"))
    trace = read_trace(ProfileSource(path.name, path=path))
    names, device = list(trace.names), trace.device
    totals: dict[str, float] = {}
    columns = zip(device.names, device.kinds, device.starts, device.ends, strict=True)
    for number, kind, start, end in columns:
        category = (theirs(names[number]), "memcpy", "memset")[kind]
        totals[category] = totals.get(category, 0.0) + (end - start) / 1_000_000
    return totals


@pytest.mark.skipif(not EXPECTED, reason=f"no samples in {SAMPLES}: set CI_SCORE_SHARED")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_samples__numbers_hold(name: str) -> None:
    """Every per-step number of a real trace is within 0.1 % of the one worked out otherwise."""
    profile, expected = sample(name), EXPECTED[name]
    # Of a trace without any marker the whole capture is one step, and says so.
    assert profile.steps == (expected["steps"] or 1)
    step_ms = expected["avg_step_ms_gpu_end_to_end"] or expected["host_step_ms"]
    if step_ms:
        assert profile.avg_step_ms == close(step_ms)
    if attributed := expected["per_step_attributed"]:
        numbers = {
            "device_busy_ms": profile.device_busy_ms,
            "compute_ms": profile.compute_ms,
            "communication_ms": profile.communication_ms,
            "exposed_communication_ms": profile.exposed_communication_ms,
            "device_kernels": profile.device_kernels_per_step,
            "kernel_launches": profile.kernel_launches_per_step,
        }
        wanted = {key: value for key, value in attributed.items() if key in numbers}
        assert numbers == close(wanted)
        ours = profile.op_categories
        total = sum(attributed["op_categories"].values())
        assert sum(ours.values()) == close(total, 6e-4)
        for category in ("comm", "optimizer", "memcpy", "memset"):
            want = attributed["op_categories"].get(category, 0.0)
            assert ours.get(category, 0.0) == close(want)
        for key in ("unattributed_gpu_events", "graph_launched_kernels"):
            assert profile.capture[key] == expected[key]
    for key, value in (expected["capture_totals"] or {}).items():
        if key == "ops_ms_total":
            assert category_totals(name) == close(value, 1e-3)
        else:
            assert profile.capture[key] == close(value, 6e-3)


@pytest.mark.skipif(not EXPECTED, reason=f"no samples in {SAMPLES}: set CI_SCORE_SHARED")
def test_samples__what_others_get_wrong() -> None:
    """DeepEP communicates for 113 ms, and three steps are three, of 18.77 ms."""
    assert sample("h800_deepseek_train_1step").communication_ms == pytest.approx(113.03, rel=1e-3)
    steps = sample("mi300_ddp_resnet_checkpoint_3step")
    assert steps.steps == 3
    assert steps.avg_step_ms == pytest.approx(18.77, rel=1e-3)
