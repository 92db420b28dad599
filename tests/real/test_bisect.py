"""One real search: eight commits of a small repository, with the real torch.

`CI_SCORE_FRAMEWORKS` names a Python that has torch.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ci_score.cli import execute
from tests.builders import PROJECT, write
from tests.builders.repository import Repository

PYTHON = os.environ.get("CI_SCORE_FRAMEWORKS", "")
BROKEN, SLOW, COMMITS = 3, 5, 8
TRAIN = """
import torch
from model import Model

torch.manual_seed(0)
torch.set_num_threads(1)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    loss = model(torch.randn(64, 256)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = self.activated(layer(x))
        return x

    def activated(self, x):
        return torch.relu(x)
"""
SLOWER = MODEL.replace("torch.relu(x)", "torch.relu(torch.sort(x, dim=0).values)")

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        not Path(PYTHON).is_file(), reason="CI_SCORE_FRAMEWORKS names no Python with torch"
    ),
]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Commits that change other things, one that cannot be imported, and one that is slower."""
    made = Repository(tmp_path / "repository")
    monkeypatch.chdir(made.folder)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write(made.folder / "train.py", TRAIN)
    for number in range(COMMITS):
        text = SLOWER if number >= SLOW else MODEL
        write(made.folder / "model.py", "import nothing\n" if number == BROKEN else text)
        write(made.folder / "notes.md", f"Note {number}")
        made.git("add", "--all")
        made.git("commit", "--quiet", "--message", f"Change {number}")
    return made


def test_search__over_real_commits_finds_the_slow_one_and_why(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the steps of an optimizer, in checkouts, with both profiles beside the answer."""
    good = repository.git("rev-parse", f"HEAD~{COMMITS - 1}")
    words = ["bisect", good, "HEAD", "--python", PYTHON, "--steps", "30", "--settle-steps", "20"]
    assert execute([*words, "--seed", "1", "--", "python", "train.py"]) == 0
    said = capsys.readouterr()
    found = json.loads(Path("bisect/bisect.json").read_bytes())
    slow = repository.git("rev-parse", f"HEAD~{COMMITS - 1 - SLOW}")
    assert [one["sha"] for one in found["found"]] == [slow]
    assert found["own"]["low"] > 0.0
    assert "sort" in found["cause"], said.out
    profiles = Path("bisect/answer/profiles")
    assert [(profiles / side / "profile.json").is_file() for side in ("base", "head")] == [True] * 2
    assert repository.worktrees() == []
