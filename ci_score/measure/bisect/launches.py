"""Launches of the commits of a search: one untimed for each, then pairs of two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from ci_score.errors import CiScoreError
from ci_score.files.disk import remove
from ci_score.files.visible import plain
from ci_score.measure.bisect.history import SHORT
from ci_score.measure.bisect.worktrees import CannotBuildError, Worktrees
from ci_score.measure.launch.launching import Done, launch
from ci_score.measure.launch.orders import LOGS, Order, Orders, Task
from ci_score.measure.machine.environment import MachineWatch
from ci_score.measure.session.quiet import Quiet
from ci_score.measure.session.runner import Audience, Runner, of_equal_work
from ci_score.measure.session.session import Pair, Plan, Session
from ci_score.measure.session.settled import STEPS, Settled, owners_of
from ci_score.measure.session.settling import MOST_FILES, settled_by
from ci_score.measure.sides.command import Command
from ci_score.measure.sides.leftovers import snapshot
from ci_score.measure.sides.spec import SideSpec
from ci_score.model.values import Side

LONGEST_WHY = 200


class DoesNotRunError(CiScoreError):
    """A commit cannot be measured: in one line, with the end of its log in a file."""

    def __init__(self, sha: str, why: str) -> None:
        self.sha = sha
        self.why = plain(why.partition("\n")[0], LONGEST_WHY)
        super().__init__(f"{sha[:SHORT]}: {self.why}")


class CutOffError(CiScoreError):
    """Nobody's fault: somebody, or the end of the time, ended what ran."""


@dataclass(slots=True, kw_only=True)
class Launches:
    """Launches commits; `repository` is the user's own folder, whose code no commit must run."""

    out: Path
    plan: Plan
    command: Command
    worktrees: Worktrees
    repository: SideSpec
    environment: Mapping[str, str]
    watch: MachineWatch
    quiet: Quiet
    seconds_left: Callable[[], float]
    stopped: Callable[[], bool]
    audience: Audience
    settled: dict[str, Settled] = field(default_factory=dict)
    timed_from: str = ""
    _noted: set[tuple[str, str]] = field(default_factory=set)

    def settle(self, sha: str, like: Settled | None = None) -> Settled:
        """What a commit's untimed launch tells; an error if it does not run.

        Its steps are counted by the same optimizer as in `like`.
        """
        found = self._settled(sha, None)
        owner = owners_of(like, found)["head"] if like else found.owner
        return found if owner == found.owner else self._settled(sha, owner)

    def _settled(self, sha: str, owner: Mapping[str, Any] | None) -> Settled:
        spec = self._side(sha)
        self.audience.does(f"the untimed launch of {sha[:SHORT]}")
        before = snapshot(spec.folder)
        task = Task("settle", self.plan.settle_steps, owner=owner)
        # What it imports from the user's own folder is not the commit's code.
        # A person may work there meanwhile, so it is not watched.
        orders = replace(self._orders(self.repository, spec), is_unguarded=True)
        order = orders.untimed("head", f"settle-{sha[:SHORT]}", task)
        done = launch(order, self._timeout(), self.stopped, self.audience)
        if done.launch.failed:
            raise self._failure(sha, done)
        files = snapshot(spec.folder).left_since(before)
        found = settled_by(done, tuple(files[:MOST_FILES]))
        self._tidy(order)
        return found

    def pair(self, earlier: str, later: str, number: int, *, later_first: bool) -> Pair:
        """A timed launch of each, head's being the later commit's; an error says whose failed."""
        sides: dict[Side, str] = {"base": earlier, "head": later}
        specs = {side: self._side(sha) for side, sha in sides.items()}
        runner = self._runner(sides, specs)
        done: dict[Side, Done] = {}
        turns: tuple[Side, Side] = ("head", "base") if later_first else ("base", "head")
        for place, side in enumerate(turns):
            done[side] = runner.launched(side, number, place)
            if done[side].launch.failed:
                raise self._failure(sides[side], done[side])
        head, base = of_equal_work(done["head"], done["base"])
        for side, one in (("head", head), ("base", base)):
            if one.launch.failed:
                raise self._failure(sides[side], one)
            self._note(sides[side], runner, one)
            self._tidy(one.order)
        self.timed_from = runner.session.timed_from
        return head.launch, base.launch

    def _side(self, sha: str) -> SideSpec:
        try:
            return self.worktrees.side(sha)
        except CannotBuildError as error:
            if self._is_cut_off():
                raise CutOffError(str(error)) from None
            raise DoesNotRunError(sha, str(error)) from None

    def _orders(self, base: SideSpec, head: SideSpec) -> Orders:
        return Orders(self.out, self.command, {"base": base, "head": head}, self.environment)

    def _runner(self, sides: Mapping[Side, str], specs: Mapping[Side, SideSpec]) -> Runner:
        known = {side: self.settled[sha] for side, sha in sides.items()}
        session = Session(self.plan, settled=known, timed_from=self.timed_from)
        return Runner(
            session,
            self.out,
            self._orders(specs["base"], specs["head"]),
            partial(launch, stopped=self.stopped, listener=self.audience),
            self.watch.disturbances,
            self.quiet,
            self.seconds_left,
            self.stopped,
            self.audience,
        )

    def _timeout(self) -> float:
        return min(self.plan.timeout, max(self.seconds_left(), 0.0))

    def _is_cut_off(self) -> bool:
        return self.stopped() or self.seconds_left() <= 0

    def _failure(self, sha: str, done: Done) -> CiScoreError:
        """Whose fault it is; the log of a commit that does not run is kept under its name."""
        if self._is_cut_off():
            return CutOffError(done.problem)
        kept = self.out / LOGS / f"failed-{sha[:SHORT]}.log"
        if done.order.log.is_file() and not done.order.log.is_symlink():
            done.order.log.replace(kept)
        self._tidy(done.order)
        return DoesNotRunError(sha, done.problem)

    def _tidy(self, order: Order) -> None:
        """A search has hundreds of launches: what one that ran well has left is of no use."""
        for place in (order.log, order.records, order.measurements):
            remove(place)

    def _note(self, sha: str, runner: Runner, done: Done) -> None:
        for words in runner.new_notes(done):
            # Numbers differ from launch to launch.
            what = words.partition(" ")[0]
            if (sha, what) not in self._noted:
                self._noted.add((sha, what))
                self.audience.says(f"{sha[:SHORT]}: {words}")


def with_warm_up(plan: Plan, ends: list[Settled]) -> Plan:
    """The plan with one warm-up for every commit: the larger one of GOOD and BAD."""
    if plan.warmup_steps is not None or not all(one.by_hook for one in ends):
        return plan
    return replace(plan, warmup_steps=max([1, *(one.warmup for one in ends)]))


def seconds_of_pair(plan: Plan, ends: list[Settled]) -> float:
    """About how long two launches take."""
    steps = (plan.steps or STEPS) + (plan.warmup_steps or 0)
    return sum(one.seconds_for(steps) for one in ends) if ends else inf
