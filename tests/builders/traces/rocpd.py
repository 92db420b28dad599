"""Builds a database of rocprofv3 (rocpd), of schema 3 or 4."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ci_score.model.profile import Profile
from ci_score.traces.formats import rocpd
from ci_score.traces.source import ProfileSource

MS = 1_000_000
CPU, GPU = 0, 4
PLACED = "nid, pid, tid, agent_id, queue_id, stream_id"
COLUMNS = {
    "metadata": "id INTEGER PRIMARY KEY, tag, value",
    "string": "id INTEGER PRIMARY KEY, guid, string",
    "info_process": "id INTEGER PRIMARY KEY, guid, pid, environment",
    "info_agent": "id INTEGER PRIMARY KEY, guid, type, name, product_name",
    "info_kernel_symbol": "id INTEGER PRIMARY KEY, guid, kernel_name, display_name",
    "track": f"id INTEGER PRIMARY KEY, guid, {PLACED}",
    "event": "id INTEGER PRIMARY KEY, guid, category_id, stack_id, extdata",
    "region": f"id INTEGER PRIMARY KEY, {PLACED}, start, end, name_id, event_id",
    "kernel_dispatch": f"id INTEGER PRIMARY KEY, {PLACED}, kernel_id, start, end, event_id",
    "memory_copy": "id INTEGER PRIMARY KEY, nid, pid, tid, queue_id, stream_id, start, end,"
    " name_id, src_agent_id, dst_agent_id, event_id",
}
KERNELS = {1: "Cijk_Ailk_Bljk_MT64", 2: "ncclDevKernel_Generic_1(Args)", 3: "adamw_kernel"}
OPERATIONS = {2: "MEMORY_COPY_HOST_TO_DEVICE", 3: "MEMORY_COPY_DEVICE_TO_HOST"}
HIP, MARKER, KERNEL = 10, 11, 12
CATEGORIES = {
    HIP: "HIP_RUNTIME_API_EXT",
    MARKER: "MARKER_CORE_RANGE_API",
    KERNEL: "KERNEL_DISPATCH",
}
CALL, RANGE = 20, 21


class Process:
    """The tables of one process; all times are in milliseconds."""

    def __init__(self, pid: int = 7, guid: str = "00000000_0000_7000_8000_000000000001") -> None:
        self.pid = pid
        self.suffix = f"_{guid}" if guid else ""
        self.columns = dict(COLUMNS)
        self.rows: dict[str, list[Sequence[object]]] = {table: [] for table in COLUMNS}
        texts = {**OPERATIONS, **CATEGORIES, CALL: "hipLaunchKernel", RANGE: "roctxThreadRangeA"}
        self.rows["string"] = [(number, "", text) for number, text in texts.items()]
        self.rows["info_agent"] = [
            (CPU, "", "CPU", "cpu", "AMD EPYC"),
            (GPU, "", "GPU", "gfx942", "AMD Instinct MI300X"),
        ]
        self.rows["info_kernel_symbol"] = [
            (number, "", f"{name}.kd", name) for number, name in KERNELS.items()
        ]
        self.told()
        self._stack = 0

    def told(self, **variables: str) -> None:
        """What the launcher told the process."""
        environment = json.dumps({"HOME": "x", **variables})
        self.rows["info_process"] = [(self.pid, "", self.pid, environment)]

    def _row(self, table: str, *values: object) -> None:
        self.rows[table].append((len(self.rows[table]) + 1, *values))

    def _event(self, category: int, stack: int, extra: str = "{}") -> int:
        self._row("event", "", category, stack, extra)
        return len(self.rows["event"])

    def call(self, start: float) -> int:
        """A call of HIP, with the number that its work has, too."""
        self._stack += 1
        event = self._event(HIP, self._stack)
        begin = round(start * MS)
        self._row("region", 1, self.pid, 70, None, None, None, begin, begin + 9_000, CALL, event)
        return self._stack

    def kernel(
        self, launch: float | None, start: float, time: float, name: int = 1, agent: int = GPU
    ) -> None:
        """A dispatch, and the call that launched it."""
        event = self._event(KERNEL, 0 if launch is None else self.call(launch))
        begin, end = round(start * MS), round((start + time) * MS)
        placed = (1, self.pid, 70, agent, 1, 2 if name == 2 else 1)
        self._row("kernel_dispatch", *placed, name, begin, end, event)

    def copy(self, launch: float, start: float, time: float, operation: int = 2) -> None:
        """A copy between host and device, and its call."""
        event = self._event(KERNEL, self.call(launch))
        begin, end = round(start * MS), round((start + time) * MS)
        ends = (CPU, GPU) if operation == 2 else (GPU, CPU)
        self._row("memory_copy", 1, self.pid, 70, 1, 1, begin, end, operation, *ends, event)

    def range(self, text: str, start: float, end: float) -> None:
        """A range of roctx, whose message is the extra of its event."""
        self._stack += 1
        event = self._event(MARKER, self._stack, json.dumps({"message": text}))
        window = round(start * MS), round(end * MS)
        self._row("region", 1, self.pid, 70, None, None, None, *window, RANGE, event)

    def with_tracks(self) -> Process:
        """The same as schema 4 has it: what a row runs on stands in a table of tracks."""
        tracks: dict[tuple[object, ...], int] = {}
        for table in ("region", "kernel_dispatch", "memory_copy"):
            old = self.columns[table].split(", ")
            placed = [column for column in old if column in PLACED.split(", ")]
            kept = [column for column in old if column not in placed]
            rows: list[Sequence[object]] = []
            for row in self.rows[table]:
                values = dict(zip(old, row, strict=True))
                place = tuple(values.get(column) for column in PLACED.split(", "))
                track = tracks.setdefault(place, len(tracks) + 1)
                rows.append((*(values[column] for column in kept), track))
            self.columns[table] = ", ".join([*kept, "track_id"])
            self.rows[table] = rows
        self.rows["track"] = [(number, "", *place) for place, number in tracks.items()]
        return self

    def without(self, table: str) -> Process:
        """The same without a table."""
        del self.columns[table]
        return self

    def add_to(self, path: Path) -> Path:
        """The tables, in a database that may have others."""
        with closing(sqlite3.connect(path)) as database, database:
            for table, columns in self.columns.items():
                name = f"rocpd_{table}{self.suffix}"
                database.execute(f'CREATE TABLE "{name}" ({columns})')
                places = ", ".join("?" * len(columns.split(", ")))
                database.executemany(f'INSERT INTO "{name}" VALUES ({places})', self.rows[table])  # noqa: S608 - our names
        return path


def training(process: Process | None = None, steps: int = 3, period: float = 10.0) -> Process:
    """Steps of a copy, a product, a reduction and an update, which the host runs ahead of."""
    process = process or Process()
    for step in range(steps):
        host, gpu = step * 4.0, step * period
        process.range(f"step {step}", host, host + 4)
        process.range("forward", host + 0.1, host + 1)
        process.range("backward", host + 1, host + 3.9)
        process.copy(host + 0.2, gpu + 1, 1.0)
        process.kernel(host + 0.5, gpu + 2, 2.0, name=1)
        process.kernel(host + 2.0, gpu + 5, 2.5, name=2)
        process.kernel(host + 3.5, gpu + 7, 1.5, name=3)
    return process


def read(folder: Path, *processes: Process) -> Profile:
    """The profile that is read from the database of these processes."""
    path = folder / "results.db"
    for process in processes:
        process.add_to(path)
    return rocpd.read(ProfileSource(name=path.name, path=path))
