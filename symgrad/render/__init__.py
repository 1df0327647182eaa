"""Explanations as text, Markdown, LaTeX and JSON."""

from typing import Any


def to_text(explanation: Any, **options: Any) -> str:
    """For a terminal."""
    raise NotImplementedError


to_markdown = to_latex = to_json = to_text
