"""Explanations and formulas as text, Markdown, LaTeX and JSON.

`symgrad.render.content` knows what is said, the writers how it looks; they do not know each other.
"""

from symgrad.render.derived import derived_json, derived_latex, derived_markdown, derived_text
from symgrad.render.formula_latex import formula_latex
from symgrad.render.formula_text import formula_text
from symgrad.render.json import schema, to_json
from symgrad.render.latex import to_latex
from symgrad.render.letters import Names, names_of
from symgrad.render.markdown import to_markdown
from symgrad.render.text import to_text

__all__ = [
    "Names",
    "derived_json",
    "derived_latex",
    "derived_markdown",
    "derived_text",
    "formula_latex",
    "formula_text",
    "names_of",
    "schema",
    "to_json",
    "to_latex",
    "to_markdown",
    "to_text",
]
