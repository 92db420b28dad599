"""Walks over the graph of commits, in the order in which git shows them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.loopback_github.state import Commit

Graph = Mapping[str, "Commit"]


def ancestors(graph: Graph, tip: str) -> set[str]:
    """A commit and all that came before it."""
    seen: set[str] = set()
    open_ends = [tip]
    while open_ends:
        sha = open_ends.pop()
        if sha not in seen:
            seen.add(sha)
            open_ends.extend(graph[sha].parents)
    return seen


def log(graph: Graph, tip: str) -> list[Commit]:
    """`git log`: of the commits whose child was shown, always the newest next.

    So a merge is followed by both of its sides, interleaved by date: whoever wants the
    first-parent line has to follow the parents, not the listing.
    """
    shown: list[Commit] = []
    seen = {tip}
    queue = [_by_date(graph[tip], 0)]
    while queue:
        commit = graph[heapq.heappop(queue)[2]]
        shown.append(commit)
        for parent in commit.parents:
            if parent not in seen:
                seen.add(parent)
                heapq.heappush(queue, _by_date(graph[parent], len(seen)))
    return shown


def _by_date(commit: Commit, arrival: int) -> tuple[float, int, str]:
    return -datetime.fromisoformat(commit.committed_at).timestamp(), arrival, commit.sha


def merge_base(graph: Graph, base: str, head: str) -> str | None:
    """The newest commit that both sides have; None where they are unrelated."""
    common = ancestors(graph, base) & ancestors(graph, head)
    return next((commit.sha for commit in log(graph, head) if commit.sha in common), None)


def only_in(graph: Graph, tip: str, other: str) -> list[Commit]:
    """What `other..tip` names, oldest first as a comparison lists it."""
    known = ancestors(graph, other)
    return [commit for commit in reversed(log(graph, tip)) if commit.sha not in known]
