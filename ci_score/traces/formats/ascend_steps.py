"""Ascend: the `step_trace_time.csv` that torch_npu's profiler makes of its trace.

A row is one step of one device, in microseconds: how long it computed, communicated beside and
without computing, and did neither. `Stage` is the device's time from the step's first task to its
last, without `Bubble`, in which it waited for another stage of a pipeline.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ci_score.errors import BadInputError
from ci_score.model.lists import plural
from ci_score.model.profile import Profile
from ci_score.model.sums import plain_sum
from ci_score.traces.formats.ascend import TOOL
from ci_score.traces.source import ProfileSource

FILE = "step_trace_time.csv"
LARGEST = 16 * 1024**2
# Marks a profile as one of this file, which says less than the trace beside it.
MARK = "steps_of_the_table"
_US_PER_MS = 1000.0
_COMPUTING, _EXPOSED, _COMMUNICATION = (
    "Computing",
    "Communication(Not Overlapped)",
    "Communication",
)
_FREE, _STAGE, _BUBBLE = "Free", "Stage", "Bubble"
_NEEDED = frozenset(
    column.encode() for column in ("Step", _COMPUTING, _EXPOSED, _COMMUNICATION, _FREE, _STAGE)
)
# The table of a whole cluster has rows of ranks and rows of groups.
_OF_A_CLUSTER = frozenset({"Type", "Index"})


def recognises(head: bytes) -> bool:
    """Whether the first line has the columns of the table."""
    line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0][:4096]
    return {column.strip(b' "\r') for column in line.split(b",")} >= _NEEDED


@dataclass(frozen=True, slots=True)
class _Step:
    """One row in milliseconds."""

    device: str
    name: str
    computing: float
    exposed: float
    communication: float
    free: float
    span: float


def read(source: ProfileSource) -> Profile:
    """The profile of the table: the slowest device's steps."""
    text, is_whole = _text(source)
    rows = list(_rows(text, source.name))
    if not rows:
        return Profile(tool=TOOL, unusable="the table has no step", remedy="steps")
    by_device: dict[str, list[_Step]] = defaultdict(list)
    for row in rows:
        by_device[row.device].append(row)
    spans = {device: _mean([row.span for row in steps]) for device, steps in by_device.items()}
    slowest = max(spans, key=spans.__getitem__)
    notes = [] if is_whole else ["the table ends before its last row does; that was left out"]
    notes.append("the table tells neither ops nor phases: trace_view.json beside it has them")
    if len(spans) > 1:
        notes.append(f"{len(spans)} devices: these are the numbers of NPU {slowest}, the slowest")
    if not any(row.name for row in rows):
        notes.append("no step is marked: the whole capture counts as one")
    notes.append("no peak memory")
    return _profile(by_device[slowest], len(spans), notes)


def _profile(steps: Sequence[_Step], devices: int, notes: Sequence[str]) -> Profile:
    count = len(steps)
    basis = f"{FILE}, mean of {plural(count, 'step')}"
    times = tuple(step.span for step in steps)
    average = _mean(times)
    computing = _mean([step.computing for step in steps])
    exposed = _mean([step.exposed for step in steps])
    fields: dict[str, Any] = {
        "avg_step_ms": average,
        "device_busy_ms": computing + exposed,
        "compute_ms": computing,
        "communication_ms": _mean([step.communication for step in steps]),
        "exposed_communication_ms": exposed,
    }
    if average > 0:
        fields["device_idle_share"] = min(_mean([step.free for step in steps]) / average, 1.0)
    sources = dict.fromkeys(fields, basis)
    sources["avg_step_ms"] = f"the device's time from first task to last ({basis})"
    sources["device_busy_ms"] = f"computing and exposed communication, without copies ({basis})"
    sources["steps"] = FILE
    return Profile(
        **fields,
        steps=count,
        step_times_ms=times,
        accelerator_count=devices,
        tool=TOOL,
        capture={MARK: float(count)},
        sources={**sources, "accelerator_count": f"devices in {FILE}"},
        notes=tuple(notes),
    )


def _text(source: ProfileSource) -> tuple[str, bool]:
    """The whole rows, and whether that is all: every row ends with its line, also the last."""
    text = source.whole(LARGEST).decode("utf-8-sig", "replace")
    whole, end, rest = text.rpartition("\n")
    return whole + end, not rest


def _rows(text: str, name: str) -> Iterator[_Step]:
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), start=2):
            yield _step(row, f"{name}:{number}")
    except csv.Error as error:
        raise BadInputError(name, found=f"no table ({error})", expected=f"a whole {FILE}") from None


def _step(row: dict[str, Any], place: str) -> _Step:
    if row.keys() >= _OF_A_CLUSTER:
        raise BadInputError(
            place, found="a table of a whole cluster", expected=f"the {FILE} of each rank"
        )

    def milliseconds(column: str, otherwise: str | None = None) -> float:
        text = row.get(column, otherwise)
        try:
            value = float(text) if isinstance(text, str) else -1.0
        except ValueError:
            value = -1.0
        # A difference of sums is a little below zero where it is zero.
        value = 0.0 if -1e-3 < value < 0 else value
        if not isfinite(value) or value < 0:
            raise BadInputError(
                place, field=column, found=f"{str(text)[:40]!a}", expected="microseconds"
            )
        return value / _US_PER_MS

    return _Step(
        device=str(row.get("Device_id") or "")[:20],
        name=str(row["Step"] or "")[:40],
        computing=milliseconds(_COMPUTING),
        exposed=milliseconds(_EXPOSED),
        communication=milliseconds(_COMMUNICATION),
        free=milliseconds(_FREE),
        span=milliseconds(_STAGE) + milliseconds(_BUBBLE, otherwise="0"),
    )


def _mean(values: Sequence[float]) -> float:
    return plain_sum(values) / len(values)
