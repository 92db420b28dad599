"""The rules of a team: `.github/ci-score.toml`, read strictly and resolved for each case.

The file says what is gated, how sure the gate must be and what becomes of a run that could not be
judged. An unknown key is an error with a suggestion, and so are limits that contradict each other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from ci_score.errors import BadInputError
from ci_score.judge.policy.checking import mistakes_in
from ci_score.judge.policy.resolving import CaseRules, GateRule, rules_of
from ci_score.judge.policy.tables import CaseRule, Measure, ParityRule, Policy, Rules
from ci_score.model.trained_model import Model
from ci_score.model.verdict import Unjudged

__all__ = [
    "DEFAULT_POLICY",
    "LARGEST_POLICY",
    "CaseRule",
    "CaseRules",
    "GateRule",
    "Measure",
    "Model",
    "ParityRule",
    "Policy",
    "PolicyTable",
    "Rules",
    "fates_of",
    "mistakes_in",
    "policy_of",
    "policy_schema",
    "policy_table",
    "rules_of",
    "toml_table",
]

LARGEST_POLICY = 256 * 1024
DEFAULT_POLICY = Policy()
# The file's table as it was written: so it travels with the record.
PolicyTable = Mapping[str, Any]


def toml_table(data: bytes, source: str) -> dict[str, Any]:
    """What a TOML file holds, whether or not it is a policy."""
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(source, found=f"no TOML ({error})", expected="TOML") from None


def policy_table(data: bytes, source: str) -> dict[str, Any]:
    """The table of a file that holds a valid policy, to travel with the record."""
    table = toml_table(data, source)
    policy_of(table, source)
    return table


def policy_of(table: PolicyTable, source: str) -> Policy:
    """The policy that a table holds: a file's, or the one that travels with a record."""
    first, *others = mistakes_in(table, source) or (None,)
    if first is None:
        return Policy.model_validate(table)
    more = f" (and {len(others)} more, see `ci-score policy check`)" if others else ""
    raise BadInputError(
        source, field=first.field, found=first.found + more, expected=first.expected
    )


def fates_of(table: PolicyTable | None) -> dict[Unjudged, bool]:
    """The policy's words on reasons for no judgement: whether one of them passes."""
    unjudged = policy_of(table or {}, "the policy").unjudged
    return {Unjudged[name.upper()]: fate == "pass" for name, fate in unjudged.items()}


def policy_schema() -> dict[str, Any]:
    """The format as a JSON schema, for editors and other tools."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Policy.model_json_schema(),
        "title": "ci-score policy",
    }
