"""A real Gitea on this machine, used by git, its API, and its pages where it has no API."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import threading
import time
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

Json = Any
OWNER, STRANGER = "owner", "stranger"
PATIENCE = 600.0
_RUNNING = ("queued", "waiting", "running", "in_progress", "pending", "blocked", "requested")


class NotInTimeError(RuntimeError):
    """A run did not come, or did not end."""


@dataclass(frozen=True, slots=True)
class Gitea:
    """The server; everything is done by its owner unless another user is named."""

    url: str
    token: str
    password: str
    folder: Path

    @classmethod
    def up(cls, tool: Path, folder: Path, image: str) -> Gitea:
        """Starts it, with jobs of `ubuntu-latest` in containers of that image."""
        done = subprocess.run(
            ["python3", str(tool), "up", str(folder), image],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        told = json.loads(done.stdout)
        return cls(told["url"], told["token"], told["password"], folder)

    def down(self, tool: Path) -> None:
        """Stops it."""
        subprocess.run(["python3", str(tool), "down", str(self.folder)], check=False)

    def api(self, method: str, path: str, body: Json = None, user: str = OWNER) -> Json:
        """One answer of its API."""
        answer = self._ask(method, f"/api/v1{path}", body, user)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def status_of(self, path: str) -> int:
        """Only whether it has a page."""
        return self._ask("GET", path).status_code

    def zip(self, repository: str, artifact: int) -> dict[str, bytes]:
        """The files of an artifact; one that is no zip is its only file."""
        answer = self._ask("GET", f"/api/v1/repos/{repository}/actions/artifacts/{artifact}/zip")
        answer.raise_for_status()
        if not zipfile.is_zipfile(io.BytesIO(answer.content)):
            return {"": answer.content}
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def _ask(
        self, method: str, path: str, body: Json = None, user: str = OWNER
    ) -> requests.Response:
        mine = {"Authorization": f"token {self.token}"} if user == OWNER else None
        login = None if user == OWNER else (user, self.password)
        return requests.request(
            method, self.url + path, json=body, headers=mine, auth=login, timeout=60
        )

    # --- repositories ---------------------------------------------------------------------------

    def user(self, name: str) -> None:
        """Somebody without any right."""
        self.api(
            "POST",
            "/admin/users",
            {
                "username": name,
                "email": f"{name}@example.org",
                "password": self.password,
                "must_change_password": False,
            },
        )

    def organisation(self, name: str) -> None:
        """Whom repositories belong to."""
        self.api("POST", "/orgs", {"username": name})

    def repository(self, name: str, branch: str = "main") -> str:
        """A new repository of an organisation."""
        owner, short = name.split("/")
        self.api("POST", f"/orgs/{owner}/repos", {"name": short, "default_branch": branch})
        return name

    def address(self, repository: str, user: str = OWNER) -> str:
        """Where git pushes to."""
        secret = urllib.parse.quote(self.token if user == OWNER else self.password)
        return f"{self.url.replace('://', f'://{user}:{secret}@')}/{repository}.git"

    def in_time(self, ask: Callable[[], Json]) -> Json:
        """The answer to a question that comes too early at first."""
        for _ in range(20):
            try:
                return ask()
            except requests.HTTPError:
                time.sleep(0.5)
        return ask()

    # --- runs -----------------------------------------------------------------------------------

    def runs(self, repository: str) -> list[Json]:
        """Its runs, the newest first."""
        rows = self.api("GET", f"/repos/{repository}/actions/runs?limit=50")["workflow_runs"]
        return sorted(rows or [], key=lambda row: -row["id"])

    def ended(self, repository: str, sha: str, event: str, after: str = "") -> Json:
        """The run of that commit and event when its jobs have ended, and later than `after`."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for run in self.runs(repository):
                if (run["head_sha"], run["event"]) != (sha, event) or run["status"] in _RUNNING:
                    continue
                # Of a new pull request there may be two, and the later one ends the other.
                if run.get("conclusion") == "cancelled":
                    continue
                # A run is called failed before its last job has begun.
                jobs = self.jobs(repository, run["id"])
                if (
                    all(job["status"] == "completed" for job in jobs)
                    and str(run["completed_at"]) > after
                ):
                    return run
            time.sleep(0.5)
        raise NotInTimeError(f"no run of {event} at {sha[:12]} in {repository} has ended")

    def jobs(self, repository: str, run: int) -> list[Json]:
        """The jobs of a run."""
        rows: list[Json] = self.api("GET", f"/repos/{repository}/actions/runs/{run}/jobs")["jobs"]
        return rows

    def log(self, repository: str, run: int) -> str:
        """What its jobs printed."""
        texts = []
        for job in self.jobs(repository, run):
            path = f"/api/v1/repos/{repository}/actions/jobs/{job['id']}/logs"
            texts.append(f"--- {job['name']}: {job.get('conclusion')}")
            texts.append(self._ask("GET", path).text)
        return "\n".join(texts)

    def artifacts(self, repository: str, run: int) -> dict[str, dict[str, bytes]]:
        """The files of each artifact of a run."""
        path = f"/repos/{repository}/actions/runs/{run}/artifacts?limit=50"
        rows = self.api("GET", path)["artifacts"] or []
        return {row["name"]: self.zip(repository, row["id"]) for row in rows}

    def approve(self, repository: str, sha: str) -> None:
        """Lets the runs of a stranger's commit start; only a page of the site can."""
        with requests.Session() as session:
            login = {"user_name": OWNER, "password": self.password}
            for path, form in (
                ("/user/login", login),
                (f"/{repository}/actions/approve-all-checks?commit_id={sha}", {}),
            ):
                session.post(
                    self.url + path, form, headers={"Origin": self.url}, timeout=60
                ).raise_for_status()


@contextmanager
def kept_awake(docker_host: str) -> Iterator[None]:
    """Asks the containers' service now and then: it leaves when nobody does."""
    over = threading.Event()

    def ask() -> None:
        while not over.wait(3):
            with socket.socket(socket.AF_UNIX) as service:
                service.connect(docker_host.removeprefix("unix://"))
                service.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                service.recv(4096)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


@dataclass(frozen=True, slots=True)
class Clone:
    """A working copy, of whoever pushes from it."""

    folder: Path
    address: str

    def git(self, *arguments: str) -> str:
        """Runs git in it."""
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "somebody"), ("EMAIL", "somebody@example.org"))
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **who},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def begin(self, branch: str) -> None:
        """An empty repository with that branch."""
        self.folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch", branch)
        self.git("remote", "add", "origin", self.address)

    def commit(self, files: dict[str, str], message: str) -> str:
        """Commits those files, and gives the commit."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def push(self, name: str, kind: str = "heads") -> None:
        """Pushes HEAD as the branch, or as one of the `tags`, of that name."""
        self.git("push", "--quiet", "--force", self.address, f"HEAD:refs/{kind}/{name}")
