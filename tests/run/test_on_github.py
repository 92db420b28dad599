"""The Action on a loopback GitHub: every event, every baseline, every way to publish."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ci_score.files.strict_json import dump
from ci_score.model.reasons import quoted
from ci_score.model.record import Record
from tests.builders import layer, phase, profile
from tests.builders.scene import (
    FAST,
    REPOSITORY,
    SLOW,
    Scene,
    fork_pull_request,
    on_pull_request,
    pull_request,
    record_for,
    record_in,
    run_of_fork,
    tip,
)
from tests.loopback_github import (
    ACTIONS_BOT,
    FORK_PERMISSIONS,
    contract,
    events,
    faults,
    zipped,
)
from tests.loopback_github.state import PullRequest

Out = pytest.CaptureFixture[str]


# --- a pull request -----------------------------------------------------------------------------


def test_pull_request__passes_with_nine_requests(scene: Scene) -> None:
    """Parents, two policies, artifacts, run, zip, comments, write, and the comments since."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull)
    assert done.code == 0
    assert done.outputs["verdict"] == "pass"
    assert done.outputs["baseline-sha"] == tip(scene).sha
    assert len(scene.asked()) == 9
    (comment,) = scene.comments(pull)
    assert "✅ Pass: the same time" in comment
    assert "✅ Pass: the same time" in done.summary
    assert done.outputs["comment-url"].startswith("http")
    assert (scene.workspace / done.outputs["record"]).is_file()
    assert (scene.workspace / done.outputs["report"]).is_file()


def test_pull_request__a_critical_regression_fails_after_the_comment(
    scene: Scene, capsys: Out
) -> None:
    """Exit 1, and the comment, the summary, the outputs and an annotation tell why."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert done.code == 1
    assert "❌ Fail: 30 % slower" in scene.comments(pull)[0]
    assert done.outputs["verdict"] == "fail"
    assert json.loads(done.outputs["regressions"])[0]["metric"] == "throughput_tok_s"
    assert (done.outputs["critical"], done.outputs["warnings"]) == ("2", "0")
    assert "::error title=ci-score training::Fail: 30 %25 slower" in capsys.readouterr().out


def test_pull_request__updates_its_comment_with_eight_requests(scene: Scene) -> None:
    """The second run finds the first one's comment among others, and changes it."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    for number in range(120):
        scene.state.comment(scene.repository, pull.number, f"chat {number}", author="developer")
    scene.measure(SLOW)
    on_pull_request(scene, pull)
    scene.github.exchanges.clear()
    scene.measure(FAST)
    assert on_pull_request(scene, pull).code == 0
    ours = [body for body in scene.comments(pull) if "ci-score" in body]
    assert len(ours) == 1
    assert "✅ Pass: the same time" in ours[0]
    assert len(scene.asked()) == 9  # one more page of comments


def test_pull_request__a_comment_of_somebody_else_is_not_ours(scene: Scene) -> None:
    """Whoever copies the marker does not get our report written into their comment."""
    pull = pull_request(scene)
    scene.measure(FAST)
    on_pull_request(scene, pull)
    (first,) = scene.comments(pull)
    scene.state.comments[-1].author = "developer"
    on_pull_request(scene, pull)
    assert scene.comments(pull)[0] == first
    assert len(scene.comments(pull)) == 2


def test_pull_request__an_older_run_leaves_a_newer_comment_alone(scene: Scene) -> None:
    """Runs end in any order; the comment is the newest one's."""
    pull = pull_request(scene)
    older, newer = (events.pull_request(scene.github, pull) for _ in range(2))
    scene.measure(FAST)
    scene.act(newer)
    before = scene.comments(pull)
    scene.measure(SLOW)
    done = scene.act(older)
    assert scene.comments(pull) == before
    assert done.outputs["comment-url"]
    assert "newer run" in done.summary


def test_pull_request__a_rerun_may_overwrite_its_own_comment(scene: Scene) -> None:
    """The next attempt of the same run is newer."""
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    scene.measure(FAST)
    scene.act(event)
    scene.act(events.rerun(scene.github, event))
    assert '"attempt": 2' in scene.comments(pull)[0].splitlines()[0]


def test_pull_request__duplicates_of_a_race_are_removed(scene: Scene) -> None:
    """Two runs at once may both have created one; the next run leaves the first."""
    pull = pull_request(scene)
    scene.measure(FAST)
    on_pull_request(scene, pull)
    (body,) = scene.comments(pull)
    scene.state.comment(scene.repository, pull.number, body, author=ACTIONS_BOT)
    on_pull_request(scene, pull)
    assert len(scene.comments(pull)) == 1


def test_pull_request__titles_have_a_comment_each(scene: Scene) -> None:
    """Several reports of one pull request do not overwrite each other."""
    pull = pull_request(scene)
    scene.measure(FAST)
    for title in ("nightly", "smoke", "nightly"):
        on_pull_request(scene, pull, title=title)
    assert len(scene.comments(pull)) == 2


@pytest.mark.parametrize(
    ("when", "measured", "written"),
    [("never", SLOW, False), ("problems", FAST, False), ("problems", SLOW, True),
     ("changes", FAST, False), ("changes", profile(60.0, tokens_per_step=1000), True)],
)  # fmt: skip
def test_pull_request__comment_when(scene: Scene, when: str, measured: Any, written: bool) -> None:
    """Teams choose what they want to be told of."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(measured)
    on_pull_request(scene, pull, comment=when)
    assert bool(scene.comments(pull)) is written


def test_pull_request__an_old_problem_is_resolved_not_left(scene: Scene) -> None:
    """With `problems` a red comment does not outlive the problem."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    for measured in (SLOW, FAST):
        scene.measure(measured)
        on_pull_request(scene, pull, comment="problems")
    (comment,) = scene.comments(pull)
    assert "✅ Pass: the same time" in comment


def test_pull_request__check_run_is_on_the_head(scene: Scene) -> None:
    """Never on the test merge, and only where it is wanted."""
    scene.state.tokens[0].permissions["checks"] = "write"
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    on_pull_request(scene, pull, check_run="true")
    (check,) = scene.state.check_runs
    assert check.head_sha == pull.head_sha
    assert check.conclusion == "failure"


def test_pull_request__without_a_profile_nothing_was_measured(scene: Scene) -> None:
    """No file is never a pass: exit 3, and the comment says so."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.workspace.mkdir()
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["verdict"]) == (3, "inconclusive")
    assert "nothing was found at profiles" in scene.comments(pull)[0]


@pytest.mark.parametrize(
    ("producer", "why", "words"),
    [
        ("measure=failure", "nothing_measured", "`measure` failed"),
        ("measure=skipped", "skipped", "`measure` was skipped"),
        ("measure=", "unknown_result", "needs.measure.result"),
        ("=", "unknown_result", "no result was given"),
        ("measure=6", "unknown_result", "ended (6)"),
        ("a=success\nb=skipped\nc=failure", "nothing_measured", "`c` failed"),
        ("a=success\nb=skipped", "skipped", "`b` was skipped"),
        ("a=cancelled\nb=failure", "nothing_measured", "`b` failed"),
    ],
)
def test_producer__without_success_measured_nothing(
    scene: Scene, producer: str, why: str, words: str
) -> None:
    """What such a job left behind is no measurement: exit 3, a record, outputs and a comment."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull, producer=producer)
    assert (done.code, done.outputs["verdict"]) == (3, "inconclusive")
    verdict = record_in(scene).unjudged
    assert verdict is not None
    assert verdict.unjudged == why
    assert words in scene.comments(pull)[0]
    says_where = "the log of the measuring job says why" in scene.comments(pull)[0]
    assert says_where is (why == "nothing_measured")


@pytest.mark.parametrize(
    "producer", ["success\n\n", "success\nskipped", " \n", "a=success\n\nskipped"]
)
def test_producer__of_several_jobs_each_is_named(scene: Scene, producer: str) -> None:
    """A mistyped job leaves a blank line, which must not count as one that succeeded."""
    scene.measure(FAST)
    assert on_pull_request(scene, pull_request(scene), producer=producer).code == 2


@pytest.mark.parametrize("has_comment", [True, False])
def test_producer__that_was_cancelled_leaves_the_comment_alone(
    scene: Scene, has_comment: bool
) -> None:
    """What the run before found still holds; summary, record and outputs are written."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    if has_comment:
        on_pull_request(scene, pull)
    before = scene.comments(pull)
    assert len(before) == has_comment
    done = on_pull_request(scene, pull, producer="measure=cancelled")
    assert (done.code, done.outputs["verdict"]) == (3, "inconclusive")
    assert scene.comments(pull) == before
    assert "`measure` was cancelled" in done.summary
    assert record_in(scene).was_cancelled


def test_producer__that_was_not_needed_passes_visibly(scene: Scene, capsys: Out) -> None:
    """Only a skipped job is excused, and the report and an annotation say why."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    why = "only documentation | @all <b>changed"
    done = on_pull_request(scene, pull, producer="measure=skipped", not_needed=why)
    assert (done.code, done.outputs["verdict"]) == (0, "inconclusive")
    printed = capsys.readouterr().out
    assert "::notice title=ci-score::Not judged: nothing had to be measured" in printed
    assert "::error" not in printed
    (comment,) = scene.comments(pull)
    assert "Not judged: nothing had to be measured: only documentation" in comment
    assert "<b>" not in re.sub(r"`[^`]*`|\\<", "", comment)
    for result, code in (("failure", 3), ("cancelled", 3), ("", 3), ("success", 1)):
        given = {"producer": f"measure={result}", "not_needed": why}
        assert on_pull_request(scene, pull, **given).code == code
    both = on_pull_request(scene, pull, producer="a=skipped\nb=success", not_needed=why)
    assert both.code == 1


@pytest.mark.parametrize("reason", ["skipped", "unknown_result", "not_needed"])
def test_producer__the_policy_decides_what_passes(scene: Scene, reason: str) -> None:
    """Each of these reasons is a key of `[unjudged]`."""
    default = 0 if reason == "not_needed" else 3
    other = "fail" if default == 0 else "pass"
    scene.policy(f'schema = 1\n[unjudged]\n{reason} = "{other}"\n')
    pull = pull_request(scene)
    scene.workspace.mkdir()
    given = {"producer": "measure=" if reason == "unknown_result" else "measure=skipped"}
    if reason == "not_needed":
        given["not_needed"] = "only documentation changed"
    assert on_pull_request(scene, pull, **given).code == 3 - default


def test_pull_request__a_broken_profile_is_a_problem_of_its_case(scene: Scene) -> None:
    """One case cannot be read, the other is judged all the same."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(FAST, "profiles/training/p.json")
    (scene.workspace / "profiles" / "other").mkdir()
    (scene.workspace / "profiles" / "other" / "p.json").write_text('{"steps": 1', "utf-8")
    done = on_pull_request(scene, pull)
    assert done.code == 3
    cases = {row["name"]: row["verdict"] for row in json.loads(done.outputs["cases"])}
    assert cases == {"other": "inconclusive", "training": "pass"}
    assert "the end of the file inside the JSON" in scene.comments(pull)[0]


def test_pull_request__a_case_that_is_gone_is_no_pass(scene: Scene) -> None:
    """Nobody loses a case unnoticed: what the branch measures must not just disappear."""
    scene.leave_record(tip(scene), FAST, case="llama")
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["verdict"]) == (3, "inconclusive")
    assert "the case llama was not measured" in scene.comments(pull)[0]


def test_pull_request__hostile_names_are_harmless(scene: Scene, capsys: Out) -> None:
    """Op names full of markdown, commands and invisible characters are text everywhere."""
    name = "x|`\n::error::boo ##[add-mask]y @all #1 <img src=x> \u202e<!-- ci-score {} -->"
    hostile = profile(130.0, tokens_per_step=1000, per_layer=[layer(0, **{name: 5.0})],
                      phases={name: phase(120.0)})  # fmt: skip
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(hostile)
    on_pull_request(scene, pull)
    printed = capsys.readouterr().out
    lines = [line.strip() for line in printed.splitlines()]
    assert [
        line
        for line in lines
        if line.startswith("::") and not line.startswith("::error title=ci-score")
    ] == []
    assert "##[" not in printed
    (comment,) = scene.comments(pull)
    assert "\u202e" not in comment
    assert "\n<!--" not in comment  # the marker is the first line and the only one
    on_pull_request(scene, pull)
    assert len(scene.comments(pull)) == 1


def test_pull_request__parity_names_are_harmless(scene: Scene) -> None:
    """A partner's name is in no place where HTML is live."""
    pull = pull_request(scene)
    scene.measure(FAST)
    partner = {"runtime": "</summary><img src=x> @all", "ops": {"qkv": 1.0}}
    (scene.workspace / "theirs.json").write_text(json.dumps(partner), encoding="utf-8")
    on_pull_request(scene, pull, parity="training=theirs.json")
    for line in scene.comments(pull)[0].splitlines():
        assert "<img" not in re.sub(r"`[^`]*`|\\<", "", line)


def test_pull_request__an_app_s_token_has_one_comment_too(scene: Scene) -> None:
    """An app's token looks like a job's, and cannot be asked who it is."""
    scene.state.tokens[0].login = "perf-app[bot]"
    scene.state.account("perf-app[bot]")
    pull = pull_request(scene)
    scene.measure(FAST)
    for _ in range(3):
        on_pull_request(scene, pull)
    assert len(scene.comments(pull)) == 1


def test_pull_request__a_forged_newer_marker_does_not_mute_us(scene: Scene) -> None:
    """A comment can be edited: the run that it names must exist."""
    pull = pull_request(scene)
    scene.measure(SLOW)
    on_pull_request(scene, pull)
    (body,) = scene.comments(pull)
    scene.state.comments[-1].body = re.sub('"number": [0-9]+', '"number": 999999', body)
    scene.measure(FAST)
    on_pull_request(scene, pull)
    assert '"number": 999999' not in scene.comments(pull)[0]


def test_pull_request__workflows_of_one_title_have_a_comment_each(scene: Scene) -> None:
    """The failing one is not overwritten by the passing one."""
    pull = pull_request(scene)
    scene.measure(FAST)
    for path in (".github/workflows/a.yml", ".github/workflows/b.yml"):
        scene.act(events.pull_request(scene.github, pull, path=path))
    assert len(scene.comments(pull)) == 2


def test_pull_request__at_most_ten_annotations(scene: Scene, capsys: Out) -> None:
    """GitHub shows no more of a step."""
    pull = pull_request(scene)
    for number in range(12):
        scene.measure(FAST, f"profiles/case{number}/p.json")
    on_pull_request(scene, pull)
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if line.startswith("::")]) == 10


def test_pull_request__sixty_four_cases_fit_the_comment(scene: Scene) -> None:
    """GitHub refuses a longer one; the verdict and the worst cases stay."""
    pull = pull_request(scene)
    wide = profile(
        per_layer=[layer(n, **{f"op-{n}-{o}" * 6: 1.0 for o in range(9)}) for n in range(40)]
    )
    for number in range(64):
        scene.measure(wide, f"profiles/case{number}/p.json")
    on_pull_request(scene, pull)
    (comment,) = scene.comments(pull)
    assert len(comment) < 65_536
    assert "### 🆕 First run: the next run of the default branch records the baselines" in comment
    assert all(f"`case{number}`" in comment for number in range(64))


# --- which baseline -----------------------------------------------------------------------------


def test_baseline__is_the_nearest_record_on_the_tested_line(scene: Scene) -> None:
    """Not the newest upload, and not the stale base of the pull request."""
    first, _, last = list(scene.state.graph(scene.repository).values())
    scene.leave_record(last, FAST)
    scene.leave_record(first, SLOW)
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull)
    assert done.outputs["baseline-sha"] == last.sha
    scene.state.artifacts[0].expired = True
    done = on_pull_request(scene, pull)
    assert done.outputs["baseline-sha"] == first.sha
    assert "2 commits before the tested base" in scene.comments(pull)[0]


def test_baseline__of_a_moved_base_is_the_one_really_tested(scene: Scene) -> None:
    """The test merge's first parent counts, however old the pull request is."""
    pull = pull_request(scene)
    (newer,) = scene.commits(1)
    scene.state.test_merge(pull)
    scene.leave_record(newer, FAST)
    scene.measure(FAST)
    assert on_pull_request(scene, pull).outputs["baseline-sha"] == newer.sha


def test_baseline__of_a_checked_out_head_is_the_merge_base(scene: Scene) -> None:
    """Who checks out the head instead of the merge has tested another base."""
    base = tip(scene)
    pull = pull_request(scene)
    (newer,) = scene.commits(1)
    scene.state.test_merge(pull)
    scene.leave_record(base, FAST)
    scene.leave_record(newer, FAST)
    scene.measure(FAST)
    (scene.workspace / ".git").mkdir()
    (scene.workspace / ".git" / "HEAD").write_text(pull.head_sha + "\n", encoding="ascii")
    assert on_pull_request(scene, pull).outputs["baseline-sha"] == base.sha


def test_baseline__of_a_head_that_an_earlier_job_left(scene: Scene) -> None:
    """What lies in the gate's workspace is not what another job has measured."""
    pull = pull_request(scene)
    (newer,) = scene.commits(1)
    scene.state.test_merge(pull)
    scene.leave_record(newer, FAST)
    scene.measure(FAST)
    (scene.workspace / ".git").mkdir()
    (scene.workspace / ".git" / "HEAD").write_text(pull.head_sha + "\n", encoding="ascii")
    done = on_pull_request(scene, pull, producer="measure=success")
    assert done.outputs["baseline-sha"] == newer.sha


def poisoned(scene: Scene, what: str) -> None:
    """An upload that must not be trusted, on the very commit that is looked for."""
    last, repository, state = tip(scene), scene.repository, scene.state
    fork = state.fork(repository, "stranger/model")
    ways: dict[str, dict[str, Any]] = {
        "a fork's branch called main": {"event": "pull_request", "head_repository": fork},
        "a pull request": {"event": "pull_request"},
        "pull_request_target": {"event": "pull_request_target"},
        "workflow_run": {"event": "workflow_run"},
        "a merge group": {"event": "merge_group"},
        "another workflow": {"path": ".github/workflows/other.yml"},
        "another branch": {"head_branch": "main2"},
    }
    if what == "another branch":
        state.commit(repository, "main2", parents=[last.sha])
    run = state.run(repository, head_sha=last.sha, **{"head_branch": "main", **ways[what]})
    text = dump(record_for(last.sha, profile(1000.0, tokens_per_step=1000), run))
    state.artifact(run, "ci-score", {"ci-score.json": text.encode()})


@pytest.mark.parametrize(
    "what",
    ["a fork's branch called main", "a pull request", "pull_request_target", "workflow_run",
     "a merge group", "another workflow", "another branch"],
)  # fmt: skip
def test_baseline__poisoned_uploads_are_refused(scene: Scene, what: str) -> None:
    """Only push, schedule and dispatch runs of the workflow on the branch itself are trusted."""
    scene.leave_record(tip(scene), FAST)
    poisoned(scene, what)
    pull = pull_request(scene)
    scene.measure(SLOW)
    assert on_pull_request(scene, pull).code == 1


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/gate.yml",
        ".github/workflows/gate.yml@main",
        f"{REPOSITORY}/.github/workflows/gate.yml@refs/heads/main",
    ],
)
def test_baseline__trusted_uploads_are_found(scene: Scene, event: str, path: str) -> None:
    """However GitHub writes the workflow's path."""
    made = scene.state.run(scene.repository, event=event, path=path, head_sha=tip(scene).sha)
    text = dump(record_for(tip(scene).sha, FAST, made))
    scene.state.artifact(made, "ci-score", {"ci-score.json": text.encode()})
    pull = pull_request(scene)
    scene.measure(FAST)
    done = scene.act(events.pull_request(scene.github, pull, path=".github/workflows/gate.yml"))
    assert done.outputs["verdict"] == "pass"


UNUSABLE = {
    "not a zip": b"garbage",
    "no record": {"other.json": b"{}"},
    "a path out of it": {"../ci-score.json": b"{}"},
    "an absolute path": {"/ci-score.json": b"{}"},
    "a bomb": {"ci-score.json": b" " * (4 * 2**20)},
    "50 MB of JSON": {"ci-score.json": b"[" + b"1234567," * (6 * 2**20) + b"1]"},
    "NaN": {"ci-score.json": b'{"schema_version": 1, "created_at": NaN}'},
    "another schema": {"ci-score.json": b'{"schema_version": 99}'},
    "duplicate keys": {"ci-score.json": b'{"schema_version": 1, "schema_version": 1}'},
    "depth": {"ci-score.json": b"[" * 100_000},
    "no JSON": {"ci-score.json": b"<html>"},
}


@pytest.mark.parametrize("content", UNUSABLE.values(), ids=UNUSABLE)
def test_baseline__unusable_uploads_are_skipped_with_their_reason(
    scene: Scene, content: Any
) -> None:
    """The next record on the line is used, and the report says why not the nearer one."""
    first, _, last = list(scene.state.graph(scene.repository).values())
    scene.leave_record(first, FAST)
    run = scene.state.run(scene.repository, head_sha=last.sha)
    scene.state.artifact(run, "ci-score", content)
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull)
    assert done.outputs["baseline-sha"] == first.sha
    assert "Records that were looked at and not used" in scene.comments(pull)[0]


def test_baseline__a_wrong_digest_is_refused(scene: Scene) -> None:
    """The bytes must be those that were uploaded."""
    artifact = scene.leave_record(tip(scene), FAST)
    artifact.digest = "sha256:" + "0" * 64
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull)
    assert done.code == 3
    assert "found the digest" in done.summary


def test_baseline__a_record_that_is_no_zip_is_read(scene: Scene) -> None:
    """Newer uploads may be the bare file: the bytes count, not the name."""
    run = scene.state.run(scene.repository, head_sha=tip(scene).sha)
    scene.state.artifact(run, "ci-score", dump(record_for(tip(scene).sha, FAST, run)).encode())
    pull = pull_request(scene)
    scene.measure(FAST)
    assert on_pull_request(scene, pull).outputs["verdict"] == "pass"


def test_baseline__of_a_rerun_is_the_newest_attempt(scene: Scene) -> None:
    """Attempts coexist in the listing, and the later one replaces the earlier."""
    first = scene.leave_record(tip(scene), SLOW)
    run = next(run for run in scene.state.runs if run.id == first.run_id)
    again = scene.state.rerun(run)
    text = dump(record_for(tip(scene).sha, FAST, again))
    scene.state.artifact(again, "ci-score", {"ci-score.json": text.encode()})
    scene.state.artifacts_oldest_first = True
    pull = pull_request(scene)
    scene.measure(FAST)
    on_pull_request(scene, pull)
    case = record_in(scene).cases[0]
    assert case.changes[1].base == 100.0


def test_baseline__a_case_that_was_not_measured_is_looked_for_further_back(scene: Scene) -> None:
    """The older record serves, and a slowdown beside it is not clear: other commits lie between."""
    first, second, last = list(scene.state.graph(scene.repository).values())
    scene.leave_record(first, FAST)
    scene.leave_record(second, profile(0.0, phases={}, per_layer=()))
    scene.leave_record(last, FAST, case="another")
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["baseline-sha"]) == (3, first.sha)
    assert "its baseline is 2 commits before the tested base" in done.summary


def test_baseline__failed_producers_do_not_make_a_known_case_new(scene: Scene) -> None:
    """Records without cases are passed by, and a search that was given up is no new case."""
    scene.leave_record(tip(scene), FAST)
    for commit in scene.commits(14):
        run = scene.state.run(scene.repository, head_sha=commit.sha)
        empty = record_for(commit.sha, FAST, run).but(cases=())
        scene.state.artifact(run, "ci-score", {"ci-score.json": dump(empty).encode()})
    pull = pull_request(scene)
    scene.measure(SLOW)
    assert on_pull_request(scene, pull).code == 3
    for artifact in scene.state.artifacts[-8:]:
        artifact.expired = True
    done = on_pull_request(scene, pull)
    assert done.code == 3
    assert "its baseline is 14 commits before the tested base" in done.summary


def test_baseline__is_found_behind_large_merges(scene: Scene) -> None:
    """The history lists side branches as well; the first-parent line goes on behind them."""
    base = tip(scene)
    scene.leave_record(base, FAST)
    for number in range(3):
        side = f"side{number}"
        scene.state.commit(scene.repository, side, parents=[tip(scene).sha])
        for _ in range(60):
            scene.state.commit(scene.repository, side)
        merged = scene.repository.branches[side]
        scene.state.commit(scene.repository, "main", parents=[tip(scene).sha, merged])
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["baseline-sha"]) == (3, base.sha)
    assert "its baseline is 3 commits before the tested base" in done.summary


def test_baseline__a_drowned_listing_is_no_first_run(scene: Scene) -> None:
    """Whoever uploads a thousand artifacts of our name does not switch the gate off."""
    fork = scene.state.fork(scene.repository, "stranger/model")
    run = scene.state.run(scene.repository, event="pull_request", head_repository=fork)
    for number in range(1001):
        scene.state.artifact(run, f"x{number}", b"{}").name = "ci-score"
    pull = pull_request(scene)
    scene.measure(SLOW)
    assert on_pull_request(scene, pull).code == 3


def test_baseline__of_another_branch_and_workflow(scene: Scene) -> None:
    """Both can be named, and then the default ones are not used."""
    repository = scene.repository
    scene.leave_record(tip(scene), SLOW)
    release = scene.state.commit(repository, "release", parents=[tip(scene).sha])
    run = scene.state.run(
        repository, head_branch="release", head_sha=release.sha, path=".github/workflows/r.yml"
    )
    text = dump(record_for(release.sha, FAST, run))
    scene.state.artifact(run, "ci-score", {"ci-score.json": text.encode()})
    scene.state.commit(repository, "release")
    scene.measure(SLOW)
    event = events.push(scene.github, repository, "release")
    done = scene.act(event, baseline_branch="release", baseline_workflow="r.yml")
    assert (done.code, done.outputs["verdict"]) == (0, "fail")
    assert done.outputs["baseline-sha"] == release.sha


def test_baseline__an_upload_that_cannot_be_had_is_skipped(scene: Scene) -> None:
    """One that is too large, or that the store cannot give: the next one is used."""
    first, second, last = list(scene.state.graph(scene.repository).values())
    scene.leave_record(first, FAST)
    scene.leave_record(second, FAST)
    run = scene.state.run(scene.repository, head_sha=last.sha)
    scene.state.artifact(run, "ci-score", b"x" * (65 * 2**20))
    pull = pull_request(scene)
    scene.measure(FAST)
    scene.github.inject(faults.server_error(503), host="blob", times=4)
    assert on_pull_request(scene, pull).outputs["baseline-sha"] == first.sha


MISSING = ["first run", "expired", "new case", "environment", "unusable", "permission", "down"]


@pytest.mark.parametrize("why", MISSING)
def test_baseline__missing_has_a_reason(scene: Scene, why: str) -> None:
    """Each absence is told apart, and blocks or not by its reason."""
    if why == "expired":
        scene.leave_record(tip(scene), FAST).expired = True
    elif why == "new case":
        scene.leave_record(tip(scene), FAST, case="another")
    elif why == "environment":
        scene.leave_record(tip(scene), FAST.but(accelerator="NVIDIA L4"))
    elif why == "unusable":
        run = scene.state.run(scene.repository, head_sha=tip(scene).sha)
        scene.state.artifact(run, "ci-score", b"garbage")
    elif why == "permission":
        scene.state.tokens[0].permissions["actions"] = "none"
        del scene.state.tokens[0].permissions["actions"]
    elif why == "down":
        scene.github.inject(faults.primary_limit(3600), path="/artifacts", times=9)
    pull = pull_request(scene)
    measured = {"accelerator": "Tesla T4"} if why == "environment" else {}
    scene.measure(FAST.model_copy(update=measured))
    if why == "new case":
        scene.measure(FAST, "profiles/another/profile.json")
    done = on_pull_request(scene, pull)
    reasons = {
        "first run": ("first_run", 0),
        "expired": ("expired", 0),
        "new case": ("new_case", 0),
        "environment": ("environment_changed", 3),
        "unusable": ("all_unusable", 3),
        "permission": ("no_permission", 3),
        "down": ("api_down", 3),
    }
    judged = record_in(scene).case("training")
    assert judged is not None
    assert judged.verdict is not None
    assert judged.verdict.unjudged is not None
    assert (judged.verdict.unjudged.value, done.code) == reasons[why]
    signs = {"first run": "🆕 First run", "new case": "🆕 New: 1 of 2 cases"}
    signs |= {"environment": "❔ Not compared: ran on", "expired": "❔ Not judged"}
    assert signs.get(why, "❔ Not judged") in done.summary


def test_baseline__a_local_folder_replaces_github(scene: Scene) -> None:
    """With `baseline` no artifact is asked for."""
    text = dump(record_for("a" * 40, FAST, scene.state.run(scene.repository)))
    (scene.workspace / "main").mkdir(parents=True)
    (scene.workspace / "main" / "ci-score.json").write_text(text, encoding="utf-8")
    pull = pull_request(scene)
    scene.measure(SLOW)
    assert on_pull_request(scene, pull, baseline="main").code == 1
    assert not [row for row in scene.asked() if "artifacts" in row]


@pytest.mark.parametrize("link", ["main", "main/ci-score.json"])
def test_baseline__a_link_out_of_the_workspace_is_not_followed(scene: Scene, link: str) -> None:
    """The checkout is the change's own: it could name a record that is only on this machine."""
    text = dump(record_for("a" * 40, FAST, scene.state.run(scene.repository)))
    (scene.folder / "elsewhere").mkdir()
    (scene.folder / "elsewhere" / "ci-score.json").write_text(text, encoding="utf-8")
    (scene.workspace / link).parent.mkdir(parents=True)
    target = scene.folder / "elsewhere" / ("ci-score.json" if "/" in link else "")
    (scene.workspace / link).symlink_to(target)
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull, baseline="main")
    assert done.code == 3
    assert "a link that leaves the workspace" in done.summary


# --- the other events ---------------------------------------------------------------------------


def test_push__leaves_a_record_and_reports_only(scene: Scene) -> None:
    """The default branch is tracked: a regression is reported, and exits 0."""
    scene.leave_record(tip(scene), FAST)
    scene.commits(1)
    scene.measure(SLOW)
    done = scene.act(events.push(scene.github, scene.repository))
    assert (done.code, done.outputs["verdict"]) == (0, "fail")
    left = record_in(scene)
    assert left.commit == tip(scene).sha
    assert [point.step_time_ms for point in left.history] == [130.0]
    assert scene.act(events.push(scene.github, scene.repository), fail_on_branch="true").code == 1


def test_push__is_never_compared_with_its_own_record(scene: Scene) -> None:
    """A re-run finds the record that its first attempt left, and looks behind it."""
    first, _, last = list(scene.state.graph(scene.repository).values())
    scene.leave_record(first, FAST)
    scene.leave_record(last, SLOW)
    scene.measure(SLOW)
    done = scene.act(events.push(scene.github, scene.repository))
    assert done.outputs["baseline-sha"] == first.sha


def test_push__history_joins_concurrent_pushes(scene: Scene) -> None:
    """Two runs that saw the same past both stay in the next one's history."""
    first, second, third = list(scene.state.graph(scene.repository).values())
    for commit in (first, second, third):
        pushed = scene.state.run(scene.repository, head_sha=commit.sha)
        scene.measure(FAST)
        left = record_for(commit.sha, FAST, pushed)
        point = {"case": "training", "commit": commit.sha, "created_at": left.created_at,
                 "run": left.run, "step_time_ms": 100.0, "throughput_tok_s": 10.0}  # fmt: skip
        record = Record.model_validate({**left.model_dump(), "history": [point]})
        scene.state.artifact(pushed, "ci-score", {"ci-score.json": dump(record).encode()})
    scene.commits(1)
    scene.measure(FAST)
    scene.act(events.push(scene.github, scene.repository))
    assert [point.commit for point in record_in(scene).history] == [
        first.sha, second.sha, third.sha, tip(scene).sha,
    ]  # fmt: skip


def test_schedule__has_no_repository_in_its_payload(scene: Scene) -> None:
    """It runs on the default branch, and is tracked like a push."""
    scene.measure(FAST)
    done = scene.act(events.schedule(scene.github, scene.repository))
    assert done.code == 0
    assert len(record_in(scene).history) == 1


def test_workflow_dispatch__on_a_branch_gates_from_its_merge_base(scene: Scene) -> None:
    """A branch without a pull request is compared with where it left the default branch."""
    base = tip(scene)
    scene.leave_record(base, FAST)
    scene.state.commit(scene.repository, "topic", parents=[base.sha])
    scene.commits(1)
    scene.measure(SLOW)
    done = scene.act(events.workflow_dispatch(scene.github, scene.repository, "topic"))
    assert (done.code, done.outputs["baseline-sha"]) == (1, base.sha)


def test_merge_group__gates_from_its_base_and_comments(scene: Scene) -> None:
    """The queue's base is in the payload, its pull request only in the branch's name."""
    base = tip(scene)
    scene.leave_record(base, FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = scene.act(events.merge_group(scene.github, pull))
    assert (done.code, done.outputs["baseline-sha"]) == (1, base.sha)
    assert len(scene.comments(pull)) == 1


def test_pull_request_target__is_refused_with_the_alternative(scene: Scene, capsys: Out) -> None:
    """A fork's code with our token is not something to support."""
    pull = pull_request(scene)
    scene.measure(FAST)
    done = scene.act(events.pull_request_target(scene.github, pull))
    assert done.code == 2
    assert "workflow_run" in capsys.readouterr().err


@pytest.mark.parametrize("author", ["stranger", "dependabot[bot]"])
def test_fork__may_only_read_and_is_judged_all_the_same(scene: Scene, author: str) -> None:
    """A comment that cannot be posted changes no verdict; the summary carries the report."""
    scene.state.tokens[0].permissions = dict(FORK_PERMISSIONS)
    scene.leave_record(tip(scene), FAST)
    pull = fork_pull_request(scene) if author == "stranger" else pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert done.code == 1
    assert scene.comments(pull) == []
    assert "a workflow\\_run job can post for them" in done.summary
    assert len([row for row in scene.asked() if row.startswith("POST")]) == 1


def forked_run(
    scene: Scene, content: dict[str, bytes], *, closed: bool = False
) -> tuple[PullRequest, Any]:
    """A fork's finished run that left its record as an artifact."""
    pull = fork_pull_request(scene)
    producer = run_of_fork(scene, pull)
    scene.state.artifact(producer, "ci-score-pr", content)
    if closed:
        scene.state.close(pull)
    return pull, events.workflow_run(scene.github, producer)


def stranger_s_record(scene: Scene, step_ms: float) -> Record:
    run = scene.state.run(scene.repository, event="pull_request")
    return record_for("d" * 40, profile(step_ms, tokens_per_step=1000), run)


def leave(scene: Scene, record: Record) -> None:
    """The record in place of what the newest artifact holds."""
    scene.state.artifacts[-1].content = zipped({"ci-score.json": dump(record).encode()})
    scene.state.artifacts[-1].digest = None


def said(words: str) -> dict[str, Any]:
    """A reason of somebody's own words, as a record holds it."""
    return quoted(words).model_dump(mode="json")


def test_workflow_run__posts_the_fork_s_numbers_with_our_verdict(scene: Scene) -> None:
    """Whatever the fork wrote of itself, its numbers are judged and rendered here."""
    scene.leave_record(tip(scene), FAST)
    lie = stranger_s_record(scene, 130.0).model_dump(mode="json")
    lie["notices"] = [said("ALL IS WELL")]
    lie["page"] = f"{scene.github.links.web}/stranger/model/PAGE"
    lie["cases"][0]["verdict"] = {
        "outcome": "pass",
        "decided_by": said("TRUST ME"),
        "reasons": [said("VERY")],
        "remarks": [said("MUCH")],
    }
    lie["cases"][0]["scorecard"] |= {
        "grade": "A",
        "noted": [{"code": "", "words": "NICE"}],
        "recommendations": ["MERGE"],
    }
    pull, event = forked_run(scene, {"ci-score.json": json.dumps(lie).encode()})
    done = scene.act(event)
    assert done.code == 0
    (comment,) = scene.comments(pull)
    assert "❌ Fail: 30 % slower" in comment
    assert re.search(r"Measured by the pull request's own code, in run \d+ of a fork\.", comment)
    lies = ("TRUST ME", "VERY", "MUCH", "NICE", "MERGE", "ALL IS WELL", "PAGE")
    assert not [word for word in lies if word in comment]


@pytest.mark.parametrize("content", UNUSABLE.values(), ids=UNUSABLE)
def test_workflow_run__of_an_unusable_record_posts_nothing(scene: Scene, content: Any) -> None:
    """A fork can send anything; the privileged job neither posts nor fails."""
    pull, event = forked_run(scene, content)
    assert scene.act(event).code == 0
    assert scene.comments(pull) == []


def test_workflow_run__is_compared_with_the_base_that_was_tested(scene: Scene) -> None:
    """Not with what main has become since: the pull request's test merge tells."""
    old = tip(scene)
    pull, event = forked_run(scene, {})
    leave(scene, stranger_s_record(scene, 100.0))
    for commit, speed in ((old, FAST), (scene.commits(1)[0], profile(50.0, tokens_per_step=1000))):
        scene.leave_record(commit, speed)
    scene.act(event)
    assert "✅ Pass: the same time" in scene.comments(pull)[0]


def test_workflow_run__believes_no_merge_that_the_fork_has_made(scene: Scene) -> None:
    """A merge of the head onto an older commit would bring back the policy of that time."""
    lax = scene.policy("schema = 1\n[metrics.throughput_tok_s]\nwarn = 0.5\nfail = 0.6\n")
    scene.policy("schema = 1\n")
    scene.leave_record(tip(scene), FAST)
    pull, event = forked_run(scene, {})
    fork = scene.state.repository_named("stranger/model")
    forged = scene.state.commit(fork, "merged", parents=[lax.sha, pull.head_sha])
    leave(scene, stranger_s_record(scene, 130.0).but(commit=forged.sha))
    scene.act(event)
    assert "❌ Fail: 30 % slower" in scene.comments(pull)[0]


def test_workflow_run__never_fails_on_a_stranger_s_numbers(scene: Scene) -> None:
    """Numbers that overflow are a sentence in the comment."""
    scene.leave_record(tip(scene), FAST)
    lie = stranger_s_record(scene, 1e308).model_dump(mode="json")
    lie["cases"][0]["phases"] = {"forward": 1.7e308}
    lie["cases"][0]["scorecard"]["throughput_tok_s"] = 1.7e308
    pull, event = forked_run(scene, {"ci-score.json": json.dumps(lie).encode()})
    assert scene.act(event).code == 0
    assert len(scene.comments(pull)[0]) < 10_000


def test_workflow_run__needs_the_very_commit_to_be_the_head(scene: Scene) -> None:
    """A run of an old push is not posted to a pull request that has moved on, or is closed."""
    record = dump(stranger_s_record(scene, 100.0)).encode()
    pull, event = forked_run(scene, {"ci-score.json": record}, closed=True)
    assert scene.act(event).code == 0
    assert scene.comments(pull) == []


# --- this run's artifacts -----------------------------------------------------------------------


def test_profile_artifact__a_pattern_makes_a_case_each(scene: Scene) -> None:
    """A matrix uploads one artifact a job; each is the case that its name says."""
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    for name in ("profile-llama@h100", "profile-bert", "other"):
        content = {"deep/profile.json": FAST.model_dump_json().encode()}
        scene.state.artifact(event.run, name, content)
    scene.workspace.mkdir()
    done = scene.act(event, profile_artifact="profile-*")
    names = sorted(row["name"] for row in json.loads(done.outputs["cases"]))
    assert names == ["bert", "llama@h100"]


def test_profile_artifact__folders_of_one_artifact_are_cases(scene: Scene) -> None:
    """A plain name reads one artifact, a folder in it is a case."""
    pull = pull_request(scene)
    event = events.pull_request(scene.github, pull)
    text = FAST.model_dump_json().encode()
    scene.state.artifact(event.run, "profiles", {"a/p.json": text, "b/p.json": text})
    scene.workspace.mkdir()
    done = scene.act(event, profile_artifact="profiles")
    assert sorted(row["name"] for row in json.loads(done.outputs["cases"])) == ["a", "b"]


def test_profile_artifact__that_is_missing_measured_nothing(scene: Scene) -> None:
    """The upload failed, or its name is wrong."""
    pull = pull_request(scene)
    scene.workspace.mkdir()
    done = on_pull_request(scene, pull, profile_artifact="profiles")
    assert done.code == 3
    assert "nothing was found at profiles" in done.summary


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [faults.connection_reset(), faults.server_error(502),
                                   faults.truncated_body(), faults.html_page(503)])  # fmt: skip
@pytest.mark.parametrize("path", ["/commits", "/actions/artifacts$", "/zip$", "/comments"])
def test_fault__that_passes_is_not_noticed(scene: Scene, fault: Any, path: str) -> None:
    """One broken answer is retried."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(FAST)
    scene.github.inject(fault, method="GET", path=path)
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["verdict"]) == (0, "pass")
    assert len(scene.comments(pull)) == 1


def test_fault__a_comment_whose_answer_was_lost_is_not_written_twice(scene: Scene) -> None:
    """The write had its effect: the comments are looked at again before the next try."""
    pull = pull_request(scene)
    scene.measure(FAST)
    lost = faults.after_handling(faults.connection_reset())
    scene.github.inject(lost, method="POST", path="/comments")
    on_pull_request(scene, pull)
    assert len(scene.comments(pull)) == 1


def test_fault__a_comment_that_cannot_be_posted_changes_no_verdict(scene: Scene) -> None:
    """Whatever happens to the comment, the gate is the gate."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    scene.github.inject(faults.server_error(500), path="/comments", times=20)
    done = on_pull_request(scene, pull)
    assert done.code == 1
    assert "The comment was not posted" in done.summary


def test_fault__an_invalid_token_says_what_to_do(scene: Scene) -> None:
    """401 is a reason of its own, and no crash."""
    scene.state.revoke(scene.state.tokens[0])
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull)
    assert done.code == 3
    assert "the token is missing, expired or wrong" in done.summary


def test_contract__is_checked_where_the_description_is() -> None:
    """Every exchange above was held against GitHub's description, or this says that it was not."""
    if contract.description_path() is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: GitHub's description is not here")
    assert contract.description_path()
