"""The README's pictures: `make screenshots` writes docs/images from what renderers make today."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ci_score.report.html.page import report_html
from ci_score.report.markdown import report_markdown
from tests.browser.checks import draw_mermaid
from tests.browser.chromium import Browser, started
from tests.browser.github_page import as_github_shows_it
from tests.builders import PROJECT
from tests.builders.showcase import slow_pull_request

IMAGES = PROJECT / "docs" / "images"
LARGEST = 300_000
COLOURS = 160
TALLEST = 1500


def main() -> None:
    """Takes every picture, and says how large it is."""
    record = slow_pull_request()
    comment = as_github_shows_it(report_markdown(record))
    IMAGES.mkdir(parents=True, exist_ok=True)
    with started() as browser:
        for dark in (False, True):
            name = f"comment-{'dark' if dark else 'light'}.png"
            save(IMAGES / name, comment_picture(browser, comment, dark=dark))
        save(IMAGES / "report.png", report_picture(browser, report_html(record)))


def comment_picture(browser: Browser, html: str, *, dark: bool) -> bytes:
    """The comment as it is first seen, with the trend unfolded."""
    with browser.page(html, width=920, dark=dark, scale=2) as (page, _):
        failures = draw_mermaid(page, dark=dark)
        if failures:
            raise SystemExit(f"mermaid did not draw the trend: {failures[0]}")
        page.evaluate(
            """() => document.querySelectorAll("details").forEach(fold => {
              fold.open = fold.querySelector(".chart") !== null;
            })"""
        )
        taken: bytes = page.locator(".comment").screenshot()
        return taken


def report_picture(browser: Browser, html: str) -> bytes:
    """The page's first part, down to where a step's time went."""
    with browser.page(html, width=1120, height=TALLEST, scale=2) as (page, _):
        end = _bottom(page, ".waterfall")
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
