"""A branch and a fork's pull request through the examples: `tests.act ACT IMAGE WHEELS`.

The gates come after them, see composites.py. act is the runner; the jobs share their artifacts
through a folder, by the stand-ins beside this file, and the loopback GitHub learns of them when a
run is over.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.act import composites
from tests.loopback_github import FORK_PERMISSIONS, LoopbackGitHub, State, contract, events
from tests.loopback_github.events import Event
from tests.loopback_github.state import PullRequest

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
EXAMPLES = PROJECT / "examples"
GATE, FORK_COMMENT = "ci-score.yml", "ci-score-fork-comment.yml"
JOB_IMAGE = "docker.io/library/python:3.12-slim"
TOKEN, FORK_TOKEN = "token-of-the-job", "token-of-a-fork"


@dataclass(frozen=True)
class Runner:
    """act, with a repository that has nothing but the examples and a training script."""

    act: str
    image: str
    wheels: Path
    folder: Path

    def prepare(self) -> None:
        """The repository, and our Action as a release has it: naming an image."""
        workflows = self.folder / "repository" / ".github" / "workflows"
        workflows.mkdir(parents=True)
        for name in (GATE, FORK_COMMENT):
            shutil.copy(EXAMPLES / name, workflows)
        shutil.copy(HERE / "train.py", self.folder / "repository")
        (self.folder / "repository" / "requirements.txt").touch()
        named = f"docker://localhost/{self.image}"
        for place in ("action.yml", "gate/action.yml"):
            action = (PROJECT / place).read_text(encoding="utf-8")
            released = action.replace("image: Dockerfile", f"image: {named}")
            released = released.replace("docker://ghcr.io/ci-score/ci-score:v0", named)
            write_new(self.folder / "ci-score" / place, released)

    def run(
        self, workflow: str, event: Event, token: str = TOKEN, step_ms: str = ""
    ) -> tuple[int, Path]:
        """One run of a workflow: its exit code, and the folder of its artifacts."""
        place = self.folder / f"run-{event.run.id}"
        artifacts = place / "artifacts"
        artifacts.mkdir(parents=True)
        (place / "event.json").write_text(json.dumps(event.payload), encoding="utf-8")
        command = [
            *(self.act, event.name, "--eventpath", str(place / "event.json")),
            *("--directory", str(self.folder / "repository")),
            *("--workflows", f".github/workflows/{workflow}"),
            *("--action-cache-path", str(self.folder / "cache"), "--no-cache-server"),
            *("--pull=false", "--container-daemon-socket", "-", "--rm"),
            "--container-options",
            # `tail`, which holds a job's container, heeds no signal: ten seconds a job otherwise.
            f"--volume {artifacts}:/artifacts --volume {self.wheels}:/wheels:ro --stop-timeout 1",
            *("--secret", f"GITHUB_TOKEN={token}", "--env", f"STEP_MS={step_ms}"),
            *("--env", "PIP_NO_INDEX=1", "--env", "PIP_FIND_LINKS=/wheels"),
            *("--env", "CI_SCORE_WAIT=0"),
        ]
        for label in ("self-hosted", "gpu", "ubuntu-latest"):
            command += ["--platform", f"{label}={JOB_IMAGE}"]
        for name, local in self._local_actions(workflow).items():
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

    def _local_actions(self, workflow: str) -> dict[str, Path]:
        """What a workflow and the gate use, and what stands in; act itself does the checkout."""
        workflows = self.folder / "repository" / ".github" / "workflows"
        files = (workflows / workflow, PROJECT / "gate" / "action.yml")
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        used = re.findall(r"uses: ([\w-]+)/([\w-]+)(?:/[\w-]+)*@(\S+)", text)
        return {
            f"{owner}/{name}@{ref}": self.folder / name if name == "ci-score" else HERE / name
            for owner, name, ref in used
            if name != "checkout"
        }


@dataclass
class Story:
    """What happens one after the other, and what of it came out wrong."""

    github: LoopbackGitHub
    runner: Runner
    wrong: list[str] = field(default_factory=list)

    def tell(self) -> None:
        """The branch, and a pull request of a fork."""
        state = self.github.state
        repository = state.repository("team/model")
        state.token(TOKEN)
        state.token(FORK_TOKEN, permissions=FORK_PERMISSIONS)
        gate = f".github/workflows/{GATE}"
        state.commit(repository, "main", files={gate: "name: performance\n"})
        push = events.push(self.github, repository, path=gate)
        self.measured("the branch's first run leaves its record", push, "100", 0, "First run")

        fork = state.fork(repository, "stranger/model")
        state.commit(fork, "patch")
        pull = state.pull_request(repository, "patch", head_repository=fork, author="stranger")
        event = self.event(pull)
        self.measured("a fork's run is judged", event, "140", 1, "40 % slower", FORK_TOKEN)
        posting = events.workflow_run(
            self.github, event.run, path=f".github/workflows/{FORK_COMMENT}"
        )
        code, artifacts = self.runner.run(FORK_COMMENT, posting)
        pages = len([*artifacts.glob("*.html")])
        made = f"exit {code}, pages: {pages}"
        self.hold((code, pages) == (0, 1), "the other workflow makes its page", made, posting)
        page = f"]({posting.environment['GITHUB_SERVER_URL']}/{repository.full_name}/actions/runs/"
        self.commented("the fork has its comment, with that page", pull, "40 % slower", page)

    def event(self, pull: PullRequest) -> Event:
        """The pull request was pushed to."""
        return events.pull_request(self.github, pull, path=f".github/workflows/{GATE}")

    def measured(
        self, what: str, event: Event, step_ms: str, code: int, says: str, token: str = TOKEN
    ) -> None:
        """A run of the gate ends with that code, after it has uploaded a record that says so."""
        found, artifacts = self.runner.run(GATE, event, token, step_ms)
        event.run.status, event.run.conclusion = "completed", "failure" if found else "success"
        for folder in (place for place in artifacts.iterdir() if place.is_dir()):
            kept = (file for file in folder.rglob("*") if file.is_file())
            files = {str(file.relative_to(folder)): file.read_bytes() for file in kept}
            self.github.state.artifact(event.run, folder.name, files)
        name = "ci-score" if event.name == "push" else "ci-score-pr"
        report = artifacts / name / "report.md"
        headline = report.read_text("utf-8").splitlines()[0] if report.exists() else "no report"
        pages = len([*artifacts.glob("*.html")])
        fits = found == code and says in headline and pages == 1
        self.hold(fits, what, f"exit {found}, {headline}, pages: {pages}", event)

    def commented(self, what: str, pull: PullRequest, *says: str) -> None:
        """The pull request has exactly one comment, and that is what it says."""
        texts = self.github.state.said_in(pull)
        fits = len(texts) == 1 and all(words in texts[0] for words in says)
        self.hold(fits, what, f"{len(texts)} comments")

    def hold(self, fits: bool, what: str, found: str, event: Event | None = None) -> None:
        """Prints what was found, and all that act said where it is not what was wanted."""
        if not fits:
            self.wrong.append(what)
            say(self.runner.log(event) if event else "")
        say(f"{'ok   ' if fits else 'WRONG'} {what}: {found}")


def write_new(file: Path, text: str) -> None:
    """Writes a file into a folder that may not be there yet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def environment() -> dict[str, str]:
    """Of this machine act sees no more than it needs to find podman."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST")}


def say(text: str) -> None:
    """Prints at once: the story takes a minute."""
    print(text, flush=True)  # noqa: T201 - what a CI step finds is printed


def main() -> None:
    """Tells the story and fails where it went otherwise."""
    act, image, wheels = sys.argv[1:]
    # Root in the containers leaves files that we may not be able to remove.
    kept = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with kept as folder, LoopbackGitHub(State()) as github:
        runner = Runner(act, image, Path(wheels), Path(folder))
        runner.prepare()
        story = Story(github, runner)
        story.tell()
        composites.tell(story, runner)
        if contract.description_path() is not None:
            story.wrong += [str(row) for row in contract.violations(github.exchanges)]
        else:
            say(f"no {contract.DESCRIPTION} here: requests are not held to it")
    sys.exit("\n".join(story.wrong) or 0)


if __name__ == "__main__":
    main()
