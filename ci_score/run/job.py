"""The job: the cases in the files that the inputs name, and the commit that is checked out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ci_score.files.disk import read_bytes
from ci_score.judge.policy import LARGEST_POLICY, PolicyFile, read_policy
from ci_score.model.reasons import Why
from ci_score.model.verdict import Unjudged, Verdict, unjudged
from ci_score.run.case_files import CaseFiles, find_files, find_measurements
from ci_score.run.reading import read_cases
from ci_score.run.settings import Settings
from ci_score.run.story import Job

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of each case, or why there are none."""

    files: CaseFiles
    problem: Verdict | None = None


def job_of(settings: Settings, profiles: Callable[[], Profiles]) -> Job:
    """The job. If the producer failed, nothing was measured, whatever files it left."""
    policy = _policy(settings.config)
    if settings.producer is not None and settings.producer.failed:
        ended = Why.JOB_ENDED(job=settings.producer.name, result=settings.producer.result)
        return Job((), policy=policy, unjudged=unjudged(Unjudged.NOTHING_MEASURED, ended))
    profiled, workspace = profiles(), settings.workspace
    asked = settings.measurements
    cases = read_cases(
        profiled.files,
        find_measurements(asked, workspace) if asked else None,
        find_files(settings.parity, workspace),
        frozenset(source.name for source in asked if source.name),
    )
    problem = profiled.problem
    if not cases and problem is None:
        looked = [source.pattern for source in (*settings.profiles, *asked)]
        where = settings.profile_artifact or ", ".join(looked) or "no profiles"
        problem = unjudged(Unjudged.NOTHING_MEASURED, Why.NOTHING_FOUND(where=where))
    return Job(cases, settings.workload, policy, unjudged=problem)


def job_of_files(settings: Settings) -> Job:
    """The job of the files in the workspace that the inputs name."""
    return job_of(settings, lambda: profiles_in_workspace(settings))


def profiles_in_workspace(settings: Settings) -> Profiles:
    """The files that the inputs name."""
    return Profiles(find_files(settings.profiles, settings.workspace))


def _policy(path: Path | None) -> PolicyFile | None:
    """The workspace's policy, if it has one."""
    return read_policy(read_bytes(str(path), LARGEST_POLICY), path.name) if path else None


def checked_out(workspace: Path) -> str | None:
    """The commit that a checkout left, read without git, which slim images lack."""
    head = _line(workspace / ".git" / "HEAD")
    if head.startswith("ref: refs/") and ".." not in head:
        head = _line(workspace / ".git" / head.removeprefix("ref: "))
    return head if _COMMIT.fullmatch(head) else None


def _line(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="ascii") as stream:
            return stream.readline(200).strip()
    except (OSError, ValueError):
        return ""
