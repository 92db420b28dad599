"""A re-run: the attempts of a run are judged together, as far as each measured something new.

Running a job again until it passes by luck must not work. So no attempt replaces another one: pairs
of launches are added to the earlier ones, single numbers become the mean of the attempts, and a
measurement that was judged before adds no evidence.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Kind, find_metric, tokens_differ
from ci_score.model.reasons import Datum, Reason, Why
from ci_score.model.record import MOST_LAUNCHES, LaunchNumbers, Measured, Record, RunIdentity


@dataclass(frozen=True, slots=True)
class Attempts:
    """The cases as all attempts together measured them, and notices about that for the report."""

    cases: tuple[Measured, ...]
    notices: tuple[Reason, ...] = ()


def pooled(
    cases: Sequence[Measured],
    run: RunIdentity | None,
    commit: str | None,
    earlier: Iterable[Record | Reason],
    job: str | None = None,
) -> Attempts:
    """The cases of this attempt, with the measurements of `earlier` attempts, the newest first.

    In place of a record there may be the reason why one that was found does not count.
    """
    if run is None or run.attempt < 2:
        return Attempts(tuple(cases))
    records = _Lazily(
        one if isinstance(one, Reason) else _not_ours(one, run, commit, job) or one
        for one in earlier
    )
    together, notices = [], _Notices(run.attempt)
    for case in cases:
        before = _newest_usable(case, records)
        together.append(case if before is None else _joined(case, before, notices))
    notices.nothing_found = records.is_empty
    notices.refused = tuple(records.refused)
    return Attempts(tuple(together), tuple(notices.reasons()))


def _not_ours(
    record: Record, run: RunIdentity, commit: str | None, job: str | None
) -> Reason | None:
    """Why a record is not of an earlier attempt of this very run and job."""
    of = record.run or RunIdentity(number=0)
    bound: dict[str, tuple[Datum, Datum]] = {
        "run": (of.id, run.id),
        "run number": (of.number, run.number),
        "commit": (record.commit, commit),
        "job": (record.job, job),
    }
    for what, (there, here) in bound.items():
        if there != here:
            return Why.OF_ANOTHER(what=what, there=there, here=here)
    if of.attempt >= run.attempt:
        return Why.NO_EARLIER_ATTEMPT(there=of.attempt, here=run.attempt)
    return None


@dataclass(slots=True)
class _Notices:
    """How each case was treated."""

    attempt: int
    nothing_found: bool = False
    refused: tuple[Reason, ...] = ()
    same: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    other: tuple[Reason, ...] = ()

    def reasons(self) -> Iterator[Reason]:
        for why in self.refused:
            yield Why.EARLIER_REFUSED(why=why)
        if self.nothing_found:
            yield Why.EARLIER_NOT_FOUND(attempt=self.attempt)
        if self.same:
            yield Why.JUDGED_AGAIN(attempt=self.attempt, cases=self.same)
        if self.new:
            yield Why.MEASURED_AGAIN(attempt=self.attempt, cases=self.new)
        yield from self.other


class _Lazily:
    """Records that are fetched only when they are looked at, because each costs requests."""

    def __init__(self, records: Iterable[Record | Reason]) -> None:
        self._waiting = iter(records)
        self._read: list[Record] = []
        self.refused: list[Reason] = []

    def __iter__(self) -> Iterator[Record]:
        yield from self._read
        for record in self._waiting:
            if isinstance(record, Reason):
                self.refused.append(record)
                continue
            self._read.append(record)
            yield record

    @property
    def is_empty(self) -> bool:
        return next(iter(self), None) is None


def _newest_usable(case: Measured, records: Iterable[Record]) -> Measured | None:
    """The case in the newest earlier attempt that was not disturbed."""
    if not _is_usable(case):
        return None
    candidates = (record.case(case.name) for record in records)
    return next((earlier for earlier in candidates if earlier and _is_usable(earlier)), None)


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
        # That attempt may hold the numbers of attempts before it, too.
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
    """Whether all pairs ran in turns; None if that is not known of one of the two attempts."""
    both = (case.took_turns, earlier.took_turns)
    return False if False in both else None if None in both else True


def _not_yet_seen(
    launches: Sequence[LaunchNumbers], seen: Sequence[LaunchNumbers]
) -> list[LaunchNumbers]:
    """The launches that no earlier attempt has judged.

    They are compared by their numbers, because a file may be written again without a new
    measurement. Exact times do not happen twice.
    """
    known = {_content(one) for one in seen}
    # One side may have the same number by chance; both sides of a pair do not.
    anew = {one.launch for one in launches if _content(one) not in known}
    return [one for one in launches if one.launch in anew]


def _content(launch: LaunchNumbers) -> tuple[object, ...]:
    return launch.side, *sorted(launch.values.items())


def _renumbered(
    launches: Sequence[LaunchNumbers], taken: Sequence[LaunchNumbers]
) -> Iterator[LaunchNumbers]:
    """The launches with numbers behind the taken ones; a pair keeps one number on both sides."""
    first = 1 + max((one.launch for one in taken), default=-1)
    for place, number in enumerate(sorted({one.launch for one in launches})):
        for one in launches:
            if one.launch == number:
                yield one.but(launch=first + place)


def _with_means(case: Measured, earlier: Measured, weight: int) -> Measured:
    """Each number as the mean of the attempts; with pairs, the median of all launches."""

    def mean(new: float, old: float) -> float:
        return (new + old * weight) / (1 + weight)

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
    """The case with the numbers that the attempts before it have together."""
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
    """One number for what several launches or attempts measured of a metric.

    For `valid_steps` it is the least, because other launches do not make up for one that skipped
    steps. For an exact count it is the most: the launch that needed more memory, or one more
    recompilation, counts. Times are the mean, as all of it was spent. Of a throughput that is the
    harmonic mean, and for all others it is the median.
    """
    if name == "valid_steps":
        return min(values)
    if name == STEP_TIME:
        return statistics.fmean(values)
    if name == THROUGHPUT and min(values) > 0:
        return statistics.harmonic_mean(values)
    metric = find_metric(name)
    if metric is not None and metric.kind is Kind.EXACT and not metric.higher_is_better:
        return max(values)
    return statistics.median(values)
