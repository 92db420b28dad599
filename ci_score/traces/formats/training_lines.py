"""What single lines of a training log tell: about a step, or about the run as a whole.

    [2026-01-16 07:32:24] iteration 5/ 100 | … elapsed time per iteration (ms): 15800.0 | …
    [titan] 2025-06-16 22:30:50,322 - root - INFO - step: 10 … tps: 5,856 … mfu: 34.29%

Launchers put ranks, labels and times before a line, and terminals colours into it. So fields are
looked for anywhere in it.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Container
from dataclasses import dataclass, replace

MEGATRON, TORCHTITAN = "Megatron-LM", "torchtitan"
MOST_DEVICES = 10**6
MIB, GIB, GB = 1024**2, 1024**3, 1e9

# A line has one of these, or it tells nothing that is read. Looking for one text after the other
# takes a quarter of the time of one pattern for all.
MARKS = (
    b"elapsed time per iteration",
    b"tps:",
    b"wps:",
    b"using world size",
    b"seq_length .",
    b"max allocated:",
    b"device mesh with",
    b"capacity:",
    b"sequence length",
    b"tokens per train step",
    b"Training starts at",
)

_NUMBER = rb"(\d{1,15}(?:\.\d{1,9})?)"
_COLOUR = re.compile(rb"\x1b\[[0-9;]{0,20}[A-Za-z]")
# `[rank3]:` of torchrun or `[node7:3]:`, also with the task that srun puts before it.
_RANK = re.compile(rb"(?:^|\s)((?:\d{1,5}: {0,9})?\[[A-Za-z_][\w.-]{0,60}(?::\d{1,4})?\]:)")
_CLOCK = re.compile(rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d),(\d{3}) - ")

_ITERATION = re.compile(rb"\biteration\s{1,20}(\d{1,12})\s{0,20}/\s{0,20}(\d{1,12})\b")
# Only what follows tells that a number is whole, where a killed job has cut its last line short.
_ELAPSED = re.compile(
    rb"elapsed time per iteration \((ms|s)\):\s{0,20}" + _NUMBER + rb"\s{0,20}[|/]"
)
_BATCH = re.compile(rb"global batch size:\s{0,20}(\d{1,12})\b")
_CONSUMED = re.compile(rb"consumed tokens:\s{0,20}(\d{1,18})\b")
_SKIPPED = re.compile(rb"number of skipped iterations:\s{0,20}(\d{1,9})\b")
_NAN = re.compile(rb"number of nan iterations:\s{0,20}(\d{1,9})\b")

_STEP = re.compile(rb"\b(validate )?step:\s{0,20}(\d{1,12})\s{1,20}loss:\s{0,20}(\S{1,32})")
_MEMORY = re.compile(rb"\bmemory:\s{0,20}" + _NUMBER + rb"GiB\(")
_TPS = re.compile(rb"\b[tw]ps:\s{0,20}(\d[\d,]{0,20})(?=\s)")

_WORLD = re.compile(rb"using world size:\s{0,20}(\d{1,7})\b")
_SEQUENCE = re.compile(rb"\bseq_length \.{2,60}\s{0,20}(\d{1,9})\b")
_ALLOCATED = re.compile(rb"\| max allocated: " + _NUMBER)
_MESH = re.compile(rb"device mesh with parallelism: ([^\n]{1,200})")
_OLD_MESH = re.compile(rb"-D device mesh with \[[^\]]{1,200}\], \[([\d, ]{1,60})\]")
_DEGREE = re.compile(rb"\b(?:pp|dp_replicate|dp_shard|cp|tp)=(\d{1,7})\b")
_DEVICE = re.compile(
    rb"capacity: ([^\n]{1,100}?)(?: \(\d{1,4}\))? with " + _NUMBER + rb"GiB memory"
)
_BATCH_OF = re.compile(
    rb"global batch size (\d{1,12}),(?: gradient accumulation steps \d{1,9},)?"
    rb" sequence length (\d{1,9})\b"
)
_TOKENS = re.compile(rb"\b(\d{1,15}) tokens per train step\b")
_TOTAL = re.compile(rb"\btotal steps (\d{1,12})\b")
_STARTS = re.compile(rb"Training starts at step")


@dataclass(frozen=True, slots=True)
class StepLine:
    """One line about a step, or about several whose last one it names.

    Megatron prints the mean time of an iteration, torchtitan the tokens per second of one device;
    how long its steps took then follows from when the lines were printed.
    """

    tool: str
    step: int
    rank: bytes | None = None
    step_ms: float | None = None
    tps: float | None = None
    printed_ms: float | None = None
    memory_gb: float | None = None
    batch: int | None = None
    consumed_tokens: int | None = None
    skipped: int = 0
    nan: int = 0
    planned: int | None = None
    is_validation: bool = False

    def joined(self, other: StepLine) -> StepLine:
        """The slower of two ranks at one step, with the larger memory of both."""
        slower = max(self, other, key=lambda line: (line.step_ms or 0.0, -(line.tps or 0.0)))
        memory = max(self.memory_gb or 0.0, other.memory_gb or 0.0) or None
        return replace(slower, printed_ms=self.printed_ms, memory_gb=memory)


@dataclass(slots=True)
class Facts:
    """What is printed about the run as a whole."""

    world_size: int | None = None
    sequence_length: int | None = None
    tokens_per_step: int | None = None
    planned_steps: int | None = None
    device: str | None = None
    device_gb: float | None = None
    allocated_gb: float | None = None


def without_colour(line: bytes) -> bytes:
    """The line as it is read."""
    return _COLOUR.sub(b"", line) if b"\x1b" in line else line


def step_line(line: bytes) -> StepLine | None:
    """What a line tells of a step; None where it is about none."""
    return _of_megatron(line) or _of_torchtitan(line)


def rank_of(line: bytes) -> bytes | None:
    """The process that printed the line, by the label that a launcher puts before it."""
    found = _RANK.search(line, 0, 200)
    return found[1] if found else None


def begins_a_run(line: bytes, seen: Container[bytes | None]) -> bool:
    """Whether another run begins, where these processes have printed steps before.

    One process of Megatron prints the size of the job; all of torchtitan print that they begin, and
    a launcher may show that of one after the steps of another.
    """
    if _WORLD.search(line):
        return True
    begins = any(sign.search(line) for sign in (_STARTS, _BATCH_OF, _TOKENS))
    return begins and rank_of(line) in seen


def learn(facts: Facts, line: bytes) -> None:
    """Takes what a line tells about the run."""
    if found := _WORLD.search(line):
        facts.world_size = _count([found[1]])
    if found := _SEQUENCE.search(line):
        facts.sequence_length = int(found[1]) or None
    if found := _ALLOCATED.search(line):
        facts.allocated_gb = max(facts.allocated_gb or 0.0, float(found[1]) * MIB / GB) or None
    if found := _BATCH_OF.search(line):
        facts.tokens_per_step = int(found[1]) * int(found[2]) or None
    if found := _TOKENS.search(line):
        facts.tokens_per_step = int(found[1]) or None
    if found := _TOTAL.search(line):
        facts.planned_steps = int(found[1])
    if found := _MESH.search(line):
        facts.world_size = _count(_DEGREE.findall(found[1]))
    elif found := _OLD_MESH.search(line):
        facts.world_size = _count(re.findall(rb"\d{1,7}", found[1]))
    if found := _DEVICE.search(line):
        name = "".join(filter(str.isprintable, found[1].decode(errors="replace")))
        facts.device = name.strip() or None
        facts.device_gb = float(found[2]) * GIB / GB or None


def _of_megatron(line: bytes) -> StepLine | None:
    iteration, elapsed = _ITERATION.search(line), _ELAPSED.search(line)
    if iteration is None or elapsed is None or float(elapsed[2]) <= 0:
        return None
    return StepLine(
        tool=MEGATRON,
        step=int(iteration[1]),
        rank=rank_of(line),
        step_ms=float(elapsed[2]) * (1.0 if elapsed[1] == b"ms" else 1000.0),
        batch=_whole(_BATCH, line),
        consumed_tokens=_whole(_CONSUMED, line),
        skipped=_whole(_SKIPPED, line) or 0,
        nan=_whole(_NAN, line) or 0,
        planned=int(iteration[2]),
    )


def _of_torchtitan(line: bytes) -> StepLine | None:
    step, memory, tps = _STEP.search(line), _MEMORY.search(line), _TPS.search(line)
    if step is None or memory is None or (tps is None and step[1] is None):
        return None
    rate = float(tps[1].replace(b",", b"")) if tps else 0.0
    return StepLine(
        tool=TORCHTITAN,
        step=int(step[2]),
        rank=rank_of(line),
        tps=rate if rate > 0 else None,
        printed_ms=_time_of(line[: step.start()]),
        memory_gb=float(memory[1]) * GIB / GB,
        nan=int(step[3].lower().lstrip(b"+-") in (b"nan", b"inf")),
        is_validation=step[1] is not None,
    )


def _time_of(text: bytes) -> float | None:
    """When the line was printed; only differences are used, so the time zone does not matter."""
    found = _CLOCK.findall(text)
    if not found:
        return None
    try:
        *moment, ms = map(int, found[-1])
        return calendar.timegm(tuple(moment)) * 1000.0 + ms
    except ValueError:
        return None


def _whole(pattern: re.Pattern[bytes], line: bytes) -> int | None:
    found = pattern.search(line)
    return int(found[1]) if found else None


def _count(degrees: list[bytes]) -> int | None:
    """How many devices there are, by the degrees of parallelism."""
    count = math.prod(map(int, degrees))
    return count if degrees and 0 < count <= MOST_DEVICES else None
