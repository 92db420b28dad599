"""Check runs."""

from __future__ import annotations

from tests.loopback_github import bodies
from tests.loopback_github.endpoints.call import Call
from tests.loopback_github.messages import Json, Reply, invalid_field, json_reply
from tests.loopback_github.state import CheckRun

MAX_TEXT = 65_535
MAX_ANNOTATIONS = 50
PLAIN_FIELDS = ("name", "status", "conclusion", "completed_at", "details_url", "external_id")
OUTPUT_FIELDS = ("title", "summary", "text")


def create_check_run(call: Call) -> Reply:
    """A check run on a commit that the repository must have."""
    values = call.request.json()
    for name in ("name", "head_sha"):
        if not isinstance(values.get(name), str):
            raise invalid_field("CheckRun", name, "missing_field")
    sha = call.commit_sha(values["head_sha"])
    _check(values)
    made = call.state.check_run(call.repository, sha, values["name"])
    _apply(made, values, call.state.tick())
    return json_reply(bodies.check_run(call.links, call.state, made), 201)


def update_check_run(call: Call) -> Reply:
    """More about a check run; annotations add up."""
    record: CheckRun = call.one(call.state.check_runs, "check_run_id")
    values = call.request.json()
    _check(values)
    _apply(record, values, call.state.tick())
    return json_reply(bodies.check_run(call.links, call.state, record))


def get_check_run(call: Call) -> Reply:
    """One check run."""
    record = call.one(call.state.check_runs, "check_run_id")
    return json_reply(bodies.check_run(call.links, call.state, record))


def list_check_runs(call: Call) -> Reply:
    """The check runs of a commit, newest first; of equal names the newest unless told."""
    query = call.request.query
    sha = call.commit_sha(call.params["ref"])
    found = [
        one
        for one in reversed(call.mine(call.state.check_runs))
        if one.head_sha == sha
        and query.get("check_name") in (None, "", one.name)
        and query.get("status") in (None, "", one.status)
    ]
    if query.get("filter") != "all":
        found = list({one.name: one for one in reversed(found)}.values())[::-1]
    return call.counted("check_runs", found, bodies.check_run)


def _check(values: Json) -> None:
    output = values.get("output") or {}
    for name in ("summary", "text"):
        if len(output.get(name) or "") > MAX_TEXT:
            raise invalid_field("CheckRun", name, "custom", f"Only {MAX_TEXT} characters allowed")
    if len(output.get("annotations") or []) > MAX_ANNOTATIONS:
        raise invalid_field("CheckRun", "annotations", "custom", "Only 50 annotations allowed")
    if values.get("status") == "completed" and not values.get("conclusion"):
        raise invalid_field("CheckRun", "conclusion", "missing_field")


def _apply(record: CheckRun, values: Json, now: str) -> None:
    for name in PLAIN_FIELDS:
        if name in values:
            setattr(record, name, values[name])
    output = values.get("output") or {}
    for name in OUTPUT_FIELDS:
        if name in output:
            setattr(record, name, output[name])
    record.annotations += output.get("annotations") or []
    if values.get("conclusion"):
        record.status = "completed"
        record.completed_at = values.get("completed_at", now)
