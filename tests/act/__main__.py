"""A branch and a pull request through examples/ci-score.yml: `python -m tests.act ACT IMAGE`.

act is the runner; the jobs share their artifacts through a folder, by the stand-ins beside this
file, and the loopback GitHub learns of them when a run is over.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.loopback_github import LoopbackGitHub, State, contract, events
from tests.loopback_github.events import Event

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
EXAMPLE = PROJECT / "examples" / "ci-score.yml"
JOB_IMAGE = "docker.io/library/python:3.12-slim"
TOKEN = "token-of-the-job"


@dataclass(frozen=True)
class Chapter:
    """One run of the workflow, and how it has to end."""

    what: str
    event: str
    step_ms: str
    code: int
    headline: str

    @property
    def artifact(self) -> str:
        """The name that the example gives to the record."""
        return "ci-score" if self.event == "push" else "ci-score-pr"


CHAPTERS = (
    Chapter("the branch's first run leaves its record", "push", "100", 0, "this is the first run"),
    Chapter("a harmless pull request passes", "pull_request", "101", 0, "Pass"),
    Chapter("a slower one fails, its record uploaded", "pull_request", "140", 1, "Fail"),
    Chapter("a crashed measurement is no pass", "pull_request", "crash", 1, "measure ended with"),
)


@dataclass(frozen=True)
class Runner:
    """act, with a repository that has nothing but the example and a training script."""

    act: str
    image: str
    folder: Path

    def prepare(self) -> None:
        """The repository, and our Action as a release has it: naming an image."""
        workflows = self.folder / "repository" / ".github" / "workflows"
        workflows.mkdir(parents=True)
        shutil.copy(EXAMPLE, workflows)
        shutil.copy(HERE / "train.py", self.folder / "repository")
        action = (PROJECT / "action.yml").read_text(encoding="utf-8")
        released = action.replace("image: Dockerfile", f"image: docker://localhost/{self.image}")
        (self.folder / "ci-score").mkdir()
        (self.folder / "ci-score" / "action.yml").write_text(released, encoding="utf-8")

    def run(self, event: Event, step_ms: str) -> tuple[int, Path]:
        """One run of the workflow: its exit code, and the folder of its artifacts."""
        place = self.folder / f"run-{event.run.id}"
        artifacts = place / "artifacts"
        artifacts.mkdir(parents=True)
        (place / "event.json").write_text(json.dumps(event.payload), encoding="utf-8")
        command = [
            *(self.act, event.name, "--eventpath", str(place / "event.json")),
            *("--directory", str(self.folder / "repository")),
            *("--workflows", f".github/workflows/{EXAMPLE.name}"),
            *("--action-cache-path", str(self.folder / "cache"), "--no-cache-server"),
            *("--pull=false", "--container-daemon-socket", "-"),
            *("--container-options", f"--volume {artifacts}:/artifacts"),
            *("--secret", f"GITHUB_TOKEN={TOKEN}", "--env", f"STEP_MS={step_ms}"),
        ]
        for label in ("self-hosted", "gpu", "ubuntu-latest"):
            command += ["--platform", f"{label}={JOB_IMAGE}"]
        for name, local in self._local_actions().items():
            command += ["--local-repository", f"{name}={local}"]
        known_to_act = {"SHA_REF": event.environment["GITHUB_SHA"]}  # its own word for it
        for name, value in (event.environment | known_to_act).items():
            command += ["--env", f"{name}={value}"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env=environment()
        )
        (place / "log").write_text(done.stdout + done.stderr, encoding="utf-8")
        return done.returncode, artifacts

    def log(self, event: Event) -> str:
        """What act said of a run."""
        return (self.folder / f"run-{event.run.id}" / "log").read_text(encoding="utf-8")

    def _local_actions(self) -> dict[str, Path]:
        """What the example uses, and what stands in for it; act itself does the checkout."""
        used = re.findall(r"uses: ((\S+/(\S+))@\S+)", EXAMPLE.read_text(encoding="utf-8"))
        return {
            full: self.folder / short if short == "ci-score" else HERE / short
            for full, _, short in used
            if short != "checkout"
        }


def story(github: LoopbackGitHub, runner: Runner) -> list[str]:
    """Runs every chapter; what did not come out as it should."""
    state, path = github.state, f".github/workflows/{EXAMPLE.name}"
    repository = state.repository("team/model")
    state.token(TOKEN)
    state.commit(repository, "main")
    state.commit(repository, "topic")
    pull = state.pull_request(repository, "topic")
    wrong: list[str] = []
    for chapter in CHAPTERS:
        if chapter.event == "push":
            event = events.push(github, repository, path=path)
        else:
            event = events.pull_request(github, pull, path=path)
        code, artifacts = runner.run(event, chapter.step_ms)
        finish(state, event, code, artifacts)
        report = artifacts / chapter.artifact / "report.md"
        headline = report.read_text("utf-8").splitlines()[0] if report.exists() else "no report"
        comments = [row.body for row in state.comments]
        commented = chapter.event == "push" or any(headline in body for body in comments)
        if (code == chapter.code and chapter.headline in headline) and commented:
            say(f"ok    {chapter.what}: exit {code}, {headline}")
        else:
            wrong.append(chapter.what)
            say(f"{runner.log(event)}\nWRONG {chapter.what}: exit {code}, {headline}")
    if len(comments) != 1:
        wrong.append(f"{len(comments)} comments instead of one")
    if contract.description_path() is not None:
        wrong += [str(row) for row in contract.violations(github.exchanges)]
    return wrong


def finish(state: State, event: Event, code: int, artifacts: Path) -> None:
    """GitHub learns how the run ended, and what it uploaded."""
    event.run.status, event.run.conclusion = "completed", "failure" if code else "success"
    for folder in artifacts.iterdir():
        files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        state.artifact(event.run, folder.name, files)


def environment() -> dict[str, str]:
    """Of this machine act sees no more than it needs to find podman."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST")}


def say(text: str) -> None:
    """Prints at once: the story takes a minute."""
    print(text, flush=True)  # noqa: T201 - what a CI step finds is printed


def main() -> None:
    """Tells the story and fails where it went otherwise."""
    act, image = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, LoopbackGitHub(State()) as github:
        runner = Runner(act, image, Path(folder))
        runner.prepare()
        sys.exit("\n".join(story(github, runner)) or 0)


if __name__ == "__main__":
    main()
