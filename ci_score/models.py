"""The values that travel through a run. All are frozen, strict, and finite.

The names and shapes of Profile, Scorecard, ParityProfile and Parity are the reference model's;
fields that are ours say so. Strict means: `"3"`, `1.5` for a count, `true` and `null` are refused,
a missing field takes its default, an unknown field is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    StringConstraints,
    computed_field,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from ci_score.sums import plain_sum

STRICT = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

MOST_CASES = 256
MOST_LAUNCHES = 2_000
MOST_TRENDS = 1_000
MOST_BETWEEN = 20
MOST_ACCEPTANCES = 64

Count = Annotated[int, Field(ge=0, lt=2**64)]
Milliseconds = Annotated[float, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0)]
DeviceCount = Annotated[int, Field(ge=1, le=10**6)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
# Sorted as text and part of a file's name, so it has exactly one form.
Timestamp = Annotated[str, StringConstraints(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$")]
CaseName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9@._+-]{1,64}$")]

# JSON knows lists and texts, Python code has tuples and enums: such a field takes either, and what
# is inside it stays strict.
Lax = Strict(False)


class Value(BaseModel):
    """What every value has in common."""

    model_config = STRICT


# --- what a profiler measured -------------------------------------------------------------------


class Phase(Value):
    """A named part of the step."""

    total_ms: Milliseconds
    pct: NotNegative
    avg_ms: Milliseconds


class Layer(Value):
    """One layer of the network, with the time of its ops."""

    layer: Count
    fwd_ms: Milliseconds
    bwd_ms: Milliseconds
    ops: dict[str, Milliseconds] = {}


def op_totals(layers: Iterable[Layer]) -> dict[str, float]:
    """Milliseconds of each op over all layers."""
    totals: dict[str, float] = {}
    for layer in layers:
        for op, ms in layer.ops.items():
            totals[op] = totals.get(op, 0.0) + ms
    return totals


class OpWork(Value):
    """How often an op runs in a step, where that was counted, and how long all of that takes."""

    count: NotNegative | None = None
    ms: Milliseconds


MOST_RANKS = 256


class RankWork(Value):
    """One rank's part in a step of a job: in synchronous training most of the rest is waiting."""

    rank: Count
    step_ms: Milliseconds
    own_ms: Milliseconds | None = None
    exposed_communication_ms: Milliseconds | None = None
    peak_memory_gb: NotNegative | None = None


class Profile(Value):
    """What a profiler measured of a training step.

    The first block is the reference's. All times are of one step and count attributed events only;
    sums over everything that was captured stand in `capture`. What is None, empty or 0 was not
    measured, `sources` says of each derived number where it comes from, and `unusable` why a
    measurement is none.
    """

    steps: Count = 0
    avg_step_ms: Milliseconds = 0.0
    wall_coverage: NotNegative = 0.0
    phases: dict[str, Phase] = {}
    per_layer: Annotated[tuple[Layer, ...], Lax] = ()
    bottleneck: str | None = None

    tokens_per_step: NotNegative | None = None
    accelerator: str | None = None
    accelerator_count: DeviceCount | None = None
    # What the device reports, which settles a name that cards of several sizes share.
    accelerator_memory_gb: NotNegative | None = None
    peak_bandwidth_gb_s: NotNegative | None = None

    step_times_ms: Annotated[tuple[Milliseconds, ...], Lax] = ()
    kernel_launches_per_step: NotNegative | None = None
    device_kernels_per_step: NotNegative | None = None
    device_busy_ms: Milliseconds | None = None
    device_idle_share: Annotated[float, Field(ge=0, le=1)] | None = None
    compute_ms: Milliseconds | None = None
    communication_ms: Milliseconds | None = None
    exposed_communication_ms: Milliseconds | None = None
    ops: dict[str, Milliseconds] = {}
    op_categories: dict[str, Milliseconds] = {}
    # In the order in which a step first runs them: an op that has another name now still has its
    # neighbours.
    op_counts: dict[str, NotNegative] = {}
    op_kinds: dict[str, str] = {}
    phase_ops: dict[str, dict[str, OpWork]] = {}
    # Why the device did nothing, as far as the host's part of a trace tells: cause -> ms a step.
    idle_causes: dict[str, Milliseconds] = {}
    # The step as the profiler saw it, where measurements have put an unprofiled one in its place.
    profiled_step_ms: Milliseconds | None = None
    throughput_tok_s: NotNegative | None = None
    world_size: DeviceCount | None = None
    rank: Count | None = None
    peak_memory_gb: NotNegative | None = None
    tool: str | None = None
    sources: dict[str, str] = {}
    notes: Annotated[tuple[str, ...], Lax] = ()
    capture: dict[str, float] = {}
    ranks: Annotated[tuple[RankWork, ...], Lax, Field(max_length=MOST_RANKS)] = ()
    unusable: str | None = None

    @property
    def measured_something(self) -> bool:
        """Whether there is any number here that a verdict could rest on."""
        times = (
            self.avg_step_ms,
            self.throughput_tok_s or 0.0,
            *(phase.total_ms for phase in self.phases.values()),
            *(layer.fwd_ms + layer.bwd_ms for layer in self.per_layer),
        )
        return any(time > 0 for time in times)


@pydantic_dataclass(frozen=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class Hardware:
    """The roofline: what the memory can deliver, and what a token needs of it.

    None where it is not known: then there is no efficiency, and the scorecard is not graded.
    """

    peak_bw_gb_s: float | None = None
    bytes_per_token: float | None = None


# --- the scorecard ------------------------------------------------------------------------------

Grade = Literal["A", "B", "C", "D", "F"]
Bottleneck = Literal["transfer", "launch", "compute", "memory_bw"]


class Severity(StrEnum):
    """How bad the reference finds a regression."""

    WARNING = "warning"
    CRITICAL = "critical"


class LayerSummary(Value):
    """One layer, as the scorecard tells it."""

    layer: Count
    fwd_ms: Milliseconds
    bwd_ms: Milliseconds
    ratio: NotNegative
    top_op: str
    top_op_pct: NotNegative


class Regression(Value):
    """A metric beyond the reference's limit; its row says whether the delta is relative."""

    metric: str
    delta: float
    severity: Annotated[Severity, Lax]


class Scorecard(Value):
    """The reference's judgement of a profile. The second block of fields is ours."""

    grade: Grade
    efficiency: Annotated[float, Field(ge=0, le=1)]
    bottleneck: Bottleneck
    throughput_tok_s: NotNegative
    step_time_ms: Milliseconds
    forward_backward_ratio: NotNegative
    wall_coverage: NotNegative
    per_layer_summary: Annotated[tuple[LayerSummary, ...], Lax] = ()
    hotspot_ops: Annotated[
        tuple[Annotated[tuple[str, Milliseconds, NotNegative], Lax], ...], Lax
    ] = ()
    regressions: Annotated[tuple[Regression, ...], Lax] = ()
    recommendations: Annotated[tuple[str, ...], Lax] = ()

    notes: Annotated[tuple[str, ...], Lax] = ()
    ungraded_reason: str | None = None
    bottleneck_known: bool = True
    job_throughput_tok_s: NotNegative | None = None
    accelerator: str | None = None
    accelerator_count: DeviceCount | None = None
    mfu: NotNegative | None = None
    mfu_basis: str | None = None
    hfu: NotNegative | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def graded(self) -> bool:
        """Whether grade, efficiency, bottleneck and recommendations mean anything."""
        return self.ungraded_reason is None


# --- parity of two runtimes ---------------------------------------------------------------------


class ParityProfile(Value):
    """One runtime's side of a parity: per-step numbers and the time of each op."""

    runtime: str
    throughput_tok_s: NotNegative = 0.0
    step_time_ms: Milliseconds = 0.0
    kernel_launches_per_step: Count = 0
    ops: dict[str, Milliseconds]


class ParityGap(Value):
    """An op that both runtimes have."""

    op: str
    apr_ms: Milliseconds
    baseline_ms: Milliseconds
    ratio: NotNegative


class Parity(Value):
    """The reference's comparison of two runtimes. The second block of fields is ours."""

    apr_runtime: str
    baseline_runtime: str
    throughput_ratio: NotNegative
    launch_ratio: NotNegative
    top_gaps: Annotated[tuple[ParityGap, ...], Lax] = ()
    parity_achieved: bool

    notes: Annotated[tuple[str, ...], Lax] = ()
    compared_ops: Count = 0
    apr_share_compared: NotNegative | None = None
    baseline_share_compared: NotNegative | None = None
    step_time_ratio: NotNegative = 0.0
    throughput_inferred: bool = False
    unjudged_reason: str | None = None

    @property
    def judged(self) -> bool:
        """Whether enough was compared: the reference calls an empty parity achieved."""
        return self.compared_ops > 0 and self.unjudged_reason is None


# --- baseline, verdict, record ------------------------------------------------------------------


class Outcome(StrEnum):
    """A verdict in one word; `worst` orders them."""

    PASS = "pass"
    WARN = "warn"
    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"

    @staticmethod
    def worst(outcomes: list[Outcome]) -> Outcome:
        """The one that decides for all of them."""
        return max(outcomes, key=list(Outcome).index)


class Unjudged(StrEnum):
    """Why there is no judgement. The policy says of each whether it blocks."""

    FIRST_RUN = "first run"
    EXPIRED = "expired"
    NEW_CASE = "a new case"
    NEW_ENVIRONMENT_OF_NEW_CASE = "no baseline for this environment on a new case"
    ENVIRONMENT_CHANGED = "the environment of a known case changed"
    NOTHING_MEASURED = "nothing measured"
    CRASHED_RUN = "crashed run"
    REQUIRED_CASE_MISSING = "a required case missing"
    KNOWN_CASE_MISSING = "a known case missing"
    INVALID_MEASUREMENT = "a disturbed measurement"
    OTHER_WORK = "not the same work"
    NOT_AS_DESIGNED = "not measured as the policy demands"
    TOO_NOISY = "too noisy to tell"
    NO_PERMISSION = "no permission to read baselines"
    API_DOWN = "API down"
    ALL_UNUSABLE = "every candidate unusable"


MATCHING = ("accelerator", "accelerator_count", "precision", "timing")
ShortText = Annotated[str, StringConstraints(max_length=200)]
# What makes a measurement worthless, unless the policy says that it does not.
Disturbance = Literal["throttled", "shared", "crashed", "nan"]


class Environment(Value):
    """Where and how something was measured.

    The first four decide whether two measurements can be compared; None is not known and matches
    anything. `versions` inform: they may be the very subject of a change. `disturbances` make a
    measurement worthless: what happened -> in which words. `gate_at` is the smallest limit that
    the machine was qualified for, and `not_qualified` says why it was for none.
    """

    accelerator: str | None = None
    accelerator_count: DeviceCount | None = None
    precision: ShortText | None = None
    timing: Literal["under a profiler", "unprofiled"] | None = None
    versions: dict[ShortText, ShortText] = {}
    disturbances: dict[ShortText, ShortText] = {}
    gate_at: Annotated[float, Field(gt=0, lt=1)] | None = None
    not_qualified: ShortText | None = None

    def mismatch(self, other: Environment, keys: Iterable[str] = MATCHING) -> str | None:
        """The key that differs with both its values, or None where the two can be compared."""
        for key in keys:
            mine, theirs = getattr(self, key), getattr(other, key)
            if mine is not None and theirs is not None and mine != theirs:
                return f"{key}: {mine} here, {theirs} there"
        return None

    def versions_since(self, base: Environment) -> tuple[str, ...]:
        """What is of another version than in `base`, as `torch 2.8 → 2.9`; nothing is judged."""
        if not self.versions or not base.versions:
            return ()
        names = sorted(self.versions.keys() | base.versions.keys())
        both = [(name, base.versions.get(name), self.versions.get(name)) for name in names]
        return tuple(
            f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in both if old != new
        )

    def unknown_beside(self, other: Environment, keys: Iterable[str] = MATCHING) -> list[str]:
        """The keys that only one of the two knows."""
        return [
            key for key in keys if (getattr(self, key) is None) != (getattr(other, key) is None)
        ]


class Verdict(Value):
    """The judgement of one case, with what it rests on."""

    outcome: Annotated[Outcome, Lax]
    headline: str
    reasons: Annotated[tuple[str, ...], Lax] = ()
    unjudged: Annotated[Unjudged | None, Lax] = None
    basis: str | None = None
    smallest_visible_slowdown: NotNegative | None = None


class JudgedBy(StrEnum):
    """What a metric's change was judged by."""

    PAIRED = "pairs of launches"
    HISTORY = "the branch's history"
    EXACT = "a count, which needs no statistics"
    UNVERIFIED = "one number a side"
    BUDGET = "an absolute limit"


BASE_ALONE = "measured by the baseline alone"


class Change(Value):
    """A metric on both sides; `delta` is None where a side was not measured.

    `low` and `high` are the delta's 95 % interval, `outcome` what the policy makes of it and
    `accepted` the reason why somebody with write access lets it pass.
    """

    metric: str
    base: float
    head: float
    delta: float | None = None
    severity: Annotated[Severity | None, Lax] = None
    not_compared: str | None = None
    gated: bool = False
    warn_limit: NotNegative | None = None
    fail_limit: NotNegative | None = None
    low: float | None = None
    high: float | None = None
    judged_by: Annotated[JudgedBy | None, Lax] = None
    samples: Count = 0
    outcome: Annotated[Outcome | None, Lax] = None
    reason: str | None = None
    higher_is_better: bool | None = None
    relative: bool | None = None
    unit: str | None = None
    accepted: str | None = None


class Contribution(Value):
    """A phase, op or layer whose time changed: part of where a slowdown went."""

    kind: Literal["phase", "op", "layer"]
    name: str
    base_ms: Milliseconds
    head_ms: Milliseconds

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


class Timeline(Value):
    """A step taken apart: no moment is in two parts, and what they leave is the rest.

    `device` is what the device did, and why it did nothing; where that is not known, the step's
    `phases` stand in.
    """

    basis: Literal["device", "phases"]
    step_ms: Milliseconds
    parts: dict[str, Milliseconds]

    @property
    def rest_ms(self) -> float:
        """What no part explains; below zero where the work of two steps overlaps."""
        return self.step_ms - plain_sum(self.parts.values())


class OpDetail(Value):
    """What is known of an op beside its time: `order` counts the ops as a step first runs them."""

    kind: str = ""
    count: NotNegative | None = None
    order: Count | None = None
    phases: dict[str, OpWork] = {}


class Part(Value):
    """A part of the step, or of its compute, on both sides."""

    name: str
    base_ms: float
    head_ms: float

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


class OpChange(Value):
    """An op whose time changed: by more launches, and by the time of each.

    `name` is the head's, or the base's where the op is gone; `was` the base's of a renamed one.
    `by_count_ms` + `by_time_ms` is the change; where launches were not counted, both are None.
    """

    name: str
    kind: str = ""
    status: Literal["changed", "new", "gone", "renamed"] = "changed"
    was: str | None = None
    base_ms: Milliseconds
    head_ms: Milliseconds
    base_count: NotNegative | None = None
    head_count: NotNegative | None = None
    by_count_ms: float | None = None
    by_time_ms: float | None = None

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        return self.head_ms - self.base_ms


class Explanation(Value):
    """Why the step time is another: its parts sum to the change, the rest included.

    `categories` sum to the change of the part `compute`. `under_profiler` where the numbers that
    are judged were measured without one, so that these times are others. A sentence is there only
    where it explains most of a change that is proven; `counts_sentence` is that of the launches.
    """

    basis: Literal["device", "phases"]
    under_profiler: bool = False
    base_step_ms: Milliseconds
    head_step_ms: Milliseconds
    parts: Annotated[tuple[Part, ...], Lax]
    categories: Annotated[tuple[Part, ...], Lax] = ()
    ops: Annotated[tuple[OpChange, ...], Lax] = ()
    sentence: str | None = None
    explained_ms: float = 0.0
    counts_sentence: str | None = None

    @property
    def delta_ms(self) -> float:
        """How much longer a step takes in the profiles."""
        return self.head_step_ms - self.base_step_ms


class RunIdentity(Value):
    """Which run left a record. A re-run of the same number has a later attempt.

    By its id a run's artifacts are found.
    """

    number: Count
    attempt: Count = 1
    id: Count | None = None


class BaselineUsed(Value):
    """Where the baseline of a case came from; `commits_away` counts from the tested base.

    `changed_versions` says what else is not the same on the two sides, as `torch 2.8 → 2.9`.
    """

    source: str
    commit: str | None = None
    run: RunIdentity | None = None
    created_at: str | None = None
    commits_away: Count | None = None
    skipped: Annotated[tuple[str, ...], Lax] = ()
    changed_versions: Annotated[tuple[str, ...], Lax] = ()


class LaunchNumbers(Value):
    """What one process launch measured: its typical step, and whatever else it said.

    A session that looks at its pairs several times spends the chance of error over the looks:
    `look_share` is the part that the look at this launch's pair may spend.
    """

    side: Literal["head", "base"] = "head"
    launch: Count = 0
    look_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    values: Annotated[dict[ShortText, float], Field(max_length=64)]
    warmup_steps: Count | None = None
    timed_steps: Count | None = None


class CaseRecord(Value):
    """One tracked thing: its numbers, what explains them, and the verdict on it."""

    name: CaseName
    environment: Environment = Environment()
    unmeasured: str | None = None
    crashed: bool = False
    scorecard: Scorecard
    metrics: dict[ShortText, float] = {}
    launches: Annotated[tuple[LaunchNumbers, ...], Lax, Field(max_length=MOST_LAUNCHES)] = ()
    # Whether the sides of its launches ran by turns, where their order is known.
    took_turns: bool | None = None
    measurement: ShortText | None = None
    earlier_measurements: Annotated[tuple[ShortText, ...], Lax, Field(max_length=100)] = ()
    tokens_per_step: NotNegative | None = None
    phases: dict[str, Milliseconds] = {}
    ops: dict[str, Milliseconds] = {}
    ops_left_out: Count = 0
    op_details: dict[str, OpDetail] = {}
    categories: dict[ShortText, OpWork] = {}
    timeline: Timeline | None = None
    advice: Annotated[tuple[str, ...], Lax] = ()
    ranks: Annotated[tuple[RankWork, ...], Lax, Field(max_length=MOST_RANKS)] = ()
    parity: Parity | None = None
    partner: ParityProfile | None = None
    baseline: BaselineUsed | None = None
    changes: Annotated[tuple[Change, ...], Lax] = ()
    contributions: Annotated[tuple[Contribution, ...], Lax] = ()
    explanation: Explanation | None = None
    verdict: Verdict | None = None

    @property
    def has_a_time(self) -> bool:
        """Whether there is a number here that a comparison could rest on."""
        card = self.scorecard
        return self.unmeasured is None and (card.step_time_ms > 0 or card.throughput_tok_s > 0)


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

    def number(self, metric: str) -> float | None:
        """What was measured of a metric; 0 of a time is nothing measured."""
        own = {"step_time_ms": self.step_time_ms, "throughput_tok_s": self.throughput_tok_s}
        return (own[metric] or None) if metric in own else self.metrics.get(metric)


class Trend(Value):
    """A lasting change of the tracked branch's own level: told, and never a verdict on a run.

    A shift happened after `last_before` and up to `first_after`, the last commit surely on the old
    level and the first surely on the new one; `between` are those of the history that stand
    between them, not measured or not told apart by the noise. A drift crept in, beside all shifts,
    between the anchor (the median of the oldest runs, up to `last_before`) and the newest runs (up
    to `first_after`). `created_at` and `run` are those of `first_after`; `delta` is relative where
    the metric is, and `worse` says whether it is in the direction that is worse.
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


class Acceptance(Value):
    """One sentence of a comment: which worsening is accepted, up to where, by whom and why.

    The bound is a worsening (`12 %` or `5 points`, as a fraction) or the number itself (`80 GB`);
    `refused` says why the sentence does not count.
    """

    case: ShortText
    metric: ShortText = ""
    kind: Literal["relative", "points", "value"] = "relative"
    bound: NotNegative = 0.0
    shown: ShortText = ""
    reason: ShortText = ""
    by: ShortText
    url: ShortText = ""
    refused: ShortText | None = None

    @property
    def words(self) -> str:
        """For the report: bound, person and reason."""
        limit = f"up to {self.shown} " if self.shown else ""
        return f"{limit}by {self.by}, because {self.reason}"

    def allows(self, value: float) -> bool:
        """Whether the number itself was accepted; a worsening says nothing of an absolute limit."""
        return self.kind == "value" and value <= self.bound


class Record(Value):
    """What a run leaves behind, and the next run's baseline."""

    schema_version: Literal[2] = 2
    ci_score_version: str
    created_at: Timestamp
    commit: Sha | None = None
    run: RunIdentity | None = None
    rules: Literal["reference", "training"] = "reference"
    policy: dict[str, JsonValue] | None = None
    cases: Annotated[tuple[CaseRecord, ...], Lax, Field(max_length=MOST_CASES)]
    unjudged: Verdict | None = None
    notices: Annotated[tuple[str, ...], Lax] = ()
    acceptances: Annotated[tuple[Acceptance, ...], Lax, Field(max_length=MOST_ACCEPTANCES)] = ()
    history: Annotated[tuple[HistoryPoint, ...], Lax] = ()
    trends: Annotated[tuple[Trend, ...], Lax, Field(max_length=MOST_TRENDS)] = ()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Record:
        names = [case.name for case in self.cases]
        if len(set(names)) != len(names):
            raise ValueError("each case once, and not two of one name")
        return self

    def case(self, name: str) -> CaseRecord | None:
        """The case of that name."""
        return next((case for case in self.cases if case.name == name), None)


@dataclass(frozen=True, slots=True)
class CaseInput:
    """What was read of a case; `problem` says why there is nothing usable.

    Without `has_profile` there are measurements alone, and nothing is amiss in what no profile
    tells.
    """

    name: str
    profile: Profile = field(default_factory=Profile)
    problem: str | None = None
    notes: tuple[str, ...] = ()
    launches: tuple[LaunchNumbers, ...] = ()
    took_turns: bool | None = None
    has_profile: bool = True
    measurement: str | None = None
    environment: Environment | None = None
    base: CaseInput | None = None
    partner: ParityProfile | None = None


@dataclass(frozen=True, slots=True)
class Upload:
    """An artifact that a store lists, as far as the listing can be believed."""

    id: int
    run_id: int
    sha: str
    created_at: str
    expired: bool
    digest: str | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class OpenedUpload:
    """The bytes of an upload's record, and the run that left it; that run was checked."""

    data: bytes
    run: RunIdentity


@dataclass(frozen=True, slots=True)
class Comment:
    """What somebody said in a pull request.

    `is_insider` is what GitHub's listing says of the author: a hint whom to ask first, no right.
    """

    author: str
    body: str
    url: str = ""
    by_a_person: bool = True
    is_insider: bool = False
    edited: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """The comments of a pull request, the oldest first; `trouble` says why they are not all."""

    comments: tuple[Comment, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class BaselineFound:
    """A case of an earlier run that this one can be compared with."""

    case: CaseRecord
    used: BaselineUsed


@dataclass(frozen=True, slots=True)
class BaselineMissing:
    """No such case, and why: a first run is a normal state, a poisoned store is not."""

    reason: Unjudged
    detail: str = ""
    skipped: tuple[str, ...] = ()


Baseline = BaselineFound | BaselineMissing
