"""Which limits hold where nobody wrote any, and what is told of a small slowdown; whole command."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_score.model.profile import Profile
from ci_score.model.verdict import Outcome
from ci_score.report.headlines import headline
from ci_score.traces import normalised
from tests.builders import write
from tests.builders.whole_run import TRAINING, alone, branch, held, judged, session

REFERENCE = 'schema = 1\nrules = "reference"\n'
NO_RULES = "schema = 1\n[measure]\nfalse_fail = 0.004\n"
FAIL, WARN, PASS = Outcome.FAIL, Outcome.WARN, Outcome.PASS


@pytest.mark.parametrize(
    ("policy", "ms", "outcome"),
    [
        (None, 114.0, FAIL),
        (None, 104.0, WARN),
        (None, 102.0, PASS),
        (None, 100.0, PASS),
        (NO_RULES, 114.0, FAIL),
        (REFERENCE, 114.0, WARN),
        (REFERENCE, 130.0, FAIL),
        (TRAINING, 114.0, FAIL),
    ],
)
def test_pairs__without_named_rules_have_the_limits_that_init_writes(
    here: Path, policy: str | None, ms: float, outcome: Outcome
) -> None:
    """A real slowdown of 14 % is no pass of 20 %; who names the reference's rules has them."""
    code, report = judged(here, *session(ms), policy=policy)
    (case,) = held(here).cases
    assert case.verdict is not None
    assert (case.verdict.outcome, code) == (outcome, int(outcome is FAIL))
    named = "reference" if policy == REFERENCE else "training"
    assert f"{named} rules" in report.replace("\xa0", " ")


@pytest.mark.parametrize(("ms", "code"), [(114.0, 0), (130.0, 1)])
def test_one_number__without_a_policy_has_the_reference_s_limits(
    here: Path, ms: float, code: int
) -> None:
    """Its 10 and 20 % are of single numbers, which need more room."""
    branch(here)
    found, report = judged(here, *alone(ms), policy=None)
    assert (found, "reference rules" in report.replace("\xa0", " ")) == (code, True)


def test_estimate__beyond_the_limit_that_warns_is_no_pass(here: Path) -> None:
    """Six pairs prove nothing, and 4 % slower is beyond the 3 % all the same."""
    code, report = judged(here, *session(104.0, pairs=6), policy=None)
    assert (code, "✅" in report.splitlines()[0]) == (0, False)
    (case,) = held(here).cases
    assert case.verdict is not None
    assert (case.verdict.outcome, case.verdict.slower) == (WARN, False)
    assert "perhaps beyond the limit that warns" in report
    assert headline(case).startswith("Warning: 4 % slower, within the 5.3 % limit")


@pytest.mark.parametrize(
    ("ms", "told"),
    [(102.0, "Pass: 2 % slower"), (104.0, "Warning: 4 % slower"), (110.0, "Fail: 10 % slower")],
)
def test_cause__of_whatever_is_proven_is_shown(here: Path, ms: float, told: str) -> None:
    """A small slowdown passes, and says why it is there."""
    write(here / "perf" / "session.json", "{}")
    for side, step in (("head", ms), ("base", 100.0)):
        traced = Profile(
            steps=3,
            avg_step_ms=step,
            device_busy_ms=step - 5.0,
            compute_ms=step - 5.0,
            ops={"gelu": step - 65.0, "matmul": 60.0},
            op_counts={"gelu": 10, "matmul": 10},
            op_kinds={"gelu": "elementwise", "matmul": "gemm"},
            op_categories={"elementwise": step - 65.0, "gemm": 60.0},
        )
        write(here / "perf" / "profiles" / side / "p.json", normalised(traced))
    judged(here, *session(ms), policy=None)
    (case,) = held(here).cases
    assert headline(case).startswith(told)
    assert case.explanation is not None
    assert case.explanation.cause is not None
    assert "gelu" in headline(case)
