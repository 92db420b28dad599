"""`ci-score post`, and the outputs of `run` that a workflow builds on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ci_score.files.strict_json import dump
from ci_score.report.links import (
    baseline_commit_link,
    baseline_run_link,
    commit_link,
    pull_link,
    run_link,
    shown_commit,
)
from ci_score.run.settings import file_name
from tests.builders import PROJECT
from tests.builders.scene import (
    FAST,
    SLOW,
    Outcome,
    Scene,
    fork_pull_request,
    on_pull_request,
    pull_request,
    record_for,
    record_in,
    run_of_fork,
    tip,
)
from tests.loopback_github import FORK_PERMISSIONS, events, faults
from tests.loopback_github.events import Event
from tests.loopback_github.state import PullRequest

LINK = "[Report]({})"
SLOWER = re.compile(r"30(\.0)?.%.slower")


def page_of(scene: Scene, name: str = "ci-score-report-1.html") -> str:
    """An address such as the upload's, on this server."""
    return f"{scene.github.links.web}/team/model/actions/runs/7/artifacts/{name}"


def judge(scene: Scene, event: Event, **inputs: str) -> Outcome:
    """The gate's first container step."""
    return scene.act(event, comment="never", **inputs)


def post(scene: Scene, event: Event, page: str = "", **inputs: str) -> Outcome:
    """The gate's second container step."""
    scene.environment["INPUT_PAGE"] = page
    return scene.act(event, "post", **inputs)


# --- the comment after the page -------------------------------------------------------------------


def test_post__writes_what_run_would_have_written_and_the_page(scene: Scene) -> None:
    """The comment differs in the link alone; the record keeps it, and the summary has a line."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    scene.measure(SLOW)
    assert scene.act(event).code == 1
    (alone,) = scene.comments(pull)
    assert judge(scene, event).code == 1
    judged = record_in(scene)
    done = post(scene, event, page_of(scene))
    assert done.code == 0
    (comment,) = scene.comments(pull)
    link = LINK.format(page_of(scene))
    assert link in comment
    assert comment.replace(f"{link} · ", "") == alone
    assert record_in(scene) == judged.but(page=page_of(scene))
    assert link in (scene.workspace / "ci-score" / "report.md").read_text("utf-8")
    assert done.summary == f"The whole report as a page: {page_of(scene)}\n"
    assert done.outputs["comment-url"].startswith("http")


def test_post__asks_for_comments_and_writes_one(scene: Scene) -> None:
    """It lists the comments, writes one, and looks whether another run did so meanwhile."""
    scene.leave_record(tip(scene), FAST)
    event = events.pull_request(scene.github, pull_request(scene))
    scene.measure(FAST)
    judge(scene, event)
    before = len(scene.asked())
    post(scene, event, page_of(scene))
    assert [asked.split()[0] for asked in scene.asked()[before:]] == ["GET", "POST", "GET"]
    # `run` read the comments, too, where an acceptance could stand.
    assert len(scene.asked()) <= 10


@pytest.mark.parametrize(
    "page",
    [
        "https://elsewhere.example/team/model/actions/runs/7/artifacts/1",
        "javascript:alert(1)",
        "{web}/a b",
        "{web}/a)[b](c",
        "{web}/a?b=<script>",
        "{web}.elsewhere.example/a",
        "{web}/stranger/model/actions/runs/7/artifacts/1",
        "{web}/team/model.stranger/actions/runs/7/artifacts/1",
        "{web}/team/model/../../stranger/model/actions/runs/7/artifacts/1",
        "{web}/team/model/%2E./%2e%2e/stranger/model/actions/runs/7/artifacts/1",
        "{web}/" + "a" * 600,
        "//[",
    ],
)
def test_post__links_no_other_address(scene: Scene, page: str) -> None:
    """An address of another server, or one that is no plain path, is dropped with a notice."""
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    scene.measure(FAST)
    judge(scene, event)
    done = post(scene, event, page.format(web=scene.github.links.web))
    assert done.code == 0
    (comment,) = scene.comments(pull)
    assert "report as a page" not in comment
    assert record_in(scene).page is None
    assert "The page is not linked" in done.summary


def test_post__a_fork_may_not_comment(scene: Scene) -> None:
    """Its token may only read: a notice, the address in the record, and exit 0."""
    scene.state.tokens[0].permissions = dict(FORK_PERMISSIONS)
    pull = fork_pull_request(scene)
    event = events.pull_request(scene.github, pull)
    scene.measure(FAST)
    judge(scene, event)
    done = post(scene, event, page_of(scene))
    assert (done.code, scene.comments(pull)) == (0, [])
    assert "workflow_run job can post" in done.summary
    assert record_in(scene).page == page_of(scene)


def test_post__a_fault_of_the_api_is_a_notice(scene: Scene) -> None:
    """What cannot be posted never fails a check."""
    event = events.pull_request(scene.github, pull_request(scene))
    scene.measure(FAST)
    judge(scene, event)
    scene.github.inject(faults.server_error(500), path="/comments", times=99)
    done = post(scene, event)
    assert (done.code, done.outputs["comment-url"]) == (0, "")
    assert "The comment was not posted" in done.summary


@pytest.mark.parametrize(("when", "written"), [("never", 0), ("problems", 0), ("always", 1)])
def test_post__comment_when(scene: Scene, when: str, written: int) -> None:
    """The user's choice holds here, where `run` is told never to comment."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    scene.measure(FAST)
    judge(scene, event)
    post(scene, event, comment=when)
    assert len(scene.comments(pull)) == written


def test_post__a_cancelled_measurement_leaves_the_comment_alone(scene: Scene) -> None:
    """What an earlier run found still holds; the record and the summary tell of this one."""
    pull = pull_request(scene)
    scene.measure(FAST)
    on_pull_request(scene, pull)
    before = scene.comments(pull)
    event = events.pull_request(scene.github, pull)
    assert judge(scene, event, producer="measure=cancelled").code == 3
    assert post(scene, event, page_of(scene)).code == 0
    assert scene.comments(pull) == before
    assert record_in(scene).page == page_of(scene)


def test_post__a_push_has_no_comment(scene: Scene) -> None:
    """The page's address is kept all the same."""
    event = events.push(scene.github, scene.repository)
    scene.measure(FAST)
    judge(scene, event)
    assert post(scene, event, page_of(scene)).code == 0
    assert record_in(scene).page == page_of(scene)


def test_post__only_what_this_attempt_has_judged(scene: Scene) -> None:
    """The record of an earlier attempt, left on a machine that stays, is not posted as new."""
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    scene.measure(FAST)
    judge(scene, event)
    done = post(scene, events.rerun(scene.github, event))
    assert (done.code, scene.comments(pull)) == (0, [])
    assert "of another run, or of another attempt" in done.summary


@pytest.mark.parametrize("left", [None, "", '{"schema_version": 3}', "[" * 10_000])
def test_post__without_a_record_posts_nothing(scene: Scene, left: str | None) -> None:
    """A judge that broke leaves no record, or half a one: that is for the last step to say."""
    pull = pull_request(scene)
    folder = scene.workspace / "ci-score"
    folder.mkdir(parents=True)
    if left is not None:
        (folder / "ci-score.json").write_text(left, encoding="utf-8")
    done = post(scene, events.pull_request(scene.github, pull))
    assert (done.code, scene.comments(pull)) == (0, [])


# --- for a fork's run -----------------------------------------------------------------------------


def of_fork(scene: Scene, pulls: int = 1) -> tuple[list[PullRequest], Event]:
    """A slow pull request of a fork, to some branches, and the run that posts for it."""
    scene.leave_record(tip(scene), FAST)
    pull = fork_pull_request(scene)
    fork = scene.state.repository_named("stranger/model")
    others = []
    for number in range(pulls - 1):
        scene.state.commit(scene.repository, f"release-{number}", parents=[tip(scene).sha])
        made = scene.state.pull_request(
            scene.repository, pull.head_ref, head_repository=fork, base_ref=f"release-{number}"
        )
        others.append(made)
    producer = run_of_fork(scene, pull)
    left = record_for("d" * 40, SLOW, producer).but(
        page=f"{scene.github.links.web}/stranger/model/actions/runs/1/artifacts/1",
        repository="https://github.com/stranger/model",
        pull=666,
        pull_head="d" * 40,
    )
    scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": dump(left).encode()})
    return [pull, *others], events.workflow_run(scene.github, producer)


def test_post__for_a_fork_leads_to_a_page_of_ours(scene: Scene) -> None:
    """The poster makes the page from the numbers, uploads it, and then comments."""
    (pull,), event = of_fork(scene)
    judged = judge(scene, event)
    assert (judged.code, scene.comments(pull)) == (0, [])
    assert judged.outputs["page"] == "ci-score/ci-score-report-1.html"
    page = (scene.workspace / judged.outputs["page"]).read_text("utf-8")
    assert SLOWER.search(page)
    assert "Measured by the pull request&#39;s own code" in page
    assert "stranger" not in page
    assert post(scene, event, page_of(scene)).code == 0
    (comment,) = scene.comments(pull)
    assert LINK.format(page_of(scene)) in comment
    assert SLOWER.search(comment)
    kept = record_in(scene)
    assert (kept.page, kept.pull, kept.pull_head) == (page_of(scene), pull.number, pull.head_sha)
    assert kept.repository == f"{scene.github.links.web}/team/model"
    assert "stranger" not in comment
    assert kept.run is not None
    assert kept.run.id == event.payload["workflow_run"]["id"]


def test_post__for_a_fork_with_two_pull_requests(scene: Scene) -> None:
    """Each has its own comment, and the page is of the one to the default branch."""
    pulls, event = of_fork(scene, pulls=2)
    judge(scene, event)
    assert post(scene, event, page_of(scene)).code == 0
    texts = [scene.comments(pull) for pull in pulls]
    assert [len(text) for text in texts] == [1, 1]
    assert [page_of(scene) in text for (text,) in texts] == [True, False]


def test_post__for_a_fork_whose_pull_request_moved_on(scene: Scene) -> None:
    """What was judged is not the head any more, so nothing is posted."""
    (pull,), event = of_fork(scene)
    judge(scene, event)
    scene.state.close(pull)
    assert post(scene, event, page_of(scene)).code == 0
    assert scene.comments(pull) == []


def test_post__shows_no_pull_request_what_was_judged_for_another(scene: Scene) -> None:
    """Of two of one head, the one to the default branch was closed meanwhile."""
    (pull, other), event = of_fork(scene, pulls=2)
    judge(scene, event)
    scene.state.close(min(pull, other, key=lambda one: one.base_ref != "main"))
    done = post(scene, event, page_of(scene))
    assert (done.code, scene.comments(pull), scene.comments(other)) == (0, [], [])
    assert "of another run, or of another attempt" in done.summary


def test_post__for_a_fork_alone_comments_at_once(scene: Scene) -> None:
    """The root action in the workflow of before: no page to link, and the same report."""
    (pull,), event = of_fork(scene)
    assert scene.act(event).code == 0
    (comment,) = scene.comments(pull)
    assert SLOWER.search(comment)
    assert "report as a page" not in comment


# --- where a record belongs to --------------------------------------------------------------------


def test_record__names_its_repository_and_pull_request(scene: Scene) -> None:
    """By the event of its run, so that a report can link them; a push is of no pull request."""
    pull = pull_request(scene)
    scene.measure(FAST)
    on_pull_request(scene, pull)
    made, web = record_in(scene), f"{scene.github.links.web}/team/model"
    assert (made.repository, made.pull, made.pull_head) == (web, pull.number, pull.head_sha)
    assert pull_link(made) == f"{web}/pull/{pull.number}"
    assert made.run is not None
    assert run_link(made, made.run) == f"{web}/actions/runs/{made.run.id}"
    assert commit_link(made, shown_commit(made)) == f"{web}/commit/{pull.head_sha}"
    scene.act(events.push(scene.github, scene.repository))
    made = record_in(scene)
    assert (made.repository, made.pull, made.pull_head) == (web, None, None)
    assert pull_link(made) == ""
    assert shown_commit(made) == made.commit


def test_record__links_the_baseline_that_the_branch_left(scene: Scene) -> None:
    """Its run and its commit are of this repository; those of a file may be of any."""
    left = scene.leave_record(tip(scene), FAST)
    scene.measure(FAST)
    on_pull_request(scene, pull_request(scene))
    made, web = record_in(scene), f"{scene.github.links.web}/team/model"
    used = made.cases[0].baseline
    assert baseline_run_link(made, used) == f"{web}/actions/runs/{left.run_id}"
    assert baseline_commit_link(made, used) == f"{web}/commit/{tip(scene).sha}"
    kept = scene.workspace / "main.json"
    kept.write_bytes((scene.workspace / "ci-score" / "ci-score.json").read_bytes())
    on_pull_request(scene, pull_request(scene, "other"), baseline="main.json")
    made = record_in(scene)
    used = made.cases[0].baseline
    assert used is not None
    assert used.run is not None
    assert (baseline_run_link(made, used), baseline_commit_link(made, used)) == ("", "")


@pytest.mark.parametrize("server", ["", "ftp://web", "https://a b", "https://x/<script>", "//["])
def test_record__of_a_server_that_cannot_be_linked(scene: Scene, server: str) -> None:
    """An address that is no plain one is left out, and nothing fails."""
    scene.environment["GITHUB_SERVER_URL"] = server
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    scene.measure(FAST)
    judge(scene, event)
    done = post(scene, event, page_of(scene))
    assert (done.code, len(scene.comments(pull))) == (0, 1)
    made = record_in(scene)
    assert (made.repository, made.page, pull_link(made)) == (None, None, "")
    assert run_link(made, made.run) == ""


# --- names for uploads ----------------------------------------------------------------------------


def test_outputs__name_record_and_page(scene: Scene) -> None:
    """A pull request's record is apart from the branch's; the page is there under its name."""
    scene.measure(FAST)
    done = on_pull_request(scene, pull_request(scene))
    assert done.outputs["record-artifact"] == "ci-score-pr"
    assert done.outputs["page"] == "ci-score/ci-score-report-1.html"
    assert (scene.workspace / done.outputs["page"]).read_text("utf-8").startswith("<!doctype html>")
    done = scene.act(events.push(scene.github, scene.repository))
    assert done.outputs["record-artifact"] == "ci-score"


def test_outputs__a_title_is_part_of_each_name(scene: Scene) -> None:
    """Several reports of one run share no artifact, and find their own records."""
    scene.leave_record(tip(scene), SLOW)
    scene.leave_record(tip(scene), FAST, artifact="ci-score-nightly")
    scene.measure(FAST)
    event = events.rerun(scene.github, events.pull_request(scene.github, pull_request(scene)))
    done = scene.act(event, title="nightly")
    assert done.outputs["record-artifact"] == "ci-score-nightly-pr"
    assert done.outputs["page"] == "ci-score/ci-score-nightly-2.html"
    assert done.outputs["verdict"] == "pass"


def test_outputs__an_artifact_of_ones_own_name(scene: Scene) -> None:
    """What is read and what is uploaded have the name that the input gives."""
    scene.measure(FAST)
    done = on_pull_request(scene, pull_request(scene), title="a", baseline_artifact="perf")
    assert done.outputs["record-artifact"] == "perf-pr"


def test_file_name__is_safe_and_never_shared() -> None:
    """Titles that would be alike, or take the name of something else, keep a digest."""
    titles = [
        *("a-b", "a/b", "a b", "a:b", "a--b", "../a", "..", "a\\b", "日本", "語", "report", "pr"),
        *("x", "x-pr", "report-1.html", "a*", 'a"', "a<b>", "a|b", "-", "~", "${{ x }}", "$(x)"),
    ]
    names = [file_name(title) for title in titles]
    assert len({name.lower() for name in names}) == len(names)
    for title, name in zip(titles, names, strict=True):
        assert not set(name) & set('"<>:|*?\r\n\\/ ${}()'), title
        assert name not in ("pr", "report", "x-pr", "report-1.html")
    assert [file_name(title) for title in ("nightly", "a-b", "v1.2_x")] == [
        "nightly", "a-b", "v1.2_x"
    ]  # fmt: skip


# --- the exit code --------------------------------------------------------------------------------


def process(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    """ci-score as the image starts it: its exit code, and what it left as outputs."""
    outputs = folder / "outputs"
    outputs.touch()
    done = subprocess.run(
        [sys.executable, "-m", "ci_score", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "GITHUB_OUTPUT": str(outputs)}
        | environment,
        capture_output=True,
        check=False,
    )
    return done.returncode, outputs.read_text(encoding="utf-8")


def test_exit_code__is_an_output_of_every_end(tmp_path: Path) -> None:
    """Also of wrong use, of what could not be judged, and of an installation that is broken."""
    assert process(tmp_path, "run", "--fail-on", "nothing") == (2, "exit-code=2\n")
    (tmp_path / "outputs").unlink()
    assert process(tmp_path, "run") == (3, "exit-code=3\n")
    (tmp_path / "outputs").unlink()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "click.py").write_text("1 / 0\n", encoding="utf-8")
    path = os.pathsep.join((str(tmp_path / "broken"), str(PROJECT)))
    assert process(tmp_path, "run", PYTHONPATH=path) == (3, "exit-code=3\n")


def test_exit_code__of_another_command_is_no_output(tmp_path: Path) -> None:
    """A step may well run others beside it."""
    assert process(tmp_path, "formats") == (0, "")


def test_post__outside_of_a_job_is_wrong_use(tmp_path: Path) -> None:
    """It has no pull request there."""
    assert process(tmp_path, "post") == (2, "")
