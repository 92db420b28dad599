"""Whether one cheap run looks wrong; only then is the expensive A/B measurement worth it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ci_score.baselines import BaselineStore
from ci_score.errors import EXIT_OK, EXIT_SUSPICIOUS, EXIT_UNJUDGED
from ci_score.judge.policy import PolicyFile, policy_of
from ci_score.model.environment import Environment
from ci_score.model.record import HistoryPoint, Record
from ci_score.model.stages import Baseline
from ci_score.model.verdict import Outcome, Unjudged

# Faults of the run itself; all other reasons are about what it is compared with.
_WRONG = frozenset(
    {
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


@dataclass(frozen=True, slots=True)
class ForOneRun:
    """A store whose policy does not ask for a design of the measurement."""

    store: BaselineStore

    def find(self, case: str, environment: Environment) -> Baseline:
        """The store's baseline."""
        return self.store.find(case, environment)

    def history(self, most_records: int) -> tuple[HistoryPoint, ...]:
        """The store's history."""
        return self.store.history(most_records)

    def known_cases(self) -> frozenset[str]:
        """The store's known cases."""
        return self.store.known_cases()

    def policy(self) -> dict[str, Any] | None:
        """The store's policy, without its `design`."""
        table = self.store.policy()
        return None if table is None else _for_one_run(table)
