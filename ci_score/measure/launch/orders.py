"""What is to be launched: which side's command, what the hook is to do in it, what it leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ci_score.measure.recorder import FOLDERS_VARIABLE, PATH_VARIABLE
from ci_score.measure.sides.base_guard import BaseGuard
from ci_score.measure.sides.command import Command
from ci_score.measure.sides.spec import HOOK_VARIABLE, LAUNCH_VARIABLE, SideSpec, Start
from ci_score.model.values import Side

# Alone in its folder, which leads PYTHONPATH.
HOOK = Path(__file__).parents[1] / "hook"
HOOK_SCHEMA = 1
# In a session's folder: what the launches said, and the fresh folders of those that run.
LOGS, LAUNCHES = "logs", "launches"
PROFILED_STEPS = 3


@dataclass(frozen=True, slots=True)
class Task:
    """What the start-up hook is to do in a launch: how many steps end it, and whose they are.

    In a profiled launch and in a marked one the `steps` are those before the profiler starts.
    `tree` is the folder whose lines are marked.
    """

    mode: Literal["settle", "timed", "profiled", "marked"]
    steps: int
    warmup: int = 0
    owner: Mapping[str, Any] | None = None
    trace: Path | None = None
    tree: Path | None = None

    def told(self, folder: Path) -> str:
        """As the hook reads it."""
        known = {
            "schema": HOOK_SCHEMA,
            "mode": self.mode,
            "folder": str(folder),
            "steps": self.steps,
            "warmup": self.warmup,
            "owner": self.owner,
            "profile_steps": PROFILED_STEPS,
            "trace": str(self.trace) if self.trace else None,
            "tree": str(self.tree) if self.tree else None,
        }
        return json.dumps(known)


@dataclass(frozen=True, slots=True)
class Order:
    """One launch of a side's command. `pair` is None where it is not timed.

    `out` is a folder that the launch has for itself, `records` the one where the hook writes. The
    `guard` sees what a launch of head changes in the base's folder.
    """

    side: Side
    pair: int | None
    place: int
    folder: Path
    log: Path
    measurements: Path
    records: Path
    out: Path
    start: Start
    task: Task | None = None
    guard: BaseGuard | None = None

    @property
    def mark(self) -> str:
        """What every process of this launch has in its environment, and no other."""
        return f"{PATH_VARIABLE}={self.measurements}"

    @property
    def name(self) -> str:
        """Side, and pair as it is counted on the terminal."""
        return self.side if self.pair is None else f"{self.side}, pair {self.pair + 1}"


@dataclass(frozen=True, slots=True)
class Orders:
    """How the launches of a session are started; `only_for` has the variables of one side.

    Where a person works in the base's folder meanwhile, it `is_unguarded`.
    """

    out: Path
    command: Command
    sides: Mapping[Side, SideSpec]
    environment: Mapping[str, str]
    only_for: Mapping[Side, Mapping[str, str]] = field(default_factory=dict)
    is_unguarded: bool = False

    @property
    def are_alike(self) -> bool:
        """Whether both sides are one program, but for what is planted into one of them."""
        return all(spec == self.sides["head"] for spec in self.sides.values())

    def timed(self, side: Side, pair: int, place: int, task: Task | None = None) -> Order:
        """A launch of a pair."""
        return self._order(side, f"{pair + 1:02}", pair, place, task, self.only_for.get(side, {}))

    def untimed(
        self, side: Side, name: str, task: Task | None, variables: Mapping[str, str] | None = None
    ) -> Order:
        """A launch whose time nobody compares."""
        return self._order(side, name, None, 0, task, variables or {})

    def records_of(self, side: Side, name: str) -> Path:
        """Where the hook writes in a launch of that name; each launch finds it empty."""
        return self.out / LOGS / f"{name}-{side}"

    def _order(
        self,
        side: Side,
        name: str,
        pair: int | None,
        place: int,
        task: Task | None,
        variables: Mapping[str, str],
    ) -> Order:
        spec = self.sides[side]
        logs, out = self.out / LOGS, self.out / LAUNCHES / f"{name}-{side}"
        records, measurements = self.records_of(side, name), logs / f"{name}-{side}.line"
        told = {
            PATH_VARIABLE: str(measurements),
            FOLDERS_VARIABLE: os.pathsep.join(map(str, self._folders(side))),
            LAUNCH_VARIABLE: str(out),
            "CI_SCORE_SIDE": side,
            "CI_SCORE_LAUNCH": str(pair or 0),
            **({HOOK_VARIABLE: task.told(records)} if task else {}),
            **variables,
        }
        start = spec.start(
            self.command.of_launch(out),
            self.environment,
            HOOK if task else None,
            told,
            [self.out],
            self.command.files,
        )
        return Order(
            side=side,
            pair=pair,
            place=place,
            folder=spec.folder,
            log=logs / f"{name}-{side}.log",
            measurements=measurements,
            records=records,
            out=out,
            start=start,
            task=task,
            guard=self._guard(side, start),
        )

    def _guard(self, side: Side, start: Start) -> BaseGuard | None:
        base = self.sides.get("base")
        if side == "base" or base is None or self.is_unguarded:
            return None
        head = self.sides[side]
        return BaseGuard.against(base, head, self.out, self.environment, start.command)

    def _folders(self, side: Side) -> tuple[Path, Path]:
        """The side's own folder, and the other one's, whose code it must not run."""
        other: Side = "base" if side == "head" else "head"
        own = self.sides[side]
        return own.folder, self.sides.get(other, own).folder
