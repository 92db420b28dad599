"""Where a baseline comes from: one port, and one file for each kind of store."""

from __future__ import annotations

from typing import Any, Protocol

from ci_score.model.environment import Environment
from ci_score.model.record import HistoryPoint
from ci_score.model.stages import Baseline


class BaselineStore(Protocol):
    """Finds the nearest usable earlier record of a case, or says why there is none."""

    def find(self, case: str, environment: Environment) -> Baseline:
        """The baseline of `case` as measured in `environment`."""
        ...

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """What the nearest records remember of earlier runs."""
        ...

    def known_cases(self) -> frozenset[str]:
        """The cases of the nearest record: one of them that is missing now is said."""
        ...

    def policy(self) -> dict[str, Any] | None:
        """The rules that travel with the nearest record; None where there is no such record."""
        ...
