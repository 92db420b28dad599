"""`make screenshots`: the README's pictures in docs/images, from what renderers make today.

Beside them, in a folder that is not tracked, pictures to look at: of real traces where
their samples are, and of pull requests that did not simply become slower.
"""

from __future__ import annotations

import io
from html import escape
from pathlib import Path
from typing import Any

from ci_score.model.record import Record, RunIdentity
from ci_score.report.html.page import report_html
from ci_score.report.markdown import report_markdown
from ci_score.report.screen import Screen
from ci_score.report.site import site_pages
from ci_score.report.terminal import report_text
from tests.browser.chromium import Browser, started
from tests.browser.github_page import as_github_shows_it
from tests.builders import PROJECT, shared
from tests.builders.branch import branch
from tests.builders.real_samples import real_records
from tests.builders.showcase import slow_pull_request
from tests.builders.states import REPOSITORY, states

IMAGES = PROJECT / "docs" / "images"
LOOKED_AT = PROJECT / "build" / "pictures"
LARGEST = 300_000
COLOURS = 160
TALLEST = 2200
# No picture to look at is taller: one cannot be looked at any more.
LONGEST = 6000
DESK, PHONE = 1200, 390
DRAWINGS = ("icicle", "ops", "shaded", "launches")
COMMENT, TERMINAL = 920, 80
# What is far below the window is not drawn before somebody scrolls there.
DRAW_ALL = """() => document.querySelectorAll("*").forEach(element => {
  element.style.contentVisibility = "visible";
})"""
TERMINAL_PAGE = (
    '<!doctype html><meta charset="utf-8"><style>body{{margin:0;background:#111;color:#ddd}}'
    "pre{{font:14px/1.3 monospace;padding:16px;margin:0}}</style><pre>{}</pre>"
)


def main() -> None:
    """Takes every picture, and says how large it is."""
    record = in_a_repository(slow_pull_request())
    comment = as_github_shows_it(report_markdown(record))
    IMAGES.mkdir(parents=True, exist_ok=True)
    with started() as browser:
        for dark in (False, True):
            name = f"comment-{'dark' if dark else 'light'}.png"
            save(IMAGES / name, comment_picture(browser, comment, dark=dark))
        save(IMAGES / "report.png", report_picture(browser, report_html(record)))
        save(IMAGES / "site.png", site_picture(browser))
        look_at_site(browser)
        look_at(browser, "toy", record)
        for name, value in states():
            look_at(browser, name, value)
        samples = shared()
        for name, value in real_records(samples / "samples") if samples else ():
            look_at(browser, name, value)


def look_at(browser: Browser, name: str, record: Record) -> None:
    """Every form of a report: comment, page, its drawings, terminal."""
    folder = LOOKED_AT / name
    folder.mkdir(parents=True, exist_ok=True)
    comment, html = as_github_shows_it(report_markdown(record)), report_html(record)
    (folder / "page.html").write_text(html, encoding="utf-8")
    for dark in (False, True):
        scheme = "dark" if dark else "light"
        (folder / f"comment-{scheme}.png").write_bytes(whole(browser, comment, COMMENT, dark=dark))
        (folder / f"page-{scheme}.png").write_bytes(whole(browser, html, DESK, dark=dark))
    (folder / "comment-phone.png").write_bytes(whole(browser, comment, PHONE))
    (folder / "page-phone.png").write_bytes(whole(browser, html, PHONE))
    text = report_text(record, Screen(width=TERMINAL))
    printed = TERMINAL_PAGE.format(escape(text))
    (folder / "terminal.png").write_bytes(whole(browser, printed, COMMENT))
    with browser.page(html, width=DESK) as (page, _):
        for drawing in DRAWINGS:
            for found in page.locator(f".{drawing}").all()[:1]:
                (folder / f"{drawing}.png").write_bytes(found.screenshot())


def look_at_site(browser: Browser) -> None:
    """The overview of a branch, and the page of a case."""
    folder = LOOKED_AT / "site"
    folder.mkdir(parents=True, exist_ok=True)
    for name, html in site_pages(branch(), ()).items():
        if name.endswith(".html"):
            for width in (DESK, PHONE):
                picture = whole(browser, html, width)
                (folder / f"{name.removesuffix('.html')}-{width}.png").write_bytes(picture)


def whole(browser: Browser, html: str, width: int, *, dark: bool = False) -> bytes:
    """All of a page, down to where nobody looks."""
    with browser.page(html, width=width, dark=dark) as (page, _):
        page.evaluate(DRAW_ALL)
        height: int = page.evaluate("() => document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, LONGEST)}
        taken: bytes = page.screenshot(full_page=True, clip=clip)
        return taken


def in_a_repository(told: Record) -> Record:
    """The record as a job of a pull request leaves it, so that its pictures have links."""
    return told.but(
        repository=REPOSITORY,
        pull=12,
        pull_head=told.commit,
        run=RunIdentity(number=918, id=88130),
        page=f"{REPOSITORY}/actions/runs/88130/artifacts/4021",
    )


def comment_picture(browser: Browser, html: str, *, dark: bool) -> bytes:
    """The comment as it is first seen: its folds are closed."""
    with browser.page(html, width=920, dark=dark, scale=2) as (page, _):
        taken: bytes = page.locator(".comment").screenshot()
        return taken


def site_picture(browser: Browser) -> bytes:
    """The overview of a branch, down to its cases."""
    html = site_pages(branch(), ())["index.html"]
    with browser.page(html, width=1120, height=1300, scale=2) as (page, _):
        taken: bytes = page.screenshot()
        return taken


def report_picture(browser: Browser, html: str) -> bytes:
    """The page's first part, down to the ops of a step."""
    with browser.page(html, width=1120, height=TALLEST, scale=2) as (page, _):
        page.evaluate(DRAW_ALL)
        end = _bottom(page, ".icicle")
        taken: bytes = page.screenshot(
            clip={"x": 0, "y": 0, "width": 1120, "height": min(end + 24, TALLEST)}
        )
        return taken


def _bottom(page: Any, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    return float(box["y"] + box["height"])


def save(path: Path, picture: bytes) -> None:
    """With a palette: flat colours need no more, and a README loads faster."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    packed = image.quantize(COLOURS, dither=Image.Dither.NONE)
    packed.save(path, optimize=True)
    size = path.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"{path.name} has {size} bytes, and may have {LARGEST}")
    print(f"{path.relative_to(PROJECT)}: {image.width} x {image.height}, {size / 1000:.0f} kB")  # noqa: T201 - for who asked


if __name__ == "__main__":
    main()
