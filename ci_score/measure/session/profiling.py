"""The profiled launch of each side: it explains what was timed, and is itself never timed."""

from __future__ import annotations

import gzip
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ci_score.errors import BadInputError
from ci_score.files.disk import remove, write_atomically
from ci_score.measure.launch.launching import clear_room, launch, run_once, tail_of
from ci_score.measure.launch.orders import PROFILED_STEPS, Orders, Task
from ci_score.measure.session.kept import PROFILES, TRACES
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.schedule import SIDES
from ci_score.measure.session.session import Session
from ci_score.model.profile import Profile
from ci_score.model.step_code import MarkedStep
from ci_score.model.values import Side

DIR_VARIABLE = "CI_SCORE_PROFILE_DIR"
PROFILE, TRACE = "profile.json", "trace.json"
# A profiler usually costs the two sides alike. Where one side's profiled steps took so many times
# more of its timed ones than the other's did, somebody may have disturbed them.
UNLIKE, MOST_AGAIN = 1.15, 2


class Reader(Protocol):
    """Reads the traces of launches: this room knows no format."""

    def profile(self, trace: Path) -> Profile:
        """What a trace says of a step."""
        ...

    def marked(self, trace: Path) -> MarkedStep:
        """What a trace with marks says of the program's lines."""
        ...

    def text(self, profile: Profile) -> str:
        """A profile as it is kept, some kilobytes."""
        ...


@dataclass(frozen=True, slots=True)
class Profiler:
    """Runs sides once more. What goes wrong is said, and spoils nothing that was measured."""

    session: Session
    orders: Orders
    reader: Reader
    keep_trace: bool
    stopped: Callable[[], bool]
    audience: Audience
    kept: dict[Side, Profile] = field(default_factory=dict)

    def keep(self, profiles: Mapping[Side, Profile]) -> None:
        """Keeps these profiles instead: more is known of them."""
        self.kept.update(profiles)
        self.restore()

    def restore(self) -> None:
        """Writes the profiles once more: a later launch may have replaced them."""
        for side, profile in self.kept.items():
            folder = self._folder(side)
            remove(folder)
            write_atomically(folder / PROFILE, self.reader.text(profile))

    def _folder(self, side: Side) -> Path:
        return self.orders.out / PROFILES / side

    def has(self, side: Side) -> bool:
        """Whether a profile of the side is there."""
        folder = self._folder(side)
        return folder.is_dir() and any(folder.iterdir())

    def run_again(self) -> None:
        """Profiles a side again that seems disturbed, and keeps the faster of its profiles."""
        for number in range(1, MOST_AGAIN + 1):
            side = self._disturbed()
            if side is None or self.stopped():
                return
            self.audience.says(
                f"the profiled launch of the {side} seems disturbed: its step took"
                f" {self._step_ms(side):.4g} ms under the profiler, and"
                f" {self.session.usual_ms(side):.4g} ms without; it is profiled again"
                f" ({number} of at most {MOST_AGAIN} times)"
            )
            self.run(side)

    def _disturbed(self) -> Side | None:
        """Whose profiled steps took too long, beside the timed ones and the other side's."""
        if len(self.kept) < len(SIDES):
            return None
        costs = {side: self._step_ms(side) / self.session.usual_ms(side) for side in SIDES}
        cost, side = max((cost, side) for side, cost in costs.items())
        return side if cost > UNLIKE * min(costs.values()) else None

    def _step_ms(self, side: Side) -> float:
        """How long a step of the kept profile took; infinite where there is none."""
        return self.kept[side].own_step_ms if side in self.kept else math.inf

    def run(self, side: Side) -> None:
        """Leaves a profile of the side in the session's folder, or says why it cannot."""
        folder = self._folder(side)
        # What an earlier sitting left would be merged with it.
        remove(folder)
        folder.mkdir(parents=True)
        self.audience.does(f"the profiled launch{self.session.of_side(side)}")
        of_side = self._by_hook if self.session.settled[side].by_hook else self._by_script
        problem = of_side(side, folder)
        if problem and not self.stopped() and side not in self.kept:
            self.audience.says(f"no profile{self.session.of_side(side)}: {problem}")
        if problem:
            # Half a trace explains nothing.
            remove(folder)

    def _by_script(self, side: Side, folder: Path) -> str:
        """A script that tells its own steps may leave a profile, too."""
        order = self.orders.untimed(side, "profiled", None, {DIR_VARIABLE: str(folder)})
        ran = run_once(order, self.session.plan.timeout, self.stopped, self.audience)
        clear_room(order)
        if trouble := ran.harm or ran.trouble:
            return trouble + tail_of(order.log)
        if not any(folder.iterdir()):
            return (
                f"the script tells its own steps, and it left nothing in ${DIR_VARIABLE}; it may"
                " write a trace there, or --no-profile leaves this launch out"
            )
        return ""

    def _by_hook(self, side: Side, folder: Path) -> str:
        trace = folder / TRACE
        warmup = self.session.warmup
        task = Task("profiled", warmup, warmup, self.session.settled[side].owner, trace)
        order = self.orders.untimed(side, "profiled", task, {DIR_VARIABLE: str(folder)})
        done = launch(order, self.session.plan.timeout, self.stopped, self.audience)
        if done.launch.failed:
            return done.problem
        if done.told is not None and done.told.profiler_found:
            self.audience.says(
                f"the script{self.session.of_side(side)} has a profiler of its own, which did"
                " nothing here"
            )
        return self._keep(side, trace)

    def _keep(self, side: Side, trace: Path) -> str:
        """The trace as a profile of some kilobytes; the trace itself only where that is wanted.

        Nothing is kept of a trace that is slower than one before it.
        """
        if trace.is_symlink() or not trace.is_file():
            return "the profiler left no trace"
        is_slower = False
        try:
            profile = self.reader.profile(trace)
            is_slower = profile.own_step_ms > self._step_ms(side)
        except BadInputError as error:
            return f"its trace cannot be read ({error})"
        finally:
            if self.keep_trace and not is_slower:
                pack(trace, self.orders.out / TRACES / f"{side}.json.gz")
            trace.unlink()
        if profile.unusable:
            return f"its trace cannot be used ({profile.unusable})"
        if profile.steps != PROFILED_STEPS:
            return f"its trace has {profile.steps} whole steps instead of {PROFILED_STEPS}"
        if is_slower:
            return ""
        self.kept[side] = profile
        write_atomically(trace.with_name(PROFILE), self.reader.text(profile))
        return ""


def pack(trace: Path, place: Path) -> None:
    """Keeps a trace in a tenth of its room."""
    place.parent.mkdir(exist_ok=True)
    with trace.open("rb") as source, gzip.open(place, "wb", compresslevel=6) as packed:
        shutil.copyfileobj(source, packed)
