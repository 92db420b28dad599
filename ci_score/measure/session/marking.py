"""The launch with marks of each side: which lines of the code a step's time is spent for.

Marks cost time, so nothing else is ever read of such a launch: it is neither timed, nor does it
explain gaps and phases. Where its work is not that of the launches without marks, it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ci_score.errors import BadInputError
from ci_score.files.disk import remove
from ci_score.files.visible import plain
from ci_score.measure.launch.hook_records import Recorded
from ci_score.measure.launch.launching import Done, launch
from ci_score.measure.launch.line_table import read_table
from ci_score.measure.launch.orders import PROFILED_STEPS, Orders, Task
from ci_score.measure.session.kept import TRACES
from ci_score.measure.session.noticing import alike
from ci_score.measure.session.profiling import TRACE, Reader, pack
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.schedule import SIDES
from ci_score.measure.session.session import Session
from ci_score.measure.session.step_lines import step_code
from ci_score.measure.sides.definitions import SideFiles
from ci_score.model.profile import Profile
from ci_score.model.step_code import MarkedStep, StepCode
from ci_score.model.values import Side

# A change of memory, or of the number of operators, from which on its lines are worth a launch.
NOTABLE = 0.01
# Steps that draw their batches by chance may differ a little in their operators.
SAME_OPERATORS = 0.005
LONGEST_PROBLEM = 200
# Marks usually cost the two sides alike. Where one side's marked step took so many times more of
# its unmarked one than the other's did, somebody may have disturbed it: it is made again, twice.
UNLIKE, MOST_AGAIN = 1.25, 2


class _NoLinesError(Exception):
    """Why a marked launch tells nothing, in words."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Runs sides once more, with marks. What goes wrong is said, and spoils nothing."""

    session: Session
    orders: Orders
    reader: Reader
    keep_trace: bool
    stopped: Callable[[], bool]
    audience: Audience

    def run(self, profiles: Mapping[Side, Profile]) -> dict[Side, Profile]:
        """The profiles, with the code of those sides whose launch could tell it."""
        found = dict(profiles)
        for side, profile in profiles.items():
            if self.session.settled[side].by_hook and not self.stopped():
                found[side] = self._with_code(side, profile)
        for _ in range(MOST_AGAIN):
            disturbed = _disturbed(found)
            if disturbed is None or self.stopped():
                break
            self.audience.says(
                f"the marked launch of the {disturbed} seems disturbed; it is made again"
            )
            again = self._with_code(disturbed, profiles[disturbed])
            if _cost(again) < _cost(found[disturbed]):
                found[disturbed] = again
        return found

    def _with_code(self, side: Side, profile: Profile) -> Profile:
        self.audience.does(f"the marked launch{self.session.of_side(side)}, which finds the lines")
        try:
            return profile.but(code=self._code_of(side, profile))
        except (_NoLinesError, BadInputError) as error:
            if not self.stopped():
                self.audience.says(f"no lines{self.session.of_side(side)}: {error}")
        return profile

    def _code_of(self, side: Side, profile: Profile) -> StepCode:
        warmup, folder = self.session.warmup, self.orders.sides[side].folder
        files = SideFiles.of(folder)
        trace = self.orders.records_of(side, "marked") / TRACE
        owner = self.session.settled[side].owner
        task = Task("marked", warmup, warmup, owner, trace, files.folder)
        order = self.orders.untimed(side, "marked", task)
        try:
            done = launch(order, self.session.plan.timeout, self.stopped, self.audience)
            told = _told(done)
            step = self._step_of(trace)
        finally:
            self._keep(side, trace)
        self._refuse_other_work(side, done, step, profile)
        table = read_table(order.records, told.first.rank, told.first.pid)
        return step_code(step, table, files, profile.own_step_ms)

    def _step_of(self, trace: Path) -> MarkedStep:
        if trace.is_symlink() or not trace.is_file():
            raise _NoLinesError("the profiler left no trace")
        try:
            step = self.reader.marked(trace)
        except BadInputError as error:
            raise _NoLinesError(f"its trace cannot be read ({error})") from None
        if step.steps != PROFILED_STEPS:
            words = f"its trace has {step.steps} whole steps instead of {PROFILED_STEPS}"
            raise _NoLinesError(words)
        return step

    def _keep(self, side: Side, trace: Path) -> None:
        if self.keep_trace and trace.is_file() and not trace.is_symlink():
            pack(trace, self.orders.out / TRACES / f"{side}-lines.json.gz")
        remove(trace)

    def _refuse_other_work(
        self, side: Side, done: Done, step: MarkedStep, profile: Profile
    ) -> None:
        """Marks may lead torch, or a script, another way than it goes without them."""
        without, marked = profile.host_ops_per_step, step.operators
        if without and marked is not None and abs(marked - without) > SAME_OPERATORS * without:
            raise _NoLinesError(
                f"with marks a step has {marked:.6g} operators instead of {without:.6g}, so it is"
                " not the same work"
            )
        losses = self._first_losses(side)
        loss = done.launch.first_loss
        if loss is not None and losses and not alike(loss, losses[0]):
            raise _NoLinesError(
                f"with marks the first loss is {loss:.4g} instead of {losses[0]:.4g}, so it is not"
                " the same work"
            )

    def _first_losses(self, side: Side) -> list[float]:
        """Of the launches without marks, where they agree: other seeds are not other work."""
        settled = self.session.settled[side].first_loss
        launches = [one.first_loss for one in self.session.launches if one.side == side]
        losses = [loss for loss in (settled, *launches) if loss is not None]
        return losses if all(alike(loss, losses[0]) for loss in losses) else []


def _told(done: Done) -> Recorded:
    if done.launch.failed:
        raise _NoLinesError(done.problem)
    if done.told is None:
        raise _NoLinesError("the script tells its own steps")
    if problem := done.told.first.marks_problem:
        raise _NoLinesError(f"the marks failed ({plain(problem, LONGEST_PROBLEM)})")
    return done.told


def _cost(profile: Profile) -> float:
    """How many times as long a step took with marks; infinite where nobody knows."""
    code = profile.code
    if code is None or not code.marked_ms or not code.unmarked_ms:
        return math.inf
    return code.marked_ms / code.unmarked_ms


def _disturbed(profiles: Mapping[Side, Profile]) -> Side | None:
    """Whose marked steps took too long, beside the other side's."""
    costs = {side: _cost(profile) for side, profile in profiles.items()}
    if len(costs) < len(SIDES) or not all(map(math.isfinite, costs.values())):
        return None
    side = max(costs, key=lambda side: costs[side])
    return side if costs[side] > UNLIKE * min(costs.values()) else None


def is_worth_it(session: Session, profiles: Mapping[Side, Profile]) -> bool:
    """Whether the sides differ in anything that a line may explain."""
    if len(profiles) < len(SIDES):
        return False
    if session.seen().is_other:
        return True
    operators = [profiles[side].host_ops_per_step for side in SIDES]
    memory = [_peak_memory(session, side) or profiles[side].peak_memory_gb for side in SIDES]
    return _differ(operators) or _differ(memory)


def _peak_memory(session: Session, side: Side) -> float | None:
    """Of the launches; a profile may tell it where they do not."""
    peaks = [
        one.peak_memory_gb
        for one in session.launches
        if one.side == side and one.peak_memory_gb is not None
    ]
    return median(peaks) if peaks else None


def _differ(values: list[float | None]) -> bool:
    one, other = values
    return one is not None and other is not None and not math.isclose(one, other, rel_tol=NOTABLE)
