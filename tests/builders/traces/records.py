"""A small sound trace of each device format as tables of rows, and the file that they make.

A row is a record as its format has it. What of it is a time, a duration or a number of a launch is
known by its key, so that one change is made to all formats alike.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders.traces import ascend, jax, kineto, nsight, rocpd, rocprof

Row = dict[str, Any]
Tables = dict[str, list[Row]]
STEPS = 8

BEGINS = frozenset({"ts", "start", "end", "start_timestamp", "end_timestamp"})
DURATIONS = frozenset({"dur", "time"})
NUMBERS = frozenset(
    {"correlation", "correlation_id", "correlationId", "External id", "stack_id", "connection_id"}
)


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """The tables of a sound trace whose rows can get lost, and how all of it is written."""

    name: str
    tables: Callable[[], Tables]
    write: Callable[[Tables], bytes]
    # The same name with another number in it, which is as long.
    renamed: tuple[bytes, bytes]


def changed(row: Row, change: Callable[[Any], Any], keys: frozenset[str]) -> Row:
    """A row with other values of these keys, wherever they stand in it."""
    return {
        key: changed(value, change, keys)
        if isinstance(value, dict) and key not in keys
        else change(value)
        if key in keys
        else value
        for key, value in row.items()
    }


def number(change: Callable[[float], float]) -> Callable[[Any], Any]:
    """Changes numbers, and those that stand as text; rocprofv3's stand one level deeper."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: of(item) if key == "internal" else item for key, item in value.items()}
        if isinstance(value, str):
            whole, _, decimals = value.partition(".")
            found = change(float(whole) if not decimals else float(value))
            return f"{found:.3f}" if decimals else str(int(found))
        if value is None or isinstance(value, bool):
            return value
        return type(value)(change(value))

    return of


# --- JSON ---------------------------------------------------------------------------------------


def kineto_tables() -> Tables:
    """Steps with two phases, a copy, products and a sum over ranks; the host runs ahead."""
    rows: list[Row] = []
    launch = 0

    def work(at: float, ts: float, dur: float, name: str, stream: int = 7) -> None:
        nonlocal launch
        launch += 1
        of_op = {"External_id": 1000 + launch}
        rows.append(kineto.op("aten::mm", at - 2, 6, **of_op))
        rows.append(kineto.call(launch, at))
        done = kineto.kernel(launch, ts, dur, name, stream)
        rows.append(done)
        for each in rows[-2:]:
            each["args"]["External id"] = 1000 + launch

    for step in range(STEPS):
        host, gpu = 10_000 + 400 * step, 10_100 + 1000 * step
        rows.append(kineto.step(step, host, 400))
        rows.append(kineto.annotation("forward", host + 10, 150))
        rows.append(kineto.annotation("backward", host + 170, 200))
        for place in range(4):
            at = host + 20 + 30 * place
            work(at, gpu + 100 * place, 80, kineto.GEMM)
            work(at + 160, gpu + 450 + 100 * place, 90 + place, kineto.ADD)
        work(host + 360, gpu + 700, 150, kineto.NCCL, 20)
        launch += 1
        rows.append(kineto.call(launch, host + 15, name="cudaMemcpyAsync"))
        rows.append(kineto.copy(launch, gpu - 40, 30))
    return {"traceEvents": rows}


def write_kineto(tables: Tables) -> bytes:
    """A trace."""
    return kineto.text(tables["traceEvents"])


def ascend_tables() -> Tables:
    """The training of its builder."""
    rows = ascend.training(STEPS)
    # What the host puts into the queue, as real traces have it.
    rows += [
        ascend.event("Enqueue@aclnnMm", ascend.HOST, 71, step * 4.0 + 0.5 + part, 0.004, "enqueue")
        for step in range(STEPS)
        for part in (0.0, 1.5, 3.0)
    ]
    return {"events": rows}


def jax_tables() -> Tables:
    """Steps that the host marks, and their work."""
    marks = [
        jax.event("train", step * 4, 3, jax.HOST, 1, step_num=str(step)) for step in range(STEPS)
    ]
    return {"traceEvents": [*jax.work(STEPS), *marks]}


def rocprof_tables() -> Tables:
    """The buffers of one process."""
    return {**rocprof.marked(STEPS)["buffer_records"]}


def write_rocprof(tables: Tables) -> bytes:
    """A file with these buffers."""
    process = rocprof.marked(STEPS)
    return rocprof.source({**process, "buffer_records": tables}).data or b""


# --- databases ----------------------------------------------------------------------------------


def rows_of(database: bytes, tables: Iterable[str] | None = None) -> Tables:
    """All rows of a database, or of some tables."""
    with closing(sqlite3.connect(":memory:")) as opened:
        opened.deserialize(database)
        opened.row_factory = sqlite3.Row
        names = [row[0] for row in opened.execute("SELECT name FROM sqlite_master")]
        return {
            name: [dict(row) for row in opened.execute(f'SELECT * FROM "{name}"')]  # noqa: S608 - our names
            for name in names
            if tables is None or name in tables
        }


def in_database(database: bytes, tables: Tables) -> bytes:
    """The database with these rows in place of its own; a table without rows has none."""
    with closing(sqlite3.connect(":memory:")) as opened:
        opened.deserialize(database)
        for name, rows in tables.items():
            opened.execute(f'DELETE FROM "{name}"')  # noqa: S608 - our names
            if rows:
                places = ", ".join("?" * len(rows[0]))
                columns = ", ".join(f'"{column}"' for column in rows[0])
                opened.executemany(
                    f'INSERT INTO "{name}" ({columns}) VALUES ({places})',  # noqa: S608 - our names
                    [tuple(row.values()) for row in rows],
                )
        opened.commit()
        return opened.serialize()


def nsight_file() -> bytes:
    """The training of its builder."""
    with tempfile.TemporaryDirectory() as folder:
        return nsight.training(steps=STEPS).write(Path(folder) / "capture.sqlite").read_bytes()


def rocpd_file() -> bytes:
    """The training of its builder."""
    with tempfile.TemporaryDirectory() as folder:
        return rocpd.training(steps=STEPS).add_to(Path(folder) / "results.db").read_bytes()


NSIGHT_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
)


def nsight_tables() -> Tables:
    """What is recorded one by one."""
    return rows_of(nsight_file(), NSIGHT_TABLES)


def rocpd_tables() -> Tables:
    """What is recorded one by one."""
    tables = rows_of(rocpd_file())
    kinds = ("rocpd_region", "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_event")
    return {name: rows for name, rows in tables.items() if name.startswith(kinds)}


# --- protobuf -----------------------------------------------------------------------------------


def xplane_tables() -> Tables:
    """Lines of a device and of the host."""
    device, host, steps = [], [], []
    for step in range(STEPS):
        for place in range(2):
            stats = {"correlation_id": step * 2 + place}
            name = "gemm.kd" if place else "loop_fusion"
            device.append(
                {"name": name, "start": step * 10 + 2.0 + place * 3, "time": 2.0, **stats}
            )
            host.append(
                {"name": "cuLaunchKernel", "start": step * 4 + 2.5 + place, "time": 0.1, **stats}
            )
        steps.append({"name": "train", "start": step * 4 + 2.0, "time": 3.0, "step_num": step})
    return {"Stream #17(Kernel)": device, "python": steps, "Host Threads/1": host}


def write_xplane(tables: Tables) -> bytes:
    """A space of two planes."""
    device, host = jax.Plane("/device:GPU:0"), jax.Plane("/host:CPU")
    for line, rows in tables.items():
        plane = device if line.startswith("Stream") else host
        plane.line(line, *map(_event, rows))
    return jax.space(device, host)


def _event(row: Row) -> tuple[str, float, float, Row]:
    stats: Row = {key: row[key] for key in ("correlation_id", "step_num") if key in row}
    return row["name"], row["start"], row["time"], stats


# --- all ----------------------------------------------------------------------------------------


def write_ascend(tables: Tables) -> bytes:
    """A trace."""
    return ascend.text(tables["events"])


def write_jax(tables: Tables) -> bytes:
    """A trace."""
    return jax.source(*tables["traceEvents"]).data or b""


def write_nsight(tables: Tables) -> bytes:
    """A database."""
    return in_database(nsight_file(), tables)


def write_rocpd(tables: Tables) -> bytes:
    """A database."""
    return in_database(rocpd_file(), tables)


FORMATS = {
    each.name: each
    for each in (
        TraceFormat("kineto", kineto_tables, write_kineto, (b"128x64", b"128x32")),
        TraceFormat("ascend", ascend_tables, write_ascend, (b"MatMulV2", b"MatMulV3")),
        TraceFormat("jax", jax_tables, write_jax, (b"loop_gemm_fusion", b"lump_gemm_fusion")),
        TraceFormat("rocprof", rocprof_tables, write_rocprof, (b"MT64", b"MT32")),
        TraceFormat("nsight", nsight_tables, write_nsight, (b"128x128", b"256x128")),
        TraceFormat("rocpd", rocpd_tables, write_rocpd, (b"MT64", b"MT32")),
        TraceFormat("xplane", xplane_tables, write_xplane, (b"loop_fusion", b"lump_fusion")),
    )
}
