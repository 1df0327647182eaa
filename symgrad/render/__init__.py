"""Explanations and formulas as text, Markdown, LaTeX and JSON.

`symgrad.render.content` knows what is said, the writers how it looks; they do not know each other.
"""

from symgrad.render.content import derivation_page, page_of
from symgrad.render.formula_latex import formula_latex
from symgrad.render.formula_text import formula_text
from symgrad.render.letters import Names, names_of
from symgrad.render.text import page_text, to_text

to_markdown = to_latex = to_json = to_text

__all__ = [
    "Names",
    "derivation_page",
    "formula_latex",
    "formula_text",
    "names_of",
    "page_of",
    "page_text",
    "to_text",
]
