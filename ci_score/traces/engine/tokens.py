"""Tokens of a step, where the shapes of a lookup of tokens were recorded: inferred, never told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.host import Host
from ci_score.traces.engine.timeline import Interval, Windows


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
    found, note = _token_fields(host, windows, *capture.data_ranks)
    fields["sources"] |= found.pop("sources", {})
    fields |= found
    notes.append(note)


def _token_fields(
    host: Host, windows: Sequence[Interval], world: int, degree: int | None
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
    (largest, _), total = max(of_tables.items(), key=lambda one: (one[1], one[0]))
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
