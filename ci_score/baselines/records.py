"""Records from files: what an earlier run left, or a bare scorecard of the reference."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.strict_json import parse, validate
from ci_score.model.environment import Environment
from ci_score.model.record import DEFAULT_CASE, HistoryPoint, Judged, Record
from ci_score.model.scorecard import Scorecard

SCHEMA_VERSION = 4


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
    # A scorecard does not say whether its throughput was measured, or given with an option.
    case = Judged(
        name=DEFAULT_CASE, environment=environment, scorecard=scorecard, throughput_given=True
    )
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
