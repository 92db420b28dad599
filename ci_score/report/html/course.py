"""History → the course of a metric over the branch's runs, with this run and what changed when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Metric, metric_named, tokens_differ
from ci_score.model.record import HistoryPoint, Judged, Record, Trend
from ci_score.model.verdict import Outcome
from ci_score.report.headlines import describe_trend
from ci_score.report.html.figures import Tick
from ci_score.report.html.scale import Scale, around, dots, percent
from ci_score.report.words import SHORT_SHA

LEAST_RUNS = 3
MOST_COURSES = 3
# With more points, hovering could not find a single run.
MOST_HOVERS = 240


@dataclass(frozen=True, slots=True)
class Run:
    """A point of the course: its place, and the run behind it."""

    x: str
    y: str
    commit: str
    when: str
    shown: str


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of the branch at one level: its start, its end and its place."""

    start: str
    end: str
    y: str
    end_y: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A change of the branch itself: a band between two commits, in words."""

    start: str
    width: str
    middle: str
    number: int
    words: str


@dataclass(frozen=True, slots=True)
class Course:
    """A metric's course as a drawing, its runs as rows, and one sentence for both."""

    label: str
    line: str
    dots: str
    runs: tuple[Run, ...]
    now: Run | None
    levels: tuple[Level, ...]
    marks: tuple[Mark, ...]
    grid: tuple[Tick, ...]
    dates: tuple[Tick, ...]
    elsewhere: int
    summary: str


def courses(
    record: Record, case: Judged, history: Sequence[HistoryPoint], *, lists_runs: bool = True
) -> list[Course]:
    """The courses of the case's main metric, and of each metric that fails or has a trend.

    Where no run is listed, only those are told that have a date below the drawing.
    """
    first = THROUGHPUT if metric_named(THROUGHPUT).measured(case) else STEP_TIME
    others = [
        change.metric
        for change in case.changes
        if change.outcome in (Outcome.FAIL, Outcome.WARN)
        # With throughput shown, the step time would be the same course upside down.
        and change.metric not in (THROUGHPUT, STEP_TIME)
    ]
    trends = [trend for trend in record.trends if trend.case == case.name]
    others += [trend.metric for trend in trends if trend.metric != STEP_TIME]
    drawn = (
        course_of(record, case, history, metric_named(name), trends, lists_runs=lists_runs)
        for name in dict.fromkeys((first, *others))
    )
    return [course for course in drawn if course is not None][:MOST_COURSES]


def course_of(
    record: Record | None,
    case: Judged,
    history: Sequence[HistoryPoint],
    metric: Metric,
    trends: Sequence[Trend],
    *,
    lists_runs: bool = True,
) -> Course | None:
    """The course of a metric, with the run of a record where one is given; None without a course.

    The trends are all of the case.
    """
    alike, elsewhere = alike_points(case, history, metric)
    if not alike:
        return None
    own = [trend for trend in trends if trend.metric == metric.name]
    return _drawn(record, metric, alike, metric.value(case), own, elsewhere, lists_runs)


def alike_points(
    case: Judged, history: Sequence[HistoryPoint], metric: Metric
) -> tuple[list[tuple[HistoryPoint, float]], int]:
    """The points that were measured as the case was, with their numbers, and how many others."""
    measured = [
        (point, value)
        for point in history
        if (value := point.number(metric.name)) is not None and (value > 0 or not metric.relative)
    ]
    alike = [(point, value) for point, value in measured if is_alike(case, point)]
    return alike, len(measured) - len(alike)


def is_alike(case: Judged, point: HistoryPoint) -> bool:
    """Whether the point was measured as the case was: on such a machine, with as many tokens."""
    return point.environment.mismatch(case.environment) is None and not tokens_differ(
        case.told_tokens, point.tokens_per_step
    )


def earlier_points(
    record: Record, case: Judged, history: Sequence[HistoryPoint]
) -> list[HistoryPoint]:
    """The branch's runs before this one that were measured as the case was."""
    alike = [point for point in history if is_alike(case, point)]
    return alike[:-1] if alike and record.made(alike[-1]) else alike


def _drawn(
    record: Record | None,
    metric: Metric,
    alike: Sequence[tuple[HistoryPoint, float]],
    current: float | None,
    trends: Sequence[Trend],
    elsewhere: int,
    lists_runs: bool,
) -> Course | None:
    # On the branch itself this run is the last point of its history already.
    is_new = record is not None and not record.made(alike[-1][0])
    values = [value for _, value in alike]
    shown = [*values, current] if is_new and current else values
    # In a report two runs are no trend; the branch's page has all that there is.
    if len(shown) < (2 if record is None else LEAST_RUNS):
        return None
    across = Scale(0.0, float(len(shown) - 1))
    scale = around([*shown, *(level for trend in trends for level in (trend.before, trend.after))])
    sources: list[HistoryPoint | Record] = [point for point, _ in alike]
    sources += [record] if record else []

    def run_at(place: int) -> Run:
        value = shown[place]
        return _run(across.percent(place), scale.top(value), sources[place], metric.show(value))

    last = len(alike) - 1
    told = range(len(alike)) if lists_runs else sorted({*_with_dates(len(alike)), last})
    runs = [run_at(place) for place in told]
    now = run_at(len(shown) - 1) if record and (current or not is_new) else None
    places = [(across.units(place), scale.down(value)) for place, value in enumerate(values)]
    commits = [point.commit for point, _ in alike]
    return Course(
        metric.label,
        "M" + "L".join(f"{x} {y}" for x, y in places),
        dots(places),
        tuple(runs),
        now,
        tuple(_levels(trends, commits, across, scale)),
        tuple(_marks(trends, commits, across)),
        tuple(Tick(scale.top(tick), metric.show(tick)) for tick in scale.ticks()),
        _dates(runs),
        elsewhere,
        _summary(metric, values, runs, now),
    )


def _run(x: str, y: str, source: HistoryPoint | Record, shown: str) -> Run:
    when = source.created_at[:16].replace("T", " ")
    return Run(x, y, (source.commit or "")[:SHORT_SHA], when, shown)


def _place(commits: Sequence[str | None], commit: str | None, default: int) -> int:
    """The place of a commit's last run, or `default` if the history no longer has that commit."""
    if commit is None or commit not in commits:
        return default
    return len(commits) - 1 - list(reversed(commits)).index(commit)


def _levels(
    trends: Sequence[Trend], commits: Sequence[str | None], across: Scale, scale: Scale
) -> Iterator[Level]:
    end = len(commits) - 1
    for trend in trends:
        last = _place(commits, trend.last_before, 0)
        first = _place(commits, trend.first_after, end)
        before, after = scale.top(trend.before), scale.top(trend.after)
        start, stop = max(last - trend.runs_before + 1, 0), min(first + trend.runs_after - 1, end)
        yield Level(across.percent(start), across.percent(last), before, before)
        yield Level(across.percent(first), across.percent(stop), after, after)
        if trend.kind == "drift":
            yield Level(across.percent(last), across.percent(first), before, after)


def _marks(trends: Sequence[Trend], commits: Sequence[str | None], across: Scale) -> Iterator[Mark]:
    end = len(commits) - 1
    for number, trend in enumerate(trends, start=1):
        first = _place(commits, trend.first_after, end)
        last = _place(commits, trend.last_before, max(first - 1, 0))
        start, stop = across.share(last), across.share(first)
        width = percent(stop - start)
        middle = percent((start + stop) / 2)
        yield Mark(percent(start), width, middle, number, describe_trend(trend))


def _with_dates(runs: int) -> list[int]:
    """The first, the middle and the last run."""
    return sorted({0, runs // 2, runs - 1}) if runs > 2 else [0]


def _dates(runs: Sequence[Run]) -> tuple[Tick, ...]:
    shown = [runs[place] for place in _with_dates(len(runs))]
    return tuple(
        Tick(run.x, " · ".join(filter(None, (run.commit, run.when[:10])))) for run in shown
    )


def _summary(metric: Metric, values: Sequence[float], runs: Sequence[Run], now: Run | None) -> str:
    course = f"One run of the branch, {metric.show(values[0])}"
    if len(values) > 1:
        course = (
            f"{len(values)} runs of the branch from {runs[0].when[:10]} to {runs[-1].when[:10]},"
            f" between {metric.show(min(values))} and {metric.show(max(values))}"
        )
    this = f". This run: {now.shown}" if now else ""
    return f"{metric.label}: {course}{this}."
