"""One harness on one machine: what the sessions of a command have in common."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from ci_score.measure.ab import Audience, Runner
from ci_score.measure.accelerators import find_probe
from ci_score.measure.environment import MachineWatch, own_versions, visible_devices
from ci_score.measure.harness import harness_of
from ci_score.measure.kept import opened
from ci_score.measure.launching import launch
from ci_score.measure.session import Plan, Session

SECONDS_A_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person asks of a command that measures; its options have the same names."""

    harness: str
    out: Path
    case: str
    timeout: float
    max_minutes: float | None
    warmup_steps: int | None
    tokens_per_step: float | None
    seed: int | None
    fresh: bool


class Bench:
    """Runs sessions of one harness, and knows what they ran on.

    What is mistyped is said when it is made, before anything is launched. The last of the sides is
    head, whose harness is taken for all of them.
    """

    def __init__(
        self, request: Request, sides: Sequence[Path], environment: Mapping[str, str]
    ) -> None:
        self.request, self.environment = request, environment
        self.out = request.out.resolve()
        self.harness = harness_of(request.harness, sides[-1], self.out)
        self.harness.refuse_unless_startable(sides)
        self._watch = MachineWatch(find_probe(), visible_devices(environment))
        minutes = request.max_minutes
        self._until = inf if minutes is None else time.monotonic() + minutes * SECONDS_A_MINUTE

    def plan(self, base: Path, head: Path, programs: Mapping[str, str], **more: Any) -> Plan:
        """A session's plan: what was asked for, and what tells the code of its sides apart."""
        return Plan(
            base=str(base),
            head=str(head),
            harness=self.harness.words,
            case=self.request.case,
            seed=self.request.seed,
            timeout=self.request.timeout,
            warmup_steps=self.request.warmup_steps,
            tokens_per_step=self.request.tokens_per_step,
            imports=self.harness.imports,
            programs={**programs, "harness": self.harness.digest},
            **more,
        )

    def run(
        self,
        plan: Plan,
        out: Path,
        audience: Audience,
        stopped: Callable[[], bool],
        only_for_head: Mapping[str, str] | None = None,
        more_pairs: int = 0,
    ) -> Session:
        """Runs the session in a folder, or goes on with it; `more_pairs` if it is finished."""
        session = opened(out, plan, fresh=self.request.fresh, more_pairs=more_pairs)
        if session.ending is not None:
            return session
        self.harness.install()
        return Runner(
            session,
            out,
            self.environment,
            partial(launch, stopped=stopped),
            self._watch.disturbances,
            lambda: self._until - time.monotonic(),
            stopped,
            audience,
            only_for_head or {},
        ).run()

    @property
    def has_launched(self) -> bool:
        """Whether this very call has measured anything: a session may be whole already."""
        return self._watch.launches > 0

    def machine(self, session: Session | None) -> dict[str, Any]:
        """What the launches ran on, and how it fared meanwhile."""
        return self._watch.seen(self._versions(session))

    def _versions(self, session: Session | None) -> dict[str, str]:
        """What the launches say of theirs; ours only where the harness runs in this very Python."""
        pairs = session.pairs if session else []
        reported = [one.versions for pair in pairs for one in pair if one.versions]
        if reported:
            return reported[-1]
        return own_versions() if self.harness.is_run_by(sys.executable) else {}
