"""The parts of a step → what to try, if a part that could be avoided is large.

The reference's recommendations only know phases and layers. These rest on what the device did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ci_score.model.explanation import COMMUNICATION, COPIES, IDLE, IDLE_WORDS, Timeline
from ci_score.model.profile import OpWork
from ci_score.model.reasons import Reason, Why

MOST_ADVICE = 3
# With so many kernels per step, the optimizer runs once for each parameter.
UNFUSED_OPTIMIZER, OPTIMIZER_SHARE = 100, 0.05
# The share of the step beyond which a part is worth advice.
WORTH_A_WORD = {
    COMMUNICATION: 0.20,
    IDLE_WORDS["data"]: 0.10,
    IDLE_WORDS["compilation"]: 0.05,
    IDLE_WORDS["allocation"]: 0.05,
    IDLE_WORDS["synchronisation"]: 0.10,
    IDLE_WORDS["launching"]: 0.20,
    COPIES: 0.10,
    IDLE: 0.30,
}


def advice_on(timeline: Timeline | None, categories: Mapping[str, OpWork]) -> tuple[Reason, ...]:
    """What to try, the largest part first; empty without a device's timeline."""
    if timeline is None or timeline.basis != "device":
        return ()
    rows = sorted(_large_parts(timeline, categories), key=lambda row: -row[0])
    return tuple(reason for _, reason in rows[:MOST_ADVICE])


def _large_parts(
    timeline: Timeline, categories: Mapping[str, OpWork]
) -> Iterator[tuple[float, Reason]]:
    for part, share in WORTH_A_WORD.items():
        ms = timeline.parts.get(part, 0.0)
        if ms > share * timeline.step_ms:
            yield ms, Why.LARGE_PART(part=part, ms=ms, share=ms / timeline.step_ms)
    optimizer = categories.get("optimizer")
    if optimizer is None or not optimizer.count or optimizer.count < UNFUSED_OPTIMIZER:
        return
    if optimizer.ms > OPTIMIZER_SHARE * timeline.step_ms:
        yield (
            optimizer.ms,
            Why.MANY_OPTIMIZER_KERNELS(ms=optimizer.ms, launches=optimizer.count),
        )
