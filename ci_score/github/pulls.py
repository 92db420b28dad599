"""Which pull requests a fork's run belongs to: by their head, never by a number in an artifact."""

from __future__ import annotations

from dataclasses import dataclass

from ci_score.github.api import Api, as_expected
from ci_score.github.event import ProducerRun, PullRequest


@dataclass(frozen=True, slots=True)
class FoundPull:
    """A pull request and its test merge, where GitHub has made one."""

    pull: PullRequest
    test_merge: str | None


def pulls_of_producer(api: Api, repository: str, producer: ProducerRun) -> list[FoundPull]:
    """The open pull requests whose head is the very commit that was measured.

    `workflow_run.pull_requests` is empty for forks, and a commit's pull requests miss them. One
    branch may have several, to different bases.
    """
    if producer.head_owner is None:
        return []
    head = f"{producer.head_owner}:{producer.head_branch}"
    with as_expected():
        return [
            FoundPull(
                PullRequest(
                    number=int(pull["number"]),
                    head_sha=producer.head_sha,
                    base_ref=str(pull["base"]["ref"]),
                    from_fork=producer.from_fork,
                ),
                pull.get("merge_commit_sha"),
            )
            for pull in api.pages(f"/repos/{repository}/pulls", head=head, state="open")
            if pull["head"]["sha"] == producer.head_sha
        ]
