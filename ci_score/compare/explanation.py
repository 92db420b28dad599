"""Profile → the parts of its step; the parts of two steps → why the step time changed.

The parts do not overlap, and with the rest they sum to the step. So the changes of the parts sum to
the change of the step. Compute is divided further by category and by op, and the change of an op
into more launches and more time for each.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ci_score.compare.counterparts import counterparts
from ci_score.model.explanation import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    IDLE,
    IDLE_OTHER,
    IDLE_WORDS,
    REST,
    Explanation,
    OpChange,
    OpDetail,
    Part,
    StepSpread,
    Timeline,
)
from ci_score.model.profile import OpPlace, OpWork, Profile
from ci_score.model.record import Measured
from ci_score.model.step_ops import StepOps, step_ops_of
from ci_score.model.sums import plain_sum

OVERLAP = "less what overlaps"
NOT_COMPUTE = frozenset({"comm", "memcpy", "memset"})

SHOWN_OPS = 12
# Bounds for the record; the rest includes the phases beyond them.
KEPT_PHASES, LONGEST_NAME = 32, 200
# If the phases sum to more than this many steps, they are totals of a run and not parts of a step.
MOST_OF_A_STEP = 1.5
ALIKE_COUNT, LIKE_COUNT = 0.1, 2.0
# Every op that one side alone has is held against every one of the other: so many of each.
RENAMED = 256

_DIGITS = re.compile(r"\d+")
# Angle brackets hold the tile, the type or the layout; for these kinds they tell which op it is.
_TOLD_BY_TEMPLATE = frozenset({"elementwise", "copy", "reduce", "other", ""})


# --- one step -----------------------------------------------------------------------------------


def timeline_of(profile: Profile) -> Timeline | None:
    """The step divided by what the device did, or by its phases; None if neither is known."""
    step_ms = profile.own_step_ms
    if profile.unusable is not None or step_ms <= 0:
        return None
    if profile.device_busy_ms is not None and profile.compute_ms is not None:
        parts = _device_parts(profile, step_ms, profile.device_busy_ms, profile.compute_ms)
        return Timeline(basis="device", step_ms=step_ms, parts=parts)
    if profile.host_parts:
        largest = sorted(profile.host_parts, key=lambda name: (-profile.host_parts[name], name))
        kept = {name: profile.host_parts[name] for name in largest[:KEPT_PHASES]}
        return Timeline(basis="host", step_ms=step_ms, parts=kept)
    phases = {name: phase.total_ms for name, phase in profile.phases.items() if phase.total_ms > 0}
    if not phases or plain_sum(phases.values()) > MOST_OF_A_STEP * step_ms:
        return None
    largest = sorted(phases, key=lambda name: (-phases[name], name))[:KEPT_PHASES]
    kept = {name: ms for name, ms in phases.items() if name in largest and len(name) < LONGEST_NAME}
    return Timeline(basis="phases", step_ms=step_ms, parts=kept)


def _device_parts(
    profile: Profile, step_ms: float, busy_ms: float, compute_ms: float
) -> dict[str, float]:
    exposed_ms = profile.exposed_communication_ms or 0.0
    parts = {
        COMPUTE: compute_ms,
        COMMUNICATION: exposed_ms,
        COPIES: max(busy_ms - compute_ms - exposed_ms, 0.0),
    }
    idle_ms = max(step_ms - busy_ms, 0.0)
    causes = {
        IDLE_WORDS[cause]: profile.idle_causes[cause]
        for cause in IDLE_WORDS
        if cause in profile.idle_causes
    }
    if not causes:
        return {**parts, IDLE: idle_ms}
    return {**parts, **causes, IDLE_OTHER: max(idle_ms - plain_sum(causes.values()), 0.0)}


def ops_of(profile: Profile, times: Mapping[str, float]) -> StepOps:
    """These ops of a step with what the profile knows of them, and where they run."""
    order = {name: place for place, name in enumerate(profile.op_counts)}
    details = {
        name: OpDetail(
            kind=profile.op_kinds.get(name, ""),
            type=profile.op_types.get(name, ""),
            count=profile.op_counts.get(name),
            order=order.get(name),
            origin=profile.op_origins.get(name),
        )
        for name in times
    }
    return step_ops_of(times, details, profile.op_places or _layers_of(profile))


def _layers_of(profile: Profile) -> Iterator[OpPlace]:
    """Where the ops run by a format that tells their layers and nothing more."""
    for layer in profile.per_layer:
        for name, ms in layer.ops.items():
            yield OpPlace(op=name, layer=layer.layer, ms=ms)


def step_spread_of(times: Sequence[float]) -> StepSpread | None:
    """How alike the steps are that were timed one by one."""
    if not times:
        return None
    ordered = sorted(times)
    return StepSpread(
        count=len(times), median_ms=statistics.median(ordered), slowest_ms=ordered[-1]
    )


def categories_of(profile: Profile) -> dict[str, OpWork]:
    """The time of each category, and its number of launches if they were counted."""
    counts: dict[str, float] = {}
    for name, count in profile.op_counts.items():
        kind = profile.op_kinds.get(name, "")
        counts[kind] = counts.get(kind, 0.0) + count
    return {
        kind: OpWork(count=counts.get(kind), ms=ms) for kind, ms in profile.op_categories.items()
    }


# --- two steps ----------------------------------------------------------------------------------


def explain(head: Measured, base: Measured) -> Explanation | None:
    """What the change of the step consists of; None if the two steps were divided differently."""
    now, before = head.timeline, base.timeline
    if now is None or before is None or now.basis != before.basis:
        return None
    return Explanation(
        basis=now.basis,
        under_profiler=head.environment.timing == "unprofiled",
        base_step_ms=before.step_ms,
        head_step_ms=now.step_ms,
        parts=_parts(now, before),
        categories=_categories(head, base),
        ops=tuple(_largest(op_changes(head, base))),
    )


def _parts(head: Timeline, base: Timeline) -> tuple[Part, ...]:
    """Every part of either side, and the rest; idle is one part if a side has no causes for it."""
    now, before = head.parts, base.parts
    if IDLE in now or IDLE in before:
        now, before = _with_idle_as_one(now), _with_idle_as_one(before)
    return (
        *_of_names(now, before),
        Part(
            name=REST,
            base_ms=base.step_ms - plain_sum(before.values()),
            head_ms=head.step_ms - plain_sum(now.values()),
        ),
    )


def _with_idle_as_one(parts: Mapping[str, float]) -> dict[str, float]:
    idle = {name for name in parts if name.startswith(IDLE)}
    busy = {name: ms for name, ms in parts.items() if name not in idle}
    return {**busy, IDLE: plain_sum(parts[name] for name in sorted(idle))}


def _of_names(head: Mapping[str, float], base: Mapping[str, float]) -> tuple[Part, ...]:
    return tuple(
        Part(name=name, base_ms=base.get(name, 0.0), head_ms=head.get(name, 0.0))
        for name in dict.fromkeys((*head, *base))
    )


def _categories(head: Measured, base: Measured) -> tuple[Part, ...]:
    """The kinds of compute; the last row subtracts what kernels that run at once count twice."""
    now, before = head.timeline, base.timeline
    if now is None or before is None or COMPUTE not in now.parts or COMPUTE not in before.parts:
        return ()
    if not head.categories or not base.categories:
        return ()
    times = [
        {kind: work.ms for kind, work in side.categories.items() if kind not in NOT_COMPUTE}
        for side in (head, base)
    ]
    rows = _of_names(*times)
    return (
        *sorted(rows, key=lambda row: (-abs(row.delta_ms), row.name)),
        Part(
            name=OVERLAP,
            base_ms=before.parts[COMPUTE] - plain_sum(row.base_ms for row in rows),
            head_ms=now.parts[COMPUTE] - plain_sum(row.head_ms for row in rows),
        ),
    )


def _largest(changes: Iterable[OpChange]) -> list[OpChange]:
    moved = [change for change in changes if change.delta_ms or change.count_delta]
    return sorted(moved, key=lambda change: (-abs(change.delta_ms), change.name))[:SHOWN_OPS]


# --- ops ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Op:
    """An op of one side."""

    name: str
    ms: float
    detail: OpDetail


def op_changes(head: Measured, base: Measured) -> list[OpChange]:
    """Every op of either side that can be compared, in the order of their names."""
    now, before = _ops(head), _ops(base)
    if not now or not before:
        return []
    both = now.keys() & before.keys()
    changes = [_changed(now[name], before[name], "changed") for name in both]
    met = counterparts(head, base)
    changes += [_changed(now[name], before[was], "changed") for name, was in met.items()]
    new = [op for name, op in now.items() if name not in both and name not in met]
    gone = [op for name, op in before.items() if name not in both and name not in met.values()]
    slots = _slots(now, both), _slots(before, both)
    for head_op, base_op in _renamed(_largest_ops(new), _largest_ops(gone), *slots):
        changes.append(_changed(head_op, base_op, "renamed"))
        new.remove(head_op)
        gone.remove(base_op)
    # What one side alone has is new or gone only where the other kept all of its ops.
    changes += [_alone(op, "new") for op in new if not base.step_ops.left_out]
    changes += [_alone(op, "gone") for op in gone if not head.step_ops.left_out]
    return sorted(changes, key=lambda change: (change.name, change.status))


def _largest_ops(ops: Iterable[_Op]) -> list[_Op]:
    return sorted(ops, key=lambda op: (-op.ms, op.name))[:RENAMED]


def _ops(case: Measured) -> dict[str, _Op]:
    return {
        name: _Op(name, ms, case.op_details.get(name, OpDetail()))
        for name, ms in sorted(case.ops.items())
    }


def _changed(head: _Op, base: _Op, status: Literal["changed", "renamed"]) -> OpChange:
    """The change as more launches at the old time each, and more time for each launch of now."""
    counts = (base.detail.count, head.detail.count)
    by_count = None
    if counts[0] and counts[1]:
        by_count = (counts[1] - counts[0]) * base.ms / counts[0]
        # A count of nearly nothing tells nothing of each launch.
        by_count = by_count if math.isfinite(by_count) else None
    return OpChange(
        name=head.name,
        kind=head.detail.kind or base.detail.kind,
        status=status,
        was=base.name if head.name != base.name else None,
        origin=head.detail.origin,
        base_ms=base.ms,
        head_ms=head.ms,
        base_count=counts[0],
        head_count=counts[1],
        by_count_ms=by_count,
        by_time_ms=None if by_count is None else head.ms - base.ms - by_count,
    )


def _alone(op: _Op, status: str) -> OpChange:
    """An op that only one side has: its launches account for all of its time."""
    is_new = status == "new"
    count = op.detail.count
    return OpChange(
        name=op.name,
        kind=op.detail.kind,
        status="new" if is_new else "gone",
        origin=op.detail.origin,
        base_ms=0.0 if is_new else op.ms,
        head_ms=op.ms if is_new else 0.0,
        base_count=None if count is None else 0.0 if is_new else count,
        head_count=None if count is None else count if is_new else 0.0,
        by_count_ms=None if count is None else op.ms if is_new else -op.ms,
        by_time_ms=None if count is None else 0.0,
    )


# The two ops, common to both sides, between which an op first runs; None at either end.
Slot = tuple[str | None, str | None]


def _slots(ops: Mapping[str, _Op], both: Iterable[str]) -> dict[str, Slot]:
    """For each op that only one side has, its place among those that both have."""
    shared = frozenset(both)
    ordered = sorted(
        (op for op in ops.values() if op.detail.order is not None),
        key=lambda op: (op.detail.order, op.name),
    )
    before: dict[str, str | None] = {}
    last = None
    for op in ordered:
        before[op.name] = last
        last = op.name if op.name in shared else last
    slots: dict[str, Slot] = {}
    following = None
    for op in reversed(ordered):
        slots[op.name] = (before[op.name], following)
        following = op.name if op.name in shared else following
    return {name: slot for name, slot in slots.items() if name not in shared}


def _renamed(
    new: Sequence[_Op],
    gone: Sequence[_Op],
    head_slots: Mapping[str, Slot],
    base_slots: Mapping[str, Slot],
) -> list[tuple[_Op, _Op]]:
    """New ops, each with the one that is gone and whose work it does; those of one stem first.

    A kernel's name holds its tile and its types, so another shape gives another name. If the names
    have nothing in common, an op does the work of another if each alone fills the same place.
    """
    by_stem: dict[tuple[str, str], list[_Op]] = {}
    for base in gone:
        by_stem.setdefault(_stem_of(base), []).append(base)
    alike = [
        (abs((head.detail.count or 0.0) - (base.detail.count or 0.0)), head.name, base.name)
        for head in new
        for base in by_stem.get(_stem_of(head), ())
        if _counts_alike(head, base)
    ]
    pairs = _each_once([(head, base) for _, head, base in sorted(alike)])
    rest = [op for op in new if op.name not in pairs]
    others = [op for op in gone if op.name not in pairs.values()]
    for slot in sorted(set(head_slots.values()), key=str):
        head_ops = [op for op in rest if head_slots.get(op.name) == slot]
        base_ops = [op for op in others if base_slots.get(op.name) == slot]
        if len(head_ops) == len(base_ops) == 1 and _same_work(head_ops[0], base_ops[0]):
            pairs[head_ops[0].name] = base_ops[0].name
    by_name = {op.name: op for op in gone}
    return [(op, by_name[pairs[op.name]]) for op in new if op.name in pairs]


def _each_once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for head, base in pairs:
        if head not in chosen and base not in taken:
            chosen[head] = base
            taken.add(base)
    return chosen


def _stem_of(op: _Op) -> tuple[str, str]:
    return op.detail.kind, stem(op.name, op.detail.kind)


def _counts_alike(head: _Op, base: _Op) -> bool:
    counts = sorted((head.detail.count or 0.0, base.detail.count or 0.0))
    return not counts[0] or counts[1] <= LIKE_COUNT * counts[0]


def _same_work(head: _Op, base: _Op) -> bool:
    counts = (head.detail.count, base.detail.count)
    if head.detail.kind != base.detail.kind or not head.detail.kind:
        return False
    return bool(counts[0] and counts[1] and abs(counts[0] / counts[1] - 1) <= ALIKE_COUNT)


def stem(name: str, kind: str = "") -> str:
    """A kernel's name without its numbers, and without template arguments that vary."""
    if kind not in _TOLD_BY_TEMPLATE:
        name = name.partition("<")[0]
    return _DIGITS.sub("#", name)
