"""The branch's site in a real browser: silent, legible, usable from disk, and only text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from ci_score.model.metrics import THROUGHPUT
from ci_score.model.record import MetricFacts, Record
from ci_score.report.site import report_name, site_pages
from tests.browser import checks
from tests.browser.chromium import Browser, Seen, missing, started
from tests.builders import case, on, record, scorecard
from tests.builders.branch import REPOSITORY, accepted, branch, left_by, long_history
from tests.builders.showcase import large

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")

PHONE, DESK = 390, 1200
NAME = "llama-7b@h100"
MARKUP = "<img src=x onerror=alert(1)></style><script>alert(2)</script>\u202e" + "x" * 300


def hostile() -> Record:
    """Every text of a stranger's is made to break out."""
    said = accepted(NAME).but(reason=MARKUP[:190], by=MARKUP[:60], url="javascript:alert(3)")
    points = tuple(
        point.but(metrics={MARKUP[:150]: 1.0}, accepted=(said,), environment=on(MARKUP[:150]))
        for point in long_history(runs=12)
    )
    return record(
        case(NAME, scorecard(), environment=on(MARKUP[:150])),
        history=points,
        metrics={
            MARKUP[:150]: MetricFacts(label=MARKUP[:150], unit="</td>"),
            THROUGHPUT: MetricFacts(label=MARKUP[:150], higher_is_better=True),
        },
        repository=REPOSITORY,
    )


def one_run() -> Record:
    """A branch that was measured once."""
    return left_by(0, long_history(runs=1))


RECORDS: dict[str, Callable[[], Record]] = {
    "two cases": branch,
    "hostile texts": hostile,
    "one run": one_run,
    "64 cases": lambda: large(64, 1, 200),
}


@cache
def site(name: str) -> dict[str, str]:
    """The site of that record; that of two cases has reports."""
    value = RECORDS[name]()
    newest = {report_name(point) for point in value.history[-3:]}
    return site_pages(value, newest if name == "two cases" else ())


PAGES = [
    ("two cases", "index.html"),
    ("two cases", f"case-{NAME}.html"),
    ("hostile texts", "index.html"),
    ("hostile texts", f"case-{NAME}.html"),
    ("one run", "index.html"),
    ("one run", f"case-{NAME}.html"),
    ("64 cases", "index.html"),
]
every_page = pytest.mark.parametrize(("name", "page_name"), PAGES)
small_pages = pytest.mark.parametrize(("name", "page_name"), PAGES[:4])
both_schemes = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each page has a context of its own."""
    if not missing():
        with started() as browser:
            yield browser


def is_silent(seen: Seen) -> bool:
    """No message, no error, and no request but for the file itself."""
    return (seen.console, seen.errors, seen.dialogs, len(seen.requests)) == ([], [], [], 1)


@every_page
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_site__is_silent_and_fits(browser: Browser, name: str, page_name: str, width: int) -> None:
    """No request, and no wider than the screen; tables scroll by themselves."""
    with browser.page(site(name)[page_name], width=width) as (page, seen):
        assert checks.overflow(page) <= 0
        assert checks.overflowing(page) == []
        assert is_silent(seen)


@small_pages
@both_schemes
def test_site__is_legible_and_accessible(
    browser: Browser, name: str, page_name: str, *, dark: bool
) -> None:
    """Every text has a contrast of at least 4.5, and axe finds nothing."""
    with browser.page(site(name)[page_name], dark=dark) as (page, _):
        found = checks.contrasts(page)
        assert len(found) > 10
        assert [row for row in found if row[1] < 4.5] == []
        assert checks.axe_findings(page) == []


def test_site__of_64_cases_is_accessible(browser: Browser) -> None:
    """The overview with its search, on a phone."""
    with browser.page(site("64 cases")["index.html"], width=PHONE) as (page, _):
        assert checks.axe_findings(page) == []
        page.get_by_label("Find a case").fill("model-07")
        assert page.locator("table.lines tbody tr:visible").count() == 1


def test_site__is_read_from_disk_without_scripts(browser: Browser, tmp_path: Path) -> None:
    """From the overview to a case and back; every chart and every run is there."""
    for name, text in site("two cases").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    context = browser.browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto((tmp_path / "index.html").as_uri())
        assert page.locator("thead button").count() == 0
        assert page.locator("table.lines svg.small").count() == 6
        page.locator("table.lines").get_by_role("link", name="resnet@l4").first.click()
        assert page.locator("h1").inner_text() == "resnet@l4"
        assert page.locator("figure.course").count() == 3
        assert page.locator("figure.course .line").first.bounding_box()["width"] > 500
        assert page.locator("tbody tr").count() == 401
        page.locator(".brand a").click()
        assert page.locator("h1").inner_text() == "Performance of the branch"
    finally:
        context.close()


def test_site__is_used_by_keyboard(browser: Browser) -> None:
    """The first stop skips the header, and each stop is seen."""
    with browser.page(site("two cases")["index.html"], width=PHONE) as (page, _):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the overview"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "site"
        for _ in range(12):
            page.keyboard.press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid"


def test_site__sorts_runs(browser: Browser) -> None:
    """By a number, from the largest on."""
    with browser.page(site("two cases")[f"case-{NAME}.html"]) as (page, _):
        table = page.locator("table", has_text="The newest run first")
        header = table.locator("th", has_text="Step time")
        header.get_by_role("button").click()
        shown = [float(one[:-3]) for one in table.locator("td:nth-child(5)").all_inner_texts()]
        assert shown == sorted(shown, reverse=True)
        assert len(shown) == 400


@pytest.mark.parametrize("page_name", ["index.html", f"case-{NAME}.html"])
def test_site__texts_stay_text(browser: Browser, page_name: str) -> None:
    """Nothing of theirs becomes an element, runs, or turns around what a reader sees."""
    with browser.page(site("hostile texts")[page_name]) as (page, seen):
        assert page.locator("img, iframe, object, a[href^=javascript]").count() == 0
        assert page.locator("script").count() == 1
        assert is_silent(seen)
        text = page.locator("body").inner_text()
        assert "<img src=x onerror=alert(1)>" in text
        assert "\u202e" not in text
