"""The tables of who is different and the launches on one axis, in a real browser."""

from __future__ import annotations

import re
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
def test_tables__fit_and_are_silent(browser: Browser, name: str) -> None:
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
def test_tables__are_legible_and_accessible(browser: Browser, name: str, dark: bool) -> None:
    """Every text has a contrast of at least 4.5, on the darkest cell too; axe finds nothing."""
    with browser.page(page_of(name), dark=dark, width=PHONE) as (page, _):
        found = checks.contrasts(page)
        assert len(found) > 10
        assert [row for row in found if row[1] < 4.5] == []
        assert checks.axe_findings(page) == []


def test_tables__say_everything_as_text_without_scripts(browser: Browser) -> None:
    """Each cell has its change and its times; a shaded one has a sign, too; the rank is marked."""
    with browser.page(page_of("64 ranks"), script=False, width=PHONE) as (page, _):
        table = page.locator(".shaded table")
        assert table.locator("tbody tr").count() == 64
        named = table.locator("tr.named")
        assert named.locator("th").inner_text() == "3"
        compute = named.locator("td").first
        assert re.fullmatch(r"▲ \+1\d\.\d\n5\d\.\d → 75\.0", compute.inner_text())
        colours = {
            cell.evaluate("cell => getComputedStyle(cell).backgroundColor")
            for cell in (compute, table.locator("tbody td").first)
        }
        assert len(colours) == 2
    with browser.page(page_of("128 layers"), script=False) as (page, _):
        for way, sign in (("up", "▲"), ("down", "▼")):
            shaded = page.locator(f".shaded td[class^={way}]").all_inner_texts()
            assert shaded
            assert all(text.startswith(sign) for text in shaded)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_tables__their_sums_stay_in_sight(browser: Browser, width: int) -> None:
    """Of 128 layers some are seen at once, and the sums below them, which nothing covers."""
    with browser.page(page_of("128 layers"), width=width) as (page, _):
        page.locator(".shaded").scroll_into_view_if_needed()
        for cell in page.locator(".shaded tfoot tr > *").all()[:3]:
            box = cell.bounding_box()
            middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            seen = "([x, y]) => document.elementFromPoint(x, y).closest('tfoot') !== null"
            assert page.evaluate(seen, middle)


def test_tables__are_sorted_by_the_change(browser: Browser) -> None:
    """The scripts only add that; what has no number comes last, whichever way."""
    with browser.page(page_of("128 layers")) as (page, _):
        rows = page.locator(".shaded tbody tr th")

        def sorted_by(name: str) -> tuple[str, str]:
            header = page.locator(".shaded th", has_text=name)
            header.get_by_role("button").click()
            names = rows.all_inner_texts()
            return names[0], names[-1]

        assert sorted_by("optimizer")[0] == "outside"
        assert sorted_by("backward") == ("12", "outside")
        assert sorted_by("backward") == ("40", "outside")


def test_tables__hostile_phases_stay_text(browser: Browser) -> None:
    """Nothing of theirs becomes an element or turns what a reader sees around."""
    with browser.page(page_of("hostile names")) as (page, seen):
        checks.open_all(page)
        assert page.locator("img, iframe").count() == 0
        assert page.locator("script:not([type='application/json'])").count() == 1
        assert seen.dialogs == []
        text = page.locator(".shaded").inner_text()
        assert "<img src=x>" in text
        assert "alert(4)" in text
        assert not set("\u202e") & set(page.content())


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
