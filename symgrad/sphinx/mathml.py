r"""Formulas as MathML: no script, no fonts from elsewhere, read aloud by screen readers.

Comes in: the LaTeX that explanations are written in. Goes out: MathML Core. What browsers leave out of MathML
(``aligned``, typewriter letters) is written in what they have.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

from symgrad.render.mathmode import MARK, without_code

WORD = re.compile(r"\\(?:mathrm|mathtt)\{((?:[A-Za-z0-9.]|\\_)+)\}")
"""A name in upright letters: one word to browsers, not a product of letters."""
PLAIN = (
    (r"\begin{aligned}", r"\begin{array}{rl}"), (r"\end{aligned}", r"\end{array}"), (r"\cr", r"\\"),
    (r"\thinspace", r"\,"), (r"\thickspace", r"\;"),
)  # fmt: skip


def mathml(latex: str, display: str = "inline") -> str:
    r"""The formula as one ``<math>``; its LaTeX goes with it, to be copied.

    >>> mathml(r"\mathtt{x.grad}_{p}")
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><semantics>...</semantics></math>'
    """
    text = latex.strip()
    for before, after in PLAIN:
        text = text.replace(before, after)
    text, codes = without_code(text)
    made = convert(WORD.sub(plain_word, text), display=display)
    for place, code in enumerate(codes):
        made = made.replace(f"<mtext>{MARK}{place}.</mtext>", f'<mtext class="tt">{escape(code, quote=False)}</mtext>')
    head, body = re.fullmatch(r"(<math[^>]*>)(.*)</math>", made, re.DOTALL).groups()  # type: ignore[union-attr]  # always one
    source = f'<annotation encoding="application/x-tex">{escape(latex.strip(), quote=False)}</annotation>'
    return f"{head}<semantics>{body}{source}</semantics></math>"


def plain_word(word: re.Match[str]) -> str:
    """A name as text."""
    plain = word[1].replace("\\_", "_")
    return f"\\text{{{plain}}}"


def inline_visit(self: Any, node: nodes.Element) -> None:
    """A formula in a sentence."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def block_visit(self: Any, node: nodes.Element) -> None:
    """A formula on its own; a wide one can be moved sideways, by keyboard too."""
    self.body.append(f'<div class="symgrad-formula" tabindex="0">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


inline_formula = (inline_visit, None)
block_formula = (block_visit, None)
