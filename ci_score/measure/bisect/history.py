"""The commits of a range: the first-parent line from the good commit to the bad one."""

from __future__ import annotations

from dataclasses import dataclass

from ci_score.errors import WrongUseError
from ci_score.files.visible import plain
from ci_score.measure.sides.checkout import Repository
from ci_score.model.bisected import CommitFound

SHORT = 12
MOST_COMMITS = 4096
LONGEST_SUBJECT, LONGEST_NAME = 200, 100
UNSHALLOW = "run: git fetch --unshallow (in actions/checkout: `fetch-depth: 0`)"


@dataclass(frozen=True, slots=True)
class Line:
    """The commits from GOOD to BAD, both among them, the oldest first.

    `begins_at_merge` says that GOOD came in by a merge, and is not on the line itself.
    """

    commits: tuple[str, ...]
    begins_at_merge: bool = False

    @property
    def good(self) -> str:
        """Where the search begins."""
        return self.commits[0]

    @property
    def bad(self) -> str:
        """Where it ends."""
        return self.commits[-1]


def line_between(repository: Repository, good: str, bad: str) -> Line:
    """The first-parent line between two commits, or an error that teaches."""
    first = repository.commit_of(good, "GOOD")
    last = repository.commit_of(bad, "BAD")
    if first == last:
        raise WrongUseError(f"GOOD and BAD are one commit ({first[:SHORT]}); give two")
    _refuse_unless_ancestor(repository, first, last)
    span = ("rev-list", "--first-parent", "--ancestry-path", f"{first}..{last}")
    count = int(repository.git(*span, "--count"))
    if count > MOST_COMMITS:
        raise WrongUseError(
            f"there are {count} commits from GOOD to BAD, and at most {MOST_COMMITS} can be"
            " searched; give a later GOOD"
        )
    later = repository.git(*span, "--reverse").splitlines()
    parent = repository.says("rev-parse", "--verify", "--quiet", f"{later[0]}^1")
    return Line((first, *later), begins_at_merge=parent != first)


def _refuse_unless_ancestor(repository: Repository, good: str, bad: str) -> None:
    """GOOD must come before BAD, and git must know that it does."""
    common = repository.says("merge-base", good, bad)
    if common == good:
        return
    if repository.is_shallow:
        raise WrongUseError(
            "this clone is shallow, so git does not know whether GOOD comes before BAD;"
            f" {UNSHALLOW}"
        )
    if common == bad:
        raise WrongUseError("GOOD comes after BAD; give the older commit first")
    if not common:
        raise WrongUseError("GOOD and BAD have no commit in common")
    raise WrongUseError(
        f"GOOD ({good[:SHORT]}) is not an ancestor of BAD ({bad[:SHORT]}): their histories part at"
        f" {common[:SHORT]}; if that is good, give it as GOOD"
    )


def described(repository: Repository, sha: str) -> CommitFound:
    """What a commit says of itself, as one visible line each."""
    text = repository.says(
        "show", "--no-patch", "--no-show-signature", "--format=%an%x00%cI%x00%s", sha
    )
    author, date, subject = (*text.split("\0", 2), "", "", "")[:3]
    return CommitFound(
        sha=sha,
        subject=plain(subject, LONGEST_SUBJECT),
        author=plain(author, LONGEST_NAME),
        date=plain(date, 40),
    )
