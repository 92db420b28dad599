"""Beside the accelerator: measures, and knows no GitHub.

`Recorder` is all that a training script needs. It imports only the standard library, and so does
this door until another name is used. A `Sitting` measures head against base; a `Qualifier` finds
out what a machine can gate. Their caller passes the environment, says when a signal came and shows
the progress; the room itself only starts processes, and ends those that it started.
"""

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.measure.bench import Request as Request
    from ci_score.measure.bisect.bisection import Bisection as Bisection
    from ci_score.measure.comparison import ComparisonRequest as ComparisonRequest
    from ci_score.measure.machine.environment import this_machine as this_machine
    from ci_score.measure.one_side import OneSide as OneSide
    from ci_score.measure.qualify import Qualification as Qualification
    from ci_score.measure.qualify import Qualifier as Qualifier
    from ci_score.measure.recorder import Recorder as Recorder
    from ci_score.measure.session.schedule import ADDED_AT_ONCE as ADDED_AT_ONCE
    from ci_score.measure.session.session import Session as Session
    from ci_score.measure.sides.preparing import SidesRequest as SidesRequest
    from ci_score.measure.sitting import Sitting as Sitting
else:
    __getattr__ = lazy_door(
        __name__,
        bench=("Request",),
        bisect__bisection=("Bisection",),
        comparison=("ComparisonRequest",),
        machine__environment=("this_machine",),
        one_side=("OneSide",),
        sides__preparing=("SidesRequest",),
        qualify=("Qualification", "Qualifier"),
        recorder=("Recorder",),
        session__schedule=("ADDED_AT_ONCE",),
        session__session=("Session",),
        sitting=("Sitting",),
    )
