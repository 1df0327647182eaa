"""The one picture: v weighs the rows of J, and the weighted rows add up to x.grad.

Comes in: an explanation and the input to show. Goes out: SVG. A small J stands entry by entry; colours tell which entry
of another tensor stands there, or the sign, and a line says which of both. One column is lit, with its sum below. A
large J is drawn as where its entries are. `matrix_picture` is J alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import UnknownNameError
from symgrad.explanation import Explanation, Jacobian
from symgrad.explanation.evidence import Rounding
from symgrad.indexing import Bracket
from symgrad.indexing.symbols import is_access, name_of
from symgrad.numeric import Array, as_float
from symgrad.render import numbers
from symgrad.render.content.jacobian_matrix import MOST_COLUMNS, MOST_ROWS, block_sizes, symbols_of
from symgrad.render.content.speaker import size_text, structure_math
from symgrad.render.drawing import LEFT, PALETTE, WIDE, Drawing
from symgrad.render.numbers import count_noun
from symgrad.render.page import Formula

SIDE, HIGH, BASE = 46, 40, 25
"""The least width of a cell, its height, and where the text in it stands."""
NUMBER, LABEL = 14, 12
"""The size of what stands in a cell, and of what stands beside and above cells."""
LARGE, BINS = 480, 240
"""The longer side of a large matrix on the page, and the most rows and columns of its raster."""
SIGNS = {1: PALETTE[0], -1: PALETTE[1]}
"""The colours of positive and of negative numbers."""
BY_SIGN = "Blue: above 0. Red: below 0. No colour: 0, or no number, here."
"""What colours of signs mean."""
LONGEST = 9
"""Characters of an entry that a cell holds."""
MOST_TERMS = 8


@dataclass(frozen=True)
class Cell:
    """What stands in one cell: ``text`` in a picture, the ``symbol`` where all are short, the number, and the colour.

    Some have no colour.
    """

    text: str
    symbol: str
    number: str
    colour: str | None


def product_picture(explanation: Explanation, name: str | None = None) -> str:
    """v × J = vᵀJ for the input ``name``, the first one by default.

    Raises `UnknownNameError` where that is no input that a gradient was asked for.
    """
    gradients = explanation.gradients
    if name is not None and name not in gradients:
        raise UnknownNameError(
            f"there is no gradient with respect to {name}", found=(f"gradients: {', '.join(gradients)}",)
        )
    chosen = next(iter(gradients)) if name is None else name
    gradient, jacobian = gradients[chosen], gradients[chosen].jacobian
    out, given = explanation.program.output, explanation.program.seed
    drawing, title = Drawing(), f"{given} times the Jacobian is {chosen}.grad"
    heading = f"{given} weighs the rows of J, and the weighted rows add up to {chosen}.grad"
    shapes = ", ".join(f"{g.name} {size_text(g.value.shape)}" for g in explanation.inputs)
    below = f"{explanation.expression.strip()}, with {shapes}, {out} {size_text(explanation.output.shape)}"
    top = drawing.headed(heading, below) + 34
    rows, columns = jacobian.shape
    if not is_drawn_entrywise(jacobian):
        told = draw_density(drawing, jacobian, top)
        return drawing.finished(title, f"{told} {given} has {rows:,} weights, {chosen}.grad {columns:,} entries.")
    weights, shown = as_float(explanation.seed).reshape(-1), gradient.shown
    table = MatrixLayout.of(jacobian, weights, shown)
    top += label_room(jacobian)
    told = draw_matrix(drawing, jacobian, table, top, weights, given)
    told += draw_gradient(drawing, jacobian, table, explanation.seed, shown, top + 10)
    draw_legend(drawing, jacobian, table)
    values = ", ".join(map(numbers.signed, np.asarray(shown, dtype=object).reshape(-1)))
    return drawing.finished(title, f"{told} {chosen}.grad is {values}.")


def is_drawn_entrywise(jacobian: Jacobian) -> bool:
    """Whether J is drawn entry by entry."""
    rows, columns = jacobian.shape
    return 0 < rows <= MOST_ROWS and 0 < columns <= MOST_COLUMNS


def matrix_picture(jacobian: Jacobian) -> str:
    """J alone."""
    drawing = Drawing()
    top = drawing.headed(f"∂{jacobian.program.output}/∂{jacobian.name}") + 34 + label_room(jacobian)
    if is_drawn_entrywise(jacobian):
        table = MatrixLayout.of(jacobian)
        told = draw_matrix(drawing, jacobian, table, top)
        draw_legend(drawing, jacobian, table)
    else:
        told = draw_density(drawing, jacobian, top)
    return drawing.finished(f"the Jacobian of {jacobian.program.output} with respect to {jacobian.name}", told)


Cells = tuple[tuple[Cell | None, ...], ...]


def cells_of(jacobian: Jacobian) -> Cells:
    """The entries, in symbols where all of them are short and say no condition, else in numbers.

    None is an entry that is always 0, as far as that is known. What is 0 here, or no number, has no colour of a sign.
    """
    symbols, dense = symbols_of(jacobian), jacobian.shown()
    known = [cell for row in symbols or () for cell in row if cell is not None]
    short = all(cell.fits(LONGEST) for cell in known)
    plain = short and not any(cell.expression.has(Bracket) for cell in known)
    copies, digits = copied_from(symbols), numbers.digits_of(dense)
    colours = {entry: PALETTE[n % len(PALETTE)] for n, entry in enumerate(dict.fromkeys(c.expression for c in known))}

    def shown(value: Any, symbol: Formula | None) -> Cell | None:
        if symbol is None and value == 0:
            return None
        signed = value and value == value and not isinstance(value, Rounding)
        colour = SIGNS[1 if value > 0 else -1] if signed else None
        number = numbers.signed(value)
        if symbol is None:
            return Cell(numbers.brief(value, digits), "", number, colour)
        return Cell(
            symbol.text if plain else numbers.brief(value, digits), symbol.text if short else "", number,
            colours[symbol.expression] if copies else colour,
        )  # fmt: skip

    beside = symbols or tuple((None,) * dense.shape[1] for _ in dense)
    return tuple(tuple(map(shown, row, cells)) for row, cells in zip(dense, beside, strict=True))


Symbols = tuple[tuple[Formula | None, ...], ...]


def copied_from(symbols: Symbols | None) -> tuple[str, ...]:
    """The tensors whose entries J holds as they are, so that colours tell which; none where colours tell signs."""
    known = [cell.expression for row in symbols or () for cell in row if cell is not None]
    return tuple(dict.fromkeys(map(name_of, known))) if all(map(is_access, known)) else ()


def colour_legend(copies: tuple[str, ...]) -> str:
    """What the colours mean.

    >>> colour_legend(("a",))
    'Cells that hold the same entry of a have the same colour.'
    """
    return f"Cells that hold the same entry of {' or '.join(copies)} have the same colour." if copies else BY_SIGN


def label_room(jacobian: Jacobian) -> float:
    """What a name takes above the columns where it is too long to stand over each of them."""
    return 18 if is_drawn_entrywise(jacobian) and short_labels(jacobian) != jacobian.column_labels else 0


def short_labels(jacobian: Jacobian) -> tuple[str, ...]:
    """What stands over the columns: ``x[0,1]``, or ``[0,1]`` where the name is long."""
    labels = jacobian.column_labels
    if not jacobian.in_shape or max(map(len, labels)) <= LONGEST:
        return labels
    return tuple(label.removeprefix(jacobian.name) for label in labels)


@dataclass(frozen=True)
class MatrixLayout:
    """J on paper: its cells, what stands over its columns, where they begin, and how wide all of them are."""

    cells: Cells
    heads: tuple[str, ...]
    at: float
    side: float

    @classmethod
    def of(cls, jacobian: Jacobian, *beside: Any) -> MatrixLayout:
        """As wide as the longest text in one size; ``beside`` are the numbers of cells that stand around J."""
        cells, heads = cells_of(jacobian), short_labels(jacobian)
        texts = [cell.text for row in cells for cell in row if cell is not None]
        texts += [
            numbers.brief(value, numbers.digits_of(values))
            for values in beside
            for value in np.asarray(values, object).flat
        ]
        wide = max(NUMBER * max(map(len, texts), default=0), LABEL * max(map(len, heads), default=0))
        side, longest = max(SIDE, round(wide * WIDE) + 8), max(map(len, jacobian.row_labels), default=0)
        return cls(cells, heads, LEFT + side + 26 + 8 * longest + 14, side)

    def number(self, drawing: Drawing, x: float, y: float, text: str, bold: bool = False) -> None:
        """A cell with a number."""
        drawing.cell(x, y, self.side, HIGH)
        drawing.text(x + self.side / 2, y + BASE, text, size=NUMBER, anchor="middle", bold=bold)


def draw_matrix(
    drawing: Drawing,
    jacobian: Jacobian,
    table: MatrixLayout,
    top: float,
    weights: Array | None = None,
    given: str = "v",
) -> str:
    """The weights, the labelled matrix, and what somebody who hears it is told."""
    at, side, cells = table.at, table.side, table.cells
    if table.heads != jacobian.column_labels:
        drawing.text(at, top - 18, f"entries of {jacobian.name}", size=LABEL, kind="soft")
    for c, label in enumerate(table.heads):
        drawing.text(at + (c + 0.5) * side, top, label, size=LABEL, anchor="middle")
    if weights is not None:
        drawing.text(LEFT + side / 2, top, given, size=15, anchor="middle", bold=True)
    for r, (label, row) in enumerate(zip(jacobian.row_labels, cells, strict=True)):
        y = top + 10 + r * HIGH
        if weights is not None:
            table.number(drawing, LEFT, y, numbers.brief(weights[r], numbers.digits_of(weights)), bold=True)
            drawing.text(LEFT + side + 12, y + BASE, "×", anchor="middle", kind="soft")
        drawing.text(at - 10, y + BASE, label, size=LABEL, anchor="end")
        for c, cell in enumerate(row):
            x = at + c * side
            drawing.cell(x, y, side, HIGH, None if cell is None else cell.colour)
            text, kind = ("·", "soft") if cell is None else (cell.text, "ink code")
            drawing.text(x + side / 2, y + BASE, text, size=NUMBER, anchor="middle", kind=kind)
    draw_block_lines(drawing, jacobian, table, top + 10)
    filled, (rows, columns) = sum(cell is not None for row in cells for cell in row), jacobian.shape
    found = jacobian.structure.notation
    structure = f", {structure_math(found, jacobian.values.sizes).text}" if found else ""
    lead = "" if weights is None else f"{given} is {', '.join(map(numbers.signed, weights))}. "
    known = "can be nonzero" if jacobian.formula is not None else "are not 0 here"
    return f"{lead}J is {rows} by {columns}, {filled} of {rows * columns} entries {known}{structure}."


def draw_legend(drawing: Drawing, jacobian: Jacobian, table: MatrixLayout) -> None:
    """What the colours mean, below all, where there are any."""
    if any(cell is not None and cell.colour for row in table.cells for cell in row):
        legend = colour_legend(copied_from(symbols_of(jacobian)))
        drawing.lines(LEFT, drawing.height + 22, legend, size=LABEL, kind="soft")


def draw_block_lines(drawing: Drawing, jacobian: Jacobian, table: MatrixLayout, top: float) -> None:
    """Lines between the blocks, where J falls into blocks."""
    (rows, columns), (high, wide), at, side = jacobian.shape, block_sizes(jacobian), table.at, table.side
    for row in range(high, rows, high) if high else ():
        drawing.line(at - 6, top + row * HIGH, at + columns * side + 6, top + row * HIGH)
    for column in range(wide, columns, wide) if wide else ():
        drawing.line(at + column * side, top - 6, at + column * side, top + rows * HIGH + 6)


def lit_column(jacobian: Jacobian) -> int:
    """The column whose sum is written out: the first with the most terms."""
    return int(np.argmax(np.bincount(jacobian.clear[0].columns, minlength=jacobian.shape[1])))


def draw_gradient(
    drawing: Drawing, jacobian: Jacobian, table: MatrixLayout, seed: Array, gradient: Array, top: float
) -> str:
    """vᵀJ below the columns, the lit one with its sum, and the gradient in the shape of the input."""
    at, side, lit = table.at, table.side, lit_column(jacobian)
    rows, columns = jacobian.shape
    below, flat = top + rows * HIGH + 26, np.asarray(gradient, dtype=object).reshape(-1)
    digits = numbers.digits_of(flat)
    drawing.frame(at + lit * side - 1.5, top - 1.5, side + 3, rows * HIGH + 3)
    drawing.text(at - 10, below + BASE, "added up: vᵀJ" if rows > 1 else "vᵀJ", size=LABEL, anchor="end")
    for c in range(columns):
        table.number(drawing, at + c * side, below, numbers.brief(flat[c], digits), bold=True)
    drawing.frame(at + lit * side - 1.5, below - 1.5, side + 3, HIGH + 3)
    label = jacobian.column_labels[lit].replace(jacobian.name, f"{jacobian.name}.grad", 1)
    told = " = ".join(dict.fromkeys((label, sum_text(jacobian, seed, lit), numbers.signed(flat[lit]))))
    told = told.replace("= ≈", "≈ ")
    last = drawing.lines(LEFT, below + HIGH + 30, told, size=14, kind="ink code")
    if len(jacobian.in_shape) == 2:
        draw_in_shape(drawing, jacobian, table, flat, last + 44)
    return f" The lit column: {told}."


def sum_text(jacobian: Jacobian, seed: Array, column: int) -> str:
    """``1·1 + 2·1 + 3·1 + 4·1``."""
    entries = np.asarray(jacobian.shown(), dtype=object)[:, column]
    weights = np.asarray(seed, dtype=object).reshape(-1)
    terms = [f"{factor(w)}·{factor(e)}" for w, e in zip(weights, entries, strict=True) if e != 0]
    more = [f"… {len(terms) - MOST_TERMS} more"] if len(terms) > MOST_TERMS else []
    return " + ".join([*terms[:MOST_TERMS], *more]) or "0"


def factor(value: object) -> str:
    """A number in a product."""
    text = numbers.signed(value)
    return f"({text})" if text.startswith("−") or "/" in text else text


def draw_in_shape(drawing: Drawing, jacobian: Jacobian, table: MatrixLayout, flat: Array, top: float) -> None:
    """The gradient in the shape of its input."""
    (high, wide), digits = jacobian.in_shape, numbers.digits_of(flat)
    drawing.text(LEFT, top - 8, f"{jacobian.name}.grad, in the shape of {jacobian.name}:", size=LABEL, kind="soft")
    for place in range(high * wide):
        row, column = divmod(place, wide)
        table.number(drawing, table.at + column * table.side, top + row * HIGH, numbers.brief(flat[place], digits))


def draw_density(drawing: Drawing, jacobian: Jacobian, top: float) -> str:
    """Where the entries of a large matrix are that are not zero: the more in a place, the darker it is."""
    rows, columns = jacobian.shape
    if not rows * columns:
        told = f"J is {rows:,} by {columns:,}; it has no entry."
        drawing.text(LEFT, top, told, size=13)
        return told
    found, rounding = jacobian.clear
    count = found.values.size
    counts = binned(found.rows, found.columns, (rows, columns))
    alpha = (255 * (counts > 0) * (0.35 + 0.65 * counts / (counts.max() or 1))).astype(np.uint8)
    scale = LARGE / max(rows, columns)
    beside = count_noun(rows, "row")
    across, down, left = max(columns * scale, 24), max(rows * scale, 24), LEFT + 12 + 12 * WIDE * len(beside)
    drawing.image(left, top + 10, across, down, alpha, PALETTE[0])
    drawing.cell(left, top + 10, across, down)
    drawing.text(left, top, f"{count_noun(columns, 'column')}: the entries of {jacobian.name}", size=12)
    drawing.text(LEFT, top + 10 + down / 2, beside, size=12)
    share = "every entry" if count == rows * columns else f"{count:,} of {rows * columns:,} entries"
    said = f"{share} {'is' if share == 'every entry' else 'are'} not 0 here"
    if rounding.size:
        said += f", up to rounding: {rounding.size:,} more are at most {np.abs(rounding).max():.2g}, that is 0"
    told = f"J is {rows:,} by {columns:,}; {said}."
    drawing.text(LEFT, top + down + 40, told, size=13)
    if count:
        legend = f"Blue: not 0{', darker where there are more such entries' if max(rows, columns) > BINS else ''}."
        drawing.text(LEFT, top + down + 62, legend, size=LABEL, kind="soft")
    return told


def binned(rows: Array, columns: Array, shape: tuple[int, int]) -> Array:
    """Which share of each part of the raster the entries are; the parts of one raster differ by a row or a column."""
    high, wide = (max(min(size, BINS), 1) for size in shape)
    counts = np.zeros((high, wide))
    places = rows.astype(np.int64) * high // max(shape[0], 1), columns.astype(np.int64) * wide // max(shape[1], 1)
    np.add.at(counts, places, 1)
    sizes = [np.diff(-(-np.arange(m + 1) * n // m)) for n, m in zip(shape, (high, wide), strict=True)]
    return counts / np.maximum(np.outer(*sizes), 1)
