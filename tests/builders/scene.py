"""A repository on a loopback GitHub, in which the Action runs as under the real runner."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci_score.cli import execute
from ci_score.cli.machine import Machine
from ci_score.compare import Workload, measured_case
from ci_score.files.strict_json import dump
from ci_score.model.profile import Profile
from ci_score.model.record import Record, RunIdentity
from ci_score.model.stages import BaselineMissing, CaseInput
from ci_score.model.verdict import Unjudged
from ci_score.run.inputs import INPUTS
from tests.builders import profile
from tests.builders.verdicts import judged_case
from tests.loopback_github import LoopbackGitHub, State, events
from tests.loopback_github.events import Event
from tests.loopback_github.state import (
    WORKFLOW,
    Artifact,
    Commit,
    PullRequest,
    Repository,
    WorkflowRun,
)

FAST, SLOW = profile(100.0, tokens_per_step=1000), profile(130.0, tokens_per_step=1000)
TOKEN = "ghs_" + "s3cr3t" * 6
REPOSITORY = "team/model"
POLICY = ".github/ci-score.toml"


@dataclass
class Outcome:
    """The exit code and the outputs of one run of the Action."""

    code: int
    outputs: dict[str, str]
    summary: str
    printed: str = ""


@dataclass
class Scene:
    """A default branch with records, and what a test adds."""

    github: LoopbackGitHub
    folder: Path
    token: str = TOKEN
    runs: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """The state of this GitHub."""
        return self.github.state

    @property
    def repository(self) -> Repository:
        """The repository that the Action runs in."""
        return self.state.repository_named(REPOSITORY)

    @property
    def workspace(self) -> Path:
        """GITHUB_WORKSPACE."""
        return self.folder / "workspace"

    def commits(self, count: int) -> list[Commit]:
        """Commits on the default branch, the newest last."""
        return [self.state.commit(self.repository, "main") for _ in range(count)]

    def policy(self, text: str, path: str = POLICY, branch: str = "main") -> Commit:
        """A commit that brings a policy to a branch."""
        return self.state.commit(self.repository, branch, files={path: text})

    def leave_record(
        self, commit: Commit, measured: Profile | None = None, **fields: Any
    ) -> Artifact:
        """A push run of that commit with its record, as the Action would have left it."""
        artifact = fields.pop("artifact", "ci-score")
        made = self.state.run(
            self.repository,
            event="push",
            head_branch="main",
            head_sha=commit.sha,
            path=fields.pop("path", WORKFLOW),
        )
        text = dump(record_for(commit.sha, measured or profile(), made, **fields))
        return self.state.artifact(made, artifact, {"ci-score.json": text.encode()})

    def measure(self, measured: Profile | None = None, name: str = "profiles/profile.json") -> None:
        """The profile that the producer job has left in the workspace."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((measured or profile()).model_dump_json(), encoding="utf-8")

    def act(self, event: Event, command: str = "run", **inputs: str) -> Outcome:
        """Runs the Action, or another command, for the event, with new files of the runner."""
        self.runs += 1
        place = self.folder / f"runner-{self.runs}"
        given = {"github-token": self.token, **{k.replace("_", "-"): v for k, v in inputs.items()}}
        variables = {row.variable: given.get(row.name, row.default) for row in INPUTS.values()}
        environment = {
            **event.write(place),
            **variables,
            **self.environment,
            "GITHUB_WORKSPACE": str(self.workspace),
        }
        with only_these(environment):
            code = execute([command], Machine(sleep=lambda _seconds: None))
        return Outcome(
            code=code,
            outputs=read_outputs(Path(environment["GITHUB_OUTPUT"])),
            summary=Path(environment["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8"),
        )

    def comments(self, pull: PullRequest) -> list[str]:
        """The texts of a pull request's comments."""
        return self.state.said_in(pull)

    def asked(self) -> list[str]:
        """The API's requests so far, as `GET /path`."""
        return [f"{row.method} {row.path}" for row in self.github.exchanges if row.host == "api"]

    def left_behind(self) -> Iterator[tuple[Path, str]]:
        """Every file that the runs wrote, with its text."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                yield path, path.read_text(encoding="utf-8", errors="replace")


def record_for(sha: str, measured: Profile, made: WorkflowRun, **fields: Any) -> Record:
    """The record of a first run with one case."""
    case = measured_case(CaseInput(fields.pop("case", "training"), measured), Workload())
    judged = judged_case(case, BaselineMissing(Unjudged.FIRST_RUN))
    identity = RunIdentity(number=made.run_number, attempt=made.run_attempt, id=made.id)
    described = Record.describing([judged])
    return described.but(created_at="2026-01-05T10:00:00Z", commit=sha, run=identity, **fields)


def read_outputs(path: Path) -> dict[str, str]:
    """GITHUB_OUTPUT, as the runner reads it."""
    blocks = re.findall(
        r"^(\S+)<<(\S+)\n(.*?)\n\2$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return {name: value for name, _, value in blocks}


@contextmanager
def only_these(environment: dict[str, str]) -> Iterator[None]:
    """Replaces the process's environment as in a container; only this machine's paths stay."""
    before = dict(os.environ)
    kept = {name: before[name] for name in ("PATH", "HOME", "TMPDIR") if name in before}
    os.environ.clear()
    os.environ.update(kept | environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def contract_violations(github: LoopbackGitHub) -> list[str]:
    """How the exchanges break GitHub's own API description; empty if that is not available."""
    # Imported here, because it takes longer than most test modules run.
    from tests.loopback_github import contract

    if contract.description_path() is None:
        return []
    return [str(row) for row in contract.violations(github.exchanges)]


def tip(scene: Scene) -> Commit:
    """The default branch's newest commit."""
    graph = scene.state.graph(scene.repository)
    return graph[scene.repository.branches["main"]]


def pull_request(scene: Scene, branch: str = "faster") -> PullRequest:
    """A pull request of the repository itself."""
    scene.state.commit(scene.repository, branch, parents=[tip(scene).sha])
    return scene.state.pull_request(scene.repository, branch)


def opened(scene: Scene, branch: str = "faster") -> PullRequest:
    """A pull request on which the workflow has run, and people have seen the report."""
    made = pull_request(scene, branch)
    events.pull_request(scene.github, made)
    return made


def fork_pull_request(scene: Scene, branch: str = "main") -> PullRequest:
    """A pull request from a fork, whose branch may have the name of ours."""
    fork = scene.state.fork(scene.repository, "stranger/model")
    scene.state.commit(fork, branch, parents=[tip(scene).sha])
    return scene.state.pull_request(scene.repository, branch, head_repository=fork)


def run_of_fork(scene: Scene, pull: PullRequest, path: str = WORKFLOW) -> WorkflowRun:
    """A finished run of a fork's pull request, for which another one posts."""
    return scene.state.run(
        scene.repository, event="pull_request", head_branch=pull.head_ref, head_sha=pull.head_sha,
        head_repository=scene.state.repository_named("stranger/model"), path=path,
    )  # fmt: skip


def on_pull_request(scene: Scene, pull: PullRequest, **inputs: str) -> Outcome:
    """The Action on a pull request."""
    return scene.act(events.pull_request(scene.github, pull), **inputs)


def record_in(scene: Scene) -> Record:
    """The record that the last run left in the workspace."""
    path = scene.workspace / "ci-score" / "ci-score.json"
    return Record.model_validate_json(path.read_bytes())
