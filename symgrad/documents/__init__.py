"""Markdown pages that are true: one per operation of the table, one for the forum example, and an index.

Each page is written from the same `Explanation` that the terminal shows, so that a page cannot say what was
not derived and proven.
"""

from symgrad.documents.pages import Page, forum_page, index_page, kinks_page, operation_page, write_site

__all__ = ["Page", "forum_page", "index_page", "kinks_page", "operation_page", "write_site"]
