"""Profile → Scorecard: the reference model, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ci_score.errors import BadInputError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.metrics import REFERENCE_METRICS, three_digits
from ci_score.model.profile import Layer, Phase, Profile, op_totals
from ci_score.model.reasons import Note
from ci_score.model.scorecard import (
    NOT_GRADED,
    Bottleneck,
    Grade,
    Hardware,
    LayerSummary,
    Regression,
    Scorecard,
    Severity,
)
from ci_score.model.sums import plain_sum

LARGEST_DOUBLE = 1.7976931348623157e308
HOTSPOTS = 10
LEAST_COVERAGE = 0.90
USUAL_BACKWARD_RATIOS = (1.0, 5.0)
RUN_TOTALS_FROM = 1.5

# What is amiss in a profile; nobody misses it where there is none.
LACKING_IN_A_PROFILE = frozenset({"no_phases", "no_layers", "no_coverage"})

_GRADES: tuple[tuple[float, Grade], ...] = ((0.60, "A"), (0.40, "B"), (0.20, "C"), (0.10, "D"))
_GRADE_ORDER = "FDCBA"

_ADVICE: dict[Bottleneck, str] = {
    "transfer": "Reduce host-device transfers. Check H2D/D2H in profiler.",
    "launch": "Enable kernel fusion (NF4_FUSED_GEMM=1, NF4_TC_BWD_GEMM=1).",
    "compute": "",
    "memory_bw": "Enable tensor cores (NF4_TC_GEMM=1) or FP16 (FP16_GEMM=1).",
}
_LAUNCH_ADVICE = (
    "Kernel launch overhead >30%. Enable NF4_TC_BWD_GEMM=1 to eliminate 196 launches/step."
)
_BACKWARD_ADVICE = "Backward faster than forward — possible NaN backward skips. Check PMAT-462."


def compute_scorecard(
    profile: Profile,
    throughput_tok_s: float,
    hardware: Hardware | None,
    baseline: Scorecard | None = None,
) -> Scorecard:
    """The reference's scorecard of `profile`, with our notes on what the reference overlooks.

    `throughput_tok_s` is one device's. Without a roofline the scorecard is not graded.
    """
    is_number = isinstance(throughput_tok_s, int | float) and not isinstance(throughput_tok_s, bool)
    if not (is_number and 0 <= throughput_tok_s <= LARGEST_DOUBLE):
        raise BadInputError(
            "throughput",
            found=ascii(throughput_tok_s)[:80],
            expected="a finite number of 0 or more",
        )
    with overflow_is_bad_input("profile"):
        return _scorecard(profile, float(throughput_tok_s), hardware or Hardware(), baseline)


def _scorecard(
    profile: Profile, throughput: float, hardware: Hardware, baseline: Scorecard | None
) -> Scorecard:
    efficiency = _efficiency(throughput, hardware)
    overhead = _launch_overhead(profile)
    grade = grade_of(efficiency)
    bottleneck = _bottleneck(profile.phases, overhead, efficiency)
    layers = tuple(_layer_summary(layer) for layer in profile.per_layer)
    ratio = _forward_backward_ratio(layers)
    card = Scorecard(
        grade=grade,
        efficiency=efficiency,
        bottleneck=bottleneck,
        throughput_tok_s=throughput,
        step_time_ms=profile.avg_step_ms,
        forward_backward_ratio=ratio,
        wall_coverage=profile.wall_coverage,
        per_layer_summary=layers,
        hotspot_ops=_hotspots(profile.per_layer),
        recommendations=_recommendations(grade, bottleneck, overhead, ratio),
        noted=_notes(profile, throughput, hardware, ratio),
        ungraded_reason=_ungraded_reason(throughput, hardware),
        bottleneck_known=bool(profile.phases) and profile.own_step_ms > 0,
    )
    if baseline is None:
        return card
    return card.but(regressions=find_regressions(card, baseline))


# --- efficiency and bottleneck ------------------------------------------------------------------


def peak_tok_s(hardware: Hardware) -> float | None:
    """Tokens per second that the memory could feed, or None where the roofline is not known."""
    if hardware.peak_bw_gb_s is None or hardware.bytes_per_token is None:
        return None
    if hardware.bytes_per_token == 0:
        return 0.0
    return hardware.peak_bw_gb_s * 1e9 / hardware.bytes_per_token


def _efficiency(throughput: float, hardware: Hardware) -> float:
    peak = peak_tok_s(hardware)
    if peak is None or peak <= 0:
        return 0.0
    return min(max(throughput / peak, 0.0), 1.0)


def grade_of(efficiency: float) -> Grade:
    """The grade of an efficiency."""
    return next((grade for least, grade in _GRADES if efficiency >= least), "F")


def _launch_overhead(profile: Profile) -> float:
    if profile.own_step_ms <= 0:
        return 0.0
    covered = _phase_total_ms(profile) / profile.own_step_ms
    return 1.0 - min(covered, 1.0)


def _phase_total_ms(profile: Profile) -> float:
    return plain_sum(profile.phases[name].total_ms for name in sorted(profile.phases))


def _bottleneck(phases: Mapping[str, Phase], overhead: float, efficiency: float) -> Bottleneck:
    transfers = (name for name in sorted(phases) if "h2d" in name or "d2h" in name)
    if plain_sum(phases[name].pct for name in transfers) / 100.0 > 0.30:
        return "transfer"
    if overhead > 0.40:
        return "launch"
    return "compute" if efficiency > 0.50 else "memory_bw"


# --- layers and hotspots ------------------------------------------------------------------------


def _layer_summary(layer: Layer) -> LayerSummary:
    top_op, top_ms, total_ms = "", 0.0, 0.0
    for op in sorted(layer.ops):
        ms = layer.ops[op]
        total_ms += ms
        if ms >= top_ms:
            top_op, top_ms = op, ms
    return LayerSummary(
        layer=layer.layer,
        fwd_ms=layer.fwd_ms,
        bwd_ms=layer.bwd_ms,
        ratio=layer.bwd_ms / layer.fwd_ms if layer.fwd_ms > 0 else 0.0,
        top_op=top_op,
        top_op_pct=top_ms / total_ms * 100.0 if total_ms > 0 else 0.0,
    )


def _forward_backward_ratio(layers: tuple[LayerSummary, ...]) -> float:
    ratios = [layer.ratio for layer in layers if layer.ratio > 0 and layer.bwd_ms > 0]
    return plain_sum(ratios) / len(ratios) if ratios else 0.0


def _hotspots(layers: Iterable[Layer]) -> tuple[tuple[str, float, float], ...]:
    totals = op_totals(layers)
    names = sorted(totals)
    all_ms = plain_sum(totals[name] for name in names)
    largest = sorted(names, key=lambda name: -totals[name])[:HOTSPOTS]
    return tuple(
        (name, totals[name], totals[name] / all_ms * 100.0 if all_ms > 0 else 0.0)
        for name in largest
    )


# --- what the reference says about it -----------------------------------------------------------


def find_regressions(head: Scorecard, base: Scorecard) -> tuple[Regression, ...]:
    """What the reference calls a regression of `head` against `base`, in the metrics' order."""
    found = []
    for metric in REFERENCE_METRICS:
        limits, value = metric.reference, metric.card_value
        if limits is None or value is None:
            continue
        delta = metric.delta(value(base), value(head))
        if delta is None:
            continue
        worse = metric.worsening(delta)
        if limits.fail is not None and worse > limits.fail:
            found.append(Regression(metric=metric.name, delta=delta, severity=Severity.CRITICAL))
        elif worse > limits.warn:
            found.append(Regression(metric=metric.name, delta=delta, severity=Severity.WARNING))
    return tuple(found)


def _recommendations(
    grade: Grade, bottleneck: Bottleneck, overhead: float, ratio: float
) -> tuple[str, ...]:
    rank = _GRADE_ORDER.index(grade)
    advice = []
    if rank <= _GRADE_ORDER.index("C") and _ADVICE[bottleneck]:
        advice.append(_ADVICE[bottleneck])
    if rank <= _GRADE_ORDER.index("D") and overhead > 0.30:
        advice.append(_LAUNCH_ADVICE)
    if 0 < ratio < 1:
        advice.append(_BACKWARD_ADVICE)
    return tuple(advice)


# --- what the reference overlooks ---------------------------------------------------------------


def _ungraded_reason(throughput: float, hardware: Hardware) -> str | None:
    if throughput == 0:
        return "the throughput is not known"
    if hardware.peak_bw_gb_s is None:
        return "the peak memory bandwidth is not known"
    if hardware.bytes_per_token is None:
        return "nothing was said about the bytes that a token moves"
    peak = peak_tok_s(hardware)
    if peak is None or peak <= 0:
        return "the roofline is 0"
    if throughput > peak:
        return (
            f"the throughput is above the roofline ({three_digits(throughput / peak)} times), so"
            " the bytes per token or the peak bandwidth cannot be right"
        )
    return None


def _notes(
    profile: Profile, throughput: float, hardware: Hardware, ratio: float
) -> tuple[Note, ...]:
    reason = _ungraded_reason(throughput, hardware)
    return (
        *_profile_notes(profile),
        *([Note(code=NOT_GRADED, words=f"Not graded: {reason}.")] if reason else []),
        *_ratio_notes(profile, ratio),
    )


def _profile_notes(profile: Profile) -> Iterable[Note]:
    # Beside a measurement without a profiler, the phases are those of another step.
    is_beside = profile.profiled_step_ms is not None
    step, wall = ("profiled step",) * 2 if is_beside else ("step", "wall time")
    if not profile.phases:
        yield Note(
            code="no_phases",
            words="There are no phases, so launch overhead, transfers and the bottleneck are not"
            " known.",
        )
    if not profile.per_layer:
        yield Note(
            code="no_layers",
            words="There are no layers, so hotspots and the backward/forward ratio are not known.",
        )
    if profile.avg_step_ms == 0:
        yield Note(code="no_step_time", words="The step time is 0: it was not measured.")
    elif profile.phases and profile.steps > 1 and profile.own_step_ms > 0:
        times = _phase_total_ms(profile) / profile.own_step_ms
        if times > RUN_TOTALS_FROM:
            yield Note(
                code="run_totals",
                words=f"The phases add up to {times:.1f} times the {step}: these look like run"
                f" totals of {profile.steps} steps, where times per step are expected.",
            )
    if profile.wall_coverage == 0:
        yield Note(
            code="no_coverage",
            words="The wall coverage is 0 or was not given: how much the phases explain is not"
            " known.",
        )
    elif profile.wall_coverage > 1:
        yield Note(
            code="impossible_coverage",
            words=f"A wall coverage of {profile.wall_coverage:.0%} is no share of the wall time.",
        )
    elif profile.wall_coverage < LEAST_COVERAGE:
        # Rounded down: 89.99 % would else be shown as 90 %, and called below 90 %.
        shown = math.floor(profile.wall_coverage * 1000) / 10
        yield Note(
            code="low_coverage",
            words=f"The phases cover {shown:.1f} % of the {wall} (below {LEAST_COVERAGE:.0%}):"
            " what happens in the rest is not known.",
        )


def _ratio_notes(profile: Profile, ratio: float) -> Iterable[Note]:
    low, high = USUAL_BACKWARD_RATIOS
    forward_only = any(layer.fwd_ms > 0 for layer in profile.per_layer)
    if ratio > 0 and not low <= ratio <= high:
        yield Note(
            code="unusual_ratio",
            words=f"The backward takes {ratio:.2f} times the forward, outside the usual"
            f" {low:.0f} to {high:.0f}: are whole steps measured, with their gradients?",
        )
    elif ratio == 0 and forward_only:
        yield Note(
            code="no_backward",
            words="No layer has a backward time: is this training, and was the backward measured?",
        )
