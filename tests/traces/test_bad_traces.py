"""Files as jobs that were killed, disks that were full and strangers leave them, of every format.

What is whole in them counts, what is missing is said, and no number comes out of half a step.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from ci_score.cli import execute
from ci_score.errors import BadInputError
from ci_score.model.profile import Profile
from ci_score.traces import damaged_json
from ci_score.traces.damaged_json import CUT_SHORT, mended, up_to_the_last_whole_record
from ci_score.traces.engine import repeats
from ci_score.traces.engine import steps as engine_steps
from ci_score.traces.formats import FORMATS, nsight, read_profile
from ci_score.traces.source import UNPACKED_LIMIT, ProfileSource
from tests.builders.traces import jax, kineto
from tests.builders.traces import rocprof as rocm
from tests.builders.traces.valid_files import valid_files

FILES = valid_files()


def read(data: bytes, unpacked_limit: int = UNPACKED_LIMIT) -> Profile:
    return read_profile(ProfileSource("a/file", data=data, unpacked_limit=unpacked_limit))


def read_or_reason(data: bytes) -> Profile | str:
    try:
        return read(data)
    except BadInputError as error:
        return str(error)


def said(profile: Profile, words: str) -> bool:
    return any(words in note for note in profile.notes)


def numbers(profile: Profile) -> Profile:
    """What is said of a step; beside it stand notes and sums of the whole run."""
    return profile.but(notes=(), capture={})


def test_files__each_row_reads_its_own() -> None:
    """The files that are damaged here are whole: each is known by its row, and measured."""
    assert list(FILES) == [row.name for row in FORMATS]
    for name, data in FILES.items():
        source = ProfileSource("a/file", data=data)
        assert next(row.name for row in FORMATS if row.recognises(source.head())) == name
        assert read(data).unusable is None


# --- truncated ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_truncated__is_refused_or_says_so(name: str, packed: bool) -> None:
    """Wherever the file ends: a reason, or a profile with a note, or not a number less."""
    data = FILES[name]
    whole = read(data)
    file = gzip.compress(data) if packed else data
    for place in range(1, 24):
        found = read_or_reason(file[: len(file) * place // 24])
        if isinstance(found, str):
            assert "a/file" in found
            continue
        words = ("cut short", "ends before", "neither layers nor ops")
        is_told = found.unusable or any(said(found, each) for each in words)
        # In the file's last bytes there may be nothing that counts.
        assert is_told or numbers(found) == numbers(whole), place


@pytest.mark.parametrize("name", ["jax-trace", "rocprof", "xplane"])
def test_truncated__what_is_whole_is_shown_and_not_used(name: str) -> None:
    """Events do not stand in the order of time, so any step may lack some."""
    data = FILES[name]
    # Of an XSpace the last plane is the host's.
    found = read(data[: len(data) * (95 if name == "rocprof" else 99) // 100])
    assert found.unusable == CUT_SHORT
    assert found.capture["kernels"] > 0


def test_truncated__of_a_trace_the_last_whole_record_is_the_last() -> None:
    """Half a record is none, and lists that are closed stay so."""
    for text, closed in (
        ('{"a": [{"x": 1}, {"x": 2}, {"x"', '{"a": [{"x": 1}, {"x": 2}]}'),
        ('[{"a": [{"x": 1}], "b": [{"y": "]}', '[{"a": [{"x": 1}]}]'),
        ('[{"x": "}"}, {"x": "\\"', '[{"x": "}"}]'),
    ):
        found = up_to_the_last_whole_record(text.encode())
        assert found == closed.encode()
        assert json.loads(closed)
    for text in ('{"a": [', '{"a": 1', "[1, 2", "", "[{}]", "[}", "[" * 9999):
        assert up_to_the_last_whole_record(text.encode()) is None


# --- text that is no JSON -----------------------------------------------------------------------

# What is written into the name of a kernel, or beside a number.
IN_A_NAME = {
    "a raw newline": b"\n",
    "a control character": b"\x07",
    "a bad escape": b"C:\\Windows\\",
    "bad UTF-8": b"\xff\xfe",
}
NO_NUMBERS = {"NaN": b"NaN", "Infinity": b"-Infinity"}
PLACES = {
    "kineto": (b'"name": "ampere', b'"tid": '),
    "jax-trace": (b'"name": "loop_gemm', b'"tid": '),
    "rocprof": (b'"formatted_kernel_name": "Cijk', b'"pid": '),
}


def damaged(name: str, damage: str) -> bytes:
    in_name, before_number = PLACES[name]
    if damage in IN_A_NAME:
        return FILES[name].replace(in_name, in_name + IN_A_NAME[damage], 1)
    return FILES[name].replace(before_number, b'"x": ' + NO_NUMBERS[damage] + b", " + before_number)


@pytest.mark.parametrize("damage", [*IN_A_NAME, *NO_NUMBERS])
@pytest.mark.parametrize("name", PLACES)
def test_broken_text__is_mended_and_told(name: str, damage: str) -> None:
    """Profilers write names as they come: not one event is lost, and no number changes."""
    data = damaged(name, damage)
    assert data != FILES[name]
    found, whole = read(data), read(FILES[name])
    assert said(found, "mended")
    assert found.unusable is None
    assert (found.steps, found.avg_step_ms) == (whole.steps, whole.avg_step_ms)
    assert found.device_busy_ms == whole.device_busy_ms
    assert found.device_kernels_per_step == whole.device_kernels_per_step


@pytest.mark.parametrize("damage", [b"\n", b"\\q", b"\xff", b'", "x": NaN, "y": "'])
@pytest.mark.parametrize(
    "name",
    [
        "normalised",
        "canary",
        "parity-profile",
        "apr",
        "step-profiler",
        "trainer-state",
        "reference",
    ],
)
def test_broken_text__of_a_small_file_is_refused_with_its_place(name: str, damage: bytes) -> None:
    """A profile of a few numbers is whole or none; NaN may be where Python writes it for a loss."""
    data = FILES[name].rstrip()[:-1] + b', "said": "' + damage + b'"}'
    found = read_or_reason(data)
    if isinstance(found, str):
        assert "a/file" in found
    else:
        assert numbers(found) == numbers(read(FILES[name]))


def test_mended__only_what_is_wrong_changes() -> None:
    """What JSON knows stays as it is, escapes and all."""
    right = b'{"a\\\\": "\\u00e9\\ud83d\\ude00\\"\\n", "NaN": [1.5, null, "NaN"]}'
    assert mended(right) == (right, 0)
    assert mended(b'["\t\\q", NaN, -Infinity, "\\ude00\\\\"]') == (
        b'["\\u0009\\\\q", null, null, "\\ufffd\\\\"]',
        5,
    )


def test_jax__events_that_are_none_are_dropped_and_counted() -> None:
    """A text where a number belongs costs its event and no other."""
    whole = json.loads(FILES["jax-trace"])
    whole["traceEvents"] += [3, {"ph": "X", "ts": "soon"}, {"ph": "X", "args": {"name": []}}]
    found = read(json.dumps(whole).encode())
    assert said(found, "dropped 3 events")
    assert found.device_busy_ms == read(FILES["jax-trace"]).device_busy_ms


def test_kineto__the_text_nan_is_no_time() -> None:
    """An event that is mended may have texts for numbers, and this one is none."""
    events = json.loads(FILES["kineto"])
    events["traceEvents"].append({**kineto.kernel(1, 1100, 5), "dur": "nan"})
    found = read(json.dumps(events).encode())
    assert said(found, "dropped 1 event")
    assert found.device_busy_ms == read(FILES["kineto"]).device_busy_ms


# --- other shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kineto", "jax-trace"])
def test_list__of_events_alone_is_read(name: str) -> None:
    """Chrome's other form: no object around the events."""
    events = json.loads(FILES[name])["traceEvents"]
    bare = json.dumps([event for event in events if event]).encode()
    found, whole = read(bare), read(FILES[name])
    assert (found.steps, found.avg_step_ms) == (whole.steps, whole.avg_step_ms)
    assert found.device_busy_ms == whole.device_busy_ms
    cut = read(bare[: len(bare) // 2])
    assert cut.unusable == CUT_SHORT or said(cut, "cut short")


def no_device(name: str) -> bytes:
    """The file without anything that ran on a device."""
    trace = json.loads(FILES[name])
    if name == "rocprof":
        trace["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = []
    elif name == "kineto":
        trace["traceEvents"] = [kineto.step(n, 1000 + 100 * n, 100) for n in range(3)] + [
            kineto.op("aten::mm", 1010 + 100 * n, 50) for n in range(3)
        ]
    else:
        trace["traceEvents"] = [each for each in trace["traceEvents"] if each.get("pid") != 100]
    return json.dumps(trace).encode()


@pytest.mark.parametrize("name", PLACES)
def test_cpu_only__invents_no_device(name: str) -> None:
    """Times of the host with a note, or nothing with a reason."""
    found = read(no_device(name))
    assert found.unusable or said(found, "times are those of the host")
    assert found.device_busy_ms is None
    assert found.device_kernels_per_step is None
    assert found.peak_bandwidth_gb_s is None


def test_cpu_only__of_other_formats() -> None:
    """An XSpace without a device, a database without kernels."""
    host = read(jax.space(jax.planes()[1]))
    assert said(host, "no work of a device")
    assert host.device_busy_ms is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"schemaVersion": 1, "traceEvents": []}', id="kineto"),
        pytest.param(b'{"metadata":{"highres-ticks":true},"traceEvents":[{"ph":"M"}]}', id="jax"),
        pytest.param(b'[{"ph":"M","name":"process_name","args":{"name":"/host:CPU"}}]', id="[]"),
        pytest.param(b'{"rocprofiler-sdk-tool": []}', id="rocprof"),
        pytest.param(
            b'{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}}]}', id="rocprof metadata"
        ),
        pytest.param(jax.space(jax.Plane("/device:GPU:0")), id="xplane"),
    ],
)
def test_no_events__is_a_state_with_a_reason(data: bytes) -> None:
    """Nothing at all, or nothing but metadata: not measured, and no error of the user's."""
    found = read(data)
    assert found.unusable
    assert not found.measured_something


def test_no_correlation__work_counts_where_it_ran() -> None:
    """Without launches an event belongs to the step in which it ran; in none it is counted."""
    trace = json.loads(FILES["jax-trace"])
    for each in trace["traceEvents"]:
        each.get("args", {}).pop("correlation_id", None)
    records = json.loads(FILES["rocprof"])
    del records["rocprofiler-sdk-tool"][0]["buffer_records"]["hip_api"]
    for found in (read(json.dumps(trace).encode()), read(json.dumps(records).encode())):
        assert found.steps > 0
        assert found.capture["unattributed_gpu_events"] > 0
        assert said(found, "belong to no step")


def test_negative_durations__are_left_out_and_counted() -> None:
    """Of every list of events; what is left is the same."""
    trace = json.loads(FILES["jax-trace"])
    trace["traceEvents"].append(jax.event("gemm", 5, -1, jax.DEVICE, 17))
    records = json.loads(FILES["rocprof"])
    dispatches = records["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    dispatches.append(rocm.dispatch(5, -1))
    events = json.loads(FILES["kineto"])
    events["traceEvents"].append(kineto.kernel(1, 1100, -5))
    for name, damage in (("jax-trace", trace), ("rocprof", records), ("kineto", events)):
        found, whole = read(json.dumps(damage).encode()), read(FILES[name])
        assert found.device_busy_ms == whole.device_busy_ms
        assert any(
            "1 " in note and ("left out" in note or "negative" in note) for note in found.notes
        )


def test_overlapping_steps__share_no_work() -> None:
    """A launch in two steps belongs to the later; one step within another is none."""
    trace = json.loads(FILES["jax-trace"])
    trace["traceEvents"].append(jax.event("train", 4.1, 2, 1, 1, step_num="7"))
    for each in trace["traceEvents"]:
        if each.get("name") == "train":
            each["dur"] *= 1.5
    records = json.loads(FILES["rocprof"])
    for each in records["rocprofiler-sdk-tool"][0]["buffer_records"]["marker_api"]:
        each["end_timestamp"] += 500_000
    for name, damage in (("jax-trace", trace), ("rocprof", records)):
        found, whole = read(json.dumps(damage).encode()), read(FILES[name])
        assert found.steps == whole.steps
        assert found.device_kernels_per_step == whole.device_kernels_per_step


# --- too much -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_bomb__ends_at_the_limit_that_it_states(name: str) -> None:
    """Thirty megabytes of nothing in thirty kilobytes: refused before they are in memory."""
    if name == "nsight":
        data = FILES[name] + bytes(32 * 1024**2)
    else:
        data = FILES[name] + b" " * 32 * 1024**2
    bomb = gzip.compress(data)
    del data
    tracemalloc.start()
    try:
        with pytest.raises(BadInputError, match=r"more than 0\.00195312 GiB .*--unpacked-limit"):
            read(bomb, unpacked_limit=2 * 1024**2)
        assert tracemalloc.get_traced_memory()[1] < 12 * 1024**2
    finally:
        tracemalloc.stop()


def many(name: str, count: int) -> bytes:
    """As many events as that, as small as they get."""
    if name == "jax-trace":
        event = '{"ph":"X","pid":100,"tid":17,"dur":1,"ts":'
        lines = ",".join(f"{event}{n}}}" for n in range(count))
        head = json.dumps({"traceEvents": jax.PLANES})[:-2]
        return f"{head},{lines}]}}".encode()
    if name == "rocprof":
        record = '{{"start_timestamp":{},"end_timestamp":{}}}'
        lines = ",".join(record.format(n * 10, n * 10 + 5) for n in range(count))
        return (
            '{"rocprofiler-sdk-tool":[{"buffer_records":{"kernel_dispatch":[' + lines + "]}}]}"
        ).encode()
    line = jax.field(2, "Stream #1") + b"".join(
        jax.field(4, jax.field(1, 1) + jax.field(2, n) + jax.field(3, 1)) for n in range(count)
    )
    plane = jax.Plane("/device:GPU:0")
    plane.message += jax.field(3, line) + jax.field(
        4, jax.field(1, 1) + jax.field(2, jax.field(2, "k"))
    )
    return jax.space(plane)


@pytest.mark.parametrize("name", ["jax-trace", "rocprof", "xplane"])
def test_tiny_events__cost_less_than_the_file_may_hold(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred bytes each while they are read, none for ever: a step is more than a kernel."""
    monkeypatch.setattr(repeats, "MOST_STEPS", 100)
    count = 5000
    data = many(name, count)
    tracemalloc.start()
    try:
        found = read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.capture["kernels"] == count
    assert found.steps == 100
    assert "of which the first 100 count" in found.sources["steps"]
    assert peak < 600 * count


def test_steps__have_a_limit_where_they_are_marked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of them count, and the note says so."""
    monkeypatch.setattr(engine_steps, "MOST_STEPS", 2)
    found = read(FILES["nsight"])
    assert (found.steps, found.avg_step_ms) == (2, 10.0)
    assert "of 3 steps the first 2 count" in found.notes


@pytest.mark.parametrize("name", ["jax-trace", "rocprof"])
def test_tiny_events__more_than_the_limit_are_refused_before_they_are_decoded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three bytes of JSON can ask for an object of a hundred."""
    monkeypatch.setattr(damaged_json, "MOST_OBJECTS", 1000)
    with pytest.raises(BadInputError, match="more than 1000 objects and lists"):
        read(many(name, 1000))


def test_tiny_events__of_a_database_are_counted_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is in the message."""
    monkeypatch.setattr(nsight, "MOST_EVENTS", 11)
    with pytest.raises(BadInputError, match=r"found 15 device events, expected .* at most 11"):
        read(FILES["nsight"])


# --- what a format cannot tell ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name in FILES if name not in {"normalised", "reference"}]
)
def test_peak_memory__is_there_or_said_to_be_missing(name: str) -> None:
    """Of every profiler: the reference's own format knows nothing of memory, and is as it is."""
    found = read(FILES[name])
    assert found.peak_memory_gb or any("memory" in note for note in found.notes)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04 and so on", "an archive"),
        (b'{"loss": 1}', "JSON of no profiler"),
        (b"the weather is fine", "text without a profile"),
        (b"\x00\x01\x02\x03", "bytes of no known format"),
        (b"SQLite format 3\0" + bytes(99), "a damaged database"),
        (b"", "an empty file"),
    ],
)
def test_unknown__is_told_by_what_it_looks_like(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, words: str
) -> None:
    """Exit 2: the file is the user's to change, and what would be read is a command away."""
    file = tmp_path / "file"
    file.write_bytes(data)
    assert execute(["convert", str(file)]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "expected" in told
