"""`ci-score post --answer`: the commit that a search has found, in the issue that tells of it."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.files.strict_json import dump
from ci_score.github.issue import Subject, key_of
from ci_score.model.bisected import Bisected, CommitFound, OfTrend
from ci_score.model.bisection import Effect, Ended
from tests.builders.scene import Outcome, Scene
from tests.loopback_github import ACTIONS_BOT, events
from tests.loopback_github.state import Issue

SHA, PARENT = "c" * 40, "d" * 40
DRIFT = Subject(key_of("", "performance.yml"), {key_of("llama", "step_time_ms", "shift"): ""})


def answer(**fields: Any) -> Bisected:
    defaults: dict[str, Any] = {
        "ci_score_version": "0.1.0", "case": "llama", "good": "a" * 40, "bad": "b" * 40,
        "commits": 12, "launches": 90, "ended": Ended.FOUND, "parent": PARENT,
        "found": (CommitFound(sha=SHA, subject="Sort more", author="octocat"),),
        "own": Effect(share=0.3, low=0.28, high=0.32), "cause": "30 % slower",
        "trend": OfTrend(case="llama", metric="step_time_ms", kind="shift"),
    }  # fmt: skip
    return Bisected(**{**defaults, **fields})


def post(scene: Scene, found: Bisected, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """The command in a scheduled job on the default branch."""
    file = scene.folder / "bisect.json"
    file.write_text(dump(found), encoding="utf-8")
    # The scene gives a command no options.
    monkeypatch.setitem(scene.environment, "INPUT_ANSWER", str(file))
    return scene.act(events.schedule(scene.github, scene.repository), "post")


def drift_issue(scene: Scene) -> Issue:
    """What the runs of the branch have opened."""
    made = scene.state.issue(scene.repository, "lasting changes", author=ACTIONS_BOT)
    made.body = DRIFT.line() + "The level has changed.\n"
    return made


def test_answer__joins_the_issue_on_the_change(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind what the branch's runs tell; once, however often it is told."""
    issue = drift_issue(scene)
    for _ in range(2):
        done = post(scene, answer(), monkeypatch)
        assert done.code == 0
    assert issue.body.startswith(DRIFT.line() + "The level has changed.\n")
    assert issue.body.count(f"| {SHA} |") == 1
    assert issue.title == "lasting changes"
    assert len(scene.state.issues) == 1
    post(scene, answer(found=(CommitFound(sha="e" * 40),)), monkeypatch)
    assert SHA not in issue.body


def test_answer__of_an_issue_that_was_edited_in_a_browser_is_there_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines then end otherwise, and the last one not at all."""
    issue = drift_issue(scene)
    post(scene, answer(), monkeypatch)
    issue.body = issue.body.rstrip("\n").replace("\n", "\r\n")
    post(scene, answer(), monkeypatch)
    assert issue.body.count(f"| {SHA} |") == 1


def test_answer__opens_an_issue_where_none_tells_of_the_change(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a team that has no issue on drifts; the next answer finds it."""
    closed = drift_issue(scene)
    closed.state = "closed"
    for _ in range(2):
        post(scene, answer(), monkeypatch)
    opened = [one for one in scene.state.issues if one is not closed]
    assert [one.title for one in opened] == [f"ci-score: llama became slower with {SHA[:12]}"]
    assert SHA not in closed.body


def test_answer__of_several_commits_says_that_it_is_one_of_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before the last do not run, so nobody can tell them apart."""
    several = (CommitFound(sha="e" * 40), CommitFound(sha=SHA))
    post(scene, answer(ended=Ended.FOUND_SET, found=several), monkeypatch)
    (opened,) = scene.state.issues
    assert opened.title == f"ci-score: llama became slower with one of the commits up to {SHA[:12]}"
    assert SHA in opened.body
    assert "e" * 40 in opened.body


@pytest.mark.parametrize("fields", [{"ended": Ended.NOT_CONFIRMED, "found": ()}, {"trend": None}])
def test_answer__that_is_none_is_not_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """An issue names a commit that was confirmed, or none."""
    done = post(scene, answer(**fields), monkeypatch)
    assert done.code == 0
    assert "no issue names one" in done.summary
    assert scene.state.issues == []


def test_answer__that_names_no_commit_is_not_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch may have written over the file: found, it says, and not what."""
    done = post(scene, answer(found=()), monkeypatch)
    assert done.code == 0
    assert not scene.state.issues


def test_answer__of_hostile_words_stays_in_its_section(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subject that ends the section early would leave its rest in the issue for ever."""
    issue = drift_issue(scene)
    subject = "<!-- /ci-score-bisect --> @octocat"
    post(scene, answer(found=(CommitFound(sha=SHA, subject=subject),)), monkeypatch)
    assert issue.body.count("<!-- /ci-score-bisect -->") == 1
    post(scene, answer(), monkeypatch)
    assert "octocat" not in issue.body.replace("| octocat |", "")


def test_answer__without_the_right_is_a_notice(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which permission the job lacks."""
    scene.state.tokens[0].permissions["issues"] = "read"
    done = post(scene, answer(), monkeypatch)
    assert done.code == 0
    assert "issues: write" in done.summary
