"""A few launches that stand still: the times that are shown, and what the headline says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_score.report.headlines import headline
from tests.builders.whole_run import held, judged, session


def with_slow(
    rows: Iterator[dict[str, Any]], slow: Mapping[int, float], side: str = "head"
) -> Iterator[dict[str, Any]]:
    """Some launches of a side take so many times as long."""
    for row in rows:
        times = slow.get(row["launch"], 1.0) if row["side"] == side else 1.0
        yield {**row, "step_ms": [ms * times for ms in row["step_ms"]]}


@pytest.mark.parametrize("policy", ['schema = 1\nrules = "training"\n', None])
def test_shown__times_are_those_that_the_sides_had(here: Path, policy: str | None) -> None:
    """Two outliers of head move neither number: no base of 56 ms where its launches took 52."""
    rows = with_slow(session(60.0, base_ms=52.5), {3: 1.8, 8: 1.5})
    assert judged(here, *rows, policy=policy)[0] == 1
    (case,) = held(here).cases
    (step,) = [one for one in case.changes if one.metric == "step_time_ms"]
    assert step.base == pytest.approx(52.5, rel=0.01)
    assert step.head == pytest.approx(60.0, rel=0.01)
    assert headline(case) == "Fail: 14 % slower · 52.5 → 60.0 ms/step"
    report = (here / "ci-score" / "report.md").read_text(encoding="utf-8").replace("\xa0", " ")
    assert "52.5 ms | 60.0 ms" in report
    page = (here / "ci-score" / "report.html").read_text(encoding="utf-8")
    assert "56." not in page.partition("<table")[2].partition("</table>")[0]


@pytest.mark.parametrize(
    ("slow", "words"),
    [
        ({3: 3.0, 8: 3.0}, "2 of 12 launches of head take 3× as long as its others"),
        ({3: 5.0}, "1 of 12 launches of head takes 5× as long as its others"),
        ({3: 1.6, 8: 1.6}, "2 of 12 launches of head take 60 % longer than its others"),
    ],
)
def test_headline__says_which_launches_stood_still(
    here: Path, slow: dict[int, float], words: str
) -> None:
    """An estimate of 0 % is no reason for "perhaps slower"; those launches are."""
    code, _ = judged(here, *with_slow(session(133.0, base_ms=133.0), slow))
    assert code == 3
    (case,) = held(here).cases
    start = f"Not judged: perhaps slower: {words}; all steps together are "
    assert headline(case).startswith(start)
    assert headline(case).endswith("% slower · 133 → 133 ms/step")
    for name in ("report.md", "report.html"):
        text = (here / "ci-score" / name).read_text(encoding="utf-8")
        assert "more pairs" not in text
        assert "the reason why single launches take longer" in text
