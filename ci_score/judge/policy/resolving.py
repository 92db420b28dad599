"""The policy for one case: the general part, then the `[[case]]` tables that match, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ci_score.errors import WrongUseError
from ci_score.judge.policy.tables import (
    EnvironmentRules,
    Measure,
    MetricRule,
    ParityRule,
    Policy,
    Rules,
)
from ci_score.model.metrics import (
    METRICS,
    OF_TOKENS,
    STEP_TIME,
    THROUGHPUT,
    Kind,
    Limits,
    Metric,
    find_metric,
    user_metric,
)
from ci_score.model.trained_model import Model, Table

T = TypeVar("T", bound=Table)


@dataclass(frozen=True, slots=True)
class GateRule:
    """A metric with the limits that hold for a case. What is not gated is only reported.

    `named` where the policy has a word on the metric, and not only the rules' defaults.
    """

    metric: Metric
    gate: bool
    warn: float
    fail: float | None
    named: bool = False

    @property
    def contradiction(self) -> tuple[str, str] | None:
        """What is wrong with the limits, and what is allowed; None if they are in order."""
        if not self.gate:
            return None
        for word, limit in (("fail", self.fail), ("warn", self.warn)):
            if limit is not None and limit >= 1 and self.metric.relative:
                return f"{word} = {limit:g}, a worsening by {limit:.0%}", _A_SHARE
            if limit == 0 and self.metric.kind is Kind.NOISY:
                return f"{word} = 0 for what differs from run to run", _AN_EXACT_COUNT
        if self.fail is not None and self.warn > self.fail:
            return f"warn = {self.warn:g} beyond fail = {self.fail:g}", _IN_ORDER
        return None


_A_SHARE = 'a share of the base below 1 (0.05 is 5 %), or `scale = "absolute"` for units'
_AN_EXACT_COUNT = "a limit above 0, or `exact = true` for a count that never differs"
_IN_ORDER = "a warn that comes before fail: give both where one of them is a default"


@dataclass(frozen=True, slots=True)
class CaseRules:
    """Everything that the policy says about one case."""

    rules: Rules
    measure: Measure
    environment: EnvironmentRules
    model: Model
    gates: tuple[GateRule, ...]
    budgets: Mapping[str, float]
    parities: tuple[ParityRule, ...] = ()

    @property
    def match(self) -> tuple[str, ...]:
        """What must be the same on both sides; a time of another source is another number."""
        return (*self.environment.match, "timing")

    def gate(self, metric: str) -> GateRule | None:
        """The rule of that metric, where it has one."""
        return next((rule for rule in self.gates if rule.metric.name == metric), None)

    def of_time(self, *, measured: bool) -> dict[str, GateRule]:
        """The rules of throughput and step time, as they hold for what was measured.

        Where throughput, or what follows from it, is gated and not `measured` on both sides, as of
        a script that tells no tokens, the step time stands in for it: they are one fact. Only a
        limit of its own that fails goes before that.
        """
        rules = {name: rule for name in (THROUGHPUT, STEP_TIME) if (rule := self.gate(name))}
        told = [gate for gate in self.gates if gate.metric.name in OF_TOKENS and gate.gate]
        step_time = rules.get(STEP_TIME)
        if measured or not told or step_time is None:
            return rules
        if not step_time.gate or step_time.fail is None:
            warn = min(gate.warn for gate in (*told, step_time) if gate.gate)
            fail = min((gate.fail for gate in told if gate.fail is not None), default=None)
            rules[STEP_TIME] = replace(step_time, gate=True, warn=warn, fail=fail)
        return rules


def rules_of(policy: Policy, case: str, *, in_pairs: bool = False) -> CaseRules:
    """The rules of a case; WrongUseError where the tables that meet in it contradict each other.

    Where the policy names no rules, they follow from how it was measured: `in_pairs`, or not.
    """
    rules = resolved(policy, case, in_pairs=in_pairs)
    for gate in rules.gates:
        if gate.contradiction:
            found, expected = gate.contradiction
            raise WrongUseError(
                f"the policy contradicts itself for the case {case}: metrics.{gate.metric.name} has"
                f" {found}, expected {expected}"
            )
    return rules


def resolved(policy: Policy, case: str, *, in_pairs: bool = False) -> CaseRules:
    """The rules of a case, even if they contradict each other."""
    overrides = [rule for rule in policy.case if rule.applies_to(case)]
    named: dict[str, MetricRule] = dict(policy.metrics)
    budgets = dict(policy.budgets)
    measure, environment, model = policy.measure, policy.environment, policy.model
    for override in overrides:
        measure = _over(measure, override.measure)
        environment = _over(environment, override.environment)
        model = _over(model, override.model)
        budgets |= override.budgets
        for name, metric in override.metrics.items():
            named[name] = _over(named.get(name, MetricRule()), metric)
    of_pairs = in_pairs and measure.design in (None, "interleaved")
    rules = policy.rules or ("training" if of_pairs else "reference")
    return CaseRules(
        rules,
        measure,
        environment,
        model,
        tuple(_gates(rules, named)),
        budgets,
        tuple(policy.parities_of(case)),
    )


def _over(under: T, over: T | None) -> T:
    """The table `under`, with the keys that `over` gives replaced."""
    if over is None:
        return under
    return under.but(**{key: getattr(over, key) for key in over.model_fields_set})


def _gates(rules: Rules, named: Mapping[str, MetricRule]) -> Iterator[GateRule]:
    for metric in METRICS:
        yield _gate(metric, rules, named.get(metric.name))
    for name, rule in named.items():
        if find_metric(name) is None:
            yield _gate(user_metric(name, rule.direction, rule.scale, rule.unit), rules, rule)


def _gate(metric: Metric, rules: Rules, rule: MetricRule | None) -> GateRule:
    default = metric.reference if rules == "reference" else metric.training
    suggested = default or metric.training or metric.suggested
    if rule is None:
        return GateRule(metric, default is not None, suggested.warn, suggested.fail)
    gate = rule.gate
    if gate is None:
        gate = default is not None or rule.warn is not None or rule.fail is not None
    if rule.scale is not None and (rule.scale == "relative") != _is_relative(metric.name):
        # Limits of the other scale mean nothing here.
        default, suggested = None, Limits(rule.warn or rule.fail or 0.0, rule.fail)
    warn, fail = _limits(rule, default, suggested)
    return GateRule(
        metric.turned(rule.direction, rule.scale, rule.exact), gate, warn, fail, named=True
    )


def _is_relative(name: str) -> bool:
    """Whether the limits in the metric's row are shares."""
    known = find_metric(name)
    return known is None or known.relative


def _limits(
    rule: MetricRule, default: Limits | None, suggested: Limits
) -> tuple[float, float | None]:
    """The limits of the rule; one that it leaves open follows from the other, or is the default."""
    if rule.warn is not None and rule.fail is not None:
        return rule.warn, rule.fail
    if rule.fail is not None:
        return min(suggested.warn, rule.fail), rule.fail
    if rule.warn is not None:
        # If these rules do not gate the metric, a `warn` alone asks only for a warning.
        return rule.warn, default.fail if default else None
    return suggested.warn, suggested.fail
