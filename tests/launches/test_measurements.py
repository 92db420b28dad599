"""Measurements: what launches tell beside their numbers."""

from __future__ import annotations

import pytest

from ci_score.errors import BadInputError
from ci_score.launches.lines import Launch, notes_on, read_launches, took_turns
from ci_score.measure.launch.launching import line_of


def launch(*step_ms: float, warmup_steps: int = 0) -> Launch:
    return Launch.model_validate({"schema": 1, "step_ms": step_ms, "warmup_steps": warmup_steps})


def notes(code: str, launches: list[Launch]) -> list[str]:
    """What is said of such launches under that code."""
    return [note.words for note in notes_on(launches) if note.code == code]


USUAL = (100.0, 102.0, 98.0, 101.0, 99.0, 100.0)


def test_warm_up__that_was_not_declared_is_said() -> None:
    """A compilation in the first timed step of nearly every launch is no luck."""
    launches = [launch(230.0, *USUAL), launch(250.0, *USUAL), launch(240.0, *USUAL)]
    (words,) = notes("warm_up_not_declared", launches)
    assert words == (
        "The first timed step of 3 of 3 launches takes 2.4 times as long as usual: more warm-up"
        " steps than declared?"
    )


def test_warm_up__changes_no_number() -> None:
    """Detection only flags: what is timed is what was declared."""
    assert launch(230.0, *USUAL).timed_ms == (230.0, *USUAL)


@pytest.mark.parametrize(
    "launches",
    [
        [launch(230.0, *USUAL, warmup_steps=1)] * 3,
        [launch(230.0, *USUAL)] * 2,
        [launch(230.0, *USUAL)] * 3 + [launch(*USUAL)] * 3,
        [launch(105.0, *USUAL)] * 3,
        [launch(230.0, 300.0, *USUAL)] * 3,
        [launch(0.0, 0.0)] * 3,
        [launch(100.0)] * 3,
        [],
    ],
    ids=["declared", "few", "some", "a little", "not the slowest", "zeros", "one step", "none"],
)
def test_warm_up__is_not_seen_everywhere(launches: list[Launch]) -> None:
    """What may be luck, or is declared, is not said."""
    assert notes("warm_up_not_declared", launches) == []


def lines(*texts: str) -> list[Launch]:
    return read_launches("\n".join(texts).encode(), "measurements.jsonl")


def test_keys__that_nobody_knows_are_said() -> None:
    """Once for all lines, with the one that was probably meant; the numbers count."""
    launches = lines(
        '{"schema": 1, "step_ms": [1, 2], "warm_up_steps": 1, "gpu": "x"}',
        '{"schema": 1, "step_ms": [1, 2], "warm_up_steps": 1}',
        '{"schema": 1, "step_ms": [1, 2], "versions": {"any": "name"}}',
    )
    (words,) = notes("unknown_keys", launches)
    assert words == (
        "Measurement lines have keys that ci-score does not know: warm_up_steps in 2 lines (did"
        " you mean warmup_steps?), gpu in 1 line."
    )
    assert notes("unknown_keys", lines('{"schema": 1, "step_ms": [1]}')) == []


def test_keys__a_stranger_cannot_say_which_are_unknown() -> None:
    """What the reader keeps of them is its own, and is neither written nor part of a digest."""
    (launch,) = lines('{"schema": 1, "step_ms": [1], "strange_keys": ["a", 3]}')
    assert launch.strange_keys == ("strange_keys",)
    assert "strange" not in launch.model_dump_json()


def test_keys__that_nobody_knows_stay_in_the_line_that_a_session_writes() -> None:
    """So that the run that reads it can say so."""
    (launch,) = lines('{"schema": 1, "step_ms": [1], "gpu": "x"}')
    assert lines(line_of(launch)) == [launch]
    assert launch.strange_keys == ("gpu",)


def test_keys__a_typo_of_what_a_line_must_have_is_the_mistake() -> None:
    """And not that the right one is missing."""
    with pytest.raises(BadInputError, match=r"x:1: stepms: found a key .* expected step_ms"):
        read_launches(b'{"schema": 1, "stepms": [1, 2]}', "x")


def in_order(sides: str) -> list[Launch]:
    return [
        Launch.model_validate(
            {
                "schema": 1,
                "step_ms": [100.0],
                "side": {"h": "head", "b": "base"}[side],
                "launch": sides[:place].count(side),
                "order": place,
            }
        )
        for place, side in enumerate(sides)
    ]


@pytest.mark.parametrize(
    ("sides", "turns"), [("hhhhbbbb", False), ("bbhh", False), ("hbbhhb", True)]
)
def test_turns__are_known_by_the_order(sides: str, turns: bool) -> None:
    """Pairs that did not run side by side share no mood of the machine."""
    assert took_turns(in_order(sides)) is turns


def test_turns__are_not_guessed_where_no_order_was_told() -> None:
    """Lines without an order all have the same one."""
    assert took_turns([one.but(order=0) for one in in_order("hhbb")]) is None


def test_lines__of_another_file_say_what_is_expected() -> None:
    """A stranger to the format learns which file it is, and not which key a line lacks."""
    with pytest.raises(BadInputError, match=r"no line of measurements, .* `ci-score ab`"):
        read_launches(b'{"a": 1}', "wrong.json")
