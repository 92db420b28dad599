"""The judgement: what fails, what warns, and that nothing measured is never a pass."""

from __future__ import annotations

import pytest

from ci_score.models import (
    BaselineMissing,
    CaseRecord,
    Outcome,
    Record,
    Scorecard,
    Severity,
    Unjudged,
    Verdict,
)
from ci_score.pipeline import judged_case
from ci_score.verdict import HARMLESS, FailOn, OnInconclusive, exit_code, report_outcome
from tests.builders import case, found, record, scorecard

AUTO, NEVER = OnInconclusive.AUTO, FailOn.NEVER


def judged(head: Scorecard, base: Scorecard) -> CaseRecord:
    return judged_case(case(card=head), found(case(card=base)))


def verdict(judged: CaseRecord) -> Verdict:
    assert judged.verdict is not None
    return judged.verdict


def with_verdicts(*outcomes: Outcome, unjudged: Unjudged | None = None) -> Record:
    return record(
        *(
            case(
                name=f"case-{number}",
                verdict=Verdict(outcome=outcome, headline="x", unjudged=unjudged),
            )
            for number, outcome in enumerate(outcomes)
        )
    )


@pytest.mark.parametrize(
    ("step_ms", "outcome"),
    [
        (50.0, Outcome.PASS),
        (100.0, Outcome.PASS),
        (110.0, Outcome.PASS),
        (110.1, Outcome.WARN),
        (120.0, Outcome.WARN),
        (120.1, Outcome.FAIL),
    ],
)
def test_judge__follows_the_reference_s_limits(step_ms: float, outcome: Outcome) -> None:
    """Beyond 10 % warns, beyond 20 % fails, exactly at the limit does neither."""
    assert verdict(judged(scorecard(step_ms), scorecard(100.0))).outcome is outcome


def test_judge__a_fall_in_coverage_only_warns() -> None:
    """The reference knows no critical limit for wall coverage."""
    assert verdict(judged(scorecard(wall_coverage=0.1), scorecard())).outcome is Outcome.WARN


def test_judge__says_what_and_where_and_how_sure() -> None:
    """The headline names the change and its places; the basis says that it is unverified."""
    head = case(
        card=scorecard(150.0),
        phases={"forward": 30.0, "backward": 115.0},
        ops={"gemm": 20.0, "swiglu_bwd": 60.0},
    )
    base = case(
        card=scorecard(100.0),
        phases={"forward": 30.0, "backward": 65.0},
        ops={"gemm": 20.0, "swiglu_bwd": 10.0},
    )
    said = verdict(judged_case(head, found(base)))
    assert said.headline == (
        "Step time +50.0 % (100 ms → 150 ms), most of it in phase backward (+50.0 ms)"
        " and op swiglu_bwd (+50.0 ms)"
    )
    assert said.reasons == ("Step time +50.0 % (100 ms → 150 ms): critical",)
    assert "Unverified" in (said.basis or "")
    assert not said.verified


def test_judge__names_the_smallest_slowdown_it_could_have_seen() -> None:
    """A pass of the fixed rule says nothing about what is below its limit, and says so."""
    said = verdict(judged(scorecard(), scorecard()))
    assert said.smallest_visible_slowdown == 0.10
    assert said.headline == "No slowdown beyond 10%"


def test_judge__nothing_measured_is_never_a_pass() -> None:
    """An empty head is inconclusive, also against an equally empty baseline."""
    empty = scorecard(step_ms=0.0, tok_s=0.0, wall_coverage=0.0)
    for base in (empty, scorecard()):
        said = verdict(judged(empty, base))
        assert (said.outcome, said.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.NOTHING_MEASURED)


def test_judge__sides_without_a_common_number_are_not_judged() -> None:
    """A step time here and a throughput there cannot be compared."""
    head = scorecard(step_ms=100.0, tok_s=0.0, wall_coverage=0.0)
    base = scorecard(step_ms=0.0, tok_s=10.0, wall_coverage=0.0)
    assert verdict(judged(head, base)).unjudged is Unjudged.NOTHING_MEASURED


def test_judge__a_side_that_is_0_is_not_compared() -> None:
    """A step time that was not measured on one side is no improvement of 100 %."""
    changes = judged(scorecard(step_ms=0.0), scorecard()).changes
    assert [change.delta is None for change in changes] == [False, True, False]


@pytest.mark.parametrize("reason", [*Unjudged])
def test_judge__a_missing_baseline_is_inconclusive_with_its_reason(reason: Unjudged) -> None:
    """Absence is a type with a reason, and the reason reaches the verdict."""
    said = verdict(judged_case(case(), BaselineMissing(reason, "why")))
    assert (said.outcome, said.unjudged) == (Outcome.INCONCLUSIVE, reason)
    assert said.headline.startswith("Not judged: ")
    assert said.reasons == ("why",)


@pytest.mark.parametrize(
    ("outcome", "critical", "warning", "never"),
    [
        (Outcome.PASS, 0, 0, 0),
        (Outcome.WARN, 0, 1, 0),
        (Outcome.FAIL, 1, 1, 0),
    ],
)
def test_exit__by_fail_on(outcome: Outcome, critical: int, warning: int, never: int) -> None:
    """1 is a regression that the user asked to fail on."""
    judged = with_verdicts(outcome)
    assert exit_code(judged, FailOn.CRITICAL, AUTO) == critical
    assert exit_code(judged, FailOn.WARNING, AUTO) == warning
    assert exit_code(judged, NEVER, AUTO) == never


@pytest.mark.parametrize("reason", [*Unjudged])
def test_exit__inconclusive_by_reason(reason: Unjudged) -> None:
    """A healthy beginning passes with a notice, everything else blocks; both can be overruled."""
    judged = with_verdicts(Outcome.INCONCLUSIVE, unjudged=reason)
    assert exit_code(judged, NEVER, AUTO) == (0 if reason in HARMLESS else 3)
    assert exit_code(judged, NEVER, OnInconclusive.FAIL) == 3
    assert exit_code(judged, NEVER, OnInconclusive.PASS) == 0


def test_exit__the_reasons_that_do_not_block() -> None:
    """Exactly the beginnings of a life: first run, expired, new."""
    assert {reason.value for reason in HARMLESS} == {
        "first run",
        "expired",
        "a new case",
        "no baseline for this environment on a new case",
    }


def test_exit__a_regression_outranks_what_could_not_be_judged() -> None:
    """Fail > inconclusive > warn > pass, for the report and for its exit code."""
    both = with_verdicts(
        Outcome.INCONCLUSIVE, Outcome.FAIL, Outcome.WARN, unjudged=Unjudged.API_DOWN
    )
    assert report_outcome(both) is Outcome.FAIL
    assert exit_code(both, FailOn.CRITICAL, AUTO) == 1
    assert exit_code(both, NEVER, AUTO) == 3
    assert report_outcome(with_verdicts(Outcome.WARN, Outcome.PASS)) is Outcome.WARN


def test_exit__a_report_of_nothing_is_not_a_pass() -> None:
    """No case, no verdict: exit 3."""
    empty = record().model_copy(update={"cases": ()})
    assert report_outcome(empty) is Outcome.INCONCLUSIVE
    assert exit_code(empty, FailOn.CRITICAL, AUTO) == 3


def test_judge__worse_never_judges_better() -> None:
    """Along ever slower steps the outcome only rises."""
    ranks = list(Outcome)
    outcomes = [
        ranks.index(verdict(judged(scorecard(100.0 + slower / 2), scorecard(100.0))).outcome)
        for slower in range(100)
    ]
    assert outcomes == sorted(outcomes)


def test_severity__of_a_change_is_the_reference_s() -> None:
    """The table of changes and the scorecard's regressions tell the same."""
    result = judged(scorecard(150.0, 900.0), scorecard(100.0, 1000.0))
    in_table = {change.metric: change.severity for change in result.changes if change.severity}
    in_card = {found.metric: found.severity for found in result.scorecard.regressions}
    assert in_table == in_card == {"step_time_ms": Severity.CRITICAL}
