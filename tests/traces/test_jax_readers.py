"""What JAX writes: trace.json of the Chrome form, and the XSpace protobuf beside it."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces.engine.sources import source_of
from ci_score.traces.formats import jax_trace, xplane
from ci_score.traces.source import ProfileSource
from tests.builders import shared
from tests.builders.traces.jax import (
    DEVICE,
    HOST,
    Event,
    Plane,
    event,
    field,
    name_of,
    planes,
    source,
    space,
    varint,
    work,
)

# --- trace.json ---------------------------------------------------------------------------------


def read(*events: Event) -> Profile:
    return jax_trace.read(source(*events))


def test_jax__is_known_by_its_planes() -> None:
    """A trace of PyTorch has the same shape and other names."""
    assert jax_trace.recognises(source(*work()).head())
    assert not jax_trace.recognises(b'{"schemaVersion": 1, "traceEvents": [{"cat": "kernel"}]}')
    assert not jax_trace.recognises(b'["/host:CPU"]')


def test_jax__steps_of_the_device() -> None:
    """The device's own line of steps is best."""
    steps = [event(str(step), step * 10, 9, DEVICE, 1) for step in range(3)]
    profile = read(*work(), *steps)
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert profile.sources["steps"] == "the device's line 'Steps'"
    assert profile.compute_ms == pytest.approx(3.0)
    assert profile.communication_ms == pytest.approx(2.0)
    assert profile.phases["h2d"].total_ms == pytest.approx(1.0)
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (2, 2)


def test_jax__what_the_user_calls_a_step_comes_first() -> None:
    """Before the device's own line of steps, and without a number of its own."""
    ranges = [event("my_loop", step * 20, 19, HOST, 1) for step in range(2)]
    steps = [event(str(step), step * 10, 9, DEVICE, 1) for step in range(3)]
    asked = replace(source(*work(), *steps, *ranges), step_name=re.compile("my_loop"))
    assert jax_trace.read(asked).sources["steps"] == "annotations 'my_loop', as asked for"


def test_jax__annotated_steps_own_what_they_launched() -> None:
    """Not what ran meanwhile: the host is ahead."""
    steps = [event("train", step * 4, 3, HOST, 1, step_num=str(step)) for step in range(3)]
    copies = [each for each in work() if each["name"] != "MemcpyH2D"]
    profile = read(*copies, *steps)
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert profile.device_kernels_per_step == 2
    assert profile.sources["steps"] == "annotations 'train' with a step_num"


def test_jax__work_that_repeats_without_marks() -> None:
    """The unit of the device's own work; of the last, a copy follows, the end is not known."""
    events = [{**each, "name": each["name"].partition("_reduce")[0]} for each in work(6)]
    profile = read(*events)
    assert profile.steps == 5
    assert profile.avg_step_ms == pytest.approx(10.0)


def test_jax__calls_of_a_compiled_function() -> None:
    """Where nothing else marks a step; a call nested in a call of its name is the same call."""
    calls = [event("PjitFunction(step)", step * 4, 3, HOST, 1) for step in range(3)]
    nested = [event("PjitFunction(step)", step * 4 + 0.1, 2, HOST, 1) for step in range(3)]
    profile = read(*work(), *calls, *nested)
    assert (profile.steps, profile.sources["steps"]) == (3, "calls of PjitFunction(step)")


def lines_of(profile: Profile) -> dict[tuple[str | None, int | None], tuple[float, float]]:
    """Forward and backward milliseconds of each line."""
    code = profile.code
    assert code is not None
    return {
        (code.definitions[one.definition].file, one.line): (
            one.work.forward_ms,
            one.work.backward_ms,
        )
        for one in code.lines
    }


def test_jax__lines_by_the_ops_own_source() -> None:
    """An op names its line; what was transposed for gradients is of the backward pass."""
    steps = [event(str(step), step * 10, 9, DEVICE, 1) for step in range(2)]
    places = [("forward", 1, 2), ("backward", 4, 3), ("untold", 7, 1)]
    told: dict[str, dict[str, str]] = {
        "forward": {"source": "/srv/my model/train.py:12", "tf_op": "jit(step)/jvp(Net)/dot"},
        "backward": {"source": "/srv/my model/train.py:12", "tf_op": "jit(step)/transpose(jvp)"},
        "untold": {"source": "not a line"},
    }
    ops = [
        event(name, step * 10 + at, ms, DEVICE, 17, **told[name])
        for step in range(2)
        for name, at, ms in places
    ]
    profile = read(*steps, *ops)
    assert lines_of(profile) == {("/srv/my model/train.py", 12): (2.0, 3.0)}
    assert profile.code is not None
    assert (profile.code.total_ms, profile.code.without_line_ms) == (6.0, 1.0)
    assert (profile.code.found_by, profile.code.paths) == ("source fields", "trace")
    assert not profile.code.knows_lines


def test_jax__lines_by_the_devices_line_of_source_code() -> None:
    """What runs while that line names a place comes from there."""
    profile = read(*[event(str(step), step * 10, 9, DEVICE, 1) for step in range(3)], *work())
    [(line, (forward, backward))] = lines_of(profile).items()
    assert (line, backward) == (("train.py", 12), 0.0)
    assert forward == pytest.approx(6.0)


def test_jax__no_lines_where_none_are_told() -> None:
    """A trace without lines has no table of them."""
    events = [each for each in work() if each["tid"] != 2]
    assert read(*events).code is None


def test_xplane__lines_told_by_an_event_or_once_for_all_of_its_name() -> None:
    """An event's own line comes first; a text may be the name of another stat."""
    device = Plane("/device:GPU:0")
    device.line("Steps", *((str(step), step * 10 + 2, 9.0, {}) for step in range(2)))
    own = {"source": "/srv/own.py:7"}
    device.line(
        "Stream #17(Kernel)",
        *(("gemm", step * 10 + 2, 2.0, own if step else {}) for step in range(2)),
    )
    named = field(1, device.stats["source"]) + field(7, 99)
    device.message += field(5, field(1, 99) + field(2, field(1, 99) + field(2, "of_all.py:3")))
    gemm = device.events["gemm"]
    of_all = field(1, gemm) + field(2, "gemm") + field(5, named)
    device.message += field(4, field(1, gemm) + field(2, of_all))
    profile = xplane.read(ProfileSource("x.xplane.pb", data=space(device)))
    assert lines_of(profile) == {("of_all.py", 3): (1.0, 0.0), ("/srv/own.py", 7): (1.0, 0.0)}


def test_xplane__of_an_event_with_endless_stats_the_first_are_kept() -> None:
    """Two bytes in the file would be a hundred in memory, of each of a hundred million."""
    device = Plane("/device:GPU:0")
    device.line("Steps", *((str(step), step * 10 + 2, 9.0, {}) for step in range(2)))
    many = {f"of no use {number}": "" for number in range(64)}
    told = ({**many, "source": "/srv/late.py:7"}, {"source": "/srv/own.py:7", **many})
    device.line(
        "Stream #17(Kernel)", *(("gemm", step * 10 + 2, 2.0, told[step]) for step in range(2))
    )
    profile = xplane.read(ProfileSource("x.xplane.pb", data=space(device)))
    assert lines_of(profile) == {("/srv/own.py", 7): (1.0, 0.0)}


@pytest.mark.parametrize(
    "text", ["", "x", ":3", "a.py:0", "a.py:-1", "a\x00.py:1", "a.py:12345678"]
)
def test_source_of__no_line_of_what_is_none(text: str) -> None:
    """A stranger's text becomes no path with control characters and no impossible line."""
    assert source_of(text, "") is None
    assert source_of("a" * 500 + ".py:1", "") is None


TPU = 200
TPU_LINES = {1: "Steps", 2: "XLA Modules", 3: "XLA Ops", 4: "XLA TraceMe"}


def tpu(*lines: int, steps: int = 3) -> list[Event]:
    """Each step of 10 ms: a program of 8 ms with a product, an all-reduce and a loop; another.

    Only the given lines of the device are there.
    """
    events = [name_of("process_name", "/device:TPU:0", TPU)]
    events += [name_of("thread_name", TPU_LINES[line], TPU, line) for line in lines]
    for step in range(steps):
        at = 10 * step
        all_of_them = [
            event(str(step), at, 9.5, TPU, 1),
            event("jit_train_step(123)", at, 8, TPU, 2),
            event("jit_evaluate(7)", at + 8, 1, TPU, 2),
            event("%dot.3 = f32[8] dot(%all-reduce.9, %b)", at, 3, TPU, 3),
            event("all-reduce.1", at + 3, 2, TPU, 3),
            event("while.2", at + 5, 3, TPU, 3),
            *(event("fusion.4", at + 5 + turn, 0.9, TPU, 3) for turn in range(3)),
            event("fusion.8", at + 8, 1, TPU, 3),
            event("barrier-cores", at, 0.1, TPU, 4),
        ]
        events += [each for each in all_of_them if each["tid"] in lines]
    return events


def test_jax__on_a_tpu_the_steps_are_the_device_s() -> None:
    """Its line of steps is best; what a loop does is in its body, and counts once."""
    profile = read(*tpu(1, 2, 3, 4))
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert profile.sources["steps"] == "the device's line 'Steps'"
    assert profile.ops == pytest.approx(
        {"dot.3": 3.0, "all-reduce.1": 2.0, "fusion.4": 2.7, "fusion.8": 1.0}
    )
    assert profile.op_counts["fusion.4"] == 3
    assert (profile.op_kinds["dot.3"], profile.op_kinds["all-reduce.1"]) == ("gemm", "comm")
    assert profile.communication_ms == pytest.approx(2.0)
    assert profile.compute_ms == pytest.approx(6.7)


def test_jax__on_a_tpu_the_longest_program_is_the_step() -> None:
    """Where no line lists steps; other programs' work is told to be in none."""
    profile = read(*tpu(2, 3))
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert profile.sources["steps"] == "'jit_train_step(123)' on the device's line 'XLA Modules'"
    assert "fusion.8" not in profile.ops
    assert any("3 device events of 18 belong to no step" in note for note in profile.notes)


def test_jax__a_device_whose_lines_are_not_read_is_named() -> None:
    """Never a step of the CPU beside it; where another device is read it is a note."""
    alone = read(*tpu(1, 2, 4), event("train", 0, 9, HOST, 1, step_num="1"))
    assert alone.unusable is not None
    assert "3 events of '/device:TPU:0 XLA TraceMe'" in alone.unusable
    beside = read(*tpu(4), *work())
    assert beside.unusable is None
    assert any("3 events of '/device:TPU:0 XLA TraceMe'" in note for note in beside.notes)


def test_jax__a_line_of_ops_beside_streams_counts_once() -> None:
    """It says the same again, by the names that XLA gave it."""
    named = name_of("thread_name", "XLA Ops", DEVICE, 3)
    again = [event("all-reduce.1", step * 10 + 4, 2, DEVICE, 3) for step in range(3)]
    with_ops, without = read(*work(), named, *again), read(*work())
    assert with_ops.ops == without.ops
    assert with_ops.capture["gpu_busy_ms"] == without.capture["gpu_busy_ms"]


def test_jax__an_op_that_holds_little_is_an_op() -> None:
    """A mark within it is no body of a loop; nor is the same record twice."""
    events = tpu(1, 3)
    marks = [event("mark", 10 * step + 1, 0.1, TPU, 3) for step in range(3)]
    assert read(*events, *marks).ops["dot.3"] == pytest.approx(3.0)
    twice = [each for each in events if each["name"] == "fusion.8"]
    assert read(*events, *twice).op_counts["fusion.8"] == 2


def test_jax__on_a_cpu_times_are_the_hosts() -> None:
    """No device: steps by their starts, operations by their threads, no invented device time."""
    events = [event("train", step * 8, 7, HOST, 1, step_num=step) for step in range(4)]
    events += [event("dot.3", step * 8 + 1, 2, HOST, 3, hlo_op="dot.3") for step in range(4)]
    profile = read(*events)
    assert (profile.steps, profile.avg_step_ms) == (4, 8.0)
    assert profile.ops == {"dot.3": pytest.approx(2.0)}
    assert profile.device_busy_ms is None
    assert any("no work of a device" in note for note in profile.notes)


def test_jax__neither_device_nor_steps_is_unusable() -> None:
    """Host events alone measure nothing."""
    assert read(event("main", 0, 5, HOST)).unusable is not None


def test_jax__a_capped_trace_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX stops at a million events without a word."""
    monkeypatch.setattr(jax_trace, "CAPPED_AT", 20)
    assert any("a million at most" in note for note in read(*work()).notes)
    monkeypatch.setattr(jax_trace, "CAPPED_AT", 1000)
    assert not any("a million at most" in note for note in read(*work()).notes)


def test_jax__impossible_times_are_counted() -> None:
    """Negative durations and numbers that are no times; the rest counts."""
    bad = [event("x", 1, -1, DEVICE, 17), event("x", 1e300, 1, DEVICE, 17)]
    profile = read(*work(), *bad)
    assert "2 events with a negative or impossible time" in profile.notes
    assert profile.capture["gpu_busy_ms"] == pytest.approx(18.0)


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [',
        '{"traceEvents": 3}',
        '{"traceEvents": [{}}',
        "[" * 100_000,
    ],
)
def test_jax__what_is_no_trace(text: str) -> None:
    """An error that names the file."""
    with pytest.raises(BadInputError, match=r"j\.json"):
        jax_trace.read(ProfileSource("j.json", data=text.encode()))


# --- xplane.pb ----------------------------------------------------------------------------------


def read_space(data: bytes) -> Profile:
    return xplane.read(ProfileSource("t.xplane.pb", data=data))


def test_xplane__is_known_by_its_first_plane() -> None:
    """By the wire and a name, not by the file's."""
    assert xplane.recognises(space(*planes()))
    assert xplane.recognises(space(Plane("/host:metadata")))
    assert not xplane.recognises(space(Plane("something else")))
    assert not xplane.recognises(b"\n\n\n\n")
    assert not xplane.recognises(b'{"traceEvents": []}')


def test_xplane__steps_own_what_they_launched() -> None:
    """The annotation's window is the host's; the time is the device's."""
    profile = read_space(space(*planes()))
    assert (profile.steps, profile.avg_step_ms) == (3, 10.0)
    assert profile.device_busy_ms == pytest.approx(4.0)
    assert profile.ops == {"gemm": pytest.approx(4.0)}
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (2, 2)
    assert profile.tool == "JAX profiler (xplane)"


def test_xplane__gzip_is_unpacked() -> None:
    """Packed or not, the same."""
    data = space(*planes())
    assert read_space(gzip.compress(data)) == read_space(data)


def test_xplane__times_since_the_epoch_fit() -> None:
    """A line may count from 1970: picoseconds since then are more than 64 bits."""
    only_late = Plane("/device:GPU:0")
    late = field(3, 1_771_595_639_214_724_894)
    line = field(1, 9) + field(2, "Stream #2") + late
    for name in ("a", "b"):
        line += field(
            4,
            field(1, only_late._id(only_late.events, 4, name)) + field(2, 10**9) + field(3, 10**9),
        )
    only_late.message += field(3, line)
    assert read_space(space(only_late)).capture["gpu_busy_ms"] == pytest.approx(1.0)


def test_xplane__the_peak_is_taken_where_it_is_one() -> None:
    """XLA's formula is right for NVIDIA's memory; AMD's moves twice as much."""
    for vendor, peak in (("Nvidia", 3352.32), ("AMD", None)):
        device, host = planes()
        device.own("device_vendor", vendor).own("memory_bandwidth", 3_352_320_000_000)
        profile = read_space(space(device, host))
        assert profile.peak_bandwidth_gb_s == peak
        assert any("not the peak" in note for note in profile.notes) is (peak is None)


def test_xplane__many_devices() -> None:
    """The slowest speaks, and their number is told."""
    fast, host = planes()
    slow = Plane("/device:GPU:1").line(
        "Stream #17(Kernel)",
        *(("gemm", step * 12 + 2, 2.0, {"correlation_id": step * 2}) for step in range(3)),
    )
    profile = read_space(space(fast, slow, host))
    assert (profile.avg_step_ms, profile.accelerator_count) == (12.0, 2)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(space(planes()[0])[:-20], id="cut short"),
        pytest.param(field(1, b"\xff" * 11), id="a number without end"),
        pytest.param(field(1, field(3, 7)), id="a number for a line"),
        pytest.param(varint(1 << 3 | 2) + varint(2**62), id="a length beyond the end"),
        pytest.param(field(1, b"\x0b"), id="a group"),
        pytest.param(field(1, field(2, "/device:GPU:0") + field(4, field(2, 3))), id="metadata"),
    ],
)
def test_xplane__damage_is_named(damage: bytes) -> None:
    """An error that says what is wrong with the bytes."""
    with pytest.raises(BadInputError, match="cut short or damaged"):
        read_space(damage)


def test_xplane__nothing_in_it_is_unusable() -> None:
    """No planes, or none with events."""
    assert read_space(b"").unusable is not None
    assert read_space(space(Plane("/host:CPU"))).unusable is not None


def test_xplane__impossible_times_are_counted() -> None:
    """A negative duration, and an offset of a century."""
    device, host = planes()
    device.line("Stream #18", ("a", 3.0, -1.0, {}), ("b", 4e12, 1.0, {}))
    notes = read_space(space(device, host)).notes
    assert "2 events with a negative or impossible time" in notes


def test_xplane__objects_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bytes of a file can ask for an object of a hundred."""
    monkeypatch.setattr(xplane, "MOST_ENTRIES", 10)
    with pytest.raises(BadInputError, match="more than 10 entries"):
        read_space(field(1, field(3, b"") * 20))
    monkeypatch.setattr(xplane, "MOST_EVENTS", 3)
    with pytest.raises(BadInputError, match="more than 3 events"):
        read_space(field(1, field(3, field(4, b"") * 20)))


@given(st.integers(0, 2**64 - 1))
def test_xplane__numbers_read_back(number: int) -> None:
    """All of 64 bits."""
    assert list(xplane.fields(memoryview(field(5, number)))) == [(5, number)]


# --- the samples --------------------------------------------------------------------------------


def sample(name: str) -> ProfileSource:
    folder = shared()
    path = folder / "samples" / "jax" / name if folder else None
    if path is None or not path.exists():
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    return ProfileSource(name, path)


def test_samples__jax_on_a_cpu() -> None:
    """Ten steps, by the starts of their annotations; operations as a plain loop adds them."""
    profile = jax_trace.read(sample("jax010_cpu.trace.json.gz"))
    events = json.loads(sample("jax010_cpu.trace.json.gz").whole())["traceEvents"]
    starts = [each["ts"] for each in events if each.get("name") == "train"]
    assert profile.steps == len(starts) == 10
    assert profile.avg_step_ms == pytest.approx((starts[-1] - starts[0]) / 9 / 1000)
    # When the last step ends is not known, so neither its time counts nor its operations.
    ops = sum(
        each["dur"]
        for each in events
        if "hlo_op" in each.get("args", {}) and each["ts"] < starts[-1]
    )
    assert sum(profile.ops.values()) == pytest.approx(ops / 9 / 1000, rel=0.001)


def test_samples__a_convolution_on_eight_mi300() -> None:
    """Five runs of five kernels on each of eight devices; no number of AMD's peak is believed."""
    profile = xplane.read(sample("mi300_conv.xplane.pb"))
    assert (profile.steps, profile.accelerator_count) == (5, 8)
    assert (profile.device_kernels_per_step, profile.kernel_launches_per_step) == (5, 5)
    assert profile.peak_bandwidth_gb_s is None
    # The device's 25 kernels, decoded and added by hand.
    assert profile.capture["gpu_busy_ms"] == pytest.approx(3.345845, rel=0.001)
    assert profile.avg_step_ms == pytest.approx(27.8088, rel=0.001)
