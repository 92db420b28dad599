"""The job: the cases in the files that the inputs name, and the commit that is checked out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ci_score.baselines import FolderBaselines
from ci_score.model.lists import some_of
from ci_score.model.reasons import Reason, Why
from ci_score.model.verdict import Unjudged, Verdict, unjudged
from ci_score.run.case_files import (
    CaseFiles,
    find_files,
    find_measurements,
    said_by_failures,
    to_be_read,
)
from ci_score.run.reading import read_cases
from ci_score.run.rules import rules_here
from ci_score.run.sessions import Expected, of_this_run
from ci_score.run.settings import Producer, Settings
from ci_score.run.story import Job

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of each case, or why there are none."""

    files: CaseFiles
    problem: Verdict | None = None


def job_of(
    settings: Settings,
    profiles: Callable[[], Profiles],
    *,
    is_local: bool = False,
    until: float | None = None,
    expected: Expected | None = None,
) -> Job:
    """The job. Unless the producer succeeded, nothing was measured, whatever files it left.

    On a machine of their own a person may name files wherever they are. What is not read at `until`
    stays unread, and what is not of the run as `expected` is left out.
    """
    if settings.producer is not None and settings.producer.result != "success":
        said = said_by_failures(settings.measurements, settings.workspace)
        return Job((), unjudged=_unmeasured(settings.producer, said))
    profiled, workspace = profiles(), settings.workspace
    asked = settings.measurements
    by_default = "profiles" not in settings.inputs and not settings.profile_artifact
    prepared = partial(to_be_read, step_name=settings.step_name, until=until)
    measured = find_measurements(asked, workspace, may_leave=is_local) if asked else None
    cases = read_cases(
        of_this_run(prepared(profiled.files), expected),
        None if measured is None else of_this_run(prepared(measured), expected),
        prepared(find_files(settings.parity, workspace, may_leave=is_local)),
        asked,
        by_default=by_default,
    )
    problem = profiled.problem
    if not cases and problem is None:
        problem = unjudged(
            Unjudged.NOTHING_MEASURED, _nothing_in(settings, measured or {}, by_default=by_default)
        )
    return Job(cases, settings.workload, unjudged=problem)


def _nothing_in(settings: Settings, measured: CaseFiles, *, by_default: bool) -> Reason:
    """Why there is no case: nothing lies where the inputs look, or what lies there is empty."""
    asked = settings.measurements
    empty = [file.name for files in measured.values() for file in files]
    if empty:
        return Why.EMPTY_MEASUREMENTS(where=some_of(empty))
    # What nobody has named is not what is missing.
    named_alone = bool(asked) and by_default
    sources = asked if named_alone else (*settings.profiles, *asked)
    looked = ", ".join(source.pattern for source in sources)
    where = settings.profile_artifact or looked or "no profiles"
    return (Why.NO_MEASUREMENTS if named_alone else Why.NOTHING_FOUND)(where=where)


def _unmeasured(producer: Producer, said: Iterable[Reason] = ()) -> Verdict:
    """Why there is nothing to judge, by how the job ended that should have measured."""
    reasons = {
        "failure": Unjudged.NOTHING_MEASURED,
        "cancelled": Unjudged.CANCELLED,
        "skipped": Unjudged.SKIPPED,
    }
    if producer.result not in reasons:
        return unjudged(Unjudged.UNKNOWN_RESULT, Why.RESULT_UNKNOWN(result=producer.result))
    if producer.result == "skipped" and producer.not_needed:
        return unjudged(Unjudged.NOT_NEEDED, Why.NOT_NEEDED(words=producer.not_needed))
    ended = Why.JOB_ENDED(job=producer.name, result=producer.result)
    failed = producer.result == "failure"
    return unjudged(reasons[producer.result], ended, *(said if failed else ()))


def job_of_files(settings: Settings, store: FolderBaselines | None = None) -> Job:
    """The job of the files in the workspace that the inputs name, without GitHub."""
    rules = rules_here(settings, store)
    # What nobody has typed may be a stranger's link.
    is_typed = "profiles" in settings.inputs
    profiles = Profiles(find_files(settings.profiles, settings.workspace, may_leave=is_typed))
    job = job_of(settings, lambda: profiles, is_local=True)
    return replace(job, policy=rules.file, own_policy=rules.own)


def profiles_in_workspace(settings: Settings) -> Profiles:
    """The files that the inputs of a job name."""
    return Profiles(find_files(settings.profiles, settings.workspace))


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
