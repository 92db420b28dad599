"""Pull requests, by number, by head and by commit."""

from __future__ import annotations

from tests.loopback_github import bodies
from tests.loopback_github.endpoints.call import Call
from tests.loopback_github.messages import Reply, invalid_field, json_reply, not_found
from tests.loopback_github.state import PullRequest, commits_of


def list_pulls(call: Call) -> Reply:
    """Pull requests, newest first; only open ones unless told."""
    query = call.request.query
    wanted = query.get("state") or "open"
    if wanted not in ("open", "closed", "all"):
        raise invalid_field("PullRequest", "state", "invalid")
    found = [
        pull
        for pull in reversed(call.mine(call.state.pull_requests))
        if wanted in ("all", pull.state)
        and _has_head(pull, query.get("head", ""))
        and query.get("base") in (None, "", pull.base_ref)
    ]
    return call.listed(found, bodies.pull_request_simple)


def _has_head(pull: PullRequest, head: str) -> bool:
    """GitHub takes `owner:branch` only, and ignores a head without an owner: all match."""
    return ":" not in head or head == f"{pull.head_owner}:{pull.head_ref}"


def get_pull(call: Call) -> Reply:
    """One pull request."""
    found = call.state.find_pull_request(call.repository, call.number("pull_number"))
    if found is None:
        raise not_found()
    return json_reply(bodies.pull_request(call.links, call.state, found))


def list_pulls_of_commit(call: Call) -> Reply:
    """The pull requests that brought a commit. Those of forks are missing, as on GitHub."""
    sha = call.commit_sha(call.params["ref"])
    found = [
        pull
        for pull in call.mine(call.state.pull_requests)
        if pull.head_repository == pull.repository and _brought(call, pull, sha)
    ]
    return call.listed(found, bodies.pull_request_simple)


def _brought(call: Call, pull: PullRequest, sha: str) -> bool:
    if pull.merged_at and sha == pull.merge_commit_sha:
        return True
    return any(commit.sha == sha for commit in commits_of(call.state, pull))
