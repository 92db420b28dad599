"""The report in a terminal: as wide as it is, worst first, and no word is broken."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.metrics import STEP_TIME
from ci_score.model.reasons import Why, quoted
from ci_score.model.record import Judged, Record
from ci_score.model.stages import BaselineMissing
from ci_score.model.verdict import Change, Outcome, Unjudged, Verdict
from ci_score.report.cells import CUT, cells, kept_apart, shortened, shown, tokens, wrapped
from ci_score.report.profile import profile_text
from ci_score.report.screen import Screen
from ci_score.report.tables import Kind
from ci_score.report.terminal import SHOWN_CASES, report_text
from ci_score.report.words import delta_interval, time_interval
from tests.builders import case, found, on, profile, record, scorecard
from tests.builders.reports import HOSTILE, demo, hostile, matrix
from tests.builders.showcase import large, slow_pull_request
from tests.builders.verdicts import judged_case

WIDTHS = (60, 80, 120, 200)


def some_cases() -> Record:
    return large(16, layers=4, runs=5)


def judged(name: str, step_ms: float) -> Judged:
    base = found(case(environment=on("L4", 1)))
    return judged_case(
        case(name, scorecard(step_ms, 100_000 / step_ms)).but(environment=on("L4", 1)), base
    )


def many(cases: int = 64, failing: int = 3) -> Record:
    """The failing ones stand last."""
    steps = [100.0] * (cases - failing) + [125.0 + place for place in range(failing)]
    return record(*(judged(f"model-{place:02}@l4", ms) for place, ms in enumerate(steps)))


def without_baseline(cases: int) -> Record:
    missing = BaselineMissing(Unjudged.FIRST_RUN, Why.NO_RECORD_IN(folder="baselines"))
    names = (f"model-{place:03}@l4" for place in range(cases))
    return record(*(judged_case(case(name, environment=on("L4")), missing) for name in names))


def widest(text: str) -> int:
    return max(cells(line) for line in text.splitlines())


# --- the width ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "made", [demo, matrix, hostile, slow_pull_request, some_cases, lambda: without_baseline(20)]
)
def test_terminal__no_line_is_wider(made: Callable[[], Record], width: int, whole: bool) -> None:
    """Whatever the report holds, it fits the terminal."""
    assert widest(report_text(made(), Screen(width), whole=whole)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_terminal__no_line_of_a_profile_is_wider(width: int) -> None:
    """Its names, sources and notes come from a stranger."""
    long = "aten::" + "native_batch_norm_backward_" * 9
    nasty = profile(
        ops={HOSTILE: 3.0, long: 2.0, "核" * 90: 1.0},
        accelerator=HOSTILE * 3,
        notes=(HOSTILE * 4, "核" * 300, long),
    )
    assert widest(profile_text(nasty, Screen(width))) <= width


@pytest.mark.parametrize(
    ("text", "width"),
    [("kernel", 6), ("核心", 4), ("e\u0301", 1), ("🚀", 2), ("⚠", 1), ("✅", 2), ("→", 1)],
)
def test_cells__are_those_of_a_terminal(text: str, width: int) -> None:
    """Wide characters take two, and marks on a character none."""
    assert cells(text) == width


def test_shown__has_signs_of_one_width() -> None:
    """Terminals disagree on how wide the coloured form of a sign is, so the plain one is shown."""
    assert shown("⚠️ warning") == "⚠ warning"
    # What it stood between must not become a command to a runner.
    assert "##[" not in shown("#\ufe0f#[error]")


# --- lines --------------------------------------------------------------------------------------

ANY_TEXT = st.text(
    st.sampled_from("ab c:#0 1.,(%)−+→`✅\u0301核�") | st.characters(exclude_categories=["Cs"]),
    max_size=120,
)
SENTENCES = st.lists(
    st.sampled_from(
        ["25.9 %", "(309 ms → 389 ms a step)", "−10 % warns,", "`ci-score ab`", "26.5 k tok/s",
         "❌ fails", "slower", "(+7.2 to +10.8 %)", "77.9 → 115 ms/step", "核心", "communication"]
    ),
    max_size=30,
).map(" ".join)  # fmt: skip


@given(SENTENCES, st.integers(26, 200))
def test_wrapped__breaks_neither_numbers_nor_words(text: str, width: int) -> None:
    """A number keeps its unit, a sign its word, and short brackets and code stay whole."""
    lines = wrapped(text, width)
    assert all(cells(line) <= width for line in lines)
    assert [token for line in lines for token in tokens(line)] == tokens(text)


@given(ANY_TEXT, st.integers(10, 200))
def test_wrapped__any_text_fits(text: str, width: int) -> None:
    """Words that fit into a line are kept; longer ones lose their middle."""
    line = shown(text)
    lines = wrapped(line, width)
    assert all(cells(one) <= width for one in lines)
    words = " ".join(lines).split()
    assert len(words) == len(line.split())
    for word, before in zip(words, line.split(), strict=True):
        assert word == before or (CUT in word and cells(before) > width)


@given(ANY_TEXT, st.integers(10, 100))
def test_wrapped__no_line_is_a_command(text: str, width: int) -> None:
    """A runner would obey a line that begins with `::`, which wrapping can make of any word."""
    lines = Screen(width).text(f"{text} ::error::{text}").splitlines()
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)


# --- names --------------------------------------------------------------------------------------


def test_shortened__keeps_a_mark_with_its_character() -> None:
    """A mark that lost its character would stand on the cut."""
    name = "e\u0301" * 30
    assert unicodedata.normalize("NFC", shortened(name, 11)) == "é" * 5 + CUT + "é" * 5


def test_kept_apart__names_that_differ_in_their_middle() -> None:
    """As the kernels of a template do."""
    names = [f"void_gemm_kernel_{'x' * 30}_{tile}_{'y' * 30}" for tile in ("64x64", "64x32")]
    assert len(set(kept_apart(names, 24).values())) == 2


@given(st.sets(st.text("ab", min_size=20, max_size=40), max_size=40), st.integers(12, 30))
def test_kept_apart__no_two_names_become_one(names: set[str], width: int) -> None:
    """However alike they are, and as short as the column wants them."""
    short = kept_apart(sorted(names), width)
    assert len(set(short.values())) == len(names)
    assert all(cells(text) <= width for text in short.values())


@pytest.mark.parametrize("width", [60, 80, None])
def test_terminal__two_ops_are_never_called_the_same(width: int | None) -> None:
    """Where their short names are the same, their full names are shortened apart."""
    kernels = [f"void {'gemm_' * 20}<{tile}>()" for tile in ("64x64", "64x32")]
    text = profile_text(profile(ops=dict.fromkeys(kernels, 2.0)), Screen(width))
    rows = text.split("Ops\n")[1].splitlines()[:2]
    assert len({row.split("2.00 ms")[0] for row in rows}) == 2


# --- tables -------------------------------------------------------------------------------------

NUMBERS = st.sampled_from(["1.25 ms", "+80.0 ms", "26.5 k tok/s", "–", "12,980", "67.3 %"])
CELLS: dict[Kind, st.SearchStrategy[str]] = {
    "fixed": st.sampled_from(["Fail", "Warning", "not judged"]),
    "number": NUMBERS,
    "name": ANY_TEXT,
    "text": SENTENCES | ANY_TEXT,
    "bar": st.sampled_from(["", "█" * 12]),
}
KINDS: st.SearchStrategy[list[Kind]] = st.lists(
    st.sampled_from(list(CELLS)), min_size=1, max_size=6
)
TABLES = KINDS.flatmap(
    lambda kinds: st.tuples(
        st.just(kinds),
        st.lists(st.tuples(*(CELLS[kind] for kind in kinds)), min_size=1, max_size=6),
    )
)


@given(TABLES, st.sampled_from(WIDTHS))
def test_table__fits_and_keeps_its_numbers(
    table: tuple[list[Kind], list[tuple[str, ...]]], width: int
) -> None:
    """Whichever columns give way, each number stands in one piece."""
    kinds, rows = table
    text = Screen(width).table(rows, kinds, ["head"] * len(kinds))
    assert widest(text) <= width
    for row in rows:
        for kind, cell in zip(kinds, row, strict=True):
            assert kind != "number" or cell in text


def test_table__folds_what_has_no_room_below_its_row() -> None:
    """Behind the heading of its column."""
    row = ("kernel", "1.25 ms", "26.5 k tok/s", "26.5 k tok/s", "26.5 k tok/s", "26.5 k tok/s")
    kinds: list[Kind] = ["name", *(["number"] * 5)]  # type: ignore[list-item]
    text = Screen(40).table([row], kinds, ("op", "a", "b", "c", "d", "launches"))
    assert "\n    launches: 26.5 k tok/s" in text


def test_table__of_one_column_fits_too() -> None:
    """What never gives way beside others is shortened where it alone is too long."""
    assert widest(Screen(40).table([("x" * 70, "12,345")], ("fixed", "number"))) <= 40


def test_message__keeps_a_path_whole() -> None:
    """It is there to be copied, so that the terminal may break it; other words wrap."""
    path = "/a" * 40
    lines = Screen(40).message(f"written: {path} and the comment of the pull request").splitlines()
    assert lines == ["written:", path, "and the comment of the pull request"]


def test_table__leaves_out_bars_first() -> None:
    """They repeat the numbers beside them."""
    rows = [("backward of all layers", "184 ms", "262 ms", "+77.6 ms", "█" * 12)]
    kinds: tuple[Kind, ...] = ("name", "number", "number", "number", "bar")
    assert "█" in Screen(80).table(rows, kinds)
    narrow = Screen(55).table(rows, kinds)
    assert "█" not in narrow
    assert "backward of all layers" in narrow


def test_bar__is_of_letters_where_there_are_no_blocks() -> None:
    """Longer and shorter times differ in sign, not only in colour."""
    screen = Screen(80, has_blocks=False)
    assert screen.bar(2.0, 4.0) == "######"
    assert screen.bar(-4.0, 4.0) == "............"
    assert Screen(80).bar(-1.0, 4.0) == "░░░"


# --- the ops ------------------------------------------------------------------------------------


def test_terminal__shows_the_ops_that_changed() -> None:
    """With their times on both sides and how often they are launched."""
    rows = [line.split() for line in report_text(slow_pull_request(), Screen(80)).splitlines()]
    assert ["op", "base", "head", "change", "launches"] in rows
    shown_row = ["swiglu_bwd", "5.28", "ms", "57.1", "ms", "+51.8", "ms", "24", "→", "72"]
    assert shown_row in rows


def test_terminal__says_once_that_a_case_is_not_judged() -> None:
    """Its headline begins with it, so that the verdict's word is left out."""
    text = report_text(matrix())
    assert "\nNot " in text
    assert ": Not " not in text


# --- many cases ---------------------------------------------------------------------------------


def test_terminal__many_cases_are_read_on_three_screens() -> None:
    """What fails is on the first one; each case that passes has one line."""
    text = report_text(many(), Screen(80))
    lines = text.splitlines()
    assert len(lines) <= 150
    assert lines[0] == lines[-1] == "64 cases: 3 fail, 61 pass"
    assert [line.split()[1] for line in lines if line.startswith("  Fail")] == [
        "model-63@l4",
        "model-62@l4",
        "model-61@l4",
    ]
    assert all(sum(f"model-{place:02}@l4" in line for line in lines) == 1 for place in range(61))
    assert text.index("model-61@l4") < text.index("model-07@l4")


def test_terminal__shows_every_case_in_full_if_asked() -> None:
    """Also those that pass: the facts of each are there."""
    assert report_text(many(9, 2), Screen(80)).count("Backward / forward") == 0
    assert report_text(many(9, 2), Screen(80), whole=True).count("Backward / forward") == 9


def test_terminal__no_case_that_fails_is_unnamed() -> None:
    """Of very many the first have a block of their own, and the others are named."""
    made = many(40, 30)
    text = report_text(made, Screen(80))
    assert "`--all` shows these in full, too:" in text
    assert text.count("\nFail: ") == SHOWN_CASES
    assert all(case.name in text for case in made.cases)


def test_terminal__a_reason_of_many_cases_is_said_once() -> None:
    """In one row of the overview and one block, which names them all."""
    made = without_baseline(200)
    text = report_text(made, Screen(80))
    assert text.count("no record in baselines") == 1
    assert "model-000@l4, 199 more" in text
    assert all(case.name in text for case in made.cases)


def test_terminal__cases_without_a_verdict_have_a_line_each() -> None:
    """As of a record that was only measured."""
    text = report_text(record(case("a"), case("b")), Screen(80))
    assert [line.split()[0] for line in text.splitlines()] == ["case", "a", "b"]


def test_terminal__a_long_why_ends_between_words() -> None:
    """The overview has two lines for it; the case's own block has the whole sentence."""
    change = Change(
        metric=STEP_TIME, base=100.0, head=130.0, delta=0.3, gated=True, outcome=Outcome.FAIL
    )
    reason = Why.MISMATCH(key="accelerator", here="L4 " * 30, there="T4")
    decided = Verdict(outcome=Outcome.FAIL, decided_by=reason)
    failing = case("fails", changes=(change,), verdict=decided)
    overview, block = report_text(record(failing, judged("b", 100.0)), Screen(80)).split("\n\n")[
        1:3
    ]
    assert overview.endswith(f" {CUT}")
    assert overview.count("\n") == 2
    assert block.split().count("L4") == 30


def test_bar__of_the_largest_numbers_is_whole() -> None:
    """A stranger's time may be as large as a number can be."""
    assert Screen().bar(1.7e308, 1.7e308).startswith("█" * 12)


def test_report__begins_with_the_verdict_and_notes_come_second() -> None:
    """Whatever there is to note of the whole report."""
    for told in (demo(), matrix()):
        alone = report_text(told).split("\n\n")
        noted = told.but(notices=(quoted("The policy is new."),))
        first, note, *rest = report_text(noted).split("\n\n")
        assert (first, note, rest) == (alone[0], "Note: The policy is new.", alone[1:])


def test_interval__of_two_ends_that_read_the_same_is_no_interval() -> None:
    """`−14 % (−14 to −14 %)` says nothing that `−14 %` does not say."""
    change = Change(
        metric=STEP_TIME, base=302.0, head=260.0, delta=-0.139, low=-0.1391, high=-0.1389
    )
    assert time_interval(change) == delta_interval(change) == "−14 %"
    assert time_interval(change.but(low=-0.15)) == "−14 % (−15 to −14 %)"
