"""A repository, its commits, and who may do what in it."""

from __future__ import annotations

from tests.loopback_github import bodies, history
from tests.loopback_github.diffs import diff
from tests.loopback_github.endpoints.call import Call
from tests.loopback_github.messages import Refusal, Reply, json_reply, not_found, paginate

DIFF = "application/vnd.github.diff"
MOST_DIFF_LINES = 20_000


def get_repository(call: Call) -> Reply:
    """The repository itself."""
    return json_reply(bodies.full_repository(call.links, call.state, call.repository))


def list_commits(call: Call) -> Reply:
    """The history of a ref, newest first: all ancestors, not only the first parents."""
    repository = call.repository
    if not repository.branches:
        raise Refusal(409, "Git Repository is empty.")
    tip = call.state.resolve(repository, call.request.query.get("sha") or repository.default_branch)
    if tip is None:
        raise not_found()
    return call.listed(
        history.log(call.state.graph(repository), tip),
        lambda links, state, commit: bodies.commit(links, state, repository, commit),
    )


def get_commit(call: Call) -> Reply:
    """One commit by SHA or ref."""
    commit = call.state.graph(call.repository)[call.commit_sha(call.params["ref"])]
    return json_reply(bodies.single_commit(call.links, call.state, call.repository, commit))


def get_git_commit(call: Call) -> Reply:
    """One commit of git's database: by its full SHA only."""
    commit = call.state.graph(call.repository).get(call.params["commit_sha"])
    if commit is None:
        raise not_found()
    return json_reply(bodies.git_commit(call.links, call.repository, commit))


def get_content(call: Call) -> Reply:
    """A file at a ref, or what lies in a directory."""
    repository, path = call.repository, call.params["path"].strip("/")
    ref = call.request.query.get("ref") or repository.default_branch
    sha = call.state.resolve(repository, ref)
    if sha is None:
        raise Refusal(404, f"No commit found for the ref {ref}")
    files = call.state.graph(repository)[sha].files
    if path in files:
        return json_reply(bodies.content(call.links, repository, sha, path, files[path]))
    inside = sorted(name for name in files if name.startswith(f"{path}/"))
    if not inside:
        raise not_found()
    rows = [bodies.content(call.links, repository, sha, name, files[name]) for name in inside]
    return json_reply([{**row, "content": ""} for row in rows])


def compare(call: Call) -> Reply:
    """`base...head`; a side may name a fork of the network as `owner:ref`."""
    base_name, dots, head_name = call.params["basehead"].partition("...")
    base, head = _side(call, base_name), _side(call, head_name)
    if not (dots and base and head):
        raise not_found()
    if call.request.headers.get("accept") == DIFF:
        return Reply(200, {"content-type": f"{DIFF}; charset=utf-8"}, _diff(call, base, head))
    commits = history.only_in(call.state.graph(call.repository), head, base)
    page = paginate(commits, call.request, call.links.api)
    body = bodies.comparison(call.links, call.state, call.repository, (base, head), page.items)
    return json_reply(body, headers=page.headers)


def _diff(call: Call, base: str, head: str) -> bytes:
    """What head changes since it left base, as git words it; GitHub gives no more lines."""
    graph = call.state.graph(call.repository)
    left = history.merge_base(graph, base, head)
    if left is None:
        raise not_found()
    text = diff(graph[left].files, graph[head].files)
    if text.count("\n") > MOST_DIFF_LINES:
        message = f"Sorry, the diff exceeded the maximum number of lines ({MOST_DIFF_LINES})"
        error = {"resource": "CommitComparison", "field": "diff", "code": "too_large"}
        raise Refusal(406, message, errors=[error])
    return text.encode()


def _side(call: Call, name: str) -> str | None:
    owner, colon, ref = name.rpartition(":")
    if not colon:
        return call.state.resolve(call.repository, ref)
    for one in call.state.repositories:
        if (one.owner, one.network) == (owner, call.repository.network) and not one.deleted:
            return call.state.resolve(one, ref)
    return None


def get_permission(call: Call) -> Reply:
    """A user's permission; whoever is no collaborator reads a public repository only."""
    login = call.params["username"]
    known = next((one for one in call.state.accounts if one.login == login), None)
    if known is None:
        raise not_found()
    default = "none" if call.repository.private else "read"
    role = call.repository.collaborators.get(login, default)
    return json_reply(bodies.collaborator_permission(call.links, known, role))
