"""Records in artifacts: which uploads may be trusted, and the bytes of the record in them.

Anyone can open a pull request from a fork whose branch is called like ours, whose run uploads an
artifact called like ours. What the listing says is therefore checked, and then the run itself.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import time
from calendar import timegm
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from urllib.parse import quote

from ci_score.errors import (
    BadInputError,
    GitHubDownError,
    GitHubError,
    NoProvenanceError,
    NotThereError,
)
from ci_score.files.archives import read_member, read_members, too_large
from ci_score.files.disk import PROFILE_LIMIT, RECORD_LIMIT
from ci_score.github import gitea
from ci_score.github.api import MOST_JOBS, Api, as_expected, moment
from ci_score.github.commits import LARGEST_WORKFLOW, BaseLine
from ci_score.github.event import TRACKED_EVENTS, Event, workflow_path
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import RECORD_FILE, RunIdentity, of_attempt
from ci_score.model.stages import OpenedUpload, Upload

LARGEST_ZIP = 64 * 1024 * 1024
MOST_LISTED = 1000
# Where the listing does not say whose a run is, so many are asked before those of the branch are
# listed.
MOST_ASKED = 3
MOST_PROFILE_ARTIFACTS = 40
# They are kept in memory.
LARGEST_IN_ALL = 4 * PROFILE_LIMIT
# How a run ends that was not meant to leave anything.
LEFT_NOTHING = ("skipped", "cancelled")
# What of a workflow can leave a record: it names us, or calls what may name us.
_MAY_CALL_US = re.compile(
    rb"ci-score|uses[\"']?\s*:\s*[\"']?(?:\./|[^\s\"'#]+\.ya?ml\b)", re.IGNORECASE
)


@dataclass(slots=True)
class RecordArtifacts:
    """The uploads of one name on one branch by one workflow, named by its file or its path."""

    api: Api
    repository: str
    repository_id: int | None
    name: str
    branch: str
    workflow: str
    line: BaseLine
    _of_others: int = 0
    _runs: dict[int, Any] = field(default_factory=dict)
    _one_is_own: bool = False
    _listed_runs: frozenset[int] | None = None

    def __post_init__(self) -> None:
        self.workflow = workflow_path(self.workflow)

    def uploads(self) -> list[Upload]:
        """The branch's own uploads; those of other branches and of forks are left out."""
        if self.api.is_gitea:
            listed = gitea.newest_artifacts(self.api, self.repository, self.name)
        else:
            path = f"/repos/{self.repository}/actions/artifacts"
            listed = self.api.pages(path, "artifacts", name=self.name)
        found: list[Upload] = []
        seen = 0
        with as_expected():
            for artifact in listed:
                seen += 1
                if seen > MOST_LISTED:
                    if found:
                        break
                    raise GitHubDownError(
                        f"over {MOST_LISTED} artifacts are called {self.name}, and none of the"
                        " newest is the branch's own: upload those of pull requests under another"
                        " name"
                    )
                upload = self._own(artifact)
                if upload is not None:
                    found.append(upload)
        self._of_others = seen - len(found)
        return found

    def why_none(self) -> Reason | None:
        """Why the branch has no upload although its runs should have left one.

        None on a first run, and for a workflow that has just learned to leave records: as it is at
        the tested base, it leaves none.
        """
        if not self._of_others and not self._has_run():
            return None
        if not self._may_leave_records():
            return None
        if self._of_others:
            return Why.NONE_OF_THE_BRANCH(
                branch=self.branch, artifact=self.name, artifacts=self._of_others
            )
        return Why.NO_RECORD_LEFT(branch=self.branch, workflow=self.workflow, artifact=self.name)

    def _has_run(self) -> bool:
        """Whether the workflow has completed a run of the branch itself.

        The listing has runs of forks whose branch is called so; those are no runs of ours.
        """
        if self.api.is_gitea:
            runs = gitea.runs_of(self.api, self.repository, self.workflow, self.branch)
            return any(
                run["status"] == "completed" and run.get("conclusion") not in LEFT_NOTHING
                for run in runs
            )
        file = quote(self.workflow.rpartition("/")[2])
        try:
            listing = self.api.get(
                f"/repos/{self.repository}/actions/workflows/{file}/runs",
                branch=self.branch,
                status="completed",
                per_page=100,
            )
        except NotThereError:
            return False  # it is not on the default branch yet
        with as_expected():
            runs = listing["workflow_runs"]
            ours = any(
                run["event"] in TRACKED_EVENTS and run["conclusion"] not in LEFT_NOTHING
                for run in runs
            )
            return ours or int(listing["total_count"]) > len(runs)

    def _may_leave_records(self) -> bool:
        base = self.line.base()
        if base is None:
            return False
        lies_at = gitea.folders_of(self.workflow) if self.api.is_gitea else (self.workflow,)
        try:
            files = [self.line.file_at(base, path, LARGEST_WORKFLOW) for path in lies_at]
        except BadInputError:
            return True  # whatever it is, it cannot be looked into
        return any(data is not None and _MAY_CALL_US.search(data) is not None for data in files)

    def open(self, upload: Upload) -> OpenedUpload:
        """The record of an upload; BadInputError says why it cannot be trusted or read."""
        source = f"artifact {upload.id} of {upload.sha[:12]}"
        with as_expected():
            run = self._run(upload.run_id)
            if found := self._why_not_ours(run, upload.sha):
                raise BadInputError(
                    source, found=found, expected=f"a run of {self.workflow} on {self.branch}"
                )
            identity = RunIdentity(
                number=run["run_number"], attempt=run.get("run_attempt") or 1, id=upload.run_id
            )
        if upload.size > LARGEST_ZIP:
            raise BadInputError(
                source,
                found=f"{upload.size // 2**20} MiB",
                expected=f"at most {LARGEST_ZIP // 2**20} MiB",
            )
        path = f"/repos/{self.repository}/actions/artifacts/{upload.id}/zip"
        try:
            data = self.api.download(path, LARGEST_ZIP)
        except GitHubDownError as error:
            if not error.of_the_store:
                raise
            # One upload that the store cannot give is no reason to give up the others.
            raise BadInputError(source, found=str(error), expected="its bytes") from None
        check_digest(data, upload.digest, source)
        return OpenedUpload(read_member(data, RECORD_FILE, source, RECORD_LIMIT), identity)

    def _own(self, artifact: Any) -> Upload | None:
        run = artifact.get("workflow_run") or {}
        _demand(artifact, "workflow_run")
        _demand(run, "id", "head_sha", "repository_id", within="workflow_run.")
        if self.repository_id not in (None, run["repository_id"]) or not self._is_own(run):
            return None
        on_gitea = self.api.is_gitea
        return Upload(
            id=int(artifact["id"]),
            run_id=int(run["id"]),
            sha=str(run["head_sha"]),
            # There the same upload is written anew, and was created when its run's first was.
            created_at=str(artifact.get("updated_at" if on_gitea else "created_at") or ""),
            expired=bool(artifact.get("expired")),
            digest=artifact.get("digest"),
            size=int(artifact.get("size_in_bytes") or 0),
        )

    def _is_own(self, run: Any) -> bool:
        """Whether the run of an upload is one of the branch itself, as far as the listing says."""
        if not self.api.is_gitea:
            _demand(run, "head_repository_id", "head_branch", within="workflow_run.")
            ours = run["repository_id"] == run["head_repository_id"]
            return ours and bool(run["head_branch"] == self.branch)
        # Once there is one of ours, those before it are asked when they are opened.
        if not self._one_is_own:
            self._one_is_own = (
                self._why_not_ours(self._run(run["id"]), run["head_sha"]) is None
                if len(self._runs) < MOST_ASKED
                else run["id"] in self._runs_of_the_branch()
            )
        return self._one_is_own

    def _runs_of_the_branch(self) -> frozenset[int]:
        """The newest of its runs: strangers may have put any number of uploads before its own."""
        if self._listed_runs is None:
            runs = gitea.runs_of(self.api, self.repository, self.workflow, self.branch)
            self._listed_runs = frozenset(int(run["id"]) for run in runs)
        return self._listed_runs

    def _run(self, run_id: int) -> Any:
        if run_id not in self._runs:
            run = self.api.get(f"/repos/{self.repository}/actions/runs/{run_id}")
            _demand(run, "event", "path", "head_sha", "repository")
            self._runs[run_id] = run
        return self._runs[run_id]

    def _why_not_ours(self, run: Any, sha: str) -> str | None:
        if self.api.is_gitea:
            return gitea.why_not_ours(run, self.workflow, self.branch, sha)
        _demand(run, "head_repository", "head_branch")
        head, own = run["head_repository"], run["repository"]
        path = workflow_path(str(run["path"] or ""))
        wrong = {
            f"a run of the event {run['event']}": run["event"] not in TRACKED_EVENTS,
            f"a run of {path}": path != self.workflow,
            "a run of another repository": head is None or head["id"] != own["id"],
            f"a run of the branch {run['head_branch']}": run["head_branch"] != self.branch,
            "a run of another commit": run["head_sha"] != sha,
        }
        return next((words for words, is_wrong in wrong.items() if is_wrong), None)


def _demand(row: Any, *fields: str, within: str = "") -> None:
    """A server that does not say whose an artifact is must not look like one without any."""
    for name in fields:
        if name not in row:
            raise NoProvenanceError(f"{within}{name}")


def with_workflow(api: Api, event: Event) -> Event:
    """The event with its workflow's file, which the runner of a Gitea does not name.

    Where it cannot be asked for, no record is believed, and the report says so.
    """
    try:
        if event.workflow or not api.is_gitea:
            return event
        workflow = gitea.workflow_of_run(api, event.repository, event.run_id)
    except GitHubError:
        return event
    return replace(event, workflow=workflow)


def run_that_measured(api: Api, event: Event, attempt: int) -> RunIdentity:
    """The run, whose measurements say that they are of that attempt.

    The server knows better than they. Where it cannot be asked, the attempt is still to come.
    """
    try:
        if attempt <= event.run.attempt or not api.is_gitea:
            return event.run
        return gitea.run_with_newest_attempt(api, event)
    except GitHubError:
        return event.run


def began_at(api: Api, event: Event) -> float | None:
    """When the first attempt of the run was created, in seconds; None where nobody says so."""
    try:
        with as_expected():
            run = api.get(f"/repos/{event.repository}/actions/runs/{event.run_id}")
            created = run["started_at" if api.is_gitea else "created_at"]
            return float(timegm(time.strptime(moment(created), "%Y-%m-%dT%H:%M:%SZ")))
    except GitHubError:
        return None


def artifact_of_run(api: Api, repository: str, run_id: int, name: str) -> bytes | None:
    """The record in the newest artifact of that name of a run, or None where there is none."""
    newest = next(iter(uploads_of_run(api, repository, run_id, name)), None)
    return None if newest is None else record_in(api, repository, newest)


def uploads_of_run(api: Api, repository: str, run_id: int, name: str) -> list[Any]:
    """The artifacts of that name of a run, the newest first: one an attempt.

    The code that is measured may upload thousands of others, so the server is asked for the name.
    """
    with as_expected():
        rows = _artifacts_of(api, repository, run_id, name=name)
        return sorted((row for row in rows if row["name"] == name), key=_age, reverse=True)


def not_of_attempt(
    api: Api, repository: str, artifact: Any, run: RunIdentity, job: str | None
) -> Reason | None:
    """Why an artifact was not left by that attempt of its run: the job did not run then.

    A job has the name of its id, unless its workflow names it otherwise; then any job counts.
    """
    path = f"/repos/{repository}/actions/runs/{run.id}/attempts/{run.attempt}/jobs"
    with as_expected():
        jobs = list(islice(api.pages(path, "jobs"), MOST_JOBS))
        named = [one for one in jobs if _is_named(one["name"], job)]
        made = moment(artifact["created_at"])
        for one in named or jobs:
            if one["started_at"] is None or one["completed_at"] is None:
                continue
            if moment(one["started_at"]) <= made <= moment(one["completed_at"]):
                return None
        return Why.NOT_OF_ITS_ATTEMPT(attempt=run.attempt, uploaded=made)


def _is_named(name: str, job: str | None) -> bool:
    """`gate`, and of a matrix or of a called workflow `gate (h100)` and `caller / gate`."""
    return job is not None and name.rpartition(" / ")[2].partition(" (")[0] == job


def record_in(api: Api, repository: str, artifact: Any) -> bytes:
    """The bytes of the record in an artifact."""
    data = _zip(api, repository, artifact, LARGEST_ZIP)
    return read_member(data, RECORD_FILE, str(artifact["name"]), RECORD_LIMIT)


def profile_artifacts(
    api: Api, repository: str, run_id: int, pattern: str, attempt: int
) -> Iterator[tuple[str, int, list[tuple[str, bytes]]]]:
    """The files of each artifact of this run that the pattern fits, each with its attempt.

    Attempts of one are called `NAME~1` and `NAME~2`. Those that are alike in name are numbered by
    their age; where there is one alone, its attempt is 0. One that is still to come would be the
    newest whatever is measured again.
    """
    named: dict[tuple[str, int], list[Any]] = {}
    with as_expected():
        for row in _artifacts_of(api, repository, run_id):
            name, told = of_attempt(row["name"])
            if any(fnmatch.fnmatchcase(one, pattern) for one in (name, row["name"])):
                if told > attempt:
                    raise BadInputError(
                        row["name"],
                        found="an artifact of an attempt that is still to come",
                        expected=f"no other end of its name than ~1 to ~{attempt}",
                    )
                named.setdefault((name, told), []).append(row)
    wanted = list(_attempts_of(named, attempt))
    if len(wanted) > MOST_PROFILE_ARTIFACTS:
        raise GitHubError(
            f"{len(wanted)} artifacts fit {pattern!r}, and at most {MOST_PROFILE_ARTIFACTS} are"
            " read this way, because each costs a request: let the composite `gate` download them,"
            " or a step before this one (actions/download-artifact with `pattern` and"
            " `merge-multiple`), and name the folder in `profiles`"
        )
    left = LARGEST_IN_ALL
    for name, number, row in wanted:
        data = _zip(api, repository, row, PROFILE_LIMIT)
        members = list(read_members(data, name, PROFILE_LIMIT))
        left -= sum(len(member) for _, member in members)
        if left < 0:
            raise too_large(f"all artifacts of {pattern}", LARGEST_IN_ALL)
        yield name, number, members


def _attempts_of(
    named: Mapping[tuple[str, int], list[Any]], attempt: int
) -> Iterator[tuple[str, int, Any]]:
    """Each artifact with its attempt: what tells none is of the last attempts, in its order."""
    for (name, told), rows in sorted(named.items(), key=lambda one: one[0]):
        in_order = sorted(rows, key=_age)
        if told or len(rows) == 1:
            yield name, told, in_order[-1]
            continue
        newest = in_order[-attempt:]
        yield from ((name, number, row) for number, row in enumerate(newest, start=1))


def _age(artifact: Any) -> tuple[str, int]:
    """What sorts artifacts by their time; ids are not in the order of the uploads."""
    return str(artifact.get("created_at") or ""), int(artifact["id"])


def check_digest(data: bytes, digest: str | None, source: str) -> None:
    """The listing's sha256 must be that of the bytes; older uploads have none."""
    if digest is None:
        return
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if found != digest:
        raise BadInputError(source, found=f"the digest {found[:24]}…", expected=f"{digest[:24]}…")


def _artifacts_of(api: Api, repository: str, run_id: int, **named: str) -> Iterable[Any]:
    path = f"/repos/{repository}/actions/runs/{run_id}/artifacts"
    return (row for row in api.pages(path, "artifacts", **named) if not row.get("expired"))


def _zip(api: Api, repository: str, artifact: Any, limit: int) -> bytes:
    data = api.download(f"/repos/{repository}/actions/artifacts/{artifact['id']}/zip", limit)
    check_digest(data, artifact.get("digest"), str(artifact["name"]))
    return data
