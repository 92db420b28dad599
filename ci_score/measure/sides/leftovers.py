"""What a launch leaves in its side's folder, where the next launch of that side may find it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci_score.measure.sides.spec import VENV
from ci_score.model.lists import some_of

# What every run of Python changes, and what nobody trains from.
SKIPPED = frozenset({".git", VENV, "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
MOST_FILES = 20_000
NAMED_FILES = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a folder with size and times of change; `is_whole` if that is all of them."""

    files: Mapping[str, tuple[int, ...]]
    is_whole: bool = True

    def changed_since(self, before: Snapshot) -> list[str]:
        """The files that are new or changed; none where they were too many to know."""
        if not (self.is_whole and before.is_whole):
            return []
        return sorted(name for name, state in self.files.items() if before.files.get(name) != state)


def snapshot(
    folder: Path, without: Iterable[Path] = (), skipping: frozenset[str] = SKIPPED
) -> Snapshot:
    """The files of a folder but for those places and names; links are not followed."""
    skipped = {str(path) for path in without}
    files: dict[str, tuple[int, ...]] = {}
    waiting = [str(folder)]
    while waiting:
        try:
            entries = sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name in skipping or entry.path in skipped:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                continue
            try:
                state = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if len(files) == MOST_FILES:
                return Snapshot(files, is_whole=False)
            # Anybody can set the time of a file's content, and nobody that of its last change.
            times = state.st_mtime_ns, state.st_ctime_ns
            files[os.path.relpath(entry.path, folder)] = (state.st_size, *times)
    return Snapshot(files)


def files_in_words(files: Sequence[str]) -> str:
    """Some of the files, and how many more there are."""
    return some_of(files, NAMED_FILES)


class Untouched:
    """Sees that head's code leaves the base's folder as it is: it would change what is compared.

    What is installed in an environment within it is not seen: that has too many files.
    """

    def __init__(self, base: Path, head: Path, without: Iterable[Path]) -> None:
        self._folder = base
        self._without = [*without, *([head] if head.is_relative_to(base) else [])]
        self._applies = base != head
        self._before = self._now()

    def changed(self) -> str:
        """The files that have changed since, in words; empty for none."""
        now = self._now()
        gone = self._before.files.keys() - now.files.keys() if now.is_whole else ()
        return files_in_words(sorted({*now.changed_since(self._before), *gone}))

    def _now(self) -> Snapshot:
        if not self._applies:
            return Snapshot({})
        # A compiled module counts: what Python finds in a cache, it runs.
        return snapshot(self._folder, self._without, SKIPPED - {"__pycache__"})
