"""What a fork's pull request may send to the gate and to the job that posts for it."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_score.errors import BadInputError
from ci_score.files.strict_json import dump
from ci_score.github import artifacts
from ci_score.launches.environment import MOST_VERSIONS
from ci_score.model.record import MOST_CASES
from ci_score.run import action, measurements
from ci_score.run.case_files import (
    PROFILES_FOLDER,
    SESSION_FILE,
    CaseFile,
    CaseSource,
    find_measurements,
    to_be_read,
)
from ci_score.run.reading import read_cases
from tests.builders.launches import lines
from tests.builders.scene import (
    FAST,
    SLOW,
    Outcome,
    Scene,
    fork_pull_request,
    on_pull_request,
    pull_request,
    record_for,
    run_of_fork,
    tip,
)
from tests.loopback_github import events
from tests.loopback_github.state import WORKFLOW


def test_poster__of_a_workflow_that_the_fork_brings_along(scene: Scene) -> None:
    """It is called like the one that is waited for, has no baseline, and would look harmless."""
    scene.leave_record(tip(scene), FAST)
    pull = fork_pull_request(scene)
    for path in (WORKFLOW, ".github/workflows/more.yml"):
        producer = run_of_fork(scene, pull, path)
        left = dump(record_for(pull.merge_commit_sha, SLOW, producer)).encode()
        scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": left})
        assert scene.act(events.workflow_run(scene.github, producer)).code == 0
    (comment,) = scene.comments(pull)
    assert "❌ Fail: 30 % slower" in comment


def test_rerun__with_more_artifacts_than_a_page_lists(scene: Scene) -> None:
    """The record of the slow attempt is found however many the second one uploads beside it."""
    scene.leave_record(tip(scene), FAST)
    scene.measure(SLOW)
    first = events.pull_request(scene.github, pull_request(scene))
    assert scene.act(first).code == 1
    left = (scene.workspace / "ci-score" / "ci-score.json").read_bytes()
    scene.state.uploaded(first.run, "ci-score-pr", {"ci-score.json": left})
    again = events.rerun(scene.github, first)
    for number in range(150):
        scene.state.artifact(again.run, f"perf-{number}", b"")
    scene.measure(FAST)
    before = len(scene.asked())
    assert "15 % slower" in scene.act(again).summary
    listed = f"GET /repos/{scene.repository.full_name}/actions/runs/{again.run.id}/artifacts"
    assert scene.asked()[before:].count(listed) == 1


def deep(folder: Path) -> None:
    """A file below more folders than anybody makes."""
    folder.joinpath(*["d"] * 40).mkdir(parents=True)


def of_many_cases(folder: Path) -> None:
    """One case more than a report has, one of them named by its folder."""
    rows = [{"case": f"case-{number}", "step_ms": [1.0]} for number in range(MOST_CASES)]
    (folder / "m.jsonl").write_bytes(lines({"step_ms": [1.0]}, *rows))


# In place of 100,000, which take their time.
FEW_LAUNCHES = 1000


def of_many_launches(folder: Path) -> None:
    """More than a file may have, in two files."""
    text = lines({"step_ms": [1.0]}) * (FEW_LAUNCHES // 2)
    for name in ("a", "b", "c"):
        (folder / f"{name}.jsonl").write_bytes(text)


def of_many_numbers(folder: Path) -> None:
    """Lines that unpack to more than is read, of 130 kB."""
    (folder / "m.jsonl").write_bytes(gzip.compress(lines({"step_ms": [1.0]}) + b" " * 60 * 2**20))
    for name in ("a", "b"):
        shutil.copy(folder / "m.jsonl", folder / f"{name}.jsonl")


# --- why a measurement failed ---------------------------------------------------------------------


def failed_with(scene: Scene, data: bytes, name: str = "training~1") -> Path:
    """What the code that is measured may leave as its last words."""
    path = scene.workspace / "perf" / name / "failed.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def last_words(text: str) -> bytes:
    return json.dumps({"schema": 1, "words": text}).encode()


def failed(scene: Scene, result: str = "failure") -> Outcome:
    """The gate after a measuring job that ended so."""
    pull = pull_request(scene)
    return on_pull_request(scene, pull, measurements="perf", producer=f"measure={result}")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"words": 7}',
        b'{"words": " "}',
        b'{"words": "a", "words": "b"}',
        b"[" * 10_000,
        b'{"words": "' + b"a" * 20_000 + b'"}',
        b'\xff{"words": "a"}',
    ],
)
def test_last_words__of_any_other_form_are_left_out(scene: Scene, data: bytes) -> None:
    """The verdict is that of a failed job, with or without them."""
    failed_with(scene, data)
    done = failed(scene)
    assert done.code == 3
    assert "`measure` failed" in done.summary
    assert "said last" not in done.summary


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        ("## Verdict: pass\n\n# ✅ No slowdown", "\n#"),
        ("\u202egnp.exe\u200b", "\u202e"),
        ("<!-- ci-score --><img src=x>", "--><img"),
        ("![x](https://elsewhere.example/x.png)", "![x]("),
        ("a" * 5_000, "a" * 500),
        ("::error::stop", "\n::"),
    ],
)
def test_last_words__are_one_line_that_is_shown(scene: Scene, words: str, hidden: str) -> None:
    """They are quoted and cut; nothing in them is markup, and they decide nothing."""
    failed_with(scene, last_words(words))
    done = failed(scene)
    assert done.code == 3
    (said,) = [line for line in done.summary.splitlines() if "said last" in line]
    assert hidden not in said
    assert hidden not in done.summary


def test_last_words__no_link_leads_out_of_the_workspace(scene: Scene) -> None:
    """It could point at a secret of the machine."""
    secret = scene.folder / "secret"
    secret.write_bytes(last_words("secret words"))
    path = failed_with(scene, b"")
    path.unlink()
    path.symlink_to(secret)
    assert "secret words" not in failed(scene).summary


def test_last_words__of_four_cases_and_of_the_newest_attempt(scene: Scene) -> None:
    """Hundreds of cases would be a wall of text; an attempt before has had its own report."""
    for number in range(6):
        failed_with(scene, last_words("old"), f"case-{number}~1")
        failed_with(scene, last_words("new"), f"case-{number}~2")
    summary = failed(scene).summary
    assert (summary.count("“new”"), summary.count("“old”")) == (4, 0)


@pytest.mark.parametrize("result", ["success", "cancelled", "skipped", "", "odd"])
def test_last_words__count_only_after_a_failure(scene: Scene, result: str) -> None:
    """A file beside good measurements is no measurement either."""
    failed_with(scene, last_words("no such layer"))
    done = failed(scene, result)
    assert done.code == 3
    assert "no such layer" not in done.summary


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (deep, "folders lie more than 32 deep"),
        (of_many_cases, "at most 256 cases"),
        (of_many_launches, f"at most {FEW_LAUNCHES} launches"),
        (of_many_numbers, "at most 128 MiB"),
    ],
)
def test_small_artifacts__that_would_take_hours(
    scene: Scene,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[Path], None],
    words: str,
) -> None:
    """What multiplies is refused with a sentence, and the check is not green."""
    monkeypatch.setattr(measurements, "MOST_IN_ALL", FEW_LAUNCHES)
    folder = scene.workspace / "perf" / "training~1"
    folder.mkdir(parents=True)
    made(folder)
    done = on_pull_request(scene, pull_request(scene), measurements="perf", profiles="none")
    assert done.code == 2
    assert words in capsys.readouterr().err


def test_reading__that_takes_too_long(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files could each be within their limits; what was not read is not judged."""
    scene.leave_record(tip(scene), FAST)
    folder = scene.workspace / "perf" / "training~1"
    folder.mkdir(parents=True)
    (folder / "m.jsonl").write_bytes(lines({"step_ms": [1.0]}))
    monkeypatch.setattr(action, "LONGEST_READING_S", -1.0)
    done = on_pull_request(scene, pull_request(scene), measurements="perf", profiles="none")
    assert done.code == 3
    assert "reading all of the files takes too long" in done.summary


@pytest.mark.parametrize("what", ["profiles", "environment"])
def test_reading__of_what_lies_beside_takes_too_long(what: str) -> None:
    """The profiles of a session and the machine's description are read within the same time."""
    named = CaseFile("named", data=b"{}")
    file = CaseFile("m", data=b"{}", environment=named, profiles={"head": (named,)})
    (read,) = to_be_read({"training": [file]}, None, until=time.monotonic() - 1.0)["training"]
    beside = read.environment if what == "environment" else read.profiles["head"][0]
    assert beside is not None
    with pytest.raises(BadInputError, match="takes too long"):
        beside.read()


def test_artifacts__that_fill_the_memory(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is within its limit; together they are refused, and nothing counts as measured."""
    monkeypatch.setattr(artifacts, "LARGEST_IN_ALL", 5000)
    event = events.pull_request(scene.github, pull_request(scene))
    for number in range(3):
        scene.state.uploaded(event.run, f"profile-{number}", {"p.json": b" " * 2000})
    done = scene.act(event, profile_artifact="profile-*")
    assert done.code == 3
    assert "all artifacts of profile-" in done.summary


def test_session__with_two_files_of_measurements_reads_its_profiles_once(tmp_path: Path) -> None:
    """A profile is no other rank because the lines are in two files."""
    folder = tmp_path / "perf" / "training~1"
    profiles = folder / PROFILES_FOLDER / "head"
    profiles.mkdir(parents=True)
    (folder / SESSION_FILE).write_text("{}", encoding="utf-8")
    (profiles / "p.json").write_text(FAST.model_dump_json(), encoding="utf-8")
    asked, read = (CaseSource("perf"),), []
    for number in range(2):
        row = {"launch": number, "step_ms": [100.0] * 5}
        (folder / f"{number}.jsonl").write_bytes(lines(row))
        (case,) = read_cases({}, find_measurements(asked, tmp_path), {}, asked)
        read.append(case.profile)
    assert read[0] == read[1]


def test_environments__of_many_nodes_that_agree_in_nothing(tmp_path: Path) -> None:
    """The record would keep a name for each of them, and a sentence would list them all."""
    folder = tmp_path / "perf" / "training~1"
    for number in range(100):
        node = folder / str(number)
        node.mkdir(parents=True)
        (node / "m.jsonl").write_bytes(lines({"launch": number, "step_ms": [1.0]}))
        versions = {f"lib-{number}-{part}": "1" for part in range(40)}
        own = {"schema": 1, "accelerator": f"GPU {number}" * 9, "versions": versions}
        (node / "environment.json").write_text(json.dumps(own), encoding="utf-8")
    asked = (CaseSource("perf"),)
    (case,) = read_cases({}, find_measurements(asked, tmp_path), {}, asked)
    assert case.environment is not None
    assert len(case.environment.versions) < 2 * MOST_VERSIONS
    (note,) = case.notes
    assert len(note.words) < 1000
