"""The Action on a loopback Gitea, whose answers are those that a real one gave."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from ci_score.files.strict_json import dump
from ci_score.github import Api, issue
from ci_score.model.code_changes import CodeChanges
from ci_score.model.reasons import Why
from ci_score.model.verdict import Unjudged
from ci_score.report.links import pull_link
from ci_score.traces.formats.reference import normalised
from tests.builders import profile, write
from tests.builders.code import At, step_code
from tests.builders.scene import (
    FAST,
    REPOSITORY,
    SLOW,
    Outcome,
    Scene,
    fork_pull_request,
    pull_request,
    record_for,
    record_in,
    tip,
)
from tests.loopback_github import LoopbackGitHub, State, bodies, events, faults
from tests.loopback_github.gitea import BOT, LoopbackGitea, on_gitea
from tests.loopback_github.messages import json_reply
from tests.loopback_github.state import PullRequest

TOKEN = "5" * 40
WORKFLOW = ".gitea/workflows/performance.yml"
SLOWER = (
    "ci-score accept training step_time_ms up to 31 % because the new loss needs a second pass\n"
    "ci-score accept training throughput_tok_s up to 24 % because the new loss needs a second pass"
)


@pytest.fixture
def gitea(tmp_path: Path) -> Iterator[Scene]:
    """A repository with three commits on main."""
    state = State()
    state.token(TOKEN, login=BOT, kind="user")
    state.repository(REPOSITORY)
    with LoopbackGitea(state) as server:
        made = Scene(server, tmp_path, TOKEN)
        made.commits(3)
        yield made


def on_pull_request(
    scene: Scene, pull: PullRequest, command: str = "run", **inputs: str
) -> Outcome:
    """The Action on a pull request, whose head is what was tested."""
    event = events.pull_request(scene.github, pull, path=WORKFLOW)
    return scene.act(on_gitea(event, scene.state), command, **inputs)


def review(scene: Scene, pull: PullRequest, **changed: Any) -> None:
    """An approval of somebody who may write, of the pull request's head."""
    rows = scene.state.reviews.setdefault(pull.number, [])
    address = f"{scene.github.links.web}/{REPOSITORY}/pulls/{pull.number}#issuecomment-{len(rows)}"
    rows.append(
        {
            "id": len(rows),
            "user": {"id": 7, "login": "octo"},
            "state": "APPROVED",
            "body": SLOWER,
            "commit_id": pull.head_sha,
            "stale": False,
            "official": True,
            "dismissed": False,
            "html_url": address,
        }
        | changed
    )


def pairs(scene: Scene, folder: str) -> None:
    """What a measuring job has left: eight pairs that ran in turns."""
    luck = random.Random(1)  # noqa: S311 - noise, and no secret
    rows = [
        {
            "schema": 1,
            "side": side,
            "launch": number,
            "order": 2 * number + place,
            "tokens_per_step": 1000,
            "step_ms": [luck.gauss(100.0, 0.2) for _ in range(10)],
        }
        for number in range(8)
        for place, side in enumerate(("base", "head"))
    ]
    path = scene.workspace / folder / "measurements.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_pull_request__is_compared_with_the_record_at_its_merge_base(gitea: Scene) -> None:
    """The record of the commit that the branch left is not some commits before the base."""
    gitea.leave_record(tip(gitea), FAST, path=WORKFLOW)
    base = tip(gitea)
    pull = pull_request(gitea)
    gitea.commits(2)
    gitea.measure(SLOW)
    done = on_pull_request(gitea, pull)
    assert done.code == 1
    assert done.outputs["baseline-sha"] == base.sha
    (case,) = record_in(gitea).cases
    assert case.baseline is not None
    assert case.baseline.commits_away == 0
    (comment,) = gitea.comments(pull)
    assert "❌ Fail: 30 % slower" in comment
    # Version, own run, two policies, history, listing, run, zip, comments, reviews, own name,
    # write, a look.
    assert len(gitea.asked()) <= 14


def test_pull_request__is_linked_as_this_server_links_it(gitea: Scene) -> None:
    """Its pages of pull requests have another address, and an artifact's has its name."""
    pull = pull_request(gitea)
    gitea.measure(FAST)
    event = on_gitea(events.pull_request(gitea.github, pull, path=WORKFLOW), gitea.state)
    assert gitea.act(event, comment="never", title="nightly").code == 0
    web = f"{gitea.github.links.web}/{REPOSITORY}"
    folder = f"{web}/actions/runs/{event.run.id}/artifacts"
    gitea.environment["INPUT_PAGE"] = f"{folder}/7"
    assert gitea.act(event, "post", title="nightly").code == 0
    made = record_in(gitea)
    assert (made.repository, made.server, made.pull) == (web, "gitea", pull.number)
    assert pull_link(made) == f"{web}/pulls/{pull.number}"
    assert made.page == f"{folder}/ci-score-nightly-{event.environment['GITHUB_RUN_ATTEMPT']}.html"
    assert made.page in gitea.comments(pull)[0]


def test_post__of_a_run_whose_measurement_is_an_attempt_ahead(gitea: Scene) -> None:
    """The record says so, and its report is posted all the same."""
    pull = pull_request(gitea)
    gitea.measure(FAST)
    event = on_gitea(events.pull_request(gitea.github, pull, path=WORKFLOW), gitea.state)
    gitea.act(event, comment="never")
    path = gitea.workspace / "ci-score" / "ci-score.json"
    made = record_in(gitea)
    assert made.run is not None
    for attempt, comments in ((made.run.attempt - 1, 0), (made.run.attempt + 1, 1)):
        path.write_text(dump(made.but(run=made.run.but(attempt=attempt))), encoding="utf-8")
        assert gitea.act(event, "post").code == 0
        assert len(gitea.comments(pull)) == comments


def test_pull_request__keeps_one_comment(gitea: Scene) -> None:
    """Whoever a job's token is, is asked; a longer conversation has no pages."""
    pull = pull_request(gitea)
    for number in range(60):
        gitea.state.comment(gitea.repository, pull.number, f"chat {number}", author="developer")
    gitea.measure(FAST)
    for _ in range(2):
        assert on_pull_request(gitea, pull).code == 0
    assert len([text for text in gitea.comments(pull) if "ci-score" in text]) == 1


def test_record__of_a_fork_that_calls_itself_the_branch_is_none_of_ours(gitea: Scene) -> None:
    """The listing does not say whose a run is, so it is asked: a fork's is of a pull request."""
    pull = fork_pull_request(gitea)
    forged = events.pull_request(gitea.github, pull, path=WORKFLOW).run
    text = record_for(pull.head_sha, SLOW, forged).model_dump_json().encode()
    gitea.state.artifact(forged, "ci-score", {"ci-score.json": text})
    gitea.measure(SLOW)
    done = on_pull_request(gitea, pull_request(gitea))
    assert (done.code, record_in(gitea).cases[0].verdict.unjudged) == (0, Unjudged.FIRST_RUN)  # type: ignore[union-attr]
    gitea.leave_record(tip(gitea), FAST, path=WORKFLOW)
    assert on_pull_request(gitea, pull_request(gitea, "late")).code == 1


def test_record__is_found_behind_any_number_of_strangers(gitea: Scene) -> None:
    """After a few that are none of the branch, its own runs are listed instead of asking on."""
    gitea.leave_record(tip(gitea), FAST, path=WORKFLOW)
    for number in range(60):
        pull = pull_request(gitea, f"topic-{number}")
        forged = events.pull_request(gitea.github, pull, path=WORKFLOW).run
        text = record_for(pull.head_sha, SLOW, forged).model_dump_json().encode()
        gitea.state.artifact(forged, "ci-score", {"ci-score.json": text})
    gitea.measure(SLOW)
    done = on_pull_request(gitea, pull_request(gitea))
    assert (done.code, done.outputs["baseline-sha"]) == (1, tip(gitea).sha)
    assert len(gitea.asked()) < 25


def test_record__of_another_workflow_is_none_of_ours(gitea: Scene) -> None:
    """A run's path has the file's name only, and that is compared."""
    gitea.leave_record(tip(gitea), FAST, path=".gitea/workflows/other.yml")
    gitea.measure(SLOW)
    done = on_pull_request(gitea, pull_request(gitea))
    assert record_in(gitea).cases[0].verdict.unjudged is Unjudged.FIRST_RUN  # type: ignore[union-attr]
    assert done.code == 0


def test_record__the_newest_are_read_of_many(gitea: Scene) -> None:
    """The oldest come first, fifty a page: the last pages are read, and not all."""
    for commit in gitea.commits(130):
        gitea.leave_record(commit, FAST, path=WORKFLOW)
    gitea.measure(SLOW)
    done = on_pull_request(gitea, pull_request(gitea))
    assert (done.code, done.outputs["baseline-sha"]) == (1, tip(gitea).sha)
    assert len(gitea.asked()) < 20


def test_record__missing_although_the_branch_has_run_blocks(gitea: Scene) -> None:
    """There is no listing of a workflow's runs; the branch's own are looked through."""
    gitea.state.commit(gitea.repository, "main", files={WORKFLOW: "uses: ci-score/ci-score@v0"})
    gitea.state.run(gitea.repository, event="push", path=WORKFLOW)
    gitea.measure(SLOW)
    done = on_pull_request(gitea, pull_request(gitea))
    assert record_in(gitea).cases[0].verdict.unjudged is Unjudged.NO_RECORD  # type: ignore[union-attr]
    assert done.code == 3


def test_push__to_another_branch_is_compared_from_where_it_began(gitea: Scene) -> None:
    """A comparison there names no merge base: it is the one parent that is not the branch's."""
    gitea.leave_record(tip(gitea), FAST, path=WORKFLOW)
    base = tip(gitea)
    for _ in range(3):
        gitea.state.commit(gitea.repository, "topic")
    gitea.commits(1)
    gitea.measure(SLOW)
    event = events.push(gitea.github, gitea.repository, "topic", path=WORKFLOW)
    done = gitea.act(on_gitea(event, gitea.state))
    assert (done.code, done.outputs["baseline-sha"]) == (1, base.sha)


def test_rerun__believes_no_record_of_an_earlier_attempt(gitea: Scene) -> None:
    """Another job of the run may have put one in its place, and the server does not tell."""
    event = events.pull_request(gitea.github, pull_request(gitea), path=WORKFLOW)
    text = record_for(event.run.head_sha, SLOW, event.run).model_dump_json().encode()
    gitea.state.artifact(event.run, "ci-score-pr", {"ci-score.json": text})
    gitea.measure(FAST)
    gitea.act(on_gitea(events.rerun(gitea.github, event), gitea.state))
    assert record_in(gitea).cases[0].scorecard.step_time_ms == 100.0
    assert not [asked for asked in gitea.asked() if asked.endswith("/zip")]


@pytest.mark.parametrize("begun", [1, 2])
def test_attempt__is_that_of_the_job_that_has_begun_most_often(gitea: Scene, begun: int) -> None:
    """After a run that was cancelled while it measured, the gate is an attempt behind."""
    event = events.pull_request(gitea.github, pull_request(gitea), path=WORKFLOW)
    gitea.state.job(replace(event.run, run_attempt=begun), "measure")
    pairs(gitea, "perf/training~2")
    done = gitea.act(on_gitea(event, gitea.state), measurements="perf")
    assert done.code == (0 if begun == 2 else 3)


def test_attempt__is_still_to_come_where_the_server_cannot_be_asked(gitea: Scene) -> None:
    """Nobody else tells that from a name that somebody has made up."""
    event = events.pull_request(gitea.github, pull_request(gitea), path=WORKFLOW)
    gitea.state.job(replace(event.run, run_attempt=2), "measure")
    gitea.github.inject(faults.server_error(502), path="/jobs", times=9)
    pairs(gitea, "perf/training~2")
    done = gitea.act(on_gitea(event, gitea.state), measurements="perf")
    assert done.code == 3
    assert "of attempt 2, and this is attempt 1" in done.summary


def test_accepted__in_the_text_of_an_approval(gitea: Scene) -> None:
    """Its text cannot be edited; of its author it says whether the approval counts."""
    gitea.leave_record(tip(gitea), FAST, path=WORKFLOW)
    gitea.measure(SLOW)
    pull = pull_request(gitea)
    gitea.state.comment(gitea.repository, pull.number, SLOWER, author="maintainer")
    assert on_pull_request(gitea, pull).code == 1
    (said,) = {row.refused.code for row in record_in(gitea).acceptances if row.refused}
    assert said is Why.NO_APPROVAL
    review(gitea, pull)
    assert on_pull_request(gitea, pull).code == 0
    assert [row.by for row in record_in(gitea).acceptances if row.refused is None] == 2 * ["octo"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"state": "COMMENT"}, Why.NO_APPROVAL),
        ({"state": "REQUEST_CHANGES"}, Why.NO_APPROVAL),
        ({"official": False}, Why.NOT_OFFICIAL),
        ({"official": None}, Why.NOT_OFFICIAL),
        ({"commit_id": "0" * 40}, Why.BEFORE_THE_COMMITS),
        ({"commit_id": ""}, Why.BEFORE_THE_COMMITS),
        ({"dismissed": True}, None),
    ],
)
def test_accepted__not_in_another_review(
    gitea: Scene, changed: dict[str, Any], why: Why | None
) -> None:
    """One without approval, without the right, of another commit, or withdrawn."""
    gitea.leave_record(tip(gitea), FAST, path=WORKFLOW)
    gitea.measure(SLOW)
    pull = pull_request(gitea)
    review(gitea, pull, **changed)
    assert on_pull_request(gitea, pull).code == 1
    reasons = {row.refused.code for row in record_in(gitea).acceptances if row.refused}
    assert reasons == ({why} if why else set())


def test_accepted__nothing_where_the_reviews_cannot_be_read(gitea: Scene) -> None:
    """The report says so, and the check fails."""
    gitea.leave_record(tip(gitea), FAST, path=WORKFLOW)
    gitea.measure(SLOW)
    pull = pull_request(gitea)
    review(gitea, pull)
    row = gitea.state.reviews[pull.number][0]
    del row["dismissed"]
    assert on_pull_request(gitea, pull).code == 1
    assert Why.COMMENTS_NOT_READ in {notice.code for notice in record_in(gitea).notices}


def test_issue__on_drift_is_the_same_one(gitea: Scene) -> None:
    """Every issue there says of itself that it is no pull request."""
    api = Api(gitea.github.url, SecretStr(TOKEN))
    subject = issue.Subject("report", {"training": ""})
    for body in ("one", "two"):
        assert issue.tell(api, REPOSITORY, title="slower", body=body, subject=subject) is None
    assert len(gitea.state.issues) == 1


def test_base__is_the_merge_base(gitea: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """`ci-score base` names what the gate will compare with."""
    base, pull = tip(gitea), pull_request(gitea)
    gitea.commits(1)
    assert on_pull_request(gitea, pull, "base").code == 0
    assert capsys.readouterr().out.strip() == base.sha


@pytest.mark.parametrize("field", ["head_branch", "head_repository_id", "repository_id"])
def test_listing__that_does_not_say_whose_it_is_blocks(
    field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On any server: it is no first run, and the report names the field."""
    state = State()
    state.token(TOKEN)
    state.repository(REPOSITORY)
    with LoopbackGitHub(state) as server:
        scene = Scene(server, tmp_path, TOKEN)
        scene.commits(1)
        row = bodies.artifact(server.links, state, scene.leave_record(tip(scene), FAST))
        del row["workflow_run"][field]
        listing = json_reply({"total_count": 1, "artifacts": [row]})
        server.inject(faults.Fault("lacks a field", listing), path="/actions/artifacts$")
        scene.measure(SLOW)
        done = scene.act(events.pull_request(server, pull_request(scene)))
    assert done.code == 3
    assert record_in(scene).cases[0].verdict.unjudged is Unjudged.NO_PROVENANCE  # type: ignore[union-attr]
    assert f"workflow_run.{field}" in capsys.readouterr().out


# --- what a change does to the code ---------------------------------------------------------------


FILE, BEFORE = "train.py", "def step(x):\n    return x\n"
AFTER = "def step(x):\n    x = slow(x)\n    return x\n"


def with_lines(gitea: Scene, *, commits: int = 1) -> PullRequest:
    """A pull request of so many commits that is slower, in a line that its first one adds."""
    base = gitea.state.commit(gitea.repository, "main", files={FILE: BEFORE})
    fast = step_code({FILE: BEFORE}, At("return x", 95.0))
    slow = step_code({FILE: AFTER}, At("slow(x)", 30.0), At("return x", 95.0))
    gitea.leave_record(base, profile(100.0, tokens_per_step=1000, code=fast), path=WORKFLOW)
    gitea.state.commit(gitea.repository, "slower", parents=[base.sha], files={FILE: AFTER})
    for _ in range(commits - 1):
        gitea.state.commit(gitea.repository, "slower")
    made = profile(130.0, tokens_per_step=1000, code=slow)
    write(gitea.workspace / "profiles" / "profile.json", normalised(made))
    return gitea.state.pull_request(gitea.repository, "slower")


@pytest.mark.parametrize(
    ("commits", "asked"), [(1, "/git/commits/"), (2, "/pulls/1.diff")], ids=["one", "several"]
)
def test_diff__of_a_pull_request_is_that_of_its_commit_or_its_own(
    gitea: Scene, capsys: pytest.CaptureFixture[str], commits: int, asked: str
) -> None:
    """The line is known, in one request; a warning at it would be shown nowhere."""
    pull = with_lines(gitea, commits=commits)
    assert on_pull_request(gitea, pull).code == 1
    code = code_of(gitea)
    assert code.diff == "known"
    assert [(one.file, one.line) for one in code.warned] == [(FILE, 2)]
    assert [row for row in gitea.asked() if row.endswith(".diff")] == [
        row for row in gitea.asked() if asked in row and row.endswith(".diff")
    ]
    assert len([row for row in gitea.asked() if row.endswith(".diff")]) == 1
    assert "file=" not in capsys.readouterr().out


def test_diff__of_other_commits_is_asked_of_nobody(gitea: Scene) -> None:
    """The branch's record lies a commit before the base that the pull request left."""
    pull = with_lines(gitea)
    graph = gitea.state.graph(gitea.repository)
    later = gitea.state.commit(gitea.repository, "main")
    graph[pull.head_sha].parents = [later.sha]
    assert on_pull_request(gitea, pull).code == 3
    assert code_of(gitea).diff == "not asked"
    assert [row for row in gitea.asked() if row.endswith(".diff")] == []


def code_of(gitea: Scene) -> CodeChanges:
    """What the record says of the lines."""
    explanation = record_in(gitea).cases[0].explanation
    assert explanation is not None
    assert explanation.code is not None
    return explanation.code
