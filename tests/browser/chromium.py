"""Debian's Chromium, driven by playwright, which knows nothing of the network here."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
# `.ci/browser` leaves it here; a skipped test that CI counts on would hide what broke.
REQUIRED = "CI_SCORE_BROWSER"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ci-score"
LAB = CACHE / "lab" / "node_modules"


def missing() -> str:
    """Why there can be no browser here, or nothing where there can."""
    if os.environ.get(REQUIRED):
        return ""
    for package in ("playwright", "cmarkgfm"):
        if find_spec(package) is None:
            return f"no {package} in this environment; .ci/browser makes one that has it"
    if shutil.which("chromium") is None:
        return "no chromium on this machine; .ci/browser installs it"
    if not LAB.is_dir():
        return "no lab with axe-core; .ci/browser fills it"
    return ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a page did that a reader does not see."""

    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def listen(self, page: Any) -> None:
        """Remembers it from now on."""
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

        def dismiss(dialog: Any) -> None:
            self.dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", dismiss)


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser with a fresh profile; every page has a context of its own."""

    browser: Any
    folder: Path

    @contextmanager
    def page(
        self,
        html: str,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        script: bool = True,
        scale: int = 1,
        fragment: str = "",
    ) -> Iterator[tuple[Any, Seen]]:
        """The text as a file from disk, and what it does beside being shown."""
        file = Path(tempfile.mkdtemp(dir=self.folder)) / "page.html"
        file.write_text(html, encoding="utf-8")
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            device_scale_factor=scale,
            locale="en",
        )
        try:
            page, seen = context.new_page(), Seen()
            seen.listen(page)
            page.goto(file.as_uri() + fragment)
            yield page, seen
        finally:
            context.close()


@contextmanager
def started() -> Iterator[Browser]:
    """A browser for as long as it is used."""
    from playwright.sync_api import sync_playwright

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        try:
            yield Browser(browser, Path(folder))
        finally:
            browser.close()


def lab(package: str, file: str) -> str:
    """A script of the lab."""
    return (LAB / package / file).read_text(encoding="utf-8")
