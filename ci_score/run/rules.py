"""Which policy is in force: the one at the tested base, so that no change loosens its own gate.

On GitHub the file is read from the repository at that commit, and nothing in the workspace or in
a record decides. Without GitHub there are only the named baseline's rules and the workspace's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ci_score.baselines import FolderBaselines
from ci_score.errors import BadInputError, GitHubError, WrongUseError
from ci_score.files.disk import leaves, read_bytes
from ci_score.github import Kind, commits
from ci_score.judge.policy import LARGEST_POLICY, Policy, PolicyFile, policy_of, read_policy
from ci_score.model.reasons import Reason, Why
from ci_score.model.verdict import Unjudged
from ci_score.run.inputs import INPUTS
from ci_score.run.settings import Settings

THE_BASELINE_S = "the baseline's policy"
# The defaults, without anything that a policy which cannot be read might have excused.
NO_EXCUSES: Mapping[str, Any] = {
    "schema": 1,
    "unjudged": {reason.value: "fail" for reason in Unjudged},
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy in force, or None for the defaults; `own` is the change's, where that differs."""

    file: PolicyFile | None = None
    own: Policy | None = None
    notices: tuple[Reason, ...] = ()


def rules_here(settings: Settings, store: FolderBaselines | None = None) -> Rules:
    """Without GitHub: the rules of the baseline that was named; else the workspace's file."""
    data = _in_workspace(settings)
    if data is None and settings.config != INPUTS["config"].default:
        raise WrongUseError(f"config: there is no file {settings.config[:200]!r}")
    own = None if data is None else read_policy(data, Path(settings.config).name)
    table = store.policy() if store is not None and settings.baseline is not None else None
    if table is None:
        return Rules(own)
    return Rules(policy_of(table, THE_BASELINE_S), own.policy if own else None)


def rules_in_job(settings: Settings, line: commits.BaseLine) -> Rules:
    """In a job: those at the tested base, and on the tracked branch those at its own commit."""
    path, event = _in_repository(settings.config), line.event
    try:
        sha = event.sha if event.kind is Kind.TRACKED_BRANCH else line.base()
        data = None if sha is None else line.file_at(sha, path, LARGEST_POLICY)
        file = None if data is None else read_policy(data, f"{path} at {str(sha)[:12]}")
    except (GitHubError, BadInputError) as error:
        unread = Why.POLICY_NOT_READ(path=path, words=str(error))
        return Rules(policy_of(NO_EXCUSES, "the defaults"), notices=(unread,))
    absent: tuple[Reason, ...] = ()
    if sha is not None and data is None and path != INPUTS["config"].default:
        absent = (Why.NO_SUCH_POLICY(path=path, commit=sha[:12]),)
    if event.kind in (Kind.TRACKED_BRANCH, Kind.POSTING):
        return Rules(file, notices=absent)
    return Rules(file, _own(settings, line, path, data), absent)


def _own(
    settings: Settings, line: commits.BaseLine, path: str, base: bytes | None
) -> Policy | None:
    """The change's own policy where it is another one: in its checkout, or at its commit."""
    elsewhere = settings.measured_elsewhere
    own = None if elsewhere else _checked_out(settings, path)
    if own is None and (elsewhere or not (settings.workspace / ".git").exists()):
        try:
            own = line.file_at(line.event.sha, path, LARGEST_POLICY)
        except GitHubError:
            return None
    if own == base:
        return None
    return Policy() if own is None else read_policy(own, PurePosixPath(path).name).policy


def _in_workspace(settings: Settings) -> bytes | None:
    path = settings.workspace / settings.config
    return read_bytes(str(path), LARGEST_POLICY) if path.is_file() else None


def _checked_out(settings: Settings, path: str) -> bytes | None:
    """The policy of the checkout, which is the pull request's: a link may lead to a secret."""
    if leaves(settings.workspace / path, settings.workspace):
        raise BadInputError(
            path, found="a link that leaves the workspace", expected="a file of the workspace"
        )
    return _in_workspace(settings)


def _in_repository(config: str) -> str:
    path = PurePosixPath(config)
    if path.is_absolute() or ".." in path.parts or path == PurePosixPath():
        raise WrongUseError(
            f"config: {config[:200]!r} is not a path inside the repository, where the policy of the"
            " tested base is read"
        )
    return str(path)
