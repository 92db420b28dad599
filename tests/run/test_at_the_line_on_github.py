"""The warning at the line of the change that costs the time, and the one request that it takes."""

from __future__ import annotations

import pytest

from ci_score.model.profile import Profile
from ci_score.model.step_code import CodeWork, StepCode
from ci_score.traces.formats.reference import normalised
from tests.builders import profile, write
from tests.builders.step_lines import step_code
from tests.builders.scene import Scene, on_pull_request, record_in, tip
from tests.loopback_github.state import Commit, PullRequest

Out = pytest.CaptureFixture[str]

FILE = "model/attention.py"
BEFORE = """\
class Attention:
    def forward(self, x):
        q = self.query(x)
        return self.out(q)
"""
AFTER = """\
class Attention:
    def forward(self, x):
        q = self.query(x)
        q = normalised(
            q.float(),
        )
        return self.out(q)
"""


def code(text: str, times: dict[int, float]) -> StepCode:
    return step_code(
        {FILE: text},
        {(FILE, line): CodeWork(forward_ms=ms, forward_launches=1) for line, ms in times.items()},
    )


def fast() -> Profile:
    return profile(100.0, tokens_per_step=1000, code=code(BEFORE, {3: 60.0, 4: 40.0}))


def slow() -> Profile:
    times = {3: 60.0, 4: 30.0, 7: 40.0}
    return profile(130.0, tokens_per_step=1000, code=code(AFTER, times))


def branch(scene: Scene) -> Commit:
    """A branch with the code, and a record of it."""
    made = scene.state.commit(scene.repository, "main", files={FILE: BEFORE})
    scene.leave_record(made, fast())
    return made


def change(scene: Scene, text: str = AFTER) -> PullRequest:
    """A pull request that changes the code."""
    parents = [tip(scene).sha]
    scene.state.commit(scene.repository, "slower", parents=parents, files={FILE: text})
    return scene.state.pull_request(scene.repository, "slower")


def measure(scene: Scene, measured: Profile) -> None:
    """The profile as it was converted beside the accelerator, with its lines."""
    write(scene.workspace / "profiles" / "profile.json", normalised(measured))


def compared(scene: Scene) -> list[str]:
    return [row for row in scene.asked() if "/compare/" in row]


def test_diff__is_one_request_for_a_pull_request(scene: Scene) -> None:
    """The base that was tested, and the test merge that was measured."""
    base = branch(scene)
    pull = change(scene)
    measure(scene, slow())
    assert on_pull_request(scene, pull).code == 1
    pair = f"{base.sha}...{pull.merge_commit_sha}"
    assert compared(scene) == [f"GET /repos/team/model/compare/{pair}"]


def test_diff__is_not_asked_for_where_nothing_changed(scene: Scene) -> None:
    """A run as fast as its base has nothing to explain."""
    branch(scene)
    pull = change(scene)
    measure(scene, fast())
    assert on_pull_request(scene, pull).code == 0
    assert compared(scene) == []


def test_diff__is_not_asked_for_where_no_line_is_known(scene: Scene) -> None:
    """A profile without lines needs no request."""
    base = scene.state.commit(scene.repository, "main", files={FILE: BEFORE})
    scene.leave_record(base, profile(100.0, tokens_per_step=1000))
    pull = change(scene)
    measure(scene, slow())
    assert on_pull_request(scene, pull).code == 1
    assert compared(scene) == []
    assert record_in(scene).cases[0].code is not None
