"""What explains the answer: the commit against its parent as a session of `ab`, with profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci_score.errors import CiScoreError
from ci_score.files.disk import remove
from ci_score.judge import planned_looks
from ci_score.measure.bench import Request
from ci_score.measure.bisect.driver import Driver
from ci_score.measure.comparison import Comparison, ComparisonRequest
from ci_score.measure.session.kept import MEASUREMENTS, PROFILES
from ci_score.measure.session.profiling import Reader
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.schedule import SIDES
from ci_score.measure.sides.preparing import Sides

ANSWER = "answer"
# They only plan a session that is measured already: whoever judges it has limits of their own.
LIMIT, FALSE_FAIL = 0.05, 0.005


@dataclass(frozen=True, slots=True)
class Explaining:
    """Leaves the session in a folder of the search's."""

    request: Request
    driver: Driver
    environment: Mapping[str, str]
    reader: Reader
    audience: Audience
    stopped: Callable[[], bool]

    def leave(self, parent: str, commit: str) -> None:
        """The pairs that confirmed the commit, and a profile of both sides where that is wanted."""
        folder = self.request.out.resolve() / ANSWER
        if not self.driver.has_launched and self._is_whole(folder):
            return
        remove(folder)
        try:
            self._measured(folder, parent, commit)
        except CiScoreError as error:
            # The commit is found all the same.
            self.audience.says(f"the answer is not explained: {error}")

    def _is_whole(self, folder: Path) -> bool:
        """Whether an earlier call was not interrupted in it."""
        profiles = [folder / PROFILES / side for side in SIDES]
        are_there = all(one.is_dir() and any(one.iterdir()) for one in profiles)
        return (folder / MEASUREMENTS).is_file() and (are_there or not self.request.profiled)

    def _measured(self, folder: Path, parent: str, commit: str) -> None:
        launches = self.driver.launches
        sides = Sides(launches.worktrees.side(parent), launches.worktrees.side(commit))
        comparison = Comparison(self._asked(folder), sides, self.environment, launches.watch)
        session = comparison.of_pairs(
            [(row.head, row.base) for row in self.driver.journal.confirming(parent, commit)],
            {"base": launches.settled[parent], "head": launches.settled[commit]},
            launches.timed_from,
        )
        comparison.profile(session, self.reader, self.audience, self.stopped)

    def _asked(self, folder: Path) -> ComparisonRequest:
        request = self.request
        return ComparisonRequest(
            command=request.command,
            out=folder,
            case=request.case,
            timeout=request.timeout,
            settle_steps=request.settle_steps,
            max_minutes=None,
            warmup_steps=request.warmup_steps,
            tokens_per_step=request.tokens_per_step,
            steps=request.steps,
            profiled=request.profiled,
            lines=request.lines,
            keep_trace=request.keep_trace,
            looks=planned_looks(LIMIT, None, FALSE_FAIL, 1),
            false_fail=FALSE_FAIL,
            tests=1,
            limit=LIMIT,
            warn=LIMIT,
            with_tokens=(LIMIT, LIMIT),
            repeats_shared=False,
        )
