"""One call that compares: head against base, or head alone where there is no base that can run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ci_score.errors import LacksProgramError, SetupFailedError
from ci_score.files.visible import plain
from ci_score.measure.comparison import Comparison, ComparisonRequest
from ci_score.measure.one_side import OneSide
from ci_score.measure.session.profiling import Reader
from ci_score.measure.session.runner import Audience
from ci_score.measure.session.session import Session
from ci_score.measure.sides.preparing import Sides
from ci_score.model.environment import Alone
from ci_score.model.lists import SECONDS_A_MINUTE

# How many launches tell of one side.
LAUNCHES = 2
LONGEST_GIST = 200


@dataclass(slots=True, kw_only=True)
class Sitting:
    """Each way to measure says whether `ci-score run` can judge it.

    `base_failed` says that base's untimed launch did; `words_of` says what a session has found, and
    `ended` what the last one did.
    """

    request: ComparisonRequest
    sides: Sides
    environment: Mapping[str, str]
    reader: Reader
    audience: Audience
    stopped: Callable[[], bool]
    words_of: Callable[[Session], str]
    base_failed: bool = False
    ended: str = ""
    _begin: float = field(default_factory=time.monotonic)

    def compares(self, plan: str, *, or_alone: bool) -> bool:
        """Head against base; where base cannot run and that is wanted, head alone."""
        try:
            comparison = Comparison(self.request, self.sides, self.environment)
            self.audience.says(plan)
            session = comparison.run(self.audience, self.stopped)
            self._tell(self.words_of(session))
            if session.can_be_judged:
                comparison.profile(session, self.reader, self.audience, self.stopped)
        except (LacksProgramError, SetupFailedError) as error:
            if not or_alone or error.side != "base" or self.stopped():
                raise
            self.audience.says(str(error))
            return self.measures_alone(_cannot_run(str(error)))
        self.base_failed = session.cannot_run == "base"
        if or_alone and self.base_failed:
            if comparison.is_set_up:
                self.sides = replace(self.sides, setup=None)
            return self.measures_alone(_cannot_run(session.stopped))
        return session.can_be_judged

    def measures_alone(self, alone: Alone) -> bool:
        """Some launches of head, marked so that no gate takes them for a comparison."""
        why = "there is no base" if alone.why == "no_base" else "base cannot run the command"
        self.audience.says(f"{why}, so head is measured alone")
        request, minutes = self.request, self.request.max_minutes
        if minutes is not None:
            left = minutes - (time.monotonic() - self._begin) / SECONDS_A_MINUTE
            request = replace(request, max_minutes=left)
        sides = replace(self.sides, base=self.sides.head)
        measured = OneSide(request, LAUNCHES, sides, self.environment, alone)
        session = measured.run(self.reader, self.audience, self.stopped)
        self._tell(session.stopped)
        return session.is_measured

    def _tell(self, words: str) -> None:
        self.ended = words
        self.audience.says(words)


def _cannot_run(problem: str) -> Alone:
    """How base failed, without the end of its log."""
    gist = problem.partition("\n")[0].removeprefix("base: ")
    return Alone(why="base_cannot_run", words=plain(gist, LONGEST_GIST))
