"""examples/gitea.yml as a team would use it, on a real Gitea: `tests.forge TOOL JOB_IMAGE IMAGE WHEELS`.

What it finds is printed as `ok` or `WRONG`; its artifacts stay in a folder under /tmp.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forge.server import OWNER, STRANGER, Clone, Gitea

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
WORKFLOW = ".gitea/workflows/performance.yml"
# The example's lines that somebody changes; everything else is used as it stands.
CHANGED = (
    ('--setup "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt"',
     "--looks {looks} --no-profile"),
    ("-- python train.py", "-- python3 train.py"),
)  # fmt: skip
# The kit's copies of actions have tags, but not the commits of GitHub's.
TAGS = (re.compile(r"(uses: actions/checkout)@[0-9a-f]{40} # v6\S*"), r"\1@v6")


@dataclass
class Story:
    """What happens one after the other, and what of it came out wrong."""

    gitea: Gitea
    image: str
    folder: Path
    wrong: list[str] = field(default_factory=list)

    def tell(self) -> None:
        """A branch, its pull requests, and a fork's."""
        self._our_action()
        self.gitea.user(STRANGER)
        team = Team(self, "team/model", "main")
        team.push("the branch's first run has nothing before it", "100", 0, says="")

    # --- what they need -------------------------------------------------------------------------

    def _our_action(self) -> None:
        """Our repository on this server, as a release has it: naming an image."""
        self.gitea.repository("ci-score/ci-score")
        ours = Clone(self.folder / "ci-score", self.gitea.address("ci-score/ci-score"))
        ours.begin("main")
        action = (PROJECT / "action.yml").read_text(encoding="utf-8")
        released = action.replace("image: Dockerfile", f"image: docker://localhost/{self.image}")
        ours.commit({"action.yml": released}, "as released")
        ours.push("main")
        ours.git("tag", "v0")
        ours.git("push", "--quiet", ours.address, "v0")

    def hold(self, fits: bool, what: str, found: str, log: str = "") -> None:
        """Prints what was found, and the run's log where it is not what was wanted."""
        if not fits:
            self.wrong.append(what)
            path = self.folder / f"log-{len(self.wrong)}.txt"
            path.write_text(log, encoding="utf-8")
            found += f" (log: {path})"
        say(f"{'ok   ' if fits else 'WRONG'} {what}: {found}")


class Team:
    """A repository with the example's workflow."""

    def __init__(self, story: Story, name: str, branch: str, looks: str = "6") -> None:
        self.story, self.gitea, self.name, self.branch = story, story.gitea, name, branch
        self.gitea.repository(name, branch)
        self.clone = Clone(story.folder / name.replace("/", "-"), self.gitea.address(name))
        self.clone.begin(branch)
        self.clone.commit({"README.md": "a model"}, "before anything is measured")
        self.files = {
            WORKFLOW: workflow(looks),
            "train.py": (HERE / "train.py").read_text(encoding="utf-8"),
        }

    def push(self, what: str, step_ms: str, code: int, says: str) -> str:
        """A commit on the branch, and its run."""
        sha = self.clone.commit({**self.files, "step_ms": step_ms}, what)
        self.clone.push(self.branch)
        self.judged(what, sha, "push", code, says, "ci-score")
        return sha

    def judged(self, what: str, sha: str, event: str, code: int, says: str, name: str) -> Any:
        """The run of that commit ends so, and leaves a record that says so."""
        run = self.gitea.ended(self.name, sha, event)
        log = self.gitea.log(self.name, run["id"])
        files = self.gitea.artifacts(self.name, run["id"]).get(name, {})
        report = files.get("report.md", b"no report\n").decode()
        headline = report.splitlines()[0]
        found = {"success": 0, "failure": 1}.get(run["conclusion"], -1)
        fits = found == code and says in headline
        self.story.hold(fits, what, f"{run['conclusion']}, {headline}", log + "\n" + report)
        return run


def workflow(looks: str) -> str:
    """The example with the lines changed that a user changes."""
    text = (PROJECT / "examples" / "gitea.yml").read_text(encoding="utf-8")
    for old, new in CHANGED:
        assert text.count(old) == 1, old
        text = text.replace(old, new.format(looks=looks))
    pattern, tag = TAGS
    text, replaced = pattern.subn(tag, text)
    assert replaced, pattern.pattern
    return text


def say(text: str) -> None:
    """Prints at once: the story takes minutes."""
    print(text, flush=True)  # noqa: T201 - what a CI step finds is printed


def main() -> None:
    """Tells the story and fails where it went otherwise."""
    tool, job_image, image, wheels = sys.argv[1:]
    folder = Path(tempfile.mkdtemp(prefix="ci-score-forge-"))
    say(f"in {folder}")
    os.environ |= {"PIP_FIND_LINKS": wheels, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    gitea = Gitea.up(Path(tool), folder / "server", job_image)
    try:
        story = Story(gitea, image, folder)
        story.tell()
    finally:
        gitea.down(Path(tool))
    sys.exit("\n".join(story.wrong) or 0)


if __name__ == "__main__":
    main()
