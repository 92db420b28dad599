"""Records from files: what an earlier run left, or a bare scorecard of the reference."""

from __future__ import annotations

from typing import Any

from ci_score.errors import BadInputError
from ci_score.models import CaseRecord, Record, Scorecard
from ci_score.strict_json import parse, validate

DEFAULT_CASE = "training"
SCHEMA_VERSION = 1


def read_record(data: bytes, source: str) -> Record:
    """The record in `data`. A bare scorecard becomes a record of one case that fits any name."""
    value = parse(data, source)
    if isinstance(value, dict) and "schema_version" in value:
        return _record(value, source)
    if isinstance(value, dict) and "grade" in value:
        scorecard = _without_hollow_grade(validate(Scorecard, value, source))
        return Record(
            ci_score_version="",
            created_at="",
            cases=(CaseRecord(name=DEFAULT_CASE, scorecard=scorecard),),
        )
    raise BadInputError(
        source,
        found="JSON that is neither a record nor a scorecard",
        expected='a ci-score.json (with "schema_version") or a scorecard (with "grade")',
    )


def _without_hollow_grade(scorecard: Scorecard) -> Scorecard:
    """The reference grades an efficiency of 0 with F, also where it knew no roofline."""
    if scorecard.efficiency > 0:
        return scorecard
    reason = "the scorecard's efficiency is 0"
    return scorecard.model_copy(update={"graded": False, "ungraded_reason": reason})


def is_bare_scorecard(record: Record) -> bool:
    """Whether the record was made of a scorecard that knows no case, commit or run."""
    return not record.ci_score_version


def _record(value: dict[str, Any], source: str) -> Record:
    version = value["schema_version"]
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise BadInputError(
            source,
            field="schema_version",
            found=ascii(version)[:40],
            expected=f"{SCHEMA_VERSION} (a record of this ci-score)",
        )
    return validate(Record, value, source)
