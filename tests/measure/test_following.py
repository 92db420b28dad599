"""How far a launch is: what a person reads who waits for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ci_score.measure.launch.following import Following
from ci_score.measure.launch.orders import Order, Task
from ci_score.measure.sides.spec import Start

LOADED = {"mark": "loaded", "asked": 50}
BY_HAND = ". Only the steps of torch's optimizers are counted: if it updates the weights by hand,"
Mark = dict[str, Any]


def step(number: int) -> Mark:
    return {"mark": "step", "step": number}


def far(steps: int, backwards: int) -> Mark:
    return {"mark": "far", "steps": steps, "backwards": backwards}


@dataclass
class Waiting:
    """A person, and a launch whose marks come at these seconds."""

    records: Path
    mode: Any = "settle"
    seen: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def reaches(self, words: str) -> None:
        """What the line shows."""
        self.seen.append(words)

    def says(self, words: str) -> None:
        """A line of its own."""
        self.read.append(words)

    def follows(self, *marks: tuple[float, Mark], until: int) -> Following:
        """A look every second."""
        here, task = self.records, Task(self.mode, 50)
        order = Order("base", None, 0, here, here, here, here, here, Start((), {}), task)
        following = Following(order, self)
        for second in range(until + 1):
            rows = [json.dumps({"pid": 1, **mark}) for at, mark in marks if at <= second]
            (here / "marks.jsonl").write_text("\n".join(rows), encoding="utf-8")
            assert not following.is_over(second)
        return following


@pytest.mark.parametrize(
    ("marks", "seen", "read", "ended"),
    [
        ([(0, LOADED)], "", "", ""),
        ([(0, LOADED), (1, step(1)), (2, step(8))], "8 of 50 steps", "", "8 of 50 steps in 80 s"),
        (
            [(0, LOADED), (10, step(1)), (30, step(2)), (50, far(3, 3)), (70, step(4))],
            "4 of 50 steps, 20 s each",
            "base: 3 of 50 steps, 20 s each: try --settle-steps 3",
            "4 of 50 steps in 80 s, 20 s each: try --settle-steps 4",
        ),
        (
            [(0, LOADED), *((second, far(0, 20 * second)) for second in range(0, 80, 5))],
            "1,500 backward passes and no optimizer step",
            f"base: 1,200 backward passes and no optimizer step{BY_HAND}",
            f"1,500 backward passes and no optimizer step in 80 s{BY_HAND}",
        ),
        (
            [(0, LOADED), *((2 * number, far(number, number)) for number in range(1, 41))],
            "39 of 50 steps, 2 s each",
            "",
            "39 of 50 steps in 80 s, 2 s each",
        ),
        ([(0, far(10**30, -1)), (1, {"mark": "far", "steps": "9"})], "", "", ""),
    ],
)  # fmt: skip
def test_following__says_how_far_it_is_and_what_to_do(
    tmp_path: Path, marks: list[tuple[float, Mark]], seen: str, read: str, ended: str
) -> None:
    """After a minute, once, where nothing can come or not for long; and at the end."""
    person = Waiting(tmp_path)
    following = person.follows(*marks, until=79)
    assert (person.seen or [""])[-1] == seen
    assert len(person.read) == bool(read)
    assert not read or person.read[0].startswith(read)
    assert following.in_words(80).startswith(ended)
    assert bool(following.in_words(80)) is bool(ended)


def test_following__of_a_timed_launch_advises_nothing(tmp_path: Path) -> None:
    """How long its steps take was known before it began."""
    person = Waiting(tmp_path, mode="timed")
    person.follows((0, LOADED), (10, step(1)), (50, step(2)), until=80)
    assert person.seen[-1] == "2 of 50 steps, 40 s each"
    assert person.read == []
