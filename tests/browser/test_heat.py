"""The maps of who is different and the launches on one axis, in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from ci_score.model.record import Judged
from ci_score.report.html.page import report_html
from tests.browser import checks
from tests.browser.chromium import Browser, missing, started
from tests.builders import record
from tests.builders.reports import HOSTILE
from tests.builders.who import launched, layered, ranked, times, works

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")

PHONE, DESK = 390, 1200
NASTY = (HOSTILE, '"><svg onload=alert(3)>', "</style><script>alert(4)</script>", "\u202egnp.exe")


def slow_rank(count: int = 64) -> Judged:
    return ranked(works(times(count, 59.0, {3: 75.0}), 116.0), works(times(count, 59.0), 100.0))


CASES: dict[str, Callable[[], Judged]] = {
    "64 ranks": slow_rank,
    "256 ranks": lambda: slow_rank(256),
    "four ranks": lambda: slow_rank(4),
    "ranks of which little is told": lambda: ranked(
        works(times(8, 59.0), 101.0), works(times(7, 59.0), 100.0, busy_ms=None)
    ),
    "128 layers": lambda: layered(128, {12: 0.8, 13: 0.8, 40: -0.3}, optimizer_ms=5.0),
    "four layers": lambda: layered(4, {1: 0.4, 2: -0.4}, phases=("forward", "optimizer")),
    "hostile names": lambda: layered(24, {3: 0.4}, phases=NASTY),
    "12 pairs": lambda: launched(
        [100.0 + n % 5 for n in range(12)], [109.0 + n % 4 for n in range(12)], void=2
    ),
    "600 launches": lambda: launched(
        [100.0 + n % 7 for n in range(300)], [109.0 + n % 5 for n in range(300)]
    ),
}
every_case = pytest.mark.parametrize("name", CASES)
both_schemes = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


@cache
def page_of(name: str) -> str:
    return report_html(record(CASES[name]()), "nightly")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each page has a context of its own."""
    if not missing():
        with started() as browser:
            yield browser


@every_case
def test_maps__fit_and_are_silent(browser: Browser, name: str) -> None:
    """No wider than a phone, nothing against the page's policy, and no request but for the file."""
    for width in (PHONE, DESK):
        with browser.page(page_of(name), width=width) as (page, seen):
            checks.open_all(page)
            assert checks.overflow(page) <= 0
            assert checks.overflowing(page) == []
            assert (seen.console, seen.errors, seen.dialogs) == ([], [], [])
            assert len(seen.requests) == 1


@every_case
@both_schemes
def test_maps__are_legible_and_accessible(browser: Browser, name: str, dark: bool) -> None:
    """Every text has a contrast of at least 4.5, on the darkest cell too, and axe finds nothing."""
    with browser.page(page_of(name), dark=dark, width=PHONE) as (page, _):
        found = checks.contrasts(page)
        assert len(found) > 10
        assert [row for row in found if row[1] < 4.5] == []
        assert checks.axe_findings(page) == []


@pytest.mark.parametrize(("name", "cells"), [("64 ranks", 192), ("128 layers", 257)])
def test_maps__each_cell_has_its_numbers(browser: Browser, name: str, cells: int) -> None:
    """On hover, also where a cell is only a few pixels wide."""
    with browser.page(page_of(name), width=PHONE) as (page, _):
        hovers = page.locator(".map .cell")
        assert hovers.count() == cells
        box = hovers.first.bounding_box()
        assert box["width"] > 1
        assert box["height"] > 10
        titles = page.locator(".map .cell title").all_text_contents()
        assert all(" ms" in title for title in titles)


def test_maps__one_rank_of_64_is_seen_at_once(browser: Browser) -> None:
    """Two lines frame it in every lane, its label is below, and its cell has another colour."""
    with browser.page(page_of("64 ranks"), width=PHONE) as (page, _):
        assert page.locator(".map .frame").count() == 2 * 3
        label = page.locator(".map text.named")
        assert label.text_content() == "rank 3"
        edges = [line.bounding_box()["x"] for line in page.locator(".map .frame").all()[:2]]
        compute = page.locator(".map .x").first.locator("path.heat5").bounding_box()
        assert edges[0] < compute["x"] < compute["x"] + compute["width"] < edges[1] + 2


def test_maps__a_change_is_told_without_its_colour(browser: Browser) -> None:
    """Narrow cells are hatched, one way for longer and another for less; wide ones have a sign."""
    with browser.page(page_of("128 layers"), width=PHONE) as (page, _):
        more, less = (page.locator(f'.map rect[fill*="-{way}"]') for way in ("up", "down"))
        assert (more.count(), less.count()) == (1, 1)
        shown = [hatched.get_attribute("fill")[5:-1] for hatched in (more, less)]
        assert all(page.locator(f"pattern#{pattern}").count() == 1 for pattern in shown)
    with browser.page(page_of("four layers"), width=PHONE) as (page, _):
        signs = page.locator(".map text.on").all_text_contents()
        assert "▲ +0.400" in signs
        assert "▼ −0.400" in signs


def test_maps__are_a_table_for_who_does_not_see_them(browser: Browser) -> None:
    """By keyboard, without scripts: the fold opens, and the table says what the map shows."""
    with browser.page(page_of("64 ranks"), script=False) as (page, _):
        fold = page.locator(".map details")
        assert fold.get_attribute("open") is None
        fold.locator("summary").focus()
        page.keyboard.press("Enter")
        row = page.locator(".map tr.named")
        assert row.is_visible()
        assert row.locator("th").inner_text() == "3"
        assert page.locator(".map tbody tr").count() == 64
        assert page.locator(".map path.up4").count() > 0


def test_maps__their_tables_are_sorted_by_the_change(browser: Browser) -> None:
    """The scripts only add that; the largest change comes first."""
    with browser.page(page_of("128 layers")) as (page, _):
        page.locator(".map summary").click()
        header = page.locator(".map th", has_text="Δ")
        header.get_by_role("button").click()
        first = page.locator(".map tbody tr").first
        assert first.inner_text().split("\t")[0].strip() == "outside"
        assert "+5.00" in first.inner_text()


def test_maps__hostile_phases_stay_text(browser: Browser) -> None:
    """Nothing of theirs becomes an element or turns what a reader sees around."""
    with browser.page(page_of("hostile names")) as (page, seen):
        checks.open_all(page)
        assert page.locator("img, iframe").count() == 0
        assert page.locator("script:not([type='application/json'])").count() == 1
        assert seen.dialogs == []
        text = page.locator(".map").inner_text()
        assert "<img src=x>" in text
        assert "alert(4)" in text
        assert not set("\u202e") & set(page.content())


def test_maps__a_click_on_a_layer_draws_its_icicle(browser: Browser) -> None:
    """The icicle's own list, which works by keyboard, then shows the same choice."""
    with browser.page(page_of("four layers")) as (page, seen):
        chosen = page.locator(".icicle select")
        assert chosen.input_value() == ""
        page.locator('.map [data-layer="1"]').first.click()
        assert chosen.input_value() == "1"
        assert chosen.is_visible()
        assert "layer=1" in page.url
        page.locator('.map [data-layer=""]').first.click()
        assert chosen.input_value() not in ("", "1")
        assert (seen.console, seen.errors) == ([], [])


def test_launches__stand_on_one_axis(browser: Browser) -> None:
    """The base left of the limits, the change between them, and the void ones at the edge."""
    with browser.page(page_of("12 pairs"), width=PHONE) as (page, _):
        drawn = page.locator(".launches")
        bases, heads = (drawn.locator(f".{side}-dot").bounding_box() for side in ("base", "head"))
        warn, fail = (
            drawn.locator(f"line.{kind}").bounding_box()["x"] for kind in ("warn", "fail")
        )
        change = drawn.locator(".estimate").bounding_box()
        assert bases["x"] + bases["width"] < warn < change["x"] + change["width"] / 2 < fail
        assert bases["y"] + bases["height"] / 2 < heads["y"]
        assert "×× 2 void" in drawn.locator("text").all_text_contents()
        limits = [text.bounding_box() for text in drawn.locator("text.warn, text.fail").all()]
        assert limits[0]["y"] + 10 < limits[1]["y"]
