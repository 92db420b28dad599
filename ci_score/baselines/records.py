"""Records from files: what an earlier run left, or a bare scorecard of the reference."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.disk import RECORD_LIMIT
from ci_score.files.strict_json import dump, parse, validate
from ci_score.model.environment import Environment
from ci_score.model.record import (
    DEFAULT_CASE,
    KEPT_POINTS,
    HistoryPoint,
    Judged,
    Record,
    RunIdentity,
)
from ci_score.model.scorecard import Scorecard

SCHEMA_VERSION = 3
# What a judgement and a trend look at; of older points only the times stay.
JUDGED_POINTS = 140
# As many as a proof needs by default.
PROVING_POINTS = 83
# Of each side: far more than a session measures.
KEPT_LAUNCHES = 64
# As many as sessions measure by default, and some more.
LEAST_LAUNCHES = 24


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


def record_schema() -> dict[str, Any]:
    """The format of a record as a JSON schema, for other tools that read one."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Record.model_json_schema(mode="serialization"),
        "title": f"ci-score record, version {SCHEMA_VERSION}",
    }


def _of_bare_scorecard(scorecard: Scorecard, knows_whether_graded: bool) -> Record:
    if not knows_whether_graded and scorecard.efficiency in (0.0, 1.0):
        # The reference grades F where it knows no roofline, and A above it: both are clamped.
        reason = f"the scorecard's efficiency is {scorecard.efficiency:.0%}"
        scorecard = scorecard.but(ungraded_reason=reason)
    environment = Environment(
        accelerator=scorecard.accelerator, accelerator_count=scorecard.accelerator_count
    )
    case = Judged(name=DEFAULT_CASE, environment=environment, scorecard=scorecard)
    return Record(ci_score_version="", created_at="", cases=(case,))


def is_bare_scorecard(record: Record) -> bool:
    """Whether the record was made from a scorecard, which names no case, commit or run."""
    return not record.ci_score_version


def _record(value: dict[str, Any], source: str) -> Record:
    _check_version(value["schema_version"], source)
    record = validate(Record, value, source)
    _check_history(record.history, source)
    return record


def _check_version(version: object, source: str) -> None:
    if type(version) is int and version == SCHEMA_VERSION:
        return
    found, expected = ascii(version)[:40], f"{SCHEMA_VERSION}"
    if type(version) is int and version > SCHEMA_VERSION:
        found += ", which a newer ci-score has written"
        expected += "; use that newer ci-score here, too"
    elif type(version) is int and version > 0:
        found += ", which an older ci-score has written"
        expected += "; run the default branch once more, and it leaves a record of this version"
    raise BadInputError(source, field="schema_version", found=found, expected=expected)


def _check_history(history: tuple[HistoryPoint, ...], source: str) -> None:
    """Refuses what ci-score never writes: points out of the order of time, or of one run twice.

    Run numbers may have gaps, because few runs of the workflow leave a point. They need not rise
    with time either: an older run may be run again, or end later.
    """
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


def join_histories(
    *histories: tuple[HistoryPoint, ...], most: int = KEPT_POINTS
) -> tuple[HistoryPoint, ...]:
    """The newest points of each case in all of them, each run's once, oldest first.

    Case, commit and run identify a point, so those of two pushes that ran at once both stay. The
    last attempt of a run also holds what the earlier ones measured, so only its point stays. Of two
    copies the one with more metrics stays: a record that was cut has lost those of old points.
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


def _fullness(point: HistoryPoint) -> tuple[int, int]:
    return point.run.attempt if point.run else 0, len(point.metrics)


def _when(point: HistoryPoint) -> tuple[str, int, int, str]:
    run = point.run or RunIdentity(number=0)
    return point.created_at, run.number, run.attempt, point.case


# --- size ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    """What stays of a record: points of each case, layers, launches of each side, details."""

    points: int = KEPT_POINTS
    layers: int | None = None
    launches: int | None = None
    details: bool = True


# What the next run needs least goes first.
_SIZES = (
    _Size(),
    _Size(layers=128),
    _Size(layers=128, launches=KEPT_LAUNCHES),
    _Size(JUDGED_POINTS, layers=128, launches=KEPT_LAUNCHES),
    _Size(JUDGED_POINTS, layers=0, launches=KEPT_LAUNCHES, details=False),
    _Size(PROVING_POINTS, layers=0, launches=KEPT_LAUNCHES, details=False),
    _Size(30, layers=0, launches=KEPT_LAUNCHES, details=False),
    _Size(30, layers=0, launches=LEAST_LAUNCHES, details=False),
    _Size(0, layers=0, launches=LEAST_LAUNCHES, details=False),
)


def fitted(record: Record) -> str:
    """The record as it is written: readable while it fits into the limit, then on one line, cut."""
    # Indented text is longer than this, and takes many times as long to write.
    is_small = len(record.model_dump_json()) <= RECORD_LIMIT
    text = dump(record) if is_small else ""
    if is_small and len(text) <= RECORD_LIMIT:
        return text
    for size in _SIZES:
        text = _on_one_line(_cut(record, size))
        if len(text) <= RECORD_LIMIT:
            break
    return text


def _on_one_line(record: Record) -> str:
    """The record in the least room: what is absent from a launch or a point has no key."""
    value = record.model_dump(mode="json")
    for row, case in zip(value["cases"], record.cases, strict=True):
        row["launches"] = [
            launch.model_dump(mode="json", exclude_defaults=True) for launch in case.launches
        ]
    value["history"] = [_without_gaps(point) for point in value["history"]]
    return dump(value, indent=None)


def _without_gaps(value: dict[str, Any]) -> dict[str, Any]:
    kept = {key: _without_gaps(one) if isinstance(one, dict) else one for key, one in value.items()}
    return {key: one for key, one in kept.items() if one not in (None, {}, [])}


def _cut(record: Record, size: _Size) -> Record:
    points = join_histories(record.history, most=size.points) if size.points else ()
    # Old points show the trend of the time alone; the newest ones judge the other metrics.
    judged = {id(point) for point in join_histories(points, most=JUDGED_POINTS)}
    history = tuple(point if id(point) in judged else point.but(metrics={}) for point in points)
    cases = tuple(_cut_case(case, size) for case in record.cases)
    return record.but(history=history, cases=cases, trends=record.trends if size.points else ())


def _cut_case(case: Judged, size: _Size) -> Judged:
    card = case.scorecard
    slim = case.but(
        scorecard=card.but(
            per_layer_summary=card.per_layer_summary[: size.layers],
            hotspot_ops=card.hotspot_ops if size.details else (),
        ),
        launches=tuple(
            launch
            for side in ("head", "base")
            for launch in [one for one in case.launches if one.side == side][: size.launches]
        )
        if size.launches
        else case.launches,
    )
    if size.details:
        return slim
    return slim.but(
        ops={},
        op_details={},
        op_calls={},
        host_gaps=(),
        phases={},
        idle_ranges={},
        explanation=None,
        parity=None,
    )
