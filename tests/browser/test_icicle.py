"""The differential icicle in a real browser: drawn, legible, silent, and used by hand and key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from ci_score.model.record import Judged, Record
from ci_score.report.html.icicle import MOST_BOXES
from ci_score.report.html.page import report_html
from tests.browser import checks
from tests.browser.chromium import Browser, missing, started
from tests.builders import record
from tests.builders.both_sides import at, compared, side, slower
from tests.builders.reports import HOSTILE, demo
from tests.builders.showcase import deep, slow_pull_request

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")

PHONE, DESK = 390, 1200
NASTY = (
    HOSTILE,
    "<script>alert(1)</script>",
    '"><svg onload=alert(2)>',
    "</script><img src=x onerror=alert(3)>",
    "\u202egnp.exe",
    "__proto__",
    "constructor",
)
# What a box of a drawing shows, without what scripts add: they know names whole, of which the page
# has 79 letters at least.
BOXES = """
() => [...document.querySelectorAll("svg.rows")].map(drawing => [...drawing.children]
  .filter(row => row.matches(".row")).map(row => [...row.children].map(box => [
    box.getAttribute("class"), box.getAttribute("x"), box.getAttribute("width"),
    box.querySelector("title").textContent.replace(/^(.{79}).*/, "$1"),
    ...[...box.querySelectorAll("text")].map(text => text.textContent)])))
"""
LIST = "() => document.querySelector('.list ul').innerText.replace(/\\\\s+/g, ' ')"


def nasty() -> Record:
    """Every name is made to break out, in both sides."""
    places = [at(name, 9.0 + place, name, layer=0) for place, name in enumerate(NASTY)]
    ops = side(places, {name: name for name in NASTY})
    return record(compared(ops, ops))


def crowded() -> Judged:
    """More boxes than a drawing may have, half of them changed, and some as wide as others."""
    sides = [
        side(at(f"op {op}", 1 + op % 3 + growth * (op % 2), f"phase {phase}", layer=phase % 3)
             for phase in range(150) for op in range(6))
        for growth in (1, 0)
    ]  # fmt: skip
    return compared(*sides)


def of(value: Judged) -> Callable[[], Record]:
    return lambda: record(value)


RECORDS: dict[str, Callable[[], Record]] = {
    "slower": of(slower()),
    "a slow pull request": slow_pull_request,
    "the demo": demo,
    "one side": of(compared(side([at("gemm", 9.0, layer=1), at("send", 1.0, None)]))),
    "hostile names": nasty,
    "neither phases nor kinds": of(compared(side([], {}, {"gemm": 1.0, "send": 2.0}))),
    "more than 400 boxes": of(crowded()),
    "ops not kept": of(
        compared(
            side([at("gemm", 21.0), at("send", 4.0)], whole={"old": 2.0, "gemm": 22.0}),
            side([at("gemm", 20.0)]).but(left_out=3, left_out_ms=2.0),
        )
    ),
}
every_record = pytest.mark.parametrize("name", RECORDS)
both_schemes = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


@cache
def page_of(name: str) -> str:
    return report_html(RECORDS[name]())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each page has a context of its own."""
    if not missing():
        with started() as browser:
            yield browser


def wake(page: Any) -> None:
    """What a pointer over the drawing does."""
    page.locator("figure.icicle").dispatch_event("pointerenter")


def box(page: Any, name: str, drawing: str = "head") -> Any:
    """The first box of a drawing whose title begins so."""
    return page.locator(f".rows.{drawing} .b").filter(has_text=name).first


def titles(page: Any, drawing: str = "head") -> list[list[str]]:
    """The names in the rows of a drawing."""
    found: list[list[str]] = page.evaluate(
        """side => [...document.querySelectorAll(`svg.rows.${side} .row`)].map(row =>
          [...row.children].map(box => box.querySelector("title").textContent.split("\\n")[0]))""",
        drawing,
    )
    return found


def address(page: Any) -> str:
    return str(page.evaluate("location.hash"))


# --- drawn ----------------------------------------------------------------------------------------


@every_record
def test_script__draws_what_stood_there(browser: Browser, name: str) -> None:
    """Box for box and line for line, so that the two ways to draw cannot part."""
    with browser.page(page_of(name)) as (page, seen):
        checks.open_all(page)
        before, listed = page.evaluate(BOXES), page.evaluate(LIST)
        wake(page)
        assert page.locator("figure.icicle.live").count() == 1
        assert page.evaluate(BOXES) == before
        if page.locator(".icicle select").count():
            page.select_option(".icicle select", index=1)
            assert page.evaluate(BOXES) != before
            page.select_option(".icicle select", index=0)
            checks.open_all(page)
        assert page.evaluate(LIST) == listed
        assert page.evaluate(BOXES) == before
        assert seen.errors == []


@every_record
def test_page__is_silent_and_fits(browser: Browser, name: str) -> None:
    """No request, no message and no error under its own strict policy; no wider than a phone."""
    for width in (PHONE, DESK):
        with browser.page(page_of(name), width=width) as (page, seen):
            checks.open_all(page)
            wake(page)
            assert checks.overflow(page) <= 0
            assert checks.overflowing(page) == []
            assert (seen.console, seen.errors, seen.dialogs) == ([], [], [])
            assert len(seen.requests) == 1


@pytest.mark.parametrize(
    "name", ["slower", "a slow pull request", "one side", "hostile names", "more than 400 boxes"]
)
@both_schemes
def test_page__is_legible_and_accessible(browser: Browser, name: str, dark: bool) -> None:
    """Every text has a contrast of 4.5, and axe finds nothing, before scripts drew and after."""
    with browser.page(page_of(name), dark=dark) as (page, _):
        checks.open_all(page)
        for is_live in (False, True):
            if is_live:
                wake(page)
            assert [row for row in checks.contrasts(page) if row[1] < 4.5] == []
            assert checks.axe_findings(page) == []


@both_schemes
def test_every_colour__is_legible(browser: Browser, dark: bool) -> None:
    """Text on each of the four steps in both directions, and on what a search passed over."""
    changes = (0.01, 0.05, 0.2, 0.5, 1.0)
    base = [at(f"op{place}", 20.0) for place in range(10)]
    shares = [*changes, *(-share for share in changes)]
    head = [at(f"op{place}", 20.0 + 10 * share) for place, share in enumerate(shares)]
    html = report_html(record(compared(side(head, {}), side(base, {}))))
    with browser.page(html, dark=dark) as (page, _):
        wake(page)
        colours = {row[0] for drawing in page.evaluate(BOXES) for row in drawing[-1]}
        steps = {f"b {way}{step}" for way in ("up", "down") for step in range(1, 5)}
        assert colours == {"b same", *steps}
        assert [row for row in checks.contrasts(page) if row[1] < 4.5] == []
        page.fill(".icicle input", "op3")
        assert [row for row in checks.contrasts(page) if row[1] < 4.5] == []


def test_text__is_12_px_at_any_width(browser: Browser) -> None:
    """The drawing is not scaled with the window: boxes are narrower, and their text is cut."""
    for width in (PHONE, 800, DESK):
        with browser.page(page_of("slower"), width=width, script=False) as (page, _):
            text = box(page, "send").locator("text").first
            assert text.evaluate("text => getComputedStyle(text).fontSize") == "12px"
            assert 10 < text.bounding_box()["height"] < 18
            drawing = page.locator(".rows.head").bounding_box()
            assert drawing["width"] > 0.7 * min(width, 1000)
            assert drawing["height"] == 158


def test_narrow_boxes__are_hatched_at_the_width_that_the_window_has(browser: Browser) -> None:
    """On a desk a changed box of 20 px shows its sign; on a phone it is 6 px wide, and hatched."""
    base = [at("gemm", 97.0), at("send", 1.0)]
    head = [at("gemm", 97.0), at("send", 2.0)]
    html = report_html(record(compared(side(head, {}), side(base, {}))))
    cover = "box => box.querySelector('.h').getBoundingClientRect().width"
    for width, hatched in ((DESK, False), (PHONE, True)):
        with browser.page(html, width=width, script=False) as (page, _):
            narrow = page.locator(".rows.head .row").last.locator(".b").last
            assert (narrow.evaluate(cover) > 0) is hatched
            fill = narrow.evaluate("box => getComputedStyle(box.querySelector('.h')).fill")
            assert fill == 'url("#hatch-up4")'
            wide = page.locator(".rows.head .row").last.locator(".b").first
            assert wide.evaluate(cover) == 0


def test_without_scripts__all_is_there(browser: Browser) -> None:
    """Drawings with titles, the step's bar, and the tree as a list that opens; no controls."""
    with browser.page(page_of("slower"), script=False) as (page, _):
        assert page.locator(".icicle input, .icicle select, .icicle button").count() == 0
        assert page.locator("svg.rows").count() == page.locator("svg.step").count() == 2
        assert box(page, "send").bounding_box()["width"] > 300
        assert "7 → 9 launches" in box(page, "send").locator("title").text_content()
        page.get_by_text("The same as a list").click()
        top = page.locator(".list > ul > li > details > summary")
        assert [text.split()[0] for text in top.all_inner_texts()] == ["backward", "forward"]
        top.first.click()
        page.locator(".list").get_by_text("comm").click()
        assert page.locator(".list").get_by_text("send").is_visible()


def test_names__stay_text(browser: Browser) -> None:
    """Drawn by scripts as well: nothing of theirs becomes an element, or runs."""
    with browser.page(page_of("hostile names")) as (page, seen):
        wake(page)
        page.select_option(".icicle select", "0")
        page.fill(".icicle input", "<script>")
        checks.open_all(page)
        box(page, "alert(1)").click()
        assert page.locator("img, iframe, figure script").count() == 0
        assert (seen.dialogs, seen.errors) == ([], [])
        shown = page.locator("figure.icicle").inner_text()
        assert "<script>alert(1)</script>" in shown
        assert "\u202e" not in page.locator("figure.icicle").text_content()


# --- used -----------------------------------------------------------------------------------------


def test_zoom__widens_a_box_and_goes_back(browser: Browser) -> None:
    """A click zooms into a box below those above it, in both drawings; Escape and clicks return."""
    with browser.page(page_of("slower")) as (page, seen):
        wake(page)
        before = page.evaluate(BOXES)
        box(page, "forward").click()
        assert titles(page)[:2] == [["all ops of a step"], ["forward"]]
        assert box(page, "forward").get_attribute("width") == "100%"
        assert box(page, "forward", "base").get_attribute("width") == "87.5%"
        assert "send" not in str(titles(page))
        assert address(page) == "#case-training&zoom=forward"
        page.keyboard.press("Escape")
        assert page.evaluate(BOXES) == before
        assert address(page) == "#case-training"
        box(page, "fused").click()
        assert titles(page)[-1] == ["fused"]
        box(page, "forward").click()
        assert len(titles(page)[-1]) > 1
        page.get_by_role("button", name="Zoom out").click()
        assert page.evaluate(BOXES) == before
        assert not page.get_by_role("button", name="Zoom out").is_visible()
        assert seen.errors == []


def test_zoom__shows_what_had_no_room(browser: Browser) -> None:
    """`9 more` leads to its parent, where there is room, and there into itself."""
    small = [at(f"tiny_{number}", 0.1) for number in range(9)]
    places = [at("gemm", 99.0, "backward"), at("send", 60.0), *small]
    html = report_html(record(compared(side(places, {}), side(places, {}))))
    with browser.page(html) as (page, _):
        wake(page)
        assert titles(page)[-1] == ["gemm", "send", "9 more"]
        page.locator(".rows.head .more").dispatch_event("click")
        assert address(page) == "#case-training&zoom=forward"
        assert len(titles(page)[-1]) == 10
    smaller = [at("gemm", 999.0), *small]
    with browser.page(report_html(record(compared(side(smaller, {}), side(smaller, {}))))) as (
        page,
        _,
    ):
        wake(page)
        box(page, "forward").click()
        page.locator(".rows.head .more").dispatch_event("click")
        assert titles(page)[2:] == [["9 more"], [f"tiny_{number}" for number in range(9)]]


def test_search__marks_boxes_and_says_their_time(browser: Browser) -> None:
    """By full names, whatever their case is; the others step back."""
    with browser.page(page_of("slower")) as (page, _):
        page.get_by_label("Mark ops").fill("CUDAFunctor_ADD<")
        marked = page.locator(".rows.head .hit")
        assert marked.count() == 1
        assert "vectorized" in marked.locator("title").text_content()
        assert page.locator(".found").inner_text() == "1 op: 6.00 → 5.00 ms (−1.00 ms)"
        assert address(page) == "#case-training&find=CUDAFunctor_ADD%3C"
        page.get_by_label("Mark ops").fill("e")
        assert page.locator(".found").inner_text().startswith("4 ops: ")
        page.get_by_label("Mark ops").fill("nothing like it")
        assert page.locator(".found").inner_text() == "No op has that in its name."
        page.get_by_label("Mark ops").fill("")
        assert page.locator(".hit, .marked").count() == 0
        assert address(page) == "#case-training"


def test_layer__is_drawn_alone(browser: Browser) -> None:
    """Its own times on both sides, with its own largest change, and what is in no layer."""
    with browser.page(page_of("slower")) as (page, _):
        page.get_by_label("Layer", exact=True).focus()
        options = page.locator(".icicle select option").all_inner_texts()
        assert options == ["All layers", "Layer 0", "Layer 1", "Outside layers"]
        page.get_by_label("Layer", exact=True).select_option("Layer 1")
        assert titles(page) == [["all ops of layer 1"], ["forward"], ["gemm"], ["gemm", "fused"]]
        whole = box(page, "all ops of layer 1").locator("title").text_content()
        assert whole == "all ops of layer 1\n20.0 → 31.0 ms (+11.0 ms)"
        assert "full colour from 6.54 ms" in page.locator(".key").inner_text()
        assert page.locator(".list > ul > li").count() == 1
        page.get_by_label("Layer", exact=True).select_option("Outside layers")
        assert [titles(page)[-1][0], titles(page, "base")[-1][-1]] == ["send", "old"]
        assert address(page) == "#case-training&layer=outside"


def test_address__brings_back_what_was_seen(browser: Browser) -> None:
    """Zoom, layer and search; what others keep there stays, and what is not there is ignored."""
    with browser.page(
        page_of("slower"), fragment="#case-training&zoom=forward&zoom=gemm&find=fused&x=1"
    ) as (
        page,
        seen,
    ):
        assert titles(page)[:3] == [["all ops of a step"], ["forward"], ["gemm"]]
        assert page.locator(".rows.head .hit").count() == 1
        assert page.get_by_label("Mark ops").input_value() == "fused"
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Zoom out").click()
        assert address(page) == "#case-training&x=1&zoom=forward&find=fused"
        page.evaluate("location.hash = '#case-training&zoom=nowhere&layer=1'")
        page.wait_for_function("document.querySelector('.icicle select').value === '1'")
        assert titles(page)[0] == ["all ops of layer 1"]
        # Whoever made the address has no words in the drawing: for an unknown layer all are drawn.
        page.evaluate("location.hash = '#case-training&zoom=%E0%A4%A&layer=this is approved'")
        page.wait_for_function("document.querySelector('.icicle select').value === ''")
        assert titles(page)[0] == ["all ops of a step"]
        assert seen.errors == []


def test_keys__lead_through_the_boxes(browser: Browser) -> None:
    """One stop a drawing; arrows lead on, Enter zooms, Escape returns, and the box is told."""
    with browser.page(page_of("slower")) as (page, _):
        page.get_by_label("Layer", exact=True).focus()
        page.keyboard.press("Tab")
        focused = "() => document.activeElement.querySelector('title').textContent.split('\\n')[0]"
        assert page.evaluate(focused) == "all ops of a step"
        assert page.locator(".rows.base :focus").count() == 1
        page.keyboard.press("Tab")
        assert page.locator(".rows.head :focus").count() == 1
        steps = {
            "ArrowDown": "backward",
            "ArrowRight": "forward",
            "ArrowLeft": "backward",
            "ArrowUp": "all ops of a step",
        }
        for key, name in steps.items():
            page.keyboard.press(key)
            assert page.evaluate(focused) == name
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert page.evaluate(focused) == "comm"
        assert page.locator(".told").inner_text() == "comm · backward · 20.0 → 50.0 ms (+30.0 ms)"
        outline = page.evaluate(
            "getComputedStyle(document.activeElement.querySelector('.f')).strokeWidth"
        )
        assert outline == "7px"
        page.keyboard.press("Enter")
        assert titles(page)[1:3] == [["backward"], ["comm"]]
        assert page.evaluate(focused) == "comm"
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        assert len(titles(page)[1]) == 2


def test_boxes__are_told_on_hover(browser: Browser) -> None:
    """The full name stands below the drawings, too, for those whose browser shows no titles."""
    with browser.page(page_of("slower")) as (page, _):
        box(page, "fused").hover()
        told = page.locator(".told").inner_text()
        assert told == "fused · forward · gemm · new: 10.9 ms, 7 launches"


def test_large_model__is_drawn_anew(browser: Browser) -> None:
    """128 layers of 200 ops in two phases: the page is below 3 MB, and each layer can be seen."""
    html = report_html(deep())
    assert len(html.encode()) < 3_000_000
    with browser.page(html) as (page, seen):
        page.get_by_label("Layer", exact=True).focus()
        assert page.locator(".icicle select option").count() == 129
        for layer in ("0", "127"):
            page.select_option(".icicle select", layer)
            assert titles(page)[0] == [f"all ops of layer {layer}"]
            assert 100 < sum(map(len, titles(page))) <= MOST_BOXES
        page.get_by_label("Mark ops").fill("functor_199<")
        assert page.locator(".found").inner_text().startswith("1 op: ")
        assert seen.errors == []
