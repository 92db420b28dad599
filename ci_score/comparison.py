"""Scorecard × baseline → what changed, and which phase, op and layer it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ci_score.metrics import METRICS
from ci_score.models import CaseRecord, Change, Contribution, Scorecard
from ci_score.scoring import find_regressions

SHOWN_PER_KIND = 5
LEAST_SHARE_OF_STEP = 0.01

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
    return (
        *_largest("phase", head.phases, base.phases, least_ms),
        *_largest("op", head.ops, base.ops, least_ms),
        *_largest("layer", _layer_times(head), _layer_times(base), least_ms),
    )


def _layer_times(case: CaseRecord) -> dict[str, float]:
    times: dict[str, float] = {}
    for layer in case.scorecard.per_layer_summary:
        for direction, ms in (("forward", layer.fwd_ms), ("backward", layer.bwd_ms)):
            name = f"{layer.layer} {direction}"
            times[name] = times.get(name, 0.0) + ms
    return times


def _largest(
    kind: Kind, head: Mapping[str, float], base: Mapping[str, float], least_ms: float
) -> Iterable[Contribution]:
    if not head or not base:
        return ()
    changed = [
        Contribution(kind=kind, name=name, base_ms=base.get(name, 0.0), head_ms=head.get(name, 0.0))
        for name in sorted({*head, *base})
    ]
    notable = [change for change in changed if abs(change.delta_ms) > least_ms]
    return sorted(notable, key=lambda change: -abs(change.delta_ms))[:SHOWN_PER_KIND]
