"""Why compute takes longer: one small function a rule, each with the limits that were tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ci_score.compare.explanation import OVERLAP
from ci_score.compare.places import (
    HOLDS,
    grown_layers,
    layer_times,
    phase_times,
    place_of,
    place_of_compute,
)
from ci_score.compare.scene import Cause, Scene
from ci_score.model.explanation import COMPUTE, OpChange
from ci_score.model.metrics import counts_agree
from ci_score.model.reasons import Datum, Why
from ci_score.model.sums import plain_sum, weighted_median

# All slower alike: by how much at least, how alike, what share of compute, and how many ops.
UNIFORM_FROM, UNIFORM_WITHIN, UNIFORM_SHARE, UNIFORM_OPS = 0.02, 0.3, 0.8, 4
# After a lost fusion there are more launches, each about as long as the fused one at most.
FUSION_LAUNCHES, FUSION_TIME = 1.5, 1.2
# Every kernel so many times: how many at least, how alike, and what share of compute.
TIMES_FROM, TIMES_WITHIN = 1.9, 0.05
# One layer among many, and not one of two or three.
FEW_LAYERS = 0.5
NAMED_KINDS = 3

_FUSED_WORK = frozenset(
    {"elementwise", "copy", "reduce", "norm", "softmax_loss", "optimizer", "embedding", "other", ""}
)
_LAST_NAME = re.compile(r"([A-Za-z_]\w*)\s*$")


def every_kernel(scene: Scene) -> Cause | None:
    """Nearly all kernels run k times as often; an optimizer's may not."""
    counted = [
        change
        for change in scene.compute_ops
        if change.kind != "optimizer" and change.base_ms > 0 and change.base_count
    ]
    ratios = [
        ((change.head_count or 0.0) / change.base_count, change)
        for change in counted
        if change.base_count
    ]
    times = weighted_median([(ratio, change.base_ms) for ratio, change in ratios])
    if times < TIMES_FROM or len(ratios) < UNIFORM_OPS:
        return None
    alike = [change for ratio, change in ratios if abs(ratio / times - 1) <= TIMES_WITHIN]
    if _base_ms(alike) < UNIFORM_SHARE * _base_ms(counted):
        return None
    reason = Why.EVERY_KERNEL(
        times=times,
        base_count=plain_sum(change.base_count or 0.0 for change in alike),
        head_count=plain_sum(change.head_count or 0.0 for change in alike),
    )
    return Cause(reason, plain_sum(change.by_count_ms or 0.0 for change in alike))


def clocks(scene: Scene) -> Cause | None:
    """The same kernels run as often as before and are slower alike, all through the step.

    Slower products alone would also slow every part of the step, and one slow part many kernels.
    """
    alike = [
        (change.head_ms / change.base_ms * change.base_count / change.head_count - 1, change)
        for change in scene.compute_ops
        if change.base_ms > 0
        and change.base_count
        and change.head_count
        and counts_agree(change.base_count, change.head_count)
    ]
    if len(alike) < UNIFORM_OPS or len({change.kind for _, change in alike}) < 2:
        return None
    slower = weighted_median([(excess, change.base_ms) for excess, change in alike])
    by_op = [(change.base_ms, change.base_ms * (1 + excess)) for excess, change in alike]
    if slower < UNIFORM_FROM or not _alike(by_op, slower, _base_ms(scene.compute_ops)):
        return None
    if not scene.head.compute_tenths_ms or not scene.base.compute_tenths_ms:
        return None
    if not all(_alike(pairs, slower) for pairs in _parts_of_compute(scene)):
        return None
    explained = plain_sum(change.delta_ms for _, change in alike)
    return Cause(Why.ALL_KERNELS(share=slower), explained)


def _parts_of_compute(scene: Scene) -> list[list[tuple[float, float]]]:
    """The tenths of the step, its phases and its layers: of each part its time before and now."""
    before, now = phase_times(scene, scene.compute_ops)
    base, head = layer_times(scene.base), layer_times(scene.head)
    tenths = zip(scene.base.compute_tenths_ms, scene.head.compute_tenths_ms, strict=False)
    return [
        list(tenths),
        [(before[phase], now.get(phase, 0.0)) for phase in before],
        [(sum(base[layer]), sum(head[layer])) for layer in base.keys() & head.keys()],
    ]


def _alike(pairs: Sequence[tuple[float, float]], slower: float, total: float = 0.0) -> bool:
    """Whether most of the time, in `total` or in these parts, grew by about that share."""
    near = plain_sum(
        before
        for before, now in pairs
        if before > 0
        and abs(now / before - 1 - slower) <= max(UNIFORM_WITHIN * slower, UNIFORM_FROM / 2)
    )
    return near >= UNIFORM_SHARE * (total or plain_sum(before for before, _ in pairs))


def _base_ms(ops: Iterable[OpChange]) -> float:
    return plain_sum(change.base_ms for change in ops)


def lost_fusion(scene: Scene) -> Cause | None:
    """Kernels are gone, and a larger number of smaller ones does their work."""
    lost, gained = swapped(scene)
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
        **place_of(scene, [*lost, *gained]),
    )
    return Cause(reason, gained_ms - lost_ms)


def swapped(scene: Scene) -> tuple[list[OpChange], list[OpChange]]:
    """The ops that are gone or run less than half as often, and those that came in their place."""
    counted = [
        change
        for change in scene.compute_ops
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


def few_layers(scene: Scene) -> Cause | None:
    """One layer, or some of many, where no op of theirs is nearly all of it."""
    layers = grown_layers(scene)
    if layers is None or layers.share > FEW_LAYERS:
        return None
    most = max((change.delta_ms for change in scene.seen_ops), default=0.0)
    if layers.delta_ms < HOLDS * scene.grown_ms or most >= HOLDS * layers.delta_ms:
        return None
    times = {"base_ms": layers.base_ms, "head_ms": layers.head_ms}
    return Cause(Why.LAYERS_GREW(**times, **layers.place), layers.delta_ms)


def one_op(scene: Scene) -> Cause | None:
    """The op that grew most, of those that a longer step may come from."""
    slower = max(scene.seen_ops, key=lambda change: (change.delta_ms, change.name), default=None)
    if slower is None or slower.delta_ms <= 0:
        return None
    reason = Why.ONE_OP(**data_of(slower), **place_of(scene, [slower]))
    return Cause(reason, slower.delta_ms)


def data_of(change: OpChange | None) -> dict[str, Datum]:
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


def kind_alike(scene: Scene) -> Cause | None:
    """A kind of kernels of which all grew alike: its largest op is no more to blame than others."""
    cause = one_kind(scene)
    if cause is None or cause.amount < HOLDS * scene.grown_ms:
        return None
    ops = [each for each in scene.compute_ops if each.kind == cause.reason.data["kind"]]
    pairs = [(each.base_ms, each.head_ms) for each in ops if each.base_ms > 0]
    grew = weighted_median([(now / before - 1, before) for before, now in pairs])
    most = max(pairs, default=(0.0, 0.0))[0]
    is_one = most >= UNIFORM_SHARE * plain_sum(before for before, _ in pairs)
    return cause if grew >= UNIFORM_FROM and not is_one and _alike(pairs, grew) else None


def one_kind(scene: Scene) -> Cause | None:
    """The kind of kernels that grew most, by the name that all that grew have in common."""
    rows = [row for row in scene.explanation.categories if row.name != OVERLAP]
    grown = max(rows, key=lambda row: row.delta_ms, default=None)
    if grown is None or grown.delta_ms <= 0:
        return None
    before, now = (
        side.categories[grown.name].count if grown.name in side.categories else 0.0
        for side in (scene.base, scene.head)
    )
    ops = [change for change in scene.ops if change.kind == grown.name]
    names = {_bare_name(change.name) for change in ops if change.delta_ms > 0}
    reason = Why.ONE_KIND(
        kind=grown.name,
        name=names.pop() if len(names) == 1 else None,
        base_ms=grown.base_ms,
        head_ms=grown.head_ms,
        base_count=before,
        head_count=now,
        **place_of(scene, ops, grown.delta_ms),
    )
    return Cause(reason, grown.delta_ms)


def _bare_name(name: str) -> str | None:
    """`multi_tensor_apply_kernel`: the function that several ops share, whatever its arguments."""
    found = _LAST_NAME.search(name.replace("(anonymous namespace)", "").partition("<")[0])
    return found[1] if found else None


def compute_grew(scene: Scene) -> Cause | None:
    """No kind of kernel stands out, but a place does."""
    place = place_of_compute(scene)
    if not any(place.values()):
        return None
    return Cause(Why.COMPUTE_GREW(**place), scene.part(COMPUTE).delta_ms)


def _kinds(ops: Iterable[OpChange]) -> tuple[str, ...]:
    """The kinds of some ops, the kind with the most time first."""
    times: dict[str, float] = {}
    for change in ops:
        kind = change.kind or "other"
        times[kind] = times.get(kind, 0.0) + change.delta_ms
    return tuple(sorted(times, key=lambda kind: (-times[kind], kind))[:NAMED_KINDS])
