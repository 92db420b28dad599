"""What one stage of a run hands to the next, and never reaches a file."""

from __future__ import annotations

from dataclasses import dataclass, field

from ci_score.model.environment import Environment
from ci_score.model.profile import Profile
from ci_score.model.record import BaselineUsed, CaseRecord, LaunchNumbers, RunIdentity
from ci_score.model.scorecard import ParityProfile
from ci_score.model.verdict import Unjudged


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
