"""A folder of measurements that holds sessions of other commits, or of another day."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.report.headlines import headline
from tests.builders import write
from tests.builders.scene import Outcome, Scene, pull_request, record_in, tip
from tests.builders.whole_run import held, session
from tests.loopback_github import events
from tests.loopback_github.events import Event
from tests.loopback_github.state import PullRequest

LONG_AGO = 1_700_000_000


def left(
    folder: Path, name: str, head_ms: float, pairs: int = 12, at: float | None = None, **git: Any
) -> None:
    """A session in a folder of its own; `git` is what its environment.json says of the sides."""
    rows = "".join(json.dumps(row) + "\n" for row in session(head_ms, pairs=pairs))
    write(folder / "perf" / name / "measurements.jsonl", rows)
    if git:
        text = json.dumps({"schema": 1, **git})
        write(folder / "perf" / name / "environment.json", text)
    if at is not None:
        os.utime(folder / "perf" / name / "measurements.jsonl", (at, at))


def of(head: str, base: str, **fields: Any) -> dict[str, Any]:
    return {"git": {"commit": head, **fields}, "base_git": {"commit": base}}


def judged(scene: Scene, event: Event) -> Outcome:
    # The folders of sessions are no cases here, so the case is named.
    return scene.act(event, measurements="training=perf")


@pytest.fixture
def pull(scene: Scene) -> PullRequest:
    """A pull request whose base has gone on since it began."""
    made = pull_request(scene)
    scene.commits(1)
    return made


def event_of(scene: Scene, pull: PullRequest) -> Event:
    scene.workspace.mkdir(exist_ok=True)
    return events.pull_request(scene.github, pull)


KNOWN = ["its own", "head itself", "edited", "newer merge", "another repository", "untold"]


@pytest.mark.parametrize("which", [*KNOWN, "other head", "other base", "a newer base"])
def test_commits__that_are_not_compared_are_not_judged(
    scene: Scene, pull: PullRequest, which: str
) -> None:
    """Both are named; what a test merge, an edited tree or another repository is, is no doubt."""
    event = event_of(scene, pull)
    merge, head = event.environment["GITHUB_SHA"], pull.head_sha
    graph = scene.state.graph(scene.repository)
    tested, began = graph[merge].parents[0], graph[head].parents[0]
    newer = scene.commits(1)[0].sha
    merged = scene.state.commit(scene.repository, "elsewhere", parents=[newer, head]).sha
    told = {
        "its own": of(merge, tested),
        "head itself": of(head, began),
        "edited": of(merge, tested, changed=True),
        "newer merge": of(merged, newer),
        "another repository": of("1" * 40, "2" * 40),
        "untold": {},
        "other head": of(began, tested),
        "other base": of(merge, graph[tested].parents[0]),
        "a newer base": of(head, newer),
    }[which]
    left(scene.workspace, "now", 100.0, **told)
    done = judged(scene, event)
    (case,) = record_in(scene).cases
    if which in KNOWN:
        assert (done.code, case.verdict and case.verdict.outcome.value) == (0, "pass")
        return
    assert done.code == 3
    for commit in (told["git"]["commit"], told["base_git"]["commit"], merge, tested):
        assert commit[:12] in headline(case)


def test_commits__of_old_sessions_do_not_dilute(scene: Scene, pull: PullRequest) -> None:
    """Five fast ones of other commits lie beside the one that is 30 % slower: they are left out."""
    event = event_of(scene, pull)
    merge = event.environment["GITHUB_SHA"]
    tested = scene.state.graph(scene.repository)[merge].parents[0]
    for number in range(5):
        left(scene.workspace, f"old-{number}", 100.0, **of(tested, tested))
    left(scene.workspace, "now", 130.0, **of(merge, tested))
    done = judged(scene, event)
    (case,) = record_in(scene).cases
    assert (done.code, len(case.pairs())) == (1, 12)
    assert "Measurements of training were left out" in done.summary


@pytest.mark.parametrize("git", [{}, {"git": {"commit": "1" * 40, "changed": True}}])
def test_age__of_sessions_that_tell_no_commit(
    scene: Scene, pull: PullRequest, git: dict[str, Any]
) -> None:
    """What lay there before the run began, as on a runner that is kept, is left out and said."""
    event = event_of(scene, pull)
    for number in range(5):
        left(scene.workspace, f"old-{number}", 100.0, at=LONG_AGO, **git)
    left(scene.workspace, "now", 130.0, **git)
    done = judged(scene, event)
    (case,) = record_in(scene).cases
    assert (done.code, len(case.pairs())) == (1, 12)
    assert "is older than this run" in done.summary


def test_age__of_all_that_there_is_leaves_nothing_to_judge(scene: Scene, pull: PullRequest) -> None:
    """A runner that is kept, and a measurement that failed: yesterday's is no pass of today."""
    event = event_of(scene, pull)
    left(scene.workspace, "old", 100.0, at=LONG_AGO)
    done = judged(scene, event)
    (case,) = record_in(scene).cases
    assert done.code == 3
    assert "older than this run" in headline(case)


def test_age__of_profiles_counts_too(scene: Scene, pull: PullRequest) -> None:
    """The profile of another day is not this run's."""
    scene.leave_record(tip(scene))
    event = event_of(scene, pull)
    scene.measure()
    os.utime(scene.workspace / "profiles" / "profile.json", (LONG_AGO, LONG_AGO))
    assert scene.act(event).code == 3
    (case,) = record_in(scene).cases
    assert "older than this run" in headline(case)


def test_machine__of_ones_own_believes_the_newest_session(here: Path) -> None:
    """Nobody knows what is compared there, but sessions of several commits are not one session."""
    for number in range(5):
        left(here, f"old-{number}", 100.0, at=LONG_AGO, **of("1" * 40, "2" * 40))
    left(here, "now", 130.0, **of("3" * 40, "2" * 40))
    assert execute(["run", "--measurements", "training=perf"]) == 1
    (case,) = held(here).cases
    assert len(case.pairs()) == 12
    report = (here / "ci-score" / "report.md").read_text(encoding="utf-8")
    assert "111111111111 against 222222222222" in report


def test_machine__of_ones_own_takes_any_commits(here: Path) -> None:
    """One session alone is judged, whatever it measured and whenever."""
    left(here, "old", 100.0, at=LONG_AGO, **of("1" * 40, "2" * 40))
    assert execute(["run", "--measurements", "perf"]) == 0
