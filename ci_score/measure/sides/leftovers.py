"""What a launch leaves in its side's folder, where the next launch of that side may find it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_score.measure.sides.spec import VENV

# What every run of Python changes, and what nobody trains from.
SKIPPED = frozenset({".git", VENV, "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a folder with size and time of change; `is_whole` if that is all of them."""

    files: Mapping[str, tuple[int, int]]
    is_whole: bool = True

    def changed_since(self, before: Snapshot) -> list[str]:
        """The files that are new or changed; none where they were too many to know."""
        if not (self.is_whole and before.is_whole):
            return []
        return sorted(name for name, state in self.files.items() if before.files.get(name) != state)


def snapshot(folder: Path, without: Iterable[Path] = ()) -> Snapshot:
    """The files of a folder but for those places; links are not followed."""
    skipped = {str(path) for path in without}
    files: dict[str, tuple[int, int]] = {}
    waiting = [str(folder)]
    while waiting:
        try:
            entries = sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name in SKIPPED or entry.path in skipped:
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
            files[os.path.relpath(entry.path, folder)] = (state.st_size, state.st_mtime_ns)
    return Snapshot(files)
