"""Profile × Profile → Parity: two runtimes on the same model, exactly as the reference has it.

The arithmetic is the reference's. We choose its input and decide whether its answer means anything.
Two runtimes name their ops differently: where one side knows only kinds of work (kernels do), both
are compared by kind. A comparison that covers a small part of the time is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.lists import some_of
from ci_score.model.profile import Profile, op_totals
from ci_score.model.scorecard import Parity, ParityGap, ParityProfile
from ci_score.model.sums import plain_sum

ACHIEVED_UP_TO = 1.10
TOP_GAPS = 5
# The compared ops must be at least this share of the time of all ops, on both sides.
LEAST_COVERED = 0.50
# Less device time than this outside the steps is usual where a capture starts and ends.
WORTH_A_NOTE = 0.05
# Two kernels of unknown kind may do different work.
UNKNOWN_KIND = "other"

# Names of ops in a runtime's own profiler → their kind; the first row that matches decides.
# `rmsnorm_attn` is the norm before attention, and `silu_gate` is not a matrix product.
_KINDS = (
    ("norm", r"norm"),
    ("attention", r"attention|(^|_)attn|sdpa"),
    ("softmax_loss", r"softmax|cross_?entropy|(^|_)(ce|loss)(_|$)"),
    ("elementwise", r"silu|s?wiglu|gelu|relu|rope|residual|(^|_)(cast|bias|add|mul)(_|$)"),
    ("embedding", r"embed"),
    ("optimizer", r"optim|adam|sgd|(^|_)opt(_|$)"),
    ("comm", r"all_?reduce|all_?gather|reduce_?scatter|nccl|rccl"),
    ("memcpy", r"h2d|d2h|d2d|memcpy"),
    ("memset", r"memset"),
    (
        "gemm",
        (
            r"gemm|gemv|matmul|linear|lm_head|(^|_)(qkv|gate_up|down|lora)(_|$)"
            r"|(^|_)[qkvo]_proj|(gate|up|down)_proj"
        ),
    ),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)


class ParitySide(ParityProfile):
    """One side of a parity, with what the reference does not ask for.

    `by_kind`: its ops are kinds of work. `notes`: what its numbers rest on. `unusable`: why it has
    no numbers.
    """

    by_kind: bool = False
    notes: tuple[str, ...] = ()
    unusable: str | None = None
    throughput_inferred: bool = False


def side_of(runtime: str, profile: Profile) -> ParityProfile:
    """A profile as one side of a parity. A measurement that is not usable has no numbers."""
    if profile.unusable:
        return ParitySide(runtime=runtime, ops={}, notes=profile.notes, unusable=profile.unusable)
    derived = profile.throughput_tok_s is None and bool(profile.tokens_per_step)
    return ParitySide(
        runtime=runtime,
        throughput_tok_s=_throughput(profile),
        step_time_ms=profile.avg_step_ms,
        kernel_launches_per_step=round(profile.kernel_launches_per_step or 0),
        ops=profile.op_categories or profile.ops or op_totals(profile.per_layer),
        by_kind=bool(profile.op_categories),
        notes=(*_basis_notes(profile, derived=derived), *profile.notes),
        throughput_inferred=derived and profile.tokens_inferred,
    )


def kind_of(op: str) -> str:
    """The kind of an op by its name, or the name itself if that does not tell the kind."""
    name = op.lower()
    return next((kind for kind, pattern in _COMPILED if pattern.search(name)), op)


def compute_parity(ours: ParityProfile, theirs: ParityProfile) -> Parity:
    """The reference's parity of two runtimes, with our notes where it compares little."""
    with overflow_is_bad_input("parity"):
        by_kind = any(isinstance(side, ParitySide) and side.by_kind for side in (ours, theirs))
        us, them = _side(ours, by_kind=by_kind), _side(theirs, by_kind=by_kind)
        gaps = _gaps(us, them)
        shares = (_share(us, gaps), _share(them, gaps))
        return Parity(
            apr_runtime=us.runtime,
            baseline_runtime=them.runtime,
            throughput_ratio=_ratio(them.throughput_tok_s, us.throughput_tok_s),
            launch_ratio=_ratio(
                float(us.kernel_launches_per_step), float(them.kernel_launches_per_step)
            ),
            top_gaps=gaps[:TOP_GAPS],
            parity_achieved=all(gap.ratio <= ACHIEVED_UP_TO for gap in gaps),
            notes=tuple(_notes((us, them), shares, len(gaps))),
            compared_ops=len(gaps),
            apr_share_compared=shares[0],
            baseline_share_compared=shares[1],
            step_time_ratio=_ratio(us.step_time_ms, them.step_time_ms),
            throughput_inferred=us.throughput_inferred or them.throughput_inferred,
            unjudged_reason=_why_unjudged((us, them), shares, len(gaps)),
        )


# --- what is compared ---------------------------------------------------------------------------


def _throughput(profile: Profile) -> float:
    if profile.throughput_tok_s is not None:
        return profile.throughput_tok_s
    if profile.tokens_per_step is None or profile.avg_step_ms <= 0:
        return 0.0
    return profile.tokens_per_step / profile.avg_step_ms * 1000.0


def _side(side: ParityProfile, *, by_kind: bool) -> ParitySide:
    whole = side if isinstance(side, ParitySide) else ParitySide(**dict(side))
    if not by_kind or whole.by_kind:
        return whole
    return whole.but(ops=_by_kind(whole.ops), by_kind=True)


def _by_kind(ops: Mapping[str, float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for op in sorted(ops):
        kind = kind_of(op)
        totals[kind] = totals.get(kind, 0.0) + ops[op]
    return totals


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0


def _gaps(ours: ParitySide, theirs: ParitySide) -> tuple[ParityGap, ...]:
    gaps = [
        ParityGap(op=op, apr_ms=ms, baseline_ms=theirs.ops[op], ratio=ms / theirs.ops[op])
        for op, ms in sorted(ours.ops.items())
        if ms > 0 and theirs.ops.get(op, 0.0) > 0 and not (ours.by_kind and op == UNKNOWN_KIND)
    ]
    return tuple(sorted(gaps, key=lambda gap: -gap.ratio))


def _share(side: ParitySide, gaps: tuple[ParityGap, ...]) -> float | None:
    """How much of a side's op time the compared ops cover; None if its ops have no time."""
    total = plain_sum(side.ops.values())
    if total <= 0:
        return None
    compared = plain_sum(side.ops[gap.op] for gap in gaps)
    return min(compared / total, 1.0)


# --- what it means ------------------------------------------------------------------------------

Sides = tuple[ParitySide, ParitySide]
Shares = tuple[float | None, float | None]


def _why_unjudged(sides: Sides, shares: Shares, compared: int) -> str | None:
    """Why neither `achieved` nor `not achieved` is to be said; None where it may be."""
    if unusable := [side for side in sides if side.unusable]:
        return "; ".join(f"{side.runtime} is not usable ({side.unusable})" for side in unusable)
    if silent := [side.runtime for side, share in zip(sides, shares, strict=True) if share is None]:
        return f"no op of {' and '.join(silent)} has any time"
    if compared == 0:
        return "no op in common"
    thin = [
        f"{share:.1%} of {side.runtime}'s op time"
        for side, share in zip(sides, shares, strict=True)
        if share is not None and share < LEAST_COVERED
    ]
    if thin:
        return (
            f"the compared ops cover only {' and '.join(thin)}, and under {LEAST_COVERED:.0%} says"
            " nothing about the whole"
        )
    return None


def _notes(sides: Sides, shares: Shares, compared: int) -> Iterable[str]:
    usable = [side for side in sides if not side.unusable]
    if compared == 0 and None not in shares:
        yield (
            "No op has time on both sides, so nothing was compared: the reference calls an empty"
            " parity achieved, we do not judge it."
        )
    for side, share in zip(sides, shares, strict=True):
        if share is not None and compared:
            yield f"The compared ops cover {share:.1%} of {side.runtime}'s op time."
    ours, theirs = sides
    yield from _unmatched(ours, theirs, compared)
    yield from _unmatched(theirs, ours, compared)
    for label, field in (
        ("step time", "step_time_ms"),
        ("throughput", "throughput_tok_s"),
        ("kernel launches", "kernel_launches_per_step"),
    ):
        blind = [side.runtime for side in usable if getattr(side, field) == 0]
        if blind:
            yield (
                f"No {label} of {' and '.join(blind)}: 0 or not given, so the ratio means nothing."
            )
    yield from _notes_of_each(sides)


def _unmatched(side: ParitySide, other: ParitySide, compared: int) -> Iterable[str]:
    """The work of a side that has no counterpart on the other."""
    unknown = side.ops.get(UNKNOWN_KIND, 0.0) if side.by_kind else 0.0
    alone = [
        op
        for op in sorted(side.ops)
        if side.ops[op] > 0 and not other.ops.get(op) and not (side.by_kind and op == UNKNOWN_KIND)
    ]
    if alone and compared:
        yield f"Only {side.runtime} has {some_of(alone)}."
    if unknown > 0:
        share = unknown / plain_sum(side.ops.values())
        yield (
            f"{share:.1%} of {side.runtime}'s op time is of no known kind ('{UNKNOWN_KIND}') and"
            " not compared."
        )


def _notes_of_each(sides: Sides) -> Iterable[str]:
    """The notes of the two profiles: each once, with the runtimes that it is about."""
    about: dict[str, list[str]] = {}
    for side in sides:
        for note in dict.fromkeys(side.notes):
            about.setdefault(note, []).append(side.runtime)
    for note, runtimes in about.items():
        yield f"{' and '.join(dict.fromkeys(runtimes))}: {note}"


def _basis_notes(profile: Profile, *, derived: bool) -> Iterable[str]:
    """Notes on numbers of a side that rest on less than they seem to."""
    captured = profile.capture.get("gpu_busy_ms", 0.0)
    if profile.device_busy_ms and captured > 0:
        outside = 1.0 - profile.device_busy_ms * profile.steps / captured
        if outside >= WORTH_A_NOTE:
            yield (
                f"{outside:.0%} of the device time in the capture belongs to no step, and so is"
                " not in the comparison"
            )
    if derived:
        tokens = profile.sources.get("tokens_per_step", "as given")
        step = profile.sources.get("avg_step_ms", "as given")
        yield (
            f"the throughput was not measured: it is {profile.tokens_per_step:g} tokens a step"
            f" ({tokens}) in {profile.avg_step_ms:.4g} ms ({step})"
        )
