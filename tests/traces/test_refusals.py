"""Files that are no profile: each is known by its content, with the command that gives one."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile

import pytest

from ci_score.errors import BadInputError
from ci_score.traces import profile_of, read_all
from ci_score.traces.formats import can_lie_beside, read_profile
from ci_score.traces.formats.refusals import REFUSALS, refusal_of
from ci_score.traces.source import ProfileSource
from tests.builders.traces.valid_files import valid_files


def checkpoint() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps({"weight": 1}))
        archive.writestr("model/version", "3\n")
    return stream.getvalue()


def event_file() -> bytes:
    event = b"\x09" + struct.pack("<d", 1.7e9) + b"\x1a\x0dbrain.Event:2"
    return struct.pack("<QI", len(event), 7) + event + struct.pack("<I", 7)


EXECUTION = {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "today", "start_ts": 1, "nodes": []}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"
REPORT = b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal (CLI)\x12\x0a\x08\x01"
FILES = {
    "pointer": (POINTER, "Git LFS pointer", "git lfs pull"),
    "nsys-rep": (REPORT, ".nsys-rep", "nsys export --type sqlite"),
    "ncu-rep": (b"NVR\0\x04\0\0\0\x08\x0f\x10\x01", ".ncu-rep", "nsys profile"),
    "snapshot": (
        pickle.dumps({"segments": [], "device_traces": []}),
        "memory snapshot",
        "export_chrome_trace",
    ),
    "pickle": (pickle.dumps({"loss": 1.0}), "a pickle", "ci-score formats"),
    "old pickle": (pickle.dumps([1, 2], protocol=2), "a pickle", "ci-score formats"),
    "checkpoint": (checkpoint(), "torch.save", "ci-score formats"),
    "execution": (json.dumps(EXECUTION).encode(), "execution trace", "export_chrome_trace"),
    "events": (event_file(), "TensorBoard", "xplane.pb"),
    "rocprofv3": (
        b'"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n',
        "CSV of rocprofv3",
        "rocprofv3 --kernel-trace",
    ),
    "rocprof": (b'"Index","KernelName","gpu-id","DurationNs"\r\n', "CSV of rocprof", "rocprofv3"),
    "stats": (b'"Name","Calls","TotalDurationNs"\n', "summary of rocprof", "rocprofv3"),
    "ascend": (
        b"Step Id,Name,Accelerator Core,Duration(us)\n",
        "Ascend's kernels",
        "step_trace_time.csv",
    ),
    "nsys stats": (
        b"Time (%),Total Time (ns),Instances,Name\n",
        "summary of nsys stats",
        "nsys export",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_refused__says_what_it_is_and_what_to_do(name: str) -> None:
    """Whatever the file is called, and before any reader takes it for something else."""
    data, what, command = FILES[name]
    with pytest.raises(BadInputError) as error:
        read_profile(ProfileSource("trace.json", data=data))
    assert what in error.value.found
    assert command in error.value.expected


def test_refused__each_row_is_met_by_a_file() -> None:
    """A signature that nothing tests may never have matched."""
    met = {refusal_of(data) for data, _, _ in FILES.values()}
    assert met == set(REFUSALS)


@pytest.mark.parametrize("name", valid_files())
def test_refused__is_no_profile_that_is_read(name: str) -> None:
    """Refusals come first, so they must leave every format alone."""
    assert refusal_of(valid_files()[name]) is None


@pytest.mark.parametrize("name", FILES)
def test_refused__may_lie_beside_a_profile(name: str) -> None:
    """In a folder it is left out with a note; alone, its reason is the error."""
    other = ProfileSource("job/other", data=FILES[name][0])
    assert can_lie_beside(other)
    trace = ProfileSource("job/trace.json", data=valid_files()["kineto"])
    sources = [trace, other]
    one = profile_of(sources, read_all(sources))
    assert any("job/other was left out" in note for note in one.notes)


def test_refused__many_of_a_kind_have_one_command() -> None:
    """A folder of eight reports is told once what to do with them."""
    sources = [ProfileSource(f"rank{n}.nsys-rep", data=REPORT) for n in range(8)]
    with pytest.raises(BadInputError, match=r"8 files .*expected .*nsys export") as error:
        profile_of(sources, read_all(sources))
    assert error.value.source == "profiles"


def test_protobuf__is_told_from_bytes_of_no_known_format() -> None:
    """A Perfetto trace is packets of one field, one after the other."""
    packets = b"\x0a\x04\x40\x00\x50\x01" * 3
    with pytest.raises(BadInputError, match="Perfetto"):
        read_profile(ProfileSource("trace.pftrace", data=packets))
