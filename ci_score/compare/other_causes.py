"""Why a step takes longer beside compute: communication, copies, the host, one step, one rank."""

from __future__ import annotations

import statistics

from ci_score.compare.compute_causes import data_of
from ci_score.compare.places import NOWHERE
from ci_score.compare.scene import Cause, Scene
from ci_score.model.explanation import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    IDLE,
    IDLE_OTHER,
    IDLE_WORDS,
    LEAST_EXPLAINED,
)
from ci_score.model.reasons import Datum, Why

# Fewer steps tell nothing of one among them; a base with such a step has the same trouble.
LEAST_STEPS, AS_IN_BASE = 4, 0.5
# The rank that computes longer: by which share at least, and how many times the median rank's.
RANK_FROM, RANK_BESIDE = 0.05, 3.0
# Repeats of one job differ by so much in compute.
SAME_WORK = 0.03
_HOST_SIDE = (IDLE, IDLE_OTHER, IDLE_WORDS["launching"])


def one_rank(scene: Scene) -> Cause | None:
    """The rank whose own compute grew, each compared with itself, while the others wait for it."""
    before = {work.rank: work.compute_ms for work in scene.base.ranks}
    changes = {
        work.rank: (base_ms, work.compute_ms)
        for work in scene.head.ranks
        if work.compute_ms is not None and (base_ms := before.get(work.rank)) is not None
    }
    if len(changes) < 2:
        return None
    grew = {rank: now - base_ms for rank, (base_ms, now) in changes.items()}
    slow = max(grew, key=lambda rank: (grew[rank], -rank))
    base_ms, head_ms = changes[slow]
    usual = statistics.median(abs(ms) for ms in grew.values())
    if grew[slow] < RANK_FROM * base_ms or grew[slow] < RANK_BESIDE * usual or grew[slow] <= 0:
        return None
    reason = Why.ONE_RANK(rank=slow, base_ms=base_ms, head_ms=head_ms, ranks=len(changes))
    return Cause(reason, grew[slow])


def one_slow_step(scene: Scene) -> Cause | None:
    """One step among several is so slow that it alone raises their mean."""
    now, before = scene.head.step_spread, scene.base.step_spread
    if now is None or before is None or min(now.count, before.count) < LEAST_STEPS:
        return None
    excess, there = now.slowest_ms - now.median_ms, before.slowest_ms - before.median_ms
    if there > AS_IN_BASE * excess:
        return None
    reason = Why.ONE_SLOW_STEP(steps=now.count, slowest_ms=now.slowest_ms, usual_ms=now.median_ms)
    return Cause(reason, now.excess_ms - before.excess_ms)


def communication(scene: Scene) -> Cause | None:
    """Longer in all, or only less hidden behind compute."""
    part = scene.part(COMMUNICATION)
    now, before = (side.categories.get("comm") for side in (scene.head, scene.base))
    exposed: dict[str, Datum] = {
        "exposed_base_ms": part.base_ms,
        "exposed_head_ms": part.head_ms,
    }
    if now is None or before is None:
        unknown = dict.fromkeys(("base_ms", "head_ms", "base_count", "head_count"))
        return Cause(Why.COMMUNICATION_GREW(**unknown, **exposed), part.delta_ms)
    if now.ms - before.ms < scene.need:
        return Cause(Why.OVERLAPS_LESS(in_all_ms=now.ms, **exposed), part.delta_ms)
    reason = Why.COMMUNICATION_GREW(
        base_ms=before.ms,
        head_ms=now.ms,
        base_count=before.count,
        head_count=now.count,
        **exposed,
    )
    return Cause(reason, part.delta_ms)


def copies(scene: Scene) -> Cause | None:
    """The copy or fill that grew most."""
    part = scene.part(COPIES)
    moved = [change for change in scene.ops if change.kind in ("memcpy", "memset")]
    most = max(moved, key=lambda change: (change.delta_ms, change.name), default=None)
    op = data_of(most if most is not None and most.delta_ms > 0 else None)
    reason = Why.COPIES_GREW(part_base_ms=part.base_ms, part_head_ms=part.head_ms, **op)
    return Cause(reason, part.delta_ms)


def host_range(scene: Scene) -> Cause | None:
    """A range of the host, such as a function, that fills most of the new idle time."""
    now, before = scene.head.idle_ranges, scene.base.idle_ranges
    grew = {name: ms - before.get(name, 0.0) for name, ms in now.items()}
    most = max(grew, key=lambda name: (grew[name], name), default=None)
    if most is None or grew[most] <= 0 or grew[most] < LEAST_EXPLAINED * scene.idle_ms:
        return None
    reason = Why.HOST_RANGE(name=most, base_ms=before.get(most, 0.0), head_ms=now[most])
    return Cause(reason, grew[most])


def idle(scene: Scene) -> Cause | None:
    """Why the device did nothing, by the cause that grew most."""
    part = scene.grown_parts[0]
    now, before = (side.metrics.get("recompiles") for side in (scene.head, scene.base))
    recompiled = part.name in _HOST_SIDE and now is not None and before is not None and now > before
    works = [scene.part(name) for name in (COMPUTE, COMMUNICATION, COPIES)]
    reason = Why.IDLE_GREW(
        part=part.name,
        base_ms=part.base_ms,
        head_ms=part.head_ms,
        recompiles_base=before if recompiled else None,
        recompiles_head=now if recompiled else None,
        same_work=part.name in (IDLE, IDLE_OTHER)
        and sum(abs(work.delta_ms) for work in works)
        <= SAME_WORK * sum(work.base_ms for work in works),
    )
    return Cause(reason, part.delta_ms)


def phase_grew(scene: Scene) -> Cause | None:
    """The phase that grew most, where phases are all that is known."""
    part = scene.grown_parts[0]
    place = {**NOWHERE, "phase": part.name}
    return Cause(Why.PHASE_GREW(part=part.name, **place), part.delta_ms)


def two_parts(scene: Scene) -> Cause | None:
    """Two parts together, where neither alone explains half of the change."""
    both = scene.grown_parts[:2]
    if len(both) < 2 or both[0].delta_ms >= scene.need:
        return None
    parts, grew = tuple(part.name for part in both), tuple(part.delta_ms for part in both)
    return Cause(Why.TWO_PARTS(parts=parts, grew_ms=grew), sum(grew))
