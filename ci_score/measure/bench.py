"""One command on one machine: what the sessions of it have in common."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from shutil import which
from typing import Any

from ci_score.measure.ab import Audience, Runner
from ci_score.measure.accelerators import find_probe
from ci_score.measure.environment import MachineWatch, own_versions, visible_devices
from ci_score.measure.kept import opened
from ci_score.measure.launching import launch
from ci_score.measure.orders import Orders, digest_of, words_for
from ci_score.measure.schedule import Side
from ci_score.measure.session import Plan, Session
from ci_score.measure.settling import Settler

SECONDS_A_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person asks of a command that measures; its options have the same names."""

    command: tuple[str, ...]
    out: Path
    case: str
    timeout: float
    steps: int
    settle_steps: int
    max_minutes: float | None
    warmup_steps: int | None
    tokens_per_step: float | None
    seed: int | None
    fresh: bool


class Bench:
    """Runs sessions of one command, and knows what they ran on."""

    def __init__(
        self, request: Request, sides: Mapping[Side, Path], environment: Mapping[str, str]
    ) -> None:
        self.request, self.environment, self.sides = request, environment, sides
        self.out = request.out.resolve()
        self.words = {side: words_for(request.command, folder) for side, folder in sides.items()}
        self.watch = MachineWatch(find_probe(), visible_devices(environment))
        minutes = request.max_minutes
        self._until = inf if minutes is None else time.monotonic() + minutes * SECONDS_A_MINUTE

    def seconds_left(self) -> float:
        """How long it may still take."""
        return self._until - time.monotonic()

    def plan(self, programs: Mapping[str, str], **more: Any) -> Plan:
        """A session's plan: what was asked for, and what tells the code of its sides apart."""
        request = self.request
        return Plan(
            base=str(self.sides["base"]),
            head=str(self.sides["head"]),
            command=request.command,
            case=request.case,
            seed=request.seed,
            timeout=request.timeout,
            steps=request.steps,
            settle_steps=request.settle_steps,
            warmup_steps=request.warmup_steps,
            tokens_per_step=request.tokens_per_step,
            programs={**programs, "command": digest_of(self.words["head"])},
            **more,
        )

    def orders(self, out: Path, only_for: Mapping[Side, Mapping[str, str]] | None = None) -> Orders:
        """How launches that leave their files in a folder are started."""
        return Orders(out, self.words, self.sides, self.environment, only_for or {})

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
        start = partial(launch, stopped=stopped)
        Settler(session, out, self.orders(out), start, self.seconds_left, stopped, audience).run()
        if session.ending is not None:
            return session
        return Runner(
            session,
            out,
            self.orders(out, only_for),
            start,
            self.watch.disturbances,
            self.seconds_left,
            stopped,
            audience,
        ).run()

    @property
    def has_launched(self) -> bool:
        """Whether this very call has measured anything: a session may be whole already."""
        return self.watch.launches > 0

    def machine(self, session: Session | None) -> dict[str, Any]:
        """What the launches ran on, and how it fared meanwhile."""
        return self.watch.seen(self._versions(session))

    def _versions(self, session: Session | None) -> dict[str, str]:
        """What the launches say of theirs; ours only where the command runs in this very Python."""
        pairs = session.pairs if session else []
        reported = [one.versions for pair in pairs for one in pair if one.versions]
        if reported:
            return reported[-1]
        found = which(self.words["head"][0])
        is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
        return own_versions() if is_ours else {}
