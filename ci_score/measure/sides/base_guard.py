"""Sees that head leaves the base's folder alone: else it would be compared with its own work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from ci_score.measure.sides.command import OF_A_PYTHON
from ci_score.measure.sides.leftovers import TOOLS_OWN, Snapshot, files_in_words, snapshot
from ci_score.measure.sides.spec import SideSpec

ROOT = Path("/")
# What lies there changes with every process.
OF_THE_SYSTEM = tuple(map(Path, ("/proc", "/sys", "/dev", "/run")))


@dataclass(frozen=True, slots=True)
class BaseGuard:
    """Watches the base's folder, and an environment of its own elsewhere, while head's code runs.

    Head may change what lies in `without`: its own folder, the session's, and an environment that
    both sides run by.
    """

    base: Path
    head: Path
    without: tuple[Path, ...]
    environment: Path | None = None

    @classmethod
    def against(
        cls,
        base: SideSpec,
        head: SideSpec,
        out: Path,
        ambient: Mapping[str, str],
        command: Sequence[str] = (),
    ) -> BaseGuard | None:
        """The guard while head runs a command; None where both sides have one folder."""
        if base.folder == head.folder:
            return None
        words = [word for word in command if Path(word).name.startswith(OF_A_PYTHON)]
        shared = {Path(sys.prefix), *_prefixes(head, ambient, words)} - {base.folder, ROOT}
        own = [
            one for one in _prefixes(base, ambient) if one not in shared and _is_environment(one)
        ]
        elsewhere = [one for one in own if not one.is_relative_to(base.folder)]
        without = (head.folder, out, *shared)
        return cls(base.folder, head.folder, without, elsewhere[0] if elsewhere else None)

    def look(self) -> Snapshot:
        """What lies there now. A compiled module counts: what Python finds in a cache, it runs."""
        seen = snapshot(self.base, self.without, TOOLS_OWN, self._is_its_own)
        if self.environment is None:
            return seen
        more = snapshot(self.environment, self.without, TOOLS_OWN)
        folders = {f"{self.environment}/{name}": rows for name, rows in more.folders.items()}
        return Snapshot({**seen.folders, **folders}, seen.unseen or more.unseen)

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


def _prefixes(
    side: SideSpec, ambient: Mapping[str, str], words: Sequence[str] = ()
) -> Iterator[Path]:
    """The folders of the Pythons that a side runs by."""
    path = side.shell(ambient).get("PATH")
    for word in ("python", *words):
        if found := which(word, path=path):
            yield Path(found).absolute().parent.parent


def _is_environment(prefix: Path) -> bool:
    """Whether somebody made it for a project; the system's Python is everybody's."""
    return any((prefix / name).exists() for name in ("pyvenv.cfg", "conda-meta"))
