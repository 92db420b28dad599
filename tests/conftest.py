"""Settings of the whole suite."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from ci_score.measure.machine import load
from tests.builders.scene import REPOSITORY, TOKEN, Scene, contract_violations
from tests.loopback_github import LoopbackGitHub, State
from tests.loopback_github.state import WORKFLOW

# On a runner every `ci-score run` would act as the Action, and in a launch every Recorder would
# write the launch's line; a test that wants this sets them itself.
for variable in list(os.environ):
    if variable.startswith(("GITHUB_", "INPUT_")) or variable in ("CI", "CI_SCORE_MEASUREMENTS"):
        del os.environ[variable]

# Tests run side by side: a session that saw that would wait for quiet, or measure again.
os.environ["CI_SCORE_WAIT"] = "0"
# What `nohup make test` ignores, the commands under test would ignore, too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
load.COUNTERS = Path("/no/counters")

# Only benchmarks measure time: a slow machine must not fail a test.
# The same examples each time: a failure is by a change, and not by luck.
settings.register_profile("suite", deadline=None, max_examples=40, derandomize=True)
# More examples, and other ones each time: `.ci/run fuzz` uses this profile for damaged files and
# for the judge's properties. Once a week security.yml asks for many more.
settings.register_profile(
    "long",
    settings.get_profile("suite"),
    max_examples=int(os.environ.get("CI_SCORE_FUZZ", "200")),
    derandomize=False,
)
settings.load_profile("suite")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    """A repository with three commits on main; every exchange keeps GitHub's own contract."""
    state = State(start="2026-01-05T09:00:00Z")
    state.token(TOKEN)
    state.repository(REPOSITORY)
    with LoopbackGitHub(state) as github:
        made = Scene(github, tmp_path)
        # For what is posted of its runs.
        state.commit(made.repository, "main", files={WORKFLOW: "name: performance\n"})
        made.commits(2)
        yield made
        assert contract_violations(github) == []
        # The token is in no file, no log, no output and no comment that a run leaves.
        printed = capsys.readouterr()
        texts = [text for _, text in made.left_behind()]
        texts += [comment.body for comment in state.comments]
        assert not [text for text in (*texts, printed.out, printed.err) if made.token in text]
