"""What an Nsight Systems database tells beside times: GPUs, the job, memory, the tool's version."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ci_score.traces.engine.capture import Facts, Lane
from ci_score.traces.formats.launcher import VARIABLES, place_in_job
from ci_score.traces.formats.sqlite_file import Database

MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
GPUS = "TARGET_INFO_GPU"
DEVICES_OF_PROCESSES = "TARGET_INFO_CUDA_DEVICE"
CAPTURE = "META_DATA_CAPTURE"
EXPORTS = ("META_DATA_EXPORT", "EXPORT_META_DATA")
# Their names may stand in a query.
FACT_TABLES = (MEMORY, GPUS, DEVICES_OF_PROCESSES, CAPTURE, *EXPORTS)

# A device of a process as one number: the process, and in the last bits the device.
DEVICE_BITS = 16
DEVICES = 2**DEVICE_BITS - 1


@dataclass(frozen=True, slots=True)
class GpuOfProcess:
    """A device of a process: a timeline of its own."""

    process: int
    device: int

    @classmethod
    def of(cls, number: int) -> GpuOfProcess:
        """The lane that a query numbered."""
        return cls(number >> DEVICE_BITS, number & DEVICES)

    @property
    def pid(self) -> int:
        """The number that the machine gives the process; Nsight's has more above it."""
        return self.process & 0xFFFFFF

    def __str__(self) -> str:
        return f"device {self.device}" + (f" of process {self.pid}" if self.process else "")


def facts_of(
    database: Database, lanes: Sequence[Lane], chosen: Lane | None, thread_names: set[str]
) -> Facts:
    """The devices, the job and the memory, once it is known which device speaks for all."""
    if chosen is None:
        return Facts()
    gpus = [GpuOfProcess(lane.process, int(lane.device or 0)) for lane in lanes]
    own = GpuOfProcess(chosen.process, int(chosen.device or 0))
    gpu, notes = _gpus(database, gpus, own)
    memory = _peak_memory(database, own)
    if not memory:
        notes.append("no peak memory: nsys profile --cuda-memory-usage=true records it")
    job = _job(database, len({lane.process for lane in lanes}), thread_names)
    sources = {**gpu.pop("sources"), **job.pop("sources")}
    if memory:
        sources["peak_memory_gb"] = f"{MEMORY}: the most that was held of what it saw allocated"
    return Facts({**gpu, **job, **memory}, sources, tuple(notes))


def tool_of(database: Database) -> str:
    """Nsight Systems, with the version that exported the database where it tells."""
    for table in EXPORTS:
        if database.has(table, "name", "value"):
            query = f"SELECT value FROM {table} WHERE name = 'EXPORT_PRODUCT_VERSION'"  # noqa: S608 - our names
            for (version,) in database.rows(query):
                return f"Nsight Systems {str(version)[:40]}"
    return "Nsight Systems"


def _gpus(
    database: Database, lanes: Sequence[GpuOfProcess], chosen: GpuOfProcess
) -> tuple[dict[str, Any], list[str]]:
    """What the devices are, as far as the export says which of its GPUs they were."""
    physical, known = _physical_gpus(database, lanes)
    fields: dict[str, Any] = {"sources": {}}
    notes = []
    if known:
        fields["accelerator_count"] = len(set(physical.values()))
        fields["sources"]["accelerator_count"] = "devices on which kernels ran"
    else:
        notes.append("processes use devices of the same number: how many GPUs is not known")
    rows = _gpu_rows(database)
    used = {rows[gpu] for gpu in physical.values() if gpu in rows} or set(rows.values())
    if len(used) > 1:
        notes.append("the devices are of different kinds")
        used = {rows[physical[chosen]]} if physical[chosen] in rows else set()
    if not used:
        return fields, [*notes, "the export does not name the GPU"]
    name, bandwidth, memory = used.pop()
    fields["accelerator"] = name
    fields["sources"]["accelerator"] = GPUS
    if memory:
        fields["accelerator_memory_gb"] = memory / 1e9
        fields["sources"]["accelerator_memory_gb"] = f"{GPUS}.totalMemory"
    if bandwidth:
        fields["peak_bandwidth_gb_s"] = bandwidth / 1e9
        fields["sources"]["peak_bandwidth_gb_s"] = f"{GPUS}.memoryBandwidth"
    else:
        notes.append("the export does not tell the GPU's memory bandwidth")
    return fields, notes


def _physical_gpus(
    database: Database, lanes: Sequence[GpuOfProcess]
) -> tuple[dict[GpuOfProcess, int], bool]:
    """The GPU behind a process's device number, and whether that is certain.

    Where each process sees only its own GPU, all of them call it 0.
    """
    table: dict[tuple[int, int], int] = {}
    if database.has(DEVICES_OF_PROCESSES, "gpuId", "cudaId", "pid"):
        numbers = ", ".join(f"CAST({column} AS INTEGER)" for column in ("pid", "cudaId", "gpuId"))
        query = f"SELECT {numbers} FROM {DEVICES_OF_PROCESSES} LIMIT 4096"  # noqa: S608 - our names
        table = {(pid, cuda): gpu for pid, cuda, gpu in database.rows(query) if gpu is not None}
    physical = {lane: table.get((lane.pid, lane.device), lane.device) for lane in lanes}
    in_table = all((lane.pid, lane.device) in table for lane in lanes)
    return physical, in_table or len(set(physical.values())) == len(lanes)


def _peak_memory(database: Database, lane: GpuOfProcess) -> dict[str, float]:
    """The most of the device's memory that the process held, of what was allocated meanwhile."""
    columns = ("start", "bytes", "memKind", "memoryOperationType")
    if not database.has(MEMORY, *columns, "globalPid", "deviceId"):
        return {}
    # Allocations are of kind 0, frees of 1; memory of the kinds 0 and 1 is the host's. TOTAL gives
    # a real number, which does not overflow.
    change = "CASE t.memoryOperationType WHEN 0 THEN t.bytes WHEN 1 THEN -t.bytes END"
    held = f"TOTAL({change}) OVER (ORDER BY t.start ROWS UNBOUNDED PRECEDING)"
    query = (
        f"SELECT MAX(held) FROM (SELECT {held} AS held FROM {MEMORY} t"  # noqa: S608 - our names
        " WHERE t.memKind >= 2 AND t.globalPid >> 24 = ? AND t.deviceId = ?)"
    )
    peak = next(database.rows(query, lane.process, lane.device))[0] or 0.0
    return {"peak_memory_gb": peak / 1e9} if 0 < peak < math.inf else {}


def _gpu_rows(database: Database) -> dict[int, tuple[str, int, int]]:
    """Of each GPU its name, bytes a second and bytes; 0 where those are not known."""
    if not database.has(GPUS, "name"):
        return {}
    number = database.column(GPUS, "id", otherwise="t.rowid")
    sizes = (database.column(GPUS, name) for name in ("memoryBandwidth", "totalMemory"))
    query = ", ".join(f"CAST({column} AS INTEGER)" for column in (number, *sizes))
    return {
        gpu: (str(name)[:200], max(bandwidth or 0, 0), max(memory or 0, 0))
        for gpu, bandwidth, memory, name in database.rows(
            f"SELECT {query}, t.name FROM {GPUS} t LIMIT 4096"  # noqa: S608 - our names
        )
    }


def _job(database: Database, processes: int, thread_names: Iterable[str]) -> dict[str, Any]:
    """Rank and world size, as the launcher told the profiled process, or MPI named its thread."""
    fields = place_in_job(_environment(database))
    if "rank" not in fields and (rank := _rank_of_thread(thread_names)) is not None:
        fields["rank"] = rank
        fields["sources"]["rank"] = "the name that MPI gave its thread"
    if processes > 1 and "rank" in fields:
        del fields["rank"], fields["sources"]["rank"]
    return fields


def _environment(database: Database) -> dict[str, str]:
    """The variables that tell ranks; no other of the environment is looked at."""
    if not database.has(CAPTURE, "name", "value"):
        return {}
    query = (
        "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%:ENVIRONMENT_VARIABLE'"
        " AND substr(value, 1, instr(value, '=') - 1) = ?"
    )
    found = {}
    for variable in VARIABLES:
        for (text,) in database.rows(query, variable):
            found[variable] = str(text).partition("=")[2].strip('"')
    return found


def _rank_of_thread(names: Iterable[str]) -> int | None:
    ranks = [name.removeprefix("MPI Rank ") for name in names if name.startswith("MPI Rank ")]
    rank = ranks[0] if len(ranks) == 1 else ""
    return int(rank[:9]) if rank.isdecimal() else None
