"""What goes over the wire, as values: a request, a reply, a refusal, and GitHub's pagination."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode

Json = dict[str, Any]

DOCUMENTATION = "https://docs.github.com/rest"
DEFAULT_PAGE_SIZE = 30
MAX_PAGE_SIZE = 100


@dataclass(frozen=True)
class Request:
    """One request; header names are lower case, the path carries no API prefix."""

    method: str
    path: str
    query_string: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; of a repeated one the last counts."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True))

    def json(self) -> Json:
        """The body as an object, refused like GitHub does where it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            raise Refusal(400, "Problems parsing JSON") from None
        if not isinstance(value, dict):
            raise Refusal(400, "Body should be a JSON object")
        return value


@dataclass(frozen=True)
class Reply:
    """One answer, before it is put on the wire."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def reason(self) -> str:
        """The words beside the status."""
        return HTTPStatus(self.status).phrase


class Refusal(Exception):  # noqa: N818 - a refusal is an answer of the server, no failure of it
    """An answer that ends the handling of a request with an error status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[Json] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what the answer will say."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def reply(self) -> Reply:
        """The answer as GitHub words it."""
        body: Json = {"message": self.message, "documentation_url": DOCUMENTATION}
        if self.errors:
            body["errors"] = self.errors
        return json_reply({**body, "status": str(self.status)}, self.status, self.headers)


def not_found() -> Refusal:
    """GitHub's 404, which it also gives for what the token may not know of."""
    return Refusal(404, "Not Found")


def invalid_field(resource: str, name: str, code: str, message: str = "") -> Refusal:
    """GitHub's 422 about one field."""
    error = {"resource": resource, "field": name, "code": code}
    if message:
        error["message"] = message
    return Refusal(422, "Validation Failed", errors=[error])


def json_reply(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer with a JSON body."""
    kind = {"content-type": "application/json; charset=utf-8"}
    return Reply(status, {**kind, **(headers or {})}, json.dumps(body).encode())


@dataclass(frozen=True)
class Page:
    """One page of a listing, and the Link header that leads to the others."""

    items: list[Any]
    headers: dict[str, str]


def paginate(items: Sequence[Any], request: Request, api: str) -> Page:
    """The page that the request asks for: 30 items unless told, 100 at most."""
    size = min(_positive(request, "per_page", DEFAULT_PAGE_SIZE), MAX_PAGE_SIZE)
    number = _positive(request, "page", 1)
    last = max(1, -(-len(items) // size))
    start = (number - 1) * size
    link = _link_header(request, api, number, last)
    return Page(list(items[start : start + size]), {"link": link} if link else {})


def _positive(request: Request, name: str, default: int) -> int:
    """GitHub takes its default for a number that is none, or too small."""
    value = request.query.get(name, "")
    return int(value) if value.isdecimal() and int(value) > 0 else default


def _link_header(request: Request, api: str, number: int, last: int) -> str:
    targets: dict[str, int] = {}
    if number > 1:
        targets |= {"prev": min(number - 1, last)}
    if number < last:
        targets |= {"next": number + 1, "last": last}
    if number > 1:
        targets |= {"first": 1}
    return ", ".join(
        f'<{api}{request.path}?{urlencode({**request.query, "page": page})}>; rel="{relation}"'
        for relation, page in targets.items()
    )
