"""What goes wrong on the way: faults to inject, and hooks to run before a request is answered.

A fault replaces the answer, damages its delivery, or both. With `handled=True` the request
has its effect first and only its answer is lost: a client that repeats it blindly acts twice.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tests.loopback_github.messages import Reply, Request, json_reply

LIMITS = "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"


class Delivery(Enum):
    """How an answer is put on the wire."""

    WHOLE = "whole"
    RESET = "reset"
    TRUNCATED = "truncated"
    SLOW = "slow"
    HANGING = "hanging"


@dataclass(frozen=True)
class Fault:
    """What happens to a request; the functions below make them."""

    name: str
    reply: Reply | None = None
    delivery: Delivery = Delivery.WHOLE
    seconds: float = 0.0
    handled: bool = False

    @property
    def needs_answer(self) -> bool:
        """Whether the request is handled although it is disturbed."""
        return self.handled or (self.reply is None and self.delivery is not Delivery.RESET)


@dataclass
class Match:
    """Which requests are meant, and how many more of them."""

    host: str
    method: str
    path: str
    times: int
    after: int = 0

    def takes(self, host: str, request: Request) -> bool:
        """Whether this request is one; counts it then."""
        if self.host != host or self.times < 1 or not self._fits(request):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True

    def _fits(self, request: Request) -> bool:
        method = re.fullmatch(self.method, request.method)
        return bool(method and re.search(self.path, request.path))


Hook = Callable[[Request], object]


class Interference:
    """The queue of faults and hooks of one server; the first that matches is taken."""

    def __init__(self) -> None:
        """Nothing goes wrong until told."""
        self._faults: list[tuple[Match, Fault]] = []
        self._hooks: list[tuple[Match, Hook]] = []
        self._lock = threading.Lock()

    def inject(self, match: Match, fault: Fault) -> None:
        """Queue a fault."""
        with self._lock:
            self._faults.append((match, fault))

    def before(self, match: Match, hook: Hook) -> None:
        """Queue a hook."""
        with self._lock:
            self._hooks.append((match, hook))

    def take_fault(self, host: str, request: Request) -> Fault | None:
        """The fault for a request, used up by it."""
        with self._lock:
            return next(
                (fault for match, fault in self._faults if match.takes(host, request)), None
            )

    def run_hooks(self, host: str, request: Request) -> None:
        """Run what waits for a request, outside the lock: a hook may send requests itself."""
        with self._lock:
            due = [hook for match, hook in self._hooks if match.takes(host, request)]
        for hook in due:
            hook(request)

    def unused(self) -> list[str]:
        """The faults that no request has met: a test that has some tests less than it says."""
        return [fault.name for match, fault in self._faults if match.times > 0]


def after_handling(fault: Fault) -> Fault:
    """The same fault, but the request has had its effect."""
    return replace(fault, handled=True)


def secondary_limit(retry_after: int | None = 60) -> Fault:
    """403: too much at once. GitHub may leave the Retry-After header out."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    body = {
        "documentation_url": f"{LIMITS}#about-secondary-rate-limits",
        "message": "You have exceeded a secondary rate limit. "
        "Please wait a few minutes before you try again.",
    }
    return Fault("secondary limit", json_reply(body, 403, headers))


def primary_limit(reset_in: int = 60, status: int = 403) -> Fault:
    """403 or 429: the hour's requests are used up until the reset."""
    headers = {
        "x-ratelimit-limit": "1000",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-used": "1000",
        "x-ratelimit-reset": str(int(time.time()) + reset_in),
    }
    body = {"documentation_url": LIMITS, "message": "API rate limit exceeded for installation."}
    return Fault("primary limit", json_reply(body, status, headers))


def too_many_requests(retry_after: int | None = None) -> Fault:
    """429, with or without a Retry-After header."""
    limited = secondary_limit(retry_after).reply
    assert limited is not None
    return Fault("too many requests", replace(limited, status=429))


def server_error(status: int = 502) -> Fault:
    """500, 502, 503 or 504 with a JSON message."""
    return Fault(f"server error {status}", json_reply({"message": "Server Error"}, status))


def html_page(status: int = 502) -> Fault:
    """A page of a proxy or of GitHub's front door where JSON was expected."""
    page = b"<!DOCTYPE html><html><body><h1>Whoa there!</h1></body></html>"
    return Fault("html page", Reply(status, {"content-type": "text/html; charset=utf-8"}, page))


def invalid_json() -> Fault:
    """200, said to be JSON, cut in the middle."""
    headers = {"content-type": "application/json; charset=utf-8"}
    return Fault("invalid json", Reply(200, headers, b'{"total_count": 1, "artifacts": [{"id'))


def bad_credentials() -> Fault:
    """401, as for a token that has just expired."""
    return Fault("bad credentials", json_reply({"message": "Bad credentials"}, 401))


def connection_reset() -> Fault:
    """The connection breaks instead of an answer."""
    return Fault("connection reset", delivery=Delivery.RESET)


def truncated_body() -> Fault:
    """The connection closes after half the bytes that Content-Length promised."""
    return Fault("truncated body", delivery=Delivery.TRUNCATED)


def slow_body(seconds: float) -> Fault:
    """The headers come at once, the body's bytes trickle in over so many seconds."""
    return Fault("slow body", delivery=Delivery.SLOW, seconds=seconds)


def hanging(seconds: float) -> Fault:
    """Not a byte for so many seconds, then the answer."""
    return Fault("hanging", delivery=Delivery.HANGING, seconds=seconds)


KINDS: Mapping[str, Callable[..., Fault]] = {
    maker.__name__: maker
    for maker in (
        secondary_limit,
        primary_limit,
        too_many_requests,
        server_error,
        html_page,
        invalid_json,
        bad_credentials,
        connection_reset,
        truncated_body,
        slow_body,
        hanging,
    )
}


def from_json(row: Mapping[str, Any]) -> tuple[Match, Fault]:
    """A fault from a state's file: `{"kind": "server_error", "with": {"status": 503}, …}`."""
    fault = KINDS[row["kind"]](**row.get("with", {}))
    match = Match(
        host=row.get("host", "api"),
        method=row.get("method", ".*"),
        path=row.get("path", ""),
        times=row.get("times", 1),
        after=row.get("after", 0),
    )
    return match, after_handling(fault) if row.get("handled") else fault
