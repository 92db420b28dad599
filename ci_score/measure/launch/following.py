"""How far a launch is, for the person who waits: nobody waits a quarter of an hour for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ci_score.measure.launch.hook_records import Reached, is_over, reached
from ci_score.measure.launch.orders import Order
from ci_score.model.lists import duration_in_words, plural

LOOK_SECONDS = 1.0
# After so long a person wonders; and more than that much longer is too long for an untimed launch.
WONDER_SECONDS, TOO_LONG_SECONDS = 60.0, 300.0
LEAST_STEPS = 2


class Listener(Protocol):
    """Is told how far a launch is."""

    def reaches(self, words: str) -> None:
        """It is that far now."""
        ...

    def says(self, words: str) -> None:
        """Something that a person wants to know."""
        ...


@dataclass(slots=True)
class Following:
    """One launch, while it runs."""

    order: Order
    listener: Listener
    looked: float = 0.0
    first: tuple[float, int] | None = None
    last: tuple[float, int] = (0.0, 0)
    reached: Reached = field(default_factory=Reached)
    has_advised: bool = False

    def is_over(self, seconds: float) -> bool:
        """Whether it has told all that it was to tell; else, how far it is after so long."""
        if self.order.task is None:
            return False
        if is_over(self.order.records):
            return True
        if seconds - self.looked >= LOOK_SECONDS:
            self._look(seconds)
            if self.reached.steps or seconds >= WONDER_SECONDS:
                self.listener.reaches(self._so_far())
            if seconds >= WONDER_SECONDS and not self.has_advised and (advice := self._advice()):
                self.has_advised = True
                self.listener.says(f"{self.order.name}: {self._so_far()}{advice}")
        return False

    def in_words(self, seconds: float) -> str:
        """How far it came in all, and what to do; empty where nothing is known."""
        if self.order.task is None:
            return ""
        self._look(seconds)
        so_far = self._so_far(f" in {duration_in_words(seconds)}")
        return so_far and f"{so_far}{self._advice()}"

    def _look(self, seconds: float) -> None:
        self.looked, self.reached = seconds, reached(self.order.records)
        steps = self.reached.steps
        if steps > self.last[1]:
            self.last = seconds, steps
            self.first = self.first or self.last

    @property
    def _seconds_a_step(self) -> float:
        """By the steps that were seen to end; 0 before there are two of them."""
        begin, first = self.first or (0.0, 0)
        end, last = self.last
        return (end - begin) / (last - first) if last > first else 0.0

    def _so_far(self, within: str = "") -> str:
        found, each = self.reached, self._seconds_a_step
        if not found.steps:
            passes = f"{found.backwards:,} backward {'pass' if found.backwards == 1 else 'passes'}"
            return f"{passes} and no optimizer step{within}" if found.backwards else ""
        pace = f", {duration_in_words(each)} each" if each >= 1.0 else ""
        return f"{found.steps} of {plural(found.asked, 'step')}{within}{pace}"

    def _advice(self) -> str:
        found, each = self.reached, self._seconds_a_step
        if not found.steps and found.backwards:
            return (
                ". Only the steps of torch's optimizers are counted: if it updates the weights by"
                " hand, put a Recorder into the script"
            )
        is_slow = each * (found.asked - found.steps) > TOO_LONG_SECONDS
        if self.order.task and self.order.task.mode == "settle" and is_slow:
            return f": try --settle-steps {max(LEAST_STEPS, found.steps)}"
        return ""
