"""Which outcomes of a verdict block a merge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ci_score.errors import EXIT_OK, EXIT_REGRESSION, EXIT_UNJUDGED
from ci_score.model.verdict import Outcome, Unjudged, Verdict


class FailOn(StrEnum):
    """Which outcome fails the check."""

    CRITICAL = "critical"
    WARNING = "warning"
    NEVER = "never"


class OnInconclusive(StrEnum):
    """What happens to a run that could not be judged; `auto` decides by the reason."""

    AUTO = "auto"
    FAIL = "fail"
    PASS = "pass"


# Doubts about what a change does. Where it is merged already, not even a proven slowdown blocks.
ABOUT_THE_CHANGE = frozenset(
    {Unjudged.UNCLEAR, Unjudged.CONTRADICTS, Unjudged.NOT_ATTRIBUTABLE, Unjudged.TOO_NOISY}
)


@dataclass(frozen=True, slots=True)
class Gate:
    """How a verdict becomes an exit code; `reports_only` where the change is merged already."""

    fail_on: FailOn = FailOn.CRITICAL
    on_inconclusive: OnInconclusive = OnInconclusive.AUTO
    reports_only: bool = False

    def code_of(self, verdict: Verdict) -> int:
        """The exit code of one verdict."""
        if self._fails(verdict):
            return EXIT_REGRESSION
        if self.reports_only and verdict.unjudged in ABOUT_THE_CHANGE:
            return EXIT_OK
        if verdict.outcome is Outcome.INCONCLUSIVE:
            passes = {
                OnInconclusive.AUTO: verdict.may_pass,
                OnInconclusive.FAIL: False,
                OnInconclusive.PASS: True,
            }
            return EXIT_OK if passes[self.on_inconclusive] else EXIT_UNJUDGED
        if verdict.outcome is Outcome.WARN and self._is_strict:
            # A warning without proof is no regression, and not what this gate lets pass.
            return EXIT_UNJUDGED
        return EXIT_OK

    @property
    def _is_strict(self) -> bool:
        return self.fail_on is FailOn.WARNING and not self.reports_only

    def _fails(self, verdict: Verdict) -> bool:
        if self.reports_only or self.fail_on is FailOn.NEVER:
            return False
        return verdict.outcome is Outcome.FAIL or (self._is_strict and verdict.slower)
