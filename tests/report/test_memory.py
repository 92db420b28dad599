"""A peak of memory beyond its limit has an explanation of its own, and no table of times."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ci_score.baselines import read_record
from ci_score.model.record import Record
from ci_score.report.headlines import headline
from ci_score.report.html.page import report_html
from ci_score.report.markdown import report_markdown
from ci_score.report.memory_words import is_memory_alone, memory_bars, memory_rows, needs_memory
from ci_score.report.terminal import report_text
from tests.builders.code_shown import GB, code, definition, of_memory, with_code, work
from tests.builders.reports import HOSTILE
from tests.builders.states import by_operators, of_peaks

STYLES = ("markdown", "html", "terminal")
TEXTS: dict[str, Any] = {
    "markdown": report_markdown,
    "html": report_html,
    "terminal": report_text,
}


def of_code(**fields: Any) -> Record:
    return with_code(of_peaks(), of_memory().but(**fields))


def test_memory__is_explained_by_the_function() -> None:
    """The headline has the peak, and the cause the function with its line and its bytes."""
    assert headline(of_code()) == (
        "Fail: peak memory +15 % · 18.9 → 21.7 GB: mostly 'Attention.forward'"
        " (src/model.py:88, changed here): +2.50 GB"
    )


def test_memory__is_explained_by_operators_without_code() -> None:
    """What allocated at least half of the growth."""
    told = of_peaks({"aten::mm": 26 * GB // 10, "aten::gelu": GB}, {"aten::mm": 51 * GB // 10})
    assert headline(told).endswith(": mostly what 'aten::mm' allocates: +2.50 GB (2.60 → 5.10 GB)")


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ({}, {"aten::mm": 5 * GB}),
        ({"aten::mm": 3 * GB}, {}),
        ({"a": GB, "b": GB, "c": GB}, {"a": 2 * GB, "b": 2 * GB, "c": 2 * GB}),
        ({"aten::mm": 3 * GB}, {"aten::mm": 2 * GB}),
    ],
)
def test_memory__is_said_as_it_was_where_nothing_explains_it(
    base: dict[str, int], head: dict[str, int]
) -> None:
    """One side alone, no operator with half of it, and a peak that shrank in the profile."""
    assert headline(of_peaks(base, head)) == headline(of_peaks())
    assert headline(of_peaks()) == "Fail: peak memory +15 % · 18.9 → 21.7 GB"


def test_memory__its_rows_sum_to_the_change() -> None:
    """The functions, then all else, and the peak."""
    (judged,) = of_code().cases
    rows = memory_rows(judged)
    assert [row.name for row in rows] == [
        "'Attention.forward' (src/model.py:80)", "'Loss.forward' (src/loss.py:7)", "all else",
        "peak",
    ]  # fmt: skip
    assert sum(row.delta_bytes for row in rows[:-1]) == rows[-1].delta_bytes == 28 * GB // 10
    assert [row.delta for row in rows] == ["+2.50 GB", "+0.200 GB", "+0.100 GB", "+2.80 GB"]


def test_memory__new_and_gone_operators_have_a_dash() -> None:
    """Nothing is no number of bytes."""
    (judged,) = of_peaks({"old": GB}, {"new": 3 * GB}).cases
    new, old, peak = memory_rows(judged)
    assert (new.base, new.head, new.delta) == ("–", "3.00 GB", "+3.00 GB")
    assert (old.base, old.head, old.delta) == ("1.00 GB", "–", "−1.00 GB")
    assert peak.delta == "+2.00 GB"
    assert memory_bars(judged) == ["new  +3.00 GB  ████████████", "old  −1.00 GB  ░░░░"]


@pytest.mark.parametrize("style", STYLES)
def test_memory__alone_has_no_table_of_times(style: str) -> None:
    """Where only the peak is beyond a limit, its own parts are shown."""
    text = TEXTS[style](of_code())
    assert "Where the +2.80 GB at the peak went" in text
    assert "Attention.forward" in text
    assert not re.search(r"Where the [^<\n]* ms went|Ops that changed|Where in the code", text)


@pytest.mark.parametrize("style", STYLES)
def test_memory__beside_a_slowdown_both_are_shown(style: str) -> None:
    """The step's parts, and those of the peak."""
    told = with_code(of_peaks(step_ms=400.0), of_memory())
    (judged,) = told.cases
    assert needs_memory(judged)
    assert not is_memory_alone(judged)
    text = TEXTS[style](told)
    assert "Where the +2.80 GB at the peak went" in text
    assert re.search(r"Where the [^<\n]* ms went", text)


def test_memory__within_its_limit_is_not_explained() -> None:
    """Nobody asks where a little went."""
    (judged,) = with_code(of_peaks(peak_gb=18.91), of_memory()).cases
    assert not needs_memory(judged)
    assert "at the peak" not in report_markdown(with_code(of_peaks(peak_gb=18.91), of_memory()))


def test_memory__links_its_functions_on_the_page() -> None:
    """With the line where each begins, as everywhere."""
    html = report_html(of_code())
    section = html.partition("at the peak went</h2>")[2].partition("<h2")[0]
    assert re.search(r'<a href="[^"]+/src/model\.py#L80">src/model\.py:80</a>', section)


def test_memory__hostile_operators_stay_text() -> None:
    """In a comment and on the page."""
    told = of_peaks({HOSTILE: GB}, {HOSTILE: 3 * GB})
    text, html = report_markdown(told), report_html(told)
    assert "<img" not in html
    assert "\n@everyone" not in text
    block = text.partition("```text\n")[2].partition("```")[0]
    assert len(block.splitlines()) == 1


def test_memory__the_record_keeps_what_explains_it() -> None:
    """A report made of the record later says the same."""
    told = by_operators()
    again = read_record(told.model_dump_json().encode(), "the record")
    assert headline(again) == headline(told)


def test_memory__small_amounts_have_a_smaller_unit() -> None:
    """A test's model needs megabytes."""
    change = code(
        definition(base=work(1, peak_bytes=10**6), head=work(1, peak_bytes=4 * 10**6)),
        base_peak_bytes=2 * 10**6,
        head_peak_bytes=5 * 10**6,
    )
    (judged,) = with_code(of_peaks(), change).cases
    assert [row.delta for row in memory_rows(judged)][:1] == ["+3.00 MB"]
