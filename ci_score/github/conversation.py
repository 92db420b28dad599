"""What is said in a pull request: its comments, listed once for all who ask, and who may write.

Everything here was written by strangers. What GitHub says of an author in the listing is a hint;
whether somebody may write is asked of GitHub itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile, islice, takewhile
from typing import Any
from urllib.parse import quote

from ci_score.errors import GitHubError, NotThereError, WrongUseError
from ci_score.github.api import Api, as_expected, moment
from ci_score.github.event import Head, head_of
from ci_score.model.conversation import Comment, Comments
from ci_score.model.reasons import Reason, Why

# Twenty requests of the forty that a run may make.
MOST_COMMENTS = 2000
# A marker is the first line, and so is an acceptance; the rest may be 256 KB.
READ_OF_A_COMMENT = 4096
LONGEST_ERROR = 160
_INSIDERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
# Gitea has a word of its own for whom the repository belongs to.
_WRITERS = frozenset({"owner", "admin", "write"})


@dataclass(frozen=True, slots=True)
class Listed:
    """A comment as it is listed: enough to know our own, and what somebody said."""

    id: int
    comment: Comment


@dataclass(slots=True)
class PullConversation:
    """The comments of one pull request; the runs of the event `runs_of` date its commits."""

    api: Api
    repository: str
    number: int
    head: Head | None = None
    runs_of: str = "pull_request"
    is_cut: bool = False
    _listed: list[Listed] | None = None
    _head_since: str = ""

    def comments(self, *, anew: bool = False) -> list[Listed]:
        """As many as are read, the oldest first; `anew` after a write that may have worked."""
        if self._listed is None or anew:
            path = f"/repos/{self.repository}/issues/{self.number}/comments"
            with as_expected():
                rows = [_listed(row) for row in islice(self.api.pages(path), MOST_COMMENTS + 1)]
            self.is_cut = len(rows) > MOST_COMMENTS
            self._listed = rows[:MOST_COMMENTS]
        return self._listed

    def comments_since(self, listed: list[Listed]) -> list[Listed]:
        """Those that were written or changed since the newest of these was there."""
        path = f"/repos/{self.repository}/issues/{self.number}/comments"
        newest = max((row.comment.written_at for row in listed), default="")
        pages = self.api.pages(path, since=newest) if newest else self.api.pages(path)
        return [_listed(row) for row in islice(pages, MOST_COMMENTS)]

    def listen(self) -> Comments:
        """What everybody said; what cannot be read accepts nothing."""
        try:
            heard = tuple(row.comment for row in self.comments())
        except GitHubError as error:
            return Comments(trouble=Why.COMMENTS_NOT_READ(words=str(error)))
        trouble = Why.MORE_COMMENTS(read=MOST_COMMENTS) if self.is_cut else None
        return Comments(heard, trouble)

    def why_not(self, login: str) -> Reason | None:
        """Why that person may not accept anything; None for whoever may write."""
        user = quote(login, safe="")
        try:
            with as_expected():
                answer = self.api.get(f"/repos/{self.repository}/collaborators/{user}/permission")
                granted = str(answer["permission"])
        except NotThereError:
            granted = "no"
        except GitHubError as error:
            return Why.RIGHTS_NOT_KNOWN(words=str(error)[:LONGEST_ERROR])
        if granted in _WRITERS:
            return None
        return Why.MAY_NOT_WRITE(permission=granted[:LONGEST_ERROR])

    def why_too_early(self, comment: Comment) -> Reason | None:
        """Why a comment does not count for the commits that are judged: it was there before them.

        Whoever commits decides on a commit's date, so the clock is that of GitHub's runs.
        """
        try:
            with as_expected():
                self._head_since = self._head_since or self._since()
                is_early = moment(comment.written_at) < self._head_since
        except (GitHubError, WrongUseError) as error:
            return Why.COMMITS_NOT_DATED(words=str(error)[:LONGEST_ERROR])
        return Why.BEFORE_THE_COMMITS() if is_early else None

    def _since(self) -> str:
        """When the head came: the first of the newest runs that are all on the head.

        A head that was there before, and was replaced meanwhile, counts from its return.
        """
        head = self.head or head_of(self.api.get(f"/repos/{self.repository}/pulls/{self.number}"))
        listing = self.api.get(
            f"/repos/{self.repository}/actions/runs",
            branch=head.branch,
            event=self.runs_of,
            per_page=100,
        )
        runs = sorted(
            ((moment(run["created_at"]), run["head_sha"]) for run in listing["workflow_runs"]
             if _is_of(head, run)),
            reverse=True,
        )  # fmt: skip
        newest = dropwhile(lambda run: run[1] != head.sha, runs)
        times = [at for at, _ in takewhile(lambda run: run[1] == head.sha, newest)]
        if not times:
            raise NotThereError("it lists no run of them")
        return times[-1]


def _is_of(head: Head, run: Any) -> bool:
    """Whether a run is of the pull request's branch; many forks have a branch of one name."""
    source = run["head_repository"]
    known = head.repository_id is not None and source is not None
    return known and source["id"] == head.repository_id


def _listed(row: Any) -> Listed:
    # Of an account that is gone there is no user.
    user = row.get("user") or {}
    by_an_app = row.get("performed_via_github_app") is not None
    return Listed(
        id=int(row["id"]),
        comment=Comment(
            author=_text(user.get("login")),
            body=_text(row.get("body"))[:READ_OF_A_COMMENT],
            url=str(row["html_url"]),
            by_a_person=user.get("type") == "User" and not by_an_app,
            is_insider=row.get("author_association") in _INSIDERS,
            edited=row.get("created_at") != row.get("updated_at"),
            written_at=str(row.get("created_at") or ""),
        ),
    )


def _text(value: Any) -> str:
    """JSON can hold halves of characters, which no text of ours can."""
    return str(value or "").encode(errors="replace").decode()
