"""Heads that move the step, or whose slow steps a short window would miss, with the real torch.

`CI_SCORE_FRAMEWORKS` names a Python that has torch. A step sleeps, so that a busy machine does not
decide what is found.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import execute

PYTHON = os.environ.get("CI_SCORE_FRAMEWORKS", "")
# The machine of a test is busy with other tests.
POLICY = 'schema = 1\nrules = "training"\n[environment]\nreject = []\n'
SCRIPT = """
import time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Linear(16, 16)
opt = torch.optim.AdamW(net.parameters())
{before}
for step in range(4000):
    time.sleep({seconds})
    loss = net(torch.ones(4, 16)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {inside}
"""
EXTRA = """
extra = torch.nn.Parameter(torch.ones(5000))
beside = torch.optim.SGD([extra], lr=1e-3)
def steps_beside():
    extra.sum().backward()
    beside.step()
"""

pytestmark = pytest.mark.skipif(
    not Path(PYTHON).is_file(), reason="CI_SCORE_FRAMEWORKS names no Python with torch"
)


def write(side: str, seconds: str, before: str = "", inside: str = "pass") -> None:
    Path(side).mkdir()
    text = SCRIPT.format(seconds=seconds, before=before, inside=inside)
    (Path(side) / "train.py").write_text(text, encoding="utf-8")


def compared(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """A whole session, what `run` makes of it, and what the session said."""
    Path("policy.toml").write_text(POLICY, encoding="utf-8")
    few = ["--config", "policy.toml", "--looks", "8", "--no-profile", *options]
    assert execute(["ab", "--base", "base", "--head", "head", *few, "--", PYTHON, "train.py"]) == 0
    said = capsys.readouterr().err
    code = execute(["run", "--measurements", "perf", "--config", "policy.toml"])
    if code == 3 and "pairs are too few" in capsys.readouterr().out:
        pytest.skip("others keep this machine busy: nothing can be proven on it now")
    return code, said


def settled(side: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("perf/session.json").read_bytes())["settled"][side]
    return found


@pytest.mark.once
@pytest.mark.parametrize("inside", ["beside.step(); steps_beside()", "steps_beside()"])
def test_real__a_larger_optimizer_that_head_adds_is_no_step(
    inside: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that steps with the training and beside it: +50 % must not be 25 % less."""
    write("base", "0.02")
    write("head", "0.03", EXTRA, inside)
    code, said = compared(capsys, "--steps", "20")
    assert code == 1
    assert "the steps of head are counted by AdamW (272 parameters), which both sides have" in said
    assert "backward passes a step: 1 in base and 2 in head" in said
    assert "it is clear: slower than the limit" in said


def test_real__a_slow_step_that_recurs_is_timed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every 25 steps one takes 49 instead of 3 ms."""
    write("base", "0.003")
    write("head", "0.003 if step % 25 else 0.049")
    assert compared(capsys)[0] == 1


def test_real__a_level_that_falls_is_no_change(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Head's first 24 steps take half as long again, and all that follow as long as base's."""
    write("base", "0.02")
    write("head", "0.03 if step < 24 else 0.02")
    code, _ = compared(capsys, "--steps", "20")
    assert settled("head")["warmup"] >= 24
    assert code == 0
