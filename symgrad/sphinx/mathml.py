"""Formulas of Sphinx's pages as MathML: no script, no fonts from elsewhere, read aloud by screen readers.

Comes in: nodes of docutils with LaTeX in them. Goes out: what `symgrad.render.html.mathml` makes of it.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes

from symgrad.render.html.mathml import mathml


def inline_visit(self: Any, node: nodes.Element) -> None:
    """A formula in a sentence."""
    self.body.append(mathml(node.astext(), annotated=True))
    raise nodes.SkipNode


def block_visit(self: Any, node: nodes.Element) -> None:
    """A formula on its own; a wide one can be moved sideways, by keyboard too."""
    made = mathml(node.astext(), "block", annotated=True)
    self.body.append(f'<div class="symgrad-formula" tabindex="0">{made}</div>\n')
    raise nodes.SkipNode


inline_formula = (inline_visit, None)
block_formula = (block_visit, None)
