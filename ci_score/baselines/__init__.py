"""Where a baseline comes from: one port, and one file for each kind of store."""

from __future__ import annotations

from typing import Protocol

from ci_score.models import Baseline, Environment


class BaselineStore(Protocol):
    """Finds the nearest usable earlier record of a case, or says why there is none."""

    def find(self, case: str, environment: Environment) -> Baseline:
        """The baseline of `case` as measured in `environment`."""
        ...
