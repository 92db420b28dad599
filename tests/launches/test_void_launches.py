"""Launches that are void: their pairs do not count, and nothing else is lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_score.errors import BadInputError
from ci_score.launches.lines import read_launches, sound
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
    """So many pairs; `h2` and `b0` are what the head's launch 2 and the base's launch 0 are."""
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


@pytest.mark.parametrize("kind", VOID)
@pytest.mark.parametrize("side", ["head", "base"])
def test_void__of_a_pair_both_sides_go(kind: str, side: str) -> None:
    """Half a pair proves nothing; the others count, and it is said."""
    case = read(pairs(void={f"{side[0]}2": VOID[kind]}))
    assert case.base is not None
    numbers = [0, 1, 3, 4, 5]
    assert [one.launch for one in case.launches] == numbers
    assert [one.launch for one in case.base.launches] == numbers
    assert case.problem is None
    (note,) = case.notes
    assert note.words.startswith(f"Launch 2 of the {side} is void ({kind}: ")
    assert note.words.endswith("its pair does not count.")


def test_void__pairs_that_are_left_are_judged(tmp_path: Path) -> None:
    """A slowdown is confirmed by five pairs as well as by six."""
    record, verdict = judged(pairs(6, 130.0, {"h2": VOID["throttled"]}), tmp_path)
    assert verdict.outcome is Outcome.FAIL
    (samples,) = {change.samples for change in record.cases[0].changes if change.samples}
    assert samples == 5
    assert any("Launch 2 of the head" in note for note in record.cases[0].scorecard.notes)


def test_void__a_launch_without_pairs_goes_alone() -> None:
    """Single launches are each their own evidence."""
    rows = [{"launch": 0}, {"launch": 1, **VOID["shared"]}, {"launch": 2}]
    case = read(lines(*rows))
    assert [one.launch for one in case.launches] == [0, 2]
    assert case.notes[0].words.endswith("it does not count.")


def test_void__a_base_that_never_ran_blocks(tmp_path: Path) -> None:
    """A broken build of the base must not turn its gate into a first run."""
    void = {"b0": VOID["crashed"], "b1": VOID["crashed"], "b2": {"failed": "x", "step_ms": []}}
    record, verdict = judged(pairs(3, void=void), tmp_path)
    assert verdict.unjudged is Unjudged.CRASHED_RUN
    assert "no launch of the base was sound: Launch 0 of the base is void" in headline(
        record.cases[0]
    )


def test_void__where_all_bases_are_disturbed_the_policy_decides(tmp_path: Path) -> None:
    """As of the head: what has times may be judged by a policy that says so."""
    data = pairs(6, 130.0, {f"b{number}": VOID["throttled"] for number in range(6)})
    record, verdict = judged(data, tmp_path)
    assert verdict.unjudged is Unjudged.INVALID_MEASUREMENT
    assert "its baseline's measurement was disturbed" in headline(record.cases[0])
    base = read(data).base
    assert base is not None
    assert len(base.launches) == 6


@pytest.mark.parametrize("crashes", [4, 7])
def test_void__a_head_that_crashes_is_not_judged_by_its_other_launches(
    crashes: int, tmp_path: Path
) -> None:
    """Half the launches out of memory, and the other half as fast as ever, is no pass."""
    oom = {"failed": "oom", "step_ms": []}
    void = {f"h{number}": oom for number in range(crashes)}
    record, verdict = judged(pairs(8, void=void), tmp_path)
    assert (verdict.outcome, verdict.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.CRASHED_RUN)
    words = f"{crashes} of 8 launches of the head crashed (oom), 0 of the base"
    assert words in headline(record.cases[0])


@pytest.mark.parametrize("bases", [1, 2, 3])
def test_void__crashes_of_both_sides_are_the_machine_s(bases: int) -> None:
    """A head that crashes about as often as its base is judged by the pairs that are left."""
    void = {f"h{number}": VOID["crashed"] for number in range(2)}
    void |= {f"b{number}": VOID["crashed"] for number in range(bases)}
    case = read(pairs(8, void=void))
    assert case.profile.unusable is None
    assert len(case.launches) == 8 - max(2, bases)


def test_void__a_median_of_0_is_no_time() -> None:
    """Such a launch goes with its pair, and is named; a single 0 among others does not matter."""
    void = {f"{side}{n}": {"step_ms": [0.0, 100.0, 100.0]} for side in "hb" for n in range(6)}
    case = read(pairs(void={**void, "h2": {"step_ms": [0.0, 0.0, 100.0]}}))
    assert [one.launch for one in case.launches] == [0, 1, 3, 4, 5]
    (note,) = case.notes
    assert "Launch 2 of the head is void (nan: its median step takes 0 ms" in note.words


def test_void__many_are_said_in_few_words() -> None:
    """A hundred broken launches are one story."""
    case = read(pairs(100, void={f"h{number}": VOID["nan"] for number in range(90)}))
    assert len(case.launches) == 10
    assert case.notes[-1].words == "85 more launches are void."


def test_void__where_all_heads_crashed_it_is_a_crashed_run(tmp_path: Path) -> None:
    """With the reason of the first; never a pass, and not a regression."""
    record, verdict = judged(
        pairs(2, void={"h0": VOID["crashed"], "h1": VOID["crashed"]}), tmp_path
    )
    assert (verdict.outcome, verdict.unjudged) == (Outcome.INCONCLUSIVE, Unjudged.CRASHED_RUN)
    assert "CUDA out of memory" in headline(record.cases[0])


@pytest.mark.parametrize("kind", ["nan", "throttled", "shared"])
def test_void__where_all_heads_are_disturbed_the_policy_decides(kind: str, tmp_path: Path) -> None:
    """A laptop that always throttles may say so in its policy; by default nothing is judged."""
    data = pairs(6, 130.0, {f"h{number}": VOID[kind] for number in range(6)})
    assert len(read(data).launches) == 6
    record, verdict = judged(data, tmp_path)
    assert verdict.unjudged is Unjudged.INVALID_MEASUREMENT
    assert f"{kind}: 6 of 6 launches" in headline(record.cases[0])


def test_void__a_number_that_occurs_again_is_another_pair() -> None:
    """Two sessions in one folder each count from 0."""
    both = pairs(3, void={"h1": VOID["nan"]}) + pairs(3)
    launches = read_launches(both, "m.jsonl")
    kept = [(one.side, one.launch) for one in sound(launches).launches]
    assert kept.count(("head", 1)) == kept.count(("base", 1)) == 1
    assert len(kept) == 10


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
