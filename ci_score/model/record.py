"""The record that a run leaves, which is the next run's baseline, and the values in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import comb
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from ci_score import __version__
from ci_score.model.counted_step import CountedStep
from ci_score.model.environment import Alone, Environment
from ci_score.model.explanation import (
    Contribution,
    Explanation,
    LayersAre,
    OpDetail,
    StepSpread,
    Timeline,
)
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, tokens_differ
from ci_score.model.profile import MOST_RANKS, HostGap, OpCalls, OpWork, RankWork
from ci_score.model.reasons import Reason, Why
from ci_score.model.scorecard import Parity, ParityProfile, Scorecard
from ci_score.model.step_code import StepCode
from ci_score.model.step_ops import REMEMBERED_OPS, BaseSide, OpKey, StepOps
from ci_score.model.values import (
    CaseName,
    Count,
    Lax,
    Milliseconds,
    NotNegative,
    PageAddress,
    Sha,
    ShortText,
    Timestamp,
    Value,
)
from ci_score.model.verdict import Acceptance, Change, Outcome, Unjudged, Verdict

DEFAULT_CASE = "training"
RECORD_FILE = "ci-score.json"

MOST_CASES = 256
MOST_LAUNCHES = 2_000
MOST_TRENDS = 1_000
MOST_BETWEEN = 20
MOST_ACCEPTANCES = 64
# Other processes may disturb one launch in eight; beyond that the machine is not the job's own.
OF_WHICH_ONE_SHARED = 8
# How unlikely a surplus of disturbed head launches must be to count as no chance.
LOPSIDED = 0.02
MOST_INPUTS = 64
# Of the history of each case.
KEPT_POINTS = 200
# Of ops, phases and the like a record is read with several times as many as are written.
MOST_NAMED = 256
_Few = Field(max_length=MOST_NAMED)
# GitHub lets a run be started fifty times.
MOST_ATTEMPTS = 100
# Both have pages of their own for a pull request.
Server = Literal["github", "gitea"]
_ATTEMPT = re.compile(r"(.+)~([1-9][0-9]{0,8})", re.ASCII | re.DOTALL)


def case_name(text: str) -> str:
    """A case's name, made of a folder's or an artifact's; hyphens replace what is not allowed."""
    return re.sub(r"[^A-Za-z0-9@._+-]+", "-", text).strip("-")[:64] or DEFAULT_CASE


def of_attempt(name: str) -> tuple[str, int]:
    """`llama~2` → llama and 2: which attempt of a run left it; 0 where that is not told."""
    found = _ATTEMPT.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)


def is_lopsided(head: int, base: int) -> bool:
    """Whether head's launches were disturbed more often than base's, beyond chance.

    A head could drop its slow launches by disturbing them; other processes hit both sides alike.
    """
    both = head + base
    as_often: int = sum(comb(both, count) for count in range(head, both + 1))
    return as_often / (1 << both) < LOPSIDED


class RunIdentity(Value):
    """Which run left a record. A re-run has the same number and a later attempt.

    The API finds a run's artifacts by its `id`.
    """

    number: Count
    attempt: Count = 1
    id: Count | None = None


class BaselineUsed(Value):
    """Where the baseline of a case came from; `commits_away` counts from the tested base.

    `changed_versions` lists versions that differ between the two sides, as `torch 2.8 → 2.9`.
    `of_session` says that it is the other side of the same measurements, and no record.
    """

    source: str
    of_session: bool = False
    commit: str | None = None
    run: RunIdentity | None = None
    created_at: str | None = None
    commits_away: Count | None = None
    skipped: Annotated[tuple[Reason, ...], Lax] = ()
    changed_versions: Annotated[tuple[str, ...], Lax] = ()


class LaunchNumbers(Value):
    """What one process launch measured: its mean step, and its other metrics.

    A void launch has no usable time, and no values. `shared` says that others disturbed it.
    `resolution_ms` is the tick of its timer, and `looks` are the numbers of pairs after which its
    session planned to look.
    """

    side: Literal["head", "base"] = "head"
    launch: Count = 0
    void: bool = False
    shared: bool = False
    resolution_ms: Milliseconds = 0.0
    looks: Annotated[tuple[Count, ...], Lax, Field(max_length=16)] = ()
    values: Annotated[dict[ShortText, float], Field(max_length=64)]
    # A script's own loss is meant to be compared; what the hook finds may differ in every launch.
    loss_from: Literal["hook"] | None = None
    warmup_steps: Count | None = None
    timed_steps: Count | None = None
    step: CountedStep | None = None


class Measured(Value):
    """A case with its numbers and what can explain them, before any comparison."""

    name: CaseName
    environment: Environment = Environment()
    unmeasured: Reason | None = None
    crashed: bool = False
    scorecard: Scorecard
    metrics: Annotated[dict[ShortText, float], _Few] = {}
    launches: Annotated[tuple[LaunchNumbers, ...], Lax, Field(max_length=MOST_LAUNCHES)] = ()
    # Whether the two sides ran in turns, if their order is known.
    took_turns: bool | None = None
    measurement: ShortText | None = None
    earlier_measurements: Annotated[
        tuple[ShortText, ...], Lax, Field(max_length=MOST_ATTEMPTS)
    ] = ()
    tokens_per_step: NotNegative | None = None
    # What nobody measured: tokens that were guessed, and a throughput that came with an input.
    tokens_inferred: bool = False
    throughput_given: bool = False
    phases: Annotated[dict[str, Milliseconds], _Few] = {}
    step_ops: StepOps = StepOps()
    categories: Annotated[dict[ShortText, OpWork], _Few] = {}
    timeline: Timeline | None = None
    # What a cause needs beside these: how alike the steps are, compute by tenths of the step's
    # kernels, idle time by the host's ranges, and what the layers are.
    step_spread: StepSpread | None = None
    compute_tenths_ms: Annotated[tuple[Milliseconds, ...], Lax, Field(max_length=10)] = ()
    idle_ranges: Annotated[dict[str, Milliseconds], _Few] = {}
    # Of a step without a device what the program calls, and the time between two operators.
    op_calls: Annotated[dict[str, OpCalls], _Few] = {}
    host_gaps: Annotated[tuple[HostGap, ...], Lax, Field(max_length=64)] = ()
    layers_are: LayersAre = LayersAre()
    code: StepCode | None = None
    # Bytes in use at the peak by the operator that allocated them.
    peak_ops: Annotated[dict[str, Count], _Few] = {}
    advice: Annotated[tuple[Reason, ...], Lax] = ()
    ranks: Annotated[tuple[RankWork, ...], Lax, Field(max_length=MOST_RANKS)] = ()
    parity: Parity | None = None
    partner: ParityProfile | None = None

    @property
    def ops(self) -> dict[str, float]:
        """Milliseconds of each op, the largest first."""
        return self.step_ops.times

    @property
    def op_details(self) -> Mapping[str, OpDetail]:
        """What is known about an op beside its time."""
        return self.step_ops.details

    @property
    def has_a_time(self) -> bool:
        """Whether there is a step time or a throughput to compare."""
        card = self.scorecard
        return self.unmeasured is None and (card.step_time_ms > 0 or card.throughput_tok_s > 0)

    @property
    def told_tokens(self) -> float | None:
        """The tokens of a step, where somebody tells them; a guess neither gates nor excuses."""
        return None if self.tokens_inferred else self.tokens_per_step

    @property
    def measures_throughput(self) -> bool:
        """Whether its throughput is a measurement: of told tokens, and given by no input."""
        return not (self.tokens_inferred or self.throughput_given)

    @property
    def has_both_sides(self) -> bool:
        """Whether launches of head and of base were measured side by side."""
        return len({launch.side for launch in self.launches}) > 1

    @property
    def alone(self) -> Alone | None:
        """Why a session measured no base; beside pairs the mark means nothing."""
        return None if self.has_both_sides else self.environment.alone

    def numbers_of(self, side: str, metric: str) -> list[float]:
        """What the launches of a side measured of a metric."""
        return [
            one.values[metric] for one in self.launches if one.side == side and metric in one.values
        ]

    @property
    def uneven_tokens(self) -> Reason | None:
        """That launches of one side trained on other amounts: then no step is like the others.

        A launch keeps one device's throughput, and the tokens are those of the whole job's step.
        """
        devices = self.scorecard.accelerator_count or 1
        for side in ("head", "base"):
            own = [one.values for one in self.launches if one.side == side]
            sizes = [
                values[THROUGHPUT] * values[STEP_TIME] / 1000.0 * devices
                for values in own
                if THROUGHPUT in values and STEP_TIME in values
            ]
            if sizes and tokens_differ(max(sizes), min(sizes)):
                return Why.UNEVEN_TOKENS(side=side, least=min(sizes), most=max(sizes))
        return None

    def pairs(self) -> list[tuple[LaunchNumbers, LaunchNumbers]]:
        """Head and base of each pair, void ones too.

        If a pair's number occurs again, it comes from another session, whose pairs count as well.
        """
        head, base = self._by_number("head"), self._by_number("base")
        return [
            pair
            for number in sorted(head.keys() & base.keys())
            for pair in zip(head[number], base[number], strict=False)
        ]

    @property
    def without_partner(self) -> int:
        """How many launches of a session have no other side, as if that had measured nothing."""
        return len(self.launches) - 2 * len(self.pairs()) if self.has_both_sides else 0

    def _by_number(self, side: str) -> dict[int, list[LaunchNumbers]]:
        by_number: dict[int, list[LaunchNumbers]] = {}
        for launch in self.launches:
            if launch.side == side:
                by_number.setdefault(launch.launch, []).append(launch)
        return by_number


class Judged(Measured):
    """A measured case with its baseline, what changed, and the verdict.

    The record holds this type, so the next run reads back every field. `base` is what the step of
    the baseline is made of.
    """

    baseline: BaselineUsed | None = None
    base: BaseSide | None = None
    changes: Annotated[tuple[Change, ...], Lax] = ()
    contributions: Annotated[tuple[Contribution, ...], Lax] = ()
    explanation: Explanation | None = None
    verdict: Verdict | None = None

    @classmethod
    def of(
        cls,
        measured: Measured,
        *,
        baseline: BaselineUsed | None = None,
        base: BaseSide | None = None,
        changes: tuple[Change, ...] = (),
        contributions: tuple[Contribution, ...] = (),
        explanation: Explanation | None = None,
        verdict: Verdict | None = None,
    ) -> Judged:
        """The measured case with what was found of it; without, it is only described."""
        own = {name: getattr(measured, name) for name in Measured.model_fields}
        return cls(
            **own,
            baseline=baseline,
            base=base,
            changes=changes,
            contributions=contributions,
            explanation=explanation,
            verdict=verdict,
        )


class HistoryPoint(Value):
    """What a run of the default branch measured of a case."""

    case: CaseName
    commit: Sha | None = None
    run: RunIdentity | None = None
    created_at: Timestamp
    step_time_ms: Milliseconds
    throughput_tok_s: NotNegative
    metrics: dict[ShortText, float] = {}
    environment: Environment = Environment()
    tokens_per_step: NotNegative | None = None
    outcome: Annotated[Outcome | None, Lax] = None
    # The interval of the change of its step's time, as shares; an end that does not exist is None.
    low: float | None = None
    high: float | None = None
    # What somebody accepted of it.
    accepted: Annotated[tuple[Acceptance, ...], Lax, Field(max_length=MOST_ACCEPTANCES)] = ()
    # Milliseconds of its largest ops, by digests of their names.
    ops: Annotated[dict[OpKey, Milliseconds], Field(max_length=REMEMBERED_OPS)] = {}

    def number(self, metric: str) -> float | None:
        """The metric's number; a time of 0 means that it was not measured."""
        own = {"step_time_ms": self.step_time_ms, "throughput_tok_s": self.throughput_tok_s}
        return (own[metric] or None) if metric in own else self.metrics.get(metric)


class MetricFacts(Value):
    """How the numbers of a metric are read: its label, its unit, and which direction is better.

    `relative` says that its change is a share, and no difference.
    """

    label: ShortText
    unit: ShortText = ""
    higher_is_better: bool = False
    relative: bool = True


class Trend(Value):
    """A lasting change of the tracked branch's level. It is shown, and never decides a verdict.

    A shift happened after `last_before`, the last commit surely on the old level, and up to
    `first_after`, the first surely on the new one. `between` has the commits of the history between
    those two that were not measured, or that the noise cannot assign. A drift took more than ten
    runs: from `last_before` up to `first_after`, or it still goes on there. `created_at` and `run`
    are those of `first_after`. `delta` is relative if the metric is; `worse` says whether it got
    worse. `runs_before` and `runs_after` are the runs whose medians `before` and `after` are.
    """

    case: CaseName
    metric: ShortText
    kind: Literal["shift", "drift"]
    before: float
    after: float
    delta: float
    worse: bool
    last_before: Sha | None = None
    first_after: Sha | None = None
    between: Annotated[tuple[Sha, ...], Lax, Field(max_length=MOST_BETWEEN)] = ()
    created_at: Timestamp
    run: RunIdentity | None = None
    runs_before: Count = 0
    runs_after: Count = 0


class Record(Value):
    """What a run leaves behind; it is the next run's baseline."""

    schema_version: Literal[4] = 4
    ci_score_version: str
    created_at: Timestamp
    commit: Sha | None = None
    run: RunIdentity | None = None
    # The id of the job that judged, as its workflow names it.
    job: ShortText | None = None
    # The repository's own address, such as https://github.com/octo/train, and what kind of server
    # that is. The pull request, and its own newest commit where `commit` is its test merge.
    repository: PageAddress | None = None
    server: Server = "github"
    pull: Count | None = None
    pull_head: Sha | None = None
    # Where its page was uploaded to.
    page: PageAddress | None = None
    # Those that were not as they come; None of a run that does not say.
    inputs: Annotated[dict[ShortText, ShortText], Field(max_length=MOST_INPUTS)] | None = None
    # Those that the policy names; without a name they follow from how each case was measured.
    rules: Literal["reference", "training"] | None = None
    enforce: Literal["shadow"] | None = None
    policy: dict[str, JsonValue] | None = None
    cases: Annotated[tuple[Judged, ...], Lax, Field(max_length=MOST_CASES)]
    unjudged: Verdict | None = None
    notices: Annotated[tuple[Reason, ...], Lax] = ()
    acceptances: Annotated[tuple[Acceptance, ...], Lax, Field(max_length=MOST_ACCEPTANCES)] = ()
    history: Annotated[tuple[HistoryPoint, ...], Lax, Field(fail_fast=True)] = ()
    # Of each metric that the history holds, by the policy in force.
    metrics: Annotated[dict[ShortText, MetricFacts], _Few] = {}
    trends: Annotated[tuple[Trend, ...], Lax, Field(max_length=MOST_TRENDS)] = ()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Record:
        names = [case.name for case in self.cases]
        if len(set(names)) != len(names):
            raise ValueError("each case once, and not two of one name")
        return self

    @classmethod
    def describing(cls, cases: Iterable[Measured]) -> Record:
        """A record of these cases, with the verdicts that they have, and without a run."""
        judged = [case if isinstance(case, Judged) else Judged.of(case) for case in cases]
        return cls(ci_score_version=__version__, created_at="", cases=judged)

    def case(self, name: str) -> Judged | None:
        """The case of that name."""
        return next((case for case in self.cases if case.name == name), None)

    def rules_of(self, case: Measured) -> str:
        """The rules that judge a case: the policy's, or else those for how it was measured."""
        return self.rules or ("training" if case.has_both_sides else "reference")

    def made(self, point: HistoryPoint) -> bool:
        """Whether the point is of this run: on the branch itself, the history ends with it."""
        return point.run == self.run and point.commit == self.commit

    @property
    def was_cancelled(self) -> bool:
        """Whether its measurement was cancelled, so that it tells nothing."""
        return self.unjudged is not None and self.unjudged.unjudged is Unjudged.CANCELLED

    @property
    def needs_nothing(self) -> bool:
        """Whether nothing had to be measured."""
        return self.unjudged is not None and self.unjudged.unjudged is Unjudged.NOT_NEEDED

    @property
    def verdicts(self) -> list[Verdict]:
        """Every verdict of the report: those of its cases, and the report's own if there is one."""
        own = [self.unjudged] if self.unjudged else []
        return own + [case.verdict for case in self.cases if case.verdict]

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of all verdicts; inconclusive without any, as nothing was measured."""
        outcomes = [verdict.outcome for verdict in self.verdicts]
        return Outcome.worst(outcomes) if outcomes else Outcome.INCONCLUSIVE
