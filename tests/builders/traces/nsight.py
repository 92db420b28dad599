"""Builds a database of Nsight Systems."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ci_score.model.profile import Profile
from ci_score.traces.formats import nsight
from ci_score.traces.source import ProfileSource

PID = 0x1000041 << 24
TID = PID + 7
MS = 1_000_000
TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, streamId, correlationId, globalPid,"
    " demangledName, shortName, graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, streamId, correlationId, globalPid,"
    " bytes, copyKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, deviceId, streamId, correlationId, globalPid",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start, end, deviceId, streamId, correlationId, globalPid",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start, globalPid, deviceId, bytes, memKind,"
    " memoryOperationType",
    "NVTX_EVENTS": "start, end, eventType, globalTid, text, textId, domainId",
    "TARGET_INFO_GPU": "id, name, memoryBandwidth, totalMemory",
    "TARGET_INFO_CUDA_DEVICE": "gpuId, cudaId, pid",
    "META_DATA_CAPTURE": "name, value",
    "META_DATA_EXPORT": "name, value",
}
KERNELS = ("sgemm_128x128", "elementwise_add", "ncclDevKernel_AllReduce_Sum_f32", "adamw_kernel")


class Export:
    """Builds a database; all times are in milliseconds."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Sequence[object]]] = {}
        self.columns = dict(TABLES)
        for number, name in enumerate(KERNELS):
            self.row("StringIds", number, name)
        self.correlation = 0

    def row(self, table: str, *values: object) -> None:
        """A row with exactly these values."""
        self.rows.setdefault(table, []).append(values)

    def kernel(
        self,
        launch: float,
        start: float,
        time: float,
        name: int = 0,
        *,
        device: int = 0,
        pid: int = PID,
        stream: int = 7,
        correlation: int | None = None,
    ) -> None:
        """A kernel, and the call that launched it."""
        number = self._launched(launch, pid, correlation)
        begin, end = round(start * MS), round((start + time) * MS)
        self.row(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            *(begin, end, device, stream, number, pid, name, name, None),
        )

    def copy(self, launch: float, start: float, time: float, kind: int) -> None:
        """A copy between host and device, and its call."""
        number = self._launched(launch, PID, None)
        begin, end = round(start * MS), round((start + time) * MS)
        self.row("CUPTI_ACTIVITY_KIND_MEMCPY", begin, end, 0, 7, number, PID, 1024, kind)

    def _launched(self, launch: float, pid: int, correlation: int | None) -> int:
        if correlation is None:
            self.correlation += 1
            correlation = self.correlation
        begin = round(launch * MS)
        self.row("CUPTI_ACTIVITY_KIND_RUNTIME", begin, begin + 1000, pid + 7, correlation, 100)
        return correlation

    def range(
        self, text: str | None, start: float, end: float | None, tid: int = TID, text_id: int = -1
    ) -> None:
        """A range with a name."""
        stop = None if end is None else round(end * MS)
        self.row("NVTX_EVENTS", round(start * MS), stop, 59, tid, text, text_id, 0)

    def without(self, table: str, *names: str) -> Export:
        """The same without these columns, in all rows."""
        kept = [
            place
            for place, column in enumerate(self.columns[table].split(", "))
            if column not in names
        ]
        old = self.columns[table].split(", ")
        self.columns[table] = ", ".join(old[place] for place in kept)
        self.rows[table] = [[row[place] for place in kept] for row in self.rows.get(table, [])]
        return self

    def write(self, path: Path) -> Path:
        """The database as a file."""
        with closing(sqlite3.connect(path)) as database, database:
            for table, rows in self.rows.items():
                database.execute(f"CREATE TABLE {table} ({self.columns[table]})")
                places = ", ".join("?" * len(rows[0])) if rows else ""
                if rows:
                    database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608 - our names
            if not self.rows:
                database.execute("CREATE TABLE nothing (x)")
        return path

    def read(self, folder: Path) -> Profile:
        """The profile that is read from it."""
        return read(self.write(folder / "capture.sqlite"))


def read(path: Path) -> Profile:
    return nsight.read(ProfileSource(name=path.name, path=path))


def training(export: Export | None = None, steps: int = 3, period: float = 10.0) -> Export:
    """Steps of a forward, a backward and an optimizer kernel, which the host runs ahead of."""
    export = export or Export()
    for step in range(steps):
        host, gpu = step * 4.0, step * period
        export.range(f"step {step}", host, host + 4)
        export.range("forward", host + 0.1, host + 1)
        export.range("backward", host + 1, host + 3)
        export.range("optimizer", host + 3, host + 3.9)
        export.copy(host + 0.2, gpu + 1, 1.0, kind=1)
        export.kernel(host + 0.5, gpu + 2, 2.0, name=0)
        export.kernel(host + 1.5, gpu + 4, 3.0, name=1)
        export.kernel(host + 2.0, gpu + 6, 2.5, name=2, stream=20)
        export.kernel(host + 3.5, gpu + 9, 0.5, name=3)
    return export
