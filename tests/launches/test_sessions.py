"""Sessions of launches: their order, their names, and that they need no profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_score.baselines import FolderBaselines, read_record
from ci_score.files.strict_json import dump
from ci_score.model.record import Judged
from ci_score.model.verdict import Outcome, Unjudged
from ci_score.reference.scoring import LACKING_IN_A_PROFILE
from ci_score.report.headlines import headline
from ci_score.report.rows import notes
from ci_score.run.case_files import CaseFile
from ci_score.run.fork_report import only_numbers
from ci_score.run.reading import read_cases
from ci_score.run.story import Job, run
from tests.builders import profile
from tests.builders.launches import attempt, lines, together
from tests.builders.verdicts import policy_file, verdict_on

SIDES = {"h": "head", "b": "base"}


def in_order(sides: str, **fields: Any) -> bytes:
    """A launch for each letter, in that order."""
    return lines(
        *(
            {
                "side": SIDES[side],
                "launch": sides[:place].count(side),
                "order": place,
                "step_ms": [100.0 + place % 3 / 10],
                "tokens_per_step": 1000,
                **fields,
            }
            for place, side in enumerate(sides)
        )
    )


def case_of(data: bytes, folder: Path, design: str | None, profiles: bytes | None = None) -> Judged:
    files = {"training": [CaseFile("p.json", data=profiles)]} if profiles else {}
    measure = {"design": design} if design else {}
    left = run(
        Job(
            read_cases(files, {"training": [CaseFile("m.jsonl", data=data)]}, {}),
            policy=policy_file(rules="training", measure=measure),
        ),
        baselines=FolderBaselines(folder / "none"),
        publish=lambda _: None,
        now=lambda: "2026-01-02T03:04:05Z",
    )
    assert read_record(dump(left).encode(), "r.json") == left
    return left.cases[0]


# --- in turns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "design", "note"),
    [
        (in_order("hbbhhbbhhbbh", order=0), "interleaved", "is not told"),
        (in_order("hbbhhbbhhbbh"), "interleaved", None),
        (in_order("hbbhhbbhhbbh", order=0), None, None),
    ],
    ids=["unknown", "taken", "unknown and not asked for"],
)
def test_turns__are_else_worth_a_note(
    data: bytes, design: str | None, note: str | None, tmp_path: Path
) -> None:
    """What is not known is no reason to refuse what was measured."""
    case = case_of(data, tmp_path, design)
    assert case.verdict is not None
    assert case.verdict.outcome is Outcome.PASS
    about = [each for each in notes(case) if "before the other" in each or "order" in each]
    assert [note in each for each in about if note] == ([True] if note else [])
    assert bool(about) is (note is not None)


@pytest.mark.parametrize(
    ("mine", "theirs", "both"),
    [(True, True, True), (True, False, False), (False, None, False), (True, None, None)],
)
def test_turns__of_all_attempts_count(
    mine: bool | None, theirs: bool | None, both: bool | None, tmp_path: Path
) -> None:
    """A re-run in turns does not make those of before it."""
    before, now = (
        case_of(in_order("hbbhhbbh", step_ms=[ms]), tmp_path, "history").but(took_turns=turns)
        for ms, turns in ((100.0, theirs), (101.0, mine))
    )
    (found,) = together(now, attempt(1, before)).cases
    assert len(found.launches) == 16
    assert found.took_turns is both


def test_turns__of_a_fork_are_known(tmp_path: Path) -> None:
    """Its numbers are judged by our policy, the design included."""
    case = case_of(in_order("hhhhbbbb"), tmp_path, "history")
    assert only_numbers(case).took_turns is False


# --- names --------------------------------------------------------------------------------------


def test_names__that_fit_no_other_side_are_said() -> None:
    """A case that only the head and one that only the base has may be one under two names."""
    data = in_order("hhh", case="x") + in_order("bbb", case="y") + in_order("hbhb", case="z")
    x, y, z = read_cases({}, {"training": [CaseFile("m.jsonl", data=data)]}, {})
    words = (
        "Of x there are launches of the head and none of the base, and of y the other way round:"
        " is that one case under two names?"
    )
    assert words in [note.words for note in x.notes]
    assert words in [note.words for note in y.notes]
    assert z.notes == ()


def test_names__of_a_case_that_is_new_are_not_doubted() -> None:
    """The base cannot know what the head adds."""
    data = in_order("hhh", case="x") + in_order("hbhb", case="z")
    cases = read_cases({}, {"training": [CaseFile("m.jsonl", data=data)]}, {})
    assert [case.notes for case in cases] == [(), ()]


# --- without a profile --------------------------------------------------------------------------


@pytest.mark.parametrize("given", [True, False])
def test_notes__on_what_a_profile_lacks_are_of_profiles(given: bool, tmp_path: Path) -> None:
    """Whoever only measures did not forget phases and layers."""
    bare = profile(100.0, phases={}, per_layer=(), wall_coverage=0.0).model_dump_json().encode()
    case = case_of(in_order("hbhb"), tmp_path, "history", bare if given else None)
    assert LACKING_IN_A_PROFILE.isdisjoint(note.code for note in case.scorecard.noted) is not given


@pytest.mark.parametrize("design", [None, "interleaved"])
@pytest.mark.parametrize("sides", ["hhhhhhbbbbbb", "bbbbbbhhhhhh"])
def test_turns__that_were_not_taken_make_no_pairs(
    sides: str, design: str | None, tmp_path: Path
) -> None:
    """A drift must not be judged as the change, whatever the policy asks for."""
    case = case_of(in_order(sides), tmp_path, design)
    assert verdict_on(case).unjudged is Unjudged.NOT_AS_DESIGNED
    assert "did not run one after the other" in headline(case)
