"""The page and the comment in a real browser: drawn, legible, silent, usable, and only text."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from ci_score.cli.demo import WORKLOAD
from ci_score.compare import measured_case
from ci_score.model.reasons import Note, Why, quoted
from ci_score.model.record import Judged, Record
from ci_score.model.stages import CaseInput
from ci_score.model.verdict import Outcome, Unjudged, Verdict, unjudged
from ci_score.report.html.page import report_html
from ci_score.report.markdown import report_markdown
from tests.browser import checks
from tests.browser.chromium import REQUIRED, Browser, Seen, missing, started
from tests.browser.github_page import as_github_shows_it, mentions, rendered, sanitised
from tests.builders import case, profile, record, scorecard
from tests.builders.reports import HOSTILE, demo, hostile, matrix, ungraded
from tests.builders.showcase import (
    both_sides,
    deep,
    history,
    large,
    slow_pull_request,
    with_op_history,
)

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")

PHONE, WIDE_PHONE, DESK = 360, 390, 1200
INJECTED = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "</style><script>alert(4)</script>",
    "[click](javascript:alert(5)) **bold** `code` @everyone #1 | cell |",
    "\u202egnp.exe\u2066\u200b",
    "x" * 10_000,
    "{{ 7 * 7 }}",
)


def injected() -> Record:
    """Every name that a stranger may choose is made to break out."""
    ops = {name: float(place + 1) for place, name in enumerate(INJECTED)}
    rows = [{"layer": 0, "fwd_ms": 1, "bwd_ms": 2, "ops": ops}]
    phases = {
        name: {"total_ms": 9.0, "pct": 9.0, "avg_ms": 9.0} for name in (*INJECTED[:5], INJECTED[6])
    }
    nasty = profile(
        per_layer=rows, phases=phases, accelerator=INJECTED[1], notes=INJECTED, tokens_per_step=64
    )
    notes = tuple(Note(code=words, words=words) for words in INJECTED)
    measured = measured_case(CaseInput("training", nasty, notes=notes), WORKLOAD)
    said = tuple(map(quoted, INJECTED))
    verdict = Verdict(outcome=Outcome.WARN, decided_by=said[0], reasons=said, remarks=said)
    return record(
        Judged.of(measured, verdict=verdict),
        notices=said,
        policy={INJECTED[0]: list(INJECTED)},
    )


def one_point() -> Record:
    """A branch that was measured once."""
    return record(case(card=scorecard(301.0, 27_200.0)), history=history("training", 301.0, 1))


def no_baseline() -> Record:
    """A first run."""
    verdict = unjudged(Unjudged.FIRST_RUN, Why.NO_BASELINE(why=Unjudged.FIRST_RUN.value))
    return record(case(verdict=verdict))


def empty() -> Record:
    """Nothing was measured at all."""
    verdict = unjudged(Unjudged.NOTHING_MEASURED, Why.NOTHING_FOUND(where="profiles"))
    return record().but(cases=(), unjudged=verdict)


RECORDS: dict[str, Callable[[], Record]] = {
    "a slow pull request": slow_pull_request,
    "the demo": demo,
    "every outcome": matrix,
    "hostile names": hostile,
    "injected names": injected,
    "next to nothing known": ungraded,
    "one point of history": one_point,
    "no baseline": no_baseline,
    "no case": empty,
    "ops of both sides": both_sides,
    "a base that kept less": lambda: both_sides(left_out=5),
    "ops with a history": lambda: with_op_history(both_sides()),
    "more ops than a window": lambda: deep(2, 70),
    "several cases with ops": lambda: deep(2, 70, 3),
    "64 cases": lambda: large(64, 128, 200),
}
# Unfolded, 64 cases are one case 64 times.
SMALL = [name for name in RECORDS if name != "64 cases"]
every_record = pytest.mark.parametrize("name", RECORDS)
small_records = pytest.mark.parametrize("name", SMALL)
both_schemes = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


@cache
def page_of(name: str) -> str:
    return report_html(RECORDS[name](), "nightly")


@cache
def comment_of(name: str) -> str:
    return report_markdown(RECORDS[name](), limit=65_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each page has a context of its own."""
    if not missing():
        with started() as browser:
            yield browser


def test_browser__is_there_where_ci_counts_on_it(browser: Browser) -> None:
    """`.ci/run` asks for these tests: there, a missing browser is a failure and no skip."""
    assert browser.browser.version or not os.environ.get(REQUIRED)


def fits_and_is_silent(page: Any, seen: Seen) -> None:
    """No wider than the screen, no message, no error, and no request but for the file itself."""
    assert checks.overflow(page) <= 0
    assert checks.overflowing(page) == []
    assert (seen.console, seen.errors, seen.dialogs) == ([], [], [])
    assert len(seen.requests) == 1


# --- the page ------------------------------------------------------------------------------------


@every_record
def test_page__is_silent_and_fits(browser: Browser, name: str) -> None:
    """No message, no error, no request but for the file itself; no wider than any screen."""
    for width in (PHONE, DESK):
        with browser.page(page_of(name), width=width) as (page, seen):
            if name in SMALL:
                checks.open_all(page)
            fits_and_is_silent(page, seen)


@small_records
@both_schemes
def test_page__is_legible(browser: Browser, name: str, dark: bool) -> None:
    """Every text has a contrast of at least 4.5, in drawings too."""
    with browser.page(page_of(name), dark=dark) as (page, _):
        checks.open_all(page)
        found = checks.contrasts(page)
        assert len(found) > 10
        assert [row for row in found if row[1] < 4.5] == []


@small_records
@both_schemes
def test_page__is_accessible(browser: Browser, name: str, dark: bool) -> None:
    """Axe finds nothing, of whatever impact."""
    with browser.page(page_of(name), dark=dark) as (page, _):
        checks.open_all(page)
        assert checks.axe_findings(page) == []


def test_page__of_64_cases_is_accessible(browser: Browser) -> None:
    """As it is opened, folded."""
    with browser.page(page_of("64 cases"), width=PHONE) as (page, _):
        assert checks.axe_findings(page) == []


def test_page__sorts(browser: Browser) -> None:
    """By number, by name, and back; the header says so to a screen reader."""
    with browser.page(page_of("a slow pull request")) as (page, _):
        table = page.locator("table.parity")
        header = table.locator("th", has_text="Ours")
        header.get_by_role("button").click()
        header.get_by_role("button").click()
        assert header.get_attribute("aria-sort") == "ascending"
        times = [float(t.split()[0]) for t in table.locator("td:nth-child(2)").all_inner_texts()]
        assert times == sorted(times)
        assert len(times) == 3
        names = table.locator("thead th").first.get_by_role("button")
        names.focus()
        page.keyboard.press("Enter")
        shown = table.locator("tbody th").all_inner_texts()
        assert shown == sorted(shown)[:: -1 if shown[0] > shown[-1] else 1]
        assert header.get_attribute("aria-sort") is None


def test_page__reads_changes_and_units(browser: Browser) -> None:
    """A minus is a minus, and a thousand is more than a hundred."""
    with browser.page(page_of("every outcome")) as (page, _):
        numbers = page.evaluate(
            """() => ["−0.5 ms", "+2.00 ms", "1.01 k tok/s", "769 tok/s", "1,234", "–"]
                .map(number)"""
        )
        assert numbers == pytest.approx([-0.5, 2.0, 1010.0, 769.0, 1234.0, None])


def test_page__searches(browser: Browser) -> None:
    """The rows whose name holds the words stay, and how many is said."""
    with browser.page(page_of("64 cases")) as (page, _):
        table = page.locator("table.overview")
        page.get_by_label("Find a case").fill("MODEL-1")
        shown = [row for row in table.locator("tbody tr").all() if row.is_visible()]
        assert len(shown) == 10
        assert page.locator(".search output").inner_text() == "10 of 64"
        page.get_by_label("Find a case").fill("")
        assert table.locator("tbody tr:visible").count() == 64


# --- the table of ops -----------------------------------------------------------------------------

OPS = ".op-table tbody tr"


def shown_ops(page: Any) -> list[list[str]]:
    """What the cells of each row of ops say, its bar and what stands below it."""
    rows = []
    for row in page.locator(OPS).all():
        bar, course = row.locator("rect"), row.locator(".op-course")
        drawn = course.locator("path").all() if course.count() else []
        rows.append(
            [
                *(" ".join(text.split()) for text in row.locator("th, td").all_inner_texts()),
                *(bar.get_attribute(name) for name in ("class", "x", "width")),
                *course.locator("title").all_text_contents(),
                *(path.get_attribute(name) for path in drawn for name in ("class", "d")),
            ]
        )
    return rows


def names_of_ops(page: Any) -> list[str]:
    """The short names of the rows that are drawn."""
    names: list[str] = page.locator(f"{OPS} summary code").all_inner_texts()
    return names


@pytest.mark.parametrize(
    "name", ["ops of both sides", "a base that kept less", "ops with a history", "hostile names"]
)
def test_ops__say_the_same_with_and_without_scripts(browser: Browser, name: str) -> None:
    """To the last digit, in the same order, and what stands below each of them."""
    told = []
    for script in (False, True):
        with browser.page(page_of(name), script=script) as (page, _):
            for summary in page.locator(f"{OPS} summary").all():
                summary.click()
            told.append(shown_ops(page))
    without, with_scripts = told
    assert with_scripts == without
    assert len(without) >= (20 if name != "hostile names" else 2)


@both_schemes
def test_ops__draw_their_course_on_a_phone(browser: Browser, dark: bool) -> None:
    """In a column that scrolls into view: a line that is seen, this run, and words for both."""
    for script in (False, True):
        with browser.page(
            page_of("ops with a history"), width=WIDE_PHONE, dark=dark, script=script
        ) as (page, _):
            row = page.locator(OPS, has_text="ampere_bf16")
            course = row.get_by_role("img", name="12 runs of the branch")
            title = course.locator("title").text_content()
            assert title.startswith("12 runs of the branch, 9.2")
            assert title.endswith(" ms; this run 21.2 ms")
            course.scroll_into_view_if_needed()
            box = course.bounding_box()
            assert box["width"] >= 70
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= WIDE_PHONE
            # Of the 21 ops those that the runs have kept.
            assert page.locator(".op-course").count() == 16
            assert checks.overflow(page) <= 0


def test_ops__of_a_phase_have_no_course_of_the_whole_step(browser: Browser) -> None:
    """A point of the history knows no phases, and its times would stand beside other times."""
    with browser.page(page_of("ops with a history")) as (page, seen):
        assert page.locator(".op-course").count() == 16
        page.get_by_label("Phase", exact=True).select_option(label="backward")
        assert page.locator(".op-course").count() == 0
        page.get_by_label("Phase", exact=True).select_option(label="The whole step")
        page.get_by_label("Kind", exact=True).select_option(label="gemm")
        assert page.locator(".op-course").count() == 1
        assert page.locator(".op-table thead th", has_text="History").locator("button").count() == 0
        assert seen.errors == []


def test_ops__are_filtered(browser: Browser) -> None:
    """By how they changed, by kind and by phase; how many is said."""
    with browser.page(page_of("ops of both sides")) as (page, _):
        said = page.locator(".ops .below output").first
        assert said.inner_text() == "21 ops"
        found = {}
        for group in ("slower", "faster", "new", "gone"):
            page.get_by_label("Change", exact=True).select_option(group)
            found[group] = names_of_ops(page)
        assert [name for name in found["new"] if "Add" in name] == found["new"] != []
        assert [name for name in found["gone"] if "Mul" in name] == found["gone"] != []
        assert found["faster"] == ["softmax_warp_forward<float, float, float, 10, false, false>"]
        assert len(found["slower"]) == 17
        assert said.inner_text() == "1 op (of 21)"
        page.get_by_label("Change", exact=True).select_option("")
        page.get_by_label("Kind", exact=True).select_option(label="gemm")
        assert len(names_of_ops(page)) == 1
        assert page.locator(f"{OPS} td").all_inner_texts()[:3] == ["9.50", "21.2", "+11.8"]
        page.get_by_label("Phase", exact=True).select_option(label="backward")
        assert page.locator(f"{OPS} td").all_inner_texts()[:3] == ["4.75", "10.6", "+5.87"]
        page.locator(f"{OPS} summary").click()
        page.locator(f"{OPS} li").first.wait_for()
        assert page.locator(f"{OPS} li").all_inner_texts() == [
            "backward · layer 1: 4.75 → 10.6 ms (+5.87), count 1, each 4.75 → 10.6 ms"
        ]


def test_ops__are_found_by_their_full_names(browser: Browser) -> None:
    """Of which the short one shows a part, and the rest stands in its title."""
    with browser.page(page_of("ops of both sides")) as (page, _):
        page.get_by_label("Find an op").fill("STD::ARRAY<char*, 3ul> >")
        names = names_of_ops(page)
        assert len(names) == 15
        assert not any("std::array" in name for name in names)
        title = page.locator(f"{OPS} summary code").first.get_attribute("title")
        assert "std::array<char*, 3ul>" in title
        page.get_by_label("Find an op").fill("mul_add_3")
        assert names_of_ops(page) == ["triton_poi_fused_add_mul_7"]


def test_ops__are_drawn_in_windows(browser: Browser) -> None:
    """At most sixty rows at a time; a column sorts all of them."""
    with browser.page(page_of("more ops than a window")) as (page, _):
        said = page.locator(".ops .below output").first
        assert (page.locator(OPS).count(), said.inner_text()) == (60, "1 to 60 of 70 ops")
        assert page.get_by_role("button", name="Previous").is_disabled()
        page.get_by_role("button", name="Next").click()
        assert (page.locator(OPS).count(), said.inner_text()) == (10, "61 to 70 of 70 ops")
        assert page.get_by_role("button", name="Next").is_disabled()
        header = page.locator(".op-table thead th", has_text="This PR")
        header.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert header.get_attribute("aria-sort") == "descending"
        times = [float(text) for text in page.locator(f"{OPS} td:nth-of-type(2)").all_inner_texts()]
        assert len(times) == 60
        assert times == sorted(times, reverse=True)
        page.keyboard.press("Enter")
        lowest = float(page.locator(f"{OPS} td:nth-of-type(2)").first.inner_text())
        assert lowest < min(times)


def test_ops__are_copied_as_csv_and_json(browser: Browser) -> None:
    """What is chosen, with full names, and no name that a spreadsheet would take for a formula."""
    with browser.page(page_of("ops of both sides")) as (page, seen):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy CSV").click()
        page.get_by_text("Copied").wait_for()
        rows = list(csv.reader(page.evaluate("navigator.clipboard.readText()").splitlines()))
        assert len(rows) == 22
        assert rows[0][:6] == ["op", "short", "status", "was", "kind", "base_ms"]
        names = [row[0] for row in rows]
        assert "'=HYPERLINK(1)" in names
        assert not any(name.startswith("=") for name in names)
        page.get_by_label("Kind", exact=True).select_option(label="gemm")
        page.get_by_role("button", name="Copy JSON").click()
        page.wait_for_function("navigator.clipboard.readText().then(text => text[0] === '[')")
        (op,) = json.loads(page.evaluate("navigator.clipboard.readText()"))
        assert (op["base_ms"], op["head_ms"], len(op["places"])) == (9.5, 21.25, 3)
        assert seen.errors == []


def test_ops__can_be_copied_where_the_browser_forbids_it(browser: Browser) -> None:
    """The text is there, selected, for whoever presses the keys."""
    with browser.page(page_of("ops of both sides")) as (page, seen):
        page.evaluate(
            """() => {
              Object.defineProperty(navigator, "clipboard", { value: undefined });
              document.execCommand = () => false;
            }"""
        )
        page.get_by_role("button", name="Copy JSON").click()
        area = page.get_by_label("The text to copy")
        assert len(json.loads(area.input_value())) == 21
        assert page.evaluate("document.activeElement.selectionEnd") > 1000
        assert page.get_by_text("copy it with your keyboard").is_visible()
        assert seen.errors == []


def test_ops__are_unfolded_by_keyboard(browser: Browser) -> None:
    """The name is the button: below it stand the full name, where it comes from, and its places."""
    with browser.page(page_of("ops of both sides"), width=PHONE) as (page, _):
        row = page.locator(OPS, has_text="softmax_warp_forward")
        row.locator("summary").focus()
        page.keyboard.press("Enter")
        row.locator("li").first.wait_for()
        text = row.inner_text()
        assert "Launched by Attention · aten::softmax" in text
        assert "void softmax_warp_forward<float, float, float, 10, false, false>" in text
        assert row.locator("li").count() == 3
        assert checks.overflow(page) <= 0


def test_ops__of_a_folded_case_are_drawn_when_it_is_opened(browser: Browser) -> None:
    """Until then nothing of it is read; afterwards its table is like that of the first."""
    with browser.page(page_of("several cases with ops")) as (page, _):
        tables = page.locator(".ops")
        assert (tables.count(), page.locator(".ops .tools").count()) == (3, 2)
        page.locator("details.case > summary").nth(1).click()
        tables.nth(1).locator(".tools").first.wait_for()
        assert tables.nth(1).locator("tbody tr").count() == 60
        assert tables.nth(2).locator(".tools").count() == 0


def test_page__is_used_by_keyboard(browser: Browser) -> None:
    """The first stop skips the header, each stop is seen, and tables scroll."""
    with browser.page(page_of("a slow pull request"), width=PHONE) as (page, _):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "report"
        for _ in range(12):
            page.keyboard.press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid"
        tables = page.locator(".scroll")
        assert tables.count() > 5
        assert all(box.get_attribute("tabindex") == "0" for box in tables.all())


def test_page__works_without_script(browser: Browser) -> None:
    """Tables are whole, folds open, and a link of the overview opens its case."""
    with browser.page(page_of("every outcome"), script=False) as (page, _):
        assert page.locator("thead button").count() == 0
        assert page.locator(".overview tbody tr").count() == 4
        link = page.get_by_role("link", name="passes")
        target = page.locator("#case-passes")
        assert not target.is_visible()
        link.click()
        assert target.is_visible()


def test_page__prints(browser: Browser) -> None:
    """On white whatever the screen is, with the folds open and no controls."""
    with browser.page(page_of("a slow pull request"), dark=True) as (page, _):
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert page.get_by_text("ci-score ab --base").first.is_visible()
        assert not page.locator(".search").first.is_visible()
        page.set_viewport_size({"width": 700, "height": 1000})
        assert checks.overflow(page) <= 0
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_page__draws_trend_and_launches(browser: Browser) -> None:
    """With sizes that can be seen: a course of 120 runs, this run marked, a change marked."""
    with browser.page(page_of("a slow pull request")) as (page, _):
        line = page.locator(".course .line").bounding_box()
        assert line["width"] > 500
        assert line["height"] > 20
        assert page.locator(".course .now circle").count() == 1
        assert page.locator(".course text.key").text_content() == "1"
        assert page.locator(".course .hover title").count() == 120
        assert page.locator(".launches .head-dot").count() == 1
        assert page.locator(".shaded").bounding_box()["height"] > 20
        assert page.locator(".layers").count() == 0


@pytest.mark.parametrize("name", ["hostile names", "injected names"])
def test_page__names_stay_text(browser: Browser, name: str) -> None:
    """Nothing of theirs becomes an element, runs, or turns what a reader sees around."""
    with browser.page(page_of(name)) as (page, seen):
        checks.open_all(page)
        assert page.locator("img, iframe, object, a[href^=javascript]").count() == 0
        assert page.locator("script:not([type='application/json'])").count() == 1
        assert seen.dialogs == []
        text = page.locator("body").inner_text()
        shown = INJECTED if name == "injected names" else ()
        for one in (*shown[:5], *shown[7:]):
            assert " ".join(one.split())[:40] in " ".join(text.split())
        assert not set("\u202e\u2066\u200b") & set(text)
        assert "x" * 1001 not in text


# --- the comment ---------------------------------------------------------------------------------


@every_record
def test_comment__fits_and_is_silent(browser: Browser, name: str) -> None:
    """On a phone the page does not scroll sideways; tables do by themselves."""
    for width in (PHONE, DESK):
        with browser.page(as_github_shows_it(comment_of(name)), width=width) as (page, seen):
            checks.open_all(page)
            fits_and_is_silent(page, seen)


@small_records
@both_schemes
def test_comment__is_legible(browser: Browser, name: str, dark: bool) -> None:
    """Every text has a contrast of at least 4.5 on GitHub's colours."""
    with browser.page(as_github_shows_it(comment_of(name)), dark=dark) as (page, _):
        checks.open_all(page)
        assert [row for row in checks.contrasts(page) if row[1] < 4.5] == []


@pytest.mark.parametrize("name", ["hostile names", "injected names"])
def test_comment__names_stay_text(browser: Browser, name: str) -> None:
    """Before the sanitiser, too: no link, image or mention, and nothing that it has to take out."""
    html = rendered(comment_of(name))
    assert mentions(html) == []
    with browser.page(as_github_shows_it(comment_of(name))) as (page, seen):
        checks.open_all(page)
        body = page.locator(".markdown-body")
        assert body.locator("a, img, script, svg, strong:text-is('bold')").count() == 0
        assert seen.dialogs == []
        text = body.inner_text()
        assert "<img src=x" in text
        assert not set("\u202e\u2066") & set(text)


@every_record
def test_comment__the_sanitiser_takes_nothing_out(name: str) -> None:
    """What we write is what GitHub shows: the same elements before it and after."""
    html = rendered(comment_of(name))
    for element in ("table", "details", "summary", "h3", "sub", "code", "pre"):
        assert sanitised(html).count(f"<{element}") == html.count(f"<{element}")


def test_sanitiser__takes_out_what_is_forbidden() -> None:
    """So that it proves something: scripts go, handlers go, unknown elements leave their text."""
    dirty = '<p onclick="x()">a<script>b</script><blink>c</blink><a href="javascript:x">d</a></p>'
    assert sanitised(dirty) == "<p>ac<a>d</a></p>"
    assert mentions("<p>@team see #12 and <code>@x #1</code></p>") == ["@t", "#1"]
    assert HOSTILE.count("@") == 1
