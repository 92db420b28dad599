"""Which pull request a fork's run belongs to: by its head, never by a number from an artifact."""

from __future__ import annotations

from ci_score.github.api import Api
from ci_score.github.event import ProducerRun, PullRequest


def pull_of_producer(
    api: Api, repository: str, producer: ProducerRun
) -> tuple[PullRequest, str | None] | None:
    """The open pull request whose head is the commit that was measured, and its test merge.

    `workflow_run.pull_requests` is empty for forks, and a commit's pull requests miss them.
    """
    if producer.head_owner is None:
        return None
    head = f"{producer.head_owner}:{producer.head_branch}"
    for pull in api.pages(f"/repos/{repository}/pulls", head=head, state="open"):
        if pull["head"]["sha"] == producer.head_sha:
            found = PullRequest(
                number=int(pull["number"]),
                head_sha=producer.head_sha,
                base_ref=str(pull["base"]["ref"]),
                from_fork=producer.from_fork,
            )
            return found, pull.get("merge_commit_sha")
    return None
