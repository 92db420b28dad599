"""examples/gitea.yml on a real Gitea: `tests.forge TOOL JOB_IMAGE IMAGE WHEELS [PART…]`.

What it finds is printed as `ok` or `WRONG`. The server, the repositories and the logs stay in a
folder of the machine's for temporary files.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forge import approvals, stand_ins
from tests.forge.example import BEFORE, long_form, released, short_form
from tests.forge.server import STRANGER, Clone, Gitea, NotInTimeError, kept_awake

HERE = Path(__file__).parent
WORKFLOW = ".gitea/workflows/performance.yml"
POLICY = ".github/ci-score.toml"
FIVE_PERCENT = 'schema = 1\nrules = "training"\n'
TRAIN = (HERE / "train.py").read_text(encoding="utf-8")


@dataclass
class Story:
    """What happens one after the other, and what of it came out wrong."""

    gitea: Gitea
    image: str
    folder: Path
    wrong: list[str] = field(default_factory=list)

    def tell(self, chosen: Iterable[Callable[[Story], None]]) -> None:
        """Our action as a release has it, and then each part."""
        self.gitea.user(STRANGER)
        for name in ("ci-score", "team"):
            self.gitea.organisation(name)
        ours = Clone(self.folder / "ci-score", self.gitea.address("ci-score/ci-score"))
        self.gitea.repository("ci-score/ci-score")
        ours.begin("main")
        ours.commit(released(self.image), "as released")
        ours.push("main")
        ours.push("v0", "tags")
        with ThreadPoolExecutor(2) as two:
            list(two.map(self._told, chosen))

    def _told(self, part: Callable[[Story], None]) -> None:
        try:
            part(self)
        except NotInTimeError as error:
            self.hold(False, part.__name__, str(error))

    def hold(self, fits: bool, what: str, found: str, log: Callable[[], str] = str) -> None:
        """Prints what was found, and where its log is, if that is not what was wanted."""
        if not fits:
            self.wrong.append(what)
            path = self.folder / f"log-{len(self.wrong)}.txt"
            path.write_text(log(), encoding="utf-8")
            found += f" (log: {path})"
        say(f"{'ok   ' if fits else 'WRONG'} {what}: {found}")


@dataclass(frozen=True)
class Pull:
    """A pull request, and the commit at its head."""

    number: int
    sha: str


class Team:
    """A repository with the example's workflow."""

    def __init__(self, story: Story, name: str, text: str, branch: str = "main") -> None:
        """Its branch trains already, and has its first run when the workflow comes."""
        self.story, self.gitea, self.name, self.branch = story, story.gitea, name, branch
        self.gitea.repository(name, branch)
        self.clone = Clone(story.folder / name.replace("/", "-"), self.gitea.address(name))
        self.clone.begin(branch)
        self.clone.commit({"train.py": TRAIN, "step_ms": "100"}, "a model")
        self.text = text

    def push(self, files: dict[str, str], message: str) -> str:
        """A commit on the branch."""
        sha = self.clone.commit({WORKFLOW: self.text, **files}, message)
        self.clone.push(self.branch)
        return sha

    def pull(self, branch: str, files: dict[str, str]) -> Pull:
        """A pull request of a branch with that change."""
        self.clone.git("checkout", "--quiet", "-B", branch, self.branch)
        sha = self.clone.commit(files, branch)
        self.clone.push(branch)
        self.clone.git("checkout", "--quiet", self.branch)
        return self.opened(sha, branch)

    def opened(self, sha: str, head: str, user: str = "owner") -> Pull:
        """A pull request whose branch was pushed already."""
        body = {"title": head, "head": head, "base": self.branch}
        path = f"/repos/{self.name}/pulls"
        # The server learns of a pushed branch a little after the push.
        made = self.gitea.in_time(lambda: self.gitea.api("POST", path, body, user))
        return Pull(made["number"], sha)

    def judged(
        self, what: str, sha: str, event: str, code: int, *says: str, after: str = ""
    ) -> Any:
        """The run of that commit ends so, and leaves a record whose report says so."""
        run = self.gitea.ended(self.name, sha, event, after)
        files = self.gitea.artifacts(self.name, run["id"])
        name = "ci-score" if event == "push" else "ci-score-pr"
        left = files.get(name, {})
        report = left.get("report.md", b"no report\n").decode()
        text = report + left.get("ci-score.json", b"").decode().replace(" ", "")
        found = {"success": 0, "failure": 1}.get(run["conclusion"], -1)
        fits = found == code and all(words in text for words in says)
        told = f"{run['conclusion']}, {report.splitlines()[0]}"
        self.story.hold(fits, what, told, lambda: self.gitea.log(self.name, run["id"]) + report)
        return run

    def pairs(self, run: Any) -> int:
        """How many pairs the report of a run rests on."""
        report = self.gitea.artifacts(self.name, run["id"]).get("ci-score-pr", {})
        found = re.search(rb"(\d+) pairs", report.get("report.md", b""))
        return int(found[1]) if found else 0

    def commented(self, what: str, pull: Pull, says: str) -> None:
        """The pull request has one comment, which says so and leads to the page."""
        path = f"/repos/{self.name}/issues/{pull.number}/comments"
        texts = [row["body"] for row in self.gitea.api("GET", path)]
        page = next((word for word in "".join(texts).split("(") if word.startswith("http")), "")
        there = page.split(")")[0].partition("#")[0].removeprefix(self.gitea.url)
        status = self.gitea.status_of(there) if there else 0
        fits = len(texts) == 1 and says in texts[0] and status == 200
        self.story.hold(fits, what, f"{len(texts)} comments, page {there}: {status}")


def composites(story: Story) -> None:
    """The README's workflow: three steps of ours."""
    team = Team(story, "team/short", short_form(story.image))
    sha = team.push({POLICY: FIVE_PERCENT}, "measured from now on")
    team.judged("short: the branch leaves its record", sha, "push", 0, "pairs")
    slow = team.pull("slow", {"step_ms": "108"})
    same = team.pull("same", {"note": "nothing"})
    team.judged("short: 8 % fails beyond 5 %", slow.sha, "pull_request", 1, "8 % slower")
    team.commented("short: its comment leads to its page", slow, "8 % slower")
    run = team.judged("short: unchanged passes beside it", same.sha, "pull_request", 0, "pairs")
    pairs = team.pairs(run)
    story.gitea.api("POST", f"/repos/{team.name}/actions/runs/{run['id']}/rerun")
    again = ("short: attempt 2 adds its pairs", same.sha, "pull_request", 0, f"{2 * pairs} pairs")
    team.judged(*again, after=run["completed_at"])


def legs(story: Story) -> None:
    """The README's workflow with a matrix, on a branch that is called `master`."""
    team = Team(story, "team/legs", short_form(story.image, matrix=("small", "large")), "master")
    sha = team.push({}, "measured from now on")
    team.judged("short: a matrix on master", sha, "push", 0, "small", "large")
    failed = team.pull("failed", {"step_ms.large": "crash"})
    team.judged("short: a failed leg is no pass", failed.sha, "pull_request", 1, "failed")


def adopting(story: Story) -> None:
    """The first commit of all has no base, and the case is a new one, in either form."""
    for form, text in (("long", long_form(story.image)), ("short", short_form(story.image))):
        team = Team(story, f"team/first-{form}", text)
        team.clone.git("update-ref", "-d", "HEAD")
        sha = team.push({}, "the first commit of all")
        what = f"{form}: without a base the case is new"
        team.judged(what, sha, "push", 0, "New case")


def like_real_ones(story: Story) -> None:
    """What `.ci/act` has in place of GitHub's artifact actions does what they do."""
    gitea, name = story.gitea, story.gitea.repository("team/stand-ins")
    clone = Clone(story.folder / "stand-ins", gitea.address(name))
    clone.begin("main")
    sha = clone.commit(stand_ins.files(), "compared")
    clone.push("main")
    run = gitea.ended(name, sha, "push")
    what = "the stand-ins leave the files that upload v6 and v7, download v7 and v8 leave"
    log = gitea.log(name, run["id"])
    story.hold(run["conclusion"] == "success", what, run["conclusion"], lambda: log)


def side_by_side(story: Story) -> None:
    """The example as it stands: head and base in turns."""
    team = Team(story, "team/model", long_form(story.image))
    sha = team.push({}, "measured from now on")
    team.judged("the branch leaves its record", sha, "push", 0, "ci-score")
    slow = team.pull("slow", {"step_ms": "126"})
    same = team.pull("same", {"note": "nothing"})
    team.judged("a slower pull request fails", slow.sha, "pull_request", 1, "26 % slower")
    run = team.judged("an unchanged one passes beside it", same.sha, "pull_request", 0, "6 pairs")
    team.commented("the slower one has its comment", slow, "26 % slower")
    story.gitea.api("POST", f"/repos/{team.name}/actions/runs/{run['id']}/rerun")
    again = ("attempt 2 adds its pairs", same.sha, "pull_request", 0, "12 pairs")
    team.judged(*again, after=run["completed_at"])
    team.commented("and has the same comment", same, "12 pairs")


def from_fork(story: Story) -> None:
    """A stranger's branch is called like ours; somebody approves its run, and starts it again."""
    gitea = story.gitea
    team = Team(story, "team/forked", long_form(story.image))
    team.push({}, "measured from now on")
    fork = f"{STRANGER}/forked"
    gitea.api("POST", f"/repos/{team.name}/forks", {}, STRANGER)
    clone = Clone(story.folder / "fork", gitea.address(fork, STRANGER))
    clone.begin(team.branch)
    clone.git("pull", "--quiet", clone.address, team.branch)
    sha = clone.commit({"step_ms": "126"}, "a stranger's")
    clone.push(team.branch)
    pull = team.opened(sha, f"{STRANGER}:{team.branch}", STRANGER)
    gitea.approve(team.name, sha)
    first = gitea.ended(team.name, sha, "pull_request")
    gitea.api("POST", f"/repos/{team.name}/actions/runs/{first['id']}/rerun")
    again = ("a fork's is judged", sha, "pull_request", 1, "26 % slower")
    team.judged(*again, after=first["completed_at"])
    team.commented("and comments itself", pull, "26 % slower")


def on_master(story: Story) -> None:
    """Another default branch, a limit of the team's own, and the artifact actions of before."""
    team = Team(story, "team/master", long_form(story.image, versions=BEFORE), "master")
    sha = team.push({POLICY: FIVE_PERCENT}, "measured from now on")
    team.judged("a branch called master leaves its record", sha, "push", 0)
    slow = team.pull("slow", {"step_ms": "108"})
    crash = team.pull("crash", {"step_ms": "crash"})
    team.judged("8 % fails beyond 5 %", slow.sha, "pull_request", 1, "8 % slower")
    team.judged("a crash is no pass", crash.sha, "pull_request", 1, "failed")


def alone(story: Story) -> None:
    """Runs of one side, compared with the branch's records: those of others are not believed."""
    team = Team(story, "team/alone", long_form(story.image, alone=True))
    sha = team.push({}, "measured from now on")
    team.judged("a first run passes", sha, "push", 0, "First run")
    slow = team.pull("slow", {"step_ms": "126"})
    team.judged(
        "a run 26 % slower than the record fails",
        slow.sha,
        "pull_request",
        1,
        "26 % slower",
        '"commits_away":0',
    )
    forged = long_form(story.image, alone=True).replace(
        "name: ${{ steps.judge.outputs.record-artifact }}", "name: ci-score"
    )
    fake = team.pull("fake", {WORKFLOW: forged, "step_ms": "200"})
    team.judged("one that calls its record the branch's fails, too", fake.sha, "pull_request", 1)
    late = team.pull("late", {"step_ms": "126"})
    team.judged("and is no baseline", late.sha, "pull_request", 1, "26 % slower")


def approved(story: Story) -> None:
    """Who accepts a regression by which words."""
    heard = approvals.heard(story.gitea, story.folder)
    what = "of what is said only a writer's approval accepts, as it was written"
    story.hold(heard == approvals.wanted(), what, f"{len(heard)} sentences", lambda: repr(heard))


# The longest first: two are told at a time, as the runner has room for two jobs.
PARTS = (
    composites,
    legs,
    side_by_side,
    alone,
    on_master,
    from_fork,
    adopting,
    approved,
    like_real_ones,
)


def say(text: str) -> None:
    """Prints at once: the story takes minutes."""
    print(text, flush=True)  # noqa: T201 - what a CI step finds is printed


def main() -> None:
    """Tells the story and fails where it went otherwise."""
    tool, job_image, image, wheels, *names = sys.argv[1:]
    chosen = [part for part in PARTS if not names or part.__name__ in names]
    folder = Path(tempfile.mkdtemp(prefix="ci-score-forge-"))
    say(f"in {folder}")
    # The server itself is others' load.
    os.environ |= {"PIP_FIND_LINKS": wheels, "PIP_NO_INDEX": "1", "CI_SCORE_WAIT": "0"}
    with kept_awake(os.environ["DOCKER_HOST"]):
        gitea = Gitea.up(Path(tool), folder / "server", job_image)
        story = Story(gitea, image, folder)
        try:
            story.tell(chosen)
        finally:
            gitea.down(Path(tool))
    sys.exit("\n".join(story.wrong) or 0)


if __name__ == "__main__":
    main()
