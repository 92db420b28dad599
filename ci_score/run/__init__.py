"""The story of a run: settings → case files → reading → story → publishing.

`run_as_asked` is the whole job: the Action for its event, or the same on a machine without GitHub.
It calls `run`, which takes everything that it works with as an argument. `post_report` writes the
comment of a run in a job that has judged already, and `measured_base` says what a job measures
against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.run.base import measured_base as measured_base
    from ci_score.run.case_files import sources_in as sources_in
    from ci_score.run.context import World as World
    from ci_score.run.inputs import INPUTS as INPUTS
    from ci_score.run.job import job_of_files as job_of_files
    from ci_score.run.local import run_as_asked as run_as_asked
    from ci_score.run.post import post_report as post_report
    from ci_score.run.reading import read_side as read_side
    from ci_score.run.settings import Settings as Settings
    from ci_score.run.story import Job as Job
    from ci_score.run.story import run as run
else:
    __getattr__ = lazy_door(
        __name__,
        base=("measured_base",),
        case_files=("sources_in",),
        context=("World",),
        inputs=("INPUTS",),
        job=("job_of_files",),
        local=("run_as_asked",),
        post=("post_report",),
        reading=("read_side",),
        settings=("Settings",),
        story=("Job", "run"),
    )
