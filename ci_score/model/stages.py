"""What one stage of a run hands to the next. None of it is written to a file."""

from __future__ import annotations

from dataclasses import dataclass, field

from ci_score.model.environment import Environment
from ci_score.model.explanation import Contribution, Explanation
from ci_score.model.profile import Profile
from ci_score.model.reasons import Note, Reason
from ci_score.model.record import BaselineUsed, LaunchNumbers, Measured, RunIdentity
from ci_score.model.scorecard import ParityProfile, Severity
from ci_score.model.step_ops import BaseSide
from ci_score.model.verdict import Unjudged


@dataclass(frozen=True, slots=True)
class CaseInput:
    """What was read of a case; `problem` or `crashed` says why it cannot be used.

    Where `has_profile` is false there are only measurements. Then the scorecard does not complain
    about what only a profile has. `attempt` is that of the run which left its files, 0 if it is not
    told, and `before` has what earlier attempts measured, the oldest first. `left_out` says why
    files of another run do not count.
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
    attempt: int = 0
    before: tuple[CaseInput, ...] = ()
    left_out: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempted:
    """A case as the newest attempt measured it, and as those before it did, the oldest first."""

    case: Measured
    attempt: int = 0
    before: tuple[Attempted, ...] = ()


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
    """The bytes of an upload's record, and the run that left it, which was checked."""

    data: bytes
    run: RunIdentity


@dataclass(frozen=True, slots=True)
class BaselineFound:
    """The baseline of a case: an earlier run of it that can be compared with this one."""

    case: Measured
    used: BaselineUsed


@dataclass(frozen=True, slots=True)
class BaselineMissing:
    """There is no baseline, and why. A first run is normal; a store of unusable records is not."""

    reason: Unjudged
    detail: Reason | None = None
    skipped: tuple[Reason, ...] = ()

    @property
    def reasons(self) -> list[Reason]:
        """Why there is no baseline, and why each record was skipped, without repetitions."""
        all_of_them = [*filter(None, (self.detail,)), *self.skipped]
        return [
            reason for place, reason in enumerate(all_of_them) if reason not in all_of_them[:place]
        ]


Baseline = BaselineFound | BaselineMissing


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric's number on both sides; None where a side did not measure it.

    Which way is worse is left open, because the policy decides that. `severity` is the reference's;
    `not_compared` says why the two numbers cannot be compared.
    """

    metric: str
    base: float | None
    head: float | None
    severity: Severity | None = None
    not_compared: Reason | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured case and its baseline: what differs, where, and what explains it.

    It has a difference for every metric that a policy names, and depends on no limits. So it is
    made once, and judged again for each policy and for acceptances. `recorded` is the branch's own
    record of the case, also where a session brings its own base.
    """

    measured: Measured
    baseline: Baseline
    recorded: Measured | None = None
    differences: tuple[Difference, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    explanation: Explanation | None = None
    base: BaseSide | None = None
    # The same case as earlier attempts measured it on other kinds of machines.
    elsewhere: tuple[Compared, ...] = ()
