r"""Pages as GitHub's Markdown and as the body of a LaTeX document: one walk over blocks and words, two ways to write.

Comes in: a `Page`. Goes out: Markdown with formulas between dollars, in which ``\\`` and ``\,`` are written ``\cr`` and
``\thinspace``, because Markdown would eat the backslash; or what stands between ``\begin{document}`` and
``\end{document}``: plain ASCII, so that every engine sets it, which needs amsmath and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from symgrad.render import mathmode
from symgrad.render.mathmode import atoms, cell_latex, escaped, points, typewriter
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
    Section,
    Table,
    Words,
    text_of,
)
from symgrad.render.wrapping import truncate_end


@dataclass(frozen=True)
class Markup:
    """How each kind of piece is written; what a page is made of is walked through in one way."""

    plain: Callable[[str], str]
    code: Callable[[str], str]
    inline: Callable[[Math], str]
    display: Callable[[str], str]
    strong: str
    listing: Callable[[str], str]
    remarks: Callable[[Remarks], str]
    picture: Callable[[Picture], str]
    equations: Callable[[Sequence[EquationRow]], Iterator[tuple[str, Words]]]
    matrix: Callable[[Matrix], str]
    table: Callable[[Table], str]

    def blocks(self, found: Iterable[Block]) -> list[str]:
        """Blocks as paragraphs."""
        return [part for block in found for part in self.block(block)]

    def block(self, block: Block) -> list[str]:
        """One block."""
        if isinstance(block, Paragraph):
            text = self.words(block.words)
            return [self.strong.format(text) if block.alarm else text]
        if isinstance(block, Listing):
            return [self.listing(block.code), *([self.plain(block.beside)] if block.beside else [])]
        if isinstance(block, Both):
            return self.blocks(block.apart)
        if isinstance(block, Equations):
            told = self.equations(block.rows)
            return [part for formula, remark in told for part in (self.display(formula), self.words(remark)) if part]
        if isinstance(block, Grids):
            return [self.display(formula) for grid in block.grids for formula in mathmode.grid_formulas(grid)]
        if isinstance(block, Remarks):
            return [self.remarks(block)]
        if isinstance(block, Picture):
            return [self.picture(block)]
        return [self.matrix(block) if isinstance(block, Matrix) else self.table(block)]

    def words(self, parts: Words) -> str:
        """Words with code and formulas in them."""
        return "".join(map(self.word, parts))

    def word(self, part: str | Code | Math) -> str:
        """One piece of words."""
        if isinstance(part, str):
            return self.plain(part)
        return self.code(part.code) if isinstance(part, Code) else self.inline(part)

    def sizes(self, page: Page) -> list[str]:
        """The tensors with their sizes, where a page has some."""
        facts = ", ".join(f"{name} {size}" for name, size in page.facts)
        return [self.plain(f"Sizes: {facts}.")] if facts else []


# Markdown -------------------------------------------------------------------------------------------

LONGEST_ALT = 240
"""Characters of what is said of a picture: two lines of a screen."""


def page_markdown(page: Page) -> str:
    """Any page as Markdown."""
    lead = (f"# {MARKDOWN.words(page.title)}", *MARKDOWN.sizes(page), *MARKDOWN.blocks(page.lead))
    parts = [f"{part}\n" for part in lead]
    for place, section in enumerate(page.sections, start=1):
        parts.append(section_markdown(section, f"{place}. " if page.numbered else ""))
    return "\n".join(parts)


def section_markdown(section: Section, number: str = "") -> str:
    """One section of a page under its heading; a folded one as ``<details>``, which GitHub folds too."""
    heading, inside = MARKDOWN.words(section.heading), MARKDOWN.blocks(section.blocks)
    parts = [f"## {number}{heading}", *inside]
    if section.folded:
        parts = ["<details>", f"<summary>{heading.replace('`', '')}</summary>", *inside, "</details>"]
    return "\n\n".join(parts) + "\n"


def markdown_remarks(block: Remarks) -> str:
    """A list; what belongs to an item in a list inside it."""
    mark = "**" if block.alarm else ""
    items = (("  " if item.startswith(" ") else "", escape_markdown(item.strip())) for item in block.items)
    return "\n".join(f"{margin}- {mark}{item}{mark}" for margin, item in items)


def markdown_picture(block: Picture) -> str:
    """A picture in a file beside the page, which has the whole description."""
    alt = block.alt.replace("[", "(").replace("]", ")")
    return f"![{truncate_end(alt, LONGEST_ALT)}]({block.name}.svg)"


def markdown_matrix(block: Matrix) -> str:
    """A table with labelled rows and columns."""
    rows = [
        [MARKDOWN.inline(label), *(f"${protect_latex(cell_latex(cell))}$" for cell in row)]
        for label, row in zip(block.rows, block.cells, strict=True)
    ]
    return pipe_table(["", *map(MARKDOWN.inline, block.columns)], rows, ":-:")


def markdown_table(block: Table) -> str:
    """Words in columns."""
    heading, *rows = ([*map(MARKDOWN.words, row)] for row in (block.heading, *(block.brief or block.rows)))
    return pipe_table(heading, rows, ":--")


def pipe_table(heading: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    """A Markdown table."""
    lines = [heading, [align] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def escape_markdown(text: str) -> str:
    """Plain text in which Markdown sees no marks."""
    return re.sub(r"([\\*_`<\[\]])", r"\\\1", text)


def markdown_code(text: str) -> str:
    """Code, with as many ticks as it needs."""
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{ticks}{text}{ticks}" if "`" not in text else f"{ticks} {text} {ticks}"


def protect_latex(latex: str) -> str:
    """A formula that survives Markdown."""
    return latex.replace(r"\\", r"\cr").replace(r"\,", r"\thinspace").replace(r"\;", r"\thickspace")


MARKDOWN = Markup(
    plain=escape_markdown, code=markdown_code, inline=lambda part: f"${protect_latex(part.latex)}$",
    display=lambda latex: f"$$\n{protect_latex(latex)}\n$$", strong="**{}**", listing="```text\n{}\n```".format,
    remarks=markdown_remarks, picture=markdown_picture, equations=mathmode.formulas_with_remarks,
    matrix=markdown_matrix, table=markdown_table,
)  # fmt: skip

# LaTeX ----------------------------------------------------------------------------------------------

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
    parts = ["% needs \\usepackage{amsmath}\n\\begingroup\\sloppy", f"\\section*{{{LATEX_PAGE.words(page.title)}}}"]
    parts += [*LATEX_PAGE.sizes(page), *LATEX_PAGE.blocks(page.lead)]
    for place, section in enumerate(page.sections, start=1):
        number = f"{place}. " if page.numbered else ""
        parts += [f"\\subsection*{{{number}{LATEX_PAGE.words(section.heading)}}}", *LATEX_PAGE.blocks(section.blocks)]
    return "\n\n".join([*parts, "\\endgroup"]) + "\n"


def latex_listing(code: str) -> str:
    """Lines of code in a quotation, which keeps their margins."""
    lines = " \\\\\n".join(latex_code(line).replace("  ", "~~") for line in code.splitlines())
    return f"\\begin{{quote}}\n{lines}\n\\end{{quote}}"


def latex_remarks(block: Remarks) -> str:
    """A list."""
    items = (escaped(item.strip()) for item in block.items)
    told = "\n".join(f"\\item \\textbf{{{item}}}" if block.alarm else f"\\item {item}" for item in items)
    return f"\\begin{{itemize}}\n{told}\n\\end{{itemize}}"


def latex_code(text: str) -> str:
    """Code; what is long may go on in the next line after a bracket too."""
    return typewriter(text) if len(text) <= LONG else typewriter(text).replace("(", "(\\allowbreak{}")


def latex_equations(rows: Sequence[EquationRow]) -> Iterator[tuple[str, Words]]:
    """Equations under one another, short remarks beside them and long ones below."""
    return mathmode.formulas_with_remarks(
        rows, PAGE, WIDE, lambda remark: f" \\qquad \\text{{{LATEX_PAGE.words(remark)}}}"
    )


def latex_matrix(block: Matrix) -> str:
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
        cells = [label.latex, *map(cell_latex, row)]
        lines.append(" & ".join(cells) + (r" \\ \hline" if rule else r" \\"))
    body = "\n".join(lines)
    whole = LATEX_PAGE.display(f"\\begin{{array}}{{r|{columns}}}\n{body}\n\\end{{array}}")
    return f"{{\\scriptsize\\arraycolsep=2pt\n{whole}}}" if size > PAGE else whole


def matrix_width(block: Matrix) -> float:
    """About how wide a matrix is."""
    columns = zip(*([points(cell_latex(cell)) for cell in row] for row in block.cells), strict=True)
    widths = [max(points(label.latex), *cells) for label, cells in zip(block.columns, columns, strict=True)]
    labels = max((points(label.latex) for label in block.rows), default=0)
    return float(sum(width + GAP for width in (labels, *widths)))


def latex_table(block: Table) -> str:
    """Words in columns."""
    told = (block.heading, *(block.brief or block.rows))
    heading, *rows = (" & ".join(map(LATEX_PAGE.words, row)) + r" \\" for row in told)
    begin = f"\\begin{{tabular}}{{{'l' * len(block.heading)}}}"
    body = "\n".join([begin, f"{heading} \\hline", *rows, "\\end{tabular}"])
    widths = [max(map(words_width, column)) for column in zip(*told, strict=True)]
    wide = sum(widths) + len(widths) * GAP > PAGE
    return f"{{\\scriptsize\\tabcolsep=3pt\n{body}}}" if wide else body


def words_width(parts: Words) -> float:
    """About how wide words are, in points."""
    return sum(
        LETTER * len(text_of((part,))) if isinstance(part, (str, Code)) else points(part.latex) for part in parts
    )


def latex_inline(part: Math) -> str:
    """A formula within a line; a wide one may go on in the next."""
    wide = points(part.latex) > PAGE / 2
    return f"${''.join(atoms(part.latex, PAGE / 4)) if wide else part.latex}$"


LATEX_PAGE = Markup(
    plain=escaped, code=latex_code, inline=latex_inline, display="\\[\n{}\n\\]".format, strong="\\textbf{{{}}}",
    listing=latex_listing, remarks=latex_remarks, picture=lambda block: escaped(block.alt), equations=latex_equations,
    matrix=latex_matrix, table=latex_table,
)  # fmt: skip
