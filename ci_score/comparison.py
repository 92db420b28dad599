"""Scorecard × baseline → what changed, and which phase, op and layer it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ci_score.metrics import METRICS
from ci_score.models import CaseRecord, Change, Contribution, Scorecard
from ci_score.scoring import find_regressions

SHOWN_PER_KIND = 5
LEAST_SHARE_OF_STEP = 0.01
LEAST_SHARE_OF_LAYER = 0.05

Kind = Literal["phase", "op", "layer"]


def compare(head: Scorecard, base: Scorecard) -> tuple[Change, ...]:
    """Every metric on both sides, in the metrics' order, with the reference's severity."""
    severities = {found.metric: found.severity for found in find_regressions(head, base)}
    return tuple(
        Change(
            metric=metric.name,
            base=metric.value(base),
            head=metric.value(head),
            delta=metric.delta(metric.value(base), metric.value(head)),
            severity=severities.get(metric.name),
        )
        for metric in METRICS
    )


def explain(head: CaseRecord, base: CaseRecord) -> tuple[Contribution, ...]:
    """The phases, ops and layers whose time changed most, largest change first within each kind."""
    least_ms = LEAST_SHARE_OF_STEP * base.scorecard.step_time_ms
    layers = [
        *_layer_ranges("forward", _layer_times(head, "fwd_ms"), _layer_times(base, "fwd_ms")),
        *_layer_ranges("backward", _layer_times(head, "bwd_ms"), _layer_times(base, "bwd_ms")),
    ]
    return (
        *_largest(_by_name("phase", head.phases, base.phases), least_ms),
        *_largest(_by_name("op", head.ops, base.ops), least_ms),
        *_largest(layers, least_ms),
    )


def _by_name(
    kind: Kind, head: Mapping[str, float], base: Mapping[str, float]
) -> Iterable[Contribution]:
    """Every name of either side; where a side has none at all, nothing can be said."""
    if not head or not base:
        return
    for name in sorted({*head, *base}):
        yield Contribution(
            kind=kind, name=name, base_ms=base.get(name, 0.0), head_ms=head.get(name, 0.0)
        )


def _layer_times(case: CaseRecord, direction: Literal["fwd_ms", "bwd_ms"]) -> dict[int, float]:
    times: dict[int, float] = {}
    for layer in case.scorecard.per_layer_summary:
        times[layer.layer] = times.get(layer.layer, 0.0) + getattr(layer, direction)
    return times


def _layer_ranges(
    direction: str, head: Mapping[int, float], base: Mapping[int, float]
) -> Iterable[Contribution]:
    """Neighbouring layers that changed the same way, as one: `0–23 backward`."""
    changed = [
        (number, base[number], head[number])
        for number in sorted(base.keys() & head.keys())
        if abs(head[number] - base[number]) > LEAST_SHARE_OF_LAYER * base[number]
    ]
    ranges: list[list[tuple[int, float, float]]] = []
    for row in changed:
        if ranges and _continues(ranges[-1][-1], row):
            ranges[-1].append(row)
        else:
            ranges.append([row])
    for rows in ranges:
        first, last = rows[0][0], rows[-1][0]
        yield Contribution(
            kind="layer",
            name=f"{first} {direction}" if first == last else f"{first}–{last} {direction}",
            base_ms=_total(base_ms for _, base_ms, _ in rows),
            head_ms=_total(head_ms for _, _, head_ms in rows),
        )


def _continues(row: tuple[int, float, float], following: tuple[int, float, float]) -> bool:
    same_way = (row[2] > row[1]) == (following[2] > following[1])
    return same_way and following[0] == row[0] + 1


def _total(times: Iterable[float]) -> float:
    total = 0.0
    for ms in times:
        total += ms
    return total


def _largest(changes: Iterable[Contribution], least_ms: float) -> list[Contribution]:
    notable = [change for change in changes if abs(change.delta_ms) > least_ms]
    return sorted(notable, key=lambda change: -abs(change.delta_ms))[:SHOWN_PER_KIND]
