"""The outcome of a metric and the verdict on a case."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal

from ci_score.model.reasons import Reason
from ci_score.model.scorecard import Severity
from ci_score.model.values import Count, Lax, NotNegative, ShortText, Value


class Outcome(StrEnum):
    """A verdict in one word, from the best to the worst."""

    PASS = "pass"
    WARN = "warn"
    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"

    @staticmethod
    def worst(outcomes: list[Outcome]) -> Outcome:
        """The worst of them, which decides for all."""
        return max(outcomes, key=list(Outcome).index)


class Unjudged(StrEnum):
    """Why there is no judgement. The policy decides for each of them whether it blocks."""

    FIRST_RUN = "first_run"
    NO_RECORD = "no_record"
    EXPIRED = "expired"
    NEW_CASE = "new_case"
    ENVIRONMENT_CHANGED = "environment_changed"
    NOTHING_MEASURED = "nothing_measured"
    NOT_NEEDED = "not_needed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    UNKNOWN_RESULT = "unknown_result"
    CRASHED_RUN = "crashed_run"
    REQUIRED_CASE_MISSING = "required_case_missing"
    KNOWN_CASE_MISSING = "known_case_missing"
    INVALID_MEASUREMENT = "invalid_measurement"
    MEASURED_ALONE = "measured_alone"
    OTHER_WORK = "other_work"
    NOT_AS_DESIGNED = "not_as_designed"
    NOT_ATTRIBUTABLE = "not_attributable"
    VOID = "void"
    CONTRADICTS = "contradicts"
    UNCLEAR = "unclear"
    TOO_NOISY = "too_noisy"
    NO_PERMISSION = "no_permission"
    NO_PROVENANCE = "no_provenance"
    API_DOWN = "api_down"
    ALL_UNUSABLE = "all_unusable"


# These happen in a healthy project, mostly because there is nothing to compare with yet. All others
# block.
HARMLESS = frozenset(
    {
        Unjudged.FIRST_RUN,
        Unjudged.EXPIRED,
        Unjudged.NEW_CASE,
        # A job that ran says so, and why.
        Unjudged.NOT_NEEDED,
        # A run beside the branch's history looks no slower than the limit, and the noise could
        # hide more. A check that blocks every second unchanged change is switched off in a week.
        Unjudged.TOO_NOISY,
    }
)


class Verdict(Value):
    """The judgement of a case, or of a report as a whole.

    `decided_by` is the reason that decides; without one the worst change does. `may_pass` says
    whether the policy lets this `unjudged` reason pass. `remarks` are reasons that do not decide,
    and that the policy makes worth mentioning. `slower` says that something is proven worse and
    beyond its warn limit, or counted so, whatever else is unclear. `upper_end` is the largest
    slowdown that the interval of the step's time leaves open; None if it has no end.
    """

    outcome: Annotated[Outcome, Lax]
    decided_by: Reason | None = None
    reasons: Annotated[tuple[Reason, ...], Lax] = ()
    remarks: Annotated[tuple[Reason, ...], Lax] = ()
    unjudged: Annotated[Unjudged | None, Lax] = None
    may_pass: bool = False
    slower: bool = False
    upper_end: float | None = None


def unjudged(why: Unjudged, decided_by: Reason, *details: Reason) -> Verdict:
    """A verdict without a judgement, and why; it is neither a regression nor a pass."""
    return Verdict(
        outcome=Outcome.INCONCLUSIVE,
        decided_by=decided_by,
        reasons=details,
        unjudged=why,
        may_pass=why in HARMLESS,
    )


class Acceptance(Value):
    """One sentence of a comment: which worsening is accepted, up to which bound, by whom and why.

    The bound is a worsening (`12 %` or `5 points`, as a fraction) or the number itself (`80 GB`).
    `refused` says why the sentence does not count; None if it counts.
    """

    case: ShortText
    metric: ShortText = ""
    kind: Literal["relative", "points", "value"] = "relative"
    bound: NotNegative = 0.0
    shown: ShortText = ""
    reason: ShortText = ""
    by: ShortText
    url: ShortText = ""
    refused: Reason | None = None

    def allows(self, value: float) -> bool:
        """Whether the number itself is accepted; a bound on the worsening covers no budget."""
        return self.kind == "value" and value <= self.bound


class JudgedBy(StrEnum):
    """The evidence that a metric's change was judged by."""

    PAIRED = "pairs"
    HISTORY = "history"
    EXACT = "count"
    ONE_NUMBER = "one_number"


class Change(Value):
    """A metric on both sides; `delta` is None where a side was not measured.

    `low` and `high` are the ends of the delta's interval, which is of 95 % with pairs and of 90 %
    with a history; an end that does not exist is None. `outcome` is the policy's, and `reasons`
    says why. `slower` says that it is proven worse, and beyond the warn limit. `accepted` is the
    acceptance by somebody with write access.
    """

    metric: str
    base: float
    head: float
    delta: float | None = None
    severity: Annotated[Severity | None, Lax] = None
    not_compared: Reason | None = None
    gated: bool = False
    warn_limit: NotNegative | None = None
    fail_limit: NotNegative | None = None
    low: float | None = None
    high: float | None = None
    judged_by: Annotated[JudgedBy | None, Lax] = None
    samples: Count = 0
    outcome: Annotated[Outcome | None, Lax] = None
    slower: bool = False
    reasons: Annotated[tuple[Reason, ...], Lax] = ()
    higher_is_better: bool | None = None
    relative: bool | None = None
    unit: str | None = None
    accepted: Acceptance | None = None

    @property
    def is_statistical(self) -> bool:
        """Whether it was judged by pairs or by a history, and so has an interval."""
        return self.judged_by in (JudgedBy.PAIRED, JudgedBy.HISTORY)

    @property
    def is_proven(self) -> bool:
        """Whether luck is ruled out: a count, or a test that it passed."""
        return self.slower or self.judged_by is JudgedBy.EXACT


def decisive(changes: Sequence[Change]) -> Change | None:
    """The worst gated change; of equally bad ones the step time, which people notice."""
    gated = [change for change in changes if change.outcome is not None]
    order = list(Outcome)
    return max(
        gated,
        key=lambda one: (order.index(one.outcome or Outcome.PASS), one.metric == "step_time_ms"),
        default=None,
    )
