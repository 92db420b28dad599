"""Measurement lines and environment.json → the launches of a case, pooled over a run's attempts.

Measurements are step times without a profiler, one JSON object per process launch. They are judged,
and profiles explain them. A void launch does not count. The launches of a re-run are added to those
of the attempts before it.
"""

from ci_score.launches.attempts import as_one, pooled
from ci_score.launches.environment import ENVIRONMENT_FILE, joined, read_environment
from ci_score.launches.lines import (
    Launch,
    SideLaunches,
    by_side,
    notes_on,
    read_launches,
    took_turns,
    without_a_time,
)

__all__ = [
    "ENVIRONMENT_FILE",
    "Launch",
    "SideLaunches",
    "as_one",
    "by_side",
    "joined",
    "notes_on",
    "pooled",
    "read_environment",
    "read_launches",
    "took_turns",
    "without_a_time",
]
