"""Markdown pages that are true: one per operation of the table, one for the forum example, and an index.

Each page is written from the same `Explanation` that the terminal shows, so that a page cannot say what was
not derived and proven. The pages about kinds of errors stand here, too, where an installed package finds them: our own
site shows them, ``symgrad errors KIND`` prints them; both make the messages in them anew.
"""

from __future__ import annotations

from pathlib import Path

from symgrad.documents.pages import Page, forum_page, index_page, kinks_page, operation_page, write_site

__all__ = ["Page", "forum_page", "index_page", "kinds", "kinks_page", "operation_page", "write_site"]


def kinds() -> dict[str, str]:
    """The page of each kind.

    >>> kinds()["shape"].splitlines()[0]
    '# error[shape]'
    """
    pages = Path(__file__).parent / "errors"
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(pages.glob("*.md"))}
