"""Launches that are void, disturbed or slow in parts: what that means for their pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_score.compare import Workload, measured_case
from ci_score.errors import BadInputError
from ci_score.launches.lines import read_launches
from ci_score.model.verdict import Outcome, Unjudged
from ci_score.report.headlines import headline
from tests.builders.launches import judged, lines, read

VOID: dict[str, dict[str, Any]] = {
    "crashed": {"failed": "CUDA out of memory", "step_ms": []},
    "nan": {"step_ms": [100.0, None, 100.0]},
    "throttled": {"disturbances": {"throttled": "SW power cap"}},
    "shared": {"disturbances": {"shared": "another process on the GPU"}},
}


def pairs(
    count: int = 6, head_ms: float = 100.0, void: Mapping[str, dict[str, Any]] | None = None
) -> bytes:
    """So many pairs; `h2` and `b0` are what the third launch of head and the first of base are."""
    return lines(
        *(
            {
                "side": side,
                "launch": number,
                "order": 2 * number + place,
                "step_ms": [(head_ms if side == "head" else 100.0) + number / 10],
                **(void or {}).get(f"{side[0]}{number}", {}),
            }
            for number in range(count)
            for place, side in enumerate(("head", "base"))
        )
    )


@pytest.mark.parametrize("side", ["head", "base"])
def test_void__leaves_nothing_green(side: str, tmp_path: Path) -> None:
    """Eleven pairs that pass do not make good a twelfth that measured nothing."""
    for kind in ("crashed", "nan"):
        _, verdict = judged(pairs(12, 100.0, {f"{side[0]}2": VOID[kind]}), tmp_path)
        assert (verdict.outcome, verdict.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.VOID)
    assert judged(pairs(12), tmp_path)[1].outcome is Outcome.PASS


def test_slow_launches__do_not_void_themselves(tmp_path: Path) -> None:
    """Lower clocks are what heavier work makes: such a launch counts as it is, and is named."""
    void = {f"h{number}": VOID["throttled"] for number in range(12)}
    record, verdict = judged(pairs(12, 130.0, void), tmp_path)
    assert verdict.outcome is Outcome.FAIL
    words = "Launch 1 of the head ran with lower clocks, and counts as it is (SW power cap)."
    assert words in record.cases[0].scorecard.notes


def test_void__a_base_that_never_ran_blocks(tmp_path: Path) -> None:
    """A broken build of the base must not turn its gate into a first run."""
    void = {"b0": VOID["crashed"], "b1": VOID["crashed"], "b2": {"failed": "x", "step_ms": []}}
    record, verdict = judged(pairs(3, void=void), tmp_path)
    assert verdict.unjudged is Unjudged.CRASHED_RUN
    assert "no launch of the base was sound; launch 1: " in headline(record.cases[0])


def test_void__steps_of_0_are_no_time() -> None:
    """Such a launch is named; a single 0 among others does not matter."""
    void = {f"{side}{n}": {"step_ms": [0.0, 100.0, 100.0]} for side in "hb" for n in range(6)}
    case = read(pairs(void={**void, "h2": {"step_ms": [0.0, 0.0, 0.0]}}))
    assert [one.launch for one in case.launches if one.void] == [2]
    (note,) = case.notes
    assert "Launch 3 of the head is void (nan: its steps take 0 ms" in note.words


def test_void__many_are_said_in_few_words() -> None:
    """A hundred broken launches are one story."""
    case = read(pairs(100, void={f"h{number}": VOID["nan"] for number in range(90)}))
    assert sum(one.void for one in case.launches) == 90
    assert case.notes[-1].words == "85 more launches are void or were disturbed."


def test_void__where_all_heads_crashed_it_is_a_crashed_run(tmp_path: Path) -> None:
    """With the reason of the first; never a pass, and not a regression."""
    record, verdict = judged(
        pairs(2, void={"h0": VOID["crashed"], "h1": VOID["crashed"]}), tmp_path
    )
    assert (verdict.outcome, verdict.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.CRASHED_RUN)
    assert "CUDA out of memory" in headline(record.cases[0])


def test_shared__where_all_heads_are_disturbed_nothing_is_judged(tmp_path: Path) -> None:
    """A machine that others use is none to measure on."""
    record, verdict = judged(
        pairs(6, 130.0, {f"h{number}": VOID["shared"] for number in range(6)}), tmp_path
    )
    assert verdict.unjudged is Unjudged.INVALID_MEASUREMENT
    assert "others disturbed 6 of 6 measurements" in headline(record.cases[0])
    assert record.cases[0].scorecard.step_time_ms == pytest.approx(130.25)


def test_void__a_number_that_occurs_again_is_another_pair() -> None:
    """Two sessions in one folder each count from 0."""
    case = read(pairs(3, void={"h1": VOID["nan"]}) + pairs(3).replace(b"[1", b"[2"))
    assert case.base is not None
    both = measured_case(case, Workload()).but(launches=(*case.launches, *case.base.launches))
    assert [here.void for here, _ in both.pairs()] == [False, False, True, False, False, False]


@pytest.mark.parametrize("token", ["NaN", "-Infinity", "Infinity"])
def test_nan__is_refused_with_what_to_write(token: str) -> None:
    """JSON has no such number; other mistakes keep their own words."""
    with pytest.raises(BadInputError, match=r"m\.jsonl:1: found NaN or Infinity.*null"):
        read_launches(f'{{"schema": 1, "step_ms": [1.0, {token}]}}\n'.encode(), "m.jsonl")
    with pytest.raises(BadInputError, match="text that is not JSON"):
        read_launches(b'{"schema": 1, "step_ms": [1.0, "NaN" x]}\n', "m.jsonl")


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"disturbances": {"sleepy": "x"}}, "disturbances.sleepy"),
        ({"disturbances": ["x"]}, "disturbances"),
        ({"failed": 3}, "failed"),
        ({"failed": "x" * 201}, "failed"),
        ({"step_ms": ["100"]}, "step_ms[0]"),
        ({"step_ms": []}, "step_ms"),
        ({"step_ms": [1e308, 1e308]}, "step_ms[0]"),
    ],
    ids=str,
)
def test_void__what_is_wrong_is_named(row: dict[str, Any], field: str) -> None:
    """The file, the line and the field."""
    with pytest.raises(BadInputError, match=r"m\.jsonl:1") as refused:
        read_launches(lines(row), "m.jsonl")
    assert refused.value.field.startswith(field)


def test_launch__whose_numbers_overflow_is_wrong() -> None:
    """Its throughput would be no number: a problem of its case, and no crash of ours."""
    with pytest.raises(BadInputError, match=r"m\.jsonl:1: .*overflows"):
        read_launches(lines({"step_ms": [1e-300], "tokens_per_step": 1e300}), "m.jsonl")


def test_versions__of_each_side_are_its_own(tmp_path: Path) -> None:
    """Two worktrees may have two environments: what differs is told as where it came from."""
    rows = [
        {"side": side, "launch": number, "versions": {"torch": version}}
        for side, version in (("head", "2.9.0"), ("base", "2.8.0"))
        for number in range(5)
    ]
    record, _ = judged(lines(*rows), tmp_path)
    assert record.cases[0].baseline is not None
    assert record.cases[0].baseline.changed_versions == ("torch 2.8.0 → 2.9.0",)


@pytest.mark.parametrize("kind", ["crashed", "nan"])
@pytest.mark.parametrize("side", ["head", "base"])
def test_void__stays_in_its_pair_without_numbers(kind: str, side: str) -> None:
    """A launch without a time is not left out: it may have been endlessly slow."""
    case = read(pairs(void={f"{side[0]}2": VOID[kind]}))
    assert case.base is not None
    both = (*case.launches, *case.base.launches)
    assert len(both) == 12
    (void,) = [one for one in both if one.void]
    assert (void.side, void.launch, void.values) == (side, 2, {})
    assert case.problem is None
    (note,) = case.notes
    assert note.words.startswith(f"Launch 3 of the {side} is void ({kind}: ")


def test_void__what_is_slower_fails_beside_it(tmp_path: Path) -> None:
    """A slowdown is proven by eleven pairs as well as by twelve."""
    record, verdict = judged(pairs(12, 130.0, {"h2": VOID["crashed"]}), tmp_path)
    assert verdict.outcome is Outcome.FAIL
    (samples,) = {change.samples for change in record.cases[0].changes if change.samples}
    assert samples == 11
    assert any("Launch 3 of the head" in note for note in record.cases[0].scorecard.notes)


def test_shared__what_others_disturbed_is_left_out(tmp_path: Path) -> None:
    """It is measured again; where that is head's launches alone, it is not by others."""
    one = {"h2": {**VOID["shared"], "step_ms": [900.0]}}
    record, verdict = judged(pairs(12, 100.0, one), tmp_path)
    assert verdict.outcome is Outcome.PASS
    assert record.cases[0].scorecard.step_time_ms < 110.0
    notes = record.cases[0].scorecard.notes
    assert any("Launch 3 of the head was disturbed by others" in note for note in notes)
    _, verdict = judged(pairs(14, void={f"h{row}": one["h2"] for row in range(6)}), tmp_path)
    assert verdict.unjudged is Unjudged.INVALID_MEASUREMENT


def test_stalls__count_and_are_said(tmp_path: Path) -> None:
    """Time is the sum of all steps: one stall of a hundred steps is in the launch's mean."""
    steps = [100.0] * 19 + [2100.0]
    void = {f"h{number}": {"step_ms": steps} for number in range(12)}
    void |= {f"b{number}": {"step_ms": [100.0] * 20} for number in range(12)}
    record, verdict = judged(pairs(12, void=void), tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert record.cases[0].scorecard.step_time_ms == pytest.approx(200.0)
    words = "The mean step, which is judged, is 100 % longer than the median step: 12 of 240 steps"
    assert any(note.startswith(words) for note in record.cases[0].scorecard.notes)


def test_stalls__of_the_base_and_small_ones_are_counted_too(tmp_path: Path) -> None:
    """What takes over three times as long is said, however little of the mean it is."""
    void = {f"h{number}": {"step_ms": [100.0] * 20} for number in range(12)}
    void |= {f"b{number}": {"step_ms": [100.0] * 20} for number in range(12)}
    void["b3"] = {"step_ms": [100.0] * 19 + [400.0]}
    record, _ = judged(pairs(12, void=void), tmp_path)
    words = "1 of 240 steps of the base take over 3 times as long as the median step"
    assert any(note.startswith(words) for note in record.cases[0].scorecard.notes)
