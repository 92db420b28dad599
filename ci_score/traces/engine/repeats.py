"""Work that repeats: where nothing marks a step, the unit that a capture consists of.

A capture of a fixed time holds more or less of it, so only the unit can be compared.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from ci_score.traces.engine.device_events import COMPUTE, DeviceEvents, Names
from ci_score.traces.engine.layers import MOST_LAYERS, forward_code
from ci_score.traces.engine.steps import MOST_STEPS, Steps
from ci_score.traces.engine.timeline import Windows

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


def repeated_steps(events: DeviceEvents, names: Names, *, others_between: bool) -> Steps | None:
    """Steps of the device's own time, one a unit of repeated work; None where none repeats.

    The unit is looked for on the stream that computes longest: what other streams run falls
    between its kernels now here, now there, and what repeats on them says nothing of the steps.
    """
    if not len(events):
        return None
    stream = _longest_stream(events, names)
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
    repeated = Steps(
        windows, evidence, follows=follows, marked=False, must_hold_most=count == len(units)
    )
    if not others_between and not _is_all_there_is(repeated, events, names):
        return None
    steps = _without_warm_up(repeated)
    return _without_open_end(steps) if is_last and places[-1] < len(events) - 1 else steps


def _longest_stream(events: DeviceEvents, names: Names) -> int:
    """The stream with most time of compute; of captures without, the one with most events."""
    counts = Counter(events.streams)
    if len(counts) > 1:
        times = dict.fromkeys(counts, 0)
        is_compute = [kind == COMPUTE for kind in names.kinds]
        rows = zip(events.streams, events.names, events.starts, events.ends, strict=True)
        for stream, name, start, end in rows:
            if is_compute[name]:
                times[stream] += end - start
        longest = max(times, key=times.__getitem__)
        if times[longest]:
            return longest
    return counts.most_common(1)[0][0]


def _is_all_there_is(steps: Steps, events: DeviceEvents, names: Names) -> bool:
    """Whether the repeated units are steps: layers repeat as well, but between others' kernels."""
    inside: set[int] = set()
    outside: set[int] = set()
    places = Windows(steps.windows).places(events.starts)
    for name, place in zip(events.names, places, strict=True):
        (inside if place >= 0 else outside).add(name)
    return not any(names.is_kernel(name) for name in outside - inside)


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
    """Where one sequence of numbers stands in another; a match begins and ends with a number."""
    size = array("q").itemsize
    place = text.find(needle)
    while place >= 0:
        if place % size == 0:
            yield place
            place += size
        else:
            place += 1
        place = text.find(needle, place)


# --- layers of a model that names none ----------------------------------------------------------

# One sequence so often in a row, over so much of the time of kernels without communication.
_LEAST_REPEATS, _LEAST_OF_TIME = 4, 0.6


@dataclass(frozen=True, slots=True)
class RepeatedLayers:
    """A sequence of kernels that repeats in every step: each event's code, and how often."""

    codes: Sequence[int]
    count: int


def repeated_layers(
    events: DeviceEvents, names: Names, members: Sequence[Sequence[int]]
) -> RepeatedLayers | None:
    """What repeats in a row in all steps alike; None in training, where most would be invented."""
    if "optimizer" in {names.categories[name] for name in set(events.names)}:
        return None
    codes = array("i", [0]) * len(events)
    kinds = bytes(map(names.kinds.__getitem__, events.names))
    count = 0
    unit: list[int] = []
    for places in members:
        computing = [place for place in places if kinds[place] == COMPUTE]
        found = [events.names[place] for place in computing]
        units = _in_a_row(found)
        if not units or not _hold_most(units, computing, events):
            return None
        if count and (len(units) != count or found[slice(*units[0])] != unit):
            return None
        count, unit = len(units), found[slice(*units[0])]
        for layer, (first, end) in enumerate(units):
            for place in computing[first:end]:
                codes[place] = forward_code(layer)
    return RepeatedLayers(codes, count) if count else None


def _in_a_row(names: Sequence[int]) -> list[tuple[int, int]]:
    units = repeated_units(names)
    follow = all(end == begin for (_, end), (begin, _) in pairwise(units))
    return units if follow and _LEAST_REPEATS <= len(units) <= MOST_LAYERS else []


def _hold_most(
    units: Sequence[tuple[int, int]], computing: Sequence[int], events: DeviceEvents
) -> bool:
    times = [events.ends[place] - events.starts[place] for place in computing]
    held = sum(sum(times[first:end]) for first, end in units)
    return held >= _LEAST_OF_TIME * sum(times)
