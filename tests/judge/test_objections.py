"""What forbids green hides no red: other work, a longer warm-up, a disturbed session, whatever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ci_score.compare import compared
from ci_score.judge import decide, exit_code
from ci_score.model.environment import Environment
from ci_score.model.gate import Gate
from ci_score.model.metrics import LAUNCHES, STEP_TIME, THROUGHPUT
from ci_score.model.record import BaselineUsed, HistoryPoint, Judged, LaunchNumbers
from ci_score.model.stages import BaselineFound
from ci_score.model.verdict import Acceptance
from tests.builders import case, record, scorecard
from tests.builders.verdicts import policy as policy_from
from tests.builders.verdicts import reasons

TRAINING: Mapping[str, Any] = {"rules": "training"}
REFERENCE: Mapping[str, Any] = {"rules": "reference"}
TOKENS, WORK = 1000.0, {"final_loss": 2.0, "valid_steps": 20.0}
Side = Literal["head", "base"]
Change = Callable[[LaunchNumbers], LaunchNumbers]
CODES = [0, 3, 1]


def launches(side: Side, times: Sequence[float]) -> tuple[LaunchNumbers, ...]:
    """Each tells its tokens, its loss and its steps."""
    return tuple(
        LaunchNumbers(
            side=side,
            launch=number,
            warmup_steps=2,
            timed_steps=20,
            values={STEP_TIME: ms, THROUGHPUT: TOKENS / ms * 1000.0, **WORK},
        )
        for number, ms in enumerate(times)
    )


def whole(rows: Sequence[LaunchNumbers], tokens: float | None = TOKENS, **fields: Any) -> Judged:
    """The case of a side's launches; a number that one of them does not tell is not told."""
    own = [one.values for one in rows if one.side == rows[0].side]
    known = set.intersection(*({*values} for values in own))
    mean = {name: fmean(values[name] for values in own) for name in known}
    card = scorecard(mean.pop(STEP_TIME), mean.pop(THROUGHPUT, 0.0), wall_coverage=0.0)
    metrics = {**mean, **fields.pop("metrics", {})}
    return case(card=card, tokens_per_step=tokens, metrics=metrics, launches=rows, **fields)


def code_of(
    head: Judged, base: Judged, policy: Mapping[str, Any], history: Sequence[float] = ()
) -> tuple[int, Judged]:
    """The exit code of one case beside its base: of the same session, or of the branch."""
    used = BaselineUsed(source="base", of_session=head.has_both_sides)
    both = compared(head, BaselineFound(base, used), policy_from(policy).metrics)
    points = [
        HistoryPoint(case="training", created_at="", step_time_ms=ms,
                     throughput_tok_s=TOKENS / ms * 1000.0, tokens_per_step=TOKENS)
        for ms in history
    ]  # fmt: skip
    (done,) = decide([replace(both, recorded=base)], tuple(points), policy_from(policy))
    return exit_code(record(done), Gate()), done


def without(*names: str) -> Change:
    return lambda one: one.but(values={n: v for n, v in one.values.items() if n not in names})


def with_values(**values: float) -> Change:
    return lambda one: one.but(values={**one.values, **values})


def twice_the_step(one: LaunchNumbers) -> LaunchNumbers:
    """Twice the tokens in twice the time: a token takes as long as before."""
    return one.but(values={**one.values, STEP_TIME: 2.0 * one.values[STEP_TIME]})


# What head may bring along: its launches, and the fields of its case.
BROUGHT: dict[str, tuple[Change, dict[str, Any]]] = {
    "another loss": (with_values(final_loss=4.0), {}),
    "fewer steps": (with_values(valid_steps=5.0), {}),
    "no loss": (without("final_loss"), {}),
    "no steps": (without("valid_steps"), {}),
    "no tokens": (without(THROUGHPUT), {"tokens": None}),
    "other tokens": (twice_the_step, {"tokens": 2.0 * TOKENS}),
    "more warm-up": (lambda one: one.but(warmup_steps=15), {}),
    "guessed tokens": (without(THROUGHPUT), {"tokens_inferred": True, "tokens": 9 * TOKENS}),
}
# The same of pairs alone: both sides of them were disturbed alike.
OF_PAIRS: dict[str, tuple[Change, dict[str, Any]]] = {
    **BROUGHT,
    "a disturbance": (
        lambda one: one,
        {"environment": Environment(disturbances={"throttled": "it was hot"})},
    ),
    "few steps": (lambda one: one.but(timed_steps=3), {}),
}


def changed(head: Judged, brought: tuple[Change, dict[str, Any]]) -> Judged:
    """The head that brings something along."""
    change, fields = brought
    rows = tuple(change(one) if one.side == "head" else one for one in head.launches)
    kept = {"environment": head.environment, "tokens": head.tokens_per_step, **fields}
    return whole(
        rows, **kept, metrics={n: head.metrics[n] for n in (LAUNCHES,) if n in head.metrics}
    )


times = st.floats(50.0, 200.0)
sessions = st.lists(st.tuples(times, times), min_size=6, max_size=12)
rules = st.sampled_from([TRAINING, REFERENCE, {}])
steady = {"measure": {"timed_steps": 5}}


def pairs_of(rows: Sequence[tuple[float, float]], factor: float = 1.0) -> tuple[Judged, Judged]:
    head = launches("head", [here * factor for here, _ in rows])
    base = launches("base", [there for _, there in rows])
    return whole((*head, *base)), whole(base)


@settings(max_examples=2 * settings().max_examples)
@given(sessions, st.sampled_from(sorted(OF_PAIRS)), st.floats(1.0, 3.0))
def test_pairs__beside_anything_red_stays_red_and_nothing_is_green(
    rows: list[tuple[float, float]], brought: str, factor: float
) -> None:
    """By training's rules: red is red with it and without, and what else was there is exit 3."""
    table = {**TRAINING, **steady}
    head, base = pairs_of(rows, factor)
    before, _ = code_of(head, base, table)
    after, done = code_of(changed(head, OF_PAIRS[brought]), base, table)
    assert after == (1 if before == 1 else 3)
    assert done.verdict is not None
    assert not done.verdict.may_pass


@settings(max_examples=2 * settings().max_examples)
@given(sessions, st.sampled_from(sorted(OF_PAIRS)), st.floats(1.0, 3.0), rules)
def test_pairs__worse_numbers_beside_anything_are_no_better(
    rows: list[tuple[float, float]], brought: str, factor: float, table: Mapping[str, Any]
) -> None:
    """A slower head climbs the same ladder whatever it brings along."""
    codes = []
    for by in (1.0, factor):
        head, base = pairs_of(rows, by)
        codes.append(code_of(changed(head, OF_PAIRS[brought]), base, {**table, **steady})[0])
    assert CODES.index(codes[1]) >= CODES.index(codes[0])


@settings(max_examples=2 * settings().max_examples)
@given(times, st.floats(0.7, 3.0), st.sampled_from(sorted(BROUGHT)), rules, st.booleans())
@example(59.75, 1.2, "other tokens", {"rules": "reference"}, False)
def test_one_number__beside_anything_red_stays_red(
    base_ms: float, factor: float, brought: str, table: Mapping[str, Any], long: bool
) -> None:
    """Of a single record and of a history; between 20 and 25 % a token's limit is another one."""
    past = [base_ms * (1.0 + 0.001 * (number % 5 - 2)) for number in range(90)] if long else []
    head = whole(launches("head", [base_ms * factor] * 2))
    base = whole(launches("head", [base_ms]))
    before, _ = code_of(head, base, table, past)
    after, _ = code_of(changed(head, BROUGHT[brought]), base, table, past)
    if brought == "other tokens" and 1.1999 < factor < 1.2501:
        return
    assert after == (1 if before == 1 else 3)


@pytest.mark.parametrize("brought", sorted(BROUGHT))
def test_count__beside_anything_red_stays_red(brought: str) -> None:
    """More kernels fail, unless the step is another one: then they cannot be compared."""
    head, base = (
        whole(launches("head", [100.0]), metrics={LAUNCHES: count}) for count in (900.0, 500.0)
    )
    assert code_of(head, base, TRAINING)[0] == 1
    after, _ = code_of(changed(head, BROUGHT[brought]), base, TRAINING)
    assert after == (3 if brought == "other tokens" else 1)


def test_red__beside_other_work_can_be_accepted() -> None:
    """The report told of both; a longer warm-up is no work, and blocks on."""
    for brought, outcome in (("another loss", "pass"), ("more warm-up", "inconclusive")):
        head, base = pairs_of([(130.0, 100.0)] * 12)
        head = changed(head, BROUGHT[brought])
        granted = Acceptance(case="training", metric=STEP_TIME, bound=0.4, by="somebody")
        used = BaselineUsed(source="base", of_session=True)
        policy = policy_from(TRAINING)
        both = compared(head, BaselineFound(base, used), policy.metrics)
        (done,) = decide([both], (), policy, [granted])
        assert done.verdict is not None
        assert done.verdict.outcome.value == outcome
        assert reasons(done)


def test_red__says_what_else_is_there() -> None:
    """All of it: the reader sees why a faster step would not have been green."""
    head, base = pairs_of([(130.0, 100.0)] * 12)
    for name in ("another loss", "fewer steps", "more warm-up"):
        head = changed(head, BROUGHT[name])
    code, done = code_of(head, base, TRAINING)
    assert code == 1
    told = " ".join(reasons(done))
    for words in ("final loss is 4 here and 2 there", "5 valid steps here", "15 warm-up steps"):
        assert words in told
