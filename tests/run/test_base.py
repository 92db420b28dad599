"""`ci-score base` on a loopback GitHub: the commit that each event's job measures against."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.scene import (
    FAST,
    SLOW,
    Outcome,
    Scene,
    fork_pull_request,
    pull_request,
    record_in,
    tip,
)
from tests.loopback_github import FORK_PERMISSIONS, events
from tests.loopback_github.events import NO_COMMIT, Event

Out = pytest.CaptureFixture[str]


@pytest.fixture
def printed(capsys: Out) -> Out:
    """What the command printed."""
    capsys.readouterr()
    return capsys


def asked(scene: Scene, event: Event, printed: Out) -> str:
    """The base: printed, and the same as the step's output."""
    done = scene.act(event, "base")
    assert done.code == 0
    shown = printed.readouterr().out.strip()
    assert done.outputs == {"base": shown}
    return shown


def pushed(scene: Scene, before: str, branch: str = "main") -> Event:
    """A push of all commits since another one."""
    event = events.push(scene.github, scene.repository, branch)
    return replace(event, payload={**event.payload, "before": before})


def test_base__of_a_pull_request_is_the_test_merge_s_first_parent(
    scene: Scene, printed: Out
) -> None:
    """One request; `before` of the event is the head before this push, and means nothing."""
    pull = pull_request(scene)
    newer = scene.commits(1)[0].sha
    scene.state.test_merge(pull)
    event = events.pull_request(scene.github, pull, action="synchronize")
    event = replace(event, payload={**event.payload, "before": pull.head_sha})
    assert asked(scene, event, printed) == newer
    assert len(scene.asked()) == 1


def test_base__of_a_fork_s_pull_request_needs_no_more_than_to_read(
    scene: Scene, printed: Out
) -> None:
    """A read-only token finds the same base."""
    pull = fork_pull_request(scene)
    scene.token = scene.state.token("ghs_readonly", permissions=FORK_PERMISSIONS).value
    assert asked(scene, events.pull_request(scene.github, pull), printed) == tip(scene).sha


def test_base__of_a_merge_group_is_the_queue_s(scene: Scene, printed: Out) -> None:
    """The payload says it, and nothing is asked."""
    base = tip(scene).sha
    event = events.merge_group(scene.github, pull_request(scene))
    assert asked(scene, event, printed) == base
    assert scene.asked() == []


def test_base__of_a_push_of_several_commits_is_the_one_before_it(
    scene: Scene, printed: Out
) -> None:
    """One request: the page with the head's parents shows that it is an ancestor."""
    before = tip(scene).sha
    scene.commits(3)
    assert asked(scene, pushed(scene, before), printed) == before
    assert len(scene.asked()) == 1


def test_base__of_a_push_of_more_commits_than_a_page_has(scene: Scene, printed: Out) -> None:
    """A comparison says that it is an ancestor."""
    before = tip(scene).sha
    scene.commits(130)
    assert asked(scene, pushed(scene, before), printed) == before
    assert len(scene.asked()) == 2


@pytest.mark.parametrize("why", ["new branch", "rewritten", "gone", "itself", "no text"])
def test_base__of_a_push_without_a_usable_commit_before_it(
    scene: Scene, printed: Out, why: str
) -> None:
    """A branch that is new, or whose history was rewritten, is compared with the first parent."""
    first = tip(scene).sha
    aside = scene.state.commit(scene.repository, "aside", parents=[first]).sha
    newest = scene.commits(1)[0].sha
    before: Any = {
        "new branch": NO_COMMIT,
        "rewritten": aside,
        "gone": "d" * 40,
        "itself": newest,
        "no text": 7,
    }[why]
    assert asked(scene, pushed(scene, before), printed) == first


def test_base__of_a_push_to_another_branch(scene: Scene, printed: Out) -> None:
    """Measured is what was pushed; the gate takes its rules from where the branch began."""
    one = scene.state.commit(scene.repository, "topic", parents=[tip(scene).sha]).sha
    scene.state.commit(scene.repository, "topic")
    assert asked(scene, pushed(scene, one, "topic"), printed) == one


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch"])
def test_base__on_the_default_branch_is_the_first_parent(
    scene: Scene, printed: Out, name: str
) -> None:
    """By hand or on a schedule; a schedule's payload does not even name the repository."""
    before = tip(scene).sha
    scene.commits(1)
    event = getattr(events, name)(scene.github, scene.repository)
    assert asked(scene, event, printed) == before


def test_base__by_hand_on_another_branch_is_where_it_began(scene: Scene, printed: Out) -> None:
    """Not its first parent: all that the branch has changed is measured."""
    began = tip(scene).sha
    scene.state.commit(scene.repository, "topic", parents=[began])
    scene.state.commit(scene.repository, "topic")
    scene.commits(1)
    event = events.workflow_dispatch(scene.github, scene.repository, "topic")
    assert asked(scene, event, printed) == began


def test_base__by_hand_on_a_branch_without_own_commits(scene: Scene, printed: Out) -> None:
    """It has left the default branch nowhere, so the commit before is the base."""
    before = tip(scene).sha
    newest = scene.commits(1)[0].sha
    scene.repository.branches["topic"] = newest
    event = events.workflow_dispatch(scene.github, scene.repository, "topic")
    assert asked(scene, event, printed) == before


def test_base__of_the_first_commit_is_empty(scene: Scene, printed: Out) -> None:
    """That is no error: the output is empty, and standard error says why."""
    graph = scene.state.graph(scene.repository)
    root = next(sha for sha, commit in graph.items() if not commit.parents)
    scene.repository.branches["main"] = root
    done = scene.act(events.push(scene.github, scene.repository), "base")
    shown = printed.readouterr()
    assert (done.code, done.outputs, shown.out) == (0, {"base": ""}, "\n")
    assert "there is no base: nothing comes before this commit" in shown.err


def test_base__in_a_workflow_run_is_refused(scene: Scene, printed: Out) -> None:
    """Such a run judges or posts what another one has measured."""
    producer = events.pull_request(scene.github, pull_request(scene)).run
    done = scene.act(events.workflow_run(scene.github, producer), "base")
    assert done.code == 2
    assert "a workflow_run measures nothing itself" in printed.readouterr().err


def test_base__outside_of_a_job_is_refused(
    tmp_path: Path, scene: Scene, printed: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends on the event, and a machine without a job has none."""
    from ci_score.cli import execute

    for name in [name for name in os.environ if name.startswith("GITHUB_")]:
        monkeypatch.delenv(name)
    assert execute(["base"]) == 2
    assert "GITHUB_EVENT_PATH is not set" in printed.readouterr().err


def test_base__without_the_right_to_read_says_which_one(scene: Scene, printed: Out) -> None:
    """No base is measured against by mistake."""
    scene.token = scene.state.token("ghs_none", permissions={"metadata": "read"}).value
    done = scene.act(events.push(scene.github, scene.repository), "base")
    assert (done.code, done.outputs) == (3, {})
    assert "contents: read" in printed.readouterr().err


def test_gate__judges_a_push_of_several_commits_against_the_one_before_it(scene: Scene) -> None:
    """The same base as was measured: its record is that of the tested base, not an older one."""
    before = tip(scene)
    scene.leave_record(before, FAST)
    scene.commits(3)
    scene.measure(SLOW)
    done: Outcome = scene.act(pushed(scene, before.sha))
    assert done.outputs["baseline-sha"] == before.sha
    (case,) = record_in(scene).cases
    assert case.baseline is not None
    assert case.baseline.commits_away == 0
