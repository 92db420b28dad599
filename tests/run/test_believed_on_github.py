"""What the Action believes: that there is no record yet, an earlier attempt, and known cases."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.files.strict_json import dump
from ci_score.model.environment import Environment
from ci_score.model.profile import Profile
from ci_score.model.reasons import Why
from ci_score.model.record import HistoryPoint, Record, RunIdentity
from ci_score.model.verdict import Unjudged
from tests.builders import profile
from tests.builders.scene import (
    FAST,
    SLOW,
    Outcome,
    Scene,
    on_pull_request,
    pull_request,
    record_for,
    record_in,
    tip,
)
from tests.loopback_github import events, faults
from tests.loopback_github.events import Event
from tests.loopback_github.state import WORKFLOW, WorkflowRun

CALLS_US = "jobs: {gate: {steps: [{uses: ci-score/ci-score@v1}]}}\n"
CALLS_NOBODY = "jobs: {test: {steps: [{uses: actions/checkout@v4}, {run: pytest}]}}\n"


def why_not(scene: Scene) -> Unjudged | None:
    """Why the only case has no judgement."""
    (case,) = record_in(scene).cases
    return case.verdict.unjudged if case.verdict else None


# --- a first run --------------------------------------------------------------------------------


def slow_pull_request(scene: Scene, workflow: str | None, **inputs: str) -> Outcome:
    """A slow pull request upon a base that has this workflow, or none."""
    scene.state.commit(scene.repository, "main", files={WORKFLOW: workflow})
    pull = pull_request(scene)
    scene.measure(SLOW)
    return on_pull_request(scene, pull, **inputs)


def test_first_run__of_a_branch_without_runs(scene: Scene) -> None:
    """Nothing could have left a record."""
    assert slow_pull_request(scene, CALLS_US).code == 0
    assert why_not(scene) is Unjudged.FIRST_RUN


@pytest.mark.parametrize(
    "workflow",
    [
        CALLS_US,
        "jobs: {gate: {uses: ./.github/workflows/perf.yml}}\n",
        "jobs:\n  gate:\n    uses: 'team/shared/.github/workflows/perf.yaml@main'\n",
        "jobs: {gate: {steps: [{uses: ./.github/actions/gate}]}}\n",
        "submodule:https://github.com/team/workflows",
    ],
)
def test_no_record__of_a_branch_that_has_runs(scene: Scene, workflow: str) -> None:
    """They should have left one: the report says what to check, and it is no pass."""
    scene.state.run(scene.repository)
    done = slow_pull_request(scene, workflow)
    assert (done.code, why_not(scene)) == (3, Unjudged.NO_RECORD)
    for word in ("completed runs on main", "baseline-artifact", "baseline-branch", "are kept"):
        assert word in done.summary.replace("\\", "")


@pytest.mark.parametrize("workflow", [CALLS_NOBODY, None], ids=["another", "none yet"])
def test_first_run__of_a_workflow_that_has_just_learned_to_leave_records(
    scene: Scene, workflow: str | None
) -> None:
    """The pull request that adopts ci-score passes its own first run."""
    scene.state.run(scene.repository)
    assert slow_pull_request(scene, workflow).code == 0
    assert why_not(scene) is Unjudged.FIRST_RUN


@pytest.mark.parametrize(
    "fields",
    [
        {"event": "pull_request"},
        {"status": "in_progress"},
        {"conclusion": "cancelled"},
        {"conclusion": "skipped"},
        {"path": ".github/workflows/other.yml"},
        {"head_branch": "release"},
    ],
    ids=str,
)
def test_first_run__where_only_other_runs_were(scene: Scene, fields: dict[str, Any]) -> None:
    """A fork's branch may be called so, and a run that did not end has left nothing yet."""
    scene.state.commit(scene.repository, "release")
    scene.state.run(scene.repository, **fields)
    assert slow_pull_request(scene, CALLS_US).code == 0


def test_no_record__a_flood_of_a_stranger_s_runs_hides_none(scene: Scene) -> None:
    """More runs than are listed: that no run is the branch's own is not sure."""
    for _ in range(101):
        scene.state.run(scene.repository, event="pull_request")
    assert slow_pull_request(scene, CALLS_US).code == 3


@pytest.mark.parametrize("inputs", [{"baseline_artifact": "perf"}, {"baseline_branch": "trunk"}])
def test_no_record__of_a_misspelt_input(scene: Scene, inputs: dict[str, str]) -> None:
    """The record is there, and the workflow asks for another one."""
    scene.leave_record(tip(scene), FAST)
    if "baseline_branch" in inputs:
        scene.state.commit(scene.repository, "trunk", parents=[tip(scene).sha])
        scene.repository.branches["main"] = scene.repository.branches["trunk"]
    assert slow_pull_request(scene, CALLS_US, **inputs).code == 3
    assert why_not(scene) is Unjudged.NO_RECORD


def test_no_record__of_artifacts_that_are_all_of_other_branches(scene: Scene) -> None:
    """The default branch may have had another name: how many, and of which branch none is."""
    for number in range(2):
        scene.state.commit(scene.repository, f"old{number}")
        run = scene.state.run(scene.repository, head_branch=f"old{number}")
        scene.state.artifact(run, "ci-score", b"{}")
    done = slow_pull_request(scene, CALLS_US)
    assert (done.code, why_not(scene)) == (3, Unjudged.NO_RECORD)
    assert "2 artifacts called ci-score, none of a run of main" in done.summary.replace("\\", "")


def test_no_record__the_base_s_policy_may_excuse_it(scene: Scene) -> None:
    """As any other reason."""
    scene.state.run(scene.repository)
    scene.policy('schema = 1\n[unjudged]\nno_record = "pass"\n')
    assert slow_pull_request(scene, CALLS_US).code == 0


@pytest.mark.parametrize("path", ["/workflows/", f"/contents/{WORKFLOW}"])
def test_no_record__where_github_does_not_say_it_is_no_first_run(scene: Scene, path: str) -> None:
    """What cannot be asked is not taken for nothing."""
    scene.state.run(scene.repository)
    scene.github.inject(faults.server_error(502), path=path, times=4)
    assert slow_pull_request(scene, CALLS_US).code == 3
    assert why_not(scene) is Unjudged.API_DOWN


# --- known cases --------------------------------------------------------------------------------


def remembered(scene: Scene, runs_ago: int, **where: str) -> None:
    """A record that lacks a case which the branch has measured so many runs before."""
    made = scene.state.run(scene.repository, head_sha=tip(scene).sha)
    names = ["llama", *["training"] * runs_ago]
    points = tuple(
        HistoryPoint(
            case=name,
            commit=f"{number:040x}",
            run=RunIdentity(number=number),
            created_at=f"2026-01-04T10:00:{number:02d}Z",
            step_time_ms=100.0,
            throughput_tok_s=1e4,
        )
        for number, name in enumerate(names)
    )
    left = record_for(tip(scene).sha, FAST, made).but(history=points)
    scene.state.artifact(made, "ci-score", {"ci-score.json": dump(left)})


@pytest.mark.parametrize(("runs_ago", "code"), [(1, 3), (9, 3), (10, 0)])
def test_known__a_case_that_only_older_records_have(scene: Scene, runs_ago: int, code: int) -> None:
    """One run that lost it does not let every pull request lose it."""
    remembered(scene, runs_ago)
    pull = pull_request(scene)
    scene.measure(FAST)
    done = on_pull_request(scene, pull)
    assert done.code == code
    assert ("the case llama was not measured" in done.summary) is (code == 3)


@pytest.mark.parametrize("runs_ago", [1, 10])
def test_known__a_case_with_another_accelerator(scene: Scene, runs_ago: int) -> None:
    """It is not a new case because the last record lacks it, nor because the last ten do."""
    first = next(iter(scene.state.graph(scene.repository).values()))
    scene.leave_record(first, FAST.but(accelerator="NVIDIA L4"), case="llama")
    remembered(scene, runs_ago)
    pull = pull_request(scene)
    scene.measure(FAST, "profiles/training/p.json")
    scene.measure(SLOW.but(accelerator="Tesla T4"), "profiles/llama/p.json")
    done = on_pull_request(scene, pull)
    case = record_in(scene).case("llama")
    assert case is not None
    assert case.verdict is not None
    assert (done.code, case.verdict.unjudged) == (3, Unjudged.ENVIRONMENT_CHANGED)


@pytest.mark.parametrize(
    ("accelerator", "why"),
    [("NVIDIA L4", Unjudged.ENVIRONMENT_CHANGED), (None, Unjudged.ALL_UNUSABLE)],
)
def test_known__a_case_that_only_the_history_remembers(
    scene: Scene, accelerator: str | None, why: Unjudged
) -> None:
    """Its last record has expired: it is known all the same, and by no name a new one."""
    point = HistoryPoint(
        case="llama",
        created_at="2026-01-04T00:00:00Z",
        step_time_ms=100.0,
        throughput_tok_s=0.0,
        environment=Environment(accelerator=accelerator),
    )
    scene.leave_record(tip(scene), FAST, history=(point,))
    pull = pull_request(scene)
    scene.measure(FAST, "profiles/training/p.json")
    scene.measure(SLOW.but(accelerator="Tesla T4"), "profiles/llama/p.json")
    assert on_pull_request(scene, pull).code == 3
    case = record_in(scene).case("llama")
    assert case is not None
    assert case.verdict is not None
    assert case.verdict.unjudged is why


# --- earlier attempts ---------------------------------------------------------------------------

VERY_FAST = profile(10.0, tokens_per_step=1000)


def earlier_record(scene: Scene, event: Event, measured: Profile = VERY_FAST) -> Record:
    """What the attempt would have left of that measurement."""
    left = record_for(event.environment["GITHUB_SHA"], measured, event.run)
    (case,) = left.cases
    return left.but(job="gate", cases=(case.but(measurement="other"),))


def rerun_after(scene: Scene, event: Event, record: Record, upload_in: WorkflowRun) -> Outcome:
    """The next attempt, which is slow, where a record lies among the run's artifacts."""
    scene.state.uploaded(upload_in, "ci-score-pr", {"ci-score.json": dump(record)})
    return scene.act(events.rerun(scene.github, event))


@pytest.fixture
def first(scene: Scene) -> Event:
    """The first attempt on a pull request that is a third slower."""
    scene.leave_record(tip(scene), FAST)
    scene.measure(SLOW)
    return events.pull_request(scene.github, pull_request(scene))


def test_attempts__a_record_of_the_attempt_before_counts(scene: Scene, first: Event) -> None:
    """So that the refusals below are refusals: the mean of both passes."""
    done = rerun_after(scene, first, earlier_record(scene, first), first.run)
    assert done.code == 0
    assert "judged together" in done.summary


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"commit": "e" * 40}, "it is of another commit"),
        ({"job": "measure"}, "it is of another job (measure there, gate here)"),
        ({"job": None}, "it is of another job"),
        ({"run": RunIdentity(number=1, id=1)}, "it is of another run"),
        ({"run": None}, "it is of another run"),
    ],
)
def test_attempts__a_record_of_something_else_is_refused(
    scene: Scene, first: Event, fields: dict[str, Any], words: str
) -> None:
    """A record is bound to its run, its commit and the job that judged."""
    record = earlier_record(scene, first).but(**fields)
    done = rerun_after(scene, first, record, first.run)
    assert done.code == 1
    assert words in done.summary.replace("\\", "")


def test_attempts__another_number_of_the_run_is_refused(scene: Scene, first: Event) -> None:
    """The id alone does not do."""
    record = earlier_record(scene, first)
    assert record.run is not None
    done = rerun_after(scene, first, record.but(run=record.run.but(number=999)), first.run)
    assert done.code == 1
    assert "of another run number" in done.summary


@pytest.mark.parametrize("claimed", [2, 3])
def test_attempts__one_that_is_not_before_this_is_refused(
    scene: Scene, first: Event, claimed: int
) -> None:
    """What this attempt left itself is no earlier evidence."""
    record = earlier_record(scene, first)
    assert record.run is not None
    forged = record.but(run=record.run.but(attempt=claimed))
    done = rerun_after(scene, first, forged, first.run)
    assert done.code == 1
    assert f"it says that it is of attempt {claimed}" in done.summary


@pytest.mark.parametrize("job", ["gate", "measure"])
def test_attempts__an_upload_of_this_attempt_cannot_pose_as_an_earlier_one(
    scene: Scene, first: Event, job: str
) -> None:
    """The code that is measured may upload anything, but not in the past."""
    scene.state.job(first.run, "gate")
    record = earlier_record(scene, first)
    again = events.rerun(scene.github, first)
    scene.state.uploaded(again.run, "ci-score-pr", {"ci-score.json": dump(record)}, job)
    done = scene.act(again)
    assert done.code == 1
    assert "the job did not run in attempt 1 then" in done.summary


def test_attempts__an_upload_of_the_job_that_measures_is_not_the_gate_s(
    scene: Scene, first: Event
) -> None:
    """Of an attempt that has the gate by its name, only what was left while it ran counts."""
    scene.state.uploaded(
        first.run, "ci-score-pr", {"ci-score.json": dump(earlier_record(scene, first))}, "measure"
    )
    scene.state.job(first.run, "gate (h100)")
    done = scene.act(events.rerun(scene.github, first))
    assert done.code == 1
    assert "A record of an earlier attempt does not count" in done.summary


def test_attempts__a_gate_with_a_name_of_its_own_is_known_by_the_attempt_s_time(
    scene: Scene, first: Event
) -> None:
    """Its name is not its id: any job of that attempt that ran then will do."""
    scene.state.uploaded(
        first.run,
        "ci-score-pr",
        {"ci-score.json": dump(earlier_record(scene, first))},
        "Performance review",
    )
    assert scene.act(events.rerun(scene.github, first)).code == 0


def test_attempts__where_the_jobs_cannot_be_listed_it_is_judged_by_itself(
    scene: Scene, first: Event
) -> None:
    """What cannot be checked is no evidence."""
    scene.github.inject(faults.server_error(502), path="/attempts/", times=4)
    done = rerun_after(scene, first, earlier_record(scene, first), first.run)
    assert done.code == 1
    assert "judged by itself" in done.summary


# --- the workflow's options ---------------------------------------------------------------------


def test_inputs__that_are_not_those_of_the_branch_are_told(scene: Scene) -> None:
    """Whoever writes the workflow decides what is measured, so the report says what changed."""
    inputs = {"fail-on": "warning"}
    scene.leave_record(tip(scene), FAST, inputs=inputs, artifact="ci-score-x")
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = on_pull_request(scene, pull, tokens_per_step="1000", title="x", producer="m=success")
    summary = done.summary.replace("\\", "").replace("`", "")
    assert "fail-on is critical here, and warning there" in summary
    assert "tokens-per-step is 1000 here, and not set there" in summary
    left = record_in(scene)
    assert left.inputs == {"tokens-per-step": "1000"}
    assert done.code == 1


@pytest.mark.parametrize("there", [None, {}], ids=["an older version", "the same"])
def test_inputs__that_are_alike_or_not_known_are_no_notice(
    scene: Scene, there: dict[str, str] | None
) -> None:
    """A record of an older version does not say."""
    scene.leave_record(tip(scene), FAST, inputs=there)
    pull = pull_request(scene)
    scene.measure(FAST)
    assert on_pull_request(scene, pull).code == 0
    assert Why.OTHER_INPUTS not in [notice.code for notice in record_in(scene).notices]


def test_inputs__are_one_short_line_each(scene: Scene) -> None:
    """They are texts of whoever wrote the workflow."""
    pull = pull_request(scene)
    scene.measure(FAST)
    lines = "\n".join(f"c{number}=gone{number}/*.json" for number in range(40))
    on_pull_request(scene, pull, profiles=lines)
    (text,) = (record_in(scene).inputs or {}).values()
    assert len(text) == 200
    assert "\n" not in text


def test_inputs__of_a_baseline_that_the_change_wrote_are_all_told(scene: Scene) -> None:
    """Its record lists the very inputs that it is judged with, and hides none of them by that."""
    asked = {"baseline": "main.json", "fail-on": "never"}
    made = scene.state.run(scene.repository, event="push", head_branch="main", path=WORKFLOW,
                           head_sha=tip(scene).sha)  # fmt: skip
    theirs = record_for(tip(scene).sha, FAST, made, inputs=asked)
    pull = pull_request(scene)
    scene.measure(SLOW)
    (scene.workspace / "main.json").write_text(dump(theirs), encoding="utf-8")
    done = on_pull_request(scene, pull, baseline="main.json", fail_on="never")
    assert done.code == 0
    assert "which the change itself may have written" in done.summary
    told = done.summary.replace("\\", "")
    assert "`baseline` (main.json)" in told
    assert "`fail-on` (never)" in told
