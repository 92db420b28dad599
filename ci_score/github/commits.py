"""Where a commit stands: what comes before it, what it changes, and which pull requests it heads.

A run is compared along the first-parent line from the base that was tested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from ci_score.errors import (
    BadInputError,
    GitHubDownError,
    GitHubError,
    NoPermissionError,
    NotThereError,
)
from ci_score.files.unified_diff import MOST_BYTES, code_diff_of
from ci_score.github import gitea
from ci_score.github.api import Api, as_expected
from ci_score.github.contents import file_at
from ci_score.github.event import Event, Kind, ProducerRun, PullRequest, pull_of
from ci_score.model.code_diff import NO_DIFF, CodeDiff, CodeState
from ci_score.model.environment import MeasuredCode
from ci_score.model.reasons import Reason, Why

MOST_PAGES = 20
LARGEST_WORKFLOW = 1024 * 1024
DIFF = "application/vnd.github.diff"
# A run has other things to ask, and its cases nearly always have one pair of commits.
MOST_DIFFS = 4
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(slots=True)
class BaseLine:
    """The base that a run has tested, and the commits before it along first parents.

    Nothing is asked for before it is needed, and nothing twice.
    """

    api: Api
    event: Event
    head_is_checked_out: bool = False
    _parents: dict[str, list[str]] = field(default_factory=dict)
    _pages: int = 0
    _base: str | None = None

    def base(self) -> str | None:
        """The commit that the run is compared with; None before the first commit."""
        if self._base is None:
            self._base = self._found_base()
        return self._base

    def measured_base(self) -> str | None:
        """The commit that a session is to measure against; None before the first commit.

        It is the base, except on a push to another branch: the measurement is of what was pushed,
        but the rules come from where that branch began. A branch must not loosen its own gate.
        """
        if self.event.name == "push":
            return self._base_of_push()
        base = self.base()
        # The newest commit of the default branch itself, as in a release, has left it nowhere.
        return self._first_parent() if base == self.event.sha else base

    def walk(self) -> Iterator[str]:
        """The base and its ancestors along first parents."""
        sha = self.base()
        while sha is not None:
            yield sha
            if sha not in self._parents and self.is_read_through:
                return
            sha = next(iter(self.parents_of(sha)), None)

    @property
    def is_read_through(self) -> bool:
        """Whether as much of the history was read as may be."""
        return self._pages >= MOST_PAGES

    def parents_of(self, sha: str) -> list[str]:
        """A commit's parents.

        The history lists side branches too, so a commit that is not on a page begins a page of its
        own: a merge may have brought any number of commits.
        """
        if sha not in self._parents:
            self._pages += 1
            path = f"/repos/{self.event.repository}/commits"
            with as_expected():
                for commit in self.api.get(path, sha=sha, **self.api.page_size):
                    parents = [str(parent["sha"]) for parent in commit["parents"]]
                    self._parents[str(commit["sha"])] = parents
        if sha not in self._parents:
            raise NotThereError(f"no history of {sha[:12]}")
        return self._parents[sha]

    def merges_nothing(self, merge: str, head: str) -> bool:
        """Whether a test merge is known to have head's own files: head has its other parent."""
        parents = self._parents.get(merge, [])
        if len(parents) != 2 or parents[1] != head:
            return False
        seen, waiting = {head}, [head]
        while waiting:
            new = set(self._parents.get(waiting.pop(), [])) - seen
            seen |= new
            waiting += new
        return parents[0] in seen

    def file_at(self, sha: str, path: str, limit: int) -> bytes | None:
        """A file at a commit; None where it is sure that the commit has no such file."""
        try:
            return file_at(self.api, self.event.repository, path, sha, limit)
        except NotThereError:
            # GitHub also says so of what a token may not read, and then has no history for it.
            self.parents_of(sha)
            return None

    def _found_base(self) -> str | None:
        event = self.event
        if event.kind is Kind.MERGE_GROUP:
            return event.merge_base
        if event.kind is Kind.OTHER_BRANCH and event.tracked_branch:
            return self._merge_base(event.tracked_branch, event.sha)
        if event.name == "push":
            return self._base_of_push()
        if event.pull is None:
            return self._first_parent()
        if event.merge_base and event.sha == event.pull.head_sha:
            return event.merge_base
        return self._base_of_merge(event.pull) or self._merge_base(
            event.pull.base_ref, event.pull.head_sha
        )

    def _base_of_push(self) -> str | None:
        """Where the branch stood before the push, unless that was forced or made the branch.

        The page with the head's parents lists most often that commit, too: all on it are ancestors.
        """
        first, before, head = self._first_parent(), self.event.before, self.event.sha
        if before is None or before in (first, head):
            return first
        return before if before in self._parents or self._is_ancestor(before, head) else first

    def _first_parent(self) -> str | None:
        return next(iter(self.parents_of(self.event.sha)), None)

    def _base_of_merge(self, pull: PullRequest) -> str | None:
        """The first parent of the test merge, because `pull_request.base.sha` goes stale.

        None where the head itself was tested. For another run it is the pull request's own test
        merge: one that its record names may be the author's, onto a commit with a weaker policy.
        """
        merge = pull.merge_sha if self.event.kind is Kind.POSTING else self.event.sha
        if merge is None or self.head_is_checked_out:
            return None
        parents = self._parents_if_known(merge)
        return parents[0] if len(parents) == 2 and parents[1] == pull.head_sha else None

    def _parents_if_known(self, sha: str) -> list[str]:
        try:
            return self.parents_of(sha)
        except (GitHubDownError, NoPermissionError):
            raise
        except GitHubError:
            return []

    def _is_ancestor(self, sha: str, of: str) -> bool:
        try:
            return self._merge_base(of, sha) == sha
        except NotThereError:
            return False  # it is gone, or they have no commit in common

    def _merge_base(self, base: str, head: str) -> str:
        """Where head left base."""
        if self.api.is_gitea:
            return gitea.merge_base(self.api, self.event.repository, base, head)
        compared = f"/repos/{self.event.repository}/compare/{quote(base)}...{head}"
        with as_expected():
            return str(self.api.get(compared, per_page=1)["merge_base_commit"]["sha"])


@dataclass(frozen=True, slots=True)
class ComparedCommits:
    """The commits that a run compares: head, or its test merge, and the base that was tested."""

    line: BaseLine
    _known: dict[MeasuredCode, Reason | None] = field(default_factory=dict)

    def why_other(self, code: MeasuredCode) -> Reason | None:
        """Why a session did not measure them; nothing is said of another repository's commits."""
        if code not in self._known:
            self._known[code] = self._why_other(code)
        return self._known[code]

    def _why_other(self, code: MeasuredCode) -> Reason | None:
        tested: str | None = None
        try:
            tested = self.line.base()
            if self._has_head(code.head) and self._has_base(code.head, code.base):
                return None
        except NotThereError:
            return None
        except GitHubError:
            pass  # what cannot be looked up is not known to be compared
        return code.instead_of(self.line.event.sha, tested)

    def _has_head(self, head: str | None) -> bool:
        """Whether it is the run's commit, its pull request's, or a newer test merge of that."""
        event = self.line.event
        pull = event.pull.head_sha if event.pull else None
        return head in (None, event.sha, pull) or pull in self._parents_of(str(head))

    def _has_base(self, head: str | None, base: str | None) -> bool:
        bases = self._bases_of(head)
        # The first one is known already.
        if base is None or base == next(bases, None):
            return True
        self._parents_of(base)
        return base in bases

    def _bases_of(self, head: str | None) -> Iterator[str | None]:
        line, event = self.line, self.line.event
        if event.pull and head == event.pull.head_sha != event.sha:
            # Head itself, and not its merge, was measured: from where it left the base.
            if line.merges_nothing(event.sha, head):
                yield line.base()
            yield replace(line, head_is_checked_out=True, _base=None).base()
        elif head in (None, event.sha):
            yield line.base()
            yield line.measured_base()
        else:
            yield from self._parents_of(str(head))[:1]

    def _parents_of(self, commit: str) -> list[str]:
        """Its parents; NotThereError where the repository has no such commit."""
        if self.line.is_read_through:
            raise GitHubDownError("too many commits to look up")
        return self.line.parents_of(commit)


# --- what a change does -------------------------------------------------------------------------


@dataclass(slots=True)
class Differences:
    """The diffs of a repository's commits; nothing is asked for twice.

    GitHub compares head with the commit where it left base. Where base comes before head, as on the
    test merge of a pull request, that is base itself. `tracked` knows the files of a commit where
    it is checked out.
    """

    line: BaseLine
    tracked: Callable[[str], frozenset[str]] = lambda _commit: frozenset()
    _known: dict[tuple[str, str], CodeDiff] = field(default_factory=dict)
    _is_down: bool = False

    def between(self, base: CodeState, head: CodeState) -> CodeDiff:
        """The diff, or why there is none. A commit may be a stranger's word: any text."""
        pair = base.commit, head.commit
        if not all(map(_COMMIT.fullmatch, pair)):
            return CodeDiff(state="not found")
        if base.commit == head.commit or self.line.merges_nothing(head.commit, base.commit):
            return CodeDiff(tracked=self.tracked(head.commit))
        if pair not in self._known:
            if len(self._known) == MOST_DIFFS:
                return NO_DIFF
            if self._is_down:
                return CodeDiff(state="not found")
            self._known[pair] = self._asked(*pair)
        return self._known[pair]

    def _asked(self, base: str, head: str) -> CodeDiff:
        api, event = self.line.api, self.line.event
        path: str | None = f"/repos/{event.repository}/compare/{base}...{head}"
        try:
            if api.is_gitea:
                first = next(iter(self.line.parents_of(head)), None)
                path = gitea.diff_path(event, base, head, first_parent=first)
            if path is None:
                return NO_DIFF
            data = api.of_kind(gitea.DIFF if api.is_gitea else DIFF, path, MOST_BYTES)
        except GitHubError as error:
            self._is_down = isinstance(error, GitHubDownError)
            return CodeDiff(state="not found")
        tracked = self.tracked(head)
        if data is None:
            return CodeDiff(state="too large", tracked=tracked)
        return code_diff_of(data, tracked)


# --- pull requests ------------------------------------------------------------------------------


def is_ours(api: Api, event: Event, producer: ProducerRun) -> bool:
    """Whether the tracked branch has the workflow of another run.

    A workflow_run waits for a name, and a fork may bring any number of workflows that are called
    so: without records of their own each would look like a first run.
    """
    try:
        file_at(api, event.repository, producer.workflow, event.tracked_branch, LARGEST_WORKFLOW)
    except NotThereError:
        return False
    except BadInputError:
        return True  # too large to be read, and there
    return True


def pulls_of_producer(api: Api, event: Event, producer: ProducerRun) -> list[PullRequest]:
    """The open pull requests whose head is the very commit that another run has measured.

    They are found by their head, never by a number in an artifact: a stranger wrote that.
    `workflow_run.pull_requests` is empty for forks.
    """
    if producer.head_owner is None:
        return []
    head = f"{producer.head_owner}:{producer.head_branch}"
    return _to_tracked_first(_open_pulls(api, event.repository, head, producer.head_sha), event)


def pull_of_branch(api: Api, event: Event) -> PullRequest | None:
    """The open pull request of a branch that was pushed to, if its head is this run's commit.

    Of several the one to the tracked branch, with which the commit is compared.
    """
    if event.kind is not Kind.OTHER_BRANCH or not event.branch:
        return None
    head = f"{event.repository.partition('/')[0]}:{event.branch}"
    pulls = _open_pulls(api, event.repository, head, event.sha)
    return next(iter(_to_tracked_first(pulls, event)), None)


def _to_tracked_first(pulls: list[PullRequest], event: Event) -> list[PullRequest]:
    return sorted(pulls, key=lambda pull: (pull.base_ref != event.tracked_branch, pull.number))


def pull_of_number(api: Api, event: Event, number: int) -> PullRequest | Reason:
    """The pull request that an input names, or why it is not that of this run's commit."""
    with as_expected():
        pull = pull_of(api.get(f"/repos/{event.repository}/pulls/{number}"))
    if pull.head_sha != event.sha:
        return Why.PULL_OF_ANOTHER(number=number, head=pull.head_sha[:12], here=event.sha[:12])
    return pull


def _open_pulls(api: Api, repository: str, head: str, sha: str) -> list[PullRequest]:
    """Those of `OWNER:BRANCH` whose head is the commit; a commit's own list misses those of forks.

    One branch may have several, to different bases.
    """
    with as_expected():
        return [
            pull_of(pull)
            for pull in api.pages(f"/repos/{repository}/pulls", head=head, state="open")
            if pull["head"]["sha"] == sha
        ]
