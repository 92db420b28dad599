"""Tokens of a step, where the shapes of a lookup of tokens were recorded: inferred, never told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.host import EmbeddingCall, Host
from ci_score.traces.engine.timeline import Interval, Windows

# What torch calls the ranges of an optimizer's methods.
CLEARS, STEPS = "Optimizer.zero_grad#", "Optimizer.step#"


def add_tokens(
    capture: Capture,
    process: int,
    windows: Sequence[Interval],
    fields: dict[str, Any],
    notes: list[str],
) -> None:
    """Adds the tokens of a process's steps, where its format tells which ranks see which data."""
    host = capture.hosts.get(process)
    if host is None or capture.data_ranks is None:
        return
    cleared = _times_of(capture, process, CLEARS)
    stepped = _times_of(capture, process, STEPS)
    found, note = _token_fields(host, windows, cleared, stepped, *capture.data_ranks)
    fields["sources"] |= found.pop("sources", {})
    fields |= found
    notes.append(note)


def _token_fields(
    host: Host,
    windows: Sequence[Interval],
    cleared: Sequence[int],
    stepped: Sequence[int],
    world: int,
    degree: int | None,
) -> tuple[dict[str, Any], str]:
    """The tokens of a step with their source, and the note that goes with them.

    `degree` is how many of the `world` ranks see other data than the rest; None if not known.
    """
    inside = Windows(windows)
    calls = [call for call in host.embeddings if inside.at(call.time) >= 0]
    if not calls:
        what = "no aten::embedding with its shapes was recorded (record_shapes)"
        return {}, f"no tokens a step: {what}"
    # An evaluation within the steps looks up, too. Where the tables are frozen all calls count.
    calls = [call for call in calls if call.has_gradient] or calls
    # Several micro-batches are several calls; another model of the script has a table of its own.
    of_tables: Counter[tuple[int, int]] = Counter()
    for call in calls:
        of_tables[call.vocabulary, call.width] += call.tokens
    # Positions are often looked up once for a whole batch; else they are as many as the tokens.
    (largest, width), total = max(of_tables.items(), key=lambda one: (one[1], one[0]))
    lookups = [call for call in calls if (call.vocabulary, call.width) == (largest, width)]
    if _may_repeat(lookups, cleared, stepped, inside):
        return {}, (
            "no tokens a step: gradients were cleared between two lookups of one step, which may"
            " have seen the same data (SAM, LBFGS)"
        )
    own = total / len(windows)
    inferred = f"inferred from the shapes of aten::embedding, vocabulary {largest}"
    if degree is None:
        return {}, (
            f"tokens: {own:g} a step on this rank ({inferred}); of {world} ranks it is not known"
            " how many saw other data, so the job's are not derived"
        )
    fields = {
        "tokens_per_step": own * degree,
        "tokens_inferred": True,
        "sources": {"tokens_per_step": f"{inferred}, × {degree} data-parallel ranks"},
    }
    return fields, f"tokens per step are {inferred}"


def _times_of(capture: Capture, process: int, prefix: str) -> list[int]:
    """When the ranges ended whose names begin so."""
    ranges = capture.ranges
    names = {place for place, name in enumerate(ranges.names) if name.startswith(prefix)}
    threads = ranges.threads(process).values() if names else ()
    return [each.end for thread in threads for each in thread if each.name in names]


def _may_repeat(
    lookups: Sequence[EmbeddingCall],
    cleared: Sequence[int],
    stepped: Sequence[int],
    inside: Windows,
) -> bool:
    """Whether a step looks up again after its first gradients were cleared without a step.

    Micro-batches of other data leave the gradients, because those are summed.
    """
    events = sorted(
        [
            *((call.time, "looks up") for call in lookups),
            *((time, "clears") for time in cleared),
            *((time, "steps") for time in stepped),
        ]
    )
    window, before = -1, "steps"
    for time, what in events:
        if (place := inside.at(time)) != window:
            window, before = place, "steps"
        if what == "looks up" and before == "clears":
            return True
        if what != "clears" or before == "looks up":
            before = what
    return False
