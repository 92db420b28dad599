"""What this GitHub knows: plain records, and a builder with one small method for each.

Times are ISO strings. The builder's clock starts at `start` and moves a minute with every
record, so that a story told in order also has its dates in order.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
import time
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.loopback_github import history

START = "2026-01-05T09:00:00Z"
RETENTION = timedelta(days=90)
ACTIONS_BOT = "github-actions[bot]"
WORKFLOW = ".github/workflows/performance.yml"

# What a workflow's `permissions:` block gives the GITHUB_TOKEN of a gate job, and of a fork's.
GATE_PERMISSIONS = {
    "actions": "read",
    "checks": "write",
    "contents": "read",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
FORK_PERMISSIONS = dict.fromkeys(GATE_PERMISSIONS, "read")


@dataclass
class Account:
    """A user, a bot or an organization."""

    id: int
    login: str
    type: str = "User"


@dataclass
class Repository:
    """A repository; the forks of one share its `network`, and so its commits."""

    id: int
    full_name: str
    network: str
    private: bool = True
    default_branch: str = "main"
    created_at: str = START
    deleted: bool = False
    branches: dict[str, str] = field(default_factory=dict)
    collaborators: dict[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """The login before the slash."""
        return self.full_name.split("/")[0]

    @property
    def name(self) -> str:
        """The name behind the slash."""
        return self.full_name.split("/")[1]

    @property
    def is_fork(self) -> bool:
        """Whether its network began elsewhere."""
        return self.network != self.full_name


@dataclass
class Commit:
    """A commit; the order of its parents is the one git keeps, and `files` its whole tree."""

    sha: str
    network: str
    parents: list[str]
    message: str
    author: str
    committed_at: str
    files: dict[str, str] = field(default_factory=dict)


@dataclass
class Issue:
    """An issue. A pull request is one too and has its number from the same row."""

    id: int
    repository: str
    number: int
    title: str
    author: str
    created_at: str
    body: str = ""
    state: str = "open"
    closed_at: str | None = None


@dataclass
class PullRequest:
    """A pull request; `base_sha` is the base when it was opened and goes stale, as GitHub's does.

    `merge_commit_sha` is the test merge while it is open, and the merge once it is merged.
    """

    id: int
    repository: str
    number: int
    title: str
    author: str
    base_ref: str
    base_sha: str
    head_owner: str
    head_repository: str | None
    head_ref: str
    head_sha: str
    merge_commit_sha: str
    created_at: str
    state: str = "open"
    draft: bool = False
    merged_at: str | None = None


@dataclass
class WorkflowRun:
    """One attempt of a run; attempts of a run share its id."""

    id: int
    repository: str
    run_number: int
    run_attempt: int
    event: str
    path: str
    head_branch: str | None
    head_sha: str
    head_repository: str | None
    head_repository_id: int
    status: str
    conclusion: str | None
    actor: str
    created_at: str
    workflow_id: int
    pull_requests: list[int] = field(default_factory=list)
    started_at: str = ""


@dataclass
class Job:
    """A job of a run's attempt."""

    id: int
    run_id: int
    run_attempt: int
    name: str
    status: str
    conclusion: str | None
    started_at: str
    completed_at: str | None = None


@dataclass
class Artifact:
    """An uploaded artifact; `content` is what the blob host serves, a zip or not."""

    id: int
    repository: str
    run_id: int
    run_attempt: int
    name: str
    content: bytes
    digest: str | None
    created_at: str
    updated_at: str
    expires_at: str
    head_repository_id: int
    head_branch: str | None
    head_sha: str
    expired: bool = False


@dataclass
class Comment:
    """A comment on an issue or a pull request."""

    id: int
    repository: str
    issue_number: int
    author: str
    body: str
    created_at: str
    updated_at: str
    via_app: bool = False


@dataclass
class CheckRun:
    """A check run, with the fields of its creation as the API takes them."""

    id: int
    repository: str
    head_sha: str
    name: str
    status: str
    started_at: str
    conclusion: str | None = None
    completed_at: str | None = None
    details_url: str | None = None
    external_id: str | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Token:
    """A credential: an installation's (GITHUB_TOKEN is one) or a user's own."""

    value: str
    login: str
    kind: str = "installation"
    permissions: dict[str, str] = field(default_factory=dict)


@dataclass
class RateLimit:
    """The primary limit; without `reset_at` it is always an hour away."""

    limit: int = 1000
    used: int = 0
    reset_at: int | None = None

    def numbers(self) -> dict[str, int]:
        """The limit in the four numbers of the body and of the headers."""
        used = min(self.used, self.limit)
        return {
            "limit": self.limit,
            "used": used,
            "remaining": self.limit - used,
            "reset": self.reset_at or int(time.time()) + 3600,
        }


# The lists of a state and what they hold, which is also the form of its JSON file.
RECORDS: dict[str, type[Any]] = {
    "accounts": Account,
    "repositories": Repository,
    "commits": Commit,
    "issues": Issue,
    "pull_requests": PullRequest,
    "runs": WorkflowRun,
    "jobs": Job,
    "artifacts": Artifact,
    "comments": Comment,
    "check_runs": CheckRun,
    "tokens": Token,
}


class State:
    """Everything there is, with the methods that tell its story."""

    def __init__(self, start: str = START) -> None:
        """Begin with nothing but the accounts that GitHub itself has."""
        self.lock = threading.RLock()
        self.now = start
        self.last_id = 1000
        self.accounts: list[Account] = []
        self.repositories: list[Repository] = []
        self.commits: list[Commit] = []
        self.issues: list[Issue] = []
        self.pull_requests: list[PullRequest] = []
        self.runs: list[WorkflowRun] = []
        self.jobs: list[Job] = []
        self.artifacts: list[Artifact] = []
        self.comments: list[Comment] = []
        self.check_runs: list[CheckRun] = []
        self.tokens: list[Token] = []
        self.rate_limit = RateLimit()
        # Pull request -> the reviews of it, as a Gitea lists them.
        self.reviews: dict[int, list[dict[str, Any]]] = {}
        # GitHub promises no order of artifacts: turn this on to catch who relies on one.
        self.artifacts_oldest_first = False

    # The clock and the numbers.

    def tick(self) -> str:
        """Move the clock a minute and tell the time."""
        self.now = later(self.now, timedelta(minutes=1))
        return self.now

    def new_id(self) -> int:
        """An id that nothing else has."""
        self.last_id += 1
        return self.last_id

    # Who there is.

    def account(self, login: str, type: str = "") -> Account:  # noqa: A002 - GitHub's word
        """The account of that login, made where it is new."""
        known = next((one for one in self.accounts if one.login == login), None)
        if known:
            return known
        kind = type or ("Bot" if login.endswith("[bot]") else "User")
        made = Account(self.new_id(), login, kind)
        self.accounts.append(made)
        return made

    def token(
        self,
        value: str,
        *,
        login: str = ACTIONS_BOT,
        kind: str = "installation",
        permissions: Mapping[str, str] | None = None,
    ) -> Token:
        """A valid token; by default GITHUB_TOKEN with the rights of a gate job."""
        self.account(login)
        rights = dict(GATE_PERMISSIONS if permissions is None else permissions)
        made = Token(value, login, kind, rights)
        self.tokens.append(made)
        return made

    def revoke(self, token: Token) -> None:
        """Make a token invalid: what carries it gets 401 from now on."""
        self.tokens.remove(token)

    # Repositories and their history.

    def repository(
        self, full_name: str, *, private: bool = True, default_branch: str = "main"
    ) -> Repository:
        """A repository without commits; its owner is an organization."""
        owner = self.account(full_name.split("/")[0], "Organization")
        return self._add_repository(owner, full_name, full_name, default_branch, private=private)

    def fork(self, parent: Repository, full_name: str) -> Repository:
        """A user's fork, with the branches that the parent has now."""
        owner = self.account(full_name.split("/")[0])
        made = self._add_repository(
            owner, full_name, parent.network, parent.default_branch, private=parent.private
        )
        made.branches = dict(parent.branches)
        return made

    def _add_repository(
        self, owner: Account, full_name: str, network: str, branch: str, *, private: bool
    ) -> Repository:
        name = full_name.removeprefix(f"{owner.login}/")
        if not name or "/" in name:
            raise ValueError(f"a repository is named owner/name, not {full_name!r}")
        made = Repository(self.new_id(), full_name, network, private, branch, self.tick())
        self.repositories.append(made)
        return made

    def delete_repository(self, repository: Repository) -> None:
        """Delete a fork: runs and pull requests from it lose their head repository."""
        repository.deleted = True
        for run in self.runs:
            if run.head_repository == repository.full_name:
                run.head_repository = None
        for pull in self.pull_requests:
            if pull.head_repository == repository.full_name:
                pull.head_repository = None

    def find_repository(self, full_name: str) -> Repository | None:
        """A repository by its name, in any case as on GitHub; None where there is none."""
        wanted = full_name.lower()
        return next(
            (
                one
                for one in self.repositories
                if one.full_name.lower() == wanted and not one.deleted
            ),
            None,
        )

    def repository_named(self, full_name: str) -> Repository:
        """A repository that must be there."""
        found = self.find_repository(full_name)
        if found is None:
            raise LookupError(f"no repository {full_name}")
        return found

    def graph(self, repository: Repository) -> dict[str, Commit]:
        """The commits of a repository's network by SHA."""
        return {one.sha: one for one in self.commits if one.network == repository.network}

    def commit(
        self,
        repository: Repository,
        branch: str | None = None,
        *,
        message: str = "",
        parents: Sequence[str] | None = None,
        author: str = "developer",
        at: str | None = None,
        files: Mapping[str, str | None] | None = None,
    ) -> Commit:
        """A commit on a branch, by default upon its tip (upon the default branch's for a new one).

        `files` are those that it changes, with None for one that it deletes. Pull requests from
        that branch move with it, as after a push.
        """
        if parents is None:
            tip = repository.branches.get(branch or "") or repository.branches.get(
                repository.default_branch
            )
            parents = [tip] if tip else []
        made = self._add_commit(repository, list(parents), message, author, at)
        changed = {**made.files, **(files or {})}
        made.files = {path: text for path, text in changed.items() if text is not None}
        if branch:
            repository.branches[branch] = made.sha
            self._move_pull_requests(repository, branch, made.sha)
        return made

    def _add_commit(
        self,
        repository: Repository,
        parents: list[str],
        message: str,
        author: str,
        at: str | None = None,
    ) -> Commit:
        self.account(author)
        text = message or f"Change {len(self.commits) + 1}"
        when = at or self.tick()
        identity = "\n".join([repository.network, *parents, text, when, str(len(self.commits))])
        # usedforsecurity: an SHA-1 because git's are, not because anybody relies on it
        sha = hashlib.sha1(identity.encode(), usedforsecurity=False).hexdigest()
        files = self._merged_files(repository, parents)
        made = Commit(sha, repository.network, parents, text, author, when, files)
        self.commits.append(made)
        return made

    def _merged_files(self, repository: Repository, parents: Sequence[str]) -> dict[str, str]:
        """The first parent's tree, with what the others changed since they left it."""
        graph = self.graph(repository)
        trees = [graph[sha].files for sha in parents]
        merged = dict(trees[0]) if trees else {}
        for sha, tree in zip(parents[1:], trees[1:], strict=True):
            if tree == merged:
                continue
            shared = history.merge_base(graph, parents[0], sha)
            before = graph[shared].files if shared else {}
            for path in before.keys() | tree.keys():
                if tree.get(path) == before.get(path):
                    continue
                if path in tree:
                    merged[path] = tree[path]
                else:
                    merged.pop(path, None)
        return merged

    def resolve(self, repository: Repository, ref: str) -> str | None:
        """The SHA behind a branch, a `heads/…` or `pull/N/merge` ref, or a (shortened) SHA."""
        plain = ref.removeprefix("refs/")
        branch = repository.branches.get(plain.removeprefix("heads/"))
        if branch:
            return branch
        for pull in self.pull_requests:
            if pull.repository == repository.full_name:
                heads = {"head": pull.head_sha, "merge": pull.merge_commit_sha}
                for name, sha in heads.items():
                    if plain == f"pull/{pull.number}/{name}":
                        return sha
        if len(ref) < 7:  # git's shortest abbreviation
            return None
        return next((sha for sha in self.graph(repository) if sha.startswith(ref)), None)

    # Issues, pull requests and their comments.

    def issue(self, repository: Repository, title: str, *, author: str = "developer") -> Issue:
        """An open issue with the next number."""
        self.account(author)
        number = 1 + sum(one.repository == repository.full_name for one in self.issues)
        made = Issue(
            self.new_id(), repository.full_name, number, title, author, created_at=self.tick()
        )
        self.issues.append(made)
        return made

    def pull_request(
        self,
        repository: Repository,
        head_ref: str,
        *,
        head_repository: Repository | None = None,
        base_ref: str | None = None,
        author: str = "developer",
        title: str = "Make training faster",
        draft: bool = False,
    ) -> PullRequest:
        """An open pull request from a branch of the repository, or of `head_repository`, a fork."""
        source = head_repository or repository
        base = base_ref or repository.default_branch
        issue = self.issue(repository, title, author=author)
        made = PullRequest(
            id=self.new_id(),
            repository=repository.full_name,
            number=issue.number,
            title=title,
            author=author,
            base_ref=base,
            base_sha=repository.branches[base],
            head_owner=source.owner,
            head_repository=source.full_name,
            head_ref=head_ref,
            head_sha=source.branches[head_ref],
            merge_commit_sha="",
            created_at=issue.created_at,
            draft=draft,
        )
        self.pull_requests.append(made)
        self.test_merge(made)
        return made

    def test_merge(self, pull: PullRequest) -> Commit:
        """Make the test merge anew, upon the base branch as it is now."""
        repository = self.repository_named(pull.repository)
        base = repository.branches[pull.base_ref]
        text = f"Merge {pull.head_sha} into {base}"
        made = self._add_commit(repository, [base, pull.head_sha], text, pull.author)
        pull.merge_commit_sha = made.sha
        return made

    def merge(self, pull: PullRequest) -> Commit:
        """Merge a pull request with a merge commit."""
        repository = self.repository_named(pull.repository)
        parents = [repository.branches[pull.base_ref], pull.head_sha]
        text = f"Merge pull request #{pull.number}"
        made = self.commit(repository, pull.base_ref, message=text, parents=parents)
        pull.merge_commit_sha, pull.merged_at = made.sha, made.committed_at
        self.close(pull)
        return made

    def close(self, pull: PullRequest) -> None:
        """Close a pull request, and the issue that it is."""
        pull.state = "closed"
        for issue in self.issues:
            if (issue.repository, issue.number) == (pull.repository, pull.number):
                issue.state, issue.closed_at = "closed", self.tick()

    def _move_pull_requests(self, repository: Repository, branch: str, sha: str) -> None:
        for pull in self.pull_requests:
            from_here = (pull.head_repository, pull.head_ref) == (repository.full_name, branch)
            if from_here and pull.state == "open":
                pull.head_sha = sha
                self.test_merge(pull)

    def find_pull_request(self, repository: Repository, number: int) -> PullRequest | None:
        """A pull request by its number."""
        wanted = (repository.full_name, number)
        return next(
            (one for one in self.pull_requests if (one.repository, one.number) == wanted), None
        )

    def said_in(self, pull: PullRequest) -> list[str]:
        """The comments of a pull request, the oldest first."""
        place = (pull.repository, pull.number)
        return [one.body for one in self.comments if (one.repository, one.issue_number) == place]

    def comment(
        self, repository: Repository, number: int, body: str, *, author: str = ACTIONS_BOT
    ) -> Comment:
        """A comment on an issue or a pull request."""
        self.account(author)
        now = self.tick()
        made = Comment(self.new_id(), repository.full_name, number, author, body, now, now)
        self.comments.append(made)
        return made

    # Runs and what they leave.

    def run(
        self,
        repository: Repository,
        *,
        event: str = "push",
        path: str = WORKFLOW,
        head_branch: str | None = None,
        head_sha: str | None = None,
        head_repository: Repository | None = None,
        status: str = "completed",
        conclusion: str | None = "success",
        actor: str = "developer",
        pull_requests: Sequence[int] = (),
        at: str | None = None,
    ) -> WorkflowRun:
        """The first attempt of a run; by default of a push to the default branch's tip."""
        source = head_repository or repository
        branch = head_branch or source.default_branch
        self.account(actor)
        made = WorkflowRun(
            id=self.new_id(),
            repository=repository.full_name,
            run_number=self._next_run_number(repository, path),
            run_attempt=1,
            event=event,
            path=path,
            head_branch=branch,
            head_sha=head_sha or source.branches[branch],
            head_repository=source.full_name,
            head_repository_id=source.id,
            status=status,
            conclusion=conclusion if status == "completed" else None,
            actor=actor,
            created_at=at or self.tick(),
            workflow_id=self._workflow_id(path),
            pull_requests=list(pull_requests),
        )
        made.started_at = made.created_at
        self.runs.append(made)
        return made

    def _workflow_id(self, path: str) -> int:
        """Runs of one file are runs of one workflow, however their path is written."""
        file = path.split("@")[0].rsplit("/", 1)[-1]
        return zlib.crc32(file.encode())

    def _next_run_number(self, repository: Repository, path: str) -> int:
        mine = (repository.full_name, self._workflow_id(path))
        return 1 + len({one.id for one in self.runs if (one.repository, one.workflow_id) == mine})

    def rerun(
        self, run: WorkflowRun, *, status: str = "completed", conclusion: str | None = "success"
    ) -> WorkflowRun:
        """The next attempt of a run: same id, number and commit, and made when the run was."""
        changes: dict[str, Any] = {
            "run_attempt": 1 + max(one.run_attempt for one in self.runs if one.id == run.id),
            "status": status,
            "conclusion": conclusion if status == "completed" else None,
            "started_at": self.tick(),
        }
        made = replace(run, **changes)
        self.runs.append(made)
        return made

    def job(self, run: WorkflowRun, name: str, *, conclusion: str | None = "success") -> Job:
        """A job of a run's attempt; without a conclusion it is still running."""
        status = "completed" if conclusion else "in_progress"
        now = self.tick()
        ended = now if conclusion else None
        made = Job(self.new_id(), run.id, run.run_attempt, name, status, conclusion, now, ended)
        self.jobs.append(made)
        return made

    def artifact(
        self,
        run: WorkflowRun,
        name: str,
        content: bytes | Mapping[str, str | bytes],
        *,
        digest: str | None = "auto",
        expired: bool = False,
        at: str | None = None,
    ) -> Artifact:
        """An artifact of a run: the files of a zip, or bytes to be served as they are."""
        if any(
            (one.run_id, one.run_attempt, one.name) == (run.id, run.run_attempt, name)
            for one in self.artifacts
        ):
            raise ValueError(f"409: an attempt can have one artifact named {name!r}")
        data = content if isinstance(content, bytes) else zipped(content)
        now = at or self.tick()
        made = Artifact(
            id=self.new_id(),
            repository=run.repository,
            run_id=run.id,
            run_attempt=run.run_attempt,
            name=name,
            content=data,
            digest=f"sha256:{hashlib.sha256(data).hexdigest()}" if digest == "auto" else digest,
            created_at=now,
            updated_at=now,
            expires_at=later(now, RETENTION),
            head_repository_id=run.head_repository_id,
            head_branch=run.head_branch,
            head_sha=run.head_sha,
            expired=expired,
        )
        self.artifacts.append(made)
        return made

    def uploaded(
        self,
        run: WorkflowRun,
        name: str,
        content: bytes | Mapping[str, str | bytes],
        job: str = "gate",
    ) -> Artifact:
        """An artifact that a job of the attempt has left, which ends then."""
        left_by = self.job(run, job)
        made = self.artifact(run, name, content)
        left_by.completed_at = self.tick()
        return made

    def check_run(self, repository: Repository, head_sha: str, name: str) -> CheckRun:
        """A check run that has just been queued."""
        made = CheckRun(self.new_id(), repository.full_name, head_sha, name, "queued", self.tick())
        self.check_runs.append(made)
        return made

    # The file form.

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON, for a server in another process."""
        lists = {name: [_to_row(record) for record in getattr(self, name)] for name in RECORDS}
        return {
            "now": self.now,
            "last_id": self.last_id,
            "rate_limit": asdict(self.rate_limit),
            "artifacts_oldest_first": self.artifacts_oldest_first,
            **lists,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> State:
        """The state that `to_json` wrote."""
        state = cls(data["now"])
        state.last_id = data["last_id"]
        state.rate_limit = RateLimit(**data["rate_limit"])
        state.artifacts_oldest_first = data["artifacts_oldest_first"]
        for name, record in RECORDS.items():
            getattr(state, name).extend(record(**_from_row(row)) for row in data[name])
        return state

    def save(self, path: Path) -> None:
        """Write the state's file."""
        path.write_text(json.dumps(self.to_json(), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> State:
        """Read a state's file."""
        return cls.from_json(json.loads(path.read_text(encoding="utf-8")))


def later(moment: str, by: timedelta) -> str:
    """An ISO time, moved."""
    moved = datetime.fromisoformat(moment) + by
    return moved.isoformat().replace("+00:00", "Z")


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """A zip of the files, the same bytes every time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def commits_of(state: State, pull: PullRequest) -> list[Commit]:
    """The commits that a pull request adds to its base, newest first."""
    graph = state.graph(state.repository_named(pull.repository))
    known = history.ancestors(graph, pull.base_sha)
    return [one for one in history.log(graph, pull.head_sha) if one.sha not in known]


def _to_row(record: Any) -> dict[str, Any]:
    row = asdict(record)
    if "content" in row:
        row["content"] = base64.b64encode(row["content"]).decode()
    return row


def _from_row(row: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(row)
    if "content" in values:
        values["content"] = base64.b64decode(values["content"])
    return values
