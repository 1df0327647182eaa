"""Sphinx extension of our own site: when all pages are written, every link leads somewhere and every picture has words.

Comes in: the folder of pages. Goes out: an error that names each broken link, each picture without words for those who
do not see it, each line of code that no screen holds, and everything that would be fetched from elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.errors import SphinxError

from symgrad.documents.article import LONGEST

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements for which a browser would go and fetch something."""
DASHED = re.compile(r"(?<![\w–])–[a-z]\w*")
"""``--let`` with the dash of a book: nobody can type it."""


class Reading(HTMLParser):
    """The links, the places that can be linked to, the pictures and the code of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.fetched: list[str] = []
        self.mute: list[str] = []
        self.svg: list[bool] = []
        self.code: list[str] = []
        self.dashed: list[str] = []
        self.inside = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "pre":
            self.inside += 1
            self.code.append("")
        if tag in FETCHED and FETCHED[tag] in found:
            self.fetched.append(found[FETCHED[tag]])
        if tag == "img" and not found.get("alt", "").strip():
            self.mute.append(found.get("src", "a picture"))
        if tag == "svg":
            self.svg.append(found.get("role") == "img" and "aria-labelledby" not in found)

    def handle_endtag(self, tag: str) -> None:
        """The end of one."""
        self.inside -= tag == "pre"

    def handle_data(self, data: str) -> None:
        """Text between the elements."""
        self.dashed += DASHED.findall(data)
        if self.inside:
            self.code[-1] += data

    @property
    def long(self) -> list[str]:
        """The lines of code that no screen holds."""
        return [line for code in self.code for line in code.splitlines() if len(line) > LONGEST]


def read(path: Path) -> Reading:
    """One page."""
    reading = Reading()
    reading.feed(path.read_text(encoding="utf-8"))
    return reading


def faults(folder: Path) -> Iterator[str]:
    """What is wrong with the pages in ``folder``."""
    pages = {path.resolve(): read(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    there = {path: path.exists() for path in pages}
    for path, page in pages.items():
        here = path.relative_to(folder.resolve())
        for link in dict.fromkeys((*page.links, *page.fetched)):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "") and parts.netloc and link in page.fetched:
                yield f"{here}: fetches {link}"
            if parts.scheme or parts.netloc:
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if target not in there:  # a page is linked to by all others
                there[target] = target.exists()
            if not there[target]:
                yield f"{here}: there is no {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{here}: nothing is called {link}"
        yield from (f"{here}: {picture} has no words" for picture in page.mute)
        yield from (f"{here}: {len(line)} characters in a line that begins {line[:20]}" for line in page.long)
        yield from (f"{here}: an option has the dash of a book: {word}" for word in page.dashed)
        yield from (f"{here}: a drawing has no words" for mute in page.svg if mute)


def check(app: Any, exception: Exception | None) -> None:
    """After the last page."""
    if exception is None and app.builder.format == "html":
        found = list(faults(Path(app.outdir)))
        if found:
            raise SphinxError(f"{len(found)} faults of the pages:\n" + "\n".join(found))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
