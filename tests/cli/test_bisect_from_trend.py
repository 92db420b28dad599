"""`ci-score bisect --from-trend`: the range that the branch's record shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.files.strict_json import dump
from ci_score.model.record import HistoryPoint, Record, Trend
from tests.builders import PROJECT, record
from tests.builders.commits import COMMAND, Commits

Out = pytest.CaptureFixture[str]
POINT = HistoryPoint(case="llama", created_at="", step_time_ms=13.0, throughput_tok_s=1000.0)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commits:
    """A repository whose third commit is slower, as the current folder."""
    commits = Commits(tmp_path / "repository", (10.0, 10.0, 13.0, 13.0))
    monkeypatch.chdir(commits.repository.folder)
    for name, value in commits.repository.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    return commits


def trend(made: Commits, good: int, bad: int, **fields: Any) -> Trend:
    defaults: dict[str, Any] = {
        "case": "llama", "metric": "step_time_ms", "kind": "shift", "before": 10.0, "after": 13.0,
        "delta": 0.3, "worse": True, "last_before": made.shas[good], "first_after": made.shas[bad],
        "created_at": "2026-01-03T00:00:00Z",
    }  # fmt: skip
    return Trend(**{**defaults, **fields})


def of_branch(*trends: Trend, **fields: Any) -> Record:
    """A record whose own run is in its history."""
    one = record(trends=trends, **fields)
    return one.but(history=(POINT.but(created_at=one.created_at),))


def left(value: Record, path: str = "ci-score.json") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(dump(value), encoding="utf-8")
    return path


def search(path: str, *more: str) -> int:
    options = ["bisect", "--from-trend", path, "--no-profile", "--seed", "1", *more]
    return execute([*options, "--", *COMMAND])


def test_trend__gives_range_and_case(made: Commits, capsys: Out) -> None:
    """Which one was taken is said, and stands in the answer for whoever tells the issue."""
    drift = trend(made, 0, 1, delta=0.1, after=11.0, case="small")
    assert search(left(of_branch(drift, trend(made, 0, 3)))) == 0
    assert f"llama: Step time +30 % between {made.shas[0][:12]} and" in capsys.readouterr().err
    found = json.loads(Path("bisect/bisect.json").read_bytes())
    assert [one["sha"] for one in found["found"]] == [made.shas[2]]
    assert found["trend"] == {"case": "llama", "metric": "step_time_ms", "kind": "shift"}
    assert found["case"] == "llama"


def test_trend__of_another_case_is_named(made: Commits, capsys: Out) -> None:
    """The worst one is only what nobody has asked otherwise."""
    worst = trend(made, 0, 1, case="other", delta=0.9, after=19.0)
    assert search(left(of_branch(worst, trend(made, 1, 2))), "--case", "llama") == 0
    assert "llama: Step time" in capsys.readouterr().err


def test_trend__is_the_newest_records_of_a_folder(made: Commits, capsys: Out) -> None:
    """As `gh run download` leaves them."""
    old = of_branch(trend(made, 0, 1, case="old"), created_at="2026-01-01T00:00:00Z")
    left(old, "records/1/ci-score.json")
    left(of_branch(trend(made, 1, 2)), "records/2/ci-score.json")
    assert search("records") == 0
    assert "llama: Step time" in capsys.readouterr().err


@pytest.mark.parametrize(
    "fields",
    [
        {"worse": False, "delta": -0.3, "after": 7.0},
        {"metric": "peak_memory_gb"},
        {"last_before": None},
    ],
)
def test_trend__that_is_no_lasting_slowdown_is_nothing_to_search(
    made: Commits, capsys: Out, fields: dict[str, Any]
) -> None:
    """A schedule finds nothing on most days, and that is no failure."""
    assert search(left(of_branch(trend(made, 0, 3, **fields)))) == 0
    assert "there is no lasting slowdown" in capsys.readouterr().err
    assert not Path("bisect").exists()


def test_trend__of_a_folder_without_a_record_is_refused(made: Commits, capsys: Out) -> None:
    """Nothing to read is no good news."""
    assert made.shas
    Path("empty").mkdir()
    assert search("empty") == 2
    assert "no record of a branch is there" in capsys.readouterr().err


def test_trend__and_two_commits_are_one_too_many(made: Commits, capsys: Out) -> None:
    """One of them would be ignored."""
    path = left(of_branch(trend(made, 0, 3)))
    words = ["bisect", "HEAD~1", "HEAD", "--from-trend", path, "--", *COMMAND]
    assert execute(words) == 2
    assert "either GOOD and BAD or --from-trend" in capsys.readouterr().err
