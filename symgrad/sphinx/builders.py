"""Our nodes for builders that do not write HTML: PDF, manual pages, plain text.

Comes in: a page as it was read. Goes out: the same with a picture's description in place of the picture, folded parts
open, and, where formulas cannot be set either, the lines of the terminal.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes

from symgrad.render.html.mathml import mathml
from symgrad.render.mathmode import CHARACTERS
from symgrad.sphinx.nodes import folded, formulas, picture


def for_the_builder(app: Any, doctree: nodes.document, docname: str) -> None:
    """Every node of ours as the builder's own, where it does not write HTML."""
    style = app.builder.format
    if style == "html":
        return
    for drawn in list(doctree.findall(picture)):
        drawn.replace_self(nodes.paragraph("", drawn["alt"]))
    for part in reversed(list(doctree.findall(folded))):  # inner ones first
        part.replace_self(part.children)
    if style == "latex":
        return
    for block in list(doctree.findall(formulas)):
        block.replace_self(nodes.literal_block(block["plain"], block["plain"], language="text"))
    for inline in list(doctree.findall(nodes.math)):
        if "plain" in inline:
            inline.replace_self(nodes.Text(inline["plain"]))


def name_signs(app: Any, config: Any) -> None:
    """pdflatex, Sphinx's own choice, is told how the signs are set that stand in our words and code."""
    if config.latex_engine != "pdflatex":
        return
    signs = {sign: latex for sign, latex in CHARACTERS.items() if not sign.isascii()} | {"┼": "+"}  # │ and ─ it has
    named = "".join(f"\\DeclareUnicodeCharacter{{{ord(sign):04X}}}{{{latex}}}\n" for sign, latex in signs.items())
    before = config.latex_elements.get("preamble", "")
    config.latex_elements = {**config.latex_elements, "preamble": f"{named}{before}"}


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
