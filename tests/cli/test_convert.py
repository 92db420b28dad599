"""`ci-score convert` and `formats`: any file as a profile of kilobytes, here or on a cluster."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.errors import BadInputError, WrongUseError
from ci_score.model.profile import Profile
from ci_score.model.reasons import Reason
from ci_score.model.scorecard import Parity
from ci_score.reference.parity import compute_parity
from ci_score.report.sentences import sentence
from ci_score.run.case_files import CaseFile, CaseSource, find_files, to_be_read
from ci_score.run.reading import read_cases, read_side
from ci_score.run.settings import Settings
from ci_score.traces.formats import FORMATS, read_profile
from ci_score.traces.formats.reference import normalised
from ci_score.traces.parallel import Problem, processes, read_all
from ci_score.traces.source import ProfileSource
from tests.builders import profile, shared
from tests.builders.traces import kineto as traced
from tests.builders.traces.trainer_state import trained
from tests.builders.traces.valid_files import valid_files

Out = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("here")


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


def test_formats__say_what_took_the_times() -> None:
    """Times are compared only with times of the same source; the reference's profile tells none."""
    runtime = ("canary", "parity-profile", "apr", "step-profiler", "text-table", "log")
    logs = dict.fromkeys(("trainer-state", "megatron-golden", "training-log"), "the trainer's log")
    others = {**logs, "normalised": None, "reference": None}
    for name, data in valid_files().items():
        told = "the runtime itself" if name in runtime else others.get(name, "a profiler")
        assert read_profile(source(data)).timed_by == told
    trainer = read_profile(source(valid_files()["trainer-state"]))
    assert read_profile(source(normalised(trainer).encode())) == trainer


@pytest.mark.parametrize("command", ["convert {0}", "convert --json {0}", "score {0}"])
@pytest.mark.parametrize("usable", [True, False])
def test_not_usable__is_never_exit_0(here: Path, capsys: Out, command: str, usable: bool) -> None:
    """A checkpoint that does not tell how long its steps took is printed, and is no success."""
    state = json.dumps(trained(tokens=0, ended=usable))
    (here / "trainer_state.json").write_text(state, encoding="utf-8")
    assert execute(command.format("trainer_state.json").split()) == (0 if usable else 3)
    printed = capsys.readouterr()
    assert ("log_history has no train_runtime" in printed.out + printed.err) is not usable


def test_not_usable__is_no_side_of_a_parity(here: Path, capsys: Out) -> None:
    """Whichever side it is; two whole checkpoints have no ops, which is another reason."""
    for name, ended in (("whole", True), ("cut", False)):
        state = json.dumps(trained(tokens=0, ended=ended))
        (here / name).write_text(state, encoding="utf-8")
    for ours, theirs in (("whole", "whole"), ("whole", "cut"), ("cut", "whole")):
        assert execute(["parity", ours, theirs]) == 3
        assert ("cut is not usable" in capsys.readouterr().out) is (ours != theirs)


def test_reference__ignores_what_only_our_own_profile_knows() -> None:
    """A field of ours in a file of the reference's is an unknown field, whatever it holds."""
    bare = {"steps": 1, "ops": "x", "notes": 3, "rank": -1, "sources": []}
    one = read_profile(source(json.dumps(bare).encode()))
    assert one.but(unusable=None) == Profile(steps=1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "an empty file"),
        # Without its time: that would be in the test's name, which all processes must agree on.
        (gzip.compress(b"", mtime=0), "an empty file"),
        (b'{"schema_version": 1}', "a record, which `ci-score compare` reads"),
        (b'{\n "grade": "A"}', "a scorecard, which `ci-score compare` reads"),
        (b'{"runtime": "x"}', "one side of a parity, which `ci-score parity` reads"),
        (b'{"wall_coverage": 0.9, "grade": "A"}', "a scorecard"),
        (b'{"hello": 1}', "JSON of no profiler"),
        (b'{"loss": 1, "history": [{"steps": 10}]}', "JSON of no profiler"),
        (b'{"run": {"avg_step_ms": 10, "phases": {}}}', "JSON of no profiler"),
        (b'{"steps": 10, "learning_rate": 1}', "JSON of no profiler"),
        (b'{"note": "\\"phases\\": {"}', "JSON of no profiler"),
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


@pytest.mark.parametrize("text", ["{}", '{"steps": 10}', '{"phases": {}, "mine": 1}'])
def test_reference__of_nothing_is_not_usable(text: str) -> None:
    """Every field may be missing, and then nothing was measured."""
    one = read_profile(source(text.encode()))
    assert "it measured nothing" in (one.unusable or "")


@pytest.mark.parametrize(
    "text",
    [
        '{"avg_step_ms": 10.0}',
        '{"runtime": "mine", "per_layer": [{"layer": 0, "fwd_ms": 1.0, "bwd_ms": 0.0}]}',
    ],
)
def test_reference__is_known_by_its_own_keys(text: str) -> None:
    """Fields may be missing, and there may be others."""
    assert read_profile(source(text.encode())).unusable is None


def test_samples__each_has_one_reader() -> None:
    """Every sample is read, or refused with a reason, by exactly one row of the table."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    # Benchmark files are no profiles.
    folders = [path for path in sorted((folder / "samples").iterdir()) if path.name != "benchmarks"]
    files = [path for one in folders for path in sorted(one.rglob("*")) if path.is_file()]
    for path in files:
        if path.name == "expected.json":
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


def test_convert__counts_the_ops_that_it_does_not_show(here: Path, capsys: Out) -> None:
    """The table has their time, too, and phases say which time theirs is."""
    ops = {f"op {number:02}": 1.0 + number for number in range(20)}
    shown = profile(ops=ops, sources={"phases": "by the host's clock"})
    (here / "many.json").write_text(normalised(shown), encoding="utf-8")
    assert execute(["convert", "many.json"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"op 08 +9.00 ms.*\n +8 more +36.0 ms", text)
    assert "Phases (by the host's clock)" in text


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


def test_convert__of_an_empty_folder_is_wrong_use(here: Path, capsys: Out) -> None:
    """There is nothing to read, and the folder is named."""
    (here / "empty").mkdir()
    assert execute(["convert", "empty"]) == 2
    assert "empty: the folder holds no file" in capsys.readouterr().err


STRAYS = {
    "README.md": "# Profiles\n",
    "baselines.json": '{"apr": {"tokens_per_sec": 470}}',
    "record.json": '{"schema_version": 1}',
    "empty.log": "",
}


def test_convert__leaves_out_what_is_no_profile(here: Path, capsys: Out) -> None:
    """A README in a folder of good files costs a note; named, it is an error."""
    ranks(here)
    for name, text in STRAYS.items():
        (here / "ranks" / name).write_text(text, encoding="utf-8")
    assert execute(["convert", "ranks", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    for name in STRAYS:
        assert any(note.startswith(f"{name} was left out: ") for note in notes)
    assert execute(["convert", "ranks", "ranks/README.md"]) == 2
    assert "README.md" in capsys.readouterr().err


def test_convert__with_nothing_left_is_an_error(here: Path, capsys: Out) -> None:
    """Nothing but other files is no measurement."""
    (here / "folder").mkdir()
    for name, text in STRAYS.items():
        (here / "folder" / name).write_text(text, encoding="utf-8")
    assert execute(["convert", "folder"]) == 2
    error = capsys.readouterr().err
    assert "4 files and no profile" in error
    assert "README.md is text without a profile" in error


def test_convert__a_damaged_profile_of_a_folder_is_an_error(here: Path, capsys: Out) -> None:
    """A rank whose file was cut short is not left out: the job is not that of the others."""
    ranks(here)
    (here / "ranks" / "9.json").write_text('{"avg_step_ms": 1.0, ', encoding="utf-8")
    assert execute(["convert", "ranks"]) == 2
    assert "9.json" in capsys.readouterr().err


def test_cases__what_lies_beside_them_is_none(here: Path) -> None:
    """A README beside the folders of cases is no case of its own, and a profile there is one."""
    (here / "cases" / "llama").mkdir(parents=True)
    (here / "cases" / "README.md").write_text("# Profiles\n", encoding="utf-8")
    (here / "cases" / "llama" / "p.json").write_text(normalised(profile()), encoding="utf-8")

    def cases() -> dict[str, Reason | None]:
        found = find_files([CaseSource("cases")], here)
        return {case.name: case.problem for case in read_cases(found, None, {})}

    assert cases() == {"llama": None}
    (here / "cases" / "p.json").write_text(normalised(profile()), encoding="utf-8")
    assert cases() == {"llama": None, "training": None}


def test_cases__of_a_file_that_is_named_and_no_profile_has_a_problem(here: Path) -> None:
    """Who names a file means it."""
    (here / "README.md").write_text("# Profiles\n", encoding="utf-8")
    (here / "p.json").write_text(normalised(profile()), encoding="utf-8")
    (named,) = read_cases(
        find_files([CaseSource("README.md"), CaseSource("p.json")], here), None, {}
    )
    assert named.problem is not None
    assert "README.md" in sentence(named.problem)
    (globbed,) = read_cases(find_files([CaseSource("[Rp]*")], here), None, {})
    assert globbed.problem is None
    assert "README.md was left out: text without a profile." in globbed.profile.notes


def test_cases__of_two_jobs_have_a_problem(here: Path) -> None:
    """Which files, and how to tell them apart."""
    for name in ("A100", "H100"):
        text = normalised(profile(accelerator=name))
        (here / f"{name}.json").write_text(text, encoding="utf-8")
    (one,) = read_cases(find_files([CaseSource("*.json")], here), None, {})
    assert one.problem is not None
    assert "A100: A100.json; H100: H100.json" in sentence(one.problem)


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


NESTED_RUNTIMES = {
    "canary": {
        "canary": "apr", "config": {"runtime": "apr"},
        "metrics": {"tokens_per_sec": 470.0, "final_loss": 1.0},
    },
    "parity profile": {
        "canary": "unsloth", "metrics": {"tokens_per_sec": 470.0, "final_loss": 1.0},
        "profile": {"_schema": "parity-profile-v1", "runtime": "unsloth", "ops": {}},
    },
    "parity profile alone": {"_schema": "parity-profile-v1", "runtime": "unsloth", "ops": {}},
    "reference": {"runtime": "mine", "avg_step_ms": 1.0, "phases": {}},
}  # fmt: skip


@pytest.mark.parametrize("kind", NESTED_RUNTIMES)
def test_parity__reads_what_convert_reads(here: Path, capsys: Out, kind: str) -> None:
    """A profile that names a runtime somewhere is no bare side of a parity."""
    (here / "ours.json").write_text(json.dumps(NESTED_RUNTIMES[kind]), encoding="utf-8")
    (here / "theirs.json").write_text(normalised(profile()), encoding="utf-8")
    code = 3 if kind.startswith("parity profile") else 0
    assert execute(["convert", "ours.json"]) == code
    assert execute(["parity", "ours.json", "theirs.json"]) == 3
    text = capsys.readouterr().out
    assert "Parity not judged: " in text
    assert ("measured nothing" in text) is (code == 3)


@pytest.mark.parametrize(
    "side", ['{"runtime": "x", "ops": {"gemm": 1.0}}', '{"ops": {"gemm": 1.0}, "runtime": "x"}']
)
def test_parity__reads_a_bare_side(side: str) -> None:
    """Whatever the order of its keys."""
    assert read_side(source(side.encode()), "file").runtime == "x"


def test_parity__a_bare_side_without_its_ops_is_wrong() -> None:
    """The field that is missing is named."""
    with pytest.raises(BadInputError, match="ops: found nothing"):
        read_side(source(b'{"runtime": "x"}'), "file")


def test_parity__names_files_of_one_name_by_their_side(here: Path, capsys: Out) -> None:
    """main/p.json and pr/p.json could not be told apart."""
    for folder in ("main", "pr"):
        (here / folder).mkdir()
        (here / folder / "p.json").write_text(normalised(profile()), encoding="utf-8")
    assert execute(["parity", "pr/p.json", "main/p.json"]) == 0
    assert "ours against theirs" in capsys.readouterr().out


def test_parity__with_the_ranks_of_a_partner(here: Path) -> None:
    """The other runtime's job may have several files, and a README beside them."""
    (here / "p.json").write_text(normalised(profile()), encoding="utf-8")
    ranks(here)
    (here / "ranks" / "README.md").write_text("# Profiles\n", encoding="utf-8")
    files = find_files([CaseSource("p.json")], here)
    (one,) = read_cases(files, None, find_files([CaseSource("ranks", "training")], here))
    assert one.partner
    assert one.partner.step_time_ms == 103.0


def test_parity__of_the_real_pairs() -> None:
    """H100 and MI300 on the same model: kinds compare, and most of the time is covered."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")
    kineto = folder / "samples" / "kineto"
    for model in ("bert_small", "qwen05b"):
        sides = [
            read_side(ProfileSource(name, kineto / f"{name}_{model}_inference.json.gz"), name)
            for name in ("mi300", "h100")
        ]
        found = compute_parity(*sides)
        assert found.judged
        assert min(found.apr_share_compared or 0, found.baseline_share_compared or 0) > 0.9
        assert found.throughput_inferred
        outside = [note for note in found.notes if "belongs to no step" in note]
        assert len(outside) == (2 if model == "qwen05b" else 0)


def test_parity__of_real_files_that_have_little_in_common() -> None:
    """A sliver of the time is no parity, and a file that measured nothing says so."""
    folder = shared()
    if folder is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the samples are not here")

    def compared(ours: str, theirs: str) -> Parity:
        paths = [folder / "samples" / name for name in (ours, theirs)]
        return compute_parity(
            *(read_side(ProfileSource(path.name, path), path.name) for path in paths)
        )

    thin = compared("nsight/h100_2gpu_1s.sqlite.gz", "nsight/minimal_schema.sqlite.gz")
    assert thin.parity_achieved
    assert "cover only 2.5% of h100_2gpu_1s" in (thin.unjudged_reason or "")
    empty = compared("upstream/parity-unsloth-empty.json", "upstream/canary-unsloth-20260331.json")
    assert "measured nothing" in (empty.unjudged_reason or "")
    named = compared(
        "upstream/step_profiler_v2_instruct_pipeline_shape.SYNTHETIC.json",
        "kineto/h100_qwen05b_inference.json.gz",
    )
    assert {gap.op for gap in named.top_gaps} == {"gemm", "attention", "elementwise"}


# --- bigger than one process --------------------------------------------------------------------


def test_processes__read_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In processes, in order, with the same result; a problem travels as well."""
    monkeypatch.setattr("ci_score.traces.parallel.WORTH_A_PROCESS", 0)
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


def test_step_name__says_what_the_ranges_of_steps_are_called(here: Path, capsys: Out) -> None:
    """A name that says nothing of steps counts where it is asked for; a broken REGEX exits 2."""
    once, twice = [], []
    for number in range(4):
        at = 1000 + 100 * number
        step = traced.annotation("my_phase", at, 90)
        once += [step, *traced.work(number + 1, at + 5, at + 10, 60)]
        twice.append(step)
        for place in (0, 1):
            begin = at + 40 * place
            twice += [*traced.work(2 * number + place + 1, begin + 5, begin + 10, 30)]
    (here / "trace.json").write_bytes(traced.text(once))
    (here / "twice.json").write_bytes(traced.text(twice))
    assert execute(["convert", "trace.json", "--json", "--step-name", "my_.*e$"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sources"]["steps"] == "annotations 'my_phase', as asked for"
    assert (found["steps"], found["avg_step_ms"]) == (4, pytest.approx(0.1))
    assert execute(["score", "trace.json", "--step-name", "my_.*e$"]) == 0
    capsys.readouterr()
    both = ["twice.json", "trace.json", "--step-name", "my_.*e$", "--json"]
    assert execute(["parity", *both]) == 0
    assert json.loads(capsys.readouterr().out)["launch_ratio"] == 2
    assert execute(["convert", "trace.json", "--step-name", "("]) == 2
    assert "cannot be searched for" in capsys.readouterr().err


def test_step_name__of_the_action_is_that_of_every_case(here: Path) -> None:
    """Profiles, partners and the sides of a session alike."""
    settings = Settings.of({"step-name": "my_step"}, here)
    side = {"head": (CaseFile("trace.json", data=b"{}"),)}
    files = {"training": [CaseFile("a.json", data=b"{}", profiles=side)]}
    (file,) = to_be_read(files, settings.step_name)["training"]
    for each in (file, *file.profiles["head"]):
        assert each.source().step_name == re.compile("my_step")
    with pytest.raises(WrongUseError, match="step-name"):
        Settings.of({"step-name": "("}, here)
