"""One command on one machine: what the sessions of it have in common."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from shutil import which
from typing import Any

from ci_score.errors import WrongUseError
from ci_score.measure.launch.launching import launch
from ci_score.measure.launch.orders import LOGS, Orders
from ci_score.measure.machine.accelerators import find_probe
from ci_score.measure.machine.environment import MachineWatch, own_versions, visible_devices
from ci_score.measure.session.kept import opened
from ci_score.measure.session.runner import Audience, Runner
from ci_score.measure.session.session import STEPS, Plan, Session
from ci_score.measure.session.settled import Settled
from ci_score.measure.session.settling import Settler
from ci_score.measure.sides.code_digest import code_digest
from ci_score.measure.sides.command import command_of
from ci_score.measure.sides.preparing import Sides
from ci_score.measure.sides.spec import SideSpec
from ci_score.model.lists import SECONDS_A_MINUTE
from ci_score.model.values import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person asks of a command that measures; its options have the same names."""

    command: tuple[str, ...]
    out: Path
    case: str
    timeout: float
    settle_steps: int
    max_minutes: float | None
    warmup_steps: int | None
    tokens_per_step: float | None
    steps: int | None = None
    seed: int | None = None
    fresh: bool = False
    profiled: bool = False
    lines: bool = False
    keep_trace: bool = False


class Bench:
    """Runs sessions of one command, and knows what they ran on."""

    def __init__(
        self,
        request: Request,
        sides: Sides,
        environment: Mapping[str, str],
        watch: MachineWatch | None = None,
    ) -> None:
        self.request, self.environment, self.sides = request, environment, sides
        self.out = request.out.resolve()
        folders = {side: spec.folder for side, spec in sides.by_name.items()}
        if owner := next((side for side, folder in folders.items() if folder == self.out), None):
            # What a session writes and clears there would be the side's own logs or profiles.
            raise WrongUseError(
                f"--out {request.out} is {owner}'s folder itself; give one of its own, as"
                " --out perf"
            )
        self.command = command_of(request.command, folders, Path.cwd())
        if sides.setup is None:
            self.command.refuse_unless_startable(sides.by_name, environment)
        self.watch = watch or MachineWatch(find_probe(), visible_devices(environment))
        minutes = request.max_minutes
        self.is_set_up = False
        self._settled: dict[Side, Settled] = {}
        self._until = inf if minutes is None else time.monotonic() + minutes * SECONDS_A_MINUTE

    @property
    def are_set_alike(self) -> bool:
        """Whether both sides have the same environment, as far as that was said."""
        base, head = self.sides.base, self.sides.head
        return replace(base, folder=head.folder) == head

    def seconds_left(self) -> float:
        """How long it may still take."""
        return self._until - time.monotonic()

    def plan(self, git: Mapping[Any, Mapping[str, str]], **more: Any) -> Plan:
        """A session's plan: what was asked for, and what tells the code of its sides apart.

        A session that went on with other programs would mix them.
        """
        request, folders = self.request, [one.folder for one in self.sides.by_name.values()]
        programs = {
            side: " + ".join(git[side].values())
            or code_digest(spec.folder, [self.out, *(one for one in folders if one != spec.folder)])
            for side, spec in self.sides.by_name.items()
        }
        return Plan(
            sides={side: spec.fixed() for side, spec in self.sides.by_name.items()},
            command=request.command,
            case=request.case,
            seed=request.seed,
            timeout=request.timeout,
            steps=request.steps or STEPS,
            settle_steps=request.settle_steps,
            warmup_steps=request.warmup_steps,
            tokens_per_step=request.tokens_per_step,
            programs={**programs, "files": self.command.digest},
            **more,
        )

    def orders(self, out: Path, only_for: Mapping[Side, Mapping[str, str]] | None = None) -> Orders:
        """How launches that leave their files in a folder are started."""
        sides: dict[Side, SideSpec] = {"base": self.sides.base, "head": self.sides.head}
        return Orders(out, self.command, sides, self.environment, only_for or {})

    def run(
        self,
        plan: Plan,
        out: Path,
        audience: Audience,
        stopped: Callable[[], bool],
        only_for: Mapping[Side, Mapping[str, str]] | None = None,
        more_pairs: int = 0,
    ) -> Session:
        """Runs the session in a folder, or goes on with it; `more_pairs` if it is finished."""
        session = opened(out, plan, fresh=self.request.fresh, more_pairs=more_pairs)
        if session.ending is not None:
            return session
        self.settle(session, out, audience, stopped)
        if session.ending is not None:
            return session
        return self.runner(session, out, audience, stopped, only_for).run()

    def runner(
        self,
        session: Session,
        out: Path,
        audience: Audience,
        stopped: Callable[[], bool],
        only_for: Mapping[Side, Mapping[str, str]] | None = None,
    ) -> Runner:
        """What launches the sides of a session on this machine."""
        return Runner(
            session,
            out,
            self.orders(out, only_for),
            partial(launch, stopped=stopped, listener=audience),
            self.watch.disturbances,
            self.seconds_left,
            stopped,
            audience,
        )

    def settle(
        self, session: Session, out: Path, audience: Audience, stopped: Callable[[], bool]
    ) -> None:
        """Makes the sides' environments, and lets each side run once untimed."""
        self._set_up(out, audience, stopped)
        if not session.settled:
            # An earlier session of this very call has told it.
            session.settled.update(self._settled)
        start = partial(launch, stopped=stopped, listener=audience)
        Settler(session, out, self.orders(out), start, self.seconds_left, stopped, audience).run()
        self._settled = session.settled

    def _set_up(self, out: Path, audience: Audience, stopped: Callable[[], bool]) -> None:
        """Makes the environments that the user asked for, once in a call."""
        if self.is_set_up or self.sides.setup is None:
            return
        timeout = min(self.request.timeout, max(self.seconds_left(), 0.0))
        audience.does("--setup")
        self.sides.set_up(self.environment, out / LOGS, timeout, stopped, audience.says)
        self.command.refuse_unless_startable(self.sides.by_name, self.environment)
        self.is_set_up = True

    @property
    def has_launched(self) -> bool:
        """Whether this very call has measured anything: a session may be whole already."""
        return self.watch.launches > 0

    def machine(self, session: Session | None) -> dict[str, Any]:
        """What the launches ran on, and how it fared meanwhile."""
        return self.watch.seen(self._versions(session))

    def _versions(self, session: Session | None) -> dict[str, str]:
        """What the launches say of theirs; ours only where the command runs in this very Python."""
        if session is None:
            return {}
        launches = [*session.alone, *(one for pair in session.pairs for one in pair)]
        reported = [one.versions for one in launches if one.versions]
        if reported:
            return reported[-1]
        found = which(
            self.command.words[0], path=self.sides.head.shell(self.environment).get("PATH")
        )
        is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
        return own_versions() if is_ours else {}
