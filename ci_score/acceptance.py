"""Accepting a regression: what somebody with write access said in the pull request.

ci-score accept <case> <metric> up to <bound> because <reason>
ci-score accept <case> missing because <reason>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One sentence of a comment: which worsening is accepted, up to where, by whom and why."""

    case: str
    metric: str
    bound: float
    reason: str
    by: str
    url: str = ""

    @property
    def words(self) -> str:
        """For the report: bound, person and reason."""
        limit = "" if self.metric == MISSING else f"up to {self.bound:.3g} "
        return f"{limit}by {self.by}, because {self.reason}"


def accepted_for(acceptances: Iterable[Acceptance], case: str) -> Mapping[str, tuple[float, str]]:
    """Metric -> bound and words of what was accepted for a case; the last word counts."""
    return {one.metric: (one.bound, one.words) for one in acceptances if one.case == case}


def is_accepted_loss(acceptances: Sequence[Acceptance], case: str) -> bool:
    """Whether it was accepted that a case is gone."""
    return MISSING in accepted_for(acceptances, case)
