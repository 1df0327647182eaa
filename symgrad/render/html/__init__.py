"""Explanations as pages for a browser: one file, nothing fetched, numbers that can be edited."""

from symgrad.render.html.page import derived_html, to_html

__all__ = ["derived_html", "to_html"]
