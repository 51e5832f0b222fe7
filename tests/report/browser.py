"""Pages in a real browser: headless Chromium by way of Playwright; skipped, with the reason, where one is missing."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def chromium() -> str | None:
    """The Chromium to use: $CHROMIUM, or the system's."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    return found or shutil.which("google-chrome")


@contextmanager
def launched() -> Iterator[Any]:
    """A browser; skips the test where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[dev]'")
    path = chromium()
    if path is None:
        pytest.skip("needs Chromium on PATH, or its path in $CHROMIUM")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@functools.cache
def axe() -> str:
    """axe-core's own script; skips the test where it is not installed."""
    package = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python, in [dev]")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def opened(part: Any) -> None:
    """Assert that what a click opens is seen: the browser opens it soon after the click, not within it."""
    part.wait_for(state="visible", timeout=10_000)


class Watched:
    """A page, and what it should never do: speak on the console, fail, ask for anything but itself."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.address = file.as_uri()

    def close(self) -> None:
        """Close it, and check that it kept quiet."""
        self.context.close()
        assert self.said == []
        assert self.requests == [self.address]


def check_looks(browser: Any, file: Path, width: int, scheme: str, opened: str = "details") -> None:
    """Assert that axe finds nothing and that the page does not scroll sideways, with all that matches `opened` open."""
    # the page's own policy keeps axe out as it does everything else
    one = Watched(
        browser, file, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    )
    one.page.evaluate(f"for (const one of document.querySelectorAll('{opened}')) one.open = true")
    one.page.evaluate(axe())
    found = one.page.evaluate("axe.run()")["violations"]
    wide = one.page.evaluate("document.documentElement.scrollWidth")
    one.close()
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found] == []
    assert wide <= width, "the page itself never scrolls sideways"
