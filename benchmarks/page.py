"""How fast the page of a large model is in Chromium: `$(.ci/browser) -m benchmarks.page`.

128 layers of 200 ops in two phases on both sides, after 200 runs of the branch: how large the page
is, when it is first painted and when it is loaded, and how long it takes from a key in the search,
or another choice, to the next frame.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.measure import note, seconds
from ci_score.model.record import KEPT_POINTS
from ci_score.report.html.page import report_html
from tests.browser.chromium import Browser, started
from tests.builders.showcase import deep, with_op_history

LOADS, WORDS = 5, "elementwise_functor_1"
WATCH = """() => {
  window.frames_ms = [];
  for (const kind of ["keydown", "change", "click", "focusin"]) {
    addEventListener(kind, event => requestAnimationFrame(() => setTimeout(() => {
      window.frames_ms.push(performance.now() - event.timeStamp);
    })), true);
  }
}"""
TIMES = """() => [
  performance.getEntriesByName("first-contentful-paint")[0].startTime,
  performance.getEntriesByType("navigation")[0].loadEventEnd,
]"""


def main() -> None:
    """Prints the figures."""
    record = with_op_history(deep(), KEPT_POINTS)
    html = report_html(record)
    size = len(html.encode()) / 1e6
    note([f"{size:.2f} MB, made in {seconds(lambda: report_html(record)):.2f} s"])
    with started() as browser:
        opened = [opening(browser, html) for _ in range(LOADS)]
        painted, loaded = (statistics.median(column) for column in zip(*opened, strict=True))
        note([f"first paint after {painted:.0f} ms, loaded after {loaded:.0f} ms"])
        with browser.page(html) as (page, _):
            show(page)


def opening(browser: Browser, html: str) -> tuple[float, float]:
    """Milliseconds until the first paint and until the page is loaded."""
    with browser.page(html) as (page, _):
        page.wait_for_timeout(300)
        painted, loaded = page.evaluate(TIMES)
        return float(painted), float(loaded)


def show(page: Any) -> None:
    """From an event to the next frame: keys, phases, a column, a fold, layers and a zoom."""
    page.evaluate(WATCH)
    page.get_by_label("Find an op").press_sequentially(WORDS)
    print_frames(page, "a key in the search")
    page.get_by_label("Find an op").fill("")
    for phase in ("forward", "backward"):
        page.get_by_label("Phase", exact=True).select_option(phase)
        print_frames(page, f"the phase {phase}")
    page.locator(".op-table thead").get_by_role("button", name="Each").click()
    print_frames(page, "a column")
    page.locator(".op-table summary").first.click()
    print_frames(page, "an op unfolded")
    page.get_by_label("Layer", exact=True).focus()
    print_frames(page, "the icicle woken")
    for layer in range(8):
        page.get_by_label("Layer", exact=True).select_option(str(layer))
    print_frames(page, "a layer")
    page.get_by_label("Mark ops").press_sequentially(WORDS)
    print_frames(page, "a key that marks ops")
    page.locator(".rows.head .b").nth(1).click()
    print_frames(page, "a zoom")


def print_frames(page: Any, what: str) -> None:
    """The middle and the longest time of what was done since the last print."""
    page.wait_for_timeout(200)
    times = sorted(page.evaluate("() => window.frames_ms.splice(0)"))
    note([f"{what}: {statistics.median(times):.0f} ms, at most {times[-1]:.0f} ms"])


if __name__ == "__main__":
    main()
