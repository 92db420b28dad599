"""HTTP to GitHub, and nothing else: requests, limits, retries, and errors in our own words.

The token is sent to the API's own host only. What the blob store serves is fetched without it: the
store refuses a forwarded Authorization, and its addresses are signed, so they appear nowhere.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from ci_score import __version__
from ci_score.errors import (
    AnswerTooLargeError,
    GitHubDownError,
    GitHubError,
    NoPermissionError,
    NotThereError,
)

if TYPE_CHECKING:
    import requests

API_VERSION = "2022-11-28"
GITHUB_PAGE, GITEA_PAGE = 100, 50
# Of one run.
MOST_JOBS = 1000
MOST_REQUESTS = 40
MOST_TRIES = 4
LONGEST_WAIT_IN_ALL = 90.0
LONGEST_ANSWER = 60.0
TIMEOUTS = (10.0, 30.0)
LARGEST_JSON = 32 * 1024 * 1024
LARGEST_DOWNLOAD = 512 * 1024 * 1024
JSON = "application/vnd.github+json"
# How GitHub refuses a text that it would have to make for too long.
REFUSED_AS_TOO_LARGE = frozenset({406, 422})
_CHUNK = 64 * 1024
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_LIMIT_WORDS = ("rate limit", "abuse detection", "secondary rate")

Json = Any


def has_gitea_s_path(url: str) -> bool:
    """Whether an API has the address that Gitea gives it; GitHub's have none such."""
    return url.rstrip("/").endswith("/api/v1")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: enough of it to decide what it means."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        """The body as JSON; a proxy's HTML page is no answer."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise GitHubDownError("GitHub answered with something that is not JSON") from None

    @property
    def message(self) -> str:
        """GitHub's own explanation, if it gave one."""
        try:
            message = json.loads(self.body).get("message", "")
        except (ValueError, AttributeError, RecursionError):
            return ""
        return str(message)[:200].encode(errors="replace").decode()


def _session() -> requests.Session:
    # Imported here: a run that asks GitHub nothing does not pay for it.
    import requests

    return requests.Session()


@dataclass(slots=True)
class Api:
    """One run's conversation with the API: it counts its requests and never waits without end."""

    url: str
    token: SecretStr | None
    session: requests.Session = field(default_factory=_session)
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time
    longest_answer: float = LONGEST_ANSWER
    requests_made: int = 0
    waited: float = 0.0
    _is_gitea: bool | None = None

    @property
    def is_gitea(self) -> bool:
        """Whether the server is a Gitea, as it says itself.

        It is asked only where its API would lie: a run on GitHub has no request to spare.
        """
        if self._is_gitea is None:
            self._is_gitea = has_gitea_s_path(self.url) and self._has_a_version()
        return self._is_gitea

    def _has_a_version(self) -> bool:
        try:
            answer = self.get("/version")
        except NotThereError:
            return False
        return isinstance(answer, dict) and isinstance(answer.get("version"), str)

    @property
    def page_size(self) -> dict[str, int]:
        """As many rows a page as the server gives."""
        return {"limit": GITEA_PAGE} if self.is_gitea else {"per_page": GITHUB_PAGE}

    def get(self, path: str, **parameters: str | int) -> Json:
        """One object or page."""
        return self._send("GET", path, parameters=parameters).json()

    def of_kind(self, kind: str, path: str, limit: int) -> bytes | None:
        """An answer of that media type; None where it is too large, for the server or for us.

        No verdict waits for such an answer. So it is asked for once, and the waiting that a run may
        do is left for its report.
        """
        try:
            answer = self._send("GET", path, kind=kind, limit=limit, tries=1)
        except AnswerTooLargeError:
            return None
        if answer.status in REFUSED_AS_TOO_LARGE:
            return None
        if answer.headers.get("content-type", "").partition(";")[0].strip() != kind:
            raise GitHubDownError(f"GitHub answered with something else than {kind}")
        return answer.body

    def pages(self, path: str, key: str | None = None, **parameters: str | int) -> Iterator[Json]:
        """The items of a list, page by page, as long as the caller wants more."""
        page, seen = 1, 0
        while True:
            answer = self._send(
                "GET", path, parameters={**parameters, **self.page_size, "page": page}
            )
            body = answer.json()
            rows = (body[key] if key else body) or []
            yield from rows
            seen += len(rows)
            if not rows or not self._has_more(answer, body, seen):
                return
            page += 1

    def _has_more(self, answer: Answer, body: Json, seen: int) -> bool:
        if not self.is_gitea:
            return 'rel="next"' in answer.headers.get("link", "")
        # Some of its lists know no pages and give all rows each time, so only the total can tell.
        total = body.get("total_count", 0) if isinstance(body, dict) else 0
        return seen < int(total or answer.headers.get("x-total-count") or 0)

    def write(self, method: str, path: str, body: Json) -> Json:
        """Creates or changes something."""
        return self._send(method, path, body=body).json()

    def delete(self, path: str) -> None:
        """Removes something; gone already is as good."""
        try:
            self._send("DELETE", path)
        except NotThereError:
            return

    def download(self, path: str, limit: int = LARGEST_DOWNLOAD) -> bytes:
        """A file behind a redirect: two hops, a fresh redirect for every try."""
        for attempt in range(1, MOST_TRIES + 1):
            answer = self._send("GET", path)
            if answer.status != 302:
                return answer.body
            try:
                return self._fetch(answer.headers.get("location", ""), limit)
            except GitHubDownError as error:
                if attempt == MOST_TRIES:
                    raise GitHubDownError(str(error), of_the_store=True) from None
                self._wait(2.0**attempt)
        raise AssertionError("the last try returns or raises")

    # --- one request ----------------------------------------------------------------------------

    def _send(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str | int] | None = None,
        body: Json = None,
        kind: str = JSON,
        limit: int = LARGEST_JSON,
        tries: int = MOST_TRIES,
    ) -> Answer:
        for attempt in range(1, tries + 1):
            try:
                answer = self._ask(method, self._address(path), parameters, body, kind, limit)
            except AnswerTooLargeError:
                raise
            except GitHubDownError:
                if attempt == tries or method == "POST":
                    raise
                self._wait(2.0 ** (attempt - 1))
                continue
            if answer.status < 400 or (kind != JSON and answer.status in REFUSED_AS_TOO_LARGE):
                return answer
            delay = self._retry_after(answer, attempt)
            # A POST that a server broke on may have had its effect: only the caller can look.
            if delay is None or attempt == tries or (method == "POST" and answer.status >= 500):
                raise _refusal(method, path, answer)
            self._wait(delay, message=answer.message)
        raise AssertionError("the last try returns or raises")

    def _address(self, path: str) -> str:
        return path if "://" in path else f"{self.url.rstrip('/')}{path}"

    def _ask(
        self,
        method: str,
        address: str,
        parameters: Mapping[str, str | int] | None,
        body: Json,
        kind: str,
        limit: int,
    ) -> Answer:
        self._count()
        headers = {
            "Accept": kind,
            "X-GitHub-Api-Version": API_VERSION,
            "User-Agent": f"ci-score/{__version__}",
        }
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.get_secret_value()}"
        answer = self._exchange(method, address, headers, limit, parameters, body)
        if answer.status in (301, 307, 308) and method == "GET":
            return self._follow(address, answer, headers, limit)
        return answer

    def _follow(self, address: str, answer: Answer, headers: dict[str, str], limit: int) -> Answer:
        """A renamed repository: one step, and only on the host that the token is for."""
        target = answer.headers.get("location", "")
        if urlsplit(target)[:2] != urlsplit(address)[:2]:
            raise GitHubDownError("GitHub redirects to another host")
        self._count()
        return self._exchange("GET", target, headers, limit, None, None)

    def _fetch(self, address: str, limit: int) -> bytes:
        secure = urlsplit(self.url).scheme == "https"
        if urlsplit(address).scheme not in (("https",) if secure else ("https", "http")):
            raise GitHubDownError("GitHub redirects to an address that is not https")
        headers = {"User-Agent": f"ci-score/{__version__}"}
        answer = self._exchange("GET", address, headers, limit, None, None)
        if answer.status != 200:
            raise GitHubDownError(f"the artifact store answered {answer.status}")
        return answer.body

    def _exchange(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        limit: int,
        parameters: Mapping[str, str | int] | None,
        body: Json,
    ) -> Answer:
        """One exchange, bounded in time and size; foreign exceptions end here, without text."""
        import requests
        import urllib3

        def exchange() -> Answer:
            with self.session.request(
                method,
                address,
                params=parameters,
                json=body,
                headers=dict(headers),
                timeout=TIMEOUTS,
                allow_redirects=False,
                stream=True,
                # requests would read credentials for any host from a .netrc.
                auth=_no_other_credentials,
            ) as response:
                return Answer(response.status_code, response.headers, _body(response, limit))

        try:
            return self._in_time(exchange)
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
            raise GitHubDownError(
                f"the connection to GitHub failed ({type(error).__name__})", maybe_done=True
            ) from None

    def _in_time(self, exchange: Callable[[], Answer]) -> Answer:
        """Its answer, from the first connection to the last byte.

        Timeouts of a socket are between two bytes, and a header that drips is waited for inside of
        the library. So it waits in a thread of its own, which is left alone when its time is up.
        """
        answer: Future[Answer] = Future()

        def fulfil() -> None:
            try:
                answer.set_result(exchange())
            except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
                answer.set_exception(error)

        threading.Thread(target=fulfil, daemon=True).start()
        try:
            return answer.result(self.longest_answer)
        except TimeoutError:
            raise GitHubDownError("an answer takes too long", maybe_done=True) from None

    # --- patience -------------------------------------------------------------------------------

    def _count(self) -> None:
        if self.requests_made >= MOST_REQUESTS:
            raise GitHubDownError(f"{MOST_REQUESTS} requests were not enough")
        self.requests_made += 1

    def _wait(self, delay: float, message: str = "") -> None:
        if self.waited + delay > LONGEST_WAIT_IN_ALL:
            why = f" ({message})" if message else ""
            raise GitHubDownError(f"GitHub asks to wait {delay:.0f} s, which is too long{why}")
        self.waited += delay
        self.sleep(delay)

    def _retry_after(self, answer: Answer, attempt: int) -> float | None:
        """How long to wait before the next try, or None where another try would change nothing."""
        if answer.status >= 500:
            return 2.0 ** (attempt - 1)
        if not _is_limit(answer):
            return None
        if answer.headers.get("retry-after", "").isdecimal():
            return float(answer.headers["retry-after"])
        reset = answer.headers.get("x-ratelimit-reset", "")
        if answer.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
            return max(float(reset) - self.now(), 1.0)
        return 60.0


def _body(response: requests.Response, limit: int) -> bytes:
    deadline = time.monotonic() + LONGEST_ANSWER
    chunks, size = [], 0
    # read1 returns what has come: a full chunk of a body that drips would be waited for hours.
    while chunk := response.raw.read1(_CHUNK, decode_content=True):
        size += len(chunk)
        if size > limit:
            raise AnswerTooLargeError(f"an answer is larger than {limit // 2**20} MiB")
        if time.monotonic() > deadline:
            raise GitHubDownError("an answer takes too long", maybe_done=True)
        chunks.append(chunk)
    return b"".join(chunks)


@contextmanager
def as_expected() -> Iterator[None]:
    """An answer of another shape than GitHub describes is the API's fault, and no crash of ours."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise GitHubDownError(
            f"GitHub answered in a shape that is not known ({type(error).__name__})"
        ) from None


def moment(text: Any) -> str:
    """A time as GitHub gives it, which sorts as text; ValueError for any other form."""
    if not isinstance(text, str) or not _MOMENT.fullmatch(text):
        raise ValueError("no time")
    return text


def _is_limit(answer: Answer) -> bool:
    """A 403 may be a limit or a missing right; only the former gets better by waiting."""
    if answer.status == 429:
        return True
    if answer.status != 403:
        return False
    exhausted = answer.headers.get("x-ratelimit-remaining") == "0"
    message = answer.message.lower()
    return exhausted or "retry-after" in answer.headers or any(w in message for w in _LIMIT_WORDS)


def _refusal(method: str, path: str, answer: Answer) -> GitHubError:
    what = f"{method} {path.split('?')[0]}: {answer.status}"
    if answer.status == 401:
        return NoPermissionError(
            f"{what}: the token is missing, expired or wrong. Give `github-token`, or leave it to"
            " its default `${{ github.token }}`."
        )
    if answer.status == 403 and not _is_limit(answer):
        return NoPermissionError(f"{what}: {answer.message}. {_permission_hint(path)}")
    if answer.status in (404, 410):
        return NotThereError(f"{what}: {answer.message or 'not there'}. {_permission_hint(path)}")
    if answer.status >= 500 or _is_limit(answer):
        return GitHubDownError(f"{what}: {answer.message}", maybe_done=answer.status >= 500)
    return GitHubError(f"{what}: {answer.message}")


_RIGHTS = (
    ("/actions/", "actions: read"),
    ("/check-runs", "checks: write"),
    ("/comments", "pull-requests: write"),
    ("/pulls", "pull-requests: read"),
    ("/issues", "issues: write"),
    ("/commits", "contents: read"),
    ("/compare", "contents: read"),
)


def _permission_hint(path: str) -> str:
    right = next((right for part, right in _RIGHTS if part in path), "contents: read")
    return f"Does the job's `permissions:` have `{right}`?"


def _no_other_credentials(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
