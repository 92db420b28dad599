"""A real Gitea on this machine, asked as a user would: git, its API, and its pages where it has no API."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

Json = Any
OWNER, STRANGER = "owner", "stranger"
PATIENCE = 300.0
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
        # Our own proxy or index settings are no business of its jobs; what they need is handed on.
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
        data = self._bytes(method, f"{self.url}/api/v1{path}", body, user)
        return json.loads(data or b"null")

    def status_of(self, path: str, user: str = OWNER) -> int:
        """Only whether it has something."""
        try:
            self._bytes("GET", f"{self.url}{path}", None, user)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def zip(self, repository: str, artifact: int) -> dict[str, bytes]:
        """The files of an artifact; one that is no zip is its only file."""
        path = f"/repos/{repository}/actions/artifacts/{artifact}/zip"
        data = self._bytes("GET", f"{self.url}/api/v1{path}", None, OWNER)
        if not zipfile.is_zipfile(io.BytesIO(data)):
            return {"": data}
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def _bytes(self, method: str, url: str, body: Json, user: str) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, method=method)
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", self._authorization(user))
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def _authorization(self, user: str) -> str:
        if user == OWNER:
            return f"token {self.token}"
        return "Basic " + base64.b64encode(f"{user}:{self.password}".encode()).decode()

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

    def repository(self, name: str, branch: str = "main") -> str:
        """A new repository; `team/model` belongs to an organisation of that name."""
        owner, short = name.split("/")
        try:
            self.api("GET", f"/orgs/{owner}")
        except urllib.error.HTTPError:
            self.api("POST", "/orgs", {"username": owner})
        self.api("POST", f"/orgs/{owner}/repos", {"name": short, "default_branch": branch})
        return name

    def address(self, repository: str, user: str = OWNER) -> str:
        """Where git pushes to."""
        secret = urllib.parse.quote(self.token if user == OWNER else self.password)
        return f"{self.url.replace('://', f'://{user}:{secret}@')}/{repository}.git"

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
                # A run is called failed before its last job has begun.
                jobs = self.jobs(repository, run["id"])
                if all(job["status"] == "completed" for job in jobs) and str(run["completed_at"]) > after:
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
            try:
                data = self._bytes("GET", self.url + path, None, OWNER)
            except urllib.error.HTTPError as error:
                data = f"no log: {error.code}".encode()
            texts.append(f"--- {job['name']}: {job.get('conclusion')}\n{data.decode(errors='replace')}")
        return "\n".join(texts)

    def artifacts(self, repository: str, run: int) -> dict[str, dict[str, bytes]]:
        """The files of each artifact of a run."""
        path = f"/repos/{repository}/actions/runs/{run}/artifacts?limit=50"
        rows = self.api("GET", path)["artifacts"] or []
        return {row["name"]: self.zip(repository, row["id"]) for row in rows}

    def page(self, path: str, form: dict[str, str] | None = None) -> bytes:
        """A page of the site for the owner, logged in; with a form it is sent."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        login = {"user_name": OWNER, "password": self.password}
        for where, values in (("/user/login", login), (path, form)):
            data = None if values is None else urllib.parse.urlencode(values).encode()
            request = urllib.request.Request(self.url + where, data)
            request.add_header("Origin", self.url)
            with opener.open(request, timeout=60) as answer:
                text = answer.read()
        return bytes(text)


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

    def push(self, branch: str) -> None:
        """Pushes HEAD as that branch."""
        self.git("push", "--quiet", "--force", self.address, f"HEAD:refs/heads/{branch}")
