"""A re-run: what the attempts of a run measured counts together, and only where it is new.

Whoever runs a job again until it passes rolls dice. So no attempt replaces another one: pairs of
launches are added to those that are there, single numbers become their mean, and a measurement
that was judged before is no new evidence, however often it is judged.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Kind, find_metric, tokens_differ
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import MOST_LAUNCHES, LaunchNumbers, Measured, Record, RunIdentity


@dataclass(frozen=True, slots=True)
class Attempts:
    """The cases as all attempts together measured them, and what the report says of that."""

    cases: tuple[Measured, ...]
    notices: tuple[Reason, ...] = ()


def pooled(
    cases: Sequence[Measured],
    run: RunIdentity | None,
    commit: str | None,
    earlier: Iterable[Record],
) -> Attempts:
    """The cases of this attempt with what `earlier` attempts, the newest first, have measured."""
    if run is None or run.attempt < 2:
        return Attempts(tuple(cases))
    records = _Lazily(
        record
        for record in earlier
        if record.run is not None
        and record.run.number == run.number
        and record.run.attempt < run.attempt
        and record.commit == commit
    )
    together, notices = [], _Notices(run.attempt)
    for case in cases:
        found = _newest_usable(case, records)
        together.append(case if found is None else _joined(case, found, notices))
    if records.is_empty:
        notices.nothing_found = True
    return Attempts(tuple(together), tuple(notices.reasons()))


@dataclass(slots=True)
class _Notices:
    """Which case was treated how."""

    attempt: int
    nothing_found: bool = False
    same: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    other: tuple[Reason, ...] = ()

    def reasons(self) -> Iterator[Reason]:
        if self.nothing_found:
            yield Why.EARLIER_NOT_FOUND(attempt=self.attempt)
        if self.same:
            yield Why.JUDGED_AGAIN(attempt=self.attempt, cases=self.same)
        if self.new:
            yield Why.MEASURED_AGAIN(attempt=self.attempt, cases=self.new)
        yield from self.other


class _Lazily:
    """Records that cost a request each, read as far as somebody looks."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._waiting = iter(records)
        self._read: list[Record] = []

    def __iter__(self) -> Iterator[Record]:
        yield from self._read
        for record in self._waiting:
            self._read.append(record)
            yield record

    @property
    def is_empty(self) -> bool:
        return next(iter(self), None) is None


def _newest_usable(case: Measured, records: Iterable[Record]) -> Measured | None:
    """What an attempt before this one has measured; one that was disturbed has measured nothing."""
    if not _is_usable(case):
        return None
    candidates = (record.case(case.name) for record in records)
    return next((found for found in candidates if found and _is_usable(found)), None)


def _is_usable(case: Measured) -> bool:
    return case.has_a_time and case.measurement is not None and not case.environment.disturbances


def _joined(case: Measured, earlier: Measured, notices: _Notices) -> Measured:
    differs = case.environment.mismatch(earlier.environment)
    if differs is None and tokens_differ(case.tokens_per_step, earlier.tokens_per_step):
        differs = Why.OTHER_TOKENS(head=case.tokens_per_step, base=earlier.tokens_per_step)
    if differs is not None:
        notices.other += (Why.OTHERWISE_BEFORE(case=case.name, why=differs),)
        return case
    seen = (*earlier.earlier_measurements, earlier.measurement or "")
    if case.measurement in seen:
        notices.same += (case.name,)
        # Attempts before that one may have measured more than what is judged again.
        return _with_numbers_of(earlier, case) if earlier.earlier_measurements else case
    new = _not_yet_seen(case.launches, earlier.launches)
    if case.launches and not new:
        notices.same += (case.name,)
        return _with_numbers_of(earlier, case)
    notices.new += (case.name,)
    launches = (*earlier.launches, *_renumbered(new, earlier.launches))
    both = case.but(
        launches=launches[:MOST_LAUNCHES],
        took_turns=_took_turns(case, earlier),
        earlier_measurements=seen,
    )
    return _with_means(both, earlier, len(seen))


def _took_turns(case: Measured, earlier: Measured) -> bool | None:
    """Pairs that did not run side by side do not become such by adding others."""
    both = (case.took_turns, earlier.took_turns)
    return False if False in both else None if None in both else True


def _not_yet_seen(
    launches: Sequence[LaunchNumbers], seen: Sequence[LaunchNumbers]
) -> list[LaunchNumbers]:
    """Those that no earlier attempt has judged: a file that was written again is not measured anew.

    Times to the nanosecond do not happen twice.
    """
    known = {_content(one) for one in seen}
    # One number may happen to be the same; both sides of a pair do not.
    anew = {one.launch for one in launches if _content(one) not in known}
    return [one for one in launches if one.launch in anew]


def _content(launch: LaunchNumbers) -> tuple[object, ...]:
    return launch.side, *sorted(launch.values.items())


def _renumbered(
    launches: Sequence[LaunchNumbers], taken: Sequence[LaunchNumbers]
) -> Iterator[LaunchNumbers]:
    """Behind the launches that are there; a pair keeps one number on both sides."""
    first = 1 + max((one.launch for one in taken), default=-1)
    for place, number in enumerate(sorted({one.launch for one in launches})):
        for one in launches:
            if one.launch == number:
                yield one.but(launch=first + place)


def _with_means(case: Measured, earlier: Measured, weight: int) -> Measured:
    """Each number as the mean of the attempts; of pairs the median of all launches."""

    def mean(mine: float, theirs: float) -> float:
        return (mine + theirs * weight) / (1 + weight)

    card, before = case.scorecard, earlier.scorecard
    numbers = {
        name: mean(getattr(card, name), getattr(before, name))
        for name in (STEP_TIME, THROUGHPUT)
        if getattr(card, name) > 0 and getattr(before, name) > 0
    }
    metrics = earlier.metrics | {
        name: mean(value, earlier.metrics.get(name, value)) for name, value in case.metrics.items()
    }
    if "valid_steps" in case.metrics and "valid_steps" in earlier.metrics:
        both = (case.metrics["valid_steps"], earlier.metrics["valid_steps"])
        metrics["valid_steps"] = as_one("valid_steps", both)
    if any(one.side == "base" for one in case.launches):
        for name in {name for one in case.launches for name in one.values}:
            values = case.numbers_of("head", name)
            if values:
                target = numbers if name in (STEP_TIME, THROUGHPUT) else metrics
                target[name] = as_one(name, values)
    return case.but(scorecard=card.but(**numbers), metrics=metrics)


def _with_numbers_of(earlier: Measured, case: Measured) -> Measured:
    """The case with the numbers that several attempts before it have in common."""
    numbers = {name: getattr(earlier.scorecard, name) for name in (STEP_TIME, THROUGHPUT)}
    return case.but(
        scorecard=case.scorecard.but(**numbers),
        metrics=earlier.metrics,
        launches=earlier.launches,
        took_turns=earlier.took_turns,
        measurement=earlier.measurement,
        earlier_measurements=earlier.earlier_measurements,
    )


def as_one(name: str, values: Sequence[float]) -> float:
    """What several launches or attempts measured of a metric, in one number.

    A launch that skipped its steps is not made good by others that did theirs, and one that needed
    more memory, or another recompilation, is the one that counts.
    """
    if name == "valid_steps":
        return min(values)
    metric = find_metric(name)
    if metric is not None and metric.kind is Kind.EXACT and not metric.higher_is_better:
        return max(values)
    return statistics.median(values)
