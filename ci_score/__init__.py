"""ci-score: performance review of ML training in pull requests.

The public names are loaded when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_score.models import Hardware, Parity, ParityProfile, Profile, Scorecard
    from ci_score.parity import compute_parity
    from ci_score.report.reference import parity_markdown, scorecard_markdown
    from ci_score.scoring import compute_scorecard

__version__ = "0.1.0"

__all__ = [
    "Hardware",
    "Parity",
    "ParityProfile",
    "Profile",
    "Scorecard",
    "compute_parity",
    "compute_scorecard",
    "parity_markdown",
    "scorecard_markdown",
]

_HOMES = {
    "Hardware": "models",
    "Parity": "models",
    "ParityProfile": "models",
    "Profile": "models",
    "Scorecard": "models",
    "compute_parity": "parity",
    "compute_scorecard": "scoring",
    "parity_markdown": "report.reference",
    "scorecard_markdown": "report.reference",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
