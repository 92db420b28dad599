"""Where a change is: the layers and their direction, or the phase, that surely hold most of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ci_score.compare.scene import Scene
from ci_score.model.explanation import COMPUTE, OpChange
from ci_score.model.reasons import Datum
from ci_score.model.record import Measured
from ci_score.model.sums import plain_sum

# A place is named where it holds so much of what grew; a direction where the other one holds none.
HOLDS, OF_OTHER_DIRECTION = 0.8, 0.05
# A layer has changed where it changed by more than this share of its time.
LEAST_SHARE_OF_LAYER = 0.05
# Layers that cover less of all kernel time are shown, and named in no cause.
LEAST_COVERED = 0.3
_NOT_PHASES = frozenset({"unannotated", "h2d", "d2h", "d2d"})
NOWHERE: dict[str, Datum] = dict.fromkeys(("layers", "repeats", "direction", "phase"))


@dataclass(frozen=True, slots=True)
class GrownLayers:
    """Neighbouring layers that all grew, with their times on both sides."""

    first: int
    last: int
    of: int
    base_ms: float
    head_ms: float
    direction: str | None
    repeats: bool

    @property
    def delta_ms(self) -> float:
        """How much longer they take now."""
        return self.head_ms - self.base_ms

    @property
    def share(self) -> float:
        """Which share of all layers they are."""
        return (self.last - self.first + 1) / self.of

    @property
    def place(self) -> dict[str, Datum]:
        """The data of a reason."""
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}–{self.last}"
        of = self.of if self.repeats else None
        return {"layers": numbers, "repeats": of, "direction": self.direction, "phase": None}


def place_of(scene: Scene, ops: Sequence[OpChange], in_all_ms: float = 0.0) -> dict[str, Datum]:
    """The place of what these ops grew by; Nones where no place surely holds most of it.

    `in_all_ms` is by how much they grew with those of their kind that were left out.

    How much of an op is in which layer is not in a record. But if the layers hold most of all that
    grew and the op as well, most of the op is in them. So it is with phases where no reader tells.
    """
    grew = max(plain_sum(change.delta_ms for change in ops), in_all_ms)
    others = max(scene.grown_ms - grew, 0.0)
    phase = _phase_of(scene, ops, grew)
    if phase is None and not any(phase_times(scene, ops)):
        phase = _phase_that_grew(scene, grew, others)
    layers = grown_layers(scene)
    if layers is None or grew <= 0 or layers.delta_ms - others < HOLDS * grew:
        return {**NOWHERE, "phase": phase}
    return {**NOWHERE, "phase": phase} if _is_elsewhere(phase, layers) else layers.place


def place_of_compute(scene: Scene) -> dict[str, Datum]:
    """The place of all that compute grew by."""
    grew = scene.part(COMPUTE).delta_ms
    layers = grown_layers(scene)
    if layers is not None and grew > 0 and layers.delta_ms >= HOLDS * grew:
        return layers.place
    phase = _phase_of(scene, scene.compute_ops, grew)
    # Where ops were left out, or nothing tells which phase they are in, the phases' own times do.
    return {**NOWHERE, "phase": phase or _phase_that_grew(scene, grew)}


# --- phases -------------------------------------------------------------------------------------


def _phase_of(scene: Scene, ops: Iterable[OpChange], grew: float) -> str | None:
    """The phase that holds most of the growth of these ops."""
    grown = phase_changes(scene, ops)
    most = max(sorted(grown), key=lambda phase: grown[phase], default=None)
    if most is None or most in _NOT_PHASES or grew <= 0 or grown[most] < HOLDS * grew:
        return None
    return most


def phase_changes(scene: Scene, ops: Iterable[OpChange]) -> dict[str, float]:
    """By how much these ops grew in each phase."""
    before, now = phase_times(scene, ops)
    return {phase: now.get(phase, 0.0) - before.get(phase, 0.0) for phase in before | now}


def phase_times(scene: Scene, ops: Iterable[OpChange]) -> tuple[dict[str, float], dict[str, float]]:
    """What these ops take of each phase, in the base and in the head."""
    times: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for change in ops:
        names = (change.base_name, change.name)
        for side, name, of_side in zip((scene.base, scene.head), names, times, strict=True):
            detail = side.op_details.get(name)
            for phase, work in detail.phases.items() if detail else ():
                of_side[phase] = of_side.get(phase, 0.0) + work.ms
    return times


def _phase_that_grew(scene: Scene, grew: float, others: float = 0.0) -> str | None:
    """The phase by its own time, which what grew beside may be in as well."""
    phases = [place for place in scene.places if place.kind == "phase"]
    most = max(phases, key=lambda place: (place.delta_ms, place.name), default=None)
    if (
        most is None
        or most.name in _NOT_PHASES
        or grew <= 0
        or most.delta_ms - others < HOLDS * grew
    ):
        return None
    return most.name


def _is_elsewhere(phase: str | None, layers: GrownLayers) -> bool:
    """Whether a phase contradicts the layers, whose times are forward or backward."""
    if phase is None:
        return False
    name = phase.lower()
    is_forward, is_backward = (
        any(word in name for word in words) for words in (("forward", "fwd"), ("backward", "bwd"))
    )
    if layers.direction is None or is_forward == is_backward:
        return not (is_forward or is_backward)
    return is_forward is not (layers.direction == "forward")


# --- layers -------------------------------------------------------------------------------------


def grown_layers(scene: Scene) -> GrownLayers | None:
    """The neighbouring layers that grew most; None where layers tell nothing."""
    are = scene.head.layers_are
    if are.share is not None and are.share < LEAST_COVERED:
        return None
    now, before = layer_times(scene.head), layer_times(scene.base)
    if not now or now.keys() != before.keys():
        return None
    numbers = sorted(now)
    grew = [
        number
        for number in numbers
        if sum(now[number]) > (1 + LEAST_SHARE_OF_LAYER) * sum(before[number])
    ]
    ranges = [
        [number for _, number in run]
        for _, run in groupby(enumerate(grew), key=lambda each: each[1] - each[0])
    ]
    found = [_layers(run, now, before, are.kind == "repeats") for run in ranges]
    return max(found, key=lambda each: (each.delta_ms, -each.first), default=None)


def _layers(
    run: Sequence[int],
    now: dict[int, tuple[float, float]],
    before: dict[int, tuple[float, float]],
    repeats: bool,
) -> GrownLayers:
    base, head = (
        [plain_sum(side[number][way] for number in run) for way in (0, 1)] for side in (before, now)
    )
    grew = [head[way] - base[way] for way in (0, 1)]
    direction = None
    for way, name in enumerate(("forward", "backward")):
        if abs(grew[1 - way]) <= OF_OTHER_DIRECTION * grew[way]:
            direction = name
    ways = (0, 1) if direction is None else (("forward", "backward").index(direction),)
    return GrownLayers(
        first=run[0],
        last=run[-1],
        of=len(now),
        base_ms=plain_sum(base[way] for way in ways),
        head_ms=plain_sum(head[way] for way in ways),
        direction=direction,
        repeats=repeats,
    )


def layer_times(case: Measured) -> dict[int, tuple[float, float]]:
    """Of each layer its forward and its backward, in milliseconds."""
    times: dict[int, tuple[float, float]] = {}
    for layer in case.scorecard.per_layer_summary:
        forward, backward = times.get(layer.layer, (0.0, 0.0))
        times[layer.layer] = (forward + layer.fwd_ms, backward + layer.bwd_ms)
    return times
