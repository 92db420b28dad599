"""What is to be launched: which side's command, where, with which variables, and what it leaves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ci_score.measure.recorder import FOLDERS_VARIABLE, PATH_VARIABLE
from ci_score.measure.schedule import Side

OUT_VARIABLE = "CI_SCORE_LAUNCH_DIR"
# In a word of the command: the fresh folder of this very launch.
OUT_MARK = "{out}"
# In a session's folder: what the launches said, and the fresh folders of those that run.
LOGS, LAUNCHES = "logs", "launches"
# Where projects keep what is imported, beside the folder itself.
SOURCES = ("", "src")


@dataclass(frozen=True, slots=True)
class Order:
    """One launch of a side's command. `pair` is None where it is not timed.

    `out` is a folder that the launch has for itself.
    """

    side: Side
    pair: int | None
    place: int
    words: tuple[str, ...]
    folder: Path
    other_folder: Path
    log: Path
    measurements: Path
    out: Path
    environment: Mapping[str, str]

    @property
    def mark(self) -> str:
        """What every process of this launch has in its environment, and no other."""
        return f"{PATH_VARIABLE}={self.measurements}"

    @property
    def name(self) -> str:
        """Side, and pair as it is counted on the terminal."""
        return self.side if self.pair is None else f"{self.side}, pair {self.pair + 1}"

    def command(self) -> list[str]:
        """The words, with this launch's own folder where they ask for it."""
        return [word.replace(OUT_MARK, str(self.out)) for word in self.words]

    def told(self) -> dict[str, str]:
        """The launch's environment: code is imported from the side's own folder first."""
        sources = [path for name in SOURCES if (path := self.folder / name).is_dir()]
        paths = [*map(str, sources), self.environment.get("PYTHONPATH", "")]
        return {
            **self.environment,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            PATH_VARIABLE: str(self.measurements),
            FOLDERS_VARIABLE: f"{self.folder}{os.pathsep}{self.other_folder}",
            OUT_VARIABLE: str(self.out),
            "CI_SCORE_SIDE": self.side,
            "CI_SCORE_LAUNCH": str(self.pair or 0),
        }


def words_for(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The command as it is run in a side's folder: its own files are found there by themselves.

    A file that only the current folder has is named by its whole path.
    """
    return tuple(
        str(Path(word).absolute())
        if not (folder / word).is_file() and Path(word).is_file()
        else word
        for word in words
    )


def digest_of(words: Sequence[str]) -> str:
    """Tells apart what lies outside of both sides: measurements of two scripts are no pair."""
    files = [path for word in words if (path := Path(word)).is_absolute() and path.is_file()]
    scripts = [path for path in files if path.suffix in (".py", ".sh")]
    return sha256(b"".join(path.read_bytes() for path in scripts)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Orders:
    """How the launches of a session are started; `only_for` has the variables of one side."""

    out: Path
    words: Mapping[Side, tuple[str, ...]]
    folders: Mapping[Side, Path]
    environment: Mapping[str, str]
    only_for: Mapping[Side, Mapping[str, str]] = field(default_factory=dict)

    @property
    def are_alike(self) -> bool:
        """Whether both sides are one program, but for what is planted into one of them."""
        return len({(self.words[side], self.folders[side]) for side in self.words}) == 1

    def timed(self, side: Side, pair: int, place: int) -> Order:
        """A launch of a pair."""
        return self._order(side, f"{pair + 1:02}", pair, place, {})

    def untimed(self, side: Side, name: str, variables: Mapping[str, str] | None = None) -> Order:
        """A launch whose time nobody compares."""
        return self._order(side, name, None, 0, variables or {})

    def _order(
        self, side: Side, name: str, pair: int | None, place: int, variables: Mapping[str, str]
    ) -> Order:
        other: Side = "base" if side == "head" else "head"
        logs = self.out / LOGS
        return Order(
            side=side,
            pair=pair,
            place=place,
            words=self.words[side],
            folder=self.folders[side],
            other_folder=self.folders.get(other, self.folders[side]),
            log=logs / f"{name}-{side}.log",
            measurements=logs / f"{name}-{side}.line",
            out=self.out / LAUNCHES / f"{name}-{side}",
            environment={**self.environment, **self.only_for.get(side, {}), **variables},
        )
