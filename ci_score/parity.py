"""Profile × Profile → Parity: two runtimes on the same model, exactly as the reference has it."""

from __future__ import annotations

from collections.abc import Iterable

from ci_score.models import Parity, ParityGap, ParityProfile, Profile, op_totals
from ci_score.strict_json import overflow_is_bad_input
from ci_score.sums import plain_sum

ACHIEVED_UP_TO = 1.10
TOP_GAPS = 5
NAMED_OPS = 5


def side_of(runtime: str, profile: Profile) -> ParityProfile:
    """A profile as one side of a parity.

    Two runtimes name their kernels differently, so a profile of kernels is compared by what they
    do; one that knows only the ops of its layers by their names.
    """
    return ParityProfile(
        runtime=runtime,
        throughput_tok_s=_throughput(profile),
        step_time_ms=profile.avg_step_ms,
        kernel_launches_per_step=round(profile.kernel_launches_per_step or 0),
        ops=profile.op_categories or profile.ops or op_totals(profile.per_layer),
    )


def _throughput(profile: Profile) -> float:
    if profile.throughput_tok_s is not None:
        return profile.throughput_tok_s
    if profile.tokens_per_step is None or profile.avg_step_ms <= 0:
        return 0.0
    return profile.tokens_per_step / profile.avg_step_ms * 1000.0


def compute_parity(ours: ParityProfile, theirs: ParityProfile) -> Parity:
    """The reference's parity of two runtimes, with our notes where it compares nothing."""
    with overflow_is_bad_input("parity"):
        gaps = _gaps(ours, theirs)
        ours_share = _share(ours, gaps)
        theirs_share = _share(theirs, gaps)
        return Parity(
            apr_runtime=ours.runtime,
            baseline_runtime=theirs.runtime,
            throughput_ratio=_ratio(theirs.throughput_tok_s, ours.throughput_tok_s),
            launch_ratio=_ratio(
                float(ours.kernel_launches_per_step), float(theirs.kernel_launches_per_step)
            ),
            top_gaps=gaps[:TOP_GAPS],
            parity_achieved=all(gap.ratio <= ACHIEVED_UP_TO for gap in gaps),
            notes=tuple(_notes(ours, theirs, len(gaps), ours_share, theirs_share)),
            compared_ops=len(gaps),
            apr_share_compared=ours_share,
            baseline_share_compared=theirs_share,
        )


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0


def _gaps(ours: ParityProfile, theirs: ParityProfile) -> tuple[ParityGap, ...]:
    gaps = [
        ParityGap(op=op, apr_ms=ms, baseline_ms=theirs.ops[op], ratio=ms / theirs.ops[op])
        for op, ms in sorted(ours.ops.items())
        if ms > 0 and theirs.ops.get(op, 0.0) > 0
    ]
    return tuple(sorted(gaps, key=lambda gap: -gap.ratio))


def _share(side: ParityProfile, gaps: tuple[ParityGap, ...]) -> float | None:
    """How much of a side's op time the compared ops cover; None where there is no time at all."""
    total = plain_sum(side.ops.values())
    if total <= 0:
        return None
    compared = plain_sum(side.ops[gap.op] for gap in gaps)
    return min(compared / total, 1.0)


def _notes(
    ours: ParityProfile,
    theirs: ParityProfile,
    compared: int,
    ours_share: float | None,
    theirs_share: float | None,
) -> Iterable[str]:
    if compared == 0:
        yield (
            "No op has time on both sides, so nothing was compared: the reference calls an empty"
            " parity achieved, we do not judge it."
        )
    for side, share in ((ours, ours_share), (theirs, theirs_share)):
        if share is None:
            yield f"{side.runtime}: no op has any time, nothing was measured."
        elif compared:
            yield f"The compared ops cover {share:.1%} of {side.runtime}'s op time."
    for side, other in ((ours, theirs), (theirs, ours)):
        alone = [op for op in sorted(side.ops) if side.ops[op] > 0 and not other.ops.get(op)]
        if alone and compared:
            more = f" and {len(alone) - NAMED_OPS} more" if len(alone) > NAMED_OPS else ""
            yield f"Only {side.runtime} has {', '.join(alone[:NAMED_OPS])}{more}."
    for label, mine, others in (
        ("throughput", ours.throughput_tok_s, theirs.throughput_tok_s),
        ("kernel launches", ours.kernel_launches_per_step, theirs.kernel_launches_per_step),
    ):
        blind = [side.runtime for side, value in ((ours, mine), (theirs, others)) if value == 0]
        if blind:
            yield (
                f"No {label} of {' and '.join(blind)}: 0 or not given, so the ratio means nothing."
            )
