"""Which work of the device belongs to which step, phase and layer, and how long it takes."""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, compress, groupby, repeat
from typing import NamedTuple

from ci_score.traces.engine.busy import BEFORE_ALL, Busy, added_time, busy_time
from ci_score.traces.engine.device_events import (
    COMPUTE,
    TRANSFER,
    TRANSFER_NAMES,
    UNKNOWN,
    DeviceEvents,
    Names,
)
from ci_score.traces.engine.phases import REST, Phases
from ci_score.traces.engine.steps import Steps
from ci_score.traces.engine.timeline import (
    Interval,
    Windows,
    is_sorted,
    members_of,
    slices_of,
    taken,
)

# Transfers between host and device are phases of their own.
COPIES = {TRANSFER_NAMES[direction]: direction for direction in ("h2d", "d2h")}
TENTHS = 10
# Of each kind whether it is one, as bytes are told apart without a loop of our own.
_IS_KERNEL = bytes(kind != TRANSFER for kind in range(256))
_IS_COMPUTE = bytes(kind == COMPUTE for kind in range(256))


@dataclass(frozen=True, slots=True)
class StepWork:
    """What the device did for one step."""

    time: Busy
    kernels: int
    launches: int
    phases: dict[str, int]
    # Compute by tenths of its kernels, in the order of their launch.
    tenths: tuple[int, ...] = ()


class OpPlaceKey(NamedTuple):
    """An op by its name's number, the phase of its launch, and the code of its layer."""

    name: int
    phase: str
    layer: int


def by_name(values: Mapping[OpPlaceKey, int]) -> Counter[int]:
    """The sums of each name, in the order in which a step first runs them."""
    totals: Counter[int] = Counter()
    for key, value in values.items():
        totals[key.name] += value
    return totals


@dataclass(frozen=True, slots=True)
class Attribution:
    """The steps that count and their work, and all of their ops by phase and layer."""

    steps: Steps
    works: Sequence[StepWork]
    ticks: Mapping[OpPlaceKey, int]
    counts: Mapping[OpPlaceKey, int]
    # The events that belong to no step, and the steps without kernels, which do not count.
    outside: int
    without_kernels: int

    @property
    def busy(self) -> float:
        """How long the device is busy in a step."""
        return sum(work.time.busy for work in self.works) / len(self.works)


class Attributing:
    """A device's events with the steps that they belong to."""

    def __init__(self, events: DeviceEvents, names: Names, steps: Steps) -> None:
        self.events, self.names, self.steps = events, names, steps
        times = events.launched_at if steps.by_launch else events.starts
        self.members, self.outside = members_of(times, steps.windows)
        self._kinds = bytes(map(names.kinds.__getitem__, events.names))
        found = map(self._kinds_at, self.members)
        self._kernels = [len(kinds) - kinds.count(TRANSFER) for kinds in found]

    @property
    def with_kernels(self) -> list[int]:
        """The steps in which kernels ran."""
        return [place for place, kernels in enumerate(self._kernels) if kernels]

    def holds_most(self) -> bool:
        """Whether the steps hold most of the time of compute: communication may wait for ever."""
        events = self.events
        is_compute = [kind == COMPUTE for kind in self._kinds]
        times = list(map(operator.mul, map(operator.sub, events.ends, events.starts), is_compute))
        inside = sum(sum(map(times.__getitem__, places)) for places in self.members)
        return bool(2 * inside >= sum(times))

    def attributed(self, phases: Phases, layers: Sequence[int] = ()) -> Attribution:
        """The work of the steps with kernels. `layers` has a code for each event, 0 for none.

        Where but one of several steps of the host's ran kernels there is no period of the device's:
        then all steps count.
        """
        kept = self.with_kernels
        is_mean = len(kept) == 1 < len(self.members) and self.steps.host_times
        if is_mean:
            kept = list(range(len(self.members)))
        steps = self.steps if is_mean else self.steps.only(kept)
        totals = _Totals(self.names, phases, layers)
        works = [self._work(place, totals) for place in kept]
        without_kernels = len(self.members) - len(kept)
        return Attribution(steps, works, *totals.as_keys(), self.outside, without_kernels)

    def _kinds_at(self, places: Sequence[int]) -> bytes:
        if isinstance(places, range):
            return self._kinds[places.start : places.stop]
        return bytes(map(self._kinds.__getitem__, places))

    def _work(self, place: int, totals: _Totals) -> StepWork:
        places, events = self.members[place], self.events
        starts, ends = taken(events.starts, places), taken(events.ends, places)
        launched_at = taken(events.launched_at, places)
        kinds = self._kinds_at(places)
        launches = compress(taken(events.launches, places), kinds.translate(_IS_KERNEL))
        time = busy_time(starts, ends, kinds)
        columns = _Columns(starts, ends, taken(events.names, places), launched_at)
        return StepWork(
            time=time,
            kernels=self._kernels[place],
            launches=len(set(launches) - {UNKNOWN}),
            phases=totals.add(columns, places, time.busy),
            tenths=_tenths(columns, kinds),
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The events of one step."""

    starts: array[int]
    ends: array[int]
    names: array[int]
    launched_at: array[int]


def _tenths(columns: _Columns, kinds: bytes) -> tuple[int, ...]:
    """The compute of each tenth of a step's kernels; none of a step with fewer kernels."""
    is_compute = kinds.translate(_IS_COMPUTE)
    times = list(compress(map(operator.sub, columns.ends, columns.starts), is_compute))
    if len(times) < TENTHS:
        return ()
    launched = list(compress(columns.launched_at, is_compute))
    if not is_sorted(launched):
        order = sorted(range(len(times)), key=launched.__getitem__)
        times = list(map(times.__getitem__, order))
    sums = [0, *accumulate(times)]
    cuts = [sums[len(times) * place // TENTHS] for place in range(TENTHS + 1)]
    return tuple(map(operator.sub, cuts[1:], cuts))


class _Totals:
    """The ops of all steps by phase and layer; meanwhile one number stands for name and layer."""

    def __init__(self, names: Names, phases: Phases, layers: Sequence[int]) -> None:
        self._names, self._phases, self._layers = names, phases, layers
        self._width = max(layers, default=0) + 1
        self._ticks: dict[tuple[int, str], int] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def as_keys(self) -> tuple[dict[OpPlaceKey, int], dict[OpPlaceKey, int]]:
        """The ticks and counts by name, phase and layer."""
        keys = {
            key: OpPlaceKey(key[0] // self._width, key[1], key[0] % self._width)
            for key in self._ticks
        }
        ticks = {keys[key]: value for key, value in self._ticks.items()}
        return ticks, {keys[key]: value for key, value in self._counts.items()}

    def add(self, columns: _Columns, places: Sequence[int], busy: int) -> dict[str, int]:
        """Adds a step's ops; returns the busy time of each phase, no moment in two.

        A moment belongs to the work that began first of that which covers it, and to a copy between
        host and device only where nothing else runs: what is hidden behind work costs nothing.
        """
        starts, ends, names = columns.starts, columns.ends, columns.names
        texts = self._names.texts
        copies = {name: COPIES[texts[name]] for name in set(names) if texts[name] in COPIES}
        keys = self._keyed(names, places)
        shares: dict[str, int] = {}
        busy_end = BEFORE_ALL
        for first, last, phase in _runs(columns.launched_at, self._phases):
            begins, stops = starts[first:last], ends[first:last]
            self._add_run(keys[first:last], phase, begins, stops)
            if copies:
                begins, stops = _without(copies, (begins, stops), names[first:last])
            added, busy_end = added_time(begins, stops, busy_end)
            if added:
                shares[phase] = shares.get(phase, 0) + added
        _add_copies(shares, copies, columns, busy)
        return shares

    def _keyed(self, names: array[int], places: Sequence[int]) -> array[int]:
        if self._width == 1:
            return names
        wide = map(operator.mul, names, repeat(self._width))
        return array("q", map(operator.add, wide, map(self._layers.__getitem__, places)))

    def _add_run(self, keys: array[int], phase: str, starts: array[int], ends: array[int]) -> None:
        times = dict.fromkeys(keys, 0)
        for key, start, end in zip(keys, starts, ends, strict=True):
            times[key] += end - start
        counts = Counter(keys)
        for key, ticks in times.items():
            place = key, phase
            self._ticks[place] = self._ticks.get(place, 0) + ticks
            self._counts[place] = self._counts.get(place, 0) + counts[key]


def _add_copies(
    shares: dict[str, int], copies: dict[int, str], columns: _Columns, busy: int
) -> None:
    """Adds the copies of each direction, with the time in which nothing counted before them ran."""
    counted = sum(shares.values())
    directions = sorted(set(copies.values()))
    for place, direction in enumerate(directions):
        left_out = {name for name in copies if copies[name] in directions[place + 1 :]}
        now = busy
        if left_out:
            kept = _without(left_out, (columns.starts, columns.ends), columns.names)
            now, _ = added_time(*kept, BEFORE_ALL)
        shares[direction] = shares.get(direction, 0) + now - counted
        counted = now


def _without(
    left_out: Collection[int], columns: Sequence[array[int]], names: array[int]
) -> tuple[array[int], array[int]]:
    """The two columns without the events of some few names, in the slices between those."""
    cuts = sorted(chain.from_iterable(_places_of(name, names) for name in left_out))
    begins, ends = [0, *(cut + 1 for cut in cuts)], [*cuts, len(names)]
    kept = array("q"), array("q")
    for begin, end in zip(begins, ends, strict=True):
        for column, whole in zip(kept, columns, strict=True):
            column.extend(whole[begin:end])
    return kept


def _places_of(name: int, names: array[int]) -> Iterator[int]:
    place = -1
    for _ in range(names.count(name)):
        place = names.index(name, place + 1)
        yield place


def _runs(launched_at: array[int], phases: Phases) -> Iterator[tuple[int, int, str]]:
    """The places of events that follow each other and were launched in one phase."""
    if not launched_at:
        return
    near = _near(min(launched_at), max(launched_at), phases.windows)
    windows, names = phases.windows[near], phases.names[near]
    place = 0
    if is_sorted(launched_at):
        slices, _ = slices_of(launched_at, windows)
        for places, name in zip(slices, names, strict=True):
            if places:
                yield place, places[0], REST
                place = places[-1] + 1
                yield places[0], place, name
        yield place, len(launched_at), REST
        return
    for window, run in groupby(Windows(windows).places(launched_at)):
        begin, place = place, place + sum(1 for _ in run)
        yield begin, place, names[window] if window >= 0 else REST


def _near(first: int, last: int, windows: Sequence[Interval]) -> slice:
    """Which of the windows can hold times from `first` to `last`: a step sees few of all phases."""
    begin = operator.itemgetter(0)
    return slice(
        max(bisect_right(windows, first, key=begin) - 1, 0), bisect_right(windows, last, key=begin)
    )
