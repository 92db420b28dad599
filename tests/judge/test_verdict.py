"""The judgement: what fails, what warns, and that nothing measured is never a pass."""

from __future__ import annotations

import random

import pytest

from benchmarks.hosts import HOST_KINDS, Model, host_trace, usual
from ci_score.compare import Workload, measured_case
from ci_score.judge import exit_code
from ci_score.model.environment import Environment
from ci_score.model.explanation import Timeline
from ci_score.model.gate import FailOn, Gate, OnInconclusive
from ci_score.model.reasons import Why, quoted
from ci_score.model.record import Judged, Measured, Record
from ci_score.model.scorecard import Scorecard, Severity
from ci_score.model.stages import BaselineMissing, CaseInput
from ci_score.model.verdict import HARMLESS, JudgedBy, Outcome, Unjudged, Verdict, unjudged
from ci_score.report.headlines import headline
from ci_score.report.sentences import sentence, sentences
from ci_score.traces import ProfileSource, read_profile
from tests.builders import case, found, on, record, scorecard
from tests.builders.verdicts import change_lines, judged_case, policy
from tests.builders.verdicts import verdict_on as verdict

NEVER = FailOn.NEVER


def judged(head: Scorecard, base: Scorecard) -> Judged:
    return judged_case(case(card=head), found(case(card=base)))


def with_verdicts(*outcomes: Outcome, why: Unjudged = Unjudged.NOTHING_MEASURED) -> Record:
    """Cases with these outcomes; `why` is of those that were not judged."""
    not_judged = unjudged(why, Why.NO_BASELINE(why=why.value))
    return record(
        *(
            case(
                name=f"case-{number}",
                verdict=not_judged
                if outcome is Outcome.INCONCLUSIVE
                else Verdict(outcome=outcome, decided_by=Why.NO_TIME()),
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


def test_judge__a_fall_in_coverage_of_a_faster_step_is_no_warning() -> None:
    """Wall coverage is a diagnostic: where the time itself fell, it is only reported."""
    faster = judged(scorecard(80.0, 1000.0, wall_coverage=0.1), scorecard(100.0, 800.0))
    assert verdict(faster).outcome is Outcome.PASS
    assert faster.scorecard.regressions == ()
    (coverage,) = [one for one in faster.changes if one.metric == "wall_coverage"]
    assert coverage.reasons == (Why.OF_A_FASTER_STEP(),)
    hardly = judged(scorecard(99.5, 804.0, wall_coverage=0.1), scorecard(100.0, 800.0))
    assert verdict(hardly).outcome is Outcome.WARN


def sided(step_ms: float, backward_ms: float, swiglu_ms: float) -> Judged:
    phases = {"forward": 30.0, "backward": backward_ms}
    return case(
        card=scorecard(step_ms),
        phases=phases,
        ops={"gemm": 20.0, "swiglu_bwd": swiglu_ms},
        timeline=Timeline(basis="phases", step_ms=step_ms, parts=phases),
    )


def test_judge__says_what_and_where_and_how_sure() -> None:
    """The headline names the change and its cause, and says that it is one run a side."""
    judged_head = judged_case(sided(150.0, 115.0, 60.0), found(sided(100.0, 65.0, 10.0)))
    assert headline(judged_head) == (
        "Fail: 50 % slower · 100 → 150 ms/step · one run per side: mostly 'swiglu_bwd': 6× as"
        " long (10.0 → 60.0 ms a step) in the backward"
    )
    assert change_lines(judged_head) == ["Step time +50 % (100 → 150 ms): critical"]
    assert verdict(judged_head).reasons == ()
    gated = [change for change in judged_head.changes if change.outcome is not None]
    assert {change.judged_by for change in gated} == {JudgedBy.ONE_NUMBER}
    assert judged_head.explanation
    assert judged_head.explanation.cause
    assert judged_head.explanation.cause.code is Why.ONE_OP


def test_judge__gives_no_reason_for_what_is_not_worse() -> None:
    """Within the limits the parts of the step stay, and no sentence."""
    judged_head = judged_case(sided(105.0, 70.0, 15.0), found(sided(100.0, 65.0, 10.0)))
    assert headline(judged_head) == (
        "Pass: 5 % slower in one run, could be noise · 100 → 105 ms/step"
    )
    assert judged_head.explanation
    assert judged_head.explanation.cause is None
    assert judged_head.explanation.delta_ms == 5.0


def test_judge__says_what_a_faster_step_gained_by() -> None:
    """An improvement is news: it has its cause as a slowdown has."""
    head, base = sided(100.0, 65.0, 10.0), sided(150.0, 115.0, 60.0)
    head = head.but(scorecard=scorecard(100.0, 900.0))
    base = base.but(scorecard=scorecard(150.0, 600.0))
    judged_head = judged_case(head, found(base))
    assert headline(judged_head) == (
        "Pass: 33 % faster in one run, could be noise · 150 → 100 ms/step: mostly "
        "'swiglu_bwd': 83 % shorter (60.0 → 10.0 ms a step) in the backward"
    )
    assert judged_head.verdict
    assert judged_head.verdict.outcome is Outcome.PASS


def profiled(model: Model, step_ms: float) -> Measured:
    """A side with a measured time, and beside it the profile of a step on a CPU."""
    trace = ProfileSource("trace.json", data=host_trace(model, random.Random(5)))  # noqa: S311
    of_profile = measured_case(CaseInput("training", read_profile(trace)), Workload())
    environment = of_profile.environment.but(timing="unprofiled")
    return of_profile.but(scorecard=scorecard(step_ms), environment=environment)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("host, attention by hand", " is gone; bmm, softmax and masked_fill do its work"),
        (
            "host, items in a loop",
            "the profiles do not show where, but 'item' is new, 1,000 calls a step",
        ),
        ("host, slow Python", "100 → 150 ms/step · one run per side"),
    ],
)
def test_judge__a_profile_that_others_slowed_leaves_what_is_counted(kind: str, said: str) -> None:
    """Its times do not explain the slowdown; what the program calls is the same all the same."""
    disturbed, _ = HOST_KINDS["host, machine slower"](30_000.0)
    planted, _ = HOST_KINDS[kind](10_000.0)
    one = judged_case(profiled(planted, 150.0), found(profiled(disturbed, 100.0)))
    assert headline(one).endswith(said)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "host, attention by hand",
            "but 'scaled_dot_product_attention' is gone; bmm, softmax and masked_fill do its work",
        ),
        ("host, operator slower", "100 → 130 ms/step · one run per side"),
    ],
)
def test_judge__a_profile_of_a_far_larger_change_leaves_what_is_counted(
    kind: str, said: str
) -> None:
    """The one launch that was profiled was disturbed: what took longest in it explains nothing."""
    planted, _ = HOST_KINDS[kind](1_000.0)
    planted.slower = 2.5
    one = judged_case(profiled(planted, 130.0), found(profiled(usual(), 100.0)))
    assert headline(one).endswith(said)


def test_judge__gives_no_cause_for_a_gain_within_the_noise() -> None:
    """One number a side that is faster by less than what would warn proves nothing."""
    judged_head = judged_case(sided(100.0, 65.0, 10.0), found(sided(105.0, 70.0, 15.0)))
    assert judged_head.explanation
    assert judged_head.explanation.cause is None


def test_judge__of_one_number_has_no_upper_end() -> None:
    """A pass of the fixed rule says how little it is."""
    same = judged(scorecard(), scorecard())
    assert verdict(same).upper_end is None
    assert headline(same) == "Pass: the same time in one run · 100 → 100 ms/step"


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
    crashed = case(card=scorecard(50.0, 2000.0), unmeasured=quoted("the run crashed"))
    done = judged_case(crashed, found(case()))
    assert verdict(done).outcome is Outcome.INCONCLUSIVE
    assert headline(done) == "Not judged: the run crashed"


def test_judge__a_crashed_case_still_says_which_versions_changed() -> None:
    """They may be why it crashed."""
    crashed = case(
        environment=Environment(versions={"torch": "2.9"}), unmeasured=quoted("the run crashed")
    )
    base = case(environment=Environment(versions={"torch": "2.8"}))
    done = judged_case(crashed, found(base))
    assert done.baseline is not None
    assert done.baseline.changed_versions == ("torch 2.8 → 2.9",)


def test_judge__other_hardware_is_never_a_regression() -> None:
    """Whoever brings the baseline: what was measured on something else is not compared."""
    head = case(card=scorecard(300.0), environment=on("L4"))
    said = verdict(judged_case(head, found(case(environment=on("H100 SXM 80GB")))))
    assert said.unjudged is Unjudged.ENVIRONMENT_CHANGED
    assert sentences(said.reasons) == ["accelerator: L4 here, H100 SXM 80GB there"]


def test_judge__a_throughput_of_unknown_devices_is_not_compared() -> None:
    """Eight devices' share against a whole job would be a regression of 87 %."""
    head = case(card=scorecard(100.0, 125.0), environment=on(None, 8))
    result = judged_case(head, found(case(card=scorecard(100.0, 1000.0))))
    assert verdict(result).outcome is Outcome.PASS
    why = result.changes[0].not_compared
    assert why is not None
    assert sentence(why) == "only one side knows how many devices it ran on"


def test_judge__a_step_of_another_size_is_other_work() -> None:
    """Twice the batch is not compared, unless the policy says that it may be."""
    head = case(card=scorecard(186.0, 1075.0), tokens_per_step=16384.0)
    base = case(card=scorecard(100.0, 1000.0), tokens_per_step=8192.0)
    assert verdict(judged_case(head, found(base))).unjudged is Unjudged.OTHER_WORK
    per_token = policy(environment={"same_work": []})
    result = judged_case(head, found(base), per_token)
    assert verdict(result).outcome is Outcome.PASS
    why = result.changes[1].not_compared
    assert why is not None
    assert sentence(why) == "16,384 tokens a step here, 8,192 there"


def test_judge__most_of_it_is_only_said_where_it_is() -> None:
    """A phase of 5 ms is not where most of 100 ms went."""
    head = case(card=scorecard(400.0), phases={"a": 105.0})
    base = case(card=scorecard(300.0), phases={"a": 100.0})
    assert "most of it" not in headline(judged_case(head, found(base)))


def test_exit__on_a_merged_branch_a_regression_is_only_reported() -> None:
    """The default branch exits 0 on a regression, and not on broken input."""
    gate = Gate(reports_only=True)
    assert exit_code(with_verdicts(Outcome.FAIL), gate) == 0
    broken = with_verdicts(Outcome.INCONCLUSIVE, why=Unjudged.NOTHING_MEASURED)
    assert exit_code(broken, gate) == 3


def test_exit__a_case_without_a_verdict_is_not_a_pass() -> None:
    """What nobody judged blocks."""
    mixed = record(case("a"), *with_verdicts(Outcome.PASS).cases)
    assert exit_code(mixed, Gate()) == 3


@pytest.mark.parametrize("reason", [*Unjudged])
def test_judge__a_missing_baseline_is_inconclusive_with_its_reason(reason: Unjudged) -> None:
    """Absence is a type with a reason, and the reason reaches the verdict."""
    done = judged_case(case(), BaselineMissing(reason, quoted("why")))
    said = verdict(done)
    assert (said.outcome, said.unjudged) == (Outcome.INCONCLUSIVE, reason)
    assert said.decided_by == Why.NO_BASELINE(why=reason.value)
    begins = {
        Unjudged.FIRST_RUN: "First run: ",
        Unjudged.NEW_CASE: "New case: ",
    }
    assert headline(done).startswith(begins.get(reason, "Not judged: "))
    assert sentences(said.reasons) == ["why"]


@pytest.mark.parametrize(
    ("outcome", "slower", "critical", "warning", "never"),
    [
        (Outcome.PASS, False, 0, 0, 0),
        (Outcome.WARN, False, 0, 3, 0),
        (Outcome.WARN, True, 0, 1, 0),
        (Outcome.INCONCLUSIVE, False, 3, 3, 3),
        (Outcome.INCONCLUSIVE, True, 3, 1, 3),
        (Outcome.FAIL, True, 1, 1, 0),
    ],
)
def test_exit__by_fail_on(
    outcome: Outcome, slower: bool, critical: int, warning: int, never: int
) -> None:
    """1 is a proven regression that the user asked to fail on; a warning without proof is 3."""
    (one,) = with_verdicts(outcome).cases
    judged = record(one.but(verdict=verdict(one).but(slower=slower)))
    assert exit_code(judged, Gate()) == critical
    assert exit_code(judged, Gate(FailOn.WARNING)) == warning
    assert exit_code(judged, Gate(NEVER)) == never


@pytest.mark.parametrize("reason", [*Unjudged])
def test_exit__inconclusive_by_reason(reason: Unjudged) -> None:
    """A healthy beginning passes with a notice, everything else blocks; both can be overruled."""
    judged = with_verdicts(Outcome.INCONCLUSIVE, why=reason)
    assert exit_code(judged, Gate(NEVER)) == (0 if reason in HARMLESS else 3)
    assert exit_code(judged, Gate(NEVER, OnInconclusive.FAIL)) == 3
    assert exit_code(judged, Gate(NEVER, OnInconclusive.PASS)) == 0


def test_exit__the_reasons_that_do_not_block() -> None:
    """The beginnings of a life, noise that was measured and said, and what was not needed."""
    assert {reason.value for reason in HARMLESS} == {
        "first_run",
        "expired",
        "new_case",
        "not_needed",
        "too_noisy",
    }


def test_exit__a_regression_outranks_what_could_not_be_judged() -> None:
    """Fail > inconclusive > warn > pass, for the report and for its exit code."""
    both = with_verdicts(Outcome.INCONCLUSIVE, Outcome.FAIL, Outcome.WARN, why=Unjudged.API_DOWN)
    assert both.outcome is Outcome.FAIL
    assert exit_code(both, Gate()) == 1
    assert exit_code(both, Gate(NEVER)) == 3
    assert with_verdicts(Outcome.WARN, Outcome.PASS).outcome is Outcome.WARN


def test_exit__a_report_of_nothing_is_not_a_pass() -> None:
    """No case, no verdict: exit 3."""
    empty = record().but(cases=())
    assert empty.outcome is Outcome.INCONCLUSIVE
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


def test_exit__of_a_policy_in_the_shadow_is_0() -> None:
    """A gate that is being introduced says what it would have done, and blocks nobody."""
    for outcome in Outcome:
        assert exit_code(with_verdicts(outcome).but(enforce="shadow"), Gate()) == 0
