"""Explanations as pages for a browser: one file, nothing fetched, numbers that can be edited."""

from symgrad.render.html.page import to_html
from symgrad.render.html.pieces import need_packages

__all__ = ["need_packages", "to_html"]
