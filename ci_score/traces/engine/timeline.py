"""Arithmetic with intervals of time: how long something was going on, however many did it.

A list of intervals as these functions return it is disjoint and sorted; what they take as `mine`
and `others` must be such a list, and `union` makes one of anything.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import inf

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The time that any of them covers, disjoint and sorted; one that ends early counts nothing."""
    merged: list[Interval] = []
    open_start = open_end = 0.0
    is_open = False
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if is_open and start <= open_end:
            if end > open_end:
                open_end = end
            continue
        if is_open:
            merged.append((open_start, open_end))
        open_start, open_end, is_open = start, end, True
    if is_open:
        merged.append((open_start, open_end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    """The sum of their lengths: of a union, the time that it covers."""
    total = 0.0
    for start, end in intervals:
        total += end - start
    return total


def intersection(mine: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The time that both cover."""
    if not mine or not others:
        return []
    shared: list[Interval] = []
    place = other_place = 0
    while place < len(mine) and other_place < len(others):
        start, end = mine[place]
        other_start, other_end = others[other_place]
        low, high = max(start, other_start), min(end, other_end)
        if low < high:
            shared.append((low, high))
        if end < other_end:
            place += 1
        else:
            other_place += 1
    return shared


def subtract(mine: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The time that `mine` covers and `others` does not."""
    if not others:
        return list(mine)
    left: list[Interval] = []
    other_place = 0
    for start, end in mine:
        free_from = start
        while other_place < len(others) and others[other_place][1] <= start:
            other_place += 1
        place = other_place
        while place < len(others) and others[place][0] < end:
            other_start, other_end = others[place]
            if free_from < other_start:
                left.append((free_from, other_start))
            free_from = max(free_from, other_end)
            place += 1
        if free_from < end:
            left.append((free_from, end))
    return left


class Windows:
    """Intervals sorted by their start, asked again and again which of them a time lies in."""

    __slots__ = ("_begins", "_ends")

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self._begins = [begin for begin, _ in intervals]
        self._ends = [end for _, end in intervals]

    def at(self, time: float) -> int:
        """The number of the interval that began last, if it still lasts; else -1."""
        place = bisect_right(self._begins, time) - 1
        return place if place >= 0 and time < self._ends[place] else -1

    def around(self, time: float) -> tuple[int, float, float]:
        """The answer of `at`, and from when to when it stays the same."""
        begins, ends = self._begins, self._ends
        place = bisect_right(begins, time) - 1
        after = begins[place + 1] if place + 1 < len(begins) else inf
        if place < 0:
            return -1, -inf, after
        if time < ends[place]:
            return place, begins[place], min(ends[place], after)
        return -1, max(begins[place], ends[place]), after

    def places(self, times: Iterable[float]) -> Iterator[int]:
        """`at` of each time; most lie where the one before did."""
        begin = end = 0.0
        place = -1
        for time in times:
            if not begin <= time < end:
                place, begin, end = self.around(time)
            yield place


def is_sorted(times: Sequence[float]) -> bool:
    """Whether no time is less than the one before it."""
    return all(map(operator.le, times, islice(times, 1, None)))


def members_of(
    times: Sequence[int], windows: Sequence[Interval]
) -> tuple[list[Sequence[int]], int]:
    """The places of each window's times, and how many lie in none; of two, the later begun."""
    if is_sorted(times):
        return slices_of(times, windows)
    members: list[array[int]] = [array("q") for _ in windows]
    outside = 0
    for place, window in enumerate(Windows(windows).places(times)):
        if window < 0:
            outside += 1
        else:
            members[window].append(place)
    return list(members), outside


def slices_of(times: Sequence[int], windows: Sequence[Interval]) -> tuple[list[Sequence[int]], int]:
    """The same where times are sorted: each window's are one slice."""
    slices: list[Sequence[int]] = []
    next_begins = [*(begin for begin, _ in islice(windows, 1, None)), inf]
    for (begin, end), limit in zip(windows, next_begins, strict=False):
        first = bisect_left(times, begin)
        slices.append(range(first, max(bisect_left(times, min(end, limit)), first)))
    return slices, len(times) - sum(map(len, slices))


def taken(column: array[int], places: Sequence[int]) -> array[int]:
    """The values at these places."""
    if isinstance(places, range):
        return column[places.start : places.stop]
    return array(column.typecode, map(column.__getitem__, places))


def outermost(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The windows that lie in no other, sorted; two that merely overlap are both kept."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(windows, key=lambda window: (window[0], -window[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return kept
