"""What the runner hands a job: the event's payload and the GITHUB_* environment.

Each function takes the event's subject from a server's state and makes the run that the job
belongs to, so that the API knows it as well. The differences are GitHub's: which commit
GITHUB_SHA is, which ref, and what the payload lacks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.loopback_github import bodies
from tests.loopback_github.state import (
    WORKFLOW,
    Commit,
    PullRequest,
    Repository,
    State,
    WorkflowRun,
)

if TYPE_CHECKING:
    from tests.loopback_github.bodies import Links
    from tests.loopback_github.messages import Json
    from tests.loopback_github.server import LoopbackGitHub

NO_COMMIT = "0" * 40
JOB = "gate"
RUNNING = "in_progress"  # the run of a job that is just at work
# What the runner makes for a step to write to; a Docker action finds them in the container.
FILE_COMMANDS = (
    "GITHUB_OUTPUT",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_STATE",
)


@dataclass(frozen=True)
class Event:
    """One event: its name, its payload, its run, and the environment without the paths."""

    name: str
    payload: Json
    run: WorkflowRun
    environment: dict[str, str]

    def write(self, folder: Path, *, seen_as: str | None = None) -> dict[str, str]:
        """Write the payload and the empty file commands; the whole environment comes back.

        `seen_as` is what `folder` is called where the job runs, such as a container's path.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "event.json").write_text(json.dumps(self.payload), encoding="utf-8")
        shown = seen_as or str(folder)
        files = {"GITHUB_EVENT_PATH": f"{shown}/event.json"}
        for name in FILE_COMMANDS:
            (folder / name.lower()).touch()
            files[name] = f"{shown}/{name.lower()}"
        return {**self.environment, **files}


def pull_request(
    github: LoopbackGitHub, pull: PullRequest, *, action: str = "synchronize", path: str = WORKFLOW
) -> Event:
    """A pull request: GITHUB_SHA is its test merge, and its author is who runs it.

    Of a fork or of Dependabot it looks the same but for `head.repo` and the actor; that its
    token may only read is the state's matter (`FORK_PERMISSIONS`).
    """
    run = _pull_request_run(github.state, pull, "pull_request", path)
    ref = f"refs/pull/{pull.number}/merge"
    return _event(
        github,
        run,
        _pull_request_payload(github, pull, action),
        _commit_environment(pull.merge_commit_sha, ref) | _refs_of(pull),
    )


def pull_request_target(
    github: LoopbackGitHub, pull: PullRequest, *, action: str = "synchronize", path: str = WORKFLOW
) -> Event:
    """The same payload with all rights: GITHUB_SHA is the base branch's tip."""
    run = _pull_request_run(github.state, pull, "pull_request_target", path)
    tip = github.state.repository_named(pull.repository).branches[pull.base_ref]
    return _event(
        github,
        run,
        _pull_request_payload(github, pull, action),
        _commit_environment(tip, f"refs/heads/{pull.base_ref}") | _refs_of(pull),
    )


def push(
    github: LoopbackGitHub,
    repository: Repository,
    branch: str | None = None,
    *,
    path: str = WORKFLOW,
    actor: str = "developer",
) -> Event:
    """A push of one commit to a branch, by default to the default branch."""
    state, name = github.state, branch or repository.default_branch
    run = state.run(
        repository, event="push", path=path, head_branch=name, actor=actor, status=RUNNING
    )
    head = state.graph(repository)[run.head_sha]
    before = head.parents[0] if head.parents else NO_COMMIT
    payload = {
        "ref": f"refs/heads/{name}",
        "before": before,
        "after": head.sha,
        "base_ref": None,
        "compare": f"{github.links.web}/{repository.full_name}/compare/{before}...{head.sha}",
        "created": not head.parents,
        "deleted": False,
        "forced": False,
        "commits": [_pushed(github.links, repository, head)],
        "head_commit": _pushed(github.links, repository, head),
        "pusher": {"name": actor, "email": f"{actor}@users.noreply.localhost"},
        **_scene(github, repository, actor),
    }
    return _event(github, run, payload, _commit_environment(head.sha, f"refs/heads/{name}"))


def schedule(
    github: LoopbackGitHub,
    repository: Repository,
    *,
    cron: str = "0 3 * * *",
    path: str = WORKFLOW,
) -> Event:
    """A scheduled run of the default branch; its payload carries no repository."""
    run = github.state.run(repository, event="schedule", path=path, status=RUNNING)
    payload = {"schedule": cron, "workflow": path}
    return _event(github, run, payload, _branch_environment(repository, run.head_sha))


def workflow_dispatch(
    github: LoopbackGitHub,
    repository: Repository,
    branch: str | None = None,
    *,
    inputs: dict[str, str] | None = None,
    path: str = WORKFLOW,
    actor: str = "developer",
) -> Event:
    """A run that somebody has started by hand on a branch."""
    name = branch or repository.default_branch
    run = github.state.run(
        repository,
        event="workflow_dispatch",
        path=path,
        head_branch=name,
        actor=actor,
        status=RUNNING,
    )
    ref = f"refs/heads/{name}"
    payload = {
        "inputs": inputs,
        "ref": ref,
        "workflow": path,
        **_scene(github, repository, actor),
    }
    return _event(github, run, payload, _commit_environment(run.head_sha, ref))


def merge_group(github: LoopbackGitHub, pull: PullRequest, *, path: str = WORKFLOW) -> Event:
    """A pull request in the merge queue: on a branch of its own, unnamed in the payload."""
    state = github.state
    repository = state.repository_named(pull.repository)
    base_sha = repository.branches[pull.base_ref]
    branch = f"gh-readonly-queue/{pull.base_ref}/pr-{pull.number}-{base_sha}"
    text = f"Merge pull request #{pull.number}"
    head = state.commit(repository, branch, message=text, parents=[base_sha, pull.head_sha])
    actor = "github-merge-queue[bot]"
    run = state.run(
        repository, event="merge_group", path=path, head_branch=branch, actor=actor, status=RUNNING
    )
    payload = {
        "action": "checks_requested",
        "merge_group": {
            "head_sha": head.sha,
            "head_ref": f"refs/heads/{branch}",
            "base_sha": base_sha,
            "base_ref": f"refs/heads/{pull.base_ref}",
            "head_commit": bodies.simple_commit(head),
        },
        **_scene(github, repository, actor),
    }
    return _event(github, run, payload, _commit_environment(head.sha, f"refs/heads/{branch}"))


def workflow_run(
    github: LoopbackGitHub, producer: WorkflowRun, *, path: str = ".github/workflows/post.yml"
) -> Event:
    """The end of another run. The job runs on the default branch, whatever the producer ran on.

    Of a fork's run `pull_requests` is empty, as `State.run` leaves it.
    """
    repository = github.state.repository_named(producer.repository)
    run = github.state.run(
        repository, event="workflow_run", path=path, actor=producer.actor, status=RUNNING
    )
    payload = {
        "action": "completed",
        "workflow_run": bodies.run(github.links, github.state, producer),
        "workflow": {
            "id": producer.workflow_id,
            "name": bodies.workflow_name(producer),
            "path": producer.path.split("@")[0],
            "state": "active",
        },
        **_scene(github, repository, producer.actor),
    }
    return _event(github, run, payload, _branch_environment(repository, run.head_sha))


def rerun(github: LoopbackGitHub, event: Event) -> Event:
    """The same event again, as the next attempt of its run."""
    run = github.state.rerun(event.run, status=RUNNING)
    attempt = {"GITHUB_RUN_ATTEMPT": str(run.run_attempt)}
    return replace(event, run=run, environment=event.environment | attempt)


def _pull_request_run(state: State, pull: PullRequest, event: str, path: str) -> WorkflowRun:
    """GitHub names the pull request's head on the run, also where the job sees the merge."""
    from_fork = pull.head_repository != pull.repository
    head = state.repository_named(pull.head_repository) if pull.head_repository else None
    return state.run(
        state.repository_named(pull.repository),
        event=event,
        path=path,
        head_branch=pull.head_ref,
        head_sha=pull.head_sha,
        head_repository=head,
        actor=pull.author,
        pull_requests=() if from_fork else (pull.number,),
        status=RUNNING,
    )


def _pull_request_payload(github: LoopbackGitHub, pull: PullRequest, action: str) -> Json:
    repository = github.state.repository_named(pull.repository)
    return {
        "action": action,
        "number": pull.number,
        "pull_request": bodies.pull_request(github.links, github.state, pull),
        **_scene(github, repository, pull.author),
    }


def _scene(github: LoopbackGitHub, repository: Repository, actor: str) -> Json:
    """What nearly every payload has: where it happened and who did it."""
    state, links = github.state, github.links
    return {
        "repository": bodies.repository(links, state, repository),
        "organization": bodies.user(links, state.account(repository.owner)),
        "sender": bodies.user(links, state.account(actor)),
    }


def _pushed(links: Links, repository: Repository, commit: Commit) -> Json:
    return {
        **bodies.simple_commit(commit),
        "distinct": True,
        "url": f"{links.web}/{repository.full_name}/commit/{commit.sha}",
        "added": [],
        "modified": [],
        "removed": [],
    }


def _event(
    github: LoopbackGitHub, run: WorkflowRun, payload: Json, commit: dict[str, str]
) -> Event:
    environment = _run_environment(github, run) | _workflow_environment(run, commit) | commit
    return Event(run.event, payload, run, environment)


def _commit_environment(sha: str, ref: str) -> dict[str, str]:
    name = ref.removeprefix("refs/heads/").removeprefix("refs/pull/")
    return {
        "GITHUB_SHA": sha,
        "GITHUB_REF": ref,
        "GITHUB_REF_NAME": name,
        "GITHUB_REF_TYPE": "branch",
        "GITHUB_REF_PROTECTED": "false",
        "GITHUB_HEAD_REF": "",
        "GITHUB_BASE_REF": "",
    }


def _branch_environment(repository: Repository, sha: str) -> dict[str, str]:
    return _commit_environment(sha, f"refs/heads/{repository.default_branch}")


def _refs_of(pull: PullRequest) -> dict[str, str]:
    return {"GITHUB_HEAD_REF": pull.head_ref, "GITHUB_BASE_REF": pull.base_ref}


def _workflow_environment(run: WorkflowRun, commit: dict[str, str]) -> dict[str, str]:
    return {
        "GITHUB_WORKFLOW": bodies.workflow_name(run),
        "GITHUB_WORKFLOW_REF": f"{run.repository}/{run.path}@{commit['GITHUB_REF']}",
        "GITHUB_WORKFLOW_SHA": commit["GITHUB_SHA"],
    }


def _run_environment(github: LoopbackGitHub, run: WorkflowRun) -> dict[str, str]:
    state = github.state
    repository = state.repository_named(run.repository)
    return {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION": "__self",
        "GITHUB_ACTOR": run.actor,
        "GITHUB_ACTOR_ID": str(state.account(run.actor).id),
        "GITHUB_TRIGGERING_ACTOR": run.actor,
        "GITHUB_API_URL": github.links.api,
        "GITHUB_GRAPHQL_URL": f"{github.links.api}/graphql",
        "GITHUB_SERVER_URL": github.links.web,
        "GITHUB_EVENT_NAME": run.event,
        "GITHUB_JOB": JOB,
        "GITHUB_REPOSITORY": repository.full_name,
        "GITHUB_REPOSITORY_ID": str(repository.id),
        "GITHUB_REPOSITORY_OWNER": repository.owner,
        "GITHUB_REPOSITORY_OWNER_ID": str(state.account(repository.owner).id),
        "GITHUB_RETENTION_DAYS": "90",
        "GITHUB_RUN_ID": str(run.id),
        "GITHUB_RUN_NUMBER": str(run.run_number),
        "GITHUB_RUN_ATTEMPT": str(run.run_attempt),
        "RUNNER_ARCH": "X64",
        "RUNNER_ENVIRONMENT": "github-hosted",
        "RUNNER_NAME": "runner",
        "RUNNER_OS": "Linux",
    }
