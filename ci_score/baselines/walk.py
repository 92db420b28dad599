"""The walk over earlier records, the nearest first: it finds the baseline of a case.

A store says which records there are, in which order, and why it could offer no more of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from ci_score.baselines.histories import join_histories
from ci_score.model.environment import Environment
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import BaselineUsed, HistoryPoint, Judged, Record, RunIdentity
from ci_score.model.stages import Baseline, BaselineFound, BaselineMissing
from ci_score.model.verdict import Unjudged

# A case is known for so many runs after the last one that measured it.
KNOWN_RUNS = 10

# Why there is no baseline: in one word, and what was found.
Missing = tuple[Unjudged, Reason]


class BaselineStore(Protocol):
    """Finds the nearest usable earlier record of a case, or says why there is none."""

    def find(self, case: str, environment: Environment) -> Baseline:
        """The baseline of `case` as measured in `environment`."""

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """What the nearest records remember of earlier runs, joined."""

    def known_cases(self) -> frozenset[str]:
        """The cases that the branch measures: the report names those that are missing now."""

    def inputs(self) -> Mapping[str, str] | None:
        """The inputs of the nearest record's run; None if they are not known."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that was read and has cases, and where it came from.

    `name` is what reasons call it. `source`, `commit`, `run` and `created_at` are what the store
    knows of the record; the record itself may claim something else.
    """

    name: str
    source: str
    record: Record
    commit: str | None
    run: RunIdentity | None
    created_at: str
    commits_away: int | None = None
    fits_any_case: bool = False

    def case(self, name: str) -> Judged | None:
        """The case of that name; a bare scorecard does not know the name of its only one."""
        return self.record.cases[0] if self.fits_any_case else self.record.case(name)


class Walk(ABC):
    """A store of baselines; it opens no more records than it is asked for, and each one once."""

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self._opened: list[Candidate] = []
        self._skipped: list[Reason] = []
        self._unopened = self._candidates()

    @abstractmethod
    def _candidates(self) -> Iterator[Candidate]:
        """The records of the store, the nearest first; what cannot be used goes to `_skipped`."""

    @abstractmethod
    def _own_reason(
        self, case: str, mismatch: Reason | None, unmeasured: Reason | None
    ) -> Missing | None:
        """Why no candidate can be the baseline, if only this store can tell.

        `mismatch` and `unmeasured` are what was wrong with the nearest ones that have the case.
        """

    def find(self, case: str, environment: Environment) -> Baseline:
        """The nearest record that measured the case in a comparable environment."""
        mismatch: Reason | None = None
        unmeasured: Reason | None = None
        for candidate in self._nearest_first():
            earlier = candidate.case(case)
            if earlier is None:
                continue
            if not earlier.has_a_time:
                unmeasured = unmeasured or Why.NOTHING_OF_CASE(record=candidate.name, case=case)
                continue
            differs = environment.mismatch(earlier.environment)
            if differs is None:
                return BaselineFound(earlier, self._used(candidate))
            mismatch = mismatch or Why.MISMATCH_IN(record=candidate.name, why=differs)
        if not (mismatch or unmeasured):
            mismatch, unmeasured = self._remembered(case, environment)
        why, detail = self._own_reason(case, mismatch, unmeasured) or _reason(
            case, mismatch, unmeasured
        )
        return BaselineMissing(why, detail, tuple(self._skipped))

    def _remembered(
        self, case: str, environment: Environment
    ) -> tuple[Reason | None, Reason | None]:
        """What was wrong with a case that the branch remembers, and of which no record is left."""
        for candidate in islice(self._nearest_first(), 1):
            points = [one for one in candidate.record.history if one.case == case]
            if points and (differs := environment.mismatch(points[-1].environment)):
                return Why.MISMATCH_IN(record=candidate.name, why=differs), None
            if points:
                return None, Why.NOTHING_OF_CASE(record=candidate.name, case=case)
        return None, None

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """What the nearest records remember, joined."""
        nearest = islice(self._nearest_first(), most_records)
        return join_histories(*(candidate.record.history for candidate in nearest))

    def known_cases(self) -> frozenset[str]:
        """The cases of the nearest record, and of the last runs that it remembers.

        One record may lack a case because a job of its run failed.
        """
        record = self._nearest()
        if record is None:
            return frozenset()
        runs = dict.fromkeys(_run_of(point) for point in reversed(record.history))
        last = frozenset(islice(runs, KNOWN_RUNS))
        remembered = {point.case for point in record.history if _run_of(point) in last}
        return frozenset(case.name for case in record.cases) | remembered

    def inputs(self) -> Mapping[str, str] | None:
        """The inputs of the nearest record's run."""
        record = self._nearest()
        return record.inputs if record else None

    def _nearest(self) -> Record | None:
        return next((candidate.record for candidate in self._nearest_first()), None)

    def _nearest_first(self) -> Iterator[Candidate]:
        """The candidates that were opened before, then further ones."""
        yield from self._opened
        for candidate in self._unopened:
            self._opened.append(candidate)
            yield candidate

    def _used(self, candidate: Candidate) -> BaselineUsed:
        return BaselineUsed(
            source=candidate.source,
            commit=candidate.commit,
            run=candidate.run,
            created_at=candidate.created_at or None,
            commits_away=candidate.commits_away,
            skipped=tuple(self._skipped),
        )


def _run_of(point: HistoryPoint) -> tuple[str | None, int | str]:
    """What the points of one run have in common."""
    return point.commit, point.run.number if point.run else point.created_at


def _reason(case: str, mismatch: Reason | None, unmeasured: Reason | None) -> Missing:
    """Why no record serves: a case that a record has, without a number, is no new one."""
    if mismatch:
        return Unjudged.ENVIRONMENT_CHANGED, mismatch
    if unmeasured:
        return Unjudged.ALL_UNUSABLE, unmeasured
    return Unjudged.NEW_CASE, Why.NO_SUCH_CASE(case=case)
