"""Explanations and formulas as text, Markdown, LaTeX, JSON and pictures.

`symgrad.render.content` knows what is said, the writers how it looks; they do not know each other.
"""

from symgrad.explanation import Explanation, Writers
from symgrad.render.formula_alphabets import formula_latex, formula_text
from symgrad.render.html import to_html
from symgrad.render.json import schema, to_json
from symgrad.render.letters import Names, names_of
from symgrad.render.picture import matrix_picture, product_picture
from symgrad.render.program_picture import program_picture
from symgrad.render.writers import derived, explanation_html, jacobian_in, to_latex, to_markdown, to_text


def picture(explanation: Explanation, name: str | None = None, *, program: bool = False) -> str:
    """The product by one input, or the program and what flows back through it."""
    return program_picture(explanation) if program else product_picture(explanation, name)


WRITERS = Writers(to_text, to_markdown, to_latex, to_json, picture, to_html, explanation_html, jacobian_in)
"""How explanations are written: what `symgrad.explanation` is handed, because it does not know its renderers."""

__all__ = [
    "WRITERS",
    "Names",
    "derived",
    "formula_latex",
    "formula_text",
    "matrix_picture",
    "names_of",
    "product_picture",
    "program_picture",
    "schema",
    "to_html",
    "to_json",
    "to_latex",
    "to_markdown",
    "to_text",
]
