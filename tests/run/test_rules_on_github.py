"""The rules are the base's: which policy is in force on GitHub, whatever a change brings along."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ci_score.model.reasons import Why
from ci_score.model.verdict import Unjudged
from tests.builders.scene import (
    FAST,
    POLICY,
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
from tests.loopback_github.state import PullRequest

Out = pytest.CaptureFixture[str]

# What a change would bring along to get away with anything.
LOOSE = (
    "schema = 1\n[metrics.throughput_tok_s]\ngate = false\n[metrics.step_time_ms]\ngate = false\n"
)
EXCUSES = "schema = 1\n[unjudged]\n" + "".join(f'{why.value} = "pass"\n' for why in Unjudged)
LENIENT = EXCUSES + LOOSE.removeprefix("schema = 1\n")
# Of the team: 30 % is within its limits.
GENEROUS = (
    "schema = 1\n[metrics.step_time_ms]\nfail = 0.5\n[metrics.throughput_tok_s]\nfail = 0.5\n"
)


def loosened(scene: Scene, *, checked_out: bool = False, slow: bool = True) -> PullRequest:
    """A pull request that is a third slower and brings a policy which lets everything pass."""
    scene.measure(SLOW if slow else FAST)
    scene.state.commit(
        scene.repository, "faster", parents=[tip(scene).sha], files={POLICY: LENIENT}
    )
    if checked_out:
        (scene.workspace / ".git").mkdir()
        (scene.workspace / ".github").mkdir()
        (scene.workspace / POLICY).write_text(LENIENT, encoding="utf-8")
    return scene.state.pull_request(scene.repository, "faster")


def codes(scene: Scene) -> list[Why]:
    """What the report says over all cases."""
    return [notice.code for notice in record_in(scene).notices]


def test_own__a_link_out_of_the_workspace_is_not_followed(scene: Scene, capsys: Out) -> None:
    """The checkout is the change's, and an error about a secret would quote it."""
    scene.leave_record(tip(scene), FAST)
    secret = scene.folder / "secret.toml"
    secret.write_text('token = "s3cret"\n', encoding="utf-8")
    pull = loosened(scene, checked_out=True)
    (scene.workspace / POLICY).unlink()
    (scene.workspace / POLICY).symlink_to(secret)
    assert on_pull_request(scene, pull).code == 2
    said = capsys.readouterr().err
    assert "a link that leaves the workspace" in said
    assert "token" not in said


def test_own__is_not_what_an_earlier_job_left(scene: Scene) -> None:
    """On a machine that is kept the gate's workspace may hold another change's policy."""
    scene.leave_record(tip(scene), FAST)
    pull = loosened(scene, checked_out=True)
    (scene.workspace / POLICY).write_text("schema = 'none'\n", encoding="utf-8")
    done = on_pull_request(scene, pull, producer="measure=success")
    assert done.code == 1
    assert "under its own the verdict would be pass" in done.summary


# --- in force -----------------------------------------------------------------------------------


def test_base__judges_without_a_checkout(scene: Scene) -> None:
    """The gate job needs no files: its policy is read where it was merged."""
    scene.policy(GENEROUS)
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["verdict"]) == (0, "warn")
    assert record_in(scene).policy is not None
    assert codes(scene) == []
    assert len(scene.asked()) == 9


@pytest.mark.parametrize("checked_out", [False, True], ids=["no checkout", "a checkout"])
@pytest.mark.parametrize("base", [None, "schema = 1\n"], ids=["no policy", "a policy"])
def test_base__a_change_cannot_loosen_its_own_gate(
    scene: Scene, base: str | None, *, checked_out: bool
) -> None:
    """Its own file is told of, with what it would say, and decides nothing."""
    if base:
        scene.policy(base)
    scene.leave_record(tip(scene), FAST)
    done = on_pull_request(scene, loosened(scene, checked_out=checked_out))
    assert done.code == 1
    assert "The policy of the base judges; under its own the verdict would be pass" in done.summary
    assert len(scene.asked()) <= 9


def test_base__judges_a_first_run(scene: Scene) -> None:
    """Also where no record could have carried the rules yet."""
    scene.policy('schema = 1\n[unjudged]\nfirst_run = "fail"\n')
    done = on_pull_request(scene, loosened(scene))
    assert done.code == 3
    assert record_in(scene).cases[0].verdict is not None


def test_base__is_the_one_that_was_tested(scene: Scene) -> None:
    """A policy that was merged after the test merge was made does not count yet."""
    scene.leave_record(tip(scene), FAST)
    scene.measure(SLOW)
    event = events.pull_request(scene.github, pull_request(scene))
    scene.policy(GENEROUS)
    assert scene.act(event).code == 1


def test_base__is_behind_a_merge_of_more_commits_than_are_listed(scene: Scene) -> None:
    """The base is read from the merge itself, and its history listed from there on."""
    scene.policy(GENEROUS)
    base = tip(scene)
    scene.leave_record(base, FAST)
    scene.state.commit(scene.repository, "faster", parents=[base.sha], files={POLICY: LENIENT})
    for _ in range(130):
        scene.state.commit(scene.repository, "faster")
    pull = scene.state.pull_request(scene.repository, "faster")
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["baseline-sha"]) == (0, base.sha)
    assert done.outputs["verdict"] == "warn"
    assert len(scene.asked()) <= 9


def test_base__of_large_merges_is_found_along_the_line(scene: Scene) -> None:
    """A branch that brought thousands of commits to the line hides no record behind it."""
    base = tip(scene)
    scene.leave_record(base, FAST)
    scene.state.commit(scene.repository, "side", parents=[base.sha])
    for _ in range(2100):
        scene.state.commit(scene.repository, "side", at=scene.state.now)
    scene.state.commit(
        scene.repository, "main", parents=[base.sha, scene.repository.branches["side"]]
    )
    scene.measure(SLOW)
    done = on_pull_request(scene, pull_request(scene))
    assert done.outputs["baseline-sha"] == base.sha
    assert done.code in (1, 3)
    assert len(scene.asked()) <= 9


def test_branch__is_judged_by_its_own_commit(scene: Scene) -> None:
    """A policy that has just been merged holds for the branch's own run."""
    scene.leave_record(tip(scene), FAST)
    scene.policy(GENEROUS)
    scene.measure(SLOW)
    done = scene.act(events.push(scene.github, scene.repository), fail_on_branch="true")
    assert (done.code, done.outputs["verdict"]) == (0, "warn")
    scene.leave_record(tip(scene), FAST)
    scene.policy("schema = 1\n")
    assert scene.act(events.push(scene.github, scene.repository), fail_on_branch="true").code == 1


@pytest.mark.parametrize("event", ["merge_group", "branch", "folder"])
def test_base__of_other_events(scene: Scene, event: str) -> None:
    """The queue's base, where a branch began, and also where the baseline is a local folder."""
    scene.policy("schema = 1\n")
    scene.leave_record(tip(scene), FAST)
    pull = loosened(scene)
    if event == "merge_group":
        done = scene.act(events.merge_group(scene.github, pull))
    elif event == "branch":
        done = scene.act(events.workflow_dispatch(scene.github, scene.repository, "faster"))
    else:
        left = scene.state.run(scene.repository)
        text = record_for("a" * 40, FAST, left, policy=None).model_dump_json()
        (scene.workspace / "main.json").write_text(text, encoding="utf-8")
        done = on_pull_request(scene, pull, baseline="main.json")
    assert done.code == 1
    assert "under its own the verdict would be pass" in done.summary


# --- the name -----------------------------------------------------------------------------------


def test_config__another_path_is_read_at_the_base(scene: Scene) -> None:
    """However it is written, and without a checkout."""
    scene.policy(GENEROUS, "perf/gate.toml")
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    assert on_pull_request(scene, pull, config="./perf/gate.toml").outputs["verdict"] == "warn"


def test_config__that_nobody_has_merged_is_told(scene: Scene) -> None:
    """A wrong name must not look like a policy."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull, config="perf/gate.toml")
    assert done.code == 1
    assert "There is no policy perf/gate.toml at the base" in done.summary


@pytest.mark.parametrize("config", ["/etc/policy.toml", "../policy.toml", "a/../../b.toml", "."])
def test_config__outside_of_the_repository_is_wrong_use(scene: Scene, config: str) -> None:
    """It could not be read at a commit."""
    pull = pull_request(scene)
    scene.measure(FAST)
    assert on_pull_request(scene, pull, config=config).code == 2


# --- cannot be read -----------------------------------------------------------------------------

BASE_FILES = {
    "not TOML": "schema = [",
    "a mistake": "schema = 1\nrulez = 1\n",
    "too large": "# " + "x" * 300_000,
    "far too large": "# " + "x" * 1_200_000,
    "a link to nothing": "symlink:gone.toml",
    "a submodule": "submodule:https://github.com/team/policy",
}


@pytest.mark.parametrize("text", BASE_FILES.values(), ids=BASE_FILES)
def test_unreadable__what_the_base_has_excuses_nothing(scene: Scene, text: str) -> None:
    """The built-in limits hold, and the report says why, and what to do."""
    scene.policy(text)
    scene.leave_record(tip(scene), FAST)
    done = on_pull_request(scene, loosened(scene))
    assert done.code == 1
    told_and_strict(scene, done)


def test_unreadable__a_directory(scene: Scene) -> None:
    """It has the policy's name, and is none."""
    scene.policy("x", f"{POLICY}/file")
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert done.code == 1
    told_and_strict(scene, done)


def told_and_strict(scene: Scene, done: Outcome) -> None:
    assert "could not be read at the base" in done.summary
    assert "The built-in rules judge" in done.summary
    policy = record_in(scene).policy
    assert policy is not None
    assert policy["unjudged"] == {why.value: "fail" for why in Unjudged}
    assert Why.OWN_POLICY not in codes(scene)


Trouble = Callable[[Scene], None]


def down(scene: Scene) -> None:
    scene.github.inject(faults.server_error(502), path="/contents/", times=9)


def limited(scene: Scene) -> None:
    scene.github.inject(faults.primary_limit(3600), path="/contents/", times=9)


def reset(scene: Scene) -> None:
    scene.github.inject(faults.connection_reset(), path="/contents/", times=9)


def no_json(scene: Scene) -> None:
    scene.github.inject(faults.invalid_json(), path="/contents/", times=9)


def no_right(scene: Scene) -> None:
    del scene.state.tokens[0].permissions["contents"]


TROUBLES: tuple[Trouble, ...] = (down, limited, reset, no_json, no_right)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("base", [None, EXCUSES], ids=["no policy", "excuses"])
def test_unreadable__github_does_not_give_it(
    scene: Scene, trouble: Trouble, base: str | None
) -> None:
    """A slowdown is not green because the rules could not be read, whatever they are."""
    if base:
        scene.policy(base)
    scene.leave_record(tip(scene), FAST)
    pull = loosened(scene, checked_out=True)
    trouble(scene)
    done = on_pull_request(scene, pull)
    assert done.code in (1, 3)
    told_and_strict(scene, done)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_unreadable__also_a_first_run_is_not_excused(scene: Scene, trouble: Trouble) -> None:
    """The policy may say that it blocks."""
    pull = loosened(scene, checked_out=True)
    trouble(scene)
    done = on_pull_request(scene, pull)
    assert done.code == 3
    told_and_strict(scene, done)


def test_unreadable__a_right_that_hides_the_file_as_if_it_were_not_there(scene: Scene) -> None:
    """GitHub's 404 is believed only where the commit itself can be read."""
    scene.leave_record(tip(scene), FAST)
    pull = loosened(scene)
    event = events.merge_group(scene.github, pull)
    scene.state.tokens[0].permissions.pop("contents")
    scene.github.inject(faults.html_page(404), path="/contents/", times=2)
    done = scene.act(event)
    assert done.code in (1, 3)
    told_and_strict(scene, done)


@pytest.mark.parametrize("trouble", ["down", "no right", "rate limit", "renamed", "garbage"])
def test_excuses__of_the_change_itself_are_none(scene: Scene, trouble: str) -> None:
    """Where no baseline can be had, only the base's `[unjudged]` could let it pass."""
    artifact = scene.leave_record(
        tip(scene), FAST, path=".github/workflows/old.yml" if trouble == "renamed" else
        ".github/workflows/performance.yml",
    )  # fmt: skip
    pull = loosened(scene, checked_out=True)
    if trouble == "down":
        scene.github.inject(faults.server_error(502), path="/actions/", times=40)
    elif trouble == "no right":
        del scene.state.tokens[0].permissions["actions"]
    elif trouble == "rate limit":
        scene.github.inject(faults.primary_limit(3600), path="/actions/", times=40)
    elif trouble == "garbage":
        artifact.content, artifact.digest = b"garbage", None
    done = on_pull_request(scene, pull)
    assert done.code == 3
    assert "❔ Not judged" in done.summary


def test_excuses__of_the_base_hold(scene: Scene) -> None:
    """A team may let a run pass that could not be compared, and then says so in its own file."""
    scene.policy(EXCUSES)
    scene.leave_record(tip(scene), FAST).content = b"garbage"
    scene.state.artifacts[-1].digest = None
    pull = pull_request(scene)
    scene.measure(SLOW)
    assert on_pull_request(scene, pull).code == 0


# --- the change's own ---------------------------------------------------------------------------


def test_own__with_mistakes_is_wrong_use(scene: Scene) -> None:
    """Merged, it would block everybody: so it is refused before."""
    scene.leave_record(tip(scene), FAST)
    scene.state.commit(
        scene.repository, "faster", parents=[tip(scene).sha], files={POLICY: "schema = ["}
    )
    pull = scene.state.pull_request(scene.repository, "faster")
    scene.measure(FAST)
    assert on_pull_request(scene, pull).code == 2


def test_own__that_mends_a_broken_base_can_be_merged(scene: Scene) -> None:
    """The built-in rules judge it, and it passes by its numbers."""
    scene.policy("schema = [")
    scene.leave_record(tip(scene), FAST)
    done = on_pull_request(scene, loosened(scene, slow=False))
    assert done.code == 0
    assert "could not be read at the base" in done.summary


def test_own__that_cannot_be_read_is_not_worth_a_word(scene: Scene) -> None:
    """It decides nothing anyway."""
    scene.policy("schema = 1\n")
    scene.leave_record(tip(scene), FAST)
    pull = loosened(scene)
    scene.github.inject(faults.server_error(502), path="/contents/", times=4, after=1)
    done = on_pull_request(scene, pull)
    assert done.code == 1
    assert codes(scene) == []


# --- a fork's report ----------------------------------------------------------------------------


def posted(scene: Scene, base_of_merge: str | None = None) -> str:
    """The comment on a fork's pull request that is a third slower and brings its own policy."""
    scene.leave_record(tip(scene), FAST)
    fork = scene.state.fork(scene.repository, "stranger/model")
    head = scene.state.commit(fork, "main", parents=[tip(scene).sha], files={POLICY: LENIENT})
    pull = scene.state.pull_request(scene.repository, "main", head_repository=fork)
    merge = pull.merge_commit_sha
    if base_of_merge is not None:
        merge = scene.state.commit(fork, parents=[base_of_merge, head.sha]).sha
    producer = run_of_fork(scene, pull)
    text = record_for(merge, SLOW, producer).model_dump_json()
    scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": text})
    assert scene.act(events.workflow_run(scene.github, producer)).code == 0
    (comment,) = scene.comments(pull)
    return comment


def test_fork__is_judged_by_the_base_s_policy(scene: Scene) -> None:
    """The privileged job reads it where it was merged, and nothing of the fork's."""
    assert "❌ Fail: 30 % slower" in posted(scene)


def test_fork__a_policy_of_the_team_counts(scene: Scene) -> None:
    """The comment says what the fork's own check says."""
    scene.policy(GENEROUS)
    assert "## ❌" not in posted(scene)


def test_fork__a_gate_that_is_being_introduced_says_so(scene: Scene) -> None:
    """The comment that is posted for a fork says how its check would have ended, too."""
    scene.policy('schema = 1\nenforce = "shadow"\n')
    assert "would have ended with exit 1" in posted(scene)


def test_fork__a_merge_of_the_stranger_s_own_making_is_not_its_base(scene: Scene) -> None:
    """The first parent of what its record names must be on the base branch."""
    strange = scene.state.fork(scene.repository, "other/model")
    lax = scene.state.commit(strange, "main", files={POLICY: LENIENT})
    assert "❌ Fail: 30 % slower" in posted(scene, lax.sha)


def test_fork__may_only_read_and_is_held_to_the_base_s_rules(scene: Scene) -> None:
    """Its own run has a token that may read, which is enough."""
    scene.state.tokens[0].permissions = dict(FORK_PERMISSIONS)
    scene.policy(GENEROUS)
    scene.leave_record(tip(scene), FAST)
    pull = fork_pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull)
    assert (done.code, done.outputs["verdict"]) == (0, "warn")
