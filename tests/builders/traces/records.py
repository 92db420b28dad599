"""A small sound trace of each device format as tables of rows, and the file that they make.

A row is a record as its format has it. What of it is a time, a duration or a number of a launch is
known by its key, so that one change is made to all formats alike.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
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
    """A format: the rows of a sound trace that can get lost, and how all of it is written."""

    name: str
    tables: Callable[[], Tables]
    write: Callable[[Tables], bytes]
    # The file of two processes, or captures, that somebody put together.
    merged: Callable[[Tables, Tables], bytes]
    # The same name with another number in it, which is as long.
    renamed: tuple[bytes, bytes]
    ticks_per_ms: float


def kind_of(table: str, row: Row) -> tuple[str, str]:
    """What a profiler records, or does not: a table, a category, or the line of a device."""
    line = (row["ph"], row["pid"], row["tid"]) if "ph" in row else ""
    return table, str(row.get("cat") or line)


def of_another_process(row: Row) -> Row:
    """The same event in a process of another number, and so its device."""
    return {**row, "pid": row["pid"] + 1_000_000} if "pid" in row else row


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
    """The buffers of one process, with the names of its calls."""
    buffers = rocprof.marked(STEPS)["buffer_records"]
    calls = [{**row, "kind": 1, "operation": 0} for row in buffers["hip_api"]]
    return {**buffers, "hip_api": calls}


def rocprof_process(tables: Tables) -> Row:
    """A process with these buffers."""
    process = rocprof.marked(STEPS)
    kinds = process["strings"]["buffer_records"]
    kinds.append({"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel"]})
    return {**process, "buffer_records": tables}


def write_rocprof(tables: Tables) -> bytes:
    """A file with these buffers."""
    return rocprof.source(rocprof_process(tables)).data or b""


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


@cache
def nsight_file() -> bytes:
    """The training of its builder, with the names of its calls."""
    export = nsight.training(steps=STEPS)
    copies = {row[4] for row in export.rows["CUPTI_ACTIVITY_KIND_MEMCPY"]}
    export.row("StringIds", 100, "cudaLaunchKernel_v7000")
    export.row("StringIds", 101, "cudaMemcpyAsync_v3020")
    export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] = [
        (*row[:4], 101 if row[3] in copies else 100)
        for row in export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]
    ]
    with tempfile.TemporaryDirectory() as folder:
        return export.write(Path(folder) / "capture.sqlite").read_bytes()


GUID = "00000000_0000_7000_8000_000000000001"
COPY_CALL = 22


@cache
def rocpd_file() -> bytes:
    """The training of its builder, with the names of its calls."""
    process = rocpd.training(rocpd.Process(7, GUID), STEPS)
    process.rows["string"].append((COPY_CALL, "", "hipMemcpyAsync"))
    stack_of = {row[0]: row[3] for row in process.rows["event"]}
    copies = {stack_of[row[-1]] for row in process.rows["memory_copy"]}
    process.rows["region"] = [
        (*row[:-2], COPY_CALL if stack_of[row[-1]] in copies else row[-2], row[-1])
        for row in process.rows["region"]
    ]
    with tempfile.TemporaryDirectory() as folder:
        return process.add_to(Path(folder) / "results.db").read_bytes()


NSIGHT_TABLES = (
    *("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME"),
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


def merged_events(write: Callable[[Tables], bytes]) -> Callable[[Tables, Tables], bytes]:
    """The events of both in one list, those of the second in other processes."""

    def merged(first: Tables, second: Tables) -> bytes:
        whole, more = json.loads(write(first)), json.loads(write(second))
        events, others = (
            each if isinstance(each, list) else each["traceEvents"] for each in (whole, more)
        )
        events.extend(map(of_another_process, others))
        return json.dumps(whole).encode()

    return merged


def merged_rocprof(first: Tables, second: Tables) -> bytes:
    """Two processes, each with its buffers, as rocprofv3 would write them."""
    return rocprof.source(rocprof_process(first), rocprof_process(second)).data or b""


def merged_nsight(first: Tables, second: Tables) -> bytes:
    """Two processes in one capture, as Nsight writes them."""
    process = frozenset({"globalPid", "globalTid"})
    moved = {
        name: [changed(row, lambda value: value + (1 << 24), process) for row in rows]
        for name, rows in second.items()
    }
    return write_nsight({name: rows + moved[name] for name, rows in first.items()})


def merged_rocpd(first: Tables, second: Tables) -> bytes:
    """Two processes in one database, as rocpd merges them: each has tables of its own."""
    renamed = {name.replace("0001", "0002"): rows for name, rows in second.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.db"
        path.write_bytes(rocpd_file())
        rocpd.training(rocpd.Process(8, GUID[:-1] + "2"), STEPS).add_to(path)
        return in_database(path.read_bytes(), {**first, **renamed})


def merged_xplane(first: Tables, second: Tables) -> bytes:
    """One file behind the other, which protobuf allows."""
    return write_xplane(first) + write_xplane(second)


FORMATS = {
    each.name: each
    for each in (
        TraceFormat(
            "kineto",
            kineto_tables,
            write_kineto,
            merged_events(write_kineto),
            (b"128x64", b"128x32"),
            1000,
        ),
        TraceFormat(
            "ascend",
            ascend_tables,
            write_ascend,
            merged_events(write_ascend),
            (b"MatMulV2", b"MatMulV3"),
            1000,
        ),
        TraceFormat(
            "jax",
            jax_tables,
            write_jax,
            merged_events(write_jax),
            (b"loop_gemm_fusion", b"lump_gemm_fusion"),
            1000,
        ),
        TraceFormat(
            "rocprof", rocprof_tables, write_rocprof, merged_rocprof, (b"MT64", b"MT32"), 1e6
        ),
        TraceFormat(
            "nsight", nsight_tables, write_nsight, merged_nsight, (b"128x128", b"256x128"), 1e6
        ),
        TraceFormat("rocpd", rocpd_tables, write_rocpd, merged_rocpd, (b"MT64", b"MT32"), 1e6),
        TraceFormat(
            "xplane",
            xplane_tables,
            write_xplane,
            merged_xplane,
            (b"loop_fusion", b"lump_fusion"),
            1,
        ),
    )
}
