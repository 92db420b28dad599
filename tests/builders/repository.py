"""A real git repository, for tests of what is checked out of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.builders import write

AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "somebody"), ("EMAIL", "somebody@example.com"))
}


class Repository:
    """A repository whose branch `main` has a script, and whose checkout is one commit further."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder.parent / "cache"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder.parent),
            "XDG_CACHE_HOME": str(self.cache),
            **AUTHOR,
        }
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("train.py", "first")
        self.git("checkout", "--quiet", "-b", "change")
        self.commit("train.py", "second")

    def git(self, *words: str) -> str:
        """What git prints in the checkout."""
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=self.environment, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self, name: str, text: str) -> None:
        """Commits a file, and says in its message what it holds."""
        write(self.folder / name, text)
        self.git("add", "--force", name)
        self.git("commit", "--quiet", "--message", text)

    def worktrees(self) -> list[str]:
        """What git knows beside the checkout itself."""
        return self.git("worktree", "list").splitlines()[1:]
