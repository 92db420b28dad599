"""Measurement lines and environment.json → the launches of a case, pooled over a run's attempts.

Measurements are unprofiled step times, one JSON object a process launch: they judge, and profiles
explain. A launch that is void counts for nothing, and what a re-run measured is added to what the
attempts before it did.
"""

from ci_score.launches.attempts import as_one, pooled
from ci_score.launches.environment import ENVIRONMENT_FILE, joined, read_environment
from ci_score.launches.lines import (
    Launch,
    SideLaunches,
    by_side,
    notes_on,
    read_launches,
    sound,
    took_turns,
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
    "sound",
    "took_turns",
]
