"""Head against base: one session, what it ran on, and a profile of each side after it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_score.measure.bench import Bench, Request
from ci_score.measure.machine.environment import (
    MachineWatch,
    git_state,
    tree_of,
    write_environment,
)
from ci_score.measure.qualify import qualification_here
from ci_score.measure.session.kept import save
from ci_score.measure.session.marking import Marker, is_worth_it
from ci_score.measure.session.profiling import Profiler, Reader
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.schedule import SIDES
from ci_score.measure.session.session import Ending, Pair, Plan, Session
from ci_score.measure.session.settled import Settled
from ci_score.measure.sides.differences import Facts, differences
from ci_score.measure.sides.preparing import Sides
from ci_score.measure.sides.spec import SideSpec, launcher_in_words
from ci_score.model.environment import MOST_ASKED, AskedOption
from ci_score.model.values import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest(Request):
    """What a person asks of a comparison.

    `limit` is the slowdown that fails, and `warn` the one that warns, as a share of the time of a
    step; `with_tokens` are both of them for launches that tell their tokens. `tests` share
    `false_fail`, and `asked` are the options that a report repeats. A `qualification` that is named
    counts alone; else the one in the folder, or this machine's.
    """

    looks: tuple[int, ...]
    false_fail: float
    tests: int
    limit: float
    warn: float
    with_tokens: tuple[float, float]
    repeats_shared: bool
    asked: tuple[AskedOption, ...] = ()
    more_pairs: int = 0
    qualification: Path | None = None


class Comparison:
    """Measures head against base in pairs of fresh processes."""

    def __init__(
        self,
        request: ComparisonRequest,
        sides: Sides,
        environment: Mapping[str, str],
        watch: MachineWatch | None = None,
    ) -> None:
        self._request = request
        self._bench = Bench(request, sides, environment, watch)
        self._found: Mapping[str, Any] = {}

    @property
    def is_set_up(self) -> bool:
        """Whether the environments of the sides were made in this call."""
        return self._bench.is_set_up

    def run(self, audience: Audience, stopped: Callable[[], bool]) -> Session:
        """The session, and beside its measurements what they ran on."""
        git = self._git()
        bench, request = self._bench, self._request
        trees = {tree_of(spec.folder) for spec in bench.sides.by_name.values()}
        # Two folders of one commit may differ.
        is_one_commit = git["base"] == git["head"] != {} and len(trees) == 1
        is_one_folder = bench.sides.base.folder == bench.sides.head.folder
        if bench.are_set_alike and (is_one_folder or is_one_commit):
            commit = git["head"].get("commit", "")[:12]
            which = "in one folder" if is_one_folder else f"commit {commit}"
            audience.says(
                f"base and head are the same code ({which}), so only chance tells them apart"
            )
        plan = self._plan(git)
        session = bench.run(plan, bench.out, audience, stopped, more_pairs=request.more_pairs)
        if session.pairs and bench.has_launched:
            self._write_environment(session, git)
        return session

    def of_pairs(
        self, pairs: Sequence[Pair], settled: Mapping[Side, Settled], timed_from: str
    ) -> Session:
        """The session of pairs that were measured already, as its folder has one."""
        git = self._git()
        numbered = [_numbered(number, pair) for number, pair in enumerate(pairs)]
        session = Session(
            self._plan(git), settled=dict(settled), pairs=numbered, timed_from=timed_from
        )
        session.stop(Ending.ALL_PAIRS, f"all {len(pairs)} pairs were measured")
        save(session, self._bench.out)
        self._write_environment(session, git)
        return session

    def _git(self) -> dict[Side, dict[str, str]]:
        sides = self._bench.sides
        return {"base": git_state(sides.base.folder), "head": git_state(sides.head.folder)}

    def _plan(self, git: Mapping[Side, Mapping[str, str]]) -> Plan:
        request = self._request
        return self._bench.plan(
            git,
            looks=request.looks,
            false_fail=request.false_fail,
            tests=request.tests,
            limit=request.limit,
            warn=request.warn,
            with_tokens=request.with_tokens,
            repeats_shared=request.repeats_shared,
        )

    def _write_environment(self, session: Session, git: Mapping[Side, Mapping[str, str]]) -> None:
        bench, request = self._bench, self._request
        machine = bench.machine(session)
        gate = qualification_here(bench, machine, request.qualification)
        keys: Mapping[Side, str] = {"head": "git", "base": "base_git"}
        states = {key: git[side] for side, key in keys.items() if git[side]}
        asked = [_base_asked(git["base"]), *request.asked][:MOST_ASKED]
        rows = [one.model_dump(exclude_none=True) for one in asked]
        self._found = {**machine, **states, **gate, **self._both(session), "asked": rows}
        write_environment(bench.out, self._found)

    def _both(self, session: Session) -> dict[str, Any]:
        """How the sides were launched, on one node, and what differs between them but the code."""
        node, sides = platform.node(), self._bench.sides
        rows = differences(
            _facts(session, "base", sides.base, node), _facts(session, "head", sides.head, node)
        )
        launcher, ranks = launcher_in_words(sides.head.launcher), session.settled["head"].world_size
        return {
            "node": node,
            **({"launcher": launcher} if launcher else {}),
            **({"world_size": ranks} if ranks > 1 else {}),
            **({"differs": rows} if rows else {}),
        }

    def profile(
        self,
        session: Session,
        reader: Reader,
        audience: Audience,
        stopped: Callable[[], bool],
    ) -> None:
        """Profiles each side once, unless that was not wanted."""
        bench, request = self._bench, self._request
        if not request.profiled:
            return
        orders = bench.orders(bench.out)
        known = session, orders, reader, request.keep_trace, stopped, audience
        profiler = Profiler(*known)
        for side in SIDES:
            # A session that was whole before this call has its profiles already.
            if not stopped() and (bench.has_launched or not profiler.has(side)):
                profiler.run(side)
        if session.seen().is_other:
            # Only what is proven gets a reason.
            profiler.run_again()
        if request.lines and not stopped() and is_worth_it(session, profiler.kept):
            profiler.keep(Marker(*known).run(profiler.kept))
        # The last launch was head's, which may have written over what came before it.
        profiler.restore()
        save(session, bench.out)
        if self._found:
            write_environment(bench.out, self._found)
        if stopped():
            session.stop(Ending.INTERRUPTED, session.stopped)
            audience.says("interrupted: what was measured is kept, the profiles are not whole")


def _numbered(number: int, pair: Pair) -> Pair:
    """The pair with its place in a session of its own, in the order in which it was launched."""
    head, base = pair
    head_place = int(head.order > base.order)
    return (
        head.but(launch=number, order=2 * number + head_place),
        base.but(launch=number, order=2 * number + 1 - head_place),
    )


def _base_asked(git: Mapping[str, str]) -> AskedOption:
    """Base by its commit, if that is all of it: what was changed since only this machine has."""
    is_whole = "commit" in git and "changed" not in git
    return AskedOption(option="--base", value=git["commit"][:12] if is_whole else None)


def _facts(session: Session, side: Side, spec: SideSpec, node: str) -> Facts:
    """What the launches of a side have told of their environment."""
    settled = session.settled[side]
    told = [one.versions for pair in session.pairs for one in pair if one.side == side]
    return Facts(spec, settled.versions or (told[-1] if told else {}), settled.packages, node)
