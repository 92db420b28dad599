"""What a handler gets: one routed and authorised request, and the state to answer it from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.loopback_github.bodies import Links
from tests.loopback_github.messages import (
    Json,
    Refusal,
    Reply,
    Request,
    json_reply,
    not_found,
    paginate,
)
from tests.loopback_github.state import Repository, State, Token


@dataclass(frozen=True)
class Call:
    """One request on its way to a handler; `sign` makes the address of an artifact's bytes."""

    state: State
    links: Links
    request: Request
    params: Mapping[str, str]
    token: Token | None
    sign: Callable[[int], str]

    @property
    def repository(self) -> Repository:
        """The repository in the path."""
        found = self.state.find_repository(f"{self.params['owner']}/{self.params['repo']}")
        if found is None:
            raise not_found()
        return found

    @property
    def login(self) -> str:
        """Who writes."""
        assert self.token is not None  # routes let nobody write without one
        return self.token.login

    def number(self, name: str) -> int:
        """A number of the path; what is none does not exist."""
        value = self.params[name]
        if not value.isdecimal():
            raise not_found()
        return int(value)

    def commit_sha(self, ref: str) -> str:
        """The commit behind a ref, or GitHub's 422 for one that there is not."""
        sha = self.state.resolve(self.repository, ref)
        if sha is None:
            raise Refusal(422, f"No commit found for SHA: {ref}")
        return sha

    def mine(self, records: Sequence[Any]) -> list[Any]:
        """Those records that belong to the repository."""
        name = self.repository.full_name
        return [one for one in records if one.repository == name]

    def one(self, records: Sequence[Any], param: str) -> Any:
        """The repository's record with the id in the path."""
        wanted = self.number(param)
        found = [one for one in self.mine(records) if one.id == wanted]
        if not found:
            raise not_found()
        return found[-1]

    def listed(self, records: Sequence[Any], body: Callable[..., Json]) -> Reply:
        """One page of records as a plain list."""
        page = paginate(records, self.request, self.links.api)
        return json_reply(self._bodies(page.items, body), headers=page.headers)

    def counted(self, name: str, records: Sequence[Any], body: Callable[..., Json]) -> Reply:
        """One page of records beside their total count."""
        page = paginate(records, self.request, self.links.api)
        listing = {"total_count": len(records), name: self._bodies(page.items, body)}
        return json_reply(listing, headers=page.headers)

    def _bodies(self, records: Sequence[Any], body: Callable[..., Json]) -> list[Json]:
        return [body(self.links, self.state, one) for one in records]
