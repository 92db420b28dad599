"""Sees that head leaves the base's folder alone: else it would be compared with its own work."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from ci_score.measure.sides.command import OF_A_PYTHON
from ci_score.measure.sides.leftovers import TOOLS_OWN, Snapshot, files_in_words, snapshot

ROOT = Path("/")
# What lies there changes with every process.
OF_THE_SYSTEM = tuple(map(Path, ("/proc", "/sys", "/dev", "/run")))


@dataclass(frozen=True, slots=True)
class BaseGuard:
    """Watches the base's folder while head's code runs: every file, whatever it is.

    `without` are places in it which head may change: its own folder, the session's, and an
    environment that both sides run by.
    """

    base: Path
    head: Path
    without: tuple[Path, ...]

    @classmethod
    def against(
        cls,
        base: Path,
        head: Path,
        out: Path,
        environment: Mapping[str, str],
        command: Sequence[str] = (),
    ) -> BaseGuard | None:
        """The guard for a command of head's in its environment; None where there is one folder."""
        if base == head:
            return None
        words = [word for word in command if Path(word).name.startswith(OF_A_PYTHON)]
        found = [which(word, path=environment.get("PATH")) for word in ("python", *words)]
        own = [Path(sys.prefix), *(Path(one).absolute().parent.parent for one in found if one)]
        return cls(base, head, (head, out, *(one for one in own if one not in (base, ROOT))))

    def look(self) -> Snapshot:
        """What lies there now. A compiled module counts: what Python finds in a cache, it runs."""
        return snapshot(self.base, self.without, TOOLS_OWN, self._is_its_own)

    def blind(self, seen: Snapshot) -> str:
        """Why not everything can be watched; empty where it can."""
        if not seen.unseen:
            return ""
        return (
            f"the base's folder cannot be watched while head runs: {seen.unseen}; keep data"
            " elsewhere, or measure a commit, which is checked out"
        )

    def broken(self, before: Snapshot) -> str:
        """Why the base is not what it was, or why nobody knows; empty where it is."""
        now = self.look()
        files = files_in_words(now.changed_since(before))
        if now.unseen:
            files = f"{files or 'something'} ({now.unseen})"
        if not files:
            return ""
        return (
            f"{files} changed in the base's folder while it ran, so that is not the base any more;"
            " restore it, and let no launch write there"
        )

    def _is_its_own(self, link: str) -> bool:
        """Whether a link leads out of the base to what head does not reach by a link like it."""
        target = Path(os.path.realpath(link))
        theirs = os.path.realpath(self.head / os.path.relpath(link, self.base))
        known = (self.base, *self.without)
        is_known = any(target.is_relative_to(one) or one.is_relative_to(target) for one in known)
        of_system = any(target.is_relative_to(one) for one in OF_THE_SYSTEM)
        return str(target) != theirs and not is_known and not of_system
