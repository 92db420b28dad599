"""The tables of a policy file, as they are written. Each key's description says what it means."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field
from pydantic.config import JsonDict

from ci_score.model.trained_model import Model, Table
from ci_score.model.values import Lax
from ci_score.model.verdict import Unjudged

Rules = Literal["reference", "training"]
Design = Literal["interleaved", "history", "single"]
Fate = Literal["pass", "fail"]
Direction = Literal["higher", "lower"]
Scale = Literal["relative", "absolute"]
MatchKey = Literal["accelerator", "accelerator_count", "precision"]
RejectKey = Literal["throttled", "shared", "crashed", "nan"]
WorkKey = Literal["tokens_per_step", "valid_steps", "final_loss"]
SameKey = Literal["tokens_per_step", "precision", "accelerator_count"]

NotNegative = Annotated[float, Field(ge=0)]
CasePattern = Annotated[str, Field(min_length=1, max_length=64)]
MetricName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]

# In a JSON schema a pattern for keys does not by itself refuse other keys; this does.
_NO_OTHER: JsonDict = {"additionalProperties": False}


def _one_or_several(value: Any) -> Any:
    """A single glob needs no list."""
    return (value,) if isinstance(value, str) else value


CasePatterns = Annotated[
    tuple[CasePattern, ...],
    Lax,
    Field(min_length=1),
    BeforeValidator(
        _one_or_several,
        json_schema_input_type=CasePattern
        | Annotated[tuple[CasePattern, ...], Field(min_length=1)],
    ),
]


class Measure(Table):
    """How the numbers are measured, and how sure a failure must be."""

    design: Annotated[
        Design | None,
        Field(
            description="`interleaved`: launches of head and base in turns, or it is not judged;"
            " `history`: one side, against the branch's runs; `single`: one number per side, which"
            " proves nothing. Without this key the best available evidence decides."
        ),
    ] = None
    false_fail: Annotated[
        float,
        Field(
            gt=0,
            le=0.1,
            description="The chance that a whole report fails although nothing became slower,"
            " shared by all its gates and cases.",
        ),
    ] = 0.005
    looks: Annotated[
        tuple[Annotated[int, Field(ge=6, le=64)], ...] | None,
        Lax,
        # `ab` may add a look that can prove something, and a line has 16 of them at most.
        Field(
            max_length=15,
            description="After how many pairs `ci-score ab` looks whether it is clear: rising"
            " numbers. Without this key 6, 9 and 12, or 8, 12 and 24 where the limit is at most"
            " 3 %.",
        ),
    ] = None
    tests: Annotated[
        int,
        Field(
            ge=1,
            le=256,
            description="How many tests share `false_fail`, such as the jobs of a matrix.",
        ),
    ] = 1
    warmup_steps: Annotated[
        int | None,
        Field(
            ge=0,
            description="Steps at the start of a launch that do not count. Beside a launch that"
            " leaves out more nothing passes.",
        ),
    ] = None
    timed_steps: Annotated[
        int | None,
        Field(ge=1, description="Beside a launch with fewer timed steps nothing passes."),
    ] = None
    qualified: Annotated[
        bool,
        Field(
            description="Whether noisy metrics, such as times, pass only on a machine that has"
            " passed `ci-score qualify`, as the branch's record says; counts, budgets and parities"
            " are judged on any."
        ),
    ] = False


class EnvironmentRules(Table):
    """Which differences make two runs incomparable, and which events a run worthless."""

    match: Annotated[
        tuple[MatchKey, ...],
        Lax,
        Field(
            description="What must be the same on both sides. What timed it (a profiler, a"
            " trainer's log, a measurement) must always be the same."
        ),
    ] = get_args(MatchKey)
    reject: Annotated[
        tuple[RejectKey, ...],
        Lax,
        Field(
            description="What makes a measurement worthless. A single launch with lower clocks"
            " (`throttled`) counts as it is."
        ),
    ] = get_args(RejectKey)
    same_work: Annotated[
        tuple[WorkKey, ...],
        Lax,
        Field(
            description="What shows that both sides did the same work. With fewer valid steps,"
            " another loss or another number of tokens nothing passes."
        ),
    ] = get_args(WorkKey)
    loss_tolerance: Annotated[
        float, Field(gt=0, description="How far the final losses may lie apart, as a share.")
    ] = 0.05


class MetricRule(Table):
    """What the file says about a metric; the rest stays as in the metric's row."""

    gate: Annotated[
        bool | None,
        Field(
            description="Whether it is judged; a metric with a limit of yours is. Only a `fail`"
            " limit fails the check."
        ),
    ] = None
    warn: Annotated[
        float | None,
        Field(
            ge=0, description="Worse by more than this warns: 0.03 is 3 %, or units if absolute."
        ),
    ] = None
    fail: Annotated[
        float | None, Field(ge=0, description="Worse by more than this fails, if it is proven.")
    ] = None
    direction: Annotated[
        Direction | None,
        Field(description="Which way is better; a metric of your own needs it."),
    ] = None
    scale: Annotated[
        Scale | None, Field(description="Whether the limits are shares of the base, or units.")
    ] = None
    exact: Annotated[
        bool | None,
        Field(
            description="Whether it is a count that two runs of one program agree on: then one"
            " number per side is proof."
        ),
    ] = None
    unit: Annotated[
        str | None,
        Field(max_length=16, description="Printed behind the numbers of a metric of your own."),
    ] = None


class CaseRule(Table):
    """Overrides for the cases whose name matches; later ones win."""

    match: Annotated[
        CasePatterns,
        Field(description="The cases that the table is about, as one glob or several."),
    ]
    required: Annotated[
        bool, Field(description="Whether a report without such a case is *not judged*.")
    ] = False
    measure: Annotated[
        Measure | None, Field(description="As `[measure]`, without `false_fail` and `tests`.")
    ] = None
    environment: Annotated[EnvironmentRules | None, Field(description="As `[environment]`.")] = None
    model: Annotated[Model | None, Field(description="As `[model]`.")] = None
    metrics: Annotated[
        dict[MetricName, MetricRule],
        Field(description="As `[metrics.NAME]`.", json_schema_extra=_NO_OTHER),
    ] = {}
    budgets: Annotated[
        dict[MetricName, NotNegative],
        Field(description="As `[budgets]`.", json_schema_extra=_NO_OTHER),
    ] = {}

    def applies_to(self, case: str) -> bool:
        """Whether one of the globs matches."""
        return any_matches(self.match, case)


class ParityRule(Table):
    """What two runtimes, or two machines, must have in common for a case."""

    match: Annotated[CasePatterns, Field(description="The cases that the table is about.")] = ("*",)
    partner: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=64,
            description="Another case of the report; a `*` stands for the same text as the `*` in"
            " `match`. Without this key it is the file that the input `parity` names.",
        ),
    ] = None
    require_same: Annotated[
        tuple[SameKey, ...],
        Lax,
        Field(description="What both sides must share for the comparison to mean anything."),
    ] = ()
    ms_per_1k_tokens: Annotated[
        float | None,
        Field(
            gt=0,
            description="How many times the partner's time per 1,000 tokens is the most allowed.",
        ),
    ] = None
    op_ratio: Annotated[
        float | None,
        Field(
            gt=0,
            description="How many times the partner's time of the same op is the most allowed.",
        ),
    ] = None
    min_share: Annotated[
        float,
        Field(
            gt=0,
            lt=1,
            description="`op_ratio` applies to ops with at least this share of either side's time.",
        ),
    ] = 0.05
    min_coverage: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="The compared ops must cover at least this share of each side's time.",
        ),
    ] = 0.5
    reference_parity: Annotated[
        bool,
        Field(
            description="Whether an op that takes over 1.10 times the partner's time breaks the"
            " parity."
        ),
    ] = False
    gate: Annotated[
        bool, Field(description="Whether it can fail the check; otherwise it warns at most.")
    ] = True

    def applies_to(self, case: str) -> bool:
        """Whether one of the globs matches."""
        return any_matches(self.match, case)

    @property
    def compares_ops(self) -> bool:
        """Whether the rule asks about ops; then some of them have to be compared."""
        asked = self.op_ratio is not None or self.reference_parity
        return asked or "min_coverage" in self.model_fields_set

    def partner_of(self, case: str) -> str | None:
        """The case that this one is compared with; None for the partner's file."""
        if self.partner is None or "*" not in self.partner:
            return self.partner
        middle = next(
            (found for glob in self.match if (found := _behind_the_star(glob, case)) is not None),
            "",
        )
        return self.partner.replace("*", middle)


class Policy(Table):
    """What is judged and how. Without a file `training` judges pairs, and `reference` the rest."""

    schema_: Annotated[
        int, Field(alias="schema", ge=1, le=1, description="The version of this format.")
    ] = 1
    rules: Annotated[
        Rules | None,
        Field(
            description="`training`: gates throughput per device and exact counts, and fails only"
            " what is proven; `reference`: the reference model's fixed limits. Without this key"
            " `training` judges pairs, and `reference` one run per side."
        ),
    ] = None
    enforce: Annotated[
        Literal["shadow"] | None,
        Field(
            description="`shadow`: every report says how the check would have ended; it exits 0."
        ),
    ] = None
    measure: Annotated[
        Measure, Field(description="How the numbers are measured, and how sure a failure must be.")
    ] = Measure()
    environment: Annotated[
        EnvironmentRules,
        Field(description="Which runs can be compared, and which measurements are worthless."),
    ] = EnvironmentRules()
    unjudged: Annotated[
        dict[str, Fate],
        Field(
            description="`pass` or `fail` for each reason why there is no judgement.",
            json_schema_extra={"propertyNames": {"enum": [one.value for one in Unjudged]}},
        ),
    ] = {}
    model: Annotated[Model, Field(description="What is trained.")] = Model()
    metrics: Annotated[
        dict[MetricName, MetricRule],
        Field(description="A table for each metric.", json_schema_extra=_NO_OTHER),
    ] = {}
    budgets: Annotated[
        dict[MetricName, NotNegative],
        Field(
            description="The most that a metric may reach, or the least where more is better; needs"
            " no baseline.",
            json_schema_extra=_NO_OTHER,
        ),
    ] = {}
    case: Annotated[
        tuple[CaseRule, ...], Lax, Field(description="Overrides for some cases, in order.")
    ] = ()
    parity: Annotated[
        tuple[ParityRule, ...],
        Lax,
        Field(
            description="What cases must share with a partner; every table that matches applies."
        ),
    ] = ()

    @property
    def named_metrics(self) -> tuple[str, ...]:
        """Every metric with a table, also those for some cases alone: one comparison serves all."""
        tables = (self.metrics, *(rule.metrics for rule in self.case))
        return tuple(name for metrics in tables for name in metrics)

    def required_among(self, names: Iterable[str]) -> list[str]:
        """The patterns of cases that must be there and that match none of the names.

        A parity that gates needs its case. Without it nothing would be compared, and that would
        count as a pass.
        """
        known = list(names)
        demanding: list[CaseRule | ParityRule] = [
            *(rule for rule in self.case if rule.required),
            *(rule for rule in self.parity if rule.gate),
        ]
        lost = [
            " or ".join(rule.match)
            for rule in demanding
            if not any(rule.applies_to(name) for name in known)
        ]
        return list(dict.fromkeys(lost))

    def parities_of(self, case: str) -> list[ParityRule]:
        """The parity rules for the case, without those that make it its own partner."""
        return [
            rule for rule in self.parity if rule.applies_to(case) and rule.partner_of(case) != case
        ]


def any_matches(globs: Iterable[str], case: str) -> bool:
    """Whether a case's name, or a glob as it stands, is covered by one of the globs."""
    return any(case == glob or fnmatchcase(case, glob) for glob in globs)


def _behind_the_star(glob: str, case: str) -> str | None:
    """What the only `*` of a glob stands for in a case's name; None where it does not match."""
    before, _, after = glob.partition("*")
    fits = case.startswith(before) and case.endswith(after)
    if not fits or len(case) < len(before) + len(after):
        return None
    return case[len(before) : len(case) - len(after)]
