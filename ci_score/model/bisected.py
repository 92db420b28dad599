"""What `ci-score bisect` found: the commit, its evidence and its cause, as OUT/bisect.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ci_score.model.bisection import Effect, Ended
from ci_score.model.values import CaseName, Count, Lax, NotNegative, Sha, ShortText, Value

MOST_COMMITS = 4096
Several = Field(max_length=MOST_COMMITS)


class CommitFound(Value):
    """A commit as its author described it: a stranger's words."""

    sha: Sha
    subject: ShortText = ""
    author: ShortText = ""
    date: ShortText = ""


class SkippedCommit(Value):
    """A commit that was left out, and why: in a stranger's words, too."""

    commit: Sha
    why: ShortText


class ProbedCommit(Value):
    """A commit that was launched beside others: how much slower than GOOD it is."""

    commit: Sha
    slower: Effect
    launches: Count


class OfTrend(Value):
    """The lasting change of a branch that a search was asked to explain."""

    case: CaseName
    metric: ShortText
    kind: Literal["shift", "drift"]


class Bisected(Value):
    """The answer of a search over `commits` commits after `good`, up to `bad`.

    `ended` is a code, and None where it stopped before it knew anything: `stopped` says why.
    `found` are the commits that the slowdown lies in: more than one where those between do not run.
    `own` is their effect, measured afresh against `parent`, and `range` that of the whole range.
    `cause` is the headline of the comparison that `answer` holds, a folder for `ci-score run`.
    """

    schema_version: Literal[1] = 1
    ci_score_version: ShortText
    case: CaseName
    good: Sha
    bad: Sha
    commits: Count
    launches: Count = 0
    ended: Annotated[Ended, Lax] | None = None
    stopped: Annotated[str, Field(max_length=2000)] = ""
    found: Annotated[tuple[CommitFound, ...], Lax, Several] = ()
    parent: Sha | None = None
    own: Effect | None = None
    range: Effect | None = None
    others: bool = False
    smallest: NotNegative | None = None
    noise: NotNegative | None = None
    skipped: Annotated[tuple[SkippedCommit, ...], Lax, Several] = ()
    refuted: Annotated[tuple[Sha, ...], Lax, Several] = ()
    evidence: Annotated[tuple[ProbedCommit, ...], Lax, Several] = ()
    answer: ShortText | None = None
    cause: Annotated[str, Field(max_length=2000)] = ""
    trend: OfTrend | None = None

    @property
    def is_answered(self) -> bool:
        """Whether one commit was found, and confirmed against its parent."""
        return self.ended is Ended.FOUND and bool(self.found)

    @property
    def is_worth_telling(self) -> bool:
        """Whether it was confirmed: also where commits before the last one do not run."""
        return self.ended in (Ended.FOUND, Ended.FOUND_SET) and bool(self.found)


def bisected_schema() -> dict[str, Any]:
    """The format of bisect.json as a JSON schema, for programs that read one."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Bisected.model_json_schema(mode="serialization"),
        "title": "ci-score bisect, version 1",
    }
