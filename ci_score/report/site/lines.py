"""A case's history → a line for each metric: course, lasting changes and newest number."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci_score.model.metrics import METRICS, STEP_TIME, THROUGHPUT, Metric, metric_by
from ci_score.model.record import HistoryPoint, Judged, Record, Trend
from ci_score.report.html.course import MOST_HOVERS, Course, alike_points, course_of
from ci_score.report.html.page import CourseView
from ci_score.report.html.scale import Scale, around

# A small drawing shows no more; of more runs it shows the middle ones of as many groups.
SMALL_POINTS = 60
# Of each case; a team gates a handful.
MOST_LINES = 16


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of a metric's level, in words beside its commits."""

    case: str
    metric: Metric
    trend: Trend

    @property
    def delta(self) -> str:
        """By how much, as `+4 %`."""
        return self.metric.show_delta(self.trend.delta)

    @property
    def values(self) -> str:
        """From which level to which."""
        return f"{self.metric.show(self.trend.before)} → {self.metric.show(self.trend.after)}"

    @property
    def word(self) -> str:
        """Which way it went."""
        return "worse" if self.trend.worse else "better"


@dataclass(frozen=True, slots=True)
class Line:
    """A metric of a case."""

    metric: Metric
    newest: str
    small: str
    course: CourseView | None
    changes: tuple[Change, ...]

    @property
    def last_change(self) -> Change | None:
        """The newest lasting change."""
        return self.changes[-1] if self.changes else None


def lines_of(
    record: Record, case: Judged, points: Sequence[HistoryPoint], trends: Sequence[Trend]
) -> list[Line]:
    """The lines of a case, its time first.

    Throughput and step time are one fact: of the two, the one that tells the trend is drawn.
    """
    drawn = (_line(record, case, points, trends, name) for name in _names(points))
    lines = [line for line in drawn if line is not None]
    has_throughput = bool(lines) and lines[0].metric.name == THROUGHPUT
    kept = [line for line in lines if line.metric.name != STEP_TIME or not has_throughput]
    return kept[:MOST_LINES]


def _names(points: Sequence[HistoryPoint]) -> list[str]:
    held = {name for point in points for name in point.metrics} - {THROUGHPUT, STEP_TIME}
    known = [row.name for row in METRICS if row.name in held]
    return [THROUGHPUT, STEP_TIME, *known, *sorted(held.difference(known))]


def _line(
    record: Record,
    case: Judged,
    points: Sequence[HistoryPoint],
    trends: Sequence[Trend],
    name: str,
) -> Line | None:
    metric = metric_by(name, record.metrics.get(name))
    alike, _ = alike_points(case, points, metric)
    if not alike:
        return None
    course = course_of(None, case, points, metric, trends)
    own = sorted(
        (trend for trend in trends if trend.metric == name), key=lambda one: one.created_at
    )
    values = [value for _, value in alike]
    return Line(
        metric,
        metric.show(values[-1]),
        _small(values) if course else "",
        _with_hovers(course) if course else None,
        tuple(Change(case.name, metric, trend) for trend in own),
    )


def _with_hovers(course: Course) -> CourseView:
    hovers = course.runs if len(course.runs) <= MOST_HOVERS else ()
    return CourseView(course, hovers, listed=())


def _small(values: Sequence[float]) -> str:
    """The path of a small drawing."""
    shown = list(_middles(values))
    across, scale = Scale(0.0, float(len(shown) - 1)), around(shown)
    places = (f"{across.units(at)} {scale.down(value)}" for at, value in enumerate(shown))
    return "M" + "L".join(places)


def _middles(values: Sequence[float]) -> Iterator[float]:
    """The values, or the median of each of as many groups as a small drawing shows."""
    groups = min(len(values), SMALL_POINTS)
    for group in range(groups):
        start, end = group * len(values) // groups, (group + 1) * len(values) // groups
        yield statistics.median(values[start:end])
