"""ci-score: performance review of ML training in pull requests.

The public names are loaded when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_score.judge import judge_history, judge_pairs
    from ci_score.model.profile import Profile
    from ci_score.model.scorecard import Hardware, Parity, ParityProfile, Scorecard
    from ci_score.reference import (
        compute_parity,
        compute_scorecard,
        parity_markdown,
        scorecard_markdown,
    )
    from ci_score.traces import ProfileSource, read_profile

__version__ = "0.1.0"

__all__ = [
    "Hardware",
    "Parity",
    "ParityProfile",
    "Profile",
    "ProfileSource",
    "Scorecard",
    "compute_parity",
    "compute_scorecard",
    "judge_history",
    "judge_pairs",
    "parity_markdown",
    "read_profile",
    "scorecard_markdown",
]


def lazy_door(package: str, **modules: tuple[str, ...]) -> Callable[[str], Any]:
    """The `__getattr__` of a room's door: each module behind it with the names that it exports.

    A module is imported when one of its names is first used, so that no command pays for what
    another one needs.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name].replace('__', '.')}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        judge=("judge_history", "judge_pairs"),
        model__profile=("Profile",),
        model__scorecard=("Hardware", "Parity", "ParityProfile", "Scorecard"),
        reference=(
            "compute_parity",
            "compute_scorecard",
            "parity_markdown",
            "scorecard_markdown",
        ),
        traces=("ProfileSource", "read_profile"),
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
