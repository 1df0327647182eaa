r"""Pages as GitHub's Markdown: words, tables, and formulas between dollars.

Comes in: a `Page`. Goes out: Markdown. A backslash before punctuation would be eaten by
Markdown before the formula is set, so that ``\\`` and ``\,`` are written ``\cr`` and ``\thinspace``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from symgrad.render import mathmode
from symgrad.render.page import (
    Block,
    Both,
    Code,
    Equations,
    Grids,
    Listing,
    Math,
    Matrix,
    Page,
    Paragraph,
    Picture,
    Remarks,
    Section,
    Table,
    Words,
)
from symgrad.render.wrapping import truncate_end

LONGEST_ALT = 240
"""Characters of what is said of a picture: two lines of a screen."""


def page_markdown(page: Page, level: int = 2, title: bool = True) -> str:
    """Any page as Markdown, its sections under headings of ``level``."""
    facts = ", ".join(f"{name} {size}" for name, size in page.facts)
    parts = [f"{'#' * (level - 1)} {write_words(page.title)}\n"] if title else []
    parts += [
        f"{part}\n" for part in ([escape_markdown(f"Sizes: {facts}.")] if facts else []) + write_blocks(page.lead)
    ]
    for place, section in enumerate(page.sections, start=1):
        parts.append(section_markdown(section, level, f"{place}. " if page.numbered else ""))
    return "\n".join(parts)


def section_markdown(section: Section, level: int = 2, number: str = "") -> str:
    """One section of a page under its heading; a folded one as ``<details>``, which GitHub folds too."""
    heading, inside = write_words(section.heading), write_blocks(section.blocks)
    parts = [f"{'#' * level} {number}{heading}", *inside]
    if section.folded:
        parts = ["<details>", f"<summary>{heading.replace('`', '')}</summary>", *inside, "</details>"]
    return "\n\n".join(parts) + "\n"


def write_blocks(found: Iterable[Block]) -> list[str]:
    """Blocks as paragraphs of Markdown."""
    return [part for block in found for part in write_block(block)]


def write_block(block: Block) -> list[str]:
    """One block."""
    if isinstance(block, Paragraph):
        text = write_words(block.words)
        return [f"**{text}**" if block.alarm else text]
    if isinstance(block, Listing):
        return [f"```text\n{block.code}\n```", *([escape_markdown(block.beside)] if block.beside else [])]
    if isinstance(block, Remarks):
        return ["\n".join(item_of(item, "**" if block.alarm else "") for item in block.items)]
    if isinstance(block, Both):
        return write_blocks(block.apart)
    if isinstance(block, Picture):
        alt = block.alt.replace("[", "(").replace("]", ")")  # the file has it whole
        return [f"![{truncate_end(alt, LONGEST_ALT)}]({block.name}.svg)"]
    if isinstance(block, Equations):
        told = mathmode.formulas_with_remarks(block.rows)
        return [part for formula, remark in told for part in (display(formula), write_words(remark)) if part]
    if isinstance(block, Grids):
        return [display(formula) for grid in block.grids for formula in mathmode.grid_formulas(grid)]
    if isinstance(block, Matrix):
        return [matrix(block)]
    return [table(block)]


def item_of(text: str, mark: str) -> str:
    """One item of a list, or of a list inside it."""
    return f"{'  ' if text.startswith(' ') else ''}- {mark}{escape_markdown(text.strip())}{mark}"


def matrix(block: Matrix) -> str:
    """A table with labelled rows and columns."""
    heading = ["", *(inline(column.latex) for column in block.columns)]
    rows = [
        [inline(label.latex), *(inline(mathmode.cell_latex(cell)) for cell in row)]
        for label, row in zip(block.rows, block.cells, strict=True)
    ]
    return pipe_table(heading, rows, ":-:")


def table(block: Table) -> str:
    """Words in columns."""
    rows = [[write_words(cell) for cell in row] for row in block.brief or block.rows]
    return pipe_table([write_words(cell) for cell in block.heading], rows, ":--")


def pipe_table(heading: list[str], rows: list[list[str]], align: str) -> str:
    """A Markdown table."""
    lines = [heading, [align] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def write_words(parts: Words) -> str:
    """Words with code and formulas in them."""
    return "".join(write_word(part) for part in parts)


def write_word(part: str | Code | Math) -> str:
    """One piece of words."""
    if isinstance(part, str):
        return escape_markdown(part)
    return code(part.code) if isinstance(part, Code) else inline(part.latex)


def escape_markdown(text: str) -> str:
    """Plain text in which Markdown sees no marks."""
    return re.sub(r"([\\*_`<\[\]])", r"\\\1", text)


def code(text: str) -> str:
    """Code, with as many ticks as it needs."""
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{ticks}{text}{ticks}" if "`" not in text else f"{ticks} {text} {ticks}"


def inline(latex: str) -> str:
    """A formula within a line."""
    return f"${protect_latex(latex)}$"


def display(latex: str) -> str:
    """A formula on its own."""
    return f"$$\n{protect_latex(latex)}\n$$"


def protect_latex(latex: str) -> str:
    """A formula that survives Markdown."""
    return latex.replace(r"\\", r"\cr").replace(r"\,", r"\thinspace").replace(r"\;", r"\thickspace")
