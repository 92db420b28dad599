"""The JSON that GitHub makes of a record: one function a schema of its description."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.loopback_github import history
from tests.loopback_github.state import ACTIONS_BOT, commits_of

if TYPE_CHECKING:
    from tests.loopback_github.messages import Json
    from tests.loopback_github.state import (
        Account,
        Artifact,
        CheckRun,
        Comment,
        Commit,
        Issue,
        Job,
        PullRequest,
        Repository,
        State,
        WorkflowRun,
    )

LARGEST_SENT = 1024 * 1024
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

# What stands behind a repository's or a user's URL in the fields of that name.
REPOSITORY_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}
USER_LINKS = {
    "events_url": "/events{/privacy}",
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "organizations_url": "/orgs",
    "received_events_url": "/received_events",
    "repos_url": "/repos",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
}
ROLES = {
    "admin": ["admin", "maintain", "push", "triage", "pull"],
    "maintain": ["maintain", "push", "triage", "pull"],
    "write": ["push", "triage", "pull"],
    "triage": ["triage", "pull"],
    "read": ["pull"],
    "none": [],
}


@dataclass(frozen=True)
class Links:
    """Where the API and the pages are, for the URLs in the bodies."""

    api: str
    web: str

    def repository(self, full_name: str) -> str:
        """A repository's URL in the API."""
        return f"{self.api}/repos/{full_name}"


def node_id(kind: str, number: int | str) -> str:
    """An opaque id like those of the GraphQL API."""
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


def user(links: Links, account: Account) -> Json:
    """An account: `simple-user`."""
    url = f"{links.api}/users/{account.login}"
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node_id("User", account.id),
        "avatar_url": f"{links.web}/avatars/{account.id}",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{links.web}/{account.login}",
        **{name: url + rest for name, rest in USER_LINKS.items()},
        "type": account.type,
        "user_view_type": "public",
        "site_admin": False,
    }


def public_user(links: Links, account: Account, created_at: str) -> Json:
    """The account of a user's own token: `public-user`."""
    unsaid = ("name", "company", "blog", "location", "email", "hireable", "bio")
    return {
        **user(links, account),
        **dict.fromkeys(unsaid),
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": created_at,
        "updated_at": created_at,
    }


def collaborator_permission(links: Links, account: Account, role: str) -> Json:
    """What a user may do: GitHub folds five roles into four permissions here."""
    legacy = {"maintain": "write", "triage": "read"}.get(role, role)
    granted = {name: name in ROLES[role] for name in ROLES["admin"]}
    return {
        "permission": legacy,
        "role_name": role,
        "user": {**user(links, account), "permissions": granted, "role_name": role},
    }


def minimal_repository(links: Links, state: State, repository: Repository) -> Json:
    """A repository beside a run: `minimal-repository`."""
    url = links.repository(repository.full_name)
    return {
        "id": repository.id,
        "node_id": node_id("Repository", repository.id),
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
        "owner": user(links, state.account(repository.owner)),
        "html_url": f"{links.web}/{repository.full_name}",
        "description": None,
        "fork": repository.is_fork,
        "url": url,
        **{name: url + rest for name, rest in REPOSITORY_LINKS.items()},
    }


def repository(links: Links, state: State, record: Repository) -> Json:
    """A repository beside a pull request or in an event: `repository`."""
    page = f"{links.web}/{record.full_name}"
    return {
        **minimal_repository(links, state, record),
        "git_url": page.replace("http://", "git://") + ".git",
        "ssh_url": f"git@localhost:{record.full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "homepage": None,
        "language": "Python",
        "license": None,
        "mirror_url": None,
        "default_branch": record.default_branch,
        "visibility": "private" if record.private else "public",
        "created_at": record.created_at,
        "updated_at": record.created_at,
        "pushed_at": record.created_at,
        "topics": [],
        **_counts(state, record),
        **_settings(),
    }


def _counts(state: State, record: Repository) -> Json:
    issues = sum(one.repository == record.full_name and one.state == "open" for one in state.issues)
    forks = sum(one.network == record.full_name and one.is_fork for one in state.repositories)
    return {
        "forks": forks,
        "forks_count": forks,
        "open_issues": issues,
        "open_issues_count": issues,
        "size": 100,
        "stargazers_count": 0,
        "watchers": 0,
        "watchers_count": 0,
    }


def _settings() -> Json:
    return {
        "allow_forking": True,
        "archived": False,
        "disabled": False,
        "has_discussions": False,
        "has_downloads": True,
        "has_issues": True,
        "has_pages": False,
        "has_projects": False,
        "has_wiki": False,
        "is_template": False,
        "web_commit_signoff_required": False,
    }


def full_repository(links: Links, state: State, record: Repository) -> Json:
    """A repository asked for by name: `full-repository`."""
    body = {
        **repository(links, state, record),
        "permissions": {name: name == "pull" for name in ROLES["admin"]},
        "network_count": 0,
        "subscribers_count": 0,
        "organization": user(links, state.account(record.owner)),
    }
    if record.is_fork:
        parent = repository(links, state, state.repository_named(record.network))
        body |= {"parent": parent, "source": parent}
    return body


def commit(links: Links, state: State, repository: Repository, record: Commit) -> Json:
    """A commit of a listing: `commit`."""
    url = f"{links.repository(repository.full_name)}/commits"
    page = f"{links.web}/{repository.full_name}/commit"
    author = state.account(record.author)
    return {
        "sha": record.sha,
        "node_id": node_id("Commit", record.sha),
        "url": f"{url}/{record.sha}",
        "html_url": f"{page}/{record.sha}",
        "comments_url": f"{url}/{record.sha}/comments",
        "commit": _git_part(links, repository, record),
        "author": user(links, author),
        "committer": user(links, author),
        "parents": [
            {"sha": sha, "url": f"{url}/{sha}", "html_url": f"{page}/{sha}"}
            for sha in record.parents
        ],
    }


def _git_part(links: Links, repository: Repository, record: Commit) -> Json:
    git = f"{links.repository(repository.full_name)}/git"
    return {
        "url": f"{git}/commits/{record.sha}",
        "author": _signature(record),
        "committer": _signature(record),
        "message": record.message,
        "comment_count": 0,
        "tree": {"sha": EMPTY_TREE, "url": f"{git}/trees/{EMPTY_TREE}"},
        "verification": _unsigned(),
    }


def _unsigned() -> Json:
    return {
        "verified": False,
        "reason": "unsigned",
        "signature": None,
        "payload": None,
        "verified_at": None,
    }


def _signature(record: Commit) -> Json:
    return {**_git_user(record), "date": record.committed_at}


def _git_user(record: Commit) -> Json:
    return {"name": record.author, "email": f"{record.author}@users.noreply.localhost"}


def single_commit(links: Links, state: State, repository: Repository, record: Commit) -> Json:
    """A commit asked for by its ref has its files too; these commits change none."""
    return {
        **commit(links, state, repository, record),
        "stats": {"additions": 0, "deletions": 0, "total": 0},
        "files": [],
    }


def content(links: Links, repository: Repository, sha: str, path: str, text: str) -> Json:
    """A file at a commit; a text that begins with `symlink:` or `submodule:` is one of these."""
    kind, colon, target = text.partition(":")
    special = bool(colon) and kind in ("symlink", "submodule")
    url = f"{links.repository(repository.full_name)}/contents/{path}?ref={sha}"
    page = f"{links.web}/{repository.full_name}/blob/{sha}/{path}"
    data = b"" if special else text.encode()
    # Of more than 1 MB GitHub sends no content.
    sent = len(data) <= LARGEST_SENT
    own: dict[str, Json] = {
        "symlink": {"target": target},
        "submodule": {"submodule_git_url": target},
    }
    return {
        "type": kind if special else "file",
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "sha": hashlib.sha1(data, usedforsecurity=False).hexdigest(),
        "size": len(data),
        "url": url,
        "git_url": url,
        "html_url": page,
        "download_url": None if kind == "submodule" else page,
        "_links": {"self": url, "git": url, "html": page},
        **(
            own[kind]
            if special
            else {
                "encoding": "base64" if sent else "none",
                "content": base64.encodebytes(data).decode() if sent else "",
            }
        ),
    }


def git_commit(links: Links, repository: Repository, record: Commit) -> Json:
    """A commit of git's own database: `git-commit`."""
    url = f"{links.repository(repository.full_name)}/git/commits"
    page = f"{links.web}/{repository.full_name}/commit"
    return {
        "sha": record.sha,
        "node_id": node_id("Commit", record.sha),
        "html_url": f"{page}/{record.sha}",
        **_git_part(links, repository, record),
        "parents": [
            {"sha": sha, "url": f"{url}/{sha}", "html_url": f"{page}/{sha}"}
            for sha in record.parents
        ],
    }


def simple_commit(record: Commit) -> Json:
    """A commit inside a run or an event: `simple-commit`."""
    return {
        "id": record.sha,
        "tree_id": EMPTY_TREE,
        "message": record.message,
        "timestamp": record.committed_at,
        "author": _git_user(record),
        "committer": _git_user(record),
    }


def comparison(
    links: Links, state: State, repository: Repository, shas: tuple[str, str], page: list[Commit]
) -> Json:
    """Two commits compared (`commit-comparison`); `page` has the commits to show of it."""
    base, head = shas
    graph = state.graph(repository)
    ahead = len(history.only_in(graph, head, base))
    behind = len(history.only_in(graph, base, head))
    shared = history.merge_base(graph, base, head) or base
    url = f"{links.repository(repository.full_name)}/compare/{base}...{head}"
    html = f"{links.web}/{repository.full_name}/compare/{base}...{head}"
    return {
        "url": url,
        "html_url": html,
        "permalink_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "base_commit": commit(links, state, repository, graph[base]),
        "merge_base_commit": commit(links, state, repository, graph[shared]),
        "status": _direction(ahead, behind),
        "ahead_by": ahead,
        "behind_by": behind,
        "total_commits": ahead,
        "commits": [commit(links, state, repository, one) for one in page],
        "files": [],
    }


def _direction(ahead: int, behind: int) -> str:
    if ahead and behind:
        return "diverged"
    if ahead:
        return "ahead"
    return "behind" if behind else "identical"


def pull_request_simple(links: Links, state: State, record: PullRequest) -> Json:
    """A pull request of a listing: `pull-request-simple`."""
    merged = record.state == "closed"
    return {
        "id": record.id,
        "node_id": node_id("PullRequest", record.id),
        "number": record.number,
        "state": record.state,
        "locked": False,
        "title": record.title,
        "body": None,
        "user": user(links, state.account(record.author)),
        "labels": [],
        "milestone": None,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "created_at": record.created_at,
        "updated_at": record.created_at,
        "closed_at": (record.merged_at or record.created_at) if merged else None,
        "merged_at": record.merged_at,
        "merge_commit_sha": record.merge_commit_sha,
        "head": _head(links, state, record),
        "base": _base(links, state, record),
        "author_association": association(state, record.repository, record.author),
        "auto_merge": None,
        "draft": record.draft,
        **_pull_request_links(links, record),
    }


def _head(links: Links, state: State, record: PullRequest) -> Json:
    source = record.head_repository and state.repository_named(record.head_repository)
    return {
        "label": f"{record.head_owner}:{record.head_ref}",
        "ref": record.head_ref,
        "sha": record.head_sha,
        "user": user(links, state.account(record.head_owner)),
        "repo": repository(links, state, source) if source else None,
    }


def _base(links: Links, state: State, record: PullRequest) -> Json:
    target = state.repository_named(record.repository)
    return {
        "label": f"{target.owner}:{record.base_ref}",
        "ref": record.base_ref,
        "sha": record.base_sha,
        "user": user(links, state.account(target.owner)),
        "repo": repository(links, state, target),
    }


def _pull_request_links(links: Links, record: PullRequest) -> Json:
    root = links.repository(record.repository)
    url = f"{root}/pulls/{record.number}"
    issue_url = f"{root}/issues/{record.number}"
    page = f"{links.web}/{record.repository}/pull/{record.number}"
    urls = {
        "comments": f"{issue_url}/comments",
        "commits": f"{url}/commits",
        "review_comment": f"{root}/pulls/comments{{/number}}",
        "review_comments": f"{url}/comments",
        "statuses": f"{root}/statuses/{record.head_sha}",
    }
    relations = {**urls, "self": url, "html": page, "issue": issue_url}
    return {
        "url": url,
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": issue_url,
        **{f"{name}_url": address for name, address in urls.items()},
        "_links": {name: {"href": address} for name, address in relations.items()},
    }


def pull_request(links: Links, state: State, record: PullRequest) -> Json:
    """A pull request asked for by number, or in an event: `pull-request`."""
    is_open = record.state == "open"
    comments = sum(
        (one.repository, one.issue_number) == (record.repository, record.number)
        for one in state.comments
    )
    return {
        **pull_request_simple(links, state, record),
        "merged": record.merged_at is not None,
        "mergeable": True if is_open else None,
        "rebaseable": True if is_open else None,
        "mergeable_state": "clean" if is_open else "unknown",
        "merged_by": None,
        "comments": comments,
        "review_comments": 0,
        "maintainer_can_modify": False,
        "commits": len(commits_of(state, record)),
        "additions": 0,
        "deletions": 0,
        "changed_files": 0,
    }


def pull_request_minimal(links: Links, state: State, record: PullRequest) -> Json:
    """A pull request inside a run or a check run: `pull-request-minimal`."""
    ends = {"head": record.head_repository, "base": record.repository}
    refs = {"head": record.head_ref, "base": record.base_ref}
    shas = {"head": record.head_sha, "base": record.base_sha}
    body: Json = {
        "id": record.id,
        "number": record.number,
        "url": f"{links.repository(record.repository)}/pulls/{record.number}",
    }
    for end, name in ends.items():
        source = state.repository_named(name or record.repository)
        body[end] = {
            "ref": refs[end],
            "sha": shas[end],
            "repo": {
                "id": source.id,
                "name": source.name,
                "url": links.repository(source.full_name),
            },
        }
    return body


def association(state: State, full_name: str, login: str) -> str:
    """What an author is to the repository."""
    target = state.repository_named(full_name)
    if login == target.owner:
        return "OWNER"
    return "COLLABORATOR" if login in target.collaborators else "NONE"


def run(links: Links, state: State, record: WorkflowRun) -> Json:
    """A run's attempt: `workflow-run`."""
    root = links.repository(record.repository)
    target = state.repository_named(record.repository)
    source = record.head_repository and state.repository_named(record.head_repository)
    head = next((one for one in state.commits if one.sha == record.head_sha), None)
    actor = user(links, state.account(record.actor))
    return {
        "id": record.id,
        "name": workflow_name(record),
        "node_id": node_id("WorkflowRun", record.id),
        "check_suite_id": record.id,
        "check_suite_node_id": node_id("CheckSuite", record.id),
        "head_branch": record.head_branch,
        "head_sha": record.head_sha,
        "path": record.path,
        "display_title": head.message.splitlines()[0] if head else "",
        "run_number": record.run_number,
        "run_attempt": record.run_attempt,
        "event": record.event,
        "status": record.status,
        "conclusion": record.conclusion,
        "workflow_id": record.workflow_id,
        "pull_requests": _pull_requests_of(links, state, record),
        "created_at": record.created_at,
        "updated_at": record.started_at,
        "run_started_at": record.started_at,
        "actor": actor,
        "triggering_actor": actor,
        "referenced_workflows": [],
        "head_commit": simple_commit(head) if head else None,
        "repository": minimal_repository(links, state, target),
        "head_repository": minimal_repository(links, state, source) if source else None,
        **_run_links(root, record),
        "html_url": f"{links.web}/{record.repository}/actions/runs/{record.id}",
    }


def workflow_name(record: WorkflowRun) -> str:
    """The name of a workflow, which here is the word in its file's name."""
    file = record.path.split("@")[0].rsplit("/", 1)[-1]
    return file.rsplit(".", 1)[0]


def _pull_requests_of(links: Links, state: State, record: WorkflowRun) -> list[Json]:
    target = state.repository_named(record.repository)
    found = (state.find_pull_request(target, number) for number in record.pull_requests)
    return [pull_request_minimal(links, state, pull) for pull in found if pull]


def _run_links(root: str, record: WorkflowRun) -> Json:
    url = f"{root}/actions/runs/{record.id}"
    earlier = record.run_attempt - 1
    return {
        "url": url,
        "jobs_url": f"{url}/jobs",
        "logs_url": f"{url}/logs",
        "artifacts_url": f"{url}/artifacts",
        "cancel_url": f"{url}/cancel",
        "rerun_url": f"{url}/rerun",
        "check_suite_url": f"{root}/check-suites/{record.id}",
        "previous_attempt_url": f"{url}/attempts/{earlier}" if earlier else None,
        "workflow_url": f"{root}/actions/workflows/{record.workflow_id}",
    }


def job(links: Links, state: State, record: Job) -> Json:
    """A job of a run, as GitHub's pages show it: the cut of the description has no jobs."""
    owner = next(one for one in state.runs if one.id == record.run_id)
    root = links.repository(owner.repository)
    return {
        "id": record.id,
        "run_id": record.run_id,
        "run_url": f"{root}/actions/runs/{record.run_id}",
        "run_attempt": record.run_attempt,
        "node_id": node_id("CheckRun", record.id),
        "head_sha": owner.head_sha,
        "head_branch": owner.head_branch,
        "url": f"{root}/actions/jobs/{record.id}",
        "html_url": f"{links.web}/{owner.repository}/actions/runs/{owner.id}/job/{record.id}",
        "check_run_url": f"{root}/check-runs/{record.id}",
        "status": record.status,
        "conclusion": record.conclusion,
        "created_at": record.started_at,
        "started_at": record.started_at,
        "completed_at": record.completed_at,
        "name": record.name,
        "workflow_name": workflow_name(owner),
        "steps": [],
        "labels": ["ubuntu-latest"],
        "runner_id": None,
        "runner_name": None,
        "runner_group_id": None,
        "runner_group_name": None,
    }


def artifact(links: Links, state: State, record: Artifact) -> Json:
    """An artifact; note what it does not say: the run's event, workflow and conclusion."""
    url = f"{links.repository(record.repository)}/actions/artifacts/{record.id}"
    return {
        "id": record.id,
        "node_id": node_id("Artifact", record.id),
        "name": record.name,
        "size_in_bytes": len(record.content),
        "url": url,
        "archive_download_url": f"{url}/zip",
        "expired": record.expired,
        "digest": record.digest,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "expires_at": record.expires_at,
        "workflow_run": {
            "id": record.run_id,
            "repository_id": state.repository_named(record.repository).id,
            "head_repository_id": record.head_repository_id,
            "head_branch": record.head_branch,
            "head_sha": record.head_sha,
        },
    }


def comment(links: Links, state: State, record: Comment) -> Json:
    """A comment: `issue-comment`."""
    issues = f"{links.repository(record.repository)}/issues"
    page = f"{links.web}/{record.repository}/issues/{record.issue_number}"
    return {
        "id": record.id,
        "node_id": node_id("IssueComment", record.id),
        "url": f"{issues}/comments/{record.id}",
        "html_url": f"{page}#issuecomment-{record.id}",
        "issue_url": f"{issues}/{record.issue_number}",
        "user": user(links, state.account(record.author)),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "author_association": association(state, record.repository, record.author),
        "body": record.body,
        "performed_via_github_app": actions_app(links, state) if record.via_app else None,
    }


def issue(links: Links, state: State, record: Issue) -> Json:
    """An issue, as GitHub's pages show it: the cut of the description has no issues."""
    url = f"{links.repository(record.repository)}/issues/{record.number}"
    page = f"{links.web}/{record.repository}/issues/{record.number}"
    body: Json = {
        "id": record.id,
        "node_id": node_id("Issue", record.id),
        "url": url,
        "repository_url": links.repository(record.repository),
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": page,
        "number": record.number,
        "state": record.state,
        "title": record.title,
        "body": record.body,
        "user": user(links, state.account(record.author)),
        "labels": [],
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "locked": False,
        "comments": sum(
            (one.repository, one.issue_number) == (record.repository, record.number)
            for one in state.comments
        ),
        "closed_at": record.closed_at,
        "created_at": record.created_at,
        "updated_at": record.created_at,
        "author_association": association(state, record.repository, record.author),
    }
    target = state.repository_named(record.repository)
    pull = state.find_pull_request(target, record.number)
    if pull:
        address = _pull_request_links(links, pull)
        names = ("url", "html_url", "diff_url", "patch_url")
        body["pull_request"] = {name: address[name] for name in names}
    return body


def check_run(links: Links, state: State, record: CheckRun) -> Json:
    """A check run: `check-run`."""
    url = f"{links.repository(record.repository)}/check-runs/{record.id}"
    page = f"{links.web}/{record.repository}/runs/{record.id}"
    pulls = [
        pull_request_minimal(links, state, pull)
        for pull in state.pull_requests
        # of forks GitHub shows none here either
        if pull.head_repository == record.repository and pull.head_sha == record.head_sha
    ]
    return {
        "id": record.id,
        "node_id": node_id("CheckRun", record.id),
        "head_sha": record.head_sha,
        "external_id": record.external_id or "",
        "url": url,
        "html_url": page,
        "details_url": record.details_url or page,
        "name": record.name,
        "status": record.status,
        "conclusion": record.conclusion,
        "started_at": record.started_at,
        "completed_at": record.completed_at,
        "output": {
            "title": record.title,
            "summary": record.summary,
            "text": record.text,
            "annotations_count": len(record.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": record.id},
        "app": actions_app(links, state),
        "pull_requests": pulls,
    }


def actions_app(links: Links, state: State) -> Json:
    """The app behind GITHUB_TOKEN: `integration`."""
    account = state.account(ACTIONS_BOT)
    return {
        "id": account.id,
        "slug": "github-actions",
        "node_id": node_id("Integration", account.id),
        "owner": user(links, account),
        "name": "GitHub Actions",
        "description": "Automate your workflow from idea to production",
        "external_url": f"{links.web}/features/actions",
        "html_url": f"{links.web}/apps/github-actions",
        "created_at": "2018-07-30T09:30:17Z",
        "updated_at": "2018-07-30T09:30:17Z",
        "permissions": {"checks": "write", "metadata": "read"},
        "events": [],
    }
