"""Why a device did nothing: gaps, and what the host did in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.profile import Profile
from ci_score.traces.engine import gaps
from ci_score.traces.engine.device_events import UNKNOWN, DeviceEvents
from ci_score.traces.engine.gaps import HostActivity, idle_time
from ci_score.traces.formats import kineto
from ci_score.traces.source import ProfileSource

US = 1000


def device(*events: tuple[int, int, int]) -> DeviceEvents:
    """Events as (start, end, launched at), in microseconds."""
    columns = DeviceEvents()
    for start, end, launched_at in events:
        launched = UNKNOWN if launched_at == UNKNOWN else launched_at * US
        columns.add(start * US, end * US, 0, 0, 0, launched)
    return columns


def causes(events: DeviceEvents, host: HostActivity = HostActivity()) -> dict[str, float]:  # noqa: B008 - frozen
    found = idle_time(events, [(0, 10_000 * US)], host, US)
    return {cause: ticks / US for cause, ticks in found.causes.items() if ticks}


def spans(*pairs: tuple[int, int]) -> list[tuple[float, float]]:
    return [(start * US, end * US) for start, end in pairs]


def test_idle__late_launches_are_the_host_s() -> None:
    """What starts right after its launch had nothing before it in the queue."""
    assert causes(device((0, 100, 0), (400, 500, 390))) == {"launching": 300.0}


def test_idle__what_queued_has_no_cause() -> None:
    """A kernel that was launched long before waits for something else: another stream, an event."""
    assert causes(device((0, 100, 0), (400, 500, 10))) == {}


def test_idle__without_launches_nothing_is_known() -> None:
    """A gap before work whose launch is not in the trace has no cause."""
    assert causes(device((0, 100, 0), (400, 500, UNKNOWN))) == {}


def test_idle__after_a_synchronisation() -> None:
    """The host was inside a waiting call when the device ran out of work."""
    host = HostActivity(waits=spans((50, 110)))
    assert causes(device((0, 100, 0), (400, 500, 390)), host) == {"synchronisation": 300.0}


def test_idle__data_takes_its_part_of_a_gap() -> None:
    """Only what the data loader covers is its, the rest of the gap is told by how it ended."""
    host = HostActivity({"data": spans((150, 350), (300, 360))})
    found = causes(device((0, 100, 0), (400, 500, 390)), host)
    assert found == {"data": 210.0, "launching": 90.0}


def test_idle__the_device_s_own_pauses_do_not_count() -> None:
    """Between two kernels there is always a microsecond."""
    assert causes(device((0, 100, 0), (101, 200, 99))) == {}


def test_idle__only_within_the_periods() -> None:
    """Before the first step's end and after the last's is no time of a step."""
    events = device((0, 100, 0), (400, 500, 390), (900, 1000, 890))
    found = idle_time(events, [(500 * US, 1000 * US)], HostActivity(), US)
    assert found.causes["launching"] == 400 * US


def test_idle__of_a_step_by_the_host_s_clock_ends_with_it() -> None:
    """Its first and last gap may be parts of longer ones."""
    events = device((100, 200, 90), (900, 1000, 890))
    found = idle_time(events, [(50 * US, 700 * US)], HostActivity(), US)
    assert found.causes["launching"] == (50 + 500) * US


def test_idle__of_very_many_gaps_the_longest_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest of more is left out, and those that are as short."""
    monkeypatch.setattr(gaps, "MOST_GAPS", 2)
    ends = [(0, 100), (130, 200), (240, 300), (350, 400)]
    assert causes(device(*((start, end, start - 10) for start, end in ends))) == {"launching": 50.0}


def test_idle__of_nothing() -> None:
    """No events, no gaps."""
    assert causes(DeviceEvents()) == {}


@given(
    times=st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(-50, 50)), max_size=20
    ),
    data=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 500)), max_size=5),
    waits=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 500)), max_size=5),
)
def test_idle__causes_never_exceed_the_gaps(
    times: list[tuple[int, int, int]], data: list[tuple[int, int]], waits: list[tuple[int, int]]
) -> None:
    """No moment has two causes, and none lies outside the gaps."""
    clock, events = 0, []
    idle = 0
    for gap, lasts, ahead in times:
        idle += gap
        clock += gap
        events.append((clock, clock + lasts, clock - ahead))
        clock += lasts
    host = HostActivity(
        {"data": spans(*((start, start + size) for start, size in data))},
        spans(*((start, start + size) for start, size in waits)),
    )
    found = causes(device(*events), host)
    assert all(ms >= 0 for ms in found.values())
    assert sum(found.values()) <= idle + 1e-6


# --- by the name of what the host did -----------------------------------------------------------


def named(
    *ranges: tuple[int, int, str], launches: tuple[int, ...] = (90, 1390)
) -> dict[str, float]:
    """The names of a gap from 200 to 1400, before a kernel that was launched at 1390."""
    host = HostActivity(
        launches=[time * US for time in launches],
        ranges=sorted((start * US, end * US, name) for start, end, name in ranges),
    )
    found = idle_time(device((100, 200, 90), (1400, 1500, 1390)), [(0, 10_000 * US)], host, US)
    return {name: ticks / US for name, ticks in found.ranges.items()}


def test_idle__has_the_name_of_the_range_that_fills_it() -> None:
    """All of the gap: it is the reason that nothing was launched before."""
    assert named((250, 1300, "tokenize")) == {"tokenize": 1200.0}
    assert named((100, 1390, "tokenize")) == {"tokenize": 1200.0}


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (250, 849, "covers less than half of it"),
        (85, 1300, "began before the launch before"),
        (250, 1395, "ends after the next launch"),
        (1390, 1400, "begins with the next launch"),
    ],
)
def test_idle__has_no_name_of_what_does_not_fill_it(start: int, end: int, why: str) -> None:
    """Between two launches, and at least half of the gap."""
    assert named((start, end, why)) == {}


def test_idle__has_the_name_of_the_outermost_range() -> None:
    """Of those within each other the first that covers most."""
    found = named((250, 1300, "outer"), (250, 1300, "same"), (300, 1200, "inner"))
    assert found == {"outer": 1200.0}
    assert named((150, 1350, "outer"), (260, 1250, "inner")) == {"outer": 1200.0}


def test_idle__is_named_between_launches_only() -> None:
    """A launch in the middle, even of work that never ran, ends what the range can explain."""
    assert named((250, 1300, "tokenize"), launches=(90, 700, 1390)) == {}


def test_idle__of_very_many_ranges_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest gaps first: a stranger's trace may have a million ranges between two launches."""
    monkeypatch.setattr(gaps, "_LOOKED_AT", 9)
    few = [(250 + place, 1300, f"range {place}") for place in range(9)]
    assert named(*few) == {"range 0": 1200.0}
    assert named(*few, (300, 1200, "one more")) == {}


# --- a trace of the PyTorch profiler ------------------------------------------------------------

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
GEMM = "ampere_sgemm_128x64_nn"


def event(cat: str, name: str, ts: float, dur: float, **args: int) -> dict[str, object]:
    tid = 7 if cat == "kernel" else 1
    return {"ph": "X", "cat": cat, "name": name, "tid": tid, "ts": ts, "dur": dur, "args": args}


def step_of_host(begin: float, number: int) -> list[dict[str, object]]:
    """Loads data for 400 us, launches three kernels, waits for them, and launches a fourth late."""
    calls = [
        ("cudaLaunchKernel", begin + 410 + 10 * place, 5, number * 10 + place) for place in range(3)
    ]
    calls += [("cudaStreamSynchronize", begin + 450, 265, 1000 + number)]
    calls += [("cudaLaunchKernel", begin + 800, 5, number * 10 + 3)]
    kernels = [(GEMM, begin + 420, 90), (ADD, begin + 510, 100), (ADD, begin + 610, 100)]
    kernels += [(GEMM, begin + 810, 90)]
    return [
        event("user_annotation", f"ProfilerStep#{number}", begin, 1000),
        event("user_annotation", "enumerate(DataLoader)#next", begin + 5, 400),
        event("user_annotation", "forward", begin + 405, 100),
        *(event("cuda_runtime", name, ts, dur, correlation=of) for name, ts, dur, of in calls),
        *(
            event("kernel", name, ts, dur, correlation=number * 10 + place, device=0)
            for place, (name, ts, dur) in enumerate(kernels)
        ),
    ]


def read(events: list[dict[str, object]]) -> Profile:
    data = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    return kineto.read(ProfileSource("trace.json", data=data))


def test_kineto__tells_what_the_host_did_in_the_gaps() -> None:
    """From the end of one step's work to the next's: 100 us of work's tail, data, a wait."""
    profile = read([each for number in range(3) for each in step_of_host(1000.0 * number, number)])
    causes = {cause: round(ms, 6) for cause, ms in profile.idle_causes.items()}
    assert causes == {"data": 0.4, "synchronisation": 0.1, "launching": 0.12}
    assert profile.sources["idle_causes"]


def test_kineto__counts_ops_by_phase_in_the_order_of_the_step() -> None:
    """Two additions and a product are launched in the forward, a product behind it."""
    profile = read([each for number in range(3) for each in step_of_host(1000.0 * number, number)])
    assert list(profile.op_counts.items()) == [(GEMM, 2.0), (ADD, 2.0)]
    assert profile.op_kinds == {GEMM: "gemm", ADD: "elementwise"}
    counts = {(place.phase, place.op): place.count for place in profile.op_places}
    assert counts == {("forward", GEMM): 1.0, ("forward", ADD): 2.0, (None, GEMM): 1.0}


def test_kineto__another_thread_s_waiting_is_no_cause() -> None:
    """A thread that launches nothing may wait for as long as it likes."""
    events = [each for number in range(3) for each in step_of_host(1000.0 * number, number)]
    for each in events:
        if each["name"] == "cudaStreamSynchronize":
            each["tid"] = 5
    assert "synchronisation" not in read(events).idle_causes


def waiting(*host: dict[str, object], launched: str = "cudaLaunchKernel") -> Profile:
    """Two steps: after a kernel of 50 us the device waits for 1800 us, in which the host does so.

    A thread that is not the launching one has the number 5.
    """
    return read(
        [
            event("user_annotation", "ProfilerStep#1", 0, 1000),
            event("user_annotation", "ProfilerStep#2", 1000, 1000),
            event("cuda_runtime", launched, 40, 5, correlation=1),
            event("kernel", GEMM, 50, 50, correlation=1, device=0),
            event("cuda_runtime", launched, 1895, 5, correlation=2),
            event("kernel", GEMM, 1900, 50, correlation=2, device=0),
            *host,
        ]
    )


def test_kineto__names_a_gap_by_an_annotation_or_an_operator() -> None:
    """Of the thread that launches; the profile has milliseconds of a step."""
    for kind in ("user_annotation", "cpu_op"):
        profile = waiting(event(kind, "tokenize", 200, 1600))
        assert profile.idle_causes == pytest.approx({"launching": 1.8})
        assert profile.idle_ranges == pytest.approx({"tokenize": 1.8})


@pytest.mark.parametrize(
    ("kind", "name", "cause"),
    [
        ("user_annotation", "enumerate(DataLoader)#next", "data"),
        ("cuda_runtime", "cudaMalloc", "allocation"),
        ("user_annotation", "_compile.compile_inner (dynamo_timed)", "compilation"),
    ],
)
def test_kineto__what_has_a_cause_needs_no_name(kind: str, name: str, cause: str) -> None:
    """Data, allocation and compilation keep theirs."""
    profile = waiting(event(kind, name, 150, 1700))
    assert profile.idle_causes == pytest.approx({cause: 1.7, "launching": 0.1})
    assert profile.idle_ranges == {}


def test_kineto__a_wait_needs_no_name() -> None:
    """The host was inside a call that waits, so what it did then says nothing."""
    wait = event("cuda_runtime", "cudaDeviceSynchronize", 60, 60)
    profile = waiting(wait, event("user_annotation", "tokenize", 200, 1600))
    assert profile.idle_causes == pytest.approx({"synchronisation": 1.8})
    assert profile.idle_ranges == {}


@pytest.mark.parametrize(
    "other",
    [
        {**event("user_annotation", "tokenize", 200, 1600), "tid": 5},
        {**event("cpu_op", "aten::copy_", 200, 1600), "tid": 5},
        event("user_annotation", "nccl:all_reduce", 200, 1600),
        event("user_annotation", "PyTorch Profiler (0)", 200, 1600),
        event("user_annotation", "epoch", 200, 1600, step_num=4),
        event("python_function", "tokenize", 200, 1600),
    ],
    ids=["another thread", "its operator", "a library", "the profiler", "a step", "a stack"],
)
def test_kineto__what_keeps_nobody_from_launching_names_no_gap(other: dict[str, object]) -> None:
    """Nor a step or what a library writes for itself."""
    assert waiting(other).idle_ranges == {}


def test_kineto__where_one_of_several_steps_ran_kernels_idle_time_is_a_mean_over_all() -> None:
    """As the step's time and all of its work."""
    profile = read(
        [
            event("user_annotation", "ProfilerStep#1", 0, 1000),
            event("user_annotation", "ProfilerStep#2", 1000, 1000),
            event("cuda_runtime", "cudaLaunchKernel", 40, 5, correlation=1),
            event("kernel", GEMM, 50, 50, correlation=1, device=0),
            event("cuda_runtime", "cudaLaunchKernel", 2500, 5, correlation=2),
            event("kernel", GEMM, 2510, 50, correlation=2, device=0),
        ]
    )
    assert (profile.steps, profile.device_kernels_per_step) == (2, 0.5)
    assert profile.idle_causes == pytest.approx({"launching": (0.05 + 1.9) / 2})
