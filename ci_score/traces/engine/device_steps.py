"""From what a device did to what a step of it costs: for every format that lists device events.

A reader fills the columns of a `DeviceEvents` a device, says where the steps are (`Steps`), and
gets the fields of a Profile. Where nothing marks a step, `repeated_units` looks for work that
repeats: a capture of a fixed time holds more or less of it, so only the unit can be compared.

Times are whole ticks of the format (nanoseconds, picoseconds): sums of them are exact, and become
milliseconds at the very end.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, compress, groupby, islice, pairwise
from typing import Any

from ci_score.traces.engine.categories import category_of
from ci_score.traces.engine.timeline import intersection, length, union

# What an event does to the device's time, told by its category.
COMPUTE, COMMUNICATION, TRANSFER = 0, 1, 2
# What a runtime copies or fills with a kernel is a transfer, and a kernel that was launched.
TRANSFER_KERNEL = 3
_TRANSFERS = (TRANSFER, TRANSFER_KERNEL)
_KERNELS_OF_TRANSFERS = "__amd_rocclr_"
_KINDS = {"comm": COMMUNICATION, "memcpy": TRANSFER, "memset": TRANSFER}
# Transfers between host and device are phases of their own.
COPIES = {"Memcpy HtoD": "h2d", "Memcpy DtoH": "d2h"}
REST = "unannotated"

UNKNOWN = -(2**62)
LONGEST_NAME = 400
MOST_OPS = 10_000
# Of these it is also said in which phase they run.
MOST_PHASE_OPS = 256
# A step costs a kilobyte; a capture has hundreds, and ten million kernels that are alike are none.
MOST_STEPS = 100_000
_LEAST_SHARE_OF_BUSIEST = 0.1
_FEW_BEHIND = 8


class Names:
    """Every name of a device event once, with its category."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.categories: list[str] = []
        self.kinds: list[int] = []
        self._places: dict[str, int] = {}

    def place(self, text: str, category: str | None = None) -> int:
        """The number of a name; its category is told by its text where the format says nothing."""
        text = text[:LONGEST_NAME]
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.texts)
            category = category or category_of(text)
            self.texts.append(text)
            self.categories.append(category)
            kind = _KINDS.get(category, COMPUTE)
            is_kernel = kind == TRANSFER and text.startswith(_KERNELS_OF_TRANSFERS)
            self.kinds.append(TRANSFER_KERNEL if is_kernel else kind)
        return place

    def is_kernel(self, place: int) -> bool:
        """Whether it is a kernel, and not a transfer or a fill."""
        return self.kinds[place] != TRANSFER


class DeviceEvents:
    """What one device did: a million events are six arrays, not a million objects."""

    __slots__ = ("ends", "launched_at", "launches", "names", "starts", "streams")

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")
        self.names = array("q")
        self.streams = array("q")
        # Which launch an event belongs to: one launch of a graph starts hundreds of kernels.
        self.launches = array("q")
        # When the host launched it; UNKNOWN where the format does not tell.
        self.launched_at = array("q")

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def columns(self) -> tuple[array[int], ...]:
        """The arrays, in the order in which `extend` takes them."""
        return (
            self.starts,
            self.ends,
            self.names,
            self.streams,
            self.launches,
            self.launched_at,
        )

    def extend(self, *columns: Iterable[int]) -> None:
        """More events: starts, ends, names, streams, launches, times of launch."""
        for column, more in zip(self.columns, columns, strict=True):
            column.extend(more if isinstance(more, array) else array("q", more))

    def add(self, *values: int) -> None:
        """One event, in the order of `extend`."""
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)

    def has_kernels(self, names: Names) -> bool:
        """Whether there is a kernel at all, that does not end before it starts."""
        columns = zip(self.names, self.starts, self.ends, strict=True)
        return any(names.is_kernel(name) and start <= end for name, start, end in columns)

    def tidied(self) -> tuple[DeviceEvents, int]:
        """The same events by start, without those that end before they start, and their number."""
        backwards = sum(map(operator.gt, self.starts, self.ends))
        if backwards:
            forwards = list(map(operator.le, self.starts, self.ends))
            kept = DeviceEvents()
            kept.extend(*(compress(column, forwards) for column in self.columns))
            return kept.tidied()[0], backwards
        long = _length_in_order(self.starts)
        behind = len(self) - long
        if not behind:
            return self, 0
        tidy = DeviceEvents()
        if behind > long // _FEW_BEHIND:
            order = sorted(range(len(self)), key=self.starts.__getitem__)
            tidy.extend(*(map(column.__getitem__, order) for column in self.columns))
            return tidy, 0
        for piece in _pieces_in_order(self.starts, long):
            tidy.extend(*(column[piece] for column in self.columns))
        return tidy, 0


def _length_in_order(starts: array[int]) -> int:
    descents = list(map(operator.gt, starts, islice(starts, 1, None)))
    return descents.index(True) + 1 if True in descents else len(starts)


def _pieces_in_order(starts: array[int], long: int) -> Iterator[slice]:
    """Slices that put events in order of which few stand behind a long part that is in order.

    Tables are in order, and short ones behind a long one are what is usual.
    """
    done = 0
    for place in sorted(range(long, len(starts)), key=starts.__getitem__):
        cut = bisect_right(starts, starts[place], done, long)
        yield slice(done, cut)
        yield slice(place, place + 1)
        done = cut
    yield slice(done, long)


@dataclass(frozen=True, slots=True)
class Steps:
    """Where the steps are: windows of time, sorted, none within another.

    An event belongs to the window in which it was launched, or, where launches are not known or the
    windows are the device's own, in which it started.
    """

    windows: Sequence[tuple[int, int]]
    evidence: str
    by_launch: bool = False
    # Of windows with a gap between them the distance is no step time.
    follows: Sequence[bool] = ()
    host_times: bool = False
    marked: bool = True

    def adjacent(self, place: int) -> bool:
        """Whether the step at `place` came right after the one before it."""
        return self.follows[place] if self.follows else True

    def only(self, kept: Sequence[int]) -> Steps:
        """The steps at these places; where one was left out before it, a step follows none."""
        follows = [
            place > 0 and kept[number - 1] == place - 1 and self.adjacent(place)
            for number, place in enumerate(kept)
        ]
        return replace(self, windows=[self.windows[place] for place in kept], follows=follows)


@dataclass(frozen=True, slots=True)
class Busy:
    """How long a device was busy, and with what: unions, so that parallel work counts once."""

    first: int = 0
    last: int = 0
    busy: int = 0
    compute: int = 0
    communication: int = 0
    exposed_communication: int = 0

    @property
    def span(self) -> int:
        """From the first start to the last end."""
        return self.last - self.first


# The place of a name, and the phase in which it was launched.
OpInPhase = tuple[int, str]


@dataclass(frozen=True, slots=True)
class StepWork:
    """What the device did for one step; ops come in the order of their first appearance."""

    time: Busy
    kernels: int
    launches: int
    ticks: dict[OpInPhase, int]
    counts: dict[OpInPhase, int]
    phases: dict[str, int]

    @property
    def ops(self) -> dict[int, int]:
        """The time of each name's events."""
        return _by_name(self.ticks)


def _by_name(values: Mapping[OpInPhase, int]) -> dict[int, int]:
    totals: dict[int, int] = {}
    for (name, _), value in values.items():
        totals[name] = totals.get(name, 0) + value
    return totals


def busy_time(starts: Sequence[int], ends: Sequence[int], kinds: bytes) -> Busy:
    """The unions over events that come by start."""
    if not starts:
        return Busy()
    if not _in_sequence(starts, ends):
        return _parallel_busy_time(starts, ends, kinds)
    busy = sum(ends) - sum(starts)
    communication = _sum_of_kind(COMMUNICATION, starts, ends, kinds)
    transfers = sum(_sum_of_kind(each, starts, ends, kinds) for each in _TRANSFERS)
    compute = busy - communication - transfers
    return Busy(starts[0], ends[-1], busy, compute, communication, communication)


def _in_sequence(starts: Sequence[int], ends: Sequence[int]) -> bool:
    """Whether each begins when the one before has ended: then times are sums, and found fast."""
    return all(map(operator.le, ends, islice(starts, 1, None)))


def _sum_of_kind(kind: int, starts: Sequence[int], ends: Sequence[int], kinds: bytes) -> int:
    if kind not in kinds:
        return 0
    chosen = [each == kind for each in kinds]
    return sum(compress(ends, chosen)) - sum(compress(starts, chosen))


def _parallel_busy_time(starts: Sequence[int], ends: Sequence[int], kinds: bytes) -> Busy:
    """In order of start an event adds to a union what lies beyond the latest end so far.

    So no interval is kept. Exposed communication is what communication adds to the union of all
    computation.
    """
    busy = compute = communication = work = 0
    busy_end = compute_end = communication_end = work_end = -(2**63)
    for start, end, kind in zip(starts, ends, kinds, strict=True):
        if start >= busy_end:
            busy += end - start
            busy_end = end
        elif end > busy_end:
            busy += end - busy_end
            busy_end = end
        if kind >= TRANSFER:
            continue
        if start >= work_end:
            work += end - start
            work_end = end
        elif end > work_end:
            work += end - work_end
            work_end = end
        if kind == COMPUTE:
            if start >= compute_end:
                compute += end - start
                compute_end = end
            elif end > compute_end:
                compute += end - compute_end
                compute_end = end
        elif end > communication_end:
            communication += end - max(start, communication_end)
            communication_end = end
    return Busy(starts[0], busy_end, busy, compute, communication, work - compute)


def window_of(times: Iterable[int], windows: Sequence[tuple[int, int]]) -> Iterator[int]:
    """For each time the window that it lies in, -1 where none does; of two, the later begun."""
    begins = [begin for begin, _ in windows]
    begin = end = place = 0
    for time in times:
        # Most times lie in the window of the one before.
        if not begin <= time < end:
            place = bisect_right(begins, time) - 1
            if place < 0:
                begin = end = 0
                yield -1
                continue
            begin, end = windows[place]
            if place + 1 < len(begins):
                end = min(end, begins[place + 1])
            if not begin <= time < end:
                begin = end = 0
                yield -1
                continue
        yield place


@dataclass(frozen=True, slots=True)
class Phases:
    """Named windows of host time, sorted and disjoint: an event belongs to that of its launch."""

    windows: Sequence[tuple[int, int]] = ()
    names: Sequence[str] = ()


def work_per_step(
    events: DeviceEvents, names: Names, steps: Steps, phases: Phases
) -> tuple[list[StepWork], int]:
    """The work of each step, and how many events belong to none."""
    times = events.launched_at if steps.by_launch else events.starts
    members, unattributed = _members(times, steps.windows)
    keys: dict[OpInPhase, OpInPhase] = {}
    works = [_step_work(events, names, places, phases, keys) for places in members]
    return works, unattributed


def _members(
    times: array[int], windows: Sequence[tuple[int, int]]
) -> tuple[list[Sequence[int]], int]:
    """The places of each window's times, and how many lie in none."""
    if _is_sorted(times):
        return _slices(times, windows)
    members: list[array[int]] = [array("q") for _ in windows]
    outside = 0
    for place, window in enumerate(window_of(times, windows)):
        if window < 0:
            outside += 1
        else:
            members[window].append(place)
    return list(members), outside


def _slices(
    times: Sequence[int], windows: Sequence[tuple[int, int]]
) -> tuple[list[Sequence[int]], int]:
    """The same where times are sorted: each window's are one slice."""
    slices: list[Sequence[int]] = []
    next_begins = [*(begin for begin, _ in islice(windows, 1, None)), 2**63]
    for (begin, end), limit in zip(windows, next_begins, strict=False):
        first = bisect_left(times, begin)
        slices.append(range(first, max(bisect_left(times, min(end, limit)), first)))
    return slices, len(times) - sum(map(len, slices))


def _is_sorted(times: Sequence[int]) -> bool:
    return all(map(operator.le, times, islice(times, 1, None)))


def _taken(column: array[int], places: Sequence[int]) -> array[int]:
    if isinstance(places, range):
        return column[places.start : places.stop]
    return array("q", map(column.__getitem__, places))


def _step_work(
    events: DeviceEvents,
    names: Names,
    places: Sequence[int],
    phases: Phases,
    keys: dict[OpInPhase, OpInPhase],
) -> StepWork:
    """The work of one step; `keys` holds the keys of all steps, so that each is there once."""
    starts, ends = _taken(events.starts, places), _taken(events.ends, places)
    ids, launches = _taken(events.names, places), _taken(events.launches, places)
    kinds = bytes(map(names.kinds.__getitem__, ids))
    is_kernel = [kind != TRANSFER for kind in kinds]
    work = StepWork(
        time=busy_time(starts, ends, kinds),
        kernels=sum(is_kernel),
        launches=len(set(compress(launches, is_kernel)) - {UNKNOWN}),
        ticks={},
        counts={},
        phases={},
    )
    _add_phases(work, names, (starts, ends, ids, _taken(events.launched_at, places)), phases, keys)
    return work


def times_by_name(
    names: Sequence[int], starts: Sequence[int], ends: Sequence[int]
) -> dict[int, int]:
    """The sum of the times of each name's events, in the order of their first appearance."""
    times = dict.fromkeys(names, 0)
    for name, start, end in zip(names, starts, ends, strict=True):
        times[name] += end - start
    return times


def _add_phases(
    work: StepWork,
    names: Names,
    columns: Sequence[array[int]],
    phases: Phases,
    keys: dict[OpInPhase, OpInPhase],
) -> None:
    """What was launched in each phase, and the busy time of each phase, no moment in two.

    A moment belongs to the work that began first of that which covers it, and to a copy between
    host and device only where nothing else runs: what is hidden behind work costs nothing.
    """
    starts, ends, ids, launched_at = columns
    copies = {name: COPIES[names.texts[name]] for name in set(ids) if names.texts[name] in COPIES}
    shares = work.phases
    busy_end = -(2**63)
    for first, last, phase in _runs(launched_at, phases):
        run = ids[first:last]
        begins, stops = starts[first:last], ends[first:last]
        counts = Counter(run)
        for name, ticks in times_by_name(run, begins, stops).items():
            key = keys.setdefault((name, phase), (name, phase))
            work.ticks[key] = work.ticks.get(key, 0) + ticks
            work.counts[key] = work.counts.get(key, 0) + counts[name]
        if copies:
            begins, stops = _without(copies, (begins, stops), run)
        added, busy_end = _added_time(begins, stops, busy_end)
        if added:
            shares[phase] = shares.get(phase, 0) + added
    # What the copies of one direction add to all that was counted before them is theirs.
    counted = sum(shares.values())
    directions = sorted(set(copies.values()))
    for place, direction in enumerate(directions):
        left_out = {name for name in copies if copies[name] in directions[place + 1 :]}
        now = work.time.busy
        if left_out:
            kept_starts, kept_ends = _without(left_out, (starts, ends), ids)
            now, _ = _added_time(kept_starts, kept_ends, -(2**63))
        shares[direction] = shares.get(direction, 0) + now - counted
        counted = now


def _without(
    left_out: Collection[int], columns: Sequence[array[int]], ids: array[int]
) -> list[array[int]]:
    """The columns without the events of some few names, in the slices between those."""
    cuts = sorted(chain.from_iterable(_places_of(name, ids) for name in left_out))
    begins, ends = [0, *(cut + 1 for cut in cuts)], [*cuts, len(ids)]
    kept = [array("q") for _ in columns]
    for begin, end in zip(begins, ends, strict=True):
        for column, whole in zip(kept, columns, strict=True):
            column.extend(whole[begin:end])
    return kept


def _places_of(name: int, ids: array[int]) -> Iterator[int]:
    place = -1
    for _ in range(ids.count(name)):
        place = ids.index(name, place + 1)
        yield place


def _runs(launched_at: array[int], phases: Phases) -> Iterator[tuple[int, int, str]]:
    """The places of events that follow each other and were launched in one phase."""
    if not launched_at:
        return
    near = _near(min(launched_at), max(launched_at), phases.windows)
    windows, names = phases.windows[near], phases.names[near]
    place = 0
    if _is_sorted(launched_at):
        slices, _ = _slices(launched_at, windows)
        for places, name in zip(slices, names, strict=True):
            if places:
                yield place, places[0], REST
                place = places[-1] + 1
                yield places[0], place, name
        yield place, len(launched_at), REST
        return
    for window, run in groupby(window_of(launched_at, windows)):
        begin, place = place, place + sum(1 for _ in run)
        yield begin, place, names[window] if window >= 0 else REST


def _near(first: int, last: int, windows: Sequence[tuple[int, int]]) -> slice:
    """Which of the windows can hold times from `first` to `last`: a step sees few of all phases."""
    begin = operator.itemgetter(0)
    return slice(
        max(bisect_right(windows, first, key=begin) - 1, 0), bisect_right(windows, last, key=begin)
    )


def _added_time(starts: array[int], ends: array[int], busy_end: int) -> tuple[int, int]:
    """What the events, by start, add to a union that ends at `busy_end`; and where it ends then."""
    if not starts:
        return 0, busy_end
    if starts[0] >= busy_end and _in_sequence(starts, ends):
        return sum(ends) - sum(starts), ends[-1]
    added = 0
    for start, end in zip(starts, ends, strict=True):
        if start >= busy_end:
            added += end - start
            busy_end = end
        elif end > busy_end:
            added += end - busy_end
            busy_end = end
    return added, busy_end


# --- the fields of a Profile --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Derived:
    """What one device's timeline tells: the fields of a Profile, and how good the evidence is."""

    label: str
    fields: dict[str, Any]
    notes: tuple[str, ...]
    way: int
    # Of work that repeats what it is: times of other work are no other times of the same.
    unit: frozenset[str] | None = None


Way = Callable[[DeviceEvents], tuple[Steps | None, Phases]]


def derive(
    label: str, events: DeviceEvents, names: Names, ways: Sequence[Way], ticks_per_ms: float
) -> Derived:
    """The numbers of a device, by the first way to find steps that finds some with device work.

    The last way must always find one.
    """
    tidy, backwards = events.tidied()
    notes = [f"{backwards} device events end before they begin; left out"] if backwards else []
    for rank, way in enumerate(ways):  # noqa: B007 - it tells which way it was
        steps, phases = way(tidy)
        if steps is None:
            continue
        if len(steps.windows) > MOST_STEPS:
            notes.append(f"of {len(steps.windows)} steps the first {MOST_STEPS} count")
            steps = steps.only(range(MOST_STEPS))
        works, unattributed = work_per_step(tidy, names, steps, phases)
        kept = [place for place, work in enumerate(works) if work.kernels]
        if kept:
            break
        notes.append(f"no kernel belongs to any step ({steps.evidence})")
    else:
        raise ValueError("no way to find steps found one")
    if len(kept) < len(works):
        notes.append(f"{len(works) - len(kept)} steps without a kernel; left out")
    if unattributed:
        notes.append(f"{unattributed} of {len(tidy)} device events belong to no step")
    fields = step_fields([works[place] for place in kept], names, steps.only(kept), ticks_per_ms)
    fields |= op_fields([works[place] for place in kept], names, phases, ticks_per_ms)
    _cover_by_phases(fields, steps.only(kept), phases)
    if set(fields["phases"]) <= {REST, *COPIES.values()}:
        why = "no kernel was launched in a phase" if phases.windows else "no phase is annotated"
        notes.append(f"{why}: the kernels of a step are one, '{REST}'")
    if not steps.marked:
        doubt = ", which may be a layer or a part of a step" if len(steps.windows) > 1 else ""
        notes.append(f"nothing marks a step: what counts as one is {steps.evidence}{doubt}")
    is_all = not unattributed and len(kept) == len(works)
    kernels = sum(n for name, n in Counter(tidy.names).items() if names.is_kernel(name))
    fields["capture"] = {
        "kernels": float(kernels),
        "unattributed_gpu_events": float(unattributed),
        **capture_sums(tidy, names, ticks_per_ms, works if is_all else ()),
    }
    repeats = not steps.marked and len(steps.windows) > 1
    unit = frozenset(fields["ops"]) if repeats else None
    return Derived(label, fields, tuple(notes), rank, unit)


def slowest(devices: Sequence[Derived]) -> tuple[Derived, list[str]]:
    """The device that speaks for all, as a job's step is its slowest rank's; and what to note.

    One that hardly works beside the others does not count, nor one with weaker evidence of steps.
    """
    busiest = max(device.fields["capture"]["gpu_busy_ms"] for device in devices)
    working = [
        device
        for device in devices
        if device.fields["capture"]["gpu_busy_ms"] >= _LEAST_SHARE_OF_BUSIEST * busiest
    ]
    best_way = min(device.way for device in working)
    found = [device for device in working if device.way == best_way]
    comparable = _of_most_work(found)
    chosen = max(comparable, key=lambda device: device.fields["avg_step_ms"])
    if len(devices) == 1:
        return chosen, []
    times = [device.fields["avg_step_ms"] for device in comparable]
    which = f"the slowest of {len(comparable)} ({min(times):.4g} to {max(times):.4g} ms a step)"
    if len(comparable) == 1:
        which = "the busiest of those whose steps are known"
    others = len(found) - len(comparable)
    if others:
        which += f"; what {others} more repeat is other work, and no slower or faster"
    return chosen, [f"{len(devices)} devices: these are the numbers of {chosen.label}, {which}"]


def _of_most_work(devices: Sequence[Derived]) -> list[Derived]:
    """Those that repeat the same work, of several works that of which there is most."""
    busy: Counter[frozenset[str] | None] = Counter()
    for device in devices:
        busy[device.unit] += device.fields["capture"]["gpu_busy_ms"]
    return [device for device in devices if device.unit == busy.most_common(1)[0][0]]


def one_step(events: DeviceEvents) -> Steps | None:
    """Everything as one step, where nothing marks steps and nothing repeats."""
    if not len(events):
        return None
    window = (events.starts[0], max(events.ends) + 1)
    return Steps([window], "the whole capture, in which no work repeats", marked=False)


def step_fields(
    works: Sequence[StepWork], names: Names, steps: Steps, ticks_per_ms: float
) -> dict[str, Any]:
    """The fields of a Profile that the steps tell, each with its source."""
    count = len(works)
    basis = f"device events of {count} step{'s' if count > 1 else ''} ({steps.evidence})"
    per_step = 1 / (ticks_per_ms * count)
    times = [work.time for work in works]
    fields: dict[str, Any] = {
        "device_busy_ms": sum(time.busy for time in times) * per_step,
        "compute_ms": sum(time.compute for time in times) * per_step,
        "communication_ms": sum(time.communication for time in times) * per_step,
        "exposed_communication_ms": sum(time.exposed_communication for time in times) * per_step,
        "device_idle_share": _idle_share(times, steps),
        "device_kernels_per_step": sum(work.kernels for work in works) / count,
        **_op_times(works, names, per_step),
    }
    if any(work.launches for work in works):
        fields["kernel_launches_per_step"] = sum(work.launches for work in works) / count
    sources = dict.fromkeys(fields, basis)
    if "kernel_launches_per_step" in fields:
        sources["kernel_launches_per_step"] = f"calls that are named by {basis}"
    sources["device_idle_share"] = f"of the device's own span, first start to last end; {basis}"
    sources["steps"] = steps.evidence
    step_times, sources["avg_step_ms"] = _step_times(works, steps, ticks_per_ms)
    fields |= {"steps": count, **step_times}
    average = fields["avg_step_ms"]
    fields["phases"] = _phase_values(works, average, ticks_per_ms)
    sources["phases"] = (
        f"{basis}; no moment twice: copies count here where no kernel runs, and in ops in full"
    )
    if average > 0:
        fields["wall_coverage"] = min(fields["device_busy_ms"] / average, 1.0)
        sources["wall_coverage"] = "device busy time / step time"
    return {**fields, "sources": sources}


def _cover_by_phases(fields: dict[str, Any], steps: Steps, phases: Phases) -> None:
    """Where phases are annotated, how much of the host's step time they cover."""
    wall = length(union(steps.windows))
    if steps.host_times and phases.windows and wall > 0:
        covered = length(intersection(union(phases.windows), union(steps.windows)))
        fields["wall_coverage"] = covered / wall
        fields["sources"]["wall_coverage"] = "annotated phases / host time of the steps"


def _idle_share(times: Sequence[Busy], steps: Steps) -> float:
    """The share of the device's span in which it did nothing; gaps between steps do not count."""
    span = busy = 0
    end = times[0].first
    for place, time in enumerate(times):
        begin = end if steps.adjacent(place) and place else time.first
        end = max(time.last, begin)
        span += end - begin
        busy += time.busy
    return min(max(1 - busy / span, 0.0), 1.0) if span > 0 else 0.0


def _step_times(
    works: Sequence[StepWork], steps: Steps, ticks_per_ms: float
) -> tuple[dict[str, Any], str]:
    """The device's end-to-end period: host spans are wrong where the host runs ahead."""
    ends = list(accumulate((work.time.last for work in works), max))
    periods = tuple(
        (ends[place] - ends[place - 1]) / ticks_per_ms
        for place in range(1, len(ends))
        if steps.adjacent(place)
    )
    if periods:
        source = f"GPU end-to-end period of {len(works)} steps ({steps.evidence})"
        average = sum_in_order(periods) / len(periods)
        return {"avg_step_ms": average, "step_times_ms": periods}, source
    if steps.host_times:
        spans, clock = list(steps.windows), "host time"
    else:
        spans = [(work.time.first, work.time.last) for work in works]
        clock = "device time, from first start to last end,"
    which = "one step" if len(spans) == 1 else f"{len(spans)} steps, none right after another"
    average = sum(end - begin for begin, end in spans) / ticks_per_ms / len(spans)
    return {"avg_step_ms": average}, f"{clock} of {which} ({steps.evidence})"


def sum_in_order(values: Iterable[float]) -> float:
    """A plain sum: `sum` itself rounds differently from one Python to the next."""
    total = 0.0
    for value in values:
        total += value
    return total


def _op_times(works: Sequence[StepWork], names: Names, per_step: float) -> dict[str, Any]:
    totals: Counter[int] = Counter()
    for work in works:
        totals.update(work.ops)
    categories: Counter[str] = Counter()
    for name, ticks in totals.items():
        categories[names.categories[name]] += ticks
    return {
        "ops": {
            names.texts[name]: ticks * per_step for name, ticks in totals.most_common(MOST_OPS)
        },
        "op_categories": {name: ticks * per_step for name, ticks in categories.most_common()},
    }


def op_fields(
    works: Sequence[StepWork], names: Names, phases: Phases, ticks_per_ms: float
) -> dict[str, Any]:
    """How often a step runs each op, of which kind it is, and in which phase it is launched."""
    counts: dict[OpInPhase, int] = {}
    ticks: dict[OpInPhase, int] = {}
    for work in works:
        for key, count in work.counts.items():
            counts[key] = counts.get(key, 0) + count
            ticks[key] = ticks.get(key, 0) + work.ticks[key]
    per_step = 1 / len(works)
    op_counts, op_ticks = _by_name(counts), Counter(_by_name(ticks))
    largest = {name for name, _ in op_ticks.most_common(MOST_OPS)}
    detailed = {name for name, _ in op_ticks.most_common(MOST_PHASE_OPS)}
    phase_ops: dict[str, dict[str, dict[str, float]]] = {}
    for (name, phase), count in counts.items():
        if name in detailed and phases.windows:
            ms = ticks[name, phase] / ticks_per_ms * per_step
            of_phase = {"count": count * per_step, "ms": ms}
            phase_ops.setdefault(phase, {})[names.texts[name]] = of_phase
    return {
        "op_counts": {
            names.texts[name]: count * per_step
            for name, count in op_counts.items()
            if name in largest
        },
        "op_kinds": {
            names.texts[name]: names.categories[name] for name in op_counts if name in largest
        },
        "phase_ops": phase_ops,
    }


def _phase_values(
    works: Sequence[StepWork], avg_step_ms: float, ticks_per_ms: float
) -> dict[str, dict[str, float]]:
    """The phases as a Profile has them: mean per step, and the share of the step's time."""
    totals: dict[str, int] = {}
    for work in works:
        for name, ticks in work.phases.items():
            totals[name] = totals.get(name, 0) + ticks
    means = {name: ticks / ticks_per_ms / len(works) for name, ticks in totals.items()}
    return {
        name: {
            "total_ms": mean,
            "avg_ms": mean,
            "pct": 100 * mean / avg_step_ms if avg_step_ms > 0 else 0.0,
        }
        for name, mean in means.items()
    }


def capture_sums(
    events: DeviceEvents, names: Names, ticks_per_ms: float, all_work: Sequence[StepWork] = ()
) -> dict[str, float]:
    """What the device did from the first event to the last, attributed to a step or not.

    Where steps hold every event and come one after the other, `all_work` of them is added up.
    """
    follow = all(before.time.last <= after.time.first for before, after in pairwise(all_work))
    time = _sum_of(all_work) if all_work and follow else _busy_time_of(events, names)
    return _capture_values(time, ticks_per_ms)


def _busy_time_of(events: DeviceEvents, names: Names) -> Busy:
    kinds = bytes(map(names.kinds.__getitem__, events.names))
    return busy_time(events.starts, events.ends, kinds)


def _sum_of(works: Sequence[StepWork]) -> Busy:
    """The time of steps that come one after the other and are all there is."""
    times = [work.time for work in works]
    return Busy(
        times[0].first,
        times[-1].last,
        sum(time.busy for time in times),
        sum(time.compute for time in times),
        sum(time.communication for time in times),
        sum(time.exposed_communication for time in times),
    )


def _capture_values(time: Busy, ticks_per_ms: float) -> dict[str, float]:
    overlapped = time.communication - time.exposed_communication
    return {
        "gpu_span_ms": time.span / ticks_per_ms,
        "gpu_busy_ms": time.busy / ticks_per_ms,
        "gpu_idle_pct": 100 * (1 - time.busy / time.span) if time.span > 0 else 0.0,
        "compute_ms": time.compute / ticks_per_ms,
        "comm_ms": time.communication / ticks_per_ms,
        "comm_overlapped_ms": overlapped / ticks_per_ms,
    }


# --- work that repeats --------------------------------------------------------------------------

# Longer sequences are searched in their last part, where training has settled.
_LONGEST_SEARCH = 100_000
_LONGEST_MARKER = 64
_MOST_CANDIDATES = 12
# Units may take up less of the sequence than all: warm-up before, a cut one at either end.
_LEAST_COVERED, _ENOUGH_COVERED = 0.5, 0.995
_LEAST_UNITS = 2
# A unit at the beginning that takes so many times the usual is warm-up.
_WARM_UP = 3
# Two that are alike may be chance where they are short.
_SHORT_UNIT, _LEAST_SHORT_UNITS = 4, 3


def repeated_steps(events: DeviceEvents) -> Steps | None:
    """Steps of the device's own time, one a unit of repeated work; None where none repeats.

    The unit is looked for on the busiest stream: what other streams run falls between its kernels
    now here, now there.
    """
    if not len(events):
        return None
    stream = Counter(events.streams).most_common(1)[0][0]
    places = [place for place, of in enumerate(events.streams) if of == stream]
    units = repeated_units([events.names[place] for place in places])
    if not units:
        return None
    count, is_last = len(units), units[-1][1] == len(places)
    if count > MOST_STEPS:
        units, is_last = units[:MOST_STEPS], False
    # A unit lasts until the next kernel of its stream, so that nothing falls between two.
    begins = [events.starts[place] for place in places] + [max(events.ends) + 1]
    windows = [(begins[first], begins[end]) for first, end in units]
    follows = [place > 0 and units[place - 1][1] == first for place, (first, _) in enumerate(units)]
    kernels = units[0][1] - units[0][0]
    evidence = f"a sequence of {kernels} device events that repeats {count} times"
    if count > len(units):
        evidence += f", of which the first {len(units)} count"
    steps = _without_warm_up(Steps(windows, evidence, follows=follows, marked=False))
    return _without_open_end(steps) if is_last and places[-1] < len(events) - 1 else steps


def _without_open_end(steps: Steps) -> Steps:
    """Without a last unit after which other streams ran on: what of that is its, nobody knows."""
    if len(steps.windows) <= _LEAST_UNITS:
        return steps
    closed = steps.only(range(len(steps.windows) - 1))
    return replace(closed, evidence=f"{steps.evidence}, without the last (other work follows)")


def _without_warm_up(steps: Steps) -> Steps:
    """Without the first units where they took far longer: compiling, connecting, allocating."""
    times = [end - begin for begin, end in steps.windows]
    longest = _WARM_UP * sorted(times)[len(times) // 2]
    first = next((place for place, time in enumerate(times) if time <= longest), 0)
    if not first or len(times) - first < _LEAST_UNITS:
        return steps
    warm = steps.only(range(first, len(times)))
    return replace(warm, evidence=f"{steps.evidence}, without the first {first} (warm-up)")


def repeated_units(names: Sequence[int]) -> list[tuple[int, int]]:
    """Where the units of a sequence of repeated work are, as (first, end); empty where none repeat.

    A unit begins with a marker, some names in a row that occur once in it. Layers repeat within
    steps, so the marker is chosen whose most frequent unit covers most of the sequence.
    """
    searched = names[-_LONGEST_SEARCH:]
    best: tuple[int, ...] = ()
    most = 0
    for marker in _markers(searched):
        covered = _covered(_units_by(marker, searched), searched)
        if covered > most:
            best, most = marker, covered
        if covered > _ENOUGH_COVERED * len(searched):
            break
    if not best or most < _LEAST_COVERED * len(searched):
        return []
    return _from_the_beginning(_units_by(best, names), names)


def _covered(units: Sequence[tuple[int, int]], names: Sequence[int]) -> int:
    """How much of the sequence the units are, the parts of one before and after them included."""
    if not units:
        return 0
    size = units[0][1] - units[0][0]
    least = _LEAST_SHORT_UNITS if size < _SHORT_UNIT else _LEAST_UNITS
    if len(units) < least:
        return 0
    return size * len(units) + sum(_parts_around(units, names))


def _parts_around(units: Sequence[tuple[int, int]], names: Sequence[int]) -> tuple[int, int]:
    """How many names before the first unit and after the last are part of one more."""
    first, first_end = units[0]
    last, last_end = units[-1]
    before = after = 0
    while before < first and names[first - 1 - before] == names[first_end - 1 - before]:
        before += 1
    while last_end + after < len(names) and names[last_end + after] == names[last + after]:
        after += 1
    return before, after


def _from_the_beginning(
    units: Sequence[tuple[int, int]], names: Sequence[int]
) -> list[tuple[int, int]]:
    """Units that follow each other, cut where the repetition begins and not where its marker is.

    A capture often begins with a step; and there may be one more unit in the parts around them.
    """
    if any(end != following for (_, end), (following, _) in pairwise(units)):
        return list(units)
    before, after = _parts_around(units, names)
    first, size = units[0][0] - before, units[0][1] - units[0][0]
    count = (units[-1][1] + after - first) // size
    return [(first + size * place, first + size * (place + 1)) for place in range(count)]


def _markers(names: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Names in a row that could begin a unit: of each number of occurrences the first there is.

    Runs of 1, 2, 4… names are numbered by joining two of half the length.
    """
    runs: Sequence[int] = names
    width = 1
    while width <= _LONGEST_MARKER and len(runs) > 1:
        first_place: dict[int, int] = {}
        for place, run in enumerate(runs):
            first_place.setdefault(run, place)
        counts = Counter(runs)
        weights: Counter[int] = Counter()
        earliest: dict[int, int] = {}
        for run, place in first_place.items():
            if (count := counts[run]) > 1:
                weights[count] += count
                earliest[count] = min(earliest.get(count, place), place)
        # Rare ones first: they mark the longest units, and are tried in no time.
        for count in sorted(count for count, _ in weights.most_common(_MOST_CANDIDATES)):
            place = earliest[count]
            yield tuple(names[place : place + width])
        numbers: dict[tuple[int, int], int] = {}
        pairs = zip(runs, islice(runs, width, None), strict=False)
        runs = array("q", (numbers.setdefault(pair, len(numbers)) for pair in pairs))
        width *= 2


def _units_by(marker: Sequence[int], names: Sequence[int]) -> list[tuple[int, int]]:
    """The most frequent of the units that the marker cuts the sequence into, where they stand."""
    text = array("q", names).tobytes()
    begins = list(_occurrences(array("q", marker).tobytes(), text))
    if len(begins) < _LEAST_UNITS:
        return []
    cuts = Counter(text[begin:end] for begin, end in pairwise(begins))
    unit, _ = max(cuts.items(), key=lambda item: len(item[0]) * item[1])
    # Between two units there may be more that is part of none: an evaluation, a checkpoint.
    size = array("q").itemsize
    units: list[tuple[int, int]] = []
    for begin in begins:
        follows = not units or begin // size >= units[-1][1]
        if follows and text.startswith(unit, begin):
            units.append((begin // size, (begin + len(unit)) // size))
    return units


def _occurrences(needle: bytes, text: bytes) -> Iterator[int]:
    """Where one sequence of numbers stands in another; a match across numbers is none."""
    size = array("q").itemsize
    place = text.find(needle)
    while place >= 0:
        if place % size == 0:
            yield place
            place += size
        else:
            place += 1
        place = text.find(needle, place)
