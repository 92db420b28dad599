"""Whether one cheap run looks wrong; only then is the expensive A/B measurement worth it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci_score.errors import EXIT_OK, EXIT_SUSPICIOUS, EXIT_UNJUDGED
from ci_score.judge.policy import PolicyFile, policy_of
from ci_score.model.record import Record
from ci_score.model.verdict import Outcome, Unjudged

# Faults of the run itself, and what may be slower; all other reasons are about what it is compared
# with.
_WRONG = frozenset(
    {
        Unjudged.UNCLEAR,
        Unjudged.CONTRADICTS,
        Unjudged.NOT_ATTRIBUTABLE,
        Unjudged.VOID,
        Unjudged.CRASHED_RUN,
        Unjudged.OTHER_WORK,
        Unjudged.REQUIRED_CASE_MISSING,
        Unjudged.KNOWN_CASE_MISSING,
    }
)


def exit_code_of(record: Record) -> int:
    """The exit code: something looks wrong, nothing does, or it cannot be decided."""
    verdicts = record.verdicts
    if any(
        verdict.outcome in (Outcome.FAIL, Outcome.WARN) or verdict.unjudged in _WRONG
        for verdict in verdicts
    ):
        return EXIT_SUSPICIOUS
    all_pass = bool(verdicts) and all(verdict.outcome is Outcome.PASS for verdict in verdicts)
    return EXIT_OK if all_pass else EXIT_UNJUDGED


def for_one_run(file: PolicyFile | None) -> PolicyFile | None:
    """The policy without its `design`, because the measurement that it asks for may follow."""
    return None if file is None else policy_of(_for_one_run(file.table), "the policy")


def _for_one_run(table: Mapping[str, Any]) -> dict[str, Any]:
    cases = [_any_design(case) for case in table.get("case", ())]
    return {**_any_design(table), **({"case": cases} if cases else {})}


def _any_design(table: Mapping[str, Any]) -> dict[str, Any]:
    measure = table.get("measure")
    if measure is None:
        return dict(table)
    kept = {key: value for key, value in measure.items() if key != "design"}
    return {**table, "measure": kept}
