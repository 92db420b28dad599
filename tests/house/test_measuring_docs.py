"""The examples in docs/measuring.md and the README run, and find what they are meant to find."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ci_score.launches.lines import Launch, read_launches
from ci_score.measure.qualify import TIERS
from ci_score.model.record import Record
from tests.builders import PROJECT

GUIDE = (PROJECT / "docs" / "measuring.md").read_text(encoding="utf-8")
README = (PROJECT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that a snippet expects of a training script, without a device."""
    cuda = SimpleNamespace(synchronize=lambda: None, is_initialized=lambda: False)
    torch, jax = ModuleType("torch"), ModuleType("jax")
    torch.__dict__.update(cuda=cuda)
    jax.__dict__.update(block_until_ready=lambda value: value)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "jax", jax)
    return {
        "batches": range(8),
        "train": lambda batch: batch / 2,
        "train_step": lambda state, batch: state + batch,
        "state": 0,
    }


@pytest.mark.parametrize("code", SNIPPETS, ids=["recorder", "torch", "jax"])
def test_snippet__leaves_a_launch(
    code: str, fakes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snippet writes one launch with eight steps, of which three are timed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI_SCORE_MEASUREMENTS", raising=False)
    exec(code, fakes)  # noqa: S102 - it is ours
    (launch,) = read_launches(Path("measurements.jsonl").read_bytes(), "x")
    assert (len(launch.step_ms), len(launch.timed_ms)) == (8, 3)
    assert launch.tokens_per_step == 8192


def test_snippets__are_short() -> None:
    """A snippet has at most twelve lines and the import."""
    assert all(len(code.strip().splitlines()) <= 13 for code in SNIPPETS)


def test_guide__has_the_limits_of_the_code() -> None:
    """The guide's table has the tiers of the code."""
    for spread, limit in TIERS:
        assert re.search(rf"\| up to {100 * spread:g} % \| {100 * limit:g} % \|", GUIDE)


def test_guide__tells_each_key_of_a_measurement_line() -> None:
    """The guide's table has exactly the keys that the code reads."""
    table = GUIDE.split("The keys of a measurement line", 1)[1].split("\n\n")[1]
    shown = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(shown) == sorted(Launch.known_keys())


def commands(text: str) -> list[list[str]]:
    """The two commands of the example."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    block = next(block for block in blocks if "ab --base examples" in block)
    ours = {"ci-score": f"{sys.executable} -m ci_score", "python": sys.executable}
    here = re.sub(r"\.venv/bin/([\w-]+)", lambda found: ours[found[1]], block)
    return [shlex.split(line) for line in here.splitlines()]


def test_example__is_the_same_in_both() -> None:
    """The README and the guide show the same two commands."""
    assert commands(README) == commands(GUIDE)
    assert len(commands(README)) == 2


@pytest.mark.skipif(
    not os.environ.get("CI_SCORE_EXAMPLE"), reason="half a minute; `.ci/run example` runs it"
)
def test_example__names_what_was_planted(tmp_path: Path) -> None:
    """The two commands prove the planted slowdown without a GPU, even on a busy machine."""
    shutil.copytree(PROJECT / "examples", tmp_path / "examples")
    environment = {"PYTHONPATH": str(PROJECT), "XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin",
                   "CI_SCORE_WAIT": "0"}  # fmt: skip
    for command, code in zip(commands(README), (0, 1), strict=True):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
    headline = done.stdout.splitlines()[0]
    assert headline.startswith("Fail: ")
    assert "'causal_mask_forward' is new" in headline
    record = Record.model_validate_json((tmp_path / "ci-score" / "ci-score.json").read_bytes())
    (case,) = record.cases
    assert case.explanation is not None
    assert [op.name for op in case.explanation.ops if op.status != "changed"] == [
        "causal_mask_forward"
    ]
    assert case.explanation.ops[0].name == "causal_mask_forward"
    lines = (tmp_path / "perf" / "measurements.jsonl").read_text("utf-8").splitlines()
    assert len(lines) in (12, 18, 24)
    assert not any(json.loads(line).get("failed") for line in lines)
