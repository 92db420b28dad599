"""Workflow runs, their jobs and their artifacts."""

from __future__ import annotations

from tests.loopback_github import bodies
from tests.loopback_github.endpoints.call import Call
from tests.loopback_github.messages import Refusal, Reply, json_reply, not_found
from tests.loopback_github.state import Artifact, WorkflowRun


def list_artifacts(call: Call) -> Reply:
    """The artifacts of every branch, pull request and fork, expired ones too."""
    return _listed(call, call.mine(call.state.artifacts))


def list_run_artifacts(call: Call) -> Reply:
    """The artifacts of all attempts of a run."""
    run = _run(call)
    mine = call.mine(call.state.artifacts)
    return _listed(call, [one for one in mine if one.run_id == run.id])


def _listed(call: Call, artifacts: list[Artifact]) -> Reply:
    name = call.request.query.get("name")
    found = [one for one in artifacts if name in (None, "", one.name)]
    if not call.state.artifacts_oldest_first:
        found.reverse()
    return call.counted("artifacts", found, bodies.artifact)


def get_artifact(call: Call) -> Reply:
    """One artifact's description."""
    found = call.one(call.state.artifacts, "artifact_id")
    return json_reply(bodies.artifact(call.links, call.state, found))


def download_artifact(call: Call) -> Reply:
    """The way to an artifact's bytes: a redirect to the blob host that soon expires."""
    found: Artifact = call.one(call.state.artifacts, "artifact_id")
    if call.params["archive_format"] != "zip":
        raise not_found()
    if found.expired:
        raise Refusal(410, "Artifact has expired")
    headers = {"location": call.sign(found.id), "content-type": "text/html;charset=utf-8"}
    return Reply(302, headers)


def list_runs(call: Call) -> Reply:
    """The newest attempt of every run, newest run first."""
    newest = {run.id: run for run in call.mine(call.state.runs)}
    found = [run for run in reversed(newest.values()) if _passes(call, run)]
    return call.counted("workflow_runs", found, bodies.run)


def list_workflow_runs(call: Call) -> Reply:
    """The runs of one workflow, by its file; 404 where no run ever had it on the default branch."""
    wanted = call.params["workflow_id"]
    mine = [run for run in call.mine(call.state.runs) if _file(run) == wanted]
    if not mine:
        raise not_found()
    newest = {run.id: run for run in mine}
    found = [run for run in reversed(newest.values()) if _passes(call, run)]
    return call.counted("workflow_runs", found, bodies.run)


def _file(run: WorkflowRun) -> str:
    return run.path.split("@")[0].rsplit("/", 1)[-1]


def _passes(call: Call, run: WorkflowRun) -> bool:
    query = call.request.query
    return (
        query.get("branch") in (None, "", run.head_branch)
        and query.get("event") in (None, "", run.event)
        and query.get("head_sha") in (None, "", run.head_sha)
        and query.get("status") in (None, "", run.status, run.conclusion)
    )


def get_run(call: Call) -> Reply:
    """The newest attempt of a run."""
    return json_reply(bodies.run(call.links, call.state, _run(call)))


def get_run_attempt(call: Call) -> Reply:
    """One attempt of a run."""
    wanted = (call.number("run_id"), call.number("attempt_number"))
    for run in call.mine(call.state.runs):
        if (run.id, run.run_attempt) == wanted:
            return json_reply(bodies.run(call.links, call.state, run))
    raise not_found()


def list_jobs(call: Call) -> Reply:
    """The jobs of a run's newest attempt."""
    run = _run(call)
    found = [
        job for job in call.state.jobs if (job.run_id, job.run_attempt) == (run.id, run.run_attempt)
    ]
    return call.counted("jobs", found, bodies.job)


def list_attempt_jobs(call: Call) -> Reply:
    """The jobs of one attempt of a run."""
    wanted = (_run(call).id, call.number("attempt_number"))
    found = [job for job in call.state.jobs if (job.run_id, job.run_attempt) == wanted]
    return call.counted("jobs", found, bodies.job)


def _run(call: Call) -> WorkflowRun:
    found: WorkflowRun = call.one(call.state.runs, "run_id")
    return found
