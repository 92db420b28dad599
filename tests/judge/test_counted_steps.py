"""Steps that are no steps: another optimizer's, skipped ones, those of a backward pass beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_score.model.reasons import Why
from ci_score.model.verdict import Outcome, Unjudged
from ci_score.report.headlines import headline
from tests.builders.launches import judged, lines

ADAMW = {"optimizer": "AdamW", "parameters": 100, "alone": True, "backward_passes": 1.0}
UNTOLD = {"tokens_per_step": None}
SGD_BESIDE = {"optimizer": "SGD", "parameters": 900, "alone": False}


def session(
    head_ms: float,
    head: dict[str, Any],
    base: dict[str, Any],
    some: dict[str, dict[str, Any]] | None = None,
) -> bytes:
    """Eight pairs in turns, base's of 100 ms; `some` has single launches, such as `h2`."""
    sides = {"head": (head_ms, head), "base": (100.0, base)}
    return lines(
        *(
            {
                "side": side,
                "launch": number,
                "order": 2 * number + place,
                "tokens_per_step": 8192,
                "step_ms": [ms + 0.1 * (number % 3)] * 20,
                **fields,
                **(some or {}).get(f"{side[0]}{number}", {}),
            }
            for number in range(8)
            for place, (side, (ms, fields)) in enumerate(sides.items())
        )
    )


def counted(**fields: Any) -> dict[str, Any]:
    return {"step": {**ADAMW, **fields}, **UNTOLD}


@pytest.mark.parametrize(
    ("head", "base", "code", "words"),
    [
        (SGD_BESIDE, {}, Why.OTHER_OPTIMIZER,
         "a step ends with SGD (900 parameters) here and with AdamW (100 parameters) there"),
        ({}, SGD_BESIDE, Why.OTHER_OPTIMIZER, "no optimizer is in both"),
        ({**SGD_BESIDE, "alone": True}, {}, Why.OTHER_OPTIMIZER, "no optimizer is in both"),
        ({"backward_passes": 2.0}, {}, Why.OTHER_PASSES, "backward passes a step: 2 here, 1 there"),
        ({"backward_passes": 0.5}, {}, Why.OTHER_PASSES, "backward passes a step: 0.5 here"),
        ({"skipped": 1.0}, {"skipped": 0.1}, Why.SKIPPED_STEPS, "skipped 100 % of the steps here"),
        ({"short": 0.5}, {}, Why.SHORT_STEPS, "50 % of the steps here take less than a third"),
    ],
)  # fmt: skip
def test_steps__that_are_counted_otherwise_are_no_faster(
    head: dict[str, Any], base: dict[str, Any], code: Why, words: str, tmp_path: Path
) -> None:
    """The sentence says what it is; the faster time is no pass."""
    data = session(75.0, counted(**head), counted(**base))
    record, verdict = judged(data, tmp_path)
    assert (verdict.outcome, verdict.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.OTHER_WORK)
    assert verdict.decided_by is not None
    assert verdict.decided_by.code is code
    assert words in headline(record.cases[0])


@pytest.mark.parametrize(
    ("head", "base"),
    [
        ({}, {}),
        # Each has one optimizer alone: it, or the model, is the change.
        ({"optimizer": "Muon"}, {}),
        ({"parameters": 120}, {}),
        ({"backward_passes": 1.04}, {}),
        ({"skipped": 0.1}, {"skipped": 0.1}),
        ({"skipped": 0.0}, {"skipped": 1.0}),
        ({"short": 0.3}, {"short": 0.25}),
        ({"left_out_ms": 9.0}, {"left_out_ms": 9.0}),
        ({"left_out_ms": 1.0}, {}),
    ],
)
def test_steps__that_are_the_same_are_judged(
    head: dict[str, Any], base: dict[str, Any], tmp_path: Path
) -> None:
    """What chance does to both sides is no sign."""
    _, verdict = judged(session(99.0, counted(**head), counted(**base)), tmp_path)
    assert verdict.outcome is Outcome.PASS


def test_steps__of_a_base_that_varies_tell_nothing(tmp_path: Path) -> None:
    """As with LBFGS, which looks at a batch as often as it needs to."""
    data = session(99.0, counted(backward_passes=3.0), counted(),
                   {"b1": counted(backward_passes=4.0)})  # fmt: skip
    assert judged(data, tmp_path)[1].outcome is Outcome.PASS


def test_steps__have_their_passes_whatever_tokens_an_option_gives(tmp_path: Path) -> None:
    """`--tokens-per-step` says the same of both sides, and head divides its batch no more."""
    head, base = {"step": ADAMW}, {"step": {**ADAMW, "backward_passes": 4.0}}
    record, verdict = judged(session(40.0, head, base), tmp_path)
    assert verdict.unjudged is Unjudged.OTHER_WORK
    assert "Backward passes a step: 1 in head, 4 in base." in [
        note.words for note in record.cases[0].scorecard.noted
    ]


@pytest.mark.parametrize(("left_out", "outcome"), [(3.0, "pass"), (9.0, "inconclusive")])
def test_steps__that_nobody_timed_could_be_the_slowdown(
    left_out: float, outcome: str, tmp_path: Path
) -> None:
    """Slow ones that recur beyond the window, where they could put it beyond the limit of 5 %."""
    record, verdict = judged(session(99.0, counted(left_out_ms=left_out), counted()), tmp_path)
    assert verdict.outcome == outcome
    if outcome == "inconclusive":
        assert verdict.unjudged is Unjudged.NOT_AS_DESIGNED
        assert "they would add 9 ms more to a step here than there" in headline(record.cases[0])
