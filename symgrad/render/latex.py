r"""Pages as the body of a LaTeX document.

Comes in: a `Page`. Goes out: what stands between ``\begin{document}`` and ``\end{document}``;
it needs amsmath and nothing else. Plain ASCII, so that every engine sets it.
"""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.render import mathmode
from symgrad.render.mathmode import atoms, escaped, points, typewriter
from symgrad.render.page import (
    Block,
    Both,
    Code,
    EquationRow,
    Equations,
    Grids,
    Listing,
    Math,
    Matrix,
    Page,
    Paragraph,
    Picture,
    Remarks,
    Table,
    Words,
    text_of,
)

WIDE = 56
"""Characters (of the Unicode text) beyond which every part of an equation gets a line: what an article's page holds."""
LONG = 32
"""Characters of code that a heading holds."""
PAGE, LETTER, GAP = 345, 5.2, 10
"""The width of an article's page, of a letter and between two columns, in points."""
SMALL = 0.7
"""How much narrower a matrix is in the small type; what is still too wide is told instead."""


def page_latex(page: Page) -> str:
    """Any page as a LaTeX fragment."""
    facts = ", ".join(f"{name} {size}" for name, size in page.facts)
    parts = [
        "% needs \\usepackage{amsmath}\n\\begingroup\\sloppy",
        f"\\section*{{{write_words(page.title)}}}",
        *([f"Sizes: {escaped(facts)}."] if facts else []),
        *write_blocks(page.lead),
    ]
    for place, section in enumerate(page.sections, start=1):
        number = f"{place}. " if page.numbered else ""
        parts += [f"\\subsection*{{{number}{write_words(section.heading)}}}", *write_blocks(section.blocks)]
    return "\n\n".join([*parts, "\\endgroup"]) + "\n"


def write_blocks(found: Iterable[Block]) -> list[str]:
    """Blocks as paragraphs."""
    return [part for block in found for part in write_block(block)]


def write_block(block: Block) -> list[str]:
    """One block."""
    if isinstance(block, Paragraph):
        text = write_words(block.words)
        return [f"\\textbf{{{text}}}" if block.alarm else text]
    if isinstance(block, Listing):
        lines = " \\\\\n".join(code(line).replace("  ", "~~") for line in block.code.splitlines())
        return [f"\\begin{{quote}}\n{lines}\n\\end{{quote}}", *([escaped(block.beside)] if block.beside else [])]
    if isinstance(block, Remarks):
        items = (escaped(item.strip()) for item in block.items)
        told = "\n".join(f"\\item \\textbf{{{item}}}" if block.alarm else f"\\item {item}" for item in items)
        return [f"\\begin{{itemize}}\n{told}\n\\end{{itemize}}"]
    if isinstance(block, Both):
        return write_blocks(block.apart)
    if isinstance(block, Picture):
        return [escaped(block.alt)]
    if isinstance(block, Equations):
        return [equations(block.rows)]
    if isinstance(block, Grids):
        return [f"\\[\n{formula}\n\\]" for grid in block.grids for formula in mathmode.grid_formulas(grid)]
    if isinstance(block, Matrix):
        return [matrix(block)]
    return [table(block)]


def code(text: str) -> str:
    """Code; what is long may go on in the next line after a bracket too."""
    return typewriter(text) if len(text) <= LONG else typewriter(text).replace("(", "(\\allowbreak{}")


def equations(rows: Iterable[EquationRow]) -> str:
    """Equations under one another, short remarks beside them and long ones below."""
    parts: list[str] = []
    lines: list[str] = []
    for row in rows:
        lines += mathmode.equation_lines(row, WIDE, PAGE)
        length = sum(len(part.text) + 3 for part in row.parts) + len(text_of(row.remark))
        if row.remark and length <= WIDE:
            lines[-1] += f" \\qquad \\text{{{write_words(row.remark)}}}"
        elif row.remark:
            parts += [display(lines), write_words(row.remark)]
            lines = []
    return "\n\n".join([*parts, display(lines)] if lines else parts)


def display(lines: list[str]) -> str:
    """Lines of equations on their own."""
    return f"\\[\n{mathmode.aligned_environment(lines)}\n\\]"


def matrix(block: Matrix) -> str:
    """A matrix with labelled rows and columns, and lines between its blocks."""
    size = matrix_width(block)
    if size * SMALL > PAGE:
        rows, across = len(block.rows), len(block.columns)
        return f"(The matrix, {rows} rows of {across} columns, is too wide for this page.)"
    width = len(block.columns)
    step = block.column_block or width
    columns = "|".join("c" * min(step, width - start) for start in range(0, width, step))
    lines = [" & ".join(["", *(label.latex for label in block.columns)]) + r" \\ \hline"]
    for place, (label, row) in enumerate(zip(block.rows, block.cells, strict=True), start=1):
        rule = block.row_block and place % block.row_block == 0 and place < len(block.rows)
        cells = [label.latex, *(mathmode.cell_latex(cell) for cell in row)]
        lines.append(" & ".join(cells) + (r" \\ \hline" if rule else r" \\"))
    body = "\n".join(lines)
    whole = f"\\[\n\\begin{{array}}{{r|{columns}}}\n{body}\n\\end{{array}}\n\\]"
    return f"{{\\scriptsize\\arraycolsep=2pt\n{whole}}}" if size > PAGE else whole


def matrix_width(block: Matrix) -> float:
    """About how wide a matrix is."""
    columns = zip(*([points(mathmode.cell_latex(cell)) for cell in row] for row in block.cells), strict=True)
    widths = [max(points(label.latex), *cells) for label, cells in zip(block.columns, columns, strict=True)]
    labels = max((points(label.latex) for label in block.rows), default=0)
    return float(sum(width + GAP for width in (labels, *widths)))


def table(block: Table) -> str:
    """Words in columns."""
    told = block.brief or block.rows
    rows = [" & ".join(write_words(cell) for cell in row) + r" \\" for row in told]
    heading = " & ".join(write_words(cell) for cell in block.heading) + r" \\ \hline"
    body = "\n".join([f"\\begin{{tabular}}{{{'l' * len(block.heading)}}}", heading, *rows, "\\end{tabular}"])
    widths = [max(map(words_width, column)) for column in zip(block.heading, *told, strict=True)]
    wide = sum(widths) + len(widths) * GAP > PAGE
    return f"{{\\scriptsize\\tabcolsep=3pt\n{body}}}" if wide else body


def words_width(parts: Words) -> float:
    """About how wide words are, in points."""
    return sum(
        LETTER * len(text_of((part,))) if isinstance(part, (str, Code)) else points(part.latex) for part in parts
    )


def write_words(parts: Words) -> str:
    """Words with code and formulas in them."""
    return "".join(write_word(part) for part in parts)


def write_word(part: str | Code | Math) -> str:
    """One piece of words."""
    if isinstance(part, str):
        return escaped(part)
    if isinstance(part, Code):
        return code(part.code)
    wide = points(part.latex) > PAGE / 2
    return f"${''.join(atoms(part.latex, PAGE / 4)) if wide else part.latex}$"
