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


def environment() -> dict[str, str]:
    """Of this machine act sees no more than it needs to find podman."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST")}


def story(github: LoopbackGitHub, runner: Runner) -> list[str]:
    """Each run of the story; what did not come out as it should."""
    state = github.state
    repository = state.repository("team/model")
    state.commit(repository, "main")
    state.token(TOKEN)
    path = f".github/workflows/{EXAMPLE.name}"
    wrong: list[str] = []

    def act(what: str, event: Event, step_ms: str, code: int, name: str, headline: str) -> None:
        found, artifacts = runner.run(event, step_ms)
        record = artifacts / name / "ci-score.json"
        said = json.loads(record.read_text("utf-8"))["cases"] if record.exists() else []
        text = (record.parent / "report.md").read_text("utf-8") if record.exists() else "no record"
        seen = f"exit {found}, {len(said)} cases: {text.splitlines()[0][:90]}"
        fits = found == code and headline in text
        print(f"{'ok   ' if fits else 'WRONG'} {what}: {seen}", flush=True)
        if not fits:
            wrong.append(what)
            print(runner.log(event))
        for folder in artifacts.iterdir():
            files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
            state.artifact(event.run, folder.name, files)
        event.run.status, event.run.conclusion = "completed", "failure" if found else "success"

    act(
        "the first run of the branch leaves its record",
        events.push(github, repository, path=path), "100", 0, "ci-score", "first run",
    )  # fmt: skip
    state.commit(repository, "faster")
    pull = state.pull_request(repository, "faster")
    for what, step_ms, code, headline in (
        ("a harmless pull request passes", "101", 0, "Pass"),
        ("a slower one fails after its record is uploaded", "140", 1, "Fail"),
        ("a crashed measurement is no pass", "crash", 1, "nothing measured"),
    ):
        event = events.pull_request(github, pull, path=path)
        act(what, event, step_ms, code, "ci-score-pr", headline)
    comments = [row for row in state.comments if row.number == pull.number]
    print(f"comments: {len(comments)}, requests: {len(github.exchanges)}")
    if len(comments) != 1:
        wrong.append("one comment")
    if contract.description_path() is not None:
        wrong += [str(row) for row in contract.violations(github.exchanges)]
    return wrong


def main() -> None:
    """Tells the story and fails where it went otherwise."""
    act, image = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, LoopbackGitHub(State()) as github:
        runner = Runner(act, image, Path(folder))
        runner.prepare()
        sys.exit("\n".join(story(github, runner)) or 0)


if __name__ == "__main__":
    main()
