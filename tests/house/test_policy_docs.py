"""docs/policy.md has every key, metric and reason of the code, and its examples are valid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from ci_score.judge.policy import ParityRule, Policy, read_policy
from ci_score.judge.policy.tables import CaseRule, EnvironmentRules, Measure, MetricRule
from ci_score.model.metrics import METRICS, Kind, Limits, Metric
from ci_score.model.trained_model import Model, Table
from ci_score.model.verdict import HARMLESS, Unjudged
from ci_score.report import UNJUDGED
from tests.builders import PROJECT

DOCS = (PROJECT / "docs" / "policy.md").read_text(encoding="utf-8")
TABLES: dict[str, type[Table]] = {
    "": Policy,
    "[measure]": Measure,
    "[environment]": EnvironmentRules,
    "[model]": Model,
    "[metrics.NAME]": MetricRule,
    "[[case]]": CaseRule,
    "[[parity]]": ParityRule,
}
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)


def default(field: FieldInfo) -> str:
    """The default in TOML; empty for a table, whose keys have rows of their own."""
    value: Any = field.default
    if field.is_required():
        return "required"
    if value is None or value in ({}, ()) or isinstance(value, Table):
        return ""
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{one}"' for one in value) + "]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def key_rows() -> Iterator[str]:
    for title, table in TABLES.items():
        for name, field in table.model_fields.items():
            key = f"{title} {field.alias or name}".strip()
            yield f"| `{key}` | {default(field)} | {field.description} |"


def limits(metric: Metric, found: Limits | None) -> str:
    if found is None:
        return "–"
    words = [f"{metric.show_limit(found.warn)} warns"]
    if found.fail is not None:
        words.append(f"{metric.show_limit(found.fail)} fails")
    return ", ".join(words)


def metric_row(metric: Metric) -> str:
    better = "higher" if metric.higher_is_better else "lower"
    kind = "exact" if metric.kind is Kind.EXACT else "noisy"
    cells = [f"`{metric.name}`", metric.label, better, kind]
    cells += [limits(metric, metric.training), limits(metric, metric.reference)]
    return f"| {' | '.join(cells)} |"


def reason_row(reason: Unjudged) -> str:
    fate = "pass" if reason in HARMLESS else "fail"
    return f"| `{reason.value}` | {UNJUDGED[reason]} | {fate} |"


def expected_rows() -> list[str]:
    return [
        *key_rows(),
        *(metric_row(metric) for metric in METRICS),
        *(reason_row(reason) for reason in Unjudged),
    ]


@pytest.mark.parametrize("row", expected_rows())
def test_docs__have_a_row_for_every_key_metric_and_reason(row: str) -> None:
    """Every key has a row with its default and its description, every metric and reason has one."""
    assert f"{row}\n" in DOCS


def test_docs__have_no_other_row() -> None:
    """The page has no row for a key, metric or reason that the code does not have."""
    rows = re.findall(r"^\| `.*$", DOCS, re.MULTILINE)
    assert sorted(rows) == sorted(expected_rows())


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_docs__the_examples_are_in_order(text: str) -> None:
    """Each example is a valid policy."""
    assert read_policy(text.encode(), "policy.toml")


def test_docs__have_a_policy_for_one_gpu_and_one_for_a_matrix() -> None:
    """The second example has cases, and a parity for each model."""
    one, many = (read_policy(text.encode(), "p").policy for text in EXAMPLES[:2])
    assert (one.rules, one.case, one.parity) == ("training", (), ())
    assert many.parities_of("llama-8b@mi300x")[0].partner_of("llama-8b@mi300x") == "llama-8b@h100"
