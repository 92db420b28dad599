"""The same state as a Gitea shows it: the answers that differ, as a real 1.26.4 gave them.

What is the same is GitHub's: this face is only as complete as what ci-score asks for.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from tests.loopback_github import history
from tests.loopback_github.diffs import diff
from tests.loopback_github.events import Event
from tests.loopback_github.messages import Json, Refusal, Reply, Request, json_reply, paginate
from tests.loopback_github.routes import Api
from tests.loopback_github.server import LoopbackGitHub
from tests.loopback_github.state import State, WorkflowRun

VERSION = "1.26.4"
BOT = "gitea-actions"
PREFIX = "/api/v1"
LARGEST_PAGE = 50
# What GitHub has and Gitea does not.
ABSENT = re.compile(
    r".*/(commits/[^/]+|commits/[^/]+/pulls|check-runs|attempts/.*|workflows/[^/]+/runs)"
)
SHOWN_OF_A_RUN = (
    *("id", "url", "html_url", "display_title", "event", "run_number", "head_sha", "status"),
    *("conclusion", "repository", "actor"),
)
NEVER = "0001-01-01T00:00:00Z"


class LoopbackGitea(LoopbackGitHub):
    """A Gitea on loopback, for as long as the `with` block lasts."""

    def __init__(self, state: State) -> None:
        """Bind the ports."""
        super().__init__(state, prefix=PREFIX)
        state.artifacts_oldest_first = True
        self.api = GiteaApi(state, self.links, self.blob.sign)
        self._api.answer, self._api.common_headers = self.api, self.api.common_headers


class GiteaApi(Api):
    """GitHub's answers, made into Gitea's."""

    def common_headers(self, request: Request) -> dict[str, str]:
        """Nothing of GitHub's: no limits, no versions."""
        return {"cache-control": "max-age=0, private, must-revalidate, no-transform"}

    def __call__(self, request: Request) -> Reply:
        """The answer as a Gitea words it."""
        if request.path == "/version":
            return json_reply({"version": VERSION})
        if ABSENT.fullmatch(request.path) and "/git/" not in request.path:
            return Reply(404, {"content-type": "text/plain"}, b"404 page not found\n")
        if request.path.endswith("/permission"):
            return Refusal(403, "Only admins can query all permissions").reply()
        if "created_by" in request.query:
            # The user of all jobs is none of those that it looks for.
            return Refusal(404, "The target couldn't be found.").reply()
        with self.state.lock:
            if request.path.endswith("/actions/runs"):
                return self._runs(request)
            if found := re.search(r"/pulls/(\d+)/reviews$", request.path):
                return self._reviews(request, int(found[1]))
            if request.path.endswith(".diff"):
                return self._diff(request)
            if found := re.search(r"/actions/runs/(\d+)/jobs$", request.path):
                return self._jobs(int(found[1]))
            reply = super().__call__(_as_github(request))
            if reply.status >= 300 or not reply.body:
                return reply
            headers = {name: value for name, value in reply.headers.items() if name != "link"}
            body = self._reshaped(request, json.loads(reply.body))
            if isinstance(body, list):
                every = super().__call__(replace(request, query_string=_of_all(request)))
                headers["x-total-count"] = str(len(json.loads(every.body)))
            return Reply(reply.status, headers, json.dumps(body).encode())

    def _reshaped(self, request: Request, body: Any) -> Any:
        path = request.path
        if re.search(r"/actions/runs/\d+$", path):
            return self._run(self._newest(body["id"]), body)
        if "/compare/" in path:
            return {"total_commits": len(body["commits"]), "commits": body["commits"]}
        if path.endswith("/artifacts"):
            return {**body, "artifacts": [_artifact(row) for row in body["artifacts"]]}
        if path.endswith("/issues") and isinstance(body, list):
            body = [{"pull_request": None, **row} for row in body]
        rows = body if isinstance(body, list) else [body]
        for row in rows:
            if isinstance(row.get("user"), dict):
                row["user"] = {"id": row["user"]["id"], "login": row["user"]["login"]}
            row.pop("author_association", None)
            row.pop("performed_via_github_app", None)
        return body

    def _reviews(self, request: Request, number: int) -> Reply:
        rows = self.state.reviews.get(number, [])
        page = paginate(rows, _as_github(request), "")
        return json_reply(page.items, headers={"x-total-count": str(len(rows))})

    def _diff(self, request: Request) -> Reply:
        """Of a commit or of a pull request, as text whatever is asked for; of no comparison."""
        graph = {one.sha: one for one in self.state.commits}
        pulls = {str(one.number): one for one in self.state.pull_requests}
        commit = re.search(r"/git/commits/(\w+)\.diff$", request.path)
        pull = re.search(r"/pulls/(\d+)\.diff$", request.path)
        if commit and commit[1] in graph:
            head = graph[commit[1]]
            base = graph[head.parents[0]].files if head.parents else {}
        elif pull and pull[1] in pulls:
            own = pulls[pull[1]]
            head = graph[own.head_sha]
            tip = self.state.repository_named(own.repository).branches[own.base_ref]
            left = history.merge_base(graph, tip, own.head_sha)
            base = graph[left].files if left else {}
        else:
            return Refusal(404, "not found").reply()
        kind = {"content-type": "text/plain; charset=utf-8"}
        return Reply(200, kind, diff(base, head.files).encode())

    def _jobs(self, run_id: int) -> Reply:
        """Each of its jobs, with how often it has begun; there are no attempts of a run."""
        rows = [
            {"id": job.id, "name": job.name, "run_attempt": job.run_attempt}
            for job in self.state.jobs
            if job.run_id == run_id
        ]
        return json_reply({"total_count": len(rows), "jobs": rows})

    def _newest(self, run_id: int) -> WorkflowRun:
        return [run for run in self.state.runs if run.id == run_id][-1]

    def _run(self, record: WorkflowRun, body: Json) -> Json:
        """Its path names the ref; a pull request's has no branch, and no run has its repository."""
        own = record.head_repository == record.repository
        shown = {name: body[name] for name in SHOWN_OF_A_RUN}
        shown |= {"path": _path(record), "run_attempt": 0, "started_at": body["run_started_at"]}
        if own and record.event not in ("pull_request", "pull_request_target"):
            shown["head_branch"] = record.head_branch
        return shown

    def _runs(self, request: Request) -> Reply:
        """The newest first; `branch` leaves out the runs of pull requests."""
        query = request.query
        reply = super().__call__(replace(request, query_string="per_page=100"))
        shown = [
            self._run(self._newest(body["id"]), body)
            for body in json.loads(reply.body)["workflow_runs"]
        ]
        for name, wanted in (
            ("event", "event"),
            ("branch", "head_branch"),
            ("head_sha", "head_sha"),
        ):
            shown = [run for run in shown if query.get(name) in (None, run.get(wanted))]
        page = paginate(shown, _as_github(request), "")
        total = {"x-total-count": str(len(shown))}
        return json_reply({"workflow_runs": page.items, "total_count": len(shown)}, headers=total)


def on_gitea(event: Event, state: State) -> Event:
    """The event as a job gets it: the head is what is tested, and the payload has the base."""
    environment = {
        name: value
        for name, value in event.environment.items()
        if name not in ("GITHUB_WORKFLOW_REF", "GITHUB_WORKFLOW_SHA", "GITHUB_REPOSITORY_ID")
    }
    payload = dict(event.payload)
    if event.name == "pull_request":
        number, pull = payload["number"], dict(payload["pull_request"])
        graph = state.graph(state.repository_named(event.run.repository))
        head, base = pull["head"]["sha"], pull["base"]["ref"]
        tip = state.repository_named(event.run.repository).branches[base]
        pull |= {"merge_base": history.merge_base(graph, tip, head), "merge_commit_sha": None}
        payload |= {"pull_request": pull, "action": "synchronized"}
        ref = {"GITHUB_REF": f"refs/pull/{number}/head", "GITHUB_REF_NAME": str(number)}
        environment |= {"GITHUB_SHA": head, **ref}
    return replace(event, payload=payload, environment=environment)


def _path(record: WorkflowRun) -> str:
    file = record.path.split("@")[0].rpartition("/")[2]
    if record.event in ("pull_request", "pull_request_target"):
        number = next(iter(record.pull_requests), 1)
        return f"{file}@refs/pull/{number}/head"
    return f"{file}@refs/heads/{record.head_branch}"


def _artifact(row: Json) -> Json:
    """No digest, and of its run only three fields are filled."""
    run = row["workflow_run"]
    known = {name: run[name] for name in ("id", "repository_id", "head_sha")}
    empty = dict.fromkeys(("url", "html_url", "path", "event", "status"), "")
    times = {"started_at": NEVER, "completed_at": NEVER}
    kept = {name: value for name, value in row.items() if name not in ("digest", "node_id")}
    return {**kept, "workflow_run": {**empty, "run_attempt": 0, "run_number": 0, **times, **known}}


def _of_all(request: Request) -> str:
    """The same list from its start, as long as a page of GitHub's can be."""
    pages = ("page", "limit", "per_page")
    kept = {name: value for name, value in request.query.items() if name not in pages}
    return urlencode({**kept, "per_page": 100})


def _as_github(request: Request) -> Request:
    """`limit` for `per_page`; of comments all come at once."""
    query = {name: value for name, value in request.query.items() if name != "per_page"}
    size = query.pop("limit", "30")
    if request.path.endswith("/comments"):
        query.pop("page", None)
        size = "100"
    else:
        size = str(min(int(size), LARGEST_PAGE))
    return replace(request, query_string=urlencode({**query, "per_page": size}))
