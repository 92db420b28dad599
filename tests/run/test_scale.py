"""A report of 256 cases and 10,000 launches: of a pull request, and posted for a fork."""

from __future__ import annotations

import json

from ci_score.files.disk import RECORD_LIMIT
from ci_score.github.comment import LONGEST_COMMENT
from ci_score.model.record import MOST_CASES, Record
from ci_score.model.verdict import Outcome
from tests.builders import write
from tests.builders.scene import (
    Scene,
    fork_pull_request,
    on_pull_request,
    pull_request,
    record_in,
    run_of_fork,
    tip,
)
from tests.builders.whole_run import session
from tests.loopback_github import events
from tests.loopback_github.state import PullRequest

PAIRS = 20
# More than a comment has rows for.
SLOWER = range(3, MOST_CASES, 8)
WORST = 200


def name_of(number: int) -> str:
    return f"a-model-of-the-matrix-{number}@h100"


def measure(scene: Scene) -> None:
    """All sessions in one file: of a few steps, the slower ones by 26 %, and one by far."""
    rows = {times: [*session(100.0 * times, pairs=PAIRS)] for times in (1.0, 1.26, 2.0)}
    lines = [
        json.dumps({**row, "case": name_of(number), "step_ms": row["step_ms"][:5]})
        for number in range(MOST_CASES)
        for row in rows[2.0 if number == WORST else 1.26 if number in SLOWER else 1.0]
    ]
    write(scene.workspace / "perf" / "measurements.jsonl", "\n".join(lines) + "\n")


def failing(record: Record) -> list[str]:
    return [
        case.name for case in record.cases if case.verdict and case.verdict.outcome is Outcome.FAIL
    ]


def comment_on(scene: Scene, pull: PullRequest) -> str:
    (comment,) = scene.comments(pull)
    assert len(comment.encode()) <= LONGEST_COMMENT
    return comment


def test_256_cases__are_judged_and_posted_for_a_fork(scene: Scene) -> None:
    """All launches count, no case that fails stays unnamed, and the poster reads the record."""
    scene.leave_record(tip(scene))
    scene.policy('schema = 1\nrules = "training"\n')
    measure(scene)
    pull = pull_request(scene)
    assert on_pull_request(scene, pull, measurements="perf", profiles="none").code == 1
    record, left = record_in(scene), (scene.workspace / "ci-score" / "ci-score.json").read_bytes()
    assert len(left) <= RECORD_LIMIT
    assert sum(len(case.launches) for case in record.cases) == 2 * PAIRS * MOST_CASES > 10_000
    assert sorted(failing(record)) == sorted(map(name_of, {*SLOWER, WORST}))
    names_all(comment_on(scene, pull), record)
    (file,) = (scene.workspace / "ci-score").glob("*.html")
    page = file.read_text(encoding="utf-8")
    assert [name for name in failing(record) if name not in page] == []
    asked = len(scene.asked())
    post_for_a_fork(scene, left, record)
    assert asked <= 12
    assert len(scene.asked()) - asked <= 12


def names_all(comment: str, record: Record) -> None:
    """The worst case first, and every one that fails."""
    assert f"`{name_of(WORST)}`" in comment.splitlines()[1]
    assert [name for name in failing(record) if name not in comment] == []


def post_for_a_fork(scene: Scene, left: bytes, record: Record) -> None:
    """The same record as an artifact of a fork's run."""
    pull = fork_pull_request(scene)
    producer = run_of_fork(scene, pull)
    scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": left})
    assert scene.act(events.workflow_run(scene.github, producer)).code == 0
    names_all(comment_on(scene, pull), record)
