"""A slowdown, planted in what was measured; and what was measured with no change in it at all."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import replace

from ci_score.model.metrics import STEP_TIME, THROUGHPUT
from ci_score.model.profile import Layer, Phase, Profile
from ci_score.model.record import LaunchNumbers
from ci_score.model.stages import CaseInput


def slowed(case: CaseInput, slowdown: float) -> CaseInput:
    """The case with every time longer by that share: phases, layers, ops and launches alike."""
    factor = 1.0 + slowdown
    return replace(
        case,
        profile=_slowed_profile(case.profile, factor),
        launches=tuple(_scaled(launch, factor) for launch in case.launches),
    )


def unchanged(case: CaseInput) -> CaseInput:
    """The case as if nothing were different from its base.

    Pairs of launches keep what makes them differ by luck, and lose what they differ by on average.
    """
    if case.base is None:
        return case
    base = {launch.launch: launch for launch in case.base.launches}
    pairs = [(one, base[one.launch]) for one in case.launches if one.launch in base]
    factor = math.exp(-_average_worsening(pairs)) if pairs else 1.0
    level = _scaled_profile(case.profile, factor)
    level = level.but(peak_memory_gb=case.base.profile.peak_memory_gb)
    typical = case.base.launches[0] if case.base.launches else None
    return replace(
        case,
        profile=level,
        launches=tuple(
            _like(_scaled(launch, factor), base.get(launch.launch, typical))
            for launch in case.launches
        ),
    )


def _average_worsening(pairs: list[tuple[LaunchNumbers, LaunchNumbers]]) -> float:
    ratios = [
        math.log(head.values[STEP_TIME] / base.values[STEP_TIME])
        for head, base in pairs
        if head.values.get(STEP_TIME, 0.0) > 0 and base.values.get(STEP_TIME, 0.0) > 0
    ]
    return statistics.fmean(ratios) if ratios else 0.0


def _like(launch: LaunchNumbers, base: LaunchNumbers | None) -> LaunchNumbers:
    """The launch with its own times, and all else as its base has it."""
    if base is None:
        return launch
    times = {name: launch.values[name] for name in (STEP_TIME, THROUGHPUT) if name in launch.values}
    return launch.but(values={**base.values, **times})


def _scaled(launch: LaunchNumbers, factor: float) -> LaunchNumbers:
    values = dict(launch.values)
    if STEP_TIME in values:
        values[STEP_TIME] *= factor
    if THROUGHPUT in values:
        values[THROUGHPUT] /= factor
    return launch.but(values=values)


def _scaled_profile(profile: Profile, factor: float) -> Profile:
    """The profile with another step time, as measurements put it there."""
    rate = profile.throughput_tok_s
    return profile.but(
        avg_step_ms=profile.avg_step_ms * factor,
        step_times_ms=tuple(ms * factor for ms in profile.step_times_ms),
        throughput_tok_s=None if rate is None else rate / factor,
    )


def _slowed_profile(profile: Profile, factor: float) -> Profile:
    return _scaled_profile(profile, factor).but(
        phases={name: _phase(phase, factor) for name, phase in profile.phases.items()},
        per_layer=tuple(_layer(layer, factor) for layer in profile.per_layer),
        ops=_times(profile.ops, factor),
        op_categories=_times(profile.op_categories, factor),
    )


def _phase(phase: Phase, factor: float) -> Phase:
    return phase.but(total_ms=phase.total_ms * factor, avg_ms=phase.avg_ms * factor)


def _layer(layer: Layer, factor: float) -> Layer:
    return layer.but(
        fwd_ms=layer.fwd_ms * factor,
        bwd_ms=layer.bwd_ms * factor,
        ops=_times(layer.ops, factor),
    )


def _times(times: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: ms * factor for name, ms in times.items()}
