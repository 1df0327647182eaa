"""The product v × J = vᵀJ as a table that can be pointed at and edited.

Comes in: an explanation. Goes out: for each input what the template draws: cells with their symbol and colour, labels,
and the picture in its place where J is large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.explanation import Explanation, Gradient
from symgrad.numeric import Array, reads_positions
from symgrad.render import numbers
from symgrad.render.content.jacobian import block_size
from symgrad.render.content.words import structure_math
from symgrad.render.html.pieces import inline_picture
from symgrad.render.html.travel import MOST_ENTRIES, inputs_of
from symgrad.render.picture import (
    SIGNS,
    cells_of,
    lit_column,
    product_picture,
    short_labels,
    small,
    symbols_in,
    tells_signs,
)


@dataclass(frozen=True)
class Square:
    """One cell of J: its symbol where that is short, its number, and its colour; a zero everywhere has none."""

    symbol: str
    number: str
    colour: str


@dataclass(frozen=True, eq=False)
class Panel:
    """The product by one input; ``picture`` in the place of ``rows`` where they are many.

    ``heads`` is what stands over the columns: without the name of the input where that is long.
    Where J stands in numbers it is ``signed``, with the colours of positive and of negative ones: other inputs can
    make a zero of a number, and of a zero a number.
    """

    name: str
    notation: str
    shape: tuple[int, int]
    rows: tuple[tuple[str, tuple[Square | None, ...]], ...]
    columns: tuple[str, ...]
    heads: tuple[str, ...]
    row_block: int
    column_block: int
    lit: int
    picture: Any
    signed: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Sheet:
    """A tensor as tables of numbers, one for each of its matrices; entries by their place in row-major order."""

    name: str
    shape: tuple[int, ...]
    tables: tuple[tuple[str, tuple[tuple[tuple[int, str, str], ...], ...]], ...]

    @property
    def wide(self) -> int:
        """The characters of the longest number."""
        return max((len(value) for _, rows in self.tables for row in rows for _, _, value in row), default=0)


def panel(explanation: Explanation, gradient: Gradient) -> Panel:
    """The product by one input."""
    jacobian = gradient.jacobian
    (rows, columns), notation = jacobian.shape, jacobian.structure.notation
    notation = structure_math(notation, explanation.program.sizes).text if notation else ""
    if not small(jacobian):
        picture = inline_picture(product_picture(explanation, gradient.name), f"product-{gradient.name}")
        return Panel(gradient.name, notation, (rows, columns), (), (), (), 0, 0, 0, picture)
    blocked = jacobian.structure.kind in ("kronecker", "block-diagonal")
    row_block = block_size(jacobian.out_shape) if blocked else 0
    column_block = block_size(jacobian.in_shape) if blocked else 0
    found, dense, formula = cells_of(jacobian), jacobian.shown(), jacobian.formula
    signed = tells_signs(symbols_in(jacobian)) or formula is None or reads_positions(formula)
    squares = [
        tuple(
            None
            if cell is None
            else Square(symbol(cell.text, dense[r, c], signed), numbers.signed(dense[r, c]), cell.colour or "")
            for c, cell in enumerate(row)
        )
        for r, row in enumerate(found)
    ]
    return Panel(
        gradient.name, notation, (rows, columns), tuple(zip(jacobian.row_labels, squares, strict=True)),
        jacobian.column_labels, short_labels(jacobian), row_block, column_block, lit_column(jacobian), None,
        (SIGNS[1], SIGNS[-1]) if signed else None,
    )  # fmt: skip


def symbol(text: str, value: Any, signed: bool) -> str:
    """What stands above the number, where it says more."""
    return "" if signed or text == numbers.signed(value) else text


def sheets(explanation: Explanation) -> Iterator[Sheet]:
    """The inputs, as far as they can be edited."""
    yield from (sheet(g.name, g.value) for g in inputs_of(explanation) if g.value.size <= MOST_ENTRIES)


def sheet(name: str, array: Array) -> Sheet:
    """One tensor as tables."""
    values = np.asarray(array, dtype=object)
    if not values.size:
        return Sheet(name, values.shape, ())
    if values.ndim < 2:
        values = values.reshape(1, -1)
    places, flat = np.arange(values.size).reshape(values.shape), values.reshape(-1)
    shape = tuple(np.shape(array))
    tables = []
    for at in np.ndindex(*values.shape[:-2]):
        rows = tuple(
            tuple((n, label(name, n, shape), numbers.text(flat[n])) for n in row) for row in places[at].tolist()
        )
        tables.append((f"{name}[{','.join(map(str, at))}]" if at else "", rows))
    return Sheet(name, shape, tuple(tables))


def label(name: str, place: int, shape: tuple[int, ...]) -> str:
    """``x[0,1]``."""
    return f"{name}[{','.join(str(int(i)) for i in np.unravel_index(place, shape))}]" if shape else name
