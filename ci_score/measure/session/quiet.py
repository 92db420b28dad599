"""Waits until other processes leave the machine alone: for a limited time, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ci_score.measure.launch.following import Listener
from ci_score.model.lists import duration_in_words

EVERY_SECONDS = 1.0
LATER = "the same command goes on when the machine is quiet"


class Others(Protocol):
    """Samples what other processes do on the machine while no launch runs."""

    def __call__(self, *, was_disturbed: bool) -> str:
        """The load in words; empty if a launch may begin."""
        ...


@dataclass(frozen=True, slots=True)
class Quiet:
    """Waits before the first launch of a session, and after each disturbed one."""

    others: Others
    most_seconds: float
    stopped: Callable[[], bool]
    listener: Listener

    def comes(self, *, was_disturbed: bool = False) -> str:
        """Waits; returns what still loads the machine if that does not end in time."""
        if not self.most_seconds:
            return ""
        begin, most = time.monotonic(), duration_in_words(self.most_seconds)
        is_told = False
        while (words := self.others(was_disturbed=was_disturbed)) and not self.stopped():
            if not is_told:
                self.listener.says(f"{words}: waiting, up to {most}")
                self.listener.reaches("waiting for a quiet machine")
                is_told = True
            if time.monotonic() - begin >= self.most_seconds:
                return f"{words}, still after {most} of waiting"
            time.sleep(EVERY_SECONDS)
        return ""
