"""The real image as a Docker action on a loopback GitHub: `python -m tests.scenarios IMAGE`.

The container is started as the runner starts it, by `.ci/container action`: as root, the workspace
mounted, inputs as INPUT_ variables. Each scenario says what must hold then.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci_score.run.inputs import INPUTS
from tests.builders import PROJECT
from tests.builders.scene import (
    FAST,
    REPOSITORY,
    SLOW,
    TOKEN,
    Scene,
    contract_violations,
    pull_request,
    tip,
)
from tests.loopback_github import FORK_PERMISSIONS, LoopbackGitHub, State, contract, events
from tests.loopback_github.state import PullRequest

# Whoever owns the workspace is not root: on a runner that is us, and root hands it to somebody.
OWNER = os.getuid() or 1000


@dataclass(frozen=True)
class Done:
    """What a container left: its exit code and everything that it and the runner printed."""

    code: int
    printed: str

    def output(self, name: str) -> str:
        """One of the step's outputs."""
        found = re.search(rf"^{name}<<(\S+)\n(.*?)\n\1$", self.printed, re.DOTALL | re.MULTILINE)
        return found[2] if found else ""


@contextmanager
def a_scene() -> Iterator[Scene]:
    """A repository with a commit on main, and a workspace that belongs to a user."""
    state = State(start="2026-01-05T09:00:00Z")
    state.token(TOKEN)
    state.repository(REPOSITORY)
    # Root in the container may leave files that we cannot remove.
    kept = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with kept as folder, LoopbackGitHub(state) as github:
        scene = Scene(github, Path(folder))
        scene.commits(1)
        scene.measure(FAST)
        for path in (scene.workspace, *scene.workspace.rglob("*")):
            os.chown(path, OWNER, -1)
        yield scene
        assert contract_violations(github) == []


def act(image: str, scene: Scene, pull: PullRequest, **inputs: str) -> Done:
    """The action on that pull request."""
    event = events.pull_request(scene.github, pull)
    written = event.write(scene.folder / "runner")
    given = {"github-token": TOKEN, **inputs}
    variables = {row.variable: given.get(row.name, row.default) for row in INPUTS.values()}
    path = {"GITHUB_EVENT_PATH": written["GITHUB_EVENT_PATH"]}
    environment = {**event.environment, **variables, **path}
    done = subprocess.run(
        [str(PROJECT / ".ci" / "container"), "action", image, str(scene.workspace),
         *(f"{name}={value}" for name, value in environment.items())],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert TOKEN not in done.stdout + done.stderr
    return Done(done.returncode, done.stdout + done.stderr)


def passes(image: str, scene: Scene) -> None:
    """Exit 0, nine requests, the comment, the outputs, and files that a checkout can remove."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    done = act(image, scene, pull)
    assert done.code == 0, done.printed
    assert len(scene.asked()) == 9, scene.asked()
    assert "✅ Pass: the same time" in scene.comments(pull)[0]
    record = scene.workspace / done.output("record")
    assert record.stat().st_uid == record.parent.stat().st_uid == OWNER


def fails_after_the_comment(image: str, scene: Scene) -> None:
    """Exit 1 on a critical regression, when everything was published already."""
    scene.leave_record(tip(scene), FAST)
    pull = pull_request(scene)
    scene.measure(SLOW)
    done = act(image, scene, pull)
    assert done.code == 1, done.printed
    assert "❌ Fail: 30 % slower" in scene.comments(pull)[0]
    assert done.output("verdict") == "fail"
    assert "::error title=ci-score training::" in done.printed


def has_no_baseline(image: str, scene: Scene) -> None:
    """The first run is inconclusive and exits 0 with a notice."""
    done = act(image, scene, pull_request(scene))
    assert done.code == 0, done.printed
    assert "First run" in done.printed
    assert "::notice" in done.printed


def measured_nothing(image: str, scene: Scene) -> None:
    """A failed producer is never a pass."""
    done = act(image, scene, pull_request(scene), producer="measure=failure")
    assert done.code == 3, done.printed
    assert "measure failed" in done.printed.replace("`", "").replace("'", "")


def comes_from_a_fork(image: str, scene: Scene) -> None:
    """With a token that may only read the verdict is the same, without a comment."""
    scene.state.tokens[0].permissions = dict(FORK_PERMISSIONS)
    scene.leave_record(tip(scene), FAST)
    fork = scene.state.fork(scene.repository, "stranger/model")
    scene.state.commit(fork, "main", parents=[tip(scene).sha])
    pull = scene.state.pull_request(scene.repository, "main", head_repository=fork)
    scene.measure(SLOW)
    done = act(image, scene, pull)
    assert done.code == 1, done.printed
    assert scene.comments(pull) == []
    assert "workflow_run job can post" in done.printed


def cannot_be_shadowed(image: str, scene: Scene) -> None:
    """A checkout with modules of our names in it runs none of them."""
    for name in ("click", "json", "requests", "ci_score", "sitecustomize"):
        trap = f"import os\nos.write(2, b'TRAPPED')\nos._exit(0)  # {name}\n"
        (scene.workspace / f"{name}.py").write_text(trap, encoding="utf-8")
    done = act(image, scene, pull_request(scene), producer="measure=failure")
    assert done.code == 3, done.printed
    assert "TRAPPED" not in done.printed


SCENARIOS: tuple[Callable[[str, Scene], None], ...] = (
    passes,
    fails_after_the_comment,
    has_no_baseline,
    measured_nothing,
    comes_from_a_fork,
    cannot_be_shadowed,
)


def main(image: str) -> None:
    """Runs every scenario and says so; the first that does not hold ends it."""
    if contract.description_path() is None:
        print(f"no {contract.DESCRIPTION} here: requests are not held to it")  # noqa: T201 - its output
    for scenario in SCENARIOS:
        begin = time.perf_counter()
        with a_scene() as scene:
            scenario(image, scene)
        name = scenario.__name__.replace("_", " ")
        seconds = time.perf_counter() - begin
        print(f"the image as an action {name}: holds ({seconds:.1f} s)")  # noqa: T201 - its output


if __name__ == "__main__":
    main(sys.argv[1])
