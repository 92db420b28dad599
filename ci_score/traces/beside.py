"""Files that lie beside others of the same run and say the same again, or less.

Of torch_npu's profiler the table of steps is made of the trace in the same folder: the trace says
more, and the table whether both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from ci_score.model.lists import some_of
from ci_score.model.profile import Profile
from ci_score.traces.formats.ascend_steps import MARK

Named = tuple[str, Profile]

# Traces of the same run agree with their tables to a thousandth.
MOST_APART = 0.02
_COMPARED = ("compute_ms", "communication_ms", "exposed_communication_ms")


def without_tables_of_steps(files: Sequence[Named]) -> tuple[Sequence[Named], tuple[str, ...]]:
    """The files without the tables of traces that are there, and what to note."""
    traces = {
        PurePosixPath(name).parent: profile
        for name, profile in files
        if MARK not in profile.capture and profile.unusable is None
    }
    tables = {
        name: traces[folder]
        for name, profile in files
        if MARK in profile.capture and (folder := PurePosixPath(name).parent) in traces
    }
    if not tables:
        return files, ()
    apart = [
        told
        for name, profile in files
        if name in tables and (told := _disagreement(name, profile, tables[name]))
    ]
    kept = [one for one in files if one[0] not in tables]
    left_out = f"Left out beside the trace that they are made of: {some_of(sorted(tables))}."
    return kept, (left_out, *apart)


def _disagreement(name: str, table: Profile, trace: Profile) -> str:
    """Where the two are far apart; where they count other steps they cannot be compared."""
    if table.steps != trace.steps:
        return f"{name} has {table.steps} steps, the trace beside it {trace.steps}."
    for field in _COMPARED:
        told, found = getattr(table, field) or 0.0, getattr(trace, field) or 0.0
        if abs(told - found) > MOST_APART * max(table.avg_step_ms, 1e-9):
            return f"{name} says {told:.4g} ms of {field}, the trace beside it {found:.4g} ms."
    return ""
