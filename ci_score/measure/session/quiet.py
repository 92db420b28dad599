"""Waiting for others to leave the machine alone: bounded, and said."""

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
    """Looks for a moment what others do on the machine, while no launch runs."""

    def __call__(self, *, was_disturbed: bool) -> str:
        """In words; empty where a launch may begin."""
        ...


@dataclass(frozen=True, slots=True)
class Quiet:
    """Waits before the first launch of a session, and after those that others have disturbed."""

    others: Others
    most_seconds: float
    stopped: Callable[[], bool]
    listener: Listener

    def comes(self, *, was_disturbed: bool = False) -> str:
        """Waits for it; where it does not come in time, what others still do."""
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
