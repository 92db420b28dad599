"""Head against base: one session, what it ran on, and a profile of each side after it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ci_score.measure.ab import Audience
from ci_score.measure.bench import Bench, Request
from ci_score.measure.environment import git_state, write_environment
from ci_score.measure.kept import PROFILES
from ci_score.measure.launching import run_once
from ci_score.measure.qualify import FILE as QUALIFICATION
from ci_score.measure.qualify import kept_at, qualification_for
from ci_score.measure.schedule import Side
from ci_score.measure.session import Ending, Session
from ci_score.measure.settling import SIDES

DIR_VARIABLE = "CI_SCORE_PROFILE_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest(Request):
    """What a person asks of a comparison.

    `limit` is the slowdown that fails, and `warn` the one that warns, as a share of the time of a
    step. `tests` share `false_fail`. A `qualification` that is named counts alone; else the one in
    the folder, or this machine's.
    """

    looks: tuple[int, ...]
    false_fail: float
    tests: int
    limit: float
    warn: float
    repeats_shared: bool
    more_pairs: int = 0
    qualification: Path | None = None
    profiled: bool = True


class Comparison:
    """Measures head against base in pairs of fresh processes."""

    def __init__(
        self, request: ComparisonRequest, base: Path, head: Path, environment: Mapping[str, str]
    ) -> None:
        self._request = request
        self._sides: dict[Side, Path] = {"base": base.resolve(), "head": head.resolve()}
        self._bench = Bench(request, self._sides, environment)

    def run(self, audience: Audience, stopped: Callable[[], bool]) -> Session:
        """The session, and beside its measurements what they ran on."""
        git = {side: git_state(folder) for side, folder in self._sides.items()}
        # A session that went on with other programs would mix them.
        programs: dict[str, str] = {side: " + ".join(state.values()) for side, state in git.items() if state}
        bench, request = self._bench, self._request
        plan = bench.plan(
            programs,
            looks=request.looks,
            false_fail=request.false_fail,
            tests=request.tests,
            limit=request.limit,
            warn=request.warn,
            repeats_shared=request.repeats_shared,
        )
        session = bench.run(plan, bench.out, audience, stopped, more_pairs=request.more_pairs)
        if session.pairs and bench.has_launched:
            machine = bench.machine(session)
            files = [bench.out / QUALIFICATION, kept_at(bench.environment)]
            if request.qualification is not None:
                files = [request.qualification]
            gate = qualification_for(machine, files, datetime.now(UTC))
            keys: dict[Side, str] = {"head": "git", "base": "base_git"}
            states = {key: git[side] for side, key in keys.items() if git[side]}
            write_environment(bench.out, {**machine, **states, **gate})
        return session

    def profile(self, session: Session, stopped: Callable[[], bool]) -> Iterator[str]:
        """Profiles each side once, unless that was not wanted; says what went wrong.

        Profiles explain what measurements judge: what is wrong with one spoils nothing.
        """
        if not self._request.profiled:
            return
        for side in SIDES:
            if not stopped():
                yield from self._profile(side, stopped)
        if stopped():
            session.stop(Ending.INTERRUPTED, session.stopped)
            yield "interrupted: what was measured is kept, the profiles are not whole"

    def _profile(self, side: Side, stopped: Callable[[], bool]) -> Iterator[str]:
        out = self._bench.out
        folder = out / PROFILES / side
        # What an earlier sitting left would be merged with it.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        order = self._bench.orders(out).untimed(side, "profiled", {DIR_VARIABLE: str(folder)})
        ran = run_once(order, self._request.timeout, stopped)
        if ran.problem:
            # Half a trace explains nothing.
            shutil.rmtree(folder)
            yield f"no profile of the {side}: {ran.problem}"
        elif not any(folder.iterdir()):
            yield f"no profile of the {side}: the command left nothing in ${DIR_VARIABLE}"
