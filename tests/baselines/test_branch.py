"""Records of a branch become its whole history; what is none of them is left out and named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_score.baselines import branch, whole_branch
from ci_score.errors import BadInputError, WrongUseError
from ci_score.model.metrics import MEMORY
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Record
from tests.builders.branch import RUNS, left_by, long_history, records_in, sha

HISTORY = long_history()


def joined(*paths: Path) -> Record:
    found = whole_branch(paths)
    assert found.record is not None
    return found.record


def codes(skipped: tuple[Reason, ...]) -> list[Why]:
    return [reason.code for reason in skipped]


def test_branch__several_records_know_more_than_the_newest(tmp_path: Path) -> None:
    """Of 400 runs each record has 200; together they have all, each once, the oldest first."""
    records = [left_by(run, HISTORY) for run in (399, 199, 250)]
    record = joined(records_in(tmp_path, *records))
    assert [point.commit for point in record.history] == [sha(run) for run in range(RUNS)]
    assert (record.commit, record.created_at) == (records[0].commit, records[0].created_at)


def test_branch__a_case_that_was_removed_stays_as_it_was_last(tmp_path: Path) -> None:
    """The newest record lacks it, and it is shown with its last numbers."""
    other = long_history("resnet@l4")
    both, one = left_by(210, HISTORY, other), left_by(211, HISTORY)
    record = joined(records_in(tmp_path, both, one))
    assert [case.name for case in record.cases] == ["llama-7b@h100", "resnet@l4"]
    assert record.cases[0].scorecard.step_time_ms == HISTORY[211].step_time_ms
    assert record.cases[1].scorecard.step_time_ms == other[210].step_time_ms


def test_branch__a_point_is_as_full_as_any_record_has_it(tmp_path: Path) -> None:
    """A newer record was too large, and has lost the metrics of old points."""
    newer = left_by(211, HISTORY)
    cut = newer.but(history=tuple(point.but(metrics={}) for point in newer.history))
    record = joined(records_in(tmp_path, left_by(210, HISTORY), cut))
    assert all(point.number(MEMORY) for point in record.history[:-1])


def test_branch__has_no_ops_of_points(tmp_path: Path) -> None:
    """No page of the branch shows them, and of many records they would be most of it."""
    left = left_by(211, HISTORY)
    full = left.but(history=tuple(each.but(ops={"03ddcd4f": 1.0}) for each in left.history))
    assert joined(records_in(tmp_path, full)).history == left.history


def test_branch__a_pull_requests_record_is_left_out(tmp_path: Path) -> None:
    """Its own run is not in its history, and its numbers are not the branch's."""
    pull = left_by(300, HISTORY).but(commit="f" * 40, pull=9)
    found = whole_branch([records_in(tmp_path, left_by(299, HISTORY), pull)])
    assert found.record is not None
    assert found.record.commit == sha(299)
    assert codes(found.skipped) == [Why.NOT_OF_THE_BRANCH]
    assert [left.commit for left in found.left] == [sha(299)]


def test_branch__links_and_other_files_are_left_out(tmp_path: Path) -> None:
    """No link leads out of a folder, a pipe is not waited for, and what is no record is said."""
    outside = tmp_path / "secret.json"
    outside.write_text("{}", encoding="utf-8")
    folder = records_in(tmp_path / "records", left_by(250, HISTORY))
    (folder / "a-link.json").symlink_to(outside)
    (folder / "folder-link").symlink_to(tmp_path)
    os.mkfifo(folder / "b-pipe.json")
    (folder / "c-\u202enosj.json").write_text("no JSON", encoding="utf-8")
    found = whole_branch([folder])
    assert found.record is not None
    assert sorted(codes(found.skipped)) == sorted(
        [Why.LEAVES_WORKSPACE, Why.NOT_A_FILE, Why.QUOTED]
    )
    assert "\u202e" not in str(found.skipped)


def test_branch__a_file_that_is_named_must_be_a_record(tmp_path: Path) -> None:
    """In a folder it is left out; by its name it is a mistake of the call's."""
    file = tmp_path / "environment.json"
    file.write_text("{}", encoding="utf-8")
    assert whole_branch([tmp_path]).record is None
    with pytest.raises(BadInputError, match="neither a record nor a scorecard"):
        whole_branch([file])


def test_branch__an_empty_folder_is_no_branch(tmp_path: Path) -> None:
    """Nothing was left out, and nothing is there."""
    found = whole_branch([tmp_path])
    assert (found.record, found.left, found.skipped) == (None, (), ())


def test_branch__of_two_repositories_is_refused(tmp_path: Path) -> None:
    """Their cases may be called alike, and would become one line."""
    other = left_by(251, HISTORY).but(repository="https://github.com/octo/other")
    with pytest.raises(WrongUseError, match=r"octo/other and .*octo/train"):
        whole_branch([records_in(tmp_path, left_by(250, HISTORY), other)])


@pytest.mark.parametrize(("bound", "words"), [("MOST_FILES", "1 files"), ("MOST_BYTES", "MB")])
def test_branch__too_much_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, words: str
) -> None:
    """By the count and the size of the files; the error says that fewer are enough."""
    folder = records_in(tmp_path, left_by(250, HISTORY), left_by(251, HISTORY))
    monkeypatch.setattr(branch, bound, 1)
    monkeypatch.setattr(branch, "record_of", None)
    with pytest.raises(WrongUseError, match=f"{words}.*give fewer of them"):
        whole_branch([folder])


def test_branch__a_report_is_made_of_the_record_that_was_read(tmp_path: Path) -> None:
    """Read again, another record in its place is none."""
    folder = records_in(tmp_path, left_by(250, HISTORY))
    (left,) = whole_branch([folder]).left
    assert left.record() == left_by(250, HISTORY)
    left.file.write_text(left_by(251, HISTORY).model_dump_json(), encoding="utf-8")
    assert left.record() is None
