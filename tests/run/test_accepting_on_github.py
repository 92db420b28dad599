"""Accepting a regression on a loopback GitHub: who may, where it holds, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.files.strict_json import dump
from tests.builders import profile
from tests.builders.scene import (
    FAST,
    SLOW,
    Outcome,
    Scene,
    fork_pull_request,
    on_pull_request,
    opened,
    pull_request,
    record_for,
    record_in,
    run_of_fork,
    tip,
)
from tests.builders.verdicts import why
from tests.loopback_github import ACTIONS_BOT, FORK_PERMISSIONS, events, faults
from tests.loopback_github.events import Event
from tests.loopback_github.state import Comment, PullRequest

SLOWER = (
    "ci-score accept training step_time_ms up to 31 % because the new loss needs a second pass\n"
    "ci-score accept training throughput_tok_s up to 24 % because the new loss needs a second pass"
)


@pytest.fixture
def slow(scene: Scene) -> PullRequest:
    """A pull request that is a third slower, in a repository with a maintainer and a reader."""
    scene.repository.collaborators |= {"maintainer": "maintain", "reader": "triage"}
    scene.leave_record(tip(scene), FAST)
    scene.measure(SLOW)
    return opened(scene)


def say(scene: Scene, pull: PullRequest, body: str = SLOWER, author: str = "maintainer") -> Comment:
    """A comment in the pull request."""
    return scene.state.comment(scene.repository, pull.number, body, author=author)


def asked_about(scene: Scene) -> list[str]:
    """The logins whose rights were asked for."""
    return [row.split("/")[-2] for row in scene.asked() if row.endswith("/permission")]


def report(scene: Scene, pull: PullRequest) -> str:
    """The comment that carries the report."""
    (body,) = [one for one in scene.comments(pull) if one.startswith("<!-- ci-score")]
    return body


def test_accepted__takes_effect_on_a_re_run(scene: Scene, slow: PullRequest) -> None:
    """It fails, somebody with write access accepts it, and the next attempt passes and says why."""
    event = events.pull_request(scene.github, slow)
    assert scene.act(event).code == 1
    say(scene, slow)
    done = scene.act(events.rerun(scene.github, event))
    assert (done.code, done.outputs["verdict"], done.outputs["critical"]) == (0, "pass", "0")
    for text in (report(scene, slow), done.summary):
        assert "Accepted: training step\\_time\\_ms up to 31 % by maintainer" in text
        assert "because the new loss needs a second pass" in text
    kept = record_in(scene).acceptances
    assert [(one.metric, one.bound, one.by) for one in kept] == [
        ("throughput_tok_s", 0.24, "maintainer"), ("step_time_ms", 0.31, "maintainer"),
    ]  # fmt: skip
    assert all("issuecomment" in one.url for one in kept)


def test_accepted__costs_a_request_for_each_person(scene: Scene, slow: PullRequest) -> None:
    """The listing is the one that the report's comment needs; nobody is asked for twice."""
    say(scene, slow)
    say(scene, slow, "Thanks!", author="developer")
    on_pull_request(scene, slow)
    # A person and the age of the head, beside a usual run that comments first.
    assert len(scene.asked()) == 11
    assert asked_about(scene) == ["maintainer"]


def test_accepted__is_not_asked_for_where_nothing_fails(scene: Scene, slow: PullRequest) -> None:
    """A pass costs no request more, whatever was said."""
    say(scene, slow)
    scene.measure(FAST)
    assert on_pull_request(scene, slow).code == 0
    assert len(scene.asked()) == 9
    assert record_in(scene).acceptances == ()


def test_accepted__holds_in_the_merge_queue(scene: Scene, slow: PullRequest) -> None:
    """The queue names the pull request in its ref, and what was accepted there holds."""
    say(scene, slow)
    assert scene.act(events.merge_group(scene.github, slow)).code == 0
    assert len(record_in(scene).acceptances) == 2


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/gh-readonly-queue/main/pr-{}-abc",
        "refs/heads/gh-readonly-queue/main/pr-0{}-" + "a" * 40,
        "refs/heads/topic/gh-readonly-queue/main/pr-{}-" + "a" * 40,
        "refs/heads/gh-readonly-queue/main/pr-{}-" + "a" * 40 + "/x",
    ],
)
def test_accepted__a_ref_that_only_looks_like_the_queue_s(
    scene: Scene, slow: PullRequest, ref: str
) -> None:
    """The number is parsed strictly: no other ref names a pull request."""
    say(scene, slow)
    event = events.merge_group(scene.github, slow)
    event.payload["merge_group"]["head_ref"] = ref.format(slow.number)
    assert scene.act(event).code == 1
    assert asked_about(scene) == []


def test_accepted__in_another_pull_request_says_nothing_here(
    scene: Scene, slow: PullRequest
) -> None:
    """It is valid for the pull request in which it was said."""
    other = pull_request(scene, "other")
    say(scene, other)
    assert on_pull_request(scene, slow).code == 1


def test_accepted__up_to_a_bound_and_not_beyond(scene: Scene, slow: PullRequest) -> None:
    """What was accepted before the regression grew does not cover what it has become."""
    say(scene, slow)
    scene.measure(profile(140.0, tokens_per_step=1000))
    done = on_pull_request(scene, slow)
    assert (done.code, done.outputs["verdict"]) == (1, "fail")
    changes = record_in(scene).cases[0].changes
    assert "accepted only up to 31 %" in " ".join(why(change) for change in changes)


@pytest.mark.parametrize("line", SLOWER.splitlines())
def test_accepted__a_step_and_its_throughput_by_one_sentence(
    scene: Scene, slow: PullRequest, line: str
) -> None:
    """They are one fact where the work is the same, whichever of them is named."""
    say(scene, slow, line)
    assert on_pull_request(scene, slow).code == 0


def test_accepted__a_case_that_is_gone(scene: Scene) -> None:
    """Nobody loses a case unnoticed, and somebody may say that it is meant."""
    scene.repository.collaborators["maintainer"] = "write"
    scene.leave_record(tip(scene), FAST, case="llama")
    pull = pull_request(scene)
    scene.measure(FAST)
    assert on_pull_request(scene, pull).code == 3
    say(scene, pull, "ci-score accept llama missing because it moved to the nightly")
    done = on_pull_request(scene, pull)
    assert done.code == 0
    assert "Accepted: llama missing by maintainer" in done.summary


def refused(scene: Scene, pull: PullRequest, why: str, author: str) -> None:
    """The gate holds, and the report says who could not open it, and why."""
    done = on_pull_request(scene, pull)
    assert done.code == 1
    assert f"Not accepted, although {author} wrote it: training" in done.summary
    assert why in done.summary
    assert {one.by for one in record_in(scene).acceptances} == {author}
    assert all(one.refused for one in record_in(scene).acceptances)


@pytest.mark.parametrize(
    ("author", "why"),
    [
        ("reader", "it takes write access, and they have read"),
        ("stranger", "it takes write access, and they have none"),
    ],
)
def test_refused__without_write_access(
    scene: Scene, slow: PullRequest, author: str, why: str
) -> None:
    """Triage and reading are not enough."""
    say(scene, slow, author=author)
    refused(scene, slow, why, author)


def test_refused__a_fork_s_author_in_their_own_pull_request(scene: Scene) -> None:
    """Whoever made it slower from outside does not also accept it; and the token may only read."""
    scene.state.tokens[0].permissions = {**FORK_PERMISSIONS}
    scene.leave_record(tip(scene), FAST)
    scene.measure(SLOW)
    pull = fork_pull_request(scene)
    say(scene, pull, author="stranger")
    refused(scene, pull, "they have none", "stranger")
    scene.repository.collaborators["maintainer"] = "admin"
    say(scene, pull)
    assert on_pull_request(scene, pull).code == 0


@pytest.mark.parametrize("author", [ACTIONS_BOT, "helper[bot]", "dependabot[bot]"])
def test_refused__a_bot(scene: Scene, slow: PullRequest, author: str) -> None:
    """A bot may well have write access; it is asked nothing."""
    scene.repository.collaborators[author] = "admin"
    say(scene, slow, author=author)
    shown = author.replace("[", "\\[").replace("]", "\\]")
    assert on_pull_request(scene, slow).code == 1
    assert f"although {shown} wrote it" in report(scene, slow)
    assert asked_about(scene) == []


def test_refused__an_app_that_writes_for_somebody(scene: Scene, slow: PullRequest) -> None:
    """The account is a maintainer's, but it was not the maintainer who wrote."""
    say(scene, slow).via_app = True
    refused(scene, slow, "a bot or an app wrote it", "maintainer")


def test_refused__a_comment_that_was_edited(scene: Scene, slow: PullRequest) -> None:
    """GitHub does not say by whom, so the record could name the wrong person."""
    comment = say(scene, slow, "Looks good")
    comment.body, comment.updated_at = SLOWER, scene.state.tick()
    refused(scene, slow, "the comment was edited", "maintainer")


@pytest.mark.parametrize(
    "body",
    [
        "> " + SLOWER.replace("\n", "\n> "),
        f"```\n{SLOWER}\n```",
        f"~~~suggestion\n{SLOWER}\n~~~",
        f"<!--\n{SLOWER}\n-->",
        f"You could write:\n\n{SLOWER}",
        SLOWER.replace("ci-score", "\u0441i-score"),
    ],
)
def test_refused__what_is_quoted_fenced_hidden_or_mentioned(
    scene: Scene, slow: PullRequest, body: str
) -> None:
    """A comment that does not begin with the sentence accepts nothing, whoever wrote it."""
    say(scene, slow, body)
    assert on_pull_request(scene, slow).code == 1
    assert asked_about(scene) == []


def test_refused__where_github_does_not_say(scene: Scene, slow: PullRequest) -> None:
    """An API that is down accepts nothing, and is no crash."""
    say(scene, slow)
    scene.github.inject(faults.server_error(502), path="/permission", times=9)
    refused(scene, slow, "GitHub does not say whether they may write", "maintainer")


def test_refused__where_the_token_may_not_ask(scene: Scene, slow: PullRequest) -> None:
    """Missing rights accept nothing, and are no crash."""
    del scene.state.tokens[0].permissions["metadata"]
    say(scene, slow)
    refused(scene, slow, "GitHub does not say whether they may write", "maintainer")


def test_refused__where_the_comments_cannot_be_read(scene: Scene, slow: PullRequest) -> None:
    """The report says that an acceptance may be missing, and the gate holds."""
    say(scene, slow)
    scene.github.inject(faults.server_error(502), path="/comments", times=4)
    done = on_pull_request(scene, slow)
    assert done.code == 1
    assert "Not every comment was read" in done.summary


def test_refused__odd_answers_are_no_crash(scene: Scene, slow: PullRequest) -> None:
    """Whatever a server says instead, nothing is accepted."""
    say(scene, slow)
    scene.github.inject(faults.invalid_json(), path="/permission", times=9)
    assert on_pull_request(scene, slow).code == 1


def test_refused__hostile_words_are_words(scene: Scene, slow: PullRequest) -> None:
    """A reason is a stranger's text: no mention, no markup, no command, no second line."""
    reason = "x|`\u202e @all #1 <img src=x> ::error::boo ##[add-mask]y " + "z" * 500
    say(scene, slow, SLOWER.replace("the new loss needs a second pass", reason))
    on_pull_request(scene, slow)
    text = report(scene, slow)
    assert "\u202e" not in text
    assert "<img" not in text.replace("\\<img", "")
    assert "@all" not in text
    assert "z" * 200 not in text


def test_refused__halves_of_characters_are_no_crash(scene: Scene, slow: PullRequest) -> None:
    """JSON can hold what no text can."""
    say(scene, slow, SLOWER.replace("second", "\ud800 second"))
    done = on_pull_request(scene, slow)
    assert (done.code, done.outputs["verdict"]) == (0, "pass")


def test_limits__ten_thousand_comments(scene: Scene, slow: PullRequest) -> None:
    """A flood neither uses up the run's requests nor gets a comment of ours added in every run."""
    on_pull_request(scene, slow)
    for number in range(2100):
        scene.state.comments.append(
            Comment(10**6 + number, scene.repository.full_name, slow.number, "maintainer",
                    SLOWER, scene.state.now, scene.state.now, via_app=True)
        )  # fmt: skip
    say(scene, slow)
    scene.github.exchanges.clear()
    done = on_pull_request(scene, slow)
    assert done.code == 1
    assert "of over 2000 comments the first were read" in done.summary
    assert len(scene.asked()) < 30
    assert len(record_in(scene).acceptances) <= 64
    assert report(scene, slow)


def test_limits__a_flood_before_our_first_comment(scene: Scene, slow: PullRequest) -> None:
    """Where our comment may be among those that were not read, none is added."""
    for number in range(2001):
        scene.state.comments.append(
            Comment(10**6 + number, scene.repository.full_name, slow.number, "developer",
                    "spam", scene.state.now, scene.state.now)
        )  # fmt: skip
    done = on_pull_request(scene, slow)
    assert done.code == 1
    assert "The comment was not posted: over 2000 are there already" in done.summary


# --- and later commits ----------------------------------------------------------------------------

TOO_EARLY = "it was written before the newest commits; write it again"


def push(scene: Scene, pull: PullRequest) -> Event:
    """Another commit on the pull request's branch, and the run on it."""
    scene.state.commit(scene.repository, pull.head_ref)
    return events.pull_request(scene.github, pull)


def test_later__commits_are_not_covered(scene: Scene, slow: PullRequest) -> None:
    """What was accepted was what there was to see."""
    say(scene, slow)
    done = scene.act(push(scene, slow))
    assert done.code == 1
    assert TOO_EARLY in done.summary
    say(scene, slow)
    assert on_pull_request(scene, slow).code == 0


def test_later__a_commit_with_an_old_date_is_not_covered(scene: Scene, slow: PullRequest) -> None:
    """Whoever commits decides on its date; the clock is GitHub's."""
    say(scene, slow)
    old = "2001-01-01T00:00:00Z"
    scene.state.commit(scene.repository, slow.head_ref, at=old)
    assert on_pull_request(scene, slow).code == 1


def test_later__a_run_of_the_same_commit_keeps_it(scene: Scene, slow: PullRequest) -> None:
    """A label, or a second workflow, makes a new run and no new commit."""
    say(scene, slow)
    events.pull_request(scene.github, slow, path=".github/workflows/lint.yml")
    assert on_pull_request(scene, slow).code == 0


def test_later__commits_that_come_back_are_not_covered(scene: Scene, slow: PullRequest) -> None:
    """They were there before, and not when it was accepted: another head was to be seen then."""
    seen = slow.head_sha
    slower = push(scene, slow)
    scene.repository.branches[slow.head_ref] = slow.head_sha = seen
    scene.state.test_merge(slow)
    events.pull_request(scene.github, slow)
    say(scene, slow)
    slow.head_sha = scene.repository.branches[slow.head_ref] = slower.run.head_sha
    scene.state.test_merge(slow)
    done = on_pull_request(scene, slow)
    assert done.code == 1
    assert TOO_EARLY in done.summary


def test_later__another_pull_request_that_had_them_before_is_no_help(
    scene: Scene, slow: PullRequest
) -> None:
    """A run on another branch says nothing of this one."""
    commit = scene.state.commit(scene.repository, "other", parents=[slow.head_sha])
    events.pull_request(scene.github, scene.state.pull_request(scene.repository, "other"))
    say(scene, slow)
    slow.head_sha = scene.repository.branches[slow.head_ref] = commit.sha
    scene.state.test_merge(slow)
    assert on_pull_request(scene, slow).code == 1


def test_later__a_stranger_s_branch_of_the_same_name_is_no_help(
    scene: Scene, slow: PullRequest
) -> None:
    """Branches of forks may be called alike."""
    fork = scene.state.fork(scene.repository, "stranger/model")
    commit = scene.state.commit(fork, slow.head_ref, parents=[slow.head_sha])
    theirs = scene.state.pull_request(scene.repository, slow.head_ref, head_repository=fork)
    events.pull_request(scene.github, theirs)
    say(scene, slow)
    slow.head_sha = scene.repository.branches[slow.head_ref] = commit.sha
    scene.state.test_merge(slow)
    assert on_pull_request(scene, slow).code == 1


def test_later__in_the_merge_queue_the_pull_request_s_head_counts(
    scene: Scene, slow: PullRequest
) -> None:
    """The queue's own commit is always newer; a commit after the sentence is not covered."""
    say(scene, slow)
    assert scene.act(events.merge_group(scene.github, slow)).code == 0
    push(scene, slow)
    assert scene.act(events.merge_group(scene.github, slow)).code == 1


@pytest.mark.parametrize("path", ["/actions/runs$", "/pulls/"])
def test_later__where_the_time_cannot_be_told_it_does_not_count(
    scene: Scene, slow: PullRequest, path: str
) -> None:
    """The reason is in the report."""
    say(scene, slow)
    event = events.merge_group(scene.github, slow)
    scene.github.inject(faults.server_error(502), path=path, times=8)
    done = scene.act(event)
    assert done.code == 1
    assert "GitHub does not say when the newest commits came" in done.summary


def test_later__where_no_run_is_listed_it_does_not_count(scene: Scene, slow: PullRequest) -> None:
    """Nothing says since when the head is there."""
    say(scene, slow)
    event = events.pull_request(scene.github, slow)
    scene.state.runs = [run for run in scene.state.runs if run.event != "pull_request"]
    done = scene.act(event)
    assert done.code == 1
    assert "it lists no run of them" in done.summary


def test_posted__a_fork_s_report_knows_what_was_accepted(scene: Scene) -> None:
    """The comment that is posted for a fork says the same as the fork's own check."""
    scene.repository.collaborators["maintainer"] = "write"
    scene.leave_record(tip(scene), FAST)
    pull = fork_pull_request(scene)
    producer = run_of_fork(scene, pull)
    text = dump(record_for(pull.merge_commit_sha, SLOW, producer))
    scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": text.encode()})
    say(scene, pull)
    assert scene.act(events.workflow_run(scene.github, producer)).code == 0
    assert "## ✅" in report(scene, pull)
    assert "Accepted: training" in report(scene, pull)


def after_the_merge(scene: Scene, pull: PullRequest) -> Outcome:
    """The next pull request, when the default branch's run has left its record."""
    scene.state.merge(pull)
    pushed = events.push(scene.github, scene.repository)
    done = scene.act(pushed)
    assert (done.code, done.outputs["verdict"]) == (0, "fail")
    left = (scene.workspace / "ci-score" / "ci-score.json").read_bytes()
    scene.state.artifact(pushed.run, "ci-score", {"ci-score.json": left})
    return on_pull_request(scene, pull_request(scene, "next"))


def test_merged__the_branch_s_record_is_the_new_level(scene: Scene, slow: PullRequest) -> None:
    """Also that of a failed run: what was accepted once is not failed again and again."""
    say(scene, slow)
    assert on_pull_request(scene, slow).code == 0
    following = after_the_merge(scene, slow)
    assert (following.code, following.outputs["baseline-sha"]) == (0, tip(scene).sha)
    assert following.outputs["verdict"] == "pass"
    assert record_in(scene).acceptances == ()


def test_warned__can_be_accepted_too(scene: Scene, slow: PullRequest) -> None:
    """With `fail-on: warning` a warning fails, and what fails can be accepted."""
    scene.measure(profile(115.0, tokens_per_step=1000))
    say(scene, slow)
    arguments: dict[str, Any] = {"fail_on": "warning"}
    assert on_pull_request(scene, slow, **arguments).code == 0
