"""`ci-score bisect`: the commit of a range that made a step slower, found beside the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from ci_score import __version__
from ci_score.errors import CiScoreError, WrongUseError
from ci_score.files.disk import remove
from ci_score.measure.bench import Request
from ci_score.measure.bisect.answer import ANSWER, Explaining
from ci_score.measure.bisect.driver import Driver, StoppedError
from ci_score.measure.bisect.history import SHORT, Line, described, line_between
from ci_score.measure.bisect.journal import opened_journal
from ci_score.measure.bisect.launches import Launches
from ci_score.measure.bisect.search import Search
from ci_score.measure.bisect.worktrees import CannotBuildError, Making, Worktrees, worktrees
from ci_score.measure.launch.orders import LAUNCHES, LOGS
from ci_score.measure.machine.accelerators import find_probe
from ci_score.measure.machine.environment import MachineWatch, visible_devices
from ci_score.measure.session.profiling import Reader
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.session import STEPS, Plan
from ci_score.measure.sides.checkout import Repository
from ci_score.measure.sides.command import Command, command_of
from ci_score.measure.sides.preparing import launcher_of
from ci_score.measure.sides.spec import VENV, SideSpec
from ci_score.model.bisected import Bisected, ProbedCommit, SkippedCommit
from ci_score.model.bisection import Ended, Finding
from ci_score.model.lists import SECONDS_A_MINUTE, plural

CONFIRMED = (Ended.FOUND, Ended.FOUND_SET, Ended.SEVERAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection(Request):
    """What a person asks of a search; its options have the same names."""

    good: str
    bad: str
    folder: Path
    python: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    launcher: str | None = None
    setup: str | None = None
    links: tuple[str, ...] = ()
    keep_trackers: bool = False

    def run(
        self,
        environment: Mapping[str, str],
        reader: Reader,
        audience: Audience,
        stopped: Callable[[], bool],
    ) -> Bisected:
        """Searches, and measures what explains the answer."""
        return _Search(self, environment, reader, audience, stopped).run()

    def side(self) -> SideSpec:
        """The user's own folder, which each commit's checkout stands in for."""
        launcher = launcher_of(self.launcher)
        side = SideSpec(self.folder.resolve(), self.python, self.env, launcher, self.keep_trackers)
        if side.runs_in_container and side.python is not None:
            raise WrongUseError("a container runs the Python of its image; leave --python out")
        has_own = side.python is None and side.programs is not None
        if has_own and self.setup is None and not side.runs_in_container:
            raise WrongUseError(
                f"the folder has a {VENV}, and a checkout of a commit has none; give"
                f" --python {VENV}/bin/python, or a --setup that makes one in each checkout"
            )
        return side


@dataclass(slots=True)
class _Search:
    """One call: the range, its checkouts, the search over them, and the answer."""

    request: Bisection
    environment: Mapping[str, str]
    reader: Reader
    audience: Audience
    stopped: Callable[[], bool]
    _until: float = inf

    def run(self) -> Bisected:
        request = self.request
        if request.max_minutes is not None:
            self._until = time.monotonic() + request.max_minutes * SECONDS_A_MINUTE
        like = request.side()
        repository = Repository(like.folder, self.environment)
        line = line_between(repository, request.good, request.bad)
        self.audience.says(_range_in_words(line))
        answer = Bisected(
            ci_score_version=__version__,
            case=request.case,
            good=line.good,
            bad=line.bad,
            commits=len(line.commits) - 1,
        )
        with self._checkouts(repository, line, like) as checkouts:
            return self._searched(answer, line, like, checkouts)

    def seconds_left(self) -> float:
        """How long it may still take."""
        return self._until - time.monotonic()

    @contextmanager
    def _checkouts(self, repository: Repository, line: Line, like: SideSpec) -> Iterator[Worktrees]:
        request = self.request
        making = Making(
            like=like,
            links=request.links,
            setup=request.setup,
            environment=self.environment,
            logs=request.out.resolve() / LOGS,
            timeout=lambda: min(request.timeout, max(self.seconds_left(), 0.0)),
            stopped=self.stopped,
            tell=self.audience.says,
        )
        self.audience.does("checking out GOOD and BAD")
        with worktrees(repository, frozenset({line.good, line.bad}), making) as checkouts:
            yield checkouts

    def _searched(
        self, answer: Bisected, line: Line, like: SideSpec, checkouts: Worktrees
    ) -> Bisected:
        driver = self._driver(line, like, checkouts)
        try:
            finding = driver.run()
        except StoppedError as error:
            return answer.but(stopped=str(error), launches=driver.search.state.launches)
        found = _told(answer, finding, driver)
        if finding.ended not in CONFIRMED or found.parent is None or not found.found:
            return found
        explaining = Explaining(
            self.request, driver, self.environment, self.reader, self.audience, self.stopped
        )
        explaining.leave(found.parent, found.found[-1].sha)
        return found.but(answer=str(self.request.out / ANSWER))

    def _driver(self, line: Line, like: SideSpec, checkouts: Worktrees) -> Driver:
        request, out = self.request, self.request.out.resolve()
        command = self._command(line, checkouts)
        plan = self._plan(like, command)
        fixed = {**plan.fixed(), "good": line.good, "bad": line.bad, "links": list(request.links)}
        del fixed["seed"]
        journal = opened_journal(out, fixed, request.seed, fresh=request.fresh)
        if not journal.rows:
            for name in (LOGS, LAUNCHES, ANSWER):
                remove(out / name)
        launches = Launches(
            out=out,
            plan=plan,
            command=command,
            worktrees=checkouts,
            repository=like,
            environment=self.environment,
            watch=MachineWatch(find_probe(), visible_devices(self.environment)),
            seconds_left=self.seconds_left,
            stopped=self.stopped,
            audience=self.audience,
        )
        search = Search(len(line.commits), seed=journal.seed)
        return Driver(line, search, journal, launches, self.audience.says)

    def _command(self, line: Line, checkouts: Worktrees) -> Command:
        """The command for GOOD and BAD; a commit between them that cannot run it is left out."""
        sides = {}
        for name, sha in (("GOOD", line.good), ("BAD", line.bad)):
            try:
                sides[name] = checkouts.side(sha)
            except CannotBuildError as error:
                raise CiScoreError(f"{name} ({sha[:SHORT]}): {error}") from None
        folders = {name: side.folder for name, side in sides.items()}
        command = command_of(self.request.command, folders, Path.cwd())
        command.refuse_unless_startable(sides, self.environment)
        return command

    def _plan(self, like: SideSpec, command: Command) -> Plan:
        request = self.request
        return Plan(
            sides={"head": {**like.fixed(), "setup": request.setup is not None}},
            command=command.words,
            case=request.case,
            looks=(),
            false_fail=0.0,
            limit=0.0,
            seed=request.seed,
            timeout=request.timeout,
            steps=request.steps or STEPS,
            settle_steps=request.settle_steps,
            warmup_steps=request.warmup_steps,
            tokens_per_step=request.tokens_per_step,
            programs={"files": command.digest},
        )


def _range_in_words(line: Line) -> str:
    words = f"{plural(len(line.commits) - 1, 'commit')} after GOOD ({line.good[:SHORT]})"
    merged = ", which came in by the first of them" if line.begins_at_merge else ""
    return f"{words}{merged}, up to BAD ({line.bad[:SHORT]})"


def _told(answer: Bisected, finding: Finding, driver: Driver) -> Bisected:
    """What was found, with commits by name."""
    commits, repository = driver.line.commits, driver.launches.worktrees.repository
    return answer.but(
        ended=finding.ended,
        launches=finding.launches,
        found=tuple(described(repository, commits[place]) for place in finding.commits),
        parent=None if finding.parent is None else commits[finding.parent],
        own=finding.own,
        range=finding.range,
        others=finding.others,
        smallest=finding.smallest,
        noise=finding.noise,
        skipped=tuple(
            SkippedCommit(commit=sha, why=why) for sha, why in driver.why_skipped.items()
        ),
        refuted=tuple(commits[place] for place in finding.refuted),
        evidence=tuple(
            ProbedCommit(commit=commits[one.commit], slower=one.slower, launches=one.launches)
            for one in finding.evidence
        ),
    )
