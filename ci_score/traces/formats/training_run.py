"""The run in a training log: which of its lines count, for how many steps, and the profile of them.

A line that averages over k steps counts as k steps of that mean. The first line has compilation and
warm-up in it and is left out; so is Megatron's second where it may be the mean of both: since 2026
it prints the first iteration without setting its clock back. Of several runs in one log the last
counts.
"""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ci_score.model.profile import Profile
from ci_score.model.sums import plain_sum
from ci_score.traces.formats.trainer_state import far_from_the_median
from ci_score.traces.formats.training_lines import (
    MEGATRON,
    Facts,
    StepLine,
    begins_a_run,
    learn,
    step_line,
)

MOST_LINES = MOST_STEPS = 100_000
MOST_RANKS = 10_000
ELAPSED, BETWEEN = "elapsed time per iteration", "the time between two lines"
RATE = "tokens a step ÷ (tps × devices)"

_Fields = dict[str, Any]
_Sources = dict[str, str]


@dataclass(slots=True)
class _Row:
    """A line about a step, and how long ago the one before it was printed."""

    line: StepLine
    elapsed_ms: float | None = None


@dataclass(frozen=True, slots=True)
class _Interval:
    """The steps that one line is about, and the mean time of each."""

    line: StepLine
    steps: int
    step_ms: float
    timed_by: str


@dataclass(frozen=True, slots=True)
class _Steps:
    """The lines that count, between which most often `usual` steps lie.

    `left_out` lines at the start are warm-up. `lost` lines have others missing before them.
    """

    kept: tuple[_Interval, ...] = ()
    usual: int = 0
    left_out: int = 1
    lost: int = 0
    is_cut: bool = False

    @property
    def times_ms(self) -> tuple[float, ...]:
        """The time of each step: that of its line."""
        return tuple(one.step_ms for one in self.kept for _ in range(one.steps))


@dataclass(slots=True)
class Log:
    """The last run of a log, as far as it has been read."""

    facts: Facts = field(default_factory=Facts)
    rows: OrderedDict[int, _Row] = field(default_factory=OrderedDict)
    latest: dict[bytes | None, int] = field(default_factory=dict)
    printed_ms: float | None = None
    runs: int = 1
    dropped: int = 0
    is_cut: bool = False

    def read(self, text: bytes) -> None:
        """Takes one line."""
        line = step_line(text)
        if line is not None:
            self._add(line)
            return
        if self.rows and begins_a_run(text, self.latest):
            self._restart()
            self.facts = Facts()
        learn(self.facts, text)

    def _add(self, line: StepLine) -> None:
        last = next(reversed(self.rows), None)
        if line.is_validation:
            # It sets the clock of the next line back.
            if line.step == last:
                self.printed_ms = line.printed_ms
            return
        if self._goes_back(line):
            self._restart()
            last = None
        if line.rank in self.latest or len(self.latest) < MOST_RANKS:
            self.latest[line.rank] = line.step
        if last is not None and line.step <= last:
            # Another rank's line of a step, which may come late.
            if line.step in self.rows:
                row = self.rows[line.step]
                row.line = row.line.joined(line)
            return
        self.rows[line.step] = _Row(line, _since(self.printed_ms, line.printed_ms))
        self.printed_ms = line.printed_ms
        if len(self.rows) > MOST_LINES:
            self.rows.popitem(last=False)
            self.dropped += 1

    def _goes_back(self, line: StepLine) -> bool:
        """Whether another run begins: the process that printed the line was further before."""
        before = self.latest.get(line.rank)
        if not self.rows or before is None:
            return False
        seen = self.rows.get(line.step)
        if line.step == before and seen is not None:
            # Ranks without a label print the same step; a line may also be there twice.
            is_one_process = line.rank is not None or line.tool == MEGATRON
            return is_one_process and seen.line != line
        return line.step < before or line.tool != next(iter(self.rows.values())).line.tool

    def _restart(self) -> None:
        self.rows.clear()
        self.latest.clear()
        self.printed_ms = None
        self.facts.allocated_gb = None
        self.runs += 1
        self.dropped = 0


def _since(before: float | None, now: float | None) -> float | None:
    return now - before if before is not None and now is not None and now > before else None


# --- the steps ------------------------------------------------------------------------------------


def _steps(log: Log) -> _Steps:
    rows = list(log.rows.values())
    gaps = [after.line.step - before.line.step for before, after in pairwise(rows)]
    if not gaps:
        return _Steps()
    # The first gap is shorter where the first step has a line of its own.
    usual = statistics.mode(gaps[1:] or gaps)
    left_out = _left_out(rows[0].line, usual)
    timed = [
        one
        for row, gap in zip(rows[left_out:], gaps[left_out - 1 :], strict=True)
        if (one := _interval(log.facts, row, gap, usual)) is not None
    ]
    kept = _last_of(timed)
    return _Steps(
        kept=kept,
        usual=usual,
        left_out=left_out,
        lost=sum(gap > usual for gap in gaps) if rows[0].line.step_ms is not None else 0,
        is_cut=bool(log.dropped) or len(kept) < len(timed),
    )


def _left_out(first: StepLine, usual: int) -> int:
    """How many lines at the start have the first step in them; the times themselves do not count.

    Megatron's other lines are of multiples of its interval. Lines of each iteration do not show
    whether the second is the mean of both.
    """
    return 2 if first.tool == MEGATRON and (usual == 1 or first.step % usual) else 1


def _interval(facts: Facts, row: _Row, gap: int, usual: int) -> _Interval | None:
    """A line with the steps that it is about; a lost line's steps are not in the mean after it."""
    line, steps = row.line, min(gap, usual)
    if line.step_ms is not None:
        return _Interval(line, steps, line.step_ms, ELAPSED)
    if row.elapsed_ms is not None:
        return _Interval(line, gap, row.elapsed_ms / gap, BETWEEN)
    if line.tps and facts.tokens_per_step and facts.world_size:
        seconds = facts.tokens_per_step / (line.tps * facts.world_size)
        return _Interval(line, steps, seconds * 1000.0, RATE)
    return None


def _last_of(timed: list[_Interval]) -> tuple[_Interval, ...]:
    """As many intervals at the end as have MOST_STEPS steps."""
    steps = 0
    for place in range(len(timed) - 1, -1, -1):
        steps += timed[place].steps
        if steps > MOST_STEPS:
            return tuple(timed[place + 1 :])
    return tuple(timed)


# --- the profile ----------------------------------------------------------------------------------


def profile_of(log: Log) -> Profile:
    """What the last run of a log tells, which has a line at least."""
    steps = _steps(log)
    lines = [row.line for row in log.rows.values()]
    measured, sources = _times(steps)
    for told, told_by in (
        _throughput(log.facts, steps),
        _machine(log.facts, lines),
    ):
        measured |= told
        sources |= told_by
    return Profile(
        tool=lines[0].tool,
        notes=(
            *_notes(log, lines, steps.usual),
            *([] if "peak_memory_gb" in measured else ["The log does not tell the peak memory."]),
            *_notes_on_steps(log.facts, steps),
        ),
        unusable=None if steps.kept else _why_unusable(log, steps),
        capture={"last_step": float(lines[-1].step)},
        sources=sources,
        **measured,
    )


def _times(steps: _Steps) -> tuple[_Fields, _Sources]:
    if not steps.kept:
        return {}, {}
    times = steps.times_ms
    without = "the first line" if steps.left_out == 1 else "the first two lines"
    lines = f"{len(times)} steps in {len(steps.kept)} lines"
    told_by = f"{steps.kept[0].timed_by}: the mean of {lines}, without {without}"
    measured = {
        "steps": len(times),
        "avg_step_ms": plain_sum(times) / len(times),
        "step_times_ms": times,
    }
    return measured, {"avg_step_ms": told_by}


def _throughput(facts: Facts, steps: _Steps) -> tuple[_Fields, _Sources]:
    """Tokens where the log tells them exactly; else the rate where the devices are known."""
    tokens, told_by = _tokens(facts, steps.kept)
    times = steps.times_ms
    if tokens:
        rate = tokens * len(times) / plain_sum(times) * 1000.0
        measured = {"tokens_per_step": tokens, "throughput_tok_s": rate}
        source = "tokens a step ÷ the mean step"
        return measured, {"tokens_per_step": told_by, "throughput_tok_s": source}
    if not times or not facts.world_size or not all(one.line.tps for one in steps.kept):
        return {}, {}
    seconds = plain_sum(one.steps / (one.line.tps or 1.0) for one in steps.kept)
    source = f"tps of one device × {facts.world_size} devices"
    rate = facts.world_size * len(times) / seconds
    return {"throughput_tok_s": rate}, {"throughput_tok_s": source}


def _tokens(facts: Facts, kept: tuple[_Interval, ...]) -> tuple[float | None, str]:
    if not kept:
        return None, ""
    if facts.tokens_per_step:
        return facts.tokens_per_step, "as the trainer prints it before its first step"
    first, last = kept[0].line, kept[-1].line
    if first.consumed_tokens is not None and last.consumed_tokens is not None:
        tokens, steps = last.consumed_tokens - first.consumed_tokens, last.step - first.step
        return (tokens / steps, "consumed tokens") if tokens > 0 and steps > 0 else (None, "")
    if facts.sequence_length and first.batch and len({one.line.batch for one in kept}) == 1:
        return first.batch * facts.sequence_length, "global batch size × seq_length"
    return None, ""


def _machine(facts: Facts, lines: list[StepLine]) -> tuple[_Fields, _Sources]:
    """The devices and their memory."""
    measured: _Fields = {}
    sources: _Sources = {}
    if facts.world_size:
        measured |= {"world_size": facts.world_size, "accelerator_count": facts.world_size}
        sources["accelerator_count"] = "world size, one device a rank"
    if facts.device:
        measured |= {"accelerator": facts.device, "accelerator_memory_gb": facts.device_gb}
    reserved = max(line.memory_gb or 0.0 for line in lines)
    if reserved or facts.allocated_gb:
        measured["peak_memory_gb"] = reserved or facts.allocated_gb
        words = "memory: the most that a device had reserved"
        sources["peak_memory_gb"] = words if reserved else "max allocated, of the ranks that tell"
    return measured, sources


def _why_unusable(log: Log, steps: _Steps) -> str:
    if len(log.rows) <= steps.left_out:
        lines = "one line" if len(log.rows) == 1 else f"{len(log.rows)} lines"
        which = "the last run in the log" if log.runs > 1 else "the log"
        return (
            f"{which} has {lines} about its steps, with compilation and warm-up in it:"
            " train longer, or log more often"
        )
    if steps.usual > MOST_STEPS:
        return f"the lines of the log are {steps.usual} steps apart, more than {MOST_STEPS}"
    return (
        "the lines do not tell when they were printed, and tps is of one device: how many devices"
        " and how many tokens a step there are is not in the log"
    )


def _notes(log: Log, lines: list[StepLine], usual: int) -> Iterator[str]:
    yield "A training log has no kernels, phases or layers."
    if log.is_cut:
        yield "The gzip is cut short or damaged: what was printed after that is missing."
    if log.runs > 1:
        steps = f"{lines[0].step} to {lines[-1].step}"
        yield f"The log holds {log.runs} runs: this is the last, with lines of steps {steps}."
    last, planned = lines[-1].step, lines[-1].planned or log.facts.planned_steps or 0
    if last + max(usual, 1) <= planned:
        yield f"The log ends before the run does: at step {last} of {planned}."
    skipped, nan = sum(line.skipped for line in lines), sum(line.nan for line in lines)
    if skipped:
        yield f"{skipped} iterations were skipped, and their time counts."
    if nan:
        yield f"{nan} losses are NaN or infinite."
    batches = [line.batch for line in lines if line.batch]
    if batches and min(batches) < max(batches):
        yield f"The global batch size is {min(batches)} to {max(batches)}: the steps are not alike."


def _notes_on_steps(facts: Facts, steps: _Steps) -> Iterator[str]:
    if not steps.kept:
        return
    times = steps.times_ms
    if steps.is_cut:
        yield f"The log is very long: only its last {len(times)} steps count."
    if steps.kept[0].timed_by == BETWEEN:
        yield "What the trainer does between two lines counts, such as a checkpoint."
    if steps.lost:
        yield f"Before {steps.lost} lines others are missing, and the steps of those do not count."
    if _tokens(facts, steps.kept)[0] is None:
        yield (
            "The tokens of a step are not known: the log has no lines from before the first step"
            " that tell the batch and the length of a sequence."
        )
    yield from far_from_the_median(times)
