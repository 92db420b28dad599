"""Did both sides do the same work? Whoever does less, or says less of it, is no faster."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_score.launches.attempts import as_one
from ci_score.model.record import Judged
from ci_score.model.verdict import Outcome, Unjudged, Verdict
from ci_score.report.headlines import headline
from ci_score.report.rows import notes
from tests.builders.launches import judged, lines, read

PAIRS = 8


def session(
    head_ms: float = 100.0,
    head: Mapping[str, Any] | None = None,
    base: Mapping[str, Any] | None = None,
    some: Mapping[str, Mapping[str, Any]] | None = None,
) -> bytes:
    """Pairs in turns; `head` and `base` are of all launches of a side, `some` of single ones."""
    luck = random.Random(5)  # noqa: S311 - no secret
    sides = {"head": (head_ms, head or {}), "base": (100.0, base or {})}
    return lines(
        *(
            {
                "side": side,
                "launch": number,
                "order": 2 * number + place,
                "tokens_per_step": 8192,
                "step_ms": [ms * luck.gauss(1, 0.005) for _ in range(20)],
                **fields,
                **(some or {}).get(f"{side[0]}{number}", {}),
            }
            for number in range(PAIRS)
            for place, (side, (ms, fields)) in enumerate(sides.items())
        )
    )


def outcome(data: bytes, folder: Path) -> tuple[Judged, Verdict]:
    record, verdict = judged(data, folder)
    return record.cases[0], verdict


def refused(data: bytes, folder: Path) -> str:
    case, verdict = outcome(data, folder)
    assert (verdict.outcome, verdict.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.OTHER_WORK)
    return headline(case)


# --- loss and valid steps -----------------------------------------------------------------------


@pytest.mark.parametrize("head_ms", [90.0, 100.0])
@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"final_loss": 2.0}, "final loss"),
        ({"metrics": {"valid_steps": 20}}, "valid steps"),
    ],
    ids=["loss", "valid steps"],
)
def test_untold__beside_a_base_that_tells_is_refused(
    fields: dict[str, Any], label: str, head_ms: float, tmp_path: Path
) -> None:
    """Leaving the loss out must not switch the check off, at any speed."""
    words = refused(session(head_ms, base=fields), tmp_path)
    assert f"its baseline tells its {label}, and this run does not" in words


@pytest.mark.parametrize("fields", [{"head": {"final_loss": 2.0}}, {}], ids=["new", "never"])
def test_untold__by_the_base_is_nothing_lost(fields: dict[str, Any], tmp_path: Path) -> None:
    """Who starts to tell a loss is not refused for it."""
    case, verdict = outcome(session(90.0, **fields), tmp_path)
    assert verdict.outcome is Outcome.PASS
    assert verdict.remarks == ()
    assert not any("this run does not" in note for note in notes(case))


def varying(side: str, *losses: float) -> dict[str, dict[str, Any]]:
    """Another loss in each launch of a side, in turn."""
    return {
        f"{side}{number}": {"final_loss": losses[number % len(losses)]} for number in range(PAIRS)
    }


VARIES = "seeds are not fixed"


@pytest.mark.parametrize("by", [{}, {"loss_from": "hook"}], ids=["script", "hook"])
def test_loss__is_compared_where_the_base_repeats_its_own(
    by: dict[str, str], tmp_path: Path
) -> None:
    """Within the tolerance; the head's own noise does not switch that off."""
    told = {"final_loss": 2.0, **by}
    assert "final loss" in refused(
        session(90.0, head={**told, "final_loss": 2.3}, base=told), tmp_path
    )
    noisy = session(90.0, head=told, base=told, some=varying("h", 2.2, 2.9))
    assert "final loss" in refused(noisy, tmp_path)
    case, verdict = outcome(
        session(90.0, head=told, base=told, some=varying("b", 1.99, 2.05)), tmp_path
    )
    assert verdict.outcome is Outcome.PASS
    assert not any(VARIES in note for note in notes(case))


@pytest.mark.parametrize(
    "head", [{"final_loss": 2.3, "loss_from": "hook"}, {}], ids=["other", "none"]
)
def test_loss__that_no_launch_of_the_base_repeats_is_not_compared(
    head: dict[str, Any], tmp_path: Path
) -> None:
    """Without fixed seeds it says nothing of the work; the report says so once."""
    base = {"loss_from": "hook"}
    data = session(90.0, head=head, base=base, some=varying("b", 1.8, 2.0, 2.3))
    case, verdict = outcome(data, tmp_path)
    assert verdict.outcome is Outcome.PASS
    assert len([note for note in notes(case) if VARIES in note]) == 1


def test_loss__of_one_launch_counts_only_as_a_script_s_own(tmp_path: Path) -> None:
    """The hook finds one in every script, and one launch does not show that it repeats."""
    two = {"base": {"final_loss": 2.0}, "head": {"final_loss": 2.3}}
    for by in ({}, {"loss_from": "hook"}):
        rows = [{"side": side, **fields, **by} for side, fields in two.items()]
        _, verdict = outcome(lines(*rows), tmp_path)
        assert (verdict.unjudged is Unjudged.OTHER_WORK) is (not by)


def test_valid_steps__of_the_worst_launch_count(tmp_path: Path) -> None:
    """Three launches that skip their steps are not made good by five that do not."""
    every = {"metrics": {"valid_steps": 20}}
    skipped = {f"h{number}": {"metrics": {"valid_steps": 1}} for number in (1, 4, 6)}
    words = refused(session(head=every, base=every, some=skipped), tmp_path)
    assert "1 valid steps here, 20 there" in words


def test_valid_steps__of_several_attempts_are_the_fewest() -> None:
    """Other metrics have their typical value."""
    assert as_one("valid_steps", [20.0, 1.0, 20.0]) == 1.0
    assert as_one("recompiles", [20.0, 1.0, 20.0]) == 20.0


@pytest.mark.parametrize(("head", "asked"), [(1e-9, False), (9e-4, False), (0.5, True)])
def test_loss__near_nothing_is_nothing(head: float, asked: bool, tmp_path: Path) -> None:
    """A share of 0 tells nothing: two losses that are both next to it are the same."""
    data = session(90.0, head={"final_loss": head}, base={"final_loss": 0.0})
    _, verdict = outcome(data, tmp_path)
    assert (verdict.unjudged is Unjudged.OTHER_WORK) is asked


# --- tokens and steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["head", "base"])
def test_tokens__that_differ_within_a_side_are_refused(side: str, tmp_path: Path) -> None:
    """The last launch does not speak for the others."""
    less = {f"{side[0]}{number}": {"tokens_per_step": 4096} for number in range(3)}
    words = refused(session(some=less), tmp_path)
    expected = f"the launches of the {side} did not do the same work: 4096 to 8192 tokens a step"
    assert expected in words


def test_tokens__of_a_ragged_batch_are_the_same(tmp_path: Path) -> None:
    """Within two percent nothing else is trained."""
    data = session(some={"h3": {"tokens_per_step": 8100}})
    assert outcome(data, tmp_path)[1].outcome is Outcome.PASS


def test_tokens__that_some_launches_do_not_tell_are_not_known(tmp_path: Path) -> None:
    """Two launches do not speak for the others; their step time shows all the same."""
    silent = {f"h{number}": {"tokens_per_step": None} for number in range(2, PAIRS)}
    assert outcome(session(130.0, some=silent), tmp_path)[1].outcome is Outcome.FAIL
    case, verdict = outcome(session(100.0, some=silent), tmp_path)
    assert verdict.unjudged is Unjudged.OTHER_WORK
    assert "each launch of its baseline tells its tokens a step" in headline(case)
    assert (
        "6 of 8 launches of the head do not tell their tokens a step, so their throughput is not"
        " known."
    ) in case.scorecard.notes


def test_tokens__of_a_side_are_its_typical_ones() -> None:
    """As its step time is; the last launch is no better than the others."""
    case = read(session(some={"h7": {"tokens_per_step": 4096}}))
    assert case.profile.tokens_per_step == 8192


def test_steps__that_differ_between_the_sides_are_said(tmp_path: Path) -> None:
    """A longer warm-up may hide slow steps, so it is not compared."""
    case, verdict = outcome(session(head={"warmup_steps": 5}), tmp_path)
    assert verdict.unjudged is Unjudged.NOT_AS_DESIGNED
    assert "leave out 5 warm-up steps, those that they are compared with 0" in headline(case)
    assert [note for note in case.scorecard.notes if "those of the base" in note] == [
        "The launches of the head have 5 warm-up steps, those of the base 0.",
        "The launches of the head have 15 timed steps, those of the base 20.",
    ]
    assert outcome(session(base={"warmup_steps": 5}), tmp_path)[1].outcome is Outcome.PASS
