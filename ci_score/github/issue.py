"""One issue for a branch's lasting changes: found by marker and author, kept up to date.

A search for the commit adds its answer to it, in a section of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ci_score.errors import GitHubError, NoPermissionError, NotThereError
from ci_score.github.api import Api, as_expected
from ci_score.github.comment import ACTIONS_BOT, own_login
from ci_score.model.reasons import Reason, Why

MOST_LISTED = 300
MOST_KEYS = 200
# What a search for the commit has found; the runs of the branch leave it where it is.
_ANSWER = ("<!-- ci-score-bisect -->", "<!-- /ci-score-bisect -->")
# Whoever edits an issue in a browser leaves other ends of lines, and none behind the last one.
_ANSWERED = re.compile(rf"\r?\n{_ANSWER[0]}\r?\n.*?\r?\n{_ANSWER[1]}(?:\r?\n|\Z)", re.DOTALL)
_MARKER = re.compile(r"\A<!-- ci-score-trend (\{[^\n]{1,4000}\}) -->\r?\n")


@dataclass(frozen=True, slots=True)
class Subject:
    """Which issue it is, and what it tells: a key a change -> since when.

    A change without a time goes on: it is news only where an issue has never told it. Of others
    the next one of the same name is news again.
    """

    report: str
    changes: Mapping[str, str]

    def line(self) -> str:
        """The hidden first line; it holds hex digits, and no word of anybody's."""
        data = {"report": self.report, "told": sorted(self.changes)[:MOST_KEYS]}
        return f"<!-- ci-score-trend {json.dumps(data, sort_keys=True)} -->\n"


@dataclass(frozen=True, slots=True)
class _Found:
    """An issue of ours."""

    number: int
    title: str
    body: str
    is_open: bool
    closed_at: str
    report: str
    told: frozenset[str]


def key_of(*names: str) -> str:
    """A change by its names, which are a stranger's words."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]


def tell(api: Api, repository: str, *, title: str, body: str, subject: Subject) -> Reason | None:
    """Opens or updates the issue; returns what the reader should know if that failed."""
    return _reason_of(lambda: _tell(api, repository, title, subject.line() + body, subject))


def answer(
    api: Api, repository: str, *, title: str, section: str, subject: Subject
) -> Reason | None:
    """Writes which commit it was into the open issue that tells of this change, or opens one."""
    return _reason_of(lambda: _answer(api, repository, title, section, subject))


def _reason_of(write: Callable[[], None]) -> Reason | None:
    try:
        with as_expected():
            write()
    except (NoPermissionError, NotThereError) as error:
        return Why.MAY_NOT_WRITE_ISSUES(words=str(error))
    except GitHubError as error:
        return Why.ISSUE_NOT_WRITTEN(words=str(error))
    return None


def _answer(api: Api, repository: str, title: str, section: str, subject: Subject) -> None:
    """The runs of the branch have a report of their own name; the change is known by its key."""
    wanted = frozenset(subject.changes)
    ours = _issues(api, repository, lambda one: one.is_open and not wanted.isdisjoint(one.told))
    # No comment of a stranger's text may end the section.
    inner = section.strip("\n").replace("<!--", "<\u200b!--")
    text = f"\n{_ANSWER[0]}\n{inner}\n{_ANSWER[1]}\n"
    if not ours:
        body = subject.line() + text
        api.write("POST", f"/repos/{repository}/issues", {"title": title, "body": body})
        return
    kept = min(ours, key=lambda one: one.number)
    body = _ANSWERED.sub("", kept.body).rstrip("\n") + "\n" + text
    if body != kept.body:
        _change(api, repository, kept, {"body": body})


def _with_answer_of(kept: _Found, body: str) -> str:
    """The new text with what a search has written into the old one."""
    found = _ANSWERED.search(kept.body)
    return body.rstrip("\n") + "\n" + found[0] if found else body


def _tell(api: Api, repository: str, title: str, body: str, subject: Subject) -> None:
    ours = _issues(api, repository, lambda one: one.report == subject.report)
    open_ones = sorted((row for row in ours if row.is_open), key=lambda row: row.number)
    if not open_ones:
        if not any(_knows_all(row, subject) for row in ours):
            api.write("POST", f"/repos/{repository}/issues", {"title": title, "body": body})
        return
    kept, *others = open_ones
    body = _with_answer_of(kept, body)
    if (kept.title, kept.body) != (title, body):
        _change(api, repository, kept, {"title": title, "body": body})
    for extra in others:
        # Two runs at once may both have found none and opened one: the first stays.
        _change(api, repository, extra, {"state": "closed"})


def _knows_all(closed: _Found, subject: Subject) -> bool:
    """Whether somebody closed it knowing of everything that there is to tell."""
    return all(
        key in closed.told and since <= closed.closed_at
        for key, since in islice(sorted(subject.changes.items()), MOST_KEYS)
    )


def _change(api: Api, repository: str, issue: _Found, values: Mapping[str, str]) -> None:
    api.write("PATCH", f"/repos/{repository}/issues/{issue.number}", dict(values))


def _issues(api: Api, repository: str, is_meant: Callable[[_Found], bool]) -> list[_Found]:
    """Ours, whoever of us wrote them: an app's token looks like a job's and cannot ask its name."""
    login = own_login(api)
    found = _listed(api, repository, is_meant, login)
    if found or login != ACTIONS_BOT:
        return found
    return _listed(api, repository, is_meant)


def _listed(
    api: Api, repository: str, is_meant: Callable[[_Found], bool], creator: str | None = None
) -> list[_Found]:
    path = f"/repos/{repository}/issues"
    # The user of a Gitea's jobs has no issues there that could be asked for: it is a 404.
    by = {"type": "issues"} if api.is_gitea else {"creator": creator} if creator else {}
    listed = islice(api.pages(path, state="all", **by), MOST_LISTED)
    rows = (row for row in listed if row.get("pull_request") is None)
    return [
        found
        for row in rows
        if (row["user"]["login"] == creator if creator else row["user"]["type"] == "Bot")
        and (found := _read(row)) is not None
        and is_meant(found)
    ]


def _read(row: Any) -> _Found | None:
    body = str(row.get("body") or "")
    marker = _MARKER.match(body)
    if marker is None:
        return None
    try:
        data = json.loads(marker[1])
        report, told = str(data["report"]), frozenset(map(str, data["told"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return _Found(
        number=int(row["number"]),
        title=str(row["title"]),
        body=body.replace("\r\n", "\n"),
        is_open=row["state"] == "open",
        closed_at=str(row.get("closed_at") or ""),
        report=report,
        told=told,
    )
