"""A real trace made long: its events again and again, each time later and with ids of its own.

Only numbers of the text change, so every repeat is laid out as its profiler wrote it, and the
whole is one sound trace of many more steps.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLES = Path(os.environ.get("CI_SCORE_SHARED", Path(__file__).parents[2] / "shared")) / (
    "samples/kineto"
)
# No Python frames; mostly Python frames; the long call stacks and other names of 2021.
CHOSEN = (
    "a100_dlrm_rank3of8_6step",
    "mi300_ddp_resnet_checkpoint_3step",
    "old2021_resnet50_workers4_6step",
)
_EVENTS_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_NUMBERED = re.compile(
    r'"(ts|correlation|[Ee]xternal id|external ts|Sequence number|Ev Idx|Profiler Event Index|id'
    r'|Python id|Python parent id)"\s*:\s*"?(?=\d)|"(ProfilerStep)#(?=\d)'
)
_DIGITS = re.compile(r"\d+")
_TIMES = ("ts", "external ts")
_NO_IDS = (*_TIMES, "ProfilerStep")


@dataclass(frozen=True, slots=True)
class Repeated:
    """A trace taken apart: what stays as it is, and between it the numbers that move on."""

    head: str
    texts: list[str]
    numbers: list[int]
    strides: list[int]
    tail: str
    steps: int

    def write(self, path: Path, size: int) -> int:
        """At least `size` bytes of it; how many steps these are."""
        count = 0
        with path.open("w", encoding="utf-8", newline="") as stream:
            stream.write(self.head)
            written = 0
            while written < size:
                written += stream.write(("," if count else "") + self._events(count))
                count += 1
            stream.write(self.tail)
        return self.steps * count

    def _events(self, count: int) -> str:
        moved = [
            str(number + count * stride)
            for number, stride in zip(self.numbers, self.strides, strict=True)
        ]
        both = [part for pair in zip(self.texts, moved, strict=False) for part in pair]
        return "".join([*both, self.texts[-1]])


def available() -> list[Path]:
    """The chosen samples, where they are."""
    paths = (SAMPLES / f"{name}.json.gz" for name in CHOSEN)
    return [path for path in paths if path.exists()]


def taken_apart(sample: Path) -> Repeated:
    """A sample, ready to be written as often as wanted."""
    text = gzip.decompress(sample.read_bytes()).decode()
    events = json.loads(text)["traceEvents"]
    match = _EVENTS_BEGIN.search(text)
    if match is None:
        raise SystemExit(f"{sample.name} is laid out in another way")
    # Of the chosen ones none has a list behind the events.
    begin, end = match.end(), text.rindex("]")
    texts, numbers, keys = [], [], []
    last = begin
    for found in _NUMBERED.finditer(text, begin, end):
        digits = _DIGITS.match(text, found.end())
        if digits is not None:
            texts.append(text[last : digits.start()])
            numbers.append(int(digits[0]))
            keys.append(found[1] or found[2])
            last = digits.end()
    texts.append(text[last:end])
    # Ids of several kinds refer to each other, so one stride holds for all of them.
    ids = (number for number, key in zip(numbers, keys, strict=True) if key not in _NO_IDS)
    steps = len({each["name"] for each in events if _is_step(each)})
    stride = max(ids) + 1
    strides = {**dict.fromkeys(_TIMES, _period(events)), "ProfilerStep": steps}
    moves = [strides.get(key, stride) for key in keys]
    return Repeated(text[:begin], texts, numbers, moves, text[end:], steps)


def _is_step(event: dict[str, Any]) -> bool:
    return str(event.get("name")).startswith("ProfilerStep#")


def _period(events: list[dict[str, Any]]) -> int:
    """Whole microseconds from the first to the last thing that the program did."""
    timed = [each for each in events if "dur" in each and each.get("cat") != "Trace"]
    first = min(each["ts"] for each in timed)
    last = max(each["ts"] + each["dur"] for each in timed)
    return int(last - first) + 1
