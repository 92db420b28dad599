"""One sticky comment a report: found by marker and author, never overwritten by an older run."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from ci_score.errors import GitHubDownError, GitHubError, NoPermissionError
from ci_score.github.api import Api
from ci_score.models import RunIdentity

ACTIONS_BOT = "github-actions[bot]"
LONGEST_COMMENT = 65_536
_MARKER = re.compile(r"\A<!-- ci-score (\{[^\n]{1,400}\}) -->\n")
_INSTALLATION_TOKEN = "ghs_"
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Marker:
    """What the first line of a comment says about who wrote it, when."""

    report: str
    workflow: str
    run: RunIdentity

    def line(self) -> str:
        """An HTML comment that GitHub hides; only the start of a comment counts as one."""
        said = {"report": self.report, "workflow": self.workflow, **self.run.model_dump()}
        # Within an HTML comment `--` would end it.
        return f"<!-- ci-score {json.dumps(said, sort_keys=True).replace('--', '-')} -->\n"

    def is_older_than(self, other: Marker) -> bool:
        """Runs of different workflows cannot be ordered."""
        mine, theirs = self.run, other.run
        same = self.workflow == other.workflow
        return same and (mine.number, mine.attempt) < (theirs.number, theirs.attempt)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the comment."""

    url: str = ""
    notice: str = ""


def marker_of(title: str, workflow: str, run: RunIdentity) -> Marker:
    """The marker of a report; a digest of the title, so that a title cannot break out of it."""
    digest = hashlib.sha256(title.encode()).hexdigest()[:16]
    return Marker(report=digest, workflow=workflow[:120].replace("--", "-"), run=run)


def read_marker(body: str) -> Marker | None:
    """The marker at the very start of a comment, or None where there is none of ours."""
    found = _MARKER.match(body.replace("\r\n", "\n"))
    if found is None:
        return None
    try:
        said = json.loads(found[1])
        run = RunIdentity(number=said["number"], attempt=said["attempt"])
        return Marker(report=str(said["report"]), workflow=str(said["workflow"]), run=run)
    except (ValueError, KeyError, TypeError):
        return None


def post(
    api: Api, repository: str, number: int, body: str, marker: Marker, *, only_update: bool = False
) -> Written:
    """Creates or updates the comment; `only_update` where a new one is not wanted.

    A write whose answer was lost may have worked, so the comments are looked at again before the
    next try. What cannot be posted is a notice and never changes a verdict.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            return _post(api, repository, number, body, marker, only_update)
        except NoPermissionError as error:
            return Written(
                notice=f"The comment was not posted: {error} Runs of forks and of Dependabot may"
                " only read: a workflow_run job can post for them."
            )
        except GitHubDownError as error:
            if not error.maybe_done or attempt == _TRIES:
                return Written(notice=f"The comment was not posted: {error}")
        except GitHubError as error:
            return Written(notice=f"The comment was not posted: {error}")
    raise AssertionError("the last try returns")


def _post(
    api: Api, repository: str, number: int, body: str, marker: Marker, only_update: bool
) -> Written:
    author = _own_login(api)
    ours = []
    for comment in api.pages(f"/repos/{repository}/issues/{number}/comments"):
        found = read_marker(comment.get("body") or "")
        by_us = (comment.get("user") or {}).get("login") == author
        if found is not None and by_us and found.report == marker.report:
            ours.append((comment, found))
    newer = next((row for row in ours if marker.is_older_than(row[1])), None)
    if newer is not None:
        return Written(
            url=str(newer[0]["html_url"]),
            notice="A newer run has written the comment already; it was left alone.",
        )
    text = marker.line() + body
    if not ours:
        if only_update:
            return Written()
        path = f"/repos/{repository}/issues/{number}/comments"
        return Written(url=_url(api.write("POST", path, {"body": text})))
    # Two runs at once may both have found none and created one: the first stays.
    kept, *others = sorted((comment for comment, _ in ours), key=lambda comment: comment["id"])
    for other in others:
        api.delete(f"/repos/{repository}/issues/comments/{other['id']}")
    path = f"/repos/{repository}/issues/comments/{kept['id']}"
    return Written(url=_url(api.write("PATCH", path, {"body": text})))


def _own_login(api: Api) -> str:
    """Who we are: a job's own token cannot ask, and is always the Actions bot."""
    token = api.token.get_secret_value() if api.token else ""
    if token.startswith(_INSTALLATION_TOKEN):
        return ACTIONS_BOT
    try:
        return str(api.get("/user")["login"])
    except NoPermissionError:
        return ACTIONS_BOT


def _url(comment: Any) -> str:
    return str(comment["html_url"])
