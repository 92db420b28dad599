"""Which run this is: from what the runner says and what GitHub sent."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.errors import WrongUseError
from ci_score.github.event import Event, Head, Kind, read_event, workflow_path

SHA, HEAD, BASE = "a" * 40, "b" * 40, "c" * 40


def environment(name: str, **more: str) -> dict[str, str]:
    return {
        "GITHUB_EVENT_NAME": name,
        "GITHUB_REPOSITORY": "team/model",
        "GITHUB_REPOSITORY_ID": "7",
        "GITHUB_SHA": SHA,
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_REF_NAME": "main",
        "GITHUB_RUN_ID": "100",
        "GITHUB_RUN_NUMBER": "10",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_WORKFLOW_REF": "team/model/.github/workflows/perf.yml@refs/heads/main",
        **more,
    }


def read(name: str, payload: dict[str, Any] | None = None, **more: str) -> Event:
    repository = {"repository": {"default_branch": "main"}}
    return read_event(environment(name, **more), repository if payload is None else payload)


def pull(head_repository: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "repository": {"default_branch": "main"},
        "pull_request": {
            "number": 5,
            "head": {"sha": HEAD, "ref": "topic", "repo": head_repository},
            "base": {"ref": "main", "repo": {"id": 7}},
        },
    }


@pytest.mark.parametrize("repository_id", [7, 8, None])
def test_pull_request__knows_where_it_comes_from(repository_id: int | None) -> None:
    """Of the repository, of a fork, and of one that was deleted meanwhile."""
    event = read("pull_request", pull({"id": repository_id} if repository_id else None))
    assert event.pull is not None
    assert event.pull.head == Head(HEAD, "topic", repository_id)
    assert event.kind is Kind.PULL_REQUEST
    assert (event.sha, event.status_sha) == (SHA, HEAD)


@pytest.mark.parametrize(
    ("name", "ref", "kind"),
    [
        ("push", "refs/heads/main", Kind.TRACKED_BRANCH),
        ("push", "refs/heads/topic", Kind.OTHER_BRANCH),
        ("push", "refs/tags/main", Kind.OTHER_BRANCH),
        ("workflow_dispatch", "refs/heads/main", Kind.TRACKED_BRANCH),
        ("schedule", "refs/heads/main", Kind.TRACKED_BRANCH),
        ("issue_comment", "refs/heads/main", Kind.OTHER_BRANCH),
    ],
)
def test_branch__default_or_another(name: str, ref: str, kind: Kind) -> None:
    """Only the default branch is tracked and only reported; all else gates."""
    event = read(name, GITHUB_REF=ref)
    assert (event.kind, event.gates) == (kind, kind is Kind.OTHER_BRANCH)


def test_schedule__knows_its_branch_without_a_repository() -> None:
    """Its payload has none, and it runs on the default branch only."""
    event = read("schedule", {"schedule": "0 3 * * *"})
    assert (event.kind, event.tracked_branch) == (Kind.TRACKED_BRANCH, "main")


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        (f"refs/heads/gh-readonly-queue/main/pr-12-{BASE}", 12),
        (f"refs/heads/gh-readonly-queue/release/1.x/pr-3-{BASE}", None),
        (f"refs/heads/gh-readonly-queue/main/pr-1\u0662-{BASE}", None),
        (f"refs/heads/gh-readonly-queue/main/pr-12-{BASE}/pr-13-{BASE}", None),
        (f"refs/heads/gh-readonly-queue/main/pr-0-{BASE}", None),
        (f"refs/heads/gh-readonly-queue/main/pr-12-{BASE}x", None),
        (f"refs/heads/evil/gh-readonly-queue/main/pr-12-{BASE}", None),
        ("refs/heads/pr-12", None),
    ],
)
def test_merge_group__pull_request_is_parsed_strictly(ref: str, number: int | None) -> None:
    """A branch that only looks like the queue's names no pull request."""
    event = queued(ref, "main")
    assert (event.pull.number if event.pull else None) == number
    assert (event.kind, event.merge_base) == (Kind.MERGE_GROUP, BASE)


def test_merge_group__a_branch_may_have_slashes() -> None:
    """The queue's ref has the branch that is merged into, whatever it is called."""
    event = queued(f"refs/heads/gh-readonly-queue/release/1.x/pr-3-{BASE}", "release/1.x")
    assert event.pull is not None
    assert (event.pull.number, event.pull.base_ref) == (3, "release/1.x")


def queued(ref: str, base: str) -> Event:
    group = {"head_ref": ref, "head_sha": HEAD, "base_sha": BASE, "base_ref": f"refs/heads/{base}"}
    return read("merge_group", {"repository": {"default_branch": "main"}, "merge_group": group})


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        (".github/workflows/x.yml", ".github/workflows/x.yml"),
        (".github/workflows/x.yml@main", ".github/workflows/x.yml"),
        ("team/model/.github/workflows/x.yml@refs/heads/a/b", ".github/workflows/x.yml"),
        (".forgejo/workflows/x.yml", ".forgejo/workflows/x.yml"),
        ("x.yml", ".github/workflows/x.yml"),
        ("", ""),
    ],
)
def test_workflow_path__is_normalised(reference: str, path: str) -> None:
    """However the path is written, it is the same file."""
    assert workflow_path(reference) == path


def test_pull_request_target__is_refused() -> None:
    """With the reason, and what to do instead."""
    with pytest.raises(WrongUseError, match="workflow_run"):
        read("pull_request_target")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("GITHUB_SHA", "main; rm -rf"), ("GITHUB_RUN_ID", "x"), ("GITHUB_REPOSITORY", "")],
)
def test_environment__that_is_wrong_is_named(variable: str, value: str) -> None:
    """Outside a job, or in a strange one, the missing piece is said."""
    with pytest.raises(WrongUseError, match=variable):
        read_event(environment("push", **{variable: value}), {})


@pytest.mark.parametrize("name", ["pull_request", "merge_group", "workflow_run"])
def test_payload__without_its_subject_is_wrong_use(name: str) -> None:
    """A payload that lacks what its event promises is an error with a name, not a crash."""
    with pytest.raises(WrongUseError, match="payload"):
        read(name, {})
