"""A folder of records as the store of baselines."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from ci_score.baselines import FolderBaselines
from ci_score.model.environment import Environment
from ci_score.model.reasons import Why
from ci_score.model.record import Record, RunIdentity
from ci_score.model.stages import Baseline, BaselineFound, BaselineMissing
from ci_score.model.verdict import Unjudged
from ci_score.report.sentences import sentences
from tests.builders import case, on, record, scorecard

NOWHERE = Environment()


def store(folder: Path, **records: Record | str) -> FolderBaselines:
    for name, content in records.items():
        text = content if isinstance(content, str) else content.model_dump_json()
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return FolderBaselines(folder)


def step_ms(baseline: Baseline) -> float:
    assert isinstance(baseline, BaselineFound)
    return baseline.case.scorecard.step_time_ms


def reason(baseline: Baseline) -> Unjudged:
    assert isinstance(baseline, BaselineMissing)
    return baseline.reason


def test_find__takes_the_newest_record_of_the_case(tmp_path: Path) -> None:
    """The time in the record counts, not the file's name."""
    baselines = store(
        tmp_path,
        z_old=record(case(card=scorecard(1.0)), created_at="2026-01-01T00:00:00Z"),
        a_new=record(case(card=scorecard(2.0)), created_at="2026-01-02T00:00:00Z"),
        newest_of_another_case=record(case("other"), created_at="2026-01-03T00:00:00Z"),
    )
    assert step_ms(baselines.find("training", NOWHERE)) == 2.0


def test_find__looks_further_back_for_the_same_environment(tmp_path: Path) -> None:
    """A newer record of other hardware is no baseline."""
    baselines = store(
        tmp_path,
        new=record(case(environment=on("H100")), created_at="2026-01-02T00:00:00Z"),
        old=record(
            case(card=scorecard(7.0), environment=on("L4")), created_at="2026-01-01T00:00:00Z"
        ),
    )
    assert step_ms(baselines.find("training", on("L4"))) == 7.0
    missing = baselines.find("training", on("T4"))
    assert reason(missing) is Unjudged.ENVIRONMENT_CHANGED
    assert isinstance(missing, BaselineMissing)
    differs = Why.MISMATCH(key="accelerator", here="T4", there="H100")
    assert missing.detail is not None
    assert missing.detail.code is Why.MISMATCH_IN
    assert missing.detail.data["why"] == differs


def test_find__says_why_there_is_none(tmp_path: Path) -> None:
    """First run, new case and unusable records are different things."""
    assert (
        reason(FolderBaselines(tmp_path / "none").find("training", NOWHERE)) is Unjudged.FIRST_RUN
    )
    assert reason(store(tmp_path).find("training", NOWHERE)) is Unjudged.FIRST_RUN
    assert reason(store(tmp_path, a=record()).find("new", NOWHERE)) is Unjudged.NEW_CASE


def test_find__what_cannot_serve_is_not_a_first_run(tmp_path: Path) -> None:
    """A record without cases, a dead link, a pipe: each is skipped with its reason, none hangs."""
    (tmp_path / "dead.json").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.json")
    empty = record().but(cases=())
    missing = store(tmp_path, empty=empty).find("training", NOWHERE)
    assert reason(missing) is Unjudged.ALL_UNUSABLE
    assert isinstance(missing, BaselineMissing)
    assert len(missing.skipped) == 3


def test_find__reads_gzip_and_subfolders(tmp_path: Path) -> None:
    """What artifacts were downloaded into is searched."""
    (tmp_path / "deep").mkdir()
    packed = gzip.compress(record(case(card=scorecard(5.0))).model_dump_json().encode())
    (tmp_path / "deep" / "ci-score.json.gz").write_bytes(packed)
    assert step_ms(FolderBaselines(tmp_path).find("training", NOWHERE)) == 5.0


def test_find__the_record_that_asks_is_no_baseline(tmp_path: Path) -> None:
    """Also a copy of it under another name is the same run."""
    asking = record(commit="c" * 40, run=RunIdentity(number=7))
    older = record(case(card=scorecard(4.0)), created_at="2026-01-01T00:00:00Z")
    store(tmp_path, copy=asking, older=older)
    assert step_ms(FolderBaselines(tmp_path, asking).find("training", NOWHERE)) == 4.0


def test_known_cases__are_the_newest_record_s(tmp_path: Path) -> None:
    """A case that is gone can be told from one that never was."""
    baselines = store(
        tmp_path,
        new=record(case("a"), case("b"), created_at="2026-01-02T00:00:00Z"),
        old=record(case("c"), created_at="2026-01-01T00:00:00Z"),
    )
    assert baselines.known_cases() == {"a", "b"}


def test_find__skips_what_cannot_be_read_and_keeps_the_reason(tmp_path: Path) -> None:
    """A broken record does not hide the good one behind it."""
    only_bad = store(tmp_path, broken='{"schema_version": 1', later='{"schema_version": 99}')
    missing = only_bad.find("training", NOWHERE)
    assert reason(missing) is Unjudged.ALL_UNUSABLE
    found = store(tmp_path, good=record()).find("training", NOWHERE)
    assert isinstance(found, BaselineFound)
    assert len(found.used.skipped) == 2
    assert "schema_version: found 99" in "\n".join(sentences(found.used.skipped))


def test_find__a_bare_scorecard_fits_any_case(tmp_path: Path) -> None:
    """The reference's own output is accepted as a baseline."""
    baselines = store(tmp_path, bare=scorecard(42.0).model_dump_json())
    assert step_ms(baselines.find("anything", on("L4"))) == 42.0


def test_find__a_file_is_a_store_of_one(tmp_path: Path) -> None:
    """A local file can be named instead of a folder."""
    store(tmp_path, only=record(case(card=scorecard(3.0))))
    assert step_ms(FolderBaselines(tmp_path / "only.json").find("training", NOWHERE)) == 3.0


def test_save__is_found_by_the_next_run(tmp_path: Path) -> None:
    """What a run leaves is the next run's baseline."""
    baselines = FolderBaselines(tmp_path / "new" / "store")
    left = record(case(card=scorecard(9.0)), commit="c" * 40)
    path = baselines.save(left, left.model_dump_json())
    assert path.name == "20260102T030405Z-0-cccccccccccc.json"
    assert step_ms(baselines.find("training", NOWHERE)) == 9.0
