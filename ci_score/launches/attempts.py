"""A re-run: the attempts of a run are judged together, as far as each measured something new.

Running a job again until it passes by luck must not work. So no attempt replaces another one: pairs
of launches are added to the earlier ones, single numbers become the mean of the attempts, and a
measurement that was judged before adds no evidence.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from ci_score.launches.environment import joined
from ci_score.model.environment import Environment
from ci_score.model.metrics import STEP_TIME, THROUGHPUT, Kind, find_metric, tokens_differ
from ci_score.model.reasons import Datum, Reason, Why
from ci_score.model.record import (
    MOST_ATTEMPTS,
    MOST_LAUNCHES,
    LaunchNumbers,
    Measured,
    Record,
    RunIdentity,
)
from ci_score.model.stages import Attempted

SHOWN_CHANGES = 8
# What makes two machines of one kind.
KINDS = ("accelerator", "accelerator_count", "precision")


@dataclass(frozen=True, slots=True)
class Attempts:
    """The cases as all attempts together measured them, and notices about that for the report."""

    cases: tuple[Measured, ...]
    notices: tuple[Reason, ...] = ()
    # Of each case what earlier attempts measured on another kind of machine.
    elsewhere: tuple[tuple[Measured, ...], ...] = ()


def pooled(
    cases: Sequence[Attempted],
    run: RunIdentity | None,
    commit: str | None,
    earlier: Iterable[Record | Reason],
    job: str | None = None,
) -> Attempts:
    """The cases with what earlier attempts measured: first by their files, then by their records.

    `earlier` has those records, the newest first, or the reason why one does not count.
    """
    notices = _Notices()
    elsewhere = [_Elsewhere(one.case) for one in cases]
    together = [
        _with_files_before(one, notices, apart) for one, apart in zip(cases, elsewhere, strict=True)
    ]
    if run is None or run.attempt < 2:
        return _of_all(together, notices, elsewhere)
    records = _Lazily(
        one if isinstance(one, Reason) else _not_ours(one, run, commit, job) or one
        for one in earlier
    )
    for place, (case, own) in enumerate(zip(together, cases, strict=True)):
        before = _newest_usable(case, records, elsewhere[place])
        if before is not None:
            now = _Now(own.attempt or run.attempt, run.attempt)
            together[place] = _joined(case, before, now, notices)
    # The files of each attempt are as good as its record.
    has_files = all(one.before or 0 < one.attempt < run.attempt for one in cases)
    if records.is_empty and not (cases and has_files):
        notices.add(Why.EARLIER_NOT_FOUND(attempt=run.attempt))
    notices.refused = tuple(records.refused)
    return _of_all(together, notices, elsewhere)


def _of_all(
    together: Sequence[Measured], notices: _Notices, elsewhere: Sequence[_Elsewhere]
) -> Attempts:
    others = tuple(tuple(one.kinds) for one in elsewhere)
    return Attempts(tuple(together), tuple(notices.reasons()), others)


def _with_files_before(one: Attempted, notices: _Notices, elsewhere: _Elsewhere) -> Measured:
    """The case with the earlier attempts whose files are here, as far as they are comparable.

    A newest attempt that cannot be used stands alone, as beside a record.
    """
    comparable = []
    for before in one.before if _is_usable(one.case) else ():
        differs = _unusable(before.case) or _incomparable(one.case, before.case)
        if differs is None:
            comparable.append(before)
        else:
            notices.add(Why.OTHERWISE_BEFORE(case=one.case.name, why=differs))
            elsewhere.add(before.case, before.attempt)
    together: Measured | None = None
    for each in (*comparable, one):
        now = _Now(each.attempt, each.attempt)
        together = _joined(each.case, together, now, notices) if together else each.case
    return together or one.case


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
class _Elsewhere:
    """What was measured of a case on kinds of machines that are not the newest attempt's.

    It shows nothing of this one, and it does not go away by measuring somewhere else.
    """

    here: Measured
    kinds: list[Measured] = field(default_factory=list)

    def add(self, earlier: Measured, attempt: int) -> None:
        """What one more attempt measured; attempts on one kind of machine count together."""
        is_here = earlier.environment.mismatch(self.here.environment, KINDS) is None
        if is_here or not _is_usable(earlier):
            return
        for place, kind in enumerate(self.kinds):
            if _incomparable(earlier, kind) is None:
                # The files come in their order, and records the newest first, which has the others.
                now = _Now(attempt, attempt)
                self.kinds[place] = _joined(earlier, kind, now, _Notices())
                return
        self.kinds.append(earlier)


@dataclass(frozen=True, slots=True)
class _Now:
    """The attempt that measured, and the one that judges."""

    measured: int
    judges: int


@dataclass(slots=True)
class _Notices:
    """How each case was treated."""

    refused: tuple[Reason, ...] = ()
    same: dict[int, dict[str, None]] = field(default_factory=dict)
    new: dict[int, dict[str, None]] = field(default_factory=dict)
    other: dict[str, Reason] = field(default_factory=dict)

    def add(self, reason: Reason) -> None:
        """One more notice; what was said of a file need not be said of its record."""
        self.other.setdefault(reason.model_dump_json(), reason)

    def reasons(self) -> Iterator[Reason]:
        for why in self.refused:
            yield Why.EARLIER_REFUSED(why=why)
        for attempt, cases in self.same.items():
            yield Why.JUDGED_AGAIN(attempt=attempt, cases=tuple(cases))
        for attempt, cases in self.new.items():
            yield Why.MEASURED_AGAIN(attempt=attempt, cases=tuple(cases))
        yield from self.other.values()


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


def _newest_usable(
    case: Measured, records: Iterable[Record], elsewhere: _Elsewhere
) -> Measured | None:
    """The case in the newest earlier attempt that was not disturbed, and ran on such a machine."""
    if not _is_usable(case):
        return None
    newest: Measured | None = None
    for record in records:
        earlier = record.case(case.name)
        if earlier is None or not _is_usable(earlier):
            continue
        if case.environment.mismatch(earlier.environment, KINDS) is None:
            return earlier
        newest = newest or earlier
        elsewhere.add(earlier, record.run.attempt if record.run else 0)
    return newest


def _is_usable(case: Measured) -> bool:
    return _unusable(case) is None


def _unusable(case: Measured) -> Reason | None:
    """Why an attempt neither counts nor hides those before it."""
    for event, words in case.environment.disturbances.items():
        return Why.DISTURBED(event=event, words=words)
    if case.has_a_time and case.measurement is not None:
        return None
    return case.unmeasured or Why.NO_TIME()


def _incomparable(case: Measured, earlier: Measured) -> Reason | None:
    differs = case.environment.mismatch(earlier.environment)
    tokens = (case.told_tokens, earlier.told_tokens)
    if differs is None and tokens_differ(*tokens):
        differs = Why.OTHER_TOKENS(head=tokens[0], base=tokens[1])
    if differs is None and case.has_both_sides and _has_head_alone(earlier):
        differs = earlier.alone.reason if earlier.alone else Why.WITHOUT_BASE()
    return differs


def _has_head_alone(case: Measured) -> bool:
    """Whether its launches would only be holes in the pairs of another attempt."""
    return bool(case.launches) and not case.has_both_sides


def _joined(case: Measured, earlier: Measured, now: _Now, notices: _Notices) -> Measured:
    """The case with what an earlier attempt has beside it; each measurement counts once."""
    differs = _incomparable(case, earlier)
    if differs is not None:
        notices.add(Why.OTHERWISE_BEFORE(case=case.name, why=differs))
        return case
    if _has_head_alone(case) and earlier.has_both_sides:
        notices.same.setdefault(now.judges, {})[case.name] = None
        return _with_numbers_of(earlier, case)
    seen, own = _measurements(earlier), _measurements(case)
    new = _not_among(earlier.launches, case.launches)
    if own.keys() <= seen.keys() or (case.launches and not new):
        notices.same.setdefault(now.judges, {})[case.name] = None
        # That attempt may hold the numbers of attempts before it, too.
        return case if seen.keys() <= own.keys() else _with_numbers_of(earlier, case)
    notices.new.setdefault(now.measured, {})[case.name] = None
    gone = _not_among(case.launches, earlier.launches)
    has_all = seen.keys() <= own.keys() or bool(earlier.launches and not gone)
    launches = case.launches if not gone else (*earlier.launches, *_behind(earlier.launches, new))
    before = {**seen, **own}
    before.pop(case.measurement or "")
    both = case.but(
        launches=launches[:MOST_LAUNCHES],
        environment=_of_both(case, earlier, notices),
        took_turns=_took_turns(case, earlier) if gone else case.took_turns,
        earlier_measurements=tuple(before)[-MOST_ATTEMPTS:],
    )
    return _with_means(both, earlier, has_all=has_all)


def _measurements(case: Measured) -> dict[str, None]:
    """What was measured by each attempt that the case has, in their order."""
    return dict.fromkeys((*case.earlier_measurements, case.measurement or ""))


def _of_both(case: Measured, earlier: Measured, notices: _Notices) -> Environment:
    """The environment of the newer attempt, with what both may have against a verdict."""
    here, there = case.environment, earlier.environment
    changed = here.versions_since(there)
    if changed:
        notices.add(Why.ELSEWHERE_BEFORE(case=case.name, changed=changed[:SHOWN_CHANGES]))
    both, _ = joined([("", here), ("", there)])
    return both


def _took_turns(case: Measured, earlier: Measured) -> bool | None:
    """Whether all pairs ran in turns; None if that is not known of one of the two attempts."""
    both = (case.took_turns, earlier.took_turns)
    return False if False in both else None if None in both else True


# One launch, or the two of a pair.
_Unit = tuple[LaunchNumbers, ...]


def _not_among(known: Sequence[LaunchNumbers], launches: Sequence[LaunchNumbers]) -> list[_Unit]:
    """The pairs, and the launches without partner, that are not among the known ones.

    They are compared by their numbers on both sides, because a file may be written again without a
    new measurement. Exact times do not happen twice, but a coarse timer has some more often: as
    many of them are known as there are.
    """
    left = Counter(map(_content, _units(known)))
    new = []
    for unit in _units(launches):
        content = _content(unit)
        if left[content]:
            left[content] -= 1
        else:
            new.append(unit)
    return new


def _units(launches: Sequence[LaunchNumbers]) -> Iterator[_Unit]:
    """The pairs by their numbers, each with what has no partner behind them."""
    numbers: dict[int, dict[str, list[LaunchNumbers]]] = {}
    for one in launches:
        numbers.setdefault(one.launch, {}).setdefault(one.side, []).append(one)
    for number in sorted(numbers):
        head, base = (numbers[number].get(side, []) for side in ("head", "base"))
        for pair in zip_longest(head, base):
            yield tuple(one for one in pair if one is not None)


def _content(unit: _Unit) -> tuple[object, ...]:
    return tuple((one.side, one.void, *sorted(one.values.items())) for one in unit)


def _behind(taken: Sequence[LaunchNumbers], units: Sequence[_Unit]) -> Iterator[LaunchNumbers]:
    """The launches with numbers behind the taken ones; a pair keeps one number on both sides."""
    first = 1 + max((one.launch for one in taken), default=-1)
    for number, unit in enumerate(units, start=first):
        yield from (one.but(launch=number) for one in unit)


def _with_means(case: Measured, earlier: Measured, *, has_all: bool) -> Measured:
    """Each number as the mean of the attempts; of pairs, one number for all launches.

    Where the case `has_all` of the earlier ones, its numbers are theirs, too.
    """
    if has_all:
        return case.but(metrics={**earlier.metrics, **case.metrics})
    weight = len(_measurements(earlier))

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
    for name, value in _of_pairs(case).items():
        target = numbers if name in (STEP_TIME, THROUGHPUT) else metrics
        target[name] = value
    return case.but(scorecard=card.but(**numbers), metrics=metrics)


def _of_pairs(case: Measured) -> dict[str, float]:
    """What the launches of all pairs give."""
    own = [one for one in case.launches if one.side == "head" and case.has_both_sides]
    names = {name for one in own for name in one.values}
    return {name: as_one(name, case.numbers_of("head", name)) for name in names}


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
