"""Section 2: the Jacobian by each input, as a formula, as a structure, and entry by entry where it is small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from weakref import WeakKeyDictionary

import numpy as np
import sympy as sp

from symgrad.errors import InputError
from symgrad.explanation import Jacobian, Structure
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, is_access
from symgrad.indexing.symbols import number as size_in_numbers
from symgrad.render.arrange import reading
from symgrad.render.content.speaker import structure_math
from symgrad.render.content.teller import Teller, teller_of
from symgrad.render.letters import Names
from symgrad.render.page import (
    Block,
    EquationRow,
    Equations,
    Formula,
    Math,
    Matrix,
    Paragraph,
    Ready,
    entry_label,
    number_math,
    partial_derivative,
    tensor_label,
)
from symgrad.shapes import Size

MOST_ROWS, MOST_COLUMNS = 16, 12
"""The largest matrix that is written out."""
COUNTABLE = 4_000_000
"""Entries of the largest Jacobian whose nonzeros are counted."""
LONGEST = 600
"""Characters of the longest formula that anyone reads."""
LONGEST_CELL = 40
MOST_TERMS = 2_000
"""Terms of an entry beyond which it is not written out in symbols to see how long it is."""


def jacobian_blocks(teller: Teller, jacobian: Jacobian) -> Iterator[Block]:
    """Formula, size, structure, and the matrix itself."""
    say = teller.say
    name, reaches = jacobian.name, jacobian.name in teller.program.relevant
    if not reaches:
        yield say.paragraph(
            "For `{name}`: `out` does not depend on `{name}` at all. There is no path from one to the other, every "
            "derivative is 0, and torch leaves `{name}.grad` at `None`.",
            name=name,
        )
        return
    axes, inner, size = jacobian.axes, jacobian.inner, _count(jacobian)
    yield from jacobian_formula_blocks(teller, name, axes, inner, jacobian.formula, jacobian.structure, size)
    yield from _explicit(teller, jacobian)


def jacobian_formula_blocks(
    teller: Teller, name: str, axes: Sequence[Index], inner: Sequence[Index], expression: Expr | None,
    structure: Structure, size: str = "",
) -> Iterator[Block]:  # fmt: skip
    """∂out/∂x and its structure; of a formula that nobody would read the structure alone."""
    say = teller.say
    left, formula = jacobian_equation(teller, name, axes, inner, expression)
    if formula is None or not formula.fits(LONGEST):
        told = "For `{name}`: {size}the formula is too long to show. {says}"
        yield say.paragraph(told, name=name, size=size and f"{size}; ", says=sentence(structure))
        return
    if size:
        yield say.paragraph("For `{name}`:", name=name)
    yield Equations((EquationRow((left, formula), (size,) if size else ()),))
    yield from structure_words(structure, teller)
    yield from teller.aside(formula)


def jacobian_equation(
    teller: Teller, name: str, axes: Sequence[Index], inner: Sequence[Index], expression: Expr | None
) -> tuple[Ready, Formula | None]:
    """∂out[i,k]/∂x[p,q] and its formula, with folded tensors put in."""
    names = teller.names.entry(axes, teller.program.output).inner(inner)
    left = left_of(names, teller.program.output, name, axes, inner)
    return left, None if expression is None else Formula(teller.named(expression), names)


def structure_words(structure: Structure, teller: Teller) -> Iterator[Block]:
    """J = I₂ ⊗ aᵀ: one block aᵀ per row of x, zeros elsewhere."""
    say = teller.say
    if not structure.notation:
        if structure.says:
            yield Paragraph((sentence(structure),))
        return
    notation = structure_math(structure.notation, teller.sizes)
    words = say("{J} = {notation}: {says}", notation=notation, says=structure.says)
    if "⊗" in structure.notation and "⊗" not in teller.told:
        teller.told.add("⊗")
        tensor = say(
            " ({I} is the identity; ⊗ multiplies every entry of its left side by the whole right side)",
            I=structure_math("I", {}),
        )
        words = (*words, *tensor)
    yield Paragraph(words)


def sentence(structure: Structure) -> str:
    """What a structure says, as a sentence; nothing where nothing can be said."""
    return f"{structure.says[0].upper()}{structure.says[1:]}." if structure.says else ""


def countable(jacobian: Jacobian) -> bool:
    """Whether the nonzeros are counted at all."""
    rows, columns = jacobian.shape
    return rows * columns <= COUNTABLE


def left_of(names: Names, output: str, name: str, axes: Sequence[Index], inner: Sequence[Index]) -> Ready:
    """∂out[i,k]/∂x[p,q]."""
    return partial_derivative(
        tensor_label(output, [names.letter(i) for i in axes]), tensor_label(name, [names.letter(i) for i in inner])
    )


def _count(jacobian: Jacobian) -> str:
    """8×6, 24 of 48 entries can be nonzero."""
    rows, columns = jacobian.shape
    size = f"{rows}×{columns}"
    if not countable(jacobian):
        return size
    (where, found), total = jacobian.count, rows * columns
    if total == 1:
        return f"{size}, one entry"
    if where == "unknown" or (where == "at most" and found == total):
        return size
    if found == 0:
        return f"{size}, every entry is 0"
    many = f"all {total:,}" if found == total else f"{found:,} of {total:,}"
    words = {"here": f"{many} entries are not 0 here", "at most": f"at most {many} entries can be nonzero"}
    here = jacobian.clear[0].values
    moving = int(np.count_nonzero(here[np.isfinite(here)])) if found == total and where != "here" else found
    floats = " in floats" if moving < found and jacobian.hidden else ""
    less = f", {moving:,} {'is' if moving == 1 else 'are'} here{floats}" if moving < found else ""
    return f"{size}, {words.get(where, f'{many} entries can be nonzero')}{less}"


PLAN = " `symgrad plan` counts its zeros and the passes it takes."


def _explicit(teller: Teller, jacobian: Jacobian) -> Iterator[Block]:
    """The matrix in symbols and in numbers, or where to get it."""
    say = teller.say
    rows, columns = jacobian.shape
    if rows == 0 or columns == 0:
        return
    if rows > MOST_ROWS or columns > MOST_COLUMNS:
        if "too large" in teller.told:
            return  # said of the first such matrix
        teller.told.add("too large")
        yield say.paragraph(
            "The {rows}×{columns} matrix is too large to show here. In Python, `{where}.sparse()` gives its numbers, "
            "`.matrix()` its symbols." + (PLAN if teller.source else ""),
            rows=rows,
            columns=columns,
            where=f'.gradients["{jacobian.name}"].jacobian',
        )
        return
    dense = jacobian.shown()
    whole = jacobian.formula
    short = whole is not None and terms_written(whole, jacobian.values.sizes) <= MOST_TERMS
    symbols = symbols_of(jacobian, teller) if short else None
    possible = np.full(jacobian.shape, symbols is None)  # without entries in symbols nobody knows which are always 0
    if symbols is not None:
        possible = np.array([[cell is not None for cell in row] for row in symbols]).reshape(jacobian.shape)
        if all(cell is None or cell.fits(LONGEST_CELL) for row in symbols for cell in row):
            yield _matrix(jacobian, symbols, teller.names)
            if all(cell is None or cell.expression.is_number for row in symbols for cell in row):
                return
            if len(set(map(repr, dense[possible]))) == 1:
                only = dense[possible][0]
                floats = " in floats" if np.any(only == 0) and jacobian.hidden else ""
                yield say.paragraph(
                    f"In numbers: every entry written out above is {{n}} here{floats}.", n=number_math(only)
                )
                return
            if not possible.any():
                return
            some = "; some zeros are only due to rounding" if jacobian.hidden else ""
            yield Paragraph((f"In numbers{some}:",))
    cells = tuple(
        tuple(number_math(v) if possible[r, c] or v != 0 else None for c, v in enumerate(row))
        for r, row in enumerate(dense)
    )
    yield _matrix(jacobian, cells, teller.names)


def terms_written(node: Expr, sizes: Mapping[Size, int]) -> int:
    """How many terms one entry has when its sums are written out, one in another."""
    if isinstance(node, (sp.Sum, sp.Product)):
        return terms_written(node.function, sizes) * prod(
            size_in_numbers(limit[0].size, sizes) for limit in node.limits
        )
    return max(1, sum(terms_written(part, sizes) for part in node.args)) if not is_access(node) else 1


_numbered: WeakKeyDictionary[Jacobian, dict[tuple[object, ...], list[Expr]]] = WeakKeyDictionary()
"""The entries of a Jacobian at numbered places, row by row: the page and its picture ask for the same."""


def symbols_of(jacobian: Jacobian, teller: Teller | None = None) -> tuple[tuple[Formula | None, ...], ...] | None:
    """Every entry in symbols, None where it is 0 whatever the numbers.

    Nothing where there is no formula, or they divide by 0 here. Without a ``teller`` tensors have their own names.
    """
    if jacobian.formula is None:
        return None
    teller = teller or teller_of(jacobian.program)
    formula = teller.in_numbers(jacobian.formula)
    names = teller.names.entry(jacobian.axes, teller.program.output).inner(jacobian.inner)
    names = names.ordered(list(reading(formula, names)))
    made, key = _numbered.setdefault(jacobian, {}), (formula, *teller.folded.items())
    try:
        if key not in made:
            matrix = replace(jacobian, formula=formula).matrix() if formula != jacobian.formula else jacobian.matrix()
            made[key] = teller.numbered([(entry, {}) for entry in matrix.flat()], jacobian.values)
    except InputError:
        return None
    cells = [Formula(cell, names) if cell != 0 else None for cell in made[key]]
    return tuple(tuple(cells[r : r + jacobian.shape[1]]) for r in range(0, len(cells), jacobian.shape[1] or 1))


def _matrix(jacobian: Jacobian, cells: tuple[tuple[Math | None, ...], ...], names: Names) -> Matrix:
    """The matrix with its labels, and lines between the blocks where it falls into blocks."""
    rows = tuple(tensor_label(jacobian.program.output, [str(i) for i in at]) for at in np.ndindex(*jacobian.out_shape))
    columns = tuple(entry_label(jacobian.name, at, names) for at in np.ndindex(*jacobian.in_shape))
    return Matrix(rows, columns, cells, *block_sizes(jacobian))


def block_sizes(jacobian: Jacobian) -> tuple[int, int]:
    """After how many rows and columns lines stand, where J falls into blocks; 0 where no line is wanted."""
    if jacobian.structure.kind not in ("kronecker", "block-diagonal"):
        return 0, 0
    sizes = (prod(shape[1:]) if len(shape) > 1 else 0 for shape in (jacobian.out_shape, jacobian.in_shape))
    row, column = (size if size > 1 else 0 for size in sizes)
    return row, column
