"""What is said in a pull request: its comments, listed once for all who ask, and who may write.

Everything here was written by strangers. What GitHub says of an author in the listing is a hint;
whether somebody may write is asked of GitHub itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import dropwhile, islice, takewhile
from typing import Any
from urllib.parse import quote

from ci_score.errors import GitHubError, NotThereError, WrongUseError
from ci_score.github import gitea
from ci_score.github.api import Api, as_expected, moment
from ci_score.github.event import Head, head_of
from ci_score.model.conversation import Comment, Comments, Conversation
from ci_score.model.reasons import Reason, Why

# Twenty requests of the forty that a run may make.
MOST_COMMENTS = 2000
MOST_REVIEWS = 250
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
                rows = [as_listed(row) for row in islice(self.api.pages(path), MOST_COMMENTS + 1)]
            self.is_cut = len(rows) > MOST_COMMENTS
            self._listed = rows[:MOST_COMMENTS]
        return self._listed

    def comments_since(self, listed: list[Listed]) -> list[Listed]:
        """Those that were written or changed since the newest of these was there."""
        path = f"/repos/{self.repository}/issues/{self.number}/comments"
        newest = max((row.comment.written_at for row in listed), default="")
        pages = self.api.pages(path, since=newest) if newest else self.api.pages(path)
        return [as_listed(row) for row in islice(pages, MOST_COMMENTS)]

    @property
    def accepting(self) -> Conversation:
        """Where a regression may be accepted: here, but on a server where any job may edit it."""
        return _Approvals(self) if self.api.is_gitea else self

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

    def known_head(self) -> Head:
        """Where the pull request comes from; asked for where its event did not tell it."""
        return self.head or head_of(self.api.get(f"/repos/{self.repository}/pulls/{self.number}"))

    def _since(self) -> str:
        """When the head came: the first of the newest runs that are all on the head.

        A head that was there before, and was replaced meanwhile, counts from its return.
        """
        head = self.known_head()
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


@dataclass(frozen=True, slots=True)
class _Approvals:
    """The same on a Gitea, where a regression is accepted in the text of a review that approves.

    Its comments may be edited by any job, and a job may not ask who may write.
    """

    talk: PullConversation

    def listen(self) -> Comments:
        """What reviews and comments say, each with the reason why it does not count."""
        talk, heard = self.talk, self.talk.listen()
        said = [replace(one, refused=Why.NO_APPROVAL()) for one in heard.comments]
        try:
            with as_expected():
                sha = talk.known_head().sha
                reviews = gitea.reviews(talk.api, talk.repository, talk.number)
                for row in islice(reviews, MOST_REVIEWS):
                    why = gitea.why_not_accepted(row, sha)
                    said.append(replace(as_listed(row).comment, refused=why))
                more = next(reviews, None) and Why.MORE_COMMENTS(read=MOST_REVIEWS)
        except GitHubError as error:
            return Comments(trouble=Why.COMMENTS_NOT_READ(words=str(error)))
        return Comments(tuple(said), heard.trouble or more)

    def why_not(self, login: str) -> Reason | None:
        """Nobody has to be asked for: the server says of an approval whether it counts."""
        return None

    def why_too_early(self, comment: Comment) -> Reason | None:
        """An approval names its commit."""
        return None


def _is_of(head: Head, run: Any) -> bool:
    """Whether a run is of the pull request's branch; many forks have a branch of one name."""
    source = run["head_repository"]
    known = head.repository_id is not None and source is not None
    return known and source["id"] == head.repository_id


def as_listed(row: Any) -> Listed:
    """A comment as the server shows it."""
    # Of an account that is gone there is no user.
    user = row.get("user") or {}
    return Listed(
        id=int(row["id"]),
        comment=Comment(
            author=_text(user.get("login")),
            body=_text(row.get("body"))[:READ_OF_A_COMMENT],
            url=str(row["html_url"]),
            is_insider=row.get("author_association") in _INSIDERS,
            written_at=str(row.get("created_at") or ""),
            refused=_refused(row, user),
        ),
    )


def _refused(row: Any, user: Any) -> Reason | None:
    """Why a comment accepts nothing, whatever its author may do."""
    if user.get("type") != "User" or row.get("performed_via_github_app") is not None:
        return Why.BY_NO_PERSON()
    return None if row.get("created_at") == row.get("updated_at") else Why.EDITED()


def _text(value: Any) -> str:
    """JSON can hold halves of characters, which no text of ours can."""
    return str(value or "").encode(errors="replace").decode()
