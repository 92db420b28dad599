"""The histories of several records as one."""

from __future__ import annotations

from ci_score.model.record import KEPT_POINTS, HistoryPoint, RunIdentity


def join_histories(
    *histories: tuple[HistoryPoint, ...], most: int = KEPT_POINTS
) -> tuple[HistoryPoint, ...]:
    """The newest points of each case in all of them, each run's once, oldest first.

    Case, commit and run identify a point, so those of two pushes that ran at once both stay. The
    last attempt of a run also holds what the earlier ones measured, so only its point stays. Of two
    copies the one with more metrics and ops stays: a record that was cut has lost the ops.
    """
    points = {
        (point.case, point.commit, point.run and point.run.number): point
        for point in sorted((point for history in histories for point in history), key=_fullness)
    }
    by_case: dict[str, list[HistoryPoint]] = {}
    for point in sorted(points.values(), key=_when):
        by_case.setdefault(point.case, []).append(point)
    kept = [point for case in by_case.values() for point in case[-most:]]
    return tuple(sorted(kept, key=_when))


def _fullness(point: HistoryPoint) -> tuple[int, int, int]:
    return point.run.attempt if point.run else 0, len(point.metrics), len(point.ops)


def _when(point: HistoryPoint) -> tuple[str, int, int, str]:
    run = point.run or RunIdentity(number=0)
    return point.created_at, run.number, run.attempt, point.case
