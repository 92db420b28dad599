"""`ci-score suspect`: one run against the history, published nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.errors import EXIT_SUSPICIOUS
from ci_score.model.profile import Profile
from ci_score.model.reasons import quoted
from ci_score.model.record import Record
from ci_score.model.verdict import Outcome, Unjudged, Verdict, unjudged
from ci_score.run.triage import exit_code_of, for_one_run
from tests.builders import case, profile, record
from tests.builders.scene import FAST, SLOW, Scene, fork_pull_request, pull_request, tip
from tests.builders.verdicts import policy, policy_file
from tests.loopback_github import events

Out = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("here")


def measured(here: Path, step_ms: float, **fields: Any) -> None:
    (here / "profiles").mkdir(exist_ok=True)
    text = profile(step_ms, tokens_per_step=1000, **fields).model_dump_json()
    (here / "profiles" / "p.json").write_text(text, encoding="utf-8")


def left(here: Path) -> set[str]:
    return {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("step_ms", "code", "words"),
    [(100.5, 0, "nothing suspicious"), (115.0, 10, "looks wrong"), (150.0, 10, "looks wrong")],
)
def test_suspect__says_whether_a_run_looks_wrong(
    here: Path, capsys: Out, step_ms: float, code: int, words: str
) -> None:
    """A warning is enough; nothing is written, also not the history."""
    measured(here, 100.0)
    assert execute(["run"]) == 0
    before = left(here)
    measured(here, step_ms)
    assert execute(["suspect"]) == code
    assert words in capsys.readouterr().err
    assert left(here) == before


def test_suspect__without_a_history_cannot_tell(here: Path, capsys: Out) -> None:
    """A first run is no pass: the A/B needs no history, and can."""
    measured(here, 100.0)
    assert execute(["suspect"]) == 3
    assert "it cannot be told: measure it as an A/B" in capsys.readouterr().err


def test_suspect__of_nothing_cannot_tell(here: Path) -> None:
    """Nothing measured is neither suspicious nor fine."""
    assert execute(["suspect"]) == 3


def test_suspect__reads_a_named_baseline(here: Path) -> None:
    """As `run` does."""
    measured(here, 100.0)
    assert execute(["run", "--output-dir", "main"]) == 0
    assert execute(["suspect", "--baseline", "main/ci-score.json"]) == 0


def test_suspect__leaves_pairs_to_the_measurement_that_follows(here: Path) -> None:
    """A policy that wants interleaved launches would judge no single run."""
    measured(here, 100.0)
    (here / "policy.toml").write_text(
        "schema = 1\n[measure]\ndesign = 'interleaved'\n", encoding="utf-8"
    )
    assert execute(["run", "--config", "policy.toml"]) == 3
    assert execute(["suspect", "--config", "policy.toml"]) == 0


def test_suspect__prints_the_record(here: Path, capsys: Out) -> None:
    """For a program."""
    measured(here, 100.0)
    assert execute(["suspect", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["cases"][0]["verdict"]["unjudged"] == "first_run"


def test_suspect__wrong_use_is_2(here: Path) -> None:
    """As everywhere."""
    assert execute(["suspect", "--profile-artifact", "x"]) == 2
    assert execute(["suspect", "--fail-on", "sometimes"]) == 2


def of(*verdicts: Verdict) -> Record:
    return record(*(case(f"c{place}", verdict=each) for place, each in enumerate(verdicts)))


PASS = Verdict(outcome=Outcome.PASS)


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict(outcome=Outcome.WARN), EXIT_SUSPICIOUS),
        (Verdict(outcome=Outcome.FAIL), EXIT_SUSPICIOUS),
        (unjudged(Unjudged.CRASHED_RUN, quoted("")), EXIT_SUSPICIOUS),
        (unjudged(Unjudged.OTHER_WORK, quoted("")), EXIT_SUSPICIOUS),
        (unjudged(Unjudged.TOO_NOISY, quoted("")), 3),
        (unjudged(Unjudged.API_DOWN, quoted("")), 3),
        (unjudged(Unjudged.ENVIRONMENT_CHANGED, quoted("")), 3),
        (PASS, 0),
    ],
)
def test_suspicion__of_a_report_is_that_of_its_worst_case(verdict: Verdict, code: int) -> None:
    """Beside a case that passes."""
    assert exit_code_of(of(PASS, verdict)) == code


def test_suspicion__the_design_is_taken_out_everywhere() -> None:
    """Also of the tables of cases; all else stays."""
    asked = policy_file(
        measure={"design": "interleaved", "false_fail": 0.01},
        case=[{"match": "a", "measure": {"design": "history"}}, {"match": "b", "required": True}],
    )
    found = for_one_run(asked)
    assert found is not None
    assert found.table == {
        "schema": 1,
        "measure": {"false_fail": 0.01},
        "case": [{"match": "a", "measure": {}}, {"match": "b", "required": True}],
    }
    assert found.policy == policy(found.table)


def test_suspicion__without_a_policy_has_no_design() -> None:
    """Then the defaults hold."""
    assert for_one_run(None) is None


# --- in a job -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("seen", "code"), [(FAST, 0), (SLOW, EXIT_SUSPICIOUS)])
def test_job__reads_the_artifacts_and_writes_nothing(
    scene: Scene, seen: Profile, code: int
) -> None:
    """No comment, no summary, no output: the run that judges is another one."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(seen)
    done = scene.act(events.pull_request(scene.github, pull), command="suspect")
    assert done.code == code
    assert (done.outputs, done.summary) == ({}, "")
    assert scene.comments(pull) == []
    assert all(asked.startswith("GET ") for asked in scene.asked())
    assert not (scene.workspace / "ci-score").exists()


def test_job__that_posts_for_another_run_has_measured_nothing(scene: Scene) -> None:
    """Wrong use: a workflow_run has no run of its own to suspect."""
    pull = fork_pull_request(scene)
    run = scene.state.run(
        scene.repository, event="pull_request", head_branch="main", head_sha=pull.head_sha
    )
    assert scene.act(events.workflow_run(scene.github, run), command="suspect").code == 2
