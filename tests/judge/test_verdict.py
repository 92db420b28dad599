"""The judgement: what fails, what warns, and that nothing measured is never a pass."""

from __future__ import annotations

import pytest

from ci_score.judge.trials import judged_case
from ci_score.judge.verdict import HARMLESS, FailOn, Gate, OnInconclusive, exit_code, report_outcome
from ci_score.model.explanation import Timeline
from ci_score.model.record import CaseRecord, Record
from ci_score.model.scorecard import Scorecard, Severity
from ci_score.model.stages import BaselineMissing
from ci_score.model.verdict import Outcome, Unjudged, Verdict
from tests.builders import case, found, on, record, scorecard

NEVER = FailOn.NEVER


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


def sided(step_ms: float, backward_ms: float, swiglu_ms: float) -> CaseRecord:
    phases = {"forward": 30.0, "backward": backward_ms}
    return case(
        card=scorecard(step_ms),
        phases=phases,
        ops={"gemm": 20.0, "swiglu_bwd": swiglu_ms},
        timeline=Timeline(basis="phases", step_ms=step_ms, parts=phases),
    )


def test_judge__says_what_and_where_and_how_sure() -> None:
    """The headline names the change and its cause; the basis says that it is unverified."""
    judged_head = judged_case(sided(150.0, 115.0, 60.0), found(sided(100.0, 65.0, 10.0)))
    said = verdict(judged_head)
    assert said.headline == (
        "50.0 % slower (100 ms → 150 ms a step) (unverified): 'swiglu_bwd' takes 10.0 ms → 60.0"
        " ms a step"
        " in the backward (+50.0 ms)"
    )
    assert said.reasons == ("Step time +50.0 % (100 ms → 150 ms): critical",)
    assert "Unverified" in (said.basis or "")
    assert judged_head.explanation
    assert judged_head.explanation.sentence


def test_judge__gives_no_reason_for_what_is_not_worse() -> None:
    """Within the limits the parts of the step stay, and no sentence."""
    judged_head = judged_case(sided(105.0, 70.0, 15.0), found(sided(100.0, 65.0, 10.0)))
    assert verdict(judged_head).headline == "No slowdown beyond 10 % (unverified)"
    assert judged_head.explanation
    assert judged_head.explanation.sentence is None
    assert judged_head.explanation.delta_ms == 5.0


def test_judge__names_the_smallest_slowdown_it_could_have_seen() -> None:
    """A pass of the fixed rule says nothing about what is below its limit, and says so."""
    said = verdict(judged(scorecard(), scorecard()))
    assert said.smallest_visible_slowdown == 0.10
    assert said.headline == "No slowdown beyond 10 % (unverified)"


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


def test_judge__coverage_alone_is_no_comparison() -> None:
    """A share of the wall time says nothing about how long anything takes."""
    head, base = scorecard(step_ms=0.0, tok_s=5.0), scorecard(step_ms=100.0, tok_s=0.0)
    assert verdict(judged(head, base)).unjudged is Unjudged.NOTHING_MEASURED


def test_judge__a_case_that_says_why_it_was_not_measured_is_believed() -> None:
    """A crashed run may report numbers, and more throughput than a whole one."""
    crashed = case(card=scorecard(50.0, 2000.0), unmeasured="the run crashed")
    said = verdict(judged_case(crashed, found(case())))
    assert (said.outcome, said.headline) == (
        Outcome.INCONCLUSIVE,
        "Not judged: the run crashed",
    )


def test_judge__other_hardware_is_never_a_regression() -> None:
    """Whoever brings the baseline: what was measured on something else is not compared."""
    head = case(card=scorecard(300.0), environment=on("L4"))
    said = verdict(judged_case(head, found(case(environment=on("H100 SXM 80GB")))))
    assert said.unjudged is Unjudged.ENVIRONMENT_CHANGED
    assert said.reasons == ("accelerator: L4 here, H100 SXM 80GB there",)


def test_judge__a_throughput_of_unknown_devices_is_not_compared() -> None:
    """Eight devices' share against a whole job would be a regression of 87 %."""
    head = case(card=scorecard(100.0, 125.0), environment=on(None, 8))
    result = judged_case(head, found(case(card=scorecard(100.0, 1000.0))))
    assert verdict(result).outcome is Outcome.PASS
    assert result.changes[0].not_compared == "only one side knows how many devices it ran on"


def test_judge__a_step_of_another_size_is_compared_by_throughput_alone() -> None:
    """Twice the batch takes longer a step and is no regression."""
    head = case(card=scorecard(186.0, 1075.0), tokens_per_step=16384.0)
    base = case(card=scorecard(100.0, 1000.0), tokens_per_step=8192.0)
    result = judged_case(head, found(base))
    assert verdict(result).outcome is Outcome.PASS
    assert result.changes[1].not_compared == "16384 tokens a step here, 8192 there"


def test_judge__most_of_it_is_only_said_where_it_is() -> None:
    """A phase of 5 ms is not where most of 100 ms went."""
    head = case(card=scorecard(400.0), phases={"a": 105.0})
    base = case(card=scorecard(300.0), phases={"a": 100.0})
    assert "most of it" not in verdict(judged_case(head, found(base))).headline


def test_exit__on_a_merged_branch_a_regression_is_only_reported() -> None:
    """The default branch exits 0 on a regression, and not on broken input."""
    gate = Gate(reports_only=True)
    assert exit_code(with_verdicts(Outcome.FAIL), gate) == 0
    broken = with_verdicts(Outcome.INCONCLUSIVE, unjudged=Unjudged.NOTHING_MEASURED)
    assert exit_code(broken, gate) == 3


def test_exit__a_case_without_a_verdict_is_not_a_pass() -> None:
    """What nobody judged blocks."""
    mixed = record(case("a"), *with_verdicts(Outcome.PASS).cases)
    assert exit_code(mixed, Gate()) == 3


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
    assert exit_code(judged, Gate()) == critical
    assert exit_code(judged, Gate(FailOn.WARNING)) == warning
    assert exit_code(judged, Gate(NEVER)) == never


@pytest.mark.parametrize("reason", [*Unjudged])
def test_exit__inconclusive_by_reason(reason: Unjudged) -> None:
    """A healthy beginning passes with a notice, everything else blocks; both can be overruled."""
    judged = with_verdicts(Outcome.INCONCLUSIVE, unjudged=reason)
    assert exit_code(judged, Gate(NEVER)) == (0 if reason in HARMLESS else 3)
    assert exit_code(judged, Gate(NEVER, OnInconclusive.FAIL)) == 3
    assert exit_code(judged, Gate(NEVER, OnInconclusive.PASS)) == 0


def test_exit__the_reasons_that_do_not_block() -> None:
    """The beginnings of a life (first run, expired, new), and noise that was measured and said."""
    assert {reason.value for reason in HARMLESS} == {
        "first run",
        "expired",
        "a new case",
        "no baseline for this environment on a new case",
        "too noisy to tell",
    }


def test_exit__a_regression_outranks_what_could_not_be_judged() -> None:
    """Fail > inconclusive > warn > pass, for the report and for its exit code."""
    both = with_verdicts(
        Outcome.INCONCLUSIVE, Outcome.FAIL, Outcome.WARN, unjudged=Unjudged.API_DOWN
    )
    assert report_outcome(both) is Outcome.FAIL
    assert exit_code(both, Gate()) == 1
    assert exit_code(both, Gate(NEVER)) == 3
    assert report_outcome(with_verdicts(Outcome.WARN, Outcome.PASS)) is Outcome.WARN


def test_exit__a_report_of_nothing_is_not_a_pass() -> None:
    """No case, no verdict: exit 3."""
    empty = record().model_copy(update={"cases": ()})
    assert report_outcome(empty) is Outcome.INCONCLUSIVE
    assert exit_code(empty, Gate()) == 3


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
