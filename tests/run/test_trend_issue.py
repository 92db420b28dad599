"""One issue for a branch's lasting changes, on a loopback GitHub."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from ci_score.model.record import HistoryPoint, RunIdentity, Trend
from ci_score.report.trend_issues import issue_markdown, issue_title, worth_an_issue
from tests.builders import profile
from tests.builders.scene import Outcome, Scene, on_pull_request, pull_request, record_in, tip
from tests.loopback_github import ACTIONS_BOT, events, faults
from tests.loopback_github.state import Issue

LEVEL = profile(112.0, tokens_per_step=1000)


def trend(delta: float = 0.1, **fields: Any) -> Trend:
    defaults: dict[str, Any] = {
        "case": "training", "metric": "step_time_ms", "kind": "shift", "before": 100.0,
        "after": 100.0 * (1 + delta), "delta": delta, "worse": delta > 0,
        "last_before": "a" * 40, "first_after": "b" * 40, "created_at": "2026-01-03T00:00:00Z",
    }  # fmt: skip
    return Trend(**{**defaults, **fields})


def history(level: float = 112.0, at: int = 90, count: int = 110) -> tuple[HistoryPoint, ...]:
    """Runs of the branch that became slower once, for good."""
    start = datetime.fromisoformat("2025-09-01T00:00:00Z")
    points = []
    for number in range(count):
        step_ms = (100.0 if number < at else level) + (number * 7 % 5 - 2) * 0.2
        points.append(
            HistoryPoint(
                case="training", commit=f"{number + 1:040x}", run=RunIdentity(number=number + 1),
                created_at=f"{start + timedelta(days=number):%Y-%m-%dT%H:%M:%SZ}",
                step_time_ms=step_ms, throughput_tok_s=1e6 / step_ms,
                tokens_per_step=1000.0,
            )
        )  # fmt: skip
    return tuple(points)


@pytest.fixture
def drifted(scene: Scene) -> Scene:
    """A branch whose last record remembers a shift."""
    scene.leave_record(tip(scene), LEVEL, history=history())
    scene.commits(1)
    scene.measure(LEVEL)
    return scene


def push(scene: Scene, **inputs: str) -> Outcome:
    """The Action on the default branch, where the team wants the issue."""
    given = {"issue_on_drift": "true", **inputs}
    return scene.act(events.push(scene.github, scene.repository), **given)


def ours(scene: Scene) -> list[Issue]:
    """The issues that ci-score has written."""
    return [one for one in scene.state.issues if one.body.startswith("<!-- ci-score-trend")]


def test_issue__is_opened_once_and_kept_up_to_date(drifted: Scene) -> None:
    """The next run finds it by marker and author, and writes only what has changed."""
    assert push(drifted).code == 0
    assert record_in(drifted).trends
    (issue,) = ours(drifted)
    assert issue.title == "ci-score: lasting changes for the worse on main"
    assert "Throughput per device" in issue.body
    assert f"{90:040x}" in issue.body
    assert issue.author == ACTIONS_BOT
    drifted.github.exchanges.clear()
    push(drifted)
    assert len(ours(drifted)) == 1
    assert [row for row in drifted.asked() if "/issues" in row] == ["GET /repos/team/model/issues"]
    issue.body = issue.body.replace("Throughput", "Nonsense")
    push(drifted)
    assert len(ours(drifted)) == 1
    assert "Nonsense" not in issue.body


def test_issue__is_not_asked_for_elsewhere(drifted: Scene) -> None:
    """Off by default, never on a pull request, and no request where nothing has changed."""
    push(drifted, issue_on_drift="false")
    on_pull_request(drifted, pull_request(drifted), issue_on_drift="true")
    drifted.state.artifacts.clear()
    push(drifted)
    assert [row for row in drifted.asked() if row.endswith("/issues")] == []


def test_issue__that_was_closed_is_not_opened_again(drifted: Scene) -> None:
    """Somebody has dealt with it; only a later change is news."""
    push(drifted)
    (issue,) = ours(drifted)
    issue.state, issue.closed_at = "closed", "2026-01-05T00:00:00Z"
    push(drifted)
    assert len(ours(drifted)) == 1
    issue.closed_at = "2025-11-02T00:00:00Z"
    push(drifted)
    assert [one.state for one in ours(drifted)] == ["closed", "open"]


def test_issue__keeps_what_a_search_has_written_into_it(drifted: Scene) -> None:
    """The branch's runs tell the changes anew, and which commit it was stays below them."""
    push(drifted)
    (issue,) = ours(drifted)
    section = "\n<!-- ci-score-bisect -->\nIt was that one.\n<!-- /ci-score-bisect -->\n"
    issue.body = issue.body.replace("Throughput", "Nonsense") + section
    push(drifted)
    assert "Nonsense" not in issue.body
    assert issue.body.endswith(section)
    drifted.github.exchanges.clear()
    push(drifted)
    assert [row for row in drifted.asked() if "/issues" in row] == ["GET /repos/team/model/issues"]


def test_issue__of_somebody_else_is_not_ours(drifted: Scene) -> None:
    """Whoever copies the marker gets nothing written into their issue."""
    push(drifted)
    (copied,) = ours(drifted)
    copied.author, copied.title = "developer", "mine"
    push(drifted)
    assert [one.author for one in ours(drifted)] == ["developer", ACTIONS_BOT]
    assert copied.title == "mine"


def test_issue__duplicates_of_a_race_are_closed(drifted: Scene) -> None:
    """Two runs at once may both have opened one; the next run leaves the first."""
    push(drifted)
    (first,) = ours(drifted)
    made = drifted.state.issue(drifted.repository, first.title, author=ACTIONS_BOT)
    made.body = first.body
    push(drifted)
    assert [one.state for one in ours(drifted)] == ["open", "closed"]


def test_issue__an_app_s_token_has_one_too(drifted: Scene) -> None:
    """An app's token looks like a job's, and cannot be asked who it is."""
    drifted.state.tokens[0].login = "perf-app[bot]"
    drifted.state.account("perf-app[bot]")
    for _ in range(3):
        push(drifted)
    assert len(ours(drifted)) == 1


def test_issue__titles_have_one_each(drifted: Scene) -> None:
    """Several reports of one branch do not overwrite each other."""
    for title in ("nightly", "smoke", "nightly"):
        push(drifted, title=title, baseline_artifact="ci-score")
    assert [one.title for one in ours(drifted)] == [
        "ci-score (nightly): lasting changes for the worse on main",
        "ci-score (smoke): lasting changes for the worse on main",
    ]


@pytest.mark.parametrize("why", ["permission", "down", "odd"])
def test_issue__that_cannot_be_written_is_a_notice(drifted: Scene, why: str) -> None:
    """No verdict changes, and nothing breaks."""
    if why == "permission":
        drifted.state.tokens[0].permissions["issues"] = "read"
    elif why == "down":
        drifted.github.inject(faults.server_error(500), path="/issues", times=9)
    else:
        drifted.github.inject(faults.invalid_json(), path="/issues", times=9)
    done = push(drifted)
    assert done.code == 0
    assert ours(drifted) == []
    assert "The issue on lasting changes was not written" in done.summary
    assert ("issues: write" in done.summary) is (why == "permission")


def test_worth_an_issue__only_what_is_worse_and_was_not_undone() -> None:
    """A change for the better is no trouble, and neither is what it has repaired."""
    worse = trend(0.1)
    later = {"created_at": "2026-01-09T00:00:00Z"}
    assert worth_an_issue([worse, trend(-0.09, **later)]) == []
    assert worth_an_issue([worse, trend(-0.05, **later)]) == [worse]
    assert worth_an_issue([worse, trend(-0.09, metric="mfu", **later)]) == [worse]
    assert worth_an_issue([worse, trend(-0.09, created_at="2026-01-01T00:00:00Z")]) == [worse]


def test_issue_markdown__says_what_and_between_which_commits() -> None:
    """Whole commits, which GitHub makes links of; long lists are cut, and names are text."""
    text = issue_markdown([trend(metric="x|<img>@all")] * 30)
    assert "a" * 40 in text
    assert "10 more are in the record" in text
    assert "<img>" not in text.replace("\\<img", "")
    assert "@all" not in text
    assert issue_title("ma\nin", "") == "ci-score: lasting changes for the worse on ma in"
    assert "| slowly |" in issue_markdown([trend(kind="drift")])
