"""One sticky comment a report: found by marker and author, never overwritten by an older run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ci_score.errors import GitHubDownError, GitHubError, NoPermissionError, NotThereError
from ci_score.github.api import Api, as_expected
from ci_score.github.conversation import MOST_COMMENTS, Listed, PullConversation
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import RunIdentity

ACTIONS_BOT = "github-actions[bot]"
LONGEST_COMMENT = 65_536
_MARKER = re.compile(r"\A<!-- ci-score (\{[^\n]{1,200}\}) -->\n")
_INSTALLATION_TOKEN = "ghs_"
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Marker:
    """What the first line of a comment says: which report it is, and which run wrote it."""

    report: str
    run_id: int
    run: RunIdentity

    def line(self) -> str:
        """An HTML comment that GitHub hides; it holds digits and hex, and no word of anybody's."""
        data = {"report": self.report, "run": self.run_id, **self.run.model_dump()}
        return f"<!-- ci-score {json.dumps(data, sort_keys=True)} -->\n"

    def is_older_than(self, other: Marker) -> bool:
        """Whether the other's run came later."""
        own, others = self.run, other.run
        return (own.number, own.attempt) < (others.number, others.attempt)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the comment."""

    url: str = ""
    notice: Reason | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A comment with the marker of our report, whoever wrote it."""

    id: int
    url: str
    author: str
    marker: Marker


def marker_of(title: str, workflow: str, run_id: int, run: RunIdentity) -> Marker:
    """The marker of a report: a digest of its title and workflow, which are a stranger's words."""
    digest = hashlib.sha256(f"{title}\0{workflow}".encode()).hexdigest()[:16]
    return Marker(report=digest, run_id=run_id, run=run)


def read_marker(body: str) -> Marker | None:
    """The marker at the very start of a comment, or None where there is none of ours."""
    found = _MARKER.match(body.replace("\r\n", "\n"))
    if found is None:
        return None
    try:
        data = json.loads(found[1])
        run = RunIdentity(number=data["number"], attempt=data["attempt"])
        return Marker(report=str(data["report"]), run_id=int(data["run"]), run=run)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def post(
    conversation: PullConversation, body: str, marker: Marker, *, only_update: bool = False
) -> Written:
    """Creates or updates the comment; `only_update` where a new one is not wanted.

    A write whose answer was lost may have worked, so the comments are looked at again before the
    next try. What cannot be posted is a notice and never changes a verdict.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            with as_expected():
                marked = list(_of_report(conversation.comments(anew=attempt > 1), marker))
                return _post(conversation, marked, body, marker, only_update)
        except NoPermissionError as error:
            return Written(notice=Why.MAY_NOT_COMMENT(words=str(error)))
        except GitHubDownError as error:
            if not error.maybe_done or attempt == _TRIES:
                return Written(notice=Why.COMMENT_NOT_POSTED(words=str(error)))
        except GitHubError as error:
            return Written(notice=Why.COMMENT_NOT_POSTED(words=str(error)))
    raise AssertionError("the last try returns")


def _post(
    conversation: PullConversation,
    marked: list[_Found],
    body: str,
    marker: Marker,
    only_update: bool,
) -> Written:
    api, repository = conversation.api, conversation.repository
    text = marker.line() + body
    author = own_login(api)
    ours = sorted((row for row in marked if row.author == author), key=lambda row: row.id)
    newer = next((row for row in ours if _is_newer(api, repository, row, marker)), None)
    if newer is not None:
        return Written(newer.url, Why.NEWER_COMMENT())
    for kept in ours:
        try:
            written = _update(api, repository, kept, text)
        except NotThereError:
            continue  # somebody has deleted it since it was listed
        # Two runs at once may both have found none and created one: the first stays.
        _delete(api, repository, (row for row in ours if row is not kept))
        return written
    if only_update:
        return Written()
    if conversation.is_cut:
        # It may be among those that were not read, and every run would add another one.
        return Written(notice=Why.TOO_MANY_COMMENTS(most=MOST_COMMENTS))
    return _create(conversation, text, marker, marked)


def _create(
    conversation: PullConversation, text: str, marker: Marker, marked: list[_Found]
) -> Written:
    """A new comment; of several that runs at once have created, the oldest stays."""
    api, repository, number = conversation.api, conversation.repository, conversation.number
    made = api.write("POST", f"/repos/{repository}/issues/{number}/comments", {"body": text})
    # An app's token cannot ask who it is; now it is known, and so is an older comment of its own.
    author, own = str(made["user"]["login"]), int(made["id"])
    written = Written(url=str(made["html_url"]))
    try:
        with as_expected():
            rows = conversation.comments_since(conversation.comments())
            found = [*marked, *_of_report(rows, marker)]
            others = {row.id: row for row in found if row.author == author and row.id != own}
            if not others or min(others) > own:
                return written  # the others remove theirs
            kept = others[min(others)]
            if not any(marker.is_older_than(row.marker) for row in others.values()):
                written = _update(api, repository, kept, text)
            api.delete(f"/repos/{repository}/issues/comments/{own}")
            return Written(url=kept.url)
    except GitHubError:
        return written  # the report is written; a duplicate can wait for the next run


def _update(api: Api, repository: str, comment: _Found, text: str) -> Written:
    path = f"/repos/{repository}/issues/comments/{comment.id}"
    return Written(url=str(api.write("PATCH", path, {"body": text})["html_url"]))


def _delete(api: Api, repository: str, comments: Iterable[_Found]) -> None:
    for comment in comments:
        try:
            api.delete(f"/repos/{repository}/issues/comments/{comment.id}")
        except GitHubError:
            return  # the report is written; a duplicate can wait for the next run


def _of_report(rows: Iterable[Listed], marker: Marker) -> Iterable[_Found]:
    for row in rows:
        found = read_marker(row.comment.body)
        if found is not None and found.report == marker.report:
            yield _Found(row.id, row.comment.url, row.comment.author, found)


def _is_newer(api: Api, repository: str, comment: _Found, marker: Marker) -> bool:
    """Whether a later run wrote it. A comment can be edited, so the run is asked for."""
    if not marker.is_older_than(comment.marker):
        return False
    try:
        run = api.get(f"/repos/{repository}/actions/runs/{comment.marker.run_id}")
    except NotThereError:
        return False
    return bool(run["run_number"] == comment.marker.run.number)


def own_login(api: Api) -> str:
    """Who we are: a job's own token cannot ask, and is always the Actions bot."""
    token = api.token.get_secret_value() if api.token else ""
    if token.startswith(_INSTALLATION_TOKEN):
        return ACTIONS_BOT
    try:
        return str(api.get("/user")["login"])
    except NoPermissionError:
        return ACTIONS_BOT
