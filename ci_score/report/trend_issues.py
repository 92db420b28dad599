"""The issue about a branch's lasting changes for the worse; a trend never fails a check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci_score.files.visible import plain
from ci_score.model.metrics import metric_named
from ci_score.model.record import Trend
from ci_score.report.escape import cell, text

MOST_SHOWN = 20
# A change that was undone to this share needs no issue any more.
UNDONE_FROM = 0.8
_BEGINNING = (
    "The level of the branch has changed for the worse, by more than its runs differ among"
    " themselves. No check fails because of it: each change may have been within its limits."
)
_END = (
    "The runs of the branch keep this issue up to date. Close it when it is dealt with; a later"
    " change opens another one."
)


@dataclass(frozen=True, slots=True)
class TrendIssue:
    """The issue's title and text, and the trends that it tells of."""

    title: str
    body: str
    trends: tuple[Trend, ...]


def trend_issue(trends: Iterable[Trend], branch: str, title: str) -> TrendIssue | None:
    """The issue on a branch's trends; None where nothing lasting became worse."""
    worth = worth_an_issue(trends)
    if not worth:
        return None
    return TrendIssue(issue_title(branch, title), issue_markdown(worth), tuple(worth))


def worth_an_issue(trends: Iterable[Trend]) -> list[Trend]:
    """What became worse and was not undone since, the newest first."""
    known = list(trends)
    lasting = [trend for trend in known if trend.worse and not _is_undone(trend, known)]
    return sorted(lasting, key=lambda trend: trend.created_at, reverse=True)


def _is_undone(trend: Trend, others: Sequence[Trend]) -> bool:
    return any(
        not other.worse
        and (other.case, other.metric) == (trend.case, trend.metric)
        and other.created_at > trend.created_at
        and abs(other.delta) >= UNDONE_FROM * abs(trend.delta)
        for other in others
    )


def issue_title(branch: str, title: str) -> str:
    """The same in every run, so that people find it."""
    report = f" ({title})" if title else ""
    return plain(f"ci-score{report}: lasting changes for the worse on {branch}", 200)


def issue_markdown(trends: Sequence[Trend]) -> str:
    """What changed and between which commits; whole commits become links."""
    lines = [
        _BEGINNING,
        "",
        "| Case | Metric | Change | Since | Last run before | First run after |",
        "|---|---|--:|---|---|---|",
        *(_row(trend) for trend in trends[:MOST_SHOWN]),
        "",
    ]
    more = len(trends) - MOST_SHOWN
    if more > 0:
        lines += [f"{more} more are in the record of the branch's last run.", ""]
    return "\n".join((*lines, _END)) + "\n"


def _row(trend: Trend) -> str:
    metric = metric_named(trend.metric)
    values = f"{metric.show(trend.before)} → {metric.show(trend.after)}"
    when = "slowly" if trend.kind == "drift" else trend.created_at[:10]
    cells = (
        cell(trend.case),
        text(metric.label, 80),
        f"{metric.show_delta(trend.delta)} ({text(values, 80)})",
        when,
        trend.last_before or "–",
        trend.first_after or "–",
    )
    return f"| {' | '.join(cells)} |"
