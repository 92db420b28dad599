"""Where a commit stands: which commits come before it, and which pull requests it heads.

A run is compared along the first-parent line from the base that was tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote

from ci_score.errors import GitHubError, NotThereError
from ci_score.github.api import Api, as_expected
from ci_score.github.event import Event, Kind, ProducerRun, PullRequest

# The history lists side branches too, a hundred commits a request.
MOST_COMMITS = 2000


def line_of(api: Api, event: Event, *, head_is_checked_out: bool = False) -> Iterator[str]:
    """Commits from the tested base backwards, as far as the caller asks for.

    `pull_request.base.sha` goes stale, so the base of a pull request is the first parent of the
    test merge, unless the workspace holds the head itself: then it is the merge base.
    """
    repository = event.repository
    if event.kind is Kind.MERGE_GROUP and event.merge_base:
        return first_parents(api, repository, event.merge_base)
    if event.pull and head_is_checked_out:
        base = merge_base(api, repository, event.pull.base_ref, event.pull.head_sha)
        return first_parents(api, repository, base)
    if event.kind is Kind.OTHER_BRANCH and event.tracked_branch:
        base = merge_base(api, repository, event.tracked_branch, event.sha)
        return first_parents(api, repository, base)
    return islice(first_parents(api, repository, event.sha), 1, None)


def line_of_merge(api: Api, event: Event, claimed: str | None) -> Iterator[str]:
    """Commits from the base that another run has tested, which only that run can tell.

    What it says is checked: a merge of the very head that was measured. Else the merge base.
    """
    if event.pull is None:
        return iter(())
    head = event.pull.head_sha
    parents = _parents(api, event.repository, claimed) if claimed else []
    if len(parents) == 2 and parents[1] == head:
        return first_parents(api, event.repository, parents[0])
    base = merge_base(api, event.repository, event.pull.base_ref, head)
    return first_parents(api, event.repository, base)


def _parents(api: Api, repository: str, sha: str) -> list[str]:
    try:
        with as_expected():
            commit = api.get(f"/repos/{repository}/commits/{sha}")
            return [str(parent["sha"]) for parent in commit["parents"]]
    except GitHubError:
        return []


def first_parents(api: Api, repository: str, start: str) -> Iterator[str]:
    """`start` and its ancestors along first parents, page by page of the history."""
    parents: dict[str, list[str]] = {}
    listed = islice(api.pages(f"/repos/{repository}/commits", sha=start), MOST_COMMITS)
    sha = start
    while True:
        with as_expected():
            while sha not in parents:
                commit = next(listed, None)
                if commit is None:
                    if not parents:
                        raise NotThereError(f"no history of {start[:12]}")
                    return
                parents[commit["sha"]] = [parent["sha"] for parent in commit["parents"]]
        yield sha
        if not parents[sha]:
            return
        sha = parents[sha][0]


def merge_base(api: Api, repository: str, base: str, head: str) -> str:
    """Where head left base."""
    compared = f"/repos/{repository}/compare/{quote(base)}...{head}"
    with as_expected():
        return str(api.get(compared, per_page=1)["merge_base_commit"]["sha"])


# --- for another run ----------------------------------------------------------------------------


def pulls_of_producer(api: Api, repository: str, producer: ProducerRun) -> list[PullRequest]:
    """The open pull requests whose head is the very commit that was measured.

    They are found by their head, never by a number in an artifact: a stranger wrote that.
    `workflow_run.pull_requests` is empty for forks, and a commit's pull requests miss them. One
    branch may have several, to different bases.
    """
    if producer.head_owner is None:
        return []
    head = f"{producer.head_owner}:{producer.head_branch}"
    with as_expected():
        return [
            PullRequest(
                number=int(pull["number"]),
                head_sha=producer.head_sha,
                base_ref=str(pull["base"]["ref"]),
                from_fork=producer.from_fork,
            )
            for pull in api.pages(f"/repos/{repository}/pulls", head=head, state="open")
            if pull["head"]["sha"] == producer.head_sha
        ]
