"""Where in the code a step changed: the sentence, the links, the rows, and what is said of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.code_changes import Blame, ChangedPlace, CodeChanges, DefinitionChange
from ci_score.model.explanation import Explanation
from ci_score.model.record import BaselineUsed, Judged, Record
from ci_score.model.step_code import CodeWork
from ci_score.model.verdict import Outcome
from ci_score.report.code_rows import FEW, code_notes, code_rows, more_code
from ci_score.report.code_words import mostly_time, short_path, where_words
from ci_score.report.headlines import headline
from ci_score.report.html.page import report_html
from ci_score.report.links import file_link
from ci_score.report.markdown import report_markdown
from ci_score.report.screen import Screen
from ci_score.report.terminal import report_text
from tests.builders import case, code_shown, record
from tests.builders.code_shown import (
    BLOCK,
    HEAD,
    REPOSITORY,
    TRAIN,
    caller,
    code,
    definition,
    line,
    slower_code,
    work,
)
from tests.builders.reports import HOSTILE, demo

BASE = "b" * 40


def known(change: CodeChanges, **fields: Any) -> Judged:
    explanation = Explanation(
        basis="device", base_step_ms=300.0, head_step_ms=380.0, parts=(), code=change
    )
    return case(explanation=explanation, **fields)


def heading(told: Record) -> str:
    return report_markdown(told).split("\n\n")[1]


# --- the sentence ---------------------------------------------------------------------------------


def near(within: Any, line: int, more: int = 0, file: str = code_shown.MODEL) -> ChangedPlace:
    return ChangedPlace(within=within, file=file, line=line, more=more)


SENTENCES: dict[str, tuple[Callable[[], CodeChanges], str]] = {
    "touched": (
        code_shown.touched,
        "in 'Attention.forward' (src/model.py:88, changed here)",
    ),
    "untouched": (
        code_shown.untouched,
        (
            "in 'Attention.forward' (src/model.py:88), not changed, called 12 → 20 times a step"
            " from 'Block.forward' (src/block.py:12, changed here)"
        ),
    ),
    "untouched, and not run before": (
        lambda: code_shown.of_other_work("calls", status="new", base=CodeWork()),
        "in 'Attention.forward' (src/model.py:80), not changed, now called 12 times a step",
    ),
    "another path by its class": (
        lambda: code_shown.of_other_work("path", near("outer", 45)),
        (
            "in 'Attention.forward' (src/model.py:80), not changed, takes another path; 'Attention'"
            " is changed at src/model.py:45"
        ),
    ),
    "another path by its file": (
        lambda: code_shown.of_other_work("path", near("file", 3, 2)),
        (
            "in 'Attention.forward' (src/model.py:80), not changed, takes another path; its file is"
            " changed at src/model.py:3 and in 2 more places"
        ),
    ),
    "another path by another file": (
        lambda: code_shown.of_other_work("path", near("diff", 3, file="config.py")),
        (
            "in 'Attention.forward' (src/model.py:80), not changed, takes another path; the change"
            " is at config.py:3"
        ),
    ),
    "another path by its caller": (
        lambda: code_shown.of_other_work("path", callers=(caller(touched=True),)).but(
            time=Blame(definition=0, share=0.9, by="path", called_from=0)
        ),
        (
            "in 'Attention.forward' (src/model.py:80), not changed, takes another path, called from"
            " 'Block.forward' (src/block.py:12, changed here)"
        ),
    ),
    "other work in each call": (
        lambda: code_shown.of_other_work("work", near("diff", 70, file=TRAIN)),
        (
            "in 'Attention.forward' (src/model.py:80), not changed, launches more work in each"
            " call; the change is at train.py:70"
        ),
    ),
    "more of the backward pass": (
        lambda: code_shown.of_other_work("backward", near("diff", 302, file=TRAIN)),
        (
            "in 'Attention.forward' (src/model.py:80), not changed, runs more of the backward pass;"
            " the change is at train.py:302"
        ),
    ),
    "no longer run": (
        lambda: code(definition(status="gone", head=CodeWork(), touched=False)),
        "in 'Attention.forward' (src/model.py:80), no longer run",
    ),
    "of a library": (
        code_shown.of_library,
        "in transformers 'LlamaMLP.forward', from 'train' (train.py:40)",
    ),
    "of a library, by the line that calls it": (
        lambda: code(definition("train", file=TRAIN, lines=(line(40, through="torch F.linear"),))),
        "in torch 'F.linear', from 'train' (train.py:40)",
    ),
    "compiled": (
        code_shown.compiled,
        "in the compiled code that 'train' calls (train.py:40)",
    ),
    "compiled, called by the script": (
        lambda: code(definition("<module>", file=TRAIN, lines=(line(40, is_compiled=True),))),
        "in the compiled code that the script calls (train.py:40)",
    ),
    "of stacks": (code_shown.of_stacks, "in 'Attention.forward' (src/model.py)"),
    "of source fields": (code_shown.of_source_fields, "in src/model.py:88"),
    "of a script": (
        lambda: code(definition("<module>", file=TRAIN, touched=True, lines=(line(9),))),
        "in train.py:9 (changed here)",
    ),
    "without a diff": (code_shown.too_large, "in 'Attention.forward' (src/model.py:88)"),
    "not changed": (
        lambda: code(definition(touched=False)),
        "in 'Attention.forward' (src/model.py:80), not changed",
    ),
    "gone": (
        lambda: code(definition(status="gone", head=CodeWork())),
        "in 'Attention.forward' (src/model.py:80), which is gone",
    ),
    "by what it calls": (
        lambda: code(
            definition("Block.forward", file=BLOCK, touched=True, head=work(60.3)),
            time=Blame(definition=0, share=0.9),
        ),
        "in 'Block.forward' (src/block.py:80, changed here), with what it calls",
    ),
    "of a caller without a file": (
        lambda: code(definition("torch F.linear", file=None, callers=(caller("step", file=None),))),
        "in torch 'F.linear'",
    ),
    "of nothing that is known": (lambda: code(definition("", file=None)), ""),
    "without a blame": (lambda: code(definition(touched=True), time=None), ""),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_where__is_said_as_it_is_known(name: str) -> None:
    """A line only where one is known, and what was not touched is never called changed."""
    change, expected = SENTENCES[name]
    assert where_words(change()) == expected


def test_where__stands_behind_the_cause() -> None:
    """The op first, then the line that launches it."""
    told = headline(slower_code(code_shown.touched()))
    assert "swiglu_bwd" in told
    assert told.endswith(" · in 'Attention.forward' (src/model.py:88, changed here)")


def test_where__is_the_cause_if_no_other_is_known() -> None:
    """With how much more time it takes."""
    told = headline(slower_code(code_shown.touched(), cause=None, counts_cause=None))
    expected = (
        "mostly 'Attention.forward' (src/model.py:88, changed here): +76.8 ms (60.2 → 137 ms)"
    )
    assert told.endswith(expected)
    calls = SENTENCES["by what it calls"][0]()
    assert mostly_time(calls) == (
        "mostly 'Block.forward' (src/block.py:80, changed here), with what it calls"
    )


def test_where__nothing_is_said_without_a_blame() -> None:
    """The sentence is that of a report that knows no code."""
    without = headline(slower_code(code_shown.touched().but(time=None)))
    assert without == headline(demo())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.py", "model.py"),
        ("src/train/models/attention.py", "src/train/models/attention.py"),
        ("packages/trainer/src/trainer/models/attention.py", "…/src/trainer/models/attention.py"),
        (f"{'a' * 50}/b.py", "…/b.py"),
        ("a\u202eb.py", "a\ufffdb.py"),
    ],
)
def test_path__is_cut_in_front(path: str, expected: str) -> None:
    """The file stays whole, and nothing reorders what a person reads."""
    assert short_path(path) == expected


# --- links ----------------------------------------------------------------------------------------


def test_link__leads_to_the_line_at_the_head() -> None:
    """In the comment and on the page; the path's parts are encoded one by one."""
    told = slower_code(
        code(definition(file="src/a b#c%/mo(d)el|.py", touched=True, lines=(line(),)))
    )
    address = f"{REPOSITORY}/blob/{HEAD}/src/a%20b%23c%25/mo%28d%29el%7C.py#L88"
    assert f"]({address}), changed here)" in heading(told)
    assert f'<a href="{address}">' in report_html(told)


def test_link__is_the_newest_commit_of_a_pull_request() -> None:
    """People do not know its test merge."""
    told = slower_code(code_shown.touched()).but(pull=3, pull_head="c" * 40)
    assert f"{REPOSITORY}/blob/{'c' * 40}/src/model.py#L88" in heading(told)


def test_link__of_a_gitea_is_another() -> None:
    """It shows a file at a commit below `src/commit`."""
    told = slower_code(code_shown.touched()).but(server="gitea")
    assert f"({REPOSITORY}/src/commit/{HEAD}/src/model.py#L88)" in heading(told)


def test_link__of_what_is_gone_leads_to_the_base() -> None:
    """Where the baseline is a commit of the branch, and else there is none."""
    gone = definition(status="gone", was_file="old.py", head=CodeWork())
    told = slower_code(code(gone))
    (judged,) = told.cases
    assert judged.baseline is not None
    assert "](" not in heading(told)
    of_branch = judged.but(baseline=BaselineUsed(source="artifact", commit=BASE, commits_away=0))
    assert f"({REPOSITORY}/blob/{BASE}/old.py#L80)" in heading(told.but(cases=(of_branch,)))


@pytest.mark.parametrize("fields", [{"commit": None}, {"repository": None}])
def test_link__needs_a_commit_and_a_repository(fields: dict[str, None]) -> None:
    """Without either the place is plain text."""
    assert "(src/model.py:88, changed here)" in heading(
        slower_code(code_shown.touched()).but(**fields)
    )


def test_link__of_a_library_is_none() -> None:
    """Only the line of the repository that reaches it has one."""
    text = heading(slower_code(code_shown.of_library()))
    assert text.count("](") == 1
    assert f"{REPOSITORY}/blob/{HEAD}/train.py#L40" in text


LYING = ["../model.py", "a/../b.py", "/etc/passwd", "a\\b.py", "a//b.py", "./a.py", "a/\u202eyp.b",
         "a\nb.py", ".git/config", "..", "C:\\a.py"]  # fmt: skip


@pytest.mark.parametrize("path", LYING)
def test_link__is_never_made_of_a_path_that_lies(path: str) -> None:
    """What is no file within the repository stays text, in each renderer."""
    told = slower_code(
        code(definition(file=path, touched=True, lines=(line(),), callers=(caller(file=path),)))
    )
    assert "/blob/" not in report_markdown(told)
    assert "/blob/" not in report_html(told)
    assert "model.py" not in path or path in headline(told)


@given(path=st.text(max_size=60), number=st.none() | st.integers(1, 10**7))
def test_link__stays_below_the_commit(path: str, number: int | None) -> None:
    """Whatever a path holds, its address has no part that leads elsewhere, and gives it back."""
    address = file_link(slower_code(code()), HEAD, path, number)
    if address:
        beginning = f"{REPOSITORY}/blob/{HEAD}/"
        assert address.startswith(beginning)
        rest = address.removeprefix(beginning)
        assert re.fullmatch(r"[A-Za-z0-9_.~%/-]+(#L[0-9]+)?", rest)
        assert unquote(rest.partition("#")[0]) == path
        assert not {"", ".", ".."}.intersection(rest.partition("#")[0].split("/"))


# --- rows -----------------------------------------------------------------------------------------


def test_rows__are_the_definitions_whose_time_changed() -> None:
    """In the order of the comparison; what changed by less than a hundredth has none."""
    still = definition("Embedding.forward", head=work(60.21))
    shown = known(code(*code_shown.touched().definitions, still))
    rows = code_rows(shown, record(shown))
    assert [row.name.pieces[0] for row in rows] == [
        "Attention.forward", "RotaryEmbedding.apply", "Attention.mask", "Attention.fused",
        "Loader.fetch",
    ]  # fmt: skip
    assert [row.is_blamed for row in rows] == [True, False, False, False, False]


def test_rows__are_none_whose_time_is_noise() -> None:
    """Such a definition is there for its memory alone; it is not counted either."""
    noise = definition("Embedding.forward", touched=False, is_noise=True)
    shown = known(code(definition(touched=True, head=work(70.0)), noise))
    assert [row.name.pieces[0] for row in code_rows(shown, record(shown))] == ["Attention.forward"]
    assert more_code(shown, 1) == ""


def test_rows__have_what_is_blamed_for_what_it_calls() -> None:
    """Its own time may be the same as before."""
    same = definition("train", file=TRAIN, touched=True, head=work(60.2))
    blamed = Blame(definition=0, share=0.9)
    shown = known(code(same, definition(touched=False), time=blamed))
    assert [row.is_blamed for row in code_rows(shown, record(shown))] == [True, False]


def test_rows__say_what_happened_to_a_definition() -> None:
    """Changed, moved, renamed, new or gone, or called otherwise; its launches are no calls."""
    renamed = definition("Attention.attend", was_name="Attention.forward", touched=True)
    idle, busy = CodeWork(), work(60.2, calls=4)
    others = (
        definition("not run before", status="new", touched=False, base=idle, head=busy),
        definition("no longer run", status="gone", touched=False, base=busy, head=idle),
        definition("called", touched=False, base=busy, head=work(137.0, calls=8)),
        definition("called as often", touched=False, base=busy, head=work(137.0, calls=4)),
        definition("uncounted", touched=False, base=work(60.2), head=work(137.0, calls=4)),
    )
    shown = known(code(*code_shown.touched().definitions, renamed, *others))
    tags = [row.tags for row in code_rows(shown, record(shown))]
    assert tags == [
        ("changed here",),
        ("changed here", "moved from src/model.py"),
        ("new",),
        ("gone",),
        (),
        ("changed here", "was Attention.forward"),
        ("not run before", "called 4 times a step"),
        ("no longer run",),
        ("called 4 → 8 times a step",),
        (),
        (),
    ]


def test_rows__say_what_the_time_is_made_of() -> None:
    """Forward, backward, Python in between, and launches; nothing of what is not there."""
    shown = known(code_shown.touched())
    first, moved, _, gone, loader = code_rows(shown, record(shown))
    assert first.work == [
        ("forward", "20.1 → 45.7 ms"), ("backward", "40.1 → 91.3 ms"), ("launches", "24"),
    ]  # fmt: skip
    assert dict(moved.work)["Python between"] == "0 → 0.800 ms"
    assert dict(gone.work)["launches"] == "4 → 0"
    assert loader.work == [("Python between", "1.40 → 3.90 ms")]
    called = known(code_shown.untouched())
    assert code_rows(called, record(called))[0].work[-2:] == [
        ("launches", "24 → 40"), ("calls", "12 → 20"),
    ]  # fmt: skip
    assert (first.times, gone.times) == ("60.2 → 137 ms", "1.90 ms → –")


def test_rows__have_their_lines_and_callers() -> None:
    """A line that the diff touches says so; a line that is gone is the base's."""
    shown = known(code_shown.touched())
    first = code_rows(shown, record(shown))[0]
    assert [(line.name, line.tags) for line in first.lines] == [
        ("line 88", ("changed here",)),
        ("line 91 through torch 'F.linear'", ()),
        ("line 96", ("gone",)),
    ]
    assert [one.name for one in first.callers] == [
        "'Block.forward' src/block.py:12", "'evaluate' train.py:70",
    ]  # fmt: skip
    assert first.inside == "3 lines, 2 callers"


def test_rows__the_few_have_what_explains_most() -> None:
    """Also where the diff touches others, which come first."""
    small = [definition(f"Small.{number}", touched=True, head=work(64)) for number in range(4)]
    shown = known(code(*small, definition(touched=False), time=Blame(definition=4, share=0.8)))
    rows = code_rows(shown, record(shown), FEW)
    assert [row.name.pieces[0] for row in rows] == ["Small.0", "Small.1", "Attention.forward"]


def test_rows__more_are_counted() -> None:
    """Those of the comparison that have no row, and those that are not shown here."""
    shown = known(code_shown.touched())
    assert more_code(shown, 5) == "The time of 3 more functions changed."
    assert more_code(shown, FEW) == "The time of 5 more functions changed."
    assert more_code(shown, 8) == ""


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        ("known", None),
        ("not asked", "No diff was asked for"),
        ("too large", "The diff is too large"),
        ("not found", "The diff was not found"),
        ("other commit", "The diff is of another commit than the measured one"),
    ],
)
def test_notes__say_the_state_of_the_diff(diff: Any, words: str | None) -> None:
    """In one sentence, and none where it is there."""
    notes = code_notes(known(code_shown.touched().but(diff=diff)))
    assert any(note.startswith(words) for note in notes) if words else "diff" not in str(notes)


def test_notes__say_how_much_has_no_line_and_what_marks_cost() -> None:
    """A sentence each; less than a hundredth without a line is not worth one."""
    change = code_shown.touched()
    assert code_notes(known(change)) == [
        "No line is known of 8.10 → 8.20 ms of a step's work (297 → 374 ms).",
        (
            "With the marks that find the lines a step took 431 ms, without them 394 ms; no other"
            " number of this report is of that launch."
        ),
    ]
    odd = change.but(marked_ms=380.0)
    assert "they did not run equally undisturbed." in " ".join(code_notes(known(odd)))
    whole = change.but(base_without_line_ms=0.1, head_without_line_ms=0.1, marked_ms=None)
    assert code_notes(known(whole)) == []
    assert code_notes(case()) == []


def test_notes__say_what_stacks_do_not_tell() -> None:
    """And that the diff touches nothing of it, where that is so."""
    assert "which tell no lines" in code_notes(known(code_shown.of_stacks()))[0]
    assert "without their functions" in code_notes(known(code_shown.of_source_fields()))[0]
    untouched = code(definition(touched=False))
    assert "The diff touches none of these functions." in code_notes(known(untouched))
    called = "The diff touches none of these functions, but some that call them."
    assert called in code_notes(known(code_shown.untouched()))


# --- renderers ------------------------------------------------------------------------------------


def test_comment__has_three_rows_and_folds_the_rest() -> None:
    """The open part has the largest; lines and notes stand in the fold."""
    opened, _, folded = report_markdown(slower_code(code_shown.touched())).partition("<details>")
    assert opened.count(f"/blob/{HEAD}/") == 1 + FEW
    assert "line 88" not in opened
    assert "**Where in the code**" in folded
    assert "[line 88]" in folded
    assert "With the marks" in folded


def test_comment__fits_with_code() -> None:
    """Of many cases each has its functions while they fit."""
    one = slower_code(code_shown.touched()).cases[0]
    cases = [one.but(name=f"model-{number}") for number in range(64)]
    told = record(*cases, commit=HEAD, repository=REPOSITORY)
    text = report_markdown(told, limit=65_000)
    assert len(text.encode()) <= 65_000
    assert f"/blob/{HEAD}/" in text


def test_comment__a_name_ends_no_cell() -> None:
    """A row has as many cells as its table, whatever a function is called."""
    nasty = definition(HOSTILE, file="a|b.py", touched=True, lines=(line(through=HOSTILE),))
    text = report_markdown(slower_code(code(nasty, caller_of(HOSTILE))))
    rows = [row for row in text.splitlines() if row.startswith("|") and "everyone" in row]
    assert len(rows) == 3
    cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert cells == {6}


def caller_of(name: str) -> DefinitionChange:
    return definition("Loss.forward", callers=(caller(name),), lines=(line(3),))


def test_terminal__has_a_few_and_with_all_more() -> None:
    """Three functions, or each with its lines."""
    told = slower_code(code_shown.touched())
    few = report_text(told, Screen(width=100))
    part = few.partition("Where in the code")[2]
    assert "Attention.mask" in part
    assert "Attention.fused" not in part
    assert "line 88" not in part
    assert "The time of 5 more functions changed." in part
    whole = report_text(told, Screen(width=100), whole=True).partition("Where in the code")[2]
    assert "Attention.fused src/model.py:110, gone" in whole
    assert "  line 88, changed here" in whole


def test_page__shows_each_function_with_its_lines() -> None:
    """A heading, a badge, the lines in a fold that is open where the time went, and notes."""
    html = report_html(slower_code(code_shown.touched()))
    section = html.partition("Where in the code</h2>")[2].partition("<h2")[0]
    assert section.count("<li>") == 5
    assert section.count("<details open>") == 1
    assert section.count(">changed here</span>") == 3
    assert "moved from src/model.py" in section
    assert "The time of 3 more functions changed." in section
    assert "Python between" in section


def test_page__of_many_cases_has_room_for_their_code() -> None:
    """Those that pass have a few functions each, and only what explains most has its lines."""
    many = [definition(f"Block{n}.forward", lines=(line(n + 1),) * 12) for n in range(12)]
    one = slower_code(code(*many)).cases[0]
    assert one.verdict is not None
    passing = one.but(verdict=one.verdict.but(outcome=Outcome.PASS, decided_by=None))
    cases = [passing.but(name=f"model-{number}") for number in range(32)]
    html = report_html(record(*cases, commit=HEAD, repository=REPOSITORY))
    sections = html.split("Where in the code</h3>")[1:]
    assert len(sections) == 32
    assert {one.partition("<h3")[0].count("<li>") for one in sections} == {FEW}
    assert {one.partition("<h3")[0].count("<details") for one in sections} == {1}


def test_page__hostile_names_stay_text() -> None:
    """Nothing of theirs becomes an element or an address."""
    nasty = definition(
        HOSTILE,
        file='"><script>alert(1)</script>.py',
        was_file="<img src=x>.py",
        was_name="<em>",
        touched=True,
        lines=(line(through="<i> <tt>"),),
        callers=(caller("<big>", file="javascript:alert(1)"),),
    )
    html = report_html(slower_code(code(nasty)))
    assert "&lt;img src=x&gt;" in html
    assert not re.search(r"<(img|em|i|tt|big)>|<script>alert|href=\"javascript", html)
    (address,) = set(re.findall(r'href="([^"]*alert[^"]*L12)"', html))
    assert address == f"{REPOSITORY}/blob/{HEAD}/javascript%3Aalert%281%29#L12"


def test_page__without_code_has_no_such_section() -> None:
    """Neither where nothing is known, nor where no function changed."""
    assert "Where in the code" not in report_html(demo())
    assert "Where in the code" not in report_html(
        slower_code(code(definition(head=work(60.2)), time=None))
    )
