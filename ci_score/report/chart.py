"""History → a mermaid chart, which GitHub draws in a comment."""

from __future__ import annotations

from ci_score.model.metrics import LEAST_SHOWN, STEP_TIME, THROUGHPUT, metric_named, three_digits
from ci_score.model.record import HistoryPoint, Judged, Record

LEAST_POINTS = 5
MOST_POINTS = 40
WIDTH, HEIGHT = 800, 300
# GitHub's default line is almost invisible; these two have contrast on light and on dark.
PALETTE = "#1f883d, #cf222e"


def trend_chart(record: Record, case: Judged) -> str:
    """The branch's last runs and this one; empty if there are too few for a course."""
    metric = metric_named(THROUGHPUT if metric_named(THROUGHPUT).measured(case) else STEP_TIME)
    points = [point for point in record.history if point.case == case.name]
    values = [value for point in points if (value := point.number(metric.name))]
    now = metric.value(case)
    shown = values[-MOST_POINTS:]
    if not shown or not now:
        return ""
    course = shown if is_of_run(points[-1], record) else [*shown, now]
    if len(course) < LEAST_POINTS:
        return ""
    scale, unit = _scale(max(course), metric.name)
    low, high = min(course) / scale, max(course) / scale
    margin = max((high - low) * 0.2, high * 0.02)
    rows = [
        "---",
        "config:",
        "  xyChart:",
        f"    width: {WIDTH}",
        f"    height: {HEIGHT}",
        "  themeVariables:",
        "    xyChart:",
        # Mermaid's own dark background differs from GitHub's, and is too light for the line.
        '      backgroundColor: "transparent"',
        f'      plotColorPalette: "{PALETTE}"',
        "---",
        "xychart-beta",
        f'  title "{metric.label} over the last {len(course)} runs"',
        f'  x-axis "run" 1 --> {len(course)}',
        f'  y-axis "{unit}" {_number(max(low - margin, 0))} --> {_number(high + margin)}',
        f"  line [{', '.join(_number(value / scale) for value in course)}]",
    ]
    return "\n".join(rows)


def is_of_run(point: HistoryPoint, record: Record) -> bool:
    """On the branch itself the run is the last point of its history already."""
    return point.run == record.run and point.commit == record.commit


def _scale(largest: float, metric: str) -> tuple[float, str]:
    if metric != THROUGHPUT:
        return 1.0, "ms a step"
    for factor, prefix in ((1e6, "M "), (1e3, "k ")):
        if largest >= factor:
            return factor, f"{prefix}tok/s per device"
    return 1.0, "tok/s per device"


def _number(value: float) -> str:
    # Mermaid reads no thousands, and no "less than".
    return f"{value:.3f}" if value < LEAST_SHOWN else three_digits(value).replace(",", "")
