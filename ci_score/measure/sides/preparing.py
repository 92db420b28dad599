"""Makes the sides that a person asked for ready to be launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ci_score.errors import CiScoreError, WrongUseError
from ci_score.measure.sides.asked import asked_of
from ci_score.measure.sides.base_guard import BaseGuard
from ci_score.measure.sides.checkout import Repository, checked_out, link
from ci_score.measure.sides.command import shell_words
from ci_score.measure.sides.setup import refuse_the_others_code, set_up
from ci_score.measure.sides.spec import SideSpec, container_words, is_container
from ci_score.model.environment import AskedOption


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides as they are launched, and what makes their environments."""

    base: SideSpec
    head: SideSpec
    setup: str | None = None

    @property
    def by_name(self) -> Mapping[str, SideSpec]:
        """Base first, as it is measured against; head alone where the base is the same."""
        if self.base is self.head:
            return {"head": self.head}
        return {"base": self.base, "head": self.head}

    def set_up(
        self,
        ambient: Mapping[str, str],
        logs: Path,
        timeout: float,
        stopped: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:
        """Runs `--setup` in each side's folder, and sees that each side then has its own code."""
        if self.setup is None:
            return
        for side, spec in self.by_name.items():
            if side == "head" and len(self.by_name) > 1 and spec.folder == self.base.folder:
                continue
            tell(f"--setup in {side}: {spec.folder}")
            log = logs / f"setup-{side}.log"
            guard = BaseGuard.against(self.base, spec, logs.parent, ambient)
            before = guard.look() if guard else None
            set_up(self.setup, side, spec, ambient, log, timeout, stopped)
            if guard and before and (broken := guard.broken(before)):
                raise CiScoreError(f"{side}, --setup: {broken}")
        if self.base.folder != self.head.folder:
            refuse_the_others_code(self.by_name, ambient)


@dataclass(frozen=True, slots=True, kw_only=True)
class SidesRequest:
    """What a person asks of the sides; its fields are named like the options.

    `base` is a folder, or the text of a commit or branch of head's repository; None where head is
    measured alone, or against itself.
    """

    head: Path
    base: Path | str | None = None
    base_python: Path | None = None
    head_python: Path | None = None
    base_env: Mapping[str, str] = field(default_factory=dict)
    head_env: Mapping[str, str] = field(default_factory=dict)
    base_launcher: str | None = None
    head_launcher: str | None = None
    setup: str | None = None
    links: tuple[str, ...] = ()
    keep_trackers: bool = False

    @property
    def asked(self) -> tuple[AskedOption, ...]:
        """The options as a report may repeat them."""
        return asked_of(self)

    @contextmanager
    def ready(self, environment: Mapping[str, str], tell: Callable[[str], None]) -> Iterator[Sides]:
        """Both sides, as long as they are needed: then base's checkout is removed.

        What is mistyped is said first.
        """
        launchers = [launcher_of(self.base_launcher), launcher_of(self.head_launcher)]
        head = self.head.resolve()
        if isinstance(self.base, str):
            with checked_out(self.base, head, environment, tell) as folder:
                linked = link(self.links, Repository(head, environment), folder, self.base)
                yield self._sides(folder, head, launchers, linked)
            return
        if self.links:
            raise WrongUseError(
                f"--link is for a base that ci-score checks out; in {self.base} make the links"
                " yourself"
            )
        base = head if self.base is None else self.base.resolve()
        yield self._sides(base, head, launchers, ())

    def _sides(
        self,
        base: Path,
        head: Path,
        launchers: Sequence[tuple[str, ...]],
        linked: tuple[Path, ...],
    ) -> Sides:
        keep = self.keep_trackers
        of_head = SideSpec(head, self.head_python, self.head_env, launchers[1], keep, linked)
        if self.base is None:
            return Sides(of_head, of_head, self.setup)
        of_base = SideSpec(base, self.base_python, self.base_env, launchers[0], keep, linked)
        for spec in (of_base, of_head):
            if spec.runs_in_container and spec.python is not None:
                raise WrongUseError(
                    "a container runs the Python of its image; leave the option for another out"
                )
        return Sides(of_base, of_head, self.setup)


def launcher_of(text: str | None) -> tuple[str, ...]:
    """The words of a launcher, if it can start a launch."""
    words = () if text is None else shell_words(text, "--launcher")
    if is_container(words):
        container_words(words)
    return words
