"""Every endpoint in one table: how it is asked for, which right it needs, who answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from tests.loopback_github.bodies import Links
from tests.loopback_github.endpoints import account, actions, checks, issues, pulls, repositories
from tests.loopback_github.endpoints.call import Call
from tests.loopback_github.messages import Refusal, Reply, Request, not_found
from tests.loopback_github.state import State, Token

API_VERSIONS = ("2022-11-28",)
REPO = "/repos/{owner}/{repo}"
RUN = REPO + "/actions/runs/{run_id}"

# A ref may have slashes, as in the description's `x-multi-segment` parameters.
MULTI_SEGMENT = {"ref", "basehead", "path"}

# One of these rights is enough. Reading a public repository takes none, so that only what
# is marked `always` is refused there.
Rights = tuple[str, ...]
ON_PULL_REQUESTS = "pull_requests:"


@dataclass(frozen=True)
class Route:
    """One endpoint."""

    method: str
    template: str
    rights: Rights
    handler: Callable[[Call], Reply]
    always: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The template as a pattern of whole paths."""
        return re.compile(re.sub(r"\{(\w+)\}", _parameter, self.template))


def _parameter(match: re.Match[str]) -> str:
    name = match[1]
    return f"(?P<{name}>.+)" if name in MULTI_SEGMENT else f"(?P<{name}>[^/]+)"


def _reads(*names: str) -> Rights:
    return tuple(f"{name}:read" for name in names)


def _writes(*names: str) -> Rights:
    return tuple(f"{name}:write" for name in names)


TALK = ("issues", "pull_requests")

# Of two that match, the first wins: what is more exact comes before.
ROUTES = (
    Route("GET", "/user", (), account.get_user),
    Route("GET", "/rate_limit", (), account.get_rate_limit),
    Route("GET", REPO, _reads("metadata"), repositories.get_repository),
    Route(
        "GET",
        REPO + "/collaborators/{username}/permission",
        _reads("metadata"),
        repositories.get_permission,
        always=True,
    ),
    Route("GET", REPO + "/commits", _reads("contents"), repositories.list_commits),
    Route(
        "GET", REPO + "/commits/{ref}/pulls", _reads("pull_requests"), pulls.list_pulls_of_commit
    ),
    Route("GET", REPO + "/commits/{ref}/check-runs", _reads("checks"), checks.list_check_runs),
    Route("GET", REPO + "/commits/{ref}", _reads("contents"), repositories.get_commit),
    Route(
        "GET", REPO + "/git/commits/{commit_sha}", _reads("contents"), repositories.get_git_commit
    ),
    Route("GET", REPO + "/contents/{path}", _reads("contents"), repositories.get_content),
    Route("GET", REPO + "/compare/{basehead}", _reads("contents"), repositories.compare),
    Route("GET", REPO + "/pulls", _reads("pull_requests"), pulls.list_pulls),
    Route("GET", REPO + "/pulls/{pull_number}", _reads("pull_requests"), pulls.get_pull),
    Route("GET", REPO + "/actions/artifacts", _reads("actions"), actions.list_artifacts),
    Route(
        "GET", REPO + "/actions/artifacts/{artifact_id}", _reads("actions"), actions.get_artifact
    ),
    Route(
        "GET",
        REPO + "/actions/artifacts/{artifact_id}/{archive_format}",
        _reads("actions"),
        actions.download_artifact,
        always=True,
    ),
    Route("GET", REPO + "/actions/runs", _reads("actions"), actions.list_runs),
    Route("GET", RUN, _reads("actions"), actions.get_run),
    Route("GET", RUN + "/attempts/{attempt_number}", _reads("actions"), actions.get_run_attempt),
    Route(
        "GET",
        RUN + "/attempts/{attempt_number}/jobs",
        _reads("actions"),
        actions.list_attempt_jobs,
    ),
    Route(
        "GET",
        REPO + "/actions/workflows/{workflow_id}/runs",
        _reads("actions"),
        actions.list_workflow_runs,
    ),
    Route("GET", RUN + "/artifacts", _reads("actions"), actions.list_run_artifacts),
    Route("GET", RUN + "/jobs", _reads("actions"), actions.list_jobs),
    Route("GET", REPO + "/issues/comments/{comment_id}", _reads(*TALK), issues.get_comment),
    Route("PATCH", REPO + "/issues/comments/{comment_id}", _writes(*TALK), issues.update_comment),
    Route("DELETE", REPO + "/issues/comments/{comment_id}", _writes(*TALK), issues.delete_comment),
    Route("GET", REPO + "/issues/{issue_number}/comments", _reads(*TALK), issues.list_comments),
    Route("POST", REPO + "/issues/{issue_number}/comments", _writes(*TALK), issues.create_comment),
    Route("GET", REPO + "/issues", _reads("issues"), issues.list_issues),
    Route("POST", REPO + "/issues", _writes("issues"), issues.create_issue),
    Route("PATCH", REPO + "/issues/{issue_number}", _writes(*TALK), issues.update_issue),
    Route("POST", REPO + "/check-runs", _writes("checks"), checks.create_check_run),
    Route("GET", REPO + "/check-runs/{check_run_id}", _reads("checks"), checks.get_check_run),
    Route("PATCH", REPO + "/check-runs/{check_run_id}", _writes("checks"), checks.update_check_run),
)


class Api:
    """The API of one state: answers requests and knows nothing of sockets or faults."""

    def __init__(self, state: State, links: Links, sign: Callable[[int], str]) -> None:
        """Answer from `state`; `sign` makes the address of an artifact's bytes."""
        self.state = state
        self.links = links
        self.sign = sign
        self._requests = 0

    def __call__(self, request: Request) -> Reply:
        """The answer, with the headers that all of GitHub's answers have."""
        with self.state.lock:
            self._requests += 1
            found = _find(request)
            try:
                reply = self._answer(request, found)
            except Refusal as refusal:
                reply = refusal.reply()
            common = self.common_headers(request)
            if found:
                common |= _accepted_rights(found[0])
            return Reply(reply.status, {**common, **reply.headers}, reply.body)

    def common_headers(self, request: Request) -> dict[str, str]:
        """The limit's headers, the version's, and an id to quote in a bug report."""
        rate = self.state.rate_limit.numbers()
        version = request.headers.get("x-github-api-version", API_VERSIONS[-1])
        return {
            "server": "github.com",
            "x-github-media-type": "github.v3; format=json",
            "x-github-api-version-selected": version,
            "x-github-request-id": f"C0DE:{self._requests:04X}:10096AC:1:{self._requests:08X}",
            "x-ratelimit-resource": "core",
            **{f"x-ratelimit-{name}": str(number) for name, number in rate.items()},
        }

    def _answer(self, request: Request, found: tuple[Route, dict[str, str]] | None) -> Reply:
        token = self._authenticate(request)
        self._check_version(request)
        if request.path != "/rate_limit":
            self._count()
        if found is None:
            raise not_found()
        route, params = found
        call = Call(self.state, self.links, request, params, token, self.sign)
        _authorise(route, call)
        return route.handler(call)

    def _authenticate(self, request: Request) -> Token | None:
        header = request.headers.get("authorization")
        if header is None:
            return None
        scheme, _, value = header.partition(" ")
        for token in self.state.tokens:
            if scheme.lower() in ("bearer", "token") and token.value == value:
                return token
        raise Refusal(401, "Bad credentials")

    def _check_version(self, request: Request) -> None:
        version = request.headers.get("x-github-api-version")
        if version and version not in API_VERSIONS:
            raise Refusal(400, f"The API version {version} is not supported.")

    def _count(self) -> None:
        limit = self.state.rate_limit
        if limit.used >= limit.limit:
            raise Refusal(403, "API rate limit exceeded for installation.")
        limit.used += 1


def _find(request: Request) -> tuple[Route, dict[str, str]] | None:
    for route in ROUTES:
        match = route.pattern.fullmatch(request.path)
        if match and route.method == request.method:
            return route, {name: unquote(value) for name, value in match.groupdict().items()}
    return None


def _accepted_rights(route: Route) -> dict[str, str]:
    """GitHub says in a header which rights would have done."""
    if not route.rights:
        return {}
    rights = "; ".join(right.replace(":", "=") for right in route.rights)
    return {"x-accepted-github-permissions": rights}


def _authorise(route: Route, call: Call) -> None:
    """Refuse what the token may not do, as GitHub words it."""
    if "repo" not in call.params:
        return
    needs_token = route.always or route.method != "GET"
    if not call.repository.private and not needs_token:
        return
    if call.token is None:
        raise Refusal(401, "Requires authentication") if needs_token else not_found()
    if call.token.kind == "installation" and not _has_right(route, call):
        raise Refusal(403, "Resource not accessible by integration")


def _has_right(route: Route, call: Call) -> bool:
    assert call.token is not None
    granted = call.token.permissions
    for right in route.rights:
        name, _, level = right.partition(":")
        if right.startswith(ON_PULL_REQUESTS) and not _is_about_pull_request(call):
            continue
        if granted.get(name) in (level, "write"):
            return True
    return False


def _is_about_pull_request(call: Call) -> bool:
    """The right to pull requests does not reach the comments of plain issues."""
    if "comment_id" in call.params:
        number = call.one(call.state.comments, "comment_id").issue_number
    elif "issue_number" in call.params:
        number = call.number("issue_number")
    else:
        return True
    return call.state.find_pull_request(call.repository, number) is not None
