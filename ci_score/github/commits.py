"""Which commits a run is compared along: the first-parent line from the base that was tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ci_score.errors import NotThereError
from ci_score.github.api import Api
from ci_score.github.event import Event, Kind

FURTHEST_BACK = 300


def line_of(api: Api, event: Event, checked_out: str | None) -> list[str]:
    """Commits from the tested base backwards; one request for the usual run.

    `pull_request.base.sha` goes stale, so the base of a pull request is the first parent of the
    test merge, unless the workspace holds the head itself: then it is the merge base.
    """
    if event.kind is Kind.MERGE_GROUP and event.merge_base:
        return list(first_parents(api, event.repository, event.merge_base))
    if event.pull and checked_out == event.pull.head_sha != event.sha:
        base = merge_base(api, event.repository, event.pull.base_ref, event.pull.head_sha)
        return list(first_parents(api, event.repository, base))
    if event.kind is Kind.OTHER_BRANCH and event.default_branch:
        base = merge_base(api, event.repository, event.default_branch, event.sha)
        return list(first_parents(api, event.repository, base))
    return list(first_parents(api, event.repository, event.sha))[1:]


def first_parents(api: Api, repository: str, start: str) -> Iterator[str]:
    """`start` and its ancestors along first parents, from one listing of the history."""
    parents: dict[str, list[str]] = {}
    listed = _history(api, repository, start)
    sha, count = start, 0
    while count < FURTHEST_BACK:
        while sha not in parents:
            commit = next(listed, None)
            if commit is None:
                return
            parents[commit["sha"]] = [parent["sha"] for parent in commit["parents"]]
        yield sha
        count += 1
        if not parents[sha]:
            return
        sha = parents[sha][0]


def merge_base(api: Api, repository: str, base: str, head: str) -> str:
    """Where head left base."""
    compared = api.get(f"/repos/{repository}/compare/{base}...{head}", per_page=1)
    return str(compared["merge_base_commit"]["sha"])


def _history(api: Api, repository: str, start: str) -> Iterator[Any]:
    seen = 0
    for commit in api.pages(f"/repos/{repository}/commits", sha=start):
        seen += 1
        yield commit
        if seen >= FURTHEST_BACK:
            return
    if not seen:
        raise NotThereError(f"no history of {start[:12]}")
