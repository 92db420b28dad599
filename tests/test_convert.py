"""`ci-score convert` and `formats`: any file as a profile of kilobytes, here or on a cluster."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.errors import BadInputError
from ci_score.models import Profile
from ci_score.profilers import FORMATS, read_profile
from ci_score.profilers.parallel import Problem, processes, read_all
from ci_score.profilers.reference import normalised
from ci_score.profilers.source import ProfileSource
from tests.builders import profile, shared

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(data: bytes, name: str = "file") -> ProfileSource:
    return ProfileSource(name, data=data)


def ranks(here: Path, count: int = 4) -> list[Path]:
    folder = here / "ranks"
    folder.mkdir()
    for number in range(count):
        one = profile(100.0 + number, rank=number, ops={f"op{n}": 1.0 for n in range(50)})
        (folder / f"{number}.json").write_text(normalised(one), encoding="utf-8")
    return sorted(folder.iterdir())


# --- which reader -------------------------------------------------------------------------------


def test_normalised__reads_back_equal() -> None:
    """What is converted beside the accelerator is the same profile in the gate job."""
    whole = profile(
        tool="x", sources={"steps": "y"}, notes=("z",), step_times_ms=(1.0, 2.0), rank=0,
        op_categories={"gemm": 1.0}, capture={"gpu_span_ms": 2.0}, unusable="why",
    )  # fmt: skip
    assert read_profile(source(normalised(whole).encode())) == whole


def test_reference__ignores_what_only_our_own_profile_knows() -> None:
    """A field of ours in a file of the reference's is an unknown field, whatever it holds."""
    bare = {"steps": 1, "ops": "x", "notes": 3, "rank": -1, "sources": []}
    assert read_profile(source(json.dumps(bare).encode())) == Profile(steps=1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "an empty file"),
        (gzip.compress(b""), "an empty file"),
        (b'{"schema_version": 1}', "a record, which `ci-score compare` reads"),
        (b'{\n "grade": "A"}', "a scorecard, which `ci-score compare` reads"),
        (b'{"runtime": "x"}', "one side of a parity, which `ci-score parity` reads"),
        (b'{"hello": 1}', "JSON of no profiler"),
        (b"[1, 2]", "text without a profile"),
        (b"PK\x03\x04xx", "an archive"),
        (b"\x00\x01\x02", "bytes of no known format"),
    ],
)
def test_unknown__says_what_it_looks_like(data: bytes, words: str) -> None:
    """And where the list of what is read can be found."""
    with pytest.raises(BadInputError) as error:
        read_profile(source(data))
    assert words in error.value.found


def test_samples__each_has_one_reader() -> None:
    """Every sample is read, or refused with a reason, by exactly one row of the table."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    files = [path for path in sorted((folder / "samples").rglob("*")) if path.is_file()]
    for path in files:
        if path.name in {"README.md", "expected.json"}:
            continue
        head = ProfileSource(path.name, path).head()
        marked = [row for row in FORMATS if row.name not in {"reference", "log"}]
        knows = [row.name for row in marked if row.recognises(head)]
        assert len(knows) <= 1, (path.name, knows)
        assert knows or path.name in {
            "apr-stderr-with-embedded-profile.log",
            "baselines.json",
        }, path


def test_formats__are_listed(capsys: Out) -> None:
    """What is read, and on what it was tested."""
    assert execute(["formats"]) == 0
    text = capsys.readouterr().out
    assert all(row.name in text and row.tested_on[:40] in text for row in FORMATS)
    assert execute(["formats", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(FORMATS)


# --- convert ------------------------------------------------------------------------------------


def test_convert__prints_a_summary(here: Path, capsys: Out) -> None:
    """Numbers with their source, phases, kinds, notes."""
    one = profile(
        sources={"avg_step_ms": "a clock"}, notes=("a note",), op_categories={"gemm": 9.0}
    )
    (here / "p.json").write_text(normalised(one), encoding="utf-8")
    assert execute(["convert", "p.json"]) == 0
    text = capsys.readouterr().out
    for words in ("Step time", "100 ms", "a clock", "backward", "gemm", "a note"):
        assert words in text


def test_convert__merges_the_ranks_of_a_folder(here: Path, capsys: Out) -> None:
    """Kilobytes for the gate job, readable by every other command."""
    ranks(here)
    assert execute(["convert", "ranks", "--json", "-o", "profile.json"]) == 0
    assert execute(["score", "profile.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step_time_ms"] == 103.0


def test_convert__of_several_cases_is_refused(here: Path, capsys: Out) -> None:
    """A folder of folders is several cases, and a file is one."""
    for name in ("a", "b"):
        (here / "cases" / name).mkdir(parents=True)
        (here / "cases" / name / "p.json").write_text("{}", encoding="utf-8")
    assert execute(["convert", "cases"]) == 2
    assert "the cases a, b" in capsys.readouterr().err


def test_convert__reads_standard_input(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    """As every other command does."""
    data = gzip.compress(normalised(profile()).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert execute(["convert", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["_profiler"] == "ci-score"


def test_convert__one_bad_file_is_named(here: Path, capsys: Out) -> None:
    """A job with a rank that cannot be read is not the job of the others."""
    files = [str(path) for path in ranks(here)]
    (here / "bad.json").write_text("{", encoding="utf-8")
    assert execute(["convert", *files, "bad.json"]) == 2
    assert "bad.json" in capsys.readouterr().err


def test_convert__stops_at_the_limit_of_what_a_file_unpacks_to(here: Path, capsys: Out) -> None:
    """A gzip without end ends."""
    (here / "bomb.json").write_bytes(gzip.compress(b'{"steps": 1' + b" " * 2_000_000 + b"}"))
    assert execute(["convert", "bomb.json", "--unpacked-limit", "0.001"]) == 2
    assert "--unpacked-limit" in capsys.readouterr().err


# --- parity of traces ---------------------------------------------------------------------------


def test_parity__of_two_profiles_compares_by_kind(here: Path, capsys: Out) -> None:
    """Runtimes name their kernels differently; what they do has the same names."""
    for name, gemm, only in (("ours", 2.0, "norm"), ("theirs", 1.0, "reduce")):
        one = profile(ops={f"{name}_kernel": gemm}, op_categories={"gemm": gemm, only: 1.0})
        (here / f"{name}.json").write_text(normalised(one), encoding="utf-8")
    assert execute(["parity", "ours.json", "theirs.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(gap["op"], gap["ratio"]) for gap in found["top_gaps"]] == [("gemm", 2.0)]
    assert "Only ours has norm." in found["notes"]
    assert "Only theirs has reduce." in found["notes"]


def test_parity__of_the_real_pairs() -> None:
    """H100 and MI300 on the same model: kinds compare, and most of the time is covered."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    from ci_score.parity import compute_parity
    from ci_score.reading import read_side

    kineto = folder / "samples" / "kineto"
    for model in ("bert_small", "qwen05b"):
        sides = [
            read_side(ProfileSource(name, kineto / f"{name}_{model}_inference.json.gz"), name)
            for name in ("mi300", "h100")
        ]
        found = compute_parity(*sides)
        assert found.judged
        assert min(found.apr_share_compared or 0, found.baseline_share_compared or 0) > 0.9


# --- bigger than one process --------------------------------------------------------------------


def test_processes__read_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In processes, in order, with the same result; a problem travels as well."""
    monkeypatch.setattr("ci_score.profilers.parallel.WORTH_A_PROCESS", 0)
    sources = [ProfileSource(path.name, path) for path in ranks(here)]
    sources.append(source(b"{", "bad"))
    seen: list[int] = []
    with processes(sources, 2) as pool:
        assert pool is not None
        there = read_all(sources, pool, seen.append)
    assert there == read_all(sources)
    assert isinstance(there[-1], Problem)
    assert seen == [1, 2, 3, 4, 5]


def test_processes__are_not_started_for_little(here: Path) -> None:
    """A process costs more than reading a small file."""
    with processes([ProfileSource(path.name, path) for path in ranks(here)], None) as pool:
        assert pool is None


@contextmanager
def a_cluster() -> Iterator[Any]:
    """A real scheduler and two workers, each a process of its own, on loopback."""
    from distributed import LocalCluster

    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address=None, silence_logs=50,
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.mark.filterwarnings("ignore")  # distributed's own
def test_dask__reads_the_same_and_survives_a_worker(here: Path, capsys: Out) -> None:
    """Identical results from two workers; one that is killed half-way loses nothing."""
    files = [str(path) for path in ranks(here, 8)]
    assert execute(["convert", *files, "--json"]) == 0
    expected = capsys.readouterr().out
    with a_cluster() as cluster:
        address = cluster.scheduler_address
        assert execute(["convert", *files, "--json", "--dask", address]) == 0
        assert capsys.readouterr().out == expected
        killed = next(iter(cluster.workers.values()))
        os.kill(killed.process.pid, signal.SIGKILL)
        assert execute(["convert", *files, "--json", "--dask", address]) == 0
        assert capsys.readouterr().out == expected


def test_dask__without_a_scheduler_is_wrong_use(here: Path, capsys: Out) -> None:
    """An address where nobody answers is the user's to mend."""
    (path, *_) = ranks(here)
    assert execute(["convert", str(path), "--dask", "nonsense"]) == 2
    assert "no Dask scheduler" in capsys.readouterr().err


def test_progress__is_quiet_where_nobody_looks(here: Path, capsys: Out) -> None:
    """Standard error of a job holds no progress."""
    ranks(here)
    assert execute(["convert", "ranks"]) == 0
    assert capsys.readouterr().err == ""
