"""A gate on what nobody measures would always pass, so it is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ci_score.errors import WrongUseError
from ci_score.judge.policy import Policy, rules_of
from ci_score.model.lists import did_you_mean
from ci_score.model.stages import BaselineFound, Compared


def refuse_idle_gates(policy: Policy, cases: Sequence[Compared]) -> None:
    """WrongUseError where no case measures a gated metric; a `[[case]]` table speaks of its cases.

    What the baseline has measured is lost, and not wrong: that is judged, and published.
    """
    measured = [case.measured for case in cases]
    bases = [case.baseline.case for case in cases if isinstance(case.baseline, BaselineFound)]
    special = ((rule.applies_to, rule.metrics) for rule in policy.case)
    for applies_to, metrics in ((_any_case, policy.metrics), *special):
        gates = {
            case.name: rules_of(policy, case.name, in_pairs=case.has_both_sides).gates
            for case in measured
            if case.has_a_time and applies_to(case.name)
        }
        for name in metrics:
            rows = [
                (gate, case)
                for case in measured
                for gate in gates.get(case.name, ())
                if gate.metric.name == name and gate.gate
            ]
            known = [case for _, case in rows] + [base for base in bases if base.name in gates]
            if rows and not any(rows[0][0].metric.value(case) is not None for case in known):
                where = "no case measures" if len(rows) > 1 else f"the case {rows[0][1].name} lacks"
                others = [other for case in measured for other in case.metrics]
                raise WrongUseError(
                    f"the policy gates {name}, which {where}; measure it (in the profile, or as"
                    " `metrics` of the measurements) or take the gate out"
                    f"{did_you_mean(name, others)}"
                )


def _any_case(_name: str) -> bool:
    return True
