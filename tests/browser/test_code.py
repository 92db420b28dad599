"""Where in the code the time and the memory went, in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from ci_score.model.record import Record
from ci_score.report.html.page import report_html
from tests.browser import checks
from tests.browser.chromium import Browser, missing, started
from tests.builders import code_shown
from tests.builders.code_shown import caller, code, definition, line, slower_code, with_code
from tests.builders.reports import HOSTILE
from tests.builders.states import by_operators, of_peaks

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")

PHONE, DESK = 390, 1200
SCRIPT = "</style><script>alert(4)</script>"


def hostile() -> Record:
    nasty = definition(
        HOSTILE,
        file=f'"><svg onload=alert(3)>/{SCRIPT}.py',
        was_file="\u202egnp.exe",
        was_name=SCRIPT,
        touched=True,
        lines=(line(changed_line=88, through=SCRIPT), line(None, base_line=3)),
        callers=(caller("x" * 200, file=f"{'folder/' * 40}a.py", touched=True),),
    )
    return slower_code(code(nasty))


def long_names() -> Record:
    name, path = "Model." + "forward_with_a_long_name" * 7, "src/" + "folder_with_a_name/" * 12
    return slower_code(
        code(definition(name, file=f"{path}model.py", touched=True, lines=(line(),)))
    )


RECORDS: dict[str, Callable[[], Record]] = {
    "touched": lambda: slower_code(code_shown.touched()),
    "of a library": lambda: slower_code(code_shown.of_library()),
    "diff too large": lambda: slower_code(code_shown.too_large()),
    "hostile names": hostile,
    "long names": long_names,
    "memory of code": lambda: with_code(of_peaks(), code_shown.of_memory()),
    "memory of operators": by_operators,
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


@every_record
def test_code__fits_and_is_silent(browser: Browser, name: str) -> None:
    """No wider than a phone, nothing against the page's policy, and no request but for the file."""
    for width in (PHONE, DESK):
        with browser.page(page_of(name), width=width) as (page, seen):
            checks.open_all(page)
            assert checks.overflow(page) <= 0
            assert checks.overflowing(page) == []
            assert (seen.console, seen.errors, seen.dialogs) == ([], [], [])
            assert len(seen.requests) == 1


@every_record
@both_schemes
def test_code__is_legible_and_accessible(browser: Browser, name: str, dark: bool) -> None:
    """Every text has a contrast of at least 4.5, badges too, and axe finds nothing."""
    with browser.page(page_of(name), dark=dark, width=PHONE) as (page, _):
        checks.open_all(page)
        found = checks.contrasts(page)
        assert len(found) > 10
        assert [row for row in found if row[1] < 4.5] == []
        assert checks.axe_findings(page) == []


def test_code__is_read_by_keyboard_without_scripts(browser: Browser) -> None:
    """The blamed function is open, another opens, and each line is a link to the forge."""
    with browser.page(page_of("touched"), script=False, width=PHONE) as (page, _):
        folds = page.locator(".code details")
        assert [fold.get_attribute("open") is not None for fold in folds.all()] == [True, False]
        assert page.locator(".code").get_by_text("line 88").is_visible()
        folds.nth(1).locator("summary").focus()
        page.keyboard.press("Enter")
        assert page.locator(".code").get_by_text("line 22").is_visible()
        reached = [tabbed(page) for _ in range(12)]
        assert any(address.endswith("/src/model.py#L106") for address in reached)


def tabbed(page: Any) -> str:
    """The address of what the next press of the tab key reaches."""
    page.keyboard.press("Tab")
    address: str = page.evaluate("() => document.activeElement.href || ''")
    return address


def test_code__bars_stand_beside_each_other(browser: Browser) -> None:
    """The head above the base, both by one scale, and none wider than the section."""
    with browser.page(page_of("touched"), width=PHONE) as (page, _):
        width = page.locator(".code").bounding_box()["width"]
        bars = [
            (one.locator(".head").bounding_box(), one.locator(".base").bounding_box())
            for one in page.locator(".code .bar").all()
        ]
        assert all(head["y"] < base["y"] for head, base in bars)
        assert all(head["x"] == base["x"] for head, base in bars)
        head, base = bars[0]
        assert base["width"] / head["width"] == pytest.approx(60.2 / 137, abs=0.02)
        assert head["width"] <= width


def test_code__hostile_names_stay_text(browser: Browser) -> None:
    """Nothing of theirs becomes an element, or turns what a reader sees around."""
    with browser.page(page_of("hostile names")) as (page, seen):
        checks.open_all(page)
        assert page.locator("img, iframe").count() == 0
        assert page.locator("script:not([type='application/json'])").count() == 1
        assert seen.dialogs == []
        text = page.locator(".code").inner_text()
        assert "<img src=x>" in text
        assert "alert(4)" in text
        assert "\u202e" not in page.content()
        addresses = {link.get_attribute("href") for link in page.locator(".code a").all()}
        assert all(one.startswith(f"{code_shown.REPOSITORY}/blob/") for one in addresses)


def test_memory__has_a_section_of_its_own(browser: Browser) -> None:
    """With bars as wide as the section, a sum, and no waterfall of times."""
    with browser.page(page_of("memory of code"), width=PHONE) as (page, _):
        rows = page.locator(".memory li")
        assert rows.count() == 4
        assert rows.last.inner_text().split("\n")[0].strip() == "Peak"
        widest = max(one.bounding_box()["width"] for one in page.locator(".memory rect").all())
        assert widest > 0.8 * page.locator(".memory").bounding_box()["width"]
        assert page.locator(".memory .bar").count() == 3
        assert page.locator(".waterfall").count() == 0
