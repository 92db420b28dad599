"""ci-score: performance review of ML training in pull requests.

The public names are loaded when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_score.model.profile import Profile
    from ci_score.model.scorecard import Hardware, Parity, ParityProfile, Scorecard
    from ci_score.reference.markdown import parity_markdown, scorecard_markdown
    from ci_score.reference.parity import compute_parity
    from ci_score.reference.scoring import compute_scorecard
    from ci_score.traces.formats import read_profile
    from ci_score.traces.source import ProfileSource

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
    "parity_markdown",
    "read_profile",
    "scorecard_markdown",
]

_HOMES = {
    "Hardware": "model.scorecard",
    "Parity": "model.scorecard",
    "ParityProfile": "model.scorecard",
    "Profile": "model.profile",
    "ProfileSource": "traces.source",
    "Scorecard": "model.scorecard",
    "compute_parity": "reference.parity",
    "compute_scorecard": "reference.scoring",
    "parity_markdown": "reference.markdown",
    "read_profile": "traces.formats",
    "scorecard_markdown": "reference.markdown",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
