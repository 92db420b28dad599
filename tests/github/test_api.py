"""HTTP to GitHub: limits, retries, refusals, redirects; and the token that is nowhere."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import requests
import urllib3
from pydantic import SecretStr

from ci_score.errors import GitHubDownError, GitHubError, NoPermissionError, NotThereError
from ci_score.github.api import LONGEST_WAIT_IN_ALL, MOST_REQUESTS, Api
from tests.builders import PROJECT
from tests.loopback_github import LoopbackGitHub, State, faults

TOKEN = "ghs_" + "t0ken" * 8


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """A repository with one commit and one artifact."""
    state = State()
    state.token(TOKEN)
    repository = state.repository("team/model")
    state.commit(repository, "main")
    state.artifact(state.run(repository), "ci-score", b"content")
    with LoopbackGitHub(state) as made:
        yield made


@pytest.fixture
def slept() -> list[float]:
    """The waits that were asked for."""
    return []


@pytest.fixture
def api(github: LoopbackGitHub, slept: list[float]) -> Api:
    """A client whose waits take no time."""
    return Api(github.url, SecretStr(TOKEN), sleep=slept.append)


REPOSITORY = "/repos/team/model"


def test_import__of_the_door_leaves_requests_alone() -> None:
    """A run on a machine without GitHub does not pay for importing it."""
    code = "import sys, ci_score.run.action; print({'requests', 'urllib3'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def zip_path(github: LoopbackGitHub) -> str:
    return f"{REPOSITORY}/actions/artifacts/{github.state.artifacts[0].id}/zip"


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        (faults.secondary_limit(30), [30.0]),
        (faults.too_many_requests(5), [5.0]),
        (faults.secondary_limit(None), [60.0]),
        (faults.server_error(503), [1.0]),
        (faults.connection_reset(), [1.0]),
        (faults.truncated_body(), [1.0]),
    ],
)
def test_limit__is_waited_for_as_asked(
    api: Api, github: LoopbackGitHub, slept: list[float], fault: Any, waits: list[float]
) -> None:
    """Retry-After, else the reset, else a minute; a server's fault a moment."""
    github.inject(fault, path="/repos")
    assert api.get(REPOSITORY)["full_name"] == "team/model"
    assert slept == waits


def test_limit__waits_for_the_reset(api: Api, github: LoopbackGitHub, slept: list[float]) -> None:
    """The primary limit says when it ends."""
    github.inject(faults.primary_limit(40), path="/repos")
    api.get(REPOSITORY)
    (waited,) = slept
    assert 30 <= waited <= 41


@pytest.mark.parametrize(
    "fault", [faults.primary_limit(3600), faults.secondary_limit(600), faults.too_many_requests(99)]
)
def test_limit__that_is_too_long_is_given_up_at_once(
    api: Api, github: LoopbackGitHub, slept: list[float], fault: Any
) -> None:
    """Nobody waits an hour in a job: inconclusive, with the reason."""
    github.inject(fault, path="/repos", times=9)
    with pytest.raises(GitHubDownError, match="too long"):
        api.get(REPOSITORY)
    assert slept == []


def test_limit__all_waits_together_are_bounded(
    api: Api, github: LoopbackGitHub, slept: list[float]
) -> None:
    """Many small waits are one long one."""
    github.inject(faults.too_many_requests(40), path="/repos", times=99)
    with pytest.raises(GitHubDownError):
        api.get(REPOSITORY)
    assert sum(slept) <= LONGEST_WAIT_IN_ALL


def test_requests__are_never_more_than_forty(api: Api) -> None:
    """A loop of ours must not eat a repository's quota."""
    for _ in range(MOST_REQUESTS):
        api.get(REPOSITORY)
    with pytest.raises(GitHubDownError, match="not enough"):
        api.get(REPOSITORY)
    assert api.requests_made == MOST_REQUESTS


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (f"{REPOSITORY}/actions/artifacts", "actions: read"),
        (f"{REPOSITORY}/commits", "contents: read"),
        (f"{REPOSITORY}/issues/1/comments", "pull-requests: write"),
    ],
)
def test_refusal__says_which_right_to_add(
    api: Api, github: LoopbackGitHub, slept: list[float], path: str, hint: str
) -> None:
    """A missing right is no limit: no retry, and the line for `permissions:`."""
    github.state.tokens[0].permissions = {"metadata": "read"}
    with pytest.raises((NoPermissionError, NotThereError), match=hint):
        api.get(path)
    assert slept == []


def test_refusal__of_a_wrong_token(api: Api, github: LoopbackGitHub) -> None:
    """401 is about the token itself."""
    github.state.revoke(github.state.tokens[0])
    with pytest.raises(NoPermissionError, match="github-token"):
        api.get(REPOSITORY)


@pytest.mark.parametrize("fault", [faults.html_page(200), faults.invalid_json()])
def test_answer__that_is_no_json(api: Api, github: LoopbackGitHub, fault: Any) -> None:
    """A proxy's page is no answer."""
    github.inject(fault, path="/repos")
    with pytest.raises(GitHubError):
        api.get(REPOSITORY)


def test_pages__follow_to_the_end(api: Api, github: LoopbackGitHub) -> None:
    """A hundred a page, as many pages as there are."""
    repository = github.state.repository_named("team/model")
    for _ in range(249):
        github.state.commit(repository, "main")
    assert len(list(api.pages(f"{REPOSITORY}/commits"))) == 250
    assert api.requests_made == 3


def test_download__takes_two_hops_and_leaves_the_token_behind(
    api: Api, github: LoopbackGitHub
) -> None:
    """The blob store refuses a forwarded Authorization; it gets none."""
    assert api.download(zip_path(github)) == b"content"
    hops = [(row.host, row.carries_authorization) for row in github.exchanges]
    assert hops == [("api", True), ("blob", False)]


@pytest.mark.parametrize("fault", [faults.connection_reset(), faults.truncated_body(),
                                   faults.server_error(503)])  # fmt: skip
def test_download__asks_for_a_new_redirect_on_a_retry(
    api: Api, github: LoopbackGitHub, fault: Any
) -> None:
    """The signed address lives a minute: it is not tried twice."""
    github.inject(fault, host="blob")
    assert api.download(zip_path(github)) == b"content"
    assert [row.host for row in github.exchanges] == ["api", "blob", "api", "blob"]


def test_download__is_limited(api: Api, github: LoopbackGitHub) -> None:
    """An upload may be of any size; what is read is not."""
    github.state.artifacts[0].content = b"x" * 100_000
    with pytest.raises(GitHubDownError, match="larger than"):
        api.download(zip_path(github), limit=1000)


def test_redirect__to_another_host_is_not_followed_with_the_token(
    api: Api, github: LoopbackGitHub
) -> None:
    """Only the API's own host ever sees the token, whoever redirects."""
    seen = []

    class Elsewhere(requests.adapters.HTTPAdapter):
        """Answers every request with a redirect to somewhere else."""

        def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
            """Remembers who was asked."""
            seen.append(request.url)
            response = requests.Response()
            response.status_code = 301
            response.headers["location"] = "http://elsewhere.invalid/steal"
            response.raw = urllib3.HTTPResponse(io.BytesIO(), preload_content=False)
            response.request = request
            return response

    api.session.mount("http://", Elsewhere())
    with pytest.raises(GitHubDownError, match="another host"):
        api.get(REPOSITORY)
    assert all("elsewhere" not in str(url) for url in seen)


def test_post__is_not_repeated_when_it_may_have_worked(api: Api, github: LoopbackGitHub) -> None:
    """A second try could write twice; whoever asked must look first."""
    github.state.issue(github.state.repository_named("team/model"), "x")
    github.inject(faults.after_handling(faults.connection_reset()), method="POST")
    with pytest.raises(GitHubDownError) as error:
        api.write("POST", f"{REPOSITORY}/issues/1/comments", {"body": "x"})
    assert error.value.maybe_done
    assert len(github.state.comments) == 1


def test_delete__of_what_is_gone_is_fine(api: Api) -> None:
    """Somebody else was faster."""
    api.delete(f"{REPOSITORY}/issues/comments/1")


def test_ghes__has_its_api_under_a_path(slept: list[float]) -> None:
    """GITHUB_API_URL may name another server and a prefix."""
    state = State()
    state.token(TOKEN)
    state.repository("team/model")
    with LoopbackGitHub(state, prefix="/api/v3") as enterprise:
        api = Api(enterprise.url, SecretStr(TOKEN), sleep=slept.append)
        assert api.get(REPOSITORY)["full_name"] == "team/model"


def test_token__is_in_no_repr_and_no_error(api: Api, github: LoopbackGitHub) -> None:
    """Whatever is printed of the client or its errors."""
    github.inject(faults.connection_reset(), times=99)
    with pytest.raises(GitHubDownError) as error:
        api.get(REPOSITORY)
    assert TOKEN not in repr(api) + str(api) + repr(error.value) + str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "begin",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: ",
        b"HTTP/1.1 ",
    ],
    ids=["body", "header", "status"],
)
def test_answer__that_drips_is_given_up(begin: bytes) -> None:
    """A byte every now and then keeps a connection alive for ever; the clock does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server, begin), daemon=True).start()
        host, port = server.getsockname()
        api = Api(f"http://{host}:{port}", None, sleep=lambda _: None, longest_answer=0.05)
        with pytest.raises(GitHubDownError, match="too long"):
            api.get("/")


def drip(server: socket.socket, begin: bytes) -> None:
    """Answers each connection with something without an end, a byte at a time."""
    while True:
        try:
            connection, _ = server.accept()
            threading.Thread(target=drip_into, args=(connection, begin), daemon=True).start()
        except OSError:
            return


def drip_into(connection: socket.socket, begin: bytes) -> None:
    """Ends when its other side has closed, or after more than is waited for."""
    with connection, suppress(OSError):
        connection.recv(65536)
        connection.sendall(begin)
        for _ in range(2000):
            connection.sendall(b"1")
            time.sleep(0.001)
