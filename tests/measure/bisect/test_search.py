"""The search asks for two commits at a time, and names the one that made a step slower."""

from __future__ import annotations

import pytest

from ci_score.measure.bisect.search import Search
from ci_score.model.bisection import Ask, Ended, Finding


def answered(search: Search, times: list[float]) -> Finding:
    """The search with every question answered exactly."""
    while isinstance(asked := search.next(), Ask):
        search.told(asked, times[asked.first], times[asked.second])
    return asked


@pytest.mark.parametrize("slow_from", range(1, 20))
def test_search__finds_each_place_without_noise(slow_from: int) -> None:
    """Without noise the commit is found wherever it stands."""
    times = [100.0 if commit < slow_from else 105.0 for commit in range(20)]
    finding = answered(Search(20, seed=7), times)
    assert finding.ended == Ended.FOUND
    assert finding.commits == (slow_from,)
