"""A slowdown of 30 % and more is never green, whatever a change brings along; the whole command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute
from ci_score.model.record import Record
from tests.builders import write
from tests.builders.whole_run import (
    TOKENS,
    TRAINING,
    UNPROFILED,
    alone,
    branch,
    held,
    judged,
    point,
    session,
    timed,
)

Out = pytest.CaptureFixture[str]
PHASES = {"forward": {"total_ms": 40.0, "pct": 40.0, "avg_ms": 40.0}}


def test_control__what_is_tried_here_passes_without_a_slowdown(here: Path) -> None:
    """The sessions and launches of these tests are green where nothing is slower."""
    assert judged(here, *session(100.0))[0] == 0
    branch(here, runs=40)
    assert judged(here, *alone(100.0, 100.5))[0] == 0
    assert judged(here, *session(100.0))[0] == 0


def test_shadow__says_what_it_would_have_done(here: Path) -> None:
    """A gate that is being introduced blocks nobody, and hides nothing."""
    code, report = judged(here, *session(130.0), policy=f'enforce = "shadow"\n{TRAINING}')
    assert code == 0
    assert "30 % slower" in report
    assert "would have ended with exit 1, and ends with 0" in report


def test_stalls__that_a_median_hides(here: Path) -> None:
    """Two steps of twenty that stand still for ten steps are in the mean of a launch."""
    rows = [
        {**row, "step_ms": [*row["step_ms"][:18], 1000.0, 1000.0]} if row["side"] == "head" else row
        for row in session(100.0)
    ]
    code, report = judged(here, *rows)
    assert code == 1
    assert "the mean step, which is judged" in report.lower()
    branch(here, runs=40)
    slow = [100.0] * 4 + [900.0]
    code, report = judged(here, *alone(100.0, 100.0, step_ms=slow))
    assert code == 3


def test_launches__that_void_themselves(here: Path) -> None:
    """Calling its own slow launches throttled, shared, crashed or no number makes none of it go."""
    marks: list[tuple[dict[str, Any], int, str]] = [
        ({"disturbances": {"throttled": "SW power cap"}}, 1, "ran with lower clocks"),
        ({"disturbances": {"shared": "somebody"}}, 3, "others disturbed 6 of 12"),
        ({"disturbances": {"crashed": "somehow"}}, 3, "measured nothing, and may have been slow"),
        ({"disturbances": {"nan": "odd"}}, 3, "measured nothing, and may have been slow"),
        ({"failed": "out of memory"}, 3, "measured nothing, and may have been slow"),
    ]
    for mark, expected, words in marks:
        rows = [
            {**row, **mark, "step_ms": [150.0] * 20}
            if row["side"] == "head" and row["launch"] % 2
            else row
            for row in session(131.0 if expected == 1 else 100.0)
        ]
        code, report = judged(here, *rows)
        assert (code, words in report) == (expected, True), words


def test_warm_up__that_swallows_slow_steps(here: Path) -> None:
    """A head that times fewer of its steps than the base is not compared with it."""
    rows = [
        {**row, "step_ms": [200.0] * 15 + row["step_ms"][:5], "warmup_steps": 15}
        if row["side"] == "head"
        else row
        for row in session(100.0)
    ]
    code, report = judged(here, *rows)
    assert code == 3
    assert "leave out 15 warm-up steps" in report


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tokens_per_step": 2 * TOKENS}, "2,000 tokens a step here, 1,000 there"),
        ({"final_loss": 4.0}, "final loss is 4 here and 2 there"),
        ({"metrics": {"valid_steps": 5}}, "5 valid steps here, 20 there"),
        ({"final_loss": None}, "its baseline tells its final loss, and this run does not"),
    ],
    ids=["tokens", "loss", "steps", "untold"],
)
def test_other_work__beside_a_slowdown(here: Path, fields: dict[str, Any], words: str) -> None:
    """Another loss or fewer steps hide no slowdown, excuse none, and nothing passes with them.

    Beside other tokens the time of a token decides: twice of them in 2.6 times the time.
    """
    every = {"final_loss": 2.0, "metrics": {"valid_steps": 20}}
    per_token = fields.get("tokens_per_step", TOKENS) / TOKENS
    for head_ms, excused, expected in (
        (130.0, False, 1),
        (130.0, True, 1),
        (100.0, False, 3),
        (100.0, True, 0),
        (70.0, False, 3),
    ):
        rows = [
            {**row, **every, **(fields if row["side"] == "head" else {})}
            for row in session(head_ms * per_token)
        ]
        told = [{name: one for name, one in row.items() if one is not None} for row in rows]
        policy = TRAINING + ('[unjudged]\nother_work = "pass"\n' if excused else "")
        code, report = judged(here, *told, policy=policy)
        assert (code, words in report.replace("\\", "")) == (expected, True)
        table = report.partition("| Base |")[2].partition("\n\n")[0]
        assert ("✅" in table) is False
        seen = {130.0: "30 % slower", 100.0: "no change seen", 70.0: "30 % faster"}[head_ms]
        assert seen in report.splitlines()[0].replace("\xa0", " ")


def test_lost__a_gated_metric_blocks(here: Path) -> None:
    """The policy's own, and what the rules gate by themselves."""
    base = timed(100.0, metrics={"peak_memory_gb": 40.0})
    branch(here, base)
    code, report = judged(here, *alone(100.0))
    assert code == 3
    assert "gated by the policy, and not measured here" in report
    silent = [{k: v for k, v in row.items() if k != "tokens_per_step"} for row in alone(100.0)]
    branch(here)
    code, report = judged(here, *silent)
    assert code == 3


@pytest.mark.parametrize("policy", [None, TRAINING], ids=["reference", "training"])
def test_lost__the_step_time_beside_a_constant_throughput(
    here: Path, policy: str | None, capsys: Out
) -> None:
    """A profile that tells tokens per second and no step time is not compared by halves."""
    if policy is not None:
        write(here / ".github" / "ci-score.toml", policy)
    profile = {"steps": 10, "avg_step_ms": 100.0, "wall_coverage": 0.9, "phases": PHASES}
    write(here / "p.json", json.dumps(profile))
    base = ["--profiles", "p.json", "--throughput", "10000", "--output-dir", "base"]
    assert execute(["run", *base]) == 0
    write(here / "p.json", json.dumps({**profile, "avg_step_ms": 0.0}))
    code = execute(
        ["run", "--profiles", "p.json", "--throughput", "10000", "--baseline", "base/ci-score.json"]
    )
    assert code == 3
    assert "its baseline has a step time, and this run measured none" in capsys.readouterr().out


def test_qualified__by_its_own_word(here: Path) -> None:
    """A demanded qualification counts as the branch's record of the same machine has it.

    Without it nothing is green; pairs prove a slowdown on any machine.
    """
    policy = TRAINING + "[measure]\nqualified = true\n"
    branch(here, timed(100.0))
    for environment, words in (
        ({}, "the policy wants a qualified machine (nothing says that this one is)"),
        ({"gate_at": 0.03}, "the branch's record does not say that this one is"),
    ):
        for head_ms, expected in ((130.0, 1), (100.0, 3)):
            code, report = judged(here, *session(head_ms), policy=policy, environment=environment)
            assert code == expected
            assert words in report.replace("\\", "")
    branch(here, timed(100.0, environment=UNPROFILED.but(gate_at=0.03)))
    assert judged(here, *session(130.0), policy=policy, environment={"gate_at": 0.03})[0] == 1
    assert judged(here, *session(100.0), policy=policy, environment={"gate_at": 0.03})[0] == 0


def test_looks__of_its_own_plan(here: Path) -> None:
    """A session that claims many looks makes its red harder to prove, and nothing green."""
    looks = [6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 64]
    rows = [{**row, "looks": looks} for row in session(130.0, pairs=10)]
    assert judged(here, *rows)[0] in (1, 3)
    assert judged(here, *session(130.0, pairs=10))[0] == 1


def test_base__that_contradicts_the_branch(here: Path) -> None:
    """A base that was made slow hides a slowdown from the pairs, and not from the branch."""
    branch(here, runs=90)
    code, report = judged(here, *session(140.0, 140.0))
    assert code == 3
    assert "the base of this session is" in report
    assert "Was it the right checkout?" in report or "right commit" in report


def test_base__on_a_machine_that_the_branch_does_not_know_is_said(here: Path) -> None:
    """Naming another accelerator leaves nothing that could contradict a slow base: that is told."""
    branch(here, timed(100.0, environment=UNPROFILED.but(accelerator="L4")), runs=90)
    _, report = judged(here, *session(140.0, 140.0), environment={"accelerator": "T4"})
    assert "the branch has no record of this machine" in report


@pytest.mark.parametrize("runs", [0, 5, 8, 9, 11, 12, 20, 28, 29, 60, 100, 139])
@pytest.mark.parametrize("policy", [None, TRAINING], ids=["reference", "training"])
def test_history__of_any_length_excuses_nothing(here: Path, runs: int, policy: str | None) -> None:
    """Half as slow again fails without a policy at any length, and is never green with one."""
    for odd in (1.0, 1.9):
        branch(here, runs=runs, odd=odd)
        code, _ = judged(here, *alone(150.0, 151.0), policy=policy)
        assert code == (1 if policy is None else code)
        assert code in (1, 3)


def test_history__of_a_matrix_excuses_nothing(here: Path) -> None:
    """Twelve cases with a noisy branch: the one that is nearly twice as slow is not green."""
    names = [f"case-{number}" for number in range(12)]
    branch(here, *(timed(100.0, name) for name in names), runs=60, spread=0.05)
    rows = [
        {**row, "case": name}
        for name in names
        for row in alone(190.0 if name == "case-5" else 100.0)
    ]
    code, report = judged(here, *rows)
    assert code == 3
    (slow,) = [one for one in held(here).cases if one.name == "case-5"]
    assert slow.verdict is not None
    assert not slow.verdict.may_pass
    assert "case-5" in report


def test_history__a_faster_base_is_not_undone_unseen(here: Path) -> None:
    """Back at the old level beside a base that had just become faster is not green."""
    branch(here, runs=60)
    left = Record.model_validate_json((here / "main.json").read_bytes())
    faster = timed(70.0)
    points = (*left.history[:-1], point(60, 70.0))
    write(here / "main.json", left.but(cases=(faster,), history=points).model_dump_json())
    for policy in (TRAINING, None):
        (here / ".github" / "ci-score.toml").unlink(missing_ok=True)
        code, _ = judged(here, *alone(100.0, 100.0), policy=policy)
        assert code == 3 if policy else code in (1, 3)
