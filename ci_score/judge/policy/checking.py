"""What can be wrong with a policy, each mistake with its place and what is allowed there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ci_score.errors import BadInputError
from ci_score.files.strict_json import bad_fields, json_path
from ci_score.judge.policy.resolving import GateRule, resolved
from ci_score.judge.policy.tables import (
    CaseRule,
    EnvironmentRules,
    Measure,
    MetricRule,
    ParityRule,
    Policy,
)
from ci_score.model.lists import did_you_mean
from ci_score.model.metrics import METRICS, find_metric
from ci_score.model.trained_model import Model, Table
from ci_score.model.verdict import Unjudged

Place = tuple[int | str, ...]

# A glob that a case's name can match at all.
_GLOB = re.compile(r"(?:[A-Za-z0-9@._+*?-]|\[!?[A-Za-z0-9@._+-]+\])+")
_WILD = re.compile(r"[*?\[]")
_TABLES: Mapping[str, type[Table]] = {
    "measure": Measure,
    "environment": EnvironmentRules,
    "model": Model,
    "metrics": MetricRule,
    "case": CaseRule,
    "parity": ParityRule,
}


Mistake = tuple[Place, str, str]


def mistakes_in(table: Mapping[str, Any], source: str) -> list[BadInputError]:
    """All that is wrong with the form of a policy's table; of one in order, all that it means."""
    found = list(_wrong_form(table))
    if not found:
        policy = Policy.model_validate(table)
        found = [*_wrong_meaning(policy), *_wrong_limits(policy)]
    return [
        BadInputError(source, field=json_path(place), found=what, expected=wanted)
        for place, what, wanted in found
    ]


def _wrong_form(table: Mapping[str, Any]) -> Iterator[Mistake]:
    """Keys that do not exist, and values that cannot stand there."""
    try:
        Policy.model_validate(table)
    except ValidationError as error:
        shown = bad_fields(error, "")
        # Of very many mistakes only the first is told.
        for detail, mistake in zip(error.errors(include_url=False), shown, strict=False):
            if detail["type"] == "extra_forbidden":
                yield _unknown_key(detail["loc"])
            else:
                yield detail["loc"], mistake.found, mistake.expected


def _wrong_meaning(policy: Policy) -> Iterator[Mistake]:
    """What cannot be meant, in the order of the tables."""
    yield from _reasons(policy)
    yield from _looks(policy)
    yield from _metrics(policy)
    yield from _models(policy)
    yield from _cases(policy)
    yield from _parities(policy)


def _one_of(known: Iterable[str], wrong: str) -> str:
    """The allowed values, with the one that looks most like what was written."""
    names = list(known)
    return f"one of {', '.join(names)}{did_you_mean(wrong, names)}"


def _unknown_key(place: Place) -> Mistake:
    *where, key = place
    return place, "a key that does not exist", _one_of(_keys_at(where), str(key))


def _keys_at(place: Iterable[int | str]) -> list[str]:
    """The keys that a table at that place of the file may have."""
    table: type[Table] = Policy
    steps = iter(place)
    for step in steps:
        if isinstance(step, str):
            table = _TABLES[step]
            if table is MetricRule:
                next(steps)  # the metric's own name
    return [field.alias or name for name, field in table.model_fields.items()]


def _reasons(policy: Policy) -> Iterator[Mistake]:
    known = [reason.value for reason in Unjudged]
    for key in policy.unjudged:
        if key not in known:
            yield ("unjudged", key), "a reason that does not exist", _one_of(known, key)


def _looks(policy: Policy) -> Iterator[Mistake]:
    for place, table in _places(policy):
        looks = table.measure.looks if table.measure else None
        if looks is not None and (not looks or list(looks) != sorted(set(looks))):
            yield (*place, "measure", "looks"), f"{list(looks)}", "rising numbers, such as [6, 12]"


# --- metrics ------------------------------------------------------------------------------------


def _places(policy: Policy) -> list[tuple[Place, Policy | CaseRule]]:
    return [((), policy), *((("case", number), rule) for number, rule in enumerate(policy.case))]


def _metrics(policy: Policy) -> Iterator[Mistake]:
    """Mistakes in metrics: one of the user's own needs a direction; a known one has its own."""
    for place, table in _places(policy):
        for name, rule in table.metrics.items():
            where = (*place, "metrics", name)
            yield from _known_metric(where, name, rule)
            yield from _described_differently(where, policy.metrics.get(name), rule)
            if find_metric(name) is None and not _direction(policy, table, name):
                yield where, "a metric that ci-score does not know, without a direction", _own(name)
        for name in table.budgets:
            if find_metric(name) is None and not _direction(policy, table, name):
                yield (*place, "budgets", name), "a metric that ci-score does not know", _own(name)


def _direction(policy: Policy, table: Policy | CaseRule, name: str) -> str | None:
    """The direction in the general part or in the table itself, and in no other case's table."""
    rules = (policy.metrics.get(name), table.metrics.get(name))
    return next((rule.direction for rule in rules if rule and rule.direction), None)


def _own(name: str) -> str:
    known = _one_of((metric.name for metric in METRICS), name)
    return f'{known}; or [metrics.{name}] with `direction = "lower"` for one of your own'


def _known_metric(place: Place, name: str, rule: MetricRule) -> Iterator[Mistake]:
    metric = find_metric(name)
    if metric is None:
        return
    better = "higher" if metric.higher_is_better else "lower"
    if rule.direction not in (None, better):
        yield (
            (*place, "direction"),
            f'"{rule.direction}"',
            f"{better}, which is better for {metric.label.lower()}",
        )
    if rule.unit is not None:
        yield (*place, "unit"), f'"{rule.unit}"', "a unit only for a metric of your own"
    other = rule.scale not in (None, "relative" if metric.relative else "absolute")
    if other and rule.warn is None and rule.fail is None:
        yield (*place, "scale"), f'"{rule.scale}"', "`warn` or `fail` on that scale beside it"


def _described_differently(
    place: Place, general: MetricRule | None, rule: MetricRule
) -> Iterator[Mistake]:
    """Mistakes where a case describes a metric differently than the general part."""
    for key in ("direction", "scale", "exact", "unit"):
        there, here = getattr(general, key, None), getattr(rule, key)
        if None not in (there, here) and there != here:
            yield (*place, key), repr(here), f"{there!r}, as [metrics] says"


def _wrong_limits(policy: Policy) -> Iterator[Mistake]:
    """Limits that contradict each other, with defaults and the cases' overrides applied."""
    general = policy.but(case=())
    said = set()
    for gate in _contradicting(general, ""):
        said.add((gate.metric.name, gate.contradiction))
        yield ("metrics", gate.metric.name), *_words(gate)
    for number, table in enumerate(policy.case):
        alone = general.but(case=(table,))
        # For a case that is named in full, we know which other tables apply to it, too.
        whole = [name for name in table.match if not _WILD.search(name)]
        rows = [*_contradicting(alone, table.match[0])]
        rows += [gate for name in whole for gate in _contradicting(policy, name)]
        for gate in rows:
            if (gate.metric.name, gate.contradiction) not in said:
                said.add((gate.metric.name, gate.contradiction))
                yield ("case", number, "metrics", gate.metric.name), *_words(gate)


def _contradicting(policy: Policy, case: str) -> list[GateRule]:
    """Of pairs and of one run per side, whose rules differ where the policy names none."""
    found = {
        gate.metric.name: gate
        for in_pairs in (True, False)
        for gate in resolved(policy, case, in_pairs=in_pairs).gates
        if gate.contradiction
    }
    return list(found.values())


def _words(gate: GateRule) -> tuple[str, str]:
    return gate.contradiction or ("", "")


# --- the other tables ---------------------------------------------------------------------------


def _models(policy: Policy) -> Iterator[Mistake]:
    for place, table in _places(policy):
        model = table.model
        if model is None:
            continue
        active, known = model.active_parameters, model.parameters
        if active is not None and known is not None and active > known:
            yield (
                (*place, "model", "active_parameters"),
                f"{active:g}, more than there are",
                f"at most parameters = {known:g}",
            )
        shape = {key: getattr(model, key) for key in ("layers", "hidden", "sequence")}
        lacking = [key for key, value in shape.items() if value is None]
        if 0 < len(lacking) < len(shape) and not place:
            yield (
                ("model",),
                f"no {' and no '.join(lacking)}",
                "layers, hidden and sequence together, for the work of attention",
            )


def _cases(policy: Policy) -> Iterator[Mistake]:
    seen: dict[frozenset[str], int] = {}
    for number, rule in enumerate(policy.case):
        place: Place = ("case", number)
        yield from _globs((*place, "match"), rule.match)
        first = seen.setdefault(frozenset(rule.match), number)
        if first != number:
            yield (
                (*place, "match"),
                f"the same cases as case[{first}]",
                "one table for the same cases",
            )
        if rule.model_fields_set <= {"match"}:
            yield place, "nothing but `match`", "what holds for these cases, such as `required`"
        for key in ("false_fail", "tests"):
            if rule.measure and key in rule.measure.model_fields_set:
                yield (
                    (*place, "measure", key),
                    "what a whole report shares, for some cases",
                    f"`{key}` in [measure]",
                )


def _globs(place: Place, globs: Iterable[str]) -> Iterator[Mistake]:
    for glob in globs:
        if not _GLOB.fullmatch(glob):
            yield (
                place,
                f"{glob!a}, which no case's name can match",
                "letters, digits, @ . _ + -, and the wildcards * ? [abc] [!abc]",
            )


def _parities(policy: Policy) -> Iterator[Mistake]:
    seen: dict[tuple[frozenset[str], str | None], int] = {}
    for number, rule in enumerate(policy.parity):
        place: Place = ("parity", number)
        yield from _globs((*place, "match"), rule.match)
        yield from _partner((*place, "partner"), rule)
        first = seen.setdefault((frozenset(rule.match), rule.partner), number)
        if first != number:
            yield place, f"the same cases and partner as parity[{first}]", "one table for them"
        if not (rule.require_same or rule.ms_per_1k_tokens or rule.compares_ops):
            yield (
                place,
                "a parity that demands nothing",
                "ms_per_1k_tokens, op_ratio, reference_parity, require_same or min_coverage",
            )
        if "min_share" in rule.model_fields_set and rule.op_ratio is None:
            yield (*place, "min_share"), "a share without `op_ratio`", "`op_ratio` beside it"


def _partner(place: Place, rule: ParityRule) -> Iterator[Mistake]:
    if rule.partner is None:
        return
    if not _GLOB.fullmatch(rule.partner) or re.search(r"[?\[]|\*.*\*", rule.partner):
        yield (
            place,
            f"{rule.partner!a}, which names no case",
            "a case's name, with at most one * in it",
        )
    elif "*" in rule.partner:
        if not all(re.fullmatch(r"[^*?\[]*\*[^*?\[]*", glob) for glob in rule.match):
            yield place, "a * that stands for nothing", "exactly one * in each glob of `match` too"
    elif rule.match == (rule.partner,):
        yield place, "the case itself", "another case of the report"
