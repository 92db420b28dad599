"""The files of a side's folder at one moment: what a launch left there, and what it changed."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_score.measure.sides.spec import VENV
from ci_score.model.lists import some_of

TOOLS_OWN = frozenset({".pytest_cache", ".mypy_cache", ".ruff_cache"})
# What every run of Python changes, and what nobody trains from.
SKIPPED = TOOLS_OWN | {".git", VENV, "__pycache__"}
# What git runs or checks out; the rest of its folder also changes with other work trees.
OF_GIT = frozenset({"HEAD", "config", "config.worktree", "hooks", "info"})
# No data set has so many in folders: ImageNet has 1.4 million. A look takes 10 s and 150 MB.
MOST_FILES = 2_000_000
NAMED_FILES, LONGEST_PATH = 3, 100
# Mode, size, time of the last write, inode, time of the last change, number of links. Anybody can
# set the time of a write, and nobody that of a change.
_STATE = struct.Struct("=IQqQqQ")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """For each folder the names of what lay in it, and their states.

    The name of a folder ends with a slash. `unseen` says why something is missing.
    """

    folders: Mapping[str, tuple[str, bytes]]
    unseen: str = ""

    def changed_since(self, before: Snapshot) -> list[str]:
        """What is new, has changed or, as far as that can be seen, is gone."""
        changes = self._changes(before)
        return sorted({name for name, is_there in changes if is_there or not self.unseen})

    def left_since(self, before: Snapshot) -> list[str]:
        """The files that are new or have changed; none where they were too many to know."""
        if self.unseen or before.unseen:
            return []
        changes = self._changes(before)
        return sorted(name for name, is_there in changes if is_there and not name.endswith("/"))

    def rows(self, folder: str) -> dict[str, tuple[int, ...]]:
        """What lay in one of the folders, by its path."""
        names, states = self.folders.get(folder, ("", b""))
        found = zip(names.split("\0"), _STATE.iter_unpack(states), strict=False)
        return {f"{folder}{name}": state for name, state in found}

    def _changes(self, before: Snapshot) -> Iterator[tuple[str, bool]]:
        """What differs, and whether it is there now."""
        for folder in {*self.folders, *before.folders}:
            if self.folders.get(folder) == before.folders.get(folder):
                continue
            now, then = self.rows(folder), before.rows(folder)
            for name in {*now, *then}:
                if name not in now or name not in then or not _is_same(now[name], then[name]):
                    yield name, name in now


def _is_same(now: tuple[int, ...], then: tuple[int, ...]) -> bool:
    """Whether nobody has written to a file.

    An installer links one file into several environments, and each new link counts as a change.
    """
    *content, changed, links = now
    *content_then, changed_then, links_then = then
    is_linked = links != links_then and min(links, links_then) > 1
    return content == content_then and (changed == changed_then or is_linked)


def snapshot(
    folder: Path,
    without: Iterable[Path] = (),
    skipping: frozenset[str] = SKIPPED,
    follows: Callable[[str], bool] = lambda _: False,
) -> Snapshot:
    """What lies in the folder but for those places and names; it asks which links to follow."""
    return _Look(f"{folder}/", frozenset(map(str, without)), skipping, follows).whole()


@dataclass(slots=True)
class _Look:
    """One walk. It packs what it finds: a million files would be a gigabyte of Python's numbers."""

    top: str
    without: frozenset[str]
    skipping: frozenset[str]
    follows: Callable[[str], bool]
    waiting: list[str] = field(default_factory=list)
    linked: set[tuple[int, int]] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    states: list[bytes] = field(default_factory=list)

    def whole(self) -> Snapshot:
        folders: dict[str, tuple[str, bytes]] = {}
        count = 0
        self.waiting.append(self.top)
        while self.waiting:
            path = self.waiting.pop()
            self.names, self.states = [], []
            unseen = self._folder(path)
            folders[path[len(self.top) :]] = "\0".join(self.names), b"".join(self.states)
            count += len(self.names)
            if count > MOST_FILES:
                unseen = f"it has more than {MOST_FILES:,} files"
            if unseen:
                return Snapshot(folders, unseen)
        return Snapshot(folders)

    def _folder(self, path: str) -> str:
        """Adds what lies in a folder; says why it cannot."""
        only = OF_GIT if path.endswith("/.git/") else None
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name = entry.name
                    if (
                        name not in self.skipping
                        and entry.path not in self.without
                        and (only is None or name in only)
                    ):
                        self._entry(entry)
        except (FileNotFoundError, NotADirectoryError):
            return ""  # gone in this moment
        except PermissionError as error:
            return self._closed(path, error)
        except OSError as error:
            return self._cannot_list(path, error)
        return ""

    def _cannot_list(self, path: str, error: OSError) -> str:
        return f"{path[len(self.top) :][:LONGEST_PATH]}: {error.strerror}"

    def _closed(self, path: str, error: OSError) -> str:
        """Who cannot enter a folder changes nothing in it without changing its mode first."""
        if os.access(path, os.X_OK):
            return self._cannot_list(path, error)
        self._add("", os.stat(path))  # noqa: PTH116 - a Path would cost as much as all the rest
        return ""

    def _entry(self, entry: os.DirEntry[str]) -> None:
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(state.st_mode):
            # Its times change with what lies in it, which is looked at anyway.
            self.names.append(f"{entry.name}/")
            self.states.append(_STATE.pack(state.st_mode, 0, 0, state.st_ino, 0, 0))
            self.waiting.append(f"{entry.path}/")
            return
        self._add(entry.name, state)
        if stat.S_ISLNK(state.st_mode) and self.follows(entry.path):
            self._target(entry)

    def _add(self, name: str, state: os.stat_result) -> None:
        self.names.append(name)
        self.states.append(
            _STATE.pack(
                state.st_mode,
                state.st_size,
                state.st_mtime_ns,
                state.st_ino,
                state.st_ctime_ns,
                state.st_nlink,
            )
        )

    def _target(self, link: os.DirEntry[str]) -> None:
        try:
            state = link.stat()
        except OSError:
            return  # it leads nowhere
        place = state.st_dev, state.st_ino
        if stat.S_ISREG(state.st_mode):
            self._add(f"{link.name} (where it leads)", state)
        elif stat.S_ISDIR(state.st_mode) and place not in self.linked:
            self.linked.add(place)
            self.waiting.append(f"{link.path}/")


def files_in_words(files: Sequence[str]) -> str:
    """Some of the files, and how many more there are."""
    return some_of(files, NAMED_FILES)
