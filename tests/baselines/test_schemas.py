"""The JSON schemas that are shipped are those of the code; `make schemas` writes them anew."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # openapi-core brings it
import pytest

from ci_score.baselines import read_record, record_schema
from ci_score.cli import execute
from ci_score.errors import BadInputError
from ci_score.files.strict_json import dump, parse
from ci_score.judge.policy import policy_schema
from ci_score.model.bisected import bisected_schema
from tests.builders import PROJECT

SCHEMAS = PROJECT / "ci_score" / "model" / "schemas"
SHIPPED: dict[str, Callable[[], dict[str, Any]]] = {
    "bisect.schema.json": bisected_schema,
    "policy.schema.json": policy_schema,
    "record.schema.json": record_schema,
}
STARTER = PROJECT / "ci_score" / "judge" / "policy" / "starter.toml"


@pytest.mark.parametrize("name", SHIPPED)
def test_schema__is_that_of_the_code(name: str) -> None:
    """An editor that knows the schema knows what ci-score reads."""
    expected = dump(SHIPPED[name]())
    if os.environ.get("CI_SCORE_WRITE_SCHEMAS"):
        (SCHEMAS / name).write_text(expected, encoding="utf-8")
    assert (SCHEMAS / name).read_text(encoding="utf-8") == expected


def test_schema__there_is_no_other() -> None:
    """What nobody generates would grow stale."""
    assert {path.name for path in Path(SCHEMAS).iterdir()} == set(SHIPPED)


def schema_of_policies() -> Any:
    return parse((SCHEMAS / "policy.schema.json").read_bytes(), "the schema")


def test_schema__accepts_what_init_writes() -> None:
    """The starter has no mistake in an editor either."""
    table = tomllib.loads(STARTER.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema_of_policies()).validate(table)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "training"},
        {"rules": "strict"},
        {"schema": 2},
        {"unjudged": {"frist_run": "pass"}},
        {"measure": {"false_fail": 0}},
        {"metrics": {"mfu": {"fial": 0.1}}},
        {"metrics": {"1st": {"fail": 0.1}}},
        {"case": [{"required": True}]},
        {"parity": [{"match": 3}]},
    ],
    ids=str,
)
def test_schema__refuses_what_the_code_refuses(wrong: dict[str, Any]) -> None:
    """Unknown keys, names and values."""
    assert not jsonschema.Draft202012Validator(schema_of_policies()).is_valid(wrong)


def test_starter__names_the_schema_that_is_shipped() -> None:
    """The hint for editors leads to a file of this repository."""
    first = STARTER.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("#:schema https://")
    assert first.endswith("/ci_score/model/schemas/policy.schema.json")


# --- the record ---------------------------------------------------------------------------------

RECORD_PAGE = PROJECT / "docs" / "record.md"
_EXAMPLE = re.compile(r"(## A whole record\n\n```json\n)(.*?)(```)", re.DOTALL)


def validator_of_records() -> Any:
    schema = parse((SCHEMAS / "record.schema.json").read_bytes(), "the schema")
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def example() -> str:
    """The record that the page shows."""
    shown = _EXAMPLE.search(RECORD_PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    return shown[2]


def test_record__of_the_docs_is_whole_and_valid() -> None:
    """Every field is there with what it may hold; `make schemas` adds those that are new."""
    whole = dump(read_record(example().encode(), "docs/record.md"))
    if os.environ.get("CI_SCORE_WRITE_SCHEMAS"):
        page = RECORD_PAGE.read_text(encoding="utf-8")
        page = _EXAMPLE.sub(lambda found: found[1] + whole + found[3], page)
        RECORD_PAGE.write_text(page, encoding="utf-8")
    assert example() == whole
    validator_of_records().validate(json.loads(whole))


def test_record__of_the_docs_shows_what_it_tells() -> None:
    """Launches, changes, an explanation, a verdict, a history and a trend."""
    shown = read_record(example().encode(), "docs/record.md")
    (case,) = shown.cases
    assert case.launches
    assert case.changes
    assert case.baseline is not None
    assert case.baseline.changed_versions
    assert case.verdict is not None
    assert shown.history[-1].commit == shown.commit
    assert shown.trends


def test_record__of_real_runs_is_valid(tmp_path: Path) -> None:
    """What the demo leaves."""
    assert execute(["demo", "--output-dir", str(tmp_path)]) in (0, 1)
    left = sorted(tmp_path.rglob("*.json"))
    records = [path.read_bytes() for path in left if b'"schema_version"' in path.read_bytes()]
    assert records
    for data in records:
        validator_of_records().validate(json.loads(dump(read_record(data, "a record"))))


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema_version": 1},
        {"schema_version": 5},
        {"cases": None},
        {"commit": "main"},
        {"rules": "strict"},
        {"history": [{"case": "a b"}]},
        {"trends": [{"kind": "hunch"}]},
    ],
    ids=str,
)
def test_record__what_is_wrong_is_not_valid(wrong: dict[str, Any]) -> None:
    """Neither for a program that knows the schema, nor for us."""
    record = {**json.loads(example()), **wrong}
    assert not validator_of_records().is_valid(record)
    with pytest.raises(BadInputError):
        read_record(json.dumps(record).encode(), "a record")
