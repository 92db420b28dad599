"""The branch's record → the texts of the site's pages, each of bounded size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Metric, metric_by, metric_named
from ci_score.model.record import HistoryPoint, Judged, Record, Trend
from ci_score.model.verdict import Acceptance, Outcome
from ci_score.report.html.page import csp_hash, pages
from ci_score.report.links import comment_link, commit_link, range_link, run_link
from ci_score.report.sentences import accepted_words
from ci_score.report.site.lines import Line, lines_of
from ci_score.report.site.names import INDEX, case_files, report_name
from ci_score.report.words import interval_words

# The overview stays under 2 MB: each case has its first line, the others while there is room.
INDEX_BYTES = 1_600_000
BYTES_OF_A_LINE = 1_700
MOST_CHANGES = 100
MOST_ACCEPTED = 200
MOST_REPORTS = 500
# Of a case's page.
MOST_RUNS = 2_000
MOST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Accepted:
    """A worsening that somebody accepted, and the run that it is of."""

    point: HistoryPoint
    label: str
    acceptance: Acceptance
    words: str
    link: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the table of its case, with the numbers of its columns."""

    point: HistoryPoint
    numbers: Sequence[str]
    interval: str
    accepted: Sequence[Accepted]
    report: str


@dataclass(frozen=True, slots=True)
class CaseView:
    """What the site shows of a case."""

    case: Judged
    file: str
    points: Sequence[HistoryPoint]
    lines: Sequence[Line]
    accepted: Sequence[Accepted]


@dataclass(frozen=True, slots=True)
class LineRow:
    """A line of the overview, with how often somebody accepted a worsening of its metric."""

    view: CaseView
    line: Line
    accepted: int


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A report that the site holds, and the run that it is of."""

    file: str
    point: HistoryPoint
    outcome: Outcome | None


def site_pages(record: Record, reports: Collection[str], title: str = "") -> dict[str, str]:
    """The pages by their names: the overview and the cases, with links to these reports.

    The record has the whole history, the trends in it, and each case as it was measured last.
    """
    views = _views(record)
    shared = {
        **_shared(),
        "record": record,
        "title": title or _repository_name(record),
        "INDEX": INDEX,
        "has_reports": bool(reports),
    }
    index, of_case = map(_pages().get_template, ("site_index.html.j2", "site_case.html.j2"))
    return {INDEX: index.render(shared, **_overview(record, views, reports))} | {
        view.file: of_case.render(shared, **_case(record, view, reports)) for view in views
    }


def _views(record: Record) -> list[CaseView]:
    names = case_files(case.name for case in record.cases)
    points: dict[str, list[HistoryPoint]] = {}
    for point in record.history:
        points.setdefault(point.case, []).append(point)
    trends: dict[str, list[Trend]] = {}
    for trend in record.trends:
        trends.setdefault(trend.case, []).append(trend)
    return [
        CaseView(
            case,
            names[case.name],
            own,
            lines_of(record, case, own, trends.get(case.name, ())),
            _accepted(record, own),
        )
        for case in record.cases
        if (own := points.get(case.name, []))
    ]


def _accepted(record: Record, points: Iterable[HistoryPoint]) -> list[Accepted]:
    """What was accepted, the newest first."""
    found = [
        Accepted(
            point,
            metric_by(one.metric, record.metrics.get(one.metric)).label,
            one,
            accepted_words(one),
            comment_link(record, one),
        )
        for point in points
        for one in dict.fromkeys(point.accepted)
    ]
    return found[::-1]


# --- the overview --------------------------------------------------------------------------------


def _overview(
    record: Record, views: Sequence[CaseView], reports: Collection[str]
) -> dict[str, object]:
    changes = [change for view in views for line in view.lines for change in line.changes]
    changes.sort(key=lambda change: change.trend.created_at, reverse=True)
    accepted = [one for view in views for one in view.accepted]
    accepted.sort(key=lambda one: one.point.created_at, reverse=True)
    runs = {(point.commit, point.run and point.run.number) for point in record.history}
    return {
        "rows": _rows(views),
        "lines_in_all": sum(len(view.lines) for view in views),
        "views": views,
        "file_of": {view.case.name: view.file for view in views},
        "changes": changes[:MOST_CHANGES],
        "changes_in_all": len(changes),
        "accepted": accepted[:MOST_ACCEPTED],
        "accepted_in_all": len(accepted),
        "given": _given(record, reports),
        "runs": len(runs),
    }


def _rows(views: Sequence[CaseView]) -> list[LineRow]:
    """The lines for which the overview has room, in the order of the cases."""
    room = INDEX_BYTES // BYTES_OF_A_LINE - sum(bool(view.lines) for view in views)
    rows: list[LineRow] = []
    for view in views:
        shown = view.lines[: 1 + max(room, 0)]
        room -= max(len(shown) - 1, 0)
        rows += (LineRow(view, line, _times_accepted(view, line)) for line in shown)
    return rows


def _times_accepted(view: CaseView, line: Line) -> int:
    """In how many runs; throughput and step time are one fact."""
    times = {STEP_TIME, THROUGHPUT}
    names = times if line.metric.name in times else {line.metric.name}
    return len({id(one.point) for one in view.accepted if one.acceptance.metric in names})


def _given(record: Record, reports: Collection[str]) -> list[ReportRow]:
    """The reports that the site holds, the newest first, each with the worst verdict of its run."""
    of_run: dict[str, list[HistoryPoint]] = {}
    for point in record.history:
        if (name := report_name(point)) in reports:
            of_run.setdefault(name, []).append(point)
    return [
        ReportRow(name, own[0], _worst(own))
        for name, own in sorted(of_run.items(), reverse=True)[:MOST_REPORTS]
    ]


def _worst(points: Iterable[HistoryPoint]) -> Outcome | None:
    outcomes = [point.outcome for point in points if point.outcome]
    return Outcome.worst(outcomes) if outcomes else None


# --- the page of a case --------------------------------------------------------------------------


def _case(record: Record, view: CaseView, reports: Collection[str]) -> dict[str, object]:
    columns = _columns(record, view)
    newest_first = view.points[::-1]
    of_run: dict[int, list[Accepted]] = {}
    for one in view.accepted:
        of_run.setdefault(id(one.point), []).append(one)
    rows = [
        RunRow(
            point,
            [metric.show_or_dash(point.number(metric.name)) for metric in columns],
            _interval(point),
            of_run.get(id(point), ()),
            name if (name := report_name(point)) in reports else "",
        )
        for point in newest_first[:MOST_RUNS]
    ]
    return {
        "view": view,
        "columns": columns,
        "rows": rows,
        "left_out": len(view.points) - len(rows),
        "several_machines": len({point.environment.accelerator for point in view.points}) > 1,
        "newest": newest_first[0],
    }


def _columns(record: Record, view: CaseView) -> list[Metric]:
    """The metrics of the table: the time in both units, and what the lines show."""
    times = [
        name
        for name in (STEP_TIME, THROUGHPUT)
        if any(point.number(name) is not None for point in view.points)
    ]
    names = dict.fromkeys((*times, *(line.metric.name for line in view.lines)))
    return [metric_by(name, record.metrics.get(name)) for name in names][:MOST_COLUMNS]


def _interval(point: HistoryPoint) -> str:
    """`−0.3 to +2.9 %`: how the step's time changed against the run's base; empty if not known."""
    show = metric_named(STEP_TIME).show_delta
    ends = [None if end is None else show(end) for end in (point.low, point.high)]
    return interval_words(*ends).strip(" ()")


# --- the templates -------------------------------------------------------------------------------


@cache
def _pages() -> Environment:
    """The report's own environment, with the site's templates beside its own."""
    own = PackageLoader("ci_score.report.site")
    of_report = pages(("style.css",), ("script.js",))
    loaders = [own, *filter(None, [of_report.loader])]
    return of_report.overlay(loader=ChoiceLoader(loaders))


@cache
def _shared() -> Mapping[str, object]:
    style = (files("ci_score.report.site") / "templates" / "site.css").read_text(encoding="utf-8")
    return {
        "site_style": Markup(style),  # noqa: S704 - a file of ours
        "site_style_hash": csp_hash(style),
        "commit_link": commit_link,
        "range_link": range_link,
        "run_link": run_link,
    }


def _repository_name(record: Record) -> str:
    """`octo/train`"""
    return "/".join((record.repository or "").split("/")[-2:]) if record.repository else ""
