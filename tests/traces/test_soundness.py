"""What makes a capture broken: each limit from both sides, and no real file beyond one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from ci_score.compare import Workload, measured_case
from ci_score.model.profile import Profile, Remedy
from ci_score.model.reasons import Why
from ci_score.model.stages import CaseInput
from ci_score.model.verdict import Unjudged, unjudged
from ci_score.report.reproducing import what_would_tell
from ci_score.report.terminal import report_text
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents
from ci_score.traces.engine.launch_calls import MOST_CALLS, Call, LaunchCalls, blocks_of
from ci_score.traces.engine.soundness import Doubts, doubts_of_copies, doubts_of_events
from ci_score.traces.formats import kineto, read_profile
from ci_score.traces.source import ProfileSource
from tests.builders import case, found, record
from tests.builders.traces.jax import DEVICE, event, name_of
from tests.builders.traces.jax import source as jax_source
from tests.builders.traces.kineto import (
    GEMM,
    MAIN,
    Json,
    annotation,
    call,
    copy,
    kernel,
    op,
    source,
    span,
    step,
    text,
    work,
)
from tests.builders.verdicts import judged_case

SHARED = Path(os.environ.get("CI_SCORE_SHARED", Path(__file__).parents[3] / "shared"))
FOLDERS = ("kineto", "nsight", "jax", "rocprof")


def read(events: list[Json], **metadata: Any) -> Profile:
    return kineto.read(source(text(events, **metadata)))


def training(steps: int = 5, kernels: int = 20, dur: float = 20.0) -> list[Json]:
    """Steps of 1000 us on the device, enqueued in 500."""
    events = []
    for number in range(steps):
        events.append(step(number, 1000 + 500 * number, 500))
        for place in range(kernels):
            correlation = 1 + number * kernels + place
            at = 1010 + 500 * number + 20 * place
            events += work(correlation, at, 1100 + 1000 * number + 40 * place, dur)
    return events


def kernels_of(events: list[Json]) -> list[Json]:
    return [each for each in events if each["cat"] == "kernel"]


def calls_of(events: list[Json]) -> list[Json]:
    return [each for each in events if each["cat"] == "cuda_runtime"]


def has_note(profile: Profile, words: str) -> bool:
    return any(words in note for note in profile.notes)


# What is broken -> what would settle it.
BROKEN: dict[str, tuple[Callable[[], Profile], str]] = {
    "lost kernels": (
        lambda: read([each for each in training() if each not in kernels_of(training())[10:20]]),
        "a profile of fewer steps at once",
    ),
    "records twice": (
        lambda: read([*training(), *kernels_of(training())]),
        "the file as the profiler wrote it, neither joined nor converted",
    ),
    "calls with the numbers of others": (
        lambda: read([*training(), *calls_of(training())]),
        "the profile of each process in a file of its own, as its profiler wrote it",
    ),
    "calls in another unit": (
        lambda: read([{**each, "dur": 0.001} if each in calls_of(training()) else each
                      for each in training()]),
        "the file as the profiler wrote it, neither joined nor converted",
    ),
    "a device that was not seen": (
        lambda: read([each for each in training() if each not in kernels_of(training())]),
        "a profile of some steps that has the device's work",
    ),
    "a cut file": (
        lambda: kineto.read(source(text(training())[:6000])),
        "a whole file: let the profiler end before the job does, and upload it then",
    ),
    "nothing": (lambda: read([]), "a profile of some steps that has the device's work"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken__says_what_would_settle_it(name: str) -> None:
    """The program did not crash, and its log says nothing of that."""
    make, settles = BROKEN[name]
    profile = make()
    assert profile.unusable
    one = measured_case(CaseInput("training", profile), Workload())
    judged = judged_case(one, found(case()))
    assert judged.verdict
    assert judged.verdict.unjudged is Unjudged.NOTHING_MEASURED
    said = " ".join(report_text(record(judged)).split())
    assert said.startswith(f"Not judged: {profile.unusable}"[:60])
    assert f"What would give a verdict: {settles}." in said
    assert "crash" not in said


def test_broken__each_remedy_has_its_words() -> None:
    """And where no reader knows one, nothing else is promised."""
    said = {}
    for remedy in (*get_args(Remedy), None):
        why = Why.UNUSABLE(words="why", remedy=remedy)
        said[remedy] = what_would_tell(unjudged(Unjudged.NOTHING_MEASURED, why), record())
    assert said.pop(None) == "a profile that can be used"
    assert "a profile that can be used" not in said.values()
    assert len(set(said.values())) == len(said)


# --- calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lost", "is_judged"), [(2, True), (3, False)])
def test_launches__without_work(lost: int, is_judged: bool) -> None:
    """Two of a hundred may be lost, and are told; with more the device's times are too short."""
    events = training()
    gone = kernels_of(events)[10 : 10 + lost]
    profile = read([each for each in events if each not in gone])
    words = f"{lost} of 100 launches have no work"
    assert (profile.unusable is None) == is_judged
    assert has_note(profile, words) == is_judged
    assert (words in (profile.unusable or "")) != is_judged


def test_launches__of_a_graph_that_is_captured_run_later() -> None:
    """They have no work then, and nothing is broken."""
    extra = [call(900 + n, 1001 + n / 10) for n in range(30)]
    begin = call(899, 1000.5, name="cudaStreamBeginCapture")
    assert read([*training(), *extra]).unusable
    profile = read([*training(), begin, *extra])
    assert profile.unusable is None
    assert has_note(profile, "30 of 130 launches have no work on the device: graphs were captured")


def test_launches__of_functions_of_the_host_start_no_kernel() -> None:
    """A program may launch any number of them."""
    extra = [call(900 + n, 1001 + n / 10, name="cudaLaunchHostFunc") for n in range(30)]
    profile = read([*training(), *extra])
    assert profile.unusable is None
    assert not has_note(profile, "no work")


def test_launches__copies_that_were_lost_are_told() -> None:
    """Their time is missing in a phase of its own."""
    calls = [call(900 + n, 1001 + n, name="cudaMemcpyAsync") for n in range(3)]
    profile = read([*training(), *calls, copy(900, 1090, 5)])
    assert profile.unusable is None
    assert has_note(profile, "2 of 3 calls that copy have no copy on the device")


@pytest.mark.parametrize(
    ("us", "is_judged"), [(0.1, False), (0.3, True), (400.0, True), (600.0, False)]
)
def test_launches__take_as_long_everywhere(us: float, is_judged: bool) -> None:
    """Their median tells the unit; a few launches may load what they launch."""
    events = training()
    for each in calls_of(events):
        each["dur"] = us
    assert (read(events).unusable is None) == is_judged
    few = training(steps=1, kernels=5)
    for each in calls_of(few):
        each["dur"] = us
    assert read(few).unusable is None


def test_launches__of_graphs_are_not_timed() -> None:
    """One of them starts hundreds of kernels, and takes as long."""
    events = training()
    for each in calls_of(events):
        each |= {"name": "cudaGraphLaunch", "dur": 900.0}
    assert read(events).unusable is None


def test_calls__with_the_number_of_another_one() -> None:
    """Two processes of a container have the same number, and their launches, too."""
    events = training()
    others = [{**each, "ts": each["ts"] + 33_333} for each in calls_of(events)]
    reason = read([*events, *others[:2]]).unusable
    assert reason is None
    reason = read([*events, *others]).unusable or ""
    assert "100 of 200 calls of the runtime have the correlation id of another one" in reason


@pytest.mark.parametrize("cat", ["cuda_runtime", "cpu_op", "Operator"])
def test_processes__of_a_merged_trace_are_refused(cat: str) -> None:
    """Two numbers among the calls, or among the operators, are two processes."""
    own = [op("aten::mm", 1005, 3), *training()]
    other = {**span(cat, "cudaLaunchKernel", 1007, 2, MAIN, correlation=999), "pid": 77}
    same = {**span("python_function", "a frame", 1007, 2), "pid": 0}
    mark = {**annotation("forward", 1007, 2), "pid": 8}
    if cat == "Operator":
        own = [{**each, "cat": "Operator"} if each["cat"] == "cpu_op" else each for each in own]
    assert read([*own, same, mark]).unusable is None
    assert "several processes (77, 9)" in (read([*own, other]).unusable or "")


def launches(*numbers: int, name: str = "cudaLaunchKernel") -> list[Call]:
    return [Call(10 * number, 10 * number + 5, number, name) for number in numbers]


def work_of(*numbers: int) -> DeviceEvents:
    events = DeviceEvents()
    for each in numbers:
        events.add(100 * each, 100 * each + 9, 1, 7, each, 10 * each)
    return events


def test_launches__of_a_window_may_run_before_or_after_it() -> None:
    """A capture of some time has no work of its last launches; one in the middle is lost."""
    calls = LaunchCalls()
    calls.add(launches(*range(10)), [work_of(3, 4), work_of(6)])
    assert (calls.kernels, calls.without_work) == (4, 1)
    calls.add(launches(20, 21), [work_of(3)])
    assert (calls.kernels, calls.without_work) == (4, 1)


def test_launches__of_copies_are_all_lost_where_none_is_there() -> None:
    """Their table is missing then, whatever was launched."""
    calls = LaunchCalls()
    calls.add(launches(1, 2, 3, name="hipMemcpyAsync"), [work_of(9)])
    assert (calls.copies, calls.without_copy) == (3, 3)


def test_launches__of_many_some_stretches_are_looked_at() -> None:
    """From the first row to the last, and no row twice."""
    assert blocks_of(MOST_CALLS) == [(0, MOST_CALLS)]
    blocks = blocks_of(1_000_000)
    assert (blocks[0][0], blocks[-1][1]) == (0, 1_000_000)
    assert sum(last - first for first, last in blocks) == MOST_CALLS
    assert blocks == sorted(blocks)


# --- events -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("twice", "is_judged"), [(1, True), (2, False)])
def test_events__that_are_there_twice(twice: int, is_judged: bool) -> None:
    """One of two hundred, whatever its number: a file that holds more holds all twice."""
    events = training(steps=10)
    again = kernels_of(events)[7 : 7 + twice]
    more = [{**each, "args": {**each["args"], "correlation": 0}} for each in again]
    profile = read([*events, *more])
    assert (profile.unusable is None) == is_judged
    assert has_note(profile, f"{twice} device event of {200 + twice} are there twice") == is_judged


def test_events__of_no_duration_may_meet() -> None:
    """An old profiler counts whole microseconds."""
    events = training()
    short = [kernel(each["args"]["correlation"], 1100, 0) for each in kernels_of(events)]
    assert not doubled(read([*events, *short]))


def doubled(profile: Profile) -> bool:
    return "there twice" in (profile.unusable or "")


def lane(rows: list[tuple[int, int, int, int]]) -> DeviceEvents:
    """Events of (start, end, name, stream)."""
    events = DeviceEvents()
    for start, end, name, stream in sorted(rows):
        events.add(start, end, name, stream, UNKNOWN, UNKNOWN)
    return events


def overlapping(share: float, by: float, count: int = 200) -> DeviceEvents:
    """Events of which a share begins when a part of the one before is still to run."""
    time = round(100 / (1 - by))
    early = round(count * share)
    return lane(
        [
            (
                100 * n if n <= early else 1000 * n,
                100 * n + time if n <= early else 1000 * n + time,
                n,
                7,
            )
            for n in range(count)
        ]
    )


@pytest.mark.parametrize(
    ("share", "by", "is_judged"),
    [(0.2, 0.9, True), (0.3, 0.6, False), (0.3, 0.4, True), (0.95, 0.1, True)],
)
def test_events__of_a_stream_run_one_after_the_other(
    share: float, by: float, is_judged: bool
) -> None:
    """New devices start the next a little early, however often; by half of it they never do."""
    doubts = doubts_of_events(overlapping(share, by))
    assert (doubts.reason is None) == is_judged
    assert bool(doubts.notes) == is_judged


def test_events__of_several_streams_may_overlap() -> None:
    """That is what streams are for."""
    rows = [(100 * n, 100 * n + 100, stream, stream) for n in range(50) for stream in (1, 2)]
    assert doubts_of_events(lane(rows)) == Doubts()


def test_events__of_few_none_is_too_many() -> None:
    """Three events that overlap are no measure."""
    assert doubts_of_events(lane([(10 * n, 100, n, 1) for n in range(4)])).reason is None


def test_events__of_many_stretches_are_looked_at() -> None:
    """A file of which the second half was put together from two is broken, too."""
    half = [(200 * n, 200 * n + 100, 1, 7) for n in range(100_000)]
    other = [(200 * n, 200 * n + 180, 1 + n % 2, 7) for n in range(100_000, 150_000)]
    mixed = [(start + 50, end, name, 7) for start, end, name, _ in other]
    assert doubts_of_events(lane(half)).reason is None
    assert "overlap" in (doubts_of_events(lane([*half, *other, *mixed])).reason or "")


def test_events__of_another_stream_or_device_are_copies() -> None:
    """Whatever the streams are called: two kernels do not begin and end at the same nanosecond."""
    rows = [(17 * n, 17 * n + 9, n % 5, 1) for n in range(200)]
    others = [(start, end, name, 2) for start, end, name, _ in rows]
    assert "another stream" in (doubts_of_events(lane([*rows, *others])).reason or "")
    assert "device" in (doubts_of_copies([lane(rows), lane(others)]).reason or "")
    later = [(start + 1, end + 1, name, 2) for start, end, name, _ in rows]
    assert doubts_of_copies([lane(rows), lane(later)]).reason is None


def test_events__of_large_captures_are_compared_in_part() -> None:
    """The same part of both, wherever they stand."""
    rows = [(17 * n, 17 * n + 9, n % 5, 1) for n in range(50_000)]
    assert doubts_of_copies([lane(rows), lane(rows)]).reason
    later = [(start + 1, end + 1, name, 1) for start, end, name, _ in rows]
    assert doubts_of_copies([lane(rows), lane(later)]).reason is None


# --- steps --------------------------------------------------------------------------------------


def test_steps__that_are_shorter_than_the_work_in_them() -> None:
    """Two steps whose work runs at the same time are no steps of the device."""
    events = []
    for number in range(4):
        events.append(step(number, 1000 + 100 * number, 100))
        for place in range(3):
            at, stream = 1010 + 100 * number + place, 7 + number
            correlation = 1 + 3 * number + place
            events.append(call(correlation, at))
            begin = 2000 + 10 * number + 1000 * place
            events.append(kernel(correlation, begin, 900, GEMM, stream))
    assert "times as long as its steps take" in (read(events).unusable or "")


def test_steps__of_the_host_may_end_before_their_work() -> None:
    """It is told, and the rest stands."""
    profile = read([step(1, 1000, 100), *work(1, 1010, 1020, 120)])
    assert profile.unusable is None
    assert has_note(profile, "the device is busy for 1.20 times as long as the host's step takes")


def test_steps__must_hold_most_where_a_name_only_sounds_like_one() -> None:
    """`eval step` marks a corner of the run; the rest of it is what takes time."""
    events = [annotation("eval step", 1000 + 50 * n, 40) for n in range(3)]
    for number in range(3):
        events += work(number + 1, 1010 + 50 * number, 1020 + 50 * number, 10)
    for number in range(10):
        events += work(100 + number, 2000 + 50 * number, 2100 + 50 * number, 40)
    assert "eval step" not in read(events).sources["steps"]
    assert "eval step" in read(events[:9]).sources["steps"]


def test_steps__a_repeated_unit_must_hold_most_of_the_time() -> None:
    """Many short kernels that repeat beside a long one of another stream are no steps."""
    events = []
    for number in range(12):
        for place, name in enumerate(("a", "b", "c")):
            correlation = 1 + 3 * number + place
            at = 1000 + 30 * number + 10 * place
            events += work(correlation, at, at + 5, 2, name)
    assert "repeats 12 times" in read(events).sources["steps"]
    long = [call(500, 990), kernel(500, 996, 2000, "c", 9)]
    profile = read([*events, *long])
    assert "no work repeats" in profile.sources["steps"]


def test_steps__are_looked_for_on_the_stream_that_computes() -> None:
    """Small kernels or copies that repeat on another stream are more, and hold hardly any time."""
    events = []
    for number in range(60):
        at = 1000 + 40 * number
        small = (
            kernel(2 * number + 1, at + 3, 1, "a", 9),
            kernel(2 * number + 2, at + 13, 1, "b", 9),
        )
        events += [call(2 * number + 1, at), call(2 * number + 2, at + 10), *small]
    for number in range(24):
        at = 1000 + 100 * number
        name = "ab"[number * number % 7 % 2]
        events += [call(500 + number, at), kernel(500 + number, at + 4, 60 + number, name)]
    assert "repeats 60 times" not in read(events).sources["steps"]


# --- other formats ------------------------------------------------------------------------------


def test_devices__of_one_name_in_several_planes() -> None:
    """Hosts number their devices alike: their work is not one device's."""
    events = [event("fusion", 10 * n + 1, 3, DEVICE, 17) for n in range(4)]
    other = [
        name_of("process_name", "/device:GPU:0", 200),
        name_of("thread_name", "Stream #17(Kernel)", 200, 17),
    ]
    assert read_profile(jax_source(*events)).unusable is None
    unused = read_profile(jax_source(*events, *other))
    assert unused.unusable is None
    both = read_profile(jax_source(*events, *other, event("fusion", 90, 3, 200, 17)))
    assert "several devices are called /device:GPU:0" in (both.unusable or "")


def test_ops__of_a_line_may_hold_others() -> None:
    """A loop on a TPU's line of ops is as long as its body."""
    line = name_of("thread_name", "XLA Ops", DEVICE, 3)
    events = [event("while", 10 * n, 9, DEVICE, 3) for n in range(6)]
    events += [
        event(f"fusion.{part}", 10 * n + 3 * part, 3, DEVICE, 3)
        for n in range(6)
        for part in range(3)
    ]
    assert read_profile(jax_source(line, *events)).unusable is None


# --- real files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS)
def test_samples__none_is_refused(folder: str) -> None:
    """Real files lie far from each limit."""
    files = sorted(
        path for path in (SHARED / "samples" / folder).glob("*") if "expected" not in path.name
    )
    if not files:
        pytest.skip(f"no {SHARED / 'samples' / folder}")
    reasons = {
        path.name: read_profile(ProfileSource(path.name, path=path)).unusable for path in files
    }
    assert {name: reason for name, reason in reasons.items() if reason} == {}
