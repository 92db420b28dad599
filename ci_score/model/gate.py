"""Which outcomes of a verdict block a merge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ci_score.errors import EXIT_OK, EXIT_REGRESSION, EXIT_UNJUDGED
from ci_score.model.verdict import Outcome, Verdict


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


@dataclass(frozen=True, slots=True)
class Gate:
    """How a verdict becomes an exit code; `reports_only` where the change is merged already."""

    fail_on: FailOn = FailOn.CRITICAL
    on_inconclusive: OnInconclusive = OnInconclusive.AUTO
    reports_only: bool = False

    def code_of(self, verdict: Verdict) -> int:
        """The exit code of one verdict."""
        if verdict.outcome is Outcome.INCONCLUSIVE:
            passes = {
                OnInconclusive.AUTO: verdict.may_pass,
                OnInconclusive.FAIL: False,
                OnInconclusive.PASS: True,
            }
            return EXIT_OK if passes[self.on_inconclusive] else EXIT_UNJUDGED
        failing = {
            FailOn.CRITICAL: {Outcome.FAIL},
            FailOn.WARNING: {Outcome.FAIL, Outcome.WARN},
            FailOn.NEVER: set(),
        }
        fails = verdict.outcome in failing[self.fail_on] and not self.reports_only
        return EXIT_REGRESSION if fails else EXIT_OK
