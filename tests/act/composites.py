"""The composite gates, whole, as a team's workflow uses them: with Docker and without."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.act import pairs
from tests.builders import PROJECT
from tests.loopback_github import LoopbackGitHub, events
from tests.loopback_github.events import Event
from tests.loopback_github.state import PullRequest

HERE = Path(__file__).parent
WORKFLOW = "gate.yml"
PATH = f".github/workflows/{WORKFLOW}"
RELEASED = "docker://ghcr.io/ci-score/ci-score:v0"
RUN = "        args: run\n"
PYTHON = "        entrypoint: python3\n        args: >-\n          -c "
# As podman behind Docker's API does it now and then: the runner hears of no failure.
ALONE = 'import subprocess, sys; subprocess.run([sys.executable, *"-I -m ci_score run".split()])'
LOSES_ITS_CODE = (RUN, f"{PYTHON}'{ALONE}'\n")
BREAKS = (RUN, f"{PYTHON}'raise SystemExit'\n")
WITHOUT_A_PRODUCER = ("producer: measure=${{ needs.measure.result }}", "fail-on: critical")
WITHOUT_DOCKER = ("ci-score/gate@", "ci-score/linux@")


class Runner(Protocol):
    """act, and the folder that it works in."""

    @property
    def image(self) -> str:
        """Our image, as a release would name it."""

    @property
    def folder(self) -> Path:
        """Where the repository and the actions are."""

    def run(
        self, workflow: str, event: Event, token: str = ..., step_ms: str = ...
    ) -> tuple[int, Path]:
        """One run of a workflow: its exit code, and the folder of its artifacts."""

    def log(self, event: Event) -> str:
        """What act said of a run."""


class Story(Protocol):
    """What came out, and what of it is wrong."""

    github: LoopbackGitHub

    def hold(self, fits: bool, what: str, found: str, event: Event | None = None) -> None:
        """Prints what was found."""


@dataclass(frozen=True)
class Gate:
    """Runs of a workflow with a composite gate, of which some are broken on purpose."""

    story: Story
    runner: Runner

    def prepare(self, *changes: tuple[str, str]) -> None:
        """The composites as a release has them, but for the image's name, and these changes."""
        ours = self.runner.folder / "ci-score"
        for name in ("gate", "linux"):
            shutil.copytree(PROJECT / name, ours / name, dirs_exist_ok=True)
        shutil.copytree(PROJECT / "ci_score", ours / "ci_score", dirs_exist_ok=True)
        shutil.copy(PROJECT / "requirements.lock", ours)
        repository = self.runner.folder / "repository"
        shutil.copy(HERE / WORKFLOW, repository / PATH)
        shutil.copy(HERE / "pairs.py", repository)
        image = (RELEASED, f"docker://localhost/{self.runner.image}")
        for path in (ours / "gate" / "action.yml", repository / PATH):
            text = path.read_text(encoding="utf-8")
            for before, after in (image, *changes):
                text = text.replace(before, after)
            path.write_text(text, encoding="utf-8")

    def ends(self, what: str, event: Event, step_ms: str, code: int, says: str) -> None:
        """The last step exits with that code, and the record's report says so."""
        _, artifacts = self.runner.run(WORKFLOW, event, step_ms=step_ms)
        last = re.findall(r"End as judged.*\n(?:.*\n)*?.*exitcode '(\d+)'", self.runner.log(event))
        found = int(last[-1]) if last else 0
        event.run.status, event.run.conclusion = "completed", "failure" if found else "success"
        for folder in (one for one in artifacts.iterdir() if one.is_dir()):
            files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
            self.story.github.state.artifact(event.run, folder.name, files)
        outputs = json.loads((artifacts / "outputs.json").read_text(encoding="utf-8"))
        report = artifacts / str(outputs.get("record-artifact") or "none") / "report.md"
        text = report.read_text("utf-8") if report.exists() else "no report"
        fits = found == code and says in text
        if code != 3 or outputs.get("exit-code"):
            fits &= outputs.get("exit-code") == str(code)
        headline = text.partition("\n")[0]
        self.story.hold(fits, what, f"exit {found}, {headline}", event)

    def warned(self, what: str, event: Event, file: str, line: int) -> None:
        """The runner was told of one line, and of that one."""
        told = re.findall(r"::warning file=([^,]*),line=(\d+),", self.runner.log(event))
        self.story.hold(set(told) == {(file, str(line))}, what, f"{told}", event)

    def commented(self, what: str, event: Event, pull: PullRequest, says: str) -> None:
        """The pull request's one comment says that, and leads to the page of this run."""
        texts = self.story.github.state.said_in(pull)
        page = f"[Report]({event.environment['GITHUB_SERVER_URL']}/"
        fits = len(texts) == 1 and says in texts[0] and page in texts[0]
        self.story.hold(fits, what, f"{len(texts)} comments", event)


def tell(story: Story, runner: Runner) -> None:
    """A pull request through the gate, through broken ones, and through the one without Docker."""
    gate, state = Gate(story, runner), story.github.state
    repository = state.repository("team/composed")
    state.commit(repository, "main", files={pairs.FILE: pairs.BASE})
    state.commit(repository, "topic", files={pairs.FILE: pairs.HEAD})
    pull = state.pull_request(repository, "topic")

    def event() -> Event:
        return events.pull_request(story.github, pull, path=PATH)

    gate.prepare()
    gate.ends("the gate passes what is unchanged", event(), "100.5", 0, "✅")
    crashed = event()
    gate.ends("a crashed measurement is no pass", crashed, "crash", 3, "`measure` failed")
    gate.commented("and the same comment says so", crashed, pull, "`measure` failed")

    gate.prepare(LOSES_ITS_CODE)
    lost = event()
    gate.ends("a lost exit code is still red", lost, "140", 1, "40 % slower")
    gate.commented("and its comment leads to the page", lost, pull, "40 % slower")
    gate.warned("and stands at the line that is slower", lost, pairs.FILE, 2)
    gate.prepare(BREAKS)
    gate.ends("a judge that breaks is red", event(), "100", 3, "no report")
    gate.prepare(WITHOUT_A_PRODUCER)
    gate.ends("without a producer it is red", event(), "100", 3, "needs.")

    gate.prepare(WITHOUT_DOCKER)
    last = event()
    gate.ends("without Docker it fails, too", last, "140", 1, "40 % slower")
    gate.commented("with the same comment", last, pull, "40 % slower")
