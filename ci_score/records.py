"""Records from files: what an earlier run left, or a bare scorecard of the reference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files import RECORD_LIMIT
from ci_score.models import CaseRecord, Environment, HistoryPoint, Record, RunIdentity, Scorecard
from ci_score.strict_json import dump, parse, validate

DEFAULT_CASE = "training"
RECORD_FILE = "ci-score.json"
SCHEMA_VERSION = 1
KEPT_POINTS = 200


def read_record(data: bytes, source: str) -> Record:
    """The record in `data`. A bare scorecard becomes a record of one case that fits any name."""
    value = parse(data, source)
    if isinstance(value, dict) and "schema_version" in value:
        return _record(value, source)
    if isinstance(value, dict) and "grade" in value:
        return _of_bare_scorecard(validate(Scorecard, value, source), "graded" in value)
    is_profile = isinstance(value, dict) and not {"phases", "avg_step_ms"}.isdisjoint(value)
    raise BadInputError(
        source,
        found="a profile, which `ci-score score` reads"
        if is_profile
        else "JSON that is neither a record nor a scorecard",
        expected='a ci-score.json (with "schema_version") or a scorecard (with "grade")',
    )


def _of_bare_scorecard(scorecard: Scorecard, knows_whether_graded: bool) -> Record:
    if not knows_whether_graded and scorecard.efficiency in (0.0, 1.0):
        # The reference grades F where it knows no roofline, and A above it: both are clamped.
        reason = f"the scorecard's efficiency is {scorecard.efficiency:.0%}"
        scorecard = scorecard.model_copy(update={"ungraded_reason": reason})
    environment = Environment(
        accelerator=scorecard.accelerator, accelerator_count=scorecard.accelerator_count
    )
    case = CaseRecord(name=DEFAULT_CASE, environment=environment, scorecard=scorecard)
    return Record(ci_score_version="", created_at="", cases=(case,))


def is_bare_scorecard(record: Record) -> bool:
    """Whether the record was made of a scorecard that knows no case, commit or run."""
    return not record.ci_score_version


def policy_with(record: Record) -> dict[str, Any] | None:
    """The rules that travel with a record: those of no file are {}; a bare scorecard knows none."""
    return None if is_bare_scorecard(record) else record.policy or {}


def _record(value: dict[str, Any], source: str) -> Record:
    version = value["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        raise BadInputError(
            source,
            field="schema_version",
            found=ascii(version)[:40],
            expected=f"{SCHEMA_VERSION} (a record of this ci-score)",
        )
    record = validate(Record, value, source)
    _check_history(record.history, source)
    return record


def _check_history(history: tuple[HistoryPoint, ...], source: str) -> None:
    """In the order of time and each run once: whoever left it otherwise was not ci-score."""
    for place, (before, after) in enumerate(pairwise(history), start=1):
        if after.created_at < before.created_at:
            raise BadInputError(
                source,
                field=f"history[{place}].created_at",
                found=f"{after.created_at} after {before.created_at}",
                expected="points in the order of time",
            )
    seen: set[tuple[object, ...]] = set()
    for place, point in enumerate(history):
        key = (point.case, point.commit, point.run, point.created_at)
        if key in seen:
            raise BadInputError(
                source,
                field=f"history[{place}]",
                found=f"the same run of {point.case} twice",
                expected="each run once",
            )
        seen.add(key)


def join_histories(*histories: tuple[HistoryPoint, ...]) -> tuple[HistoryPoint, ...]:
    """The newest points of all of them, each run's once, oldest first.

    A point is known by its case, commit and run: two pushes that ran at once both stay. The last
    attempt of a run holds what the others have measured, too, so it stands for all of them.
    """
    points = {
        (point.case, point.commit, point.run and point.run.number): point
        for point in sorted((point for history in histories for point in history), key=_attempt)
    }
    by_case: dict[str, list[HistoryPoint]] = {}
    for point in sorted(points.values(), key=_when):
        by_case.setdefault(point.case, []).append(point)
    kept = [point for case in by_case.values() for point in case[-KEPT_POINTS:]]
    return tuple(sorted(kept, key=_when))


def _attempt(point: HistoryPoint) -> int:
    return point.run.attempt if point.run else 0


def _when(point: HistoryPoint) -> tuple[str, int, int, str]:
    run = point.run or RunIdentity(number=0)
    return point.created_at, run.number, run.attempt, point.case


def fitted(record: Record) -> Record:
    """The record within its size: the oldest points go first, then the layers, then the ops."""
    for shrink in (_as_it_is, _with_fewer_points, _with_fewer_layers, _without_details):
        record = shrink(record)
        if len(dump(record)) <= RECORD_LIMIT:
            return record
    return record


def _as_it_is(record: Record) -> Record:
    return record


def _with_fewer_points(record: Record) -> Record:
    return record.model_copy(update={"history": record.history[-KEPT_POINTS:]})


def _with_fewer_layers(record: Record) -> Record:
    return _each_card(record, lambda card: {"per_layer_summary": card.per_layer_summary[:128]})


def _without_details(record: Record) -> Record:
    slim = _each_card(record, lambda _: {"per_layer_summary": (), "hotspot_ops": ()})
    cases = (case.model_copy(update={"ops": {}, "phases": {}}) for case in slim.cases)
    return slim.model_copy(update={"cases": tuple(cases), "history": ()})


def _each_card(record: Record, change: Callable[[Scorecard], dict[str, Any]]) -> Record:
    cases = (
        case.model_copy(
            update={"scorecard": case.scorecard.model_copy(update=change(case.scorecard))}
        )
        for case in record.cases
    )
    return record.model_copy(update={"cases": tuple(cases)})
