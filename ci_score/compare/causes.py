"""Explanation → the cause that a reviewer can act on, as a reason; the report makes its sentence.

The rules look at the part of the step that grew most, the most specific rule first. The first one
wins whose cause explains at least half of the change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci_score.compare.explanation import NOT_COMPUTE, OVERLAP, op_changes
from ci_score.model.explanation import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    IDLE,
    IDLE_OTHER,
    IDLE_WORDS,
    LEAST_EXPLAINED,
    LEAST_SHARE_OF_STEP,
    REST,
    Contribution,
    Explanation,
    OpChange,
    Part,
)
from ci_score.model.metrics import counts_agree, tokens_differ
from ci_score.model.reasons import Datum, Reason, Why
from ci_score.model.record import Measured
from ci_score.model.sums import plain_sum

# All ops slower alike: by how much at least, how alike, what share of compute, and how many ops.
UNIFORM_FROM, UNIFORM_WITHIN, UNIFORM_SHARE, UNIFORM_OPS = 0.02, 0.3, 0.8, 4
# After a lost fusion there are more launches, each about as long as the fused one at most.
FUSION_LAUNCHES, FUSION_TIME = 1.5, 1.2
NAMED_KINDS = 3

_FUSED_WORK = frozenset(
    {"elementwise", "copy", "reduce", "norm", "softmax_loss", "optimizer", "embedding", "other", ""}
)
_BACKWARD = re.compile(r"backward|bwd", re.IGNORECASE)
_FORWARD = re.compile(r"forward|fwd", re.IGNORECASE)
_DIRECTIONS = {"forward": _FORWARD, "backward": _BACKWARD}
_HOST_SIDE = (IDLE, IDLE_OTHER, IDLE_WORDS["launching"])


@dataclass(frozen=True, slots=True)
class _Cause:
    """A cause, and how many milliseconds or launches of the change it explains."""

    reason: Reason
    amount: float


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the rules look at; `need` is the least that a cause must explain, in milliseconds."""

    head: Measured
    base: Measured
    explanation: Explanation
    ops: Sequence[OpChange]
    places: Sequence[Contribution]
    need: float

    def part(self, name: str) -> Part:
        """A part of the step by its name, with times of 0 if neither side has it."""
        nothing = Part(name=name, base_ms=0.0, head_ms=0.0)
        return next((part for part in self.explanation.parts if part.name == name), nothing)


def with_causes(
    explanation: Explanation, head: Measured, base: Measured, places: Sequence[Contribution]
) -> Explanation:
    """The explanation with the cause of the change, if one cause explains most of it."""
    # Another number of tokens explains the change of time by itself.
    if tokens_differ(head.tokens_per_step, base.tokens_per_step):
        return explanation
    need = LEAST_EXPLAINED * explanation.delta_ms
    scene = _Scene(head, base, explanation, op_changes(head, base), places, need)
    cause, launched = _cause_of_time(scene), _cause_of_counts(scene)
    return explanation.but(
        cause=cause.reason if cause else None,
        explained_ms=cause.amount if cause else 0.0,
        counts_cause=launched.reason if launched else None,
    )


# --- time ---------------------------------------------------------------------------------------


def _cause_of_time(scene: _Scene) -> _Cause | None:
    delta = scene.explanation.delta_ms
    if delta <= LEAST_SHARE_OF_STEP * scene.explanation.base_step_ms:
        return None
    grown = [part for part in scene.explanation.parts if part.name != REST and part.delta_ms > 0]
    grown.sort(key=lambda part: -part.delta_ms)
    if not grown:
        return None
    for rule in _rules_for(scene, grown[0]):
        cause = rule(scene)
        if cause is not None and cause.amount >= scene.need:
            return cause
    return _of_two(scene, grown)


def _rules_for(scene: _Scene, part: Part) -> Iterator[Callable[[_Scene], _Cause | None]]:
    if part.delta_ms < scene.need:
        return
    if scene.explanation.basis == "phases":
        yield _one_op
        yield from (lambda _: _of_phase(scene, part),)
        return
    yield from {
        COMPUTE: (_uniform, _lost_fusion, _one_op, _one_kind, _more_compute),
        COMMUNICATION: (lambda scene: _communication(scene, part),),
        COPIES: (lambda scene: _copies(scene, part),),
    }.get(part.name, (lambda scene: _idle(scene, part),))


def _of_two(scene: _Scene, grown: Sequence[Part]) -> _Cause | None:
    """Two parts together, if neither alone explains half of the change."""
    both = grown[:2]
    total = plain_sum(part.delta_ms for part in both)
    if len(both) < 2 or grown[0].delta_ms >= scene.need or total < scene.need:
        return None
    parts, grew = tuple(part.name for part in both), tuple(part.delta_ms for part in both)
    return _Cause(Why.TWO_PARTS(parts=parts, grew_ms=grew), total)


# --- time: compute ------------------------------------------------------------------------------


def _compute_ops(scene: _Scene) -> list[OpChange]:
    return [change for change in scene.ops if change.kind not in NOT_COMPUTE]


def _uniform(scene: _Scene) -> _Cause | None:
    """The same kernels run as often as before, and each is slower by about the same share."""
    alike = [
        (change.head_ms / change.head_count / (change.base_ms / change.base_count) - 1, change)
        for change in _compute_ops(scene)
        if change.base_ms > 0
        and change.base_count
        and change.head_count
        and counts_agree(change.base_count, change.head_count)
    ]
    total = plain_sum(change.base_ms for change in _compute_ops(scene))
    if len(alike) < UNIFORM_OPS or len({change.kind for _, change in alike}) < 2:
        return None
    slower = _weighted_median([(excess, change.base_ms) for excess, change in alike])
    if slower < UNIFORM_FROM:
        return None
    near = plain_sum(
        change.base_ms
        for excess, change in alike
        if abs(excess - slower) <= max(UNIFORM_WITHIN * slower, UNIFORM_FROM / 2)
    )
    if near < UNIFORM_SHARE * total:
        return None
    explained = plain_sum(change.delta_ms for _, change in alike)
    return _Cause(Why.ALL_KERNELS(share=slower), explained)


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    half = plain_sum(weight for _, weight in values) / 2
    reached = 0.0
    for value, weight in sorted(values):
        reached += weight
        if reached >= half:
            return value
    return 0.0


def _lost_fusion(scene: _Scene) -> _Cause | None:
    """Kernels are gone, and a larger number of smaller ones does their work."""
    lost, gained = _swapped(scene)
    fewer = -plain_sum(change.count_delta for change in lost)
    more = plain_sum(change.count_delta for change in gained)
    if not fewer or more < FUSION_LAUNCHES * fewer:
        return None
    lost_ms = -plain_sum(change.delta_ms for change in lost)
    gained_ms = plain_sum(change.delta_ms for change in gained)
    if lost_ms <= 0 or gained_ms / more > FUSION_TIME * lost_ms / fewer:
        return None
    attention = next((change.name for change in lost if change.kind == "attention"), None)
    reason = Why.LOST_FUSION(
        attention=attention,
        kinds=_kinds(gained),
        before=fewer,
        now=more,
        **_place(scene, gained),
    )
    return _Cause(reason, gained_ms - lost_ms)


def _swapped(scene: _Scene) -> tuple[list[OpChange], list[OpChange]]:
    """The ops that are gone or run less than half as often, and those that came in their place."""
    counted = [
        change
        for change in _compute_ops(scene)
        if change.base_count is not None and change.head_count is not None
    ]
    lost = [each for each in counted if (each.head_count or 0.0) < (each.base_count or 0.0) / 2]
    kinds = {each.kind for each in lost}
    # Without its own kernel, attention also runs matrix products and a softmax.
    any_kind = "attention" in kinds
    gained = [
        each
        for each in counted
        if (each.head_count or 0.0) > FUSION_LAUNCHES * (each.base_count or 0.0)
        and (any_kind or each.kind in _FUSED_WORK)
    ]
    return [each for each in lost if any_kind or each.kind in _FUSED_WORK], gained


def _one_op(scene: _Scene) -> _Cause | None:
    slower = max(scene.ops, key=lambda change: (change.delta_ms, change.name), default=None)
    if slower is None or slower.delta_ms <= 0:
        return None
    reason = Why.ONE_OP(**_data_of(slower), **_place(scene, [slower]))
    return _Cause(reason, slower.delta_ms)


def _data_of(change: OpChange | None) -> dict[str, Datum]:
    """An op that changed, as the data of a reason."""
    by = (change.by_count_ms, change.by_time_ms) if change else (None, None)
    return {
        "name": change.name if change else None,
        "origin": change.origin.names if change and change.origin else (),
        "status": change.status if change else None,
        "was": change.was if change else None,
        "base_ms": change.base_ms if change else None,
        "head_ms": change.head_ms if change else None,
        "base_count": change.base_count if change else None,
        "head_count": change.head_count if change else None,
        # Whether more launches, rather than longer ones, account for it; None if not counted.
        "more_launches": None if by[0] is None or by[1] is None else by[0] >= by[1],
    }


def _one_kind(scene: _Scene) -> _Cause | None:
    rows = [row for row in scene.explanation.categories if row.name != OVERLAP]
    grown = max(rows, key=lambda row: row.delta_ms, default=None)
    if grown is None or grown.delta_ms <= 0:
        return None
    before, now = (
        side.categories[grown.name].count if grown.name in side.categories else 0.0
        for side in (scene.base, scene.head)
    )
    ops = [change for change in scene.ops if change.kind == grown.name]
    reason = Why.ONE_KIND(
        kind=grown.name,
        base_ms=grown.base_ms,
        head_ms=grown.head_ms,
        base_count=before,
        head_count=now,
        **_place(scene, ops),
    )
    return _Cause(reason, grown.delta_ms)


def _more_compute(scene: _Scene) -> _Cause | None:
    """No kind of kernel stands out, but a place does."""
    place = _place(scene, ())
    if not any(place.values()):
        return None
    return _Cause(Why.COMPUTE_GREW(**place), scene.part(COMPUTE).delta_ms)


# --- time: the other parts ----------------------------------------------------------------------


def _communication(scene: _Scene, part: Part) -> _Cause:
    now, before = (side.categories.get("comm") for side in (scene.head, scene.base))
    exposed: dict[str, Datum] = {
        "exposed_base_ms": part.base_ms,
        "exposed_head_ms": part.head_ms,
    }
    if now is None or before is None:
        unknown = dict.fromkeys(("base_ms", "head_ms", "base_count", "head_count"))
        return _Cause(Why.COMMUNICATION_GREW(**unknown, **exposed), part.delta_ms)
    if now.ms - before.ms < scene.need:
        return _Cause(Why.OVERLAPS_LESS(head_ms=now.ms, **exposed), part.delta_ms)
    reason = Why.COMMUNICATION_GREW(
        base_ms=before.ms,
        head_ms=now.ms,
        base_count=before.count,
        head_count=now.count,
        **exposed,
    )
    return _Cause(reason, part.delta_ms)


def _copies(scene: _Scene, part: Part) -> _Cause:
    copies = [change for change in scene.ops if change.kind in ("memcpy", "memset")]
    most = max(copies, key=lambda change: (change.delta_ms, change.name), default=None)
    op = _data_of(most if most is not None and most.delta_ms > 0 else None)
    reason = Why.COPIES_GREW(part_base_ms=part.base_ms, part_head_ms=part.head_ms, **op)
    return _Cause(reason, part.delta_ms)


def _idle(scene: _Scene, part: Part) -> _Cause:
    now, before = (side.metrics.get("recompiles") for side in (scene.head, scene.base))
    recompiled = part.name in _HOST_SIDE and now is not None and before is not None and now > before
    reason = Why.IDLE_GREW(
        part=part.name,
        base_ms=part.base_ms,
        head_ms=part.head_ms,
        recompiles_base=before if recompiled else None,
        recompiles_head=now if recompiled else None,
        same_work=part.name in (IDLE, IDLE_OTHER)
        and abs(scene.part(COMPUTE).delta_ms) < scene.need / 5,
    )
    return _Cause(reason, part.delta_ms)


def _of_phase(scene: _Scene, part: Part) -> _Cause:
    return _Cause(Why.PHASE_GREW(part=part.name, **_place(scene, ())), part.delta_ms)


# --- launches -----------------------------------------------------------------------------------


def _cause_of_counts(scene: _Scene) -> _Cause | None:
    """The cause of more launches, if one cause accounts for at least half of them."""
    counted = [change for change in scene.ops if change.head_count is not None]
    more = plain_sum(change.count_delta for change in counted)
    if more <= 0:
        return None
    need = LEAST_EXPLAINED * more
    lost, gained = _swapped(scene)
    fewer = -plain_sum(change.count_delta for change in lost)
    instead = plain_sum(change.count_delta for change in gained)
    if fewer and instead >= FUSION_LAUNCHES * fewer and instead - fewer >= need:
        place = _place(scene, gained)
        reason = Why.LOST_FUSION(attention=None, kinds=(), before=fewer, now=instead, **place)
        return _Cause(reason, instead - fewer)
    most = max(counted, key=lambda change: (change.count_delta, change.name))
    if most.count_delta >= need:
        before, now = most.base_count or 0.0, most.head_count or 0.0
        place = _place(scene, [most])
        origin = most.origin.names if most.origin else ()
        reason = Why.MORE_OF_OP(name=most.name, origin=origin, before=before, now=now, **place)
        return _Cause(reason, now - before)
    by_kind = {
        kind: plain_sum(change.count_delta for change in counted if change.kind == kind)
        for kind in sorted({change.kind for change in counted})
    }
    kind = max(by_kind, key=lambda kind: by_kind[kind])
    if by_kind[kind] < need:
        return None
    ops = [change for change in counted if change.kind == kind]
    reason = Why.MORE_OF_KIND(kind=kind, more=by_kind[kind], **_place(scene, ops))
    return _Cause(reason, by_kind[kind])


# --- the place ----------------------------------------------------------------------------------


def _place(scene: _Scene, ops: Iterable[OpChange]) -> dict[str, Datum]:
    """The layers and their direction, or the phase, that hold most of the change; else Nones."""
    phase = _phase_of_ops(scene, list(ops)) or _grown_place(scene, "phase")
    numbers, _, direction = (_grown_place(scene, "layer") or "").partition(" ")
    # The times of layers are forward or backward; ops that grew in another phase are not in them.
    elsewhere = phase is not None and not _DIRECTIONS.get(direction, _FORWARD).search(phase)
    if numbers and not elsewhere:
        return {"layers": numbers, "direction": direction, "phase": None}
    return {"layers": None, "direction": None, "phase": phase}


def _grown_place(scene: _Scene, kind: str) -> str | None:
    """The phase or the layers that hold most of the change of compute."""
    compute = scene.part(COMPUTE).delta_ms
    need = LEAST_EXPLAINED * compute if compute > 0 else scene.need
    grown = (part for part in scene.places if part.kind == kind and part.delta_ms > 0)
    most = max(grown, key=lambda part: (part.delta_ms, part.name), default=None)
    if most is None or most.delta_ms < need or most.name == "unannotated":
        return None
    return most.name


def _phase_of_ops(scene: _Scene, ops: Sequence[OpChange]) -> str | None:
    """The phase that holds at least four fifths of the growth of these ops."""
    grown: dict[str, float] = {}
    for side, sign in ((scene.head, 1.0), (scene.base, -1.0)):
        for change in ops:
            name = change.was if sign < 0 and change.was else change.name
            detail = side.op_details.get(name)
            for phase, work in detail.phases.items() if detail else ():
                grown[phase] = grown.get(phase, 0.0) + sign * work.ms
    total = plain_sum(ms for ms in grown.values() if ms > 0)
    most = max(sorted(grown), key=lambda phase: grown[phase], default=None)
    if most is None or most == "unannotated" or grown[most] < 0.8 * total or total <= 0:
        return None
    return most


def _kinds(ops: Iterable[OpChange]) -> tuple[str, ...]:
    """The kinds of some ops, the kind with the most time first."""
    times: dict[str, float] = {}
    for change in ops:
        kind = change.kind or "other"
        times[kind] = times.get(kind, 0.0) + change.delta_ms
    return tuple(sorted(times, key=lambda kind: (-times[kind], kind))[:NAMED_KINDS])
