"""Lets the search ask and the machine answer: what is measured, kept, and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from math import log

from ci_score.errors import CiScoreError, WrongUseError
from ci_score.measure.bisect.beside import level_of, scale_of
from ci_score.measure.bisect.history import SHORT, Line
from ci_score.measure.bisect.journal import Journal, LeftOut, Measured, Row, Settling
from ci_score.measure.bisect.launches import (
    CutOffError,
    DoesNotRunError,
    Launches,
    seconds_of_pair,
    with_warm_up,
)
from ci_score.measure.bisect.search import Search
from ci_score.model.bisection import Ask, AskedFor, Effect, Finding
from ci_score.model.lists import duration_in_words, plural, share_in_words

# A commit whose launches fail this often in a row is broken, and not unlucky.
MOST_FAILURES = 2


class StoppedError(CiScoreError):
    """The search ended before it knew anything; what was measured is kept."""


@dataclass(slots=True)
class Driver:
    """Runs a search over a line of commits, from where its journal ends."""

    line: Line
    search: Search
    journal: Journal
    launches: Launches
    says: Callable[[str], None]
    why_skipped: dict[str, str] = field(default_factory=dict)
    has_launched: bool = False
    _failures: dict[str, int] = field(default_factory=dict)
    _is_told: bool = False

    def run(self) -> Finding:
        """Launches what the search asks for, until it knows the answer."""
        self._replay()
        for number in count(len(self.journal.rows)):
            asked = self.search.next()
            if isinstance(asked, Finding):
                self._tell_disturbed()
                return asked
            self._refuse_to_go_on()
            try:
                self._settle(asked)
                self._tell(asked)
                self._measure(asked, number)
            except DoesNotRunError as error:
                self._failed(error)
        raise AssertionError("count() has no end")

    # --- what was measured before -----------------------------------------------------------------

    def _replay(self) -> None:
        rows = self.journal.rows
        for row in rows:
            if not self._takes(row):
                raise WrongUseError(
                    f"{self.journal.folder} holds a search that went another way (by another"
                    " version of ci-score?); give --fresh to begin anew"
                )
        if rows:
            pairs = sum(isinstance(row, Measured) for row in rows)
            self.says(f"going on after {plural(2 * pairs, 'launch')} that were measured before")

    def _takes(self, row: Row) -> bool:
        """Gives a row to the search; False where the search did not ask for it."""
        if isinstance(row, Settling):
            self.launches.settled[row.commit] = row.settled
            return True
        asked = self.search.next()
        if isinstance(asked, Finding):
            return False
        if isinstance(row, LeftOut):
            if row.commit not in self._commits(asked):
                return False
            self._skip(row.commit, row.why)
            return True
        if (asked.why, *self._commits(asked)) != (row.why, row.first, row.second):
            return False
        self._answer(asked, row)
        return True

    def _commits(self, asked: Ask) -> tuple[str, str]:
        """The earlier and the later commit of a pair."""
        earlier, later = sorted((asked.first, asked.second))
        return self.line.commits[earlier], self.line.commits[later]

    def _answer(self, asked: Ask, row: Measured) -> None:
        times = {row.first: row.base.mean_ms, row.second: row.head.mean_ms}
        commits = self.line.commits
        self.search.told(asked, times[commits[asked.first]], times[commits[asked.second]])

    # --- what is measured now ---------------------------------------------------------------------

    def _refuse_to_go_on(self) -> None:
        if self.launches.stopped():
            raise StoppedError(
                "it was interrupted, what was measured is kept; the same command goes on"
            )
        if self.launches.seconds_left() <= 0:
            raise StoppedError(
                "the time was used up, what was measured is kept; the same command goes on"
            )

    def _settle(self, asked: Ask) -> None:
        """Lets a commit run once untimed before it is first timed; GOOD and BAD come first."""
        ends = self.line.good, self.line.bad
        for sha in dict.fromkeys((*ends, *self._commits(asked))):
            if sha not in self.launches.settled:
                self._settle_one(sha)
        known = [self.launches.settled[sha] for sha in ends]
        self.launches.plan = with_warm_up(self.launches.plan, known)

    def _settle_one(self, sha: str) -> None:
        try:
            settled = self.launches.settle(sha)
        except CutOffError:
            self._refuse_to_go_on()
            raise
        self.has_launched = True
        good = self.launches.settled.get(self.line.good, settled)
        if settled.by_hook != good.by_hook:
            # What a script tells cannot be compared with what the hook takes.
            self._failures[sha] = MOST_FAILURES
            raise DoesNotRunError(
                sha, "only one of it and GOOD tells its own steps, so they cannot be compared"
            )
        self.launches.settled[sha] = settled
        self.journal.add(Settling(commit=sha, settled=settled))

    def _measure(self, asked: Ask, number: int) -> None:
        earlier, later = self._commits(asked)
        try:
            head, base = self.launches.pair(
                earlier, later, number, later_first=asked.first > asked.second
            )
        except CutOffError:
            self._refuse_to_go_on()
            raise
        self.has_launched = True
        for sha in (earlier, later):
            self._failures.pop(sha, None)
        row = Measured(why=asked.why, first=earlier, second=later, base=base, head=head)
        self.journal.add(row)
        self._answer(asked, row)

    def _failed(self, error: DoesNotRunError) -> None:
        """A commit that fails again is left out; one of the ends stops the search."""
        sha = error.sha
        self._failures[sha] = self._failures.get(sha, 0) + 1
        if sha not in self.launches.settled:
            # A commit that does not run at all will not run the next time either.
            self._failures[sha] = MOST_FAILURES
        if self._failures[sha] < MOST_FAILURES:
            return
        self.journal.add(LeftOut(commit=sha, why=error.why))
        self.says(f"{sha[:SHORT]} is left out: {error.why}")
        self._skip(sha, error.why)

    def _skip(self, sha: str, why: str) -> None:
        self.why_skipped[sha] = why
        self.search.skips(self.line.commits.index(sha))

    # --- what is said -----------------------------------------------------------------------------

    def _tell(self, asked: Ask) -> None:
        if asked.why is not AskedFor.ENDS:
            if self._begins_search():
                for words in self._plan():
                    self.says(words)
            self._is_told = True
        done, total = self.search.state.launches, self._total(asked)
        of_about = f" of about {total}" if total else ""
        words = f"launch {done + 1}{of_about}: {self._in_words(asked)}"
        self.launches.audience.does(words, done, total)

    def _pairs(self) -> list[Measured]:
        return [row for row in self.journal.rows if isinstance(row, Measured)]

    def _begins_search(self) -> bool:
        """Whether GOOD and BAD alone were measured, also by a call that was interrupted."""
        return not self._is_told and all(row.why is AskedFor.ENDS for row in self._pairs())

    def _total(self, asked: Ask) -> int:
        """About how many launches it takes in all; 0 as long as nobody knows."""
        of_ends = 2 * sum(row.why is AskedFor.ENDS for row in self._pairs())
        total = of_ends + self.search.expected.launches
        is_known = asked.why is not AskedFor.ENDS and total > self.search.state.launches
        return total if is_known else 0

    def _in_words(self, asked: Ask) -> str:
        earlier, later = (sha[:SHORT] for sha in self._commits(asked))
        if asked.why is AskedFor.PROBE:
            left = plural(self.search.state.candidates, "commit")
            return f"{self.line.commits[asked.commit][:SHORT]}, {left} left"
        return f"{later} against {earlier}"

    def _tell_disturbed(self) -> None:
        """The search counts what others do to a pair as noise, and needs more launches then."""
        pairs = self._pairs()
        plan = self.launches.plan
        disturbed = sum(plan.repeats((row.head, row.base)) for row in pairs)
        if disturbed:
            self.says(
                f"others disturbed {disturbed} of {plural(len(pairs), 'pair')}: on a quiet machine"
                " a search needs fewer launches"
            )

    def _plan(self) -> Iterator[str]:
        """What is known before the search, and how long it takes."""
        ends = [self.launches.settled[sha] for sha in (self.line.good, self.line.bad)]
        expected, seen = self.search.expected, self._seen()
        seconds = seconds_of_pair(self.launches.plan, ends) / 2 * expected.launches
        low, high = share_in_words(seen.low), share_in_words(seen.high)
        yield f"BAD's step takes {share_in_words(seen.share)} ({low} to {high}) against GOOD's"
        yield (
            f"the search takes about {plural(expected.launches, 'launch')},"
            f" {duration_in_words(seconds)}; the smallest slowdown that it can find is"
            f" {share_in_words(expected.smallest)}"
        )

    def _seen(self) -> Effect:
        """How much slower BAD is than GOOD, by the pairs of these two."""
        ends = self.line.good, self.line.bad
        ratios = [
            log(row.head.mean_ms / row.base.mean_ms)
            for row in self._pairs()
            if (row.first, row.second) == ends
        ]
        return level_of(ratios, scale_of([ratios])).effect()
