"""The JSON schemas that are shipped are those of the code; `make schemas` writes them anew."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # openapi-core brings it
import pytest

from ci_score.policy import policy_schema
from ci_score.strict_json import dump, parse
from tests.builders import PROJECT

SCHEMAS = PROJECT / "ci_score" / "schemas"
SHIPPED: dict[str, Callable[[], dict[str, Any]]] = {"policy.schema.json": policy_schema}
STARTER = PROJECT / "ci_score" / "policy" / "starter.toml"


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
    assert first.endswith("/ci_score/schemas/policy.schema.json")
