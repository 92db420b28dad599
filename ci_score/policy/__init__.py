"""The rules of a team: `.github/ci-score.toml`, read strictly and resolved for each case.

The file says what is gated, how sure the gate must be and what becomes of a run that could not be
judged. An unknown key is an error with a suggestion, and so are limits that contradict each other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ci_score.errors import BadInputError
from ci_score.metrics import METRICS, Limits, Metric, find_metric, user_metric
from ci_score.models import Lax, Unjudged
from ci_score.strict_json import bad_field, json_path

LARGEST_POLICY = 256 * 1024
Rules = Literal["reference", "training"]
Design = Literal["interleaved", "history", "single"]
Fate = Literal["pass", "fail"]
MatchKey = Literal["accelerator", "accelerator_count", "precision", "timing"]
RejectKey = Literal["throttled", "shared", "crashed", "nan"]
WorkKey = Literal["tokens_per_step", "valid_steps", "final_loss"]
# The file's table as it was written: so it travels with the record.
PolicyTable = Mapping[str, Any]
Share = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
CasePattern = Annotated[str, Field(min_length=1, max_length=64)]
MetricName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]

_TABLE = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True
)


class Table(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = _TABLE


class Measure(Table):
    """How the numbers come to be, and how sure a failure must be."""

    design: Design | None = None
    false_fail: Annotated[float, Field(gt=0, le=0.1)] = 0.005
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    timed_steps: Annotated[int, Field(ge=1)] | None = None
    qualified: bool = False


class EnvironmentRules(Table):
    """Which differences make two runs incomparable, and which events a run worthless."""

    match: Annotated[tuple[MatchKey, ...], Lax] = (
        "accelerator",
        "accelerator_count",
        "precision",
        "timing",
    )
    reject: Annotated[tuple[RejectKey, ...], Lax] = ("throttled", "shared", "crashed", "nan")
    same_work: Annotated[tuple[WorkKey, ...], Lax] = (
        "tokens_per_step",
        "valid_steps",
        "final_loss",
    )
    loss_tolerance: Positive = 0.05


class Model(Table):
    """What is trained: MFU needs the work of a token."""

    parameters: Positive | None = None
    active_parameters: Positive | None = None
    layers: Annotated[int, Field(ge=1)] | None = None
    hidden: Annotated[int, Field(ge=1)] | None = None
    sequence: Annotated[int, Field(ge=1)] | None = None
    precision: Annotated[str, Field(min_length=1, max_length=16)] | None = None
    flops_per_token: Positive | None = None
    recomputed_flops_per_token: Positive | None = None


class MetricRule(Table):
    """What the file says of a metric; what it does not say stays as in the metric's row."""

    gate: bool | None = None
    warn: Positive | None = None
    fail: Positive | None = None
    direction: Literal["higher", "lower"] | None = None
    scale: Literal["relative", "absolute"] | None = None
    unit: Annotated[str, Field(max_length=16)] | None = None

    @model_validator(mode="after")
    def _warns_before_it_fails(self) -> MetricRule:
        if self.warn is not None and self.fail is not None and self.warn > self.fail:
            raise ValueError(f"a warn ({self.warn:g}) that is not above fail ({self.fail:g})")
        return self


class CaseRule(Table):
    """Overrides for the cases whose name matches; later ones win."""

    match: Annotated[tuple[CasePattern, ...], Lax, Field(min_length=1)]
    required: bool = False
    measure: Measure | None = None
    environment: EnvironmentRules | None = None
    model: Model | None = None
    metrics: dict[MetricName, MetricRule] = {}
    budgets: dict[MetricName, Positive] = {}

    def applies_to(self, case: str) -> bool:
        """Whether one of the globs matches."""
        return any(fnmatchcase(case, glob) for glob in self.match)


class ParityRule(Table):
    """What two runtimes, or two machines, must have in common."""

    match: Annotated[tuple[CasePattern, ...], Lax, Field(min_length=1)] = ("*",)
    partner: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    require_same: Annotated[
        tuple[Literal["tokens_per_step", "precision", "accelerator_count"], ...], Lax
    ] = ()
    ms_per_1k_tokens: Positive | None = None
    op_ratio: Positive | None = None
    min_share: Share = 0.05
    min_coverage: Annotated[float, Field(ge=0, le=1)] = 0.5
    reference_parity: bool = False
    gate: bool = True


class Policy(Table):
    """What is judged and how. Without a file: the reference's regressions, a critical one fails."""

    schema_: Annotated[int, Field(alias="schema", ge=1, le=1)] = 1
    rules: Rules = "reference"
    measure: Measure = Measure()
    environment: EnvironmentRules = EnvironmentRules()
    unjudged: dict[str, Fate] = {}
    model: Model = Model()
    metrics: dict[MetricName, MetricRule] = {}
    budgets: dict[MetricName, Positive] = {}
    case: Annotated[tuple[CaseRule, ...], Lax] = ()
    parity: Annotated[tuple[ParityRule, ...], Lax] = ()

    def required_among(self, names: Iterable[str]) -> list[str]:
        """The patterns of required cases that none of the names matches."""
        known = list(names)
        return [
            " or ".join(rule.match)
            for rule in self.case
            if rule.required and not any(rule.applies_to(name) for name in known)
        ]

    def parity_of(self, case: str) -> ParityRule | None:
        """The first parity rule for the case."""
        rules = (
            rule for rule in self.parity if any(fnmatchcase(case, glob) for glob in rule.match)
        )
        return next(rules, None)


T = TypeVar("T", bound=Table)


DEFAULT_POLICY = Policy()


def fates_of(table: PolicyTable | None) -> dict[Unjudged, bool]:
    """The policy's words on reasons for no judgement: whether one of them passes."""
    unjudged = policy_of(table or {}, "the policy").unjudged
    return {Unjudged[name.upper()]: fate == "pass" for name, fate in unjudged.items()}


# --- resolved for a case ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GateRule:
    """A metric with the limits that hold for a case. What is not gated is only reported."""

    metric: Metric
    gate: bool
    warn: float
    fail: float | None
    named: bool = False


@dataclass(frozen=True, slots=True)
class CaseRules:
    """Everything that the policy says about one case."""

    rules: Rules
    measure: Measure
    environment: EnvironmentRules
    model: Model
    gates: tuple[GateRule, ...]
    budgets: Mapping[str, float]

    def gate(self, metric: str) -> GateRule | None:
        """The rule of that metric, where it has one."""
        return next((rule for rule in self.gates if rule.metric.name == metric), None)


def rules_of(policy: Policy, case: str) -> CaseRules:
    """The policy as it holds for a case: the general part, then its `[[case]]` tables in order."""
    overrides = [rule for rule in policy.case if rule.applies_to(case)]
    named: dict[str, MetricRule] = dict(policy.metrics)
    budgets = dict(policy.budgets)
    measure, environment, model = policy.measure, policy.environment, policy.model
    for rule in overrides:
        measure = _over(measure, rule.measure)
        environment = _over(environment, rule.environment)
        model = _over(model, rule.model)
        budgets |= rule.budgets
        for name, metric in rule.metrics.items():
            named[name] = _over(named.get(name, MetricRule()), metric)
    return CaseRules(
        policy.rules, measure, environment, model, tuple(_gates(policy.rules, named)), budgets
    )


def _over(under: T, over: T | None) -> T:
    """The keys that `over` gives in place of those of `under`."""
    if over is None:
        return under
    return under.model_copy(update={key: getattr(over, key) for key in over.model_fields_set})


def _gates(rules: Rules, named: Mapping[str, MetricRule]) -> Iterator[GateRule]:
    for metric in METRICS:
        yield _gate(metric, rules, named.get(metric.name))
    for name, rule in named.items():
        if find_metric(name) is None:
            yield _gate(user_metric(name, rule.direction, rule.scale, rule.unit), rules, rule)


def _gate(metric: Metric, rules: Rules, rule: MetricRule | None) -> GateRule:
    limits = _limits(metric, rules)
    if rule is None:
        return GateRule(metric, limits is not None, *_pair(limits, metric))
    if rule.scale is not None or rule.direction is not None:
        metric = metric.turned(rule.direction, rule.scale)
    warn, fail = _pair(limits, metric)
    if rule.warn is not None:
        warn = rule.warn
        fail = max(fail, warn) if fail is not None and rule.fail is None else fail
    if rule.fail is not None:
        fail = rule.fail
        warn = min(warn, fail)
    gate = rule.gate if rule.gate is not None else (limits is not None or rule.fail is not None)
    return GateRule(metric, gate, warn, fail, named=True)


def _limits(metric: Metric, rules: Rules) -> Limits | None:
    return metric.reference if rules == "reference" else metric.training


def _pair(limits: Limits | None, metric: Metric) -> tuple[float, float | None]:
    found = limits or metric.training or metric.reference or Limits(0.05, 0.10)
    return found.warn, found.fail


# --- the file -----------------------------------------------------------------------------------


def _toml(data: bytes, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(source, found=f"no TOML ({error})", expected="TOML") from None


def policy_table(data: bytes, source: str) -> dict[str, Any]:
    """The table of a file that holds a valid policy, to travel with the record."""
    table = _toml(data, source)
    policy_of(table, source)
    return table


def policy_of(table: PolicyTable, source: str) -> Policy:
    """The policy that a table holds: a file's, or the one that travels with a record."""
    try:
        policy = Policy.model_validate(table)
    except ValidationError as error:
        raise _mistake(error, source) from None
    _check_unjudged(policy, source)
    _check_metrics(policy, source)
    return policy


def _mistake(error: ValidationError, source: str) -> BadInputError:
    """The first mistake; of an unknown key with the known one that looks most like it."""
    first = error.errors(include_url=False)[0]
    if first["type"] != "extra_forbidden":
        return bad_field(error, source)
    *place, key = first["loc"]
    known = _keys_at(place)
    close = get_close_matches(str(key), known, n=1)
    hint = f", perhaps {close[0]}" if close else ""
    return BadInputError(
        source,
        field=json_path((*place, key)),
        found="a key that does not exist",
        expected=f"one of {', '.join(known)}{hint}",
    )


_SECTIONS: dict[str, type[Table]] = {
    "measure": Measure,
    "environment": EnvironmentRules,
    "model": Model,
    "metrics": MetricRule,
    "case": CaseRule,
    "parity": ParityRule,
}


def _keys_at(place: Iterable[int | str]) -> list[str]:
    """The keys that a table at that place of the file may have."""
    table: type[Table] = Policy
    for step in place:
        table = _SECTIONS.get(str(step), table)
    return [field.alias or name for name, field in table.model_fields.items()]


def _check_unjudged(policy: Policy, source: str) -> None:
    known = [reason.name.lower() for reason in Unjudged]
    for key in policy.unjudged:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f", perhaps {close[0]}" if close else ""
            raise BadInputError(
                source,
                field=json_path(("unjudged", key)),
                found="a reason that does not exist",
                expected=f"one of {', '.join(known)}{hint}",
            )


def _check_metrics(policy: Policy, source: str) -> None:
    """A metric of the user's own needs a direction; a known name that is misspelt is a mistake."""
    known = [metric.name for metric in METRICS]
    places: list[tuple[tuple[str, ...], dict[str, MetricRule]]] = [(("metrics",), policy.metrics)]
    places += [(("case", str(n), "metrics"), rule.metrics) for n, rule in enumerate(policy.case)]
    described = {
        name for _, rules in places for name, rule in rules.items() if rule.direction is not None
    }
    for place, rules in places:
        for name in rules:
            if name in known or name in described:
                continue
            close = get_close_matches(name, known, n=1)
            hint = f", perhaps {close[0]}" if close else ""
            raise BadInputError(
                source,
                field=json_path((*place, name)),
                found="a metric that ci-score does not know, without a direction",
                expected=f'one of {", ".join(known)}{hint}; or `direction = "lower"` for one of'
                " your own",
            )
