"""Files that people take for a profile: what each of them is, and the command that gives one.

Each is known by its content, as formats are, and before those: a reader of logs would take any text
for a log. Nothing of such a file is read, let alone loaded: a pickle can run code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ci_score.traces.formats.log_text import outer_keys
from ci_score.traces.source import ProfileSource

_NSIGHT_REPORT = b"NVIDIA Tegra Profiler Report"
_NSIGHT_EXPORT = "its export: nsys export --type sqlite --output FILE.sqlite FILE.nsys-rep"
_DATABASES = "an export of Nsight Systems (nsys export --type sqlite), or rocprofv3's database"
_KINETO_TRACE = "the profiler's own trace of the run: prof.export_chrome_trace(FILE)"
_ROCM_TRACE = "a trace: rocprofv3 --kernel-trace --hip-trace --marker-trace --output-format json"
_ASCEND_TEXT = "trace_view.json or step_trace_time.csv, which export_type=ExportType.Text writes"
_EVENT_FILE_VERSION = slice(12, 64)
_ZIP_BEGIN = 256
_PICKLE = re.compile(rb"\x80[\x02-\x05][\x95\]}(cX\x8c]")
_SNAPSHOT = (b"segments", b"device_traces", b"blocks")
_LONGEST_HEADER = 4096
_UTF_16_SEEN = 32


# Each names a database of the Ascend profiler, which has dozens of them.
_ASCEND_TABLES = frozenset(
    {
        *("SESSION_TIME_INFO", "RANK_DEVICE_MAP", "COMPUTE_TASK_INFO", "ENUM_HCCL_RDMA_TYPE"),
        *("CommAnalyzerBandwidth", "CommAnalyzerTime", "CommAnalyzerMatrix", "StepTraceTime"),
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kind of file that is no profile: how it is known, what it is, and what to give instead."""

    recognises: Callable[[bytes], bool]
    what: str
    instead: str


def _begins(*signatures: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(signatures)


def _columns(*names: bytes) -> Callable[[bytes], bool]:
    """A table whose first line has these columns."""

    def recognises(head: bytes) -> bool:
        line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0][:_LONGEST_HEADER]
        columns = {column.strip(b' "\r') for column in line.split(b",")}
        return columns.issuperset(names)

    return recognises


def _no_file(_: bytes) -> bool:
    """Of what is not known by its first bytes."""
    return False


def _is_execution_trace(head: bytes) -> bool:
    return b'"nodes"' in head and {"schema", "nodes"} <= outer_keys(head)


def _is_checkpoint(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head[:_ZIP_BEGIN]


def _is_snapshot(head: bytes) -> bool:
    return _PICKLE.match(head) is not None and any(word in head for word in _SNAPSHOT)


# The first that matches decides.
REFUSALS = (
    Refusal(
        _begins(b"version https://git-lfs.github.com/spec/"),
        "a Git LFS pointer, which stands for a file that was not fetched",
        "the file itself: `git lfs pull`, or `lfs: true` at actions/checkout",
    ),
    Refusal(_begins(_NSIGHT_REPORT), "an Nsight Systems report (.nsys-rep)", _NSIGHT_EXPORT),
    Refusal(
        _begins(b"NVR\0"),
        "an Nsight Compute report (.ncu-rep), which looks into single kernels and has no steps",
        "a capture of whole steps: nsys profile, then nsys export --type sqlite",
    ),
    Refusal(_is_snapshot, "a memory snapshot of PyTorch (a pickle)", _KINETO_TRACE),
    Refusal(
        lambda head: _PICKLE.match(head) is not None,
        "a pickle, which could run code and is never loaded",
        "JSON: a trace of a profiler, or what `ci-score formats` lists",
    ),
    Refusal(
        _is_checkpoint,
        "a checkpoint of torch.save (a pickle in a zip), which could run code and is never loaded",
        "a trace of a profiler, or what `ci-score formats` lists",
    ),
    Refusal(
        _is_execution_trace,
        "an execution trace of PyTorch (ExecutionTraceObserver), which has no times of a device",
        _KINETO_TRACE,
    ),
    Refusal(
        lambda head: b"brain.Event:" in head[_EVENT_FILE_VERSION],
        "an event file of TensorBoard",
        "the trace beside it (*.pt.trace.json or *.xplane.pb)",
    ),
    Refusal(_columns(b"Kernel_Name", b"Start_Timestamp"), "a CSV of rocprofv3", _ROCM_TRACE),
    Refusal(_columns(b"KernelName", b"gpu-id"), "a CSV of rocprof", _ROCM_TRACE),
    Refusal(_columns(b"Name", b"Calls", b"TotalDurationNs"), "a summary of rocprof", _ROCM_TRACE),
    Refusal(_columns(b"Accelerator Core"), "a table of Ascend's kernels", _ASCEND_TEXT),
    Refusal(_columns(b"Total Time (ns)", b"Name"), "a summary of nsys stats", _NSIGHT_EXPORT),
)


def refusal_of(head: bytes) -> Refusal | None:
    """What a file that begins like this is, where we know it and it can be no profile."""
    return next((row for row in REFUSALS if row.recognises(head)), None)


def database_refusal(tables: Sequence[str]) -> Refusal:
    """What a SQLite database is that holds no profile, by its tables."""
    if not _ASCEND_TABLES.isdisjoint(tables):
        return Refusal(_no_file, "a database of the Ascend profiler", _ASCEND_TEXT)
    shown = ", ".join(ascii(table)[1:-1][:40] for table in tables[:5])
    what = f"a SQLite database with {f'the tables {shown}' if shown else 'no table'}"
    return Refusal(_no_file, what, _DATABASES)


def is_nsight_report(source: ProfileSource) -> bool:
    """Whether Nsight Systems itself could turn the file into one that is read."""
    if source.path is None or not source.path.is_file():
        return False
    try:
        with source.path.open("rb") as stream:
            return stream.read(len(_NSIGHT_REPORT)) == _NSIGHT_REPORT
    except OSError:
        return False


# --- what nothing is known of -------------------------------------------------------------------


def looks_like(head: bytes) -> str:
    """What a file of no format seems to be."""
    if _is_utf_16(head):
        return "text in UTF-16 (`iconv -f UTF-16 -t UTF-8` makes UTF-8 of it)"
    text = head.lstrip(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        return "JSON of no profiler that is known"
    if head.startswith((b"PK\x03\x04", b"\x7fELF", b"\x89PNG", b"%PDF")):
        return "an archive, a program or a picture"
    if _is_protobuf(head):
        return "a protobuf of no profiler that is known (a Perfetto trace?)"
    return "text of no profiler that is known" if _is_text(head) else "bytes of no known format"


def _is_utf_16(head: bytes) -> bool:
    """Whether it has the mark of UTF-16, or is text of which each other byte is zero."""
    halves = head[:_UTF_16_SEEN:2], head[1:_UTF_16_SEEN:2]
    zeros = sorted(half.count(0) for half in halves)
    return head.startswith((b"\xff\xfe", b"\xfe\xff")) or zeros == [0, _UTF_16_SEEN // 2]


def _is_text(head: bytes) -> bool:
    try:
        head[:4096].decode()
    except UnicodeDecodeError as error:
        return error.start > 4000
    return b"\0" not in head[:4096]


def _is_protobuf(head: bytes) -> bool:
    """Whether it begins with three messages of field 1, as the packets of Perfetto."""
    place = 0
    for _ in range(3):
        if head[place : place + 1] != b"\x0a":
            return False
        size = shift = 0
        place += 1
        while place < len(head) and shift < 35:
            byte = head[place]
            size |= (byte & 127) << shift
            place, shift = place + 1, shift + 7
            if byte < 128:
                break
        place += size
    return place <= len(head) and b"\0" in head[:4096]
