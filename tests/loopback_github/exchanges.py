"""What went over the wire, both directions: the record that tests read and the contract checks."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.loopback_github.messages import Reply, Request

BODIES = ("request_body", "response_body")


@dataclass(frozen=True)
class Exchange:
    """One request and what was answered; `status` is None where the connection was reset.

    Header names are lower case. The Authorization header is kept as it came, and
    `carries_authorization` flags it, so that a test can say who was shown the token.
    """

    number: int
    host: str
    method: str
    path: str
    query_string: str
    request_headers: dict[str, str]
    request_body: bytes
    carries_authorization: bool
    status: int | None
    response_headers: dict[str, str]
    response_body: bytes
    fault: str | None

    @property
    def request_json(self) -> Any:
        """The request's body, parsed."""
        return json.loads(self.request_body)

    @property
    def response_json(self) -> Any:
        """The answer's body, parsed."""
        return json.loads(self.response_body)

    def __str__(self) -> str:
        """A line for failure messages; the query stays out, it may be a signature."""
        return f"#{self.number} {self.host} {self.method} {self.path} -> {self.status}"


class Exchanges:
    """All exchanges of one server in the order in which they were answered."""

    def __init__(self, log: Path | None = None) -> None:
        """Start empty; `log` names a file that gets one JSON line an exchange."""
        self._all: list[Exchange] = []
        self._log = log
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Exchange]:
        """Walk over those recorded so far."""
        return iter(list(self._all))

    def __len__(self) -> int:
        """How many were recorded so far."""
        return len(self._all)

    def __getitem__(self, index: int) -> Exchange:
        """One of them, the last is -1."""
        return self._all[index]

    def clear(self) -> None:
        """Forget them, to look at one step of a story only."""
        with self._lock:
            self._all.clear()

    def record(self, host: str, request: Request, reply: Reply | None, fault: str | None) -> None:
        """Keep one exchange; called before the answer is sent, so no client is ahead of it."""
        with self._lock:
            exchange = Exchange(
                number=len(self._all) + 1,
                host=host,
                method=request.method,
                path=request.path,
                query_string=request.query_string,
                request_headers=dict(request.headers),
                request_body=request.body,
                carries_authorization="authorization" in request.headers,
                status=reply.status if reply else None,
                response_headers=dict(reply.headers) if reply else {},
                response_body=reply.body if reply else b"",
                fault=fault,
            )
            self._all.append(exchange)
            if self._log:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(_to_line(exchange))


def read_log(path: Path) -> list[Exchange]:
    """The exchanges that a server in another process has logged."""
    with path.open(encoding="utf-8") as file:
        return [_from_line(line) for line in file]


def _to_line(exchange: Exchange) -> str:
    row = asdict(exchange)
    return json.dumps(row | {name: _printable(row[name]) for name in BODIES}) + "\n"


def _from_line(line: str) -> Exchange:
    row = json.loads(line)
    return Exchange(**row | {name: _bytes(row[name]) for name in BODIES})


def _printable(body: bytes) -> dict[str, str]:
    """Text stays readable in the log; a zip does not fit JSON and is wrapped."""
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _bytes(printed: dict[str, str]) -> bytes:
    return printed["text"].encode() if "text" in printed else base64.b64decode(printed["base64"])
