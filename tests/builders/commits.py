"""A repository whose commits each have a step time, for tests of the search among them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.builders import write
from tests.builders.repository import Repository

# Steps that are told and not taken: each launch has its own noise, the same in every run.
TRAIN = """
import os, random
import model

launch = random.Random(os.environ["CI_SCORE_SIDE"] + os.environ["CI_SCORE_LAUNCH"])
ms = model.MS * (1.0 + launch.gauss(0.0, 0.005))
for _ in range(4):
    print('{"step_ms": %r}' % ms, flush=True)
"""
COMMAND = (sys.executable, "train.py")


class Commits:
    """A repository with one commit a step time, on `main`; text stands for a module that breaks."""

    def __init__(self, folder: Path, times: Sequence[float | str]) -> None:
        self.repository = Repository(folder)
        self.repository.git("checkout", "--quiet", "main")
        self.repository.commit("train.py", TRAIN)
        self.shas = [self.add(number, ms) for number, ms in enumerate(times)]

    def add(self, number: int, ms: float | str) -> str:
        """One more commit."""
        made, text = self.repository, f"MS = {ms}\n" if isinstance(ms, float) else f"{ms}\n"
        write(made.folder / "model.py", f"# {number}\n{text}")
        made.git("add", "model.py")
        made.git("commit", "--quiet", "--message", f"Change number {number}")
        return made.git("rev-parse", "HEAD")

    @property
    def nothing_is_left(self) -> bool:
        """Neither a checkout of a commit nor what git knows of it."""
        places = (self.repository.cache / "ci-score" / "worktrees").glob("*/")
        return not list(places) and self.repository.worktrees() == []
