"""The commits of a search as folders that can be launched: a few at a time, each set up once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_score.errors import CiScoreError, SetupFailedError
from ci_score.measure.bisect.history import SHORT
from ci_score.measure.sides.checkout import (
    SUBMODULES,
    Repository,
    has_submodules,
    link,
    worktree,
)
from ci_score.measure.sides.setup import refuse_the_others_code, set_up
from ci_score.measure.sides.spec import SideSpec

# Beside GOOD and BAD: the search goes back to the last ones, and to the parent of its answer.
MOST_KEPT = 4


class CannotBuildError(CiScoreError):
    """A commit cannot be made ready: it has no such folder, or its set-up fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How a commit's folder is made ready: what its owner is like, data, and the set-up."""

    like: SideSpec
    links: tuple[str, ...]
    setup: str | None
    environment: Mapping[str, str]
    logs: Path
    timeout: Callable[[], float]
    stopped: Callable[[], bool]
    tell: Callable[[str], None]


@dataclass(slots=True)
class Worktrees:
    """Checkouts by commit. `pinned` ones stay, of the others only those that were used last."""

    repository: Repository
    pinned: frozenset[str]
    making: Making
    _ready: dict[str, tuple[SideSpec, ExitStack]] = field(default_factory=dict)
    _told_submodules: bool = False

    def side(self, sha: str) -> SideSpec:
        """The commit as a side; CannotBuildError where it cannot be made one."""
        if sha in self._ready:
            self._ready[sha] = self._ready.pop(sha)
            return self._ready[sha][0]
        if sha not in self.pinned:
            self._make_room()
        with ExitStack() as stack:
            place = stack.enter_context(worktree(self.repository, sha))
            spec = self._made(sha, place)
            self._ready[sha] = spec, stack.pop_all()
        return spec

    def _make_room(self) -> None:
        loose = [sha for sha in self._ready if sha not in self.pinned]
        for sha in loose[: max(0, len(loose) - MOST_KEPT + 1)]:
            self._ready.pop(sha)[1].close()

    def _made(self, sha: str, place: Path) -> SideSpec:
        making, like = self.making, self.making.like
        folder = place / self.repository.says("rev-parse", "--show-prefix")
        if not folder.is_dir():
            raise CannotBuildError(f"it has no folder {folder.relative_to(place)}")
        if has_submodules(place) and not self._told_submodules:
            self._told_submodules = True
            making.tell(f"{sha[:SHORT]} {SUBMODULES}")
        head = Repository(like.folder, making.environment)
        linked = link(making.links, head, folder, sha[:SHORT])
        spec = replace(like, folder=folder, linked=linked)
        if making.setup is not None:
            self._set_up(making.setup, sha, spec)
        return spec

    def _set_up(self, setup: str, sha: str, spec: SideSpec) -> None:
        making = self.making
        making.tell(f"--setup in {sha[:SHORT]}")
        log = making.logs / f"setup-{sha[:SHORT]}.log"
        try:
            set_up(
                setup, sha[:SHORT], spec, making.environment, log, making.timeout(), making.stopped
            )
            # An installation that leads to the user's own folder would run one code for all.
            sides = {sha[:SHORT]: spec, "the repository": making.like}
            refuse_the_others_code(sides, making.environment)
        except SetupFailedError as error:
            raise CannotBuildError(str(error).partition(": ")[2]) from None

    def close(self) -> None:
        """Removes all of them."""
        for _, stack in self._ready.values():
            stack.close()
        self._ready.clear()


@contextmanager
def worktrees(
    repository: Repository, pinned: frozenset[str], making: Making
) -> Iterator[Worktrees]:
    """The checkouts of a search, gone afterwards."""
    made = Worktrees(repository, pinned, making)
    try:
        yield made
    finally:
        made.close()
