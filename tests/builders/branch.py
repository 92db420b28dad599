"""A branch with a long history, and the records that its runs left: each knows the newest 200."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from pathlib import Path

from ci_score.files.strict_json import dump
from ci_score.judge import trends
from ci_score.judge.policy import Policy
from ci_score.model.metrics import MEMORY, THROUGHPUT
from ci_score.model.record import KEPT_POINTS, HistoryPoint, MetricFacts, Record, RunIdentity
from ci_score.model.verdict import Acceptance
from tests.builders import case, record, scorecard
from tests.builders.showcase import MACHINE, history

REPOSITORY = "https://github.com/octo/train"
OWN = "loss_gap"
RUNS = 400
# After so many runs the time became longer, and the memory more.
SLOWER_FROM, LARGER_FROM = 300, 150
FACTS = {OWN: MetricFacts(label=OWN, unit="nats", higher_is_better=False, relative=False)}


def sha(run: int) -> str:
    """The commit of a run."""
    return hashlib.sha1(f"run {run}".encode()).hexdigest()  # noqa: S324 - a name


def long_history(name: str = "llama-7b@h100", runs: int = RUNS) -> list[HistoryPoint]:
    """A run a day; both changes of level were merged, and the slower one was accepted."""
    start = dt.datetime(2025, 1, 1, 4, 23, tzinfo=dt.UTC)
    return [
        point.but(
            commit=sha(run),
            run=RunIdentity(number=800 + run, id=9_000 + run),
            created_at=f"{start + dt.timedelta(days=run):%Y-%m-%dT%H:%M:%SZ}",
            metrics={MEMORY: 18.9 if run < LARGER_FROM else 19.6, OWN: 0.25},
            low=-0.004,
            high=0.012,
            accepted=(accepted(name),) if run == SLOWER_FROM else (),
        )
        for run, point in enumerate(history(name, 300.0, runs))
    ]


def accepted(name: str) -> Acceptance:
    """What somebody said of the slowdown."""
    return Acceptance(
        case=name,
        metric=THROUGHPUT,
        bound=0.12,
        shown="12 %",
        reason="the new loss needs a second pass",
        by="octocat",
        url=f"{REPOSITORY}/pull/9#issuecomment-123",
    )


def left_by(run: int, *histories: Sequence[HistoryPoint]) -> Record:
    """The record of a run of the branch, with the newest points of each case."""
    first = max(0, run + 1 - KEPT_POINTS)
    kept = [point for points in histories for point in points[first : run + 1]]
    own = [points[run] for points in histories]
    return record(
        *(
            case(
                point.case,
                scorecard(point.step_time_ms, point.throughput_tok_s),
                environment=MACHINE,
                metrics=point.metrics,
            )
            for point in own
        ),
        created_at=own[0].created_at,
        commit=own[0].commit,
        run=own[0].run,
        repository=REPOSITORY,
        rules="training",
        history=tuple(sorted(kept, key=lambda point: (point.created_at, point.case))),
        metrics=FACTS,
    )


def branch() -> Record:
    """The whole history of two cases with changes, of which one was accepted."""
    points = [*long_history(), *long_history("resnet@l4")]
    points.sort(key=lambda point: (point.created_at, point.case))
    newest = left_by(399, long_history(), long_history("resnet@l4"))
    told = trends(newest.cases, Policy(rules="training"), points, looks_back=len(points))
    return newest.but(history=tuple(points), trends=told, metrics=FACTS)


def records_in(folder: Path, *records: Record) -> Path:
    """A folder with these records, as downloading the artifacts of their runs leaves it."""
    for value in records:
        place = folder / str(value.run.number if value.run else 0)
        place.mkdir(parents=True)
        (place / "ci-score.json").write_text(dump(value), encoding="utf-8")
    return folder
