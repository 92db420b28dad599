"""What a fork's pull request may send to the gate and to the job that posts for it."""

from __future__ import annotations

from ci_score.files.strict_json import dump
from tests.builders.scene import (
    FAST,
    SLOW,
    Scene,
    fork_pull_request,
    pull_request,
    record_for,
    tip,
)
from tests.loopback_github import events
from tests.loopback_github.state import WORKFLOW


def test_poster__of_a_workflow_that_the_fork_brings_along(scene: Scene) -> None:
    """It is called like the one that is waited for, has no baseline, and would look harmless."""
    scene.state.commit(scene.repository, "main", files={WORKFLOW: "name: performance\n"})
    scene.leave_record(tip(scene), FAST)
    pull = fork_pull_request(scene)
    for path in (WORKFLOW, ".github/workflows/more.yml"):
        producer = scene.state.run(
            scene.repository, event="pull_request", head_branch=pull.head_ref,
            head_sha=pull.head_sha, path=path,
            head_repository=scene.state.repository_named("stranger/model"),
        )  # fmt: skip
        left = dump(record_for(pull.merge_commit_sha, SLOW, producer)).encode()
        scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": left})
        assert scene.act(events.workflow_run(scene.github, producer)).code == 0
    (comment,) = scene.comments(pull)
    assert "❌ 30.0 % slower" in comment


def test_rerun__with_more_artifacts_than_a_page_lists(scene: Scene) -> None:
    """The record of the slow attempt is found however many the second one uploads beside it."""
    scene.leave_record(tip(scene), FAST)
    scene.measure(SLOW)
    first = events.pull_request(scene.github, pull_request(scene))
    assert scene.act(first).code == 1
    left = (scene.workspace / "ci-score" / "ci-score.json").read_bytes()
    scene.state.uploaded(first.run, "ci-score-pr", {"ci-score.json": left})
    again = events.rerun(scene.github, first)
    for number in range(150):
        scene.state.artifact(again.run, f"perf-{number}", b"")
    scene.measure(FAST)
    before = len(scene.asked())
    assert "15.0 % slower" in scene.act(again).summary
    listed = f"GET /repos/{scene.repository.full_name}/actions/runs/{again.run.id}/artifacts"
    assert scene.asked()[before:].count(listed) == 1
