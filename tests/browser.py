"""A real browser for tests: Debian's Chromium or any other that is installed, driven by Playwright; skipped without one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def installed() -> str:
    """The browser; skips the test where none is found."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser is installed (looked for {', '.join(NAMES)}): apt-get install chromium")
    return found


@contextmanager
def browser() -> Iterator[Any]:
    """A headless browser; skips where it is not installed, or Playwright is not."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    path = installed()
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


class Opened:
    """A page, what it complained about, and what it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.complaints.append(str(e)))
        page.on("request", lambda r: self.requests.append(r.url))

    def open(self, url: str) -> Any:
        """The page at ``url``."""
        self.page.goto(url)
        return self.page

    def violations(self) -> list[str]:
        """What axe-core finds, from moderate on."""
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
        )
        found = axe.Axe().run(self.page).response["violations"]
        return [
            f"{v['id']} ({v['impact']}): {v['nodes'][0]['html'][:160]} and {len(v['nodes']) - 1} more"
            for v in found
            if v["impact"] in ("moderate", "serious", "critical")
        ]
