"""Which lines of a log are shown: its end, or the error of a rank that its launcher hides.

`torchrun`, `accelerate launch`, `srun` and DeepSpeed end with a report of their own, which says
only that a rank has failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

TAIL_LINES = 12
# Tracebacks of one failure follow each other, with a line or two between them.
GAP = 3
# Where a launcher begins to speak: a line of its own, or a frame of its own in a traceback.
_REPORT = re.compile(
    r"torch/distributed/elastic/multiprocessing/api\.py|launch\.py:\d+:sigkill_handler|^srun: "
)
_ENDED = re.compile(r"exitcode: |[Ee]xit(?:s|ed) with ")
_FRAME = re.compile(r'^ +File ".*/(?:torch/distributed/run|accelerate/commands/launch)\.py"')
_RANK = re.compile(r"^\[[\w:]+\]: ?")
_BEGINS = "Traceback (most recent call last):"
_GOES_ON = re.compile(r"^(?:During handling of the above|The above exception was the direct)")


def last_words(lines: Sequence[str]) -> list[str]:
    """The lines to show."""
    own = _without_report(lines)
    if not own or len(own) == len(lines):
        return list(lines[-TAIL_LINES:])
    if end := _first_error(own):
        return list(own[:end][-TAIL_LINES:])
    # Without an error of Python's: how it ended, as the launcher says it, and what it said itself.
    how = [line for line in lines[len(own) :] if _ENDED.search(line)]
    return [*how[:1], *own[-TAIL_LINES + len(how[:1]) :]]


def _without_report(lines: Sequence[str]) -> Sequence[str]:
    begin = 0
    for place, line in enumerate(lines):
        if line == _BEGINS:
            begin = place
        if _REPORT.search(line):
            return lines[:place]
        if _FRAME.search(line):
            return lines[:begin]
    return lines


def _first_error(lines: Sequence[str]) -> int:
    """Where the first of the last errors ends: the other ranks fail because of it. 0 for none."""
    bare = [_RANK.sub("", line) for line in lines]
    ends: list[int] = []
    is_open = False
    for place, line in enumerate(bare):
        if line == _BEGINS:
            if ends and not is_open and place - ends[-1] > GAP:
                ends.clear()
            # An error raised while another one was handled belongs to it.
            if ends and any(map(_GOES_ON.match, bare[max(0, place - GAP) : place])):
                ends.pop()
            is_open = True
        elif is_open and line and not line[0].isspace():
            ends.append(place + 1)
            is_open = False
    return ends[0] if ends and len(lines) - ends[-1] <= GAP + TAIL_LINES else 0
