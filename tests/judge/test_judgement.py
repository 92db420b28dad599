"""The judge: every branch of the decision, and what must hold whatever the numbers are."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ci_score.compare import compared
from ci_score.judge.budgets import with_demands
from ci_score.judge.error_budget import shared_chances
from ci_score.judge.evidence import comparable_points
from ci_score.judge.pairs import Pairs
from ci_score.judge.policy import CaseRules, GateRule, rules_of
from ci_score.judge.trial import Demand, Finding, Trial
from ci_score.judge.verdicts import decide
from ci_score.model.environment import Environment
from ci_score.model.explanation import Contribution
from ci_score.model.metrics import MEMORY, STEP_TIME, THROUGHPUT, metric_named
from ci_score.model.reasons import Why
from ci_score.model.record import BaselineUsed, HistoryPoint, Judged, LaunchNumbers, Measured
from ci_score.model.scorecard import Severity
from ci_score.model.stages import BaselineFound, Compared
from ci_score.model.verdict import Acceptance, Change, JudgedBy, Outcome, Unjudged, Verdict
from ci_score.report.headlines import headline
from ci_score.report.sentences import accepted_words, sentence, sentences
from ci_score.report.words import outcome_words
from tests.builders import case, found, on, scorecard
from tests.builders.verdicts import change_lines, reasons
from tests.builders.verdicts import policy as policy_from
from tests.builders.verdicts import verdict_on as said

TOKENS = 100_000.0
LADDER = list(Outcome)
TRAINING: Mapping[str, Any] = {"rules": "training"}


def timed(step_ms: float, **fields: Any) -> Judged:
    """A case whose step takes that long, with the throughput that follows from it."""
    tok_s = TOKENS / step_ms * 1000.0 if step_ms else 0.0
    return case(card=scorecard(step_ms, tok_s), **fields)


def launches(
    head: Iterable[float], base: Iterable[float], numbers: Sequence[int] | None = None
) -> tuple[LaunchNumbers, ...]:
    """The launches of both sides; a pair has one number."""
    sides: tuple[tuple[Literal["head", "base"], Iterable[float]], ...] = (
        ("head", head),
        ("base", base),
    )
    return tuple(
        LaunchNumbers(
            side=side,
            launch=numbers[place] if numbers else place,
            values={STEP_TIME: ms, THROUGHPUT: TOKENS / ms * 1000.0},
        )
        for side, times in sides
        for place, ms in enumerate(times)
    )


def point(step_ms: float, **fields: Any) -> HistoryPoint:
    tok_s = TOKENS / step_ms * 1000.0
    defaults: dict[str, Any] = {"case": "training", "created_at": ""}
    return HistoryPoint(step_time_ms=step_ms, throughput_tok_s=tok_s, **{**defaults, **fields})


def runs(count: int = 30, spread: float = 0.01, level: float = 100.0) -> list[HistoryPoint]:
    """A branch whose runs differ by that much."""
    luck = random.Random(3)  # noqa: S311 - no secret
    return [point(level * (1.0 + luck.gauss(0.0, spread))) for _ in range(count)]


def beside(
    head: Judged,
    base: Judged | None = None,
    *,
    away: int | None = None,
    policy: Mapping[str, Any] = TRAINING,
) -> Compared:
    """The case beside its base, which takes 100 ms where nothing else is said."""
    used = BaselineUsed(source="the branch", of_session=head.has_both_sides, commits_away=away)
    return compared(head, BaselineFound(base or timed(100.0), used), policy_from(policy).metrics)


def judged(
    head: Judged,
    base: Judged | None = None,
    *,
    policy: Mapping[str, Any] = TRAINING,
    history: tuple[HistoryPoint, ...] = (),
    acceptances: Sequence[Acceptance] = (),
    **fields: Any,
) -> Judged:
    both = beside(head, base, policy=policy, **fields)
    (done,) = decide([both], history, policy_from(policy), acceptances)
    return done


def verdict(head: Judged, base: Judged | None = None, **fields: Any) -> Verdict:
    return said(judged(head, base, **fields))


def change(judged_case: Judged, metric: str = THROUGHPUT) -> Change:
    return next(one for one in judged_case.changes if one.metric == metric)


def paired(*percents: float, **fields: Any) -> Judged:
    """Pairs whose head is slower by that much than its base of 100 ms."""
    times = [100.0 + percent for percent in percents]
    return timed(fmean(times), launches=launches(times, [100.0] * len(times)), **fields)


# --- pairs --------------------------------------------------------------------------------------


def test_paired__beyond_the_limit_and_sure_fails() -> None:
    """The headline says by how much, the reason by how much at least."""
    result = judged(eight(12.0))
    assert said(result).outcome is Outcome.FAIL
    assert headline(result) == "Fail: 12 % slower · 100 → 112 ms/step"
    assert change(result).reasons[0].code is Why.PROVEN_BEYOND
    assert "proven: at least 11.8 % slower" in change_lines(result)[0]
    assert (change(result).judged_by, change(result).samples) == (JudgedBy.PAIRED, 8)
    assert change(result).severity is Severity.CRITICAL
    assert change(result).slower
    assert said(result).upper_end == pytest.approx(0.1215, abs=1e-3)


def test_paired__an_improvement_that_is_sure_is_told() -> None:
    """Good news is news, too."""
    result = judged(eight(-10.0))
    assert said(result).outcome is Outcome.PASS
    assert headline(result) == "Pass: 10 % faster · 100 → 90.0 ms/step"


def test_paired__beyond_but_not_sure_is_not_clear_and_says_what_would_settle_it() -> None:
    """A number of pairs, and how many there were."""
    result = judged(paired(8.0, 12.0, 9.0, 11.0))
    assert (said(result).outcome, said(result).unjudged) == (
        Outcome.INCONCLUSIVE,
        Unjudged.UNCLEAR,
    )
    assert change(result).reasons == (Why.UNCLEAR_PAIRS(pairs=4, void=0, more=10),)
    words = "4 pairs are too few, about 10 would tell"
    assert words in change_lines(result)[0]
    assert headline(result) == f"Not judged: perhaps slower: +10 %; {words} · 100 → 110 ms/step"


def test_paired__that_no_number_of_pairs_settles_says_so() -> None:
    """Whoever has such a machine is not sent to measure for days."""
    result = judged(paired(4.3, 6.2, 5.26, 5.0, 5.5, 4.8, 5.7, 5.26))
    assert said(result).unjudged is Unjudged.UNCLEAR
    assert change(result).reasons == (Why.UNCLEAR_PAIRS(pairs=8, void=0, more=None),)
    assert "and more would hardly" in change_lines(result)[0]


def test_count__that_varies_on_a_side_is_none() -> None:
    """Two modes of an allocator are no regression, and no count."""
    head, base = [21.4, 20.0, 21.4, 20.0, 21.4, 21.4], [20.0, 21.4, 20.0, 20.0, 21.4, 20.0]
    rows = [
        LaunchNumbers(
            side=side, launch=number, values={"step_time_ms": 100.0, "peak_memory_gb": value}
        )
        for side, values in (("head", head), ("base", base))
        for number, value in enumerate(values)
    ]
    mine = timed(100.0, launches=tuple(rows), metrics={"peak_memory_gb": 21.4})
    theirs = timed(100.0, metrics={"peak_memory_gb": 20.0})
    found = change(judged(mine, theirs), "peak_memory_gb")
    assert found.outcome is not Outcome.FAIL


def test_paired__what_the_noise_reaches_beyond_is_not_clear() -> None:
    """Neither a pass, nor a warning without reason: with pairs only the interval makes green."""
    result = judged(paired(-20.0, 20.0, 15.0, -15.0, 18.0, -18.0))
    found = said(result)
    assert (found.outcome, found.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.UNCLEAR)
    assert outcome_words(change(result)) == "❔ not clear"


def test_paired__incomplete_pairs_are_left_out() -> None:
    """A launch whose partner was not told is no pair."""
    times = [112.0, 112.4, 111.6, 112.2, 112.1, 111.9, 112.3, 111.8, 300.0]
    head = timed(112.0, launches=launches(times, [100.0] * 8))
    result = judged(head)
    assert change(result).samples == 8
    assert said(result).outcome is Outcome.FAIL


def test_paired__a_number_that_occurs_again_is_another_session_s() -> None:
    """Whoever measures once more adds pairs to those there were, and replaces none."""
    head = timed(
        105.0,
        launches=launches([110.0, 111.0, 109.0, 110.0], [100.0] * 4, [0, 1, 0, 1]),
    )
    pairs = [mine.values[STEP_TIME] for mine, _ in head.pairs()]
    assert pairs == [110.0, 109.0, 111.0, 110.0]


def test_paired__pairs_go_before_the_history() -> None:
    """What ran side by side is better evidence than another day's runs."""
    result = judged(eight(0.0), history=tuple(runs(27, level=80.0)))
    assert change(result).judged_by is JudgedBy.PAIRED
    assert said(result).outcome is Outcome.PASS


def test_paired__too_few_pairs_do_not_leave_the_word_to_the_history() -> None:
    """Whoever measures few pairs must not be judged by something milder."""
    result = judged(paired(0.0, 0.1, -0.1), history=tuple(runs()))
    assert change(result).judged_by is JudgedBy.PAIRED
    assert said(result).unjudged is Unjudged.UNCLEAR
    assert change(result).reasons == (Why.UNCLEAR_PAIRS(pairs=3, void=0, more=6),)


def test_evidence__of_two_kinds_judges_each_metric_by_its_best() -> None:
    """A metric that the launches do not tell is one number a side beside them."""
    points = [one.but(metrics={"tokenizer_ms": 5.0}) for one in runs()]
    result = judged(
        eight(0.0, metrics={"tokenizer_ms": 5.0}),
        timed(100.0, metrics={"tokenizer_ms": 5.0}),
        policy={**TRAINING, "metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}}},
        history=tuple(points),
    )
    by_metric = {one.metric: (one.judged_by, one.samples) for one in result.changes}
    assert by_metric[THROUGHPUT] == (JudgedBy.PAIRED, 8)
    assert by_metric["tokenizer_ms"] == (JudgedBy.ONE_NUMBER, 0)


# --- a history ----------------------------------------------------------------------------------


def test_history__beyond_the_limit_and_sure_fails() -> None:
    """Two launches far beyond 90 runs; the number beside the change is the branch's level."""
    result = judged(alone(122.0, 123.0), history=tuple(runs(90)))
    assert said(result).outcome is Outcome.FAIL
    found = change(result, THROUGHPUT)
    assert (found.judged_by, found.samples) == (JudgedBy.HISTORY, 83)
    assert found.delta == pytest.approx(found.head / found.base - 1.0, abs=1e-4)
    assert (found.low or -9.0) < (found.delta or 0.0) < (found.high or 9.0)


def test_history__beyond_from_too_few_runs_names_what_would_tell() -> None:
    """Half as slow again is not clear after 40 runs, and never green."""
    result = judged(alone(150.0, 151.0), timed(150.0), history=tuple(runs(40)))
    assert said(result).unjudged is Unjudged.UNCLEAR
    reasons_given = change(result).reasons
    assert reasons_given == (Why.UNCLEAR_HISTORY(runs=41, enough=83, launches=0),)
    words = (
        "41 earlier runs cannot tell whether it is slower than the limit (83 can); head and base"
    )
    assert words in change_lines(result)[0]


def test_history__one_launch_is_told_that_a_second_one_would_prove_it() -> None:
    """A single launch of head proves nothing, however far it stands out."""
    branch = (*runs(90), point(100.0))
    result = judged(alone(150.0), timed(100.0), history=branch)
    assert change(result).reasons == (Why.UNCLEAR_HISTORY(runs=83, enough=83, launches=1),)
    assert "a second one can prove it" in change_lines(result)[0]


def test_history__that_stood_out_itself_promises_no_proof() -> None:
    """Where a run of the branch was as slow, another launch of head proves nothing."""
    result = judged(alone(150.0), timed(150.0), history=tuple(runs(90)))
    assert change(result).reasons == (Why.UNCLEAR_HISTORY(runs=83, enough=83, launches=0),)
    assert "head and base measured side by side" in change_lines(result)[0]


def test_history__that_no_record_can_hold_is_told() -> None:
    """For so small a chance of a false failure no branch ever has runs enough."""
    strict = {**TRAINING, "measure": {"false_fail": 0.0005}}
    result = judged(alone(150.0, 151.0), timed(100.0), history=tuple(runs(150)), policy=strict)
    (reason,) = change(result).reasons
    assert (reason.code, reason.data["enough"]) == (Why.UNCLEAR_HISTORY, None)
    assert "a record keeps too few" in change_lines(result)[0]


def test_history__on_a_noisy_machine_it_says_how_little_it_sees() -> None:
    """It does not guess, and does not block: an estimate within the limit is too noisy."""
    found = judged(timed(100.0), timed(100.0), history=tuple(runs(spread=0.13)))
    assert said(found).unjudged is Unjudged.TOO_NOISY
    assert said(found).may_pass
    assert "too noisy to see less than 3" in headline(found)


def test_history__a_level_that_has_just_moved_fails_nobody_else() -> None:
    """An unchanged pull request after a merged slowdown is not clear until the level follows."""
    points = (*runs(30), point(115.0))
    assert verdict(timed(115.0), timed(115.0), history=points).unjudged is Unjudged.UNCLEAR
    later = (*points, *runs(4, level=115.0), point(115.0))
    assert verdict(timed(115.0), timed(115.0), history=later).outcome is not Outcome.FAIL


def test_history__an_improvement_that_was_just_merged_cannot_be_undone_unseen() -> None:
    """Back at the old level is no pass beside a base that was faster."""
    result = judged(timed(100.0), timed(85.0), history=(*runs(), point(85.0)))
    assert said(result).unjudged is Unjudged.CONTRADICTS
    assert change(result).reasons[0].code is Why.CONTRADICTS
    words = "slower than the tested base's own run, which earlier runs do not explain"
    assert words in headline(result)


@pytest.mark.parametrize(
    "other",
    [
        {"case": "another"},
        {"tokens_per_step": 2048.0},
        {"environment": on("L4")},
        {"environment": Environment(timing="unprofiled")},
        {"environment": Environment(disturbances={"throttled": "at 90 °C"})},
    ],
    ids=["case", "tokens", "accelerator", "timing", "disturbed"],
)
def test_history__of_something_else_is_none(other: dict[str, Any]) -> None:
    """Runs of another step size, machine or timing, and disturbed ones, are left out."""
    environment = Environment(accelerator="H100", timing="under a profiler")
    head = timed(100.0, tokens_per_step=1024.0, environment=environment)
    mine = [one.but(tokens_per_step=1030.0) for one in runs(3)]
    foreign = [one.model_copy(update=other) for one in runs(3)]
    rules = rules_of(policy_from(TRAINING), head.name)
    assert comparable_points(head, rules, (*foreign, *mine, *foreign)) == mine


def test_history__of_few_runs_is_one_number() -> None:
    """Under 28 runs hardly know their machine: little may pass, and nothing is proven."""
    result = judged(timed(104.0), history=tuple(runs(20)))
    assert change(result).judged_by is JudgedBy.ONE_NUMBER
    assert said(result).outcome is Outcome.WARN
    assert verdict(timed(130.0), history=tuple(runs(20))).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("design", ["single", "interleaved"])
def test_history__is_not_asked_where_the_policy_has_another_design(design: str) -> None:
    """`design` says which evidence counts."""
    head = eight(0.0, metrics={"tokenizer_ms": 9.0})
    result = judged(
        head,
        timed(100.0, metrics={"tokenizer_ms": 5.0}),
        policy={
            **TRAINING,
            "measure": {"design": design},
            "metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}},
        },
        history=tuple(one.but(metrics={"tokenizer_ms": 5.0}) for one in runs()),
    )
    assert change(result, "tokenizer_ms").judged_by is JudgedBy.ONE_NUMBER


@pytest.mark.parametrize("count", [0, 8, 9, 11, 12, 29, 60, 140])
def test_reference__holds_at_any_length_of_history(count: int) -> None:
    """Without a policy half as slow again fails with any number of runs: none of them excuses."""
    found = verdict(timed(150.0), policy={}, history=tuple(runs(count, 0.13)))
    assert found.outcome is Outcome.FAIL


# --- counts and single numbers ------------------------------------------------------------------


def counted(launches_per_step: float, **fields: Any) -> Judged:
    return timed(100.0, metrics={"kernel_launches_per_step": launches_per_step}, **fields)


@pytest.mark.parametrize(
    ("count", "outcome"),
    [(500.0, Outcome.PASS), (511.0, Outcome.WARN), (551.0, Outcome.FAIL), (200.0, Outcome.PASS)],
)
def test_exact__a_count_needs_no_statistics(count: float, outcome: Outcome) -> None:
    """More launches than the limit allows fail, on any machine and at the first sight."""
    result = judged(counted(count), counted(500.0))
    assert said(result).outcome is outcome
    assert change(result, "kernel_launches_per_step").judged_by is JudgedBy.EXACT


@pytest.mark.parametrize(
    ("torch", "policy", "outcome"),
    [
        ("2.12.0", {}, Outcome.FAIL),
        ("2.13.0", {}, Outcome.PASS),
        (None, {}, Outcome.FAIL),
        ("2.13.0", {"metrics": {"host_ops_per_step": {"fail": 0.1}}}, Outcome.FAIL),
    ],
)
def test_exact__operators_of_another_torch_are_shown(
    torch: str | None, policy: dict[str, Any], outcome: Outcome
) -> None:
    """It divides the same work into other operators; a policy that names them means them."""

    def side(count: float, version: str | None) -> Judged:
        known = Environment(versions={"torch": version} if version else {})
        return timed(100.0, metrics={"host_ops_per_step": count}, environment=known)

    result = judged(side(1200.0, torch), side(1000.0, "2.12.0"), policy={**TRAINING, **policy})
    assert said(result).outcome is outcome
    assert change(result, "host_ops_per_step").delta == pytest.approx(0.2)


def test_exact__of_0_is_compared_by_difference() -> None:
    """The first recompile of a branch that had none is one recompile more."""
    policy = {**TRAINING, "metrics": {"recompiles": {"fail": 2}}}
    base = timed(100.0, metrics={"recompiles": 0.0})
    for count, outcome in ((0.0, Outcome.PASS), (2.0, Outcome.WARN), (3.0, Outcome.FAIL)):
        head = timed(100.0, metrics={"recompiles": count})
        assert verdict(head, base, policy=policy).outcome is outcome


@pytest.mark.parametrize(
    ("step_ms", "outcome"),
    [
        (102.0, Outcome.PASS),
        (104.0, Outcome.WARN),
        (119.0, Outcome.WARN),
        (121.0, Outcome.INCONCLUSIVE),
        (200.0, Outcome.INCONCLUSIVE),
    ],
)
def test_one_number__warns_up_to_20_percent_and_is_not_clear_beyond(
    step_ms: float, outcome: Outcome
) -> None:
    """It proves nothing, and twice the step time is too much to pass."""
    result = judged(timed(step_ms))
    assert said(result).outcome is outcome
    assert change(result).judged_by is JudgedBy.ONE_NUMBER
    assert said(result).slower is False
    if outcome is Outcome.INCONCLUSIVE:
        assert said(result).unjudged is Unjudged.UNCLEAR
        assert "one run per side, and over 20 % does not pass as noise" in headline(result)
    else:
        assert "could be noise" in headline(result)


@pytest.mark.parametrize(
    ("step_ms", "outcome"), [(109.0, Outcome.PASS), (115.0, Outcome.WARN), (130.0, Outcome.FAIL)]
)
def test_one_number__the_reference_s_rules_fail_at_critical(
    step_ms: float, outcome: Outcome
) -> None:
    """Without a policy file its fixed limits gate, and the headline says how little that is."""
    result = judged(timed(step_ms), policy={})
    assert said(result).outcome is outcome
    assert change(result, STEP_TIME).judged_by is JudgedBy.ONE_NUMBER
    limits = [reason.code for reason in change(result, STEP_TIME).reasons]
    assert limits == ([] if outcome is Outcome.PASS else [Why.REFERENCE_LIMIT])
    assert (
        headline(result)
        == {
            Outcome.PASS: "Pass: 9 % slower in one run, could be noise · 100 → 109 ms/step",
            Outcome.WARN: "Warning: 15 % slower, within the 20 % limit · 100 → 115 ms/step"
            " · one run per side, could be noise",
            Outcome.FAIL: "Fail: 30 % slower · 100 → 130 ms/step · one run per side",
        }[outcome]
    )


def test_one_number__of_a_metric_that_the_reference_does_not_know_proves_nothing() -> None:
    """Its fixed rule speaks of its own three metrics, and of no user's."""
    policy = {"metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}}}
    for ms, outcome in ((5.8, Outcome.WARN), (9.0, Outcome.INCONCLUSIVE)):
        head, base = (timed(100.0, metrics={"tokenizer_ms": value}) for value in (ms, 5.0))
        assert verdict(head, base, policy=policy).outcome is outcome


def test_one_number__limits_that_the_policy_puts_in_the_reference_s_place_hold() -> None:
    """Who names a limit of step time means it."""
    policy = {"metrics": {STEP_TIME: {"warn": 0.03, "fail": 0.08}}}
    for step_ms, outcome in ((102.0, Outcome.PASS), (105.0, Outcome.WARN), (109.0, Outcome.FAIL)):
        assert verdict(timed(step_ms), policy=policy).outcome is outcome


# --- what holds a verdict back ------------------------------------------------------------------


@pytest.mark.parametrize("policy", [TRAINING, {}], ids=["training", "reference"])
def test_attribution__without_a_record_of_the_base_a_slowdown_is_not_clear(
    policy: Mapping[str, Any],
) -> None:
    """Other commits between this run and its baseline may be the cause, of times and counts."""
    for head in (timed(130.0), counted(900.0)):
        base = counted(500.0) if head.metrics else timed(100.0)
        result = judged(head, base, away=2, policy=policy)
        if policy == {} and head.metrics:
            continue
        assert said(result).unjudged is Unjudged.NOT_ATTRIBUTABLE
        assert sentence(Why.NOT_ATTRIBUTABLE(commits=2)) in headline(result)
        assert "its baseline is 2 commits before the tested base" in headline(result)


def test_attribution__within_the_limit_an_older_record_serves() -> None:
    """What is no slower than the limit beside an older record passes or warns as always."""
    assert verdict(timed(102.0), away=2).outcome is Outcome.PASS
    assert verdict(timed(104.0), away=2).outcome is Outcome.WARN
    assert verdict(eight(12.0), away=2).outcome is Outcome.FAIL


def test_tokens__within_two_percent_are_one_size() -> None:
    """A ragged last batch does not make another step of it."""
    head = timed(125.0, tokens_per_step=1010.0)
    result = judged(head, timed(100.0, tokens_per_step=1000.0), policy={})
    assert said(result).outcome is Outcome.FAIL
    assert "25 % slower" in headline(result)


def test_tokens__another_size_is_other_work() -> None:
    """A step of twice the tokens is judged by the token, and green only if the policy says so."""
    base = case(card=scorecard(100.0, 1000.0), tokens_per_step=1024.0)
    per_token = {"environment": {"same_work": ["final_loss"]}}
    for tok_s, any_work, outcome in (
        (700.0, {}, Outcome.FAIL),
        (700.0, per_token, Outcome.FAIL),
        (1000.0, {}, Outcome.INCONCLUSIVE),
        (1000.0, per_token, Outcome.PASS),
    ):
        head = case(card=scorecard(300.0, tok_s), tokens_per_step=2048.0)
        result = judged(head, base, policy=any_work)
        assert said(result).outcome is outcome
        assert change(result, STEP_TIME).delta is None
        words = "2,048 tokens a step here, 1,024 there"
        assert (words in " ".join([headline(result), *reasons(result)])) is (any_work == {})


def test_work__fewer_valid_steps_are_refused() -> None:
    """Whoever does less is faster, and no better."""
    head, base = (timed(ms, metrics={"valid_steps": n}) for ms, n in ((80.0, 30.0), (100.0, 50.0)))
    result = judged(head, base)
    found = said(result)
    assert (found.outcome, found.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.OTHER_WORK)
    assert found.decided_by == Why.FEWER_VALID_STEPS(head=30.0, base=50.0)
    assert "30 valid steps here, 50 there" in headline(result)


@pytest.mark.parametrize("loss", [1.0, 4.0])
@pytest.mark.parametrize("step_ms", [50.0, 100.0, 130.0])
def test_work__another_loss_is_other_work(step_ms: float, loss: float) -> None:
    """Faster or slower, better or worse: beside another loss no time says anything."""
    head = timed(step_ms, metrics={"final_loss": loss})
    result = judged(head, timed(100.0, metrics={"final_loss": 2.0}), history=tuple(runs()))
    assert said(result).unjudged is Unjudged.OTHER_WORK
    assert said(result).decided_by == Why.OTHER_LOSS(head=loss, base=2.0)
    assert f"the final loss is {loss:g} here and 2 there" in headline(result)


def test_work__is_not_asked_for_where_the_policy_does_not() -> None:
    """`same_work` names what must be the same."""
    head = timed(50.0, metrics={"final_loss": 4.0, "valid_steps": 1.0})
    base = timed(100.0, metrics={"final_loss": 2.0, "valid_steps": 9.0})
    policy = {**TRAINING, "environment": {"same_work": ["tokens_per_step"]}}
    assert verdict(head, base, policy=policy).outcome is Outcome.PASS


# --- can it be judged? --------------------------------------------------------------------------


def test_environment__a_mismatch_names_key_and_both_values() -> None:
    """The reader sees at once what to do about it."""
    found = verdict(timed(300.0, environment=on("L4")), timed(100.0, environment=on("H100")))
    assert found.unjudged is Unjudged.ENVIRONMENT_CHANGED
    assert sentences(found.reasons) == ["accelerator: L4 here, H100 there"]


def test_environment__unknown_on_one_side_is_comparable_with_a_note() -> None:
    """An old record that does not name its accelerator is no other accelerator."""
    found = verdict(timed(100.0, environment=on("L4")))
    assert found.outcome is Outcome.PASS
    assert sentences(found.reasons) == ["accelerator known on one side only; assumed equal"]


@pytest.mark.parametrize("event", ["throttled", "shared", "crashed", "nan"])
@pytest.mark.parametrize("side", ["head", "base"])
def test_disturbance__makes_a_measurement_worthless(event: str, side: str) -> None:
    """What a disturbed machine measured neither fails nor passes, nor breaks a budget."""
    disturbed = Environment(disturbances={event: "for 3 s"})
    head = timed(300.0, environment=disturbed if side == "head" else Environment())
    base = timed(100.0, environment=disturbed if side == "base" else Environment())
    result = judged(head, base, policy={**TRAINING, "budgets": {STEP_TIME: 200.0}})
    found = said(result)
    assert (found.outcome, found.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.INVALID_MEASUREMENT)
    code = Why.DISTURBED if side == "head" else Why.BASE_DISTURBED
    assert found.decided_by == code(event=event, words="for 3 s")
    assert f"was disturbed ({event}: for 3 s)" in headline(result)


def test_disturbance__that_the_policy_does_not_reject_is_no_obstacle() -> None:
    """A team may know that its machine is shared."""
    head = timed(100.0, environment=Environment(disturbances={"shared": "by design"}))
    policy = {**TRAINING, "environment": {"reject": ["nan"]}}
    assert verdict(head, policy=policy).outcome is Outcome.PASS


@pytest.mark.parametrize("pairs", [0, 1, 5])
def test_design__interleaved_without_enough_pairs_is_not_judged(pairs: int) -> None:
    """A policy that asks for pairs is not content with a history, nor with launches of one side."""
    head = timed(100.0, launches=launches([100.0] * 6, [100.0] * pairs, numbers=range(6)))
    policy = {**TRAINING, "measure": {"design": "interleaved"}}
    result = judged(head, policy=policy, history=tuple(runs()))
    assert said(result).unjudged is Unjudged.NOT_AS_DESIGNED
    assert said(result).decided_by == Why.TOO_FEW_PAIRS(pairs=pairs, least=6)
    assert f"{pairs or 'no'} complete pairs of at least 6" in headline(result)


def test_nothing__gated_on_both_sides_is_no_pass() -> None:
    """A policy none of whose gates was measured has judged nothing."""
    policy = {**TRAINING, "metrics": {THROUGHPUT: {"gate": False}}}
    result = judged(timed(100.0), policy=policy)
    found = said(result)
    assert (found.outcome, found.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.NOTHING_MEASURED)
    assert found.decided_by
    assert found.decided_by.code is Why.NOTHING_GATED_IN_COMMON
    assert "nothing that the policy gates is known on both sides" in headline(result)
    assert verdict(counted(500.0), counted(500.0), policy=policy).outcome is Outcome.PASS


def test_nothing__all_zero_is_no_pass() -> None:
    """Zeros are no measurement, on either side, in launches and in a history."""
    empty = case(card=scorecard(0.0, 0.0, wall_coverage=0.0))
    for head, base in ((empty, empty), (empty, timed(100.0)), (timed(100.0), empty)):
        assert verdict(head, base, history=tuple(runs())).unjudged is Unjudged.NOTHING_MEASURED


def test_nothing__pairs_of_zeros_are_no_pairs() -> None:
    """A ratio of zeros is none, and no pass."""
    zeros = tuple(one.but(values={STEP_TIME: 0.0}) for one in launches([1.0] * 8, [1.0] * 8))
    found = judged(timed(100.0, launches=zeros))
    assert said(found).outcome is Outcome.INCONCLUSIVE


def test_nan__is_refused_before_it_reaches_the_judge() -> None:
    """No value of a case can hold a number that is none."""
    with pytest.raises(ValidationError):
        timed(100.0, metrics={"final_loss": float("nan")})
    with pytest.raises(ValidationError):
        launches([float("nan")], [100.0])
    with pytest.raises(ValidationError):
        Change(metric=STEP_TIME, base=100.0, head=100.0, delta=float("nan"))


def test_gate__a_named_metric_that_only_the_baseline_has_is_no_pass() -> None:
    """Measuring it no more is not the way through a gate."""
    policy = {**TRAINING, "metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}}}
    result = judged(timed(100.0), timed(100.0, metrics={"tokenizer_ms": 5.0}), policy=policy)
    found = said(result)
    assert (found.outcome, found.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.NOTHING_MEASURED)
    assert change(result, "tokenizer_ms").reasons == (Why.GATE_NOT_MEASURED(),)
    assert outcome_words(change(result, "tokenizer_ms")) == "❔ not measured"
    assert headline(result) == (
        "Not judged: tokenizer_ms is gated by the policy, and not measured here"
    )


def test_gate__a_named_metric_without_a_ratio_is_no_pass() -> None:
    """A number below 0 is no part of a ratio, so the gate is not passed by it."""
    policy = {**TRAINING, "metrics": {"mine": {"direction": "lower", "fail": 0.1}}}
    head, base = (timed(100.0, metrics={"mine": value}) for value in (-10.0, 10.0))
    result = judged(head, base, policy=policy)
    assert said(result).outcome is Outcome.INCONCLUSIVE
    assert change(result, "mine").reasons == (Why.GATE_WITHOUT_RATIO(),)
    assert outcome_words(change(result, "mine")) == "❔ not compared"


def test_gate__a_default_metric_that_only_the_baseline_has_is_no_pass() -> None:
    """A gate that follows from the rules alone is not passed by measuring it no more, either."""
    result = judged(timed(100.0), timed(100.0, metrics={"peak_memory_gb": 40.0}))
    assert said(result).unjudged is Unjudged.NOTHING_MEASURED
    assert "peak memory is gated by the policy, and not measured here" in headline(result)


def test_gate__a_metric_that_is_new_here_passes() -> None:
    """The baseline cannot know what is measured for the first time."""
    policy = {**TRAINING, "metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}}}
    head = timed(100.0, metrics={"tokenizer_ms": 5.0})
    assert verdict(head, policy=policy).outcome is Outcome.PASS


def test_gate__the_step_time_stands_in_for_a_throughput_that_nobody_tells() -> None:
    """A script that names no tokens is gated all the same, by throughput's limits."""
    head, base = (case(card=scorecard(ms, 0.0)) for ms in (104.0, 100.0))
    result = judged(head, base)
    assert said(result).outcome is Outcome.WARN
    assert headline(result).startswith(
        "Warning: 4 % slower, within the 5 % limit · 100 → 104 ms/step"
    )
    assert change(result, STEP_TIME).fail_limit == 0.05


# --- demands and acceptance ---------------------------------------------------------------------


@pytest.mark.parametrize("table", [{}, {"gate": False}, {"warn": 0.05}])
def test_gate__a_throughput_that_cannot_be_compared_is_no_way_around_it(
    table: dict[str, Any],
) -> None:
    """A head that does not say on how many devices it ran is gated by its step time."""
    base = timed(100.0, environment=on("L4", 8), metrics={MEMORY: 10.0})
    head = timed(150.0, environment=on("L4"), metrics={MEMORY: 10.0})
    policy = {**TRAINING, "metrics": {STEP_TIME: table} if table else {}}
    assert verdict(head, base, policy=policy).unjudged is Unjudged.UNCLEAR


def test_budget__needs_no_baseline_and_no_statistics() -> None:
    """An absolute limit fails by itself, in the direction of its metric."""
    head = timed(100.0, metrics={"peak_memory_gb": 79.0})
    result = judged(head, policy={**TRAINING, "budgets": {"peak_memory_gb": 76.0}})
    assert said(result).outcome is Outcome.FAIL
    broken = Why.OVER_BUDGET(metric="peak_memory_gb", value=79.0, budget=76.0)
    assert (said(result).decided_by, said(result).reasons) == (broken, (broken,))
    assert headline(result) == "Fail: peak memory 79.0 GB is over its budget of 76.0 GB"
    slow = judged(head, policy={**TRAINING, "budgets": {THROUGHPUT: 2e6}})
    assert "is under its budget" in headline(slow)
    assert verdict(head, policy={**TRAINING, "budgets": {THROUGHPUT: 1e5}}).outcome is Outcome.PASS


def test_budget__on_what_is_not_measured_is_no_pass() -> None:
    """A budget without a number would always be kept."""
    result = judged(timed(100.0), policy={**TRAINING, "budgets": {"peak_memory_gb": 76.0}})
    found = said(result)
    assert (found.outcome, found.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.NOTHING_MEASURED)
    assert (
        headline(result) == "Not judged: peak memory has a budget of 76.0 GB, and was not measured"
    )


def test_demand__beside_a_worse_verdict_is_one_more_reason() -> None:
    """What decides stays on top."""
    soft = {"partner": "gone", "op_ratio": 1.1, "gate": False}
    result = judged(eight(12.0), policy={**TRAINING, "parity": [soft]})
    assert said(result).outcome is Outcome.FAIL
    assert headline(result).startswith("Fail: 12 % slower")
    assert said(result).reasons[-1] == Why.PARITY_CASE_MISSING(partner="gone")
    assert reasons(result)[-1] == "the parity with gone has no partner: that case was not measured"


def test_demand__that_is_kept_is_no_reason() -> None:
    """Only what is broken is said, and decides where it is worse."""
    passed, rules = verdict(timed(100.0)), rules_of(policy_from(TRAINING), "training")

    def demanded(*demands: Demand) -> Verdict:
        head, baseline = timed(100.0), found(timed(100.0))
        return with_demands(passed, Trial(head, rules, baseline, demands=demands))

    kept, broken = Why.PARITY_FILE_MISSING(), Why.PARITY_CASE_MISSING(partner="a")
    assert demanded((Outcome.PASS, kept)) == passed
    worse = demanded((Outcome.PASS, kept), (Outcome.WARN, broken))
    assert (worse.outcome, worse.decided_by) == (Outcome.WARN, broken)
    assert worse.reasons == (*passed.reasons, broken)


def accepted(bound: float, metric: str = THROUGHPUT) -> Acceptance:
    return Acceptance(
        case="training",
        metric=metric,
        bound=bound,
        shown=f"{bound:.0%}",
        by="somebody",
        reason="of fp32",
    )


def test_acceptance__passes_up_to_its_bound_and_is_shown() -> None:
    """What somebody accepted is in headline and reasons, be it proven or not clear."""
    words = "up to 20% by somebody, because of fp32"
    for head in (eight(12.0), paired(12.0, 12.1, 11.9, 12.0)):
        result = judged(head, acceptances=[accepted(0.2)])
        assert said(result).outcome is Outcome.PASS
        assert accepted_words(accepted(0.2)) == words
        assert headline(result) == f"Pass: 12 % slower, accepted · 100 → 112 ms/step: {words}"
        assert f"Throughput per device is accepted {words}" in reasons(result)
        assert outcome_words(change(result)) == "☑️ accepted"


def test_acceptance__of_less_does_not_hold() -> None:
    """What is worse than the bound fails nonetheless, and says that there is one."""
    result = judged(eight(12.0), acceptances=[accepted(0.05)])
    assert said(result).outcome is Outcome.FAIL
    assert change(result).reasons[-1] == Why.ACCEPTED_UP_TO(bound="5%")
    assert change_lines(result)[0].endswith("accepted only up to 5%")


def test_acceptance__holds_for_a_warning_as_well() -> None:
    """Where warnings fail the check, what only warns must be acceptable, too."""
    assert verdict(timed(112.0)).outcome is Outcome.WARN
    assert verdict(timed(112.0), acceptances=[accepted(0.2)]).outcome is Outcome.PASS


def test_contributions__stay_only_with_a_regression() -> None:
    """A delta that is nothing has no place where it went."""
    parts = (Contribution(kind="phase", name="backward", base_ms=50.0, head_ms=60.0),)
    for step_ms, kept in ((100.0, ()), (115.0, parts)):
        both = replace(beside(timed(step_ms)), contributions=parts)
        (done,) = decide([both], (), policy_from({}))
        assert done.contributions == kept


# --- a report of several cases ------------------------------------------------------------------


def findings(*chances: int, metrics: Sequence[str] = ()) -> list[Finding]:
    """Findings that are proven with a chance of 2⁻ⁿ: n pairs of which each is slower."""
    rows = []
    for place, pairs in enumerate(chances):
        metric = metric_named(metrics[place] if metrics else f"m{place}")
        found = Change(metric=metric.name, base=1.0, head=2.0, delta=1.0)
        rule = GateRule(metric, gate=True, warn=0.01, fail=0.02)
        evidence = Pairs.of_times([2.0] * pairs, [1.0] * pairs)
        rows.append(Finding(found, rule, evidence))
    return rows


def holm(chances: Sequence[int], allowed: float) -> list[bool]:
    """The procedure as the textbook has it: in order, until the first that is not rejected."""
    proven = [False] * len(chances)
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda place: -chances[place])):
        if 2.0 ** -chances[place] > allowed / (len(chances) - rank):
            break
        proven[place] = True
    return proven


@given(st.lists(st.integers(6, 16), min_size=1, max_size=12))
def test_sharing__is_holm_s_procedure(chances: list[int]) -> None:
    """The surest at an equal share, and each that is proven leaves its share to the others."""
    rows = findings(*chances)
    (shares,) = shared_chances([rules()], [rows])
    proven = [row.pairs is not None and row.pairs.is_proven(share)
              for row, share in zip(rows, shares, strict=True)]  # fmt: skip
    assert proven == holm(chances, 0.004)


def test_sharing__counts_over_all_cases() -> None:
    """Eight cases have an eighth each, and the first that is proven leaves the rest a seventh."""
    (unproven,) = findings(12)
    unproven = replace(unproven, pairs=Pairs.of_times([2.0, 0.5] * 6, [1.0] * 12))
    cases, everywhere = [[unproven] for _ in range(8)], [rules()] * 8
    shares = shared_chances(everywhere, cases)
    assert [share for (share,) in shares] == [pytest.approx(0.004 / 8)] * 8
    cases[3] = findings(16)
    shares = shared_chances(everywhere, cases)
    assert shares[3] == [pytest.approx(0.004 / 8)]
    assert shares[0] == [pytest.approx(0.004 / 7)]


def test_sharing__step_time_and_throughput_are_one_fact() -> None:
    """What is luck in one unit is luck in the other: they do not halve the chance."""
    rows = findings(8, 8, metrics=(STEP_TIME, THROUGHPUT))
    assert shared_chances([rules()], [rows]) == [[pytest.approx(0.004)] * 2]


def test_report__one_slow_case_among_many_fails_alone() -> None:
    """The others keep their verdicts."""
    slow = paired(*[12.0 + place / 10 for place in range(12)])
    fine = paired(*[place / 10 for place in range(12)])
    cases = [
        beside((slow if number == 2 else fine).but(name=f"case-{number}")) for number in range(6)
    ]
    outcomes = [said(one).outcome for one in decide(cases, (), policy_from(TRAINING))]
    assert outcomes == [Outcome.FAIL if number == 2 else Outcome.PASS for number in range(6)]


# --- decided again ------------------------------------------------------------------------------


def several() -> list[Compared]:
    """A case of each outcome."""
    noisy = paired(-20.0, 20.0, 15.0, -15.0, 18.0, -18.0)
    elsewhere = timed(100.0, name="elsewhere", environment=on("L4"))
    return [
        beside(paired(*[12.0 + place / 10 for place in range(12)]).but(name="fails")),
        beside(paired(*[4.0 + place / 100 for place in range(12)]).but(name="warns")),
        beside(paired(0.5, -0.5, 1.0, -1.0, 0.3, -0.2).but(name="passes")),
        beside(noisy.but(name="noisy"), noisy),
        beside(elsewhere, timed(100.0, environment=on("T4"))),
    ]


@pytest.mark.parametrize("acceptances", [(), ("fails",)], ids=["plain", "accepted"])
def test_decide__called_again_says_the_same(acceptances: tuple[str, ...]) -> None:
    """It is pure: neither a call before it nor its order among others leaves a trace."""
    rules, branch = policy_from(TRAINING), tuple(runs())
    granted = [accepted(0.5).but(case=name) for name in acceptances]
    cases = several()
    before = copy.deepcopy((cases, branch, rules, granted))
    first = decide(cases, branch, rules, granted)
    decide(cases, (), policy_from({"metrics": {THROUGHPUT: {"fail": 0.01}}}))
    assert decide(cases, branch, rules, granted) == first
    assert (cases, branch, rules, granted) == before


def test_decide__each_outcome_is_there() -> None:
    """What the tests of `decide` rest on has every outcome, and judges every case in its place."""
    done = decide(several(), (), policy_from(TRAINING))
    assert [(one.name, said(one).outcome) for one in done] == [
        ("fails", Outcome.FAIL),
        ("warns", Outcome.WARN),
        ("passes", Outcome.PASS),
        ("noisy", Outcome.INCONCLUSIVE),
        ("elsewhere", Outcome.INCONCLUSIVE),
    ]


def test_decide__another_policy_takes_nothing_from_the_cases() -> None:
    """What was measured comes back whole under any rules; the judgement is added to it."""
    cases = several()
    for table in (TRAINING, {}, {**TRAINING, "budgets": {STEP_TIME: 50.0}}):
        done = decide(cases, (), policy_from(table))
        assert [bare(one) for one in done] == [bare(one.measured) for one in cases]


def bare(case: Measured) -> Measured:
    """The case without what a judgement adds: its changes and verdict, and the regressions."""
    own = {name: getattr(case, name) for name in Measured.model_fields}
    return Measured(**own).but(scorecard=case.scorecard.but(regressions=()))


def test_acceptance__changes_nothing_but_what_was_accepted() -> None:
    """Of one metric of one case: its change, and the verdict that follows from it."""
    cases = several()
    plain = decide(cases, (), policy_from(TRAINING))
    after = decide(cases, (), policy_from(TRAINING), [accepted(0.5).but(case="fails")])
    assert after[1:] == plain[1:]
    for before, now in zip(plain[0].changes, after[0].changes, strict=True):
        if now.metric == THROUGHPUT:
            assert (before.outcome, now.outcome) == (Outcome.FAIL, Outcome.PASS)
            decided = {"outcome": None, "severity": None, "accepted": None, "slower": False}
            assert now.but(**decided) == before.but(**decided)
        else:
            assert now == before
    for field in Judged.model_fields.keys() - {"changes", "verdict", "scorecard"}:
        assert getattr(after[0], field) == getattr(plain[0], field), field


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("passes", THROUGHPUT),
        ("fails", "wall_coverage"),
        ("elsewhere", THROUGHPUT),
        ("gone", THROUGHPUT),
    ],
)
def test_acceptance__of_what_does_not_fail_changes_nothing(name: str, metric: str) -> None:
    """Nor does one of a metric that is not gated, of what is not compared, or of no case here."""
    cases, table = several(), policy_from(TRAINING)
    one = accepted(0.5, metric).but(case=name)
    assert decide(cases, (), table, [one]) == decide(cases, (), table)


# --- whatever the numbers are -------------------------------------------------------------------

times = st.floats(50.0, 200.0)
sessions = st.lists(st.tuples(times, times), min_size=4, max_size=12)
slowdowns = st.floats(1.0, 3.0)


def of_session(rows: Sequence[tuple[float, float]], factor: float = 1.0) -> Outcome:
    head = [mine * factor for mine, _ in rows]
    base = [theirs for _, theirs in rows]
    numbers = timed(sorted(head)[len(head) // 2], launches=launches(head, base))
    return verdict(numbers, timed(sorted(base)[len(base) // 2])).outcome


@settings(max_examples=4 * settings().max_examples)
@given(sessions, slowdowns)
def test_worse__never_judges_better_of_pairs(
    rows: list[tuple[float, float]], factor: float
) -> None:
    """A head whose every launch is slower is nowhere higher up the ladder."""
    before, after = of_session(rows), of_session(rows, factor)
    assert LADDER.index(after) >= LADDER.index(before)


@settings(max_examples=4 * settings().max_examples)
@given(
    st.lists(times, min_size=0, max_size=30),
    times,
    times,
    slowdowns,
    st.sampled_from([{}, TRAINING]),
)
def test_worse__never_judges_better_of_a_history(
    past: list[float], before: float, now: float, factor: float, table: Mapping[str, Any]
) -> None:
    """A slower single run is nowhere further down, whatever branch it stands beside."""
    points = tuple(point(ms) for ms in past)
    outcomes = [
        verdict(timed(now * slower), timed(before), history=points, policy=table).outcome
        for slower in (1.0, factor)
    ]
    assert LADDER.index(outcomes[1]) >= LADDER.index(outcomes[0])


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 1000))
def test_worse__never_judges_better_of_counts(base: int, head: int, more: int) -> None:
    """More launches are nowhere higher up the ladder."""
    outcomes = [verdict(counted(n), counted(base)).outcome for n in (head, head + more)]
    assert LADDER.index(outcomes[1]) >= LADDER.index(outcomes[0])


@settings(max_examples=4 * settings().max_examples)
@given(times, times, slowdowns, st.sampled_from(["reference", "training"]))
def test_worse__never_judges_better_of_one_number(
    base: float, head: float, factor: float, rules: str
) -> None:
    """Slower is nowhere further down."""
    outcomes = [
        verdict(timed(ms), timed(base), policy={"rules": rules}).outcome
        for ms in (head, head * factor)
    ]
    order = LADDER if rules == "training" else [*LADDER]
    assert order.index(outcomes[1]) >= order.index(outcomes[0])


@given(sessions, st.randoms(use_true_random=False))
def test_pairs__in_another_order_judge_the_same(
    rows: list[tuple[float, float]], luck: random.Random
) -> None:
    """The order in which launches are told is no evidence."""
    told = list(launches([mine for mine, _ in rows], [theirs for _, theirs in rows]))
    shuffled = list(told)
    luck.shuffle(shuffled)
    first, second = (
        judged(timed(100.0, launches=tuple(order))).changes for order in (told, shuffled)
    )
    assert first == second


@given(sessions, st.sampled_from([1e-3, 0.5, 1000.0]))
def test_scale__of_all_times_does_not_matter(
    rows: list[tuple[float, float]], factor: float
) -> None:
    """A model that takes a thousand times as long is judged alike."""
    deltas = []
    for scale in (1.0, factor):
        head, base = ([pair[side] * scale for pair in rows] for side in (0, 1))
        result = judged(timed(head[0], launches=launches(head, base)), timed(base[0]))
        deltas.append([one.delta for one in result.changes if one.delta is not None])
    assert deltas[0] == pytest.approx(deltas[1], abs=1e-9)


def eight(percent: float, spread: float = 0.2, **fields: Any) -> Judged:
    """Eight pairs around a slowdown, as many as can prove one."""
    return paired(*(percent + spread * (place - 3.5) / 3.5 for place in range(8)), **fields)


def test_paired__a_slowdown_that_is_surely_within_the_limit_warns() -> None:
    """Between what warns and what fails, and proven: `fail-on: warning` may fail on it."""
    result = judged(eight(4.0))
    assert said(result).outcome is Outcome.WARN
    assert said(result).slower
    assert change_lines(result)[0].endswith("): slower, within the limit that fails")
    assert headline(result) == "Warning: 4 % slower, within the 5.3 % limit · 100 → 104 ms/step"


def test_paired__a_pass_says_its_upper_end() -> None:
    """What is not proven slower may still be a little slower, and no more than that."""
    result = judged(paired(0.5, -0.5, 1.0, -1.0, 0.2, -0.3))
    assert said(result).outcome is Outcome.PASS
    assert headline(result) == "Pass: no change seen (−1 to +1 %) · 100 → 100 ms/step"
    assert said(result).upper_end == pytest.approx(0.01, abs=1e-3)


def test_paired__a_small_slowdown_that_is_sure_is_not_denied() -> None:
    """A slowdown of 1.2 % within the limits is said, and passes."""
    result = judged(eight(1.2))
    assert said(result).outcome is Outcome.PASS
    assert headline(result) == "Pass: 1.2 % slower, within the 5.3 % limit · 100 → 101 ms/step"


def test_paired__launches_that_stand_still_are_not_forgiven() -> None:
    """The estimate forgives one launch of sixteen; the sum of all steps does not."""
    result = judged(paired(*[0.1 * place for place in range(15)], 200.0))
    assert change(result, THROUGHPUT).reasons[0].code is Why.UNCLEAR_SUM
    assert "1 of 16 launches of head takes 3× as long as its others" in headline(result)


def test_paired__a_void_launch_leaves_nothing_green() -> None:
    """A launch without a time may have been endlessly slow."""
    whole = launches([100.0] * 12, [100.0] * 12)
    gone = LaunchNumbers(side="head", launch=12, void=True, values={})
    there = LaunchNumbers(side="base", launch=12, values={STEP_TIME: 100.0, THROUGHPUT: 1e6})
    result = judged(timed(100.0, launches=(*whole, gone, there)))
    assert said(result).unjudged is Unjudged.VOID
    assert change(result).reasons == (Why.VOID_LAUNCHES(head=1, base=0),)
    assert "1 launch of the head measured nothing" in headline(result)


def test_paired__a_mode_that_only_head_shows_is_named() -> None:
    """Four launches of twelve that take 60 % longer are said beside the verdict."""
    result = judged(paired(*[0.0] * 8, 60.0, 61.0, 59.0, 60.0))
    words = "4 of 12 launches of head take 60 % longer than its others, and none of the base"
    assert any(line.startswith(words) for line in sentences(said(result).reasons))


def test_paired__a_base_that_the_branch_contradicts_is_not_believed() -> None:
    """A session whose base is surely slower than the branch has the wrong base."""
    result = judged(
        timed(130.0, launches=launches([130.0] * 12, [130.0] * 12)), history=tuple(runs(90))
    )
    assert said(result).unjudged is Unjudged.CONTRADICTS
    assert "the base of this session is 3" in headline(result)


def alone(*times: float, **fields: Any) -> Judged:
    """Launches of head alone."""
    return timed(fmean(times), launches=launches(times, []), **fields)


def test_reference__is_not_clear_where_the_level_disagrees() -> None:
    """From nine runs on the base's record and the branch's level must both be beyond the limit."""
    for head, base, level in ((130.0, 100.0, 125.0), (130.0, 125.0, 100.0)):
        branch = (*runs(20, level=level), point(base))
        result = judged(timed(head), timed(base), policy={}, history=branch)
        assert said(result).unjudged is Unjudged.CONTRADICTS
        assert change(result).reasons[0].code is Why.LEVEL_DISAGREES
        assert "one of them is beyond the limit" in headline(result)
    few = (*runs(7, level=125.0), point(100.0))
    assert verdict(timed(130.0), timed(100.0), policy={}, history=few).outcome is Outcome.FAIL


def test_paired__of_far_too_many_is_not_judged() -> None:
    """A stranger's thousands of pairs do not hold up the report."""
    for count, outcome in ((256, Outcome.PASS), (257, Outcome.INCONCLUSIVE)):
        result = judged(timed(100.0, launches=launches([100.0] * count, [100.0] * count)))
        assert said(result).outcome is outcome
    assert "257 pairs of launches of one case; at most 256 are judged" in headline(result)


def test_warm_up__of_more_steps_than_the_base_s_is_not_compared() -> None:
    """Steps that nobody times could hide a slowdown."""
    longer = [one.but(warmup_steps=20 if one.side == "head" else 5)
              for one in launches([100.0] * 8, [100.0] * 8)]  # fmt: skip
    result = judged(timed(100.0, launches=tuple(longer)))
    assert said(result).unjudged is Unjudged.NOT_AS_DESIGNED
    assert "leave out 20 warm-up steps, those that they are compared with 5" in headline(result)
    recorded = alone(100.0)
    recorded = recorded.but(launches=(recorded.launches[0].but(warmup_steps=5),))
    head = recorded.but(launches=(recorded.launches[0].but(warmup_steps=20),))
    assert verdict(head, recorded).unjudged is Unjudged.NOT_AS_DESIGNED
    assert verdict(recorded, head).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("of_head", "of_base", "is_judged"),
    [(1, 0, True), (5, 0, True), (6, 0, False), (0, 6, True), (3, 4, True), (4, 4, False)],
)
def test_shared__pairs_are_left_out_as_long_as_others_may_have_disturbed_them(
    of_head: int, of_base: int, is_judged: bool
) -> None:
    """Others meet both sides alike, and fewer pairs than are left: no selection of head's own."""
    disturbed = {"head": range(of_head), "base": range(of_head, of_head + of_base)}
    rows = tuple(
        one.but(shared=True, values={STEP_TIME: 300.0, THROUGHPUT: TOKENS / 0.3})
        if one.launch in disturbed[one.side]
        else one
        for one in launches([100.0] * 14, [100.0] * 14)
    )
    result = judged(timed(100.0, launches=rows))
    assert said(result).outcome is (Outcome.PASS if is_judged else Outcome.INCONCLUSIVE)
    if not is_judged:
        assert said(result).unjudged is Unjudged.INVALID_MEASUREMENT
        assert f"others disturbed {of_head + of_base} of 14 measurements" in headline(result)
    allowed = {**TRAINING, "environment": {"reject": ["nan"]}}
    if of_head > 1:
        assert verdict(timed(100.0, launches=rows), policy=allowed).outcome is not Outcome.PASS


def test_shared__the_only_pair_tells_no_change() -> None:
    """Of a session that had time for one disturbed pair nobody reads how much slower it was."""
    rows = tuple(one.but(shared=True) for one in launches([150.0], [100.0]))
    for policy in ({}, TRAINING):
        result = judged(timed(150.0, launches=rows), policy=policy)
        assert said(result).unjudged is Unjudged.INVALID_MEASUREMENT
        assert "others disturbed 1 of 1 measurements" in headline(result)


def test_short__a_void_launch_hides_no_slowdown() -> None:
    """It has few steps because it died: the other launches still prove what they prove."""
    rows = [one.but(timed_steps=20) for one in launches([130.0] * 12, [100.0] * 12)]
    rows[0] = rows[0].but(void=True, values={}, timed_steps=0)
    policy = {**TRAINING, "measure": {"timed_steps": 10}}
    assert verdict(timed(130.0, launches=tuple(rows)), policy=policy).outcome is Outcome.FAIL


def test_count__exactly_at_its_limit_is_within() -> None:
    """Rounding decides nothing: 1.1 GB is 10 % more than 1 GB, and no hair beyond."""
    head, base = (timed(100.0, metrics={MEMORY: gigabytes}) for gigabytes in (1.1, 1.0))
    policy = {**TRAINING, "metrics": {MEMORY: {"warn": 0.1, "fail": 0.1}}}
    assert verdict(head, base, policy=policy).outcome is Outcome.PASS


def test_gate__a_throughput_that_is_lost_is_no_pass() -> None:
    """A script that stops telling its tokens loses the gate on throughput."""
    head = case(card=scorecard(100.0, 0.0))
    assert verdict(head, timed(100.0)).unjudged is Unjudged.NOTHING_MEASURED
    constant = case(card=scorecard(0.0, 1000.0))
    both = case(card=scorecard(100.0, 1000.0))
    assert verdict(constant, both, policy={}).unjudged is Unjudged.NOTHING_MEASURED


def test_gate__a_named_metric_that_neither_side_of_a_session_has_is_no_pass() -> None:
    """The branch has measured it, so a session cannot lose it on both of its sides."""
    policy = {**TRAINING, "metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}}}
    both = beside(eight(0.0), policy=policy)
    recorded = timed(100.0, metrics={"tokenizer_ms": 5.0})
    (done,) = decide([replace(both, recorded=recorded)], (), policy_from(policy))
    assert said(done).unjudged is Unjudged.NOTHING_MEASURED


def qualified(gate_at: float | None, ms: float = 100.0) -> Judged:
    return timed(ms, environment=Environment(gate_at=gate_at))


@pytest.mark.parametrize(
    ("here", "recorded", "code"),
    [
        (None, 0.03, Why.NOT_QUALIFIED),
        (0.03, None, Why.NOT_QUALIFIED_BEFORE),
        (0.03, 0.10, Why.QUALIFIED_FOR_MORE),
        (0.10, 0.03, Why.QUALIFIED_FOR_MORE),
        (0.03, 0.03, None),
    ],
)
def test_qualified__counts_as_the_branch_s_record_says_it(
    here: float | None, recorded: float | None, code: Why | None
) -> None:
    """What the change says of its own machine counts only where it is worse."""
    policy = {**TRAINING, "measure": {"qualified": True}}
    both = replace(
        beside(qualified(here, 101.0), qualified(recorded), policy=policy),
        recorded=qualified(recorded),
    )
    (done,) = decide([both], (), policy_from(policy))
    codes = [reason.code for reason in change(done).reasons]
    assert codes == ([] if code is None else [code])
    if code is not None:
        assert said(done).unjudged is Unjudged.NOT_AS_DESIGNED


def rules() -> CaseRules:
    return rules_of(policy_from(TRAINING), "training")


def test_sharing__a_matrix_says_how_many_tests_there_are() -> None:
    """Each job of a matrix judges one case, and all of them share the chance."""
    many = rules_of(policy_from({**TRAINING, "measure": {"tests": 32}}), "training")
    assert shared_chances([many], [findings(13)]) == [[pytest.approx(0.004 / 32)]]


def test_sharing__what_a_session_says_of_its_plan_makes_its_share_smaller_only() -> None:
    """The policy's looks decide; a session that planned more of them gets less."""
    planned = rules_of(policy_from({**TRAINING, "measure": {"looks": [8, 16, 24]}}), "training")
    for said_looks, share in (((6, 12), 0.0), ((16,), 0.002), (None, 0.002)):
        (row,) = findings(16)
        row = replace(row, looks=said_looks)
        expected = 0.002 if said_looks != (6, 12) else 0.0005
        assert shared_chances([planned], [[row]]) == [[pytest.approx(expected)]]
        assert share <= expected


def test_sharing__what_is_not_tested_takes_no_share() -> None:
    """A metric without pairs, without a gate or without a limit that fails takes none."""
    metric = metric_named("m")
    found = Change(metric="m", base=1.0, head=2.0, delta=1.0)
    pairs = Pairs.of_times([2.0] * 8, [1.0] * 8)
    rows = [
        *findings(8),
        Finding(found, GateRule(metric, gate=True, warn=0.01, fail=0.02)),
        Finding(found, GateRule(metric, gate=False, warn=0.01, fail=0.02), pairs),
        Finding(found, GateRule(metric, gate=True, warn=0.01, fail=None), pairs),
    ]
    (shares,) = shared_chances([rules()], [rows])
    assert shares[0] == pytest.approx(0.004)


@settings(max_examples=4 * settings().max_examples)
@given(
    st.lists(times, min_size=0, max_size=40),
    times,
    times,
    st.sampled_from([{}, TRAINING]),
)
def test_more_history__never_turns_what_blocks_into_green(
    past: list[float], base: float, head: float, table: Mapping[str, Any]
) -> None:
    """Red stays red or becomes unclear; green beyond the limit is never made by more runs."""
    points = tuple(point(ms) for ms in past)
    bare = verdict(timed(head), timed(base), policy=table)
    full = verdict(timed(head), timed(base), history=(*points, point(base)), policy=table)
    if bare.outcome is Outcome.FAIL:
        assert full.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
        assert not full.may_pass


@settings(max_examples=4 * settings().max_examples)
@given(sessions, st.lists(times, max_size=40), st.integers(1, 5))
def test_more_evidence__never_makes_pairs_green(
    rows: list[tuple[float, float]], past: list[float], others: int
) -> None:
    """More metrics, cases, runs or tests leave a session's green with its one ground."""
    head, base = [mine for mine, _ in rows], [theirs for _, theirs in rows]
    numbers = timed(fmean(head), launches=launches(head, base), metrics={"tokenizer_ms": 5.0})
    beside_it = timed(fmean(base), metrics={"tokenizer_ms": 5.0})
    alone_rules = policy_from(TRAINING)
    (alone_done,) = decide([beside(numbers, beside_it)], (), alone_rules)
    more = {**TRAINING, "metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}}}
    cases = [
        beside(numbers.but(name=name), beside_it, policy=more)
        for name in ("training", *(f"other-{number}" for number in range(others)))
    ]
    points = tuple(point(ms) for ms in past)
    among, *_ = decide(cases, points, policy_from(more))
    before, after = said(alone_done), said(among)
    if before.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE):
        assert after.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
        assert not after.may_pass


def test_tokens__that_are_inferred_never_gate() -> None:
    """A throughput of guessed tokens is shown; the step time is judged by its limits."""
    head = timed(104.0, tokens_inferred=True).but(scorecard=scorecard(104.0, 5e5))
    result = judged(head, timed(100.0))
    assert change(result, THROUGHPUT).outcome is None
    assert change(result, STEP_TIME).outcome is Outcome.WARN
    assert change(result, STEP_TIME).fail_limit == 0.05


def test_tokens__of_another_step_leave_no_gate_out() -> None:
    """The memory of twice the batch cannot be compared, so its gate is not passed by that."""
    per_token = {**TRAINING, "environment": {"same_work": []}}
    head = timed(200.0, tokens_per_step=2000.0, metrics={"peak_memory_gb": 60.0})
    base = timed(100.0, tokens_per_step=1000.0, metrics={"peak_memory_gb": 40.0})
    head = head.but(scorecard=scorecard(200.0, TOKENS / 0.1))
    result = judged(head, base, policy=per_token)
    assert said(result).unjudged is Unjudged.NOTHING_MEASURED
    assert change(result, "peak_memory_gb").reasons == (Why.GATE_OF_OTHER_STEP(),)
    assert "not comparable between steps of other sizes" in headline(result)


def test_reference__its_history_proves_nothing_of_other_metrics() -> None:
    """By the reference's rules a metric of the team's own is one number a side, at any length."""
    policy = {"metrics": {"tokenizer_ms": {"direction": "lower", "fail": 0.1}}}
    points = tuple(one.but(metrics={"tokenizer_ms": 5.0}) for one in runs(90))
    head, base = (alone(100.0, 100.0, metrics={"tokenizer_ms": ms}) for ms in (9.0, 5.0))
    result = judged(head, base, policy=policy, history=points)
    assert change(result, "tokenizer_ms").judged_by is JudgedBy.ONE_NUMBER
    assert said(result).unjudged is Unjudged.UNCLEAR
