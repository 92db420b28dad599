"""Which files are worth a process, and how it begins."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.traces import write_trace
from ci_score.model.profile import Profile
from ci_score.traces import cores, parallel
from ci_score.traces.parallel import processes, read_all
from ci_score.traces.source import ProfileSource
from tests.builders import PROJECT


@pytest.fixture
def ranks(tmp_path: Path) -> list[ProfileSource]:
    """Three small traces of one job, of which one is packed."""
    sources = []
    for rank in range(3):
        path = tmp_path / f"rank{rank}.json"
        write_trace(path, 0, rank=rank, layers=2, steps=3)
        if rank == 2:
            path.write_bytes(gzip.compress(path.read_bytes()))
        sources.append(ProfileSource(path.name, path=path))
    return sources


# The process of a test has threads beside it, and forks no more.
FORKING = """
import sys
from pathlib import Path
from ci_score.traces import parallel
from ci_score.traces.source import ProfileSource

assert parallel.start_method() == "fork"
parallel.WORTH_A_PROCESS = 0
ranks = [ProfileSource(Path(name).name, path=Path(name)) for name in sys.argv[1:]]
with parallel.processes(ranks, 2) as pool:
    assert pool is not None
    profiles = parallel.read_all(ranks, pool)
assert profiles == parallel.read_all(ranks)
assert [profile.rank for profile in profiles] == [0, 1, 2]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of all threads")
def test_processes__that_are_forked_read_the_same(ranks: list[ProfileSource]) -> None:
    """In order and equal."""
    paths = [str(source.path) for source in ranks]
    command = [sys.executable, "-c", FORKING, *paths]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_processes__that_begin_anew_read_the_same(
    ranks: list[ProfileSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order and equal."""
    monkeypatch.setattr(parallel, "start_method", lambda: "spawn")
    monkeypatch.setattr(parallel, "WORTH_A_PROCESS", 0)
    with processes(ranks, 2) as pool:
        assert pool is not None
        profiles = read_all(ranks, pool)
    assert profiles == read_all(ranks)
    assert [profile.rank for profile in profiles if isinstance(profile, Profile)] == [0, 1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of all threads")
def test_processes__are_not_forked_beside_a_thread() -> None:
    """A lock that the thread holds would be held for ever in the fork."""
    held = threading.Event()
    thread = threading.Thread(target=held.wait)
    thread.start()
    try:
        assert cores.start_method() == "spawn"
    finally:
        held.set()
        thread.join()


def test_processes__are_worth_what_is_beside_the_largest(
    ranks: list[ProfileSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One large file keeps one process busy; a packed one counts for what is in it."""
    sizes = [parallel._size(source) for source in ranks]
    assert ranks[2].path is not None
    assert sizes[2] == 10 * ranks[2].path.stat().st_size
    monkeypatch.setattr(parallel, "_COST", {"fork": 1, "spawn": 1})
    monkeypatch.setattr(parallel, "WORTH_A_PROCESS", sum(sorted(sizes)[:-1]))
    with processes(ranks, 2) as pool:
        assert pool is None
    monkeypatch.setattr(parallel, "WORTH_A_PROCESS", sum(sorted(sizes)[:-1]) - 1)
    with processes(ranks, 2) as pool:
        assert pool is not None


def test_processes__a_file_that_is_not_there_says_so_later() -> None:
    """Its size is none, and reading it names the problem."""
    missing = [ProfileSource(name, path=Path("nowhere") / name) for name in ("a", "b")]
    with processes(missing, 2) as pool:
        assert pool is None
    assert all(isinstance(result, parallel.Problem) for result in read_all(missing))


def test_read_all__without_a_pool_each_file_may_have_several_processes(
    ranks: list[ProfileSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there are cores, or fewer where the user says so."""
    seen = []
    monkeypatch.setattr(parallel, "most_processes", lambda: 4)
    monkeypatch.setattr(parallel, "read_one", lambda source: seen.append(source.processes))
    for most in (None, 2, 8):
        read_all(ranks[:1], most=most)
    assert seen == [4, 2, 4]
