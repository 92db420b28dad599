"""A policy from its file, or from the table that travels with a record."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ci_score.errors import BadInputError, ManyMistakesError
from ci_score.judge.policy.checking import mistakes_in
from ci_score.judge.policy.tables import Policy
from ci_score.model.verdict import HARMLESS, Unjudged

LARGEST_POLICY = 256 * 1024
# Far beyond what any policy needs.
MOST_DOTS, DEEPEST, LARGEST_BITS = 60, 32, 64


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy, parsed once, with the table that it was read from: that travels with the record."""

    table: Mapping[str, Any]
    policy: Policy = field(compare=False)


def read_policy(data: bytes, source: str) -> PolicyFile:
    """The policy in a TOML file."""
    return policy_of(_toml_table(data, source), source)


def policy_of(table: Mapping[str, Any], source: str) -> PolicyFile:
    """The policy in a table: a file's, or the one that travels with a record."""
    mistakes = mistakes_in(table, source)
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else ManyMistakesError(mistakes)
    return PolicyFile(table, Policy.model_validate(table))


def mistakes_in_file(data: bytes, source: str) -> list[BadInputError]:
    """Everything that is wrong with a policy file."""
    return mistakes_in(_toml_table(data, source), source)


def _toml_table(data: bytes, source: str) -> dict[str, Any]:
    try:
        text = data.decode("utf-8-sig")
        _refuse_long_keys(text, source)
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError, too, for a number without end
        raise BadInputError(source, found=f"no TOML ({error})", expected="TOML") from None
    _refuse_deep_tables(table, source)
    return table


def _refuse_long_keys(text: str, source: str) -> None:
    """The parser needs memory in n² for a key `a.a.a…` of n names, which is always on one line."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            raise BadInputError(
                source,
                field=f"line {number}",
                found=f"more than {MOST_DOTS} dots",
                expected="names of a few parts",
            )


def _refuse_deep_tables(table: dict[str, Any], source: str) -> None:
    """What copies and prints a table needs a bound on its depth, and on its numbers."""
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        level = [
            value
            for one in level
            if isinstance(one, dict | list)
            for value in (one.values() if isinstance(one, dict) else one)
        ]
        if any(isinstance(value, int) and value.bit_length() > LARGEST_BITS for value in level):
            raise BadInputError(
                source, found=f"a number of more than {LARGEST_BITS} bits", expected="a smaller one"
            )
    if level:
        raise BadInputError(
            source, found=f"tables deeper than {DEEPEST} levels", expected="those of docs/policy.md"
        )


def passes(policy: Policy, reason: Unjudged | None) -> bool:
    """Whether a run without a judgement passes, by the policy or by default."""
    if reason is None:
        return False
    fate = policy.unjudged.get(reason.value)
    return reason in HARMLESS if fate is None else fate == "pass"


def policy_schema() -> dict[str, Any]:
    """The format as a JSON schema, for editors and other tools."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Policy.model_json_schema(),
        "title": "ci-score policy",
    }
