"""Why a step has more launches than before: the one cause of at least half of them."""

from __future__ import annotations

from ci_score.compare.compute_causes import FUSION_LAUNCHES, swapped
from ci_score.compare.places import place_of
from ci_score.compare.scene import Cause, Scene
from ci_score.model.explanation import LEAST_EXPLAINED
from ci_score.model.reasons import Why
from ci_score.model.sums import plain_sum


def cause_of_counts(scene: Scene) -> Cause | None:
    """A lost fusion, an op, or a kind of kernels."""
    counted = [change for change in scene.ops if change.head_count is not None]
    more = plain_sum(change.count_delta for change in counted)
    if more <= 0:
        return None
    need = LEAST_EXPLAINED * more
    lost, gained = swapped(scene)
    fewer = -plain_sum(change.count_delta for change in lost)
    instead = plain_sum(change.count_delta for change in gained)
    if fewer and instead >= FUSION_LAUNCHES * fewer and instead - fewer >= need:
        place = place_of(scene, [*lost, *gained])
        reason = Why.LOST_FUSION(attention=None, kinds=(), before=fewer, now=instead, **place)
        return Cause(reason, instead - fewer)
    most = max(counted, key=lambda change: (change.count_delta, change.name))
    if most.count_delta >= need:
        before, now = most.base_count or 0.0, most.head_count or 0.0
        origin = most.origin.names if most.origin else ()
        place = place_of(scene, [most])
        reason = Why.MORE_OF_OP(name=most.name, origin=origin, before=before, now=now, **place)
        return Cause(reason, now - before)
    by_kind = {
        kind: plain_sum(change.count_delta for change in counted if change.kind == kind)
        for kind in sorted({change.kind for change in counted})
    }
    kind = max(by_kind, key=lambda kind: by_kind[kind])
    if by_kind[kind] < need:
        return None
    ops = [change for change in counted if change.kind == kind]
    reason = Why.MORE_OF_KIND(kind=kind, more=by_kind[kind], **place_of(scene, ops))
    return Cause(reason, by_kind[kind])
