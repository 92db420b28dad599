"""Head measured alone, on a loopback GitHub: a new case only where the branch does not know it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_score.files.strict_json import dump
from ci_score.model.environment import Alone, Environment
from ci_score.model.verdict import Unjudged
from tests.builders.launches import lines
from tests.builders.scene import (
    FAST,
    Scene,
    fork_pull_request,
    on_pull_request,
    pull_request,
    record_for,
    record_in,
    run_of_fork,
    tip,
)
from tests.loopback_github import events, faults

ALONE = {"why": "base_cannot_run", "words": "it exited with 2"}


def measured_alone(scene: Scene, **more: Any) -> None:
    """Two launches of head, as `ci-score ab --or-alone` leaves them."""
    folder = scene.workspace / "perf" / "training"
    folder.mkdir(parents=True)
    rows = [{"side": "head", "launch": n, "step_ms": [100.0] * 5} for n in range(2)]
    (folder / "measurements.jsonl").write_bytes(lines(*rows))
    environment = {"schema": 1, "alone": ALONE, **more}
    (folder / "environment.json").write_text(json.dumps(environment), encoding="utf-8")


def why_of(scene: Scene) -> Unjudged | None:
    (case,) = record_in(scene).cases
    assert case.verdict is not None
    return case.verdict.unjudged


def test_alone__on_the_change_that_adopts_ci_score(scene: Scene) -> None:
    """The branch has no record at all: a new case, and the report says why nothing is compared."""
    measured_alone(scene)
    done = on_pull_request(scene, pull_request(scene), measurements="perf")
    assert (done.code, why_of(scene)) == (0, Unjudged.NEW_CASE)
    assert "base cannot run the command (it exited with 2)" in done.summary


def test_alone__of_a_case_beside_others_that_the_branch_knows(scene: Scene) -> None:
    """Records without this case do not make it a known one."""
    scene.leave_record(tip(scene), FAST, case="other")
    measured_alone(scene)
    done = on_pull_request(scene, pull_request(scene), measurements="perf")
    (case,) = record_in(scene).cases
    assert case.verdict is not None
    assert case.verdict.unjudged is Unjudged.NEW_CASE
    # The branch's own case is missing, which is another matter.
    assert done.code == 3


@pytest.mark.parametrize("why", ["known", "expired", "unusable", "other machine", "down"])
def test_alone__blocks_where_the_branch_knows_the_case_or_may_know_it(
    scene: Scene, why: str
) -> None:
    """Whoever hides the records, or names another machine, gets no new case by it."""
    upload = scene.leave_record(tip(scene), FAST)
    if why == "expired":
        upload.expired = True
    if why == "unusable":
        upload.content, upload.digest = b"no record", None
    if why == "down":
        scene.github.inject(faults.primary_limit(3600), path="/artifacts", times=9)
    measured_alone(scene, **({"accelerator": "another"} if why == "other machine" else {}))
    done = on_pull_request(scene, pull_request(scene), measurements="perf")
    assert (done.code, why_of(scene)) == (3, Unjudged.MEASURED_ALONE)


def test_alone__a_fork_s_mark_does_not_make_a_known_case_new(scene: Scene) -> None:
    """The job that posts for the fork says the same, without the fork's words."""
    scene.leave_record(tip(scene), FAST)
    pull = fork_pull_request(scene)
    producer = run_of_fork(scene, pull)
    record = record_for("d" * 40, FAST, producer)
    alone = Environment(alone=Alone(why="base_cannot_run", words="ALL IS WELL"))
    lie = record.but(cases=(record.cases[0].but(environment=alone),))
    scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": dump(lie).encode()})
    assert scene.act(events.workflow_run(scene.github, producer)).code == 0
    (comment,) = scene.comments(pull)
    assert "Not judged: head was measured alone" in comment
    assert "ALL IS WELL" not in comment
