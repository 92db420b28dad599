"""What one stage of a run hands to the next, and never reaches a file."""

from __future__ import annotations

from dataclasses import dataclass, field

from ci_score.model.environment import Environment
from ci_score.model.explanation import Contribution, Explanation
from ci_score.model.profile import Profile
from ci_score.model.reasons import Note, Reason, quoted
from ci_score.model.record import BaselineUsed, LaunchNumbers, Measured, RunIdentity
from ci_score.model.scorecard import ParityProfile, Severity
from ci_score.model.verdict import Unjudged


@dataclass(frozen=True, slots=True)
class CaseInput:
    """What was read of a case; `problem` or `crashed` says why nothing of it is usable.

    Without `has_profile` there are measurements alone, and nothing is amiss in what no profile
    tells.
    """

    name: str
    profile: Profile = field(default_factory=Profile)
    problem: Reason | None = None
    crashed: Reason | None = None
    notes: tuple[Note, ...] = ()
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
class BaselineFound:
    """A case of an earlier run that this one can be compared with."""

    case: Measured
    used: BaselineUsed


@dataclass(frozen=True, slots=True)
class BaselineMissing:
    """No such case, and why: a first run is a normal state, a poisoned store is not."""

    reason: Unjudged
    detail: Reason | None = None
    skipped: tuple[str, ...] = ()

    @property
    def reasons(self) -> list[Reason]:
        """Why there is none, and each record that was looked at; said once each."""
        found = [*filter(None, (self.detail,)), *map(quoted, self.skipped)]
        return [reason for place, reason in enumerate(found) if reason not in found[:place]]


Baseline = BaselineFound | BaselineMissing


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric's number on both sides; None where a side did not measure it.

    Nothing is said yet about which way is worse: that is the policy's. `severity` is the
    reference's, and `not_compared` says why the two numbers do not mean the same.
    """

    metric: str
    base: float | None
    head: float | None
    severity: Severity | None = None
    not_compared: Reason | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured case beside its baseline: what differs, where, and what explains it.

    The differences are there for every metric that a policy names, and nothing here depends on
    limits, so it is made once and judged as often as there are policies and acceptances.
    """

    measured: Measured
    baseline: Baseline
    differences: tuple[Difference, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    explanation: Explanation | None = None
