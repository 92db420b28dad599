"""Which run this is, of which commit, for which pull request: environment + payload → Event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ci_score.errors import WrongUseError
from ci_score.github.api import has_gitea_s_path
from ci_score.model.record import RunIdentity, Server
from ci_score.model.values import page_address

# What runs on a branch itself; every other event can be set off by a stranger, or tests a merge.
TRACKED_EVENTS = frozenset({"push", "schedule", "workflow_dispatch"})
LONGEST_JOB = 100
_QUEUE_REF = re.compile(r"(?:refs/heads/)?gh-readonly-queue/(.+)/pr-([1-9][0-9]{0,9})-[0-9a-f]{40}")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ZEROS = re.compile(r"0+")
_WORKFLOW_PATH = re.compile(r"(?:[^/@]+/[^/@]+/)?(\.[^/@]+/workflows/[^@]+)(?:@.*)?")


class Kind(StrEnum):
    """What a run is for: it decides what is compared, posted and failed."""

    PULL_REQUEST = "pull request"
    MERGE_GROUP = "merge queue"
    TRACKED_BRANCH = "the branch whose records are baselines"
    OTHER_BRANCH = "another branch"
    POSTING = "posting another run's report"


@dataclass(frozen=True, slots=True)
class Head:
    """Where a pull request comes from; a fork that was deleted has no id."""

    sha: str
    branch: str
    repository_id: int | None


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The pull request that a report belongs to; `head` is None where only its number is known.

    `merge_sha` is the test merge that GitHub names, where the run's own commit does not tell it.
    """

    number: int
    head_sha: str
    base_ref: str
    head: Head | None = None
    merge_sha: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerRun:
    """The run that a workflow_run event reports: a stranger's, if it came from a fork."""

    id: int
    head_sha: str
    head_branch: str
    head_owner: str | None
    from_fork: bool
    event: str
    workflow: str
    run: RunIdentity


@dataclass(frozen=True, slots=True)
class Event:
    """One run of the Action; `before` is where the branch stood before a push.

    `merge_base` is the base that the payload itself tells: of a merge group, and on a server that
    tests a pull request's head, not its merge. `address` is the repository's own page, unless that
    cannot be linked.
    """

    kind: Kind
    name: str
    repository: str
    repository_id: int | None
    tracked_branch: str
    sha: str
    run_id: int
    run: RunIdentity
    workflow: str
    address: str | None = None
    server: Server = "github"
    job: str | None = None
    branch: str = ""
    pull: PullRequest | None = None
    merge_base: str | None = None
    before: str | None = None
    producer: ProducerRun | None = None

    @property
    def gates(self) -> bool:
        """Whether a regression may fail the check; a branch that is merged is only reported."""
        return self.kind not in (Kind.TRACKED_BRANCH, Kind.POSTING)

    @property
    def status_sha(self) -> str:
        """The commit that a check run belongs on: never the test merge."""
        return self.pull.head_sha if self.pull else self.sha


def read_event(
    environment: Mapping[str, str], payload: Mapping[str, Any], tracked_branch: str = ""
) -> Event:
    """The event of this run, from what the runner says and what GitHub sent.

    `tracked_branch` is the one whose records are baselines, if it is not the default branch.
    """
    name = _required(environment, "GITHUB_EVENT_NAME")
    if name == "pull_request_target":
        raise WrongUseError(
            "pull_request_target gives a fork's code your token, and its GITHUB_SHA is not what was"
            " measured; run on `pull_request`, and post for forks from a `workflow_run` job"
            " (examples/ci-score-fork-comment.yml)"
        )
    try:
        return _event(name, environment, payload, tracked_branch)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WrongUseError(
            f"the payload of this {name} event lacks what GitHub promises"
            f" ({type(error).__name__}: {error})"
        ) from None


def _event(
    name: str, environment: Mapping[str, str], payload: Mapping[str, Any], tracked_branch: str
) -> Event:
    tracked_branch = tracked_branch or _default_branch(environment, payload)
    group = payload["merge_group"] if name == "merge_group" else None
    if group is not None:
        pull = _queued_pull_request(group)
    else:
        pull = pull_of(payload["pull_request"]) if name == "pull_request" else None
    return Event(
        kind=_kind(name, environment, tracked_branch),
        name=name,
        repository=_required(environment, "GITHUB_REPOSITORY"),
        repository_id=_repository_id(environment, payload),
        tracked_branch=tracked_branch,
        sha=_sha(_required(environment, "GITHUB_SHA"), "GITHUB_SHA"),
        run_id=_int(environment, "GITHUB_RUN_ID"),
        run=RunIdentity(
            number=_int(environment, "GITHUB_RUN_NUMBER"),
            attempt=_int(environment, "GITHUB_RUN_ATTEMPT"),
            id=_int(environment, "GITHUB_RUN_ID"),
        ),
        workflow=workflow_path(environment.get("GITHUB_WORKFLOW_REF", "")),
        address=_address(environment),
        server="gitea" if has_gitea_s_path(environment.get("GITHUB_API_URL", "")) else "github",
        job=environment.get("GITHUB_JOB", "")[:LONGEST_JOB] or None,
        branch=_branch(environment.get("GITHUB_REF", "")),
        pull=pull,
        merge_base=_told_base(payload),
        before=_before(payload) if name == "push" else None,
        producer=_producer(payload) if name == "workflow_run" else None,
    )


def _address(environment: Mapping[str, str]) -> str | None:
    server = environment.get("GITHUB_SERVER_URL", "").rstrip("/")
    return page_address(f"{server}/{_required(environment, 'GITHUB_REPOSITORY')}")


def _branch(ref: str) -> str:
    """The branch of a ref; a tag has none."""
    return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else ""


def workflow_path(reference: str) -> str:
    """`owner/repo/.github/workflows/x.yml@main` → `.github/workflows/x.yml`; also of `x.yml`."""
    found = _WORKFLOW_PATH.fullmatch(reference)
    if found is not None:
        return found[1]
    file = reference.partition("@")[0]
    return f".github/workflows/{file}" if file and "/" not in file else reference


def _told_base(payload: Mapping[str, Any]) -> str | None:
    """The base of a merge group; or where a pull request's branch left its base, as Gitea says."""
    group, pull = payload.get("merge_group"), payload.get("pull_request")
    if group:
        return _sha(group["base_sha"], "merge_group.base_sha")
    told = pull.get("merge_base") if pull else None
    return _sha(told, "pull_request.merge_base") if told else None


def _repository_id(environment: Mapping[str, str], payload: Mapping[str, Any]) -> int | None:
    told = environment.get("GITHUB_REPOSITORY_ID") or (payload.get("repository") or {}).get("id")
    return _optional_int(str(told))


def _kind(name: str, environment: Mapping[str, str], tracked_branch: str) -> Kind:
    fixed = {
        "pull_request": Kind.PULL_REQUEST,
        "merge_group": Kind.MERGE_GROUP,
        "workflow_run": Kind.POSTING,
    }
    if name in fixed:
        return fixed[name]
    on_tracked = environment.get("GITHUB_REF") == f"refs/heads/{tracked_branch}"
    tracked = on_tracked and name in TRACKED_EVENTS
    return Kind.TRACKED_BRANCH if tracked else Kind.OTHER_BRANCH


def _default_branch(environment: Mapping[str, str], payload: Mapping[str, Any]) -> str:
    repository = payload.get("repository")
    branch = repository.get("default_branch") if isinstance(repository, dict) else None
    if isinstance(branch, str) and branch:
        return branch
    # A schedule's payload carries no repository, and a schedule runs on the default branch only.
    # Of other payloads without one the same is the safest guess: what is tracked is not trusted
    # by its kind, but by its run.
    return environment.get("GITHUB_REF_NAME", "")


def pull_of(row: Any) -> PullRequest:
    """A pull request, as a payload or the API describes it."""
    head = head_of(row)
    return PullRequest(
        number=int(row["number"]),
        head_sha=head.sha,
        base_ref=str(row["base"]["ref"]),
        head=head,
        merge_sha=row.get("merge_commit_sha"),
    )


def head_of(pull: Any) -> Head:
    """Where a pull request comes from."""
    head, repository = pull["head"], pull["head"]["repo"]
    return Head(
        sha=_sha(head["sha"], "pull_request.head.sha"),
        branch=str(head["ref"]),
        repository_id=None if repository is None else int(repository["id"]),
    )


def _before(payload: Mapping[str, Any]) -> str | None:
    """The commit before a push; a new branch has zeros there."""
    before = payload.get("before")
    is_commit = isinstance(before, str) and _SHA.fullmatch(before) and not _ZEROS.fullmatch(before)
    return str(before) if is_commit else None


def _queued_pull_request(group: Any) -> PullRequest | None:
    """A merge group names its pull request only in its branch, which is parsed strictly."""
    found = _QUEUE_REF.fullmatch(str(group["head_ref"]))
    base = str(group["base_ref"]).removeprefix("refs/heads/")
    if found is None or found[1] != base:
        return None
    return PullRequest(
        number=int(found[2]),
        head_sha=_sha(group["head_sha"], "merge_group.head_sha"),
        base_ref=base,
    )


def _producer(payload: Mapping[str, Any]) -> ProducerRun:
    run = payload["workflow_run"]
    if "head_repository" not in run:
        raise WrongUseError(
            "this server does not say whose run it reports; as Gitea, where a fork's own run may"
            " write its comment: the workflow that posts for forks is not needed there"
        )
    head, own = run.get("head_repository"), run["repository"]
    return ProducerRun(
        id=int(run["id"]),
        head_sha=_sha(run["head_sha"], "workflow_run.head_sha"),
        head_branch=str(run["head_branch"]),
        head_owner=str(head["owner"]["login"]) if head else None,
        from_fork=head is None or head["id"] != own["id"],
        event=str(run["event"]),
        # GITHUB_WORKFLOW_REF names the posting workflow; the producer's path is the run's own.
        workflow=workflow_path(str(run.get("path") or "")),
        run=RunIdentity(
            number=int(run["run_number"]), attempt=int(run["run_attempt"]), id=int(run["id"])
        ),
    )


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise WrongUseError(f"{name} is not set: is this a GitHub Actions job?")
    return value


def _int(environment: Mapping[str, str], name: str) -> int:
    text = _required(environment, name)
    if not text.isdecimal():
        raise WrongUseError(f"{name}: {text[:80]!r} is no number")
    return int(text)


def _optional_int(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _sha(text: Any, what: str) -> str:
    if not isinstance(text, str) or not _SHA.fullmatch(text):
        raise WrongUseError(f"{what}: {str(text)[:80]!r} is no commit")
    return text
