"""What the hook's reader makes of a folder that a stranger may have filled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_score.measure.launch import hook_records
from ci_score.measure.launch.hook_records import (
    HookProblem,
    is_complete,
    is_over,
    problem_in_words,
    read_folder,
)
from tests.builders import write

OWNER = {"class": "AdamW", "parameters": 10, "order": 0}


def record(**fields: Any) -> dict[str, Any]:
    """A whole record of one rank."""
    return {
        "schema": 1, "mode": "timed", "pid": 7, "rank": 0, "world_size": 1, "steps": 4,
        "warmup": 2, "warmup_steps": 1, "step_ms": [3.0, 2.0, 1.0], "timed_by": "wall clock",
        "owner": OWNER, "peak_memory": {"cuda:0": 5}, **fields,
    }  # fmt: skip


def folder_of(folder: Path, *records: dict[str, Any], marks: str = "") -> Path:
    for one in records:
        write(folder / f"rank-{one['rank']}-{one['pid']}.json", json.dumps(one))
    write(folder / "marks.jsonl", marks)
    return folder


def test_records__a_complete_launch(tmp_path: Path) -> None:
    """As many ranks as the world size; the slowest one has the steps of the job."""
    slow = record(rank=1, pid=8, world_size=2, step_ms=[9.0, 9.0, 9.0], peak_memory={"cuda:1": 9},
                  other_side="model (/base/model.py)", profiler_found=True)  # fmt: skip
    folder = folder_of(tmp_path, record(world_size=2), slow)
    assert is_complete(folder)
    assert is_over(folder)
    found = read_folder(folder).recorded
    assert found
    assert (found.first.rank, found.slowest.rank, found.peak_memory_bytes) == (0, 1, 9)
    assert (found.other_side, found.profiler_found) == ("model (/base/model.py)", True)


def test_records__one_rank_of_two_is_not_complete(tmp_path: Path) -> None:
    """It says which are there."""
    folder = folder_of(tmp_path, record(world_size=2))
    assert not is_complete(folder)
    assert not is_over(folder)
    assert read_folder(folder).problem == HookProblem("ranks_missing", {"have": [0], "size": 2})


def test_records__an_empty_folder_and_none_at_all(tmp_path: Path) -> None:
    """Nobody counted, or somebody took the folder away."""
    for folder, code in ((tmp_path, "not_loaded"), (tmp_path / "nowhere", "folder_gone")):
        assert not is_over(folder)
        assert read_folder(folder).problem == HookProblem(code)


BROKEN = {
    "half": json.dumps(record())[:-5],
    "empty": "",
    "no object": "[]",
    "not a number": json.dumps(record(step_ms=["1", 2, 3])),
    "not finite": json.dumps(record()).replace("3.0", "1e999"),
    "negative": json.dumps(record(step_ms=[-1.0, 2.0, 3.0])),
    "too few times": json.dumps(record(step_ms=[1.0])),
    "warm-up longer than it ran": json.dumps(record(warmup_steps=4)),
    "a rank beyond its world": json.dumps(record(rank=3)),
    "an endless name": json.dumps(record(versions={"torch": "x" * 300})),
    "another schema": json.dumps(record(schema=2)),
    "no owner": json.dumps({name: value for name, value in record().items() if name != "owner"}),
    "a loss in words": json.dumps(record(first_loss="much")),
    "a key twice": json.dumps(record())[:-1] + ', "rank": 0}',
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_records__a_record_that_is_wrong_is_said(name: str, tmp_path: Path) -> None:
    """Nothing of it is taken for a measurement."""
    write(tmp_path / "rank-0-7.json", BROKEN[name])
    problem = read_folder(tmp_path).problem
    assert problem
    assert problem.code == "unreadable"
    assert problem_in_words(problem).startswith("what the start-up hook wrote cannot be used: ")


def test_records__ranks_that_contradict_each_other(tmp_path: Path) -> None:
    """Another count of steps is another job."""
    folder = folder_of(tmp_path, record(world_size=2),
                       record(rank=1, world_size=2, steps=3, step_ms=[1.0, 1.0]))  # fmt: skip
    problem = read_folder(folder).problem
    assert problem
    assert problem.code == "unreadable"


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_records__what_is_no_file_makes_nobody_wait(kind: str, tmp_path: Path) -> None:
    """A pipe would, and a link may lead anywhere."""
    path = tmp_path / "rank-0-7.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        write(tmp_path / "elsewhere", json.dumps(record()))
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.mkdir()
    assert not is_complete(tmp_path)
    problem = read_folder(tmp_path).problem
    assert problem
    assert problem.code == "unreadable"


def test_records__too_large_is_not_read(tmp_path: Path) -> None:
    """Four megabytes are more than any launch has."""
    write(tmp_path / "rank-0-7.json", " " * (4 << 20) + json.dumps(record()))
    problem = read_folder(tmp_path).problem
    assert problem
    assert "at most 4 MB" in problem_in_words(problem)


def test_records__marks_that_are_none_are_left_out(tmp_path: Path) -> None:
    """A line that another process cut is no reason to lose the others."""
    lines = '{"mark": "loa\n[]\n7\n{"mark": 3}\n{"mark": "passive", "pid": []}\n'
    assert read_folder(folder_of(tmp_path, marks=lines)).passive


@pytest.mark.parametrize(
    "mark",
    [
        {"mark": "problem", "code": "ranks_missing"},
        {"mark": "problem", "code": ["two_jobs"]},
        {"mark": "problem", "code": "too_few_steps", "steps": "fifty", "asked": [1]},
        {"mark": "exit", "pid": [7]},
        {"mark": "step", "pid": {}, "step": 3},
        {"mark": ["step"], "pid": "7"},
    ],
)
def test_records__a_mark_that_a_script_forged_is_no_crash(
    mark: dict[str, Any], tmp_path: Path
) -> None:
    """Whatever it holds, there is a sentence."""
    problem = read_folder(folder_of(tmp_path, marks=json.dumps(mark) + "\n")).problem
    assert problem
    assert problem_in_words(problem)


def test_records__what_a_mark_says_is_held_in_bounds(tmp_path: Path) -> None:
    """Its texts are short and visible, its numbers are counts, its code is one of ours."""
    long = json.dumps({"mark": "problem", "code": "owner_gone", "steps": -1, "asked": "many",
                       "owner": "\u001b[31m" + "x" * 999, "other": 3})  # fmt: skip
    problem = read_folder(folder_of(tmp_path, marks=long + "\n")).problem
    assert problem
    sentence = problem_in_words(problem)
    assert len(sentence) < 500
    assert "\u001b" not in sentence
    assert (problem.data["steps"], problem.data["asked"]) == (0, 0)
    strange = json.dumps({"mark": "problem", "code": "rm -rf"})
    problem = read_folder(folder_of(tmp_path, marks=strange + "\n")).problem
    assert problem
    assert problem.code == "unreadable"


def test_records__a_problem_beside_whole_records(tmp_path: Path) -> None:
    """A second job spoils them; a fault after they were written does not."""
    for code, is_used in (("two_jobs", False), ("hook_failed", True)):
        marks = json.dumps({"mark": "problem", "code": code}) + "\n"
        said = read_folder(folder_of(tmp_path / code, record(), marks=marks))
        assert bool(said.recorded) is is_used


@pytest.mark.parametrize("code", hook_records._WORDS)
def test_records__every_problem_has_a_sentence(code: str) -> None:
    """Whatever data it comes with."""
    data = {"have": [0], "size": 2} if code == "ranks_missing" else {}
    sentence = problem_in_words(HookProblem(code, data))
    assert sentence
    assert "{" not in sentence
