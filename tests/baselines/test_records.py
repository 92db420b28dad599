"""Records: one version, histories in order, at most 5 MB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.baselines import ArtifactBaselines, FolderBaselines
from ci_score.baselines.records import (
    JUDGED_POINTS,
    SCHEMA_VERSION,
    fitted,
    join_histories,
    read_record,
)
from ci_score.errors import BadInputError
from ci_score.files.disk import RECORD_LIMIT
from ci_score.files.strict_json import dump
from ci_score.model.environment import Environment
from ci_score.model.reasons import Reason
from ci_score.model.record import (
    KEPT_POINTS,
    HistoryPoint,
    LaunchNumbers,
    Record,
    RunIdentity,
)
from ci_score.model.stages import BaselineFound, BaselineMissing, OpenedUpload, Upload
from ci_score.model.verdict import Outcome, Unjudged
from ci_score.report.sentences import sentences
from tests.builders import case, on, record, scorecard


def point(run: int, name: str = "training", **fields: Any) -> HistoryPoint:
    defaults: dict[str, Any] = {
        "commit": f"{run:040x}",
        "run": RunIdentity(number=run),
        "created_at": f"2026-01-{1 + run // 24:02}T{run % 24:02}:00:00Z",
        "step_time_ms": 100.0 + run,
        "throughput_tok_s": 1000.0,
    }
    return HistoryPoint(case=name, **{**defaults, **fields})


def again(run: int, identity: RunIdentity) -> HistoryPoint:
    return point(run).but(run=identity)


def with_history(*points: HistoryPoint, **fields: Any) -> Record:
    return record(**fields).but(history=points)


def written(left: Record) -> bytes:
    return dump(left).encode()


# --- versions -----------------------------------------------------------------------------------


def of_version(version: object) -> bytes:
    return json.dumps({**json.loads(written(record())), "schema_version": version}).encode()


def test_read__what_this_version_left() -> None:
    """A record that was written and read is the same record."""
    left = record(case(environment=on("L4", 2)), commit="c" * 40)
    assert read_record(written(left), "r.json") == left


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (SCHEMA_VERSION + 1, "which a newer ci-score has written, .*use that newer ci-score"),
        (SCHEMA_VERSION - 1, "which an older ci-score has written, .*default branch once more"),
        (0, f"found 0, expected {SCHEMA_VERSION}$"),
        (-1, "found -1, expected"),
        (True, "found True, expected"),
        (str(SCHEMA_VERSION), f"found '{SCHEMA_VERSION}', expected"),
        (float(SCHEMA_VERSION), f"found {SCHEMA_VERSION}.0, expected"),
        (None, "found None, expected"),
    ],
)
def test_read__another_version_is_refused(version: object, words: str) -> None:
    """The error says what to do; nothing is read by halves."""
    with pytest.raises(BadInputError, match=words) as refused:
        read_record(of_version(version), "r.json")
    assert refused.value.field == "schema_version"


# --- histories ----------------------------------------------------------------------------------


def test_history__out_of_order_is_refused() -> None:
    """With the place, and both times."""
    data = written(with_history(point(1), point(3), point(2)))
    with pytest.raises(BadInputError, match=r"history\[2\]\.created_at: found 2026-01-01T02"):
        read_record(data, "r.json")


def test_history__with_a_run_twice_is_refused() -> None:
    """One run would count as two pieces of evidence."""
    with pytest.raises(BadInputError, match=r"history\[2\]: found the same run of training twice"):
        read_record(written(with_history(point(1), point(2), point(2))), "r.json")


def test_history__gaps_are_normal() -> None:
    """Pull requests count runs too; the same hour, another case or another attempt is no double."""
    points = (
        point(1),
        point(1, "other"),
        point(7),
        again(7, RunIdentity(number=7, attempt=2)),
        again(7, RunIdentity(number=3)),
        point(40),
    )
    assert read_record(written(with_history(*points)), "r.json").history == points


def test_history__joined_is_each_run_once_in_order() -> None:
    """Two pushes at once have each seen what was before: together they know all."""
    before = [point(run) for run in range(5)]
    joined = join_histories((*before, point(5)), (*before, point(6)), tuple(before))
    assert joined == (*before, point(5), point(6))


def test_history__keeps_the_newest_of_each_case() -> None:
    """A case that is measured seldom is not pushed out by one that is measured often."""
    often = tuple(point(run) for run in range(KEPT_POINTS + 50))
    joined = join_histories(often, (point(0, "seldom"),))
    assert [each.case for each in joined].count("training") == KEPT_POINTS
    assert [each for each in joined if each.case == "seldom"]
    assert joined[-1] == often[-1]


def test_history__the_fuller_copy_of_a_point_stays() -> None:
    """A record that was cut has lost the metrics of old points, and an older one still has them."""
    full = point(1, metrics={"peak_memory_gb": 18.0})
    for histories in (((full,), (point(1),)), ((point(1),), (full,))):
        assert join_histories(*histories) == (full,)


def test_folder__joins_the_histories_of_its_records(tmp_path: Path) -> None:
    """As many of the newest records as are asked for."""
    left = {
        "a": with_history(point(1), point(2), created_at="2026-01-03T00:00:00Z"),
        "b": with_history(point(1), point(3), created_at="2026-01-04T00:00:00Z"),
        "c": with_history(point(0), created_at="2026-01-02T00:00:00Z"),
    }
    for name, each in left.items():
        (tmp_path / f"{name}.json").write_bytes(written(each))
    store = FolderBaselines(tmp_path)
    assert store.history(1) == (point(1), point(3))
    assert store.history(2) == (point(1), point(2), point(3))


class Uploads:
    """A record a run, each on a commit of its own."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def uploads(self) -> list[Upload]:
        """One a commit."""
        return [
            Upload(number, number, f"{number:040x}", f"2026-01-0{number + 1}", expired=False)
            for number in range(len(self._records))
        ]

    def why_none(self) -> Reason | None:
        """The branch is new."""
        return None

    def open(self, upload: Upload) -> OpenedUpload:
        """The bytes as they were left."""
        data = written(self._records[upload.id])
        return OpenedUpload(data, RunIdentity(number=upload.run_id))


def test_artifacts__join_the_histories_of_records_that_can_be_read() -> None:
    """What is out of order is left aside with its reason, and its neighbours count."""
    store = line_of(
        with_history(point(1), point(2)),
        with_history(point(5), point(4)),
        with_history(point(1), point(3)),
    )
    assert store.history(3) == (point(1), point(2), point(3))
    found = store.find("training", Environment(accelerator="nothing is known of it"))
    assert isinstance(found, BaselineFound)
    assert "history[1].created_at" in "".join(sentences(found.used.skipped))


def line_of(*records: Record) -> ArtifactBaselines:
    """The artifacts of a line of commits whose last one has the last of the records."""
    numbers = range(len(records) - 1, -1, -1)
    return ArtifactBaselines(
        tested_line=lambda: iter(f"{number:040x}" for number in numbers),
        store=Uploads(list(records)),
    )


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([record(case("other")), record(case("a", environment=on("H100")))], "ENVIRONMENT_CHANGED"),
        (
            [record(case("a", environment=on("H100"))), record(case("other"))],
            "NEW_ENVIRONMENT_OF_NEW_CASE",
        ),
        ([record(case("a", card=scorecard(0.0, 0.0)))], "ALL_UNUSABLE"),
        ([record(case("other"))], "NEW_CASE"),
        ([record()], "NEW_CASE"),
        ([], "FIRST_RUN"),
    ],
)
def test_artifacts__say_why_there_is_no_baseline(records: list[Record], reason: str) -> None:
    """The nearest record that has the case decides which reason it is."""
    missing = line_of(*records).find("a", on("L4"))
    assert isinstance(missing, BaselineMissing)
    assert missing.reason is Unjudged[reason]


# --- size ---------------------------------------------------------------------------------------


def large(cases: int) -> Record:
    names = [f"a-case-of-a-usual-name-{number}@h100" for number in range(cases)]
    environment = Environment(
        accelerator="H100 SXM 80GB", accelerator_count=8, precision="bf16", timing="unprofiled"
    )
    metrics = {f"a_metric_of_a_usual_name_{number}": 1.0 / (number + 3) for number in range(3)}
    points = [
        point(
            run,
            name,
            throughput_tok_s=1e6 / 7,
            metrics=metrics,
            environment=environment,
            tokens_per_step=65536.0,
            outcome=Outcome.PASS,
        )
        for run in range(KEPT_POINTS)
        for name in names
    ]
    return with_history(*points).but(
        cases=tuple(case(name, environment=environment) for name in names)
    )


def test_fitted__64_cases_of_200_points() -> None:
    """It fits, and what is judged stays: of each case the newest points with all metrics."""
    whole = large(64)
    assert len(whole.model_dump_json()) > RECORD_LIMIT  # and `dump` indents it
    text = fitted(whole)
    assert len(text) <= RECORD_LIMIT
    small = read_record(text.encode(), "r.json")
    for name in (each.name for each in whole.cases):
        kept = [each for each in small.history if each.case == name]
        assert len(kept) >= JUDGED_POINTS
        assert kept == [each for each in whole.history if each.case == name][-len(kept) :]


def test_fitted__4_cases_of_200_points_stay_whole() -> None:
    """What fits is not touched."""
    whole = large(4)
    assert fitted(whole) == dump(whole)


def test_fitted__the_oldest_points_lose_their_metrics_first() -> None:
    """The trend of the time needs none; a judgement looks at the newest."""
    small = read_record(fitted(large(48)).encode(), "r.json")
    points = [each for each in small.history if each.case == small.cases[0].name]
    assert [bool(each.metrics) for each in points] == [
        number >= len(points) - JUDGED_POINTS for number in range(len(points))
    ]


def test_fitted__thousands_of_launches() -> None:
    """Both sides of the first pairs stay, which are evidence; the rest is cut."""
    launches = tuple(
        LaunchNumbers(side=side, launch=number, values={f"metric_{n}": 1.0 for n in range(16)})
        for side in ("head", "base")
        for number in range(1000)
    )
    whole = record(*(case(f"case-{number}", launches=launches) for number in range(12)))
    text = fitted(whole)
    assert len(text) <= RECORD_LIMIT
    small = read_record(text.encode(), "r.json")
    sides = [(one.side, one.launch) for one in small.cases[0].launches]
    assert sides == [(side, number) for side in ("head", "base") for number in range(64)]
