"""`--from-trend`: the range of a lasting change that the branch's history shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ci_score.baselines import read_record, whole_branch
from ci_score.errors import WrongUseError
from ci_score.files.disk import LOCAL_RECORD_LIMIT, read_bytes
from ci_score.model.bisected import OfTrend
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, metric_named
from ci_score.model.record import Record, Trend
from ci_score.report import trend_issue


@dataclass(frozen=True, slots=True)
class TrendRange:
    """The commits that a lasting change lies between, and what it is a change of."""

    good: str
    bad: str
    of: OfTrend
    words: str


def range_of_trend(path: Path, case: str | None) -> TrendRange | None:
    """The worst lasting slowdown in a record; None where there is none.

    It is the branch's newest record where a folder has several. A change that was undone since is
    none, and neither is one of a metric that no search can measure.
    """
    record = _record(path)
    issue = trend_issue(record.trends, "", "")
    known = [one for one in (issue.trends if issue else ()) if _can_be_searched(one, case)]
    return _range(max(known, key=_slower)) if known else None


def _record(path: Path) -> Record:
    if not path.is_dir():
        return read_record(read_bytes(str(path), LOCAL_RECORD_LIMIT), str(path))
    for left in whole_branch([path]).left[:1]:
        if record := left.record():
            return record
    raise WrongUseError(
        f"--from-trend {path}: no record of a branch is there; give the ci-score.json of a run of"
        " the default branch, or a folder with it"
    )


def _can_be_searched(trend: Trend, case: str | None) -> bool:
    is_of_time = trend.metric in (STEP_TIME, THROUGHPUT)
    is_known = trend.last_before is not None and trend.first_after is not None
    return is_of_time and is_known and case in (None, trend.case)


def _slower(trend: Trend) -> float:
    metric = metric_named(trend.metric)
    return metric.score(trend.after) - metric.score(trend.before)


def _range(trend: Trend) -> TrendRange:
    metric = metric_named(trend.metric)
    good, bad = trend.last_before or "", trend.first_after or ""
    of = OfTrend(case=trend.case, metric=trend.metric, kind=trend.kind)
    since = f"between {good[:12]} and {bad[:12]}"
    return TrendRange(
        good, bad, of, f"{trend.case}: {metric.label} {metric.show_delta(trend.delta)} {since}"
    )
