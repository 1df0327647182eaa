"""Blocks of an explanation as docutils nodes, so that every parser and builder of Sphinx can have them.

Comes in: blocks and pictures. Goes out: nodes. Three are our own: a picture, formulas, and a part that is folded.
Builders that do not write HTML (PDF, manual pages, plain text) get a picture's description in place of the picture,
folded parts open, and, where formulas cannot be set either, the lines of the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from docutils import nodes

from symgrad.documents.article import narrow
from symgrad.render import mathmode
from symgrad.render.html.pieces import inline_picture, mathml
from symgrad.render.mathmode import CHARACTERS
from symgrad.render.page import (
    Block,
    Both,
    Code,
    Equations,
    Grids,
    Listing,
    Math,
    Matrix,
    Paragraph,
    Picture,
    Remarks,
    Words,
)
from symgrad.render.text import blocks_text

Made = list[nodes.Node]
Written = TypeVar("Written", bound=nodes.Element)
NARROW = 72
"""Columns of formulas as text."""
WIDEST = 36
"""Columns of a table's column there."""
COLUMN = 330
"""The room of a formula in a column of text, in points of its LaTeX: what furo and alabaster leave of a screen, where
the browser has no narrower font for mathematics than DejaVu."""


class picture(nodes.General, nodes.Element):  # noqa: N801 -- docutils names a node's visitor by its class
    """An SVG and its description."""


class formulas(nodes.General, nodes.Element):  # noqa: N801 -- as above
    """Formulas, numbers or a matrix, and the same as lines of text."""


class folded(nodes.General, nodes.Element):  # noqa: N801 -- as above
    """A part that the reader opens."""


def nodes_of_blocks(found: Iterable[Block]) -> Made:
    """Blocks and pictures one after the other."""
    return [node for piece in found for node in block_nodes(piece)]


def block_nodes(piece: Block) -> Iterator[nodes.Node]:
    """One block."""
    if isinstance(piece, Picture):
        yield picture("", svg=piece.svg, alt=piece.alt)
    elif isinstance(piece, Paragraph):
        text = word_nodes(piece.words)
        yield nodes.paragraph("", "", *([nodes.strong("", "", *text)] if piece.alarm else text))
    elif isinstance(piece, Listing):
        yield code_block(piece.code)
    elif isinstance(piece, Remarks):
        items = (nodes.list_item("", nodes.paragraph("", item.strip())) for item in piece.items)
        yield nodes.bullet_list("", *items)
    elif isinstance(piece, Both):
        yield from nodes_of_blocks(piece.apart)
    elif isinstance(piece, (Equations, Grids, Matrix)):
        yield formulas("", *set_as_formulas(piece), plain=blocks_text([piece], width=NARROW))
    else:
        yield table_node(
            [[word_nodes(cell) for cell in piece.heading]], [[word_nodes(c) for c in row] for row in piece.rows]
        )


def set_as_formulas(block: Equations | Grids | Matrix) -> Iterator[nodes.Node]:
    """The nodes of what is mathematics throughout."""
    if isinstance(block, Equations):
        for latex, remark in mathmode.formulas_with_remarks(block.rows, COLUMN):
            yield formula_node(latex)
            yield from [nodes.paragraph("", "", *word_nodes(remark))] if remark else []
    elif isinstance(block, Grids):
        for grid in block.grids:
            yield from map(formula_node, mathmode.grid_formulas(grid))
    else:
        yield matrix_node(block)


def code_block(code: str, language: str = "text") -> nodes.literal_block:
    """Code as it stands; a line of text that no screen holds, a message of torch's or a long equation, is broken."""
    code = "\n".join(narrow(code)) if language == "text" else code
    return nodes.literal_block(code, code, language=language)


def formula_node(latex: str) -> nodes.Node:
    """A formula on its own."""
    return nodes.math_block(latex, latex, nowrap=False, number=None, label=None)


def word_nodes(parts: Words) -> Made:
    """Words with code and formulas in them."""
    return [word_node(part) for part in parts]


def word_node(part: str | Code | Math) -> nodes.Node:
    """One piece of words."""
    if isinstance(part, str):
        return nodes.Text(part)
    if isinstance(part, Code):
        return nodes.literal("", part.code)
    return nodes.math(part.latex, part.latex, plain=part.text)


def matrix_node(block: Matrix) -> nodes.Node:
    """A matrix with labelled rows and columns."""
    heading: list[Made] = [[], *([word_node(column)] for column in block.columns)]
    rows: list[list[Made]] = [
        [[word_node(label)], *([nodes.Text("·") if cell is None else word_node(cell)] for cell in row)]
        for label, row in zip(block.rows, block.cells, strict=True)
    ]
    return table_node([heading], rows, "symgrad-matrix", stub=True)


def table_node(
    heading: Sequence[Sequence[Made]], rows: Sequence[Sequence[Made]], kind: str = "", stub: bool = False
) -> nodes.Node:
    """Words in columns."""
    width = len(heading[0])
    group = nodes.tgroup("", cols=width)
    for place in range(width):  # widths are for builders that set every sign as wide as any other
        longest = max(len(cell_text(row[place])) for row in (*heading, *rows))
        group += nodes.colspec(
            "", colwidth=min(max(longest, 1), WIDEST), **({"stub": 1} if stub and place == 0 else {})
        )
    group += nodes.thead("", *map(row_node, heading))
    group += nodes.tbody("", *map(row_node, rows))
    return nodes.table("", group, classes=["symgrad-table", *([kind] if kind else [])])


def row_node(cells: Sequence[Made]) -> nodes.Node:
    """One row of a table."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))


def cell_text(cell: Made) -> str:
    """A cell as text."""
    return "".join(node["plain"] if isinstance(node, nodes.math) else node.astext() for node in cell)


def boxed(found: Made, kind: str = "symgrad") -> nodes.container:
    """Nodes in one box."""
    return as_written(nodes.container("", *found, classes=[kind]))


def as_written(node: Written) -> Written:
    """Quotation marks inside stay what they are: they are Python's."""
    node["support_smartquotes"] = False
    return node


def titled(heading: Words, found: Made) -> nodes.Node:
    """A part that can be folded; the search of a site does not look into it: steps hold the words of every page."""
    summary = nodes.paragraph("", "", *word_nodes(heading), classes=["symgrad-summary"])
    return as_written(folded("", summary, *found, classes=["no-search"]))


def open_picture(self: Any, node: nodes.Element) -> None:
    """The SVG in the page, whose sheet of colours is the page's; what it says is its description."""
    self.symgrad_pictures = number = getattr(self, "symgrad_pictures", 0) + 1
    svg = inline_picture(node["svg"], f"symgrad-{number}")
    self.body.append(f'<div class="symgrad-picture" tabindex="0">{svg}</div>\n')
    raise nodes.SkipNode


def open_folded(self: Any, node: nodes.Element) -> None:
    """A part to be opened; its first paragraph is what can be clicked."""
    self.body.append('<details class="symgrad-folded"><summary>')
    for child in node.children[0].children:
        child.walkabout(self)
    self.body.append("</summary>\n")
    for child in node.children[1:]:
        child.walkabout(self)
    self.body.append("</details>\n")
    raise nodes.SkipNode


def do_nothing(self: Any, node: nodes.Element) -> None:
    """Neither before nor after."""


Visit = tuple[Callable[[Any, Any], None], Callable[[Any, Any], None]]
visitors: dict[type[nodes.Element], Visit] = {
    picture: (open_picture, do_nothing), folded: (open_folded, do_nothing), formulas: (do_nothing, do_nothing)
}  # fmt: skip
"""For HTML; other builders meet formulas alone, which are passed over to what they hold."""


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
