"""One side alone: some launches of the code as it is, to be compared with a branch's record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ci_score.measure.bench import Bench, Request
from ci_score.measure.machine.environment import git_state, write_environment
from ci_score.measure.qualify import qualification_here
from ci_score.measure.session.kept import opened, save
from ci_score.measure.session.marking import Marker
from ci_score.measure.session.noticing import resumes
from ci_score.measure.session.profiling import Profiler, Reader
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.session import Ending, Session
from ci_score.measure.sides.preparing import Sides
from ci_score.model.environment import Alone


class OneSide:
    """Measures head alone. It always begins anew: a few launches are not worth going on with.

    `alone` says why a session that was to compare it with a base does not.
    """

    def __init__(
        self,
        request: Request,
        launches: int,
        sides: Sides,
        environment: Mapping[str, str],
        alone: Alone | None = None,
    ) -> None:
        self._request, self._launches, self._alone = request, launches, alone
        self._bench = Bench(request, sides, environment)

    def run(self, reader: Reader, audience: Audience, stopped: Callable[[], bool]) -> Session:
        """The launches, what they ran on, and a profile where that is wanted."""
        bench = self._bench
        git = git_state(bench.sides.head.folder)
        # Without limits: `ci-score run` judges it by the branch's policy.
        plan = bench.plan({"head": git}, looks=(), false_fail=0.0, limit=0.0, alone=True)
        session = opened(bench.out, plan, fresh=self._request.fresh)
        session.goal = self._launches
        bench.settle(session, bench.out, audience, stopped)
        if session.ending is None:
            self._measure(session, audience, stopped)
        save(session, bench.out)
        if not bench.has_launched:
            return session
        machine = bench.machine(session)
        gate = qualification_here(bench, machine)
        alone = {"alone": self._alone.model_dump(exclude_none=True)} if self._alone else {}
        write_environment(bench.out, {**machine, **({"git": git} if git else {}), **gate, **alone})
        if self._request.profiled and session.ending is Ending.ALL_PAIRS and not stopped():
            self._profile(session, reader, audience, stopped)
        return session

    def _profile(
        self,
        session: Session,
        reader: Reader,
        audience: Audience,
        stopped: Callable[[], bool],
    ) -> None:
        request, orders = self._request, self._bench.orders(self._bench.out)
        known = session, orders, reader, request.keep_trace, stopped, audience
        profiler = Profiler(*known)
        profiler.run("head")
        if request.lines and profiler.kept:
            profiler.keep(Marker(*known).run(profiler.kept))

    def _measure(self, session: Session, audience: Audience, stopped: Callable[[], bool]) -> None:
        runner = self._bench.runner(session, self._bench.out, audience, stopped)
        for number in range(self._launches):
            audience.does(f"launch {number + 1} of {self._launches}", number, self._launches)
            done = runner.launched("head", number, number)
            if done.launch.failed and stopped():
                session.stop(Ending.INTERRUPTED, "it was interrupted, what was measured is kept")
                return
            session.alone.append(done.launch)
            save(session, self._bench.out)
            if done.launch.failed:
                session.stop(Ending.BROKEN, f"launch {number + 1}: {done.problem}")
                return
            audience.says(f"launch {number + 1}: {done.launch.mean_ms:.4g} ms a step")
            for words in runner.new_notes(done):
                audience.says(f"launch {number + 1}: {words}")
            if words := resumes(session):
                session.stop(Ending.BROKEN, words)
                return
        session.stop(Ending.ALL_PAIRS, "all launches were measured")
