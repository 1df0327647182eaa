"""Pages for a terminal: plain lines no wider than asked for, with colour on request.

Comes in: a `Page`. Goes out: text. rich is imported only when colour is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from symgrad.explanation.evidence import shape_text
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array
from symgrad.render import numbers
from symgrad.render.numbers import count_noun
from symgrad.render.page import (
    Block,
    Both,
    EquationRow,
    Equations,
    Grid,
    Grids,
    Listing,
    Math,
    Matrix,
    Page,
    Paragraph,
    Picture,
    Ready,
    Remarks,
    Table,
    Words,
    align_equal_signs,
    text_of,
)
from symgrad.render.wrapping import (
    Line,
    color_line,
    flow_words,
    in_columns,
    line_text,
    two_columns,
    width_of,
    with_shapes,
    wrap_formula,
    wrap_line,
)

MARGIN = 3
INSET = 5
MOST_ROWS, MOST_COLUMNS = 16, 16
"""Rows and columns of an array that are printed; the middle of a larger one is left out."""
MOST_LINES = 6
"""Lines of a matrix that is too wide to be printed as one."""
REMARK_AT = 48
"""Where remarks beside equations begin, if there is room."""


def page_text(page: Page, *, width: int = 100, color: bool = False) -> str:
    """Any page for a terminal."""
    writer = TextWriter(max(width, 40))
    lines = writer.page(page)
    return "\n".join(color_line(line) if color else line_text(line).rstrip() for line in lines) + "\n"


def blocks_text(blocks: Iterable[Block], *, width: int, indent: int = 0, close: bool = False) -> str:
    """Blocks on lines of ``width`` columns; ``close`` together between the lines that a script prints itself."""
    return "\n".join(line_text(line).rstrip() for line in TextWriter(width, close).blocks(blocks, indent))


class TextWriter:
    """Blocks as lines; ``close`` together without blank lines."""

    def __init__(self, width: int, close: bool = False) -> None:
        self.width, self.close = width, close

    def page(self, page: Page) -> list[Line]:
        """Title, lead and sections."""
        lines = [*self.title(page), *self.blocks(page.lead, 2)]
        for place, section in enumerate(page.sections, start=1):
            number = (f"{place}  ",) if page.numbered else ()
            lines += [[], *flow_words((*number, *section.heading), self.width, 0, MARGIN, style="heading")]
            lines += self.blocks(section.blocks, MARGIN)
        return lines

    def title(self, page: Page) -> list[Line]:
        """The expression, and the sizes beside it or below."""
        facts = "   ".join(f"{name} {size}" for name, size in page.facts)
        left = flow_words(page.title, self.width, 2, 4, style="heading")
        gap = self.width - width_of(left[-1]) - len(facts)
        if len(left) == 1 and gap >= 3:
            return [[*left[0], (" " * min(gap, max(3, 45 - width_of(left[0]))), ""), (facts, "")]]
        return [*left, *flow_words((facts,), self.width, 2, 2)]

    def blocks(self, blocks: Iterable[Block], indent: int) -> list[Line]:
        """Blocks with blank lines where the eye needs them."""
        lines: list[Line] = []
        before: Block | None = None
        for block in blocks:
            written = self.block(block, indent)
            if not written:
                continue
            if before is not None and not self.close and not self._close(before, block):
                lines.append([])
            lines += written
            before = block
        return lines

    @staticmethod
    def _close(before: Block, block: Block) -> bool:
        """Whether two blocks stand together without a blank line."""
        if isinstance(block, Paragraph) and block.aside:
            return True
        if isinstance(before, Paragraph):
            last = before.words[-1] if before.words else ""
            return isinstance(last, str) and last.endswith((":", "with")) and not isinstance(block, Paragraph)
        return isinstance(before, Equations) and isinstance(block, (Equations, Paragraph))

    def block(self, block: Block, indent: int) -> list[Line]:
        """One block."""
        inner = indent + INSET - MARGIN
        if isinstance(block, Paragraph):
            style = "alarm" if block.alarm else "aside" if block.aside else ""
            at = inner if block.aside else indent
            return flow_words(block.words, self.width, at, at, style=style)
        if isinstance(block, Listing):
            return self.listing(block, indent if self.close else inner)
        if isinstance(block, Remarks):
            return self.lines(block.items, indent, "alarm" if block.alarm else "")
        if isinstance(block, Both):
            return self.both(block, indent)
        if isinstance(block, Picture):
            return flow_words((block.alt,), self.width, indent, indent)
        if isinstance(block, Equations):
            return self.equations(block, inner)
        if isinstance(block, Grids):
            return [line for grid in block.grids for line in self.grid(grid, inner)]
        if isinstance(block, Matrix):
            return self.matrix(block, inner) if block.rows and block.columns else []
        return self.rows_in_two(block, inner) if block.first else self.table(block, inner)

    # Code and remarks -----------------------------------------------------------------------------------

    def lines(self, texts: Iterable[str], indent: int, style: str = "") -> list[Line]:
        """Texts below one another; what goes on in the next line is set in."""
        return [[(part, style)] for text in texts for part in wrap_line(" " * indent + text, self.width)]

    def listing(self, block: Listing, indent: int) -> list[Line]:
        """Code, and the shapes of what it reads beside it or below."""
        lines = block.code.splitlines()
        if block.beside:
            one = f"{block.code.ljust(block.column - 1)}   {block.beside}"
            below = [*lines, f"  {block.beside}"] if block.column else [f"  {block.beside}", *lines]
            lines = [one] if len(lines) == 1 and indent + len(one) <= self.width else below
        if self.close:
            return self.lines(lines, indent)
        return [part for line in lines for part in flow_words((line,), self.width, indent, indent + 2, style="code")]

    def both(self, block: Both, indent: int) -> list[Line]:
        """Two columns where both fit, else one below the other."""
        ahead = with_shapes(block.forward, self.width - indent)
        back, head = align_equal_signs([line.code for line in block.backward]), f"backward: {block.meaning}"
        columns = two_columns(["forward", *ahead], [head, *back], self.width - indent) if len(ahead) > 1 else None
        between = self.blocks(block.between, indent)
        if columns is not None:
            return [*self.lines(columns, indent), *between]
        return [*self.lines(ahead, indent), *between, *self.lines([head, *(f"  {line}" for line in back)], indent)]

    def rows_in_two(self, block: Table, indent: int) -> list[Line]:
        """A table whose rows have two lines each where it is too wide."""
        for rows in (block.rows, block.brief or block.rows):
            cells = [[*map(text_of, row)] for row in (block.heading, *rows)]
            lines = in_columns(cells, self.width - indent, block.first)
            if len(lines) == len(cells):
                break
        return self.lines(lines, indent)

    # Equations ------------------------------------------------------------------------------------------

    def equations(self, block: Equations, indent: int) -> list[Line]:
        """Equations below one another, remarks in a column of their own."""
        written = [self.equation(row, indent) for row in block.rows]
        pairs = list(zip(written, block.rows, strict=True))
        single = [width_of(lines[0]) for lines, row in pairs if row.remark and len(lines) == 1]
        column = max([REMARK_AT, *(n + 3 for n in single)])
        result: list[Line] = []
        for lines, row in pairs:
            remark = flow_words(row.remark, 10_000, 0, 0)[0] if row.remark else []
            here = width_of(lines[-1])
            room = min(column, self.width - width_of(remark))
            if remark and here + 2 <= room and len(lines) == 1:
                lines = [[*lines[0], (" " * (room - here), ""), *remark]]
            elif remark:
                lines = [*lines, *flow_words(row.remark, self.width, indent + 2, indent + 4)]
            result += lines
        return result

    def equation(self, row: EquationRow, indent: int) -> list[Line]:
        """One equation on one line, or one part a line, or parts broken at + and −."""
        texts = [part.text for part in row.parts]
        whole = row.text
        if indent + len(whole) <= self.width:
            return [[(" " * indent + whole, "")]]
        head, *rest = texts
        column = indent + len(head) + 1 if len(head) <= self.width // 2 else indent + 2
        lines: list[Line] = []
        for place, part in enumerate(rest):
            broken = wrap_formula(part, self.width - column - 2)
            first = f"{' ' * indent}{head} " if place == 0 and column == indent + len(head) + 1 else " " * column
            if place == 0 and not first.strip():
                lines += [[(f"{' ' * indent}{line}", "")] for line in wrap_formula(head, self.width - indent)]
            lines.append([(f"{first}= {broken[0]}".replace("= ≈", "≈ "), "")])
            lines += [[(f"{' ' * (column + 2)}{more}", "")] for more in broken[1:]]
        return lines or [[(" " * indent + line, "")] for line in wrap_formula(head, self.width - indent)]

    # Numbers --------------------------------------------------------------------------------------------

    def grid(self, grid: Grid, indent: int) -> list[Line]:
        """An array after its name: rows below one another, further axes one after the other."""
        values = np.asarray(grid.values)
        alike = numbers.constant_array_text(values)
        if alike:
            return flow_words((f"{grid.name.text} = ", alike), self.width, indent, indent)
        lines: list[Line] = []
        places = list(np.ndindex(*values.shape[:-2]))
        for at in places[:MOST_ROWS]:
            label = f"{format_entry_name(grid.name.text, at)} = "
            rows = self.rows(values[at] if at else values, self.width - indent - len(label))
            margins = [" " * indent + label, *[" " * (indent + len(label))] * (len(rows) - 1)]
            lines += [[(margin + row, "")] for margin, row in zip(margins, rows, strict=True)]
        if len(places) > MOST_ROWS:
            lines.append([(f"{' ' * indent}… and {len(places) - MOST_ROWS} more matrices", "")])
        return lines

    def rows(self, values: Array, room: int) -> list[str]:
        """Numbers in columns, the middle left out where there are too many."""
        if values.size == 0:
            return [f"(no entries: {shape_text(values.shape)})"]
        if values.ndim == 0:
            return [numbers.text(values[()])]
        table = np.atleast_2d(values)
        down = numbers.elided_places(table.shape[0], MOST_ROWS)
        for most in (*range(min(MOST_COLUMNS, table.shape[1]), 3, -1), 3):
            across = numbers.elided_places(table.shape[1], most)
            cells = [["…" if r is None or c is None else numbers.text(table[r, c]) for c in across] for r in down]
            widths = [max(len(row[c]) for row in cells) for c in range(len(across))]
            if sum(widths) + len(widths) - 1 <= room:
                break
        return [" ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in cells]

    # Matrices and tables --------------------------------------------------------------------------------

    def matrix(self, block: Matrix, indent: int) -> list[Line]:
        """A labelled matrix with lines between its blocks; row by row in words where it would be too wide."""
        cells = [["·" if cell is None else cell.text for cell in row] for row in block.cells]
        heads = [label.text for label in block.columns]
        widths = [max(len(row[c]) for row in [heads, *cells]) for c in range(len(heads))]
        left = max(len(label.text) for label in block.rows)
        bars = {c for c in range(1, len(heads)) if block.column_block and c % block.column_block == 0}
        if indent + left + 1 + sum(w + 2 for w in widths) + 2 * len(bars) > self.width:
            return self.matrix_in_rows(block, indent)
        margin = " " * indent
        lines = [self.matrix_row(margin + " " * (left + 1), heads, widths, bars, "heading")]
        for place, (label, row) in enumerate(zip(block.rows, cells, strict=True)):
            if block.row_block and place and place % block.row_block == 0:
                rule = "".join(("─┼" if c in bars else "") + "─" * (w + 2) for c, w in enumerate(widths))
                lines.append([(" " * (indent + left + 1) + rule, "aside")])
            lines.append(self.matrix_row(margin + label.text.ljust(left + 1), row, widths, bars, ""))
        return lines

    @staticmethod
    def matrix_row(label: str, cells: list[str], widths: list[int], bars: set[int], style: str) -> Line:
        """One row of a matrix, ``label`` in its full width."""
        line: Line = [(label, "heading")]
        for column, (cell, size) in enumerate(zip(cells, widths, strict=True)):
            if column in bars:
                line.append((" │", "aside"))
            line.append((f"  {cell.center(size)}", "aside" if cell == "·" else style))
        return line

    def matrix_in_rows(self, block: Matrix, indent: int) -> list[Line]:
        """A wide matrix: for each row what it holds and where."""
        lines: list[Line] = []
        for place, (label, row) in enumerate(zip(block.rows, block.cells, strict=True)):
            words: list[str | Math] = []
            for column, cell in zip(block.columns, row, strict=True):
                if cell is not None:
                    words += [";  " if words else "", Ready(f"{column.text}: {cell.text}", "")]
            lines += flow_words((label, "   ", *(words or ["all 0"])), self.width, indent, indent + 4)
            if len(lines) > MOST_LINES and place + 1 < len(block.rows):
                more = count_noun(len(block.rows) - place - 1, "more row")
                lines.append([(f"{' ' * indent}… and {more} like these", "")])
                break
        return lines

    def table(self, block: Table, indent: int) -> list[Line]:
        """Words in columns; the first one gives way, then the last ones go below."""
        rows = (block.heading, *block.rows)
        widths = [max(len(text_of(row[c])) for row in rows) for c in range(len(block.heading))]
        first = max(min(widths[0], LEAST, self.width // 2), self.width - indent - sum(w + 3 for w in widths[1:]))
        first, start = min(first, widths[0]), 1
        result: list[Line] = []
        while start < len(widths) or not result:
            end, used = start, indent + first
            while end < len(widths) and (end == start or used + widths[end] + 3 <= self.width):
                used += widths[end] + 3
                end += 1
            result += [[]] if result else []
            for place, row in enumerate(rows):
                cells = [*map(text_of, row[start:end])]
                result += self.table_row(row[0], cells, widths[start:end], first, indent, place == 0)
            start = end
        return result

    @staticmethod
    def table_row(
        label: Words, cells: list[str], widths: list[int], first: int, indent: int, heading: bool
    ) -> list[Line]:
        """One row, its label over several lines where it is long."""
        lines: list[Line] = []
        for part in flow_words(label, first, 0, 2):
            line: Line = [(" " * indent, ""), *part, (" " * (first - width_of(part)), "")]
            if not lines:
                for cell, size in zip(cells, widths, strict=True):
                    style = "heading" if heading else VERDICTS.get(cell, "")
                    line.append((f"   {cell.ljust(size)}", style))
            lines.append(line)
        return lines


LEAST = 26
"""Columns that the first column of a table keeps, on a narrow terminal half of it."""
VERDICTS = {"DIFFERS": "alarm", "equal": "good"}
