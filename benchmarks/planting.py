"""What a plant is: an edit of a trace that makes its steps longer, and the truth about it.

What a sentence names must be of the truth; `vague` is true, and less than is known.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.tape import Edit, Tape
from ci_score.model.profile import OpPlace, Profile

Data = Mapping[str, Any]
Check = Callable[[Data], bool]
# A layer or phase that a sentence names holds so much of what was planted.
HOLDS = 0.8
US_PER_MS = 1000.0
# How much of a long name must agree.
CUT = 300
_NOT_COMPUTE = frozenset({"comm", "memcpy", "memset"})


@dataclass(frozen=True)
class Truth:
    """What may be said of a plant: by code, which data are right."""

    named: Mapping[str, Check]
    vague: Mapping[str, Check] = field(default_factory=dict)
    # Where the planted work is, as far as the reader knows.
    places: Sequence[OpPlace] = ()

    def of(self, code: str, data: Data) -> str:
        """`named`, `vague` or `false`."""
        if not self._is_there(data):
            return "false"
        if code in self.named and self.named[code](data):
            return "named"
        return "vague" if code in self.vague and self.vague[code](data) else "false"

    def _is_there(self, data: Data) -> bool:
        """Whether the place that is named holds what was planted."""
        phase, layers, direction = (data.get(key) for key in ("phase", "layers", "direction"))
        if phase in ("h2d", "d2h", "d2d"):
            return False
        if not self.places or not (phase or layers):
            return True
        inside = [
            place
            for place in self.places
            if (not phase or place.phase == phase)
            and (not layers or place.layer in _numbers(layers))
            and (not direction or place.direction == direction)
        ]
        return sum(place.ms for place in inside) >= HOLDS * sum(place.ms for place in self.places)


def _numbers(layers: str) -> set[int]:
    """The numbers of `0–2` or `7`."""
    ends = [int(number) for number in re.findall(r"\d+", layers)]
    return set(range(ends[0], ends[-1] + 1))


@dataclass(frozen=True)
class Plant:
    """An edit of a trace, which works it touches, and what is true of it."""

    edit: Edit
    truth: Truth
    touched: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Scene:
    """A trace with what its reader says of it."""

    tape: Tape
    profile: Profile
    chance: random.Random

    def kind(self, place: int) -> str:
        """The category of a work, as the reader has it."""
        work = self.tape.works[place]
        return self.profile.op_kinds.get(work.name, "other") if work.kind == "kernel" else work.kind

    def works(self, wanted: Callable[[str], bool]) -> list[int]:
        """The works of such kinds that belong to a step."""
        return [
            place
            for place, work in enumerate(self.tape.works)
            if wanted(self.kind(place)) and self.tape.step_of(work) >= 0 and work.launch >= 0
        ]

    def compute(self) -> list[int]:
        """The kernels without communication."""
        return self.works(lambda kind: kind not in _NOT_COMPUTE)

    def time(self, places: Iterable[int]) -> float:
        """Microseconds of some works together."""
        return sum(self.tape.works[place].time for place in places)

    def by_name(self, places: Iterable[int]) -> dict[str, list[int]]:
        """Works by their names."""
        named: dict[str, list[int]] = defaultdict(list)
        for place in places:
            named[self.tape.works[place].name].append(place)
        return named

    def a_name(self, places: Iterable[int]) -> tuple[str, list[int]] | None:
        """One of the names that take the most time, by chance."""
        named = self.by_name(places)
        largest = sorted(named, key=lambda name: (-self.time(named[name]), name))[:6]
        least = 0.002 * self.profile.avg_step_ms * US_PER_MS * self.steps
        fit = [name for name in largest if self.time(named[name]) >= least]
        name = self.chance.choice(fit) if fit else ""
        return (name, named[name]) if name else None

    def is_alone(self, place: int) -> bool:
        """Whether nothing else runs meanwhile that would hide it."""
        work = self.tape.works[place]
        return not any(
            other is not work and other.start < work.end and work.start < other.end
            for other in self.tape.works
        )

    @property
    def steps(self) -> int:
        """How many steps the trace marks."""
        return max(len(self.tape.steps), 1)

    def slower(self, places: Sequence[int], ms: float) -> Edit | None:
        """All of these longer by one share, so that a step takes so many milliseconds more."""
        total = self.time(places)
        if total <= 0:
            return None
        share = ms * US_PER_MS * self.steps / total
        return Edit(longer={place: share * self.tape.works[place].time for place in places})

    def cuts(self) -> list[list[int]]:
        """Of each step the works before which the host can stall; empty if a step has none."""
        steps: dict[int, list[int]] = defaultdict(list)
        for place in self.tape.clean_cuts():
            steps[self.tape.step_of(self.tape.works[place])].append(place)
        steps.pop(-1, None)
        return [steps[step] for step in sorted(steps)] if len(steps) == self.steps else []


# --- what may be said ---------------------------------------------------------------------------


def always(_: Data) -> bool:
    """Whatever the data are."""
    return True


def is_op(name: str) -> Check:
    """The op of this name; a reader may cut names of hundreds of letters."""
    return lambda data: str(data.get("name"))[:CUT] == name[:CUT]


def is_kind(kind: str) -> Check:
    """Kernels of this kind."""
    return lambda data: data.get("kind") == kind


def has(**wanted: Any) -> Check:
    """Just these data."""
    return lambda data: all(data.get(key) == value for key, value in wanted.items())


def both(*checks: Check) -> Check:
    """All of these."""
    return lambda data: all(check(data) for check in checks)


def planted(edit: Edit | None, truth: Truth, touched: Iterable[int] = ()) -> Plant | None:
    """The plant, where its edit is possible."""
    return Plant(edit, truth, frozenset(touched)) if edit is not None else None


def of_op(name: str, kind: str, *checks: Check) -> Truth:
    """What may be said of a change of one op."""
    return Truth(
        named={"one_op": both(is_op(name), *checks)},
        vague={
            "one_kind": is_kind(kind),
            "compute_grew": always,
            "layers_grew": always,
            "phase_grew": always,
        },
    )
