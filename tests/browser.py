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


KINDS = """() => {
    const known = new Map(), kinds = new Map([[null, ""]]), found = new Map();
    const said = (element, part) => {
        const s = getComputedStyle(element, part);
        return [s.content, s.color, s.backgroundColor, s.backgroundImage, s.opacity, s.fontSize, s.fontWeight,
            s.textShadow, s.filter, s.mixBlendMode, s.position, s.display, s.visibility];
    };
    for (const element of document.querySelectorAll("*")) {
        const own = [element.tagName, element.getAttribute("class"), said(element), said(element, "::before"),
            said(element, "::after"), kinds.get(element.parentElement)].join("|");
        if (!known.has(own)) known.set(own, known.size);
        const kind = known.get(own);
        kinds.set(element, kind);
        const texts = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (texts || element.matches("input, select, textarea")) {
            const same = `${kind} ${element.checkVisibility()}`;
            found.set(same, [(found.get(same) || [element])[0], element]);
        }
    }
    return [...new Set([...found.values()].flat())];
}"""
"""The first and the last text of each kind: element, class and all that its colours depend on, its own and those of
what is around it. Thousands of cells are alike, and axe-core looks at what lies behind each of them."""


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
        """What axe-core finds, from moderate on; contrast is looked at once for each `KINDS` of text."""
        axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
        self.page.evaluate(axe.AXE_SCRIPT)
        found = self.page.evaluate(f"""async () => {{
            const shown = {{resultTypes: ["violations"]}}, kinds = ({KINDS})();
            const all = await axe.run(document, {{...shown, rules: {{"color-contrast": {{enabled: false}}}}}});
            const contrast = await axe.run({{include: kinds}}, {{...shown, runOnly: ["color-contrast"]}});
            return [...all.violations, ...contrast.violations];
        }}""")
        return [
            f"{v['id']} ({v['impact']}): {v['nodes'][0]['html'][:160]} and {len(v['nodes']) - 1} more"
            for v in found
            if v["impact"] in ("moderate", "serious", "critical")
        ]
