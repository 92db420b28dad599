"""A step taken apart → what to try, where a part of it that work need not take is large.

The reference's recommendations know phases and layers alone. These rest on what the device did,
and each says the number that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ci_score.compare.explanation import COMMUNICATION, COPIES, IDLE, IDLE_WORDS
from ci_score.model.explanation import Timeline
from ci_score.model.metrics import significant, three_digits
from ci_score.model.profile import OpWork

MOST_ADVICE = 3
# An optimizer that launches so many kernels a step runs once for each parameter.
UNFUSED_OPTIMIZER, OPTIMIZER_SHARE = 100, 0.05


@dataclass(frozen=True, slots=True)
class _Row:
    """A part of the step, from which share of it on it is worth a word, and which."""

    part: str
    share: float
    what: str
    what_to_do: str


_ROWS = (
    _Row(
        COMMUNICATION,
        0.20,
        "communication that nothing hides",
        "overlap it with the backward (bucket sizes, prefetching), or send less",
    ),
    _Row(
        IDLE_WORDS["data"],
        0.10,
        "waiting for the data loader",
        "try more workers, prefetching, or data that is prepared beforehand",
    ),
    _Row(
        IDLE_WORDS["compilation"],
        0.05,
        "compiling within the steps",
        "keep shapes the same, mark dynamic ones, or warm up for longer",
    ),
    _Row(
        IDLE_WORDS["allocation"],
        0.05,
        "allocating memory",
        "keep shapes the same, or let the allocator grow its segments (expandable_segments)",
    ),
    _Row(
        IDLE_WORDS["synchronisation"],
        0.10,
        "a device without work after the host waited for it",
        "read losses and metrics less often (.item(), .cpu(), printing a tensor)",
    ),
    _Row(
        IDLE_WORDS["launching"],
        0.20,
        "waiting for the host to launch work",
        "try CUDA graphs, torch.compile, fused optimizers or larger batches",
    ),
    _Row(
        COPIES,
        0.10,
        "copies that nothing hides",
        "pin memory and copy asynchronously, or keep the data on the device",
    ),
    _Row(
        IDLE,
        0.30,
        "a device without work",
        "see in the trace whether it waits for data, for launches or for a synchronisation",
    ),
)


def advice_on(timeline: Timeline | None, categories: Mapping[str, OpWork]) -> tuple[str, ...]:
    """What to try, the largest part first; nothing without a device's timeline."""
    if timeline is None or timeline.basis != "device":
        return ()
    found = sorted(_found(timeline, categories), key=lambda row: (-row[0], row[1]))
    return tuple(words for _, words in found[:MOST_ADVICE])


def _found(timeline: Timeline, categories: Mapping[str, OpWork]) -> Iterator[tuple[float, str]]:
    for row in _ROWS:
        ms = timeline.parts.get(row.part, 0.0)
        if ms > row.share * timeline.step_ms:
            share = f"{significant(ms, 'ms')} or {100 * ms / timeline.step_ms:.0f} % of the step"
            yield ms, f"{share} is {row.what}: {row.what_to_do}."
    optimizer = categories.get("optimizer")
    if optimizer is None or not optimizer.count or optimizer.count < UNFUSED_OPTIMIZER:
        return
    if optimizer.ms > OPTIMIZER_SHARE * timeline.step_ms:
        yield (
            optimizer.ms,
            (
                f"The optimizer takes {significant(optimizer.ms, 'ms')} in"
                f" {three_digits(optimizer.count)} launches: try its fused or foreach form."
            ),
        )
