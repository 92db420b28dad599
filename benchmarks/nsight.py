"""What reading an Nsight Systems database costs beside the bare SQL that fetches its kernels.

The database is generated: a training run of two processes whose correlation ids are the same, with
the tables, columns and proportions of a real export of 2026 (a kernel has 1.7 runtime calls and
five ranges). Each side runs in processes of its own, so that the peak memory is its own.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.measure import answer, note, show
from ci_score.traces.formats import nsight
from ci_score.traces.source import ProfileSource

MB, SHORT_MB = 200, 20
PAIRS = 5
WANTED_RATIO, WANTED_MB = 2, 75
KERNELS_PER_MB = 2600

KERNELS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, T2)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute",
    "void at::native::vectorized_layer_norm_kernel<float, float>(int, float, float const*)",
    "flash_fwd_kernel(Flash_fwd_params)",
    "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>(int, T3)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x256x64_warpgroupsize2x1x1_execute",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps>>(T3)",
)
COMMUNICATION = 5
LOSS = "void cunn_SoftMaxForward<4, float, float>(float*, float const*, int)"
OPTIMIZER = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>(T1, T2)"
CALLS = ("cudaLaunchKernel_v7000", "cudaStreamIsCapturing_v10000", "cudaMemcpyAsync_v3020")
BLOCKS_PER_STEP, OPS_PER_KERNEL = 200, 5

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, memoryBandwidth INTEGER);
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
  launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL,
  gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
  localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
  gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
  sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL,
  graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
  endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER);
"""

# The practical limit: what any reader needs of the kernels, fetched and dropped.
BARE_SQL = """
SELECT k.start, k.end, k.globalPid, k.deviceId, k.streamId, k.correlationId, s.value, r.start
FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
  ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
  JOIN StringIds s ON s.id = k.demangledName
"""

Row = tuple[object, ...]


class Run:
    """One process's training, a launch after the other; the tables take its rows as they come."""

    def __init__(self, process: int, kernels: int) -> None:
        self.device = process
        self.pid = (1000 + process) << 24
        self.tid = self.pid + 1
        self.kernels = kernels
        self.host = 0
        self.gpu = 0
        self.correlation = 0

    def steps(self) -> Iterator[dict[str, list[Row]]]:
        """The rows of one step a time: the run itself is never held."""
        while self.correlation < self.kernels:
            yield self._step()

    def _step(self) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {"KERNEL": [], "MEMCPY": [], "RUNTIME": [], "NVTX": []}
        begin = self.host
        self._copy(rows)
        for phase, share in (("forward", 1), ("backward", 2)):
            phase_begin = self.host
            for _ in range(BLOCKS_PER_STEP // 3 * share):
                for name in range(len(KERNELS)):
                    self._kernel(rows, name)
            self._kernel(rows, len(KERNELS))
            rows["NVTX"].append(self._range(phase_begin, phase))
        phase_begin = self.host
        self._kernel(rows, len(KERNELS) + 1)
        rows["NVTX"].append(self._range(phase_begin, "optimizer"))
        rows["NVTX"].append(self._range(begin, "step"))
        return rows

    def _range(self, begin: int, text: str) -> Row:
        return (begin, self.host, 59, None, None, None, text, self.tid, None, None, 0, None)

    def _launch(self, rows: dict[str, list[Row]], call: int) -> None:
        self.correlation += 1
        for operator in range(OPS_PER_KERNEL):
            start = self.host
            self.host += 900
            operation = f"aten::op_{self.correlation % 40}, op_id = {self.correlation + operator}"
            rows["NVTX"].append(self._range(start, operation))
        if self.correlation % 3 != 0:
            self._call(rows, 101, self.correlation + 2**30)
        self._call(rows, 100 + call, self.correlation)

    def _call(self, rows: dict[str, list[Row]], name: int, correlation: int) -> None:
        rows["RUNTIME"].append(
            (self.host, self.host + 700, 0, self.tid, correlation, name, 0, None)
        )
        self.host += 1100

    def _device_time(self, duration: int, beside: bool = False) -> tuple[int, int]:
        """Work follows the work before it; communication runs on beside the next kernels."""
        start = max(self.gpu + 400, self.host + 3000)
        self.gpu = start + (0 if beside else duration)
        return start, start + duration

    def _kernel(self, rows: dict[str, list[Row]], name: int) -> None:
        self._launch(rows, 0)
        communicates = name == COMMUNICATION
        start, end = self._device_time(1500 + 613 * (self.correlation % 17), communicates)
        rows["KERNEL"].append(
            (
                *(start, end, self.device, 1, None, 20 if communicates else 7),
                *(self.correlation, self.pid, name, name, name, 1, 1, 32, 50, 4, 1, 256, 1, 1),
                *(0, 0, 0, 250871808, 75429 + self.correlation, 32768, None, 0),
            )
        )

    def _copy(self, rows: dict[str, list[Row]]) -> None:
        self._launch(rows, 2)
        start, end = self._device_time(90_000)
        rows["MEMCPY"].append(
            (start, end, self.device, 1, 7, self.correlation, self.pid, 1 << 20, 1, None)
        )


TABLES = {
    "KERNEL": "CUPTI_ACTIVITY_KIND_KERNEL",
    "MEMCPY": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "RUNTIME": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX": "NVTX_EVENTS",
}


def write_database(path: Path, megabytes: float) -> Path:
    """A database of about that size."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;" + SCHEMA)
        names = enumerate((*KERNELS, LOSS, OPTIMIZER))
        insert(database, "StringIds", itertools.chain(names, enumerate(CALLS, 100)))
        insert(database, "META_DATA_EXPORT", [("EXPORT_PRODUCT_VERSION", "2026.1.1.204")])
        gpu = ("NVIDIA H100 80GB HBM3", 85_000_000_000, 3_352_320_000_000)
        insert(database, "TARGET_INFO_GPU", [(number, *gpu) for number in range(2)])
        kernels = int(megabytes * KERNELS_PER_MB / 2)
        runs = [Run(process, kernels).steps() for process in range(2)]
        for both in zip(*runs, strict=True):
            for rows in both:
                for table, values in rows.items():
                    insert(database, TABLES[table], values)
        database.execute("COMMIT")
    return path


def insert(database: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    """All rows into a table of ours."""
    rows = list(rows)
    places = ", ".join("?" * len(rows[0]))
    database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608 - our names


def fetch_bare(path: str) -> None:
    """The practical limit."""
    begin = time.perf_counter()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        cursor = database.execute(BARE_SQL)
        while cursor.fetchmany(4096):
            pass
    print_seconds_and_mb(begin)


def read(path: str) -> None:
    """What `ci-score convert` does with the file."""
    begin = time.perf_counter()
    nsight.read(ProfileSource(name=path, path=Path(path)))
    print_seconds_and_mb(begin)


def print_seconds_and_mb(begin: float) -> None:
    """For the parent process."""
    elapsed = time.perf_counter() - begin
    print(elapsed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(megabytes: int) -> None:
    """Prints the ratio and the memory."""
    note([f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}; median of pairs"])
    with tempfile.TemporaryDirectory() as folder:
        path = write_database(Path(folder) / "generated.sqlite", megabytes)
        note([f"an Nsight database of {path.stat().st_size / 1e6:.0f} MB"])
        module = ("-m", "benchmarks.nsight")
        pairs = [
            (answer(*module, "--read", str(path)), answer(*module, "--fetch-bare", str(path)))
            for _ in range(PAIRS)
        ]
    ratio = statistics.median(ours[0] / bare[0] for ours, bare in pairs)
    show("reading an Nsight database / the bare SQL of its launches", ratio, WANTED_RATIO)
    more = max(ours[1] for ours, _ in pairs) - min(bare[1] for _, bare in pairs)
    show("its peak memory beyond that of the bare SQL", more, WANTED_MB, "MB")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--short", action="store_true", help=f"{SHORT_MB} MB in place of {MB}")
    options.add_argument("--read", help=argparse.SUPPRESS)
    options.add_argument("--fetch-bare", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.read:
        read(chosen.read)
    elif chosen.fetch_bare:
        fetch_bare(chosen.fetch_bare)
    else:
        main(SHORT_MB if chosen.short else MB)
