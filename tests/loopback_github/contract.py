"""Checks recorded exchanges, both directions, against GitHub's official OpenAPI description.

The description is a file outside the project (see `description_path`). Where there is none,
`description_path()` is None and the tests that need it skip and say so.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from jsonschema_path import SchemaPath
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.templating.datatypes import TemplateResult
from openapi_core.templating.paths.datatypes import PathOperationServer
from openapi_core.templating.paths.exceptions import OperationNotFound, PathNotFound
from openapi_core.templating.paths.finders import BasePathFinder
from werkzeug.datastructures import Headers, ImmutableMultiDict

from tests.loopback_github.exchanges import Exchange

SHARED_FOLDER = "CI_SCORE_SHARED"
DESCRIPTION = "github-openapi.json.gz"
DESCRIBED_HOST = "https://api.github.com"


@dataclass(frozen=True)
class Exemption:
    """Exchanges that nobody checks, and why."""

    reason: str
    covers: Callable[[Exchange], bool]


# The whole list of what is not checked. Everything else is, also refusals.
EXEMPTIONS = (
    Exemption(
        "an injected fault: what a broken server says is in no description",
        lambda exchange: exchange.fault is not None,
    ),
    Exemption(
        "the blob host: it is not GitHub's, and no description has it",
        lambda exchange: exchange.host == "blob",
    ),
    Exemption(
        "the jobs of an attempt: our cut of the description has none",
        lambda exchange: (
            re.fullmatch(r"/repos/[^/]+/[^/]+/actions/runs/\d+/attempts/\d+/jobs", exchange.path)
            is not None
        ),
    ),
    Exemption(
        "issues themselves: our cut of the description has only their comments",
        lambda exchange: (
            re.fullmatch(r"/repos/[^/]+/[^/]+/issues(/\d+)?", exchange.path) is not None
        ),
    ),
)

# Where GitHub really answers what its description leaves out, we complete the description
# (each answer is still checked, against the completed one):
# - any operation can be refused; the answer is then the description's own shared response;
ANY_REFUSAL = {
    "400": "bad_request",
    "401": "requires_authentication",
    "403": "forbidden",
    "404": "not_found",
    "406": "validation_failed",
    "422": "validation_failed",
}
# - some 422 are no validation errors but a message only ("No commit found for SHA: …");
MESSAGE_ONLY = ("422",)
# - an enumeration marked nullable is meant to take null, which OpenAPI 3.0 wants listed too;
# - what tells files from links by their `type` cannot tell a directory, which is a list;
CONTENTS = "/repos/{owner}/{repo}/contents/{path}"
# - a run or a pull request from a fork that was deleted has null for its repository.
NULL_IF_DELETED = (
    ("workflow-run", ("properties", "head_repository"), "minimal-repository"),
    ("pull-request", ("properties", "head", "properties", "repo"), "repository"),
    ("pull-request-simple", ("properties", "head", "properties", "repo"), "repository"),
)


def description_path() -> Path | None:
    """The description's file: in the folder that CI_SCORE_SHARED names, else beside the project."""
    named = os.environ.get(SHARED_FOLDER)
    root = next((one for one in Path(__file__).parents if (one / "pyproject.toml").is_file()), None)
    folder = Path(named) if named else root and root.parent / "shared"
    path = folder and folder / DESCRIPTION
    return path if path and path.is_file() else None


def violations(exchanges: Iterable[Exchange]) -> list[str]:
    """What is wrong with the exchanges, a line each; LookupError without a description."""
    path = description_path()
    if path is None:
        raise LookupError(f"no {DESCRIPTION}: name its folder in {SHARED_FOLDER}")
    contract = load(path)
    return [
        f"{exchange}: {problem}"
        for exchange in exchanges
        if not is_exempt(exchange)
        for problem in contract.problems(exchange)
    ]


def is_exempt(exchange: Exchange) -> bool:
    """Whether the list above covers it."""
    return any(exemption.covers(exchange) for exemption in EXEMPTIONS)


@cache
def load(path: Path) -> Contract:
    """The description, read once in a process."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return Contract(json.load(file))


class Contract:
    """The description, ready to check with."""

    def __init__(self, description: dict[str, Any]) -> None:
        """Complete the description and compile it; it is trusted, so not validated itself."""
        _complete(description)
        config = Config(
            path_finder_cls=DescribedPaths,
            spec_validator_cls=None,
            extra_media_type_deserializers={"application/vnd.github.diff": _text},
        )
        self._openapi = OpenAPI.from_dict(description, config=config)
        self._paths = DescribedPaths(self._openapi.spec)
        self._of_requests: dict[tuple[object, ...], list[str]] = {}

    def problems(self, exchange: Exchange) -> list[str]:
        """Everything about one exchange that the description does not allow."""
        request, response = _request(exchange), _response(exchange)
        try:
            found = self._paths.find(request.method, request.host_url + request.path)
        except (PathNotFound, OperationNotFound):
            return ["the description has no such endpoint"]
        # Hundreds of tests ask the same, and no header but this one is described.
        kind = exchange.request_headers.get("content-type")
        asked = (exchange.method, exchange.path, exchange.query_string, kind, exchange.request_body)
        if asked not in self._of_requests:
            errors = [_told(error) for error in self._openapi.iter_request_errors(request)]
            self._of_requests[asked] = errors + _undescribed(exchange, found.operation)
        errors = [_told(error) for error in self._openapi.iter_response_errors(request, response)]
        return errors + self._of_requests[asked]


def _text(body: bytes, charset: str = "utf-8") -> str:
    return body.decode(charset)


class DescribedPaths(BasePathFinder):
    """Finds a request's operation; openapi-core's own finder knows no refs with slashes."""

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        items = (self.spec / "paths").str_items()
        found = [(template, _pattern(template, _multi_segment(item))) for template, item in items]
        # fewer parameters are more exact: `/issues/comments/{id}` before `/issues/{n}/{x}`
        return sorted(found, key=lambda one: (one[0].count("{"), -len(one[0])))

    def find(self, method: str, name: str) -> PathOperationServer:
        """The operation of a method and a full URL."""
        path = name.removeprefix(DESCRIBED_HOST)
        known = False
        for template, pattern in self._patterns:
            match = pattern.fullmatch(path)
            item = self.spec / "paths" / template
            if match and method in item:
                found = TemplateResult(template, match.groupdict())
                host = TemplateResult(DESCRIBED_HOST, {})
                return PathOperationServer(item, item / method, self.spec / "servers", found, host)
            known = known or match is not None
        raise OperationNotFound(name, method) if known else PathNotFound(name)


def _pattern(template: str, multi_segment: set[str]) -> re.Pattern[str]:
    def parameter(match: re.Match[str]) -> str:
        return f"(?P<{match[1]}>{'.+' if match[1] in multi_segment else '[^/]+'})"

    return re.compile(re.sub(r"\{(\w+)\}", parameter, template))


def _multi_segment(item: SchemaPath) -> set[str]:
    """The parameters of a path that GitHub marks as able to hold slashes."""
    return {
        (one / "name").read_str()
        for _, operation in item.str_items()
        for one in _parameters(operation)
        if (one / "x-multi-segment").read_bool(default=False)
    }


def _parameters(operation: SchemaPath) -> Iterable[SchemaPath]:
    return operation / "parameters" if "parameters" in operation else ()


def _complete(description: dict[str, Any]) -> None:
    """Add what the comments at the top name."""
    responses = description["components"]["responses"]
    for status in MESSAGE_ONLY:
        content = responses[ANY_REFUSAL[status]]["content"]["application/json"]
        message_only = {"$ref": "#/components/schemas/basic-error"}
        content["schema"] = {"anyOf": [content["schema"], message_only]}
    for item in description["paths"].values():
        for operation in item.values():
            for status, name in ANY_REFUSAL.items():
                shared = {"$ref": f"#/components/responses/{name}"}
                operation["responses"].setdefault(status, shared)
    contents = description["paths"][CONTENTS]["get"]["responses"]["200"]
    del contents["content"]["application/json"]["schema"]["discriminator"]
    _list_null(description)
    _allow_null(description["components"]["schemas"])


def _list_null(node: Any) -> None:
    """Where an enumeration is nullable, list null with its values."""
    if isinstance(node, list):
        for item in node:
            _list_null(item)
    elif isinstance(node, dict):
        if node.get("nullable") is True and isinstance(node.get("enum"), list):
            node["enum"] = [*node["enum"], None]
        for value in node.values():
            _list_null(value)


def _allow_null(schemas: dict[str, Any]) -> None:
    for name, (*way, last), target in NULL_IF_DELETED:
        owner = schemas[name]
        for step in way:
            owner = owner[step]
        owner[last] = {**schemas[target], "nullable": True}


def _request(exchange: Exchange) -> Any:
    """An exchange's request as openapi-core wants it."""
    query = parse_qsl(exchange.query_string, keep_blank_values=True)
    return SimpleNamespace(
        host_url=DESCRIBED_HOST,
        path=exchange.path,
        method=exchange.method.lower(),
        parameters=RequestParameters(
            query=ImmutableMultiDict(query), header=Headers(exchange.request_headers)
        ),
        content_type=exchange.request_headers.get("content-type", ""),
        body=exchange.request_body,
    )


def _response(exchange: Exchange) -> Any:
    """An exchange's answer as openapi-core wants it."""
    return SimpleNamespace(
        status_code=exchange.status,
        headers=Headers(exchange.response_headers),
        content_type=exchange.response_headers.get("content-type", ""),
        data=exchange.response_body,
    )


def _undescribed(exchange: Exchange, operation: SchemaPath) -> list[str]:
    """What a request carries and its operation does not know; GitHub and openapi-core ignore it."""
    known = {
        (one / "name").read_str()
        for one in _parameters(operation)
        if (one / "in").read_str() == "query"
    }
    names = {name for name, _ in parse_qsl(exchange.query_string, keep_blank_values=True)}
    problems = [f"the endpoint takes no parameter {name!r}" for name in sorted(names - known)]
    if exchange.request_body and "requestBody" not in operation:
        problems.append("the endpoint takes no body")
    return problems


def _told(error: Exception) -> str:
    """An error of openapi-core in one line: with the place, without the whole body."""
    cause = error.__cause__ or error
    nested = getattr(cause, "schema_errors", ())
    places = [f"{'/'.join(map(str, one.absolute_path))}: {one.message[:200]}" for one in nested]
    return "; ".join([str(error)[:200], *(places or [str(cause)[:200]])])
