"""What a process says to the workflow. Exit 1 is a regression on which the policy fails, alone."""

from __future__ import annotations

from ci_score.errors import EXIT_OK, EXIT_REGRESSION, EXIT_UNJUDGED
from ci_score.model.gate import Gate
from ci_score.model.record import Record


def exit_code(record: Record, gate: Gate) -> int:
    """The exit code of a whole report: a regression first, then what was not judged.

    A policy that is only being introduced says how it would have ended, and ends well.
    """
    if record.enforce == "shadow":
        return EXIT_OK
    codes = [gate.code_of(verdict) for verdict in record.verdicts]
    if EXIT_REGRESSION in codes:
        return EXIT_REGRESSION
    if any(case.verdict is None for case in record.cases):
        return EXIT_UNJUDGED
    return max(codes, default=EXIT_UNJUDGED)
