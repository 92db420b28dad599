"""What became of a metric, and of a case."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from ci_score.model.scorecard import Severity
from ci_score.model.values import Count, Lax, NotNegative, Value


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
