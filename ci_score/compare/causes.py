"""Explanation → the cause that a reviewer can act on, as a reason; the report makes its sentence.

The rules look at the part of the step that grew most, the most specific rule first. The first one
wins whose cause explains at least half of the change. A step that became faster is read the other
way round: what made it slower then is what it has gained now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ci_score.compare import compute_causes, host_causes, other_causes
from ci_score.compare.count_causes import cause_of_counts
from ci_score.compare.scene import Cause, Scene
from ci_score.model.explanation import (
    COMMUNICATION,
    COMPUTE,
    COPIES,
    IDLE,
    IDLE_OTHER,
    IDLE_WORDS,
    LEAST_SHARE_OF_STEP,
    Contribution,
    Explanation,
    Part,
)
from ci_score.model.metrics import tokens_differ
from ci_score.model.reasons import Datum, Reason, Why
from ci_score.model.record import Measured

Rule = Callable[[Scene], Cause | None]

# Tried first, whichever part grew most.
_OF_THE_STEP: tuple[Rule, ...] = (other_causes.one_rank, other_causes.one_slow_step)
_OF_PHASES: tuple[Rule, ...] = (compute_causes.one_op, other_causes.phase_grew)
# A range may name what the host did in these; the other kinds of idle time are causes themselves.
_HOST_SIDE: tuple[Rule, ...] = (other_causes.host_range, other_causes.idle)
_OF_A_HOST: tuple[Rule, ...] = (
    host_causes.between,
    host_causes.other_type,
    host_causes.replaced,
    host_causes.more_backward,
    host_causes.all_operators,
    host_causes.one_call,
    other_causes.phase_grew,
)
_OF_PARTS: dict[str, tuple[Rule, ...]] = {
    COMPUTE: (
        compute_causes.every_kernel,
        compute_causes.clocks,
        compute_causes.lost_fusion,
        compute_causes.few_layers,
        compute_causes.kind_alike,
        compute_causes.one_op,
        compute_causes.one_kind,
        compute_causes.compute_grew,
    ),
    COMMUNICATION: (other_causes.communication,),
    COPIES: (other_causes.copies,),
    IDLE: _HOST_SIDE,
    IDLE_OTHER: _HOST_SIDE,
    IDLE_WORDS["launching"]: _HOST_SIDE,
}


def with_causes(
    explanation: Explanation, head: Measured, base: Measured, places: Sequence[Contribution]
) -> Explanation:
    """The explanation with the cause of the change, if one cause explains most of it."""
    # Another number of tokens explains the change of time by itself.
    if tokens_differ(head.told_tokens, base.told_tokens):
        return explanation
    scene = Scene(head, base, explanation, places)
    is_host = explanation.basis == "host"
    # Counts are the same however long the profiled step took.
    launched = host_causes.more_operators(scene) if is_host else cause_of_counts(scene)
    explanation = explanation.but(counts_cause=launched.reason if launched else None)
    if _is_disturbed(explanation, head, base):
        return explanation
    if explanation.delta_ms < 0:
        gained = _cause_of_time(_the_other_way_round(scene))
        if gained is None:
            return explanation
        cause = Why.FASTER(cause=_as_it_happened(gained.reason))
        return explanation.but(cause=cause, explained_ms=-gained.amount)
    found = _cause_of_time(scene)
    return explanation.but(
        cause=found.reason if found else None,
        explained_ms=found.amount if found else 0.0,
    )


def _is_disturbed(explanation: Explanation, head: Measured, base: Measured) -> bool:
    """Whether the profiles show far more of a change than was measured without them."""
    before, now = base.scorecard.step_time_ms, head.scorecard.step_time_ms
    return before > 0 and now > 0 and explanation.is_far_from(now / before - 1)


def _cause_of_time(scene: Scene) -> Cause | None:
    if scene.explanation.delta_ms <= LEAST_SHARE_OF_STEP * scene.explanation.base_step_ms:
        return None
    for rule in _rules_for(scene):
        cause = rule(scene)
        if cause is not None and cause.amount >= scene.need:
            return cause
    return None


def _rules_for(scene: Scene) -> Iterator[Rule]:
    yield from _OF_THE_STEP
    if not scene.grown_parts:
        return
    if scene.explanation.basis == "host":
        yield from _OF_A_HOST if scene.grown_parts else ()
        yield other_causes.two_parts
        return
    most = scene.grown_parts[0]
    if most.delta_ms >= scene.need:
        if scene.explanation.basis == "phases":
            yield from _OF_PHASES
        else:
            yield from _OF_PARTS.get(most.name, (other_causes.idle,))
    elif scene.idle_ms >= scene.need:
        yield other_causes.host_range
    yield other_causes.two_parts


# --- a step that became faster ------------------------------------------------------------------


def _the_other_way_round(scene: Scene) -> Scene:
    """The same two sides, with the slower one as head."""
    found = scene.explanation
    turned = found.but(
        base_step_ms=found.head_step_ms,
        head_step_ms=found.base_step_ms,
        parts=tuple(_turned(part) for part in found.parts),
        categories=tuple(_turned(part) for part in found.categories),
    )
    places = tuple(
        place.but(base_ms=place.head_ms, head_ms=place.base_ms) for place in scene.places
    )
    return Scene(scene.base, scene.head, turned, places)


def _turned(part: Part) -> Part:
    return part.but(base_ms=part.head_ms, head_ms=part.base_ms)


_PAIRS = (("base", "head"), ("before", "now"))
_STATUS: dict[Datum | Reason, Datum] = {"new": "gone", "gone": "new"}


def _as_it_happened(reason: Reason) -> Reason:
    """A reason that was found the other way round, with base and head as they are."""
    data = {_other_side(key): value for key, value in reason.data.items()}
    if "status" in data:
        data["status"] = _STATUS.get(data["status"], data["status"])
    if data.get("was") is not None:
        data["name"], data["was"] = data["was"], data["name"]
    if "grew_ms" in data and isinstance(data["grew_ms"], tuple):
        data["grew_ms"] = tuple(-ms for ms in data["grew_ms"] if not isinstance(ms, str))
    return reason.code(**data)


def _other_side(key: str) -> str:
    for one, other in _PAIRS:
        if one in key:
            return key.replace(one, other)
        if other in key:
            return key.replace(other, one)
    return key
