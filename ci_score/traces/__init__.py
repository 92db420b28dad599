"""Files of a profiler → one Profile of a training step.

A file is known by its content, never by its name: one file a format in `formats/`, one engine that
they share, ranks and captures merged, large files read in processes or on a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.traces.formats import FORMATS as FORMATS
    from ci_score.traces.formats import can_lie_beside as can_lie_beside
    from ci_score.traces.formats import read_profile as read_profile
    from ci_score.traces.formats.kineto import read_marked as read_marked
    from ci_score.traces.formats.log_text import outer_keys as outer_keys
    from ci_score.traces.formats.reference import normalised as normalised
    from ci_score.traces.formats.refusals import is_nsight_report as is_nsight_report
    from ci_score.traces.merge import profile_of as profile_of
    from ci_score.traces.parallel import processes as processes
    from ci_score.traces.parallel import read_all as read_all
    from ci_score.traces.source import ProfileSource as ProfileSource
    from ci_score.traces.source import step_pattern as step_pattern
else:
    __getattr__ = lazy_door(
        __name__,
        formats=("FORMATS", "can_lie_beside", "read_profile"),
        formats__kineto=("read_marked",),
        formats__log_text=("outer_keys",),
        formats__reference=("normalised",),
        formats__refusals=("is_nsight_report",),
        merge=("profile_of",),
        parallel=("processes", "read_all"),
        source=("ProfileSource", "step_pattern"),
    )
