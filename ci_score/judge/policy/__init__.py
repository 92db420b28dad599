"""The rules of a team: `.github/ci-score.toml`, read strictly and resolved for each case.

The file says what is gated, how sure the gate must be and what happens to a run that could not be
judged. An unknown key is an error with a suggestion; contradictory limits are an error as well.
"""

from ci_score.judge.policy.reading import (
    LARGEST_POLICY,
    PolicyFile,
    mistakes_in_file,
    passes,
    policy_of,
    policy_schema,
    read_policy,
)
from ci_score.judge.policy.resolving import CaseRules, GateRule, rules_of
from ci_score.judge.policy.tables import ParityRule, Policy

__all__ = [
    "LARGEST_POLICY",
    "CaseRules",
    "GateRule",
    "ParityRule",
    "Policy",
    "PolicyFile",
    "mistakes_in_file",
    "passes",
    "policy_of",
    "policy_schema",
    "read_policy",
    "rules_of",
]
