"""What a Gitea answers otherwise than GitHub, as far as we rely on it; tried with 1.26.

Its listing of artifacts does not say which branch or repository a run was of, so each run is asked.
It keeps one attempt of a run, and one upload of a name. It makes no test merges, and has no check
runs, annotations, summaries or merge queue. All jobs are one user: a fork's may edit what others
have said, and those of the repository's own branches what people have said, too; within a second
an edit leaves no trace. A job's attempt is how often that job has begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import quote

from ci_score.errors import NotThereError
from ci_score.github.api import GITEA_PAGE, MOST_JOBS, Api, as_expected
from ci_score.github.event import TRACKED_EVENTS, Event, workflow_path
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import RunIdentity

# Of the newest uploads; a page holds fifty, and the oldest come first.
MOST_PAGES_OF_ARTIFACTS = 6
MOST_COMMITS = 500
DIFF = "text/plain"


def workflow_of_run(api: Api, repository: str, run_id: int) -> str:
    """The workflow of a run, whose job is told its name only."""
    with as_expected():
        run = api.get(f"/repos/{repository}/actions/runs/{run_id}")
        return workflow_path(str(run["path"]))


def run_with_newest_attempt(api: Api, event: Event) -> RunIdentity:
    """The run, with the attempt of the job that has begun most often.

    The job that measures is an attempt ahead where the run was cancelled before the gate began.
    """
    path = f"/repos/{event.repository}/actions/runs/{event.run_id}/jobs"
    with as_expected():
        jobs = islice(api.pages(path, "jobs"), MOST_JOBS)
        newest = max((int(job["run_attempt"]) for job in jobs), default=0)
    return event.run.but(attempt=max(event.run.attempt, newest))


def newest_artifacts(api: Api, repository: str, name: str) -> Iterator[Any]:
    """The artifacts of that name, the newest first."""
    path = f"/repos/{repository}/actions/artifacts"
    first = api.get(path, name=name, limit=GITEA_PAGE, page=1)
    last = max(1, -(-int(first["total_count"]) // GITEA_PAGE))
    for page in islice(range(last, 0, -1), MOST_PAGES_OF_ARTIFACTS):
        listed = first if page == 1 else api.get(path, name=name, limit=GITEA_PAGE, page=page)
        yield from reversed(listed["artifacts"] or [])


def why_not_ours(run: Any, workflow: str, branch: str, sha: str) -> str | None:
    """Why a run is none of the branch itself; of a fork's, the path names its pull request."""
    file, _, ref = str(run["path"]).partition("@")
    wrong = {
        f"a run of the event {run['event']}": run["event"] not in TRACKED_EVENTS,
        f"a run of {file}": not is_same_workflow(file, workflow),
        f"a run of {ref}": ref != f"refs/heads/{branch}" or run.get("head_branch") != branch,
        "a run of another commit": run["head_sha"] != sha,
    }
    return next((words for words, is_wrong in wrong.items() if is_wrong), None)


def is_same_workflow(one: str, other: str) -> bool:
    """Whether two names are of one workflow: a run has its file's name without the folder."""
    return one.rpartition("/")[2] == other.rpartition("/")[2]


def folders_of(workflow: str) -> tuple[str, ...]:
    """Where the file of a workflow may lie."""
    file = workflow.rpartition("/")[2]
    return f".gitea/workflows/{file}", f".github/workflows/{file}"


def runs_of(api: Api, repository: str, workflow: str, branch: str) -> Iterator[Any]:
    """The newest runs of a workflow on the branch itself; there is no listing of a workflow's."""
    for event in sorted(TRACKED_EVENTS):
        listing = api.get(
            f"/repos/{repository}/actions/runs", branch=branch, event=event, limit=GITEA_PAGE
        )
        with as_expected():
            for run in listing["workflow_runs"] or []:
                if why_not_ours(run, workflow, branch, run["head_sha"]) is None:
                    yield run


def merge_base(api: Api, repository: str, base: str, head: str) -> str:
    """Where head left base: the one parent, of what only head has, that base has too.

    There may be several, where head has merged base; then the newest of them.
    """
    answer = api.get(f"/repos/{repository}/compare/{quote(base, safe='')}...{head}")
    with as_expected():
        own = {str(one["sha"]): one for one in answer["commits"] or []}
        if not own:
            return head
        left = {str(parent["sha"]) for one in own.values() for parent in one["parents"]}
        left -= own.keys()
        if len(left) == 1:
            return left.pop()
        for commit in islice(api.pages(f"/repos/{repository}/commits", sha=base), MOST_COMMITS):
            if commit["sha"] in left:
                return str(commit["sha"])
    raise NotThereError(f"{base} and {head[:12]} have no commit in common")


def diff_path(event: Event, base: str, head: str, *, first_parent: str | None) -> str | None:
    """Where it gives the diff of two commits as text: it has one of a commit or a pull request.

    Its comparison is JSON whatever is asked for, and has no lines.
    """
    path = f"/repos/{event.repository}"
    if base == first_parent:
        return f"{path}/git/commits/{head}.diff"
    pull = event.pull
    if pull is not None and (base, head) == (event.merge_base, pull.head_sha):
        return f"{path}/pulls/{pull.number}.diff"
    return None


def reviews(api: Api, repository: str, number: int) -> Iterator[Any]:
    """The reviews of a pull request, the oldest first, but for those that were withdrawn."""
    rows = api.pages(f"/repos/{repository}/pulls/{number}/reviews")
    return (row for row in rows if not row["dismissed"])


def why_not_accepted(review: Any, sha: str) -> Reason | None:
    """Why what a review says of that commit accepts nothing.

    Nobody can edit the text of an approval. It is official only of somebody who may write.
    """
    if review["state"] != "APPROVED":
        return Why.NO_APPROVAL()
    if review["commit_id"] != sha:
        return Why.BEFORE_THE_COMMITS()
    return None if review["official"] is True else Why.NOT_OFFICIAL()
