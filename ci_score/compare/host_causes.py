"""Why a step without a device takes longer: the host's operators, and the time between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ci_score.compare.places import HOLDS, place_of
from ci_score.compare.scene import Cause, Scene
from ci_score.model.explanation import (
    BACKWARD,
    BETWEEN,
    BETWEEN_LOADING,
    COMMUNICATION,
    LEAST_SHARE_OF_STEP,
    OpChange,
)
from ci_score.model.metrics import counts_agree
from ci_score.model.profile import OpCalls
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Measured
from ci_score.model.sums import plain_sum

_BETWEEN_PARTS = (BETWEEN, BETWEEN_LOADING, COMMUNICATION)
# What does the work of an operator that is gone: as often at least, and of so many kinds.
MORE_OFTEN, LEAST_INSTEAD = 1.5, 2
# What the one that is gone took of all operators, at least.
LEAST_SHARE_GONE = 0.01
NAMED, NAMED_INSTEAD, WORTH_A_NAME = 3, 6, 0.1
# All operators slower alike: by how much at least, how alike, and what share of their time.
ALIKE_FROM, ALIKE_WITHIN, ALIKE_SHARE = 0.02, 0.3, 0.8
# Of more operators so many have to be of the calls that are named: what indexes or converts for
# them comes on top.
LEAST_OF_MORE = 0.4
_NO_CALLS = OpCalls(calls=0.0, operators=0.0, ms=0.0)
_SUMMED = tuple(OpCalls.model_fields)
_TYPE = re.compile(r" \(\w+\)$")


# --- the time between operators -----------------------------------------------------------------


def between(scene: Scene) -> Cause | None:
    """What the host does while it runs no operator, by the part of it that grew most."""
    most = max(_BETWEEN_PARTS, key=lambda name: scene.part(name).delta_ms)
    part = scene.part(most)
    if part.delta_ms < scene.need:
        return None
    in_one_place = (_in_a_range(scene), _in_a_gap(scene)) if most == BETWEEN else ()
    for cause in in_one_place:
        if cause is not None and cause.amount >= scene.need:
            return cause
    reason = Why.BETWEEN_OPERATORS(
        part=most, last_op=None, next_op=None, base_ms=part.base_ms, head_ms=part.head_ms
    )
    return Cause(reason, part.delta_ms)


def _in_a_range(scene: Scene) -> Cause | None:
    now, was = scene.head.idle_ranges, scene.base.idle_ranges
    most = max(now, key=lambda name: (now[name] - was.get(name, 0.0), name), default=None)
    if most is None:
        return None
    times = was.get(most, 0.0), now[most]
    reason = Why.HOST_IN_RANGE(name=most, base_ms=times[0], head_ms=times[1])
    return Cause(reason, times[1] - times[0])


def _in_a_gap(scene: Scene) -> Cause | None:
    """The two operators between which more time passes than before."""
    now, was = (
        {(gap.after, gap.before): gap.ms for gap in side.host_gaps}
        for side in (scene.head, scene.base)
    )
    most = max(now, key=lambda ops: (now[ops] - was.get(ops, 0.0), str(ops)), default=None)
    if most is None:
        return None
    times = was.get(most, 0.0), now[most]
    reason = Why.BETWEEN_OPERATORS(
        part=BETWEEN, last_op=most[0], next_op=most[1], base_ms=times[0], head_ms=times[1]
    )
    return Cause(reason, times[1] - times[0])


# --- operators ----------------------------------------------------------------------------------


def other_type(scene: Scene) -> Cause | None:
    """Operators that compute with numbers of another type, with what converts those."""
    moves: dict[tuple[str, str], set[str]] = {}
    for name, changes in _by_bare_name(scene).items():
        # What converts numbers has to do with two types anyway.
        if changes[0].kind == "copy":
            continue
        fewer = {_types(scene, each)[0] for each in changes if _lost(each)} - {""}
        more = {_types(scene, each)[1] for each in changes if _gained(each)} - {""}
        for move in ((was, now) for was in fewer for now in more if was != now):
            moves.setdefault(move, set()).add(name)
    found = [_of_move(scene, *move, moves[move]) for move in sorted(moves)]
    return max(found, key=lambda cause: cause.amount, default=None)


def _of_move(scene: Scene, was: str, now: str, names: set[str]) -> Cause:
    moved = [
        change
        for change in scene.ops
        if (_types(scene, change)[1] == now and not counts_are_alike(change))
        or (_types(scene, change)[0] == was and bare(change.name) in names)
    ]
    grew = {
        name: plain_sum(each.delta_ms for each in moved if bare(each.name) == name)
        for name in names
    }
    # What only calls the others is not worth a name.
    largest = max(grew.values(), key=abs)
    worth = [name for name in names if abs(grew[name]) >= WORTH_A_NAME * abs(largest)]
    reason = Why.OTHER_TYPE(
        names=tuple(sorted(worth, key=lambda name: (-grew[name], name))[:NAMED]),
        base_type=was,
        head_type=now,
        base_ms=plain_sum(change.base_ms for change in moved),
        head_ms=plain_sum(change.head_ms for change in moved),
        **place_of(scene, moved),
    )
    return Cause(reason, plain_sum(change.delta_ms for change in moved))


def _by_bare_name(scene: Scene) -> Mapping[str, list[OpChange]]:
    named: dict[str, list[OpChange]] = {}
    for change in scene.compute_ops:
        named.setdefault(bare(change.name), []).append(change)
    return named


def bare(name: str) -> str:
    """`aten::mm` of `aten::mm (float64)`."""
    return _TYPE.sub("", name)


def counts_are_alike(change: OpChange) -> bool:
    """Whether the op runs as often as before."""
    return counts_agree(change.base_count or 0.0, change.head_count or 0.0)


def _lost(change: OpChange) -> bool:
    return change.status == "renamed" or change.count_delta < 0


def _gained(change: OpChange) -> bool:
    return change.status == "renamed" or change.count_delta > 0


def _types(scene: Scene, change: OpChange) -> tuple[str, str]:
    """The type of an op's numbers in the base and now."""
    names = change.base_name, change.name
    details = (
        side.op_details.get(name)
        for side, name in zip((scene.base, scene.head), names, strict=True)
    )
    was, now = (detail.type if detail else "" for detail in details)
    return was, now


def replaced(scene: Scene) -> Cause | None:
    """An operator that the program no longer calls, and several others that do its work."""
    found = _replacement(scene)
    if found is None:
        return None
    reason = found.reason(base_ms=found.base_ms, head_ms=found.head_ms)
    return Cause(reason, found.head_ms - found.base_ms)


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A call that is gone, the calls and ops that do its work, the time, and how many more run."""

    gone: str
    instead: tuple[str, ...]
    names: tuple[str, ...]
    base_ms: float
    head_ms: float
    operators: float

    def reason(self, base_ms: float | None = None, head_ms: float | None = None) -> Reason:
        """As a reason; that there are more operators is so without their times."""
        return Why.REPLACED(gone=self.gone, names=self.names, base_ms=base_ms, head_ms=head_ms)


def _replacement(scene: Scene) -> _Replacement | None:
    base, head = _called(scene.base), _called(scene.head)
    gone = [name for name in base if _calls(head, name).calls < base[name].calls / 2]
    lost = max(gone, key=lambda name: (base[name].ms, name), default=None)
    if lost is None:
        return None
    fewer = base[lost].calls - _calls(head, lost).calls
    instead = [
        name
        for name in sorted(head)
        if _do_its_work(_calls(base, name).calls, head[name].calls, fewer)
    ]
    if len(instead) < LEAST_INSTEAD:
        return None
    more = [
        change
        for change in scene.compute_ops
        if change.delta_ms > 0
        and _do_its_work(change.base_count or 0.0, change.head_count or 0.0, fewer)
    ]
    more.sort(key=lambda change: (-change.delta_ms, change.name))
    base_ms = base[lost].ms - _calls(head, lost).ms
    # A view that takes hardly any time did none of their work.
    if base_ms < LEAST_SHARE_GONE * plain_sum(base[name].ms for name in sorted(base)):
        return None
    return _Replacement(
        gone=lost,
        instead=tuple(instead),
        names=tuple(change.name for change in more[:NAMED_INSTEAD]) or tuple(instead[:NAMED]),
        base_ms=base_ms,
        head_ms=plain_sum(head[name].ms - _calls(base, name).ms for name in instead),
        operators=plain_sum(
            _calls(head, name).operators - _calls(base, name).operators for name in (*instead, lost)
        ),
    )


def _do_its_work(before: float, now: float, fewer: float) -> bool:
    """Whether something runs once more at least for each call that is gone."""
    return now - before >= fewer and now > MORE_OFTEN * before


def _called(side: Measured) -> dict[str, OpCalls]:
    """What the program calls: with numbers of another type it is the same call."""
    found: dict[str, OpCalls] = {}
    for label in sorted(side.op_calls):
        name, one = bare(label), side.op_calls[label]
        before = found.get(name, _NO_CALLS)
        found[name] = OpCalls(
            **{key: (getattr(before, key) or 0.0) + (getattr(one, key) or 0.0) for key in _SUMMED}
        )
    return found


def _calls(side: Mapping[str, OpCalls], name: str) -> OpCalls:
    return side.get(name, _NO_CALLS)


def all_operators(scene: Scene) -> Cause | None:
    """All operators are slower alike, as often as before: so is a busy or a hot machine."""
    pairs = [
        (was.ms, now.ms)
        for name, was in sorted(scene.base.op_calls.items())
        for now in [_calls(scene.head.op_calls, name)]
        if was.ms > 0
        and counts_agree(was.calls, now.calls)
        and counts_agree(was.operators, now.operators)
    ]
    total = plain_sum(call.ms for _, call in sorted(scene.base.op_calls.items()))
    before, now = (plain_sum(times) for times in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    slower = now / before - 1 if before > 0 else 0.0
    if slower < ALIKE_FROM:
        return None
    near = max(ALIKE_WITHIN * slower, LEAST_SHARE_OF_STEP)
    alike = plain_sum(one for one, other in pairs if abs(other / one - 1 - slower) <= near)
    if alike < ALIKE_SHARE * total:
        return None
    return Cause(Why.ALL_OPERATORS(share=slower), now - before)


def more_backward(scene: Scene) -> Cause | None:
    """As many calls as before, but more of them have a backward pass: a `detach()` was lost."""
    names = _with_more_backward(scene)
    sides = scene.base.op_calls, scene.head.op_calls
    before, now = (plain_sum(side[name].backward_ms or 0.0 for name in names) for side in sides)
    return Cause(_more_backward(scene, names, before, now), now - before) if names else None


def _with_more_backward(scene: Scene) -> list[str]:
    """The calls that more of have a backward pass, first those that run most more operators."""
    base, head = scene.base.op_calls, scene.head.op_calls
    names = [
        name
        for name in sorted(base.keys() & head.keys())
        if counts_agree(base[name].calls, head[name].calls)
        and _has_more(base[name].backward_calls, head[name].backward_calls)
    ]
    return sorted(names, key=lambda name: base[name].operators - head[name].operators)


def _has_more(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return False
    return now > before and not counts_agree(before, now)


def _more_backward(
    scene: Scene, names: Sequence[str], base_ms: float | None = None, head_ms: float | None = None
) -> Reason:
    base, head = (
        tuple(side[name].backward_calls or 0.0 for name in names[:NAMED])
        for side in (scene.base.op_calls, scene.head.op_calls)
    )
    return Why.MORE_BACKWARD(
        names=tuple(names[:NAMED]),
        base_calls=base,
        head_calls=head,
        base_ms=base_ms,
        head_ms=head_ms,
    )


def one_call(scene: Scene) -> Cause | None:
    """What the program calls that takes most time more than before, with its backward pass."""
    base, head = _called(scene.base), _called(scene.head)
    names = sorted(base.keys() | head.keys())
    most = max(names, key=lambda name: _calls(head, name).ms - _calls(base, name).ms, default=None)
    if most is None:
        return None
    # New calls that do the work of one that is gone are not slower by all of their time.
    found = _replacement(scene)
    if found is not None and most in found.instead:
        return None
    was, now = _calls(base, most), _calls(head, most)
    times, grew = (was.ms, now.ms), now.ms - was.ms
    backward = was.backward_ms or 0.0, now.backward_ms or 0.0
    is_backward = counts_agree(was.calls, now.calls) and backward[1] - backward[0] >= HOLDS * grew
    if is_backward:
        times = backward
    reason = Why.ONE_CALL(
        name=most,
        phase=BACKWARD if is_backward else None,
        base_calls=was.calls,
        head_calls=now.calls,
        base_ms=times[0],
        head_ms=times[1],
    )
    return Cause(reason, times[1] - times[0])


# --- the number of operators --------------------------------------------------------------------


def more_operators(scene: Scene) -> Cause | None:
    """What runs more operators than before: a replacement, or what is called more often."""
    base, head = scene.base.op_calls, scene.head.op_calls
    grew = {
        name: _calls(head, name).operators - _calls(base, name).operators
        for name in sorted(base.keys() | head.keys())
    }
    more = plain_sum(grew.values())
    if more <= 0:
        return None
    found = _replacement(scene)
    if found is not None and found.operators >= LEAST_OF_MORE * more:
        return Cause(found.reason(), found.operators)
    undetached = _with_more_backward(scene)
    if _sum_of(grew, undetached) >= LEAST_OF_MORE * more:
        return Cause(_more_backward(scene, undetached), _sum_of(grew, undetached))
    calls = {name: _calls(head, name).calls - _calls(base, name).calls for name in grew}
    named: list[str] = []
    for name in sorted(grew, key=lambda name: (-calls[name], -grew[name], name))[:NAMED]:
        if grew[name] > 0 and calls[name] > 0:
            named.append(name)
        if _sum_of(grew, named) >= LEAST_OF_MORE * more:
            reason = Why.MORE_CALLS(
                names=tuple(named),
                base_calls=tuple(_calls(base, name).calls for name in named),
                head_calls=tuple(_calls(head, name).calls for name in named),
            )
            return Cause(reason, _sum_of(grew, named))
    return None


def _sum_of(values: Mapping[str, float], names: Iterable[str]) -> float:
    return plain_sum(values[name] for name in names)
