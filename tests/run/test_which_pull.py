"""Runs whose event names no pull request, and a default branch that is called otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders.scene import (
    FAST,
    REPOSITORY,
    SLOW,
    TOKEN,
    Outcome,
    Scene,
    contract_violations,
    fork_pull_request,
    opened,
    pull_request,
    record_in,
    tip,
)
from tests.loopback_github import LoopbackGitHub, State, events
from tests.loopback_github.events import Event
from tests.loopback_github.state import PullRequest, Repository

LISTED = f"GET /repos/{REPOSITORY}/pulls"


def pushed(scene: Scene, branch: str = "faster") -> Event:
    return events.push(scene.github, scene.repository, branch)


def dispatched(scene: Scene, branch: str = "faster") -> Event:
    return events.workflow_dispatch(scene.github, scene.repository, branch)


# --- the pull request of a branch -----------------------------------------------------------------


@pytest.mark.parametrize("event", [pushed, dispatched])
def test_branch__with_a_pull_request_gets_its_comment(
    scene: Scene, event: Callable[[Scene], Event]
) -> None:
    """It is found by its head, with one more request; a re-run changes the same comment."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    run = event(scene)
    scene.measure(SLOW)
    done = scene.act(run)
    assert done.code == 1
    assert "30 % slower" in scene.comments(pull)[0]
    assert done.outputs["comment-url"]
    assert scene.asked().count(LISTED) == 1
    scene.act(events.rerun(scene.github, run))
    assert len(scene.comments(pull)) == 1


def test_branch__of_an_older_commit_writes_nothing(scene: Scene) -> None:
    """A run of a push before the last one is not about what the pull request has now."""
    pull = pull_request(scene)
    event = pushed(scene)
    scene.state.commit(scene.repository, "faster")
    scene.measure(FAST)
    assert scene.act(event).code == 0
    assert scene.comments(pull) == []


def test_branch__without_an_open_pull_request_writes_nothing(scene: Scene) -> None:
    """None, a closed one, and one of a fork whose branch is called like ours."""
    scene.measure(FAST)
    scene.state.commit(scene.repository, "alone", parents=[tip(scene).sha])
    assert scene.act(pushed(scene, "alone")).code == 0
    closed = pull_request(scene, "closed")
    scene.state.close(closed)
    assert scene.act(pushed(scene, "closed")).code == 0
    stranger = fork_pull_request(scene, "alone")
    assert scene.act(pushed(scene, "alone")).code == 0
    assert scene.comments(closed) == scene.comments(stranger) == []


def test_branch__with_two_pull_requests_writes_to_the_one_that_it_is_compared_with(
    scene: Scene,
) -> None:
    """The base of the comparison is the default branch, and so is that of the pull request."""
    scene.state.commit(scene.repository, "release", parents=[tip(scene).sha])
    scene.state.commit(scene.repository, "faster", parents=[tip(scene).sha])
    other = scene.state.pull_request(scene.repository, "faster", base_ref="release")
    own = scene.state.pull_request(scene.repository, "faster")
    scene.measure(FAST)
    scene.act(pushed(scene))
    assert (len(scene.comments(own)), len(scene.comments(other))) == (1, 0)


def test_branch__that_is_tracked_asks_for_no_pull_request(scene: Scene) -> None:
    """What is merged already has no comment, and costs no request."""
    scene.measure(FAST)
    scene.act(events.push(scene.github, scene.repository))
    scene.act(events.schedule(scene.github, scene.repository))
    assert LISTED not in scene.asked()


def test_branch__whose_pull_request_must_not_be_read_is_judged(scene: Scene) -> None:
    """Without the right there is a notice, and the same verdict."""
    scene.leave_record(tip(scene), FAST)
    pull_request(scene)
    del scene.state.tokens[0].permissions["pull_requests"]
    scene.measure(SLOW)
    done = scene.act(pushed(scene))
    assert done.code == 1
    assert "pull request of this commit was not found" in done.summary
    assert "pull-requests: read" in done.summary


def test_branch__hears_an_acceptance(scene: Scene) -> None:
    """A comment that was written after the push accepts, as in a pull request's own run."""
    scene.leave_record(tip(scene), FAST)
    pull = opened(scene)
    event = pushed(scene)
    scene.repository.collaborators["lead"] = "write"
    for metric in ("step_time_ms", "throughput_tok_s"):
        words = f"ci-score accept training {metric} up to 40 % because it is worth it"
        scene.state.comment(scene.repository, pull.number, words, author="lead")
    scene.measure(SLOW)
    assert scene.act(event).code == 0
    assert record_in(scene).acceptances


# --- its number -----------------------------------------------------------------------------------


def with_number(scene: Scene, event: Event, pull: PullRequest) -> Outcome:
    scene.measure(FAST)
    return scene.act(event, pr_number=str(pull.number))


def test_number__of_this_commit_gets_the_comment(scene: Scene) -> None:
    """One request, and no listing."""
    pull = pull_request(scene)
    assert with_number(scene, dispatched(scene), pull).code == 0
    assert len(scene.comments(pull)) == 1
    assert LISTED not in scene.asked()
    assert f"{LISTED}/{pull.number}" in scene.asked()


@pytest.mark.parametrize("branch", ["main", "faster"])
def test_number__of_another_commit_gets_none(scene: Scene, branch: str) -> None:
    """A number can be mistyped: the head must be what was measured, and a notice says so."""
    scene.state.commit(scene.repository, "faster", parents=[tip(scene).sha])
    other = pull_request(scene, "other")
    done = with_number(scene, dispatched(scene, branch), other)
    assert done.code == 0
    assert scene.comments(other) == []
    assert other.head_sha[:12] in done.summary


def test_number__that_does_not_exist_gets_none(scene: Scene) -> None:
    """The verdict stands, with a notice."""
    scene.measure(FAST)
    done = scene.act(events.push(scene.github, scene.repository), pr_number="404")
    assert done.code == 0
    assert "No comment is written" in done.summary


def test_number__is_nothing_to_an_event_that_names_its_own(scene: Scene) -> None:
    """A pull request's own run cannot write to another one."""
    own, other = pull_request(scene, "own"), pull_request(scene, "other")
    scene.measure(FAST)
    scene.act(events.pull_request(scene.github, own), pr_number=str(other.number))
    assert (len(scene.comments(own)), len(scene.comments(other))) == (1, 0)


# --- a default branch of another name -------------------------------------------------------------


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Scene]:
    """A repository whose default branch is called master."""
    state = State(start="2026-01-05T09:00:00Z")
    state.token(TOKEN)
    repository = state.repository(REPOSITORY, default_branch="master")
    with LoopbackGitHub(state) as github:
        state.commit(repository, "master")
        yield Scene(github, tmp_path)
        assert contract_violations(github) == []


def on_branch(scene: Scene, event: Event, **inputs: str) -> Outcome:
    """A run, and the upload of its record under the name that it says."""
    done = scene.act(event, **inputs)
    left = (scene.workspace / "ci-score" / "ci-score.json").read_bytes()
    scene.state.uploaded(event.run, done.outputs["record-artifact"], {"ci-score.json": left})
    return done


def by_schedule(scene: Scene, repository: Repository) -> Event:
    """Its payload carries no repository, and so no default branch."""
    event = events.schedule(scene.github, repository)
    assert "repository" not in event.payload
    return event


def test_master__leaves_records_that_pull_requests_are_compared_with(master: Scene) -> None:
    """By a push, a schedule and by hand; a slower pull request is red, and its record apart."""
    repository = master.repository
    makers: tuple[Callable[[], Event], ...] = (
        lambda: events.push(master.github, repository),
        lambda: by_schedule(master, repository),
        lambda: events.workflow_dispatch(master.github, repository),
    )
    for make in makers:
        master.state.commit(repository, "master")
        master.measure(FAST)
        assert on_branch(master, make()).outputs["record-artifact"] == "ci-score"
        sha = repository.branches["master"]
        branch = f"slower-{sha[:7]}"
        master.state.commit(repository, branch, parents=[sha])
        pull = master.state.pull_request(repository, branch)
        master.measure(SLOW)
        done = on_branch(master, events.pull_request(master.github, pull))
        assert (done.code, done.outputs["baseline-sha"]) == (1, sha)
        assert done.outputs["record-artifact"] == "ci-score-pr"
        assert "30 % slower" in master.comments(pull)[0]


def test_master__pushes_that_need_no_measurement_bury_no_baseline(master: Scene) -> None:
    """Twenty commits of documentation later the record is still found, far from the base."""
    repository = master.repository
    master.measure(FAST)
    on_branch(master, events.push(master.github, repository))
    for _ in range(20):
        master.state.commit(repository, "master")
        event = events.push(master.github, repository)
        done = on_branch(master, event, producer="a=skipped", not_needed="only documentation")
        assert (done.code, done.outputs["record-artifact"]) == (0, "ci-score-pr")
    master.state.commit(repository, "slower", parents=[repository.branches["master"]])
    pull = master.state.pull_request(repository, "slower")
    master.measure(SLOW)
    done = on_branch(master, events.pull_request(master.github, pull))
    assert (done.code, bool(done.outputs["baseline-sha"])) == (3, True)
    assert "30 % slower" in master.comments(pull)[0]


def test_master__a_branch_called_main_leaves_no_baseline(master: Scene) -> None:
    """Whatever is the default branch elsewhere, here it is another branch."""
    repository = master.repository
    master.state.commit(repository, "main", parents=[repository.branches["master"]])
    master.measure(FAST)
    done = on_branch(master, events.push(master.github, repository, "main"))
    assert done.outputs["record-artifact"] == "ci-score-pr"
    assert "### 🆕 First run: the next run of the default branch" in done.summary
