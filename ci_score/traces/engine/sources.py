"""What the lines of a program take of a step, where the format tells the line of each op: JAX."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ci_score.model.step_code import (
    LONGEST_PATH,
    MOST_DEFINITIONS,
    MOST_LINES,
    CodeLine,
    CodeWork,
    Definition,
    StepCode,
)
from ci_score.model.sums import plain_sum
from ci_score.traces.engine.device_events import NONE, DeviceEvents

# No control characters: what the path of a file never has, a trace may.
_SOURCE = re.compile(r"([^\x00-\x1f\x7f]+?):([1-9][0-9]{0,6})")


class Source(NamedTuple):
    """A line of a file, as the trace names it, and whether its work is of the backward pass."""

    file: str
    line: int
    is_backward: bool


def source_of(text: object, of_op: object) -> Source | None:
    """`/srv/train.py:42` as a line; of the backward pass is what was transposed for gradients."""
    if not isinstance(text, str) or len(text) > LONGEST_PATH:
        return None
    found = _SOURCE.fullmatch(text)
    return Source(found[1], int(found[2]), "transpose(" in str(of_op)) if found else None


def code_of_sources(
    events: DeviceEvents,
    sources: Sequence[Source],
    steps: Iterable[Sequence[int]],
    ticks_per_ms: int,
) -> StepCode | None:
    """The work of the lines as a mean of the steps; None where no line of them is known.

    Each of the `steps` has the places of its events.
    """
    ticks: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    steps = list(steps)
    for place in (place for places in steps for place in places):
        ticks[events.sources[place]] += events.ends[place] - events.starts[place]
        counts[events.sources[place]] += 1
    total, unknown = sum(ticks.values()), ticks.pop(NONE, 0)
    if not ticks:
        return None
    per_step = 1 / ticks_per_ms / len(steps)
    work: dict[tuple[str, int], CodeWork] = {}
    for number, time in ticks.items():
        source = sources[number]
        key = source.file, source.line
        one = _work(time * per_step, counts[number] / len(steps), is_backward=source.is_backward)
        work[key] = work[key].plus(one) if key in work else one
    return _as_code(work, total * per_step, unknown * per_step)


def _work(ms: float, launches: float, *, is_backward: bool) -> CodeWork:
    if is_backward:
        return CodeWork(backward_ms=ms, backward_launches=launches)
    return CodeWork(forward_ms=ms, forward_launches=launches)


def _as_code(
    work: dict[tuple[str, int], CodeWork], total_ms: float, without_line_ms: float
) -> StepCode:
    """The largest lines, each in a definition that stands for its file: its name is not known."""
    order = sorted(work, key=lambda key: (-work[key].ms, key))
    files = {file: row for row, file in enumerate(_first(order))}
    kept = [key for key in order if key[0] in files][:MOST_LINES]
    shown = set(kept)
    left = [work[key].ms for key in order if key not in shown]
    return StepCode(
        found_by="source fields",
        paths="trace",
        definitions=tuple(Definition(name="", file=file) for file in files),
        lines=tuple(
            CodeLine(definition=files[file], line=line, work=work[file, line])
            for file, line in kept
        ),
        total_ms=total_ms,
        without_line_ms=without_line_ms,
        left_out=len(left),
        left_out_ms=plain_sum(left),
    )


def _first(order: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The files of the largest lines, as many as a table may have."""
    return iter(list(dict.fromkeys(file for file, _ in order))[:MOST_DEFINITIONS])
