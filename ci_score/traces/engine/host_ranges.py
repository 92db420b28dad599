"""Named ranges of the host's time: what people call a step, and the phases inside it.

NVTX, roctx and the annotations of PyTorch and JAX are the same: a thread opens a range with a name
and closes it. Ranges of one thread nest.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic
from typing import NamedTuple

from ci_score.errors import BadInputError
from ci_score.traces.engine.device_events import NONE

# A number counts where something stands before it, or a word for a step: `layer1` is a name.
# Possessive, and a row of separators is tried from its beginning alone: a name may be made to be
# searched for long.
_NUMBER_AT_THE_END = re.compile(
    r"(?:(?<![\s_#:=-])[\s_#:=-]++|(?<=step)|(?<=iteration)|(?<=iter)|(?<=batch))(\d++)(?:\s*+/\s*+\d++)?\s*+$",
    re.IGNORECASE,
)

LONGEST_NAME = 200
MOST_RANGES = 1_000_000
MOST_NAMES = 10_000
_LONGEST_NUMBER = 18
# Of all names together for what a user calls a step.
LONGEST_SEARCH_S = 20.0


class Range(NamedTuple):
    """A range of one thread; its name is a place in `HostRanges.names`."""

    start: int
    end: int
    name: int
    number: int


@dataclass(slots=True)
class ThreadRanges:
    """The ranges of one thread, in columns."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    names: array[int] = field(default_factory=lambda: array("q"))
    # The number at the end of the name, or that of its step; NONE where there is none.
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def __iter__(self) -> Iterator[Range]:
        return map(Range, self.starts, self.ends, self.names, self.numbers)


class HostRanges:
    """All ranges of a capture: by process, and within it by thread (and domain of names).

    `wanted` is what a user calls a step: the names in which it is found are remembered.
    """

    def __init__(self, wanted: re.Pattern[str] | None = None) -> None:
        self.names: list[str] = []
        self.asked_for: set[int] = set()
        # The names of which the program says that they are steps, and which.
        self.numbered: set[int] = set()
        self._wanted = wanted
        self._places: dict[str, int] = {}
        self._threads: dict[int, dict[object, ThreadRanges]] = defaultdict(dict)
        self._kept = 0
        self._searched_s = 0.0

    def add(
        self,
        process: int,
        thread: object,
        text: str,
        start: int,
        end: int,
        step: str | None = None,
    ) -> bool:
        """One more range; False where there are too many to keep more."""
        if self._kept >= MOST_RANGES:
            return False
        name, number = stem_and_number(text[:LONGEST_NAME])
        place = self._places.get(name)
        if place is None:
            if len(self.names) >= MOST_NAMES:
                return True
            place = self._places[name] = len(self.names)
            self.names.append(name)
        if step is not None:
            self.numbered.add(place)
            number = _whole(step)
        if self._wanted is not None and place not in self.asked_for:
            self._look_for(self._wanted, text[:LONGEST_NAME], place)
        ranges = self._threads[process].setdefault(thread, ThreadRanges())
        ranges.starts.append(start)
        ranges.ends.append(end)
        ranges.names.append(place)
        ranges.numbers.append(number)
        self._kept += 1
        return True

    def _look_for(self, wanted: re.Pattern[str], text: str, place: int) -> None:
        """Remembers the name if it is one of a step; names can be made to be searched for long."""
        begin = monotonic()
        if wanted.search(text):
            self.asked_for.add(place)
        self._searched_s += monotonic() - begin
        if self._searched_s > LONGEST_SEARCH_S:
            raise BadInputError(
                "step-name",
                found=f"an expression that searches the trace's names for {LONGEST_SEARCH_S:g} s",
                expected="one with fewer repeats, such as `^my_step`",
            )

    def threads(self, process: int) -> Mapping[object, ThreadRanges]:
        """The ranges of a process, thread by thread."""
        return self._threads.get(process, {})


@lru_cache(maxsize=65_536)
def stem_and_number(text: str) -> tuple[str, int]:
    """The name without the number at its end, which only counts: `step 7` is `step`, and 7."""
    match = _NUMBER_AT_THE_END.search(text)
    if match is None:
        return text.strip("# ") or text, NONE
    return text[: match.start()].strip("# ") or text, _whole(match[1])


def _whole(digits: str) -> int:
    is_number = digits.isascii() and digits.isdigit()
    return int(digits[:_LONGEST_NUMBER]) if is_number else NONE
