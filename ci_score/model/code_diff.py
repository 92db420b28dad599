"""What a change does to the lines of files: a diff, as far as matching lines needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ci_score.model.step_code import LONGEST_PATH

# Whether a diff is known, and why not.
DiffState = Literal["known", "not asked", "too large", "not found", "other commit"]


def is_inside(path: str) -> bool:
    """Whether a path, with slashes, stays within the repository that it is said to be of."""
    parts = path.split("/")
    return (
        0 < len(path) <= LONGEST_PATH
        and path.isprintable()
        and "\\" not in path
        and not {"", ".", "..", ".git"}.intersection(parts)
    )


@dataclass(frozen=True, slots=True)
class CodeState:
    """The code of a side: a commit, and whether its files were edited since; None: not known."""

    commit: str
    edited: bool | None = None


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring lines of a file on both sides; `added` and `removed` are the numbers of lines.

    A side without lines has the number of the line before which the other's stand. `texts` are the
    lines of head, added or not, by their numbers, and `were` those of base.
    """

    base_first: int
    base_count: int
    head_first: int
    head_count: int
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    texts: Mapping[int, str] = field(default_factory=dict)
    were: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A file that changed: None is a side that does not have it."""

    base: str | None
    head: str | None
    hunks: tuple[Hunk, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeDiff:
    """All files that changed between two commits, or why that is not known.

    Only files that may hold code are there. `tracked` are the paths of all files of head, where
    they are known: paths of a trace are found among them.
    """

    state: DiffState = "known"
    files: tuple[FileDiff, ...] = ()
    tracked: frozenset[str] = frozenset()


NO_DIFF = CodeDiff(state="not asked")

# What a change does between base's code and head's.
Diffs = Callable[[CodeState, CodeState], CodeDiff]


def no_diffs(_base: CodeState, _head: CodeState) -> CodeDiff:
    """Of a run that asks nobody."""
    return NO_DIFF
