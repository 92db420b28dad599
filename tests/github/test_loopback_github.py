"""The test double is tested too: against GitHub's description, and for what github.md tells."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.builders import PROJECT
from tests.loopback_github import (
    ACTIONS_BOT,
    FORK_PERMISSIONS,
    GATE_PERMISSIONS,
    Exchange,
    LoopbackGitHub,
    State,
    contract,
    events,
    faults,
    read_log,
)
from tests.loopback_github.routes import ROUTES
from tests.loopback_github.state import (
    Artifact,
    CheckRun,
    Comment,
    PullRequest,
    Repository,
    WorkflowRun,
)

TOKEN = "the-token"
RECORD = "ci-score.json"

needs_description = pytest.mark.skipif(
    contract.description_path() is None,
    reason=f"no {contract.DESCRIPTION}: name its folder in {contract.SHARED_FOLDER}",
)


@dataclass
class World:
    """One of everything, and a client that carries the token."""

    state: State
    repository: Repository
    fork: Repository
    pull: PullRequest
    fork_pull: PullRequest
    run: WorkflowRun
    artifact: Artifact
    comment: Comment
    check_run: CheckRun
    github: LoopbackGitHub
    session: requests.Session

    def ask(self, method: str, path: str, body: object = None, **options: Any) -> requests.Response:
        """Ask the repository's API."""
        url = f"{self.github.url}/repos/team/model{path}"
        options = {"allow_redirects": False, "timeout": 5, **options}
        return self.session.request(method, url, json=body, **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        """Ask for something."""
        return self.ask("GET", path, **options)

    def post_comment(self, body: str) -> requests.Response:
        """Write a comment on the pull request."""
        return self.ask("POST", f"/issues/{self.pull.number}/comments", {"body": body})


def build() -> dict[str, Any]:
    """A repository with two pull requests, one of a fork, and what a run left."""
    state = State()
    state.token(TOKEN)
    repository = state.repository("team/model")
    tree = {
        "train.py": "print()",
        "link": "symlink:gone.py",
        "vendored": "submodule:https://github.com/team/lib",
        "docs/a.md": "A",
    }
    for text in ("first", "second", "third"):
        state.commit(repository, "main", message=text, files=tree)
    fork = state.fork(repository, "stranger/model")
    state.commit(repository, "faster")
    pull = state.pull_request(repository, "faster")
    state.commit(fork, "main", message="poison", author="stranger")
    fork_pull = state.pull_request(repository, "main", head_repository=fork, author="stranger")
    run = state.run(repository)
    state.job(run, "gate")
    return {
        "state": state,
        "repository": repository,
        "fork": fork,
        "pull": pull,
        "fork_pull": fork_pull,
        "run": run,
        "artifact": state.artifact(run, "ci-score", {RECORD: "{}"}),
        "comment": state.comment(repository, pull.number, "hello"),
        "check_run": state.check_run(repository, pull.head_sha, "ci-score"),
    }


@pytest.fixture
def world() -> Iterator[World]:
    """The world, served."""
    parts = build()
    with LoopbackGitHub(parts["state"]) as github, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        yield World(**parts, github=github, session=session)


def right_of(world: World, **changes: str) -> None:
    """Change the rights of the token."""
    world.state.tokens[0].permissions |= changes


# Every endpoint, and its contract.


@dataclass(frozen=True)
class Example:
    """One request and the status of its answer."""

    method: str
    path: str
    status: int = 200
    body: object = None


CHECK = {"name": "ci-score", "status": "completed", "conclusion": "success"}
OUTPUT = {"title": "Slower", "summary": "by 3 %"}
EXAMPLES = (
    Example("GET", ""),
    Example("GET", "/commits?sha={pull.head_sha}&per_page=2&page=2"),
    Example("GET", "/commits/main"),
    Example("GET", "/commits/heads/main"),
    Example("GET", "/commits/nothing-here", 422),
    Example("GET", "/git/commits/{run.head_sha}"),
    Example("GET", "/contents/train.py?ref=main"),
    Example("GET", "/contents/link?ref=main"),
    Example("GET", "/contents/vendored?ref=main"),
    Example("GET", "/contents/docs?ref=main"),
    Example("GET", "/contents/none?ref=main", 404),
    Example("GET", "/contents/train.py?ref=none", 404),
    Example("GET", "/compare/main...{pull.head_sha}"),
    Example("GET", "/compare/main...stranger:main?page=1"),
    Example("GET", "/compare/main...nothing", 404),
    Example("GET", "/commits/{pull.head_sha}/pulls"),
    Example("GET", "/commits/{pull.head_sha}/check-runs?check_name=ci-score"),
    Example("GET", "/pulls?state=all&head=stranger:main"),
    Example("GET", "/pulls/{pull.number}"),
    Example("GET", "/pulls/999", 404),
    Example("GET", "/actions/artifacts?name=ci-score&per_page=100"),
    Example("GET", "/actions/artifacts/{artifact.id}"),
    Example("GET", "/actions/artifacts/{artifact.id}/zip", 302),
    Example("GET", "/actions/artifacts/1/zip", 404),
    Example("GET", "/actions/runs?event=push"),
    Example("GET", "/actions/runs/{run.id}"),
    Example("GET", "/actions/runs/{run.id}/attempts/1"),
    Example("GET", "/actions/runs/{run.id}/artifacts"),
    Example("GET", "/actions/workflows/performance.yml/runs?branch=main&status=completed"),
    Example("GET", "/actions/workflows/none.yml/runs", 404),
    Example("GET", "/actions/runs/1", 404),
    Example("GET", "/issues/{pull.number}/comments?per_page=100"),
    Example("POST", "/issues/{pull.number}/comments", 201, {"body": "new"}),
    Example("POST", "/issues/{pull.number}/comments", 422, {"body": "x" * 65_537}),
    Example("GET", "/issues/comments/{comment.id}"),
    Example("PATCH", "/issues/comments/{comment.id}", 200, {"body": "changed"}),
    Example("DELETE", "/issues/comments/{comment.id}", 204),
    Example("POST", "/check-runs", 201, {**CHECK, "head_sha": "{pull.head_sha}", "output": OUTPUT}),
    Example("POST", "/check-runs", 422, {**CHECK, "head_sha": "0" * 40}),
    Example("PATCH", "/check-runs/{check_run.id}", 200, {"conclusion": "neutral"}),
    Example("GET", "/check-runs/{check_run.id}"),
    Example("GET", "/collaborators/stranger/permission"),
)
OUTSIDE = (Example("GET", "/rate_limit"), Example("GET", "/user", 403))
UNDESCRIBED = (Example("GET", "/actions/runs/{run.id}/jobs"),)
EXEMPT = (
    Example("GET", "/actions/runs/{run.id}/attempts/1/jobs"),
    Example("GET", "/issues?state=all&creator=developer"),
    Example("POST", "/issues", 201, {"title": "Trend"}),
    Example("PATCH", "/issues/1", 200, {"state": "closed"}),
)


def shown(example: Example) -> str:
    """An example's name in pytest's report."""
    return f"{example.method} {example.path} {example.status}"


def filled(world: World, text: str) -> str:
    """The example's text with the ids of this world."""
    return re.sub(r"\{(\w+)\.(\w+)\}", lambda m: str(getattr(getattr(world, m[1]), m[2])), text)


def play(world: World, example: Example) -> requests.Response:
    """Send an example."""
    body = example.body
    if isinstance(body, dict):
        body = {key: filled(world, v) if isinstance(v, str) else v for key, v in body.items()}
    if example in OUTSIDE:
        return world.session.get(world.github.url + example.path, timeout=5)
    return world.ask(example.method, filled(world, example.path), body)


@needs_description
@pytest.mark.parametrize("example", EXAMPLES + OUTSIDE, ids=shown)
def test_endpoint__answers_as_described(world: World, example: Example) -> None:
    """Request and answer of every endpoint satisfy GitHub's description."""
    assert play(world, example).status_code == example.status
    assert contract.violations(world.github.exchanges) == []


@pytest.mark.parametrize("example", UNDESCRIBED, ids=shown)
def test_endpoint__not_in_the_description(world: World, example: Example) -> None:
    """What our cut of the description lacks is answered, and told by the contract."""
    assert play(world, example).status_code == example.status
    if contract.description_path():
        (violation,) = contract.violations(world.github.exchanges)
        assert violation.endswith("the description has no such endpoint")


@pytest.mark.parametrize("example", EXEMPT, ids=shown)
def test_endpoint__exempt_from_the_description(world: World, example: Example) -> None:
    """What nobody checks is listed with its reason, and answered all the same."""
    assert play(world, example).status_code == example.status
    assert all(map(contract.is_exempt, world.github.exchanges))


def test_endpoint__all_have_an_example(world: World) -> None:
    """No route is without an example above."""
    examples = EXAMPLES + OUTSIDE + UNDESCRIBED + EXEMPT
    for example in examples:
        play(world, example)
    asked = [(exchange.method, exchange.path) for exchange in world.github.exchanges]
    for route in ROUTES:
        fits = [path for method, path in asked if method == route.method]
        assert any(map(route.pattern.fullmatch, fits)), route.template


def test_endpoint__headers_of_every_answer(world: World) -> None:
    """Every answer tells the limit, an id to quote, and the version it speaks."""
    for example in EXAMPLES:
        headers = play(world, example).headers
        assert int(headers["x-ratelimit-remaining"]) < 1000
        assert headers["x-github-request-id"]
        assert headers["x-github-api-version-selected"] == "2022-11-28"


def test_endpoint__unknown_version(world: World) -> None:
    """A version that there is not is refused."""
    reply = world.get("", headers={"X-GitHub-Api-Version": "1999-01-01"})
    assert reply.status_code == 400


@needs_description
def test_endpoint__under_a_prefix() -> None:
    """The API may live under a path as on GHES, and its links do too."""
    parts = build()
    with LoopbackGitHub(parts["state"], prefix="/api/v3") as github:
        headers = {"Authorization": f"token {TOKEN}"}
        reply = requests.get(f"{github.url}/repos/team/model", headers=headers, timeout=5)
    assert github.url.endswith("/api/v3")
    assert reply.json()["url"] == f"{github.url}/repos/team/model"
    assert "/api" not in reply.json()["html_url"]
    assert contract.violations(github.exchanges) == []


# The contract can fail.


def damaged(exchange: Exchange, damage: Callable[[Any], object]) -> Exchange:
    """The exchange with another body in its answer."""
    body = exchange.response_json
    damage(body)
    return dataclasses.replace(exchange, response_body=json.dumps(body).encode())


@needs_description
@pytest.mark.parametrize(
    ("path", "damage", "place"),
    [
        ("", lambda body: body.pop("default_branch"), "default_branch"),
        ("", lambda body: body["owner"].pop("login"), "owner: 'login'"),
        ("/commits/main", lambda body: body["parents"][0].pop("sha"), "parents/0: 'sha'"),
        ("/commits/main", lambda body: body.update(parents=None), "parents: None"),
        ("/pulls", lambda body: body[0].update(number="7"), "0/number: '7'"),
        ("/pulls", lambda body: body[0]["base"]["repo"].pop("id"), "0/base/repo: 'id'"),
        ("/actions/artifacts", lambda body: body["artifacts"][0].pop("expired"), "artifacts/0"),
        ("/actions/artifacts", lambda body: body.pop("total_count"), "total_count"),
        ("/actions/runs/{run.id}", lambda body: body.update(created_at="soon"), "created_at"),
    ],
)
def test_contract__catches_a_wrong_body(
    world: World, path: str, damage: Callable[[Any], object], place: str
) -> None:
    """A body with a field missing or of another type is a violation, with its place."""
    world.get(filled(world, path))
    good = world.github.exchanges[-1]
    assert contract.violations([good]) == []
    assert place in " ".join(contract.violations([damaged(good, damage)]))


@needs_description
@pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.status in (200, 201)], ids=shown
)
def test_contract__catches_another_body_everywhere(world: World, example: Example) -> None:
    """No endpoint's answer is waved through: another object is a violation at each."""
    play(world, example)
    good = world.github.exchanges[-1]
    for body in ({"strange": 1}, [{"strange": 1}]):
        other = dataclasses.replace(good, response_body=json.dumps(body).encode())
        assert contract.violations([other])


@needs_description
@pytest.mark.parametrize(
    ("method", "path", "body", "problem"),
    [
        ("GET", "/pulls?haed=team:faster", None, "takes no parameter 'haed'"),
        ("GET", "/pulls?state=opened", None, "opened"),
        ("GET", "/commits?per_page=many", None, "per_page"),
        ("GET", "/issues/1/comments", {"body": "x"}, "takes no body"),
        ("POST", "/issues/1/comments", {"text": "x"}, "body"),
        ("POST", "/check-runs", {**CHECK, "head_sha": "main", "output": {"title": "x"}}, "summary"),
        ("GET", "/nothing/here", None, "no such endpoint"),
        ("PUT", "/pulls/1", {}, "no such endpoint"),
    ],
)
def test_contract__catches_a_wrong_request(
    world: World, method: str, path: str, body: object, problem: str
) -> None:
    """A request that GitHub would ignore, misread or refuse is the client's violation."""
    world.ask(method, path, body)
    assert problem in " ".join(contract.violations(world.github.exchanges))


@needs_description
def test_contract__catches_an_undescribed_status(world: World) -> None:
    """A status that an operation never answers with is a violation."""
    world.get("/pulls/1")
    strange = dataclasses.replace(world.github.exchanges[-1], status=418)
    assert "418" in " ".join(contract.violations([strange]))


@needs_description
def test_contract__exempts_faults_and_the_blob_host_only(world: World) -> None:
    """Of all exchanges only injected faults and the blob host's go unchecked."""
    world.github.inject(faults.html_page(), path="/pulls")
    world.get("/pulls")
    world.get(f"/actions/artifacts/{world.artifact.id}/zip", allow_redirects=True)
    world.get("/pulls/1")
    exempt = [contract.is_exempt(exchange) for exchange in world.github.exchanges]
    hosts = [exchange.host for exchange in world.github.exchanges]
    assert hosts == ["api", "api", "blob", "api"]
    assert exempt == [True, False, True, False]


def test_contract__without_a_description(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the file there is no path, and a check that insists says which variable to set."""
    monkeypatch.setenv(contract.SHARED_FOLDER, str(tmp_path))
    assert contract.description_path() is None
    with pytest.raises(LookupError, match=contract.SHARED_FOLDER):
        contract.violations([])


@needs_description
def test_contract__is_fast(world: World) -> None:
    """A hundred exchanges take well below two seconds, so that every test can afford it."""
    for _ in range(100):
        world.get("/pulls/1")
    before = time.process_time()
    assert contract.violations(world.github.exchanges) == []
    assert time.process_time() - before < 2


# Pages and listings.


def test_pagination__follows_links_to_the_end(world: World) -> None:
    """Thirty a page unless told, and the Link header leads to each page once."""
    for number in range(64):
        world.state.comment(world.repository, world.pull.number, f"comment {number}")
    reply = world.get(f"/issues/{world.pull.number}/comments")
    sizes = [len(reply.json())]
    while "next" in reply.links:
        reply = world.session.get(reply.links["next"]["url"], timeout=5)
        sizes.append(len(reply.json()))
    assert sizes == [30, 30, 5]
    assert set(reply.links) == {"prev", "first"}


def test_pagination__at_most_100_a_page(world: World) -> None:
    """More than 100 a page cannot be had, and a page behind the last is empty."""
    for number in range(120):
        world.state.artifact(world.run, f"other-{number}", b"x")
    reply = world.get("/actions/artifacts?per_page=1000")
    assert (reply.json()["total_count"], len(reply.json()["artifacts"])) == (121, 100)
    assert world.get("/actions/artifacts?page=9").json()["artifacts"] == []


def test_artifacts__of_every_branch_and_fork(world: World) -> None:
    """The listing mixes forks and expired ones in, filters by exact name, and hides the event."""
    poison = world.state.run(
        world.repository, event="pull_request", head_branch="main", head_repository=world.fork
    )
    world.state.artifact(poison, "ci-score", b"", expired=True)
    world.state.artifact(world.run, "ci-score-pr", b"")
    listed = world.get("/actions/artifacts?name=ci-score").json()["artifacts"]
    assert [one["expired"] for one in listed] == [True, False]
    ids = [one["workflow_run"]["head_repository_id"] for one in listed]
    assert ids == [world.fork.id, world.repository.id]
    assert {one["workflow_run"]["head_branch"] for one in listed} == {"main"}
    world.state.artifacts_oldest_first = True
    again = world.get("/actions/artifacts?name=ci-score").json()["artifacts"]
    assert [one["id"] for one in again] == [one["id"] for one in reversed(listed)]


def test_artifacts__name_is_taken_within_an_attempt(world: World) -> None:
    """One name once an attempt; attempts of a run stand side by side."""
    with pytest.raises(ValueError, match="409"):
        world.state.artifact(world.run, "ci-score", b"")
    second = world.state.rerun(world.run)
    world.state.artifact(second, "ci-score", b"")
    assert world.get(f"/actions/runs/{second.id}/artifacts").json()["total_count"] == 2
    assert world.get(f"/actions/runs/{second.id}").json()["run_attempt"] == 2


# The download's two hops.


def redirect(world: World) -> str:
    """The signed address of the artifact."""
    reply = world.get(f"/actions/artifacts/{world.artifact.id}/zip")
    assert (reply.status_code, reply.content) == (302, b"")
    return reply.headers["location"]


def test_download__two_hops(world: World) -> None:
    """The redirect leads to another host, whose bytes have the digest of the listing."""
    address = redirect(world)
    assert not address.startswith(world.github.url)
    content = requests.get(address, timeout=5).content
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == [RECORD]
    assert world.artifact.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_download__refuses_the_token(world: World) -> None:
    """The blob host refuses whoever shows a token, and the exchange flags it."""
    reply = world.session.get(redirect(world), timeout=5)
    assert reply.status_code == 400
    assert "InvalidAuthenticationInfo" in reply.text
    assert world.github.exchanges[-1].carries_authorization


def test_download__signature_expires(world: World) -> None:
    """A signature works for its lifetime, and for its artifact only."""
    world.github.blob.lifetime = 0.05
    address = redirect(world)
    tampered = address.replace(f"{world.artifact.id}.zip", "1.zip")
    assert requests.get(tampered, timeout=5).status_code == 403
    time.sleep(0.06)
    assert "time frame" in requests.get(address, timeout=5).text


def test_download__expired_artifact(world: World) -> None:
    """An expired artifact is gone."""
    world.artifact.expired = True
    assert world.get(f"/actions/artifacts/{world.artifact.id}/zip").status_code == 410


def test_download__is_not_always_a_zip(world: World) -> None:
    """An upload without an archive comes as it is."""
    world.artifact.content = b'{"schema": 1}'
    reply = requests.get(redirect(world), timeout=5)
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.json() == {"schema": 1}


# Who may do what.


@pytest.mark.parametrize(
    ("right", "path"),
    [
        ("actions", "/actions/artifacts"),
        ("actions", "/actions/artifacts/{artifact.id}/zip"),
        ("actions", "/actions/runs/{run.id}"),
        ("contents", "/commits"),
        ("pull_requests", "/pulls"),
        ("checks", "/commits/main/check-runs"),
    ],
)
def test_rights__missing_one_is_refused(world: World, right: str, path: str) -> None:
    """Without the right GitHub answers 403, and says in a header which one it takes."""
    right_of(world, **{right: "none"})
    reply = world.get(filled(world, path))
    assert reply.status_code == 403
    assert reply.json()["message"] == "Resource not accessible by integration"
    assert f"{right}=read" in reply.headers["x-accepted-github-permissions"]


def test_rights__of_a_fork_read_only(world: World) -> None:
    """A fork's token reads and does not write."""
    right_of(world, **FORK_PERMISSIONS)
    assert world.get(f"/issues/{world.pull.number}/comments").status_code == 200
    assert world.post_comment("x").status_code == 403
    head = {**CHECK, "head_sha": world.pull.head_sha}
    assert world.ask("POST", "/check-runs", head).status_code == 403


def test_rights__comments_take_one_of_two(world: World) -> None:
    """Either right does on a pull request; on an issue only the right to issues."""
    issue = world.state.issue(world.repository, "Trend")
    right_of(world, issues="none")
    assert world.post_comment("x").status_code == 201
    reply = world.ask("POST", f"/issues/{issue.number}/comments", {"body": "x"})
    assert reply.status_code == 403


def test_rights__public_repository(world: World) -> None:
    """Anybody reads a public repository, but a download takes the right and writing a token."""
    world.repository.private = False
    world.state.tokens[0].permissions.clear()
    assert world.get("/actions/artifacts").status_code == 200
    assert world.get(f"/actions/artifacts/{world.artifact.id}/zip").status_code == 403
    del world.session.headers["Authorization"]
    assert world.get("/commits").status_code == 200
    assert world.post_comment("x").status_code == 401


def test_rights__revoked_token(world: World) -> None:
    """A token that is no more gets 401, and no token sees no private repository."""
    world.state.revoke(world.state.tokens[0])
    assert world.get("").json()["message"] == "Bad credentials"
    del world.session.headers["Authorization"]
    assert world.get("").status_code == 404


def test_rights__users_token_has_a_user(world: World) -> None:
    """A user's token says who it is, and its user comments under that name."""
    token = world.state.token("mine", login="developer", kind="user")
    world.session.headers["Authorization"] = f"Bearer {token.value}"
    reply = world.session.get(f"{world.github.url}/user", timeout=5)
    assert reply.json()["login"] == "developer"
    assert world.post_comment("x").json()["user"]["login"] == "developer"
    if contract.description_path():
        assert contract.violations(world.github.exchanges) == []


def test_rights__collaborators_role(world: World) -> None:
    """A role folds into one of four permissions; strangers to a private repository have none."""
    world.repository.collaborators["developer"] = "maintain"
    reply = world.get("/collaborators/developer/permission").json()
    assert (reply["permission"], reply["role_name"]) == ("write", "maintain")
    stranger = world.get("/collaborators/stranger/permission").json()
    assert stranger["permission"] == "none"
    assert world.get("/collaborators/nobody/permission").status_code == 404


def test_rate_limit__runs_out(world: World) -> None:
    """When the hour's requests are used up, 403 says so with the time of the reset."""
    world.state.rate_limit.limit = 1
    assert world.get("").status_code == 200
    reply = world.get("")
    assert (reply.status_code, reply.headers["x-ratelimit-remaining"]) == (403, "0")
    assert int(reply.headers["x-ratelimit-reset"]) > time.time()
    assert world.session.get(f"{world.github.url}/rate_limit", timeout=5).status_code == 200


# Commits and pull requests.


def test_commits__show_both_sides_of_a_merge(world: World) -> None:
    """The history is all ancestors by date; only the parents tell the first-parent line."""
    world.state.commit(world.repository, "main", message="meanwhile")
    world.state.merge(world.pull)
    commits = world.get("/commits").json()
    texts = [one["commit"]["message"] for one in commits]
    assert texts[0] == f"Merge pull request #{world.pull.number}"
    assert texts[1] == "meanwhile"
    assert commits[2]["sha"] == world.pull.head_sha
    assert texts[3:] == ["third", "second", "first"]
    assert [one["sha"] for one in commits[0]["parents"]] == [commits[1]["sha"], commits[2]["sha"]]


def test_commits__of_a_fork_through_the_parent(world: World) -> None:
    """Forks share their commits with the network: a fork's SHA is known to the parent."""
    assert world.get(f"/commits/{world.fork_pull.head_sha}").status_code == 200
    assert world.get("/commits?sha=nothing-here").status_code == 404


def test_commits__of_an_empty_repository(world: World) -> None:
    """A repository without commits answers 409."""
    world.repository.branches.clear()
    assert world.get("/commits").status_code == 409


@pytest.mark.parametrize(
    ("base", "head", "status", "ahead", "behind"),
    [
        ("main", "main", "identical", 0, 0),
        ("main", "faster", "ahead", 1, 0),
        ("faster", "main", "behind", 0, 1),
        ("faster", "stranger:main", "diverged", 1, 1),
    ],
)
def test_compare__tells_the_direction(
    world: World, base: str, head: str, status: str, ahead: int, behind: int
) -> None:
    """A comparison says how two commits lie to each other."""
    reply = world.get(f"/compare/{base}...{head}").json()
    assert (reply["status"], reply["ahead_by"], reply["behind_by"]) == (status, ahead, behind)
    assert reply["merge_base_commit"]["sha"] == world.repository.branches["main"]


def test_pulls__base_goes_stale(world: World) -> None:
    """`base.sha` stays when the base moves on; the next push tests a merge upon the new base."""
    opened = world.repository.branches["main"]
    moved = world.state.commit(world.repository, "main")
    head = world.state.commit(world.repository, "faster")
    pull = world.get(f"/pulls/{world.pull.number}").json()
    assert pull["base"]["sha"] == opened
    merge = world.get(f"/commits/{pull['merge_commit_sha']}").json()
    assert [one["sha"] for one in merge["parents"]] == [moved.sha, head.sha]


def test_pulls__by_head(world: World) -> None:
    """A head is `owner:branch`; one without an owner is ignored, so all match."""
    found = world.get("/pulls?head=stranger:main").json()
    assert [one["number"] for one in found] == [world.fork_pull.number]
    assert len(world.get("/pulls?head=main").json()) == 2
    assert world.get("/pulls?head=team:main").json() == []
    assert world.get("/pulls?state=closed").json() == []


def test_pulls__of_a_commit_miss_forks(world: World) -> None:
    """A commit's pull requests are those of the repository's own branches."""
    own = world.get(f"/commits/{world.pull.head_sha}/pulls").json()
    assert [one["number"] for one in own] == [world.pull.number]
    assert world.get(f"/commits/{world.fork_pull.head_sha}/pulls").json() == []


@needs_description
def test_runs__of_a_deleted_fork(world: World) -> None:
    """When a fork is deleted, its runs and pull requests have null for their repository."""
    run = world.state.run(
        world.repository, event="pull_request", head_branch="main", head_repository=world.fork
    )
    world.state.delete_repository(world.fork)
    assert world.get(f"/actions/runs/{run.id}").json()["head_repository"] is None
    pull = world.get(f"/pulls/{world.fork_pull.number}").json()
    assert (pull["head"]["repo"], pull["head"]["label"]) == (None, "stranger:main")
    world.get("/pulls")
    assert contract.violations(world.github.exchanges) == []


def test_runs__path_is_kept_as_written(world: World) -> None:
    """A path may carry its ref; the workflow is the same."""
    odd = world.state.run(world.repository, path=f"{world.run.path}@main")
    reply = world.get(f"/actions/runs/{odd.id}").json()
    assert reply["path"] == f"{world.run.path}@main"
    assert reply["workflow_id"] == world.run.workflow_id
    assert reply["run_number"] == world.run.run_number + 1


# Comments and checks.


def test_comments__live(world: World) -> None:
    """A comment is created by the token's bot, changed, and deleted."""
    made = world.post_comment("x" * 65_536)
    assert made.status_code == 201
    assert made.json()["user"] | {"type": "Bot"} == made.json()["user"]
    assert made.json()["user"]["login"] == ACTIONS_BOT
    path = f"/issues/comments/{made.json()['id']}"
    assert world.ask("PATCH", path, {"body": "y"}).json()["body"] == "y"
    assert world.ask("DELETE", path).status_code == 204
    assert world.get(path).status_code == 404


@pytest.mark.parametrize("body", [{}, {"body": " "}, {"body": "x" * 65_537}])
def test_comments__bad_text(world: World, body: object) -> None:
    """No text, a blank one and one character too many are 422."""
    assert world.ask("POST", "/issues/1/comments", body).status_code == 422


def test_comments__made_at_once(world: World) -> None:
    """Writers at once lose nothing: twenty comments have twenty ids."""
    threads = [threading.Thread(target=world.post_comment, args=(str(n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.id for one in world.state.comments}) == 21


def test_checks__newest_of_a_name(world: World) -> None:
    """A commit's listing has the newest check run of a name, unless all are asked for."""
    body = {**CHECK, "head_sha": world.pull.head_sha, "output": OUTPUT}
    made = world.ask("POST", "/check-runs", body).json()
    path = f"/commits/{world.pull.head_sha}/check-runs"
    listed = world.get(path).json()["check_runs"]
    assert [one["id"] for one in listed] == [made["id"]]
    assert world.get(f"{path}?filter=all").json()["total_count"] == 2
    assert [one["number"] for one in made["pull_requests"]] == [world.pull.number]


@pytest.mark.parametrize(
    "change",
    [
        {"conclusion": None},
        {"output": {"title": "x", "summary": "x" * 65_536}},
        {"output": {**OUTPUT, "annotations": [{}] * 51}},
    ],
)
def test_checks__over_a_limit(world: World, change: dict[str, object]) -> None:
    """A completed check needs a conclusion; its summary and annotations have limits."""
    body = {**CHECK, "head_sha": world.pull.head_sha, **change}
    assert world.ask("POST", "/check-runs", body).status_code == 422


# What goes wrong.


@pytest.mark.parametrize(
    ("fault", "status", "header"),
    [
        (faults.secondary_limit(7), 403, ("retry-after", "7")),
        (faults.primary_limit(), 403, ("x-ratelimit-remaining", "0")),
        (faults.primary_limit(status=429), 429, ("x-ratelimit-remaining", "0")),
        (faults.too_many_requests(3), 429, ("retry-after", "3")),
        (faults.server_error(500), 500, ("server", "github.com")),
        (faults.server_error(503), 503, ("server", "github.com")),
        (faults.html_page(200), 200, ("content-type", "text/html; charset=utf-8")),
        (faults.invalid_json(), 200, ("content-type", "application/json; charset=utf-8")),
        (faults.bad_credentials(), 401, ("server", "github.com")),
    ],
    ids=lambda value: value.name if isinstance(value, faults.Fault) else "",
)
def test_fault__answers(
    world: World, fault: faults.Fault, status: int, header: tuple[str, str]
) -> None:
    """An injected answer comes once, with its headers, and then all is well."""
    world.github.inject(fault, method="GET", path="/artifacts")
    assert world.get("/pulls").status_code == 200
    reply = world.get("/actions/artifacts")
    assert (reply.status_code, reply.headers[header[0]]) == (status, header[1])
    assert world.github.exchanges[-1].fault == fault.name
    assert world.get("/actions/artifacts").json()["total_count"] == 1
    assert world.github.interference.unused() == []


@pytest.mark.parametrize("host", ["api", "blob"])
def test_fault__breaks_the_connection(world: World, host: str) -> None:
    """Both hosts can reset a connection, cut a body short and let a client wait."""
    address = redirect(world) if host == "blob" else f"{world.github.url}/repos/team/model"
    headers = {} if host == "blob" else {"Authorization": f"Bearer {TOKEN}"}

    def ask(fault: faults.Fault) -> requests.Response:
        world.github.inject(fault, host=host)
        return requests.get(address, headers=headers, timeout=0.2)

    with pytest.raises(requests.ConnectionError, match="reset"):
        ask(faults.connection_reset())
    with pytest.raises(requests.exceptions.ChunkedEncodingError, match="IncompleteRead"):
        ask(faults.truncated_body())
    with pytest.raises(requests.ReadTimeout):
        ask(faults.hanging(30))
    slow = ask(faults.slow_body(0.1))
    assert slow.elapsed.total_seconds() < 0.1
    assert slow.status_code == 200
    with pytest.raises(requests.ConnectionError, match="timed out"):
        ask(faults.slow_body(30))


def test_fault__answer_lost_after_the_effect(world: World) -> None:
    """A request may have had its effect although its answer is lost."""
    world.github.inject(faults.connection_reset(), method="POST")
    world.github.inject(faults.after_handling(faults.connection_reset()), method="POST")
    world.github.inject(faults.after_handling(faults.server_error(502)), method="POST")
    comments = []
    for _ in range(2):
        with pytest.raises(requests.ConnectionError):
            world.post_comment("x")
        comments.append(len(world.state.comments))
    assert world.post_comment("x").status_code == 502
    assert [*comments, len(world.state.comments)] == [1, 2, 3]


def test_fault__counted(world: World) -> None:
    """A fault leaves the first ones alone, takes as many as told, and tells when it met none."""
    world.github.inject(faults.server_error(), path="/pulls$", after=1, times=2)
    world.github.inject(faults.server_error(503), path="/never")
    statuses = [world.get("/pulls").status_code for _ in range(4)]
    assert statuses == [200, 502, 502, 200]
    assert world.github.interference.unused() == ["server error 503"]


def test_hook__races_with_a_request(world: World) -> None:
    """A hook acts between a client's listing and its creation, as another run would."""
    world.github.before(
        lambda _: world.state.comment(world.repository, world.pull.number, "rival"),
        method="POST",
        path="/comments$",
    )
    before = world.get(f"/issues/{world.pull.number}/comments").json()
    world.post_comment("mine")
    after = world.get(f"/issues/{world.pull.number}/comments").json()
    assert [one["body"] for one in before] == ["hello"]
    assert [one["body"] for one in after] == ["hello", "rival", "mine"]


# The record, the files and the process.


def test_exchanges__keep_both_directions(world: World) -> None:
    """An exchange has the request's and the answer's headers and bodies, and flags the token."""
    world.post_comment("x")
    exchange = world.github.exchanges[-1]
    assert (exchange.method, exchange.status) == ("POST", 201)
    assert exchange.request_json == {"body": "x"}
    assert exchange.response_json["body"] == "x"
    assert exchange.request_headers["authorization"] == f"Bearer {TOKEN}"
    assert exchange.carries_authorization
    assert TOKEN not in str(exchange)


def test_state__survives_its_file(world: World, tmp_path: Path) -> None:
    """A state that was saved and loaded again is the same."""
    world.state.save(tmp_path / "state.json")
    loaded = State.load(tmp_path / "state.json")
    assert loaded.to_json() == world.state.to_json()
    assert loaded.artifacts[0].content == world.artifact.content


def test_process__serves_logs_and_saves(tmp_path: Path) -> None:
    """As a process it prints its URL, obeys the file's faults, logs, and saves in the end."""
    data = build()["state"].to_json()
    data["faults"] = [{"kind": "server_error", "with": {"status": 503}, "path": "/pulls"}]
    (tmp_path / "state.json").write_text(json.dumps(data))
    with started(tmp_path) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        comments = f"{url}/repos/team/model/issues/1/comments"
        pulls = f"{url}/repos/team/model/pulls"
        assert requests.get(pulls, headers=headers, timeout=5).status_code == 503
        requests.post(comments, json={"body": "x"}, headers=headers, timeout=5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    exchanges = read_log(tmp_path / "log.jsonl")
    assert [exchange.status for exchange in exchanges] == [503, 201]
    assert [one.body for one in State.load(tmp_path / "end.json").comments] == ["hello", "x"]
    if contract.description_path():
        assert contract.violations(exchanges) == []


def started(folder: Path) -> subprocess.Popen[str]:
    """The double as a process on the state in `folder`."""
    files = {"--state": "state.json", "--log": "log.jsonl", "--save": "end.json"}
    options = [word for name, file in files.items() for word in (name, str(folder / file))]
    root = str(PROJECT)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.loopback_github", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


# Events.


def test_event__pull_request(world: World) -> None:
    """A pull request's run sees the test merge, while its head is what the run is recorded for."""
    event = events.pull_request(world.github, world.pull)
    number = world.pull.number
    assert event.environment["GITHUB_SHA"] == world.pull.merge_commit_sha
    assert event.environment["GITHUB_REF"] == f"refs/pull/{number}/merge"
    assert event.environment["GITHUB_REF_NAME"] == f"{number}/merge"
    assert event.environment["GITHUB_HEAD_REF"] == "faster"
    assert event.environment["GITHUB_BASE_REF"] == "main"
    assert event.payload["pull_request"]["head"]["sha"] == event.run.head_sha
    assert world.get(f"/actions/runs/{event.run.id}").json()["status"] == "in_progress"


def test_event__pull_request_of_a_fork(world: World) -> None:
    """A fork's run names the fork as its head repository and no pull request."""
    event = events.pull_request(world.github, world.fork_pull)
    assert event.payload["pull_request"]["head"]["repo"]["full_name"] == "stranger/model"
    assert event.environment["GITHUB_REPOSITORY"] == "team/model"
    assert event.environment["GITHUB_ACTOR"] == "stranger"
    assert (event.run.head_repository_id, event.run.pull_requests) == (world.fork.id, [])


def test_event__pull_request_of_dependabot(world: World) -> None:
    """Dependabot's is a pull request of the same repository with its bot for an actor."""
    branch = "dependabot/pip/torch-2.9.0"
    world.state.commit(world.repository, branch, author="dependabot[bot]")
    pull = world.state.pull_request(world.repository, branch, author="dependabot[bot]")
    event = events.pull_request(world.github, pull, action="opened")
    assert event.environment["GITHUB_ACTOR"] == "dependabot[bot]"
    assert event.payload["sender"]["type"] == "Bot"
    assert not event.payload["pull_request"]["head"]["repo"]["fork"]


def test_event__pull_request_target(world: World) -> None:
    """With pull_request_target the job runs on the base."""
    event = events.pull_request_target(world.github, world.fork_pull)
    assert event.environment["GITHUB_SHA"] == world.repository.branches["main"]
    assert event.environment["GITHUB_REF"] == "refs/heads/main"
    assert event.environment["GITHUB_HEAD_REF"] == "main"


def test_event__push(world: World) -> None:
    """A push says what was before and after."""
    before = world.repository.branches["main"]
    after = world.state.commit(world.repository, "main").sha
    event = events.push(world.github, world.repository)
    assert (event.payload["before"], event.payload["after"]) == (before, after)
    assert event.environment["GITHUB_SHA"] == after
    assert event.environment["GITHUB_HEAD_REF"] == ""


def test_event__schedule(world: World) -> None:
    """A schedule's payload has no repository: it is in the environment only."""
    event = events.schedule(world.github, world.repository)
    assert set(event.payload) == {"schedule", "workflow"}
    assert event.environment["GITHUB_REPOSITORY"] == "team/model"
    assert event.environment["GITHUB_SHA"] == world.repository.branches["main"]


def test_event__workflow_dispatch(world: World) -> None:
    """A run by hand may be on any branch."""
    event = events.workflow_dispatch(world.github, world.repository, "faster")
    assert event.payload["ref"] == event.environment["GITHUB_REF"] == "refs/heads/faster"
    assert event.environment["GITHUB_SHA"] == world.pull.head_sha


def test_event__merge_group(world: World) -> None:
    """The merge queue's ref has the number and the base, its payload no pull request."""
    base = world.repository.branches["main"]
    event = events.merge_group(world.github, world.pull)
    ref = f"refs/heads/gh-readonly-queue/main/pr-{world.pull.number}-{base}"
    assert event.environment["GITHUB_REF"] == event.payload["merge_group"]["head_ref"] == ref
    assert event.payload["merge_group"]["base_sha"] == base
    assert event.environment["GITHUB_SHA"] == event.payload["merge_group"]["head_sha"]
    assert "pull_request" not in event.payload


def test_event__workflow_run_of_a_fork(world: World) -> None:
    """The end of a fork's run is told on the default branch, without a pull request."""
    producer = events.pull_request(world.github, world.fork_pull).run
    event = events.workflow_run(world.github, producer)
    told = event.payload["workflow_run"]
    assert told["pull_requests"] == []
    assert told["head_repository"]["full_name"] == "stranger/model"
    assert told["path"] == producer.path
    assert "post.yml@refs/heads/main" in event.environment["GITHUB_WORKFLOW_REF"]
    assert event.environment["GITHUB_SHA"] == world.repository.branches["main"]


def test_event__rerun(world: World) -> None:
    """A re-run is the same event on the same commit, as the next attempt."""
    first = events.push(world.github, world.repository)
    second = events.rerun(world.github, first)
    assert second.environment["GITHUB_RUN_ID"] == first.environment["GITHUB_RUN_ID"]
    assert second.environment["GITHUB_RUN_ATTEMPT"] == "2"
    assert world.get(f"/actions/runs/{second.run.id}").json()["run_attempt"] == 2
    assert second.environment["GITHUB_SHA"] == first.environment["GITHUB_SHA"]


def test_event__files(world: World, tmp_path: Path) -> None:
    """The payload is a file, and the environment names it as the job sees it."""
    event = events.push(world.github, world.repository)
    environment = event.write(tmp_path, seen_as="/github/workflow")
    assert environment["GITHUB_EVENT_PATH"] == "/github/workflow/event.json"
    assert json.loads((tmp_path / "event.json").read_text()) == event.payload
    assert (tmp_path / "github_output").read_text() == ""
    assert environment["GITHUB_API_URL"] == world.github.url


def test_rights__of_a_gate_are_the_default() -> None:
    """The default token may do what a gate job's permissions block gives it."""
    assert State().token("x").permissions == GATE_PERMISSIONS
