"""Explanation → the one sentence that a reviewer can act on, or none.

A rule speaks where its cause holds at least half of what is to be explained. They are asked from
the most specific to the least, within the part of the step that grew most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci_score.compare.explanation import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    IDLE,
    IDLE_OTHER,
    IDLE_WORDS,
    NOT_COMPUTE,
    OVERLAP,
    REST,
    op_changes,
)
from ci_score.model.explanation import Contribution, Explanation, OpChange, Part
from ci_score.model.metrics import significant, three_digits
from ci_score.model.record import CaseRecord
from ci_score.model.sums import plain_sum

# What must be explained, and from where on a change is one.
LEAST_EXPLAINED = 0.5
LEAST_SHARE_OF_STEP = 0.01
SAME_TOKENS = 0.02
SAME_COUNT = 0.02
# All ops slower alike: by how much, how alike, and how much of the compute they must be.
UNIFORM_FROM, UNIFORM_WITHIN, UNIFORM_SHARE, UNIFORM_OPS = 0.02, 0.3, 0.8, 4
# A lost fusion leaves more launches, of which none takes longer than the fused one did.
FUSION_LAUNCHES, FUSION_TIME = 1.5, 1.2
LONGEST_NAME = 60
NAMED_KINDS = 3

_FUSED_WORK = frozenset(
    {"elementwise", "copy", "reduce", "norm", "softmax_loss", "optimizer", "embedding", "other", ""}
)
_KIND_WORDS = {
    "gemm": "matrix product",
    "conv": "convolution",
    "softmax_loss": "softmax and loss",
    "comm": "communication",
    "memcpy": "copy",
    "memset": "fill",
    "other": "other",
    "": "other",
}
_BACKWARD = re.compile(r"backward|bwd", re.IGNORECASE)
_FORWARD = re.compile(r"forward|fwd", re.IGNORECASE)
_DIRECTIONS = {"forward": _FORWARD, "backward": _BACKWARD}


@dataclass(frozen=True, slots=True)
class _Cause:
    """What a rule found: its words, and how much of the change it explains."""

    words: str
    amount: float


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the rules look at; `need` is what a cause must explain at least."""

    head: CaseRecord
    base: CaseRecord
    found: Explanation
    ops: Sequence[OpChange]
    places: Sequence[Contribution]
    need: float

    def part(self, name: str) -> Part:
        """A part of the step by its name; of no time where neither side has it."""
        nothing = Part(name=name, base_ms=0.0, head_ms=0.0)
        return next((part for part in self.found.parts if part.name == name), nothing)


def with_sentences(
    found: Explanation, head: CaseRecord, base: CaseRecord, places: Sequence[Contribution]
) -> Explanation:
    """The explanation with what it says in words, as far as it explains anything."""
    if _other_size(head, base):
        return found
    changes = op_changes(head, base)
    need = LEAST_EXPLAINED * found.delta_ms
    scene = _Scene(head, base, found, changes, places, need)
    cause = _cause_of_time(scene)
    launched = _cause_of_counts(scene)
    return found.model_copy(
        update={
            "sentence": cause.words if cause else None,
            "explained_ms": cause.amount if cause else 0.0,
            "counts_sentence": launched.words if launched else None,
        }
    )


def _other_size(head: CaseRecord, base: CaseRecord) -> bool:
    """Where a step is of other work its time is no riddle."""
    mine, his = head.tokens_per_step, base.tokens_per_step
    return bool(mine and his and abs(mine / his - 1) > SAME_TOKENS)


# --- time ---------------------------------------------------------------------------------------


def _cause_of_time(scene: _Scene) -> _Cause | None:
    delta = scene.found.delta_ms
    if delta <= LEAST_SHARE_OF_STEP * scene.found.base_step_ms:
        return None
    grown = [part for part in scene.found.parts if part.name != REST and part.delta_ms > 0]
    grown.sort(key=lambda part: -part.delta_ms)
    if not grown:
        return None
    for rule in _rules_for(scene, grown[0]):
        cause = rule(scene)
        if cause is not None and cause.amount >= scene.need:
            return _Cause(f"{cause.words} ({_more(cause.amount)})", cause.amount)
    return _of_two(scene, grown)


def _rules_for(scene: _Scene, part: Part) -> Iterator[Callable[[_Scene], _Cause | None]]:
    if part.delta_ms < scene.need:
        return
    if scene.found.basis == "phases":
        yield _one_op
        yield from (lambda _: _of_phase(scene, part),)
        return
    yield from {
        COMPUTE: (_uniform, _lost_fusion, _one_op, _one_kind, _more_compute),
        COMMUNICATION: (lambda scene: _communication(scene, part),),
        COPIES: (lambda scene: _copies(scene, part),),
    }.get(part.name, (lambda scene: _idle(scene, part),))


def _of_two(scene: _Scene, grown: Sequence[Part]) -> _Cause | None:
    """Two parts together, where neither of them is most of it."""
    both = grown[:2]
    total = plain_sum(part.delta_ms for part in both)
    if len(both) < 2 or grown[0].delta_ms >= scene.need or total < scene.need:
        return None
    words = " and ".join(f"{part.name} ({_more(part.delta_ms)})" for part in both)
    return _Cause(f"most of it is {words}", total)


# --- time: compute ------------------------------------------------------------------------------


def _compute_ops(scene: _Scene) -> list[OpChange]:
    return [change for change in scene.ops if change.kind not in NOT_COMPUTE]


def _uniform(scene: _Scene) -> _Cause | None:
    """The same kernels as often as before, and each of them slower by about the same."""
    alike = [
        (change.head_ms / change.head_count / (change.base_ms / change.base_count) - 1, change)
        for change in _compute_ops(scene)
        if change.base_ms > 0
        and change.base_count
        and change.head_count
        and abs(change.head_count / change.base_count - 1) <= SAME_COUNT
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
    words = (
        f"every kernel takes about {100 * slower:.0f} % longer at the same number of launches, so"
        " look at the device's clocks and power before the code"
    )
    return _Cause(words, plain_sum(change.delta_ms for _, change in alike))


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    half = plain_sum(weight for _, weight in values) / 2
    reached = 0.0
    for value, weight in sorted(values):
        reached += weight
        if reached >= half:
            return value
    return 0.0


def _lost_fusion(scene: _Scene) -> _Cause | None:
    """Kernels are gone, more and smaller ones do their work."""
    lost, gained = _swapped(scene)
    fewer = -plain_sum(_count_delta(change) for change in lost)
    more = plain_sum(_count_delta(change) for change in gained)
    if not fewer or more < FUSION_LAUNCHES * fewer:
        return None
    lost_ms = -plain_sum(change.delta_ms for change in lost)
    gained_ms = plain_sum(change.delta_ms for change in gained)
    if lost_ms <= 0 or gained_ms / more > FUSION_TIME * lost_ms / fewer:
        return None
    launches = f"launches {_count(fewer)} → {_count(more)}"
    if any(change.kind == "attention" for change in lost):
        name = next(short_name(change.name) for change in lost if change.kind == "attention")
        kinds = _kinds(gained)
        words = f"the fused attention '{name}' is gone and {kinds} kernels do its work"
    else:
        words = "a fusion was lost"
    return _Cause(f"{words}{_place(scene, gained)}: {launches}", gained_ms - lost_ms)


def _swapped(scene: _Scene) -> tuple[list[OpChange], list[OpChange]]:
    """The ops that went, or run less than half as often, and those that came."""
    counted = [
        change
        for change in _compute_ops(scene)
        if change.base_count is not None and change.head_count is not None
    ]
    lost = [each for each in counted if (each.head_count or 0.0) < (each.base_count or 0.0) / 2]
    kinds = {each.kind for each in lost}
    # What attention is made of without its own kernel are products and softmax, too.
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
    return _Cause(_words_on(slower) + _place(scene, [slower]), slower.delta_ms)


def _words_on(change: OpChange) -> str:
    name = f"'{short_name(change.name)}'"
    before, now = change.base_count, change.head_count
    if change.status == "new":
        return f"{name} is new" + (f", {_count(now)} launches a step" if now else "")
    if change.was and short_name(change.was) != short_name(change.name):
        name += f" (was '{short_name(change.was)}')"
    times = f"{_ms(change.base_ms)} → {_ms(change.head_ms)}"
    if not before or not now or change.by_count_ms is None or change.by_time_ms is None:
        return f"{name} takes {times} a step"
    if abs(now / before - 1) <= SAME_COUNT:
        return f"{name} takes {times} at the same {_count(now)} launches"
    if change.by_count_ms >= change.by_time_ms:
        return f"{name} is launched {_count(before)} → {_count(now)} times a step"
    each = f"{_ms(change.base_ms / before)} → {_ms(change.head_ms / now)}"
    return f"{name} takes {each} a launch ({_count(before)} → {_count(now)} launches)"


def _one_kind(scene: _Scene) -> _Cause | None:
    rows = [row for row in scene.found.categories if row.name != OVERLAP]
    grown = max(rows, key=lambda row: row.delta_ms, default=None)
    if grown is None or grown.delta_ms <= 0:
        return None
    before = scene.base.categories[grown.name].count if grown.name in scene.base.categories else 0.0
    now = scene.head.categories[grown.name].count if grown.name in scene.head.categories else 0.0
    ops = [change for change in scene.ops if change.kind == grown.name]
    what = f"{_KIND_WORDS.get(grown.name, grown.name)} kernels"
    times = f"{_ms(grown.base_ms)} → {_ms(grown.head_ms)}"
    if before is None or now is None:
        words = f"{what} take {times}"
    elif abs(now - before) <= SAME_COUNT * before:
        words = f"{what} take {times} at the same {_count(now)} launches"
    else:
        words = f"{what} take {times}, launches {_count(before)} → {_count(now)}"
    return _Cause(words + _place(scene, ops), grown.delta_ms)


def _more_compute(scene: _Scene) -> _Cause | None:
    """No kind of kernel stands out: the place may."""
    place = _place(scene, ())
    return _Cause(f"compute grew{place}", scene.part(COMPUTE).delta_ms) if place else None


# --- time: the other parts ----------------------------------------------------------------------


def _communication(scene: _Scene, part: Part) -> _Cause:
    now, before = (side.categories.get("comm") for side in (scene.head, scene.base))
    exposed = f"{_ms(part.base_ms)} → {_ms(part.head_ms)} are not hidden behind compute"
    if now is None or before is None:
        return _Cause(f"communication: {exposed}", part.delta_ms)
    if now.ms - before.ms >= scene.need:
        words = f"communication takes {_ms(before.ms)} → {_ms(now.ms)}"
        if now.count and before.count and now.count != before.count:
            words += f", launches {_count(before.count)} → {_count(now.count)}"
        else:
            words += " at as many launches: slower links, or a rank that the others wait for"
        return _Cause(f"{words}; {exposed}", part.delta_ms)
    words = f"communication overlaps less with compute: {exposed}, of {_ms(now.ms)} in all"
    return _Cause(words, part.delta_ms)


def _copies(scene: _Scene, part: Part) -> _Cause:
    copies = [change for change in scene.ops if change.kind in ("memcpy", "memset")]
    most = max(copies, key=lambda change: (change.delta_ms, change.name), default=None)
    words = f"copies that nothing hides: {_ms(part.base_ms)} → {_ms(part.head_ms)}"
    if most is not None and most.delta_ms > 0:
        words += f", {_words_on(most)}"
    return _Cause(words, part.delta_ms)


def _idle(scene: _Scene, part: Part) -> _Cause:
    times = f"{_ms(part.base_ms)} → {_ms(part.head_ms)}"
    device = {
        IDLE_WORDS["data"]: f"the device waits for the data loader: {times}",
        IDLE_WORDS["compilation"]: f"something is compiled anew within the steps: {times}",
        IDLE_WORDS["allocation"]: f"the device waits while memory is allocated: {times}",
        IDLE_WORDS["synchronisation"]: (
            f"the host waits for the device before it launches more (a synchronisation): {times}"
            " idle"
        ),
        IDLE_WORDS["launching"]: f"the host launches work too slowly: the device waits {times}",
    }
    words = device.get(part.name, f"the device is idle for longer: {times}")
    recompiled = _recompiles(scene)
    if part.name in (IDLE, IDLE_OTHER, IDLE_WORDS["launching"]) and recompiled:
        words = f"{words}; {recompiled}"
    elif part.name in (IDLE, IDLE_OTHER) and abs(scene.part(COMPUTE).delta_ms) < scene.need / 5:
        words += ", while its work takes as long as before"
    return _Cause(words, part.delta_ms)


def _recompiles(scene: _Scene) -> str | None:
    now, before = (side.metrics.get("recompiles") for side in (scene.head, scene.base))
    if now is None or before is None or now <= before:
        return None
    return f"recompiles {_count(before)} → {_count(now)}"


def _of_phase(scene: _Scene, part: Part) -> _Cause:
    place = _place(scene, ())
    return _Cause(f"most of it is{place or f' in phase {_quoted(part.name)}'}", part.delta_ms)


# --- launches -----------------------------------------------------------------------------------


def _cause_of_counts(scene: _Scene) -> _Cause | None:
    """Where more launches come from, where most of them are of one origin."""
    counted = [change for change in scene.ops if change.head_count is not None]
    more = plain_sum(_count_delta(change) for change in counted)
    if more <= 0:
        return None
    need = LEAST_EXPLAINED * more
    lost, gained = _swapped(scene)
    fewer = -plain_sum(_count_delta(change) for change in lost)
    instead = plain_sum(_count_delta(change) for change in gained)
    if fewer and instead >= FUSION_LAUNCHES * fewer and instead - fewer >= need:
        launches = f"launches {_count(fewer)} → {_count(instead)}"
        return _Cause(f"a fusion was lost{_place(scene, gained)}: {launches}", instead - fewer)
    most = max(counted, key=lambda change: (_count_delta(change), change.name))
    if _count_delta(most) >= need:
        launches = f"launched {_count(most.base_count or 0.0)} → {_count(most.head_count or 0.0)}"
        words = f"'{short_name(most.name)}' is {launches} times a step"
        return _Cause(words + _place(scene, [most]), _count_delta(most))
    kinds = {change.kind for change in counted}
    by_kind = {
        kind: plain_sum(_count_delta(change) for change in counted if change.kind == kind)
        for kind in sorted(kinds)
    }
    kind = max(by_kind, key=lambda kind: by_kind[kind])
    if by_kind[kind] < need:
        return None
    ops = [change for change in counted if change.kind == kind]
    words = f"{_count(by_kind[kind])} more {_KIND_WORDS.get(kind, kind)} kernels a step"
    return _Cause(words + _place(scene, ops), by_kind[kind])


def _count_delta(change: OpChange) -> float:
    return (change.head_count or 0.0) - (change.base_count or 0.0)


# --- words --------------------------------------------------------------------------------------


def _place(scene: _Scene, ops: Iterable[OpChange]) -> str:
    """` in the backward of layers 0–23`, where that is where it is; else nothing."""
    phase = _phase_of_ops(scene, list(ops)) or _grown_place(scene, "phase")
    numbers, _, direction = (_grown_place(scene, "layer") or "").partition(" ")
    # Layers are known by their direction: what grew in another phase did not grow in them.
    elsewhere = phase is not None and not _DIRECTIONS.get(direction, _FORWARD).search(phase)
    if numbers and not elsewhere:
        word = "layers" if "–" in numbers else "layer"
        return f" in the {direction} of {word} {numbers}"
    if phase is None:
        return ""
    if _BACKWARD.fullmatch(phase) or _FORWARD.fullmatch(phase):
        return f" in the {phase.lower()}"
    return f" in phase {_quoted(phase)}"


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
    """The phase in which these ops grew, where four fifths of it are in one."""
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


def short_name(name: str) -> str:
    """A kernel's name without its types and its namespaces: `vectorized_elementwise_kernel`."""
    bare = name.removeprefix("void ").partition("<")[0].partition("(")[0].strip()
    last = bare.rpartition("::")[2] or bare or name
    return last if len(last) <= LONGEST_NAME else last[: LONGEST_NAME - 1] + "…"


def _quoted(name: str) -> str:
    return f"'{name[:LONGEST_NAME]}'"


def _kinds(ops: Iterable[OpChange]) -> str:
    """The kinds of some ops, those of most time first."""
    times: dict[str, float] = {}
    for change in ops:
        word = _KIND_WORDS.get(change.kind, change.kind)
        times[word] = times.get(word, 0.0) + change.delta_ms
    largest = sorted(times, key=lambda kind: (-times[kind], kind))[:NAMED_KINDS]
    return " and ".join(filter(None, (", ".join(largest[:-1]), largest[-1])))


def _ms(value: float) -> str:
    return significant(max(value, 0.0), "ms")


def _more(value: float) -> str:
    return f"+{significant(value, 'ms')}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else three_digits(value)
