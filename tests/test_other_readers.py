"""Nsight Systems, rocprofv3, JAX: what is read of the samples; a stranger's bytes crash nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.errors import BadInputError
from ci_score.profilers import FORMATS, read_profile
from ci_score.profilers.source import ProfileSource
from tests.builders import shared

SAMPLES = [
    ("nsight/export2022_saxpy_mpi.sqlite.gz", 5, 255.68, "NVIDIA A100-SXM4-40GB"),
    ("nsight/h100_2gpu_1s.sqlite.gz", 24, 29.34, None),
    ("nsight/minimal_schema.sqlite.gz", 200, 2.02, "NVIDIA H100 80GB HBM3"),
    ("nsight/rtx3080_mock.sqlite.gz", 1, 22.453, "NVIDIA GeForce RTX 3080"),
    ("jax/jax010_cpu.trace.json.gz", 10, 6.974, None),
    ("rocprof/908_results.json.gz", 48, 47.8377, "AMD Instinct MI350X"),
    ("jax/mi300_conv.xplane.pb", 5, 27.809, None),
]


@pytest.mark.parametrize(("name", "steps", "step_ms", "accelerator"), SAMPLES)
def test_samples__are_read(name: str, steps: int, step_ms: float, accelerator: str | None) -> None:
    """Steps, step time and device of each."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    path = folder / "samples" / name
    found = read_profile(ProfileSource(path.name, path))
    assert (found.steps, found.accelerator) == (steps, accelerator)
    assert found.avg_step_ms == pytest.approx(step_ms, rel=1e-3)


def nsight(path: Path, kernels: int) -> ProfileSource:
    """A database with one kernel a millisecond, each launched by a call of its own."""
    with closing(sqlite3.connect(path)) as connection, connection as database:
        database.executescript(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT,"
            " streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT,"
            " correlationId INT, nameId INT);"
            "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, globalTid INT,"
            " text TEXT, textId INT);"
            "INSERT INTO StringIds VALUES (1, 'sgemm_kernel'), (2, 'cudaLaunchKernel_v7000');"
        )
        for number in range(kernels):
            begin = number * 1_000_000
            database.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, 1, 1)",
                (begin + 100_000, begin + 600_000, number, 1 << 24),
            )
            database.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 2)",
                (begin + 10_000, begin + 20_000, (1 << 24) + 5, number),
            )
            database.execute(
                "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, NULL)",
                (begin, begin + 900_000, (1 << 24) + 5, f"step {number}"),
            )
    return ProfileSource(path.name, path)


def test_nsight__steps_by_ranges_and_kernels_by_launch(tmp_path: Path) -> None:
    """Ten ranges a millisecond apart, half a millisecond of one kernel in each."""
    found = read_profile(nsight(tmp_path / "x.sqlite", 10))
    assert found.steps == 10
    assert found.avg_step_ms == pytest.approx(1.0)
    assert found.device_busy_ms == pytest.approx(0.5)
    assert found.op_categories["gemm"] == pytest.approx(0.5)


def test_nsight__another_database_is_refused(tmp_path: Path) -> None:
    """An sqlite file is not yet a profile."""
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection, connection as database:
        database.execute('CREATE TABLE "users; DROP TABLE x" (id INT)')
    with pytest.raises(BadInputError):
        read_profile(ProfileSource("x", tmp_path / "x.sqlite"))


STARTS = [b"SQLite format 3\0", b'{"displayTimeUnit":"ns","traceEvents":[', b"\x0a\x10", b"{", b""]


@given(st.sampled_from(STARTS), st.binary(max_size=400))
def test_readers__never_crash(start: bytes, junk: bytes) -> None:
    """Whatever the bytes are: a profile, or an error of ours."""
    source = ProfileSource("junk", data=start + junk)
    for row in FORMATS:
        if row.recognises(source.head()):
            try:
                row.read(source)
            except BadInputError:
                continue
